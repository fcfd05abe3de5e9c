"""The shapes and kinds of tensor arguments: what layers require, and what names suggest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from .guessed_values import BATCH, LENGTH, WIDTH

IMAGE = {1: 32, 2: 32, 3: 16}


@dataclass(frozen=True)
class TensorSpec:
    """A tensor to create. `kind` is `float`, `int` (from `low` to `high`, exclusive) or `bool`.

    The values of a float tensor are normally distributed or, if `between` is true, between 0 and 1. If `falling` is
    true, integers are sorted, largest first. If `grad` is true, a float tensor requires gradients.
    """

    shape: tuple[int, ...]
    kind: str = "float"
    high: int = 2
    low: int = 0
    between: bool = False
    falling: bool = False
    grad: bool = False

    def make(self) -> torch.Tensor:
        """Create the tensor with torch's random numbers."""
        if self.kind == "int":
            whole = torch.randint(self.low, max(self.high, self.low + 1), self.shape)
            return whole.sort(descending=True).values if self.falling else whole
        if self.kind == "bool":
            return torch.rand(self.shape) > 0.3
        values = 0.8 * torch.rand(self.shape) + 0.1 if self.between else torch.randn(self.shape)
        return values.requires_grad_(self.grad)


Specs = Mapping[str, Any]
"""A value for each parameter by name. A TensorSpec represents a tensor to create."""


def wanted_by(layer: nn.Module | None) -> list[TensorSpec]:
    """Return the inputs that a torch layer accepts, most likely first, or nothing if it accepts anything."""
    if isinstance(layer, nn.Linear):
        return [TensorSpec((BATCH, layer.in_features)), TensorSpec((BATCH, LENGTH, layer.in_features))]
    if isinstance(layer, nn.modules.conv._ConvNd):  # noqa: SLF001 - the common base of all convolutions
        rank = len(layer.kernel_size)
        return [TensorSpec((BATCH, layer.in_channels, *(IMAGE[rank],) * rank))]
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
        return [*narrow, TensorSpec((BATCH, layer.num_features, *(IMAGE[rank],) * rank))]
    if isinstance(layer, nn.GroupNorm):
        return [TensorSpec((BATCH, layer.num_channels, 16, 16)), TensorSpec((BATCH, layer.num_channels))]
    if isinstance(layer, (nn.RNNBase, nn.MultiheadAttention)):
        size = layer.input_size if isinstance(layer, nn.RNNBase) else layer.embed_dim
        lead = (BATCH, LENGTH) if layer.batch_first else (LENGTH, BATCH)
        return [TensorSpec((*lead, size))]
    if isinstance(layer, (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)):
        # Subclasses may replace or remove it.
        return wanted_by(getattr(layer, "self_attn", None))
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


def tensors_in(specs: Specs) -> dict[str, TensorSpec]:
    """Return the tensors among the specs."""
    return {name: spec for name, spec in specs.items() if isinstance(spec, TensorSpec)}


def with_shape(specs: Specs, name: str, shape: tuple[int, ...]) -> Specs:
    """Return specs with another shape for one of the tensors."""
    return {**specs, name: replace(specs[name], shape=shape)}


def resized(specs: Specs, sizes: Mapping[int, int]) -> Specs:
    """Return specs with other sizes in all tensors, given by the sizes that they replace."""
    tensors = tensors_in(specs)
    return {
        **specs,
        **{n: replace(spec, shape=tuple(sizes.get(one, one) for one in spec.shape)) for n, spec in tensors.items()},
    }


def swap_size(specs: Specs, got: int, want: int) -> Iterator[Specs]:
    """Yield specs with a size replaced, first in all tensors, then in one at a time. The batch size never changes."""
    if got == BATCH:
        return
    changed = {name: replace(spec, shape=_swapped(spec.shape, got, want)) for name, spec in tensors_in(specs).items()}
    if changed:
        yield {**specs, **changed}
    for name, spec in changed.items():
        yield {**specs, name: spec}


def _swapped(shape: tuple[int, ...], got: int, want: int) -> tuple[int, ...]:
    for at in range(len(shape) - 1, -1, -1):
        if shape[at] == got:
            if at == len(shape) - 1 > 2 and shape[at - 1] == got:
                # An image stays square.
                return (*shape[: at - 1], want, want)
            return (*shape[:at], want, *shape[at + 1 :])
    return shape
