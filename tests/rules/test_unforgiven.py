"""Programs that a fix which nobody runs once changed: what it rests on must hold for every input, or it is declined."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from dynalint.rulebook.pages import Example
from dynalint.rules import Declined, Rewrite, Rule
from dynalint.testing.cases import Case
from dynalint.testing.static import StaticView
from dynalint_rules.control_flow.bool_operator_on_tensor import BoolOperatorOnTensor
from dynalint_rules.control_flow.branch_on_tensor import BranchOnTensor
from dynalint_rules.control_flow.membership_on_tensor import MembershipOnTensor
from dynalint_rules.python_constructs.dynamic_code import DynamicCode
from dynalint_rules.shapes.masked_store import MaskedStore
from dynalint_rules.side_effects.print_call import PrintCall
from dynalint_rules.side_effects.warn_call import WarnCall

HEAD = """\
import torch
import warnings
from collections import defaultdict
from torch import nn

__private = 2


class Box:
    def __init__(self):
        self.asked = 0

    def __mul__(self, other):
        self.asked += 1
        return other


class Model(nn.Module):
    @property
    def limit(self):
        self.asked.append(1)
        return torch.ones(())

    @property
    def scale(self):
        return torch.ones(())

    def forward(self, x: torch.Tensor, y: torch.Tensor, flag: bool):
