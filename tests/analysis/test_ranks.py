"""The number of dimensions of tensors: an index without dimensions breaks the graph."""

from __future__ import annotations

import pytest

import dynalint

MODEL = """
import torch
from torch import Tensor, nn

class Model(nn.Module):
    def forward(self, x: Tensor, t: Tensor):
        {lines}
        return x[{index}]
"""


def codes(lines: str, index: str) -> list[str]:
    source = MODEL.format(lines=lines.replace("; ", "\n        ") or "pass", index=index)
    return [one.code for one in dynalint.check_source("m.py", source)]


@pytest.mark.parametrize(
    ("lines", "index"),
    [
        ("i = torch.argsort(t.view(-1))", "i[0]"),
        ("i = t.flatten().argsort()", "i[0]"),
        ("_, i = torch.sort(t.flatten(), descending=True)", "i[0]"),
        ("_, i = t.reshape(-1).topk(3)", "i[0]"),
        ("b, n = t.shape", "t[0, 1]"),
        ("b, n = t.size(); i = t.argmax(dim=-1)", "i[0]"),
        ("b, n = t.shape; i = t.sum(1, keepdim=True)", "i[0, 0]"),
        ("(b,) = t.shape", "t[b - 1]"),
        ("i = torch.zeros(5, dtype=torch.long)", "i[0]"),
        ("i = x.new_zeros(x.shape[0]).long()", "i[0]"),
        ("i = (torch.arange(x.shape[0]) * 2) % 5", "i[0]"),
        ("i = torch.randint(0, 5, (3,)).unsqueeze(0)", "i[0, 0]"),
        ("i = torch.stack([torch.arange(3), torch.arange(3)])", "i[0, 0]"),
        ("i = torch.arange(6).view(2, 3)", "i[0][1]"),
        ("b, n = t.shape; i = t[t > 0]", "i[0]"),
        ("b, n = t.shape; i = t.repeat_interleave(2)", "i[0]"),
        ("b, n = t.shape; i = t.nonzero(as_tuple=True)[0]", "i[0]"),
        ("b, n = t.shape; i = t.var(0, True).long()", "i[0]"),
        ("b, n = t.shape; i = t.norm(2, 1).long()", "i[0]"),
        ("i = torch.searchsorted(x, t.reshape(1)) - 1", "i[0]"),
        ("i = torch.bucketize(t.view(-1), x)", "i[0]"),
        ("b, n = t.shape; i = t.sum(dim=(0,))", "i[0]"),
        ("b, n = t.shape; i = t.diagonal()", "i[0]"),
        ("b, n = t.shape; i = t.repeat(2, 1, 1)", "i[0, 0, 0]"),
        ("b, n = t.shape; i = (t @ torch.arange(n)).long()", "i[0]"),
        ("i = torch.triu_indices(3, 3)[0]", "i[0]"),
        ("i = t.unique()", "i[0]"),
        ("i = torch.arange(6).take(t.view(-1))", "i[0]"),
    ],
)
def test_an_index_without_dimensions_is_found(lines: str, index: str) -> None:
    assert "DYN205" in codes(lines, index)


@pytest.mark.parametrize(
    ("lines", "index"),
    [
        ("", "t[0]"),
        ("b, n = t.shape", "t[0]"),
        ("b, *n = t.shape", "t[0]"),
        ("b, n = t.shape", "t.squeeze(0)[0]"),
        ("b, n = t.shape; i = t.sum(1, keepdim=True)", "i[0]"),
        ("i = torch.randint(0, 5, (3, 4)) @ t", "i[0]"),
        ("i = t.argmax(dim=-1)", "i[0]"),
        ("i = torch.arange(3) + t", "i[0]"),
        ("i = torch.arange(6).view(t.shape)", "i[0]"),
        ("i = torch.arange(6)", "i[None, 0]"),
        ("b, n = t.shape; i = t.norm(2, 1).long()", "i"),
        ("i = torch.arange(6).view(2, *t.shape)", "i[0]"),
        ("b, n = t.shape; i = (t @ torch.arange(n)).long()", "i"),
        ("b, n = t.shape; i = t.sum(dim=(0, 1))", "i[None]"),
        ("b, n = t.shape; i = t.norm(dim=1).long()", "i"),
    ],
)
def test_nothing_is_said_of_an_index_that_may_have_dimensions(lines: str, index: str) -> None:
    assert "DYN205" not in codes(lines, index)


def test_the_elements_of_a_row_have_no_dimensions() -> None:
    source = """
import torch
from torch import Tensor, nn

class Model(nn.Module):
    def forward(self, x: Tensor):
        rows, columns = x.shape
        return [x[i] for i in x.argmax(dim=1)]
"""
    assert "DYN205" in [one.code for one in dynalint.check_source("m.py", source)]
