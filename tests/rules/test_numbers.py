"""Numbers read out of tensors that stay tensors: what follows from each use, and which uses are declined."""

from __future__ import annotations

import textwrap

import pytest

from dynalint import check_source
from dynalint.fix.edits import plan_of, replaced
from dynalint.rulebook.pages import Example
from dynalint.rules import Declined, Rewrite, Rule
from dynalint.testing.cases import Case
from dynalint.testing.static import StaticView
from dynalint_rules.control_flow.branch_on_tensor import BranchOnTensor
from dynalint_rules.state.python_counter import PythonCounter
from dynalint_rules.tensor_to_python.item import ItemOfTensor
from dynalint_rules.tensor_to_python.math_call import MathOnTensor
from dynalint_rules.tensor_to_python.number import NumberOfTensor

HEAD = "import torch\n\n\n@torch.compile\ndef f(x: torch.Tensor, t: torch.Tensor, flag: bool):\n"


def answer(body: str, rule: Rule | None = None) -> Rewrite | Declined:
    rule = rule or ItemOfTensor()
    code = HEAD + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n"
    found = StaticView(Case(rule, Example("x", code)), [rule]).own
    assert len(found) == 1, found
    assert isinstance(found[0].answer, Rewrite | Declined)
    return found[0].answer


def rewrite(body: str, rule: Rule | None = None) -> Rewrite:
    found = answer(body, rule)
    assert isinstance(found, Rewrite), found
    return found


def new_code(found: Rewrite) -> str:
    """Return the code after a rewrite."""
    file = found.replacements[0].file
    return replaced(file.text, plan_of(found)[file.path])


def reason(body: str, rule: Rule | None = None) -> str:
    found = answer(body, rule)
    assert isinstance(found, Declined), found
    return found.reason


@pytest.mark.parametrize(
    "use",
    [
        "return x * s",
        "return -s + x",
        "return x // s, x % s",
        "return x > s",
        "return torch.where(x > 0, x, s)",
        "return torch.full((4,), s)",
        "return x.gt(s) & torch.le(x, s)",
        "return x.lerp(t, s) + torch.remainder(x, s)",
        "return x.masked_fill(x > 0, s)",
        "return torch.nn.functional.gumbel_softmax(x, tau=s)",
        "x /= s\nreturn x",
        "return x / max(s, 1.0)",
        "return x * (s if flag else 1.0)",
        "return x ** s",
        "return x * s ** 2",
        "return x * 0.9 ** s",
        "return x, f'{s:.3f}'",
        "u = s\nreturn x * u",
    ],
)
def test_uses_that_take_a_tensor(use: str) -> None:
    found = rewrite(f"s = x.sum().item()\n{use}")
    assert found.safety == "conditional"
    assert "s = x.sum().detach()\n" in new_code(found)


@pytest.mark.parametrize(
    "body",
    [
        "{read}\ns = s + 1\nreturn x * s",
        "{read}\ns: float = s + 1\nreturn x * s",
        "{read}\nx = x * s\ns = 'done'\nreturn x, s",
        "for _ in range(3):\n    {read}\n    s = s + 1\n    x = x / s\nreturn x",
        "s = 'none'\nprint(s)\nif flag:\n    {read}\n    s = max(s, 1.0)\n    x = x / s\nreturn x",
    ],
)
def test_a_name_that_is_assigned_again_is_followed_value_by_value(body: str) -> None:
    found = rewrite(body.format(read="s = x.sum().item()"))
    assert found.safety == "conditional"
    assert "s = x.sum().detach()\n" in new_code(found)


@pytest.mark.parametrize(
    "body",
    [
        "{read}\nfor i in range(3):\n    if flag:\n        break\n    s = str(i)\nreturn x + len(str(s))",
        "for i in range(3):\n    {read}\n    if i:\n        continue\n    s = str(i)\nreturn x, len(s)",
        "s = 'none'\nfor i in range(3):\n    x = x + len(str(s))\n    {read}\nreturn x",
        "s = 'none'\nif flag:\n    {read}\n    x = x * s\nreturn x, s",
        "{read}\nif flag:\n    s = 'none'\nreturn x, s",
        "{read}\ns += 1\nreturn x * s",
        "s = 'none'\ntry:\n    {read}\n    x = x + 1\n    s = 'done'\nexcept ValueError:\n    x = x + len(s)\nreturn x",
        "try:\n    {read}\n    s = s + 1\n    x = x * s\nexcept ValueError:\n    pass\nreturn x",
        "s = 'none'\ntry:\n    {read}\n    x = x * s\nfinally:\n    print(s)\nreturn x",
        "s = 'none'\nwhile len(str(s)) < 9:\n    {read}\n    x = x * s\nreturn x",
    ],
)
def test_a_name_whose_values_mix_is_not_followed(body: str) -> None:
    assert "more than once" in reason(body.format(read="s = x.sum().item()"))


@pytest.mark.parametrize(
    "use",
    [
        "return x, s",
        "return s",
        "d = {'s': s}\nreturn x, d",
    ],
)
def test_uses_that_change_something(use: str) -> None:
    assert rewrite(f"s = x.sum().item()\n{use}").safety == "unsafe"