"""


def answer(body: str, rule: Rule) -> Rewrite | Declined:
    code = HEAD + textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8) + "\n"
    found = StaticView(Case(rule, Example("x", code)), [rule]).own[0].answer
    assert isinstance(found, Rewrite | Declined), found
    return found


def content(body: str, rule: Rule) -> str:
    found = answer(body, rule)
    assert isinstance(found, Rewrite), found
    return found.replacements[0].content


def reason(body: str, rule: Rule) -> str:
    found = answer(body, rule)
    assert isinstance(found, Declined), found
    return found.reason


SIDES = "    y = x * 2\nelse:\n    y = x * 3\nreturn y"
LATER = "does not raise an exception in cases where it was not evaluated before"


@pytest.mark.parametrize(
    ("test", "raising"),
    [
        ("m.any() and x[m].max() > 1", "x[m].max() > 1"),
        ("not m.any() or x[m].max() > 1", "x[m].max() > 1"),
        ("x.sum() > 0 and x.max() < 5", "x.max() < 5"),
        ("x.sum() > 0 and x[2].sum() > 0", "x[2].sum() > 0"),
        ("x.sum() > 0 and x.view(2, 2).sum() > 0", "x.view(2, 2).sum() > 0"),
        ("x.sum() > 0 or (x + y).sum() > 0", "(x + y).sum() > 0"),
        ("x.sum() > 0 and x.sum() > 10 / x.dim()", "x.sum() > 10 / x.dim()"),
        ("x.sum() > 0 and x.mean() > 1", "x.mean() > 1"),
        ("x.sum() > 0 and x", "x"),
        ("0 < x.sum() < y.max()", "y.max()"),
    ],
)
def test_what_is_tested_only_after_another_test_may_raise(test: str, raising: str) -> None:
    found = answer(f"m = x > 0\nif {test}:\n{SIDES}", BranchOnTensor())
    assert isinstance(found, Rewrite), found
    assert found.safety == "conditional"
    assert f"`{raising}` {LATER}" in found.conditions


def test_an_elif_may_raise_where_the_if_has_decided() -> None:
    body = f"m = x > 0\nif not m.any():\n    y = x * 4\nelif x[m].max() > 1:\n{SIDES}"
    found = answer(body, BranchOnTensor())
    assert isinstance(found, Rewrite), found
    assert f"`x[m].max() > 1` {LATER}" in found.conditions


def test_a_name_that_an_elif_tests_may_have_no_value() -> None:
    body = f"if flag:\n    t = x.sum()\nif x.sum() > 0:\n    y = x * 4\nelif t > 1:\n{SIDES}"
    found = answer(body, BranchOnTensor())
    assert isinstance(found, Rewrite), found
    assert f"`t > 1` {LATER}" in found.conditions


@pytest.mark.parametrize("test", ["m.any() and x[m].max() > 1", "0 < x.sum() < y.max()"])
def test_an_operator_as_a_value_may_raise(test: str) -> None:
    found = answer(f"m = x > 0\nc = {test}\nreturn x * c", BoolOperatorOnTensor())
    assert isinstance(found, Rewrite), found
    assert any(LATER in condition for condition in found.conditions)


@pytest.mark.parametrize(
    "test",
    [
        "x.isnan().any() or x.isinf().any()",
        "(x > 0).any() and not (x > 5).all()",
        "x.sum() > 0 and (x.sum() < 5 or y.abs().sum() + 1 > 3)".replace("y.abs()", "y.float()"),
        "torch.isnan(x).any() or x.sum() * 2 == 4",
        "0 < x.sum() < 5",
    ],
)
def test_what_never_raises_may_always_be_tested(test: str) -> None:
    found = answer(f"if {test}:\n{SIDES}", BranchOnTensor())
    assert isinstance(found, Rewrite), found
    assert not any(LATER in condition for condition in found.conditions)


def test_a_property_may_do_more_than_give_a_value() -> None:
    text = reason(f"if x.sum() > 0 and self.limit > 0:\n{SIDES}", BranchOnTensor())
    assert "self" in text
    assert "append" in text
    found = answer(f"if x.sum() > 0 and self.scale > 0:\n{SIDES}", BranchOnTensor())
    assert isinstance(found, Rewrite)


@pytest.mark.parametrize(
    ("tested", "condition"),
    [
        ("not x.any()", "torch.logical_not(x.any())"),
        ("not x.byte().all()", "torch.logical_not(x.byte().all())"),
        ("not torch.any(x)", "torch.logical_not(torch.any(x))"),
        ("not x.isnan().any()", "~x.isnan().any()"),
        ("not (x > 0).all()", "~(x > 0).all()"),
    ],
)
def test_any_of_bytes_is_a_byte_of_which_the_complement_is_never_false(tested: str, condition: str) -> None:
    assert content(f"if {tested}:\n{SIDES}", BranchOnTensor()) == f"y = torch.where({condition}, x * 2, x * 3)"
    named = f"c = {tested.removeprefix('not ')}\nif not c:\n{SIDES}"
    short = "torch.logical_not(c)" if "logical_not" in condition else "~c"
    assert content(named, BranchOnTensor()).startswith((f"y = torch.where({short}", f"y = torch.where(({short})"))


OWN = "may have a side effect, and this would be skipped too"


@pytest.mark.parametrize(
    ("made", "read"),
    [
        ("iter([1, 2])", "list(it)"),
        ("(i for i in range(3))", "*it"),
        ("zip([1], [2])", "[one for one in it]"),
        ("enumerate([1])", "1 in it"),
        ("map(str, [1])", "dict(zip('a', it))"),
        ("iter([1, 2])", "sum(it)"),
    ],
)
def test_a_print_that_reads_an_iterator_is_not_left_out(made: str, read: str) -> None:
    assert OWN in reason(f"it = {made}\nprint({read})\nreturn x * next(it, 5)", PrintCall())


def test_an_iterator_that_only_a_function_sees_may_be_read() -> None:
    body = "def total(values):\n    pairs = zip(values, values)\n    return sum(a * b for a, b in pairs)\nprint(total([1]))"
    assert "is_compiling" in content(f"{body}\nreturn x", PrintCall())
    body = "def total(values):\n    return sum(values)\nit = iter([1])\nprint(total(it))\nreturn x * next(it, 5)"
    assert OWN in reason(body, PrintCall())


def test_what_puts_a_default_there_is_not_left_out() -> None:
    assert OWN in reason('d = defaultdict(int)\nprint(d["a"])\nreturn x * len(d)', PrintCall())


def test_an_operator_of_a_class_is_not_left_out() -> None:
    assert OWN in reason("box = Box()\nprint(box * 2)\nreturn x * box.asked", PrintCall())


@pytest.mark.parametrize(
    "body",
    [
        'with warnings.catch_warnings(record=True) as seen:\n    warnings.warn("hi")\nreturn x * len(seen)',
        (
            'try:\n    with warnings.catch_warnings():\n        warnings.simplefilter("error")\n        warnings.warn("hi")\n'
            "except UserWarning:\n    x = x * 3\nreturn x"
        ),
    ],
)
def test_a_warning_that_the_function_goes_by_is_not_left_out(body: str) -> None:
    code = HEAD + textwrap.indent(body, " " * 8) + "\n"
    answers = [found.answer for found in StaticView(Case(WarnCall(), Example("x", code)), [WarnCall()]).own]
    assert answers
    assert all(isinstance(one, Declined) for one in answers), answers


@pytest.mark.parametrize(
    "body",
    [
        "self.__a = 3\nreturn eval('x * self.__a')",
        "__a = 3\nreturn eval('x * __a')",
        "return sum([eval('x * i') for i in range(3)])",
        "return x * globals()['__private']",
    ],
)
def test_a_text_does_not_see_what_code_sees(body: str) -> None:
    assert isinstance(answer(body, DynamicCode()), Declined)


@pytest.mark.parametrize(
    "made",
    [
        "z = torch.zeros(4, requires_grad=True)",
        "z = torch.zeros(4, requires_grad=flag)",
        "z = torch.zeros(4)\nz.requires_grad = True",
        "z = torch.zeros(4)\nz.requires_grad_()",
    ],
)
def test_a_leaf_is_not_written_to_where_nothing_is_selected(made: str) -> None:
    found = answer(f"{made}\nm = z > 1\nif m.any():\n    z[m] = 0\nreturn x * z", BranchOnTensor())
    assert isinstance(found, Rewrite), found
    assert any("may be written to" in condition for condition in found.conditions)
    found = answer("z = torch.zeros(4)\nm = z > 1\nif m.any():\n    z[m] = 0\nreturn x * z", BranchOnTensor())
    assert isinstance(found, Rewrite), found
    assert found.safety == "safe"


@pytest.mark.parametrize(
    ("made", "condition"),
    [
        ("t = sum(x > 0)", "`x > 0` is not empty"),
        ("t = sum(one.sum() for one in x)", "`(one.sum() for one in x)` is not empty"),
        ("t = sum([one.sum() for one in x]) / 2", "`[one.sum() for one in x]` is not empty"),
        ("t = max(x.max(), 1.0)", "`max(x.max(), 1.0)` is a tensor"),
        ("t = -min(x.max(), 1)", "`min(x.max(), 1)` is a tensor"),
        ("t = max([one.sum() for one in x], default=0)", "is a tensor"),
    ],
)
def test_a_builtin_may_give_a_number_instead_of_a_tensor(made: str, condition: str) -> None:
    found = answer(f"{made}\nif t > 2:\n{SIDES}", BranchOnTensor())
    assert isinstance(found, Rewrite), found
    assert any(condition in one for one in found.conditions), found.conditions
    found = answer(f"{made}\nif x.sum() > 2:\n    y = t * 2\nelse:\n    y = t * 3\nreturn y", BranchOnTensor())
    assert isinstance(found, Rewrite), found
    assert any(condition in one for one in found.conditions), found.conditions


@pytest.mark.parametrize(
    "made",
    [
        "t = sum(one.sum() for one in (x, y))",
        "t = sum([x.sum(), y.sum()])",
        "t = max(x.max(), y.max())",
        "t = sum(one.sum() for one in x) + y.sum()",
    ],
)
def test_a_builtin_gives_a_tensor(made: str) -> None:
    found = answer(f"{made}\nif t > 2:\n{SIDES}", BranchOnTensor())
    assert isinstance(found, Rewrite), found
    assert not any("is a tensor" in one or "empty" in one for one in found.conditions), found.conditions


@pytest.mark.parametrize("lost", ["del torch\n", "torch = None\n", "def lose():\n    global torch\n    torch = None\n"])
def test_torch_does_not_stay_what_it_was(lost: str) -> None:
    code = f"import torch\n{{}}\n\n@torch.compile\ndef f(x: torch.Tensor):\n    return x * 2 if x.sum() > 0 else x * 3\n\n\n{lost}"
    rule = BranchOnTensor()
    found = StaticView(Case(rule, Example("x", code.format(""))), [rule]).own[0].answer
    assert isinstance(found, Declined)
    assert "may not be the torch module" in found.reason
    guarded = "try:\n    import torch\nexcept ImportError:\n    torch = None\n"
    kept = (
        StaticView(Case(rule, Example("x", guarded + code.partition("{}")[2].removesuffix(lost))), [rule]).own[0].answer
    )
    assert isinstance(kept, Rewrite)


CHECKERS = """\
def strict(good, message, asked=False):
    if asked:
        if not good:
            raise ValueError(message)

