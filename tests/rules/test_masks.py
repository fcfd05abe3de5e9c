"""Look-alikes of selections through masks that are rewritten."""

from __future__ import annotations

import textwrap

import pytest

import dynalint
from dynalint.rulebook.pages import Example
from dynalint.rules import Rewrite, Rule
from dynalint.testing.cases import Case
from dynalint.testing.static import StaticView
from dynalint_rules.control_flow.branch_on_tensor import BranchOnTensor
from dynalint_rules.shapes.counting_call import CountingCall
from dynalint_rules.shapes.mask_read import MaskRead
from dynalint_rules.shapes.masked_store import MaskedStore

HEAD = "import torch\nimport torch.nn.functional as F\n\n\n@torch.compile\ndef f(x: torch.Tensor, v: torch.Tensor, n: int):\n"


def fixed(body: str, rule: Rule | None = None, head: str = HEAD, indent: str = "    ") -> str:
    rule = rule or MaskRead()
    code = head + textwrap.indent(textwrap.dedent(body).strip("\n"), indent) + "\n"
    return StaticView(Case(rule, Example("x", code)), [rule]).fixed


@pytest.mark.parametrize(
    "body",
    [
        "eye = torch.eye(n, dtype=torch.bool)\neye[0, 1] = True\nreturn x[~eye]",
        "eye = torch.eye(n, dtype=torch.bool)\neye.fill_(True)\nreturn x[eye]",
        "eye = torch.eye(n, m=n + 1, dtype=torch.bool)\nreturn x[~eye]",
        "eye = torch.eye(n, n + 1, dtype=torch.bool)\nreturn x[~eye]",
        "eye = torch.eye(n, dtype=torch.bool)\ny = x[eye]\ny[0] = 1\nreturn y, x",
        "eye = torch.eye(n, dtype=torch.bool)\ny = x[:, None, None].sum(0)\nreturn x.view(n, n, 1, 2)[~eye]",
    ],
)
def test_a_mask_that_is_not_the_diagonal_or_whose_elements_change(body: str) -> None:
    assert "flatten()[1:]" not in fixed(body)
    assert ".diagonal()" not in fixed(body)


@pytest.mark.parametrize(
    "body",
    [
        "i = x.argmax(1)\nmask = F.one_hot(i, 8).bool()\ni.add_(1)\nreturn x[mask] * i",
        "i = x.argmax(1)\nmask = F.one_hot(i, 8).bool()\nmask[0] = True\nreturn x[mask] * i",
        "i = x.argmax(1)\nmask = F.one_hot(i, 8).bool()\ni = i + 1\nreturn x[mask] * i",
        "return x[F.one_hot(x.argmax(1), 8) > -1]",
        "return x[F.one_hot(x.argmax(1), 8) == 0]",
    ],
)
def test_a_mask_that_no_longer_takes_the_index_s_elements(body: str) -> None:
    assert "take_along_dim" not in fixed(body)


def test_a_new_copy_in_an_attribute_is_not_written_into_the_old_tensor() -> None:
    head = "import torch\n\n\nclass M(torch.nn.Module):\n    def forward(self, x: torch.Tensor):\n"
    body = "m = x > 0\nself.best = x.clone()\nself.best[m] = x[m] * 2\nreturn self.best"
    text = fixed(body, MaskedStore(), head, "        ")
    assert "self.best = x.clone()\n        self.best[...] = torch.where(m, x * 2, self.best)" in text


def test_a_tensor_that_the_new_code_mentions_stays() -> None:
    text = fixed("m = x > 0\ny = torch.zeros_like(x)\ny[m] = x[m] + v\nreturn y", MaskedStore())
    assert "zeros_like(y)" not in text or "y = torch.zeros_like(x)" in text


def test_a_name_does_not_hide_that_other_callers_pass_positions() -> None:
    code = """
    import torch

    def take(x, mask):
        return x[mask].exp()

    @torch.compile
    def f(x: torch.Tensor):
        return take(x, torch.tensor([0, 1]))
    """
    assert not dynalint.check_source("m.py", textwrap.dedent(code))


LOSS = """import torch
import torch.nn.functional as F


def iou(a, b, reduction="none"):
    loss = (a[:, 0] - b[:, 0]).abs()
    return loss.sum() if reduction == "sum" else loss


def scaled(a, b, reduction="none"):
    a.mul_(2)
    return (a - b).sum() if reduction == "sum" else a - b


@torch.compile
def f(x: torch.Tensor, v: torch.Tensor, n: torch.Tensor):
"""


