"""Shapes that source states: each is read, and the module is called with it."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
import torch
from torch import nn

from dynalint.confirm.worker.inputs.guessed_values import BATCH, LENGTH, WIDTH
from dynalint.confirm.worker.inputs.search import find_call

pytestmark = pytest.mark.dynamo


class FloatOfDimensions:
    """Stands for what `Float[Tensor, "batch 6 *rest"]` of jaxtyping gives: a class with these attributes."""

    dim_str = "batch 6 dim=4"
    dtypes = ("float16", "float32")


class LongOfDimensions:
    dim_str = "batch time"
    dtypes = ("int32", "int64")


class Commented(nn.Module):
    def forward(
        self,
        points,  # (B, N, 3)
        faces,  # [F, 3] long tensor
    ):
        # weights: (B, N)
        return points.mean() + faces.sum()


class CommentedBelow(nn.Module):
    def forward(self, frames):
        # frames: [batch, time, channels, height, width]
        return frames * 2


class CommentedInOneLine(nn.Module):
    def forward(self, feats, seen, target):
        # feats: (n, dim), seen: (n,); target: (n, 4)
        return feats.sum() + seen.sum() + target.sum()


class Described(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = 12

    def forward(self, states, mask, labels):
        """Score.

        Args:
            states (torch.FloatTensor): of shape `(batch_size, seq_len, hidden)`.
            mask (BoolTensor): `[batch_size, seq_len]`
            labels (`torch.LongTensor` of shape `(batch_size,)`): the classes
        Returns:
            a number: (1, 2, 3)
        """
        return states.masked_fill(mask.unsqueeze(-1), 0.0).sum(), labels


class DescribedByFields(nn.Module):
    """A layer.

    Shape:
        - Input: :math:`(N, C_{in}, L, 2)`
        - Output: :math:`(N, C_{out})`
    """

    def forward(self, x):
        """Call.

        :param x: [b, 2*c, l, 2] the signal
        """
        return x * 2


class Annotations(nn.Module):
    def forward(self, x: FloatOfDimensions, ids: LongOfDimensions, y: Annotated[torch.Tensor, "batch 2 3"]):
        return x.sum() + ids.sum() + y.sum()


class NamedLikeDefaults(nn.Module):
    def __init__(self, signal_size=11, places=3):
        super().__init__()
        self.fc = nn.Linear(signal_size, places)

    def forward(self, x, position):
        # x: (signal_size,), position: (places,)
        return torch.lerp(position, self.fc(x), 0.5)


class Wrong(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(10, 2)

    def forward(self, x):  # (B, T, 3, 4)
        """x: (a, b, c, d, e, f), which is not true."""
        return self.fc(x).reshape(x.shape[0], 2)


def shapes(module: nn.Module) -> list[tuple[int, ...]]:
    args, kwargs = find_call(module, "cpu", 30).call
    return [tuple(value.shape) for value in (*args, *kwargs.values())]


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        (Commented, [(BATCH, LENGTH, 3), (BATCH, 3)]),
        (CommentedBelow, [(BATCH, LENGTH, WIDTH, 16, 16)]),
        (CommentedInOneLine, [(BATCH, WIDTH), (BATCH,), (BATCH, 4)]),
        (Described, [(BATCH, LENGTH, 12), (BATCH, LENGTH), (BATCH,)]),
        (DescribedByFields, [(BATCH, 2 * WIDTH, LENGTH, 2)]),
        (Annotations, [(BATCH, 6, 4), (BATCH, LENGTH), (BATCH, 2, 3)]),
        (NamedLikeDefaults, [(11,), (3,)]),
        (Wrong, [(BATCH, 10)]),
    ],
)
def test_a_stated_shape_is_taken(cls: type, expected: list[tuple[int, ...]]) -> None:
    assert shapes(cls()) == expected


def test_kinds_are_read_too() -> None:
    def kinds(cls: type) -> list[Any]:
        return [value.dtype for value in find_call(cls(), "cpu", 30).call[0]]

    assert kinds(Described) == [torch.float32, torch.bool, torch.int64]
    assert kinds(Annotations) == [torch.float32, torch.int64, torch.float32]
    assert kinds(Commented) == [torch.float32, torch.int64]
