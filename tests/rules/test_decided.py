"""Tests whose answer is known go, with the side that is never taken, and only those."""

from __future__ import annotations

import textwrap

import pytest

from dynalint.rules import Example, Rewrite
from dynalint.testing.cases import Case
from dynalint.testing.static import Study
from dynalint_rules.control_flow.branch_on_tensor import BranchOnTensor

HEAD = "import torch\n\n\n@torch.compile\ndef f(x: torch.Tensor, y: torch.Tensor, flag: bool):\n"
DROPPED = "Drop the test, which always has the same answer"


def study(body: str) -> Study:
    code = HEAD + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n"
    return Study(Case(BranchOnTensor(), Example("x", code)), [BranchOnTensor()])


def dropped(body: str) -> list[Rewrite]:
    answers = [found.answer for found in study(body).own]
    return [one for one in answers if isinstance(one, Rewrite) and one.title == DROPPED]


def after(body: str) -> str:
    """What is left once the first of these tests is dropped."""
    rewrite = dropped(body)[0]
    text = rewrite.replacements[0].file.text
    for edit in sorted(rewrite.replacements, key=lambda one: -one.start):
        text = text[: edit.start] + edit.content + text[edit.end :]
    return textwrap.dedent(text.removeprefix(HEAD)).strip("\n")


def lines(text: str) -> str:
    return textwrap.dedent(text).strip("\n")


# What is left of a branch.


def test_the_same_test_again_goes_with_the_side_never_taken() -> None:
    body = """
    if x.sum() > 0:
        if x.sum() > 0:
            # Twice as much.
            x = (x *
                 2)
            text = '''
            stays'''; y = y + 1
        else:
            x = torch.rand_like(x)
    return x + y
    """
    assert dropped(body.replace("            # Twice as much.\n", ""))[0].safety == "safe"
    assert after(body.replace("            # Twice as much.\n", "")) == lines(
        """
    if x.sum() > 0:
        x = (x *
             2)
        text = '''
            stays'''
        y = y + 1
    return x + y
    """
    )
    assert dropped(body) == []  # the comment would go


CHAIN = """
if x.sum() > 0:
    x = x + 1
elif x.mean() < 1:
    x = x + 2
elif x.sum() > 0:
    x = torch.rand_like(x)
else:
    x = x + 3
return x
"""


def test_an_elif_goes_out_of_its_chain() -> None:
    gone = "elif x.sum() > 0:\n    x = torch.rand_like(x)\n"
    assert after(CHAIN) == lines(CHAIN).replace(gone, "")
    chained = CHAIN.replace(
        "else:\n    x = x + 3", "elif y.sum() > 1:\n    x = x + 3\nelif x.max() > 1:\n    x = x + 4"
    )
    assert after(chained) == lines(chained).replace(gone, "")
    last = CHAIN.replace("else:\n    x = x + 3\n", "")
    assert after(last) == lines(last).replace(gone, "")


def test_an_elif_that_always_holds_is_the_else() -> None:
    holds = CHAIN.replace("elif x.sum() > 0", "elif not (x.sum() > 0)")
    assert after(holds) == lines(
        """
    if x.sum() > 0:
        x = x + 1
    elif x.mean() < 1:
        x = x + 2
    else:
        x = torch.rand_like(x)
    return x
    """
    )


def test_what_follows_a_first_test_that_never_holds_comes_first() -> None:
    body = """
    if torch.relu(x).min() < 0:
        x = torch.rand_like(x)
    elif y.sum() > 0:
        x = x + 1
    return x
    """
    (rewrite,) = dropped(body)
    assert rewrite.conditions == ("`torch.relu(x).min() < 0` raises nothing",)
    assert after(body) == "if y.sum() > 0:\n    x = x + 1\nreturn x"
    other = body.replace("elif y.sum() > 0", "else")
    assert after(other) == "x = x + 1\nreturn x"


def test_an_answer_of_floats_is_offered_under_that_condition() -> None:
    body = "z = x * x\nif y.sum() > 0 and not z.min() < -1:\n    x = y\nelse:\n    x = -y\nreturn x"
    assert dropped(body) == []
    (rewrite,) = dropped(body.replace("y.sum() > 0 and ", ""))
    assert rewrite.safety == "conditional"
    assert rewrite.conditions == ("`not z.min() < -1` raises nothing", "`x * x` is a floating-point tensor")
    assert len(rewrite.settled) == 1


def test_nothing_else_rests_on_an_answer_of_floats() -> None:
    body = "z = x * x\nif y.sum() > 0:\n    if z.min() < -1:\n        y = -y\n    y = y + 1\nreturn y"
    answers = [found.answer for found in study(body).own]
    others = [one for one in answers if isinstance(one, Rewrite) and one.title != DROPPED]
    assert not any(one.settled for one in others)


def test_a_branch_that_never_runs_goes_whole() -> None:
    assert after("z = x.relu()\nif z.min() < 0:\n    print(z)\nreturn z") == "z = x.relu()\nreturn z"
    body = "if flag:\n    if x.relu().min() < 0:\n        print(x)\nreturn x"
    assert after(body) == "if flag:\n    pass\nreturn x"


def test_an_expression_becomes_one_of_its_sides() -> None:
    assert after("return x + (y if x.exp().min() < 0 else x * 2)") == "return x + (x * 2)"
    assert after("z = torch.rand(3) if x.exp().min() < 0 else x\nreturn z") == "z = x\nreturn z"
    assert after("return max(y if x.exp().min() < 0 else x * 2, x)") == "return max(x * 2, x)"
    assert dropped("return torch.rand(3) if x.exp().min() < 0 else lambda: x") == []


