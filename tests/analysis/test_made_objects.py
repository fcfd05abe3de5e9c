"""State of an object that the call itself makes is no state that outlives it."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from dynalint.analysis import analyze
from dynalint.analysis.events import ContainerChange, StateChange

PRELUDE = """\
import torch
from torch import nn


class Bag:
    def __init__(self, items):
        self.count, self.names = 0, []
        for item in items:
            self.append(item)

    def append(self, item):
        self.count += 1  # changed: {changed}
        self.names.append(item)  # changed: {changed}

    @classmethod
    def of(cls, item):
        return cls([item])

    def __getitem__(self, index):
        return self.__class__(self.names[index])


class One(Bag):
    known = None

    def __new__(cls, items):
        if cls.known is None:
            cls.known = super().__new__(cls)
        return cls.known


CACHE = Bag([])


def put(bag, item):
    bag.append(item)
    return bag


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = Bag([1, 2])
        self.bags = nn.ModuleList([Bag([]), Bag([])])
        self.kept = [Bag([])]
        self.add = self.bag.append
        self.late = None

    def forward(self, x: torch.Tensor, given: Bag):
"""

MADE = {
    "by an operator of another": "return x + len(self.bag[:2].names)",
    "and a method called on it": """
        bag = Bag([1])
        bag.append(2)
        return x + bag.count
    """,
    "by a class method, and handed to a function": "return x + put(Bag.of(1), 2).count",
    "on each of several ways": """
        bag = Bag([1]) if self.training else Bag.of(2)
        bag.append(2)
        return x + bag.count
    """,
    "in a local list": """
        bags = [Bag([1]), Bag([2])]
        for bag in bags:
            bag.append(3)
        return x
    """,
    "and stored only then": """
        self.late = Bag([])
        self.late.append(1)
        return x
    """,
}

LASTING = {
    "an attribute": "self.bag.append(1)",
    "a global": "CACHE.append(1)",
    "a parameter": "given.append(1)",
    "in a module list": """
        for bag in self.bags:
            bag.append(1)
    """,
    "in a list": "self.kept[0].append(1)",
    "put into a list by an earlier call": """
        self.kept.append(Bag([]))
        for bag in self.kept:
            bag.append(1)
    """,
    "by a bound method": "self.add(1)",
    "made where there is none": """
        if self.late is None:
            self.late = Bag([])
        self.late.append(1)
    """,
    "one way only": """
        bag = Bag([1]) if self.training else self.bag
        bag.append(2)
    """,
    "handed out by its class": "One([]).append(1)",
    "a variable of an enclosing function": """
        def inner(y):
            bag.append(1)
            return y

        bag = given
        return inner(x)
    """,
}


@pytest.mark.parametrize(
    ("source", "changed"),
    [*((one, False) for one in MADE.values()), *((one, True) for one in LASTING.values())],
    ids=[*MADE, *LASTING],
)
def test_whether_state_outlives_the_call(source: str, changed: bool, tmp_path: Path) -> None:
    code = PRELUDE.format(changed=changed) + textwrap.indent(textwrap.dedent(source).strip(), " " * 8) + "\n"
    path = tmp_path / "model.py"
    path.write_text(code)
    events = [
        one
        for one in analyze([path]).events
        if isinstance(one, StateChange | ContainerChange) and one.function.name == "append"
    ]
    expected = [number for number, line in enumerate(code.splitlines(), 1) if line.endswith("# changed: True")]
    assert sorted({event.node.lineno for event in events}) == expected
