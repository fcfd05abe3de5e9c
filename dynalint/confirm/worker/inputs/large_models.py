"""Stop models that are too large to be run while they are built, and make the defaults of their classes smaller."""

from __future__ import annotations

import contextlib
import inspect
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.nn.parameter import is_lazy
from torch.utils.hooks import RemovableHandle

from .small_configs import DIVISORS, changed_values

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

# The size of a model's parameters, in bytes, from which on a smaller one is made, if possible. Each mode builds the
# model anew, which takes seconds for every gibibyte.
LARGE = 1 << 28
# The fraction of the memory limit that a model's parameters may take. They are copied, and have gradients.
_SHARE = 8


_hooks: list[RemovableHandle] = []


class TooLargeError(RuntimeError):
    """A model has more parameters than its limit allows."""


def too_large() -> int:
    """Return the size of a model's parameters, in bytes, above which it is not run."""
    # The limit also counts what was in memory before, so it is rounded down.
    limit = resource.getrlimit(resource.RLIMIT_DATA)[0] if resource is not None else -1
    return 2 * LARGE if limit < 0 else max(limit // _SHARE // LARGE, 2) * LARGE


@contextlib.contextmanager
def limited_parameters(most: int) -> Iterator[None]:
    """Raise TooLargeError as soon as the modules that the body makes have parameters of more than `most` bytes."""
    known: set[int] = set()
    size = 0

    def count(_module: nn.Module, _name: str, parameter: nn.Parameter) -> None:
        nonlocal size
        if id(parameter) not in known and not (is_lazy(parameter) or parameter.is_meta):
            known.add(id(parameter))
            size += parameter.numel() * parameter.element_size()
            if size > most:
                raise TooLargeError(f"its parameters take more than {most >> 20} MiB")

    _hooks.append(register_module_parameter_registration_hook(count))
    try:
        yield
    finally:
        _hooks.pop().remove()


def lift_limits() -> None:
    """Let the rest of the code around this make as many parameters as it likes."""
    for hook in _hooks:
        hook.remove()


@contextlib.contextmanager
def small_defaults(classes: Iterable[type], divisor: int = DIVISORS[0]) -> Iterator[None]:
    """Reduce the default arguments of the constructors of some models, as if they were fields of configs."""
    former = [(method, method.__defaults__, method.__kwdefaults__) for method in _constructors(classes)]
    for method, positional, by_name in former:
        smaller = {**_defaults_of(method), **dict(changed_values(_defaults_of(method), divisor))}
        method.__defaults__ = tuple(smaller.values())[: len(positional or ())] or None
        method.__kwdefaults__ = {name: smaller[name] for name in by_name or ()} or None
    try:
        yield
    finally:
        for method, positional, by_name in former:
            method.__defaults__, method.__kwdefaults__ = positional, by_name


def built(cls: type, arguments: Mapping[str, Any]) -> Any:
    """Return an instance of a class. If it is a large model, it is made smaller.

    Raises:
        TooLargeError: If it is still too large.
    """
    try:
        with limited_parameters(LARGE):
            return cls(**arguments)
    except TooLargeError:
        with small_defaults(cls.__mro__), limited_parameters(too_large()):
            return cls(**arguments)


def has_large_defaults(classes: Iterable[type]) -> bool:
    """Return whether `small_defaults` would change any of the classes."""
    return any(True for method in _constructors(classes) for _ in changed_values(_defaults_of(method), DIVISORS[0]))


def _constructors(classes: Iterable[type]) -> list[types.FunctionType]:
    # A constructor may be wrapped by what watches it.
    methods = (vars(cls).get("__init__") for cls in classes if issubclass(cls, nn.Module))
    unwrapped = (inspect.unwrap(method) for method in methods if method is not None)
    return list(dict.fromkeys(method for method in unwrapped if isinstance(method, types.FunctionType)))


def _defaults_of(method: types.FunctionType) -> dict[str, Any]:
    """Return the default arguments of a function by name, those of positional parameters first."""
    positional = method.__defaults__ or ()
    count = method.__code__.co_argcount
    names = method.__code__.co_varnames[count - len(positional) : count]
    return {**dict(zip(names, positional, strict=True)), **(method.__kwdefaults__ or {})}
