"""The rule API: what a rule file declares, and how the rules are found.

A rule is one class in one file, with a page beside it (`pages.py`) that holds its documentation and its examples, which
are its proof: the test suite runs every one of them under Dynamo. A rule sees events (what the analysis knows happens
in a region) and answers with violations; asked for a fix, it answers with a rewrite or the reason why there is none.
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

DOCS_URL = "https://github.com/dynalint/dynalint/blob/main/docs/rules/"

Shows = Literal["graph-break", "recompile", "recompile-once", "miscompile", "clean"]
"""What a run of an example may show."""


@dataclass(frozen=True, slots=True)
class Example:
    """Code that proves a rule, with what is needed to run it.

    `code` is a whole module, imports included. Lines that must be flagged end in a comment `# DYNxxx` (several codes
    separated by spaces); a look-alike that must stay silent has none. `target` is an expression in the module's
    namespace that gives the callable, built anew for each run; `inputs` an expression (with `torch` and the module's
    names in scope) that gives a list of argument tuples, one call each, which together drive every branch.

    `fixed` is the module after the fix, exactly; `declined` a part of the sentence that refuses one. `shows` says what
    a run must show: by default what the rule's category says for flagged code and "clean" for silent code;
    "recompile-once" is a recompilation on a later call after which the code settles. `gb` are
    the ids that a break may carry, by default those of the rule. `exact` is False for a rewrite that is equal only up
    to rounding. `options` are settings that the example needs, such as `{"print-fix": "remove"}`. `torch` is the range
    of releases that the example holds for.
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


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule's answer to an event: the node to flag and a declarative sentence with code in backticks.

    `category`, `severity`, `gb` and `help` stand for those of the rule where they are None or empty. `torch` is the
    range of releases that this very case holds for, where that is narrower than the rule's. With `within` it is one
    only if another rule is certain of a graph break in one of these functions, on every way through it; with `stranded`
    only if Dynamo gives up the function that it stands in for a break in a loop. `setting` names the switch of
    `torch._dynamo.config` under which Dynamo traces this very code, if there is one: the break is gone, the source as
    it was.
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


@dataclass(frozen=True, slots=True)
class Replacement:
    """Replace the characters from offset `start` up to `end` of the text of `file` by `content`."""

    file: SourceFile
    start: int
    end: int
    content: str


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A fix: `title` is an imperative sentence, `replacements` do not overlap.

    `safety` as in the contract: "safe" is exact for every input, "conditional" is exact if the named `conditions` hold
    (which verification must show before it is applied), "unsafe" changes something by nature and its conditions say
    what, "suggestion" is never applied. `imports` are import statements the new code needs at the top of the file,
    such as "import torch"; ones that are there already are not added again. `leaves` are the codes of other rules'
    findings that the new code may have, such as the branch that a number decided which is a tensor now: it is applied
    together with their rewrites or not at all. `shown` tells of an unsafe rewrite that running must show its
    conditions: it is not applied where nothing is run, nor where more differs than rounding.
    """

    title: str
    safety: Safety
    replacements: tuple[Replacement, ...]
    conditions: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    shown: bool = False


@dataclass(frozen=True, slots=True)
class Declined:
    """No fix is offered: one sentence with the reason and the nearest thing that a person can do by hand."""

    reason: str


class Refusal(Exception):  # noqa: N818 -- no error: the answer that there is no rewrite
    """A rewrite is not possible; the text is the sentence that says why and what to do by hand."""


class Rule:
    """Base of all rules.

    `code` and `name` identify it ("DYN101", "branch-on-tensor"); `summary` is one line. `gb` are Dynamo's ids for the
    breaks it stands for. `events` are the types of events it wants; for `Call`, `Read` and `Write` events, `calls` are
    the dotted names it watches ("builtins.print", "Tensor.item"; a trailing ".*" watches all names below). `torch` is
    the range of releases the rule holds for, as a version specifier ("" for all that dynalint supports). `gives_up`
    says that Dynamo does not resume after such a break, and leaves the rest of the function to Python. `help` is that
    of violations that bring none of their own.

    A rule that only watches needs no code of its own: it flags what it sees by `message`, where `{callee}` is the
    dotted name of what is called, and `flags` may make exceptions. `refusal` says why there is no rewrite, in a rule
    that has none for anything.
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
    message: ClassVar[str] = ""
    help: ClassVar[str] = ""
    refusal: ClassVar[str] = ""

    def check(self, event: Any, project: Project) -> Iterable[Violation]:
        """Yield what is wrong with `event`, which is of one of the types in `events`.

        As it stands here, what `flags` says is.
        """
        if self.flags(event, project):
            callee = getattr(event, "callee", "").removeprefix("builtins.")
            yield Violation(event.node, self.message.format(callee=callee))

    def flags(self, event: Any, project: Project) -> bool:
        """Whether `event` is to be flagged: here, unless it only comes to pass on the way to an exception."""
        from dynalint.analysis.exits import leads_to_raise

        return not leads_to_raise(event, project)

    def fix(self, event: Any, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Return the rewrite that removes `violation`, why there is none, or None where a rule has no fix at all.

        Raises:
            Refusal: there is none, for the reason that it gives.
        """
        return Declined(self.refusal) if self.refusal else None

    def offer(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Return what `fix` does, a refusal as the reason why there is no rewrite."""
        try:
            return self.fix(event, violation, project)
        except Refusal as refusal:
            return Declined(str(refusal))

    @classmethod
    def page(cls) -> Page:
        """Return the rule's page, which is read when it is first asked for.

        Raises:
            PageError: it is not written as pages are.
        """
        from dynalint.pages import page_of

        return page_of(cls)  # type: ignore[arg-type] # mypy takes the hash of an instance for that of the class


@cache
def all_rules() -> tuple[Rule, ...]:
    """Return one instance of every rule, by code.

    Rules are the subclasses of `Rule` defined in the packages and modules that the entry-point group `dynalint.rules`
    names, so that others can bring their own.

    Raises:
        DynalintError: a rule pack cannot be imported, or two rules carry the same code or name.
    """
    names = {"dynalint_rules"} | {point.value for point in entry_points(group="dynalint.rules")}
    found: dict[type[Rule], None] = {}
    for name in sorted(names):
        for module in _modules(name):
            for value in vars(module).values():
                # Until Python 3.11 an alias such as `tuple[int, ...]` passes for a class.
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
                text = f"{packs} both carry the {label} {getattr(rule, label)}: uninstall one of the rule packs"
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
