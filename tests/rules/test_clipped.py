"""Branches around a ratio or a quotient by a count: what is tested is clamped, and no test is needed."""

from __future__ import annotations

import pytest

from dynalint.rules import Rewrite
from tests.rules.test_branch_rewrites import fixed, study


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (
            "n = x.norm()\nif n >= 5:\n    x = x * (5 / n)\nreturn x",
            "n = x.norm()\nx = x * (5 / n.clamp(min=5))\nreturn x",
        ),
        ("n = x.norm()\nif n >= 5:\n    return x / n * 5\nreturn x", "n = x.norm()\nreturn x / n.clamp(min=5) * 5"),
        # At the bound, a strict comparison passes no gradient.
        (
            "if x.norm() > 1.0:\n    x = x / x.norm()\nreturn x",
            "x = x / torch.where(x.norm() > 1.0, x.norm(), 1.0)\nreturn x",
        ),
        ("c = y.sum()\nif c <= 1:\n    x = c * x\nreturn x", "c = y.sum()\nx = c.clamp(max=1) * x\nreturn x"),
        (
            "c = y.sum()\nif flag and 1 <= c:\n    x = x / c\nreturn x",
            "c = y.sum()\nif flag:\n    x = x / c.clamp(min=1)\nreturn x",
        ),
        (
            "n = x.norm()\ns = 2.0 / n if n > 2.0 else 1.0\nreturn x * s",
            "n = x.norm()\ns = 2.0 / torch.where(n > 2.0, n, 2.0)\nreturn x * s",
        ),
        (
            "n = x.norm()\nx = x / (n / 4) if n >= 4 else x\nreturn x",
            "n = x.norm()\nx = x / (n.clamp(min=4) / 4)\nreturn x",
        ),
    ],
)
def test_the_tested_value_is_clamped(body: str, wanted: str) -> None:
    assert fixed(body) == wanted


@pytest.mark.parametrize(
    "value",
    ["x * (4 / n)", "x / n", "x * (5 / n) * 2", "y * (5 / n)", "x * (5 / n) / n", "x * (5 / x.sum())", "x * 5 / n"],
)
def test_another_value_is_selected(value: str) -> None:
    assert "clamp" not in fixed(f"n = x.norm()\nif n >= 5:\n    x = {value}\nreturn x")


@pytest.mark.parametrize(
    ("tested", "bound"),
    [
        ("x.std()", "1.0"),
        ("(1 / x.norm())", "1.0"),
        ("x.norm()", "y.sum()"),
        ("x.norm()", "0.0"),
        ("x.norm()", "1e999"),
    ],
)
def test_a_value_that_may_be_nan_and_a_bound_without_a_ratio_are_selected(tested: str, bound: str) -> None:
    assert "clamp" not in fixed(f"n = {tested}\nif n >= {bound}:\n    x = x * ({bound} / n)\nreturn x")


def test_there_is_a_longer_form() -> None:
    answer = study("n = x.norm()\nif n >= 5:\n    x = x * (5 / n)\nreturn x").own[0].answer
    assert isinstance(answer, Rewrite)
    assert answer.otherwise is not None
    assert "clamp" not in str(answer.otherwise.replacements)
    assert "torch.where" in str(answer.otherwise.replacements)


