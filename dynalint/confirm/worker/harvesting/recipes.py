"""Write values as JSON data, which any process can use to recreate them with any version of the project's code.

A module is recreated by its constructor, with the project's arguments. Tensors have the same values or, if they are
large, values drawn from the same range. Other objects are recreated the way `copy` would copy them. Names refer to the
code that is imported by the process that recreates the values.
"""

from __future__ import annotations

import base64
import copy
import functools
import importlib
import json
import pickle
import sys
import types
import weakref
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial, reduce
from typing import Any

import torch
from torch import nn

from ..dynamo.runs import Call, Maker
from ..source import loading

# Limits for a recipe: the number of values, their nesting, and the characters in its text and in a line of it.
_MOST_VALUES = 1 << 14
_DEEPEST = 40
_MOST_TEXT = 1 << 20
_LINE = 1 << 15
# Limits for a tensor's bytes, uncompressed and compressed.
_MOST_BYTES = 1 << 23
_MOST_PACKED = 1 << 16
_PLAIN = (nn.Parameter, nn.Buffer, torch.Tensor)


class NoRecipeError(Exception):
    """A value that cannot be recreated elsewhere. The message explains why."""


def recipe_of(subject: Any, call: Call, constructions: Constructions) -> list[str]:
    """Return the recipe for a callable and a call to it, as lines of text.

    Raises:
        NoRecipeError: If part of it cannot be recreated.
    """
    writer = _Writer(constructions)
    args, kwargs = call
    parts = [writer.written(one) for one in (subject, tuple(args), kwargs)]
    text = json.dumps(parts, separators=(",", ":"))
    if len(text) > _MOST_TEXT:
        raise NoRecipeError("it is too large to be recreated")
    return [text[start : start + _LINE] for start in range(0, len(text), _LINE)]


def maker_of(recipe: Iterable[str]) -> tuple[Maker, Call]:
    """Return a maker for a recipe's callable, and the call. Raises whatever user code raises."""
    subject, args, kwargs = json.loads("".join(recipe))
    return partial(made, subject), (made(args), made(kwargs))


