"""Programs drawn at random: a model whose `forward` is a nest of branches with all that can stand in one.

    @given(programs())
    def test(code: str) -> None: ...

What rewrites can deal with comes often, what they must leave alone (mutation, randomness, exceptions, state) now and
then, and nothing is excluded for being hard. As in code that people write, early returns mostly have the form of the
last one; and what every way has bound goes into the result, where a wrong value shows.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

HEAD = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, flag={flag}):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("level", torch.full((4,), 0.25))
        self.weight = nn.Parameter(torch.full((4,), 0.5))
        self.flag = flag
        self.last = None

    def forward(self, {parameters}):
"""
TAIL = """

def example():
    return Model(), (torch.linspace(-2, 2, 12).reshape(3, 4), torch.linspace(1, -1, 12).reshape(3, 4))
"""

_PARAMETERS = ("x: torch.Tensor, y: torch.Tensor", "x, y")
_NAMES = ("x", "y", "a", "b", "c", "d")
# Values by how often they come.
_VALUES = (
    ("{a} * 2", "{a} + {b}", "{a} - {b}", "{a} * {b}", "-{a}", "torch.relu({a})", "{a}.clamp(min=0.1)", "{a} + 1.5"),
    ("{a} / {b}", "torch.sqrt({a})", "{a}.log()", "{a}.exp()", "{a} ** 2", "{a} ** 0.5", "{a}.abs()", "self.fc({a})"),
    ("{a}", "{a}.view(-1, 4)", "{a}.detach()", "{a} * self.weight", "{a} * self.level", "{a} / {b}.norm()", "{a}.t().t()"),
    ("{a}.masked_fill({b} > 0, 0.0)", "torch.where({b} > 0, {a}, {b})", "{a}[:1]", "{a}.sum(0)", "{a}.double()"),
    ("torch.rand_like({a})", "self.drop({a})", "self.norm({a})", "{a} + torch.randn(4)", "{a}.float().to(torch.int64)"),
)  # fmt: skip
_VALUE = st.sampled_from(
    [value for values, times in zip(_VALUES, (12, 6, 4, 1, 1), strict=True) for value in values * times]
)
_SINGLES = ("{a} + {b}", "({a}) * 2 + {b}", "self.fc({a}) + {b}")
_PAIRS = ("{a}, {b}", "self.fc({a}), {b}")
_FIRST = ("x + y", "x * y", "x - y * 2", "self.fc(x) + y", "x + y.relu()", "torch.relu(x)", "x * 2")
_TESTS = (
    "{a}.sum() > 0", "{a}.max() > {b}.max()", "{a}.mean() < 0.1", "({a} > 1).any()", "torch.isnan({a}).any()",
    "not {a}.min() < -1", "{a}.sum() > 0 and {b}.mean() < 0", "{a}.sum() > 0 or {b}.max() > 1", "0 < {a}.mean() < 1",
    "{a}.norm()", "self.level.sum() > 0", "self.weight.mean() > 0.1", "torch.all({a} == {b})", "{a}.argmax() in (0, 3)",
    "bool(({a} < 0).all())", "torch.rand(1) < 0.5", "torch.equal({a}, {b})", "{a}.isinf().any() or {a}.isnan().any()",
)  # fmt: skip
_PYTHON_TESTS = ("self.flag", "self.training", "x.dim() == 2", "self.flag and {a}.sum() > 0", "self.last is None")
_HARMFUL = (
    "{a}.add_(1)", "{a}[0] = 0", "{a} += 1", "{a}[{b} > 0] = 0.0", "self.last = {a}", "self.level = self.level + 1",
    "self.level.add_(1)", "torch.manual_seed(3)", "print('here')", 'raise ValueError("no")', "assert {a}.sum() < 50",
    "{a}.clamp_(max=1.0)", "del d",
)  # fmt: skip


