"""What one break hides from the rules is advice, and says which line hides it."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters

import dynalint
from dynalint.testing.running import Program

pytestmark = [pytest.mark.dynamo, pytest.mark.usefixtures("torch_is_no_burden")]

_MODEL = """\
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 8)
        self.gru = nn.GRU(8, 8)

    def forward(self, x, flag: bool):
        if flag:
            x, _ = self.lstm(x)
        if x.mean() > 0:
            x = x * 2
        if x.shape[0] > 2:
            x, _ = self.lstm(x)
        else:
            x, _ = self.gru(x)
        return x.sum().item()
"""


def test_a_recurrent_layer_hides_what_comes_after_it_on_every_way() -> None:
    found = {one.line: one for one in dynalint.check_source("m.py", _MODEL)}
    categories = {line: one.category for line, one in found.items()}
    assert categories == {12: "graph-break", 13: "graph-break", 16: "graph-break", 18: "graph-break", 19: "advice"}
    assert "in eager mode because of line 18" in found[19].message


def test_a_break_in_a_loop_hides_what_comes_after_it_where_its_argument_is_given() -> None:
    code = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None):
        lengths = []
        for row in x:
            if mask is not None:
                row = row[mask > 0]
            lengths.append(row.sum().item())
        return lengths
"""
    first, second = [one for one in dynalint.check_source("m.py", code) if one.line > 8]
    assert (first.line, first.category, second.line, second.category) == (10, "graph-break", 11, "advice")
    assert "if line 10 runs" in second.message


def test_the_two_arms_of_a_test_for_an_argument_hide_nothing_from_each_other() -> None:
    code = """\
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(8, 8)

    def forward(self, x, state=None):
        if state is not None:
            return self.gru(x, state)
        else:
            return self.gru(x)
"""
    assert [one.category for one in dynalint.check_source("m.py", code)] == ["graph-break", "graph-break"]


def test_a_call_of_one_of_several_functions_that_all_break_is_certain() -> None:
    code = """\
import random
from functools import partial

from torch import nn


class Model(nn.Module):
    def __init__(self, often: bool):
        super().__init__()
        self.draw = partial(random.choices, k=2) if often else random.sample

    def forward(self, x):
        return x * self.draw([1, 2], k=2)[0]
"""
    # Later releases trace `random.sample` and only break the graph at the other function.
    found = dynalint.check_source("m.py", code, settings={"torch": "2.13"})
    assert {one.category for one in found if one.line == 13} == {"graph-break"}


def test_a_call_of_one_of_several_layers_is_advice() -> None:
    code = """\
from torch import nn


class Model(nn.Module):
    def __init__(self, adaptive: bool):
        super().__init__()
        self.rnn = nn.LSTM(8, 8) if adaptive else nn.Linear(8, 8)

    def forward(self, x):
        return self.rnn(x)
"""
    (found,) = dynalint.check_source("m.py", code)
    assert (found.line, found.code, found.category) == (10, "DYN601", "advice")
    assert "`self.rnn` may refer to something else" in found.message


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="comprehensions are part of the function around them")
def test_a_comprehension_with_tensors_is_compiled_alone_where_dynamo_gives_up_the_function_around_it() -> None:
    code = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 8)

    def forward(self, x: torch.Tensor, sizes: torch.Tensor):
        x, _ = self.lstm(x)
        parts = [x[: sizes[index]] for index in range(2)]
        rows = [row for row in x[: sizes[0]]]
        numbers = [row.sum().item() for row in x]
        return parts, rows, numbers, x[: sizes[1]]