@pytest.mark.parametrize(
    ("use", "new", "condition"),
    [
        ("return x * (s + 1)", "return x * (s + 1)", "`s + 1` is the same up to rounding"),
        ("return x * (1 / s)", "return x * (1 / s)", "`s` is not zero in `1 / s`"),
        ("u = s / 3\nreturn x + u", "u = s / 3\nreturn x + u", "`s / 3` is the same up to rounding"),
        ("x -= s * 0.1\nreturn x", "x -= s * 0.1", ""),
        ("return x / (2 * max(s, 1))", "return x / (2 * s.clamp(min=1))", ""),
        ("return x / (2 * max(0.1, s))", "return x / (2 * s.clamp(min=0.1))", "`s` is never NaN"),
        ("return x * (2 * min(1, s))", "return x * (2 * s.clamp(max=1))", ""),
        ("return x / (unknown(3).shape[0] * s)", "x / (unknown(3).shape[0] * s)", "is a number or a tensor"),
        ("return x * s ** 0.5", "return x * s ** 0.5", "`s` is not negative in `s ** 0.5`"),
        ("return x * s ** -1", "return x * s ** -1", "`s` is not zero in `s ** -1`"),
        ("return x * (-0.5) ** s", "return x * (-0.5) ** s", "`-0.5` is not negative in"),
        ("return s / x", "return s / x", "`s / x` is the same up to rounding"),
        ("return x * (s // 3)", "return x * (s // 3)", "`s // 3` is the same up to rounding"),
        ("return x.long() * (s + 1)", "return x.long() * (s + 1)", "the dtype of `x.long() * (s + 1)` stays the same"),
    ],
)
def test_arithmetic_of_numbers_is_done_in_the_precision_of_the_tensor(use: str, new: str, condition: str) -> None:
    found = rewrite(f"s = x.float().sum().item()\n{use}")
    assert found.safety == "conditional"
    assert any(condition in one for one in found.conditions)
    file = found.replacements[0].file
    text = replaced(file.text, plan_of(found)[file.path])
    assert new in textwrap.dedent("\n".join(text.splitlines()[5:]))


@pytest.mark.parametrize(
    ("use", "why"),
    [
        ("while s > 1:\n    x = x + 1\nreturn x", "decides a branch in Python"),
        ("while s:\n    x = x + 1\nreturn x", "decides a branch"),
        ("y = s or 1\nreturn x + y", "decides a branch"),
        ("if s > 'a':\n    return x\nreturn x + 1", "may not be a number"),
        ("return [x, -x][s]", "is an index"),
        ("return x[s, s]", "combined with other indices"),
        ("return x[:, :s]", "is an index or a slice bound"),
        ("return x + s ** 'a'", "may not be a number"),
        ("d = {'s': s}\nd.clear()\nreturn x, d", "as a number"),
        ("return x * sum(range(s))", "as a number"),
        ("return [x * s for s in (s,)]", "more than once"),
        ("assert s in (1, 2)\nreturn x", "decides a branch in Python"),
        ("f.last = s\nreturn x", "keeps the number"),
        ("g = lambda: x * s\nreturn g()", "nested function"),
        ("return x", "never used"),
        ("print(s)\nreturn x * s", "only printed"),
        ("print(f'{s}')\nreturn x * s", "only shown"),
        ("total = 1\ntotal *= s\nreturn x * total", "adds up numbers"),
        ("return x.foo * unknown(s)", "as a number"),
    ],
)
def test_uses_that_need_a_number(use: str, why: str) -> None:
    assert why in reason(f"s = x.sum().item()\n{use}")


@pytest.mark.parametrize(
    ("source", "content"),
    [
        ("x.sum()", ".detach()"),
        ("(x + 1)", ".detach()"),
        ("t", ".detach().clone()"),
        ("x[0, 0]", ".detach().clone()"),
        ("torch.amax(x)", ".detach()"),
    ],
)
def test_clones_what_may_share_memory_and_is_kept(source: str, content: str) -> None:
    assert f"s = {source}{content}\n" in new_code(rewrite(f"s = {source}.item()\nx += 1\nreturn x * s"))
    assert f"return x * {source}{content}\n" in new_code(rewrite(f"return x * {source}.item()"))


def test_what_is_detached_is_not_detached_again() -> None:
    assert "s = t.detach().std()\n" in new_code(rewrite("s = t.detach().std().item()\nreturn x * s"))

    assert "s = torch.quantile(t.detach(), 0.5)\n" in new_code(
        rewrite("s = torch.quantile(t.detach(), 0.5).item()\nreturn x * s")
    )
    assert "s = torch.dist(t.detach(), x).detach()\n" in new_code(
        rewrite("s = torch.dist(t.detach(), x).item()\nreturn x * s")
    )


@pytest.mark.parametrize(
    "change",
    [
        "t += 1\ny = x * s",
        "t.add_(1)\ny = x * s",
        "y = t.add_(1) * s",
        "u = s\nt += 1\ny = x * u",
        "y = x * 1\nif flag:\n    t += 1\ny = x * s",
    ],
)
def test_a_tensor_that_is_changed_is_copied(change: str) -> None:
    body = f"t = t.long()\ns = t.item()\n{change}\nreturn y"
    assert "s = t.clone()\n" in new_code(rewrite(body))


