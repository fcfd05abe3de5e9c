"""What no example can show of state that grows: code that has nothing to compile."""

from __future__ import annotations

import pytest

import dynalint

_COUNTING = """
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        seen = [{value}]
        self.calls += 1
        return seen
"""


def test_a_count_in_code_without_operations_is_not_flagged() -> None:
    assert not dynalint.check_source("model.py", _COUNTING.format(value="self.calls"))


def test_a_count_beside_an_operation_is_flagged() -> None:
    assert [finding.code for finding in dynalint.check_source("model.py", _COUNTING.format(value="x * 2"))] == [
        "DYN501"
    ]


_OPTIONAL = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, track=False):
        super().__init__()
        self.log = None
        if track:
            self.log = {made}

    def forward(self, x: torch.Tensor):
        if {test}:
            {change}
        return x * 2
"""


@pytest.mark.parametrize(
    ("made", "test", "change", "grows"),
    [
        ("[]", "self.log is not None", "self.log.append(x)", True),
        ("dict(a=[])", "self.log is not None", 'self.log["a"].append(x)', True),
        ("[]", "self.training and self.log is not None", "self.log.append(x)", True),
        ("[]", "self.log is not None and len(self.log) < 3", "self.log.append(x)", False),
        ("[]", "self.log is not None and not self.log", "self.log.append(x)", False),
        ("None", "self.log is not None", "self.log.append(x)", False),
        ("dict()", "self.log is not None", 'self.log["a"] = x', False),
    ],
)
def test_list_that_may_be_none(made: str, test: str, change: str, grows: bool) -> None:
    found = dynalint.check_source("m.py", _OPTIONAL.format(made=made, test=test, change=change))
    assert any(one.code == "DYN503" for one in found) is grows


_NAMED = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = {start}

    def forward(self, x: torch.Tensor, other: int):
        {before}
        y = x * calls
        {store}
        return y
"""


@pytest.mark.parametrize(
    ("start", "before", "store", "codes"),
    [
        ("0", "calls = self.calls + 1", "self.calls = calls", ["DYN501"]),
        ("0.5", "calls = self.calls * 0.9", "self.calls = calls", ["DYN507"]),
        ("0", "calls = self.calls", "self.calls = calls", []),
        ("0", "calls = 3", "self.calls = calls", []),
        ("0", "calls = self.calls + 1\n        if other: calls = 2", "self.calls = calls", []),
        ("0", "calls = (self.calls + 1) % 2", "self.calls = calls", []),
    ],
)
def test_new_value_with_a_name_of_its_own(start: str, before: str, store: str, codes: list[str]) -> None:
    text = _NAMED.format(start=start, before=before, store=store)
    assert [one.code for one in dynalint.check_source("model.py", text) if one.category == "recompile"] == codes


@pytest.mark.parametrize(
    ("guard", "ready", "grows"),
    [
        ("if not self.ready:", "self.ready = True", False),
        ("if self.ready is None:", "self.ready = x", False),
        ("if self.training:", "self.ready = True", True),
        ("if not self.ready:", "pass", True),
    ],
)
def test_what_is_built_once_does_not_grow(guard: str, ready: str, grows: bool) -> None:
    code = f"""
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.ready = None
        self.parts = []

    def build(self, x):
        self.add(x)
        {ready}

    def add(self, x):
        self.parts.append(x.sum())

    def forward(self, x: torch.Tensor):
        {guard}
            self.build(x)
        return x * 2
"""
    assert ("DYN503" in [one.code for one in dynalint.check_source("model.py", code)]) is grows


@pytest.mark.parametrize(
    ("ending", "grows"),
    [
        ("raise ValueError(x)", False),
        ("return x * 2", True),
        ("if x.ndim > 3:\n            return x\n        raise ValueError(x)", True),
    ],
)
def test_a_count_of_failures_does_not_grow(ending: str, grows: bool) -> None:
    code = f"""
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.failures = 0

    def forward(self, x: torch.Tensor):
        if x.sum() > 0:
            return x * 3
        self.failures += 1
        {ending}
"""
    found = [one.code for one in dynalint.check_source("model.py", code)]
    assert ("DYN501" in found) is grows


def test_a_branch_that_returns_does_not_lead_to_the_raise_at_the_end() -> None:
    code = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor):
        if x.ndim > 2:
            return x
        if x.ndim > 1:
            kept = x.detach()
            return {"kept": kept.tolist()}
        raise ValueError
"""
    assert [one.code for one in dynalint.check_source("model.py", code)] == ["DYN207"]


@pytest.mark.parametrize(
    ("body", "counted"),
    [
        ("y = x * 2; print(1); self.n += 1; return y", False),
        ("y = x * 2; print(1); self.n += x.numel(); return y, self.n", False),
        ("y = x * 2; print(1); self.n += 1; return y + 1", True),
        ("y = x * self.n; print(1); self.n += 1; return y", True),
        ("print(1); self.n += 1; return self.layer(x)", True),
        ("y = x * 2; self.n += 1; print(1); return y", True),
    ],
)
def test_count_after_the_last_operation_on_tensors(body: str, counted: bool) -> None:
    """All were run with torch 2.13: nothing is compiled after a break that no operation follows."""
    code = "import torch\nfrom torch import nn\n\nclass Model(nn.Module):\n    def __init__(self):\n"
    code += "        super().__init__()\n        self.n, self.layer = 0, nn.Linear(8, 8)\n\n"
    lines = "".join(f"        {line}\n" for line in body.split("; "))
    code += f"    def forward(self, x: torch.Tensor):\n{lines}"
    assert ("DYN501" in [one.code for one in dynalint.check_source("m.py", code)]) is counted


def test_state_that_is_looked_for_before_the_break_stays_a_recompilation() -> None:
    code = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor):
        if not hasattr(self, "scale"):
            print(x.sum())
            self.scale = 2
        return self.scale
"""
    assert "DYN508" in [one.code for one in dynalint.check_source("m.py", code)]
