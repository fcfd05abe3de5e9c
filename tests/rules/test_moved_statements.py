"""Statements that move: classes to the top level, what a stack enters into its `with` statement."""

from __future__ import annotations

import textwrap

import pytest

from dynalint.rules import Declined, Example, Rule
from dynalint.testing.cases import Case
from dynalint.testing.static import Study
from dynalint_rules.python_constructs.class_statement import ClassStatement
from dynalint_rules.python_constructs.exit_stack import ExitStackCall

HEAD = "import torch\nfrom contextlib import ExitStack\n\n\n@torch.compile\ndef f(x: torch.Tensor, verbose: bool):\n"


def study(body: str, rule: Rule) -> Study:
    code = HEAD + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n"
    return Study(Case(rule, Example("x", code)), [rule])


def reason(body: str, rule: Rule) -> str:
    answers = [found.answer for found in study(body, rule).own]
    assert answers
    assert all(isinstance(answer, Declined) for answer in answers), answers
    return answers[0].reason  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("class A:\n    k = 3\n    def double(self):\n        return x * 2\nreturn A().double()", "takes `x`"),
        ("class A:\n    k = 3\nA.k += 1\nreturn x * A.k", "changed by each call"),
        ("class A:\n    k = 3\n    def up(self):\n        type(self).k += 1\nreturn x * A.k", "each call starts anew"),
        ("class A:\n    k = [3]\nreturn x * A.k[0]", "may do more"),
        ("class A(dict):\n    k = 3\nreturn x * A.k", "may do more"),
        ("class A:\n    def m(self, n=print(1)):\n        pass\nreturn x", "may do more"),
        ('class A:\n    k = """a\n    b"""\nreturn x * len(A.k)', "several lines"),
        ("class ExitStack:\n    k = 3\nreturn x * ExitStack.k", "means something else"),
    ],
)
def test_classes_that_stay(body: str, words: str) -> None:
    assert words in reason(body, ClassStatement())


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            "with ExitStack() as s:\n    x = x + 1\n    s.enter_context(torch.no_grad())\n    x = x * 2\nreturn x",
            "to move",
        ),
        ("with ExitStack() as s:\n    s.enter_context(torch.no_grad()); x = x + 1\nreturn x", "a line of its own"),
        ("with ExitStack() as s:\n    s.enter_context(torch.no_grad())\n    t = s.pop_all()\nreturn x", "handed on"),
        ("with ExitStack() as s:\n    s.enter_context(torch.no_grad())\n    f(s)\nreturn x", "handed on"),
        ("s = ExitStack()\ns.enter_context(torch.no_grad())\nreturn x", "no `with` statement"),
        (
            "with ExitStack() as s:\n    for _ in range(2):\n        s.enter_context(torch.no_grad())\nreturn x",
            "to move",
        ),
    ],
)
def test_stacks_that_stay(body: str, words: str) -> None:
    assert words in reason(body, ExitStackCall())


def test_a_stack_that_enters_and_does_nothing_else() -> None:
    body = "with ExitStack() as s:\n    s.enter_context(torch.no_grad())\nreturn x"
    assert "    with torch.no_grad():\n        pass\n    return x" in study(body, ExitStackCall()).fixed