@pytest.mark.parametrize("use", ["x > t[0].item()", "x.gt(t[0].item())", "torch.eq(x, other=t[0].item())"])
def test_what_is_only_compared_has_no_gradient(use: str) -> None:
    new = new_code(rewrite(f"return {use}"))
    assert "detach" not in new
    assert "clone" not in new


COUNTED = """\
scale = 1.0
if flag:
    scale = t.norm().item()
    if not torch.compiler.is_compiling():
        print(f"{scale}", scale)
"""


def test_a_name_that_is_also_a_number_is_shown_as_one() -> None:
    new = new_code(rewrite(f"{COUNTED}return x * scale"))
    assert "scale = t.norm().detach()" in new
    assert 'print(f"{scale}", float(scale))' in new or 'print(f"{float(scale)}", float(scale))' in new


def test_a_number_that_eager_code_shows_is_read_there() -> None:
    body = "s = t.norm().item()\nif not torch.compiler.is_compiling():\n    print(f'{s}', s)\nreturn x * s"
    assert "print(f'{s}', s.item())" in new_code(rewrite(body))


def test_a_name_whose_other_number_would_be_shown_differently_is_not_followed() -> None:
    assert "assigned more than once" in reason(f"{COUNTED.replace('1.0', '1')}return x * scale")


@pytest.mark.parametrize("use", ["return x[: int(scale)]", "scale = max(scale, 2.0)\nreturn x * scale"])
def test_a_name_that_is_also_a_number_takes_no_other_change(use: str) -> None:
    assert "assigned more than once" in reason(f"{COUNTED}{use}") or "number" in reason(f"{COUNTED}{use}")


WINDOW = "n = t.shape[0]\ns = x.sum().long().item()\n{use}\nreturn x"


@pytest.mark.parametrize(
    ("use", "new"),
    [
        ("x[s : s + n] = t", "x[s + torch.arange(n, device=x.device)] = t.type_as(x)"),
        ("x[:, s : n + s] = t.T", "x[:, s + torch.arange(n, device=x.device)] = t.T.type_as(x)"),
        ("end = s + n\nx[s:end] = t", "x[s + torch.arange(n, device=x.device)] = t.type_as(x)"),
        ("x[s : s + t.size(0)] = t", "x[s + torch.arange(t.size(0), device=x.device)] = t.type_as(x)"),
    ],
)
def test_a_slice_that_stores_a_tensor_of_its_size_becomes_an_index(use: str, new: str) -> None:
    found = rewrite(WINDOW.format(use=use))
    assert new + "\n" in new_code(found)
    assert any(clause.endswith("stays within the dimension") for clause in found.conditions)


@pytest.mark.parametrize(
    "use",
    [
        "x = x[s : s + n] * t",  # it may have fewer elements
        "x[s : s + n] += t",
        "x[s : s + n] = t.mean(0)",
        "x[s : s + 2] = t",
        "t = t[1:]\nx[s : s + n] = t",
        "x[s : s * 2] = t",
        "x[0, s : s + n] = t",
        "x[s : s + n : 2] = t",
        "x.relu()[s : s + n] = t",
    ],
)
def test_a_slice_that_may_have_another_size_is_left(use: str) -> None:
    assert "ind" in reason(WINDOW.format(use=use))


@pytest.mark.parametrize(
    "use",
    ["x[0, :s] = 0", "x[..., :s, :] = 0", "x[:s:2] = 0", "x[: t[s : s + 1].item()] = 0", "x[:s] = t", "x[:s] = int(n)"],
)
def test_a_slice_of_other_dimensions_or_values_is_left(use: str) -> None:
    code = HEAD + textwrap.indent(WINDOW.format(use=use), "    ") + "\n"
    assert "position" not in StaticView(Case(ItemOfTensor(), Example("x", code)), [ItemOfTensor()]).fixed


@pytest.mark.parametrize(
    ("roll", "new"),
    [
        ("torch.roll(x, s, -1)", "torch.index_select(x, -1, (torch.arange({n}, device=x.device) - s) % {n})"),
        ("x.roll(shifts=-s, dims=-1)", "torch.index_select(x, -1, (torch.arange({n}, device=x.device) + s) % {n})"),
        ("torch.roll(x, s)", None),  # it rolls the flattened tensor
        ("torch.roll(x, (s, 1), (0, 1))", None),
        ("torch.roll(x + 1, s, -1)", None),
    ],
)
def test_a_roll_by_a_number_becomes_an_index(roll: str, new: str | None) -> None:
    body = f"s = t.long().sum().item()\nreturn {roll}"
    if new is None:
        assert "number" in reason(body)
    else:
        assert f"return {new.format(n='x.shape[-1]')}\n" in new_code(rewrite(body))


@pytest.mark.parametrize(
    ("read", "new"),
    [
        ("np.ceil(np.log(n)).astype('int').item()", "math.ceil(math.log(n))"),
        ("np.floor(n / 3).astype(np.int64).item()", "math.floor(n / 3)"),
        ("np.ceil(np.sqrt(n + 2.5)).astype('int').item()", "math.ceil(math.sqrt(n + 2.5))"),
        ("np.log2(n).astype(int).item()", "int(math.log2(n))"),
    ],
)
def test_numpy_is_not_needed_for_numbers_that_dynamo_knows(read: str, new: str) -> None:
    found = rewrite(f"import numpy as np\nn = x.shape[0]\ns = {read}\nreturn x[:s]")
    assert f"s = {new}\n" in new_code(found)
    assert "import math\n" in new_code(found)


