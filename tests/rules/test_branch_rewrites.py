"""The rewrites of branches: layout, names, refusals, and that random branches give what they gave before."""

from __future__ import annotations

import random
import textwrap

import pytest

from dynalint.rulebook.pages import Example
from dynalint.rules import Declined, Rewrite, Rule
from dynalint.testing.cases import Case
from dynalint.testing.static import StaticView
from dynalint_rules._code.saved_tensors import UNCHANGED
from dynalint_rules.control_flow.assert_on_tensor import AssertOnTensor
from dynalint_rules.control_flow.bool_operator_on_tensor import BoolOperatorOnTensor
from dynalint_rules.control_flow.branch_on_tensor import BranchOnTensor
from dynalint_rules.control_flow.raise_on_tensor import RaiseOnTensor

HEAD = "import torch\n\n\n@torch.compile\ndef f(x: torch.Tensor, y: torch.Tensor, flag: bool):\n"


def study(body: str, rule: Rule | None = None, head: str = HEAD) -> StaticView:
    rule = rule or BranchOnTensor()
    code = head + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n"
    return StaticView(Case(rule, Example("x", code)), [rule])


def fixed(body: str, rule: Rule | None = None) -> str:
    text = study(body, rule).fixed
    return textwrap.dedent(text.removeprefix(HEAD)).rstrip("\n")


def reason(body: str, rule: Rule | None = None, head: str = HEAD) -> str:
    answers = [found.answer for found in study(body, rule, head).own]
    assert answers
    assert all(isinstance(answer, Declined) for answer in answers), answers
    return answers[0].reason  # type: ignore[union-attr]


def rewrite(body: str) -> Rewrite:
    answer = study(body).own[0].answer
    assert isinstance(answer, Rewrite), answer
    return answer


def lines(text: str) -> str:
    return textwrap.dedent(text).strip("\n")


# Layout.


def test_wraps_what_is_too_long() -> None:
    body = f"""
    if x.sum() > 0:
        result = {" + ".join(["x * 2"] * 8)}
    else:
        result = {" + ".join(["x * 3"] * 8)}
    return result
    """
    assert fixed(body).startswith("result = torch.where(\n    x.sum() > 0,\n    x * 2 + x * 2")


def test_keeps_expressions_over_several_lines() -> None:
    body = """
    if (x.sum() > 0
            and x.max() < 3):
        z = (x * 2 +  # twice
             1)
    else:
        z = x - 1
    return z
    """
    wanted = """
    z = torch.where(
        (x.sum() > 0) & (x.max() < 3),
        x * 2 +  # twice
         1,
        x - 1,
    )
    return z
    """
    assert fixed(body) == lines(wanted)


def test_a_test_over_several_lines_is_held_together_under_a_name() -> None:
    body = """
    if (x.sum() >
            0):
        a = x * 2
        b = a + 1
    else:
        a = x * 3
        b = x - 1
    return a * b
    """
    assert fixed(body).startswith("condition = (x.sum() >\n        0)\na = torch.where(condition, x * 2, x * 3)\n")


def test_keeps_line_endings_and_tabs() -> None:
    code = (
        "import torch\r\n@torch.compile\r\ndef f(x: torch.Tensor):\r\n\tif x.sum() > 0:\r\n\t\ta = x * 2\r\n"
        "\t\tb = a + 1\r\n\telse:\r\n\t\ta = x\r\n\t\tb = x\r\n\treturn a * b\r\n"
    )
    rule = BranchOnTensor()
    text = StaticView(_Raw(rule, code), [rule]).fixed
    assert text == (
        "import torch\r\n@torch.compile\r\ndef f(x: torch.Tensor):\r\n\tcondition = x.sum() > 0\r\n"
        "\ta = torch.where(condition, x * 2, x)\r\n\tb = torch.where(condition, a + 1, x)\r\n\treturn a * b\r\n"
    )


class _Raw(Case):
    """A case whose code is taken as it stands."""

    def __init__(self, rule: Rule, code: str) -> None:
        super().__init__(rule, Example("raw", code))

    @property
    def code(self) -> str:  # type: ignore[override]
        return self.example.code


def test_statements_on_one_line() -> None:
    assert fixed("if x.sum() > 0: z = x * 2\nelse: z = x - 1\nreturn z") == (
        "z = torch.where(x.sum() > 0, x * 2, x - 1)\nreturn z"
    )


def test_comments_go_above() -> None:
    body = """
    z = x + 1
    if z.sum() > 0:  # only then
        # twice
        z = z * 2  # as ever
    return z
    """
    wanted = """
    z = x + 1
    # only then
    # twice
    z = torch.where(z.sum() > 0, z * 2, z)  # as ever
    return z
    """
    assert fixed(body) == lines(wanted)


def test_imports_torch_where_the_file_does_not() -> None:
    head = "from torch import Tensor, compile\n\n@compile\ndef f(x: Tensor):\n"
    answer = study("return x * 2 if x.sum() > 0 else x - 1", head=head).own[0].answer
    assert isinstance(answer, Rewrite)
    assert answer.imports == ("import torch",)
    assert answer.replacements[0].content.startswith("torch.where(")


def test_declines_where_torch_is_something_else() -> None:
    head = "from torch import Tensor, compile\ntorch = None\n\n@compile\ndef f(x: Tensor):\n"
    assert "`torch` refers to something else" in reason("return x * 2 if x.sum() > 0 else x - 1", head=head)


def test_parentheses_around_a_conditional_expression() -> None:
    assert fixed("return x * (2.0 if x.sum() > 0 else 1.0)") == "return x * torch.where(x.sum() > 0, 2.0, 1.0)"
    assert fixed("return torch.relu(x * 2 if x.sum() > 0 else -x)") == (
        "return torch.relu(torch.where(x.sum() > 0, x * 2, -x))"
    )


# Names.


def test_inner_branches_first() -> None:
    body = """
    z = x * 1.5
    if x.sum() > 0:
        z = x * 2
        if x.max() > 1:
            z = z * 3
    return z
    """
    assert fixed(body) == lines("""
    z = x * 1.5
    condition = x.sum() > 0
    z_2 = x * 2
    z = torch.where(condition, torch.where(x.max() > 1, z_2 * 3, z_2), z)
    return z
    """)


def test_a_name_assigned_twice() -> None:
    body = """
    if x.sum() > 0:
        z = x * 2
        z = z + z
    else:
        z = x - 1
    return z
    """
    assert fixed(body) == lines("""
    condition = x.sum() > 0
    z_2 = x * 2
    z = torch.where(condition, z_2 + z_2, x - 1)
    return z
    """)


def test_a_returning_side_does_not_disturb_the_other() -> None:
    body = """
    if x.sum() > 0:
        x = x * 2
        return x + 1
    return x - 1
    """
    assert fixed(body) == lines("""
    condition = x.sum() > 0
    x_2 = x * 2
    return torch.where(condition, x_2 + 1, x - 1)
    """)


def test_a_test_that_reads_what_is_assigned_is_named_first() -> None:
    body = """
    z, w = x * 1, x * 2
    if z.sum() > 0:
        z = z * 2
        w = w * 2
    return z * w
    """
    assert (
        "condition = z.sum() > 0\nz = torch.where(condition, z * 2, z)\nw = torch.where(condition, w * 2, w)"
        in fixed(body)
    )


def test_fresh_names_avoid_taken_ones() -> None:
    body = """
    condition = x * 2
    if x.sum() > 0:
        a = condition
        b = a + 1
    else:
        a = x * 3
        b = x - 1
    return a * b * condition
    """
    assert "condition_2 = x.sum() > 0\n" in fixed(body)


def test_guards_in_a_chain() -> None:
    body = """
    if x.min() > 1:
        z = x.log()
    elif y.min() > 0:
        z = x / y
    else:
        z = x * 2
    return z
    """
    assert fixed(body) == lines("""
    condition = x.min() > 1
    condition_2 = y.min() > 0
    z = torch.where(
        condition,
        torch.where(condition, x, 1).log(),
        torch.where(condition_2, x / torch.where(condition, 1, torch.where(condition_2, y, 1)), x * 2),
    )
    return z
    """)


def test_a_test_of_unknown_rank_must_have_no_dimensions() -> None:
    body = "return x * 2 if y else x - 1"
    assert fixed(body) == "return torch.where(y != 0, x * 2, x - 1)"
    assert "`y` has no dimensions" in rewrite(body).conditions


def test_a_test_with_dimensions_loses_them() -> None:
    body = "y = y.reshape(1, 1)\nreturn x * 2 if y else x - 1"
    assert fixed(body).endswith("return torch.where((y != 0).reshape(()), x * 2, x - 1)")


# Safety.


@pytest.mark.parametrize(("value", "dropped"), [("0.0", True), ("z.detach()", True), ("z.mean()", False)])
def test_a_store_to_a_buffer_must_not_give_it_a_gradient(value: str, dropped: bool) -> None:
    code = f"""
import torch
from torch import nn

class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("codes", torch.zeros(8))

    def forward(self, z: torch.Tensor):
        dead = self.codes < 1
        if dead.any():
            self.codes[dead] = {value}
        return z + self.codes
"""
    rule = BranchOnTensor()
    (found,) = StaticView(Case(rule, Example("x", code)), [rule]).own
    assert isinstance(found.answer, Rewrite if dropped else Declined)


@pytest.mark.parametrize(
    ("value", "guarded"), [("x / x.float().std()", False), ("x.float().log()", False), ("x // y.long()", True)]
)
def test_operands_need_no_guard_without_gradients(value: str, guarded: bool) -> None:
    body = f"with torch.no_grad():\n    if x.sum() > 0:\n        x = {value}\nreturn x"
    assert ("condition" in fixed(body)) is guarded


def test_operands_are_guarded_where_gradients_are_on_again() -> None:
    body = "with torch.no_grad():\n    with torch.enable_grad():\n        if x.sum() > 0:\n            x = x.float() / x.float().sum()\nreturn x"
    assert "torch.where(condition, x.float().sum(), 1)" in fixed(body)


def test_a_divisor_read_from_a_tensor_is_harmless_on_the_other_side() -> None:
    text = fixed("if x.sum() > 1:\n    x = x * (2.0 / x.sum().item())\nreturn x")
    assert "2.0 / torch.where(condition, x.sum()" in text


def test_a_mask_that_changes_after_it_was_tested() -> None:
    text = fixed("m = x > 0\nsome = m.any()\nm &= y > 0\nif some:\n    x = x * ~m\nreturn x")
    assert "torch.where(some, x * ~m, x)" in text


def test_changes_in_place_that_read_the_changed_tensor_are_declined() -> None:
    body = "if x.sum() > 0:\n    d = x * 2\n    d.clamp_(min=0).div_(d.sum() + 1)\nelse:\n    d = y\nreturn d"
    assert "for its side effect" in reason(body)


