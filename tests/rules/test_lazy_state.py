"""State that every first call makes is a recompilation; what else decides about it leaves it advice."""

from __future__ import annotations

import pytest

import dynalint
from dynalint.rulebook.pages import Example
from dynalint.testing.cases import Case
from dynalint.testing.static import StaticView
from dynalint_rules.state.lazy_state import LazyState

_MODEL = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, given=None):
        super().__init__()
        {first}

    def forward(self, x: torch.Tensor, flag: bool):
        {lines}
        return x * 2
"""

_UNDER_A_TEST = "if self.mask is None:\n            self.mask = torch.ones(8)"


@pytest.mark.parametrize(
    ("first", "lines", "category"),
    [
        ("self.mask = None", _UNDER_A_TEST, "recompile"),
        ("self.mask = given", _UNDER_A_TEST, "recompile"),
        ("self.mask = given or flag", _UNDER_A_TEST, "advice"),
        ("self.ready = False", "if not self.ready:\n            self.ready = True", "recompile"),
        ("self.ready = False", "if not self.ready:\n            self.ready = flag", "advice"),
        ("self.mem = torch.zeros(0)", "if self.mem.shape != x.shape:\n            self.mem = x * 1", "recompile"),
        ("self.mem = torch.zeros(8)", "if self.mem.shape != x.shape:\n            self.mem = x * 1", "advice"),
        ("self.mem = torch.zeros(0)", "if self.mem.numel() == 0:\n            self.mem = x * 1", "recompile"),
        ("self.mask = None", "if flag:\n            return x\n        " + _UNDER_A_TEST, "advice"),
        ("self.mask = None", _UNDER_A_TEST.replace("is None", "is None and flag"), "advice"),
        ("self.mask = None", _UNDER_A_TEST.replace("is None", "is None or flag"), "recompile"),
        ("self.mask = None", _UNDER_A_TEST.replace("if self", "if flag or self"), "advice"),
        (
            "self.mask = None",
            "if flag and self.mask is not None:\n            return x * self.mask\n        self.mask = torch.ones(8)",
            "advice",
        ),
        (
            "self.mask = None",
            "if self.mask is not None and flag:\n            return x * self.mask\n        self.mask = torch.ones(8)",
            "recompile",
        ),
        (
            "self.masks = {}",
            "mask = self.masks.get(8)\n        if mask is None:\n            self.masks[8] = torch.ones(8)",
            "recompile",
        ),
    ],
)
def test_whether_the_first_call_makes_it(first: str, lines: str, category: str) -> None:
    found = dynalint.check_source("m.py", _MODEL.format(first=first, lines=lines))
    assert [(one.code, one.category) for one in found] == [("DYN508", category)]


@pytest.mark.parametrize(
    "lines",
    [
        "if self.mask is not None and self.mask.size(0) != 8:\n            self.mask = torch.ones(8)",
        "mask = given = x\n        if mask is None:\n            self.mask = torch.ones(8)",
        "if self.mask is None:\n            return x\n        self.mask = torch.ones(8)",
        "if self.mask is not None:\n            return x\n        if flag:\n            self.mask = torch.ones(8)",
    ],
)
def test_what_is_replaced_where_it_is_there_is_not_made_by_the_first_call(lines: str) -> None:
    assert not dynalint.check_source("m.py", _MODEL.format(first="self.mask = None", lines=lines))


def test_what_is_asked_for_an_attribute_is_there_before_the_first_call() -> None:
    lines = "self.mask = torch.relu(self.mask.to_dense())"
    assert not dynalint.check_source("m.py", _MODEL.format(first="self.mask = given", lines=lines))
    lines = "self.mask = torch.ones(8) if self.mask is None else torch.relu(self.mask)"
    found = dynalint.check_source("m.py", _MODEL.format(first="self.mask = given", lines=lines))
    assert [(one.code, one.category) for one in found] == [("DYN508", "recompile")]


def test_what_is_made_before_it_is_changed_is_told_of_once() -> None:
    lines = _UNDER_A_TEST + "\n        self.mask = self.mask * 2"
    found = dynalint.check_source("m.py", _MODEL.format(first="self.mask = None", lines=lines))
    assert [(one.code, one.line) for one in found] == [("DYN508", 12)]


_FLAG = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, cached={default}):
        super().__init__()
        self.cached = cached
        self.mask = None

    def forward(self, x: torch.Tensor):
        {lines}
        return x * 2
{rest}"""


