"""Track which parts of the changed code have run, and which other inputs are worth comparing because they run more."""

from __future__ import annotations

import ast
import builtins
import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from .trials import Trial, is_left_out

MARK = "__dynalint_side__"
_ALWAYS_COMPARED = 2
_STEPS_IN_ANY_CASE = 100
_MOST_LIMITS = 10
_QUESTIONS = frozenset({"isnan", "isinf", "isfinite"})

Side = tuple[int, "bool | None"]


class Marks:
    """Records the marks that ran in the marked version: (mark, truth) for tests, (mark, None) for statements."""

    def __init__(self) -> None:
        self.seen: set[Side] = set()
        self._turned: int | None = None

    def __call__(self, mark: int, *tested: object) -> object:
        """Record `mark`, and return the tested value, which is inverted if this test is being inverted."""
        if not tested:
            self.seen.add((mark, None))
            return None
        try:
            self.seen.add((mark, bool(tested[0])))
        except Exception:  # noqa: BLE001 - the branch itself will raise the same exception
            self.seen.add((mark, None))
            return tested[0]
        return not tested[0] if mark == self._turned else tested[0]

    @contextlib.contextmanager
    def turning(self, mark: int) -> Iterator[None]:
        """Invert the result of a test. Marks recorded in the meantime are discarded."""
        before, self.seen, self._turned = self.seen, set(), mark
        try:
            yield
        finally:
            self.seen, self._turned = before, None

    def install(self) -> None:
        """Make the marks available everywhere, as a builtin that marked code calls."""
        setattr(builtins, MARK, self)


@dataclass
class InputSearch:
    """Searches for inputs until everything in `wanted` has run or `seconds` of processor time are used up.

    `methods` are called in between, counters are set close to `limits`, and trials named in `left_out` are skipped. If
    `half` is true, half precision is tried too, and if `ranks` is true, other numbers of dimensions. Because processor
    time is measured, the search gets equally far on a busy machine. Trials that always run may take twice as long
    before they are thinned out.
    """

    marks: Marks
    wanted: frozenset[Side]
    seconds: float
    methods: tuple[str, ...] = ()
    left_out: frozenset[str] = frozenset()
    half: bool = False
    limits: tuple[int, ...] = ()
    ranks: bool = False
    _met: set[tuple[Side, Side]] = field(default_factory=set, init=False)
    _end: float = field(default=0.0, init=False)
    _steps: int = field(default=0, init=False)
    _spent: float = field(default=0.0, init=False)

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Measure the time of a step."""
        begun = time.process_time()
        yield
        self._spent += time.process_time() - begun
        self._steps += 1

    @property
    def stride(self) -> int:
        """The interval at which trials that always run are selected, so that there is enough time for them."""
        expected = _STEPS_IN_ANY_CASE * self._spent / max(1, self._steps)
        return max(1, math.ceil(expected / (2 * self.seconds))) if self.seconds else 1

    def thinned(self, trials: Iterable[Trial]) -> Iterator[Trial]:
        """Return every `stride`-th trial."""
        return islice(trials, None, None, self.stride)

    def begin(self) -> None:
        """Start the time limit."""
        self._end = time.thread_time() + self.seconds

    def left(self) -> frozenset[Side]:
        """Return the required branches that have not run yet."""
        return self.wanted - self.marks.seen

    def goes_on(self) -> bool:
        """Return whether a required branch has not run yet and there is time to search for it."""
        return bool(self.left()) and self.has_time()

    def has_time(self) -> bool:
        """Return whether there is time left."""
        return time.thread_time() < self._end

    def shown_by(self, run: Callable[[], object]) -> set[Side]:
        """Call `run` and return the branches that it ran, without recording them."""
        seen, self.marks.seen = self.marks.seen, set()
        try:
            run()
        finally:
            shown, self.marks.seen = self.marks.seen, seen
        return shown

    def note(self, shown: Iterable[Side]) -> None:
        """Record which branches ran together in a comparison."""
        self._met |= self._meeting(shown)

    def _meeting(self, shown: Iterable[Side]) -> set[tuple[Side, Side]]:
        """Return the pairs of a required test result and another test's result."""
        answers = [side for side in shown if side[1] is not None]
        own = self.wanted.intersection(answers)
        return {(one, other) for one in own for other in answers if one[0] != other[0]}

    def joining(self, trials: Iterable[Trial], probe: Callable[[], Callable[[Trial], None]]) -> Iterator[Trial]:
        """Yield the trials that run a new combination of branches, as long as there is time."""
        run: Callable[[Trial], None] | None = None
        for trial in trials:
            if not self._met or not self.has_time():
                return
            if is_left_out(trial, self.left_out):
                continue
            run = run or probe()
            if self._meeting(self.shown_by(partial(run, trial))) - self._met:
                yield trial

    def worth_comparing(self, trials: Iterable[Trial], probe: Callable[[], Callable[[Trial], None]]) -> Iterator[Trial]:
        """Yield the trials worth comparing during the search: the first few, then those that run new branches.

        The function that `probe` returns finds these with a single run, at a tenth of the cost of a comparison.
        """
        run: Callable[[Trial], None] | None = None
        skipped: list[Trial] = []
        for number, trial in enumerate(trials):
            if not self.goes_on():
                return
            if is_left_out(trial, self.left_out):
                continue
            if number < _ALWAYS_COMPARED:
                yield trial
                continue
            run = run or probe()
            if self.left().isdisjoint(self.shown_by(partial(run, trial))):
                skipped.append(trial)
                continue
            left = self.left()
            yield trial
            if self.left() == left:
                # The new branch depends on state from earlier calls.
                yield from skipped
                yield trial
            skipped.clear()


def asks_whether_finite(texts: Iterable[str]) -> bool:
    """Return whether a marked function asks for infinite values or NaN."""
    calls = (node.func for function in _marked(texts) for node in ast.walk(function) if isinstance(node, ast.Call))
    names = (call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "") for call in calls)
    return not _QUESTIONS.isdisjoint(names)


def limits_of(texts: Iterable[str]) -> tuple[int, ...]:
    """Return the integers in comparisons in marked functions, because a counter may be compared with them."""
    compared = (node for function in _marked(texts) for node in ast.walk(function) if isinstance(node, ast.Compare))
    numbers = (one.value for node in compared for one in ast.walk(node) if isinstance(one, ast.Constant))
    return tuple(sorted({one for one in numbers if type(one) is int and one > 1}))[:_MOST_LIMITS]


def _marked(texts: Iterable[str]) -> Iterator[ast.AST]:
    for text in texts:
        for node in ast.walk(ast.parse(text)) if MARK in text else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and MARK in ast.dump(node):
                yield node
