"""Verification: what is equal is proven, what differs in anything a caller could notice is refuted, with words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from dynalint.fix import Verification

pytestmark = pytest.mark.dynamo

Prove = Callable[..., Verification]

MODEL = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.gain = nn.Parameter(torch.ones(8))
        self.register_buffer("seen", torch.zeros(()))
        self.n = 0

    def forward(self, x):
        h = self.linear(x)
        {body}
        return h
"""


def model(body: str) -> str:
    return MODEL.replace("{body}", body.strip("\n").replace("\n", "\n        "))


BRANCH = """
if h.sum() > 0:
    h = h * 2
else:
    h = h - 1
"""


@pytest.mark.usefixtures("compiled")
def test_an_exact_rewrite_is_proven_on_both_sides(prove: Prove) -> None:
    verification = prove(model(BRANCH), (BRANCH, "h = torch.where(h.sum() > 0, h * 2, h - 1)"), gb=("GB0170",))
    assert verification.outcome == "proven", verification
    assert (verification.sides, verification.sides_run) == (4, 4)
    assert verification.inputs > 30
    assert verification.detail.endswith("one graph")


def test_a_module_that_all_models_share_has_the_mode_of_the_one_that_runs(prove: Prove) -> None:
    """It is a global, as of constraints by default. The search for the rare side makes more models in training mode."""
    branch = "if (x.sum() - 11.1).abs() < 0.05:\n    h = h * 2"
    shared = model(f"h = self.smooth(h)\n{branch}").replace("class Model", "SMOOTH = nn.Softplus()\n\nclass Model")
    source = shared.replace("self.n = 0", "self.smooth = SMOOTH")
    verification = prove(source, (branch, "h = torch.where((x.sum() - 11.1).abs() < 0.05, h * 2, h)"), gb=("GB0170",))
    assert verification.outcome != "refuted", verification


def test_a_side_meets_the_answers_of_tests_that_stay(prove: Prove) -> None:
    """Where the second branch leaves it out too, nothing gives `gain` a gradient but the first one's other side."""
    branch = "if h.mean() > 0.3:\n    g = h * 2"
    body = f"g = self.gain * h\n{branch}\nh = h + g if h.argmax() == 5 else h + g + self.gain"
    verification = prove(model(body), (branch, "g = torch.where(h.mean() > 0.3, h * 2, g)"), safety="conditional")
    assert verification.outcome == "refuted", verification
    assert "gradient of gain: none became zeros" in verification.detail


def test_a_side_that_takes_another_state_meets_each_side_of_the_inputs(prove: Prove) -> None:
    """Only with a negative `gain` and negative inputs does nothing give `gain` a gradient."""
    branch = "if self.gain.sum() > 0:\n    h = h + self.gain"
    body = f"if not (x < 0).all():\n    h = h * self.gain\n{branch}"
    verification = prove(
        model(body), (branch, "h = torch.where(self.gain.sum() > 0, h + self.gain, h)"), safety="conditional"
    )
    assert verification.outcome == "refuted", verification
    assert "gradient of gain: none became zeros" in verification.detail


def test_what_an_infinite_number_spoils_in_few_places(prove: Prove) -> None:
    branch = "if torch.isnan(h).any():\n    x = self.linear(x)"
    body = f"{branch}\nh = self.linear(h + x) * x"
    verification = prove(
        model(body), (branch, "x = torch.where(torch.isnan(h).any(), self.linear(x), x)"), safety="conditional"
    )
    assert verification.outcome == "refuted", verification


def test_a_constant_that_a_rewrite_puts_at_the_top_level_is_no_new_state(prove: Prove) -> None:
    code = model("import os\nh = h * os.path.isabs('a')")
    head = "class Model("
    verification = prove(
        code, (head, f"import os\n\n_ISABS = os.path.isabs('a')\n\n\n{head}"), ("os.path.isabs('a')", "_ISABS")
    )
    assert verification.outcome == "proven", verification


def test_a_module_stands_for_its_script(prove: Prove) -> None:
    code = model("h = h * 1").replace("nn.Linear(8, 8)", "torch.jit.script(nn.Linear(8, 8))")
    verification = prove(code, ("torch.jit.script(nn.Linear(8, 8))", "nn.Linear(8, 8)"))
    assert verification.outcome == "proven", verification
    verification = prove(code, ("torch.jit.script(nn.Linear(8, 8))", "nn.Linear(8, 8, bias=False)"))
    assert verification.outcome == "refuted", verification


ZEROS = "the gradient of gain is zero instead of None (momentum or weight decay then moves the parameter)"


def test_what_a_practical_equality_lets_pass_is_told(prove: Prove) -> None:
    """A gradient of zeros where there was none, and a copy in the place of an input."""
    body, old = "if h.sum() > 0:\n    x = x + self.gain\nreturn x", "if h.sum() > 0:\n    x = x + self.gain"
    new = "x = torch.where(h.sum() > 0, x + self.gain, x)"
    strict = prove(model(body), (old, new), safety="conditional")
    assert strict.outcome == "refuted", strict
    assert strict.detail.endswith("which `--equivalence practical` accepts")
    verification = prove(model(body), (old, new), safety="conditional", practical=True)
    assert verification.outcome == "proven", verification
    assert f"; but {ZEROS}; output no longer shares memory with the input[0]" in verification.detail
    assert ZEROS in verification.passed
    wrong = prove(model(body), (old, f"{new} + self.gain * 0.5"), safety="conditional", practical=True)
    assert wrong.outcome == "refuted", wrong
    assert "accepts" not in wrong.detail


CHOICE = "if h.sum() > 0:\n    h = self.linear(h)\nelse:\n    h = h.relu()"
CHOSEN = "h = torch.where(h.sum() > 0, self.linear(h), h.relu())"


def test_infinite_inputs_count_where_equality_is_exact(prove: Prove) -> None:
    body = f"{CHOICE.replace('h.relu()', 'h - h.exp()')}"
    new = CHOSEN.replace("h.relu()", "h - h.exp()")
    assert prove(model(body), (body, new), safety="conditional").outcome == "refuted"


def test_infinite_inputs_are_let_pass_where_finite_ones_come_to_the_same_code(prove: Prove) -> None:
    body = "if (x > 3).any():\n    h = torch.zeros_like(h)\nelse:\n    h = h + x"
    new = "h = (h + x) * (1 - (x > 3).any().float())"
    exact = prove(model(body), (body, new), safety="conditional")
    assert exact.outcome == "refuted", exact
    verification = prove(model(body), (body, new), safety="conditional", practical=True)
    assert verification.outcome == "proven", verification
    assert "results differ where inputs are infinite or NaN" in verification.passed


