"""Recompilations that are not claimed, because Dynamo may run the code that would recompile in eager mode.

Where a claim is false, torch 2.13 was run.
"""

from __future__ import annotations

import pytest

import dynalint

_START = """\
import torch
from torch import nn


"""


def _claims(code: str) -> list[str]:
    """Return the codes of the claims. Those about code that is rarely compiled do not count."""
    found = dynalint.check_source("model.py", _START + code)
    return [one.code for one in found if one.category == "recompile" and not one.doubt]


_COUNT = """\
def chosen(x: torch.Tensor, scale: float = 1.0):
    {helper}
    return x * scale


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 0
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, labels, names):
        x = self.layer(x)
        {body}
        return x
"""


@pytest.mark.parametrize(
    ("body", "helper", "claimed"),
    [
        ("self.n += 1", "pass", True),
        ("for one in x: x = chosen(one)\n        self.n += 1", "pass", True),
        # The call may break the graph, and Dynamo cannot resume in the loop around it.
        ("for one in x: x = chosen(one)\n        self.n += 1", "if scale > 1 and x.sum() > 0: return x", False),
        ("x = chosen(x)\n        self.n += 1", "if scale > 1 and x.sum() > 0: return x", True),
        # The compared values may be tensors.
        ("for i in range(3):\n            self.n += 1\n            if labels[i] == names[i]: x = x + 1", "pass", False),
        ("for i in range(3):\n            self.n += 1\n            if i == 2: x = x + 1", "pass", True),
    ],
)
def test_a_count_in_a_function_that_may_be_given_up(body: str, helper: str, claimed: bool) -> None:
    assert _claims(_COUNT.format(body=body, helper=helper)) == ["DYN501"] * claimed


@pytest.mark.parametrize(
    ("test", "claimed"),
    [("any(n < 3 for n in x.sum(-1))", False), ("any([n < 3 for n in x.sum(-1)])", True), ("x.sum() < 3", True)],
)
def test_a_generator_over_tensors_ends_the_function(test: str, claimed: bool) -> None:
    """The code after a break is not compiled for the number that was read before the generator."""
    code = f"@torch.compile\ndef f(x: torch.Tensor):\n    m = x.max().item()\n    if {test}:\n        x = x + m\n    return x * m\n"
    found = [one.code for one in dynalint.check_source("model.py", _START + code)]
    assert ("DYN804" in found) is claimed


_CALLED = """\
class Cache:
    def __init__(self):
        self.misses = 0

    def get(self, x, key: int):
        self.misses += 1
        return {result}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.cache = Cache()

    def forward(self, x: torch.Tensor):
        {loop}
            x = x * 2
            self.cache.get(x, 3)
        return x
"""


@pytest.mark.parametrize(
    ("loop", "result", "claimed"),
    [
        ("for i in x.long().tolist():", "key", False),
        ("for i in x.long().tolist():", "x + 1", True),
        ("for i in range(3):", "key", True),
        ("for i in range(3):", "x.store.read(key)", False),
        ("for i in range(3):", "x + 1", True),
    ],
)
def test_a_method_of_a_plain_object(loop: str, result: str, claimed: bool) -> None:
    code = _CALLED.format(loop=loop, result=result)
    if "tolist" in loop:
        code = code.replace("x = x * 2", "x = x * 2 if (x > i).any() else x")
    assert ("DYN501" in _claims(code)) is claimed


_LAZY = """\
class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, 4)
        self.h = None

    def reset(self, x):
        self.h = torch.zeros(len(x), 4)

    def forward(self, x: torch.Tensor):
        self.reset(x)
        return self.step(x)

    def step(self, x: torch.Tensor):
        self.h = self.cell(x, self.h)
        return self.h
"""


def test_state_that_another_method_always_sets_first() -> None:
    assert "DYN508" not in _claims(_LAZY)


_PAIR = """\
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    @property
    def first(self):
        if not hasattr(self, "_first"):
            self._first = slice(0, 2)
        return self._first

    @property
    def second(self):
        if not hasattr(self, "_second"):
            {also}
            self._second = slice(2, 4)
        return self._second

    def forward(self, x: torch.Tensor):
        x = self.layer(x)
        return x[self.second] + x[self.first]
"""


@pytest.mark.parametrize(("also", "claims"), [("pass", 2), ("self._first = slice(0, 2)", 1)])
def test_properties_that_set_the_state_of_each_other(also: str, claims: int) -> None:
    assert _claims(_PAIR.format(also=also)) == ["DYN508"] * claims


_SELECTION = """\
@torch.compile
def f(x: torch.Tensor, model, keep=0.5):
    mask = torch.rand(len(x)) < keep
    {body}
"""


@pytest.mark.parametrize(
    ("body", "claimed"),
    [
        ("return x[mask] * 2", True),
        ("y = x[mask]; return y.sum()", True),
        ("y = x[mask]; return y, x.sum()", False),
        ("y = x[mask]; return model(y)", False),
        ("y = x[mask]; return y.tolist()", False),
    ],
)
def test_a_selection_counts_if_a_tensor_operation_uses_it(body: str, claimed: bool) -> None:
    assert ("DYN806" in _claims(_SELECTION.format(body=body.replace("; ", "\n    ")))) is claimed


