"""A rule's examples as cases to prove: their code without marks, and what the marks say."""

from __future__ import annotations

import io
import re
import textwrap
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version

from dynalint.rules import Example, Rule

_MARK = re.compile(r"#\s*((?:[A-Z]+\d{3,}\s*)+)$")


@dataclass(frozen=True)
class Case:
    """One example of one rule."""

    rule: Rule
    example: Example

    @property
    def name(self) -> str:
        """The identity of the case, as it stands in the names of tests."""
        return f"{self.rule.code}-{self.example.name}"

    @cached_property
    def code(self) -> str:
        """The code without marks."""
        return unmarked(self.example.code)[0]

    @cached_property
    def marks(self) -> Mapping[int, tuple[str, ...]]:
        """The codes that must be found, by line (from 1)."""
        return unmarked(self.example.code)[1]

    @cached_property
    def fixed(self) -> str | None:
        """The code after the fix, without marks; None where the example claims none."""
        return None if self.example.fixed is None else unmarked(self.example.fixed)[0]

    @property
    def flagged(self) -> bool:
        """Whether the rule itself must find something."""
        return any(self.rule.code in codes for codes in self.marks.values())

    @property
    def lines(self) -> list[int]:
        """The lines at which the rule itself must find something."""
        return sorted(line for line, codes in self.marks.items() if self.rule.code in codes)

    def line(self, number: int) -> str:
        """Return the code of a line, for messages."""
        lines = self.code.splitlines()
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""


def cases_of(rules: Iterable[Rule]) -> list[Case]:
    """Return all examples of `rules` that hold for the installed torch, or all of them where there is no torch."""
    return [
        Case(rule, example) for rule in rules for example in rule.page().examples if _holds(rule.torch, example.torch)
    ]


def unmarked(code: str) -> tuple[str, dict[int, tuple[str, ...]]]:
    """Return code less its common indentation, first line break and marks, and the marked codes by line."""
    text = textwrap.dedent(code).lstrip("\n")
    lines = text.splitlines(keepends=True)
    marks: dict[int, tuple[str, ...]] = {}
    for token in _comments(text):
        match = _MARK.match(token.string)
        if match:
            number, column = token.start
            line = lines[number - 1]
            ending = line[len(line.rstrip("\r\n")) :]
            lines[number - 1] = line[:column].rstrip() + ending
            marks[number] = tuple(match[1].split())
    return "".join(lines), marks


def _comments(text: str) -> Iterator[tokenize.TokenInfo]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token


def _holds(*specifiers: str) -> bool:
    wanted = [specifier for specifier in specifiers if specifier]
    if not wanted:
        return True
    try:
        installed = version("torch")
    except PackageNotFoundError:
        return True  # a case that is run then fails and says that torch is missing
    # pytest depends on packaging, and cases are run by pytest.
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

    return all(Version(Version(installed).base_version) in SpecifierSet(specifier) for specifier in wanted)
