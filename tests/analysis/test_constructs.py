"""The events that rules on Python's own constructs listen to."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest

from dynalint.analysis import Analysis, analyze
from dynalint.analysis import kinds as k
from dynalint.analysis.events import (
    Branch,
    Call,
    ClassDefinition,
    Entry,
    Event,
    GeneratorRoot,
    ItemWrite,
    Operation,
    Ordering,
    Read,
    Write,
)
from dynalint.analysis.functions import DISABLED

PRELUDE = """
import contextlib
import functools
import itertools
import os
import torch
from torch import nn


class Scope:
    def __init__(self, value):
        self.value = value

    def __enter__(self):
        print(self.value)
        return self

    def __exit__(self, *error):
        return False

    def __mul__(self, other):
        return other.sum() > 0

    @functools.cached_property
    def width(self):
        return 3


SCOPE = Scope(1)


@torch.compiler.disable
def outside(x):
    return x


def helper(x):
    return x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = itertools.cycle([0, 1])

    def forward(self, x: torch.Tensor):
"""
NAMES = ("builtins.print", "builtins.next", "functools.cached_property", "function.size", DISABLED)


def analyzed(tmp_path: Path, code: str) -> Analysis:
    path = tmp_path / "code.py"
    path.write_text(PRELUDE + textwrap.indent(textwrap.dedent(code), "        "))
    analysis = analyze([path], watched=lambda name: name if name in NAMES else None)
    assert analysis.failures == []
    return analysis


def only(tmp_path: Path, code: str, kind: type[Event]) -> Event:
    (event,) = (event for event in analyzed(tmp_path, code).events if isinstance(event, kind))
    return event


@pytest.mark.parametrize(
    ("code", "home"),
    [
        ("with Scope(2):\n    pass", None),
        ("with SCOPE:\n    pass", k.Home("global", "SCOPE")),
        ("with self.scope:\n    pass", k.Home("attribute", "scope")),
        ("self.scope = Scope(2)\nwith self.scope:\n    pass", None),
    ],
)
def test_an_entry_tells_where_its_manager_lives(tmp_path: Path, code: str, home: k.Home | None) -> None:
    event = only(tmp_path, code, Entry)
    assert isinstance(event, Entry)
    assert event.home == home


def test_a_manager_of_the_project_is_followed(tmp_path: Path) -> None:
    code = "with Scope(2) as scope:\n    x = scope * x\nif x:\n    pass"
    found = [(type(event).__name__, event.function.qualname) for event in analyzed(tmp_path, code).events]
    assert ("Call", "Scope.__enter__") in found
    assert ("Branch", "Model.forward") in found


@pytest.mark.parametrize(
    ("code", "key", "has_key"),
    [
        ("sorted([x.sum(), x.mean()])", k.Tensor, False),
        ("sorted([x, x], key=lambda one: one.shape[0])", k.Value, True),
        ("names = [x]\nnames.sort(key=torch.sum)", k.Tensor, True),
        ("max([(1, x)], key=lambda pair: pair[0])", k.Value, True),
    ],
)
def test_an_order_is_told_with_what_decides_it(tmp_path: Path, code: str, key: type[k.Kind], has_key: bool) -> None:
    event = only(tmp_path, code, Ordering)
    assert isinstance(event, Ordering)
    assert isinstance(event.key, key)
    assert event.has_key == has_key


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("[4, x.sum()] == list(x.shape)", True),
        ("(1, x.sum()) == (2, 1)", False),
        ("[x.sum()] == [1, 2]", False),
        ("list(x.shape) == [4, 8]", False),
        ("Scope(2) * x", True),
        ("x * 2", False),
    ],
)
def test_operations_beyond_tensors_and_plain_values(tmp_path: Path, code: str, told: bool) -> None:
    events = [event for event in analyzed(tmp_path, code).events if isinstance(event, Operation)]
    assert bool(events) == told


def test_what_a_kept_iterator_gives_is_known_to_be_kept(tmp_path: Path) -> None:
    event = only(tmp_path, "next(self.steps)", Call)
    assert isinstance(event, Call)
    assert event.args[0] == k.Sequence("generator", k.INT, home=k.Home("attribute", "steps"))


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ('os.environ["A"] = "1"', ItemWrite),
        ('del os.environ["A"]', ItemWrite),
        ("class Inner:\n    pass", ClassDefinition),
        ("SCOPE.width", Read),
        ("helper.size = 3", Write),
        ("outside(x)", Call),
        ("yield x", GeneratorRoot),
    ],
)
def test_single_events(tmp_path: Path, code: str, kind: type[Event]) -> None:
    event = only(tmp_path, code, kind)
    assert isinstance(event.node, ast.AST)


def test_what_is_compiled_away_defines_and_enters_nothing(tmp_path: Path) -> None:
    code = """
    if not torch.compiler.is_compiling():
        class Inner:
            pass

        with SCOPE:
            os.environ["A"] = "1"
    return x
    """
    told = [
        event for event in analyzed(tmp_path, code).events if isinstance(event, ClassDefinition | Entry | ItemWrite)
    ]
    assert told == []


@pytest.mark.parametrize(
    "decorator",
    [
        'torch.library.custom_op("tests::swapped", mutates_args=())',
        "torch.compiler.allow_in_graph",
        "torch._dynamo.allow_in_graph",
        "torch._dynamo.nonstrict_trace",
    ],
)
def test_what_is_one_operation_to_dynamo_is_not_looked_into(tmp_path: Path, decorator: str) -> None:
    code = f"""
    y = swapped(x)
    if y:
        return x
    return y


@{decorator}
def swapped(x: torch.Tensor) -> torch.Tensor:
    os.environ["A"] = "1"
    return x.clone()
"""
    path = tmp_path / "code.py"
    path.write_text(
        PRELUDE + textwrap.indent(textwrap.dedent(code).partition("@")[0], "        ") + code[code.index("@") :]
    )
    told = [type(event) for event in analyze([path], watched=lambda name: None).events]
    assert Branch in told
    assert ItemWrite not in told
