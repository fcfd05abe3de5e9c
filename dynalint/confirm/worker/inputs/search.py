"""Find arguments that a callable accepts: guessed constructor arguments, and tensors found by trial and error.

The search is deterministic, so the same code gives the same inputs. The number and time of attempts are limited.
"""

from __future__ import annotations

import heapq
import inspect
import itertools
import math
import re
import time
import types
import typing
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from ..dynamo import runs
from ..dynamo.runs import Call, force_eager
from .guessed_values import BATCH, LENGTH, NoGuessError, by_name, for_parameter, hints_of
from .items import items_read, with_items
from .revisions import FailedAttempt, revisions, sizes_in_message
from .stated_shapes import stated_specs
from .tensor_shapes import GENERIC, KINDS, Specs, TensorSpec, by_parameter_name, wanted_by
from .value_text import first_line, worded
from .watching import OperationWatch, watched_layers

ATTEMPTS = 60
_KEPT_ERRORS = 3
# The maximum number of elements in a tensor. No model needs more to show its breaks.
_MOST_ELEMENTS = 1 << 21
# Errors that would occur with any arguments, such as a missing package, an exit, or access denied by the sandbox.
FINAL = (OSError, EOFError, ImportError, MemoryError, RecursionError, SystemExit, KeyboardInterrupt)
_MISSING_KEY = re.compile(r"KeyError: '(\w+)'")
_NO_MEMORY = "can't allocate memory"
_FLAG = ("return_", "use_", "is_", "need_", "output_", "with_", "do_", "training", "verbose", "inplace")


class NoInputsError(Exception):
    """No arguments were found that the callable accepts. The message gives the exception that came latest in the code.

    The cause of this exception is the exception that was raised most often. `call` is the attempt that got furthest.
    """

    call: FoundCall | None = None


@dataclass(frozen=True)
class FoundCall:
    """Arguments that work: a call, and a description of it."""

    call: Call
    text: str