@pytest.mark.parametrize(
    "body",
    [
        "m = n > 0\nreturn scaled(x[m], v[m], reduction='sum')",  # changes what it gets
        "m = n > 0\nreturn iou(x[m], v[m])",  # the losses of the rows are returned
        "m = n > 0\nreturn iou(x[m], v, reduction='sum')",
        "m = n > 0\ny = x[m].view(-1, 4)\nreturn y.sum() / len(y)",  # counts other rows
        "m = n > 0\nreturn x[m].view(2, -1).mean()",
        "m = n > 0\na, b = x[m], v\nreturn a.sum() + a.max()",
        "m = n > 0\nreturn F.binary_cross_entropy(x[m], v[m], weight=x[m])",
    ],
)
def test_selected_elements_that_are_not_only_reduced(body: str) -> None:
    assert "torch.where" not in fixed(body, head=LOSS)


def test_a_name_of_a_tuple_that_keeps_its_value() -> None:
    text = fixed("m = x > 0\na, b = x[m], v[m]\nx = v\nreturn a.sum() + b.mean() + x.sum()", head=LOSS)
    assert "a, b = x, v" in text
    assert "torch.where(m, a, 0).sum()" in text


@pytest.mark.parametrize(
    "body",
    [
        "return [torch.bincount(row[row > 0], minlength=4) for row in n]",
        "m = n > 0\nreturn torch.bincount(n[m], minlength=4) if x.shape[0] > 2 else n",
        "m = n > 0\nreturn x.shape[0] > 2 and torch.bincount(n[m], minlength=4)",
    ],
)
def test_nothing_is_computed_before_an_expression_that_may_not_run(body: str) -> None:
    assert "scatter_add" not in fixed(body, CountingCall(), LOSS)


def test_what_masked_select_counts_may_be_more_than_the_mask() -> None:
    text = fixed("m = n > 0\nreturn x.masked_select(m).mean()", head=LOSS)
    assert "/ m.expand_as(x).sum()" in text
    assert "/ m.sum()" in fixed("m = x > 0\nreturn x.masked_select(m).mean()", head=LOSS)


def test_each_mean_counts_in_the_shape_of_its_own_tensor() -> None:
    body = "m = n > 0\na = x.masked_select(m)\nb = v.masked_select(m)\nreturn a.mean() + b.mean() / a.numel()"
    text = fixed(body, head=LOSS)
    assert "torch.where(m, x, 0).sum() / m.expand_as(x).sum()" in text
    assert "torch.where(m, v, 0).sum() / m.expand_as(v).sum() / m.expand_as(x).sum()" in text


def test_a_loss_has_a_longer_form_for_targets_that_are_not_numbers_elsewhere() -> None:
    rule = MaskRead()
    code = LOSS + "    m = n > 0\n    return F.mse_loss(x[m], v[m])\n"
    (found, *_) = StaticView(Case(rule, Example("x", code)), [rule]).own
    assert isinstance(found.answer, Rewrite)
    assert found.answer.otherwise is not None
    new = "".join(one.content for one in found.answer.otherwise.replacements)
    assert "torch.where(m, x, 1)" in new
    assert "torch.where(m, v, 1)" in new


@pytest.mark.parametrize(
    ("before", "after", "short"),
    [
        ("x = x * v\n", "", True),  # the only other value comes first
        ("", "x = v\n", False),
        ("for _ in range(2):\n    x = x * v\n", "", True),
    ],
)
def test_a_tensor_that_gets_no_other_value_later_needs_no_second_name(before: str, after: str, short: bool) -> None:
    body = f"{before}some = x[x > 0]\n{after}if some.numel() == 0:\n    return v.sum() * 0.0\nreturn some.mean()"
    text = fixed(body, head=LOSS)
    assert ("return torch.where(x > 0, x, 0).sum() / (x > 0).sum()\n" in text) is short


MADE = """\
import torch
from torch import nn


def make():
    return nn.MSELoss(reduction="sum")


@torch.compile
def f(x: torch.Tensor, v: torch.Tensor, n: int):
"""


@pytest.mark.parametrize("layer", ["make()", "nn.MSELoss(*n)"])
def test_a_loss_whose_options_are_not_in_sight(layer: str) -> None:
    body = f"m = v > 0\nloss = {layer}\nreturn loss(x[m], v[m])"
    assert fixed(body, head=MADE).endswith(textwrap.indent(body, "    ") + "\n")
    assert "reduction=" in fixed(body.replace(layer, "nn.MSELoss()"), head=MADE).partition("def f")[2]


