"""Run two versions of a callable through the same calls, from the same state, until all required code has run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice, product
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ..dynamo.runs import Call, force_eager
from .differences import NOT_FINITE, Equality, difference, let_pass, no_less_accurate, no_longer_raises, rounded
from .observing import Observation, attempt, hearing_all_logs
from .other_builds import builds_of
from .pairs import ComparedVersion, NotMadeError, ObservedDifference, Pair, fresh, state_tensors
from .reached_code import InputSearch, Side
from .states import ALWAYS, HALF, MORE_STATES, PRECISIONS, STATES, StateVariation, built_otherwise, counted_to
from .trials import (
    ALIKE,
    BASE,
    BATCHES,
    LARGEST,
    NO_NUMBERS,
    RANKS,
    TWICE,
    USUAL,
    Trial,
    all_finite,
    at_edges,
    broken_trials,
    is_left_out,
    mixed_trials,
    other_ranks,
    random_trials,
    visit,
)

_REPEATS = 3
_WARM_UP = 12
_LEAST_DRAWN = 4
_FIRST_DRAWN = 8
_MORE_DRAWN = 25
_MIXED_DRAWN = 6
_PASSED, _JOINED = 100, 100
_BROKEN = 20
# What code runs in another build: some only runs on NaN, such as a check of the inputs.
_TRIED = (BASE, *USUAL[:5], *NO_NUMBERS)


Told = dict[Side, tuple["StateVariation | None", Trial]]


@dataclass
class Findings:
    """The results of the calls.

    `worked` are trials without an exception, which are also used to try the compiler. `telling` maps each branch to the
    last trial that ran it, usually a random one, and to the state change that it ran with. `passed` describes the
    differences that practical equality allowed. `finite` are the branches that ran with equal results on finite inputs.
    `error` is the first exception that a call raised, and `rounded` indicates whether gradients differ by rounding. If
    trials are slow, only every `stride`-th trial runs.
    """

    inputs: int = 0
    returned: int = 0
    difference: ObservedDifference | None = None
    worked: list[Trial] = field(default_factory=list)
    telling: Told = field(default_factory=dict)
    passed: set[str] = field(default_factory=set)
    finite: set[Side] = field(default_factory=set)
    error: str = ""
    rounded: bool = False
    stride: int = 1


def run_side_by_side(one: ComparedVersion, other: ComparedVersion, equality: Equality, search: InputSearch) -> Findings:
    """Run both versions through the usual trials, then through more trials until the search is complete.

    The run ends at the first difference.
    """
    found = Findings()
    with hearing_all_logs():
        try:
            _run_scenes(one, other, equality, search, found)
        except NotMadeError as error:
            found.difference = error.difference
    return found


def _run_scenes(
    one: ComparedVersion, other: ComparedVersion, equality: Equality, search: InputSearch, found: Findings
) -> None:
    """Run all scenes up to the first difference, and record the results in `found`."""
    for scene in _scenes(one, other, equality, search, found.telling):
        for trial in scene.trials:
            if is_left_out(trial, search.left_out):
                continue
            before = set(search.marks.seen)
            search.marks.seen.clear()
            with search.counted():
                differs, first, second = scene.pair.step(trial)
            scene.done.append(trial)
            ran = frozenset(search.marks.seen)
            if trial.method is None and scene.tells:
                told = (side for side in ran if scene.change is None or side not in before)
                found.telling.update(dict.fromkeys(told, (scene.change, trial)))
            search.note(search.marks.seen)
            search.marks.seen |= before
            _note(found, scene, trial, first)
            found.rounded = found.rounded or rounded(first, second)
            found.passed.update(let_pass(first, second) if equality.practical else ())
            if _ends_early(scene, trial, first, second):
                break
            if differs is None:
                if ran - found.finite and all_finite(trial.of(one.call)):
                    found.finite |= ran
            elif equality.practical and (gone := no_longer_raises(first, second)) is not None:
                found.passed.add(gone)
                break  # The states of both versions have diverged.
            elif _is_rounding(one, scene, first, second):
                continue
            elif (  # the state may still be infinite from an earlier call
                equality.practical
                and not equality.everywhere
                and first.error == second.error
                and ran <= found.finite
                and not (all_finite(trial.of(one.call)) and all_finite(((first.state,), {})))
            ):
                found.passed.add(NOT_FINITE)
                break  # The states of both versions have diverged.
            else:
                explained = _explained(one, other, scene, differs)
                raises = first.error is None and second.error is not None
                passes = difference(first, second, replace(equality, practical=True)) is None
                found.difference = replace(explained, raises=raises, passes=passes)
                return
    found.stride = search.stride


def _ends_early(scene: _Scene, trial: Trial, first: Observation, second: Observation) -> bool:
    """Return whether a scene's remaining trials show nothing after an exception in the first version."""
    if scene.change in PRECISIONS or trial.optional:
        return first.error is not None  # Even if other inputs take a branch that supports it, the code does not.
    if first.error is None or second.error is None or not scene.pair.equality.practical:
        return False
    # An operator that raises another type of exception may have done part of its work before.
    return first.refused and second.refused and first.error[0] != second.error[0]


