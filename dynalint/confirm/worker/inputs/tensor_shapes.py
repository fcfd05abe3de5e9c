"""The shapes and kinds of tensor arguments: what layers require, and what error messages suggest."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from .guessed_values import BATCH, LENGTH, WIDTH

_IMAGE = {1: 32, 2: 32, 3: 16}
_SIDES = (28, 64, 224, 96, 16, 128, 8)


@dataclass(frozen=True)
class TensorSpec:
    """A tensor to create. `kind` is `float`, `int` (from `low` to `high`, exclusive) or `bool`."""

    shape: tuple[int, ...]
    kind: str = "float"
    high: int = 2
    low: int = 0

    def make(self) -> torch.Tensor:
        """Create the tensor with torch's random numbers."""
        if self.kind == "int":
            return torch.randint(self.low, max(self.high, self.low + 1), self.shape)
        if self.kind == "bool":
            return torch.rand(self.shape) > 0.3
        return torch.randn(self.shape)


Specs = Mapping[str, Any]
"""A value for each parameter by name. A TensorSpec represents a tensor to create."""


@dataclass(frozen=True)
class FailedAttempt:
    """Why an attempt failed: the message, and the layer that was running with its input tensor."""

    message: str
    layer: nn.Module | None = None
    received: torch.Tensor | None = None
    direct: str | None = None
    """The parameter that was passed to the layer unchanged."""
    error: Exception | None = None


def wanted_by(layer: nn.Module) -> list[TensorSpec]:
    """Return the inputs that a torch layer accepts, most likely first, or nothing if it accepts anything."""
    if isinstance(layer, nn.Linear):
        return [TensorSpec((BATCH, layer.in_features)), TensorSpec((BATCH, LENGTH, layer.in_features))]
    if isinstance(layer, nn.modules.conv._ConvNd):  # noqa: SLF001 - the common base of all convolutions
        rank = len(layer.kernel_size)
        return [TensorSpec((BATCH, layer.in_channels, *(_IMAGE[rank],) * rank))]
    if isinstance(layer, (nn.Embedding, nn.EmbeddingBag)):
        return [
            TensorSpec((BATCH, LENGTH), "int", layer.num_embeddings),
            TensorSpec((BATCH,), "int", layer.num_embeddings),
        ]
    if isinstance(layer, nn.LayerNorm):
        tail = tuple(layer.normalized_shape)
        return [TensorSpec((BATCH, *tail)), TensorSpec((BATCH, LENGTH, *tail))]
    if isinstance(layer, nn.modules.batchnorm._NormBase):  # noqa: SLF001 - batch and instance norms
        rank = {"1": 1, "2": 2, "3": 3}.get(type(layer).__name__[-2:-1], 2)
        narrow = [TensorSpec((BATCH, layer.num_features))] if isinstance(layer, nn.BatchNorm1d) else []
        return [*narrow, TensorSpec((BATCH, layer.num_features, *(_IMAGE[rank],) * rank))]
    if isinstance(layer, nn.GroupNorm):
        return [TensorSpec((BATCH, layer.num_channels, 16, 16)), TensorSpec((BATCH, layer.num_channels))]
    if isinstance(layer, (nn.RNNBase, nn.MultiheadAttention)):
        size = layer.input_size if isinstance(layer, nn.RNNBase) else layer.embed_dim
        lead = (BATCH, LENGTH) if layer.batch_first else (LENGTH, BATCH)
        return [TensorSpec((*lead, size))]
    if isinstance(layer, (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)):
        return wanted_by(layer.self_attn)
    return []


KINDS: Mapping[Any, str] = {
    torch.Tensor: "float",
    torch.FloatTensor: "float",
    torch.DoubleTensor: "float",
    torch.LongTensor: "int",
    torch.IntTensor: "int",
    torch.BoolTensor: "bool",
}


def by_parameter_name(name: str) -> TensorSpec | None:
    """Return a typical tensor for a parameter with this name, or None if the name suggests nothing."""
    bare = name.lower()
    if re.search(r"(^|_)(ids?|idx|index|indices|tokens?|labels?|targets?|src|tgt|words|positions?)(_|$|\d)", bare):
        return TensorSpec((BATCH, LENGTH), "int", 2)
    if re.search(r"mask", bare):
        return TensorSpec((BATCH, LENGTH), "bool")
    if re.search(r"^(t|time_?steps?|lengths?|lens)$|_(lengths?|lens)$", bare):
        return TensorSpec((BATCH,), "int", LENGTH, low=int("len" in bare))
    if re.search(r"(^|_)(img|image|images|pixel_values|picture)", bare):
        return TensorSpec((BATCH, 3, 32, 32))
    return None


