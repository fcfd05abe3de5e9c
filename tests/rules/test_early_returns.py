"""Returns in loops, under tests of Python values and at several depths: what they become, and what is declined."""

from __future__ import annotations

import random
import textwrap

import pytest

from dynalint.rulebook.pages import Example
from dynalint.rules import Declined
from dynalint.testing.cases import Case
from dynalint.testing.static import StaticView
from dynalint_rules.control_flow.branch_on_tensor import BranchOnTensor

HEAD = "import torch\n\n\n@torch.compile\ndef f(x: torch.Tensor, y: torch.Tensor, flag: bool, k: int):\n"
RULE = BranchOnTensor()


def study(body: str) -> StaticView:
    code = HEAD + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n"
    return StaticView(Case(RULE, Example("x", code)), [RULE])


def fixed(body: str) -> str:
    return textwrap.dedent(study(body).fixed.removeprefix(HEAD)).rstrip("\n")


def reasons(body: str) -> list[str]:
    """Return why nothing is offered for what stands in a body."""
    answers = [found.answer for found in study(body).own]
    assert answers
    assert all(isinstance(answer, Declined) for answer in answers), answers
    return [answer.reason for answer in answers if isinstance(answer, Declined)]


def lines(text: str) -> str:
    return textwrap.dedent(text).strip("\n")


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (
            """
            for i in range(3):
                z = x * i
                if z.sum() > 0:
                    return z
            return z
            """,
            """
            returned = early = None
            for i in range(3):
                z = x * i
                condition = z.sum() > 0
                early = z if returned is None else torch.where(returned, early, z)
                returned = condition if returned is None else returned | condition
            return early
            """,
        ),
        (
            """
            z = x * 1
            for i in range(3):
                z = z * 2
                if z.sum() > 0:
                    return z
            return z
            """,
            """
            z = x * 1
            returned = None
            early = z
            for i in range(3):
                z = z * 2
                condition = z.sum() > 0
                early = z if returned is None else torch.where(returned, early, z)
                returned = condition if returned is None else returned | condition
            return early
            """,
        ),
    ],
)
def test_a_result_may_be_missing(body: str, wanted: str) -> None:
    assert fixed(body) == lines(wanted)


def test_an_early_result_is_what_it_was_before_a_later_change_in_place() -> None:
    body = "z = x * 2\nif z.sum() > 0:\n    return RESULT\nz += y\nreturn z"
    assert "early = z.clone()\n" in fixed(body.replace("RESULT", "z"))
    assert "in place" in reasons(body.replace("RESULT", "z.t().t()"))[0]
    assert "early = z * 2\n" in fixed(body.replace("RESULT", "z * 2"))
    assert "clone" not in fixed(body.replace("RESULT", "x"))


_LOOP = """
y = x * 2
for i in ROUNDS:
    BODY
    z = y * i
    if z.sum() > 0:
        return z
AFTER
return z
"""


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ROUNDS": "y"}, "different length on other calls"),
        ({"ROUNDS": "iter(x)"}, "different length"),
        ({"BODY": "print(i)"}, "side effect"),
        ({"BODY": "x[0] = 1"}, "stores to"),
        ({"BODY": "y = y + torch.rand_like(y)"}, "random"),
        ({"BODY": "assert i < 2"}, "might raise"),
        ({"BODY": "while k: k -= 1"}, "would always run"),
        ({"AFTER\n": "z = z * 2\n"}, "without this result"),
        ({"        return z\n": "        return z, y\n"}, "without this result"),
        ({"\nreturn z\n": "\n"}, "without this result"),
    ],
)
def test_a_loop_that_may_not_run_on(change: dict[str, str], words: str) -> None:
    body = _LOOP
    for old, new in {**change, "ROUNDS": "range(3)", "BODY": "pass", "AFTER\n": ""}.items():
        body = body.replace(old, change.get(old, new))
    assert any(words in reason for reason in reasons(body)), reasons(body)


@pytest.mark.parametrize(
    "around",
    ["while k:", "with torch.no_grad():", "try:", "if x.sum() > y:"],
)
def test_a_return_in_what_may_do_more(around: str) -> None:
    body = f"z = x * 2\n{around}\n    for i in range(2):\n        if z.sum() > 0:\n            return z\n        z = z - 1\n"
    body += "finally:\n    k = 1\n" if around == "try:" else ""
    if "if" in around:
        body = body.replace("z = z - 1", "z = torch.rand_like(z)")
    assert reasons(body + "return z")


def test_the_else_of_a_loop_runs_where_nothing_returned() -> None:
    body = "for i in range(2):\n    z = x * i\n    if z.sum() > 0:\n        return z\nelse:\n    x = x * 2\nreturn z"
    assert "return after the loop" in reasons(body)[0]


def test_a_round_that_goes_on_is_no_other_side_of_one_that_returns() -> None:
    body = (
        "for _ in range(2):\n    if x.sum() > 0:\n        x = x * 2\n        continue\n    return y * 2\nreturn x - y"
    )
    assert "continues" in reasons(body)[0]


def test_an_argument_that_nobody_reads_any_more_is_still_somebody_elses() -> None:
    assert "in place" in reasons("z = x * 2\nif z.sum() > 0:\n    return z\nx += 1\nreturn z")[0]
    assert "early" in fixed("k = 1\nz = x * 2\nif z.sum() > 0:\n    return z + k\nk += 1\nreturn z")


