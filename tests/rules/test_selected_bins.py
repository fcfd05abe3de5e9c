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
    if found.shape[0] != 0:
        counts = torch.bincount(found.long(), minlength=n).float()
    else:
        counts = torch.zeros(n, device=labels.device)
    return counts
"""
TEST = CODE[CODE.index("    if ") : CODE.index("    return")]
PLAIN = "    counts = found.bincount(minlength=n)\n"
WHOLE = CODE.replace(TEST, PLAIN)


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
        CODE.replace("!= 0", "> 0"),
        CODE.replace("found.shape[0]", "len(found)"),
        CODE.replace("[mask]", "[mask].int()"),
        CODE.replace("labels[mask]", "labels.masked_select(mask)"),
        CODE.replace("(n, d", "(n, dtype=torch.float32, d"),
        CODE.replace("torch.bincount(found.long(),", "found.long().bincount("),
        CODE.replace(".float()", "").replace("(n, d", "(n, dtype=torch.long, d"),
        WHOLE,
        WHOLE.replace("    found = labels[mask]\n", "").replace("found", "labels[mask].long()"),
    ],
)
def test_counts_the_same(code: str) -> None:
    text = study(code).fixed
    assert "torch.where(mask, labels, 0)" in text
    assert "if" not in text
    for dtype in (torch.int64, torch.int32, torch.uint8) if code in (CODE, WHOLE) else (torch.int64,):
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
    assert run(study(WHOLE).fixed, *given).tolist() == [1, 0, 0, 2]  # type: ignore[attr-defined]


def test_may_store_to_the_mask_afterwards() -> None:
    assert not study(CODE.replace("    return", "    mask = mask & keep\n    return")).declined


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return counts", "return counts, found"),
        ("return counts", "return counts, found.shape[0]"),
        ("return counts", "return counts + found.sum()"),
        ("found.long()", "found.long() + 1"),
        ("found.long(), ", "found.long(), other, "),
        ("minlength=n", "minlength=0 * n"),
        ("minlength=n).float()", "minlength=n).double()"),
        ("import torch\n", "import torch\n\ntorch.set_default_dtype(torch.float64)\n"),
        ("torch.zeros(n,", "torch.ones(n,"),
        ("torch.zeros(n,", "torch.zeros(n + 1,"),
        ("torch.zeros(n,", "torch.zeros(1, n,"),
        ("torch.zeros(n,", "torch.zeros(n, dtype=torch.float64,"),
        ("torch.zeros(n,", "torch.zeros(n, requires_grad=True,"),
        ("        counts = torch.zeros", "        print(n)\n        counts = torch.zeros"),
        ("        counts = torch.zeros", "        # nothing is selected\n        counts = torch.zeros"),
        ("        counts = torch.zeros", "        n = torch.zeros"),
        ("!= 0", "!= 1"),
        ("!= 0", "== 0"),
        ("!= 0", "!= 0 and n > 1"),
        ("    if found", "    mask.logical_not_()\n    if found"),
        ("    if found", "    mask[0] = False\n    if found"),
        ("    if found", "    mask = mask & keep\n    if found"),
        ("    if found", "    view = mask.view(-1)\n    view.logical_not_()\n    if found"),
        ("    if found", "    found = found[:1]\n    if found"),
        ("    found =", "    if n > 2:\n        return n\n    elif n > 1:\n        found = 2\n    found ="),
    ],
)
def test_declines_where_more_is_done(old: str, new: str) -> None:
    assert old in CODE
    assert study(CODE.replace(old, new)).declined


def test_declines_a_mask_that_changes_between_rounds() -> None:
    rounds = WHOLE.replace(PLAIN, "    counts = 0\n    for i in range(2):\n    " + PLAIN.strip() + " * i\n")
    rounds = rounds.replace("    counts = found", "        counts = found").replace(
        "* i\n", "* i\n        mask[i] = False\n"
    )
    assert study(rounds).declined


@pytest.mark.parametrize(
    ("code", "truth"), [(CODE, True), (CODE.replace("!= 0", "== 0").replace("else", "elif n"), None), (WHOLE, None)]
)
def test_the_side_of_nothing_need_not_be_reached(code: str, truth: bool | None) -> None:
    rewrite = study(code).own[0].rewrite
    told = None if rewrite is None or not rewrite.settled else rewrite.settled[0].truth
    assert told is truth


def test_nor_where_it_comes_first() -> None:
    full, empty = TEST.split("    else:\n")
    test, full = full.split(":\n", 1)
    rewrite = study(CODE.replace(TEST, f"{test.replace('!=', '==')}:\n{empty}    else:\n{full}")).own[0].rewrite
    assert rewrite is not None
    assert [one.truth for one in rewrite.settled] == [False]