def test_what_only_infinite_inputs_come_to_must_be_equal(prove: Prove) -> None:
    """A check for NaN is there for NaN: what it does is compared on them."""
    body = "if torch.isnan(x).any():\n    h = torch.zeros_like(h)"
    new = "h = torch.where(torch.isnan(x).any(), torch.ones_like(h), h)"
    verification = prove(model(body), (body, new), safety="conditional", practical=True)
    assert verification.outcome == "refuted", verification


def test_inputs_that_are_not_finite_count_where_the_code_asks_for_them(prove: Prove) -> None:
    """The gradient of what is not selected is NaN, and eager code has none."""
    for test, outcome in (("h.isnan().any()", "refuted"), ("h.sum() > 100", "proven")):
        old, new = f"if {test}:\n    h = torch.zeros_like(h)", f"h = torch.where({test}, torch.zeros_like(h), h)"
        assert prove(model(old), (old, new), safety="conditional", practical=True).outcome == outcome


def test_state_may_keep_a_wider_dtype_under_autocast(prove: Prove) -> None:
    old = "top = h.detach().max()\nif top > self.top:\n    self.top = top\nh = h + self.top"
    code = model(old).replace("self.n = 0", 'self.n = 0\n        self.register_buffer("top", torch.zeros(()))')
    for new, outcome in (
        ("torch.maximum(self.top, top)", "proven"),
        ("torch.maximum(self.top, top).double()", "refuted"),
    ):
        edit = ("if top > self.top:\n    self.top = top", f"self.top = {new}")
        assert prove(code, edit, safety="conditional", practical=True).outcome == outcome


def test_numbers_are_compared_within_tolerances_where_equality_is_practical(prove: Prove) -> None:
    old, new = "h = h / 3", "h = h * (1 / 3)"
    assert prove(model(old), (old, new)).outcome == "refuted"
    assert prove(model(old), (old, new), practical=True).outcome == "proven"
    assert prove(model(old), (old, "h = h * 0.33333"), practical=True).outcome == "refuted"


def test_another_exception_for_infinite_inputs_is_a_difference(prove: Prove) -> None:
    old, new = "h = h * int(x.sum())", "h = h * x.sum().detach().long()"
    assert prove(model(old), (old, new), safety="conditional", practical=True).outcome == "refuted"


def test_warnings_of_conversions_that_stay_are_no_difference(prove: Prove) -> None:
    old, new = (
        "h = h * float(self.gain[0]) / float(self.gain[1])",
        "h = h * self.gain[0].detach() / float(self.gain[1])",
    )
    verification = prove(model(old), (old, new), safety="conditional", practical=True)
    assert verification.outcome == "proven", verification


def test_an_empty_batch_is_tried(prove: Prove) -> None:
    body = "mask = x > 0\nif mask.any():\n    return x.masked_fill(~mask, -1e4).max()\nreturn x.sum()"
    new = "mask = x > 0\nreturn torch.where(mask.any(), x.masked_fill(~mask, -1e4).max(), x.sum())"
    for practical in (True, False):
        verification = prove(model(body), (body, new), safety="conditional", practical=practical)
        assert verification.outcome == "refuted", verification
        assert "an empty batch" in verification.detail


@pytest.mark.parametrize(
    ("new", "words"),
    [
        ("h = torch.where(h.sum() > 0, h.float() * 2, h)", "all in bfloat16"),
        ("h = torch.where(h.sum() > 0, h * 2, h).to(x.dtype)", "autocast to bfloat16"),
    ],
)
def test_other_precisions_are_tried_where_equality_is_practical(prove: Prove, new: str, words: str) -> None:
    old = "if h.sum() > 0:\n    h = h * 2"
    verification = prove(model(old), (old, new), safety="conditional", practical=True)
    assert verification.outcome == "refuted", verification
    assert f"with {words}" in verification.detail


def test_a_tensor_that_is_no_longer_moved_may_keep_its_dtype_where_the_fix_says_so(prove: Prove) -> None:
    code = model("self.mean = self.mean.to(x.dtype)\nh = h - self.mean").replace(
        "self.n = 0", "self.mean = torch.ones(8) / 3"
    )
    edits = (("self.mean = self.mean.to(x.dtype)\nh = h - self.mean", "mean = self.mean.to(x.dtype)\nh = h - mean"),)
    told = ("no code outside this project reads `self.mean`, which keeps its device and dtype",)
    verification = prove(code, *edits, safety="conditional", practical=True)
    assert "attribute mean: dtype torch.bfloat16 became torch.float32" in verification.detail
    assert prove(code, *edits, safety="conditional", practical=True, conditions=told).outcome == "proven"
    wrong = ((edits[0][0], "mean = self.mean.to(x.dtype)\nself.mean = mean * 2\nh = h - mean"),)
    verification = prove(code, *wrong, safety="conditional", practical=True, conditions=told)
    assert "attribute mean" in verification.detail


def test_code_that_does_not_run_in_a_precision_is_not_compared_there(prove: Prove) -> None:
    old = "assert h.dtype == torch.float32\nif h.sum() > 0:\n    h = h * 2"
    new = "assert h.dtype == torch.float32, 'other words'\nh = torch.where(h.sum() > 0, h * 2, h)"
    assert prove(model(old), (old, new), safety="conditional", practical=True).outcome == "proven"


def test_code_that_runs_in_a_precision_only_on_one_side_is_not_compared_there(prove: Prove) -> None:
    old = "if x.sum().abs() < 0.1:\n    h = h * 0\nelse:\n    h = torch.linalg.qr(h)[1]"
    new = "h = torch.where(x.sum().abs() < 0.1, h * 0, torch.linalg.qr(h)[1])"
    verification = prove(model(old), (old, new), safety="conditional", practical=True)
    assert "BFloat16" not in verification.detail, verification


