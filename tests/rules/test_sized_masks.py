"""What a mask selects of which sizes tell how much it is: the same elements in the same order, or no rewrite."""

from __future__ import annotations

import pytest
import torch

from dynalint.rules import Example
from dynalint.testing.cases import Case
from dynalint.testing.static import Study
from dynalint_rules.shapes.mask_read import MaskRead

CODE = """
import torch


@torch.compile
def f(x: torch.Tensor, h: int, flag: bool):
    own = torch.eye(2 * h, dtype=torch.bool)
    own[h:, :h] = own[:h, h:] = own[:h, :h]
    return x[~own]
"""
QUARTERS = "    own[h:, :h] = own[:h, h:] = own[:h, :h]\n"
PLAIN = CODE.replace(QUARTERS, "")


def study(code: str) -> Study:
    return Study(Case(MaskRead(), Example("x", code)), [MaskRead()])


def run(code: str, x: torch.Tensor) -> torch.Tensor:
    names: dict[str, object] = {}
    exec(code.replace("@torch.compile", ""), names)
    function = names["f"]
    assert callable(function)
    result = function(x, x.shape[0] // 2, True)
    assert isinstance(result, torch.Tensor)
    return result


@pytest.mark.parametrize(
    "code",
    [
        CODE,
        CODE.replace("2 * h", "h * 2"),
        CODE.replace("[~own]", "[~own].view(2 * h, -1)"),
        CODE.replace("[~own]", "[own]"),
        CODE.replace("own[h:, :h] = own[:h, h:]", "own[:h, h:] = own[h:, :h]"),
        CODE.replace("return", "others = ~own\n    return").replace("[~own]", "[others]"),
        PLAIN,
        PLAIN.replace("[~own]", "[own]"),
        PLAIN.replace("[~own]", "[own == 0]"),
        PLAIN.replace(", dtype=torch.bool", "").replace("[~own]", "[own == 0]"),
        PLAIN.replace("[~own]", "[~torch.eye(len(x)).bool()]"),
        PLAIN.replace("[~own]", "[torch.eye(h * 2, dtype=torch.int).logical_not().to(x.device)]").replace(
            ".to(x.device)", ""
        ),
        PLAIN.replace("=torch.bool)", "=torch.bool).to(x.device)").replace("[~own]", "[own.logical_not()]"),
    ],
)
def test_selects_the_same(code: str) -> None:
    text = study(code).fixed
    assert "argsort" in text
    for x in (torch.randn(6, 6), torch.randn(2, 2, 3).half(), torch.arange(16).view(4, 4).t(), torch.randn(6, 6) > 0):
        expected, got = run(code, x), run(text, x)
        assert expected.dtype == got.dtype
        assert torch.equal(expected, got)
        assert expected.stride() == got.stride()
    x = torch.full((4, 4), torch.nan).fill_diagonal_(torch.inf).requires_grad_()
    slopes = [torch.autograd.grad(run(one, x).square().sum(), x)[0] for one in (code, text)]
    torch.testing.assert_close(slopes[0], slopes[1], rtol=0, atol=0, equal_nan=True)


def test_selects_nothing_of_one_row() -> None:
    assert run(study(PLAIN.replace("2 * h", "1")).fixed, torch.ones(1, 1)).shape == (0,)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2 * h", "3 * h"),
        ("2 * h", "2 * h, 2 * h"),
        ("2 * h", "2 * len(x)"),
        ("torch.eye(", "torch.ones("),
        ("own[h:, :h] = ", ""),
        ("own[:h, h:] = ", "own[h:, h:] = "),
        ("= own[:h, :h]", "= own[:h, h:]"),
        ("    own[h:", "    if flag:\n        own[h:"),
        ("    own[h:", "    h = h + 1\n    own[h:"),
        ("    own[h:", "    own[0] = True\n    own[h:"),
        ("    return", "    own.logical_not_()\n    return"),
        ("    return", "    own |= x > 0\n    return"),
        ("    return", "    other = own.view(-1)\n    other[1] = True\n    return"),
        ("    return", "    if flag:\n        own = x > 0\n    return"),
    ],
)
def test_declines_what_may_be_another_mask(old: str, new: str) -> None:
    assert old in CODE
    assert study(CODE.replace(old, new)).declined


@pytest.mark.parametrize("selection", ["x[x > 0]", "torch.histc(x[x > 0])"])
def test_what_a_lambda_selects_is_declined(selection: str) -> None:
    """The rewrites look for the statement around, which a lambda does not have."""
    offered = study(f"import torch\n\n\nf = torch.compile(lambda x: {selection})\n").own
    assert len(offered) == 1
    assert offered[0].rewrite is None