def _is_rounding(one: ComparedVersion, scene: _Scene, first: Observation, second: Observation) -> bool:
    """Return whether a difference in a narrow precision is only rounding, based on the same calls in float32."""
    if scene.change not in PRECISIONS or scene.change.dtype is torch.float64:
        return False
    again = one.again()
    wide = Pair(again, again, scene.pair.equality, training=scene.training)
    *_, (_, seen, _) = (wide.step(trial) for trial in scene.done)
    return no_less_accurate(first, second, seen, scene.pair.equality)


def _note(found: Findings, scene: _Scene, trial: Trial, first: Observation) -> None:
    """Record that a trial was run, and its outcome in the first version."""
    found.inputs += 1
    if trial.method is None and first.error is None:
        found.returned += 1
        if trial not in found.worked and scene.change is None:
            found.worked.append(trial)
    elif first.error is not None and not found.error:
        found.error = f"{first.error[0]}: {first.error[1]}".splitlines()[0]


@dataclass
class _Scene:
    """Trials for a pair.

    `change` is the change to its initial state, if any. Trials are reused only if `tells` is true.
    """

    pair: Pair
    trials: Iterable[Trial]
    training: bool
    change: StateVariation | None = None
    tells: bool = True
    done: list[Trial] = field(default_factory=list)


def _scenes(
    one: ComparedVersion, other: ComparedVersion, equality: Equality, search: InputSearch, told: Told
) -> Iterator[_Scene]:
    pairs = {training: Pair(one, other, equality, training=training) for training in (True, False)}

    def both(trials: Callable[[], Iterable[Trial]]) -> Iterator[_Scene]:
        return (_Scene(pair, trials(), training) for training, pair in pairs.items())

    def searched(trials: Iterable[Trial], change: StateVariation | None, *, training: bool = True) -> _Scene:
        pair = Pair(one, other, equality, training=training, change=change)
        return _Scene(pair, search.worth_comparing(trials, pair.probe), training, change)

    yield from both(lambda: [BASE] * _REPEATS)
    yield from both(lambda: search.thinned((*USUAL, *BATCHES, ALIKE)))
    endless = random_trials()
    search.begin()
    yield from _counted(one, other, equality, search)
    for method in search.methods if search.goes_on() else ():
        yield from both(partial(_visits, method))
    yield from both(lambda: search.thinned(islice(endless, _LEAST_DRAWN)))
    yield from (_Scene(Pair(one, other, equality, training=True), [twice], True, tells=False) for twice in TWICE)
    yield from _other_states(one, other, equality, search)
    for training, pair in pairs.items():
        yield _Scene(pair, search.worth_comparing((*islice(endless, _FIRST_DRAWN), *RANKS), pair.probe), training)
    yield from (searched(_TRIED, change) for change in _other_builds(one, search))
    for training, change in product((True, False), STATES):
        if search.goes_on():
            yield searched((BASE, *USUAL[:5], *RANKS), change, training=training)
    for training, pair in pairs.items():
        yield _Scene(pair, search.worth_comparing(islice(endless, _MORE_DRAWN), pair.probe), training)
    if search.half and search.goes_on():
        yield searched((BASE, *USUAL, LARGEST, *islice(broken_trials(wild=True), _BROKEN)), HALF)
    yield from _in_other_precisions(one, other, equality, search)
    broken = broken_trials(wild=True)
    for state in (None, *STATES, *MORE_STATES):
        if search.goes_on():
            yield searched(chain(islice(endless, _MIXED_DRAWN), islice(broken, _MIXED_DRAWN)), state)
    yield from _last_scenes(one, other, equality, search, told)


