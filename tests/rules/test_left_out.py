"""State that no call changes unless an option is given, that other code sets back, or whose change is not compiled."""

from __future__ import annotations

import pytest

import dynalint

_MODEL = """\
import torch
from torch import nn


class Inner(nn.Module):
    def __init__(self, track=False):
        super().__init__()
        self.track, self.n, self.log, self.state = track, 0, [], None
        self.recording, self.kept = False, True
        self.layer = nn.Linear(4, 4)

    def reset(self):
        self.state, self.n = None, 0

    def step(self, x: torch.Tensor):
        if self.state is None:
            self.state = torch.zeros(4)
        return x + self.state

    def count(self):
        self.n += 1

    def record(self):
        self.recording, self.kept = True, False

    def forward(self, x: torch.Tensor, mask=None):
        {inner}
        return self.layer(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner({options})

    def forward(self, x: torch.Tensor):
        {outer}
        return self.inner(x)
"""


def _claimed(inner: str, outer: str = "pass", options: str = "") -> bool:
    model = _MODEL.format(
        inner=inner.replace("; ", "\n        "), outer=outer.replace("; ", "\n        "), options=options
    )
    return "recompile" in [one.category for one in dynalint.check_source("model.py", model)]


@pytest.mark.parametrize(
    ("inner", "options", "claimed"),
    [
        ("self.n += 1", "", True),
        ("if self.track: self.n += 1", "", False),
        ("if self.track: self.n += 1", "track=True", True),
        ("if not self.track: self.n += 1", "", True),
        ("if self.track and self.training: self.n += 1", "", False),
        ("if self.track or self.training: self.n += 1", "", True),
        ("if self.track: self.count()", "", False),
        ("if mask is not None: self.n += 1", "", False),
        ("if mask is None: self.n += 1", "", True),
        ("if mask: self.log.append(1)", "", False),
        ("if not self.recording: return x; self.n += 1", "", False),
        ("if not self.kept: return x; self.n += 1", "", True),
        ("if torch.isnan(x).any(): self.n += 1", "", False),
        ("if not torch.isfinite(x).all(): self.n += 1", "", False),
        ("if torch.isfinite(x).all(): self.n += 1", "", True),
        ("try:; \tx = x * 2; except ValueError:; \tself.n += 1", "", False),
        ("try:; \tself.n += 1; except ValueError:; \tx = x * 2", "", True),
    ],
)
def test_changes_behind_an_option_that_is_off_are_advice(inner: str, options: str, claimed: bool) -> None:
    """All were run with torch 2.13."""
    assert _claimed(inner, options=options) is claimed


@pytest.mark.parametrize(
    ("inner", "outer", "claimed"),
    [
        ("x = self.step(x)", "pass", True),
        ("x = self.step(x)", "self.inner.state = None", False),
        ("x = self.step(x)", "x.state = None", True),
        ("x = self.step(x)", "for one in self.modules():; \tif hasattr(one, 'reset'): one.reset()", False),
        ("self.log.append(x)", "pass", True),
        ("self.log.append(x)", "self.inner.log = []", False),
    ],
)
def test_state_that_the_caller_sets_back_is_not_claimed(inner: str, outer: str, claimed: bool) -> None:
    """All were run with torch 2.13."""
    assert _claimed(inner, outer) is claimed


@pytest.mark.parametrize(
    ("body", "claimed"),
    [
        ("return x[torch.rand(8) > 0.5]", False),
        ("y = x[torch.rand(8) > 0.5]; return y, 1", False),
        ("return x[torch.rand(8) > 0.5].sum()", True),
        ("y = x[torch.rand(8) > 0.5]; return y * 2", True),
        ("y = x[torch.rand(8) > 0.5]; for one in [x]: y = y + one[x > 0].sum(); return y", False),
    ],
)
def test_a_selection_that_nothing_uses_is_not_claimed(body: str, claimed: bool) -> None:
    """All were run with torch 2.13."""
    code = "import torch\n\n@torch.compile\ndef f(x: torch.Tensor):\n    {}\n".format(body.replace("; ", "\n    "))
    assert ("DYN806" in [one.code for one in dynalint.check_source("f.py", code)]) is claimed


