"""Inputs for the sides that no input has come to: each made from one that came by a way of its own, and run for marks.

What the code does is run without a look at its results, at a tenth of the cost of a comparison. An input by which
other tests have other answers than by any before is kept, and others are made from it in turn, by changes of one
tensor at a time: code under three tests is reached through what came under two of them.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, product

from torch.utils import _pytree as pytree

from .differences import Equality
from .mutations import WAYS, Mutation
from .pairs import Pair, Subject
from .reached_code import MARK, Search, Side
from .states import MORE_STATES, STATES, StateChange
from .trials import BASE, NO_NUMBERS, USUAL, Trial, is_changeable, is_left_out

# Of runs, and of those in a row by which nothing new was seen.
_MOST, _MOST_IN_VAIN = 6000, 2000
# Of the inputs that come by the same way, as not each of them leads further.
_MOST_ALIKE = 4
_REPLACED = 1 / 8
_MOST_MUTATIONS = 5
# A callable is made anew after so many runs, as it may keep something of each.
_RUNS_EACH = 100
_SEEDS = 1000
_NUMBERS = (
    0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    -2.0,
    0.1,
    10.0,
    -10.0,
    100.0,
    1e-3,
    1e4,
    *map(float, ("inf", "-inf", "nan")),
)
_BASES = (BASE, *USUAL)
_NEAR = (0.0, 0.01, -0.01, 1.0, -1.0)
_MOST_CONSTANTS = 20


@dataclass(frozen=True)
class Way:
    """How a side is come to: the change of the state, whether it is training, and the inputs."""

    change: StateChange | None
    training: bool
    trial: Trial


def constants_of(texts: Mapping[str, str]) -> tuple[float, ...]:
    """Return the numbers that comparisons name in the functions with marks."""
    functions = (
        node
        for text in texts.values()
        if MARK in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and MARK in ast.dump(node)
    )
    found = (
        _number(part)
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.Compare)
        for operand in (node.left, *node.comparators)
        for part in ast.walk(operand)
    )
    return tuple(dict.fromkeys(one for one in found if one is not None))[:_MOST_CONSTANTS]


def _number(node: ast.AST) -> float | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(node.operand)
        return None if inner is None else -inner
    known = isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)
    return float(node.value) if known else None  # type: ignore[attr-defined]


def fuzzed(
    subject: Subject, equality: Equality, search: Search, known: Iterable[Way], constants: tuple[float, ...]
) -> Iterator[Way]:
    """Yield ways to what has not run while the search goes on, made from those that are `known`."""
    places = sum(map(is_changeable, pytree.tree_leaves(subject.call)))
    breed = _Breed([*known], places, constants)
    probes = _Probes(subject.again(), equality)
    in_vain = 0
    for way in breed.ways():
        if not search.goes_on() or in_vain > _MOST_IN_VAIN:
            return
        if is_left_out(way.trial, search.left_out):
            continue
        shown = search.shown_by(partial(probes.run, way))
        in_vain += 1
        if breed.keep(way, frozenset(shown)):
            in_vain = 0
        if not search.left().isdisjoint(shown):
            left = search.left()
            yield way
            if search.left() == left:
                probes.forget()


class _Breed:
    """Ways worth going on from, and others made of them, the same ones every time."""

    def __init__(self, known: list[Way], places: int, constants: tuple[float, ...]) -> None:
        self._known, self._places, self._constants = known, places, constants
        self._kept: dict[frozenset[Side], list[Way]] = {}
        self._choose = random.Random(0)  # noqa: S311 - inputs for a comparison, no secrets
        self._states = (None, *STATES, *MORE_STATES)

    def keep(self, way: Way, path: frozenset[Side]) -> bool:
        """Make others of a way by which these sides were come to, maybe; whether it is the first of its kind."""
        alike = self._kept.setdefault(path, [])
        if len(alike) < _MOST_ALIKE:
            alike.append(way)
        elif self._choose.random() < _REPLACED:
            alike[self._choose.randrange(len(alike))] = way
        return len(alike) == 1

    def ways(self) -> Iterator[Way]:
        """Yield the ways that are known, and then new ones."""
        usual = (Way(None, training, trial) for training, trial in product((True, False), (*_BASES, *NO_NUMBERS)))
        yield from dict.fromkeys(chain(self._known, usual))
        for number in range(_MOST):
            way = self._choose.choice(self._choose.choice([*self._kept.values()]))
            for _ in range(self._choose.choice((1, 1, 2, 3))):
                way = self._changed(way)
            yield replace(way, trial=replace(way.trial, name=f"inputs that a search came to ({number})"))

    def _changed(self, way: Way) -> Way:
        what = self._choose.random()
        if what < 0.1:
            return replace(way, change=self._choose.choice(self._states), training=self._choose.random() < 1 / 2)
        if what < 0.2 or not self._places:
            return replace(way, trial=replace(way.trial, seed=self._choose.randrange(_SEEDS)))
        if what < 0.3:
            return replace(way, trial=replace(self._choose.choice(_BASES), mutations=way.trial.mutations))
        mutation = Mutation(
            self._choose.randrange(self._places),
            self._choose.randrange(WAYS),
            self._number(),
            self._choose.getrandbits(30),
        )
        mutations = (*way.trial.mutations, mutation)[-_MOST_MUTATIONS:]
        return replace(way, trial=replace(way.trial, mutations=mutations))

    def _number(self) -> float:
        if self._constants and self._choose.random() < 1 / 3:
            return self._choose.choice(self._constants) + self._choose.choice(_NEAR)
        return self._choose.choice(_NUMBERS)


class _Probes:
    """Callables of one version to try ways on, one for each state."""

    def __init__(self, subject: Subject, equality: Equality) -> None:
        self._subject, self._equality = subject, equality
        self._probes: dict[tuple[StateChange | None, bool], tuple[Callable[[Trial], None], int]] = {}

    def run(self, way: Way) -> None:
        """Go a way without a look at what comes of it."""
        state = way.change, way.training
        probe, runs = self._probes.get(state, (None, 0))
        if probe is None or runs >= _RUNS_EACH:
            subject, runs = self._subject, 0
            probe = Pair(subject, subject, self._equality, training=way.training, change=way.change).probe()
        self._probes[state] = probe, runs + 1
        probe(way.trial)

    def forget(self) -> None:
        """Start from fresh callables again, as a fresh one does not come to where one of these came."""
        self._probes.clear()