def _in_other_precisions(
    one: ComparedVersion, other: ComparedVersion, equality: Equality, search: InputSearch
) -> Iterator[_Scene]:
    # Results rounded to bfloat16 are always compared at that precision. If a number became a tensor, it is float32, so
    # practical equality allows that precision in float64.
    coarse = replace(equality, practical=True, computed_in=torch.bfloat16)
    fine = replace(equality, computed_in=torch.float32) if equality.practical else equality
    for precision in PRECISIONS:
        wanted = replace(fine if precision.dtype is torch.float64 else coarse, converted=equality.practical)
        pair = Pair(one, other, wanted, training=True, change=precision)
        yield _Scene(pair, search.thinned((BASE, *USUAL[:2])), training=True, change=precision, tells=False)


def _counted(one: ComparedVersion, other: ComparedVersion, equality: Equality, search: InputSearch) -> Iterator[_Scene]:
    """Yield calls with counters set close to the limits that the code compares them with."""
    for limit, training in product(search.limits, (True, False)):
        if search.goes_on():
            change = counted_to(limit - 2)
            pair = Pair(one, other, equality, training=training, change=change)
            yield _Scene(pair, [BASE] * _REPEATS, training, change)


def _last_scenes(
    one: ComparedVersion, other: ComparedVersion, equality: Equality, search: InputSearch, told: Told
) -> Iterator[_Scene]:
    """Yield the final scenes after all reachable branches have run: combinations of branches, and non-finite inputs."""
    for joined in (islice(random_trials(), _PASSED, _PASSED + _JOINED), islice(mixed_trials(), _JOINED)):
        pair = Pair(one, other, equality, training=True)
        yield _Scene(pair, search.joining(joined, partial(_probe_apart, one)), training=True, tells=False)
    for training in (True, False):
        pair = Pair(one, other, equality, training=training)
        yield _Scene(pair, search.thinned(NO_NUMBERS), training, tells=False)
    for trial in other_ranks(one.call) if search.ranks else ():
        yield _Scene(Pair(one, other, equality, training=True), [trial], training=True, tells=False)
    pair = Pair(one, other, equality, training=True)
    yield _Scene(pair, search.thinned(islice(broken_trials(), _BROKEN)), training=True, tells=False)
    # Include edges of the example itself. It may still reach a branch when the edges of other trials change the test.
    yield _Scene(pair, search.thinned(at_edges([BASE])), training=True, tells=False)
    yield from _scenes_by_branch(one, other, equality, search, told)


def _scenes_by_branch(
    one: ComparedVersion, other: ComparedVersion, equality: Equality, search: InputSearch, told: Told
) -> Iterator[_Scene]:
    """Yield the trials that ran each branch, with elements at the edges."""
    ways = [told[side] for side in sorted(told, key=lambda side: side not in search.wanted)]
    for state in dict.fromkeys(change for change, _ in ways):
        pair = Pair(one, other, equality, training=True, change=state)
        if state is not None:
            # A branch that depends on state may be combined with any branch that depends on inputs.
            every = dict.fromkeys(trial for _, trial in ways)
            yield _Scene(pair, search.thinned(every), training=True, change=state, tells=False)
            pair = Pair(one, other, equality, training=True, change=state)
        trials = list(dict.fromkeys(trial for change, trial in ways if change is state))
        yield _Scene(pair, search.thinned(at_edges(trials)), training=True, change=state, tells=False)


