"""Objects that are handed over: to the constructor of a base class, and as the fields of a named tuple."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynalint.analysis import Analysis, analyze
from dynalint.analysis.events import Branch
from dynalint.analysis.kinds import only_tensor

HEAD = """\
from typing import Any, NamedTuple, Optional
import torch
from torch import nn, Tensor
"""


def analysed(tmp_path: Path, code: str) -> Analysis:
    (tmp_path / "code.py").write_text(HEAD + code)
    analysis = analyze([tmp_path / "code.py"])
    assert analysis.failures == []
    return analysis


def branches(tmp_path: Path, code: str) -> list[int]:
    """The lines, counted after the head, of branches on a tensor."""
    events = analysed(tmp_path, code).events
    tensors = [one for one in events if isinstance(one, Branch) and only_tensor(one.kind) is not None]
    return [event.node.lineno - HEAD.count("\n") for event in tensors]


@pytest.mark.parametrize("handed", ["self.initial", "helper", "nn.Identity()", "Helper()"])
def test_what_a_subclass_that_nobody_builds_hands_to_its_base(tmp_path: Path, handed: str) -> None:
    code = f"""
class Helper(nn.Module):
    def forward(self, x):
        return x

def helper(x: Tensor):
    return x

class Cell(nn.Module):
    def __init__(self, fallback, p: Any):
        super().__init__()
        self.fallback = fallback
        self.p = p

    def forward(self, x: Tensor):
        if self.fallback(x) > 0:
            return x

class One(Cell):
    def __init__(self, p):
        super().__init__({handed}, p)

    def initial(self, x: Tensor):
        return x
"""
    assert branches(tmp_path, code) == [16]


def test_number_that_one_subclass_hands_to_its_base(tmp_path: Path) -> None:
    code = """
class Cell(nn.Module):
    def __init__(self, bound):
        super().__init__()
        self.bound = bound

    def forward(self, x: Tensor):
        if x.max() > self.bound and self.bound > 0:
            return x

class One(Cell):
    def __init__(self):
        super().__init__(torch.ones(()))
"""
    assert branches(tmp_path, code) == [8]


def test_attribute_that_shares_its_name_with_a_parameter(tmp_path: Path) -> None:
    code = """
class Model(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, scale):
        self.scale.requires_grad
        if scale > 0:
            return scale
"""
    assert branches(tmp_path, code) == []


def test_fields_of_a_named_tuple(tmp_path: Path) -> None:
    code = """
class Params(NamedTuple):
    reset: Tensor = torch.as_tensor(0.0)
    steps: int = 3

class State(NamedTuple):
    v: Tensor
    before: Optional["State"] = None

class Base(nn.Module):
    def __init__(self, p: Any):
        super().__init__()
        self.p = p

class One(Base):
    def __init__(self, p: Params = Params()):
        super().__init__(p)

    def forward(self, x: Tensor, state: State):
        if self.p.steps > 2 and self.p.reset > 0:
            return x
        if state.v > 0 or state.before is None:
            return x
        state = State(self.p.reset)
        if state.v > 0:
            return x

class Other(Base):
    def __init__(self, p=State(torch.ones(()))):
        super().__init__(p)

    def forward(self, x: Tensor):
        if self.p.v > 0:
            return x
"""
    assert branches(tmp_path, code) == [20, 22, 25, 33]


def test_what_is_unknown_in_a_field_is_what_the_field_declares(tmp_path: Path) -> None:
    code = """
from dataclasses import dataclass
import config_of_others

@dataclass
class Config:
    limit: Optional[Tensor] = None

class Model(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.limit = config.limit

    def forward(self, x: Tensor):
        if self.limit > 0:
            return x

def build(limits):
    return [Model(Config(limit=limits[name])) for name in limits]

MODELS = build(config_of_others.limits)
"""
    assert branches(tmp_path, code) == [15]


def test_an_annotation_with_a_base_class_means_any_class_below_it(tmp_path: Path) -> None:
    code = """
class Model(nn.Module):
    def __init__(self, policy: "Policy"):
        super().__init__()
        self.policy = policy

    def forward(self, x: Tensor):
        return self.policy.choose(x)

class Policy:
    def choose(self, x):
        raise NotImplementedError

class Strict(Policy):
    def choose(self, x: Tensor):
        if x.sum() > 0:
            return x

class Lax(Policy):
    def choose(self, x: Tensor):
        if x.mean() > 0:
            return x
"""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()  # others may build them
    assert branches(tmp_path / "package", code) == [16, 21]