"""
    found = {one.line: one.category for one in dynalint.check_source("m.py", code)}
    assert found == {11: "graph-break", 12: "graph-break", 13: "advice", 14: "advice", 15: "advice"}
    namespace: dict[str, Any] = {}
    exec(compile(code, "m.py", "exec"), namespace)
    torch._dynamo.reset()
    counters.clear()
    torch.compile(namespace["Model"](), backend="eager")(torch.randn(4, 8), torch.tensor([1, 2]))
    # From torch 2.15 on, Dynamo only breaks the graph where the layer is called.
    layer = {"Attempted to wrap RNN, GRU, or LSTM", "Unsupported function call (delayed)"}
    reasons = {reason.splitlines()[0] for kind in ("unimplemented", "graph_break") for reason in counters[kind]}
    assert reasons & layer
    assert reasons - layer == {"Unsupported Tensor.item() call with capture_scalar_outputs=False"}


def test_a_number_that_only_some_runs_read_is_no_failure_of_other_rules() -> None:
    code = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor, least=None):
        return x, int(x.max()) + 1 if x.numel() > least else 0
"""
    assert [(one.code, one.category) for one in dynalint.check_source("m.py", code)] == [("DYN202", "advice")]


@pytest.mark.parametrize(("condition", "found"), [("", True), ("if debug:\n        ", False)])
def test_a_generator_is_flagged_only_where_its_elements_break_on_every_way(condition: str, found: bool) -> None:
    code = f"""\
import torch
from torch import nn


def scaled(row, debug: bool):
    {condition}row = row * row.sum().item()
    return row


class Model(nn.Module):
    def forward(self, x: torch.Tensor, debug: bool):
        return sum(scaled(row, debug) for row in x)
"""
    codes = {one.code for one in dynalint.check_source("m.py", code)}
    assert "DYN201" in codes
    assert ("DYN719" in codes) == found


def test_a_list_comprehension_in_place_of_the_generator_keeps_the_function() -> None:
    code = """\
import torch


def scaled(row):
    return row * row.sum().item()


def over_generator(x):
    return sum(scaled(row) for row in torch.relu(x)) + 1


def over_list(x):
    return sum([scaled(row) for row in torch.relu(x)]) + 1
"""
    namespace: dict[str, Any] = {}
    exec(compile(code, "m.py", "exec"), namespace)
    broken = {}
    for name in ("over_generator", "over_list"):
        torch._dynamo.reset()
        counters.clear()
        torch.compile(namespace[name], backend="eager")(torch.randn(4, 8))
        broken[name] = {reason.splitlines()[0] for reason in counters["unimplemented"]}
    assert "Generator reconstruction with mutations" in broken["over_generator"]
    assert "Generator reconstruction with mutations" not in broken["over_list"]


# Since Python 3.12, the bytecode of a loop that ends in an `if` has a backward jump before the body of the `if`.
BEFORE_3_12 = sys.version_info < (3, 12)
_LOOP = """\
import torch
from torch import nn


def scaled(row):
    return row * row.sum().item()


def mostly(row, debug):
    return row * row.sum().item() if debug else row


class Model(nn.Module):
    def forward(self, x: torch.Tensor, debug: bool):
        for i in range(2):
            {body}
        return x * x.mean().item()
"""


@pytest.mark.parametrize(
    ("body", "resumes"),
    [
        ("x = x * x.sum().item()", False),
        ("if x.sum() > 100: return x", BEFORE_3_12),
        ("x = x * x.sum().item()\n            if debug: return x", BEFORE_3_12),
        ("x = x * x.sum().item()\n            if debug: break\n            if i == 7: return x", BEFORE_3_12),
        ("x = x * x.sum().item()\n            if debug: return x\n            x = x + 1", True),
        ("x = x * x.sum().item()\n            if debug: continue\n            if i: return x", False),
        ("x = x * x.sum().item()\n            if debug: x = x + 1\n            else: return x", False),
        (
            "x = x * x.sum().item()\n            for j in range(2):\n                if i: continue\n            if i == 7: return x",
            BEFORE_3_12,
        ),
        ("for j in range(2): x = x * x.sum().item()\n            if debug: return x", False),
        ("x = scaled(x)", False),
        ("x = scaled(x)\n            if debug: return x", BEFORE_3_12),
        ("x = scaled(x) if debug else x", True),
        ("x = mostly(x, debug)", True),
        ("x = x + 1\n        x = scaled(x)", True),
    ],
)
def test_dynamo_resumes_after_a_break_in_a_loop_only_where_a_return_comes_next(body: str, resumes: bool) -> None:
    code = _LOOP.format(body=body)
    last = code.count("\n")
    (found,) = (one for one in dynalint.check_source("m.py", code) if one.line == last and one.code == "DYN201")
    assert (found.category == "graph-break") == resumes

    program = Program(code, "Model()", "[(torch.ones(3), False)]")
    if "debug else" not in body and "mostly" not in body:
        broken = {one.stack[-1].line for one in program.observed.run.breaks}
        assert (last in broken) == resumes


