"""The base class for rules, and the code that finds rules.

A rule is a single class in its own file. A page next to it (see `pages.py`) contains its documentation and examples.
The test suite runs every example under Dynamo. A rule receives events, which describe what the analysis found in a
region, and returns violations. When a fix is requested, the rule returns a rewrite or the reason why it offers none.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import walk_packages
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, get_origin

from dynalint.errors import DynalintError
from dynalint.findings import Category, Safety, Severity

if TYPE_CHECKING:
    from dynalint.analysis.events import Event
    from dynalint.analysis.index import FunctionInfo
    from dynalint.analysis.project import Project
    from dynalint.analysis.source import SourceFile
    from dynalint.rulebook.pages import Page


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule's answer to an event: the node to flag, and a declarative sentence with code in backticks.

    If `category`, `severity`, `gb`, `help` and `gives_up` are None or empty, the rule's own values are used. `torch` is
    the range of releases that this violation applies to, if it is narrower than the rule's range. If `within` is given,
    this is only a violation if another rule is certain of a graph break in one of these functions, on every path
    through it. If `stranded` is true, it is only a violation if Dynamo gives up on the function because of a break in a
    loop. `setting` names the `torch._dynamo.config` setting that lets Dynamo trace the code without changes, if there
    is one. `inside` means that Dynamo breaks in a wrapper that the node calls.
    """

    node: ast.expr | ast.stmt
    message: str
    help: str = ""
    category: Category | None = None
    severity: Severity | None = None
    gb: tuple[str, ...] = ()
    torch: str = ""
    within: tuple[FunctionInfo, ...] = ()
    stranded: bool = False
    setting: str = ""
    gives_up: bool | None = None
    inside: bool = False


