"""What is repeated a drawn number of times and joined is chosen by place only where that gives the same."""

from __future__ import annotations

import random

import pytest
import torch

from dynalint.rules import Example
from dynalint.testing.cases import Case
from dynalint.testing.static import Study
from dynalint_rules.side_effects.python_random import PythonRandom

CODE = """
import random
import torch


@torch.compile
def f(a: torch.Tensor, b: torch.Tensor, n: int, i=None):
    if i is None:
        i = random.randint(1, n - 1)
    both = a.unsqueeze(1).repeat(1, i, 1)
    tail = b.unsqueeze(1).repeat(1, n - i, 1)
    both = torch.cat([both, tail], 1)
    return both * 2
"""


def study(code: str) -> Study:
    return Study(Case(PythonRandom(), Example("x", code)), [PythonRandom()])


def run(code: str, *arguments: object) -> torch.Tensor:
    names: dict[str, object] = {}
    exec(code.replace("@torch.compile", ""), names)
    function = names["f"]
    assert callable(function)
    random.seed(3)
    result = function(*arguments)
    assert isinstance(result, torch.Tensor)
    return result


@pytest.mark.parametrize(
    "code",
    [
        CODE,
        CODE.replace(
            "both = torch.cat([both, tail], 1)\n    return both * 2", "return torch.concat((both, tail), dim=1)"
        ),
        CODE.replace("unsqueeze(1)", "unsqueeze(0)")
        .replace("(1, i, 1)", "(i, 1, 1)")
        .replace("(1, n - i, 1)", "(n - i, 1, 1)")
        .replace("tail], 1", "tail]"),
        CODE.replace("unsqueeze(1)", "unsqueeze(2)")
        .replace("1, i, 1", "1, 1, i")
        .replace("1, n - i, 1", "1, 1, n - i")
        .replace("], 1)", "], 2)"),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64])
def test_chooses_the_same(code: str, dtype: torch.dtype) -> None:
    if "tail])" in code:
        code = code.replace("tail])", "tail], 0)")
    text = study(code).fixed
    assert "repeat" not in text
    a = torch.randn(3, 2).to(dtype)
    b = torch.full((3, 2), torch.nan).float() if dtype is torch.float32 else torch.randn(3, 2)
    for i in (None, 0, 1, 5):
        expected, got = run(code, a, b, 5, i), run(text, a, b, 5, i)
        assert expected.dtype == got.dtype
        assert expected.is_contiguous() == got.is_contiguous()
        assert torch.equal(expected.nan_to_num(7), got.nan_to_num(7))


def test_gradients_are_the_same() -> None:
    text = study(CODE).fixed
    slopes = []
    for code in (CODE, text):
        a, b = torch.randn(3, 2).requires_grad_(), torch.full((3, 2), torch.inf).requires_grad_()
        run(code, a, b, 5).sum().backward()
        slopes.append((a.grad, b.grad))
    torch.testing.assert_close(*slopes)
    # Only gradients are rounded otherwise, as sums in any order may be, so no `--unsafe-fixes` has to be asked for.
    assert {one.rewrite.safety for one in study(CODE).own if one.rewrite} == {"conditional"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("n - i", "n - i + 1"),
        ("n - i", "n - 1"),
        ("n - i", "i - n"),
        ("], 1)", "], 2)"),
        ("], 1)", "], -2)"),
        ("[both, tail]", "[tail, both]"),
        ("[both, tail]", "[both, tail, tail]"),
        ("a.unsqueeze(1)", "a.unsqueeze(0)"),
        ("a.unsqueeze(1)", "a"),
        ("a.unsqueeze(1)", "a.sin().unsqueeze(1)"),
        ("(1, i, 1)", "(1, i, 2)"),
        ("(1, i, 1)", "(1, i, 1, 1)"),
        ("b.unsqueeze(1)", "both[:, 0].unsqueeze(1)"),
        ("return both", "return both + tail"),
        ("    tail =", "    a = a + 1\n    tail ="),
    ],
)
def test_keeps_what_is_something_else(old: str, new: str) -> None:
    assert old in CODE
    assert "where" not in study(CODE.replace(old, new)).fixed
