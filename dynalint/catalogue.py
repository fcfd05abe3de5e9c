"""All codes: those of the rules, and the five codes for dynalint's own messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from inspect import cleandoc
from typing import Any

from dynalint.findings import Category, Severity
from dynalint.pages import Page
from dynalint.rules import DOCS_URL, Example, Rule, all_rules


@dataclass(frozen=True, slots=True)
class Entry:
    """The description of a code. `page` loads its page, which is only read on demand.

    `rewrites` says that a fix, or a reason for not offering one, can be requested.
    """

    code: str
    name: str
    summary: str
    category: Category
    severity: Severity
    page: Callable[[], Page]
    gb: tuple[str, ...] = ()
    torch: str = ""
    rewrites: bool = False

    @property
    def documentation(self) -> str:
        """The documentation of the code."""
        return self.page().documentation

    @property
    def examples(self) -> tuple[Example, ...]:
        """The examples that test the rule."""
        return self.page().examples

    @property
    def fix(self) -> bool:
        """Whether findings may have a fix; False if the fix of every example is declined."""
        return self.rewrites and (not self.examples or any(one.fixed is not None for one in self.examples))

    @property
    def url(self) -> str:
        """The URL of the documentation."""
        return f"{DOCS_URL}{self.code}.md"

    def to_json(self) -> dict[str, Any]:
        """Return the description as a JSON-compatible value."""
        return {
            "code": self.code,
            "name": self.name,
            "summary": self.summary,
            "category": self.category,
            "severity": self.severity,
            "gb": list(self.gb),
            "torch": self.torch,
            "fix": self.fix,
            "url": self.url,
            "documentation": self.documentation,
            "examples": [
                {"name": example.name, "code": example.code, "fixed": example.fixed, "declined": example.declined}
                for example in self.examples
            ],
        }


def _said(text: str) -> Callable[[], Page]:
    return lambda: Page(cleandoc(text))


_OWN = (
    Entry(
        "DYN001",
        "graph-break",
        "A graph break that no rule predicted",
        "graph-break",
        "error",
        _said("""
            Dynamo broke the graph here when the code was run, and no rule saw it coming: the cause lies in a library
            that the code calls, or in something that reading the source does not tell. The finding stands at the
            innermost line of your own code and carries Dynamo's id, explanation and hints.

            It appears only where findings are confirmed, so `--static` never reports it.
        """),
    ),
    Entry(
        "DYN002",
        "recompile",
        "A recompilation that no rule predicted",
        "recompile",
        "error",
        _said("""
            Dynamo compiled this function again on a later call, and no rule saw it coming. The finding names the guard
            that failed, so it tells which value changed between the calls.

            It appears only where findings are confirmed, so `--static` never reports it.
        """),
    ),
    Entry(
        "DYN012",
        "miscompile",
        "A difference between compiled and eager code that no rule predicted",
        "miscompile",
        "error",
        _said("""
            Compiled, this code computes something else than it does uncompiled, or raises where it does not, and no
            rule saw it coming. Values, gradients, state and inputs were compared over three calls with `aot_eager`, in
            training and in evaluation. The finding stands at the innermost module of yours that shows the difference
            when it alone is compiled: at the line that first names the state which differs, else at its definition.

            Not reported are differences by rounding, and code that differs as much from itself: with other random
            numbers, or with inputs and parameters changed in the last digits.

            It appears only where findings are confirmed, so `--static` never reports it.
        """),
    ),
    Entry(
        "DYN901",
        "syntax-error",
        "A file that Python cannot parse",
        "error",
        "error",
        _said("""
            The file is not Python source: it does not parse, cannot be decoded, or is binary. It is not checked; all
            others are. The interpreter that runs dynalint decides what is valid syntax.

            It is reported whatever is selected, unless it is ignored by name.
        """),
    ),
    Entry(
        "DYN902",
        "unused-suppression",
        "A comment that silences nothing",
        "advice",
        "warning",
        _said("""
            A `# dynalint: ignore[...]` or `# dynalint: ignore-file[...]` comment silences no finding, names a code that
            does not exist, or names none. Comments like that hide the next real finding. Only codes of rules that ran
            on the file are judged, so what a run did not select or could not show is not called unused.

            The fix removes the codes that silence nothing, and the comment if none is left.
        """),
        rewrites=True,
    ),
)


@cache
def catalogue() -> dict[str, Entry]:
    """Return the descriptions of all codes, in order.

    Raises:
        DynalintError: a rule pack cannot be imported.
    """
    entries = [*_OWN, *(_entry(rule) for rule in all_rules())]
    found = {entry.code: entry for entry in sorted(entries, key=lambda entry: entry.code)}
    assert len(found) == len(entries), "two entries have one code"
    return found


def known_codes() -> frozenset[str]:
    """Return all codes."""
    return frozenset(catalogue())


def _entry(rule: Rule) -> Entry:
    return Entry(
        code=rule.code,
        name=rule.name,
        summary=rule.summary,
        category=rule.category,
        severity=rule.severity,
        page=rule.page,
        gb=rule.gb,
        torch=rule.torch,
        rewrites=type(rule).fix is not Rule.fix,
    )