@pytest.mark.parametrize(
    ("choice", "new"),
    [
        ("m if m.any() else None", "m if torch.compiler.is_compiling() or m.any() else None"),
        ("None if not m.any() else m", "None if not torch.compiler.is_compiling() and not m.any() else m"),
        ("m if flag and m.any() else None", None),
        ("None if flag or m.all() else m", None),
        ("x if x.sum() > 0 else None", None),
    ],
)
def test_a_mask_that_is_dropped_if_it_selects_nothing(choice: str, new: str | None) -> None:
    body = f"m = x > 0\nreturn torch.sum(x, out={choice})"
    assert new in fixed(body) if new is not None else reason(body)


def test_changes_in_place_of_what_others_see_are_declined() -> None:
    assert "for its side effect" in reason(
        "if x.sum() > 0:\n    d = x.view(-1)\n    d.add_(1)\nelse:\n    d = y\nreturn d"
    )
    assert "for its side effect" in reason("z = x * 2\nw = z\nif x.sum() > 0:\n    z.add_(1)\nreturn z, w")


def test_results_of_a_call_are_taken_apart() -> None:
    body = "if x.sum() > 0:\n    z, _ = x.max(dim=0)\nelse:\n    z = y\nreturn z"
    assert fixed(body) == "z = torch.where(x.sum() > 0, x.max(dim=0)[0], y)\nreturn z"
    both = "z, w = y, y\nif x.sum() > 0:\n    z, w = torch.aminmax(z, dim=0)\nreturn z, w"
    assert fixed(both) == lines("""
        z, w = y, y
        condition = x.sum() > 0
        new_z, new_w = torch.aminmax(z, dim=0)
        z = torch.where(condition, new_z, z)
        w = torch.where(condition, new_w, w)
        return z, w
    """)
    kept = "z = y\nif x.sum() > 0:\n    z, w = torch.aminmax(z, dim=0)\n    z = z + w\nreturn z"
    assert fixed(kept) == lines("""
        z = y
        condition = x.sum() > 0
        z_2, w = torch.aminmax(z, dim=0)
        z = torch.where(condition, z_2 + w, z)
        return z
    """)
    starred = "if x.sum() > 0:\n    z, *w = x.max(dim=0)\nelse:\n    z = y\nreturn z"
    assert "assigns to more than one target at once" in reason(starred)


def test_a_value_that_is_repeated_outside_the_test_is_short_and_pure() -> None:
    long = "x.sum() + y.sum() + x.mean() + y.mean() + x.amax()"
    assert "is not a tensor" in reason(f"return x.mean() if flag and x.sum() > 0 else {long}")
    assert "is not a tensor" in reason("return x if flag and x.sum() > 0 else y.mul_(2)")


LAYER = """import torch


class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.{made}

    def forward(self, x: torch.Tensor):
"""


@pytest.mark.parametrize(
    ("made", "draws"),
    [
        ("MultiheadAttention(8, 2)", False),
        ("MultiheadAttention(8, 2, dropout=0.0)", False),
        ("MultiheadAttention(8, 2, 0.1)", True),
        ("MultiheadAttention(8, 2, dropout=0.1)", True),
        ("MultiheadAttention(8, 2, **dict(dropout=0.1))", True),
        ("GRU(8, 8)", True),
        ("TransformerEncoderLayer(8, 2)", True),
        ("Dropout()", True),
    ],
)
def test_an_attention_layer_only_draws_numbers_with_dropout(made: str, draws: bool) -> None:
    body = "if x.sum() > 0:\n    x = self.layer(x, x, x)[0]\nreturn x"
    code = LAYER.format(made=made) + textwrap.indent(body, " " * 8) + "\n"
    rule = BranchOnTensor()
    answers = [found.answer for found in StaticView(Case(rule, Example("x", code)), [rule]).own]
    assert [isinstance(one, Declined) and "draws random numbers" in one.reason for one in answers] == [draws]


def test_an_annotated_assignment_is_an_assignment() -> None:
    assert fixed("if x.sum() > 0:\n    z: torch.Tensor = x * 2\nelse:\n    z = y\nreturn z") == lines("""
        z = torch.where(x.sum() > 0, x * 2, y)
        return z
    """)


@pytest.mark.parametrize(
    ("body", "clause"),
    [
        ("return x * 2 if x.sum() > 0 else x", "the same dtype"),
        ("return x * 2 if x.sum() > 0 else x", "the tensor `x` itself"),
        ("return x[:2] if x.sum() > 0 else x + y", "same dtype, shape and device"),
        ("return x @ y if x.sum() > 0 else x + y", "neither branch raises an exception"),
        ("return x * y if x.sum() > 0 else x + y", "gradient of the branch that is not selected is finite"),
        ("return x + y if x.sum() > 0 else x * 2", "`y` gets a gradient of zeros instead of None"),
    ],
)
def test_conditions(body: str, clause: str) -> None:
    answer = rewrite(body)
    assert answer.safety == "conditional"
    assert any(clause in condition for condition in answer.conditions), answer.conditions


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("if x.sum() > 0:\n    z = x * 2\nreturn z", "only assigned in one branch"),
        ("if x.sum() > 0:\n    return x\nprint(x)\nreturn x * 2", "has a side effect"),
        ("if x.sum() > 0:\n    return x\ny = torch.rand_like(x)\nreturn y", "random"),
        ("if x.sum() > 0:\n    return x\nif flag:\n    raise ValueError\nreturn x * 2", "might raise"),
        ("if x.sum() > 0:\n    return x\nwith torch.no_grad():\n    y = x * 2\nreturn y", "follows the early return"),
        ("y = x * 2\nif x.sum() > 0:\n    return x\ny[0] = 1\nreturn y", "stores to"),
        ("if x.sum() > 0:\n    return x\ny = x * 2\nreturn x, y", "the same structure"),
        ("if x.sum() > 0:\n    return\nreturn x", "returns None"),
        ("while n:\n    n -= 1\n    if x.sum() > 0:\n        continue\n    x = x * 2\nreturn x", "the next iteration"),
        ("for i in range(3):\n    if x.sum() > 0:\n        x = x + 1\n        break\nreturn x", "leaves the loop"),
        ('if x.sum() > 0:\n    with torch.autocast("cpu"):\n        x = x * 2\nreturn x', "`with` statement"),
        ("if x.sum() > 0:\n    x, *y = x.chunk(2)\nreturn x - y", "more than one target"),
        ("if x.sum() > 0:\n    x += 1\nreturn x", "in place"),
        ("if x.sum() > 0:\n    x = x.add_(1)\nreturn x", "in place"),
        ("if x.sum() > 0:\n    x = torch.relu_(x)\nreturn x", "in place"),
        ("if x.sum() > 0:\n    x = torch.nn.functional.relu(x, inplace=True)\nreturn x", "in place"),
        ("if x.sum() > 0:\n    x = torch.add(x, 1, out=y)\nreturn x", "`out`"),
        ("if x.sum() > 0:\n    x = x + torch.rand_like(x)\nreturn x", "random"),
        ("if x.sum() > 0:\n    x = unknown(x)\nreturn x", "dynalint cannot see what"),
        ("if x.sum() > 0:\n    x = torch.linalg.inv(x)\nreturn x", "for some matrices"),
        ("if x.sum() > 0:\n    x = torch.xlogy(x, x)\nreturn x", "no finite gradient"),
        ("if x.sum() > 0 and unknown():\n    x = x * 2\nreturn x", "not a tensor"),
        (
            "if flag and x.sum() > 0:\n    x = x * 2\nelse:\n" + "    x = x + y\n" * 11 + "return x",
            "a separate `if`",
        ),
        ("if x.sum() > 0:\n    assert flag\nreturn x", "more than an assignment"),
        (
            "z = x * 2\nif x.sum() > 0:\n    y = z\nelse:\n    w = z.t()\n    z.add_(1)\nreturn y * z",
            "for its side effect",
        ),
        ("z = {} if x.sum() > 0 else x\nreturn z", "not a single tensor"),
        ("z = x * 2 if x.sum() > 0 else None\nreturn z", "one branch gives None"),
        ("z = x * 2 if x.sum() > 0 else None\ny = x if z is None else z\nreturn y, z", "one branch gives None"),
        ("z = x * 2 if x.sum() > 0 else None\nreturn z if z is None else x", "one branch gives None"),
        ("z = x.log() if x.sum() > 0 else None\nreturn x if z is None else z", "one branch gives None"),
        ("z = 'a' if x.sum() > 0 else 'b'\nreturn x, z", "Python value"),
        ("z = 1.0 if x.sum() > 0 else x\nreturn z", "one branch gives the number"),
        ("return x[x > 0] if x.sum() > 0 else x", "size that depends on data"),
        ("return x if x.sum() > 0 else x[1:]", "is smaller than"),
        ("k = 1 if x.sum() > 0 else 2\nreturn x.topk(k)", "both branches give numbers"),
        ("if x.sum() > 0:\n    pass\nreturn x", "no branch does anything"),
        ("if (k := x.sum()) > 0 and (j := x.max()) > 0:\n    x = x * 2\nreturn x", "`:=`"),
    ],
)
def test_refusals(body: str, words: str) -> None:
    assert words in reason(body)


def test_what_helpers_do_counts() -> None:
    head = "import torch\n\ndef helper(z):\n    z.mul_(2)\n    return z\n\n@torch.compile\ndef f(x: torch.Tensor):\n"
    assert "in `helper`, `z.mul_` modifies its tensor in place" in reason(
        "return helper(x) if x.sum() > 0 else x * 2", head=head
    )


def test_layers_made_inplace() -> None:
    code = """
    import torch
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.act = torch.nn.ReLU(inplace=True)
        def forward(self, x: torch.Tensor):
            return self.act(x) if x.sum() > 0 else x * 2
    """
    rule = BranchOnTensor()
    answers = [found.answer for found in StaticView(Case(rule, Example("x", code)), [rule]).own]
    assert isinstance(answers[0], Declined)
    assert "inplace=True" in answers[0].reason


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("if m.any():\n    z[m] = 0\nreturn z", "z[m] = 0"),
        ("if m.sum() > 0:\n    # none\n    z.masked_fill_(m, 0.0)\nreturn z", "# none\nz.masked_fill_(m, 0.0)"),
        ("if m.any():\n    z = z.masked_fill(m.view(2, 3), 0.0)\nreturn z", "z = z.masked_fill(m.view(2, 3), 0.0)"),
        ("if m.any():\n    z = torch.where(m, y, z)\nreturn z", "z = torch.where(m, y, z)"),
        ("if flag and m.any():\n    z[m] = 0\nreturn z", "if flag:\n    z[m] = 0"),
        ("if m.any():\n    z[m] = y.mean(0)\nreturn z", "z[m] = y.mean(0)"),
        (
            "if not m.all():\n    z = z.masked_fill(~m.view(2, 3), 0.0)\nreturn z",
            "z = z.masked_fill(~m.view(2, 3), 0.0)",
        ),
    ],
)
def test_a_test_that_only_spares_work_is_dropped(body: str, wanted: str) -> None:
    assert fixed(f"z = x * 2\nm = x > 0\n{body}") == f"z = x * 2\nm = x > 0\n{wanted}\nreturn z"