@pytest.mark.parametrize("change", ["m.logical_not_()", "m = v > 1"])
def test_a_mask_that_changes_between_two_selections(change: str) -> None:
    body = f"m = v > 0\na = x[m]\n{change}\nb = x[m]\nreturn a.sum() + b.sum()"
    assert "torch.where" not in fixed(body)


@pytest.mark.parametrize(("name", "mask"), [("mask", "mask"), ("mask_idx", "mask"), ("rows_idx", "rows_mask")])
def test_a_mask_is_not_called_an_index(name: str, mask: str) -> None:
    body = f"y = x.clone()\n{name} = torch.nonzero(v == 0)\ny.index_fill_(0, {name}.squeeze(), 0.0)\nreturn y"
    text = fixed(body, CountingCall())
    assert f"{mask} = v == 0\n    y[{mask}] = 0.0\n" in text


@pytest.mark.parametrize(
    ("layer", "ignored"),
    [
        ("nn.CrossEntropyLoss(ignore_index=n)", "loss.ignore_index"),
        ("nn.NLLLoss(ignore_index=0)", "loss.ignore_index"),
        ("nn.CrossEntropyLoss()", "-100"),
    ],
)
def test_labels_outside_the_mask_get_the_label_that_the_loss_ignores(layer: str, ignored: str) -> None:
    body = f"m = v > 0\nloss = {layer}\nreturn loss(x[m], n[m])"
    head = MADE.replace("n: int", "n: torch.Tensor")
    assert f"loss(x.flatten(0, -2), torch.where(m, n, {ignored}).flatten())" in fixed(body, head=head)


@pytest.mark.parametrize("options", ["ignore_index=0, weight=v", "ignore_index=0, reduction='none'", "**n"])
def test_a_loss_that_does_more_than_ignore_a_label(options: str) -> None:
    body = f"m = v > 0\nloss = nn.CrossEntropyLoss({options})\nreturn loss(x[m], n[m])"
    head = MADE.replace("n: int", "n: torch.Tensor")
    assert fixed(body, head=head).endswith(textwrap.indent(body, "    ") + "\n")


def test_a_mask_by_its_name_selects_from_a_parameter() -> None:
    head = HEAD.replace("x: torch.Tensor, v: torch.Tensor", "x, v, mask, key")
    assert "torch.where(mask, x, 0).sum()" in fixed("return x[mask].sum()", head=head)
    rule = MaskRead()
    for body in ("return x[key]", "mask = v['mask']\nreturn x[mask]"):
        assert not StaticView(Case(rule, Example("x", head + textwrap.indent(body, "    ") + "\n")), [rule]).own


def given(call: str, value: str, more: str = "") -> str:
    """Return the code after a fix of a method that fills what is not finite, with the call that `value` prepares."""
    code = f"""
import torch
from torch import nn

WEIGHT = nn.Parameter(torch.ones(4, 4))

class Model(nn.Module):
    def finite(self, scores):
        ok = scores.isfinite()
        if not ok.all():
            scores[~ok] = 0.0
        return scores

    def forward(self, x: torch.Tensor, v: torch.Tensor):
        {value}
        return self.{call}
{more}
"""
    rule = BranchOnTensor()
    return StaticView(Case(rule, Example("x", code)), [rule]).fixed


@pytest.mark.parametrize("value", ["y = x * 2", "y = x.softmax(-1)"])
def test_the_result_of_a_computation_may_be_written_to(value: str) -> None:
    assert "if not ok.all()" not in given("finite(y)", value)


@pytest.mark.parametrize(
    ("call", "value"),
    [
        ("finite(x)", "y = x"),
        ("finite(y)", "y = x"),
        ("finite(y)", "y = x if v is None else x + 1"),
        ("finite(y)", "y = x[0]"),
        ("finite(y)", "y = x * 2\n        if v is None: y = x"),
        ("finite(WEIGHT)", "y = x"),
        ("finite(x * 2) + self.finite(x)", "y = x"),
        ("finite(*[x])", "y = x"),
        ("finite(y)", "y = torch.ones(2, requires_grad=True)"),
        ("finite(y)", "y = nn.Parameter(x)"),
        ("finite(x * 2) + sum(map(self.finite, [x]))", "y = x"),
    ],
)
def test_what_may_be_a_leaf_is_only_written_to_if_the_mask_selects_something(call: str, value: str) -> None:
    assert "if not ok.all()" in given(call, value)


