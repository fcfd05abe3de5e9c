"""A rule's examples as test cases: their code without markers, and the findings that the markers expect."""

from __future__ import annotations

import io
import re
import sys
import textwrap
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version

from dynalint.rulebook.pages import Example
from dynalint.rulebook.releases import holds, release_of
from dynalint.rules import Rule

_MARK = re.compile(r"#\s*((?:[A-Z]+\d{3,}\s*)+)$")


@dataclass(frozen=True)
class Case:
    """A rule's example as a test case."""

    rule: Rule
    example: Example

    @property
    def name(self) -> str:
        """The case's name, as used in test ids."""
        return f"{self.rule.code}-{self.example.name}"

    @cached_property
    def code(self) -> str:
        """The code without markers."""
        return unmarked(self.example.code)[0]

    @cached_property
    def marks(self) -> Mapping[int, tuple[str, ...]]:
        """The codes expected on each line, by 1-based line number."""
        return unmarked(self.example.code)[1]

    @cached_property
    def fixed(self) -> str | None:
        """The expected code after the fix, without markers, or None if the example does not declare a fix."""
        return None if self.example.fixed is None else unmarked(self.example.fixed)[0]

    @property
    def applies(self) -> bool:
        """Whether the case applies to the current Python version and the installed torch, if any."""
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        return holds(self.example.python, python) and _holds(self.rule.torch, self.example.torch)

    @property
    def flagged(self) -> bool:
        """Whether the case's own rule must report a finding."""
        return any(self.rule.code in codes for codes in self.marks.values())

    @property
    def lines(self) -> list[int]:
        """The lines where the case's own rule must report a finding."""
        return sorted(line for line, codes in self.marks.items() if self.rule.code in codes)

    def line(self, number: int) -> str:
        """Return the code on a line, for use in messages."""
        lines = self.code.splitlines()
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""


def cases_of(rules: Iterable[Rule]) -> list[Case]:
    """Return the examples of `rules` that apply to the current Python version and the installed torch, if any."""
    cases = (Case(rule, example) for rule in rules for example in rule.page().examples)
    return [case for case in cases if case.applies]


def unmarked(code: str) -> tuple[str, dict[int, tuple[str, ...]]]:
    """Return `code`, dedented and without markers or leading line breaks, and the expected codes by line."""
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


@cache
def installed_torch() -> str | None:
    """Return the installed torch release, such as "2.13.0", or None if torch is not installed."""
    try:
        return release_of(version("torch"))
    except PackageNotFoundError:
        return None


def _holds(*specifiers: str) -> bool:
    installed = installed_torch()
    # Without torch, a case that has to be run fails with a message that torch is missing.
    return installed is None or all(holds(specifier, installed) for specifier in specifiers)
