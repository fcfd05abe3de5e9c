"""Expressions in parentheses that a rewrite moves: what takes in its neighbours keeps its parentheses."""

from __future__ import annotations

import textwrap

import pytest

from dynalint.rulebook.pages import Example
from dynalint.rules import all_rules
from dynalint.testing.cases import Case
from dynalint.testing.static import StaticView

HEAD = "import random\nimport torch\n\n\n@torch.compile\ndef f(x: torch.Tensor, y: torch.Tensor, flag: bool, k: int):\n"


def fixed(code: str, body: str) -> str:
    rule = next(rule for rule in all_rules() if rule.code == code)
    text = HEAD + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n"
    return textwrap.dedent(StaticView(Case(rule, Example("x", text)), [rule]).fixed.removeprefix(HEAD)).rstrip("\n")


@pytest.mark.parametrize(
    ("code", "body", "wanted"),
    [
        pytest.param(
            "DYN101",
            """
            z = x + 1
            if (x if flag else y).sum() > 0:
                z = (y if k > 1 else x)
            return z
            """,
            "z = torch.where((x if flag else y).sum() > 0, y if k > 1 else x, z)",
            id="a choice in a choice",
        ),
        pytest.param(
            "DYN301",
            """
            h = x.clone()
            keep = x > 0
            part = (x - y)[keep] * 2
            h[keep] = part
            return h
            """,
            "h = torch.where(keep, (x - y) * 2, h)",
            id="elements that a mask selects",
        ),
        pytest.param(
            "DYN301",
            """
            labels = y.long()
            return torch.nn.functional.cross_entropy((x + y)[labels > 0], labels[labels > 0])
            """,
            "cross_entropy((x + y).flatten(0, -2), torch.where(labels > 0, labels, -100).flatten())",
            id="rows of a loss",
        ),
    ],
)
def test_an_operand_stays_whole(code: str, body: str, wanted: str) -> None:
    assert wanted in fixed(code, body)


@pytest.mark.parametrize(
    ("code", "body"),
    [
        ("DYN205", "i = x.flatten().argmax()\nreturn x[i].item()"),
        ("DYN205", "i = x.flatten().argmax()\nreturn float(x[i])"),
        ("DYN205", "values = x.numpy()\nreturn values[values.argmax()]"),
        ("DYN202", "i = int(x.flatten().argmax())\na, b, c, d = (torch.zeros(8) for _ in range(4))\n" + "\n".join(
            f"{name}[i] = 1.0" for name in "abcd"
        ) + "\nreturn a + b + c + d"),
        ("DYN302", "mask = x > 0\nrows = torch.nn.functional.linear(x[mask], y)\nz = torch.zeros_like(x)\nz[mask] += rows\nreturn z"),
    ],
)  # fmt: skip
def test_what_nobody_would_merge_is_not_offered(code: str, body: str) -> None:
    assert fixed(code, body) == body


def test_a_variable_that_wraps_another_object_s_data_still_stops_gradients() -> None:
    body = "from torch.autograd import Variable\nholder = random.choice(k)\nreturn Variable(torch.relu({}.data))"
    assert fixed("DYN603", body.format("holder")).endswith("return torch.relu(holder.data).detach()")
    assert fixed("DYN603", body.format("x")).endswith("return torch.relu(x.data)")


def test_an_element_of_a_list_of_tensors_is_copied() -> None:
    whole = "a = torch.ones(2)\nparts = {}\nreturn x * parts[0].item()"
    assert "parts[0].detach().clone()" in fixed("DYN201", whole.format("torch.split(a, 1)"))
    assert "parts[0].detach()\n" in fixed("DYN201", whole.format("a * 2")) + "\n"