@dataclass(frozen=True, slots=True)
class Replacement:
    """Replace the characters from offset `start` to `end` in the text of `file` with `content`."""

    file: SourceFile
    start: int
    end: int
    content: str


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A fix. `title` is an imperative sentence, and the `replacements` do not overlap.

    The levels of `safety` are: "safe" is exact for every input. "conditional" is exact if the named `conditions` are
    met, and verification must show this before the fix is applied. "unsafe" changes something by design, and its
    conditions say what. "suggestion" is never applied.

    `imports` are import statements that the new code needs at the top of the file, such as "import torch". They are not
    added if they already exist. `leaves` are the codes of findings from other rules that the new code may have, such as
    a branch on a former number that is now a tensor. The rewrite is only applied together with the rewrites of these
    findings. `ranks` means that the new code depends on how many dimensions the arguments have. If the arguments were
    guessed, all other numbers of dimensions that the original code accepts are tried, too. `otherwise` is a longer
    rewrite with fewer conditions, which is tried if running the code shows that this one is not correct.
    """

    title: str
    safety: Safety
    replacements: tuple[Replacement, ...]
    conditions: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    ranks: bool = False
    otherwise: Rewrite | None = None


@dataclass(frozen=True, slots=True)
class Declined:
    """A rule's answer if it offers no fix.

    `reason` is a sentence that explains why, and what the user can do instead.
    """

    reason: str


class Refusal(Exception):  # noqa: N818 -- not an error, but the answer that there is no rewrite
    """Raised when a rewrite is not possible. The message is a sentence that explains why, and what to do by hand."""


class Rule:
    """The base class of all rules.

    `code` and `name` identify the rule ("DYN101", "branch-on-tensor"), and `summary` is a single line. `gb` are
    Dynamo's ids for the breaks that the rule reports. `events` are the types of events that it receives. For `Call`,
    `Read` and `Write` events, `calls` are the dotted names that the rule watches, such as "builtins.print" or
    "Tensor.item". A trailing ".*" watches all names below. `torch` is the range of releases that the rule applies to,
    as a version specifier ("" for all supported releases). `gives_up` means that Dynamo does not resume after this
    break, so the rest of the function runs in eager mode. `reads_data` means that the code reads a tensor's value into
    Python. `help` is used for violations that do not have their own.

    A rule that only watches calls needs no code. It flags each event with `message`, where `{callee}` is replaced with
    the dotted name of the callee. Override `flags` to make exceptions. `refusal` is the reason why there is no rewrite,
    for rules that never have one.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    summary: ClassVar[str]
    category: ClassVar[Category] = "graph-break"
    severity: ClassVar[Severity] = "error"
    gb: ClassVar[tuple[str, ...]] = ()
    events: ClassVar[tuple[type[Event], ...]] = ()
    calls: ClassVar[frozenset[str]] = frozenset()
    torch: ClassVar[str] = ""
    gives_up: ClassVar[bool] = False
    reads_data: ClassVar[bool] = False
    message: ClassVar[str] = ""
    help: ClassVar[str] = ""
    refusal: ClassVar[str] = ""

    def check(self, event: Any, project: Project) -> Iterable[Violation]:
        """Yield the violations for `event`, which has one of the types in `events`.

        By default, there is a single violation if `flags` returns True.
        """
        if self.flags(event, project):
            callee = getattr(event, "callee", "").removeprefix("builtins.")
            yield Violation(event.node, self.message.format(callee=callee))

    def flags(self, event: Any, project: Project) -> bool:
        """Return whether to flag `event`.

        By default, this is True unless the event only happens on a path that raises.
        """
        from dynalint.analysis.exits import leads_to_raise

        return not leads_to_raise(event, project)

    def fix(self, event: Any, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Return the rewrite that removes `violation`, or why there is none, or None if the rule has no fixes.

        Raises:
            Refusal: If there is no rewrite. The message explains why.
        """
        return Declined(self.refusal) if self.refusal else None

    def offer(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Return the result of `fix`. A `Refusal` is converted to `Declined`."""
        try:
            return self.fix(event, violation, project)
        except Refusal as refusal:
            return Declined(str(refusal))

    @classmethod
    def page(cls) -> Page:
        """Return the rule's page, which is read on first use.

        Raises:
            PageError: If the page has an invalid format.
        """
        from dynalint.rulebook.pages import page_of

        return page_of(cls.__module__, f"{cls.code}: {cls.name}")


@dataclass(frozen=True, slots=True)
class Flag:
    """A violation, the rule that reported it, and the event that it is about.

    `proviso` is the end of a sentence that says when the graph break happens, or empty if it always happens.
    """

    rule: Rule
    event: Event
    violation: Violation
    proviso: str = ""

    @property
    def refused(self) -> bool:
        """Whether Dynamo never resumes after this graph break."""
        given = self.violation.gives_up
        return self.rule.gives_up if given is None else given

    @property
    def category(self) -> Category:
        """The category if the proviso is met."""
        return self.violation.category or self.rule.category


@cache
def all_rules() -> tuple[Rule, ...]:
    """Return an instance of every rule, sorted by code.

    Rules are subclasses of `Rule` that are defined in the packages and modules registered under the entry-point group
    `dynalint.rules`, so third parties can add their own.

    Raises:
        DynalintError: If a rule pack cannot be imported, or two rules have the same code or name.
    """
    names = {"dynalint_rules"} | {point.value for point in entry_points(group="dynalint.rules")}
    found: dict[type[Rule], None] = {}
    for name in sorted(names):
        for module in _modules(name):
            for value in vars(module).values():
                # Before Python 3.11, an alias such as `tuple[int, ...]` is accepted as a class.
                is_class = isinstance(value, type) and get_origin(value) is None
                if (
                    is_class
                    and issubclass(value, Rule)
                    and value.__module__ == module.__name__
                    and hasattr(value, "code")
                ):
                    found[value] = None
    rules = sorted((kind() for kind in found), key=lambda rule: rule.code)
    for label in ("code", "name"):
        seen: dict[str, Rule] = {}
        for rule in rules:
            other = seen.setdefault(getattr(rule, label), rule)
            if other is not rule:
                packs = f"{type(other).__module__} and {type(rule).__module__}"
                text = f"{packs} both have the {label} {getattr(rule, label)}: uninstall one of the rule packs"
                raise DynalintError(text)
    return tuple(rules)


def _modules(name: str) -> Iterator[ModuleType]:
    try:
        package = import_module(name)
        yield package
        for info in walk_packages(getattr(package, "__path__", ()), prefix=f"{name}."):
            yield import_module(info.name)
    except Exception as fault:
        raise DynalintError(f"cannot load the rules of {name}: {type(fault).__name__}: {fault}") from fault