@dataclass
class _Writer:
    """Draws statements; `known` are the names that have a value wherever the next one stands."""

    draw: st.DrawFn
    left: int
    returns: bool
    pair: bool
    known: list[str] = field(default_factory=lambda: ["x", "y"])

    def block(self, depth: int, *, loop: bool = False) -> list[str]:
        """Return the lines of a block; a block that returns says so in its last line."""
        lines: list[str] = []
        before = list(self.known)
        for _ in range(self.draw(st.integers(1, 3))):
            self.left -= 1
            lines += self._statement(depth, loop=loop)
            if self.left <= 0 or _leaves(lines):
                break
        self.known = before + [name for name in self.known if name not in before and depth == 0]
        return lines

    def _statement(self, depth: int, *, loop: bool) -> list[str]:
        kind = self.draw(st.sampled_from((_TOP, _INNER, _INNER, _FLAT)[min(depth, 3)]))
        if kind == "if":
            return self._branch(depth, loop=loop)
        if kind == "for" and not loop:
            return [f"for _ in range({self.draw(st.integers(1, 3))}):", *_deeper(self.block(depth + 1, loop=True))]
        if kind == "return" and depth and self.returns:
            return [self._return()]
        if kind == "jump" and loop and depth > 1:
            return [self.draw(st.sampled_from(["break", "continue"]))]
        if kind == "harm":
            return [self._filled(self.draw(st.sampled_from(_HARMFUL)))]
        if kind == "pair":
            return [f"{', '.join(self._targets(2))} = {self._value()}, {self._value()}"]
        if kind == "choice":
            return [f"{self._target()} = {self._value()} if {self._test(_TESTS)} else {self._value()}"]
        if kind == "mask":
            name = self._name()
            return [f"m = {name} < 0", "if m.any():", f"    {name} = {name}.masked_fill(m, 0.0)"]
        value = self._value()
        if kind == "augmented":
            return [f"{self._name()} {self.draw(st.sampled_from(['+=', '*=', '-=']))} {value}"]
        return [f"{self._target()} = {value}"]

    def _branch(self, depth: int, *, loop: bool) -> list[str]:
        python = self.draw(st.sampled_from([False, False, False, False, False, True]))
        lines = [f"if {self._test(_PYTHON_TESTS if python else _TESTS)}:", *_deeper(self.block(depth + 1, loop=loop))]
        for _ in range(self.draw(st.sampled_from([0, 0, 0, 1, 2]))):
            lines += [f"elif {self._test(_TESTS)}:", *_deeper(self.block(depth + 1, loop=loop))]
        if self.draw(st.sampled_from([True, True, False])):
            lines += ["else:", *_deeper(self.block(depth + 1, loop=loop))]
        return lines

    def last_return(self) -> str:
        """Return the statement that gives back all that there is by then."""
        names = list(dict.fromkeys(self.known))
        first, second = (" + ".join(names[start::2]) for start in (0, 1))
        form = self.draw(st.sampled_from(_PAIRS if self.pair else _SINGLES))
        return f"return {form.format(a=first, b=second)}"

    def _return(self) -> str:
        other = self.draw(st.sampled_from([False] * 7 + [True]))
        return f"return {self._value()}, {self._value()}" if self.pair is not other else f"return {self._value()}"

    def _test(self, tests: Sequence[str]) -> str:
        """Return a test; one of two tensors asks about different ones."""
        names = st.lists(st.sampled_from(list(dict.fromkeys(self.known))), min_size=2, max_size=2, unique=True)
        one, other = self.draw(names)
        form = self.draw(st.sampled_from(tests))
        return form.format(a=one, b=other) if "{" in form else form

    def _value(self) -> str:
        return self._filled(self.draw(_VALUE))

    def _filled(self, form: str) -> str:
        return form.format(a=self._name(), b=self._name()) if "{" in form else form

    def _name(self) -> str:
        return self.draw(st.sampled_from(self.known))

    def _targets(self, count: int) -> list[str]:
        return self.draw(st.lists(st.sampled_from(_NAMES), min_size=count, max_size=count, unique=True))

    def _target(self) -> str:
        (name,) = self._targets(1)
        if name not in self.known:
            self.known.append(name)
        return name


_TOP = ["assign"] * 8 + ["if"] * 8 + ["choice"] * 2 + ["return", "for", "mask", "augmented", "pair", "jump", "harm"]
_INNER = ["assign"] * 16 + ["if"] * 3 + ["return"] * 4 + ["choice", "mask", "augmented", "pair", "jump", "for", "harm"]
_FLAT = ["assign"] * 6 + ["choice", "return", "augmented", "jump", "harm"]


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Draw the code of a module with a class `Model` and a function `example` for it."""
    returns, pair = draw(st.sampled_from([False, False, True])), draw(st.booleans())
    writer = _Writer(draw, draw(st.integers(2, 8)), returns, pair)
    # Mostly of both inputs, so that no side of a branch leaves one of them without a gradient.
    lines = [f"{name} = {draw(st.sampled_from(_FIRST))}" for name in ("a", "b")]
    writer.known = ["a", "b", *draw(st.sampled_from([["x", "y"], ["a", "b"]]))]
    while writer.left > 0 and not _leaves(lines):
        lines += writer.block(0)
    if not _leaves(lines):
        lines.append(writer.last_return())
    body = textwrap.indent("\n".join(lines), " " * 8)
    return f"{HEAD.format(flag=draw(st.booleans()), parameters=draw(st.sampled_from(_PARAMETERS)))}{body}\n{TAIL}"


def _deeper(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _leaves(lines: Sequence[str]) -> bool:
    return bool(lines) and lines[-1].startswith(("return", "raise", "break", "continue"))