def test_a_test_for_the_opposite_of_a_mask_is_not_dropped() -> None:
    for test, mask in (("not m.all()", "m"), ("m.any()", "~m"), ("not (~m).all()", "~m")):
        body = f"z = x * 2\nm = x > 0\nif {test}:\n    z = z.masked_fill({mask}, 0.0)\nreturn z"
        assert "torch.where" in fixed(body)


def test_a_number_beside_a_tensor_without_dimensions() -> None:
    body = "s = x.mean()\nb = 1.0 if x.sum() > 0 else s / 2\nreturn x * b"
    assert "b = torch.where(x.sum() > 0, 1.0, s / 2)" in fixed(body)
    assert "use a tensor in both branches" in reason("b = 1.0 if x.sum() > 0 else x / 2\nreturn x * b")


@pytest.mark.parametrize(
    "body", ["    x, y = y, x", "    x = x * 2\n    y = x + 1\nelse:\n    y = y * 2\n    x = y - x"]
)
def test_values_that_cannot_be_chosen_one_by_one_stay(body: str) -> None:
    assert "swap values, or assign them in different orders" in reason(f"if x.sum() > 0:\n{body}\nreturn x - y")


def test_more_guards_than_anyone_would_read() -> None:
    body = "if x.sum() > 0:\n    x = x / y / (y + 1) / (y + 2) / (y + 3) / (y + 4)\nreturn x"
    assert "more than 2 operations are not defined for all inputs" in reason(body)


def test_parentheses_around_a_guarded_operand_are_dropped() -> None:
    body = "if x.sum() > 0:\n    x = (x + y).sqrt() / (y + 1)\nreturn x"
    new = "torch.where(condition, x + y, 1).sqrt() / torch.where(condition, y + 1, 1)"
    assert fixed(body) == f"condition = x.sum() > 0\nx = torch.where(condition, {new}, x)\nreturn x"


def test_comments_for_tools_are_dropped_with_their_lines() -> None:
    body = "if x.sum() > 0:  # type: ignore[operator]\n    # twice\n    x = x * 2  # noqa: E501\nreturn x"
    assert fixed(body) == "# twice\nx = torch.where(x.sum() > 0, x * 2, x)\nreturn x"


def test_the_opposite_of_a_comparison() -> None:
    body = "if not x.sum() == y.sum():\n    x = x * 2\nreturn x"
    assert fixed(body) == "x = torch.where(x.sum() != y.sum(), x * 2, x)\nreturn x"
    body = "if not x.sum() > y.sum():\n    x = x * 2\nreturn x"
    assert fixed(body) == "x = torch.where(~(x.sum() > y.sum()), x * 2, x)\nreturn x"


@pytest.mark.parametrize(
    ("body", "given_anew"),
    [
        ("x += y\nx = x.mean(1)\nif x.sum() > 0:\n    x = x / 2\nx = x.view(-1)\nreturn x", True),
        ("x = x.mean(1)\nif flag:\n    if x.sum() > 0:\n        x = x / 2\nx[0] = 1\nreturn x", True),
        ("x = x.mean(1)\nz = x[0]\nif x.sum() > 0:\n    x = x / 2\nx[0] = 1\nreturn x, z", False),
        ("x = x.mean(1)\nif flag:\n    x = y\nif x.sum() > 0:\n    x = x / 2\nx[0] = 1\nreturn x", False),
        ("x = x.mean(1)\nx: torch.Tensor = y\nif x.sum() > 0:\n    x = x / 2\nx[0] = 1\nreturn x", False),
        ("x = y.view(-1)\nif x.sum() > 0:\n    x = x / 2\nx[0] = 1\nreturn x", False),
        ("x = torch.nn.functional.relu(y, True)\nif x.sum() > 0:\n    x = x / 2\nx[0] = 1\nreturn x", False),
        ("x = torch.nn.functional.relu(y)\nif x.sum() > 0:\n    x = x / 2\nx[0] = 1\nreturn x", True),
        ("x = torch.atleast_2d(y)\nif x.sum() > 0:\n    x = x / 2\nx[0] = 1\nreturn x", False),
        ("g = lambda: x\nx = x.mean(1)\nif x.sum() > 0:\n    x = x / 2\nx[0] = 1\nreturn x, g", False),
        (
            "x = x.mean(1)\nfor _ in range(3):\n    if x.sum() > 0:\n        x = x / 2\n    x = y\nx[0] = 1\nreturn x",
            False,
        ),
    ],
)
def test_only_the_last_tensor_under_a_name_counts(body: str, given_anew: bool) -> None:
    if given_anew:
        assert "the very tensor" not in " ".join(rewrite(body).conditions)
    else:
        assert "in place" in reason(body)


# Other control flow.


def test_assertions_share_no_line() -> None:
    assert fixed("z = 1; assert x.sum() > 0 and x.max() < 3\nreturn x", AssertOnTensor()) == (
        "z = 1\nassert x.sum() > 0\nassert x.max() < 3\nreturn x"
    )
    assert fixed("assert x.sum() > 0 and x.max() < 3  # both\nreturn x", AssertOnTensor()) == (
        "assert x.sum() > 0\nassert x.max() < 3  # both\nreturn x"
    )


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        ("x must be in [0, {limit}), got {x.tolist()}.", "x must be in [0, ...)"),
        ("x: {x} is too large", "x: ... is too large"),
        ("Got {x}", "Got ..."),
        ("the sizes must be equal, but got {x} and {y}", "the sizes must be equal"),
        ("expected no offset, but got {x} instead", "expected no offset"),
    ],
)
def test_messages_without_values_do_not_say_what_was_given(message: str, kept: str) -> None:
    body = f"if x.sum() > 0:\n    raise ValueError(f'{message}')\nreturn x"
    assert f'torch._assert_async(~(x.sum() > 0), "{kept}")' in fixed(body, RaiseOnTensor())


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        ("str(x) + ' is negative, ' + str(x.sum())", "... is negative, ..."),
        ("'sum %5.2f%% of %(n)s' % y", "sum ...% of ..."),
        ("'{{{}}} of {n:.2f}'.format(x, n=y)", "{...} of ..."),
        ("ValueError('negative')", "negative"),
        ("ValueError(f'{x} is negative')", "... is negative"),
        ("'{'.format(x)", "the assertion fails"),
        ("x", "the assertion fails"),
    ],
)
def test_a_computed_message_stays_in_eager_mode(message: str, kept: str) -> None:
    assert fixed(f"assert x.sum() > 0, {message}\nreturn x", rule=AssertOnTensor()) == (
        "if torch.compiler.is_compiling():\n"
        f'    torch._assert_async(x.sum() > 0, "{kept}")\n'
        f"else:\n    assert x.sum() > 0, {message}\nreturn x"
    )


MASKED = """
z = x * 2
m = x > 0
if m.any():
    if z.dim() == 2:
        z = z.masked_fill(m, 0.0)
    else:
        z = z.masked_fill(m, 1.0)
return z
"""


def test_a_mask_that_selects_nothing_needs_no_test_around_a_choice_by_shapes() -> None:
    wanted = MASKED.replace("if m.any():\n    ", "").replace("    else", "else").replace("        z =", "    z =")
    assert fixed(MASKED) == lines(wanted.replace("if z.dim", "if z.dim"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("z.masked_fill(m, 1.0)", "z.masked_fill(~m, 1.0)"),
        ("z.masked_fill(m, 1.0)", "z + 1.0"),
        ("z.dim() == 2", "z.sum() > 2"),
        ("z.dim() == 2", "print(z) is None"),
    ],
)
def test_a_choice_that_does_something_where_the_mask_selects_nothing(old: str, new: str) -> None:
    assert "m.any()" in fixed(MASKED.replace(old, new))


def test_a_check_on_several_lines_is_joined_or_indented_like_an_argument() -> None:
    body = "if (\n    (x < 0)\n    | (x > {})\n).any():\n    raise ValueError(f'{{x}} is out of range')\nreturn x"
    call = '    torch._assert_async(\n        ~((x < 0) | (x > {})).any(),\n        "... is out of range",\n    )\n'
    for limit in (f"torch.full_like(x, 1.{'0' * 40})", "1"):
        whole = fixed(body.format(limit), RaiseOnTensor())
        one_line = '    torch._assert_async(~((x < 0) | (x > 1)).any(), "... is out of range")\n'
        assert (one_line if limit == "1" else call.format(limit)) in whole


def test_a_message_on_several_lines_is_indented_like_an_argument() -> None:
    body = "if x.sum() > 0:\n    raise ValueError('one '\n                     'two')\nreturn x"
    assert "    torch._assert_async(\n        ~(x.sum() > 0),\n        'one '\n        'two',\n    )\n" in fixed(
        body, RaiseOnTensor()
    )


def test_guards_keep_their_python_part() -> None:
    body = "if flag and x.sum() > 0:\n    raise ValueError('no')\nreturn x"
    assert fixed(body, RaiseOnTensor()) == (
        "if torch.compiler.is_compiling():\n    if flag:\n        torch._assert_async(~(x.sum() > 0), 'no')\n"
        "elif flag and x.sum() > 0:\n    raise ValueError('no')\nreturn x"
    )


def test_bool_operators_refuse_to_repeat_work() -> None:
    assert "assign it to a variable first" in reason("return x.sum() and y.sum()", BoolOperatorOnTensor())


def test_a_bool_that_may_be_a_tensor() -> None:
    assert study("found = False\nif flag:\n    found = (x > 0).any()\nif found:\n    x = x * 2\nreturn x").own
    assert study("skip = flag and x.sum() > 0\nif not skip:\n    x = x * 2\nreturn x").own
    # Too little is known of the size: it is a tensor only under a tracer.
    assert not study(
        "size = torch.tensor(2) if torch.jit.is_tracing() else 2\nif x.dim() > size:\n    x = x * 2\nreturn x"
    ).own


def test_comparisons_with_what_is_not_known() -> None:
    assert (
        fixed("return x * 2 if x.sum() > unknown else -x")
        == "return torch.where((x.sum() > unknown).reshape(()), x * 2, -x)"
    )
    assert "may not be a number" in reason("return x * 2 if x.sum() == unknown else -x")