def off(good, message, asked=True):
    if asked:
        return
    if not good:
        raise ValueError(message)

def turned(good, message):
    good = not good
    if not good:
        raise ValueError(message)

def asks_more(good, message):
    if not good:
        if message:
            raise ValueError(message)

def set_within(good, message, raises=True):
    raises = LEVEL > 1
    if not good:
        if raises:
            raise ValueError(message)

def counts(good, message):
    seen.append(good)
    if not good:
        raise ValueError(message)

def raises_for_more(good, message):
    if not good:
        raise ValueError(message)
    if not message:
        raise KeyError(message)

def told_not_to(good, raises=True):
    if not good:
        if raises:
            raise ValueError("no")
"""


@pytest.mark.parametrize(
    "call",
    ["strict", "off", "turned", "asks_more", "set_within", "counts", "raises_for_more", "told_not_to"],
)
def test_a_function_that_need_not_raise_is_no_check(call: str) -> None:
    compiled = f"@torch.compile\ndef f(x: torch.Tensor):\n    {call}(any(x > 0), '')\n"
    code = f"import torch\nLEVEL, seen = 1, []\n{CHECKERS}\n{compiled}"
    rule = MembershipOnTensor()
    found = StaticView(Case(rule, Example("x", code)), [rule]).own[0].answer
    assert isinstance(found, Declined), found


def test_a_tensor_that_takes_the_memory_of_another_is_not_replaced() -> None:
    body = """
        t = torch.empty(0).set_(y)
        t[x > 0] += 1
        return y
    """
    assert content(body, MaskedStore()) == "...] = torch.where(x > 0, t + 1, t)"


@pytest.mark.parametrize("write", ["z[m] = 0", "z.masked_fill_(m, 0)"])
def test_a_write_to_what_a_caller_owns_may_raise_where_a_mask_selects_nothing(write: str) -> None:
    body = f"m = y > 0\nz = {{}}\nif m.any():\n    {write}\nreturn z"
    assert isinstance(answer(body.format("x"), BranchOnTensor()), Declined)
    assert isinstance(answer(body.format("x.clone()"), BranchOnTensor()), Rewrite)


def test_a_check_needs_no_name_for_torch(tmp_path: Path) -> None:
    code = """
from torch import nn
from elsewhere import torch


class Model(nn.Module):
    def forward(self, rows: "list[torch.Tensor]"):
        found = [one * 2 for one in rows]
        for i in range(len(rows)):
            found.append(rows[i] * 2)
        return torch.stack(found)
"""
    path = tmp_path / "model.py"
    path.write_text(code)
    result = subprocess.run(
        [sys.executable, "-m", "dynalint", "check", "--static", "--isolated", "--no-cache", path.name],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode < 2
    assert result.stderr == ""


def test_a_value_with_side_effects_keeps_its_place_in_a_test() -> None:
    assert isinstance(answer("if self.limit.sum() > 0 and flag:\n    x = x * 2\nreturn x", BranchOnTensor()), Declined)
    assert content("if x.sum() > 0 and flag:\n    x = x * 2\nreturn x", BranchOnTensor()).startswith("flag:")
