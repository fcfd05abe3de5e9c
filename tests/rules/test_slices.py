"""Look-alikes of slices with tensors as bounds that are rewritten."""

from __future__ import annotations

import textwrap

import pytest

from dynalint.rulebook.pages import Example
from dynalint.rules import Declined
from dynalint.testing.cases import Case
from dynalint.testing.static import StaticView
from dynalint_rules.tensor_to_python.slice_bound import TensorSliceBound

HEAD = "import torch\n\n\n@torch.compile\ndef f(x: torch.Tensor, v: torch.Tensor, starts: torch.Tensor, n: int):\n"

HALVES = """
size = starts[0]
h = x + v
return torch.tanh(h[:, :size]) * torch.sigmoid(h[:, size:])
"""


def fixed(body: str) -> str | None:
    """Return the rewritten code, or None if the rewrite is declined."""
    rule = TensorSliceBound()
    code = HEAD + textwrap.indent(body.strip("\n"), "    ") + "\n"
    view = StaticView(Case(rule, Example("x", code)), [rule])
    return None if isinstance(view.own[0].answer, Declined) else view.fixed


def changed(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.tanh(h[:, :size]) * torch.sigmoid(h[:, size:])", "h[:, :size].tanh() + h[:, size:].sigmoid()"),
        ("return torch.tanh(h[:, :size])", "gate = torch.tanh(h[:, :size])\nreturn gate"),
        ("h[:, size:]", "h[:, size:, :]"),
    ],
)
def test_halves(old: str, new: str) -> None:
    body = changed(HALVES, old, new)
    body = changed(body, "h[:, :size]", "h[:, :size, :]") if "size:, :" in new else body
    assert "    h = x + v\n    size = h.size(1) // 2\n" in (fixed(body) or "")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.tanh(h[:, :size]) * torch.sigmoid(h[:, size:])", "torch.cat([h[:, size:], h[:, :size]], dim=1)"),
        ("torch.tanh(h[:, :size]) * torch.sigmoid(h[:, size:])", "torch.tanh(h[:, :size]).sum() * h[:, size:].sum()"),
        ("torch.tanh(h[:, :size]) * torch.sigmoid(h[:, size:])", "torch.tanh(h[:, :size]) @ h[:, size:].t()"),
        ("torch.sigmoid(h[:, size:])", "torch.sigmoid(v[:, size:])"),
        ("torch.sigmoid(h[:, size:])", "torch.sigmoid(h[size:])"),
        ("torch.sigmoid(h[:, size:])", "torch.sigmoid(h[:, size:]) + size"),
        ("torch.sigmoid(h[:, size:])", "torch.sigmoid(h[:, :size])"),
        ("torch.sigmoid(h[:, size:])", "torch.sigmoid(h[1:, size:])"),
        ("torch.sigmoid(h[:, size:])", "torch.sigmoid(h[:, size::2])"),
        ("h[:, size:])", "h[:, size:]) * h[:, size:]"),
        ("h = x + v", "h = x + v\nif n > 2:\n    h = h * 2"),
        ("h = x + v", "h = x + v\nif n > 2:\n    size = starts[1]"),
        ("size = starts[0]", "size = starts.add_(1)[0]"),
        ("return", "if n > 2:\n    return"),
    ],
)
def test_what_only_looks_like_halves(old: str, new: str) -> None:
    assert fixed(changed(HALVES, old, new)) is None