def test_early_returns_one_after_the_other() -> None:
    body = """
        if x.min() > 0:
            low = x * 2
            return low + 1
        if x.max() < 0:
            return y
        low = torch.sqrt(x - y)
        y = low * 2
        return y
    """
    assert fixed(body) == lines("""
        condition_2 = x.min() > 0
        low_2 = x * 2
        early_2 = low_2 + 1
        condition = x.max() < 0
        early = y
        low = torch.sqrt(torch.where(condition_2, 1, torch.where(condition, 1, x - y)))
        y = low * 2
        return torch.where(condition_2, early_2, torch.where(condition, early, y))
    """)


def test_an_early_result_is_computed_where_it_is_selected() -> None:
    body = """
        if x.sum() == 0:
            return torch.zeros_like(x)
        z = x - y
        return (x + 1) / (z + 1)
    """
    assert fixed(body) == lines("""
        condition = x.sum() == 0
        z = x - y
        return torch.where(condition, 0, (x + 1) / torch.where(condition, 1, z + 1))
    """)


def test_an_early_result_is_computed_before_what_it_reads_changes() -> None:
    assert "early = x * 2\n" in fixed("if x.sum() == 0:\n    return x * 2\nx = x + y\nreturn x")


def test_a_side_that_goes_on_moves_out_of_the_branch() -> None:
    body = """
        if x.sum() > 0:
            part = x + 1
            # on its own
            if flag:
                y = part * y
        else:
            part = x * 5
            return part * 2
        return y * 3
    """
    assert fixed(body) == lines("""
        condition = ~(x.sum() > 0)
        part_2 = x * 5
        early = part_2 * 2
        part = x + 1
        # on its own
        if flag:
            y = part * y
        return torch.where(condition, early, y * 3)
    """)


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (
            """
            if flag and x.sum() > 0:
                x = x * 2
            else:  # for all others
                y = y * 2
            return x + y
            """,
            """
            if flag:
                # for all others
                condition = x.sum() > 0
                x = torch.where(condition, x * 2, x)
                y = torch.where(condition, y, y * 2)
            else:  # for all others
                y = y * 2
            return x + y
            """,
        ),
        (
            """
            if flag and x.sum() > 0:
                return x * 2
            return x
            """,
            """
            if flag:
                return torch.where(x.sum() > 0, x * 2, x)
            return x
            """,
        ),
        (
            """
            if x.sum() > 0 and flag:  # rarely
                x = x * 2
            return x
            """,
            """
            # rarely
            if flag:
                x = torch.where(x.sum() > 0, x * 2, x)
            return x
            """,
        ),
        (
            """
            if flag or x.sum() > 0:
                x = x * 2
            return x
            """,
            """
            if flag:
                x = x * 2
            else:
                x = torch.where(x.sum() > 0, x * 2, x)
            return x
            """,
        ),
        (
            """
            if flag:
                if x.sum() > 0:
                    return x * 2
                y = y + x
                return x * y
            return x
            """,
            """
            if flag:
                condition = x.sum() > 0
                y = y + x
                return torch.where(condition, x * 2, x * y)
            return x
            """,
        ),
    ],
)
def test_a_python_value_gets_an_if_of_its_own(body: str, wanted: str) -> None:
    assert fixed(body) == lines(wanted)


@pytest.mark.parametrize(
    ("test", "conditions"),
    [
        ("flag and x.max() > 0", ()),
        ("x.sum() > 0 and flag", ()),
        ("x.max() > 0 and flag", ("`x.max() > 0` does not raise an exception",)),
        ("x > 0 and flag", ("`x > 0` does not raise an exception",)),
    ],
)
def test_a_test_that_comes_after_the_python_value_may_have_raised_before(
    test: str, conditions: tuple[str, ...]
) -> None:
    answer = rewrite(f"if {test}:\n    x = x * 2\nelse:\n    x = x + 1\nreturn x")
    assert (answer.safety, answer.conditions) == ("conditional" if conditions else "safe", conditions)
    assert "DYN101" in answer.leaves


def test_targets_assigned_at_once() -> None:
    body = """
        if x.sum() > 0:
            a, b = x * 2, y
        else:
            a, b = y, x
        return a - b
    """
    assert fixed(body) == lines("""
        condition = x.sum() > 0
        a = torch.where(condition, x * 2, y)
        b = torch.where(condition, y, x)
        return a - b
    """)


@pytest.mark.parametrize("test", ["keep", "not keep", "keep[0]", "keep.view(2)[0]", "keep and x.sum() < 9"])
@pytest.mark.parametrize("change", ["keep[0].logical_not_()", "keep[...] = False", "keep &= x[0] > 1"])
def test_an_answer_that_is_changed_in_place_is_not_relied_on(test: str, change: str) -> None:
    """Nothing may be chosen by it later, and no gradient taken: `torch.where` keeps the very tensor."""
    head = f"y = x * 2\nkeep = x > 0\nif {test}:\n"
    assert "in place" in reason(f"{head}    y = y * 3\n{change}\nreturn y")
    assert reason(f"{head}    {change}\n    y = y * 3\nreturn y")


@pytest.mark.parametrize("alias", ["other = keep", "other = keep.view(1)", "other, more = keep, x", "held = [keep]"])
def test_an_answer_that_is_changed_under_another_name_is_not_relied_on(alias: str) -> None:
    name = "held[0]" if "held" in alias else "other"
    body = f"y = x * 2\nkeep = x.sum() > 0\n{alias}\nif keep:\n    y = y * 3\n{name}.logical_not_()\nreturn y"
    assert "in place" in reason(body)


@pytest.mark.parametrize("test", ["torch.rand(4).sum() > 2", "x.add_(1).sum() > 0", "(z := x.sum()) > 0"])
@pytest.mark.parametrize("side", ["return y * 2", "y = y * 2"])
def test_a_test_that_does_something_is_not_dropped_where_both_sides_are_alike(test: str, side: str) -> None:
    body = f"if {test}:\n    {side}\nelse:\n    {side}\nreturn y"
    found = study(body)
    assert test in found.fixed
    assert all(isinstance(one.answer, Declined) or test in str(one.answer.replacements) for one in found.own)


@pytest.mark.parametrize(
    "body",
    [
        "m = y < 0\nif m.any():\n    y = y.masked_fill(m, 0)\nm |= x > 3\nreturn y",
        "y = y.sigmoid()\nm = y > 0.5\nif m.any():\n    y.masked_fill_(m, 0)\nreturn y",
        "z = y * y\nm = y > 2\nif m.any():\n    y[m] = 0\nreturn y + z",
    ],
)
def test_what_a_gradient_needs_is_not_safe_to_change(body: str) -> None:
    assert UNCHANGED in rewrite(f"y = x @ y\n{body}").conditions


@pytest.mark.parametrize(
    "body", ["if y.sum() > 0:\n    y = y.abs()", "m = y < 0\nif m.any():\n    y = y.masked_fill(m, 0)"]
)
def test_a_tensor_from_before_no_grad_may_need_a_gradient(body: str) -> None:
    under = textwrap.indent(body, "    ")
    needed = "`y` does not need a gradient, because gradients are disabled here"
    assert needed in rewrite(f"y = x @ y\nwith torch.no_grad():\n{under}\nreturn y").conditions
    assert needed not in rewrite(f"with torch.no_grad():\n    y = x @ y\n{under}\nreturn y").conditions


def test_a_product_by_indices_may_be_a_view() -> None:
    body = "y = x @ y\nv = torch.einsum('ij->ji', y)\nif y.sum() > 0:\n    y = y * 2\ny.add_(1)\nreturn v"
    assert "in place" in reason(body)


def test_a_name_that_may_have_no_value_may_raise() -> None:
    body = "if flag:\n    part = x * 3\nif x.sum() > 0:\n    part = part * 2\nreturn x"
    assert "neither branch raises an exception for inputs that take the other branch" in rewrite(body).conditions
    bound = body.replace("\nif x.sum", "\nelse:\n    raise ValueError\nif x.sum")
    assert "neither branch raises an exception for inputs that take the other branch" not in rewrite(bound).conditions


def test_a_name_that_is_not_read_afterwards_needs_no_choice() -> None:
    body = """
        if x.sum() > 0:
            part = x * 2
            x = part + 1
        else:
            part = y * 2
            x = part - 1
        return x
    """
    assert fixed(body) == lines("""
        condition = x.sum() > 0
        part_2 = x * 2
        part_3 = y * 2
        x = torch.where(condition, part_2 + 1, part_3 - 1)
        return x
    """)


def test_what_was_read_before_is_no_reason_to_choose() -> None:
    body = "part = y * x\nif part.sum() > 0:\n    part = x * 2\n    x = part + 1\nreturn x"
    assert fixed(body) == lines("""
        part = y * x
        condition = part.sum() > 0
        part_2 = x * 2
        x = torch.where(condition, part_2 + 1, x)
        return x
    """)
    body = "part = y\nlater = lambda: part\nif x.sum() > 0:\n    part = x * 2\n    x = part + 1\nreturn x + later()"
    assert "    part = torch.where(condition, x * 2, part)" in study(body).fixed


@pytest.mark.parametrize("last", ["del part", "return x * part", "return (lambda: part)()"])
def test_a_name_that_is_used_afterwards_is_chosen(last: str) -> None:
    body = f"part = y\nif x.sum() > 0:\n    part = x * 2\n    x = part + 1\n{last}\nreturn x"
    assert "    part = torch.where(condition, x * 2, part)" in study(body).fixed


@pytest.mark.parametrize(
    ("made", "mask", "value", "condition"),
    [
        ("x * 2.0", "z > 9", "0", None),
        ("x * 2.0", "z > y", "0", "the mask is not larger than `z`"),
        ("x * 2.0", "y > 1", "0", "the mask is not larger than `z`"),
        ("x * 2", "z > 9", "0.5", "`z` is a floating-point tensor"),
    ],
)
def test_a_mask_made_from_the_tensor_itself_fits_it(made: str, mask: str, value: str, condition: str | None) -> None:
    body = f"z = {made}\nm = {mask}\nif m.any():\n    z = z.masked_fill(m, {value})\nreturn z"
    assert rewrite(body).conditions == ((condition,) if condition else ())


def test_a_mask_made_before_the_tensor_has_changed_may_not_fit_it() -> None:
    body = "z = x * 2.0\nm = z > 1\nz = z[:1] * 2\nif m.any():\n    z = z.masked_fill(m, 0)\nreturn z"
    assert "the mask is not larger than `z`" in rewrite(body).conditions


# Random branches.

_STEPS = (
    "{a} * 2",
    "{a} - {b}",
    "{a} * {b}",
    "torch.sqrt({a})",
    "{a}.clamp(min=0.1)",
    "{a} / {b}",
    "-({a})",
    "{a}.exp()",
)
_TESTS = ("{a}.sum() > 0", "not {a}.max() > 1", "{a}.mean() < 0.1 and {b}.max() > 0", "0 < {a}.mean() < 1", "{a}.sum()")