@pytest.mark.parametrize(
    "read",
    [
        "np.log(t.sum().detach().numpy()).astype(int).item()",
        "np.maximum(n, 2).item()",
        "np.float32(n).item()",
    ],
)
def test_what_math_does_not_compute_alike_stays_with_numpy(read: str) -> None:
    found = answer(f"import numpy as np\nn = x.shape[0]\ns = {read}\nreturn x[:s]")
    assert "math." not in (found.reason if isinstance(found, Declined) else new_code(found))


FUNCTIONS = """\
import torch


def scaled(x: torch.Tensor, factor: float, bias: float = 0.0):
    return x * factor + bias


def shifted(x: torch.Tensor, offset: float):
    return x + offset


def halved(x: torch.Tensor, factor: float):
    factor = factor / 2
    return scaled(x, factor)


def chosen(x: torch.Tensor, factor: float):
    return x if factor > 0 else -x


def repeated(x: torch.Tensor, factor: float):
    return x.repeat(int(factor))


@torch.compile
def f(x: torch.Tensor, t: torch.Tensor):
    s = t.sum().item()
    return {use}
"""


@pytest.mark.parametrize(
    ("use", "accepts"),
    [
        ("scaled(x, s)", True),
        ("scaled(x, 1.0, bias=s)", True),
        ("(scaled if x.dim() else shifted)(x, s)", True),
        ("(scaled if x.dim() else chosen)(x, s)", False),
        ("halved(x, s)", False),  # the parameter gets another value
        ("chosen(x, s)", False),
        ("repeated(x, s)", False),
        ("scaled(*(x, s))", False),
    ],
)
def test_a_number_is_followed_into_functions_of_the_project(use: str, accepts: bool) -> None:
    code = FUNCTIONS.format(use=use)
    found = StaticView(Case(ItemOfTensor(), Example("x", code)), [ItemOfTensor()]).own[0].answer
    assert isinstance(found, Rewrite if accepts else Declined), found
    if isinstance(found, Rewrite):
        assert "s = t.sum().detach()\n" in new_code(found)


def test_conversions_keep_their_meaning() -> None:
    found = rewrite("return x * int(x.float().sum())", NumberOfTensor())
    assert "return x * x.float().sum().long()\n" in new_code(found)
    found = rewrite("return x / float((x > 0).sum())", NumberOfTensor())
    assert "return x / (x > 0).sum()\n" in new_code(found)


@pytest.mark.parametrize(
    ("read", "use", "new"),
    [
        ("x.float().sum()", "float(s)", "s"),
        ("x.long().sum()", "float(s)", "s.float()"),
        ("x.float().sum()", "numpy.exp(-s)", "torch.exp(-s)"),
        ("x.float().sum()", "numpy.floor(s)", "torch.floor(s)"),
    ],
)
def test_functions_of_numbers_become_functions_of_tensors(read: str, use: str, new: str) -> None:
    found = rewrite(f"import numpy\ns = {read}.item()\nreturn x * {use}")
    assert f"return x * {new}\n" in new_code(found)


def test_a_number_of_unknown_dtype_is_not_converted() -> None:
    assert "as a number" in reason("s = x.sum().item()\nreturn x * float(s)")


def test_a_comment_inside_of_a_call_goes_above() -> None:
    code = new_code(rewrite("return x * x.sum().item(\n    # why\n)"))
    assert code.endswith("    # why\n    return x * x.sum().detach()\n")


def test_numbers_that_dynamo_is_told_to_capture_are_left_alone() -> None:
    code = f"import torch\ntorch._dynamo.config.capture_scalar_outputs = True\n{HEAD}    return x * x.sum().item()\n"
    rule = ItemOfTensor()
    assert StaticView(Case(rule, Example("x", code)), [rule]).own == []


@pytest.mark.parametrize(
    ("store", "converts"), [("x[i] = x.sum()", True), ("x[i] = 2.0", False), ("x[i] += x.sum()", False)]
)
def test_a_tensor_stored_by_an_index_is_not_converted(store: str, converts: bool) -> None:
    conditions = rewrite(f"i = t.argmax().item()\n{store}\nreturn x").conditions
    assert ("`x.sum()` has the dtype of `x`" in conditions) is converts


@pytest.mark.parametrize(
    ("test", "short"),
    [("s > 1", True), ("s > 0.1", False), ("not s", True), ("0.5 >= s", True), ("1e30 >= s", False)],
)
def test_numbers_that_decide_are_compared_in_the_precision_of_the_tensor(test: str, short: bool) -> None:
    found = rewrite(f"s = x.float().sum().item()\nif {test}:\n    x = x * 2\nreturn x")
    assert (found.safety, "DYN101" in found.leaves) == ("safe" if short else "conditional", True)


def test_a_double_that_meets_whole_numbers_is_declined() -> None:
    body = "s = x.mean({}).item()\nreturn torch.arange(4) * s"
    assert rewrite(body.format("")).safety == "conditional"
    assert "float64 tensor" in reason(body.format("dtype=torch.float64"))


