"""Run a torch call, and observe its result and effects."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from dynalint.analysis.torch_kinds import ApiKind
from scripts.torch_api.calls import (
    Call,
    changed,
    copied,
    deeper,
    fixed_randomness,
    hint_of,
    leaves_of,
    longer,
    same,
    tensors_in,
    with_other_data,
)
from scripts.torch_api.results import Arguments, Objects, class_of, result_kind

# Pointwise operators that torch does not tag as pointwise.
_POINTWISE_TOO = {"floor_divide", "rsub", "hardswish", "zeros_like", "ones_like", "full_like", "fill", "zero",
                  "masked_fill", "_to_copy", "isin", "positive", "conj_physical", "log_sigmoid_forward", "threshold",
                  "polar", "complex", "detach", "alias"}  # fmt: skip
# Operators that only prepare the arguments of pointwise operators.
_PLUMBING = {"scalar_tensor", "lift_fresh", "expand", "empty_like", "copy", "_conj"}
_ON_DATA = {"data_dependent", "dynamic_shape"}
_IMPURE = {"random", *_ON_DATA}


@dataclass(frozen=True)
class Seen:
    """What was observed for a call.

    `positional` and `keywords` are hints in the loader's form. `rank` is the highest rank of the tensor arguments, or
    None if the result's rank does not depend on it (for dims, an empty list means all of them). `classes` are the dtype
    classes of these tensors.
    """

    positional: tuple[str, ...]
    keywords: Mapping[str, str]
    kind: ApiKind
    flags: frozenset[str]
    rank: int | None
    classes: frozenset[str]

    @property
    def mixed(self) -> bool:
        """Whether there were both bool and int tensors, in which case the highest class may be an index's class."""
        return {"b", "i"} <= self.classes

    @property
    def complex(self) -> bool:
        """Whether there was a complex tensor. torch often computes with the parts of complex numbers."""
        return "c" in self.classes


class _Recorder(TorchDispatchMode):  # type: ignore[misc]  # torch does not type it
    """Records every operator that reaches the dispatcher."""

    def __init__(self) -> None:
        super().__init__()
        self.flags: set[str] = set()
        self.ran = 0
        self.pointwise = 0
        self.others = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        tags = func.tags
        if torch.Tag.nondeterministic_seeded in tags:
            self.flags.add("random")
        if torch.Tag.data_dependent_output in tags:
            self.flags.add("data_dependent")
        if torch.Tag.dynamic_output_shape in tags and not _indexes_by_position(func, args):
            self.flags.add("dynamic_shape")
        name = func._schema.name.removeprefix("aten::").removesuffix("_")  # noqa: SLF001
        self.ran += 1
        if torch.Tag.pointwise in tags or is_pointwise(name):
            self.pointwise += 1
        elif name not in _PLUMBING:
            self.others += 1
        return func(*args, **(kwargs or {}))

    @property
    def computes_pointwise(self) -> bool:
        """Return whether any operators ran, and all of them were pointwise."""
        return bool(self.pointwise) and not self.others


@functools.cache
def is_pointwise(name: str) -> bool:
    """Return whether an aten operator computes each element from the elements at the same position."""
    packet = getattr(torch.ops.aten, name, None)
    names = [one for one in packet.overloads() if not one.endswith("out")] if packet is not None else []
    tagged = [torch.Tag.pointwise in getattr(packet, one).tags for one in names]
    return name in _POINTWISE_TOO or (bool(tagged) and all(tagged))


