"""Numbers that torch draws in the place of Python's `random` and of NumPy: from the same distribution, or not at all."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import numpy as np
import pytest
import torch

from dynalint.fix.edits import plan_of, replaced
from dynalint.rules import Declined, Example, Rewrite, Rule
from dynalint.testing.cases import Case
from dynalint.testing.static import Study
from dynalint_rules.side_effects.numpy_random import NumpyRandom
from dynalint_rules.side_effects.python_random import PythonRandom

pytestmark = pytest.mark.dynamo

HEAD = """\
import random
import numpy as np
import torch


@torch.compile
def f(x: torch.Tensor, n: int, p: float, anything, flag: bool):
"""


def answer(body: str) -> Rewrite | Declined:
    rule: Rule = NumpyRandom() if "np.random" in body else PythonRandom()
    code = HEAD + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n"
    found = Study(Case(rule, Example("x", code)), [rule]).own
    assert len(found) == 1, found
    assert isinstance(found[0].answer, Rewrite | Declined)
    return found[0].answer


def new_code(found: Rewrite) -> str:
    """Return the code after a rewrite."""
    file = found.replacements[0].file
    return replaced(file.text, plan_of(found)[file.path])


@pytest.mark.parametrize(
    ("drawn", "instead"),
    [
        ("np.random.rand()", "torch.rand(())"),
        ("np.random.uniform()", "torch.rand(())"),
        ("np.random.uniform(2.0)", "torch.empty(()).uniform_(2.0, 1.0)"),
        ("np.random.uniform(high=p, low=0.5)", "torch.empty(()).uniform_(0.5, p)"),
        ("np.random.normal(scale=2.0)", "torch.normal(0.0, 2.0, ())"),
        ("np.random.standard_normal()", "torch.randn(())"),
        ("np.random.randint(n)", "torch.randint(n, ())"),
        ("np.random.randint(1, high=n + 1)", "torch.randint(1, n + 1, ())"),
        ("np.random.choice(5)", "torch.randint(5, ())"),
        ("random.gauss(0.0, p)", "torch.normal(0.0, p, ())"),
        ("(1 - random.random())", "torch.rand(())"),
        ("(1 - random.uniform(0, 1))", "torch.rand(())"),
        ("(1 - random.randint(1, 4))", "torch.randint(1, 5, ())"),
        ("(1 - random.randint(1, n))", "torch.randint(1, n + 1, ())"),
        ("(1 - random.randrange(n))", "torch.randint(n, ())"),
    ],
)
def test_the_same_is_drawn_by_torch(drawn: str, instead: str) -> None:
    found = answer(f"return x * {drawn}")
    assert isinstance(found, Rewrite), found
    assert found.safety == "unsafe"
    assert "different numbers" in found.conditions[0]
    assert instead in new_code(found)


@pytest.mark.parametrize(
    "body",
    [
        "return x * np.random.uniform(anything, 1.0)",
        "return x * np.random.randint(anything)",
        "return x * np.random.randint(0.5, 3.5)",
        "return x * np.random.choice(anything)",
        "return x * np.random.choice(3, p=[0.2, 0.3, 0.5])",
        "return x * np.random.beta(0.5, 0.5)",
        "return x * np.random.uniform(*anything)",
        "return x.repeat(np.random.randint(1, 3), 1)",
        "return x * int(np.random.rand() * 4)",
        "return [x, x + 1][np.random.randint(2)]",
        "return x * random.choice([1.0, 2.0])",
        "random.shuffle(anything)\nreturn x",
        "rows = random.sample(range(4), 2)\nreturn x, rows",
        "rows = random.sample(anything, 2)\nreturn x[rows]",
        "rows = random.sample(range(1, 4), 2)\nreturn x[rows]",
        "rows = np.random.permutation(anything)\nreturn x[rows]",
        "rows = np.random.choice(4, (2, 2))\nreturn x[rows]",
        "rows = np.random.choice(4, 2, flag)\nreturn x[rows]",
        "rows = np.random.choice(4, 2, replace=flag)\nreturn x[rows]",
        "rows = np.random.choice(4, 2)\nif flag:\n    rows = [0]\nreturn x[rows]",
        "rows = np.random.permutation(4)\nreturn x[torch.tensor(rows, dtype=torch.int32)]",
    ],
)
def test_what_torch_has_nothing_like_stays(body: str) -> None:
    assert isinstance(answer(body), Declined)


@pytest.mark.parametrize(
    ("name", "arguments", "new"),
    [
        ("rand", (), lambda: torch.rand(())),
        ("uniform", (2.0, 5.0), lambda: torch.empty(()).uniform_(2.0, 5.0)),
        ("normal", (1.0, 2.0), lambda: torch.normal(1.0, 2.0, ())),
        ("randint", (1, 5), lambda: torch.randint(1, 5, ())),
    ],
)
def test_the_distributions_are_the_same(
    name: str, arguments: tuple[float, ...], new: Callable[[], torch.Tensor]
) -> None:
    torch.manual_seed(0)
    old = getattr(np.random.RandomState(0), name)
    before, after = (np.sort([float(one()) for _ in range(4000)]) for one in (lambda: old(*arguments), new))
    assert np.abs(before - after).mean() < 0.12 * before.std()
