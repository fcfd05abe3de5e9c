"""What a compiler's own rewriting of graph breaks takes on and what it leaves alone, one case each, in code of ours.

GraphMend (jaseci-labs/jac, jac/tests/compiler/passes/main/fixtures/graphmend at 29d3f37a10) names each of its cases for
what it is about; the names here are those. What it transforms must have a rewrite, and what it declines must be declined
or, where it need not be, be right under conditions that running shows.
"""

from __future__ import annotations

import textwrap

import pytest

from dynalint.rulebook.pages import Example
from dynalint.rules import Declined, Rewrite, Rule
from dynalint.testing.cases import Case
from dynalint.testing.static import StaticView
from dynalint_rules.control_flow.branch_on_tensor import BranchOnTensor
from dynalint_rules.control_flow.raise_on_tensor import RaiseOnTensor
from dynalint_rules.control_flow.tensor_comparison_call import TensorComparisonCall

HEAD = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(4, 4)
        self.down = nn.Linear(4, 4)
        self.calls = 0

    def forward(self, x: torch.Tensor, y: torch.Tensor):
"""
BRANCH, GUARD, COMPARISON = BranchOnTensor(), RaiseOnTensor(), TensorComparisonCall()


def answer(rule: Rule, body: str) -> Rewrite | Declined | None:
    code = HEAD + textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8) + "\n"
    found = StaticView(Case(rule, Example("x", code)), [rule]).own
    return found[0].answer if found else None


TRANSFORMED = {
    "where_assign": (BRANCH, "if x.mean() > 0:\n    z = x * 2\nelse:\n    z = x * 3\nreturn z"),
    "where_return": (BRANCH, "if x.mean() > 0:\n    return x * 2\nelse:\n    return x * 3"),
    "where_common_call": (BRANCH, "if x.mean() > 0:\n    return self.up(x)\nelse:\n    return self.up(y)"),
    "where_multi_arg": (
        BRANCH,
        "if x.max() > 1:\n    z = torch.add(x, y, alpha=3)\nelse:\n    z = torch.add(y, x, alpha=3)\nreturn z",
    ),
    "where_multi_stmt": (
        BRANCH,
        "if x.max() > 1:\n    h = x + 1\n    z = self.up(h)\nelse:\n    h = y + 1\n    z = self.up(h)\nreturn z",
    ),
    "autograd_no_grad_with": (
        BRANCH,
        "with torch.no_grad():\n    if x.mean() > 0:\n        z = x * 2\n    else:\n        z = x * 3\nreturn z",
    ),
    "val_guard_all": (GUARD, 'if not (x > 0).all():\n    raise ValueError("must be positive")\nreturn x'),
    "val_guard_compare": (GUARD, 'if x.sum() != 1:\n    raise ValueError("must add up to one")\nreturn x'),
    "val_guard_escaped_msg": (GUARD, "if x.sum() > 1:\n    raise ValueError('say \"no\"\\t{x}')\nreturn x"),
    "val_guard": (COMPARISON, 'if not torch.equal(x, y):\n    raise ValueError("differ")\nreturn x'),
    # Declined there for want of an `else`, of plain values, of a literal where a tensor is made of it, of two branches.
    "no_else": (BRANCH, "z = x * 3\nif x.mean() > 0:\n    z = x * 2\nreturn z"),
    "cond_assign": (BRANCH, "if x.mean() > 0:\n    z = torch.relu(x)\nelse:\n    z = torch.sigmoid(x)\nreturn z"),
    "different_callees": (BRANCH, "if x.mean() > 0:\n    return self.up(x)\nelse:\n    return self.down(x)"),
    "merge_arg_calls": (
        BRANCH,
        "if x.mean() > 0:\n    z = self.up(x.exp())\nelse:\n    z = self.up(x.abs())\nreturn z",
    ),
    "multi_def_predicate": (
        BRANCH,
        "s = x.mean()\ns = s + y.mean()\nif s > 0:\n    z = x * 2\nelse:\n    z = x * 3\nreturn z",
    ),
    "where_scalar_branch": (BRANCH, "if x.mean() > 0:\n    z = 1.0\nelse:\n    z = 2.0\nreturn x * z"),
    "elif": (BRANCH, "if x.mean() > 1:\n    z = x\nelif x.mean() > 0:\n    z = x * 2\nelse:\n    z = x * 3\nreturn z"),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_has_a_rewrite(name: str) -> None:
    found = answer(*TRANSFORMED[name])
    assert isinstance(found, Rewrite), found
    assert found.safety == ("conditional" if found.conditions else "safe")


DECLINED = {
    "call_vs_literal": (
        BRANCH,
        "if x.mean() > 0:\n    z = self.up(x)\nelse:\n    z = 1.0\nreturn z",
        "the number `1.0`",
    ),
    "where_nontensor_branch": (
        BRANCH,
        'if x.mean() > 0:\n    z = "up"\nelse:\n    z = "down"\nreturn x, z',
        "the Python value",
    ),
    "where_nontensor_container": (
        BRANCH,
        "if x.mean() > 0:\n    z = [x]\nelse:\n    z = [y, x]\nreturn z",
        "not a single tensor",
    ),
    "where_none": (BRANCH, "if x.mean() > 0:\n    z = None\nelse:\n    z = x\nreturn z", "one branch gives None"),
    "where_local_escape": (
        BRANCH,
        "if x.mean() > 0:\n    h = x * 2\n    z = h\nelse:\n    z = y\nreturn z + h",
        "`h` is only assigned in one branch",
    ),
    "where_unsafe_setup": (
        BRANCH,
        "if x.mean() > 0:\n    self.calls += 1\n    z = x\nelse:\n    z = y\nreturn z",
        "stores state",
    ),
    "guard_torch_effect_init": (
        BRANCH,
        "if x.mean() > 0:\n    torch.manual_seed(0)\n    z = x\nelse:\n    z = y\nreturn z",
        "for its side effect",
    ),
    "guard_helper_delete": (
        BRANCH,
        "if x.mean() > 0:\n    del self.cache\n    z = x\nelse:\n    z = x\nreturn z",
        "`del self.cache`",
    ),
    "guard_opaque_method_init": (
        BRANCH,
        "if x.mean() > 0:\n    z = self.config.make(x)\nelse:\n    z = x\nreturn z",
        "dynalint cannot see what",
    ),
    "guard_in_try": (
        GUARD,
        'try:\n    if x.sum() > 1:\n        raise ValueError("a")\nexcept ValueError:\n    x = y\nreturn x',
        "`except` around the check",
    ),
    "guard_does_more": (
        GUARD,
        'if x.sum() > 1:\n    raise ValueError("a")\nelse:\n    y = x\nreturn y',
        "does more than raise",
    ),
}


@pytest.mark.parametrize("name", DECLINED)
def test_is_declined_with_its_reason(name: str) -> None:
    rule, body, words = DECLINED[name]
    found = answer(rule, body)
    assert isinstance(found, Declined), found
    assert words in found.reason


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        ('ValueError(f"is {x.sum()}")', '"is ..."'),  # guard_fstring_msg
        ('ValueError("is " + str(y))', '"is ..."'),  # guard_dynamic_msg
        ('ValueError(f"no sum above 1.0. Got {y}, not 1.")', '"no sum above 1.0."'),
        ('ValueError("a", 1)', '"a"'),  # guard_multi_arg_msg
        ('ValueError("a") from self.cause', '"a"'),  # guard_raise_from
        ("ValueError()", '"ValueError: x.sum() > 1"'),  # guard_no_arg_msg
    ],
)
def test_a_guard_raises_in_eager_code_what_it_did(raised: str, message: str) -> None:
    body = f"if x.sum() > 1:\n    y = x\n    raise {raised}\nreturn x"
    found = answer(GUARD, body)
    assert isinstance(found, Rewrite), found
    assert found.safety == "safe"
    text = "".join(change.content for change in found.replacements)
    assert f"torch._assert_async(~(x.sum() > 1), {message})\n" in text
    assert text.rstrip().endswith("elif")


@pytest.mark.parametrize(
    "body",
    [
        "if not hasattr(self, 'cache'):\n    self.cache = x\nreturn self.cache",
        "if isinstance(x, torch.Tensor):\n    return x\nreturn y",
        "if x.device != y.device:\n    x = x.to(y.device)\nreturn x + y",
        "if x.shape[0] > 1 and x.dim() == 2:\n    return x\nreturn y",
    ],
    ids=["hasattr_static", "static_guard", "where_device_move", "shapes"],
)
def test_is_no_branch_on_data(body: str) -> None:
    assert answer(BRANCH, body) is None


def test_a_torch_that_is_something_else_is_left_alone() -> None:
    code = (
        "import mylib as torch\n\n\n@torch.compile\ndef f(x):\n    if x.sum() > 0:\n        x = x * 2\n    return x\n"
    )
    assert StaticView(Case(BRANCH, Example("x", code)), [BRANCH]).own == []
