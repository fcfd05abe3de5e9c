"""Take two versions of a callable through the same calls, from the same state, until all that was asked for has run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from typing import Any, cast

import torch
from torch import nn
from torch.utils import _pytree as pytree

from .builds import Build, builds_of, built
from .differ import Equality, difference, rounded, spills
from .observe import (
    OWN_TO_MODULES,
    Observation,
    attempt,
    globals_of,
    hearing_all_logs,
    modules_of,
    observe,
    parameters_of,
)
from .search import Search, Side
from .trials import (
    ALIKE,
    ALWAYS,
    BASE,
    BATCHES,
    MORE_STATES,
    NO_NUMBERS,
    STATES,
    USUAL,
    StateChange,
    Trial,
    at_edges,
    broken_trials,
    built_otherwise,
    is_left_out,
    mixed_trials,
    random_trials,
    visit,
)
from .versions import Version
from .witness import Call, Maker, force_eager, fresh_callable

_REPEATS = 3
_LEAST_DRAWN = 4
_FIRST_DRAWN = 8
_MORE_DRAWN = 25
_MIXED_DRAWN = 6
_PASSED, _JOINED = 100, 100
_BROKEN = 20


@dataclass(frozen=True)
class Subject:
    """One version of a callable: a maker of fresh ones, and a call that works or is meant to.

    `again` imports the version anew, so that nothing in its modules remembers earlier calls. `begin` hears of each
    trial before it runs.
    """

    version: Version
    make: Maker
    call: Call
    again: Callable[[], Subject]
    begin: Callable[[Trial], None] = lambda _: None


@dataclass(frozen=True)
class Difference:
    """What differed and on which input. `raises` tells that the second version failed where the first did not.

    `spilled` tells that it has NaN in gradients where the first has numbers.
    `stable` is False where the first version differs from itself too when it is run again.
    """

    what: str
    where: str
    raises: bool
    spilled: bool = False
    stable: bool = True


Told = dict[Side, tuple["StateChange | None", Trial]]


@dataclass
class Findings:
    """What the calls showed.

    `worked` are trials that ran without an exception, for the compiler to be tried on. `telling` has for each side
    the last that made it run, which mostly is a drawn one, and the change of state that it ran with.
    `error` is the exception of the first call that raised one, `rounded` whether gradients were rounded otherwise.
    Only one in `stride` of the trials was run where they take long.
    """

    inputs: int = 0
    returned: int = 0
    difference: Difference | None = None
    worked: list[Trial] = field(default_factory=list)
    telling: Told = field(default_factory=dict)
    error: str = ""
    rounded: bool = False
    stride: int = 1


class _NotMadeError(Exception):
    """The second version cannot be made in a way in which the first one can."""

    def __init__(self, build: Build, error: Exception) -> None:
        super().__init__(str(error))
        what = f"exception: none became {type(error).__name__}({(str(error).splitlines() or [''])[0][:160]!r})"
        self.difference = Difference(what, f"{build.words}, before any call", raises=True)


class Pair:
    """Two fresh callables in the same state. What the first one holds in tensors, the second one starts with."""

    def __init__(
        self, one: Subject, other: Subject, equality: Equality, *, training: bool, change: StateChange | None = None
    ) -> None:
        self._subjects, self._equality, self._training, self._change = (one, other), equality, training, change
        self._build = None if change is None else change.build
        self._functions = (fresh(one, self._build, training=training), _made(other, self._build, training=training))
        _level(*self._functions, change)

    def step(self, trial: Trial) -> tuple[str | None, Observation, Observation]:
        """Run one trial on both; return what differs, if anything, and what was seen of each."""
        seen = [
            _observed(subject, function, trial, training=self._training)
            for subject, function in zip(self._subjects, self._functions, strict=True)
        ]
        return difference(seen[0], seen[1], self._equality), seen[0], seen[1]

    def probe(self) -> Callable[[Trial], None]:
        """Return what runs trials on one more copy of the first callable, without a look at what they do."""
        subject = self._subjects[0]
        function = fresh(subject, self._build, training=self._training)
        if self._change is not None and self._change.flags:
            _turn_flags(function)
        _level(self._functions[0], function, None)

        def run(trial: Trial) -> None:
            subject.begin(trial)
            with subject.version.active(), force_eager():
                attempt(function, trial.of(subject.call), trial.seed, training=self._training)

        return run


def fresh(subject: Subject, build: Build | None = None, *, training: bool) -> Callable[..., Any]:
    """Make the callable of a version anew, in training mode or not; with `build`, in another way."""
    with subject.version.active(), built(build, subject.version.modules()):
        function = fresh_callable(subject.make)
    owner = getattr(function, "__self__", function)
    if isinstance(owner, nn.Module):
        owner.train(training)
    return function


def _made(subject: Subject, build: Build | None, *, training: bool) -> Callable[..., Any]:
    """Make the second callable of a pair."""
    try:
        return fresh(subject, build, training=training)
    except Exception as error:
        if build is None:
            raise
        raise _NotMadeError(build, error) from error


def _level(one: Any, other: Any, change: StateChange | None) -> None:
    """Copy the tensors of one callable's state to the other's, changed if asked for."""
    if change is not None and change.flags:
        _turn_flags(one)
        _turn_flags(other)
    generator = torch.Generator().manual_seed(0 if change is None else change.seed)
    sources, targets = _state_tensors(one), _state_tensors(other)
    for name, source in sources.items():
        target = targets.get(name)
        with torch.no_grad():
            if change is not None:
                source.copy_(change.of(source, generator))
            if target is not None and (target.shape, target.dtype) == (source.shape, source.dtype):
                target.copy_(source)


def _turn_flags(function: Any) -> None:
    """Turn over each public attribute that is True or False, of the parts that are not torch's own."""
    for _, module in modules_of(function):
        if not type(module).__module__.startswith("torch."):
            for name, value in vars(module).items():
                if isinstance(value, bool) and not name.startswith("_") and name not in OWN_TO_MODULES:
                    setattr(module, name, not value)