def observe(function: Callable[..., Any], call: Call, objects: Objects, *, is_method: bool) -> Seen | None:
    """Run `function` on a copy of the arguments, and return what was observed, or None if it raises."""
    args, kwargs = copied(call.args), copied(dict(call.kwargs))
    recorder = _Recorder()
    tensors = list(tensors_in((args, kwargs)))
    versions = [tensor._version for tensor in tensors]  # noqa: SLF001
    try:
        with fixed_randomness(), recorder:
            result = function(*args, **kwargs)
    except Exception:  # noqa: BLE001  whatever a call raises, it is no sample
        return None
    if result is NotImplemented:
        return None
    flags = set(recorder.flags)
    if flags & _ON_DATA:
        flags = _as_traced(function, call, flags)
    if [tensor._version for tensor in tensors] != versions:  # noqa: SLF001
        flags.add("mutating")
    returns_receiver = bool(args) and result is args[0]
    # Converting to the same dtype and device does nothing.
    idle = returns_receiver and not recorder.ran and not _is_in_place(function)
    pointwise = idle or (recorder.computes_pointwise and _has_broadcast_shape(result, tensors) and not flags & _IMPURE)
    kind = result_kind(result, Arguments(call, pointwise=pointwise), objects)
    if returns_receiver and ("mutating" in flags or _is_in_place(function)):
        kind = ApiKind("self")
        flags.add("mutating")
    elif any(one.name == "python" for one in kind.walk()):
        kind = _trace_back(function, call, kind, flags)
    if pointwise and kind.name in ("tensor", "self"):
        flags.add("elementwise")
    return _seen(call, kind, flags, is_method=is_method)


def _seen(call: Call, kind: ApiKind, flags: set[str], *, is_method: bool) -> Seen:
    tensors = list(tensors_in((call.args, dict(call.kwargs))))
    shown = call.args[1:] if is_method else call.args
    return Seen(
        tuple(map(hint_of, shown)),
        {name: hint_of(value) for name, value in call.kwargs.items()},
        kind,
        frozenset(flags),
        rank=None if [] in map(_as_list, shown) else max((one.ndim for one in tensors), default=2),
        classes=frozenset(class_of(tensor.dtype) for tensor in tensors),
    )


def _trace_back(function: Callable[..., Any], call: Call, kind: ApiKind, flags: set[str]) -> ApiKind:
    """Classify the plain Python values in a result by whether they depend on tensor data, on shapes, or on neither."""
    first, again, other, *reshaped = (
        _outcome(function, changed(call, change)) for change in (same, same, with_other_data, longer, deeper)
    )
    if first != again:
        return kind  # an address, for example
    if "data_dependent" in flags or (other is not None and other != first):
        flags.add("data_dependent")
        return _renamed(kind, "data")
    numbers = kind.type == "int" or kind.name in ("tuple", "list")
    if numbers and any(one is not None and one != first for one in reshaped):
        return ApiKind("size") if kind.name == "tuple" else _renamed(kind, "dim")
    return kind


def _as_traced(function: Callable[..., Any], call: Call, flags: set[str]) -> set[str]:
    """Only keep a call's data dependencies if a tracer that has shapes but no data would fail on the call."""
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        try:
            args, kwargs = tree_map_only(torch.Tensor, mode.from_tensor, (copied(call.args), copied(dict(call.kwargs))))
            function(*args, **kwargs)
        except DynamicOutputShapeException:
            return (flags - _ON_DATA) | {"dynamic_shape"}
        except DataDependentOutputException:
            return (flags - _ON_DATA) | {"data_dependent"}
        except Exception:  # noqa: BLE001  a function that no fake tensor can go through: believe what was seen
            return flags
    return flags - _ON_DATA


def _renamed(kind: ApiKind, name: str) -> ApiKind:
    if kind.name == "python" and (name == "data" or kind.type == "int"):
        return ApiKind("dim") if name == "dim" else ApiKind("data", type=kind.type)
    return replace(kind, items=tuple(_renamed(item, name) for item in kind.items)) if kind.items else kind


def _outcome(function: Callable[..., Any], call: Call) -> Any:
    try:
        with fixed_randomness():
            result = function(*copied(call.args), **copied(dict(call.kwargs)))
    except Exception:  # noqa: BLE001
        return None
    return repr(list(leaves_of(result)))


def _has_broadcast_shape(result: Any, arguments: Sequence[torch.Tensor]) -> bool:
    try:
        shape = torch.broadcast_shapes(*(one.shape for one in arguments))
    except RuntimeError:
        return False
    return isinstance(result, torch.Tensor) and result.shape == shape


def _as_list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _indexes_by_position(func: Any, args: tuple[Any, ...]) -> bool:
    """Return whether an index operator's indices contain no mask, so that its shape only depends on shapes."""
    if func._schema.name != "aten::index":  # noqa: SLF001
        return False
    return not any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1])


def _is_in_place(function: Callable[..., Any]) -> bool:
    name = getattr(function, "__name__", "")
    return name.endswith("_") and not name.endswith("__")
