"""Reach the sides of a branch that no input reaches: tensors drawn in the middle of a function, in both versions.

What comes before a branch often keeps its test from ever holding, as where the square of a tensor is to be negative.
The texts compared here draw other tensors of the same form right before the code that differs (see `fix.draws`), with
gradients that go on to the tensors in the place of which they stand. What is equal there for all that is drawn does not
rest on what came before. In the end each side is reached by numbers written into the very tensors too, as a tensor of
its own does not show what shares memory with an input or with another name.

Where tests rule each other out, what the others ask for is drawn as well, so that they have any answers: one test after
the other really comes out as a side needs it. A side that rests on an answer never seen has not been shown: what would
bring it about may be what the other sides cannot take.
"""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any
from zlib import crc32

import torch

from .differences import NOT_FINITE, Equality, let_pass, spills
from .observing import hearing_all_logs
from .pairs import Pair, Subject
from .reached_code import Search, Side
from .trials import (
    ALIKE,
    ALWAYS,
    MORE_STATES,
    NO_NUMBERS,
    RANKS,
    STATES,
    USUAL,
    StateChange,
    Trial,
    all_finite,
    answers,
    at_edges,
    broken_trials,
    mixed_trials,
    random_trials,
)

DRAW = "__dynalint_draw__"
# The states to draw in, each in training or not.
_SCENES: tuple[tuple[StateChange | None, bool], ...] = (
    (None, True),
    (None, False),
    *((change, True) for change in STATES),
    *((change, False) for change in ALWAYS),
    *((change, True) for change in MORE_STATES),
)
_DRAWN, _BROKEN, _MIXED = 40, 12, 200
# Every so many times, at a place of its own, all names get the same numbers.
_ALIKE = 4
_APART = 1_000_003


@dataclass(frozen=True)
class Part:
    """A part of the changed code: the draws that lie before it, and the sides in it that no input has reached.

    `asked` has for each test in it and around it the draws of what it asks for.
    """

    draws: frozenset[int]
    sides: frozenset[Side]
    asked: tuple[frozenset[int], ...] = ()


class Draws:
    """Draws tensors by a trial, at the places of one part of the code; elsewhere, everything stays.

    `unbounded` tells that a number drawn since it began was infinite or NaN.
    """

    def __init__(self) -> None:
        self.unbounded = False
        self._places: frozenset[int] = frozenset()
        self._trial: Trial | None = None
        self._written = False
        self._asked: dict[int, dict[str, int]] = {}

    def __call__(self, place: int, name: str | bool, value: Any) -> Any:
        """Return what stands for a value from here on: for the same trial, place and name the same numbers.

        What a test asks for has no name: the same stands for it in both versions, as long as it is the same number. It
        may be a Python bool where the name is True.
        """
        if name is True and isinstance(value, bool):
            return bool(self(place, name, torch.tensor(value)))
        if self._trial is None or place not in self._places or not _can_be_drawn(value):
            return value
        seed = self._trial.seed + crc32(str(place).encode())
        if isinstance(name, bool):
            if value.numel() != 1:
                return value
            known = self._asked.setdefault(place, {})
            seed += _APART * known.setdefault(repr(value.tolist()), len(known))
        elif not self._trial.alike and seed % _ALIKE:
            seed += crc32(name.encode())
        trial = answers(seed) if isinstance(name, bool) else replace(self._trial, seed=seed)
        (drawn,), _ = trial.of(((value.detach(),), {}))
        self.unbounded = self.unbounded or not all_finite(((drawn,), {}))
        if self._written and not isinstance(name, bool):
            # Not into a tensor whose places share memory, as one that was expanded.
            with contextlib.suppress(RuntimeError):
                value.data.copy_(drawn)
            return value
        return _Instead.apply(value, drawn) if value.is_floating_point() else drawn

    def begin(self, places: frozenset[int], trial: Trial | None, *, written: bool = False) -> None:
        """Draw by this trial at these places from now on; `written`, into the tensors that are there."""
        self._places, self._trial, self._written = places, trial, written
        self.unbounded = False
        self._asked.clear()

    def install(self) -> None:
        """Make the draws known to all code: texts with draws call a builtin."""
        setattr(builtins, DRAW, self)


