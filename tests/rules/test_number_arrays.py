"""Arrays of NumPy that only hold known whole numbers: what becomes a list, and what does not."""

from __future__ import annotations

import textwrap

import pytest

from dynalint.rules import Declined, Example, Rewrite
from dynalint.testing.cases import Case
from dynalint.testing.static import Study
from dynalint_rules.shapes.counting_call import CountingCall
from dynalint_rules.tensor_to_python.numpy_call import UntracedNumpy

HEAD = "import numpy as np\nimport torch\n\n\n@torch.compile\ndef f(x: torch.Tensor, axes, flag: bool):\n"


def answer(body: str, head: str = HEAD) -> Rewrite | Declined:
    rule = CountingCall()
    code = head + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n"
    found = Study(Case(rule, Example("x", code)), [rule]).own
    assert len(found) == 1, found
    assert isinstance(found[0].answer, Rewrite | Declined)
    return found[0].answer


@pytest.mark.parametrize(
    "body",
    [
        "a = np.unique((1, 0))\nfor i in a:\n    x = x.sum(int(i))\nreturn x",
        "a = np.unique([1, 0]).astype(int)\nfor i in sorted(a, reverse=True):\n    x = x.sum(int(i))\nreturn x",
        "a = np.unique((1, 0))\nreturn [x.sum(int(i)) for i in a], len(a)",
        "a = np.unique((2, 3))\nreturn x.view(a[0], -1)",
        "a = x.shape\na = np.unique(a)\nreturn x + torch.ones(a[0])",
    ],
)
def test_arrays_that_are_only_gone_through_become_lists(body: str) -> None:
    found = answer(body)
    assert isinstance(found, Rewrite), found
    assert found.safety == "safe"
    assert found.replacements[0].content.startswith("sorted(set(")


def test_what_is_not_known_is_a_condition() -> None:
    found = answer("a = np.unique(axes)\nfor i in a:\n    x = x.sum(int(i))\nreturn x")
    assert isinstance(found, Rewrite)
    assert found.safety == "conditional"
    assert "`axes` is a sequence of whole numbers" in found.conditions[0]


@pytest.mark.parametrize(
    "body",
    [
        "a = np.unique((1, 0))\nfor i in a:\n    x = x + i\nreturn x",
        "a = np.unique((1, 0))\nfor i in a + 1:\n    x = x.sum(int(i))\nreturn x",
        "a = np.unique((0.5, 1.0))\nfor i in a:\n    x = x.sum(int(i))\nreturn x",
        "a = np.unique(((1, 0), (2, 3)))\nfor i in a:\n    x = x.sum(int(i))\nreturn x",
        "a = np.unique((1, 0))\na[0] = 1\nfor i in a:\n    x = x.sum(int(i))\nreturn x",
        "a = np.unique((1, 0))\nfor i in a:\n    x = x.sum(int(i))\nreturn x, a",
        "a = np.unique((1, 0))\nfor i in a:\n    x = x.sum(int(i))\nreturn x, i",
        "a = np.unique((1, 0), return_counts=True)\nreturn x, a",
        "a = np.unique((1, 0))\nif flag:\n    a = (1,)\nfor i in a:\n    x = x.sum(int(i))\nreturn x",
        "for _ in range(2):\n    a = np.unique((0,))\n    for i in a:\n        x = x.sum(int(i))\nreturn x",
        "a = np.unique((1, 0))\nfor i in a[1:]:\n    x = x.sum(int(i))\nreturn x",
        "a = np.unique(x.detach().numpy())\nfor i in a:\n    x = x.sum(int(i))\nreturn x",
    ],
)
def test_arrays_that_more_is_done_with_stay(body: str) -> None:
    found = answer(body)
    assert isinstance(found, Declined), found


def test_names_that_mean_something_else_are_left_alone() -> None:
    head = HEAD.replace("\n\n\n", "\n\n\ndef sorted(numbers):\n    return numbers\n\n\n", 1)
    found = answer("a = np.unique((1, 0))\nfor i in a:\n    x = x.sum(int(i))\nreturn x", head)
    assert isinstance(found, Declined)
    assert "means something else" in found.reason


def test_a_function_of_numpy_is_flagged_once() -> None:
    rule = UntracedNumpy()
    code = HEAD + "    return x + np.interp(axes, [0.0], [1.0])\n"
    (found,) = Study(Case(rule, Example("x", code)), [rule]).own
    assert "np.interp()" in found.flag.violation.message