def test_a_count_in_an_autograd_function_is_only_a_graph_break() -> None:
    code = """\
import torch


class Double(torch.autograd.Function):
    calls = 0

    @staticmethod
    def forward(ctx, x):
        Double.calls += 1
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


@torch.compile
def double(x: torch.Tensor):
    return Double.apply(x)
"""
    assert [one.code for one in dynalint.check_source("f.py", code)] == ["DYN623"]


@pytest.mark.parametrize(
    ("body", "claimed"),
    [
        ("for _ in range(2): x = self.layer(x) if x.sum() > -99 else x; self.n += 1", False),
        ("for _ in range(2): x = self.scaled(x) if x.sum() > -99 else x; self.n += 1", True),
        ("for _ in range(2): self.log.append(x.max().item())", False),
        ("for one in x.shape:; \tif one > 2: x.max().item(); self.n += 1", False),
        ("try:; \tprint(1); except ValueError:; \tpass; self.n += 1", False),
        ("try:; \tx = x * 2; except ValueError:; \tpass; else:; \tprint(1); self.n += 1", True),
        ("self.n += 1; x = self.layer(x) if x.sum() > -99 else x", True),
        ("if self.training: self.loop(x); self.n += 1", True),
    ],
)
def test_state_of_a_function_that_runs_in_eager_mode_is_not_claimed(body: str, claimed: bool) -> None:
    """All were run with torch 2.13: a break in a loop or `try` makes Dynamo skip the function."""
    assert ("recompile" in [one.category for one in dynalint.check_source("model.py", _eager(body))]) is claimed


def _eager(body: str) -> str:
    text = "".join(f"        {line}\n" for line in body.split("; "))
    return f"""\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.n, self.log, self.layer = 0, [], nn.Linear(4, 4)

    def scaled(self, x: torch.Tensor):
        return self.layer(x) * self.n

    def loop(self, x: torch.Tensor):
        for _ in range(2):
            print(x.sum().item())

    def forward(self, x: torch.Tensor):
{text}        return x + 1
"""


@pytest.mark.parametrize(
    ("passed", "claimed"),
    [("self.low", False), ("self.low * 2", False), ("x.min()", True), ("self.low + x", True), ("low", True)],
)
def test_a_number_that_callers_compute_from_weights_is_not_claimed(passed: str, claimed: bool) -> None:
    """All were run with torch 2.13."""
    code = f"""\
import torch
from torch import nn


def clamped(x: torch.Tensor, low: torch.Tensor):
    low = torch.floor(low) * 2
    return x * low.min().item()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.low = nn.Parameter(torch.zeros(4))

    def forward(self, x: torch.Tensor, low: torch.Tensor = torch.zeros(4)):
        return clamped(x, {passed})
"""
    assert ("DYN804" in [one.code for one in dynalint.check_source("f.py", code)]) is claimed


@pytest.mark.parametrize(
    ("added", "claimed"),
    [("", True), ("    handle.remove()\n", False), ("    model(torch.ones(4))\n    handle.remove()\n", False)],
)
def test_what_a_hook_collects_until_it_is_removed_is_advice(added: str, claimed: bool) -> None:
    """All were run with torch 2.13."""
    code = f"""\
import torch
from torch import nn


def watched(model: nn.Module):
    found = []

    def hook(module, inputs, output):
        found.append(output * 2)

    handle = model.register_forward_hook(hook)
{added}    return found
"""
    assert ("recompile" in [one.category for one in dynalint.check_source("f.py", code)]) is claimed


@pytest.mark.parametrize(
    ("taken", "claimed"), [("found = self.found", True), ("found = [*self.found]; self.found.clear()", False)]
)
def test_what_an_object_collects_and_empties_itself_is_advice(taken: str, claimed: bool) -> None:
    """All were run with torch 2.13."""
    code = f"""\
from torch import nn


class Watcher:
    def __init__(self, model: nn.Module):
        self.found = []
        model.register_forward_hook(self.hook)

    def hook(self, module, inputs, output):
        self.found.append(output * 2)

    def take(self):
        {taken}
        return found
"""
    assert ("recompile" in [one.category for one in dynalint.check_source("f.py", code)]) is claimed