@pytest.mark.parametrize(
    ("source", "test", "widened"),
    [
        ("(x > 1).sum()", "s > 200", False),
        ("x.to(torch.uint8).max()", "s > -1", True),
        ("x.to(torch.uint8).max()", "s == 2", False),
        ("x.to(torch.int8).max()", "s > flag.bit_length()", False),  # on the condition that it is the same
        ("x.to(torch.int8).max()", "s > x.shape[0]", True),
    ],
)
def test_whole_numbers_that_decide_are_compared_in_64_bits(source: str, test: str, widened: bool) -> None:
    found = rewrite(f"s = {source}.item()\nif {test}:\n    x = x * 2\nreturn x")
    assert (".long()" in new_code(found)) is widened


@pytest.mark.parametrize(
    ("rule", "read", "tensor"),
    [
        (ItemOfTensor(), "a.mean().item()", "torch.as_tensor(a.mean())"),
        (ItemOfTensor(), "a[0].item()", "torch.as_tensor(a[0]).clone()"),
        (NumberOfTensor(), "float(a.max())", "torch.as_tensor(a.max())"),
        (NumberOfTensor(), "float(a.sum(0))", "torch.as_tensor(a.sum(0))"),
        (MathOnTensor(), "math.exp(a.max())", "torch.exp(torch.as_tensor(a.max()))"),
    ],
)
def test_a_number_of_an_array_becomes_a_tensor(rule: Rule, read: str, tensor: str) -> None:
    found = rewrite(f"import math\na = x.detach().numpy()\ns = {read}\nreturn x * s", rule)
    assert f"s = {tensor}\n" in new_code(found)
    assert not any("requires a gradient" in clause for clause in found.conditions)


def test_what_is_asked_of_an_array_is_asked_of_a_tensor() -> None:
    found = rewrite("import math\na = x.detach().numpy()\nreturn x * 2 if math.isnan(a.max()) else x", MathOnTensor())
    assert "if torch.isnan(torch.as_tensor(a.max())) else" in new_code(found)
    assert found.safety == "safe"


def test_a_number_that_an_expression_names() -> None:
    assert "(n := t.sum().detach())" in new_code(rewrite("y = x * (n := t.sum().item())\nreturn y + n"))


def test_a_number_that_a_test_may_replace() -> None:
    found = rewrite("s = t.sum().item()\nif s < 1.0:\n    s = 1.0\nreturn x / s")
    assert "s = t.sum().detach()" in new_code(found)
    assert "DYN101" in found.leaves


def test_a_number_that_decides_only_sometimes_is_left() -> None:
    said = reason("s = t.sum().item() if flag else 2.0\nif s < 1.0:\n    x = x + 1\nreturn x / s")
    assert "could be a tensor or a number" in said


METHODS = """
import torch
from torch import nn

class M(nn.Module):
    def factor(self, t):
        return t.sum().item() / 2

    def forward(self, x: torch.Tensor):
        return {use}
"""


@pytest.mark.parametrize(
    ("use", "why"),
    [
        ("x * self.factor(x)", None),
        ("x[: self.factor(x)]", "slice bound"),
        ("x * self.factor(x), self.factor", "change both"),
    ],
)
def test_a_number_that_a_method_returns_is_followed_to_its_calls(use: str, why: str | None) -> None:
    rule = ItemOfTensor()
    (found,) = StaticView(Case(rule, Example("x", METHODS.format(use=use))), [rule]).own
    if why is None:
        assert isinstance(found.answer, Rewrite)
    else:
        assert isinstance(found.answer, Declined)
        assert why in found.answer.reason


def test_a_function_that_is_declared_to_return_a_number_is_declared_to_return_a_tensor() -> None:
    rule, code = ItemOfTensor(), METHODS.format(use="x * self.factor(x)").replace("(self, t)", "(self, t) -> float")
    (found,) = StaticView(Case(rule, Example("x", code)), [rule]).own
    assert isinstance(found.answer, Rewrite)
    assert any("Tensor" in one.content for one in found.answer.replacements), found.answer.replacements


def test_a_number_that_a_lambda_returns() -> None:
    text = "import torch\n\ntorch.compile(lambda x: x.item())(torch.ones(1))\n"
    (finding,) = check_source("a.py", text, isolated=True)  # raises if a rule fails
    assert finding.code == "DYN201"


@pytest.mark.parametrize(
    ("call", "instead"),
    [
        ("math.fabs(t)", "`torch.abs`"),
        ("math.isnan(t)", "`torch.isnan`"),
        ("math.gamma(t)", "torch operations"),
    ],
)
def test_the_help_for_a_math_function_names_a_torch_function_only_if_there_is_one(call: str, instead: str) -> None:
    findings = check_source("m.py", f"import math\n{HEAD}    return x * {call}\n")
    assert [one.help for one in findings if one.code == "DYN208"] == [f"Use {instead} on the tensor."]


ANNEALED = """
import torch
from torch import nn


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.step = 0

    def forward(self, x):
        self.step += 1
        weight = self.step / 10
        loss = torch.mean(self.fc(x), dim=0)
        return weight * loss
"""


def test_a_counter_is_converted_where_a_run_shows_that_it_decides_the_dtype() -> None:
    rule = PythonCounter()
    (found,) = StaticView(Case(rule, Example("x", ANNEALED)), [rule]).own
    assert isinstance(found.answer, Rewrite)
    assert "weight * loss" in new_code(found.answer)
    assert found.answer.otherwise is not None
    assert "weight.to(loss.dtype) * loss" in new_code(found.answer.otherwise)


