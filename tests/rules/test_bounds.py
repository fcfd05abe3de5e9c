"""Tests of tensors that never hold: which are known, and that those hold for no numbers at all."""

from __future__ import annotations

import ast
import random
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

from dynalint.rules import Example
from dynalint.testing.cases import Case
from dynalint.testing.static import Study
from dynalint_rules._shared.bounds import never_holds, never_holds_of_floats
from dynalint_rules._shared.scope import Scope
from dynalint_rules.control_flow.branch_on_tensor import BranchOnTensor

HEAD = "import torch\n\n\n@torch.compile\ndef f(x: torch.Tensor, y: torch.Tensor, flag: bool):\n"


def never(body: str) -> bool:
    """Whether the test of the last `if` in a function with this body never holds."""
    return never_holds(*last_test(body))


def last_test(body: str) -> tuple[Scope, ast.expr]:
    """Return the test of the last `if` in a function with this body, and its scope."""
    rule, code = BranchOnTensor(), HEAD + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n"
    found = Study(Case(rule, Example("x", code)), [rule]).own[-1]
    scope = Scope.of(found.flag.event, found.project)
    branches = (node for node in ast.walk(scope.function.node) if isinstance(node, ast.If))
    return scope, max(branches, key=lambda one: one.lineno).test


@pytest.mark.parametrize(
    "lines",
    [
        "x = x.relu()\nif x.mean() < 0:",
        "x = torch.relu(y).detach()\nz = x + 1\nif x.min() < -0.5:",
        "x = torch.relu(y.float())\nz = x + 1\nif x.min() < -1:",
        "z = x.sigmoid()\nif (z > 1).any():",
        "z = x.exp()\nm = z < 0\nif m.any():",
        "z = x.norm().clamp(min=1e-8)\nif z < 0:",
        "z = x.sigmoid().max()\nif z >= 1.5:",
        "z = y ** 2\nif z.mean() < 0:",
        "z = (y ** 0.5).mean()\nif 0 > z:",
        "z = x.norm() * y.norm()\nif z < 0:",
        "z = x.float()\nz = z - z\nif (z > 0).any():",
        "z = x.clamp(min=0.5)\nif 0 < z[:1].max() < 0.25:",
        "z = x.clamp_max(-1)\nif z.amax() == 3:",
        "z = x.relu()\nfor _ in range(2):\n    y = y * 2\nif flag:\n    if z.mean() < 0:",
    ],
)
def test_what_no_number_passes_is_known(lines: str) -> None:
    *_, last = lines.splitlines()
    inner = " " * (len(last) - len(last.lstrip()) + 4)
    assert never(f"{lines}\n{inner}y = y * 2\nreturn y")


@pytest.mark.parametrize(
    "lines",
    [
        "x = x.relu()\nif x.mean() <= 0:",
        "x = x.relu()\nif x.mean() != 0:",
        # An empty tensor.
        "x = x.relu()\nif (x < 0).all():",
        # Squares and sums of whole numbers overflow.
        "z = x ** 2\nif z.min() < 0:",
        "z = x.relu()\nif z.sum() < 0:",
        "z = x.abs()\nif z.min() < 0:",
        "z = (x ** 2).exp()\nif z.mean() < 0.5:",
        "z = (x * x).sum(dtype=torch.float)\nif z < 0:",
        # Of bytes, -1 is 255.
        "z = x.relu()\nif z.min() < -1:",
        # A division by the zero that is negative.
        "z = x.exp() / y.relu()\nif z.min() < 0:",
        "z = x.relu().view(torch.int32)\nif z.max() < 0:",
        "z = torch.max(x.relu(), y)\nif z.max() < 0:",
        "z = torch.clamp(x, min=0.5, max=-3)\nif z.max() < 0:",
        "z = x.clamp(min=y)\nif z.max() < 0:",
        # Half precision rounds both numbers to the same, 1e-8 to zero.
        "z = x.norm().clamp(min=1e-8)\nif z == 0:",
        "z = x.clamp(max=4e-8)\nif z.max() > 5e-8:",
        "z = x.sigmoid().max()\nif z >= 1.0001:",
        "z = x.exp().min()\nif z <= -1e-9:",
        # The imaginary part makes it larger.
        "z = torch.sin(x).float()\nif z.max() > 1:",
        # It has been changed since, or may have been.
        "z = x.relu()\nz.sub_(1)\nif z.mean() < 0:",
        "z = x.relu()\nz[0] = -1\nif z.mean() < 0:",
        "z = x.relu()\nw = z.view(-1)\nw -= 1\nif z.mean() < 0:",
        "z = x.relu()\nif flag:\n    z = y\nif z.mean() < 0:",
        "z = x.relu()\nfor _ in range(2):\n    if z.mean() < 0:\n        z = z + 1\n    z = z - 1\nif z.mean() < 0:",
        "z = x.relu()\nfor _ in range(2):\n    if z.mean() < 0:\n        y = y + 1\n    z.sub_(1)\nif z.mean() < 0:",
        "z = y\nif flag:\n    z = x.relu()\nif z.mean() < 0:",
    ],
)
def test_what_some_number_passes_is_not(lines: str) -> None:
    assert not never(f"{lines}\n    y = y * 2\nreturn y")


