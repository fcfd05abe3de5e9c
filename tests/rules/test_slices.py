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

WINDOWS = """
out = torch.zeros_like(x[:, :n])
for i in range(x.size(0)):
    start = starts[i]
    end = start + n
    out[i] = x[i, start:end]
return out
"""

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
        ("range(x.size(0))", "range(x.shape[0])"),
        ("range(x.size(0))", "range(len(x))"),
        ("torch.zeros_like(x[:, :n])", "torch.empty_like(x[:, 0:n])"),
        ("start:end", "start:start + n"),
        ("start + n", "n + start"),
    ],
)
def test_windows_of_rows(old: str, new: str) -> None:
    text = fixed(changed(WINDOWS, old, new))
    assert text is not None
    assert text.endswith(
        "    places = starts.reshape(-1, 1) + torch.arange(n, device=x.device)\n"
        "    out = x.gather(1, places)\n"
        "    return out\n"
    )


def test_the_number_of_rows_has_a_name() -> None:
    body = changed(WINDOWS, "for i in range(x.size(0))", "rows, width = x.shape\nfor i in range(rows)")
    assert "x.gather(1, places)" in (fixed(body) or "")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("range(x.size(0))", "range(x.size(0) - 1)"),
        ("range(x.size(0))", "range(1, x.size(0))"),
        ("range(x.size(0))", "range(n)"),
        ("range(x.size(0))", "range(n or x.size(0))"),
        ("range(x.size(0))", "range(x.size(1))"),
        ("torch.zeros_like(x[:, :n])", "x.new_empty(x.size(0), n)"),
        ("torch.zeros_like(x[:, :n])", "torch.zeros_like(x[:2, :n])"),
        ("torch.zeros_like(x[:, :n])", "torch.zeros_like(x[:, : n + 1])"),
        ("range(x.size(0))", "range(len(starts))"),
        ("torch.zeros_like(x[:, :n])", "torch.zeros(x.size(0), n)"),
        ("torch.zeros_like(x[:, :n])", "torch.zeros_like(x[:, :n], dtype=torch.float64)"),
        ("torch.zeros_like(x[:, :n])", "torch.zeros_like(v[:, :n])"),
        ("start + n", "start + n * 2 + i"),
        ("start + n", "start + starts[i]"),
        ("end = start + n", "end = start + n\n    n = n - 1"),
        ("x[i, start:end]", "x[i, start:end:2]"),
        ("x[i, start:end]", "x[i - 1, start:end]"),
        ("x[i, start:end]", "x[i, start:end] * 2"),
        ("x[i, start:end]", "out[i, start:end]"),
        ("out[i] =", "out[i] +="),
        ("out[i] =", "out[:, i] ="),
        ("return out", "return out, end"),
        ("    end", "    if i == 2:\n        break\n    end"),
        ("    end", "    log = v.add_(1)\n    end"),
        ("for i", "out[0] = 1\nfor i"),
        ("for i", "kept = out\nfor i"),
        ("return out", "return kept, out"),
    ],
)
def test_what_only_looks_like_windows_of_rows(old: str, new: str) -> None:
    body = changed(WINDOWS, old, new)
    assert fixed(changed(body, "for i", "kept = out\nfor i") if "kept, out" in new else body) is None


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