@pytest.mark.parametrize(
    ("loop", "use"),
    [
        ("for s in torch.arange(3):", "x = x + betas[s] * (s / 2)"),
        ("for i, s in enumerate(torch.arange(2, -1, -1, dtype=torch.long)):", "x = x * i + betas[s]"),
        ("steps = torch.arange(x.shape[0], device=x.device)\nfor s in steps:", "x = x + betas[s : s + 1] * len(steps)"),
        ("for s in torch.arange(3):", "k = s + 1\n    x = x + betas[k] + torch.full((2,), k)"),
        ("for s in torch.arange(3):", "x = x + betas[s.item()]"),
    ],
)
def test_a_loop_over_an_arange_becomes_a_loop_over_a_range(loop: str, use: str) -> None:
    found = rewrite(f"betas = x.exp()\n{loop}\n    if s > 1:\n        x = x + 1\n    {use}\nreturn x", BranchOnTensor())
    assert "range(" in new_code(found).replace("arange(", "")
    assert "arange(" not in new_code(found)
    assert ".item()" not in new_code(found)


@pytest.mark.parametrize(
    ("loop", "use"),
    [
        ("for s in torch.arange(3):", "x = x + s.unsqueeze(0)"),
        ("for s in torch.arange(3):", "x = x + layer(s)"),
        ("for s in torch.arange(3):", "kept = [s, s]"),
        ("for s in torch.arange(0.0, 1.0, 0.5):", "x = x + 1"),
        ("for s in torch.arange(3, dtype=torch.float):", "x = x + 1"),
        ("for s in torch.arange(int(x.sum())):", "x = x + 1"),
        ("steps = torch.arange(3)\nx = x + steps\nfor s in steps:", "x = x + 1"),
        ("for s in torch.arange(3):", "s = s + 1"),
        ("for s in torch.arange(3):", "x = x + 1 / s"),
        ("for s in torch.arange(3):", "f = lambda y: y * s.float()\n    x = f(x)"),
    ],
)
def test_a_loop_stays_if_something_else_needs_a_tensor(loop: str, use: str) -> None:
    body = f"{loop}\n    if s > 1:\n        x = x + 1\n    {use}\nreturn x"
    rule = BranchOnTensor()
    code = HEAD + textwrap.indent(body, "    ") + "\n"
    own = StaticView(Case(rule, Example("x", code)), [rule]).own
    assert own
    for found in own:
        assert not isinstance(found.answer, Rewrite) or "arange(" in new_code(found.answer)


COUNTING = """\
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor):
        self.calls += 1
        if not torch.compiler.is_compiling() and TEST:
            print(x)
        return x
"""


@pytest.mark.parametrize(
    ("test", "new"),
    [
        ("self.calls % 10 == 0", "self.calls % 10 == 0"),
        ("self.calls in (1, 10)", "self.calls.item() in (1, 10)"),
        ("str(self.calls).endswith('0')", "str(self.calls.item()).endswith('0')"),
    ],
)
def test_an_eager_test_gets_a_number_unless_it_compares(test: str, new: str) -> None:
    rule = PythonCounter()
    (found,) = StaticView(Case(rule, Example("x", COUNTING.replace("TEST", test))), [rule]).own
    assert isinstance(found.answer, Rewrite)
    assert f"is_compiling() and {new}:" in new_code(found.answer)


def test_a_method_that_a_mixin_also_calls() -> None:
    code = """
    import torch

    class Base(torch.nn.Module):
        def scale(self, x):
            return x.mean().item()

        def run(self, x):
            return x * self.scale(x)

    class Mixin:
        def rounds(self, x):
            return range(int(self.scale(x)))

    class Both(Mixin, Base):
        def forward(self, x: torch.Tensor):
            return self.run(x) + len(self.rounds(x))
    """
    found = check_source("m.py", textwrap.dedent(code))
    reasons = [one.fix.declined for one in found if one.code == "DYN201" and one.fix is not None]
    assert reasons
    assert all(reasons)


@pytest.mark.parametrize(
    "use",
    [
        "seen = []\nseen.append(s)\nreturn x",
        "seen: list[float] = []\nfor _ in range(2):\n    seen.append(1.0 - s)\nreturn x",
    ],
)
def test_nothing_reads_the_list_that_gets_a_number(use: str) -> None:
    assert "append" in new_code(rewrite(f"s = x.sum().item()\n{use}"))


