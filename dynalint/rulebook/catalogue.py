"""All codes: the rules' codes, and the five codes that dynalint itself reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynalint.caching.folders import Records
from dynalint.caching.stamp import stamp
from dynalint.findings import Category, Severity

if TYPE_CHECKING:
    from dynalint.rulebook.pages import Example, Page
    from dynalint.rules import Rule

DOCS_URL = "https://github.com/dynalint/dynalint/blob/main/docs/rules/"


@dataclass(frozen=True, slots=True)
class CodeEntry:
    """The description of a code. `page` loads its page on demand.

    If `rewrites` is true, callers can ask for a fix, or for the reason why there is none. `fixes` indicates whether
    findings may have a fix, or is None if only the page can tell.
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
    fixes: bool | None = None

    @property
    def documentation(self) -> str:
        """The code's documentation."""
        return self.page().documentation

    @property
    def examples(self) -> tuple[Example, ...]:
        """The examples that test the rule."""
        return self.page().examples

    @property
    def fix(self) -> bool:
        """Whether findings may have a fix. This is false if every example declines its fix."""
        if self.fixes is not None:
            return self.fixes
        return self.rewrites and (not self.examples or any(one.fixed is not None for one in self.examples))

    @property
    def url(self) -> str:
        """The URL of the documentation."""
        return f"{DOCS_URL}{self.code}.md"

    def to_json(self) -> dict[str, Any]:
        """Return the description as a value that can be converted to JSON."""
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


def _page(code: str) -> Callable[[], Page]:
    def page() -> Page:
        from dynalint.rulebook.pages import Page

        file = files("dynalint").joinpath("data").joinpath("codes").joinpath(f"{code}.md")
        return Page(file.read_text(encoding="utf-8").rstrip("\n"))

    return page


_OWN = (
    CodeEntry("DYN001", "graph-break", "A graph break that no rule predicted", "graph-break", "error", _page("DYN001")),
    CodeEntry("DYN002", "recompile", "A recompilation that no rule predicted", "recompile", "error", _page("DYN002")),
    CodeEntry(
        "DYN012",
        "miscompile",
        "A difference between compiled and eager code that no rule predicted",
        "miscompile",
        "error",
        _page("DYN012"),
    ),
    CodeEntry("DYN901", "syntax-error", "A file that Python cannot parse", "error", "error", _page("DYN901")),
    CodeEntry(
        "DYN902",
        "unused-suppression",
        "A comment that silences nothing",
        "advice",
        "warning",
        _page("DYN902"),
        rewrites=True,
    ),
)


@cache
def catalogue() -> dict[str, CodeEntry]:
    """Return the descriptions of all codes, sorted by code.

    Raises:
        DynalintError: If a rule pack cannot be imported.
    """
    from dynalint.rules import all_rules

    entries = [*_OWN, *(_entry(rule) for rule in all_rules())]
    found = {entry.code: entry for entry in sorted(entries, key=lambda entry: entry.code)}
    assert len(found) == len(entries), "two entries have the same code"
    return found


def known_codes() -> frozenset[str]:
    """Return all codes."""
    return frozenset(catalogue())


class KeptCatalogue(Mapping[str, CodeEntry]):
    """The same as `catalogue`, but read from a folder if it is stored there, because loading the rules takes longer.

    If `folder` is None, nothing is read or stored.
    """

    def __init__(self, folder: Path | None) -> None:
        self._records = Records(None if folder is None else folder / "rules", _MOST, _MOST_BYTES)

    def __getitem__(self, code: str) -> CodeEntry:
        return self._entries[code]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    @cached_property
    def _entries(self) -> dict[str, CodeEntry]:
        return catalogue() if self._held is None else self._held

    @cached_property
    def _held(self) -> dict[str, CodeEntry] | None:
        key = stamp()
        try:
            return None if key is None else {one["code"]: _kept(one) for one in self._records.get(key)}
        except (KeyError, TypeError):  # There is no record, or dynalint did not write it.
            return None

    def keep(self) -> None:
        """Store the descriptions, unless they were read from the folder."""
        key = stamp()
        if key is not None and self._held is None:
            self._records.put(key, [_plain(entry) for entry in self.values()])


_MOST, _MOST_BYTES = 4, 4 << 20
_KEPT = ("code", "name", "summary", "category", "severity", "gb", "torch", "rewrites")


def _plain(entry: CodeEntry) -> dict[str, Any]:
    return {**{name: getattr(entry, name) for name in _KEPT}, "fixes": entry.fix}


def _kept(values: Mapping[str, Any]) -> CodeEntry:
    def page() -> Page:
        return catalogue()[values["code"]].page()

    return CodeEntry(**{**values, "gb": tuple(values["gb"])}, page=page)


def _entry(rule: Rule) -> CodeEntry:
    from dynalint.rules import Rule

    rewrites = type(rule).fix is not Rule.fix
    return CodeEntry(
        code=rule.code,
        name=rule.name,
        summary=rule.summary,
        category=rule.category,
        severity=rule.severity,
        page=rule.page,
        gb=rule.gb,
        torch=rule.torch,
        rewrites=rewrites,
    )