def _block(rng: random.Random, names: list[str], *, returns: bool) -> list[str]:
    known, written = list(names), []
    for _ in range(rng.randint(1, 3)):
        value = rng.choice(_STEPS).format(a=rng.choice(known), b=rng.choice(known))
        name = rng.choice(["a", "b", "c", "t"])
        written.append(f"{name} = {value}")
        known.append(name)
    return [*written, f"return {rng.choice(known)} * 1"] if returns else written


def _program(seed: int) -> str:
    rng = random.Random(seed)
    returns = rng.random() < 0.4
    body = ["a = x * 1", "b = a + y", "c = x - y"]
    names = ["x", "y", "a", "b", "c"]
    for word in ("if", "elif", "else")[:: rng.choice([1, 2])]:
        test = rng.choice(_TESTS).format(a=rng.choice(names), b=rng.choice(names))
        body.append("else:" if word == "else" else f"{word} {test}:")
        body += [f"    {line}" for line in _block(rng, names, returns=returns)]
    if not returns:
        body.append("return a * 0.5 + b - c * 2")
    return HEAD + "".join(f"    {line}\n" for line in body)


@pytest.mark.runs_dynamo
@pytest.mark.parametrize("start", range(0, 40, 20))
def test_random_branches_keep_their_values(start: int) -> None:
    import torch

    def results(code: str) -> list[torch.Tensor]:
        namespace: dict[str, object] = {}
        exec(code.replace("@torch.compile\n", ""), namespace)
        found = []
        for seed in range(4):
            torch.manual_seed(seed)
            arguments = [torch.randn(2, 3) + seed - 1, torch.rand(2, 3) - 0.3]
            found.append(namespace["f"](*arguments, True))  # type: ignore[operator]
        return found

    rewritten = 0
    rule = BranchOnTensor()
    for seed in range(start, start + 20):
        code = _program(seed)
        text = StaticView(Case(rule, Example("x", code)), [rule]).fixed
        rewritten += text != code
        for before, after in zip(results(code), results(text), strict=True):
            assert torch.equal(before.nan_to_num(), after.nan_to_num()), f"{code}\nbecame\n{text}"
    assert rewritten >= 8


# Tensors that are nobody else's.


@pytest.mark.parametrize("value", ["z.detach()", "z.detach() * 2", "y + z.t().t().exp()"])
def test_a_view_that_is_used_up_leaves_a_tensor_its_own(value: str) -> None:
    body = f"""
    z = x * 2
    if x.sum() > 0:
        z -= {value}
    return z
    """
    assert "no code relies on" not in " ".join(rewrite(body).conditions)
    assert "z = torch.where(" in fixed(body)


@pytest.mark.parametrize("kept", ["w = z.detach()", "w = z.t()[0]", "w = [z.view(-1)]", "w = z.t().t()"])
def test_a_tensor_with_other_references_changes_in_place_on_both_sides(kept: str) -> None:
    body = f"""
    z = x * 2
    {kept}
    if x.sum() > 0:
        z -= y
    return z, w
    """
    assert "z -= torch.where(x.sum() > 0, y, 0)\n" in fixed(body)
    assert "modifies the tensor in place" in reason(body.replace("z -= y", "z *= y"))


def test_an_argument_that_is_changed_in_place_after_an_early_return() -> None:
    body = """
    if x.sum() > 0:
        return x * 2
    CHANGE
    z = y * 2
    return z * x
    """
    assert "modifies `y` in place" in reason(body.replace("CHANGE", "y += 1"))
    assert "z = y" in fixed(body.replace("CHANGE", "y = x + y\n    y += 1"))


# Sides of which nothing is known.

UNKNOWN = HEAD.replace("y: torch.Tensor", "y")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("return y + 1.5 if x.sum() > 0 else x", "`y + 1.5` is a tensor"),
        ("return y ** 2 if x.sum() > 0 else x", "`y ** 2` is a tensor"),
        ("if x.sum() > 0:\n    y = x * 2\nreturn y", "`y` is a tensor"),
        ("if x.sum() > 0:\n    return y\nz = x * 2\nreturn z", "`y` is a tensor"),
    ],
)
def test_what_stands_beside_a_tensor_may_be_one(body: str, told: str) -> None:
    answer = study(body, head=UNKNOWN).own[0].answer
    assert isinstance(answer, Rewrite), answer
    assert (answer.safety, told in answer.conditions) == ("conditional", True), answer.conditions


@pytest.mark.parametrize(
    "side",
    [
        "y if x.sum() > 0 else y + 1",
        "y[0] if x.sum() > 0 else y[0] + 1",
        "y[0] / y[0] if x.sum() > 0 else x",
        "y ** -1 if x.sum() > 0 else x",
        "y ** 0.5 if x.sum() > 0 else x",
    ],
)
def test_what_may_be_anything_is_declined(side: str) -> None:
    assert "cannot tell whether" in reason(f"return {side}", head=UNKNOWN)


def test_names_that_give_each_other_their_value_are_followed_once() -> None:
    body = "w = y[0]\nfor _ in range(2):\n    z = w + 1\n    w = z * 2\nreturn z if x.sum() > 0 else z - 1"
    assert "cannot tell whether" in reason(body, head=UNKNOWN)


# Tests of which the answer is known.


# Steps that are skipped at random.


# State that a side stores.

MODULE = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(8))
        self.weight = nn.Parameter(torch.ones(8))
        self.register_buffer("count", torch.tensor(0))
        self.name, self.maybe = "", None

    def forward(self, x: torch.Tensor):
        if x.sum() > 0:
            {store}
        return x + self.mean
"""


def stored(store: str) -> StaticView:
    return StaticView(Case(BranchOnTensor(), Example("x", MODULE.format(store=store))), [BranchOnTensor()])


@pytest.mark.parametrize(
    ("store", "words"),
    [
        ("self.weight = x.detach()", "stores state"),
        ("self.mean[0] = x.sum()", "in place"),
        ("self.mean.normal_()", "for its side effect"),
        ("self.mean.detach().add_(1)", "for its side effect"),
        ("self.weight.add_(1)", "for its side effect"),
        ("self.mean.copy_(x.detach().mean(0), True)", "for its side effect"),
        ("self.weight.copy_(x.detach().mean(0))", "for its side effect"),
        ("self.weight.flatten().data.copy_(x.detach().mean(0))", "for its side effect"),
        ("self.other.data.copy_(x.detach().mean(0))", "for its side effect"),
        ("self.count.copy_(x.detach().sum())", "for its side effect"),
        ("self.weight[0] = x.detach().sum()", "in place"),
        ("self.mean[x.argmax()] = x.detach().sum()", "in place"),
        ("self.mean[:4] = x.detach().sum()", "in place"),
        ("self.name = 'positive'", "stores state"),
        ("self.maybe = x.detach()", "stores state"),
        ("self.other = x.detach()", "stores state"),
        ("self.mean = self.other = x.detach()", "stores state"),
    ],
)
def test_what_is_no_tensor_of_the_module_is_not_stored(store: str, words: str) -> None:
    assert words in stored(store).declined[0]


@pytest.mark.parametrize(
    ("store", "chosen"),
    [
        ("self.mean.copy_(x.mean(0))", "self.mean.copy_(torch.where(x.sum() > 0, x.mean(0), self.mean))"),
        ("self.mean.mul_(2).add_(1)", "self.mean.copy_(torch.where(x.sum() > 0, self.mean.mul(2).add(1), self.mean))"),
        ("self.mean -= x.mean(0)", "self.mean -= torch.where(x.sum() > 0, x.mean(0), 0)"),
        ("self.mean = self.mean * 2", "self.mean = torch.where(x.sum() > 0, self.mean * 2, self.mean)"),
        ("self.count.fill_(3)", "self.count.masked_fill_(x.sum() > 0, 3)"),
        (
            "self.weight.data.copy_(x[0])",
            "self.weight.data.copy_(torch.where(x.sum() > 0, x[0], self.weight.data))",
        ),
    ],
)
def test_what_is_written_to_a_tensor_of_the_module_is_chosen(store: str, chosen: str) -> None:
    new = textwrap.dedent(stored(store).fixed.partition("x: torch.Tensor):\n")[2])
    assert new == f"{chosen}\nreturn x + self.mean\n"


def test_both_sides_may_write_to_one_tensor() -> None:
    store = "now = x.mean(0)\n            self.mean.lerp_(now, 0.1)\n        else:\n            self.mean.zero_()"
    assert stored(store).declined == []
    new = textwrap.dedent(stored(store).fixed.partition("x: torch.Tensor):\n")[2])
    assert (
        new
        == lines("""
        now = x.mean(0)
        self.mean.copy_(torch.where(x.sum() > 0, self.mean.lerp(now, 0.1), 0))
        return x + self.mean
    """)
        + "\n"
    )


@pytest.mark.parametrize(
    "store", ["y = x * 2\n            self.mean = y", "x = 2\n            self.mean = x * self.mean"]
)
def test_a_local_name_without_a_tensor_on_both_sides_is_not_chosen(store: str) -> None:
    assert stored(f"{store}\n        x = y if x is None else x").declined


def test_a_tensor_of_old_is_one_like_any_other() -> None:
    assert fixed("if x.sum() > 0:\n    z = torch.Tensor([1]).float()\nelse:\n    z = x.sum()\nreturn z * 2") == lines("""
        z = torch.where(x.sum() > 0, torch.Tensor([1]).float(), x.sum())
        return z * 2
    """)


COUNTED = "n = 0\nfor one in x.unbind():\n    if one.sum() > 0:\n        n += 1\n"


@pytest.mark.parametrize(
    "body",
    [
        f"{COUNTED}return y[:n]",
        f"{COUNTED}return [y] * n",
        f"{COUNTED}print(n)\nreturn y",
        f"{COUNTED}helper = lambda: n\nreturn y",
        f"{COUNTED}n = 3\nreturn y * n",
        f"{COUNTED}    n += 1\nreturn y * n",
        COUNTED.replace("n += 1", "n += x.shape[0]") + "return y * n",
        COUNTED.replace("n = 0", "n = 0.5") + "return y * n",
        COUNTED.replace("n = 0", "n = y.shape[0]") + "return y * n",
        COUNTED.replace("n += 1", "n += 1\n        y = y * n.bit_length()") + "return y * n",
        f"for _ in range(2):\n    y = y * 2\n{COUNTED}return y.view(n, -1)",
    ],
)
def test_a_count_that_is_more_than_added_to_stays(body: str) -> None:
    assert "torch.tensor(" not in study(body).fixed


@pytest.mark.parametrize(
    "body",
    [
        f"{COUNTED}    n += 1\nreturn y * n",
        COUNTED.replace("n += 1", "n += 1\n        y = y * n.bit_length()") + "return y * n",
        f"{COUNTED}helper = lambda: n\nreturn y",
        "n = 1 if x.sum() > 0 else 2\nfor _ in range(n):\n    y = y * 2\nreturn y",
        "n = 1 if x.sum() > 0 else 2\nif flag:\n    n += 1\nreturn y * n",
        "n = 1 if x.sum() > 0 else x.max().item()\nreturn y * n",
        "n = True if x.sum() > 0 else False\nreturn y * n",
        "n = 0.1 if x.sum() > 0 else 0.3\nreturn y.double() * n",
    ],
)
def test_a_number_that_must_stay_a_number_is_not_selected(body: str) -> None:
    assert "torch.where" not in study(body).fixed


def test_a_number_that_the_caller_receives_is_an_unsafe_change() -> None:
    assert rewrite("return 1 if x.sum() > 0 else 2.5, y").safety == "unsafe"


def test_a_test_of_an_array_is_one_of_a_tensor() -> None:
    assert fixed("a = x.detach().numpy()\nif a.max() > 0:\n    x = x * 2\nreturn x") == lines("""
        a = x.detach().numpy()
        x = torch.where(torch.as_tensor(a.max() > 0), x * 2, x)
        return x
    """)
    assert fixed("a = x.detach().numpy()\nif a.sum() and not y.any():\n    x = x * 2\nreturn x") == lines("""
        a = x.detach().numpy()
        x = torch.where((torch.as_tensor(a.sum()) != 0) & torch.logical_not(y.any()), x * 2, x)
        return x
    """)


FLAG = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.flag = False

    def reset(self):
        {reset}

    def forward(self, x: torch.Tensor):
        if x.sum() > 0:
            self.flag = True
        return x * 2
"""


