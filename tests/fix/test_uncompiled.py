"""Sides of a branch that no compiled run comes to: they stay as they are, behind the tensor that decided on them."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from .test_generated import breaks, first_difference, fix

pytestmark = [pytest.mark.runs_dynamo, pytest.mark.usefixtures("here")]

MODEL = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, wide: bool = False):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.last = None
        self.wide = wide

    def forward(self, x: torch.Tensor, y: torch.Tensor):
{body}


def example():
    return Model(), (torch.linspace(-2, 2, 12).reshape(3, 4), torch.linspace(1, -1, 12).reshape(3, 4))
"""


def fixed(directory: Path, body: str) -> str:
    """Fix a model with this body of `forward`, make sure that nothing differs, and return the new body."""
    path, code = directory / "model.py", MODEL.format(body=textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8))
    result = fix(path, code)
    text = next((file.text for file in result.files), code)
    assert text == code or (first_difference(path, code, text), breaks(path, text)) == (None, None)
    head, tail = MODEL.split("{body}")
    return textwrap.dedent(text.removeprefix(head).removesuffix(tail)).strip("\n")


KEPT = {
    "print": (
        """
        if x.sum() > 0:
            # twice
            x = x * 2
            print("above", x.shape)
            print("it was", y)
            y = y - x
        return x + y
        """,
        """
        # twice
        condition = x.sum() > 0
        x = torch.where(condition, x * 2, x)
        if not torch.compiler.is_compiling() and condition:
            print("above", x.shape)
            print("it was", y)
        y = torch.where(condition, y - x, y)
        return x + y
        """,
    ),
    "print alone on one of several sides": (
        """
        if x.sum() > 0:
            x = x * 2
        elif y.sum() > 0:
            for _ in range(2):
                print("no")
        else:
            x = x - 1
        return x + y
        """,
        """
        condition = x.sum() > 0
        x = torch.where(condition, x * 2, x)
        condition_2 = ~condition & (y.sum() > 0)
        for _ in range(2):
            if not torch.compiler.is_compiling() and condition_2:
                print("no")
        otherwise = ~condition & ~condition_2
        x = torch.where(otherwise, x - 1, x)
        return x + y
        """,
    ),
    "print on another test": (
        """
        z = x
        if x.sum() > 0:
            z = x + y
            if self.wide or y.dim() == 2:
                print("wide")
        return z * 2 + y
        """,
        """
        z = x
        condition = x.sum() > 0
        z = torch.where(condition, x + y, z)
        if (self.wide or y.dim() == 2) and not torch.compiler.is_compiling() and condition:
            print("wide")
        return z * 2 + y
        """,
    ),
    "other side of what is always None": (
        """
        z = x
        if x.sum() > 0:
            if self.last is None:
                z = y * 2
            elif self.last.sum() > 0:
                # Never yet.
                z = self.last

            else:
                w = y
                return w - 1
        return z + x + y
        """,
        """
        z = x
        condition = x.sum() > 0
        if self.last is None:
            z = torch.where(condition, y * 2, z)
        elif condition:
            if self.last.sum() > 0:
                # Never yet.
                z = self.last

            else:
                w = y
                return w - 1
        return z + x + y
        """,
    ),
    "side before the one that runs": (
        """
        z = x
        if x.sum() > 0:
            z = y * 2
        elif y.sum() > 0:
            if self.last is not None:
                z = self.last * 2
            else:
                z = y * 3
        return z + x + y
        """,
        """
        z = x
        condition = x.sum() > 0
        z = torch.where(condition, y * 2, z)
        condition_2 = ~condition & (y.sum() > 0)
        if self.last is not None:
            if condition_2:
                z = self.last * 2
        else:
            z = torch.where(condition_2, y * 3, z)
        return z + x + y
        """,
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_no_compiled_run_comes_to_stays(tmp_path: Path, name: str) -> None:
    body, wanted = KEPT[name]
    assert fixed(tmp_path, body) == textwrap.dedent(wanted).strip("\n")