@pytest.mark.parametrize(
    "body",
    [
        "for i in range(2):\n        return y * i",
        "for i in range(0):\n        return y",
        "for i in range(k):\n        return y",
        "for i in (x, y):\n        return y",
        "for i in range(2):\n        if flag:\n            continue\n        return y",
        "for i in range(2):\n        if flag:\n            break\n        return y",
    ],
)
def test_a_loop_that_may_have_no_first_round_to_the_end_stays(body: str) -> None:
    """Nor does one go that tells its round."""
    assert "for i in" in fixed(f"if x.sum() > 0:\n    {body}\nreturn x")


# Random programs.

_STEPS = ("{a} * 2", "{a} - {b}", "{a} * 0.5 + {b}", "torch.sqrt({a})", "{a} / {b}", "-({a})", "{a}.abs()", "{a}")
_TESTS = ("{a}.sum() > 0", "not {a}.max() > 1", "{a}.mean() < 0.1 and {b}.max() > 0", "flag and {a}.sum() > 0")
_PYTHON = ("flag", "not flag", "k > 1", "k == 0 or flag")
_KINDS = ("set", "set", "add", "if", "if", "python", "for")


class _Writer:
    """Draws programs that return from loops and under tests, of one form throughout."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.pair = self.random.random() < 0.3
        self.left = 14

    def program(self) -> str:
        names = ["x", "y", "a", "b", "c"]
        body = ["a = x * 1", "b = a + y", "c = x - y"]
        body += self.block(names, 0, loop=False) + self.block(names, 0, loop=False) + [self.result(names)]
        return HEAD + "".join(f"    {line}\n" for line in body)

    def result(self, known: list[str]) -> str:
        return f"return {', '.join(self.value(known) for _ in range(1 + self.pair))}"

    def value(self, known: list[str]) -> str:
        a, b = self.random.choice(known), self.random.choice(known)
        return self.random.choice([a, self.random.choice(_STEPS).format(a=a, b=b)])

    def block(self, names: list[str], depth: int, *, loop: bool) -> list[str]:
        known, written = list(names), []
        for _ in range(self.random.randint(1, 3)):
            self.left -= 1
            if depth and self.random.random() < 0.3:
                jumps = [self.result(known), *(["break", "continue"] if loop else [])]
                return [*written, self.random.choice(jumps)]
            kind = self.random.choice(_KINDS) if depth < 3 and self.left > 0 else "set"
            written += self.statement(kind, known, depth, loop=loop)
        return written

    def statement(self, kind: str, known: list[str], depth: int, *, loop: bool) -> list[str]:
        a, b = self.random.choice(known), self.random.choice(known)
        if kind == "add":
            return [f"{self.random.choice('abc')} += {b}"]
        if kind == "set":
            name = self.random.choice("abct")
            value = self.random.choice(_STEPS).format(a=a, b=b)
            known += [] if name in known else [name]
            return [f"{name} = {value}"]
        if kind == "for":
            return [f"for i in range({self.random.choice('123k')}):", *self.deeper(known, depth, loop=True)]
        tests = _TESTS if kind == "if" else _PYTHON
        written = [f"if {self.random.choice(tests).format(a=a, b=b)}:", *self.deeper(known, depth, loop=loop)]
        if self.random.random() < 0.3:
            test = self.random.choice(_TESTS + _PYTHON).format(a=a, b=b)
            written += [f"elif {test}:", *self.deeper(known, depth, loop=loop)]
        if self.random.random() < 0.5:
            written += ["else:", *self.deeper(known, depth, loop=loop)]
        return written

    def deeper(self, known: list[str], depth: int, *, loop: bool) -> list[str]:
        return [f"    {line}" for line in self.block(known, depth + 1, loop=loop)]


def test_elements_of_a_tensor_made_after_the_return_may_be_stored() -> None:
    body = """
    if x.sum() > 0:
        return x * 3
    z = y * 2
    z[0] = 1
    return z
    """
    assert fixed(body) == lines("""
    condition = x.sum() > 0
    z = y * 2
    z[0] = 1
    return torch.where(condition, x * 3, z)
    """)


@pytest.mark.parametrize(
    "rest",
    [
        "y[0] = 1\nreturn y * 2",
        "z = y.view(-1)\nz[0] = 1\nreturn z",
        "z = [y, y]\nz[0] = x\nreturn z[0]",
        "z = y * 2\nz.grad = x\nreturn z",
    ],
)
def test_what_the_caller_may_see_is_not_stored_on_every_call(rest: str) -> None:
    assert "stores to" in reasons(f"if x.sum() > 0:\n    return x * 3\n{rest}")[0]


@pytest.mark.parametrize("read", ["z = x * y.sum().item()", "z = x * y.tolist()[0]", "z = x[torch.nonzero(y)[0]]"])
def test_the_rest_does_not_run_on_every_call_while_it_breaks_the_graph(read: str) -> None:
    (reason,) = reasons(f"if x.sum() > 0:\n    return x\n{read}\nreturn z + 1")
    assert "breaks the graph as well" in reason