def _can_be_drawn(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is torch.strided and not value.is_complex()


class _Instead(torch.autograd.Function):  # type: ignore[misc]
    """One tensor in the place of another, to which the gradient goes."""

    @staticmethod
    def forward(_: Any, value: torch.Tensor, drawn: torch.Tensor) -> torch.Tensor:  # noqa: ARG004
        """Return the tensor that was drawn."""
        return drawn.clone()

    @staticmethod
    def backward(_: Any, gradient: torch.Tensor) -> Any:
        """Hand the gradient on to the tensor that was computed."""
        return gradient, None


@dataclass
class Drawn:
    """What draws showed: sides that ran, and equally so; and the sides of parts in which the second version failed.

    To fail is to raise, or to have NaN in gradients, where the first does not. `forced` are those sides that ran only
    where other tests were given answers. `passed` says in what both differed that a practical equality lets pass.
    """

    shown: set[Side] = field(default_factory=set)
    failed: set[Side] = field(default_factory=set)
    passed: set[str] = field(default_factory=set)
    forced: set[Side] = field(default_factory=set)


def run_with_draws(
    one: Subject, other: Subject, equality: Equality, search: Search, parts: Sequence[Part], draws: Draws
) -> Drawn:
    """Draw for one part after the other, in the time that `search` has."""
    found = Drawn()

    def compared(part: Part, share: int = 1) -> set[Side] | None:
        """Return what a part shows, None if anything differs."""
        search.marks.seen -= part.sides
        own = replace(search, wanted=part.sides, seconds=search.seconds / len(parts) / share)
        comparison = _Comparison(one, other, equality, own, part, draws)
        if comparison.is_equal():
            found.passed |= comparison.passed
            return comparison.shown
        found.failed |= part.sides if comparison.failed else set()
        return None

    with hearing_all_logs():
        for part in parts:
            shown = compared(part)
            if shown is not None:
                forced = _forced(replace(part, sides=part.sides - shown), compared)
                found.shown |= shown | forced
                found.forced |= forced
    draws.begin(frozenset(), None)
    return found


def _forced(part: Part, compared: Callable[[Part, int], set[Side] | None]) -> frozenset[Side]:
    """Return the sides of a part that run with any one of its tests as it is and the others given answers."""
    left, every = part.sides, frozenset().union(*part.asked)
    for own in part.asked:
        shown = compared(Part(part.draws | (every - own), left), len(part.asked)) if left and own < every else None
        left &= shown or frozenset()
    return left if part.asked else frozenset()


@dataclass(frozen=True)
class _Way:
    """How a side was reached: the state, the inputs, and the trial by which tensors were drawn."""

    change: StateChange | None
    inputs: Trial
    drawn: Trial


def _stages() -> Iterator[tuple[StateChange | None, bool, Sequence[Trial], Trial | None]]:
    """Yield the state, whether it is training, what to draw by, and the inputs: the same trial where there are none.

    That is where no numbers are infinite or none. In the end inputs have another number of dimensions.
    """
    drawn, broken, mixed = random_trials(), broken_trials(), mixed_trials()
    for change, training in _SCENES:
        yield change, training, (*USUAL, ALIKE, *islice(drawn, _DRAWN)), None
        yield change, training, (*NO_NUMBERS, *islice(broken, _BROKEN), *islice(mixed, _MIXED)), USUAL[4]
    for rank in RANKS:
        yield None, True, tuple(islice(mixed, _MIXED)), rank


class _Comparison:
    """Both versions with draws for one part.

    `told` has for each side of it the last way to it, and `shown` has those that ran with the very tensors as well.
    `failed` tells that the second version raised, or has NaN in gradients, where the first did not.
    """

    def __init__(
        self, one: Subject, other: Subject, equality: Equality, search: Search, part: Part, draws: Draws
    ) -> None:
        self._subjects, self._equality = (one, other), equality
        self._search, self._part, self._draws = search, part, draws
        self.told: dict[Side, _Way] = {}
        self.shown: set[Side] = set()
        self.failed = False
        self.passed: set[str] = set()
        self._finite: set[Side] = set()

    def is_equal(self) -> bool:
        """Look for ways to all sides, then try each way at its edges; whether there was time, and all was equal."""
        self._search.begin()
        if not all(self._is_equal_for(*stage) for stage in _stages()):
            return False
        told = dict(self.told)
        for change in dict.fromkeys(way.change for way in told.values()):
            reached = {side: way for side, way in told.items() if way.change is change}
            ways = list(dict.fromkeys(reached.values()))
            edges = [replace(way, drawn=trial) for way in ways for trial in at_edges([way.drawn])]
            for training, some in ((False, ways), (True, edges)):
                pair = self._pair(change, training=training)
                if not all(self._step(pair, way) for way in some):
                    return False
            for training in (False, True):
                pair = self._pair(change, training=training)
                left = dict.fromkeys(way for side, way in reached.items() if side not in self.shown)
                if not all(self._step(pair, way, written=True) for way in left):
                    return False
        # Where names share memory, other numbers come to a side when they are written.
        self._search.marks.seen -= told.keys() - self.shown
        stages = _stages() if told.keys() - self.shown else ()
        return all(self._is_equal_for(*stage, written=True) for stage in stages)

    def _is_equal_for(
        self,
        change: StateChange | None,
        training: bool,
        trials: Sequence[Trial],
        inputs: Trial | None,
        *,
        written: bool = False,
    ) -> bool:
        """Draw by these trials while the search goes on, with the same changes made to inputs where none are given."""
        if not self._search.goes_on():
            return True
        pair = self._pair(change, training=training)

        def probe() -> Callable[[Trial], None]:
            run = pair.probe()

            def probed(trial: Trial) -> None:
                self._draws.begin(self._part.draws, trial, written=written)
                run(inputs or trial)

            return probed

        ways = (_Way(change, inputs or trial, trial) for trial in self._search.telling(trials, probe))
        return all(self._step(pair, way, written=written) for way in ways)

    def _pair(self, change: StateChange | None, *, training: bool) -> Pair:
        self._draws.begin(frozenset(), None)
        return Pair(*self._subjects, self._equality, training=training, change=change)

    def _step(self, pair: Pair, way: _Way, *, written: bool = False) -> bool:
        """Whether nothing differs on one way; what it comes to counts as having run unless it raises there."""
        if not self._search.has_time():
            return False
        marks = self._search.marks
        before, marks.seen = marks.seen, set()
        self._draws.begin(self._part.draws, way.drawn, written=written)
        differs, seen, other = pair.step(way.inputs)
        ran, marks.seen = marks.seen if seen.error is None else set(), before
        if written:
            self.shown |= ran & self._part.sides
        else:
            self.told.update(dict.fromkeys(ran & self._part.sides, way))
        marks.seen |= ran
        self.passed.update(let_pass(seen, other) if self._equality.practical else ())
        if differs is None:
            self._finite |= set() if self._draws.unbounded else ran
            return True
        let_pass_it = self._equality.practical and seen.error == other.error
        if let_pass_it and self._draws.unbounded and ran <= self._finite:
            self.passed.add(NOT_FINITE)
            return True
        self.failed = spills(seen, other) or (seen.error is None and other.error is not None)
        return False
