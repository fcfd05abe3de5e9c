"""What the longer forms of a rewrite compute once more, and what they leave alone."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import pytest

from dynalint.fix.edits import plan_of, replaced
from dynalint.rules import Example, Rewrite
from dynalint.testing.cases import Case
from dynalint.testing.static import Study
from dynalint_rules.control_flow.branch_on_tensor import BranchOnTensor

HEAD = """\
import torch
from torch import nn


def helper(module):
    module.level = module.level * 2


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("level", torch.ones(4))
        self.register_buffer("other", torch.ones(4))

    def update(self):
        self.level = self.level * 2

    def clear(self):
        self.level.zero_()

    def look(self, x):
        return x * self.level

    def forward(self, x{annotation}, y{annotation}):
"""


def forms(body: str, annotation: str = ": torch.Tensor") -> Iterator[tuple[Rewrite, str]]:
    """Yield the forms of the first rewrite with the body that each leads to, the short one first."""
    head = HEAD.format(annotation=annotation)
    code = head + textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8) + "\n"
    answer = Study(Case(BranchOnTensor(), Example("x", code)), [BranchOnTensor()]).own[0].answer
    assert isinstance(answer, Rewrite), answer
    form: Rewrite | None = answer
    while form is not None:
        ((_, changes),) = plan_of(form).items()
        yield form, textwrap.dedent(replaced(code, changes).removeprefix(head)).rstrip("\n")
        form = form.sheltered


def leads_to(line: str, body: str) -> bool:
    """Whether a form has a line like this."""
    return any(line in text.splitlines() for _, text in forms(body))


KEPT = """
b = x * self.level
{between}
if y.sum() > 0:
    b = y
return b + y
"""


@pytest.mark.parametrize(
    "between",
    [
        "z = self.fc(y)",
        "z = self.drop(y)",
        "z = self.look(y)",
        "print('here')",
        "print(self.other)",
        "z = self.level[0] * y",
        "z = torch.zeros_like(self.level)",
    ],
)
def test_what_nothing_changes_is_computed_once_more(between: str) -> None:
    assert leads_to("b = torch.where(condition, y, safe_x * self.level)", KEPT.format(between=between))


@pytest.mark.parametrize(
    "between",
    [
        "self.update()",
        "self.clear()",
        "helper(self)",
        "self.apply(helper)",
        "setattr(self, 'level', y)",
        "self.level.add_(1)",
        "self.level += 1",
        "self.level[0] = 1",
        "self.level[0].add_(1)",
        "torch.nn.init.zeros_(self.level)",
        "torch.utils.checkpoint.checkpoint(self.update)",
        "print(self.update())",
        "def inner():\n    self.update()\ninner()",
        "torch.add(y, 1, out=self.level)",
        "z = self.level\nz.add_(1)",
        "z = self.level.view(-1)\nz.add_(1)",
        "z = self.level[0]\nz.add_(1)",
    ],
)
def test_what_may_change_is_not_computed_once_more(between: str) -> None:
    assert not [text for _, text in forms(KEPT.format(between=between)) if "safe_x * self.level" in text]


LAYER = """
a = self.fc(x)
{between}
if y.sum() > 0:
    a = y
