"""Elements that a mask selects are counted in bins with all others only where nothing else is done with them."""

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
def f(labels: torch.Tensor, keep: torch.Tensor, other: torch.Tensor, n: int):
    mask = keep > 0
    found = labels[mask]
    counts = found.bincount(minlength=n)
    return counts
"""
PLAIN = "    counts = found.bincount(minlength=n)\n"


def study(code: str) -> Study:
    return Study(Case(MaskRead(), Example("x", code)), [MaskRead()])


def run(code: str, *arguments: object) -> object:
    names: dict[str, object] = {}
    exec(code.replace("@torch.compile", ""), names)
    function = names["f"]
    assert callable(function)
    return function(*arguments)


@pytest.mark.parametrize(
    "code",
    [
        CODE,
        CODE.replace("[mask]", "[mask].int()"),
        CODE.replace("labels[mask]", "labels.masked_select(mask)"),
        CODE.replace("found.bincount(", "torch.bincount(found.long(), "),
        CODE.replace("    found = labels[mask]\n", "").replace("found", "labels[mask].long()"),
    ],
)
def test_counts_the_same(code: str) -> None:
    text = study(code).fixed
    assert "torch.where(mask, labels, 0)" in text
    assert "if" not in text
    for dtype in (torch.int64, torch.int32, torch.uint8) if code == CODE else (torch.int64,):
        for labels, keep in (
            ([0, 3, 1, 3], [1, 1, 0, 1]),
            ([0, 3, 1, 3], [0] * 4),
            ([9, 2, 9, 2], [0, 1, 0, 1]),
            ([], []),
        ):
            given = torch.tensor(labels, dtype=dtype), torch.tensor(keep), torch.zeros(4), 4
            expected, got = run(code, *given), run(text, *given)
            assert isinstance(expected, torch.Tensor)
            assert isinstance(got, torch.Tensor)
            assert expected.dtype == got.dtype
            assert torch.equal(expected, got)


def test_counts_what_has_several_dimensions() -> None:
    given = torch.tensor([[0, -100], [3, 3]]), torch.tensor([[1, 0], [1, 1]]), torch.zeros(4), 4
    assert run(study(CODE).fixed, *given).tolist() == [1, 0, 0, 2]  # type: ignore[attr-defined]


def test_may_store_to_the_mask_afterwards() -> None:
    assert not study(CODE.replace("    return", "    mask = mask & keep\n    return")).declined


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return counts", "return counts, found"),
        ("return counts", "return counts, found.shape[0]"),
        ("return counts", "return counts + found.sum()"),
        ("found.bincount(", "(found + 1).bincount("),
        ("minlength=n", "other, minlength=n"),
        ("    counts =", "    mask.logical_not_()\n    counts ="),
        ("    counts =", "    mask[0] = False\n    counts ="),
        ("    counts =", "    mask = mask & keep\n    counts ="),
        ("    counts =", "    view = mask.view(-1)\n    view.logical_not_()\n    counts ="),
        ("    counts =", "    found = found[:1]\n    counts ="),
    ],
)
def test_declines_where_more_is_done(old: str, new: str) -> None:
    assert old in CODE
    assert study(CODE.replace(old, new)).declined


def test_declines_a_mask_that_changes_between_rounds() -> None:
    rounds = CODE.replace(PLAIN, "    counts = 0\n    for i in range(2):\n    " + PLAIN.strip() + " * i\n")
    rounds = rounds.replace("    counts = found", "        counts = found").replace(
        "* i\n", "* i\n        mask[i] = False\n"
    )
    assert study(rounds).declined