def _probe_apart(subject: ComparedVersion) -> Callable[[Trial], None]:
    """Return a function that runs trials on a fresh import, so that changes to globals do not affect a comparison."""
    again = subject.again()
    function = fresh(again, training=True)

    def run(trial: Trial) -> None:
        subject.begin(trial)
        with again.version.active(), force_eager():
            call = trial.of(again.call)
            attempt(function, call, trial.seed, training=True, differentiated=again.differentiated)

    return run


def _other_states(
    one: ComparedVersion, other: ComparedVersion, equality: Equality, search: InputSearch
) -> Iterator[_Scene]:
    """Yield trials in other states. They always run, because tests of state and inputs may combine."""
    if state_tensors(fresh(one, training=True)):
        # The original may stop writing to its state after a few calls.
        later = [*[BASE] * _WARM_UP, TWICE[0]]
        yield _Scene(Pair(one, other, equality, training=True), later, training=True, tells=False)
        for change in ALWAYS:
            pair = Pair(one, other, equality, training=True, change=change)
            yield _Scene(pair, search.thinned((BASE, *USUAL[:2])), training=True, change=change)


def _other_builds(subject: ComparedVersion, search: InputSearch) -> Iterator[StateVariation]:
    """Yield the states of builds that run code that has not run yet."""
    if not search.goes_on():
        return
    with subject.version.active():
        builds = list(builds_of(fresh(subject, training=True), subject.version.modules()))
    for build in builds:
        if not search.goes_on():
            return
        try:
            function = fresh(subject, build, training=True)
        except Exception:  # noqa: BLE001, S112 - the class does not accept this value
            continue
        if not search.left().isdisjoint(search.shown_by(partial(try_out, subject, function))):
            yield built_otherwise(build)


def try_out(subject: ComparedVersion, function: Callable[..., Any]) -> None:
    """Run a callable on the first trials without observing it."""
    with subject.version.active(), force_eager():
        for trial in _TRIED:
            call = trial.of(subject.call)
            attempt(function, call, trial.seed, training=True, differentiated=subject.differentiated)


def _visits(method: str) -> tuple[Trial, ...]:
    return visit(method), BASE, USUAL[0]


def _explained(one: ComparedVersion, other: ComparedVersion, scene: _Scene, differs: str) -> ObservedDifference:
    """Determine whether the last trial alone shows the difference, and whether the first version is deterministic."""
    trial = scene.done[-1]
    alone = _replay(one, other, scene, [trial])
    trials = [trial] if alone is not None else scene.done
    stable = _replay(one.again(), one.again(), scene, trials) is None
    mode = "while training" if scene.training else "in evaluation, without gradients"
    after = "" if alone is not None or len(trials) == 1 else f" after {len(trials) - 1} other calls"
    state = f" with {scene.change.name}" if scene.change is not None else ""
    shapes = "" if trial.method is not None else f" ({_shapes(trial.of(one.call))})"
    where = f"{trial.name}{shapes}{state}{after}, {mode}"
    return ObservedDifference(alone or differs, where, raises=False, stable=stable)


def _replay(one: ComparedVersion, other: ComparedVersion, scene: _Scene, trials: list[Trial]) -> str | None:
    pair = Pair(one, other, scene.pair.equality, training=scene.training, change=scene.change)
    for trial in trials:
        differs = pair.step(trial)[0]
        if differs is not None:
            return differs
    return None


def _shapes(call: Call) -> str:
    tensors = [leaf for leaf in pytree.tree_leaves(call) if isinstance(leaf, torch.Tensor)]
    words = [f"{str(leaf.dtype).removeprefix('torch.')}[{', '.join(map(str, leaf.shape))}]" for leaf in tensors[:4]]
    return ", ".join(words) + (", ..." if len(tensors) > 4 else "") if words else "no tensors"