def test_zeros_instead_of_a_result_have_the_dtype_of_the_result_under_autocast(prove: Prove) -> None:
    old = "if x.sum() < 0:\n    return x.new_zeros(x.shape[0], 8)"
    new = "condition = x.sum() < 0"
    result = ("return h", "return torch.where(condition, 0, h)")
    verification = prove(model(old), (old, new), result, safety="conditional", practical=True)
    assert verification.outcome == "proven", verification
    ones = (old.replace("zeros", "ones"), new)
    wrong = (result[0], result[1].replace("0", "1"))
    verification = prove(model(ones[0]), ones, wrong, safety="conditional", practical=True)
    assert "torch.float32 became torch.bfloat16" in verification.detail


SELECTED = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x, mask):
        h = self.linear(x)
        return h[mask].sum()
"""


@pytest.mark.parametrize(
    ("new", "proven"),
    [
        ("torch.where(mask.reshape(mask.shape + (1,) * (h.dim() - mask.dim())), h, 0).sum()", True),
        ("torch.where(mask, h, 0).sum()", False),
    ],
)
def test_guessed_inputs_have_other_numbers_of_dimensions_where_the_fix_depends_on_it(
    prove: Prove, new: str, proven: bool
) -> None:
    edit = ("h[mask].sum()", new)
    source = SELECTED.replace("h = self.linear(x)", "h = self.linear(x)\n        assert mask.shape[0] == 5")
    verification = prove(source, edit, inputs=None, safety="conditional", practical=True, ranks=True)
    assert verification.outcome == ("proven" if proven else "refuted"), verification
    if not proven:
        assert "one fewer dimension" in verification.detail or "one more dimension" in verification.detail
    given = "(torch.randn(5, 8), torch.rand(5, 8) > 0.5)"
    verification = prove(source, edit, inputs=given, safety="conditional", practical=True, ranks=True)
    assert verification.outcome == "proven", verification


REMEMBERED = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("mean", torch.zeros(()))

    def forward(self, x):
        h = self.linear(x)
        self.mean.copy_(0.9 * self.mean + 0.1 * h.detach().mean())
        hard = h > 0
        if hard.any():
            h[hard] = h[hard] * self.mean.clone()
        return h
"""


def test_state_that_remembers_infinite_inputs_makes_results_differ_only_where_equality_is_exact(prove: Prove) -> None:
    old = "        if hard.any():\n            h[hard] = h[hard] * self.mean.clone()"
    edit = (old, "        h = torch.where(hard, h * self.mean.clone(), h)")
    verification = prove(REMEMBERED, edit, inputs="(torch.randn(5, 8),)", safety="conditional", practical=True)
    assert verification.outcome == "proven", verification
    verification = prove(REMEMBERED, edit, inputs="(torch.randn(5, 8),)", safety="conditional")
    assert verification.outcome == "refuted", verification


def test_infinite_sums_of_half_precision_are_reached(prove: Prove) -> None:
    old = "if h.dtype == torch.float16 and torch.isinf(h).any():\n    h = torch.clamp(h, -1000, 1000)"
    new = "if h.dtype == torch.float16:\n    h = torch.where(torch.isinf(h).any(), torch.clamp(h, -1000, 1000), h)"
    verification = prove(model(f"h = x + h\n{old}"), (old, new), safety="conditional", practical=True)
    assert verification.outcome == "proven", verification


def test_a_maximum_of_nothing_may_be_infinite_where_equality_is_practical(prove: Prove) -> None:
    edit = ("h[h > 1].max()", 'h.masked_fill(~(h > 1), float("-inf")).max()')
    body = "h = h + h[h > 1].max()"
    verification = prove(model(body), edit, safety="conditional", practical=True)
    assert verification.outcome == "proven", verification
    assert "a maximum or minimum of no elements is infinite instead of an exception" in verification.passed
    assert prove(model(body), edit, safety="conditional").outcome == "refuted"


def test_rows_of_nothing_may_be_no_rows_where_equality_is_practical(prove: Prove) -> None:
    edit = ("torch.stack([h[i, 0] for i in range(len(h))])", "h[torch.arange(len(h)), 0]")
    body = "h = h * torch.stack([h[i, 0] for i in range(len(h))]).unsqueeze(1)"
    verification = prove(model(body), edit, safety="conditional", practical=True)
    assert verification.outcome == "proven", verification
    assert "an empty batch gives no rows instead of an exception from `torch.stack`" in verification.passed
    assert prove(model(body), edit, safety="conditional").outcome == "refuted"


def test_an_index_out_of_bounds_may_have_been_a_size_that_does_not_fit(prove: Prove) -> None:
    body = "start = int((x > 0).sum())\nh = h.clone()\nh[:, start : start + 2] = x[:, :2]"
    index = ("h[:, start : start + 2]", "h[:, start + torch.arange(2)]")
    number = ("int((x > 0).sum())", "(x > 0).sum()")
    verification = prove(model(body), number, index, safety="conditional", practical=True)
    assert "exception" not in verification.detail, verification
    assert "became IndexError" in prove(model(body), number, index, safety="conditional").detail


def test_rounding_where_numbers_cancel_out_is_judged_by_a_wide_precision(prove: Prove) -> None:
    """The gradient of a normalized vector along itself is zero, or whatever the rounding leaves of it."""
    body = (
        "h = torch.nn.functional.normalize(h, dim=-1)\ns = min(self.gain.mean().exp().item(), 100.0)\nh = s * h @ h.t()"
    )
    old, new = "min(self.gain.mean().exp().item(), 100.0)", "self.gain.mean().exp().detach().clamp(max=100.0)"
    assert prove(model(body), (old, new), safety="conditional", practical=True).outcome == "proven"


def test_an_optional_mask_is_given_where_the_fix_needs_one(prove: Prove) -> None:
    code = model("h = h.masked_fill(mask, 0) if mask is not None and mask.any() else h").replace(
        "x):", "x, mask=None):"
    )
    edit = ("mask is not None and mask.any()", "mask is not None")
    verification = prove(code, edit, safety="conditional", practical=True, inputs=None)
    assert (verification.outcome, verification.sides_run) == ("proven", verification.sides), verification


def test_an_output_that_has_a_gradient_of_zeros_instead_of_none_is_let_pass(prove: Prove) -> None:
    old, new = "if x.sum() > 0:\n    x = torch.ones_like(x)", "x = torch.where(x.sum() > 0, torch.ones_like(x), x)"
    body = f"{old}\nreturn x * 2"
    strict = prove(model(body), (old, new), safety="conditional")
    assert strict.outcome == "refuted", strict
    assert strict.detail.endswith("which `--equivalence practical` accepts")
    verification = prove(model(body), (old, new), safety="conditional", practical=True)
    assert verification.outcome == "proven", verification
    assert "output passes on zero gradients where it had none" in verification.passed
    wrong = prove(model(body), (old, f"{new} + x * 1e-30"), safety="conditional", practical=True)
    assert wrong.outcome == "refuted", wrong
    kept = prove(model(f"{old}\nself.kept = x\nreturn x * 2"), (old, new), safety="conditional", practical=True)
    assert kept.outcome == "refuted", kept
    assert "attribute kept: requires_grad" in kept.detail


