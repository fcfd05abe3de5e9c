"""Find arguments that a callable runs with: its constructor's by guesses, its tensors' by trial and error.

Everything is deterministic: the same code gives the same inputs. Attempts are bounded in number and in seconds.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from .guesses import NoGuessError, Settings, by_name, constructor_arguments, for_parameter, hints_of
from .shapes import GENERIC, Specs, TensorSpec, Trouble, by_parameter_name, revisions, wanted_by
from .witness import Call, force_eager

ATTEMPTS = 24
# What no other arguments would change: the sandbox's walls, a missing package, an end asked for.
_FINAL = (OSError, EOFError, ImportError, MemoryError, RecursionError, SystemExit, KeyboardInterrupt)
_NO_MEMORY = "can't allocate memory"
_FLAG = ("return_", "use_", "is_", "need_", "output_", "with_", "do_", "training", "verbose", "inplace")


class NoInputsError(Exception):
    """No arguments were found that the callable runs with; the text says what was tried last and what it raised."""


@dataclass(frozen=True)
class Found:
    """Arguments that work: one call, and the constructor's and the call's arguments in words."""

    call: Call
    text: str


def constructor_call(cls: type) -> tuple[Callable[[], Any], str]:
    """Return a maker of instances by guessed arguments, and the expression it stands for.

    Raises NoInputsError where a parameter cannot be guessed. What the constructor raises comes from the maker.
    """
    try:
        arguments = constructor_arguments(cls)
    except NoGuessError as error:
        raise NoInputsError(f"{cls.__name__} cannot be built: {error}") from error
    text = ", ".join(f"{name}={_worded(value)}" for name, value in arguments.items())
    return (lambda: cls(**arguments)), f"{cls.__name__}({text})"


def find_call(function: Callable[..., Any], device: str, seconds: float) -> Found:
    """Try arguments until `function`, a module or a plain callable, runs without an exception.

    Raises NoInputsError after `ATTEMPTS` or `seconds`, and at once what no other arguments would change (`_FINAL`).
    """
    deadline = time.monotonic() + seconds
    start = _first_guess(function)
    waiting: list[Specs] = [start]
    tried: set[str] = set()
    generic = _generic(start)
    last = Trouble("nothing")
    while len(tried) < ATTEMPTS and time.monotonic() < deadline:
        specs = waiting.pop(0) if waiting else next(generic, None)
        if specs is None:
            break
        if repr(specs) in tried:
            continue
        tried.add(repr(specs))
        call = _call(function, specs, device)
        trouble = _attempt(function, specs, call)
        if trouble is None:
            return Found(call, ", ".join(f"{name}={_worded(value)}" for name, value in specs.items()))
        answers = list(revisions(specs, trouble))
        # An answer to the newest error goes first: each one brings the arguments a step nearer.
        waiting[:0] = [answer for answer in answers if repr(answer) not in tried]
        last = trouble
    raise NoInputsError(f"no arguments were found that it runs with; the last try raised {first_line(last.message)}")


def _first_guess(function: Callable[..., Any]) -> Specs:
    """Start from annotations, names, and what the first layer wants."""
    target = function.forward if isinstance(function, nn.Module) else function
    hints = hints_of(target)
    layers = list(function.modules()) if isinstance(function, nn.Module) else []
    wanted = next((takes[0] for layer in layers if (takes := wanted_by(layer))), GENERIC[0])
    specs: dict[str, Any] = {}
    for parameter in parameters_of(target):
        if parameter.default is not parameter.empty:
            continue
        hint = hints.get(parameter.name, parameter.annotation)
        unknown = isinstance(hint, str) or hint in (parameter.empty, Any)
        if (unknown or hint is torch.Tensor) and not parameter.name.startswith(_FLAG):
            specs[parameter.name] = _tensor_guess(parameter.name, wanted, first=not specs)
        elif unknown:
            specs[parameter.name] = by_name(parameter.name)
        else:
            with suppress(NoGuessError):
                specs[parameter.name] = _tensor_inside(for_parameter(parameter.name, hint))
    return specs


def _tensor_guess(name: str, wanted: TensorSpec, *, first: bool) -> TensorSpec:
    named = by_parameter_name(name)
    # The first argument goes where the first layer says, unless the name speaks of integers and the layer does not.
    if named is None or (first and named.kind == wanted.kind):
        return wanted
    return named


def _tensor_inside(value: Any) -> Any:
    return TensorSpec(tuple(value.shape)) if isinstance(value, torch.Tensor) else value


def parameters_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters that a callable names, none where it has no signature."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [item for item in parameters if item.kind not in (item.VAR_POSITIONAL, item.VAR_KEYWORD)]


def _generic(start: Specs) -> Iterator[Specs]:
    """Yield the usual shapes for all float tensors at once, where no error message helps."""
    floats = [name for name, spec in start.items() if isinstance(spec, TensorSpec) and spec.kind == "float"]
    for spec in GENERIC:
        yield {**start, **dict.fromkeys(floats, spec)}


def _call(function: Callable[..., Any], specs: Specs, device: str) -> Call:
    """Make the arguments; positional where the signature allows it, as a user would write the call."""
    torch.manual_seed(0)
    made = {name: spec.make().to(device) if isinstance(spec, TensorSpec) else spec for name, spec in specs.items()}
    target = function.forward if isinstance(function, nn.Module) else function
    args: list[Any] = []
    for parameter in parameters_of(target):
        if parameter.name not in made or parameter.kind == parameter.KEYWORD_ONLY:
            break
        args.append(made.pop(parameter.name))
    return tuple(args), made


def _attempt(function: Callable[..., Any], specs: Specs, call: Call) -> Trouble | None:
    """Run once without a compiler; return what went wrong, and in which layer of torch's."""
    args, kwargs = call
    entered: list[tuple[nn.Module, Any]] = []
    with _watched_layers(function, entered):
        try:
            with force_eager():
                function(*args, **kwargs)
        except _FINAL:
            raise
        except Exception as error:
            if _NO_MEMORY in str(error):
                raise
            layer, given = entered[-1] if entered else (None, None)
            received = given if isinstance(given, torch.Tensor) else None
            # `_call` puts the first of the specs into `args`, in their order.
            named = {**dict(zip(specs, args, strict=False)), **kwargs}
            direct = next((name for name, value in named.items() if received is not None and value is received), None)
            return Trouble(f"{type(error).__name__}: {error}", layer, received, direct)
    return None


@contextmanager
def _watched_layers(function: Callable[..., Any], entered: list[tuple[nn.Module, Any]]) -> Iterator[None]:
    """Keep in `entered` the layers of torch's that are running, each with its first argument."""
    handles = []

    def enter(layer: nn.Module, args: Any) -> None:
        entered.append((layer, args[0] if args else None))

    def leave(_layer: nn.Module, _args: Any, _result: Any) -> None:
        entered.pop()

    if isinstance(function, nn.Module):
        for layer in function.modules():
            if wanted_by(layer):
                handles += [layer.register_forward_pre_hook(enter), layer.register_forward_hook(leave)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def first_line(text: str) -> str:
    """Return the first line that says something, at most 200 characters of it."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= 200 else f"{line[:197]}..."


def _worded(value: Any) -> str:
    """Return a short expression for a value, for the report."""
    if isinstance(value, torch.Tensor):
        value = TensorSpec(tuple(value.shape), "float" if value.is_floating_point() else "int")
    if isinstance(value, TensorSpec):
        return f"{value.kind}[{', '.join(map(str, value.shape))}]"
    if isinstance(value, (nn.Module, Settings)):
        return first_line(repr(value))
    return first_line(getattr(value, "__name__", None) or repr(value))
