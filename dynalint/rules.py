"""The base class of rules, and how rules are found.

A rule is one class in one file, with a page next to it (`pages.py`) that contains its documentation and its examples.
The test suite runs every example under Dynamo. A rule receives events, which describe what happens in a region
according to the analysis, and returns violations. When asked for a fix, it returns a rewrite or the reason for
declining.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import walk_packages
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_origin

from dynalint.errors import DynalintError
from dynalint.findings import Category, Safety, Severity

if TYPE_CHECKING:
    from dynalint.analysis.events import Event
    from dynalint.analysis.index import FunctionInfo
    from dynalint.analysis.project import Project
    from dynalint.analysis.source import SourceFile
    from dynalint.pages import Page

Shows = Literal["graph-break", "recompile", "recompile-once", "miscompile", "clean"]
"""What running an example must show."""


@dataclass(frozen=True, slots=True)
class Example:
    """An example that tests a rule, with everything needed to run it.

    `code` is a complete module, including imports. Lines that must be flagged end in a comment `# DYNxxx` (several
    codes are separated by spaces); similar lines that must not be flagged have none. `target` is an expression in the
    module's namespace for the callable, which is evaluated again for each run. `inputs` is an expression (with `torch`
    and the module's names in scope) for a list of argument tuples, one per call, which together execute every branch.

    `fixed` is the exact module after the fix; `declined` is part of the reason for declining. `shows` says what a run
    must show; the default is the rule's category for flagged code and "clean" otherwise. "recompile-once" is a
    recompilation on a later call, after which the code is stable. `gb` are the ids that a break may have, by default
    those of the rule. `exact` is False for a rewrite that is only equal up to rounding. `options` are settings that the
    example needs, such as `{"print-fix": "remove"}`. `torch` and `python` are the ranges of releases to which the
    example applies.
    """

    name: str
    code: str
    target: str = "Model()"
    inputs: str = "[(torch.randn(4, 8),), (-torch.ones(4, 8),), (torch.ones(4, 8),)]"
    fixed: str | None = None
    declined: str | None = None
    shows: Shows | None = None
    gb: tuple[str, ...] = ()
    exact: bool = True
    options: dict[str, object] = field(default_factory=dict)
    torch: str = ""
    python: str = ""


@dataclass(frozen=True, slots=True)
class Violation:
    """The answer of a rule to an event: the node to flag, and a declarative sentence with code in backticks.

    `category`, `severity`, `gb`, `help` and `gives_up` default to those of the rule if they are None or empty. `torch`
    is the range of releases to which this violation applies, if it is narrower than the rule's. With `within`, it is a
    violation only if another rule is certain of a graph break in one of these functions, on every path through it; with
    `stranded`, only if Dynamo gives up on the function because of a break in a loop. `setting` names the
    `torch._dynamo.config` setting, if any, under which Dynamo traces the code unchanged.
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


@dataclass(frozen=True, slots=True)
class Replacement:
    """Replace the characters from offset `start` to `end` in the text of `file` by `content`."""

    file: SourceFile
    start: int
    end: int
    content: str


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A fix. `title` is an imperative sentence, and the `replacements` do not overlap.

    The levels of `safety`: "safe" is exact for every input. "conditional" is exact if the named `conditions` are met,
    which verification must show before the fix is applied. "unsafe" changes something by design; its conditions say
    what. "suggestion" is never applied. `imports` are import statements that the new code needs at the top of the file,
    such as "import torch"; existing ones are not added again. `leaves` are the codes of other rules' findings that the
    new code may have, such as a branch on a former number that is now a tensor: the rewrite is applied together with
    theirs or not at all. `own_calls` says that the conditions are about the arguments that callers pass, such as their
    number of dimensions: inputs that dynalint has guessed do not show that they are met, only calls in the project's
    own tests, documentation and examples do.
    """

    title: str
    safety: Safety
    replacements: tuple[Replacement, ...]
    conditions: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    own_calls: bool = False


@dataclass(frozen=True, slots=True)
class Declined:
    """The answer that no fix is offered. `reason` is one sentence with the reason and what the user can do instead."""

    reason: str


class Refusal(Exception):  # noqa: N818 -- not an error, but the answer that there is no rewrite
    """A rewrite is not possible. The text is a sentence that says why, and what to do by hand."""


class Rule:
    """The base class of all rules.

    `code` and `name` identify the rule ("DYN101", "branch-on-tensor"); `summary` is one line. `gb` are Dynamo's ids of
    the breaks that it reports. `events` are the types of events that it receives. For `Call`, `Read` and `Write`
    events, `calls` are the dotted names it watches ("builtins.print", "Tensor.item"; a trailing ".*" watches all names
    below). `torch` is the range of releases to which the rule applies, as a version specifier ("" for all supported
    releases). `gives_up` says that Dynamo does not resume after such a break, so that the rest of the function runs in
    eager; `reads_data` says that the value of a tensor is read into Python. `help` is used for violations without their
    own.

    A rule that only watches calls needs no code: it flags each event with `message`, in which `{callee}` is the dotted
    name of the callee. `flags` can make exceptions. `refusal` is the reason why there is no rewrite, for rules that
    never have one.
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

        By default, there is one if `flags` returns True.
        """
        if self.flags(event, project):
            callee = getattr(event, "callee", "").removeprefix("builtins.")
            yield Violation(event.node, self.message.format(callee=callee))

    def flags(self, event: Any, project: Project) -> bool:
        """Return whether to flag `event`. The default is True unless it only happens on a path that raises."""
        from dynalint.analysis.exits import leads_to_raise

        return not leads_to_raise(event, project)

    def fix(self, event: Any, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Return the rewrite that removes `violation`, the reason for declining, or None if the rule has no fix.

        Raises:
            Refusal: there is no rewrite, for the given reason.
        """
        return Declined(self.refusal) if self.refusal else None

    def offer(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Return the result of `fix`, with a refusal converted to the reason for declining."""
        try:
            return self.fix(event, violation, project)
        except Refusal as refusal:
            return Declined(str(refusal))

    @classmethod
    def page(cls) -> Page:
        """Return the rule's page, which is read on first use.

        Raises:
            PageError: the page has an invalid format.
        """
        from dynalint.pages import page_of

        return page_of(cls)  # type: ignore[arg-type] # mypy mistakes the hash of an instance for that of the class


@dataclass(frozen=True, slots=True)
class Flag:
    """A violation, with the rule that reported it and the event that it is about.

    `proviso` is the end of a sentence with the condition for a graph break on each run; empty if it is certain.
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
    """Return one instance of every rule, sorted by code.

    Rules are the subclasses of `Rule` defined in the packages and modules registered under the entry-point group
    `dynalint.rules`, so that third parties can add their own.

    Raises:
        DynalintError: a rule pack cannot be imported, or two rules have the same code or name.
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