TURNED = {
    "before": ("g = h * 2\nif x.dim() > 2:\n    g = h.mean(0)", "return h", "shape (8,) became (4, 8)"),
    "after": ("g = h * 2", "if x.dim() > 2:\n    h.add_(1)\n    return h + k\nreturn h", "output: ["),
    "raises": ("g = h * 2\nif x.dim() > 2:\n    g = h[:3]", "return h", "exception: none became RuntimeError"),
}


@pytest.mark.parametrize("name", TURNED)
def test_a_test_that_all_inputs_answer_alike_is_answered_otherwise(prove: Prove, name: str) -> None:
    before, after, what = TURNED[name]
    branch = "k = h\nif h.sum() > 0:\n    h = k\nelse:\n    h = g"
    code = model(f"{before}\n{branch}\n{after}")
    verification = prove(code, (branch, "k = h\nh = torch.where(h.sum() > 0, h, g)"))
    assert verification.outcome == "refuted", verification
    assert what in verification.detail
    assert "`x.dim() > 2` on line" in verification.detail


@pytest.mark.parametrize(
    "before", ["if x.dim() > 2:\n    h = h[0, 0]", "while x.dim() > 2:\n    h = h - 1", "assert x.dim() == 2"]
)
def test_what_fails_by_another_answer_shows_nothing(prove: Prove, before: str) -> None:
    new = "h = torch.where(h.sum() > 0, h * 2, h - 1)"
    verification = prove(model(f"{before}\n{BRANCH}"), (BRANCH, new))
    assert verification.outcome == "proven", verification


REFUTED = {
    "value": (BRANCH, "h = torch.where(h.sum() > 0, h * 2, h + 1)", "output: ["),
    "dtype": ("h = h * 2", "h = (h * 2).double()", "dtype torch.float32 became torch.float64"),
    "shape": ("h = h * 2", "h = (h * 2)[None]", "shape (4, 8) became (1, 4, 8)"),
    "type": ("h = h * 2", "h = [h * 2]", "output: a tensor of float32 became a list"),
    "no gradient": ("h = h * 2", "h = (h * 2).detach()", "requires_grad True became False"),
    "wrong gradient": ("h = h * 2", "h = h.detach() + h", "gradient of "),
    "gradient of zeros for none": (
        "h = h * self.gain if h.sum() > 0 else h * 1",
        "h = torch.where(h.sum() > 0, h * self.gain, h * 1)",
        "gradient of gain: none became zeros",
    ),
    "NaN gradient of the other side": (
        "h = h.sqrt() if h.min() > 0 else h * 2",
        "h = torch.where(h.min() > 0, h.sqrt(), h * 2)",
        "gradient of ",
    ),
    "buffer": ("self.seen = self.seen + 1", "self.seen = self.seen + 2", "attribute seen: [1] became [2]"),
    "attribute": ("self.n = 3", "self.n = 4", "attribute n: 3 became 4"),
    "number for a tensor": ("self.n = 3", "self.n = torch.tensor(3)", "attribute n: 3 became a tensor of int64"),
    "new attribute": ("pass", "self.m = 1", "attribute m: new"),
    "input written to": ("x.mul_(2); h = x * 1", "x = x * 2; h = x * 1", "input[0]: "),
    "copy of an input": ("h = x", "h = x.clone()", "output shares memory with the input[0] before but not after"),
    "exception": (
        "if h.isnan().any():\n    raise ValueError('bad')",
        "if h.isnan().any():\n    raise RuntimeError('bad')",
        "exception: ValueError('bad') became RuntimeError('bad')",
    ),
    "message": (
        "if h.isnan().any():\n    raise ValueError('bad')",
        "if h.isnan().any():\n    raise ValueError('worse')",
        "exception: ValueError('bad') became ValueError('worse')",
    ),
    "printed text": ("print('hello')", "print('hallo')", "printed text: 'hello\\n' became 'hallo\\n'"),
    "warning": ("import warnings; warnings.warn('one')", "pass", "warnings: "),
    "log": ("import logging; logging.getLogger('a').info('one')", "pass", "log records: "),
    "random state": (
        "h = torch.rand_like(h) if h.sum() > 0 else h",
        "h = torch.where(h.sum() > 0, torch.rand_like(h), h)",
        "random state of torch differs afterwards",
    ),
    "random state of Python": ("import random", "import random; random.random()", "random state of random differs"),
    "state_dict": (
        "self.seen = self.seen + 1",
        "self.register_buffer('more', torch.tensor(0)); self.seen = self.seen + 1",
        "state_dict: more after but not before",
    ),
}


@pytest.mark.parametrize("name", REFUTED)
def test_what_differs_is_told(prove: Prove, name: str) -> None:
    old, new, told = REFUTED[name]
    body = BRANCH if old == "h = h * 2" else old
    verification = prove(model(body), (old, new))
    assert verification.outcome == "refuted", verification
    assert told in verification.detail
    assert "float32[4, 8]" in verification.detail


def test_new_code_that_fails_is_told_apart(prove: Prove) -> None:
    verification = prove(model(BRANCH), ("h = h * 2", "h = h * missing"))
    assert (verification.outcome, verification.raises) == ("refuted", True)
    assert "NameError" in verification.detail


def test_operators_have_words_of_their_own_for_what_they_cannot_compute(prove: Prove) -> None:
    counted = "places.bincount(minlength=99)"
    code = model(f"places = (h[0] * 3).long().clamp(max=98)\nh = h + {counted}.sum()")
    added = "places.new_zeros(99).scatter_add(0, places, torch.ones_like(places))"
    verification = prove(code, (counted, added))
    assert verification.outcome == "proven", verification
    check = "if places.min() < 0:\n            raise RuntimeError('no places')\n        "
    verification = prove(code, (f"h = h + {counted}", f"{check}h = h + {added}"))
    assert verification.outcome == "refuted"
    assert "became RuntimeError('no places')" in verification.detail