@pytest.mark.parametrize(
    "use",
    [
        "seen = []\nseen.append(s)\nreturn x, seen",
        "seen = []\nseen.append(s)\nreturn x * len(seen) * sorted(seen)[0]",
        "seen = []\nseen.append(s if flag else 0.0)\nreturn x * torch.tensor(seen)",
        "seen = {'s': s}\nseen['s'] += 1\nreturn x * seen['s']",
        "seen = {'s': s}\nif flag:\n    seen['s'] = 1.0\nreturn x * seen['s']",
        "seen = torch.tensor(s)\nseen += 1\nreturn x * seen",
        "global seen\nseen = []\nseen.append(s)\nreturn x * sum(seen)",
        "seen = []\nseen.append(s)\nseen.append(flag)\nreturn x * max(seen)",
        "seen = {}\nseen['s'] = s\nreturn x * seen[flag]",
        "seen = [s]\nlater = lambda: seen\nreturn x * seen[0], later",
        "seen = []\nlater = lambda: seen\nseen.append(s)\nreturn x, later",
        "seen = kept = []\nseen.append(s)\nreturn x, kept",
        "global seen\nseen = []\nseen.append(s)\nreturn x",
        "seen = kept()\nseen.append(s)\nreturn x",
        "seen = []\nadd = seen.append\nadd(s)\nreturn x, add",
        "seen = []\nif flag:\n    seen = kept\nseen.append(s)\nreturn x",
        "flag.append(s)\nreturn x",
    ],
)
def test_a_list_that_something_may_read(use: str) -> None:
    assert isinstance(answer(f"s = x.sum().item()\n{use}"), Declined)


TWO_LOOPS = """
first, second = [], []
for row in range(2):
    best = x[row].argmax().item()
    first.append(x[row, best])
for row in range(2):
    best = 3
    second.append(x[row, best])
return first, second
"""


def test_a_name_that_each_loop_assigns_anew() -> None:
    text = new_code(rewrite(TWO_LOOPS))
    assert "best = x[row].argmax()\n" in text
    assert "first.append(x[row, best.reshape(1)].squeeze(0))" in text
    assert "second.append(x[row, best])" in text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    best = 3\n", "    if flag:\n        best = 3\n"),
        ("    best = 3\n", "    second.append(x[row, best])\n    best = 3\n"),
        ("    best = x", "    first.append(x[row, best] if row else x[0, 0])\n    best = x"),
        ("return first", "return best, first"),
        ("    best = 3\n", "    for best in range(3):\n        pass\n"),
        ("    best = 3\n", "    best += 1\n"),
        ("    second.append(x[row, best])\n", "    second.append(lambda: x[row, best])\n"),
    ],
)
def test_a_value_that_may_get_into_the_other_loop(old: str, new: str) -> None:
    assert old in TWO_LOOPS
    assert isinstance(answer(TWO_LOOPS.replace(old, new)), Declined)


@pytest.mark.parametrize(
    ("call", "kept"),
    [
        ("x.clamp(a.min().item(), a.max().item())", "x.clamp(a.min().detach(), a.max().detach())"),
        ("x.clamp(0, s)", "x.clamp(min=0).clamp(max=s)"),
        ("torch.clamp(x, s, 5.0)", "torch.clamp(x, min=s).clamp(max=5.0)"),
        ("torch.clip(x, max=s, min=-1)", "torch.clip(x, min=-1).clip(max=s)"),
        ("x.clamp(max=s)", "x.clamp(max=s)"),
        ("x.clamp(None, s)", "x.clamp(None, s)"),
        ("x.clamp(s, t)", "x.clamp(s, t)"),
        ("x.clamp_min(s)", "x.clamp_min(s)"),
    ],
)
def test_bounds_of_a_clamp(call: str, kept: str) -> None:
    body = f"a = x * 2\ns = x.sum().item()\nreturn {call}"
    code = HEAD + textwrap.indent(body, "    ") + "\n"
    rule = ItemOfTensor()
    assert f"return {kept}\n" in StaticView(Case(rule, Example("x", code)), [rule]).fixed


@pytest.mark.parametrize(
    "call", ["flag.clamp(0, s)", "x.clamp(*[0, s])", "x.clamp(0, s, out=x)", "x.clamp(flag.low, s)"]
)
def test_other_calls_of_clamp(call: str) -> None:
    assert isinstance(answer(f"s = x.sum().item()\nreturn {call}"), Declined)


@pytest.mark.parametrize("word", ["and", "or"])
def test_all_reads_in_a_test_become_tensors_together(word: str) -> None:
    text = new_code(rewrite_of_first(f"if x.min().item() < 0 {word} not t.max().item() >= 3:\n    x = x * 2\nreturn x"))
    assert f"if x.min() < 0 {word} not t.max() >= 3:" in text


def test_reads_outside_a_test_are_left_alone() -> None:
    body = "y = x.min().item() * t\nif x.max().item() > 3:\n    y = y * t.sum().item()\nreturn y"
    text = new_code(rewrite_of_first(body))
    assert text.count(".item()") == 2


def rewrite_of_first(body: str) -> Rewrite:
    rule = ItemOfTensor()
    code = HEAD + textwrap.indent(body, "    ") + "\n"
    found = StaticView(Case(rule, Example("x", code)), [rule]).own[0].answer
    assert isinstance(found, Rewrite), found
    return found


@pytest.mark.parametrize(
    ("read", "product"),
    [
        ("torch.tensor(x.shape).prod().item()", "math.prod(x.shape)"),
        ("torch.prod(torch.Tensor((2, 3))).item()", "float(math.prod((2, 3)))"),
        ("torch.tensor([2, x.size(0)]).prod().item()", "math.prod([2, x.size(0)])"),
    ],
)
def test_product_of_python_numbers(read: str, product: str) -> None:
    found = rewrite_of_first(f"return x * {read}")
    assert f"return x * {product}" in new_code(found)
    assert found.imports == ("import math",)