class Constructions:
    """Remembers the arguments that the project's own modules are constructed with."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[nn.Module], dict[str, Any] | None]] = {}
        self._watched: set[type] = set()

    def of(self, module: nn.Module) -> dict[str, Any] | None:
        """Return how a module was constructed, or None if this is unknown."""
        reference, found = self._known.get(id(module), (None, None))
        return found if reference is not None and reference() is module else None

    def watch(self, files: Iterable[str]) -> None:
        """Watch the constructors of all module classes that are defined in the imported `files`."""
        wanted = set(files)
        for module in list(sys.modules.values()):
            file = loading.file_of(module)
            if file is not None and loading.real_path(file) in wanted:
                for cls in list(vars(module).values()):
                    if isinstance(cls, type) and issubclass(cls, nn.Module) and cls.__module__ == module.__name__:
                        self._watch(cls)

    def _watch(self, cls: type) -> None:
        original = vars(cls).get("__init__")
        if cls in self._watched or not isinstance(original, types.FunctionType):
            return
        self._watched.add(cls)

        @functools.wraps(original)
        def construct(module: nn.Module, /, *args: Any, **kwargs: Any) -> None:
            reference, _ = self._known.get(id(module), (None, None))
            if reference is None or reference() is not module:  # Otherwise, a base class's constructor is called.
                self._known[id(module)] = weakref.ref(module), self._written(type(module), args, kwargs)
            original(module, *args, **kwargs)

        setattr(cls, "__init__", construct)  # noqa: B010 - mypy rejects an assignment

    def _written(self, cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
        # This is serialized now because the constructor may change its arguments.
        try:
            writer = _Writer(self)
            return {"build": [writer.written(cls), writer.written(args), writer.written(kwargs)]}
        except NoRecipeError:
            return None


class _Writer:
    """Writes the parts of a recipe."""

    def __init__(self, constructions: Constructions) -> None:
        self._constructions = constructions
        self._count = 0
        self._depth = 0

    def written(self, value: Any) -> Any:
        """Return a value as JSON data.

        Plain values are unchanged. Any other value becomes an object whose key says how to recreate the value.
        """
        self._count += 1
        self._depth += 1
        if self._count > _MOST_VALUES or self._depth > _DEEPEST:
            raise NoRecipeError("it is too large to be recreated")
        try:
            return self._written(value)
        finally:
            self._depth -= 1

    def _written(self, value: Any) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return {"float": value.hex()}
        if kind is bytes:
            return {"bytes": base64.b64encode(value).decode()}
        if kind is list:
            return [self.written(item) for item in value]
        if kind is tuple:
            return {"tuple": [self.written(item) for item in value]}
        if kind is dict:
            return {"dict": [[self.written(name), self.written(item)] for name, item in value.items()]}
        if isinstance(value, torch.Tensor):
            return {"tensor": _tensor(value)}
        if isinstance(value, nn.Module):
            built = self._constructions.of(value)
            if built is not None:
                return {"module": [built, value.training]}
        if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
            return _name(value)
        return self._reduced(value)

    def _reduced(self, value: Any) -> Any:
        try:
            parts = value.__reduce_ex__(4)
        except Exception as error:
            raise NoRecipeError(f"a {type(value).__name__} cannot be recreated: {error}") from error
        if isinstance(parts, str):
            return _name(value, parts)
        function, args, state, items, pairs = (*parts, None, None, None)[:5]
        more = [list(items) if items is not None else None, [list(one) for one in pairs] if pairs is not None else None]
        return {"reduced": [self.written(one) for one in (function, tuple(args), state, *more)]}


def _name(value: Any, *names: str) -> dict[str, list[str]]:
    """Return the name that a value can be imported by."""
    # The qualified names of functions such as `torch.add` start with a class that cannot be imported.
    for name in names or (value.__qualname__, value.__name__):
        module = pickle.whichmodule(value, name)  # type: ignore[attr-defined]
        with suppress(AttributeError, KeyError):
            if module != "__main__" and reduce(getattr, name.split("."), sys.modules[module]) is value:
                return {"name": [module, name]}
    raise NoRecipeError(f"`{names[0] if names else value.__qualname__}` cannot be imported by its name")


def _tensor(tensor: torch.Tensor) -> dict[str, Any]:
    kind = type(tensor)
    size = tensor.numel() * tensor.element_size()
    if kind not in _PLAIN or tensor.layout != torch.strided or tensor.is_meta or size > _MOST_BYTES:
        raise NoRecipeError(f"a {kind.__name__} of {size} bytes cannot be recreated")
    flat = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    packed = zlib.compress(_bytes_of(flat))
    if len(packed) <= _MOST_PACKED:
        values: dict[str, Any] = {"packed": base64.b64encode(packed).decode()}
    else:
        values = {"range": [float(bound).hex() for bound in (flat.float().min(), flat.float().max())]}
    dtype = str(tensor.dtype).removeprefix("torch.")
    return {"dtype": dtype, "shape": list(tensor.shape), "kind": _PLAIN.index(kind), **values, "grad": _asks(tensor)}


def _asks(tensor: torch.Tensor) -> bool:
    return bool(tensor.requires_grad and tensor.is_leaf)


def _bytes_of(flat: torch.Tensor) -> bytes:
    if not flat.numel():
        return b""
    room = bytearray(flat.numel() * flat.element_size())
    torch.frombuffer(room, dtype=torch.uint8).copy_(flat.view(torch.uint8))
    return bytes(room)


class _Reduced:
    """A placeholder for an object that `copy` will create."""

    def __init__(self, parts: tuple[Any, ...]) -> None:
        self._parts = parts

    def __reduce_ex__(self, _protocol: Any) -> tuple[Any, ...]:
        return self._parts


def made(written: Any) -> Any:
    """Create the value that a recipe describes."""
    if isinstance(written, list):
        return [made(item) for item in written]
    if not isinstance(written, dict):
        return written
    ((kind, content),) = written.items()
    return _MADE[kind](content)


def _made_module(content: Any) -> nn.Module:
    cls, args, kwargs = map(made, content[0]["build"])
    module: nn.Module = cls(*args, **kwargs)
    return module if module.training == content[1] else module.train(content[1])


def _made_tensor(data: Mapping[str, Any]) -> torch.Tensor:
    dtype, shape = getattr(torch, data["dtype"]), data["shape"]
    if "packed" in data:
        content = bytearray(zlib.decompress(base64.b64decode(data["packed"])))
        flat = torch.frombuffer(content, dtype=dtype) if content else torch.empty(0, dtype=dtype)
        tensor = flat.reshape(shape).clone()
    else:
        low, high = map(float.fromhex, data["range"])
        drawn = torch.rand(shape, generator=torch.Generator().manual_seed(0))
        whole = not (dtype.is_floating_point or dtype.is_complex)
        tensor = (low + drawn * (high - low + whole)).clamp(low, high).to(dtype)
    kind = _PLAIN[data["kind"]]
    if kind is nn.Parameter:
        return nn.Parameter(tensor, requires_grad=data["grad"])
    return (nn.Buffer(tensor) if kind is nn.Buffer else tensor).requires_grad_(data["grad"])


def _named(content: Any) -> Any:
    module, qualname = content
    return reduce(getattr, qualname.split("."), importlib.import_module(module))


def _made_reduced(content: Any) -> Any:
    function, args, state, items, pairs = map(made, content)
    rest = (state, None if items is None else iter(items), None if pairs is None else iter(map(tuple, pairs)))
    return copy.copy(_Reduced((function, args, *rest)))


_MADE: dict[str, Callable[[Any], Any]] = {
    "float": float.fromhex,
    "bytes": base64.b64decode,
    "tuple": lambda content: tuple(map(made, content)),
    "dict": lambda content: {made(name): made(item) for name, item in content},
    "tensor": _made_tensor,
    "module": _made_module,
    "name": _named,
    "reduced": _made_reduced,
}