def flagged(reset: str) -> StaticView:
    return StaticView(Case(BranchOnTensor(), Example("x", FLAG.format(reset=reset))), [BranchOnTensor()])


@pytest.mark.parametrize(
    ("reset", "words"),
    [
        ("self.flag = None", "stores state"),
    ],
)
def test_a_flag_that_is_more_than_set_stays(reset: str, words: str) -> None:
    assert words in flagged(reset).declined[0]


# Changes in place that a gradient meets.


@pytest.mark.parametrize(
    ("change", "read"),
    [
        ("if flag:\n    x += 1", "x"),
        ("v = x.view(-1)\nif flag:\n    v += 1", "x"),
        ("if flag:\n    x.mul_(2)", "x"),
        ("if flag:\n    x[0] = 0", "x"),
        ("if flag:\n    return z\nx += 1", "x"),
        ("for _ in range(int(flag)):\n    x += 1", "x"),
    ],
)
def test_a_change_in_place_that_a_run_may_miss(change: str, read: str) -> None:
    body = "z = torch.relu(x) if y.sum() > 0 else x.abs()\n{}\nreturn z + x"
    assert f"the gradient of `{read}` needs" in reason(body.format(change))
    branch = "if y.sum() > 0:\n    z = torch.relu(x)\nelse:\n    z = x.abs()\n{}\nreturn z + x"
    assert f"the gradient of `{read}` needs" in reason(branch.format(change))


def test_names_that_a_rewrite_adds_are_different_ones() -> None:
    body = """
        if y.sum() > 0:
            a = x * 2
            b = y * 2
        else:
            condition = x > y
            a = torch.where(condition, x, y)
            b = x * 3
        return a - b"""
    text = fixed(textwrap.dedent(body))
    assert "condition = x > y" in text
    assert "condition_2 = y.sum() > 0" in text


@pytest.mark.parametrize("fill", ["x = x.masked_fill(m, 0.0)", "x.masked_fill_(m, 0.0)", "x[m] = 0.0"])
def test_a_mask_that_is_changed_now_and_then(fill: str) -> None:
    body = f"x = x * 2\nm = x < 0\nif m.any():\n    {fill}\nif flag:\n    m |= y > 0\nreturn x * m"
    assert "the gradient of `m` needs" in reason(body)
    assert "if m.any()" not in fixed(body.replace("m |=", "n ="))


@pytest.mark.parametrize("change", ["a += 1", "x += 1", "if flag:\n    x += 1"])
def test_a_change_in_place_of_what_a_branch_keeps(change: str) -> None:
    body = "{}\na = x.view(-1)\nif y.sum() > 0:\n    a = y.exp()\n{}\nreturn a"
    assert "`a` may share memory with another tensor" in reason(body.format("", change))
    inner = textwrap.indent(f"{change}\nif y.sum() > 0:\n    a = y.exp()\n", "    ")
    loop = f"a = x.view(-1)\nfor _ in range(2):\n{inner}return a"
    assert "`a` may share memory with another tensor" in reason(loop)
    assert "torch.where" in fixed(body.format("x += 1", ""))


@pytest.mark.parametrize(
    "change",
    ["a[0] = 1", "b = a\nb[0] = 1", "b = [a]\nb[0].add_(1)", "b = a.view(-1)\nb += 1", "low += 1", "c = low\nc[0] = 2"],
)
def test_a_change_in_place_under_another_name(change: str) -> None:
    body = (
        f"low, high = x.view(-1), y.exp()\nb = c = x\na = high\nif y.sum() > 0:\n    a = low\n{change}\nreturn a, low"
    )
    assert "may share memory with another tensor" in reason(body)


@pytest.mark.parametrize("change", ["v[0] = 1", "y.copy_(a)", "held.append(1)\nv.zero_()"])
def test_a_name_that_had_another_tensor_before_does_not_connect_the_two(change: str) -> None:
    body = "low, high = torch.aminmax(x)\nheld = []\nv = y\na, b = v, v\nif y.sum() > 0:\n    a, b = low, high\n"
    body += f"else:\n    a, b = a + 1, b + 1\n{change}\nreturn a + b"
    assert "torch.where" in fixed(body)


@pytest.mark.parametrize("change", ["x += 1", "for _ in range(2):\n    v *= 2"])
def test_a_masked_view_whose_memory_changes_later(change: str) -> None:
    body = f"v = x.view(-1)\nm = v < 0\nif m.any():\n    v = v.masked_fill(m, 0.0)\n{change}\nreturn v"
    assert "`v` may share memory with another tensor" in reason(body)


def test_what_a_branch_makes_anew_may_change_later() -> None:
    body = "x = y.exp()\nif y.sum() > 0:\n    x = x.sqrt()\nelse:\n    x = x.abs()\nif flag:\n    x += 1\nreturn x"
    assert "torch.where" in fixed(body)
    shared = (
        body.replace("x = x.sqrt()", "x = v.sqrt()").replace("if y", "v = x.view(-1)\nif y").replace("x += 1", "v += 1")
    )
    assert "the gradient of `v` needs" in reason(shared)


@pytest.mark.parametrize(
    "change",
    ["x += 1", "if flag:\n    x = x + 1\n    x += 1", "if flag:\n    z += 1", "if flag:\n    x = x + 1", ""],
)
def test_a_change_in_place_that_does_not_matter(change: str) -> None:
    body = f"z = torch.relu(x) if y.sum() > 0 else x.abs()\n{change}\nreturn z + x"
    assert "torch.where" in fixed(body)


def test_a_buffer_that_is_changed_now_and_then() -> None:
    head = """\
import torch
from torch import nn


class Model(nn.Module):
  def __init__(self):
    super().__init__()
    self.register_buffer("level", torch.ones(4))

  def forward(self, x: torch.Tensor, flag: bool):
"""
    body = "if x.sum() > 0:\n    z = x * self.level\nelse:\n    z = x * 2\nif flag:\n    self.level += 1\nreturn z"
    assert "`self.level` needs" in reason(body, head=head)


# Names that get a value on one side and another one before they are read.


@pytest.mark.parametrize(
    "after",
    [
        "d = y * 3\nreturn x + d",
        "if flag:\n    d = y\nelse:\n    d = y + 1\nreturn x + d",
        "if flag:\n    return x\nd = y\nreturn x * d",
        "x, d = x + 1, y\nreturn x + d",
    ],
)
def test_a_name_that_is_bound_anew_needs_no_value(after: str) -> None:
    text = fixed(f"if x.sum() > 0:\n    d = y * 2\n    x = x + d\n{after}")
    assert "if x.sum()" not in text
    assert "d_2 = y * 2" in text


@pytest.mark.parametrize(
    "after",
    [
        "return x + d",
        "if flag:\n    d = y\nreturn x + d",
        "d += y\nreturn x + d",
        "d = d + y\nreturn x + d",
        "g = lambda: d\nd = y\nreturn x + g()",
        "while flag:\n    x = x + d\n    flag = False\nd = y\nreturn x + d",
        "try:\n    d = y\nfinally:\n    x = x + d\nreturn x",
        "del d\nd = y\nreturn x + d",
    ],
)
def test_a_name_that_may_be_read_needs_a_value(after: str) -> None:
    assert "`d` is only assigned in one branch" in reason(f"if x.sum() > 0:\n    d = y * 2\n    x = x + d\n{after}")


def test_a_name_is_read_in_the_next_round() -> None:
    body = "d = y\nfor _ in range(3):\n    x = x + d\n    if x.sum() > 0:\n        d = y * 2\nd = x\nreturn d"
    assert "d = torch.where(x.sum() > 0, y * 2, d)" in fixed(body)


def test_what_changes_in_place_on_the_other_side_alone_changes_nothing_here() -> None:
    body = """
    z = x * 2
    if flag:
        y = z * y if x.sum() > 0 else y
    else:
        z += 1
    return y * z
    """
    assert "y = torch.where(x.sum() > 0, z * y, y)" in fixed(body)
    loop = """
    z = x * 2
    for _ in range(2):
        if flag:
            y = z * y if x.sum() > 0 else y
        else:
            z += 1
    return y * z
    """
    assert "the gradient of `z` needs" in reason(loop)


@pytest.mark.parametrize("test", ["torch.rand(1) < 0.5", "x.sum() > 0 and (x * 2 + y).max() > x.max() + 3"])
def test_a_test_that_a_guard_cannot_repeat_needs_a_name(test: str) -> None:
    assert "assign the test to a variable first" in reason(f"z = x.log() if {test} else y * 2\nreturn z")


def test_what_is_added_to_is_no_less_a_tensor() -> None:
    head = HEAD.replace(": torch.Tensor", "")
    assert "is not a tensor" in reason("if x.sum() > 0 and y > 0:\n    return x\nreturn x * 2", head=head)
    answers = [one.answer for one in study("y += 1\nreturn -x if x.sum() > 0 and y.min() > 0 else x", head=head).own]
    assert len(answers) == 2
    assert all(isinstance(answer, Rewrite) for answer in answers)