@pytest.mark.parametrize(
    ("lines", "floats"),
    [
        ("z = x.relu()\nif z.min() < -1:", ["`x.relu()`"]),
        ("z = x.relu()\nif z.sum() < 0:", ["`x.relu()`"]),
        ("z = x * x\nif (z < 0).any():", ["`x * x`"]),
        ("z = x.abs() + y ** 2\nif z.max() < 0:", ["`x.abs()`", "`y ** 2`"]),
        ("z = x - x\nw = z + y.float().exp()\nif w.mean() < 0:", ["`x - x`"]),
        ("z = x.relu()\nz = self.layer(z).abs()\nif z.min() < 0:", ["`self.layer(z).abs()`"]),
        # Whatever is known to be another dtype is none of floats.
        ("z = x.long()\nif z.abs().min() < 0:", None),
        ("z = x.argmax() ** 2\nif z < 0:", None),
        ("z = (x.long() * x.long()).relu()\nif z.min() < -1:", None),
        # An empty tensor, a rounded number, and what NaN does not pass alone.
        ("z = x.relu()\nif (z < -1).all():", None),
        ("z = x * x\nif z.max() <= 0:", None),
        ("z = x / x\nif z.max() > 1.00001:", ["`x / x`"]),
        ("z = x.clamp(min=-1)\nif z.min() < -1:", None),
        ("z = x * x\nif not z.min() >= 0:", None),
        # The zero that is negative.
        ("z = x.exp() / y.relu()\nif z.min() < 0:", None),
        ("z = x.relu()\nz.sub_(1)\nif z.min() < -1:", None),
    ],
)
def test_what_no_floats_pass_is_known_of_an_unknown_dtype(lines: str, floats: list[str] | None) -> None:
    body = f"{lines}\n    y = y * 2\nreturn y"
    assert not never(body)
    assert never_holds_of_floats(*last_test(body)) == floats


_STEPS = (
    "torch.relu({a})", "{a}.relu()", "{a}.abs()", "{a}.exp()", "{a} ** 2", "{a} ** 0.5", "-{a}", "{a} * {b}",
    "{a} + {b}", "{a} - {b}", "{a} / {b}", "{a} * {a}", "{a} - {a}", "{a} / {a}", "{a}.clamp(min=0.1)",
    "torch.clamp({a}, max=-0.5)", "{a}.clip(-1, 2)", "{a}.sigmoid()", "{a}.detach()", "{a}.float()", "{a}.double()",
    "{a}.sqrt()", "{a}.tanh()", "{a}.view(-1)", "{a}[:1]", "{a}.norm()", "{a}.sum()", "{a}.reshape(1, -1)",
)  # fmt: skip
_ASKED = ("{a}.mean()", "{a}.sum()", "{a}.min()", "{a}.max()", "{a}.norm()", "{a}.float().mean()")
_NUMBERS = (-1000, -1, -0.5, -0.1, 0, 0.1, 0.5, 1, 1000)


def _drawn(choose: random.Random) -> tuple[list[str], str]:
    lines, names = ["y = y.float()"], ["x", "y"]
    for number in range(choose.randint(1, 3)):
        step = choose.choice(_STEPS).format(a=choose.choice(names), b=choose.choice(names))
        names.append(f"z{number}")
        lines.append(f"{names[-1]} = {step}")
    last, sign, limit = names[-1], choose.choice(["<", ">", "<=", ">=", "=="]), choose.choice(_NUMBERS)
    if choose.random() < 0.3:
        return lines, f"({last} {sign} {limit}).any()"
    return lines, f"{choose.choice(_ASKED).format(a=last)} {sign} {limit}"


def _numbers() -> Iterator[Any]:
    import torch

    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        yield torch.tensor([[0.0, -0.0, float("inf")], [float("-inf"), float("nan"), 1.5]], dtype=dtype)
        yield torch.tensor([[0.0, -0.0, 3.0], [1e-7, 0.1, 0.5]], dtype=dtype)
        yield torch.full((2, 3), 6e4, dtype=dtype)
        yield -torch.tensor([[0.1, 1e-9, 3.0], [0.25, 0.1, 100.0]], dtype=dtype)
        yield torch.zeros(2, 3, dtype=dtype)
        yield torch.zeros(0, 3, dtype=dtype)
    for dtype in (torch.int8, torch.uint8, torch.int64):
        yield torch.tensor([[0, 1, torch.iinfo(dtype).min], [torch.iinfo(dtype).max, 100, 7]], dtype=dtype)
    yield torch.tensor([[True, False, True], [False, True, True]])


@pytest.mark.parametrize("floats", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_what_is_known_holds_for_no_numbers(seed: int, floats: bool, torch_is_no_burden: None) -> None:
    import torch

    choose, known, numbers = random.Random(seed), 0, list(_numbers())
    for _ in range(200):
        lines, test = _drawn(choose)
        asked = last_test("\n".join([*lines, f"if {test}:", "    y = y * 2", "return y"]))
        if never_holds_of_floats(*asked) is None if floats else not never_holds(*asked):
            continue
        known += 1
        for x in (one for one in numbers if one.is_floating_point() or not floats):
            for y in (x, -x if x.dtype is not torch.bool else x, torch.ones(2, 3)):
                names = {"torch": torch, "x": x, "y": y}
                try:
                    exec("\n".join(lines), names)
                    holds = bool(eval(test, names))
                except (RuntimeError, IndexError):
                    continue
                assert not holds, (lines, test, x, y)
    assert known > 3
