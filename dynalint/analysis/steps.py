"""Limits on the work done for each file.

The work is measured in steps rather than seconds, so that reports do not depend on the machine. Nesting and repetition
make it possible to write a few lines that would take minutes to analyse. Each file has a budget for its analysis, where
a step is an evaluated expression or a node that a rule visits, and another budget for computing its rewrites. Real
files stay far below the limits (see `benchmarks/steps.py`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Hashable, Iterator
from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from dynalint.profiling import charged

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from dynalint.analysis.source import SourceFile

T = TypeVar("T")

MOST_STEPS = 6_000_000
"""The maximum number of steps for analysing a file."""

MOST_REWRITE_STEPS = 10_000_000
"""The maximum number of steps for computing all of a file's rewrites."""


class Exhausted(Exception):  # noqa: N818 - not an error, but the answer that there is no result
    """A budget is used up, so the current work is aborted."""


@dataclass(frozen=True, slots=True)
class AnalysisFailure:
    """A function on which dynalint itself failed: the file, the function and the error, for a one-line message.

    `crashed` is true if an exception was raised, and false if a limit was reached.
    """

    path: Path
    function: str
    fault: str
    crashed: bool = False


class Budget:
    """A file's budget for one kind of work: at most `most` steps, of which `spent` have been taken.

    `path` is None for a budget that more than one file shares. `known` caches results for this work (see `remembered`).
    `cuts` are sentences that describe where the analysis was cut short.
    """

    def __init__(self, most: int, path: Path | None = None) -> None:
        self.most = most
        self.path = path
        self.spent = 0
        self.known: dict[object, Any] = {}
        self.cuts: dict[str, None] = {}
        self._walked: dict[ast.AST, tuple[ast.AST, ...]] = {}

    @property
    def exhausted(self) -> bool:
        """Whether there are no steps left."""
        return self.spent > self.most

    def check(self) -> None:
        """Abort the current work if there are no steps left.

        Raises:
            Exhausted: If there are no steps left.
        """
        if self.spent > self.most:
            raise Exhausted

    def walk(self, node: ast.AST) -> tuple[ast.AST, ...]:
        """Return a node and all its descendants, each of which takes a step.

        Raises:
            Exhausted: If there are no steps left.
        """
        self.check()
        nodes = self._walked.get(node)
        if nodes is None:
            nodes = tuple(all_nodes(node))
            # Statements are walked repeatedly and, unlike expressions, are never rebuilt.
            if isinstance(node, ast.stmt | ast.mod):
                self._walked[node] = nodes
        self.spent += len(nodes)
        return nodes

    def spending(self) -> _Spending:
        """Return a context manager that charges nodes that are walked inside the `with` block to this budget."""
        return _Spending(self)


class _Spending(charged):
    """Charges steps to a budget, and time to its file."""

    __slots__ = ("_budget", "_token")

    _token: Token[Budget | None]

    def __init__(self, budget: Budget) -> None:
        super().__init__(file=budget.path)
        self._budget = budget

    def __enter__(self) -> None:
        super().__enter__()
        self._token = _SPENT.set(self._budget)

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _SPENT.reset(self._token)
        super().__exit__(kind, fault, traceback)


class Budgets:
    """The budgets of all files for one kind of work. `left_out` lists functions that were not finished."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.left_out: dict[SourceFile, set[Hashable]] = {}
        self._known: dict[SourceFile, Budget] = {}

    def of(self, file: SourceFile) -> Budget:
        """Return the budget of a file."""
        known = self._known.get(file)
        if known is None:
            known = self._known[file] = Budget(self.most, file.path)
        return known

    def forget(self, file: SourceFile) -> None:
        """Forget a file that does not exist any more."""
        self._known.pop(file, None)

    def failures(self, among: Collection[Path], shown: Callable[[Path], str]) -> Iterator[str]:
        """Yield sentences about the files that were not finished. `shown` formats a path."""
        for file, functions in self.left_out.items():
            if file.path not in among:
                continue
            many = f"{len(functions)} function{' was' if len(functions) == 1 else 's were'}"
            yield (
                f"{shown(file.path)}: the analysis stopped after {self.most} steps, and {many} not analysed; split the "
                "file, or exclude it"
            )

    def notes(self, among: Collection[Path], shown: Callable[[Path], str]) -> Iterator[str]:
        """Yield sentences about values and loops in the files that were not followed to the end."""
        for file, budget in self._known.items():
            for text in budget.cuts if file.path in among else ():
                yield f"{shown(file.path)}: {text}"

    def leave_out(self, file: SourceFile, function: Hashable) -> None:
        """Record that a function was not finished because its file's budget is used up."""
        self.left_out.setdefault(file, set()).add(function)


_SPENT: ContextVar[Budget | None] = ContextVar("budget", default=None)


def spent_now() -> Budget | None:
    """Return the budget that rules are currently using, if any."""
    return _SPENT.get()


def note_cut(text: str) -> None:
    """Record that the analysis of the current file was cut short. `text` says where."""
    budget = _SPENT.get()
    if budget is not None:
        budget.cuts[text] = None


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all its descendants like `all_nodes`, and charge them to the current file's budget.

    Raises:
        Exhausted: If its budget is used up.
    """
    budget = _SPENT.get()
    return iter(all_nodes(node) if budget is None else budget.walk(node))


class _Fields(dict[type[ast.AST], tuple[str, ...]]):
    """The fields of each type of node, without the fields in `others`."""

    def __init__(self, others: str) -> None:
        super().__init__()
        self._others = frozenset(others.split())

    def __missing__(self, type_: type[ast.AST]) -> tuple[str, ...]:
        fields = () if issubclass(type_, ast.Constant) else type_._fields
        self[type_] = names = tuple(name for name in fields if name not in self._others)
        return names


# Fields that contain strings or numbers, and contexts, which all nodes of a tree share.
_WITHOUT_NODES = "arg attr conversion ctx id is_async kind level module type_comment"
_WALKED = _Fields(_WITHOUT_NODES)
CHILD_FIELDS = _Fields(f"{_WITHOUT_NODES} op ops")
"""The fields of each type of node that can contain other nodes, without contexts and operators."""


def all_nodes(node: ast.AST) -> list[ast.AST]:
    """Return a node and all its descendants in the order of `ast.walk`, except for contexts such as `ast.Load`."""
    found = [node]
    for one in found:
        for name in _WALKED[type(one)]:
            value = getattr(one, name, None)
            if value is None:
                continue
            if type(value) is list:
                found += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST):
                found.append(value)
    return found


def remembered(key: object, compute: Callable[[], T]) -> T:
    """Return the result of `compute`, cached under `key` while the current file is being worked on."""
    budget = _SPENT.get()
    if budget is None:
        return compute()
    if key not in budget.known:
        budget.known[key] = compute()
    found: T = budget.known[key]
    return found


def step(number: int = 1) -> None:
    """Charge steps taken outside `walk` to the current file's budget.

    Raises:
        Exhausted: If its budget is used up.
    """
    budget = _SPENT.get()
    if budget is not None:
        budget.check()
        budget.spent += number
