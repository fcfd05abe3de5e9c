"""The longer form of a rewrite, for what would be infinite or NaN on the side that is not taken."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from dynalint.fix import FixResult
from dynalint.fix.edits import from_edits

from .test_generated import fix

MODEL = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.bound = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor, y: torch.Tensor):
{body}


def example():
    return Model(), (torch.linspace(-2, 2, 12).reshape(3, 4), torch.linspace(1, -1, 12).reshape(3, 4))
"""


def fixed(directory: Path, body: str) -> tuple[FixResult, str]:
    """Fix a model with this body of `forward`; return the result and the new body."""
    code = MODEL.format(body=textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8))
    result = fix(directory / "model.py", code)
    text = next((file.text for file in result.files), code)
    head, tail = MODEL.split("{body}")
    return result, textwrap.dedent(text.removeprefix(head).removesuffix(tail)).strip("\n")


SHELTERED = {
    "product": (
        """
        z = x * y if x.sum() > 0 else x + y
        return z
        """,
        """
        condition = x.sum() > 0
        z = torch.where(condition, torch.where(condition, x, 1) * torch.where(condition, y, 1), x + y)
        return z
        """,
    ),
    "index": (
        """
        i = y[:, 0].argsort()
        z = x[i] ** 2 if x.sum() > 0 else x + y
        return z - y
        """,
        """
        i = y[:, 0].argsort()
        z = torch.where(x.sum() > 0, torch.where(x.sum() > 0, x, 1)[i] ** 2, x + y)
        return z - y
        """,
    ),
    "in place": (
        """
        z = x + y
        if y.sum() > 0:
            z *= y
        return z + y
        """,
        """
        z = x + y
        condition = y.sum() > 0
        z = torch.where(condition, torch.where(condition, z, 1) * torch.where(condition, y, 1), z)
        return z + y
        """,
    ),
    "of three": (
        """
        if x.sum() > 0:
            x = x + y
        elif y.sum() > 0:
            x = x ** 2 + y
        else:
            x = x - y
        return x
        """,
        """
        condition = x.sum() > 0
        condition_2 = y.sum() > 0
        x = torch.where(
            condition,
            x + y,
            torch.where(condition_2, torch.where(condition, 1, torch.where(condition_2, x, 1)) ** 2 + y, x - y),
        )
        return x
        """,
    ),
    "where only drawn tensors tell": (
        """
        a = x + y
        b = x + y
        if a.max() > b.max():
            z = a / a.norm()
        else:
            z = -a
        return z
        """,
        """
        a = x + y
        b = x + y
        condition = a.max() > b.max()
        z = torch.where(
            condition,
            torch.where(condition, a, 1) / torch.where(condition, torch.where(condition, a, 1).norm(), 1.0),
            -a,
        )
        return z
        """,
    ),
    "a slope at zero, before the test": (
        """
        d = (x * x).sum().sqrt()
        if d > 0:
            x = x / d
        return x + y
        """,
        """
        d = (x * x).sum().sqrt()
        condition = d > 0
        safe_x = torch.where(condition, x, 1)
        x = torch.where(condition, safe_x / torch.where(condition, (safe_x * safe_x).sum(), 1.0).sqrt(), x)
        return x + y
        """,
    ),
    "a bound on a norm": (
        """
        h = self.layer(x)
        norm = h.norm()
        if norm > 1.0:
            h = h * (1.0 / norm)
        return h
        """,
        """
        h = self.layer(x)
        norm = h.norm()
        condition = norm > 1.0
        safe_h = torch.where(condition, h, 1)
        h = torch.where(condition, safe_h * (1.0 / safe_h.norm()), h)
        return h
        """,
    ),
    "what stays as it was": (
        """
        a = x.exp()
        z = a + 1
        if y.sum() > 0:
            z = y
        return z + x + y
        """,
        """
        a = x.exp()
        z = a + 1
        condition = y.sum() > 0
        safe_x = torch.where(condition, 0.0, x)
        z = torch.where(condition, y, safe_x.exp() + 1)
        return z + x + y
        """,
    ),
    "what stays as it was, of what another side sets": (
        """
        a = x * y
        if x.sum() > 0:
            a = y + 1
        elif y.sum() > 0:
            x = y - 1
        return a + x
        """,
        """
        a = x * y
        condition = x.sum() > 0
        condition_2 = y.sum() > 0
        safe_x = torch.where(condition, 1, x)
        safe_y = torch.where(condition, 1, y)
        a = torch.where(condition, y + 1, safe_x * safe_y)
        x = torch.where(condition, x, torch.where(condition_2, y - 1, x))
        return a + x
        """,
    ),
    "what stays as it was, of what has been set anew": (
        """
        a = x * 2
        b = x - y
        b = a / b.norm()
        a = y + 1
        if y.sum() > 0:
            b = y
        return a + b + x + y
        """,
        """
        a = x * 2
        b = x - y
        b = a / b.norm()
        a = y + 1
        condition = y.sum() > 0
        b = torch.where(
            condition,
            y,
            torch.where(condition, 1, x * 2) / torch.where(condition, 1.0, torch.where(condition, 1, x - y).norm()),
        )
        return a + b + x + y
        """,
    ),
    "what stays as it was, of what had no other name": (
        """
        z = x + y
        y = y / y.norm()
        if x.sum() > 0:
            x = y.abs()
        else:
            y = x - 1
        return x + y + z
        """,
        """
        z = x + y
        old_y = y
        y = y / y.norm()
        condition = x.sum() > 0
        safe_y = torch.where(condition, old_y, 1)
        y = safe_y / torch.where(condition, safe_y.norm(), 1.0)
        x = torch.where(condition, y.abs(), x)
        y = torch.where(condition, y, x - 1)
        return x + y + z
        """,
    ),
    "what stays as it was, of a parameter": (
        """
        a = x * self.bound
        b = x - 1
        if y.sum() > 0:
            a = y * self.bound
        return a + b + y
        """,
        """
        a = x * self.bound
        b = x - 1
        condition = y.sum() > 0
        safe_y = torch.where(condition, y, 1)
        safe_x = torch.where(condition, 1, x)
        a = torch.where(condition, safe_y * self.bound, safe_x * self.bound)
        return a + b + y
        """,
    ),
    "what one side leaves as it was, round a loop": (
        """
        a = x.exp()
        if y.sum() > 0:
            for _ in range(2):
                a = a + y
        elif x.sum() > 0:
            for _ in range(2):
                a = y + 1
            y = y - x
        else:
            x = x.abs()
        return a + x + y
        """,
        """
        a = x.exp()
        condition = y.sum() > 0
        condition_2 = ~condition & (x.sum() > 0)
        safe_x = torch.where(condition_2, 0.0, x)
        a = safe_x.exp()
        for _ in range(2):
            a = torch.where(condition, a + y, a)
        for _ in range(2):
            a = torch.where(condition_2, y + 1, a)
        y = torch.where(condition_2, y - x, y)
        otherwise = ~condition & ~condition_2
        x = torch.where(otherwise, x.abs(), x)
        return a + x + y
        """,
    ),
    "what either way of an early return leaves alone": (
        """
        a = x * y
        b = x.exp()
        if y.sum() > 0:
            return b + y + x
        b = a + y
        return b - x
        """,
        """
        a = x * y
        b = x.exp()
        condition = y.sum() > 0
        safe_x = torch.where(condition, x, 0.0)
        safe_x_2 = torch.where(condition, 1, x)
        safe_y = torch.where(condition, 1, y)
        b = safe_x.exp()
        a = safe_x_2 * safe_y
        early = b + y + x
        b = a + y
        return torch.where(condition, early, b - x)
        """,
    ),
    "what two of three sides leave as it was": (
        """
        a = x * y
        if x.sum() > 0:
            x = x + y
        elif y.sum() > 0:
            a = x + y
        return a + x
        """,
        """
        a = x * y
        condition = x.sum() > 0
        condition_2 = y.sum() > 0
        safe_x = torch.where(condition, x, torch.where(condition_2, 1, x))
        safe_y = torch.where(condition, y, torch.where(condition_2, 1, y))
        safe_a = safe_x * safe_y
        x = torch.where(condition, x + y, x)
        a = torch.where(condition, safe_a, torch.where(condition_2, x + y, safe_a))
        return a + x
        """,
    ),
    "what one side reads and another leaves as it was": (
        """
        b = x * y
        if y.sum() > 0:
            b = y
        elif x.sum() > 0:
            x = b.exp()
        return b + x + y
        """,
        """
        b = x * y
        condition = y.sum() > 0
        condition_2 = x.sum() > 0
        safe_x = torch.where(condition, 1, x)
        safe_y = torch.where(condition, 1, y)
        b = safe_x * safe_y
        safe_b = torch.where(condition, 0.0, torch.where(condition_2, b, 0.0))
        b = torch.where(condition, y, b)
        x = torch.where(condition, x, torch.where(condition_2, safe_b.exp(), x))
        return b + x + y
        """,
    ),
    "what one of three sides does not use": (
        """
        c = x * y
        if x.sum() > 0:
            x = x + 1
        elif x.max() > 2:
            y = y - x
        elif y.sum() > 0:
            c = x.abs()
        return c + x + y
        """,
        """
        c = x * y
        condition = x.sum() > 0
        condition_2 = x.max() > 2
        condition_3 = y.sum() > 0
        safe_x = torch.where(condition | condition_2, x, torch.where(condition_3, 1, x))
        safe_y = torch.where(condition | condition_2, y, torch.where(condition_3, 1, y))
        safe_c = safe_x * safe_y
        x = torch.where(condition, x + 1, x)
        y = torch.where(condition, y, torch.where(condition_2, y - x, y))
        c = torch.where(condition, safe_c, torch.where(condition_2, safe_c, torch.where(condition_3, x.abs(), safe_c)))
        return c + x + y
        """,
    ),
    "two copies of which would round otherwise": (
        """
        c = x * y
        if x.sum() > 0:
            x = x / c
        elif y.sum() > 0:
            c = x.abs()
        return c + x + y
        """,
        """
        c = x * y
        condition = x.sum() > 0
        condition_2 = y.sum() > 0
        safe_x = torch.where(condition, x, torch.where(condition_2, 1, x))
        safe_y = torch.where(condition, y, torch.where(condition_2, 1, y))
        c = safe_x * safe_y
        safe_c = torch.where(condition, c, 1.0)
        safe_x_2 = torch.where(condition, x, 1)
        x = torch.where(condition, safe_x_2 / safe_c, x)
        c = torch.where(condition, c, torch.where(condition_2, x.abs(), c))
        return c + x + y
        """,
    ),
    "what is used either way stays": (
        """
        a = x * y
        d = (x * x).sum().sqrt()
        z = y
        if d > 0:
            z = a / d
        return a + x + y + z
        """,
        """
        a = x * y
        d = (x * x).sum().sqrt()
        z = y
        condition = d > 0
        safe_x = torch.where(condition, x, 1)
        safe_a = torch.where(condition, a, 1)
        z = torch.where(condition, safe_a / torch.where(condition, (safe_x * safe_x).sum(), 1.0).sqrt(), z)
        return a + x + y + z
        """,
    ),
    "a layer, where nothing else helps": (
        """
        a = self.layer(x)
        if y.sum() > 0:
            a = y
        return self.layer(a + y) + x
        """,
        """
        a = self.layer(x)
        condition = y.sum() > 0
        safe_x = torch.where(condition, 1, x)
        a = torch.where(condition, y, self.layer(safe_x))
        return self.layer(a + y) + x
        """,
    ),
    "what is used but for nothing": (
        """
        a = x * y
        if y.sum() > 0:
            d = a * 2
            a = y + x
        return a + y
        """,
        """
        a = x * y
        condition = y.sum() > 0
        safe_x = torch.where(condition, 1, x)
        safe_y = torch.where(condition, 1, y)
        d = a * 2
        a = torch.where(condition, y + x, safe_x * safe_y)
        return a + y
        """,
    ),
    "what another name passes on": (
        """
        z = x
        if y.sum() > 0:
            t = -x
            z = t * y
        return z + y
        """,
        """
        z = x
        condition = y.sum() > 0
        t = -x
        z = torch.where(condition, torch.where(condition, t, 1) * torch.where(condition, y, 1), z)
        return z + y
        """,
    ),
    "changed in a loop": (
        """
        a = x + y
        if y.sum() > 0:
            for _ in range(2):
                a *= y
        return a
        """,
        """
        a = x + y
        condition = y.sum() > 0
        for _ in range(2):
            a = torch.where(condition, torch.where(condition, a, 1) * torch.where(condition, y, 1), a)
        return a
        """,
    ),
    "after an early return": (
        """
        if x.sum() > 0:
            return x + y
        z = x * y
        return z - y
        """,
        """
        condition = x.sum() > 0
        early = x + y
        z = torch.where(condition, 1, x) * torch.where(condition, 1, y)
        return torch.where(condition, early, z - y)
        """,
    ),
}