# What must stay.


@pytest.mark.parametrize(
    "body",
    [
        # A name that the side alone binds would be another one without it.
        "if x.relu().min() < 0:\n    z = torch.rand(3)\nif flag:\n    return z\nreturn x",
        "if x.relu().min() < 0:\n    yield y",
        "if x.relu().min() < 0:\n    global z\nreturn x",
        "if x.relu().min() < 0:  # never\n    x = torch.rand(3)\nreturn x",
        "if x.relu().min() < 0:\n    x = torch.rand(3)  # never\nreturn x",
        "if x.sum() > 0:\n    y = x\nelif x.sum() > 0:\n    y = torch.rand(3)  # never\nreturn y",
        # What follows would never run.
        "if not x.relu().min() < 0:\n    return y\nreturn x",
        # The test itself does something.
        "if torch.rand(()) < 0:\n    x = torch.rand(3)\nreturn x",
        "if x.relu_().sum() < 0:\n    x = torch.rand(3)\nreturn x",
        "z = x\nif x.relu().min() < 0 and (z := y).sum() > 0:\n    x = torch.rand(3)\nreturn z",
    ],
)
def test_what_would_be_another_function_stays(body: str) -> None:
    assert dropped(body) == []


def test_a_name_that_has_a_value_elsewhere_may_lose_one() -> None:
    assert after("z = x\nif x.relu().min() < 0:\n    z = torch.rand(3)\nreturn z") == "z = x\nreturn z"


@pytest.mark.parametrize(
    "body",
    [
        "if x.sum() > 0:\n    return [y for x in (x, y) if flag and (y if x.sum() > 0 else x).sum() > 0]\nreturn x",
        "if x.sum() > 0:\n    g = lambda: y if x.sum() > 0 else x\n    x = x - 9\n    return g()\nreturn x",
        "m = x.relu()\nreturn [y if m.min() < 0 else m for m in (x, y)]",
    ],
)
def test_what_runs_later_or_by_other_names_may_have_another_answer(body: str) -> None:
    assert dropped(body) == []


def test_a_lambda_that_reads_from_around_it_is_no_error() -> None:
    assert study("g = lambda: y if x.sum() > 0 else x * 2\nreturn g()").own


@pytest.mark.parametrize(
    "body",
    [
        "with torch.autocast('cpu', torch.float16):\n    if AGAIN:\n        y = x * 2",
        "with swapped_weights():\n    if AGAIN:\n        y = x * 2",
        "try:\n    x.neg_()\n    y = x.view(-1, 3)\nexcept RuntimeError:\n    if AGAIN:\n        y = x * 2",
        "try:\n    y = x.neg_()\nexcept RuntimeError:\n    if AGAIN:\n        y = x * 2\nelse:\n    y = x",
        "try:\n    x.neg_()\nexcept RuntimeError:\n    y = x\nelse:\n    if AGAIN:\n        y = x * 2",
        "try:\n    x.neg_()\nfinally:\n    if AGAIN:\n        y = x * 2",
        "match [y, flag]:\n    case [x, True]:\n        if AGAIN:\n            y = x * 2",
        "while flag:\n    if AGAIN:\n        y = x * 2\n    x.neg_()",
        "while (1 if AGAIN else 0):\n    x = x - 1",
        "y = x.neg_() * (1.0 if AGAIN else 2.0)",
        "y = (x := x - 5) * (1.0 if AGAIN else 2.0)",
        "y = torch.add(input=x.neg_(), other=y if AGAIN else x)",
        "if x.neg_().max() > 3 or AGAIN:\n    y = x * 2",
    ],
)
def test_what_runs_between_a_test_and_the_same_again_may_change_its_answer(body: str) -> None:
    found = study(
        f"if (x @ y).sum() > 9:\n{textwrap.indent(body, '    ')}\nreturn y".replace("AGAIN", "(x @ y).sum() > 9")
    )
    rewrites = [one.answer for one in found.own if isinstance(one.answer, Rewrite)]
    assert not any(one.title == DROPPED or one.settled for one in rewrites)


def test_a_hook_of_a_layer_may_change_what_is_asked_of_the_module() -> None:
    code = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("seen", torch.zeros(()))
        self.layer.register_forward_hook(lambda *_: self.seen.add_(1))

    def forward(self, x):
        if self.seen < 1:
            x = self.layer(x)
            if self.seen < 1:
                x = x * 2
        return x
"""
    found = Study(Case(BranchOnTensor(), Example("x", code)), [BranchOnTensor()]).own
    answers = [one.answer for one in found if isinstance(one.answer, Rewrite)]
    assert found
    assert not any(one.title == DROPPED or one.settled for one in answers)


@pytest.mark.parametrize("total", ["def total():\n    return x.sum() - n", "total = lambda: x.sum() - n"])
def test_what_a_function_reads_of_around_it_may_change_its_answer(total: str) -> None:
    body = f"n = 0\n{total}\nif total() > 0:\n    n = 5\n    if total() > 0:\n        y = x * 2\nreturn y"
    assert dropped(body) == []
    assert dropped(body.replace("    n = 5\n", ""))


@pytest.mark.parametrize(("rounds", "drops"), [("range(3)", True), ("[x, y]", True), ("given", False)])
def test_what_gives_the_rounds_of_a_loop_may_run_code(rounds: str, drops: bool) -> None:
    body = f"y = x + 1\nif x.sum() > 0:\n    for _ in {rounds}:\n        pass\n    if x.sum() > 0:\n        y = x * 2\nreturn y"
    assert bool(dropped(body.replace("given", "self.given"))) is drops