def test_mocks_are_compared_by_their_own_type(prove: Prove) -> None:
    code = (
        model(BRANCH)
        .replace("self.n = 0", "self.n = mock.MagicMock(spec=str)")
        .replace("import", "from unittest import mock\nimport", 1)
    )
    verification = prove(code, (BRANCH, "h = torch.where(h.sum() > 0, h * 2, h - 1)"), gb=("GB0170",))
    assert verification.outcome == "proven", verification


def test_new_code_that_cannot_be_built_is_refuted(prove: Prove) -> None:
    verification = prove(model("pass"), ("self.n = 0", "self.n = missing"))
    assert (verification.outcome, verification.raises) == ("refuted", True)
    assert "no longer runs: NameError" in verification.detail


def test_a_side_that_no_input_reaches_leaves_it_open(prove: Prove) -> None:
    never = "if x.shape[1] > 100:\n    h = h * 2"
    verification = prove(model(never), (never, "h = h"))
    assert verification.outcome == "unverifiable"
    assert "the statement on line 15 did not run" in verification.detail


def test_a_side_that_is_not_taken_is_tried_where_slopes_are_infinite(prove: Prove) -> None:
    verification = prove(
        model("h = x.log()\nh = h * 2 if not x.min() < -1 else x * 1"),
        ("h * 2 if not x.min() < -1 else x * 1", "torch.where(~(x.min() < -1), h * 2, x * 1)"),
    )
    assert verification.outcome == "refuted", verification
    assert "gradient of input 0" in verification.detail
    assert "one element of each zero" in verification.detail


def test_a_search_over_parameters_reaches_what_inputs_do_not(prove: Prove) -> None:
    body = "if self.gain.sum() > 0:\n    h = h * 2\nelse:\n    h = h - 1"
    verification = prove(model(body), (body, "h = torch.where(self.gain.sum() > 0, h * 2, h - 1)"))
    assert verification.outcome == "proven", verification


def test_a_search_over_flags_reaches_what_inputs_do_not(prove: Prove) -> None:
    body = "if h.sum() > 0:\n    if self.wide:\n        h = h * 2"
    code = model(body).replace("self.n = 0", "self.n = 0; self.wide = False")
    verification = prove(code, (body, "if self.wide:\n    h = torch.where(h.sum() > 0, h * 2, h)"))
    assert verification.outcome == "proven", verification


MADE = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, rate=0.0, how="double", plain=True):
        super().__init__()
        self.rate, self.how = rate, how
        if rate > 0:
            self.register_buffer("seen", torch.ones(()))
        self.plain = plain
        self.scale = None if plain else 3.0

    def forward(self, x):
        rate, x = self.rate, x + 1
        if x.sum() > 0:
            if {test}:
                x = x * {factor}
        return x