LATER = """
z = x + y
CHOICE
if flag:
    z *= y
return z + w
"""


@pytest.mark.parametrize("value", ["z * 2", "1.5 - z", "z / 3 + y", "-z"])
def test_what_a_gradient_does_not_need_may_change_later(value: str) -> None:
    assert "w = torch.where(" in fixed(LATER.replace("CHOICE", f"w = {value} if x.sum() > 0 else y"))


@pytest.mark.parametrize("value", ["z * y", "2 / z", "z ** 2", "torch.sin(z) + 1", "z.abs() * 2"])
def test_what_a_gradient_needs_may_not(value: str) -> None:
    assert "may modify a tensor in place" in reason(LATER.replace("CHOICE", f"w = {value} if x.sum() > 0 else y"))


def test_what_nobody_reads_keeps_nothing_for_a_gradient() -> None:
    body = LATER.replace("CHOICE", "w = x\nif x.sum() > 0:\n    unread = z ** 2\n    w = x * 2")
    assert "w = torch.where(" in fixed(body)
    assert "may modify a tensor in place" in reason(
        body.replace("z + w", "z + w + unread").replace("w = x\n", "w = unread = x\n")
    )


# Sides that no compiled run comes to.

LAZY = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = None

    def forward(self, x: torch.Tensor, y: torch.Tensor, flag: bool):
"""


def lazy_study(body: str) -> StaticView:
    rule = BranchOnTensor()
    return StaticView(Case(rule, Example("x", LAZY + textwrap.indent(lines(body), " " * 8) + "\n")), [rule])


def lazy(body: str) -> str:
    return textwrap.dedent(lazy_study(body).fixed.removeprefix(LAZY.lstrip("\n"))).rstrip("\n")


@pytest.mark.parametrize(
    "body",
    [
        # What only the other side sets has no value where the branch is not taken.
        "z = x\nif x.sum() > 0:\n    if self.last is None:\n        w = x * 2\n    else:\n        w = self.last\n    z = w + 1",
        "z = w = x\nif x.sum() > 0:\n    if self.last is not None:\n        self.last = w\n        del w\n    z = w + 1",
        # A test that may do more than answer is asked on some ways only.
        "z = x\nif x.sum() > 0:\n    if y.add_(1).dim() and not torch.compiler.is_compiling():\n        print(1)\n    z = y",
    ],
)
def test_what_no_compiled_run_comes_to_may_decide_what_follows(body: str) -> None:
    assert lazy(f"{body}\nreturn z") == f"{body}\nreturn z"


@pytest.mark.parametrize(
    ("body", "known"),
    [
        ("x = x.exp()\nif x.sum() > 0:\n    x = y\nreturn x", True),
        ("z = x.exp()\nw = z + 1\nif x.sum() > 0:\n    z = y\nreturn z, w", True),
        ("z, w = x.exp(), y\nif x.sum() > 0:\n    z = y\nreturn z, w", True),
        ("z = y\nfor _ in range(2):\n    z = x.exp()\n    if x.sum() > 0:\n        z = y\nreturn z", True),
        # Something else may have been set in between.
        ("z = x.exp()\nif flag:\n    z = y[0]\nif x.sum() > 0:\n    z = y[0] + 1\nreturn z", False),
        ("z = x.exp()\nfor _ in range(2):\n    if x.sum() > 0:\n        z = y[0]\nreturn z", False),
        ("z = y[0]\ntry:\n    z = x.exp()\nfinally:\n    if x.sum() > 0:\n        z = y[0] + 1\nreturn z", False),
        (
            "z = y[0]\nw = flag and isinstance(z, torch.Tensor) and z\nif x.sum() > 0:\n    z = y[0] + 1\nreturn z, w",
            False,
        ),
    ],
)
def test_a_name_is_left_what_it_was(body: str, known: bool) -> None:
    answer = study(body, head=UNKNOWN).own[0].answer
    assert isinstance(answer, Rewrite) is known, answer


# What a test asks of Python values keeps its parentheses.


@pytest.mark.parametrize(
    ("test", "wanted"),
    [
        ("(flag or other) and x.sum() > 0", "if flag or other:"),
        ("(flag or other) and (other or last) and x.sum() > 0", "if (flag or other) and (other or last):"),
        ("(flag if other else last) and last and x.sum() > 0", "if (flag if other else last) and last:"),
        ("(\n    flag\n    and other\n    and x.sum() > 0\n)", "if flag and other:"),
        ("(\n    flag is\n    other\n    and last\n    and x.sum() > 0\n)", "if (flag is\n    other) and last:"),
    ],
)
def test_what_python_is_asked_first_keeps_its_parentheses(test: str, wanted: str) -> None:
    head = HEAD.replace("flag: bool", "flag: bool, other: bool, last: bool")
    text = study(f"if {test}:\n    x = x * 2\nreturn x\n", head=head).fixed.removeprefix(head)
    assert textwrap.dedent(text) == f"{wanted}\n    x = torch.where(x.sum() > 0, x * 2, x)\nreturn x\n"


@pytest.mark.parametrize("word", ["and", "or"])
def test_a_divided_test_keeps_its_parentheses(word: str) -> None:
    head = HEAD.replace("flag: bool", "flag: bool, other: bool, last: bool")
    body = (
        f"if (flag if other else last) {word} last {word} x.sum() > 0:\n    x = x * 2\nelse:\n    x = x - 1\nreturn x\n"
    )
    text = study(body, head=head).fixed.removeprefix(head)
    assert textwrap.dedent(text).startswith(f"if (flag if other else last) {word} last:\n")


def test_what_decides_inside_of_a_branch_keeps_its_parentheses() -> None:
    head = HEAD.replace("flag: bool", "flag: bool, other: bool, last: bool")
    body = """
    if y.sum() > 0:
        z = x * 2
        if (flag or other) and last and x.sum() > 0:
            x = x * 2
            z = x
        x = x + z
    return x
    """
    assert "(flag or other) and last" in study(body, head=head).fixed


@pytest.mark.parametrize(
    ("before", "inner", "safety"),
    [
        ("", "flag", "safe"),
        ("", "torch.is_grad_enabled()", "safe"),
        ("if (x > 1).any():\n    late = 2 if flag else 0\n    y = y + 1", "late", "conditional"),
        ("part = make(flag)", "part.on", "conditional"),
    ],
)
def test_testing_a_python_value_first_is_only_safe_if_that_never_raises(before: str, inner: str, safety: str) -> None:
    body = (
        f"{before}\nif (x > 2).any():\n    if {inner}:\n        x = x * 2\n    else:\n        x = x * 3\nreturn x + y"
    )
    answer = study(body).own[-1].answer
    assert isinstance(answer, Rewrite), answer
    assert (answer.title, answer.safety) == ("Test the Python value first", safety)


def test_a_function_of_the_project_with_the_name_of_an_assertion_may_go_on() -> None:
    head = f"def _assert(ok, text):\n    return text\n\n\n{HEAD}"
    assert not study('if (x > 2).any():\n    _assert(False, "large")\nreturn x', RaiseOnTensor(), head).own


CHECKED = """\
import logging
import torch

log = logging.getLogger(__name__)


class ShapeError(Exception):
    pass


def doubled(x):
    if torch.jit.is_scripting():
        return x
    if x.dim() != 2:
        raise ShapeError(f"got {x.shape!r}")
    return x * 2


def first_rank(show):
    def shown(*args):
        if first_rank.rank == 0:
            return show(*args)
        return None

    return shown


first_rank.rank = 0


def _info(text):
    log.info(text)


info = first_rank(_info)


@torch.compile
def f(x: torch.Tensor, y: torch.Tensor):
"""


def test_a_call_that_may_raise_is_computed_on_every_call() -> None:
    found = study("if y.sum() > 0:\n    x = doubled(x)\nreturn x", head=CHECKED)
    answer = found.own[0].answer
    assert isinstance(answer, Rewrite)
    assert any("raises an exception" in one for one in answer.conditions)


def test_output_through_a_function_that_another_returns() -> None:
    found = study("if y.sum() > 0:\n    info('positive')\nreturn x", head=CHECKED)
    assert "if not torch.compiler.is_compiling() and y.sum() > 0:" in found.fixed


def test_an_old_value_that_is_only_computed_with_may_change_later() -> None:
    body = """
    scale = y[0]
    if x.sum() > 0:
        scale = y[1] * 2
    rest = 1 - scale
    y.mul_(rest)
    return x * rest{use}
    """
    assert "scale = torch.where(" in fixed(body.format(use=""))
    assert "would use a copy" in reason(body.format(use=" + scale"))
    assert "would use a copy" in reason("z = y\nif x.sum() > 0:\n    z = y * 2\nw = 1 - z\nz += w\nreturn w")


SKIPPED = """
z = x * 2
for i in range(3):
    m = x > i
    if not m.any():
        continue
    w = x.mean() * i
    z[m] += w * z[m]
return z
"""


def test_an_iteration_that_writes_where_a_mask_selects_need_not_be_skipped() -> None:
    assert fixed(SKIPPED) == lines(SKIPPED.replace("    if not m.any():\n        continue\n", ""))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("z[m] +=", "z[~m] +="),
        ("z[m] +=", "z = z + w\n    z[m] +="),
        ("w = x.mean() * i", "print(i)"),
        ("return z", "return z * w"),
        ("    m = x > i", "    m = x > i\n    if i:\n        z = z + w"),
        ("z[m] += w * z[m]", "break"),
        ("        continue", "        z = z + 1\n        continue"),
        ("        continue", "        continue\n    else:\n        z = z + 1"),
        ("if not m.any()", "if m.any()"),
        ("if not m.any()", "if not m.all()"),
        ("z = x * 2", "z = x"),
        ("z[m] += w * z[m]", "w += 1\n    z[m] += w"),
        ("w = x.mean() * i", "w = [1.0, 2.0][i]"),
        ("w = x.mean() * i", "w = x.mean() * (8 // i)"),
        ("w = x.mean() * i", "w = m.sum() ** i"),
        ("w = x.mean() * i", "w = x.sum() / m.sum()"),
        ("w = x.mean() * i", "w = x.log().mean()"),
        ("z[m] += w * z[m]", "z[m] += w\n    kept.append(w)"),
    ],
)
def test_an_iteration_that_does_more(old: str, new: str) -> None:
    assert old in SKIPPED
    answers = [one.answer for one in study(SKIPPED.replace(old, new)).own]
    titles = [one.title for one in answers if isinstance(one, Rewrite)]
    assert "Remove the test, because it does not change the result" not in titles


@pytest.mark.parametrize(
    ("test", "kept"),
    [
        ("np.isnan(1.5)", "math.isnan(1.5)"),
        ("not np.isfinite(flag * 1.0)", "not math.isfinite(flag * 1.0)"),
        ("np.isnan(x.shape[0] / 2)", "math.isnan(x.shape[0] / 2)"),
    ],
)
def test_numpy_asks_a_number(test: str, kept: str) -> None:
    head = HEAD.replace("import torch\n", "import torch\nimport numpy as np\n", 1)
    answer = study(f"if {test}:\n    x = x + 1\nreturn x", head=head).own[0].answer
    assert isinstance(answer, Rewrite)
    assert answer.imports == ("import math",)
    assert kept in study(f"if {test}:\n    x = x + 1\nreturn x", head=head).fixed


@pytest.mark.parametrize(
    "test", ["np.isnan(x.numpy()).any()", "np.isnan(x.sum())", "np.isnan(1.5, where=True)", "~np.isnan(1.5)"]
)
def test_numpy_asks_something_else(test: str) -> None:
    head = HEAD.replace("import torch\n", "import torch\nimport numpy as np\n", 1)
    assert "math.isnan" not in study(f"if {test}:\n    x = x + 1\nreturn x", head=head).fixed


CLONED = """
m = torch.isnan(x)
if m.any():
    x = x.clone()
    x[m] = 0.0
