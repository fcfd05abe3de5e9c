"""Grids of NumPy become ranges only where both give the same."""

from __future__ import annotations

import pytest

from dynalint.pages import whole_module
from dynalint.rules import Example
from dynalint.testing.cases import Case
from dynalint.testing.static import Study
from dynalint_rules.tensor_to_python.numpy_call import UntracedNumpy


def study(grid: str) -> Study:
    code = whole_module(
        f"import numpy as np\n\n\ndef forward(self, x: torch.Tensor, n: int):\n    return self.fc(x), {grid}\n"
    )
    return Study(Case(UntracedNumpy(), Example("x", code)), [UntracedNumpy()])


@pytest.mark.parametrize(
    ("grid", "wanted", "safety"),
    [
        ("np.ogrid[:4, 1:3]", "(np.arange(4)[:, None], np.arange(1, 3)[None, :])", "safe"),
        (
            "np.mgrid[: len(x), :3][0]",
            'np.stack(np.meshgrid(np.arange(len(x)), np.arange(3), indexing="ij"))[0]',
            "safe",
        ),
        ("np.ogrid[:n, :2]", "(np.arange(n)[:, None], np.arange(2)[None, :])", "conditional"),
        ("np.ogrid[-2:2, :2]", "(np.arange(-2, 2)[:, None], np.arange(2)[None, :])", "conditional"),
    ],
)
def test_ranges(grid: str, wanted: str, safety: str) -> None:
    found = study(grid)
    assert wanted in found.fixed
    assert [one.rewrite.safety for one in found.own if one.rewrite is not None] == [safety]


@pytest.mark.parametrize(
    "grid", ["np.ogrid[:4]", "np.ogrid[:4:2, :3]", "np.mgrid[0:1:3j, :3]", "np.ogrid[:2.5, :3]", "np.s_[:4, :3]"]
)
def test_declines_what_is_no_plain_grid(grid: str) -> None:
    assert study(grid).declined