"""


@pytest.mark.parametrize(
    ("test", "factor"), [("rate > 0", "self.seen"), ("self.how == 'triple'", "3"), ("not self.plain", "self.scale")]
)
def test_a_search_over_builds_reaches_what_inputs_do_not(prove: Prove, test: str, factor: str) -> None:
    code = MADE.format(test=test, factor=factor)
    body = f"if x.sum() > 0:\n    if {test}:\n        x = x * {factor}"
    new = f"if {test}:\n    x = torch.where(x.sum() > 0, x * {{}}, x)"
    verification = prove(code, (body, new.format(factor)))
    assert verification.outcome == "proven", verification
    verification = prove(code, (body, new.format("7")))
    assert verification.outcome == "refuted", verification
    assert "Model built with" in verification.detail


def test_a_constructor_that_fails_with_another_argument_is_told(prove: Prove) -> None:
    body = "if x.sum() > 0:\n    if rate > 0:\n        x = x * self.seen"
    edits = (
        (body, "if rate > 0:\n    x = torch.where(x.sum() > 0, x * self.seen, x)"),
        ("torch.ones(())", "torch.one(())"),
    )
    verification = prove(MADE.format(test="rate > 0", factor="self.seen"), *edits)
    assert verification.outcome == "refuted"
    assert "exception: none became AttributeError" in verification.detail
    assert "built with rate=0.5, before any call" in verification.detail


def test_parameters_are_drawn_apart_from_each_other(prove: Prove) -> None:
    body = "if self.one.sum() > 0.1 and self.two.sum() < 0.1:\n    z = x * 2 + y\nelse:\n    z = x - y"
    code = two(body).replace(
        "    def forward",
        "    def __init__(self):\n        super().__init__()\n        self.one = nn.Parameter(torch.zeros(4))\n"
        "        self.two = nn.Parameter(torch.ones(4))\n\n    def forward",
    )
    new = "z = torch.where((self.one.sum() > 0.1) & (self.two.sum() < 0.1), x * 2 + y, x - y)"
    verification = prove(code, (body, new), inputs=TWO_INPUTS)
    assert (verification.sides_run, verification.sides) == (6, 6), verification


def test_inputs_that_are_no_numbers_come_with_any_sign(prove: Prove) -> None:
    body = "if x.isinf().any() and (x < 0).all():\n    z = x.detach() * 2 + y\nelse:\n    z = x.detach() + y"
    test = "x.isinf().any() & (x < 0).all()"
    new = f"z = torch.where({test}, x.detach() * 2 + y, x.detach() + y)"
    verification = prove(two(body), (body, new), inputs=TWO_INPUTS)
    assert verification.outcome == "proven", verification


def two(body: str) -> str:
    """A model of two inputs."""
    indented = body.replace("\n", "\n        ")
    return f"import torch\nfrom torch import nn\n\nclass Model(nn.Module):\n    def forward(self, x, y):\n        {indented}\n        return z\n"


TWO_INPUTS = "(torch.randn(4, 8), torch.randn(4, 8))"


def test_inputs_are_equal_to_each_other_once(prove: Prove) -> None:
    body = "if torch.all(x == y):\n    z = x * 2 + y\nelse:\n    z = x + y"
    verification = prove(two(body), (body, "z = torch.where(torch.all(x == y), x * 2 + y, x + y)"), inputs=TWO_INPUTS)
    assert (verification.outcome, verification.sides_run, verification.sides) == ("proven", 4, 4), verification


def test_what_is_infinite_must_not_reach_the_gradient_from_the_other_side(prove: Prove) -> None:
    body = "if y.isinf().any():\n    z = x * 2 + y\nelse:\n    z = x * y"
    verification = prove(two(body), (body, "z = torch.where(y.isinf().any(), x * 2 + y, x * y)"), inputs=TWO_INPUTS)
    assert verification.outcome == "refuted"
    assert "infinite" in verification.detail


RAMPS = "(torch.linspace(-2, 2, 12).reshape(3, 4), torch.linspace(1, -1, 12).reshape(3, 4))"


def test_nan_must_not_reach_a_gradient_that_another_function_stops(prove: Prove) -> None:
    branch = "if torch.isnan(a).any():\n    x = b.log()\nelse:\n    a = a * y"
    rest = "x = x * 2\nif torch.equal(a, a[:1]):\n    x = a ** 0.5\nelse:\n    b = x + 1.5\nz = a, b"
    chosen = (
        "condition = torch.isnan(a).any()\nx = torch.where(condition, torch.where(condition, b, 1).log(), x)\n"
        "a = torch.where(condition, a, a * y)"
    )
    verification = prove(two(f"a = x + y.relu()\nb = x + y.relu()\n{branch}\n{rest}"), (branch, chosen), inputs=RAMPS)
    assert verification.outcome == "refuted"
    assert "nan" in verification.detail


def test_an_exponential_that_overflows_must_not_reach_the_gradient(prove: Prove) -> None:
    branch = "if a.sum() > 0:\n    a = a + 1.5\n    b = x.clamp(min=0.1)"
    chosen = (
        "condition = a.sum() > 0\na = torch.where(condition, a + 1.5, a)\n"
        "b = torch.where(condition, x.clamp(min=0.1), b)"
    )
    code = two(f"a = x * y\nb = x * y\nx = b.exp()\na = torch.relu(b)\n{branch}\nz = torch.sqrt(a) + b")
    verification = prove(code, (branch, chosen), inputs=RAMPS)
    assert verification.outcome == "refuted"
    assert "times larger" in verification.detail


def test_sides_that_state_and_input_choose_are_run_together(prove: Prove) -> None:
    """The state as it is made has both sides of the second branch run, of which one differs with other state alone."""
    head = "import torch\nfrom torch import nn\n\nclass Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    made = "        self.weight = nn.Parameter(torch.full((4,), 0.5))\n\n    def forward(self, x, y):\n        "
    first = "if self.weight.mean() > 0.1:\n    b = a * 2\nelse:\n    b = torch.relu(x)"
    second = "if a.sum() > 0:\n    a = b + b\nelse:\n    y = b + 1.5"
    then = "a = torch.where(a.sum() > 0, b + b, a)"
    body = f"a = x + y.relu()\n{first}\n{second}\nreturn a + b".replace("\n", "\n        ")
    verification = prove(f"{head}{made}{body}\n", (second, then), inputs=RAMPS)
    assert verification.outcome == "refuted"
    assert "none became zeros" in verification.detail


def test_a_test_that_stays_in_what_changes_is_seen_both_ways(prove: Prove) -> None:
    """Where the conditional expression alone leaves `b` out, nothing gives `y` a gradient."""
    last = "a.t().t() if b.argmax() in (0, 3) else a + b"
    branch = f"if torch.isnan(b).any():\n    x = a * 2\nelif a.argmax() in (0, 3):\n    y = x\nelse:\n    b = {last}"
    tests = "torch.isnan(b).any() | (a.argmax() == 0) | (a.argmax() == 3)"
    body = f"a = torch.relu(x)\nb = a + x + y + 1.5\n{branch}\nreturn a, b"
    verification = prove(
        two(body), (branch, f"b = torch.where({tests}, b, {last})"), inputs=RAMPS, safety="conditional"
    )
    assert verification.outcome == "refuted", verification
    assert "gradient of input 1: none became zeros" in verification.detail


def test_the_example_is_tried_at_its_edges(prove: Prove) -> None:
    """A zero spoils the gradient of the logarithm, and lets the test hold only beside something negative."""
    branch = "if not b.min() < -1:\n    b = a ** 2"
    then = "b = torch.where(~(b.min() < -1), torch.where(~(b.min() < -1), a, 1) ** 2, b)"
    body = f"a = x * y\nb = a.log()\n{branch}\nreturn b + b"
    verification = prove(two(body), (branch, then), inputs=RAMPS, safety="conditional")
    assert verification.outcome == "refuted", verification


def test_gradients_may_be_added_up_in_another_order(prove: Prove) -> None:
    body = "a = x * 0.1\nb = x * y\nc = x * 0.7\nz = (a * b) * c"
    verification = prove(
        two(body), ("a = x * 0.1\nb = x * y\nc = x * 0.7", "c = x * 0.7\nb = x * y\na = x * 0.1"), inputs=TWO_INPUTS
    )
    assert verification.outcome == "proven", verification
    assert "gradients equal up to rounding" in verification.detail


@pytest.mark.parametrize(
    ("after", "what"),
    [
        ("z = x * 0.1 + (x * 1e-4 - x.detach() * 1e-4) + y", "gradient of input 0: "),
        ("z = torch.cat([(x * 0.1 + y)[:, :7], (x * 0.1 + y + 1e-3)[:, 7:]], dim=1)", "output: "),
    ],
)
def test_more_than_the_rounding_of_a_sum_is_a_difference(prove: Prove, after: str, what: str) -> None:
    verification = prove(two("z = x * 0.1 + y"), ("z = x * 0.1 + y", after), inputs=TWO_INPUTS)
    assert verification.outcome == "refuted"
    assert what in verification.detail


def test_the_first_element_that_differs_is_shown_where_the_first_few_do_not(prove: Prove) -> None:
    after = "z = torch.cat([(x * 0.1 + y)[:, :7], (x * 0.1 + y + 1e-3)[:, 7:]], dim=1)"
    verification = prove(two("z = x * 0.1 + y"), ("z = x * 0.1 + y", after), inputs=TWO_INPUTS)
    assert " at [0, 7]" in verification.detail


def test_a_test_that_stays_a_test_needs_no_second_side(prove: Prove) -> None:
    body = "if self.n == 0 and h.sum() > 0:\n    h = h * 2"
    verification = prove(model(body), (body, "if self.n == 0:\n    h = torch.where(h.sum() > 0, h * 2, h)"))
    assert verification.outcome == "proven", verification


@pytest.mark.usefixtures("compiled")
def test_a_counter_in_a_buffer_is_equal_to_its_number(prove: Prove) -> None:
    edits = (
        ("self.n = 0", 'self.register_buffer("n", torch.tensor(0), persistent=False)'),
        ("self.n += 1", "self.n = self.n + 1"),
    )
    verification = prove(model("self.n += 1\nh = h * self.n"), *edits, category="recompile")
    assert verification.outcome == "proven", verification
    assert verification.detail.endswith("one graph")


@pytest.mark.usefixtures("compiled")
def test_a_count_is_taken_to_what_the_code_counts_to(prove: Prove) -> None:
    edits = (
        ("self.n = 0", 'self.register_buffer("n", torch.tensor(0), persistent=False)'),
        ("self.n += 1", "self.n = self.n + 1"),
    )
    body = "self.n += 1\nif self.n % 500 == 0:\n    h = h * 2"
    right = ("if self.n % 500 == 0:\n    h = h * 2", "h = torch.where(self.n % 500 == 0, h * 2, h)")
    good = prove(model(body), *edits, right, category="recompile")
    assert good.outcome == "proven", good
    wrong = (right[0], right[1].replace("h * 2", "h * 3"))
    bad = prove(model(body), *edits, wrong, category="recompile")
    assert bad.outcome == "refuted", bad
    assert "with counts at 498" in bad.detail


def test_two_calls_come_before_one_backward_pass(prove: Prove) -> None:
    """What the first call keeps for its gradient is the buffer itself, which the second one changes."""
    body = "with torch.no_grad():\n    self.seen.add_(1)\nh = h * self.seen.item()"
    verification = prove(model(body), ("self.seen.item()", "self.seen.detach()"))
    assert verification.outcome == "refuted", verification
    assert "modified by an inplace operation" in verification.detail
    assert "two calls before one backward pass" in verification.detail
    good = prove(model(body), ("self.seen.item()", "self.seen.detach().clone()"))
    assert "exception" not in good.detail


def test_code_that_raises_for_inputs_with_gradients_runs_on_others(prove: Prove) -> None:
    body = "import copy\nh = h - copy.deepcopy(x).detach()"
    assert prove(model(body), ("copy.deepcopy(x).detach()", "x.detach().clone()")).outcome == "proven"


@pytest.mark.usefixtures("compiled")
def test_a_method_that_forward_never_calls_is_called(prove: Prove) -> None:
    code = model("self.n += 1\nh = h * self.n").rstrip() + "\n\n    def reset(self):\n        self.n = 5\n"
    edits = [
        ("self.n = 0", 'self.register_buffer("n", torch.tensor(0), persistent=False)'),
        ("self.n += 1", "self.n = self.n + 1"),
    ]
    good = prove(code, *edits, ("self.n = 5", "self.n = torch.tensor(5)"), category="recompile")
    assert good.outcome == "proven", good
    bad = prove(code, *edits, ("self.n = 5", "self.n = torch.tensor(6)"), category="recompile")
    assert bad.outcome == "refuted"
    assert "attribute n: 5 became 6, with a call to Model.reset()" in bad.detail


@pytest.mark.parametrize(
    ("edits", "told"),
    [
        ([("self.n += 1", "self.n = self.n + 1")], "recompiles for the same kind of inputs"),
        (
            [
                ("self.n = 0", 'self.register_buffer("n", torch.tensor(0), persistent=False)'),
                ("self.n += 1", "self.n.add_(1)"),
            ],
            "has been modified by an inplace operation",
        ),
        (
            [
                ("self.n = 0", 'self.register_buffer("n", torch.tensor(0))'),
                ("self.n += 1", "self.n = self.n + 1"),
            ],
            "state_dict: n after but not before",
        ),
    ],
    ids=["still a number", "in place", "persistent"],
)
@pytest.mark.usefixtures("compiled")
def test_a_counter_done_wrong_is_refuted(prove: Prove, edits: list[tuple[str, str]], told: str) -> None:
    verification = prove(model("self.n += 1\nh = h * self.n"), *edits, category="recompile")
    assert verification.outcome == "refuted", verification
    assert told in verification.detail


@pytest.mark.usefixtures("compiled")
def test_a_break_that_stays_is_told(prove: Prove) -> None:
    body = "print('hello')"
    verification = prove(model(body), (body, "print('hel' + 'lo')"), gb=("GB0059", "GB0149"))
    assert verification.outcome == "refuted", verification
    assert "Dynamo still breaks the graph in the new code" in verification.detail


@pytest.mark.usefixtures("compiled")
def test_a_break_elsewhere_is_no_fault_of_the_fix(prove: Prove) -> None:
    verification = prove(
        model(f"{BRANCH.strip()}\nprint('hello')"), (BRANCH, "h = torch.where(h.sum() > 0, h * 2, h - 1)")
    )
    assert verification.outcome == "proven", verification
    assert verification.detail.endswith("there are still breaks elsewhere")


@pytest.mark.usefixtures("compiled")
def test_what_is_taken_out_has_no_part_in_what_breaks_after_it(prove: Prove) -> None:
    body = "h.detach(); h = h * 2 if h.sum() > 0 else h - 1"
    verification = prove(model(body), ("h.detach(); ", ""), gb=("GB0170",))
    assert verification.outcome == "proven", verification
    assert verification.detail.endswith("there are still breaks elsewhere")


def test_rounding_counts_only_where_the_fix_says_so(prove: Prove) -> None:
    edit = ("h = h / 3", "h = h * (1 / 3)")
    assert prove(model("h = h / 3"), edit).outcome == "refuted"
    verification = prove(model("h = h / 3"), edit, safety="conditional", conditions=("equal up to rounding",))
    assert verification.outcome == "proven", verification


def test_code_that_differs_from_itself_proves_nothing(prove: Prove) -> None:
    # The part of a second, as that of all seconds since the machine was started may be the same in float32.
    body = "import time; h = h * (time.perf_counter() % 1)"
    verification = prove(model(body), (body, "import time; h = (time.perf_counter() % 1) * h"))
    assert verification.outcome == "unverifiable"
    assert "gives different results in every run" in verification.detail


def test_comments_and_layout_need_no_run(prove: Prove) -> None:
    verification = prove(model("h = h * 2  # noqa"), ("h = h * 2  # noqa", "h = (h * 2)"))
    assert verification.outcome == "proven"
    assert verification.inputs == 0


def test_functions_and_globals(prove: Prove) -> None:
    code = """
    import torch

    CALLS = []

    def scale(x):
        CALLS.append(1)
        if x.sum() > 0:
            return x * 2
        return x * 3
    """
    edit = ("if x.sum() > 0:\n    return x * 2\nreturn x * 3", "return torch.where(x.sum() > 0, x * 2, x * 3)")
    assert prove(code, edit, target="scale").outcome == "proven"
    verification = prove(code, ("CALLS.append(1)", "CALLS.append(2)"), target="scale")
    assert verification.outcome == "refuted"
    assert "global model.CALLS[0]: 1 became 2" in verification.detail


def test_original_that_always_fails_proves_nothing(prove: Prove) -> None:
    verification = prove(model("h = h @ h"), ("h = h @ h", "h = h @ h + 0"))
    assert verification.outcome == "unverifiable"
    assert "on every input" in verification.detail


def test_each_version_has_its_own_environment(prove: Prove) -> None:
    body = """