def test_nothing_is_claimed_for_what_only_runs_now_and_then() -> None:
    """It was run with torch 2.13: the second call compiles no graph, and Dynamo skips the function from then on."""
    code = """\
import torch
from torch import nn


class Shown(nn.Module):
    def __init__(self, every=100):
        super().__init__()
        self.every, self.n = every, 0

    def forward(self, x: torch.Tensor):
        if self.n % self.every == 0:
            print(x.min().item(), x.max().item())
        self.n += 1
        return x
"""
    assert "recompile" not in [one.category for one in dynalint.check_source("f.py", code)]


@pytest.mark.parametrize(
    ("context", "claimed"), [("Timer()", False), ("quiet()", False), ("torch.no_grad()", True), ("open('f')", True)]
)
def test_a_break_in_a_context_of_the_project_makes_dynamo_skip_the_function(context: str, claimed: bool) -> None:
    """The first three were run with torch 2.13."""
    code = f"""\
import contextlib
import torch
from torch import nn


class Timer:
    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return False


@contextlib.contextmanager
def quiet():
    yield


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 0

    def forward(self, x: torch.Tensor):
        with {context}:
            print(1)
        self.n += 1
        return x + 1
"""
    assert ("DYN501" in [one.code for one in dynalint.check_source("f.py", code)]) is claimed


@pytest.mark.parametrize(("made", "claimed"), [("pass", True), ("self.box = Box()", False)])
def test_an_object_that_the_call_creates_does_not_grow(made: str, claimed: bool) -> None:
    """All were run with torch 2.13."""
    code = f"""\
import torch
from torch import nn


class Box:
    def __init__(self):
        self.items = []

    def add(self, x):
        self.items.append(x)
        return x * 2


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.box = Box()

    def forward(self, x: torch.Tensor):
        {made}
        return self.box.add(x)
"""
    assert ("DYN503" in [one.code for one in dynalint.check_source("f.py", code)]) is claimed


@pytest.mark.parametrize(("read", "claimed"), [("torch.tensor([gamma])", False), ("x.max()", True)])
def test_a_setting_that_is_read_back_from_a_tensor_does_not_change(read: str, claimed: bool) -> None:
    """All were run with torch 2.13."""
    code = f"""\
import torch


@torch.compile
def scaled(x: torch.Tensor, gamma=1.0):
    return x * {read}.item() + 1
"""
    assert ("DYN804" in [one.code for one in dynalint.check_source("f.py", code)]) is claimed


@pytest.mark.parametrize(("opposite", "claimed"), [("pass", True), ("self.used -= n", False)])
def test_a_count_that_other_code_takes_back_is_advice(opposite: str, claimed: bool) -> None:
    """All were run with torch 2.13."""
    code = f"""\
import torch
from torch import nn


class Manager:
    def __init__(self):
        self.used = 0

    def take(self, n):
        self.used += n

    def give(self, n):
        {opposite}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.manager = Manager()

    def forward(self, x: torch.Tensor):
        self.manager.take(3)
        x = x * 2
        self.manager.give(3)
        return x
"""
    assert ("recompile" in [one.category for one in dynalint.check_source("f.py", code)]) is claimed


def test_what_the_backward_pass_of_an_autograd_function_keeps_is_advice() -> None:
    """It was run with torch 2.13."""
    code = """\
import torch
from torch import nn


class Store:
    kept = []

    @classmethod
    def put(cls, grad):
        cls.kept.append(grad)


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        Store.put(grad)
        return grad * 2


class Model(nn.Module):
    def forward(self, x: torch.Tensor):
        return Double.apply(x)
"""
    assert "recompile" not in [one.category for one in dynalint.check_source("f.py", code)]