GENERIC: tuple[TensorSpec, ...] = (
    TensorSpec((BATCH, WIDTH)),
    TensorSpec((BATCH, LENGTH, WIDTH)),
    TensorSpec((BATCH, 3, 32, 32)),
    TensorSpec((BATCH, WIDTH, 16, 16)),
    TensorSpec((BATCH,)),
    TensorSpec((BATCH, LENGTH), "int", 2),
    TensorSpec(()),
    TensorSpec((WIDTH, WIDTH)),
    TensorSpec((BATCH, WIDTH, WIDTH)),
    TensorSpec((BATCH, 3, WIDTH)),
    TensorSpec((BATCH, 4)),
    TensorSpec((WIDTH, WIDTH, WIDTH, WIDTH)),
    TensorSpec((WIDTH, WIDTH, WIDTH)),
)


def revisions(specs: Specs, trouble: FailedAttempt) -> Iterator[Specs]:
    """Yield changed specs in response to an error, most likely first."""
    if trouble.layer is not None and trouble.received is not None:
        yield from _for_layer(specs, trouble.layer, trouble.received, trouble.direct)
    for pattern, revise in _REVISIONS:
        match = pattern.search(trouble.message)
        if match:
            yield from revise(specs, match)


def _tensors(specs: Specs) -> dict[str, TensorSpec]:
    return {name: spec for name, spec in specs.items() if isinstance(spec, TensorSpec)}


def _for_layer(specs: Specs, layer: nn.Module, received: torch.Tensor, direct: str | None) -> Iterator[Specs]:
    """Yield specs in which the argument that reached the failed layer fits the layer."""
    wanted = sorted(wanted_by(layer), key=lambda spec: len(spec.shape) != received.dim())
    if not wanted:
        return
    tensors = _tensors(specs)
    same = [name for name, spec in tensors.items() if spec.shape == tuple(received.shape)]
    sources = [direct] if direct is not None else same[:1]
    for name in sources:
        for spec in wanted:
            yield {**specs, name: spec}
    if sources:
        return
    want, got = wanted[0], received.shape
    if isinstance(layer, nn.Linear):
        yield from _for_features(specs, got[-1] if got else 1, layer.in_features)
    elif len(want.shape) > 1 and len(got) > 1:
        yield from _swap_size(specs, got[1], want.shape[1])
    for name, spec in tensors.items():
        if want.kind != spec.kind:
            yield {**specs, name: replace(spec, kind=want.kind, high=want.high)}
        yield {**specs, name: want}


def _for_features(specs: Specs, got: int, want: int) -> Iterator[Specs]:
    """Yield specs that give a linear layer `want` features, not `got`: as the last dimension or a flattened image."""
    yield from _swap_size(specs, got, want)
    for name, spec in _tensors(specs).items():
        if len(spec.shape) < 3:
            continue
        exact = round(spec.shape[-1] * math.sqrt(want / max(got, 1)))
        # Padding and strides cause rounding, so any common size near the exact size is possible.
        near = [side for side in _SIDES if abs(side - exact) <= 4]
        for side in dict.fromkeys((*near, exact, *_SIDES)):
            if side > 0 and len(spec.shape) == 4:
                yield {**specs, name: replace(spec, shape=(*spec.shape[:2], side, side))}
        long = round(spec.shape[-1] * want / max(got, 1))
        if long > 0 and len(spec.shape) == 3:
            yield {**specs, name: replace(spec, shape=(*spec.shape[:2], long))}


def _swap_size(specs: Specs, got: int, want: int) -> Iterator[Specs]:
    """Yield specs with a size replaced, first in all tensors, then in one at a time. The batch size never changes."""
    if got == BATCH:
        return
    changed = {name: replace(spec, shape=_swapped(spec.shape, got, want)) for name, spec in _tensors(specs).items()}
    if changed:
        yield {**specs, **changed}
    for name, spec in changed.items():
        yield {**specs, name: spec}


def sizes_in_message(specs: Specs, message: str) -> Iterator[Specs]:
    """Yield specs in which a size from the message is replaced with another number from the message."""
    numbers = list(dict.fromkeys(int(digits) for digits in re.findall(r"(?<![\w.])\d{1,5}(?![\w.]\d)", message)))[:4]
    sizes = {size for spec in _tensors(specs).values() for size in spec.shape}
    for got in numbers:
        for want in numbers:
            if got in sizes and want != got and want > 0:
                yield from _swap_size(specs, got, want)