@pytest.mark.parametrize(
    "read",
    [
        "torch.tensor(t).prod().item()",
        "torch.tensor([2, t.sum()]).prod().item()",
        "torch.tensor([2.5, 3]).prod().item()",
        "torch.tensor(x.shape).prod(0).item()",
        "torch.tensor(x.shape, dtype=torch.int8).prod().item()",
        "torch.tensor(x.shape).sum().item()",
        "torch.LongTensor(3).prod().item()",
        "t.prod().item()",
    ],
)
def test_product_of_something_else(read: str) -> None:
    code = HEAD + f"    return x * {read}\n"
    rule = ItemOfTensor()
    assert "math.prod" not in StaticView(Case(rule, Example("x", code)), [rule]).fixed


@pytest.mark.parametrize(
    ("read", "asked"),
    [
        ("bool(np.isnan(1.5))", "math.isnan(1.5)"),
        ("int(np.isfinite(flag * 1.0))", "int(math.isfinite(flag * 1.0))"),
        ("bool(np.sqrt(2.0))", None),
    ],
)
def test_what_numpy_answers_about_a_number(read: str, asked: str | None) -> None:
    code = f"import numpy as np\n{HEAD}    return x * {read}\n"
    rule = NumberOfTensor()
    text = StaticView(Case(rule, Example("x", code)), [rule]).fixed
    assert "math." not in text if asked is None else f"return x * {asked}\n" in text


KEPT = """
import torch


class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))
        self.stats = {}

    def forward(self, x: torch.Tensor):
        loss = x.square().mean()
        self.stats["loss"] = SOURCE.item()
        return RESULT
"""


@pytest.mark.parametrize(
    ("source", "result", "copied"),
    [
        ("loss", "loss * 2", False),
        ("loss", "loss", True),
        ("loss", '{"loss": loss}', True),
        ("loss", "[x, loss]", True),
        ("loss", "loss if self.training else x", True),
        ("loss", "loss.squeeze()", True),
        ("loss", "torch.relu(loss)", True),
        ("self.scale", "loss * self.scale", True),
    ],
)
def test_a_recorded_tensor_is_copied_unless_only_this_function_has_it(source: str, result: str, copied: bool) -> None:
    code = KEPT.replace("SOURCE", source).replace("RESULT", result)
    text = StaticView(Case(ItemOfTensor(), Example("x", code)), [ItemOfTensor()]).fixed
    assert f'self.stats["loss"] = {source}.detach(){".clone()" if copied else ""}\n' in text


def test_a_layer_of_what_is_detached_has_gradients() -> None:
    code = KEPT.replace("SOURCE.item()", "0").replace("RESULT", "x * math.sqrt(self.fc(x.detach()).sum() / 2)")
    code = code.replace("import torch\n", "import math\n\nimport torch\n", 1)
    code = code.replace("self.stats = {}", "self.stats = {}\n        self.fc = torch.nn.Linear(8, 8)")
    text = StaticView(Case(MathOnTensor(), Example("x", code)), [MathOnTensor()]).fixed
    assert "torch.sqrt((self.fc(x.detach()).sum() / 2).detach())" in text


@pytest.mark.parametrize(
    ("counts", "codes"),
    [("batch.poses.shape[1:]", ["DYN202"]), ("batch.counts.numpy()", ["DYN202", "DYN804"])],
)
def test_number_that_follows_from_a_size_does_not_change_by_itself(counts: str, codes: list[str]) -> None:
    code = f"""
import numpy as np
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, batch):
        poses = torch.sin(batch.poses)
        counts = {counts}
        return poses * int(np.prod(counts))
"""
    assert [one.code for one in check_source("m.py", code)] == codes


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # float32 beside a sum that may be bfloat16
        (
            "x = torch.relu(x.float())\nn = (x > 0).sum().item()\nreturn x.sum() / (n + 1e-6)",
            "(x.sum() / (n + 1e-6)).to(x.dtype)",
        ),
        (
            "x = torch.relu(x.float() @ t.float())\nn = (x > 0).sum().item()\nreturn x.mean() / (n + 0.5)",
            ".to(x.dtype)",
        ),
        # integers, whose dtype the quotient does not have; a tensor with dimensions, whose dtype stays
        ("t = t.long()\nn = (x > 0).sum().item()\nreturn t.sum() / (n + 1e-6)", "t.sum() / (n + 1e-6)"),
        ("n = (x > 0).sum().item()\nreturn x.float() / (n + 1e-6)", "x.float() / (n + 1e-6)"),
    ],
)
def test_a_count_that_divides_keeps_the_dtype(body: str, expected: str) -> None:
    text = new_code(rewrite(body))
    assert ".item()" not in text
    assert expected in text


@pytest.mark.parametrize(
    ("index", "flagged"), [("x.argmax()", True), ("x[0].sum().long()", True), ("x.argmax(-1)", False), ("n", False)]
)
def test_argument_of_unknown_kind_is_indexed_with_a_number_in_a_tensor(index: str, flagged: bool) -> None:
    code = f"import torch\n\n@torch.compile\ndef f(x: torch.Tensor, parts, n: int):\n    return parts[{index}]\n"
    code = code.replace("x[0]", "torch.stack([x, x])")
    assert ("DYN205" in [one.code for one in check_source("m.py", code)]) is flagged
