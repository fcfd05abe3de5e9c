"""What a reviewer would not merge is declined, and what the reasons name is what the code contains."""

from __future__ import annotations

import textwrap

import pytest

from dynalint import check_source
from dynalint.findings import Finding

MODEL = """\
import torch
import torch.nn.functional as F
import warnings
from torch import nn
from torch.autograd import Variable




class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.register_buffer("ready", torch.tensor(False))

    def forward(self, x: torch.Tensor):
{body}
"""


def found(body: str, code: str, more: str = "") -> list[Finding]:
    text = MODEL.format(body=textwrap.indent(textwrap.dedent(body), " " * 8)) + more
    return [one for one in check_source("model.py", text, isolated=True) if one.code == code]


def declined(body: str, code: str, more: str = "") -> str:
    """Return why the only finding with a code has no fix, or "" if it has one."""
    (one,) = found(body, code, more)
    assert one.fix is not None
    return one.fix.declined or ""


@pytest.mark.parametrize(
    ("body", "code", "why"),
    [
        ("return self.fc(x), str(x[x > 0].sum().item())", "DYN301", "same statement has another break"),
        (
            (
                "mse = ((self.fc(x) - x) ** 2).mean()\nif mse == 0:\n    return mse.new_tensor(100.0)\n"
                "return 20 * torch.log10(1 / torch.sqrt(mse))"
            ),
            "DYN101",
            "neither is what it is computed from",
        ),
        (
            (
                "s = x.sum()\nif s > 2:\n    h = self.fc(x)\nelif s > 1:\n    h = self.fc(x * 2)\nelif s > 0:\n"
                "    h = self.fc(x * 3)\nelse:\n    h = x\nreturn h"
            ),
            "DYN101",
            "every call would run the layers",
        ),
        (
            (
                "n = (x > 0).sum()\nif n == 0:\n    return x.sum() * 0\nh = self.fc(x).sigmoid()\n"
                "y = torch.log(h) - torch.log(1 - h) + h.sqrt()\nreturn y.sum() / n"
            ),
            "DYN101",
            "more than 2 operations that follow",
        ),
        ('note = "a"\nnote += f"{x.sum().item()}"\nreturn self.fc(x), note', "DYN201", "is only shown"),
        (
            "if self.ready:\n    x = x * 2\nself.ready.fill_(True)\nreturn self.fc(x)",
            "DYN101",
            "`self.ready` is tested and modified in place",
        ),
    ],
    ids=["statement", "guards-in-guards", "layers", "scattered", "joined-text", "buffer"],
)
def test_what_nobody_would_merge_is_declined(body: str, code: str, why: str) -> None:
    reasons = [(one.fix.declined or "") if one.fix is not None else "" for one in found(body, code)]
    assert any(why in reason for reason in reasons), reasons


def test_a_break_in_another_statement_or_inside_the_rewritten_code_does_not_count() -> None:
    assert declined("s = x[x > 0].sum()\nreturn self.fc(x), str(s.item())", "DYN301") == ""
    assert declined("print(x.sum().item())\nreturn self.fc(x)", "DYN401") == ""
    assert declined('assert x.sum() > 0, f"{x.sum().item()}"\nreturn self.fc(x)', "DYN104") == ""


ARRAY = "import numpy as np\nkernel = np.ones(4)\n{made}\nreturn self.fc(x) + Variable(kernel, requires_grad=False)"


@pytest.mark.parametrize(
    ("made", "detaches"),
    [
        ("kernel = torch.FloatTensor(kernel / 4)", False),
        ("kernel = torch.FloatTensor(kernel / 4)\nif len(x) > 1:\n    kernel = self.fc.weight", True),
        ("kernel = torch.FloatTensor(kernel / 4)\nkernel.mul_(self.fc.weight[0])", True),
    ],
    ids=["array", "one-of-two", "changed"],
)
def test_a_tensor_of_an_array_is_not_detached(made: str, *, detaches: bool) -> None:
    (one,) = found(ARRAY.format(made=made), "DYN603")
    assert one.fix is not None
    assert (".detach(" in "".join(edit.content for edit in one.fix.edits)) is detaches


HELPERS = """

def version_of(name):
    parts = name.split(".")
    if len(parts) < 2:
        warnings.warn("no version")
    return parts


def told(text):
    warnings.warn(text)


def scaled(x):
    warnings.warn("scaled")
    return x * 2


class Plan:
    def __init__(self, size):
        self.size = torch.ones(size).sum()
        warnings.warn("planned")
"""


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ("version_of('a')", "`version_of` computes with no tensor"),
        ("told('a')", ""),
        ("scaled(x)", ""),
        ("Plan(2)", "`__init__` is a constructor"),
    ],
)
def test_output_is_guarded_where_something_is_computed(call: str, why: str) -> None:
    reason = declined(f"{call}\nreturn self.fc(x)", "DYN403", HELPERS)
    assert (why in reason) if why else reason == ""