def test_a_selection_from_a_sparse_tensor() -> None:
    body = "mask = torch.rand(x._values().size()) < keep\n    return x._values()[mask] * 2"
    assert "DYN806" not in _claims(_SELECTION.format(body=body))


_BUILT = """\
class once:
    def __init__(self, build):
        self.build, self.ran = build, set()

    def __call__(self, model, x):
        if model not in self.ran:
            self.ran.add(model)
            self.build(model, x)


def plain(build):
    return build


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = None

    {decorator}
    def make(self, x):
        if self.scale is None:
            self.scale = torch.ones(x.shape[-1])

    def forward(self, x: torch.Tensor):
        {call}
        return x * self.scale
"""


@pytest.mark.parametrize(("decorator", "claimed"), [("@once", False), ("@plain", True)])
def test_a_method_that_an_object_of_the_project_replaces(decorator: str, claimed: bool) -> None:
    call = "Model.make(self, x)" if decorator == "@once" else "self.make(x)"
    assert ("DYN508" in _claims(_BUILT.format(decorator=decorator, call=call))) is claimed


_TAKEN = """\
class Stage(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.outputs = []

    def forward(self, x: torch.Tensor):
        x = self.layer(x)
        self.outputs.append(x)
        return x

    def take(self):
        {take}
"""


@pytest.mark.parametrize(
    ("take", "claimed"),
    [("return self.outputs.pop(0)", False), ("self.outputs.clear()", True), ("return self.outputs", True)],
)
def test_items_that_other_code_takes_out_one_by_one(take: str, claimed: bool) -> None:
    assert ("DYN503" in _claims(_TAKEN.format(take=take))) is claimed


_OPTION = """\
class ModelConfig:
    def __init__(self, log={default}):
        self.log = log


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.layer = nn.Linear(4, 4)
        self.n = 0

    def forward(self, x: torch.Tensor):
        loss = self.layer(x).mean()
        if self.training and self.config.log:
            self.n += 1
        return loss


def make():
    return Model(ModelConfig({passed}))
"""


@pytest.mark.parametrize(
    ("default", "passed", "claimed"), [("False", "", False), ("True", "", True), ("False", "log=True", True)]
)
def test_options_in_a_class_of_settings(default: str, passed: str, claimed: bool) -> None:
    claims = _claims(_OPTION.format(default=default, passed=passed))
    assert claims == ["DYN501"] * claimed


_BASE = """\
class Base(nn.Module):
    def __init__(self, profile):
        super().__init__()
        self.profile, self.n = profile, 0


class Model(Base):
    def __init__(self, profile=False):
        super().__init__(profile)
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor):
        if self.profile:
            self.n += 1
        return self.layer(x)


def make({taken}):
    return Model({passed})
"""


@pytest.mark.parametrize(
    ("taken", "passed", "claimed"),
    [("", "", False), ("profile=False", "profile", False), ("profile", "profile", True), ("", "True", True)],
)
def test_options_that_are_passed_on(taken: str, passed: str, claimed: bool) -> None:
    assert _claims(_BASE.format(taken=taken, passed=passed)) == ["DYN501"] * claimed


_ONCE = """\
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts, self.ready = [], False
        self.layer = nn.Linear(4, 4)

    def make(self, x):
        self.parts.append(x.shape[0])

    def forward(self, x: torch.Tensor):
        if not self.ready:
            self.make(x)
            {then}
        return self.layer(x)
"""


@pytest.mark.parametrize(("then", "codes"), [("self.ready = True", ["DYN508"]), ("pass", ["DYN503"])])
def test_a_list_that_only_the_first_call_fills(then: str, codes: list[str]) -> None:
    assert _claims(_ONCE.format(then=then)) == codes


_LONGER = """\
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.length = 0
        self.table = torch.zeros(0, 4)

    def extend(self, length):
        {test}
        self.table = torch.cat([self.table, torch.ones(length - self.length, 4)])
        self.length = length

    def forward(self, x: torch.Tensor):
        self.extend(len(x))
        return x + self.table[: len(x)]
"""


@pytest.mark.parametrize(("test", "claimed"), [("if length <= self.length: return", False), ("pass", True)])
def test_a_tensor_that_is_only_extended_if_it_is_too_short(test: str, claimed: bool) -> None:
    assert ("DYN511" in _claims(_LONGER.format(test=test))) is claimed


def test_a_number_read_in_an_autograd_function() -> None:
    code = """\
class Clamped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, grid):
        x = x.clamp(-grid.item(), grid.item())
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("grid", torch.ones(()))

    def forward(self, x: torch.Tensor):
        return Clamped.apply(x, self.grid * x.amax())
"""
    assert "DYN804" not in [one.code for one in dynalint.check_source("model.py", _START + code)]