def find_call(function: Callable[..., Any], device: str, seconds: float) -> FoundCall:
    """Try arguments until `function`, a module or a plain callable, runs without an exception.

    Raises NoInputsError after `ATTEMPTS` or `seconds`. Errors that would occur with any arguments (`FINAL`) are raised
    again immediately.
    """
    search = _Search(function, device, time.process_time() + seconds)
    plain = _first_guess(function)
    stated = stated_specs(function, plain)
    if stated != plain:
        # Stated shapes may be wrong or for another kind of input, so they get only half of the attempts.
        found = search.run(stated, ATTEMPTS // 2, generic=False)
        if found is not None:
            return found
    found = search.run(plain, ATTEMPTS, generic=True)
    for more in _with_missing(function, plain, search.last.message) if found is None else ():
        found = found or search.run(more, len(search.tried) + ATTEMPTS // 2, generic=False)
    if found is None:
        furthest = first_line(search.furthest.message).removesuffix(":")
        error = NoInputsError(
            f"it did not accept any of the arguments that were tried; the attempt that got furthest raised {furthest}"
        )
        error.call = search.furthest_call
        raise error from search.usual
    return found


@dataclass(order=True)
class _Waiting:
    """Specs to try, in the order of `key`."""

    key: tuple[int, int, int]
    specs: Specs = field(compare=False)


class _Search:
    """Attempts to call a function. No attempt is repeated."""

    def __init__(self, function: Callable[..., Any], device: str, deadline: float) -> None:
        self._function = function
        self._device = device
        self._deadline = deadline
        self.tried: set[str] = set()
        self.last = self.furthest = FailedAttempt("nothing", progress=-1)
        self.furthest_call: FoundCall | None = None
        self._counts: Counter[str] = Counter()
        self._errors: dict[str, Exception | None] = {}

    @property
    def usual(self) -> Exception | None:
        """The most frequent of the first few errors."""
        return self._errors[max(self._errors, key=lambda message: self._counts[message])] if self._errors else None

    def run(self, start: Specs, most: int, *, generic: bool) -> FoundCall | None:
        """Continue from `start` until there are `most` attempts in total.

        If `generic` is true, common shapes come last.
        """
        # Responses to the error that came latest in the code come first, because each brings the arguments closer.
        waiting = [_Waiting((0, 0, 0), start)]
        later: list[Specs] = []
        usual = _generic(start) if generic else iter(())
        while len(self.tried) < most and time.process_time() < self._deadline:
            if waiting:
                specs: Specs | None = heapq.heappop(waiting).specs
            else:
                specs = later.pop(0) if later else next(usual, None)
            if specs is None:
                break
            if _key(specs) in self.tried or _unfit(specs):
                continue
            self.tried.add(_key(specs))
            made = _made(specs, self._device)
            call = _call(self._function, made)
            found = FoundCall(call, ", ".join(f"{name}={worded(value)}" for name, value in specs.items()))
            trouble = _attempt(self._function, made, call)
            if trouble is None:
                return found
            self._note(trouble, found)
            answers = itertools.chain(_with_key(self._function, specs, trouble), revisions(specs, trouble))
            for number, answer in enumerate(answers):
                if _key(answer) not in self.tried:
                    heapq.heappush(waiting, _Waiting((-trouble.progress, number, -len(self.tried)), answer))
            later[:0] = itertools.islice(sizes_in_message(specs, trouble.message), 4)
        return None

    def _note(self, trouble: FailedAttempt, call: FoundCall) -> None:
        """Remember an attempt, if it got furthest, and its error."""
        self.last = trouble
        if trouble.progress > self.furthest.progress:
            self.furthest, self.furthest_call = trouble, call
        self._counts[trouble.message] += 1
        # A traceback keeps all intermediate values alive, so only a few are stored.
        if len(self._errors) < _KEPT_ERRORS:
            self._errors.setdefault(trouble.message, trouble.error)


def _key(specs: Specs) -> str:
    """Return a text that is equal for equal specs."""
    return repr([(name, specs[name]) for name in sorted(specs)])


def _unfit(specs: Specs) -> bool:
    """Return whether a tensor would be too large or empty. Most code accepts empty tensors, so they prove nothing."""
    shapes = [spec.shape for spec in specs.values() if isinstance(spec, TensorSpec)]
    return any(not 0 < math.prod(shape) <= _MOST_ELEMENTS for shape in shapes)


def _first_guess(function: Callable[..., Any]) -> Specs:
    """Guess the required arguments by annotation, name and first layer, or `main_input_name` if none are required."""
    target = function.forward if isinstance(function, nn.Module) else function
    parameters = parameters_of(target)
    needed = [item for item in parameters if item.default is item.empty]
    if not needed:
        needed = [item for item in parameters if item.name == getattr(function, "main_input_name", None)]
    specs: dict[str, Any] = {}
    for parameter in needed:
        specs.update(_guesses(function, parameter, first=not specs))
    return specs


def _with_missing(function: Callable[..., Any], specs: Specs, message: str) -> Iterator[Specs]:
    """Yield specs with one or two of the parameters that are None by default, first those that the message names."""
    words = {*re.findall(r"\w+", message)}
    target = function.forward if isinstance(function, nn.Module) else function
    given = {name.partition("[")[0] for name in specs}
    missing = [one for one in parameters_of(target) if one.default is None and one.name not in given]
    missing = [one for one in missing if one.name in words or "NoneType" in words]
    for parameter in sorted(missing, key=lambda one: one.name not in words)[:2]:
        specs = {**specs, **_guesses(function, parameter, first=not specs)}
        yield specs


def _with_key(function: Callable[..., Any], specs: Specs, trouble: FailedAttempt) -> Iterator[Specs]:
    """Yield specs with an item under a key that only running the code shows, because it is not a literal there."""
    match = _MISSING_KEY.fullmatch(trouble.message)
    if match is None:
        return
    dicts = (name.partition("[")[0] for name, value in specs.items() if "['" in name or isinstance(value, dict))
    for parameter in dict.fromkeys(dicts):
        name, guess = f"{parameter}[{match[1]!r}]", _guess(function, match[1], Any, first=False)
        if isinstance(guess, TensorSpec):
            others = [one for item, one in specs.items() if item.startswith(f"{parameter}[")]
            alike = [one for one in others if isinstance(one, TensorSpec) and one.kind == guess.kind]
            guess = replace(guess, shape=alike[-1].shape if alike else guess.shape, high=2)
        if name not in specs and guess is not None:
            yield {**{one: value for one, value in specs.items() if one != parameter}, name: guess}


def _guesses(function: Callable[..., Any], parameter: inspect.Parameter, *, first: bool) -> Specs:
    """Return a guess for a parameter, or for each item that the code reads, or nothing if its annotation is unknown."""
    target = function.forward if isinstance(function, nn.Module) else function
    hint = _required(hints_of(target).get(parameter.name, parameter.annotation))
    read = items_read(function, parameter.name) if _may_be_dict(hint) else {}
    found: dict[str, Any] = {}
    for spec, name in (read or {parameter.name: parameter.name}).items():
        guess = _guess(function, name, Any if read else hint, first=first and not found)
        if guess is not None:
            found[spec] = guess
    return found


def _required(hint: Any) -> Any:
    """Return the annotation of a value that is given, for a value that may be None."""
    choices = [choice for choice in typing.get_args(hint) if choice is not type(None)]
    if len(choices) == 1 and typing.get_origin(hint) in (typing.Union, types.UnionType):
        return choices[0]
    return hint


def _may_be_dict(hint: Any) -> bool:
    plain = typing.get_origin(hint) or hint
    return isinstance(hint, str) or hint in (inspect.Parameter.empty, Any) or plain in (dict, Mapping, MutableMapping)


def _guess(function: Callable[..., Any], name: str, hint: Any, *, first: bool) -> Any:
    """Return a guess for a parameter with this name and annotation, or None if the annotation says nothing."""
    # Annotations with dimensions are from jaxtyping. `stated_shapes` reads them.
    unknown = isinstance(hint, str) or hint in (inspect.Parameter.empty, Any) or hasattr(hint, "dim_str")
    if (unknown or hint in KINDS) and not (unknown and name.startswith(_FLAG)):
        layers = list(function.modules()) if isinstance(function, nn.Module) else []
        wanted = next((takes[0] for layer in layers if (takes := wanted_by(layer))), GENERIC[0])
        guess = _tensor_guess(name, wanted, first=first)
        kind = KINDS.get(hint) if not unknown else None
        named = by_parameter_name(name)
        # `Tensor` does not give the dtype, but the name may.
        told_by_name = hint is torch.Tensor and named is not None and guess.kind == named.kind
        if kind is None or guess.kind == kind or told_by_name:
            return guess
        return TensorSpec(guess.shape if guess is not wanted else (BATCH, LENGTH), kind)
    if unknown:
        return by_name(name)
    with suppress(NoGuessError):
        return _tensor_inside(for_parameter(name, hint))
    return None


def _tensor_guess(name: str, wanted: TensorSpec, *, first: bool) -> TensorSpec:
    named = by_parameter_name(name)
    if named is not None and len(named.shape) == 4 and len(wanted.shape) != 4:
        return named
    if name == "input_features" and wanted.kind == "float" and len(wanted.shape) == 2:
        # Audio features over time.
        return TensorSpec((BATCH, 64, wanted.shape[-1]))
    # The first argument's shape comes from the first layer, unless the name suggests a different kind of tensor.
    if named is None or (first and named.kind == wanted.kind):
        return wanted
    return named


def _tensor_inside(value: Any) -> Any:
    return TensorSpec(tuple(value.shape)) if isinstance(value, torch.Tensor) else value


def parameters_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return a callable's named parameters, or none if it has no signature."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [item for item in parameters if item.kind not in (item.VAR_POSITIONAL, item.VAR_KEYWORD)]


def _generic(start: Specs) -> Iterator[Specs]:
    """Yield common shapes, first for all float tensors at once, then for all tensors."""
    tensors = {name: spec for name, spec in start.items() if isinstance(spec, TensorSpec)}
    floats = [name for name, spec in tensors.items() if spec.kind == "float"]
    for spec in GENERIC:
        yield {**start, **dict.fromkeys(floats, spec)}
    # A name may suggest integers although its tensor is like the others.
    for spec in GENERIC if len(floats) < len(tensors) else ():
        yield {**start, **dict.fromkeys(tensors, spec)}


def _made(specs: Specs, device: str) -> dict[str, Any]:
    """Make the values that specs describe."""
    runs.seed_torch(0)
    return {name: spec.make().to(device) if isinstance(spec, TensorSpec) else spec for name, spec in specs.items()}


def _call(function: Callable[..., Any], made: Mapping[str, Any]) -> Call:
    """Return a call with these values, positional where the signature allows it, as a user would write it."""
    target = function.forward if isinstance(function, nn.Module) else function
    args: list[Any] = []
    values = with_items(made)
    for parameter in parameters_of(target):
        if parameter.name not in values or parameter.kind == parameter.KEYWORD_ONLY:
            break
        args.append(values.pop(parameter.name))
    return tuple(args), values


def _attempt(function: Callable[..., Any], made: Mapping[str, Any], call: Call) -> FailedAttempt | None:
    """Make a call in eager mode. Return the error, if any, and the torch layer that was running."""
    args, kwargs = call
    entered: list[tuple[nn.Module, Any]] = []
    watch = OperationWatch(made)
    with watched_layers(function, entered):
        try:
            with force_eager(), watch:
                function(*args, **kwargs)
        except FINAL:
            raise
        except Exception as error:
            if _NO_MEMORY in str(error):
                raise
            layer, given = entered[-1] if entered else (None, None)
            received = given if isinstance(given, torch.Tensor) else None
            direct = next((name for name, value in made.items() if received is not None and value is received), None)
            message = f"{type(error).__name__}: {error}"
            return FailedAttempt(message, layer, received, direct, error, watch.operands, watch.progress)
    return None