MASK = "m = y > 0\n"


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (
            "if m.sum() > 0:\n    z = (x * m).sum() / m.sum()\nelse:\n    z = x.sum() * 0\nreturn z",
            "z = (x * m).sum() / m.sum().clamp(min=1)\nreturn z",
        ),
        (
            "z = (x * m).sum() / m.sum() if m.any() else torch.tensor(0.0)\nreturn z",
            "z = (x * m).sum() / m.sum().clamp(min=1)\nreturn z",
        ),
        (
            "n = m.float().sum()\nif n == 0:\n    return torch.zeros(()), n\nreturn (x * m).sum() / n, n",
            "n = m.float().sum()\nreturn (x * m).sum() / n.clamp(min=1), n",
        ),
        (
            "n = m.sum()\nif n == 0:\n    z = 1 - x\nelse:\n    z = 1 - (x + (y * m).sum()) / n\nreturn z",
            "n = m.sum()\nz = 1 - (x + (y * m).sum()) / n.clamp(min=1)\nreturn z",
        ),
        # The terms have other signs.
        (
            "n = m.sum()\nz = 1 + x if n == 0 else 1 - (x + (y * m).sum()) / n\nreturn z",
            "n = m.sum()\nz = torch.where(n == 0, 1 + x, 1 - (x + (y * m).sum()) / n.clamp(min=1))\nreturn z",
        ),
        # The other terms are not sums with this mask.
        (
            "n = m.sum()\np = (y * (y >= 0)).sum()\nz = x if n == 0 else (x + p) / n\nreturn z",
            "n = m.sum()\np = (y * (y >= 0)).sum()\nz = torch.where(n == 0, x, (x + p) / n.clamp(min=1))\nreturn z",
        ),
        (
            "n = m.sum()\np = y * m\np = p.sum()\nz = x if n == 0 else (x + p) / n\nreturn z",
            "n = m.sum()\np = y * m\np = p.sum()\nz = (x + p) / n.clamp(min=1)\nreturn z",
        ),
        # The other side is another value, so a test still selects, but a clamped count needs none.
        (
            "n = m.sum()\nz = x / n if n > 0 else x * 2\nreturn z",
            "n = m.sum()\nz = torch.where(n > 0, x / n.clamp(min=1), x * 2)\nreturn z",
        ),
        # The sum of weights may be between 0 and 1.
        (
            "n = y.sum()\nz = x / n if n > 0 else x * 2\nreturn z",
            "n = y.sum()\nz = torch.where(n > 0, x / torch.where(n > 0, n, 1), x * 2)\nreturn z",
        ),
    ],
)
def test_a_count_is_clamped(body: str, wanted: str) -> None:
    assert fixed(MASK + body) == MASK + wanted


def test_a_numerator_that_is_not_zero_needs_the_longer_form() -> None:
    answer = study(f"{MASK}if m.sum() == 0:\n    return x.sum() * 0\nz = x.sum()\nreturn z / m.sum()").own[0].answer
    assert isinstance(answer, Rewrite)
    assert "`z` is zero if nothing is counted" in answer.conditions
    assert answer.otherwise is not None
    assert "torch.where" in str(answer.otherwise.replacements)


def test_the_terms_that_are_left_out_have_to_be_zero() -> None:
    answer = study(f"{MASK}n = m.sum()\nreturn -x if n == 0 else -(x + (x * m).sum()) / n").own[0].answer
    assert isinstance(answer, Rewrite)
    assert "`(x * m).sum()` is zero if nothing is counted" in answer.conditions
    assert answer.otherwise is not None
    assert "torch.where" in str(answer.otherwise.replacements)


@pytest.mark.parametrize("test", ["m.sum() > 1", "m.sum() >= 2", "m.sum() < 10", "(y > 1).sum() > 0", "x.sum() > 0"])
def test_another_test_still_selects(test: str) -> None:
    body = f"{MASK}if {test}:\n    z = (x * m).sum() / m.sum()\nelse:\n    z = x.sum() * 0\nreturn z"
    assert "torch.where" in fixed(body)


@pytest.mark.parametrize(
    ("body", "counted"),
    [
        # Rows without an element gave NaN, although the mask selects something.
        ("z = (x * m).sum(1) / m.sum(1) if m.any() else (x * m).sum(1)", "m.sum(1)"),
        # No test is about the mask.
        ("z = x / m.sum() if x.sum() > 0 else x * 2", "m.sum()"),
        # The mask is another one when it is counted.
        ("n = (y > 0).sum()\ny = y - 5\nz = x.sum() / (y > 0).sum() if n > 0 else x.sum() * 0", "(y > 0).sum()"),
    ],
)
def test_other_counts_are_guarded(body: str, counted: str) -> None:
    assert f"{counted}, 1)" in fixed(f"{MASK}{body}\nreturn z")
    assert "clamp" not in fixed(f"{MASK}{body}\nreturn z")


def test_a_quotient_where_nothing_is_counted_needs_its_test() -> None:
    body = f"{MASK}if m.sum() == 0:\n    z = x.sum() / m.sum()\nelse:\n    z = x.sum() * 0\nreturn z"
    assert "torch.where(m.sum() == 0," in fixed(body)