@pytest.mark.parametrize(
    "use", ["STEPS = (Model.finite,)", "Model().finite(WEIGHT)", "run = lambda m: m.finite(WEIGHT)"]
)
def test_a_method_that_other_code_may_call_with_a_leaf(use: str) -> None:
    assert "if not ok.all()" in given("finite(x * 2)", "y = x", use)


LABELS = MADE.replace("n: int", "n: torch.Tensor")


@pytest.mark.parametrize(
    "body",
    [
        "m = n != -100\nn = n.clamp(min=0)\nreturn F.cross_entropy(x[m], n[m])",
        "m = n != -100\nn.clamp_(min=0)\nreturn F.cross_entropy(x[m], n[m])",
        "m = n != -100\nn[~m] = 0\nreturn F.cross_entropy(x[m], n[m])",
    ],
)
def test_labels_that_change_after_the_mask_is_made(body: str) -> None:
    head = LABELS.replace("from torch import nn", "from torch import nn\nimport torch.nn.functional as F")
    text = fixed(body, head=head)
    assert "torch.where(m, n, -100)" in text or "x[m]" in text


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # The row's dimension is the last one, whatever the number of dimensions of the mask.
        (
            "m = n > v\nreturn F.cosine_similarity(x[m], 2 * x[m]).mean()",
            "F.cosine_similarity(torch.where(m[..., None], x, 1), 2 * torch.where(m[..., None], x, 1), dim=-1)",
        ),
        ("m = n > v\nreturn torch.logsumexp(x[m], dim=1).mean()", "torch.where(m, torch.logsumexp(x, dim=-1), 0)"),
        ("m = x > 0\nreturn torch.max(x[m], v[m]).mean()", "torch.where(m, torch.max(x, v), 0).sum() / m.sum()"),
        ("m = x > 0\nreturn x[m].norm()", "return torch.where(m, x, 0).norm()"),
        (
            "m = n > v\nreturn x[m].mean(dim=0)",
            "return torch.where(m[..., None], x, 0).flatten(0, -2).sum(0) / m.sum()",
        ),
        # A loop over what is in the data breaks the graph anyway.
        ("return [x[v == i].sum() for i in torch.unique(v)]", "x[v == i]"),
        ("for i in v.unique():\n    n = n + x[v == i].sum()\nreturn n", "x[v == i]"),
        ("return [x[v == i].sum() for i in range(4)]", "[torch.where(v == i, x, 0).sum() for i in range(4)]"),
        # These numbers are norms, not dimensions, and a second number of `max` is a dimension.
        ("m = n > v\nreturn torch.norm(x[m], 1).mean()", "x[m]"),
        ("m = n > v\nreturn F.normalize(x[m], 1).mean()", "x[m]"),
        ("m = n > v\nreturn torch.max(x[m], 1).mean()", "x[m]"),
        # What is not selected may not be positive, although the function tests if something is selected.
        ("m = x > 0\nif m.any():\n    n = 1\nreturn torch.log(x[m]).mean()", "torch.log(torch.where(m, x, 1))"),
    ],
)
def test_functions_of_rows_and_of_pairs_of_elements(body: str, expected: str) -> None:
    assert expected in fixed(body)


STORES = "m = x > 0\nout = torch.zeros_like(x)\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (STORES + "out[m] = x[m]\nout[~m] = -x[~m]", "m = x > 0\n    out = torch.where(m, x, -x)\n"),
        (STORES + "out[~m] = -x[~m]\nout[m] = x[m]", "m = x > 0\n    out = torch.where(m, x, -x)\n"),
        (STORES + "other = ~m\nout[m] = x[m]\nout[other] = -x[other]", "out = torch.where(m, x, -x)\n"),
        # The second statement stores elements that exist one by one, which needs the tensor.
        (STORES + "out[m] = x[m]\nout[~m] = v", "out = torch.where(m, x, 0)\n    out[~m] = v"),
        (STORES + "out[m] = x[m]\nout[~m] = x[~m].cumsum(0)", "out = torch.where(m, x, 0)\n"),
        (STORES + "out[m] = x[m]\nn = out.sum()\nout[~m] = -x[~m]", "out = torch.where(~m, -x, out)"),
        (STORES + "out[m] = x[m]\nm[0] = False\nout[~m] = -x[~m]", "out = torch.where(~m, -x, out)"),
    ],
)
def test_stores_to_both_sides_of_a_mask(body: str, expected: str) -> None:
    assert expected in fixed(f"{body}\nreturn out", MaskedStore())
