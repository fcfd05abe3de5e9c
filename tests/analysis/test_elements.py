"""Elements of parameters, which show what they are only where they are used."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynalint.analysis import analyze
from dynalint.analysis.events import Branch
from dynalint.analysis.kinds import only_tensor

HEAD = "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n\nclass Model(nn.Module):\n"


def branches(tmp_path: Path, method: str) -> list[str]:
    """Return the text of the tests that branch on a tensor in a method of a module."""
    text = HEAD + "".join(f"    {line}\n" for line in method.strip("\n").splitlines())
    (tmp_path / "code.py").write_text(text)
    analysis = analyze([tmp_path / "code.py"])
    assert analysis.failures == []
    tensors = [one for one in analysis.events if isinstance(one, Branch) and only_tensor(one.kind) is not None]
    return [text.splitlines()[event.node.lineno - 1].strip() for event in tensors]


@pytest.mark.parametrize(
    ("loop", "use"),
    [
        ("for x in xs:", "y = F.relu(x)"),
        ("for i, x in enumerate(xs):", "y = torch.relu(x)"),
        ("for x, m in zip(xs, ms):", "y = F.interpolate(x, scale_factor=2)"),
        ("for x in reversed(xs):", "y = x.mean()"),
        ("for key, x in xs.items():", "y = x.mean()"),
        ("for x in xs.values():", "y = x.log()"),
    ],
)
def test_element_of_a_loop_that_is_used_as_a_tensor(tmp_path: Path, loop: str, use: str) -> None:
    code = f"def forward(self, xs, ms):\n    {loop}\n        if x > 0:\n            {use}\n    return xs\n"
    assert branches(tmp_path, code) == ["if x > 0:"]


@pytest.mark.parametrize(
    ("use", "test"),
    [
        ("y = xs[0].mean()", "if xs[0] > 0:"),
        ("y = F.relu(xs['image'])", "if xs['image'] > 0:"),
        ("y = xs[i].log()", "if xs[i + 1] > 0:"),
    ],
)
def test_item_that_is_used_as_a_tensor(tmp_path: Path, use: str, test: str) -> None:
    assert branches(tmp_path, f"def forward(self, xs, i):\n    {test}\n        {use}\n    return xs\n") == [test]


@pytest.mark.parametrize(
    ("use", "test"),
    [
        ("y = F.relu(xs['image'])", "if xs['size'] > 0:"),
        ("y = F.relu(xs[0])", "if xs[1] > 0:"),
        ("y = xs[i] + 1", "if xs[i + 1] > 0:"),
        ("y = F.relu(ys[0])", "if xs[0] > 0:"),
    ],
)
def test_other_items_remain_unknown(tmp_path: Path, use: str, test: str) -> None:
    assert branches(tmp_path, f"def forward(self, xs, ys, i):\n    {test}\n        {use}\n    return xs\n") == []


def test_tested_element_may_be_something_else(tmp_path: Path) -> None:
    code = """
def forward(self, xs, t: torch.Tensor):
    if isinstance(xs[0], list):
        if t > 0:
            return xs
    return F.relu(xs[0])
"""
    assert branches(tmp_path, code) == ["if t > 0:"]
