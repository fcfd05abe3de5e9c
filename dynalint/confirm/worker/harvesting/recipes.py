"""Pickle calls, so that any process can recreate them with any version of the project's code.

A module is recreated by its constructor, with the project's arguments. Tensors have the same values or, if they are
large, values drawn from the same range. Names refer to the code that is imported by the process that recreates the
values, which is always in the sandbox.
"""

from __future__ import annotations

import base64
import functools
import io
import pickle
import sys
import types
import weakref
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from ..dynamo.runs import Call, Maker
from ..source import loading

# Limits for the characters in a recipe's text and in a line of it.
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
    pickles = [_pickled(one, constructions) for one in (subject, (tuple(call[0]), call[1]))]
    text = base64.b64encode(zlib.compress(pickle.dumps(pickles))).decode()
    if len(text) > _MOST_TEXT:
        raise NoRecipeError("it is too large to be recreated")
    return [text[start : start + _LINE] for start in range(0, len(text), _LINE)]


def maker_of(recipe: Iterable[str]) -> tuple[Maker, Call]:
    """Return a maker for a recipe's callable, and the call. Raises whatever user code raises."""
    subject, call = pickle.loads(zlib.decompress(base64.b64decode("".join(recipe))))  # noqa: S301 - in the sandbox
    return functools.partial(pickle.loads, subject), pickle.loads(call)  # noqa: S301


class Constructions:
    """Remembers the arguments that the project's own modules are constructed with."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[nn.Module], bytes | None]] = {}
        self._watched: dict[type, Any] = {}

    def of(self, module: nn.Module) -> bytes | None:
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

    def end(self) -> None:
        """Stop watching, because Dynamo would trace the code that does it."""
        for cls, original in self._watched.items():
            setattr(cls, "__init__", original)  # noqa: B010 - mypy rejects an assignment
        self._watched.clear()

    def _watch(self, cls: type) -> None:
        original = vars(cls).get("__init__")
        if cls in self._watched or not isinstance(original, types.FunctionType):
            return
        self._watched[cls] = original

        @functools.wraps(original)
        def construct(module: nn.Module, /, *args: Any, **kwargs: Any) -> None:
            reference, _ = self._known.get(id(module), (None, None))
            if reference is None or reference() is not module:  # Otherwise, a base class's constructor is called.
                self._known[id(module)] = weakref.ref(module), self._written(type(module), args, kwargs)
            original(module, *args, **kwargs)

        setattr(cls, "__init__", construct)  # noqa: B010 - mypy rejects an assignment

    def _written(self, cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes | None:
        # This is serialized now because the constructor may change its arguments.
        try:
            return _pickled((cls, args, kwargs), self)
        except NoRecipeError:
            return None


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, constructions: Constructions) -> None:
        super().__init__(file)
        self._constructions = constructions

    def reducer_override(self, value: Any) -> Any:
        """Return what is needed to recreate tensors and modules, and the names of functions found only in `torch`."""
        if isinstance(value, torch.Tensor):
            return _made_tensor, (_tensor(value),)
        if isinstance(value, nn.Module):
            built = self._constructions.of(value)
            return NotImplemented if built is None else (_made_module, (built, value.training))
        if isinstance(value, (type, types.FunctionType)) and value.__module__ == "__main__":
            raise NoRecipeError(f"`{value.__qualname__}` cannot be imported by its name")
        # The qualified names of functions such as `torch.add` start with a class that cannot be imported.
        return value.__name__ if isinstance(value, types.BuiltinFunctionType) else NotImplemented


def _pickled(value: Any, constructions: Constructions) -> bytes:
    file = io.BytesIO()
    try:
        _Pickler(file, constructions).dump(value)
    except NoRecipeError:
        raise
    except Exception as error:
        raise NoRecipeError(f"it cannot be recreated: {error}") from error
    return file.getvalue()


def _tensor(tensor: torch.Tensor) -> dict[str, Any]:
    kind = type(tensor)
    size = tensor.numel() * tensor.element_size()
    if kind not in _PLAIN or tensor.layout != torch.strided or tensor.is_meta or size > _MOST_BYTES:
        raise NoRecipeError(f"a {kind.__name__} of {size} bytes cannot be recreated")
    flat = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    packed = zlib.compress(_bytes_of(flat))
    if len(packed) <= _MOST_PACKED:
        values: dict[str, Any] = {"packed": packed}
    else:
        values = {"range": [float(bound) for bound in (flat.float().min(), flat.float().max())]}
    grad = tensor.requires_grad and tensor.is_leaf
    return {"dtype": tensor.dtype, "shape": tuple(tensor.shape), "kind": _PLAIN.index(kind), **values, "grad": grad}


def _bytes_of(flat: torch.Tensor) -> bytes:
    if not flat.numel():
        return b""
    room = bytearray(flat.numel() * flat.element_size())
    torch.frombuffer(room, dtype=torch.uint8).copy_(flat.view(torch.uint8))
    return bytes(room)


def _made_module(built: bytes, training: bool) -> nn.Module:
    cls, args, kwargs = pickle.loads(built)  # noqa: S301 - in the sandbox
    module: nn.Module = cls(*args, **kwargs)
    return module if module.training == training else module.train(training)


def _made_tensor(data: Mapping[str, Any]) -> torch.Tensor:
    dtype, shape = data["dtype"], data["shape"]
    if "packed" in data:
        content = bytearray(zlib.decompress(data["packed"]))
        flat = torch.frombuffer(content, dtype=dtype) if content else torch.empty(0, dtype=dtype)
        tensor = flat.reshape(shape).clone()
    else:
        low, high = data["range"]
        drawn = torch.rand(shape, generator=torch.Generator().manual_seed(0))
        whole = not (dtype.is_floating_point or dtype.is_complex)
        tensor = (low + drawn * (high - low + whole)).clamp(low, high).to(dtype)
    kind = _PLAIN[data["kind"]]
    if kind is nn.Parameter:
        return nn.Parameter(tensor, requires_grad=data["grad"])
    return (nn.Buffer(tensor) if kind is nn.Buffer else tensor).requires_grad_(data["grad"])