@pytest.mark.runs_dynamo
@pytest.mark.parametrize("name", SHELTERED)
def test_what_would_be_infinite_is_kept_out(tmp_path: Path, here: None, name: str) -> None:
    before, after = SHELTERED[name]
    result, text = fixed(tmp_path, before)
    assert {one.proof.outcome for one in result.fixed if one.proof} == {"proven"}, result.refused
    assert text == textwrap.dedent(after).strip("\n")
    assert all(one.finding.fix is not None for one in result.fixed)
    if len(result.fixed) == 1:
        told = from_edits(result.files[0].source, result.fixed[0].finding.fix.edits)  # type: ignore[union-attr]
        assert told == result.files[0].text


@pytest.mark.runs_dynamo
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "z = x + y if x.sum() > 0 else x[:, :4] - 2 * y.clamp(min=0)\nreturn z",
            "z = torch.where(x.sum() > 0, x + y, x[:, :4] - 2 * y.clamp(min=0))\nreturn z",
        ),
        (
            "z = x.masked_fill(y * x > 0, 0) + y if x.sum() > 0 else x + y\nreturn z",
            "z = torch.where(x.sum() > 0, x.masked_fill(y * x > 0, 0) + y, x + y)\nreturn z",
        ),
        (
            "z = x + 1\nif y.sum() > 0:\n    z /= y\nreturn z + y",
            (
                "z = x + 1\ncondition = y.sum() > 0\n"
                "z = torch.where(condition, z / torch.where(condition, y, 1.0), z)\nreturn z + y"
            ),
        ),
    ],
    ids=["linear", "mask", "divided"],
)
def test_what_needs_no_shelter_stays_short(tmp_path: Path, here: None, before: str, after: str) -> None:
    result, text = fixed(tmp_path, before)
    assert text == after, result.refused