def _swapped(shape: tuple[int, ...], got: int, want: int) -> tuple[int, ...]:
    for at in range(len(shape) - 1, -1, -1):
        if shape[at] == got:
            if at == len(shape) - 1 > 2 and shape[at - 1] == got:
                # An image stays square.
                return (*shape[: at - 1], want, want)
            return (*shape[:at], want, *shape[at + 1 :])
    return shape


def of_rank(shape: tuple[int, ...], rank: int) -> tuple[int, ...] | None:
    """Return a common shape with this rank and the features or channels of `shape`, or None if the rank is above 5."""
    last = shape[-1] if shape else WIDTH
    channels = shape[1] if len(shape) > 2 else last
    shapes = {
        0: (),
        1: (last,),
        2: (BATCH, last),
        3: (BATCH, LENGTH, last),
        4: (BATCH, channels, 16, 16),
        5: (BATCH, channels, 4, 16, 16),
    }
    return shapes.get(rank)


def deeper(specs: Specs, _match: re.Match[str] | None = None) -> Iterator[Specs]:
    """Yield specs that add a dimension to one of the tensors."""
    for name, spec in _tensors(specs).items():
        shape = of_rank(spec.shape, len(spec.shape) + 1)
        if shape is not None:
            yield {**specs, name: replace(spec, shape=shape)}


def _alike(specs: Specs, _match: re.Match[str]) -> Iterator[Specs]:
    """Yield specs in which all tensors have the same shape."""
    tensors = _tensors(specs)
    for spec in dict.fromkeys(tensors.values()):
        yield {**specs, **dict.fromkeys(tensors, spec)}


def _larger(specs: Specs, _match: re.Match[str]) -> Iterator[Specs]:
    """Yield specs with larger inputs, because kernels, patches or pooling windows were too large."""
    pictures = {name: spec for name, spec in _tensors(specs).items() if len(spec.shape) in (4, 5)}
    # Videos are made with few frames.
    cubes = {n: (*spec.shape[:2], *spec.shape[-1:] * 3) for n, spec in pictures.items() if len(spec.shape) == 5}
    yield {**specs, **{name: replace(pictures[name], shape=shape) for name, shape in cubes.items()}}
    for side in (64, 128, 224):
        changed = {n: replace(spec, shape=(*spec.shape[:-2], side, side)) for n, spec in pictures.items()}
        if any(max(spec.shape[-2:]) < side for spec in pictures.values()):
            yield {**specs, **changed}
    for name, spec in _tensors(specs).items():
        if len(spec.shape) in (2, 3) and spec.kind == "float":
            yield {**specs, name: replace(spec, shape=(*spec.shape[:-1], 16 * spec.shape[-1]))}


def _one_row(specs: Specs, _match: re.Match[str]) -> Iterator[Specs]:
    """Yield specs with a batch of one."""
    yield {
        **specs,
        **{n: replace(spec, shape=(1, *spec.shape[1:])) for n, spec in _tensors(specs).items() if spec.shape},
    }


def _sizes(got: int, want: int) -> Callable[[Specs, re.Match[str]], Iterator[Specs]]:
    """Return a revision that replaces a size in the message with another size, given their groups."""
    return lambda specs, match: _swap_size(specs, int(match[got]), int(match[want]))


_BY_MESSAGE: tuple[tuple[str, Callable[[Specs, re.Match[str]], Iterator[Specs]]], ...] = (
    (r"cannot be multiplied \(\d+x(\d+) and (\d+)x\d+\)", _sizes(1, 2)),
    (r"embedding dimension of (\d+), but got (\d+)", _sizes(2, 1)),
    (r"must be equal to input_size\. Expected (\d+), got (\d+)", _sizes(2, 1)),
    (r"inconsistent input_size: got (\d+) expected (\d+)", _sizes(1, 2)),
    (r"(tuple index|Dimension) out of range|too many indices|Dimension specified as|same number of dimensions", deeper),
    (r"Expected size (\d+) but got size (\d+) for tensor", _sizes(1, 2)),
    (r"Expected size (\d+) but got size (\d+) for tensor", _sizes(2, 1)),
    (r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)", _sizes(1, 2)),
    (r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)", _sizes(2, 1)),
    (r"must match the size of tensor|[Tt]arget size|same (size|shape)|shapes? must|shape mismatch", _alike),
    (r"[Oo]utput size is too small|Kernel size can't be greater|[Pp]adding size should be|of 0 elements", _larger),
    (r"expects 'from' to be less than 'to'", _larger),  # torch.randint, for the position of a crop
    (r"batch(es|_size| size)?s? (sizes? )?(> 1|of (size )?(1|one))|batch size (must be|should be) (1|one)", _one_row),
)
# Compiled before processes are forked.
_REVISIONS = tuple((re.compile(pattern), revise) for pattern, revise in _BY_MESSAGE)