return a + y
"""


def test_a_layer_is_called_once_more_only_where_nothing_else_has_helped() -> None:
    texts = [text for _, text in forms(LAYER.format(between="z = y + 1"))]
    assert [text.count("self.fc(") for text in texts] == [1, 1, 2, 2]
    assert texts[2] == textwrap.dedent(
        """
        a = self.fc(x)
        z = y + 1
        condition = y.sum() > 0
        safe_x = torch.where(condition, 1, x)
        a = torch.where(condition, y, self.fc(safe_x))
        return a + y
        """
    ).strip("\n")


@pytest.mark.parametrize(
    "between",
    ["self.fc.weight.data.mul_(2)", "self.fc = nn.Linear(4, 4)", "self.update()", "helper(self)"],
)
def test_a_layer_is_not_called_once_more_with_other_weights(between: str) -> None:
    assert not [text for _, text in forms(LAYER.format(between=between)) if "self.fc(safe_x)" in text]


def test_what_draws_is_not_computed_once_more() -> None:
    body = "a = self.drop(x) * y\nif y.sum() > 0:\n    a = y\nreturn a + y"
    assert not [text for _, text in forms(body) if text.count("self.drop") > 1]


@pytest.mark.parametrize(
    "idle", ["d = a * 2", "d = a * 2\n    e = d + 1", "c, d = y, a * 2", "a *= 2", "d = self.fc(a)"]
)
def test_what_is_computed_for_nothing_gives_no_gradient(idle: str) -> None:
    body = f"a = x * y\nif y.sum() > 0:\n    {idle}\n    a = y\nreturn a + y"
    assert leads_to("a = torch.where(condition, y, safe_x * safe_y)", body)
    assert leads_to("a = safe_x * safe_y", body)


@pytest.mark.parametrize(
    "used",
    [
        "y = y + a",
        "d = a * 2\n    y = y + d",
        "d = a @ a.t()",
        "if x.dim() > a.sum().dim():\n        y = y * 2",
        "for _ in range(2):\n        y = y + a",
    ],
)
def test_what_may_be_felt_is_given_what_it_is(used: str) -> None:
    body = f"a = x * y\nif y.sum() > 0:\n    {used}\n    a = y\nreturn a + y"
    assert not [text for _, text in forms(body) if "a = safe_x * safe_y" in text.splitlines()]


@pytest.mark.parametrize(
    ("loop", "wanted"), [("range(2)", True), ("range(len(self.fc.weight))", False)], ids=["rounds", "perhaps none"]
)
def test_a_loop_that_sets_a_name_in_its_first_round_wants_nothing_of_it(loop: str, wanted: bool) -> None:
    body = f"a = x * y\nif y.sum() > 0:\n    for _ in {loop}:\n        a = y\nreturn a + y"
    found = any("a = safe_x * safe_y" in text.splitlines() for _, text in forms(body))
    assert found is wanted


def test_what_is_used_on_all_sides_is_kept_out_and_not_computed_once_more() -> None:
    body = "b = x * y\nz = b ** 0.5\nif y.sum() > 0:\n    z = -b\n{between}return {given}"
    assert leads_to("z = torch.where(condition, -b, safe_b ** 0.5)", body.format(between="", given="z, b"))
    again = "z = torch.where(condition, -b, (safe_x * safe_y) ** 0.5)"
    assert leads_to(again, body.format(between="", given="z"))
    assert leads_to(again, body.format(between="if b is None:\n    z = z + 1\n", given="z"))


@pytest.mark.parametrize(
    ("statement", "written"),
    [
        ("a *= y.abs()", "torch.where(condition, a, 1) * torch.where(condition, y, 1).abs()"),
        ("a /= y.abs()", "torch.where(condition, a, 1) / torch.where(condition, y.abs(), 1.0)"),
        ("a **= y + 1", "torch.where(condition, a, 1.0) ** (torch.where(condition, y, 1) + 1)"),
        ("a += y + 1", "a + (y + 1)"),
    ],
)
def test_augmented_assignments_are_sheltered_too(statement: str, written: str) -> None:
    body = f"a = x * y\nif y.sum() > 0:\n    for _ in range(2):\n        {statement}\nreturn a + y"
    assert any(f"a = torch.where(condition, {written}, a)" in text for _, text in forms(body))


@pytest.mark.parametrize(
    ("before", "guarded"),
    [("t = -x", True), ("t = -x\n    t = t + 1", True), ("t = x * y", False), ("t = x.log()", False)],
)
def test_infinities_that_another_name_passes_on_are_kept_out(before: str, guarded: bool) -> None:
    *_, (_, text) = forms(f"z = x\nif y.sum() > 0:\n    {before}\n    z = t * t\nreturn z + y")
    assert ("torch.where(condition, t, 1) * torch.where(condition, t, 1)" in text) is guarded


def test_a_name_of_which_nothing_is_known_is_taken_for_a_tensor_on_a_condition() -> None:
    body = "b = x * y\nif torch.rand(()) > 0.5:\n    b = torch.ones(4)\nreturn self.fc(b)"
    (short, _), *_, (last, text) = forms(body, "")
    assert "safe_x * safe_y" in text
    assert {"`x` is a tensor", "`y` is a tensor"} <= set(last.conditions)
    assert last.safety == "conditional"
    assert "`x` is a tensor" not in short.conditions


@pytest.mark.parametrize("given", ["self.scale", "y.numel()", "helper(y)"])
def test_what_is_no_argument_is_not_taken_for_a_tensor(given: str) -> None:
    body = f"s = {given}\nz = x\nif torch.rand(()) > 0.5:\n    z = x * s\nreturn self.fc(z)"
    assert not [text for _, text in forms(body) if "condition, s, 1)" in text]


@pytest.mark.parametrize("idle", ["a.detach()", "x.masked_fill(a > 0, 0.0)", "torch.where(torch.isnan(a), x, y)"])
def test_what_gives_no_gradient_to_a_name_does_not_use_it(idle: str) -> None:
    body = "a = x * y\nz = {} if x.sum() > 0 else a ** 2\nreturn z"
    again = "(torch.where(condition, 1, x) * torch.where(condition, 1, y)) ** 2"
    assert any(again in text for _, text in forms(body.format(idle)))
    assert not any(again in text for _, text in forms(body.format("a + x")))


def test_a_name_is_used_throughout_only_if_all_ways_use_it() -> None:
    body = "b = x * y\nz = b ** 0.5\nif y.sum() > 0:\n    z = -b\nif self.training:\n    b = {}\nreturn z, b"
    assert leads_to("z = torch.where(condition, -b, (safe_x * safe_y) ** 0.5)", body.format("y"))
    assert leads_to("z = torch.where(condition, -b, safe_b ** 0.5)", body.format("b * 2"))


def test_an_earlier_choice_is_computed_once_more() -> None:
    body = """
    b = torch.where(torch.isnan(x).any() | (y > 1).any(), torch.where(y.max() > x.max(), x, 0.0).exp(), torch.relu(x))
    if y.sum() > 0:
        b = y
    return b
    """
    kept_out = "torch.where(condition, 0.0, torch.where(y.max() > x.max(), x, 0.0)).exp()"
    assert any(kept_out in text for _, text in forms(body))
    long = body.replace("torch.isnan(x).any()", "(x + 1 + 2 + 3 + 4 + 5 + 6 > 0).any()")
    assert not any("torch.where(condition, 0.0" in text for _, text in forms(long))


def test_a_test_that_comes_more_than_twice_gets_a_name() -> None:
    value = "x.log() / y if x.sum() > 0 else y * 2"
    named = "z = torch.where(condition, torch.where(condition, x, 1.0).log() / torch.where(condition, y, 1.0), y * 2)"
    assert leads_to("condition = x.sum() > 0", f"z = {value}\nreturn z")
    assert leads_to(named, f"z = {value}\nreturn z")
    (_, text), *_ = forms(f"z, w = ({value}), x\nreturn z + w")
    assert "condition" not in text
    assert text.count("x.sum() > 0") == 3
    again = "z = torch.where(m, torch.where(m, x, 1.0).log() / torch.where(m, y, 1.0), y * 2)"
    assert leads_to(again, f"m = x.sum() > 0\nz = {value.replace('x.sum() > 0', 'm')}\nreturn z")
    once = "z = torch.where(x.sum() > 0, torch.where(x.sum() > 0, x, 1.0).log(), y * 2)"
    assert leads_to(once, "z = x.log() if x.sum() > 0 else y * 2\nreturn z")


def test_what_a_name_held_before_is_saved_for_what_only_detaches_or_tests_it() -> None:
    body = "y = torch.where(y.max() > 0, y.detach(), x * x)\n{between}if x.sum() > 0:\n    y = -x\nreturn y"
    chosen = "y = torch.where(old_y.max() > 0, old_y.detach(), safe_x * safe_x)"
    assert leads_to("old_y = y", body.format(between=""))
    assert leads_to(chosen, body.format(between=""))
    # It has been changed since.
    before = "w = y\n" + body
    assert leads_to(chosen, before.format(between=""))
    assert not leads_to(chosen, before.format(between="w.add_(1)\n"))