return x * 2
"""


def test_a_copy_that_only_a_mask_asks_for_is_always_made() -> None:
    assert fixed(CLONED) == lines("m = torch.isnan(x)\nx = x.clone()\nx[m] = 0.0\nreturn x * 2")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x = x.clone()", "x = y.clone()"),
        ("x = x.clone()", "x = x.clone(memory_format=torch.preserve_format)"),
        ("return x * 2", "x.add_(1)\nreturn x * 2"),
        ("return x * 2", "x += 1\nreturn x * 2"),
        ("m = torch", "z = x.view(-1)\nm = torch"),
    ],
)
def test_a_copy_that_something_may_tell_apart(old: str, new: str) -> None:
    body = CLONED.replace(old, new)
    body = body.replace("return x * 2", "z += 1\nreturn x * z.sum()") if "z =" in new else body
    assert "m.any()" in fixed(body)


# Iterations that `continue` skips.

SUM = """
total, n = 0.0, 0
for part in x.chunk(4):
    if part.sum() < 0:
        continue
    total = total + part.sum()
    n += 1
"""


def test_a_sum_that_is_assigned_stays_an_assignment() -> None:
    assert fixed(SUM + "return total / max(n, 1)") == lines("""
        total, n = 0.0, 0
        for part in x.chunk(4):
            condition = part.sum() < 0
            total = total + torch.where(condition, 0, part.sum())
            n += torch.where(condition, 0, 1)
        return total / n.clamp(min=1)
    """)


@pytest.mark.parametrize(
    "end",
    [
        "if n > 0:\n    total = total / n\nreturn total",
        "if n == 0:\n    return x\nreturn total",
        "return total / n if n else total",
        "if isinstance(total, float):\n    return x\nreturn total",
        "if total == 0:\n    return x\nreturn total",
        "try:\n    return total / n\nexcept ZeroDivisionError:\n    return x",
    ],
)
def test_code_that_asks_whether_something_was_added(end: str) -> None:
    assert "continue" in fixed(SUM + end)


@pytest.mark.parametrize(
    ("rounds", "runs"),
    [("x.chunk(4)", True), ("(x, y)", True), ("()", False), ("[x[i] for i in range(1, 3)]", False), ("y", False)],
)
def test_a_count_is_clamped_only_where_the_loop_runs(rounds: str, runs: bool) -> None:
    body = SUM.replace("x.chunk(4)", rounds) + "return total / max(n, 1)"
    assert ("n.clamp(min=1)" in fixed(body)) == runs


def test_what_is_added_has_no_dimensions() -> None:
    body = SUM.replace("total + part.sum()", "total + part.mean(1)") + "return total"
    assert "continue" in fixed(body)


def test_the_rest_of_an_outer_iteration_does_not_follow_an_else() -> None:
    body = """
        for part in x.chunk(4):
            for _ in range(2):
                y = y + 1
            else:
                if part.sum() < 0:
                    continue
                y = y * 2
            y = y + part.sum()
        return y
    """
    assert "continue" in fixed(body)


@pytest.mark.parametrize(
    ("divisor", "guarded"),
    [
        ("y + 1e-6", False),
        ("eps + y", False),
        ("y + 1", True),
        ("1.0 + y", True),
        ("y - 1e-6", True),
        ("y + steps", True),
        ("y + flag", True),
    ],
)
def test_divisors_that_the_code_keeps_from_zero(divisor: str, guarded: bool) -> None:
    body = f"eps, steps = 0.1, -1.0\nif x.sum() > 0:\n    x = x / ({divisor})\nreturn x"
    assert (f"torch.where(condition, {divisor}, 1)" in fixed(body)) == guarded


WRITES = """\
import torch
from torch import nn


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4, dtype=torch.float64))
        self.register_buffer("ready", torch.zeros(1, dtype=torch.bool))
        self.register_buffer("center", torch.zeros(4))
        self.plain = torch.zeros(4)

    def forward(self, x: torch.Tensor):
        self.update(x)
        return x * self.total[0] + self.center + self.plain

    def update(self, x: torch.Tensor):
"""


@pytest.mark.parametrize(
    ("body", "new"),
    [
        (
            "if x.max() > 1:\n    self.total[0] += 0.1",
            "self.total[0] = torch.where(x.max() > 1, self.total[0] + 0.1, self.total[0])",
        ),
        ("if x.max() > 1:\n    self.total[0] += 2", "self.total[0] += torch.where(x.max() > 1, 2, 0)"),
        ("if x.max() > 1:\n    self.total[0] = 0.1", "self.total[0] = torch.where(x.max() > 1, 0.1, self.total[0])"),
        (
            "if x.max() > 1:\n    self.total[0] += 1\n    self.center.zero_()\nelse:\n    self.total[0] += 1",
            "condition = x.max() > 1\nself.total[0] += 1\nself.center.masked_fill_(condition, 0)",
        ),
    ],
)
def test_elements_of_buffers_keep_their_precision(body: str, new: str) -> None:
    code = WRITES + textwrap.indent(body, " " * 8) + "\n"
    text = StaticView(Case(BranchOnTensor(), Example("x", code)), [BranchOnTensor()]).fixed
    assert textwrap.dedent(text.removeprefix(WRITES)).rstrip("\n") == new


@pytest.mark.parametrize(
    "body",
    [
        "if x.max() > 1:\n    self.total[0] = 0.1\nelse:\n    self.total[0] = 0.3",
        "if not self.ready:\n    self.ready[0] = True\n    self.center.copy_(x.mean(0).detach())",
        "if x.max() > 1:\n    self.center[:2] = x.detach()[0, :2]",
        "if x.max() > 1:\n    self.center[x.argmax()] = 2",
        "if x.max() > 1:\n    self.plain[0] += 1",
        "if x.max() > 1:\n    self.center[0] = 2\n    self.center.zero_()",
    ],
)
def test_elements_of_buffers_that_are_not_written_on_every_call(body: str) -> None:
    code = WRITES + textwrap.indent(body, " " * 8) + "\n"
    (found,) = StaticView(Case(BranchOnTensor(), Example("x", code)), [BranchOnTensor()]).own
    assert isinstance(found.answer, Declined)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("if x.sum() > 0:\n    x = F.relu(x)\nreturn x", "x = torch.where(x.sum() > 0, F.relu(x), x)"),
        (
            "if x.sum() > 0:\n    x = F.elu(x, 1.0, False)\nreturn x",
            "x = torch.where(x.sum() > 0, F.elu(x, 1.0, False), x)",
        ),
        ("n = x.norm()\nif n > 2:\n    x = x * (2 / n)\nreturn x", "x = x * (2 / n.clamp(min=2))"),
        ("n = x.norm()\nx = x / n * 2.5 if n >= 2.5 else x\nreturn x", "x = x / n.clamp(min=2.5) * 2.5"),
        ("n = x.norm()\nif 2 < n:\n    x = x / n\nreturn x", "x = torch.where(2 < n, x / n.clamp(min=2), x)"),
        # A bound of zero, another value on the other side, and a divisor below the bound keep the test.
        ("n = x.norm()\nif n > 0:\n    x = x * (0 / n)\nreturn x", "torch.where(condition, n, 1)"),
        ("n = x.norm()\nif n > 2:\n    x = x * (2 / n)\nelse:\n    x = y\nreturn x", "x = torch.where("),
        ("n = x.norm()\nif n < 2:\n    x = x * (2 / n)\nreturn x", "torch.where(condition, n, 1)"),
        # Another value of the divisor, of the bound, or of what is divided.
        (
            "n = x.norm()\nif n > 9:\n    n = n - 8\n    x = x / n\nreturn x",
            "x = torch.where(condition, x / torch.where",
        ),
        ("n, c = x.norm(), 2.0\nif n > c:\n    c = c / 4\n    x = x / n * c\nreturn x", "x = torch.where(condition, x"),
        ("n = x.norm()\nif n > 2:\n    x = x + 1\n    x = x * (2 / n)\nreturn x", "torch.where("),
        # A quotient without a gradient that multiplies something with one.
        (
            "n = (x > 0).sum()\nif n > 2:\n    x = x * (1.0 / (n - 2))\nreturn x",
            "1.0 / torch.where(condition, n - 2, 1)",
        ),
        ("n = (x > 0).sum()\nif n == 0:\n    n = 1.0\nreturn x / n", "n = torch.where(n == 0, 1, n)"),
    ],
)
def test_divisors_and_functions_that_may_work_in_place(body: str, expected: str) -> None:
    head = HEAD.replace("import torch\n", "import torch\nimport torch.nn.functional as F\n", 1)
    assert expected in study(body, None, head).fixed


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("if x.sum() > 0:\n    x = x / (x.std(0) + 1)\nreturn x", "batch of one"),
        ("if x.sum() > 0:\n    x = x + F.embedding(y.long(), x, max_norm=1.0)\nreturn x", "renormalizes"),
        ("if x.sum() > 0:\n    x = F.relu(x, inplace=True)\nreturn x", "in place"),
        ("if x.sum() > 0:\n    x = F.relu(x, True)\nreturn x", "in place"),
        ("if x.sum() > 0:\n    x = F.relu(x, flag)\nreturn x", "in place"),
        ("n = (x > 0).sum()\nif n == 0:\n    n = 1.5\nreturn n", "the number"),
    ],
)
def test_branches_that_may_work_in_place_or_change_the_dtype(body: str, words: str) -> None:
    head = HEAD.replace("import torch\n", "import torch\nimport torch.nn.functional as F\n", 1)
    assert words in reason(body, None, head)
