"""The work that one file may cost, counted in steps and not in seconds: a report is the same on every machine.

Whoever writes a file decides how it nests and repeats, so somewhere a few lines can always be made to cost minutes. A
file has two budgets: one for its analysis, where a step is an expression that is evaluated or a node that a rule looks
at, and one for the computing of its rewrites. Files as people write them stay far below (`benchmarks/steps.py`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pathlib import Path

    from dynalint.analysis.index import FunctionInfo
    from dynalint.analysis.source import SourceFile

T = TypeVar("T")

MOST_STEPS = 6_000_000
"""How many steps the analysis of one file may take."""

MOST_REWRITE_STEPS = 10_000_000
"""How many steps the rewrites for all findings in one file may take together."""


class Exhausted(Exception):  # noqa: N818 - no error: the answer that there will be none
    """A budget is used up: what is under way is given up."""


class Budget:
    """Steps of one kind for one file: at most `most` of them, of which `spent` are taken.

    `known` is what need not be worked out again in the same work; see `remembered`. `cuts` are sentences about what was
    not followed to the end.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.spent = 0
        self.known: dict[object, Any] = {}
        self.cuts: dict[str, None] = {}
        self._walked: dict[ast.AST, tuple[ast.AST, ...]] = {}

    @property
    def exhausted(self) -> bool:
        """Whether no step is left."""
        return self.spent > self.most

    def check(self) -> None:
        """Give up what is under way if no step is left.

        Raises:
            Exhausted: none is.
        """
        if self.spent > self.most:
            raise Exhausted

    def walk(self, node: ast.AST) -> tuple[ast.AST, ...]:
        """Return a node and all below it, each of which is a step.

        Raises:
            Exhausted: no step is left.
        """
        self.check()
        nodes = self._walked.get(node)
        if nodes is None:
            nodes = tuple(ast.walk(node))
            # Statements are walked over and over, and are never put together anew as expressions are.
            if isinstance(node, ast.stmt | ast.mod):
                self._walked[node] = nodes
        self.spent += len(nodes)
        return nodes

    @contextmanager
    def spending(self) -> Iterator[None]:
        """Have what is walked meanwhile count."""
        token = _SPENT.set(self)
        try:
            yield
        finally:
            _SPENT.reset(token)


class Budgets:
    """The budgets of all files for one kind of work. `left_out` are the functions that it did not get through."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.left_out: dict[SourceFile, dict[FunctionInfo, None]] = {}
        self._known: dict[SourceFile, Budget] = {}

    def of(self, file: SourceFile) -> Budget:
        """Return the budget of a file."""
        known = self._known.get(file)
        if known is None:
            known = self._known[file] = Budget(self.most)
        return known

    def failures(self, among: Collection[Path], shown: Callable[[Path], str]) -> Iterator[str]:
        """Yield sentences about the files that did not get through; `shown` tells how a path is written."""
        for file, functions in self.left_out.items():
            if file.path not in among:
                continue
            many = f"{len(functions)} function{' was' if len(functions) == 1 else 's were'}"
            yield (
                f"{shown(file.path)}: the analysis stopped after {self.most} steps, and {many} not looked at; "
                "split the file, or exclude it"
            )
        for file, budget in self._known.items():
            for text in budget.cuts if file.path in among else ():
                yield f"{shown(file.path)}: {text}"

    def leave_out(self, function: FunctionInfo) -> None:
        """Take note that a function was not got through, as the budget of its file is used up."""
        self.left_out.setdefault(function.file, {})[function] = None


_SPENT: ContextVar[Budget | None] = ContextVar("budget", default=None)


def spent_now() -> Budget | None:
    """Return the budget at whose expense rules work at the moment, if they do."""
    return _SPENT.get()


def note_cut(text: str) -> None:
    """Take note that something in the file that is worked on is not followed to the end; `text` says what."""
    budget = _SPENT.get()
    if budget is not None:
        budget.cuts[text] = None


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all below it, as `ast.walk` does, at the expense of the file that is worked on.

    Raises:
        Exhausted: its budget is used up.
    """
    budget = _SPENT.get()
    return ast.walk(node) if budget is None else iter(budget.walk(node))


def remembered(key: object, compute: Callable[[], T]) -> T:
    """Return what `compute` returned for this key before in the work on the same file, or now."""
    budget = _SPENT.get()
    if budget is None:
        return compute()
    if key not in budget.known:
        budget.known[key] = compute()
    found: T = budget.known[key]
    return found


def step(number: int = 1) -> None:
    """Count steps that are taken elsewhere than in `walk`, at the expense of the file that is worked on.

    Raises:
        Exhausted: its budget is used up.
    """
    budget = _SPENT.get()
    if budget is not None:
        budget.check()
        budget.spent += number