os.environ["STEP"] = str(int(os.environ.get("STEP", "1")) + 1)
h = h * int(os.environ["STEP"])
"""
    code = model(body).replace("import torch\n", "import os\nimport torch\n", 1)
    verification = prove(code, ('int(os.environ["STEP"])', 'int(os.environ.get("STEP"))'))
    assert "in every run" not in verification.detail
    assert verification.inputs > 30


def test_a_right_side_that_no_input_reaches_is_not_proven_either(prove: Prove) -> None:
    """The inputs that would get there are those on which the other side could raise, and none of them was seen."""
    never = "if x.abs().min() < -1:\n    h = h * 2"
    verification = prove(model(never), (never, "h = torch.where(x.abs().min() < -1, h * 2, h)"), safety="conditional")
    assert verification.outcome == "unverifiable", verification.detail


def test_the_compiler_is_not_asked_where_nothing_of_the_fix_ran(prove: Prove, monkeypatch: pytest.MonkeyPatch) -> None:
    from dynalint.confirm.worker.operations import verifying

    asked: list[object] = []
    monkeypatch.setattr(verifying, "compiled_after", lambda *given: asked.append(given) or {"problem": "asked"})
    code = """
        import torch
        from torch import nn

        class Model(nn.Module):
            def forward(self, x):
                if x.shape[1] == 5:
                    x = x * 2
                return x{after}
    """
    other = ("x = x * 2", "x = x + x")
    assert prove(code.format(after=""), other).outcome == "unverifiable"
    assert not asked
    assert prove(code.format(after=" * 2"), other, ("return x * 2", "return x + x")).outcome == "unverifiable"
    assert asked


def test_a_side_that_only_half_precision_reaches(prove: Prove) -> None:
    branch = "if h.dtype == torch.float16 and torch.isinf(h).any():\n    h = torch.clamp(h, min=-6e4, max=6e4)"
    kept = (
        "if h.dtype == torch.float16:\n    h = torch.where(torch.isinf(h).any(), torch.clamp(h, min=-6e4, max=6e4), h)"
    )
    verification = prove(model(branch), (branch, kept), safety="conditional")
    assert verification.outcome == "proven", verification
    wrong = prove(model(branch), (branch, kept.replace("max=6e4", "max=5e4")), safety="conditional")
    assert wrong.outcome == "refuted", wrong
    assert "with all in half precision" in wrong.detail


def test_an_edge_leaves_the_number_that_led_to_a_side() -> None:
    import torch

    from dynalint.confirm.worker.comparing.trials import ElementChange, at_edges, random_trials

    call = ((torch.zeros(3, 4), torch.zeros(3, 4)), {})
    led = replace(next(random_trials()), spoilt=(ElementChange(float("inf"), (1, None)),))
    place = torch.isinf(led.of(call)[0][1])
    edges = [trial.of(call)[0] for trial in at_edges([led]) if "first tensor infinite" in trial.name]
    assert edges
    for first, other in edges:
        assert torch.isinf(first).sum() == 1
        assert torch.equal(torch.isinf(other), place)


def test_sparse_tensors_stay_as_they_are_given() -> None:
    """What cannot be filled element by element is no reason to prove nothing of the other inputs."""
    import torch

    from dynalint.confirm.worker.comparing.trials import BASE, USUAL, at_edges

    sparse, dense = torch.eye(4).to_sparse().requires_grad_(), torch.ones(4, 3)
    others = set()
    for trial in (BASE, *USUAL, replace(BASE, alike=True), *at_edges([BASE])):
        (first, second), _ = trial.of(((sparse, dense), {}))
        assert first is not sparse
        assert first.is_sparse
        assert first.requires_grad
        assert torch.equal(first.to_dense(), torch.eye(4))
        others.add(tuple(second.flatten().tolist()))
    assert len(others) > len(USUAL)


def test_files_are_not_compared_with_themselves(prove: Prove, monkeypatch: pytest.MonkeyPatch) -> None:
    """If something imports the file itself, and not its text before or after the fix, nothing is shown."""
    from dynalint.confirm.worker.source import loading

    monkeypatch.setattr(loading._OverridingFinder, "override", lambda *_: None)
    code = "import torch\n\nFACTOR = 2\n\n\ndef scaled(x):\n    return x * FACTOR\n"
    verification = prove(code, ("FACTOR = 2", "FACTOR = 3"), target="scaled")
    assert verification.outcome == "unverifiable", verification
    assert "does not allow its text to be replaced" in verification.detail


SCRIPTED = """
import torch

@torch.jit.script
def clipped(x):
    if x.sum() > 0:
        return x.clamp(max=1)
    return x

class Model(torch.nn.Module):
    def forward(self, x):
        return clipped(x * 2)
"""
IN_SCRIPT = "    if x.sum() > 0:\n        return x.clamp(max=1)\n    return x\n"


def test_a_function_that_torch_script_compiles_is_compared(prove: Prove) -> None:
    fix = "    return torch.where(x.sum() > 0, x.clamp(max=1), x)\n"
    verification = prove(SCRIPTED, (IN_SCRIPT, fix), gb=("GB0170",))
    assert verification.outcome == "proven", verification


def test_a_fix_that_torch_script_cannot_compile_is_not_proven(prove: Prove) -> None:
    fix = "    limits = {'max': 1}\n    return torch.where(x.sum() > 0, x.clamp(**limits), x)\n"
    verification = prove(SCRIPTED, (IN_SCRIPT, fix), gb=("GB0170",))
    assert verification.outcome != "proven", verification
