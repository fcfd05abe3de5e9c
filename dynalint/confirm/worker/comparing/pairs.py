"""Two versions of a callable in the same state, observed through the same calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import nn
from torch.utils import _pytree as pytree

from ..dynamo.runs import Call, Maker, force_eager, fresh_callable
from ..inputs.targets import BuiltTarget
from ..source.versions import Version
from .differences import Equality, difference
from .observing import OWN_TO_MODULES, PLAIN, Observation, attempt, globals_of, modules_of, observe, parameters_of
from .other_builds import Build, built
from .states import StateVariation
from .trials import BASE, Trial


@dataclass(frozen=True)
class ComparedVersion:
    """A version of a callable: its maker, and a call that is expected to work.

    `again` imports the version again, so that its modules keep nothing from earlier calls. `begin` is called with each
    trial before it runs. `differentiated` is False if the version raises only for inputs that require gradients.
    `found` is how the target was built and called.
    """

    version: Version
    make: Maker
    call: Call
    again: Callable[[], ComparedVersion]
    begin: Callable[[Trial], None] = lambda _: None
    differentiated: bool = True
    found: BuiltTarget | None = None


@dataclass(frozen=True)
class ObservedDifference:
    """A difference, and the input that shows it. `raises` means that only the second version raised.

    `passes` means that practical equality allows the difference. `stable` is False if the first version also differs
    from itself when it runs again.
    """

    what: str
    where: str
    raises: bool
    passes: bool = False
    stable: bool = True


class NotMadeError(Exception):
    """The second version cannot be built with arguments that work for the first."""

    def __init__(self, build: Build, error: Exception) -> None:
        """Store the description for the report in `difference`."""
        super().__init__(str(error))
        what = f"exception: none became {type(error).__name__}({(str(error).splitlines() or [''])[0][:160]!r})"
        self.difference = ObservedDifference(what, f"{build.words}, before any call", raises=True)


class Pair:
    """Two fresh callables in the same state. The tensors of the first callable are copied to the second."""

    def __init__(
        self,
        one: ComparedVersion,
        other: ComparedVersion,
        equality: Equality,
        *,
        training: bool,
        change: StateVariation | None = None,
    ) -> None:
        self._subjects = tuple(_cast(subject, change) for subject in (one, other))
        self.equality, self._training, self._change = replace(equality, backward=training), training, change
        self._build = None if change is None else change.build
        self._functions = (fresh(one, self._build, training=training), _made(other, self._build, training=training))
        _level(*self._functions, change)
        if change is not None and change.count is not None:
            _count_from(*self._functions, equality.numbers, change.count)
        self._modes = [_modes(function) for function in self._functions]

    def step(self, trial: Trial) -> tuple[str | None, Observation, Observation]:
        """Run a trial on both callables. Return the difference, if any, and both observations."""
        seen = []
        for index, (subject, function) in enumerate(zip(self._subjects, self._functions, strict=True)):
            # A module that is a global of the project is part of every callable, so others may have changed its mode.
            _set_modes(self._modes[index])
            seen.append(_observed(subject, function, trial, self._change, training=self._training))
            self._modes[index] = _modes(function)
        equality = replace(self.equality, autocast=self._change is not None and self._change.autocast)
        return difference(seen[0], seen[1], equality), seen[0], seen[1]

    def probe(self) -> Callable[[Trial], None]:
        """Return a function that runs trials on another copy of the first callable, without observing them."""
        subject = self._subjects[0]
        function = fresh(subject, self._build, training=self._training)
        _set_otherwise(function, self._change)
        _level(self._functions[0], function, None)

        def run(trial: Trial) -> None:
            subject.begin(trial)
            with subject.version.active(), force_eager():
                call, training = trial.of(subject.call), self._training
                attempt(function, call, trial.seed, training=training, differentiated=subject.differentiated)

        return run


def fresh(subject: ComparedVersion, build: Build | None = None, *, training: bool) -> Callable[..., Any]:
    """Make a new callable for a version, in training or evaluation mode, with the argument from `build` if given."""
    with subject.version.active(), built(build, subject.version.modules()):
        function = fresh_callable(subject.make)
    owner = getattr(function, "__self__", function)
    if isinstance(owner, nn.Module):
        owner.train(training)
    return function


def alike(subject: ComparedVersion, original: ComparedVersion) -> ComparedVersion:
    """Make a version use the same values in its calls as the original.

    Arguments that belong to the project's own classes are kept, because each version has its own classes.
    """
    theirs, layout = pytree.tree_flatten(original.call)
    own, own_layout = pytree.tree_flatten(subject.call)
    if all(isinstance(leaf, (torch.Tensor, *PLAIN)) for leaf in theirs):
        call = original.call
    elif str(layout) == str(own_layout):
        leaves = [other if isinstance(other, torch.Tensor) else leaf for leaf, other in zip(own, theirs, strict=True)]
        call = pytree.tree_unflatten(leaves, own_layout)
    else:
        call = subject.call
    return replace(subject, call=call)


def takes_gradients(subject: ComparedVersion) -> bool:
    """Return whether a version accepts inputs that require gradients, judging by its example."""
    for differentiated in (True, False):
        function = fresh(subject, training=True)
        with subject.version.active(), force_eager():
            error = attempt(function, BASE.of(subject.call), BASE.seed, training=True, differentiated=differentiated)
        if error is None:
            return differentiated
    return True


def _made(subject: ComparedVersion, build: Build | None, *, training: bool) -> Callable[..., Any]:
    """Make the second callable of a pair."""
    try:
        return fresh(subject, build, training=training)
    except Exception as error:
        if build is None:
            raise
        raise NotMadeError(build, error) from error


def _level(one: Any, other: Any, change: StateVariation | None) -> None:
    """Copy the tensors in one callable's state to the other, after applying `change` if given."""
    _set_otherwise(one, change)
    _set_otherwise(other, change)
    generator = torch.Generator().manual_seed(0 if change is None else change.seed)
    sources, targets = state_tensors(one), state_tensors(other)
    for name, source in sources.items():
        target = targets.get(name)
        with torch.no_grad():
            if change is not None:
                source.copy_(change.of(source, generator))
            if target is not None and (target.shape, target.dtype) == (source.shape, source.dtype):
                target.copy_(source)