@pytest.mark.parametrize(
    ("rest", "found"),
    [
        ("for row in h:\n            x = scaled(x)", True),
        ("for row in h:\n            x = x * row.sum().item()", True),
        ("y = torch.zeros(3).abs()\n        for row in h:\n            x = scaled(x)", True),
        ("for row in h:\n            x = scaled(x)\n            if debug:\n                return x", False),
        ("for row in h:\n            x = scaled(x) if debug else x", False),
        ("if debug:\n            for row in h:\n                x = x * row.sum().item()", False),
        ("print(x)\n        for row in h:\n            x = scaled(x)", False),
        ("x = scaled(x)\n        for row in h:\n            x = scaled(x)", False),
        ("x = other(x)\n        for row in h:\n            x = scaled(x)", False),
        ("x = scaled(x)", False),
        ("x = [scaled(row) for row in h]", False),
        ("x = x * h[0].sum().item()", False),
        ("while x.sum() > 4:\n            x = x - 1", False),
        ("for row in h:\n            x = x * row", False),
    ],
)
def test_a_comprehension_is_flagged_only_where_the_function_is_given_up(rest: str, found: bool) -> None:
    code = f"""\
import torch
from torch import nn
from elsewhere import other


def scaled(row):
    return row * row.sum().item()


class Model(nn.Module):
    def forward(self, x: torch.Tensor, debug: bool):
        factors = [1, 2]
        factors.append(3)
        h = [x * factor for factor in factors]
        {rest}
        return x, h
"""
    line = 1 + code[: code.index("h = [x")].count("\n")
    codes = {one.code for one in dynalint.check_source("m.py", code) if one.line == line}
    assert ("DYN720" in codes) == (found and sys.version_info < (3, 12))

    code = code.replace("from elsewhere import other", "from builtins import abs as other")
    program = Program(code, "Model()", "[(torch.ones(3), False)]")
    if "other(" not in rest:
        broken = {one.stack[-1].line for one in program.observed.run.breaks}
        assert (line in broken) == (found and sys.version_info < (3, 12))


@pytest.mark.parametrize(
    ("check", "category"),
    [
        ("if not (n > 0 and m > 0 and (x > 0).all()):\n        raise ValueError", "graph-break"),
        ("if n < 1 or not (x > 0).all():\n        raise ValueError", "graph-break"),
        ("if n > 0 and (x > 0).all():\n        x = x + 1\n    else:\n        raise ValueError", "graph-break"),
        ("assert n > 0 and not (m > 0 and x.sum() < 0)", "advice"),
        ("if n < 1 and not (x > 0).all():\n        raise ValueError", "advice"),
        ("if n < 1 or not (x > 0).all():\n        x = x + 1", "advice"),
        ("if x.shape == x.shape and (x > 0).all():\n        x = x + 1", "graph-break"),
        ("if x.size() != x.size() or not (x > 0).all():\n        x = x + 1", "graph-break"),
        ("if x.shape == x.size() or not (x > 0).all():\n        x = x + 1", "advice"),
    ],
)
def test_whoever_passes_a_check_has_asked_all_that_must_hold(check: str, category: str) -> None:
    code = f"""\
import torch


@torch.compile
def checked(x: torch.Tensor, n: int, m: int):
    {check}
    return x * 2
"""
    assert {one.category for one in dynalint.check_source("m.py", code)} == {category}
    namespace: dict[str, Any] = {}
    exec(compile(code.replace("@torch.compile", '@torch.compile(backend="eager")'), "m.py", "exec"), namespace)
    torch._dynamo.reset()
    counters.clear()
    namespace["checked"](torch.ones(4), 2, 1)
    assert bool(counters["unimplemented"]) or category == "advice"