@pytest.mark.runs_dynamo
def test_where_shelter_does_not_help_the_fix_is_refused(tmp_path: Path, here: None) -> None:
    body = "a = x.exp()\nz = a + 1 if y.sum() > 0 else y\nreturn z + x"
    result, text = fixed(tmp_path, body)
    assert text == body
    (refused,) = result.refused
    assert refused.refuted
    assert "gradient of input" in refused.reason


PRODUCT = """\
import json

import numpy as np
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.sizes = json.loads("{sizes}")

    def forward(self, x):
        return self.layer(x).reshape(-1, int(np.prod(self.sizes)))


def example():
    import torch

    return Model(), (torch.linspace(-2, 2, 12).reshape(3, 4),)
"""


@pytest.mark.runs_dynamo
@pytest.mark.parametrize(
    ("sizes", "product"),
    [
        ("[2, 2]", "math.prod(self.sizes)"),
        ("4", "self.sizes if isinstance(self.sizes, int) else math.prod(self.sizes)"),
    ],
    ids=["sequence", "number"],
)
def test_a_product_is_told_from_a_number_where_that_has_to_be(
    tmp_path: Path, here: None, sizes: str, product: str
) -> None:
    result = fix(tmp_path / "model.py", PRODUCT.format(sizes=sizes))
    (file,) = result.files
    assert f"reshape(-1, {product})" in file.text, result.refused
    assert {one.proof.outcome for one in result.fixed if one.proof} == {"proven"}