@pytest.mark.parametrize(
    "lines",
    [
        "if not self.cached or self.mask is None:\n            self.mask = x * 1",
        "if self.cached and self.mask is None:\n            self.mask = x * 1",
        "if self.cached:\n            if self.mask is None:\n                self.mask = x * 1",
        "mask = self.mask\n        if mask is None and self.cached:\n            self.mask = x * 1",
    ],
)
def test_flag_has_its_default_unless_code_sets_it(lines: str) -> None:
    def category(default: str, rest: str = "") -> str:
        found = dynalint.check_source("m.py", _FLAG.format(default=default, lines=lines, rest=rest))
        return next(one.category for one in found if one.code == "DYN508")

    assert category("True") == "recompile"
    assert category("False") == "advice"
    assert category("True", "\n    def off(self):\n        self.cached = False\n") == "advice"
    assert category("True", "\nmodel = Model(cached=False)\n") == "advice"
    assert category("True", "\ndef other(cached):\n    return Model(cached=cached)\n") == "advice"
    assert category("True", "\nmodel = Other(cached=False)\n") == "recompile"


_FLAGGED = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.empty(0, 0))

    def part(self, x, causal: bool = {default}):
        size = x.shape[0]
        {before}
        if {test}:
            self.mask = torch.ones(size, size)
        return x * 2

    def forward(self, x: torch.Tensor):
        return self.part(x{given})
"""


@pytest.mark.parametrize(
    ("default", "before", "test", "given", "category"),
    [
        ("True", "pass", "causal and self.mask.shape != (size, size)", "", "recompile"),
        ("True", "pass", "causal and (self.mask.shape[0] < size or self.mask.device != x.device)", "", "recompile"),
        ("False", "pass", "not causal and self.mask.shape[0] < size", "", "recompile"),
        ("True", "pass", "causal and self.mask.shape[0] < size", ", True", "recompile"),
        ("True", "pass", "causal and self.mask.shape[0] < size", ", causal=True", "recompile"),
        ("True", "pass", "causal and self.mask.shape[0] < size", ", self.training", "advice"),
        ("True", "pass", "causal and self.mask.shape[0] < size", ", causal=self.training", "advice"),
        ("True", "pass", "causal and self.mask.shape[0] < size", ", *[self.training]", "advice"),
        ("True", "causal = causal and size > 9", "causal and self.mask.shape[0] < size", "", "advice"),
        ("1", "pass", "causal and self.mask.shape[0] < size", "", "advice"),
    ],
)
def test_flags_of_the_function_that_have_their_defaults(
    default: str, before: str, test: str, given: str, category: str
) -> None:
    code = _FLAGGED.format(default=default, before=before, test=test, given=given)
    (found,) = [one for one in dynalint.check_source("m.py", code) if one.code == "DYN508"]
    assert found.category == category


@pytest.mark.parametrize(
    ("made", "moved", "device", "category"),
    [
        ("torch.ones(8)", "self.table.to(x.device)", "cuda", "recompile"),
        ("torch.ones(8)", "self.table.to(x)", "cuda", "recompile"),
        ("torch.ones(8)", "self.table.to(x.device)", "cpu", "advice"),
        ("torch.ones(8)", "self.table.to(x.dtype)", "cuda", "advice"),
        ("torch.ones(8, device=given)", "self.table.to(x.device)", "cuda", "advice"),
        ("torch.ones(8).cuda()", "self.table.to(x.device)", "cuda", "advice"),
    ],
)
def test_a_tensor_that_is_moved_to_the_gpu(made: str, moved: str, device: str, category: str) -> None:
    code = _MODEL.format(first=f"self.table = {made}", lines=f"self.table = {moved}")
    view = StaticView(Case(LazyState(), Example("x", code, options={"device": device})), [LazyState()])
    assert [one.flag.violation.category or one.flag.rule.category for one in view.own] == [category]