@pytest.mark.parametrize(
    ("test", "category"),
    [
        ("self.checks and x.sum().item() > 0", "graph-break"),
        ("not self.plain and x.sum().item() > 0", "graph-break"),
        ("self.plain and x.sum().item() > 0", "advice"),
        ("not self.checks or x.sum().item() > 0", "graph-break"),
        ("self.checks or x.sum().item() > 0", "advice"),
        ("self.given and x.sum().item() > 0", "advice"),
        ("self.changed and x.sum().item() > 0", "advice"),
        ("self.training and x.sum().item() > 0", "graph-break"),
        ("not self.training and x.sum().item() > 0", "graph-break"),
    ],
)
def test_a_setting_is_as_a_rule_what_its_default_says(test: str, category: str) -> None:
    code = f"""\
from torch import nn


class Model(nn.Module):
    def __init__(self, given, checks: bool = True, plain: bool = False, changed: bool = True):
        super().__init__()
        self.given = given
        self.checks = checks
        self.plain = plain
        self.changed = changed

    def stop(self, value):
        self.changed = value

    def forward(self, x):
        if {test}:
            x = x * 2
        return x
"""
    assert {one.category for one in dynalint.check_source("m.py", code)} == {category}


@pytest.mark.parametrize(
    ("test", "category"),
    [
        ("not plain and x.sum().item() > 0", "graph-break"),
        ("checks and x.sum().item() > 0", "graph-break"),
        ("plain and x.sum().item() > 0", "advice"),
        ("given and x.sum().item() > 0", "advice"),
        ("changed and x.sum().item() > 0", "advice"),
    ],
)
def test_a_flag_is_as_a_rule_what_its_default_says(test: str, category: str) -> None:
    code = f"""\
from torch import nn


class Model(nn.Module):
    def forward(self, x, given, checks: bool = True, plain: bool = False, changed: bool = True):
        changed = given
        if {test}:
            x = x * 2
        return x
"""
    assert {one.category for one in dynalint.check_source("m.py", code)} == {category}


@pytest.mark.parametrize(
    ("test", "category"),
    [
        ("i > 1 and (x.sum() > 0).item()", "graph-break"),
        ("index >= 1 and (x.sum() > 0).item()", "graph-break"),
        ("i < 1 and (x.sum() > 0).item()", "advice"),
        ("i > n and (x.sum() > 0).item()", "advice"),
        ("n > 1 and (x.sum() > 0).item()", "advice"),
    ],
)
def test_what_counts_the_rounds_of_a_loop_comes_to_be_greater(test: str, category: str) -> None:
    code = f"""\
import torch


@torch.compile
def checked(x: torch.Tensor, n: int):
    for index, i in enumerate(range(4)):
        pass
    for i in range(4):
        for index, row in enumerate([x, x]):
            if {test}:
                break
    return x
"""
    found = [one for one in dynalint.check_source("m.py", code) if one.code == "DYN201"]
    assert {one.category for one in found} == {category}


def test_dynamo_resumes_after_a_check_for_a_variable_since_2_14() -> None:
    code = """\
import torch
from torch.autograd import Variable


@torch.compile
def run(x: torch.Tensor):
    h = x * 2
    if isinstance(h, Variable):
        h = h * 2
    print(h)
    return h
"""
    found = dynalint.check_source("m.py", code, settings={"torch": "2.14", "select": ["DYN4", "DYN618"]})
    assert [(one.code, one.category) for one in found] == [("DYN618", "graph-break"), ("DYN401", "graph-break")]
    assert "at present" not in found[1].message