def _modes(function: Any) -> list[tuple[nn.Module, bool]]:
    """Return a callable's modules with their modes, which are True in training."""
    return [(module, module.training) for _, module in modules_of(function)]


def _set_modes(modes: Iterable[tuple[nn.Module, bool]]) -> None:
    for module, training in modes:
        module.training = training


def _cast(subject: ComparedVersion, change: StateVariation | None) -> ComparedVersion:
    """Return a subject whose floating-point inputs have the dtype of a state change."""
    if change is None or change.dtype is None:
        return subject

    def cast(leaf: Any) -> Any:
        return leaf.to(change.dtype) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf

    return replace(subject, call=pytree.tree_map(cast, subject.call))


def _set_otherwise(function: Any, change: StateVariation | None) -> None:
    """Apply a state change's flags and dtype to a callable."""
    owner = getattr(function, "__self__", function)
    if change is not None and change.flags:
        _turn_flags(function)
    if change is not None and change.dtype is not None and isinstance(owner, nn.Module):
        owner.to(change.dtype)


def _count_from(one: Any, other: Any, names: Collection[str], count: int) -> None:
    """Set the counters with these names to `count`. They are ints in the first callable and tensors in the second."""
    for (_, module), (_, counterpart) in zip(modules_of(one), modules_of(other), strict=False):
        for name in names:
            tensor = counterpart._buffers.get(name)  # noqa: SLF001 - an attribute of this name may be a property
            if type(vars(module).get(name)) is int and tensor is not None:
                setattr(module, name, count)
                with torch.no_grad():
                    tensor.fill_(count)


def _turn_flags(function: Any) -> None:
    """Invert each public bool attribute of modules that are not torch's own."""
    for _, module in modules_of(function):
        if not type(module).__module__.startswith("torch."):
            for name, value in vars(module).items():
                if isinstance(value, bool) and not name.startswith("_") and name not in OWN_TO_MODULES:
                    setattr(module, name, not value)


def state_tensors(function: Any) -> dict[str, torch.Tensor]:
    """Return a callable's parameters and buffers by name."""
    owner = getattr(function, "__self__", function)
    buffers = dict(owner.named_buffers()) if isinstance(owner, nn.Module) else {}
    return {**parameters_of(function), **buffers}


def _observed(
    subject: ComparedVersion,
    function: Callable[..., Any],
    trial: Trial,
    change: StateVariation | None,
    *,
    training: bool,
) -> Observation:
    run, call = function, subject.call
    if trial.method is not None:
        run, call = _method(function, trial.method), ((), {})
    subject.begin(trial)
    autocast: Any = nullcontext()
    if change is not None and change.autocast:
        device = next((tensor.device.type for tensor in state_tensors(function).values()), "cpu")
        autocast = torch.autocast(device, torch.bfloat16)
    with subject.version.active(), force_eager(), autocast:
        seen = observe(
            run,
            function,
            trial.of(call),
            trial.seed,
            training=training,
            times=trial.times,
            differentiated=subject.differentiated,
        )
        for module in subject.version.modules():
            kept = globals_of(vars(module))
            seen.state.update({f"global {module.__name__}.{name}": value for name, value in kept.items()})
    return seen


def _method(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a method from the first part of a callable that has the class, or a function that does nothing."""
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