def _state_tensors(function: Any) -> dict[str, torch.Tensor]:
    owner = getattr(function, "__self__", function)
    buffers = dict(owner.named_buffers()) if isinstance(owner, nn.Module) else {}
    return {**parameters_of(function), **buffers}


def _observed(subject: Subject, function: Callable[..., Any], trial: Trial, *, training: bool) -> Observation:
    run, call = function, subject.call
    if trial.method is not None:
        run, call = _method(function, trial.method), ((), {})
    subject.begin(trial)
    with subject.version.active(), force_eager():
        seen = observe(run, function, trial.of(call), trial.seed, training=training)
        for module in subject.version.modules():
            kept = globals_of(vars(module))
            seen.state.update({f"global {module.__name__}.{name}": value for name, value in kept.items()})
    return seen


def _method(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return the method of the first part of a callable that has the class, or a function that does nothing."""
    cls, _, method = name.rpartition(".")
    owner = getattr(function, "__self__", function)
    for part in [owner, *(module for _, module in modules_of(function))]:
        if any(base.__qualname__ == cls for base in type(part).__mro__):
            found = getattr(part, method, None)
            if callable(found) and _needs_nothing(found):
                return cast("Callable[..., Any]", found)
    return lambda: None


def _needs_nothing(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError):
        return False
    return True


def run_side_by_side(one: Subject, other: Subject, equality: Equality, search: Search) -> Findings:
    """Run both through the usual trials, then through others until the search is complete.

    The first difference ends the run.
    """
    found = Findings()
    with hearing_all_logs():
        try:
            _run_scenes(one, other, equality, search, found)
        except _NotMadeError as error:
            found.difference = error.difference
    return found


def _run_scenes(one: Subject, other: Subject, equality: Equality, search: Search, found: Findings) -> None:
    for scene in _scenes(one, other, equality, search, found.telling):
        for trial in scene.trials:
            if is_left_out(trial, search.left_out):
                continue
            before = set(search.marks.seen)
            search.marks.seen.clear()
            with search.counted():
                differs, first, second = scene.pair.step(trial)
            scene.done.append(trial)
            if trial.method is None and scene.tells:
                for side in search.marks.seen:
                    if scene.change is None or side not in before:
                        found.telling[side] = (scene.change, trial)
            search.note(search.marks.seen)
            search.marks.seen |= before
            found.inputs += 1
            if trial.method is None and first.error is None:
                found.returned += 1
                if trial not in found.worked and scene.change is None:
                    found.worked.append(trial)
            elif first.error is not None and not found.error:
                found.error = f"{first.error[0]}: {first.error[1]}".splitlines()[0]
            found.rounded = found.rounded or rounded(first, second)
            if differs is not None:
                explained = _explained(one, other, equality, scene, differs)
                raises = first.error is None and second.error is not None
                found.difference = replace(explained, raises=raises, spilled=spills(first, second))
                return
    found.stride = search.stride


@dataclass
class _Scene:
    """Trials for one pair. `change` says how its state was set, if it was; without `tells` they are varied no more."""

    pair: Pair
    trials: Iterable[Trial]
    training: bool
    change: StateChange | None = None
    tells: bool = True
    done: list[Trial] = field(default_factory=list)


def _scenes(one: Subject, other: Subject, equality: Equality, search: Search, told: Told) -> Iterator[_Scene]:
    pairs = {training: Pair(one, other, equality, training=training) for training in (True, False)}

    def both(trials: Callable[[], Iterable[Trial]]) -> Iterator[_Scene]:
        return (_Scene(pair, trials(), training) for training, pair in pairs.items())

    yield from both(lambda: [BASE] * _REPEATS)
    yield from both(lambda: search.thinned((*USUAL, *BATCHES, ALIKE)))
    endless = random_trials()
    search.begin()
    for method in search.methods if search.goes_on() else ():
        yield from both(partial(_visits, method))
    yield from both(lambda: search.thinned(islice(endless, _LEAST_DRAWN)))
    yield from _other_states(one, other, equality, search)
    for training, pair in pairs.items():
        yield _Scene(pair, search.telling(islice(endless, _FIRST_DRAWN), pair.probe), training)
    for change in _other_builds(one, search):
        pair = Pair(one, other, equality, training=True, change=change)
        yield _Scene(pair, search.telling((BASE, *USUAL[:5]), pair.probe), training=True, change=change)
    for change in STATES:
        if search.goes_on():
            pair = Pair(one, other, equality, training=True, change=change)
            yield _Scene(pair, search.telling((BASE, *USUAL[:5]), pair.probe), training=True, change=change)
    for training, pair in pairs.items():
        yield _Scene(pair, search.telling(islice(endless, _MORE_DRAWN), pair.probe), training)
    broken = broken_trials()
    for state in (None, *STATES, *MORE_STATES):
        if search.goes_on():
            pair = Pair(one, other, equality, training=True, change=state)
            mixed = chain(islice(endless, _MIXED_DRAWN), islice(broken, _MIXED_DRAWN))
            yield _Scene(pair, search.telling(mixed, pair.probe), training=True, change=state)
    yield from _last_scenes(one, other, equality, search, told)


def _last_scenes(one: Subject, other: Subject, equality: Equality, search: Search, told: Told) -> Iterator[_Scene]:
    """Yield what comes when all is known that inputs reach: what runs together, and what spoils numbers."""
    for joined in (islice(random_trials(), _PASSED, _PASSED + _JOINED), islice(mixed_trials(), _JOINED)):
        pair = Pair(one, other, equality, training=True)
        yield _Scene(pair, search.joining(joined, partial(_probe_apart, one)), training=True, tells=False)
    for training in (True, False):
        pair = Pair(one, other, equality, training=training)
        yield _Scene(pair, search.thinned(NO_NUMBERS), training, tells=False)
    pair = Pair(one, other, equality, training=True)
    yield _Scene(pair, search.thinned(islice(broken_trials(), _BROKEN)), training=True, tells=False)
    for state in dict.fromkeys(change for change, _ in told.values()):
        pair = Pair(one, other, equality, training=True, change=state)
        trials = list(dict.fromkeys(trial for change, trial in told.values() if change is state))
        yield _Scene(pair, search.thinned(at_edges(trials)), training=True, change=state, tells=False)


def _probe_apart(subject: Subject) -> Callable[[Trial], None]:
    """Return what runs trials on a version imported anew: what it keeps in globals, no comparison sees."""
    again = subject.again()
    function = fresh(again, training=True)

    def run(trial: Trial) -> None:
        subject.begin(trial)
        with again.version.active(), force_eager():
            attempt(function, trial.of(again.call), trial.seed, training=True)

    return run


def _other_states(one: Subject, other: Subject, equality: Equality, search: Search) -> Iterator[_Scene]:
    """Yield what is run whatever has run: what a test of the state decides may meet each side of a test of inputs."""
    if _state_tensors(fresh(one, training=True)):
        for change in ALWAYS:
            pair = Pair(one, other, equality, training=True, change=change)
            yield _Scene(pair, search.thinned((BASE, *USUAL[:2])), training=True, change=change)


def _other_builds(subject: Subject, search: Search) -> Iterator[StateChange]:
    """Yield the states of those other builds with which something runs that has not run yet."""
    if not search.goes_on():
        return
    with subject.version.active():
        builds = list(builds_of(fresh(subject, training=True), subject.version.modules()))
    for build in builds:
        if not search.goes_on():
            return
        try:
            function = fresh(subject, build, training=True)
        except Exception:  # noqa: BLE001, S112 - no such value is meant
            continue
        if not search.left().isdisjoint(search.shown_by(partial(_try_out, subject, function))):
            yield built_otherwise(build)


def _try_out(subject: Subject, function: Callable[..., Any]) -> None:
    with subject.version.active(), force_eager():
        for trial in (BASE, *USUAL[:5]):
            attempt(function, trial.of(subject.call), trial.seed, training=True)


def _visits(method: str) -> tuple[Trial, ...]:
    return visit(method), BASE, USUAL[0]


def _explained(one: Subject, other: Subject, equality: Equality, scene: _Scene, differs: str) -> Difference:
    """Find out whether the last trial alone shows the difference, and whether the first version agrees with itself."""
    trial = scene.done[-1]
    alone = _replay(one, other, equality, scene, [trial])
    trials = [trial] if alone is not None else scene.done
    stable = _replay(one.again(), one.again(), equality, scene, trials) is None
    mode = "while training" if scene.training else "in evaluation, without gradients"
    after = "" if alone is not None or len(trials) == 1 else f" after {len(trials) - 1} other calls"
    state = f" with {scene.change.name}" if scene.change is not None else ""
    shapes = "" if trial.method is not None else f" ({_shapes(trial.of(one.call))})"
    where = f"{trial.name}{shapes}{state}{after}, {mode}"
    return Difference(alone or differs, where, raises=False, stable=stable)


def _replay(one: Subject, other: Subject, equality: Equality, scene: _Scene, trials: list[Trial]) -> str | None:
    pair = Pair(one, other, equality, training=scene.training, change=scene.change)
    for trial in trials:
        differs = pair.step(trial)[0]
        if differs is not None:
            return differs
    return None


def _shapes(call: Call) -> str:
    tensors = [leaf for leaf in pytree.tree_leaves(call) if isinstance(leaf, torch.Tensor)]
    words = [f"{str(leaf.dtype).removeprefix('torch.')}[{', '.join(map(str, leaf.shape))}]" for leaf in tensors[:4]]
    return ", ".join(words) + (", ..." if len(tensors) > 4 else "") if words else "no tensors"
