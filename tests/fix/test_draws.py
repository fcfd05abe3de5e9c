"""Draws: other tensors right before the code that a fix changes, in both versions, for sides that no input reaches."""

from __future__ import annotations

import builtins
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dynalint.analysis.source import SourceFile, parse_source
from dynalint.fix import Proof
from dynalint.fix.draws import DRAW, asked_of, draws_of
from dynalint.fix.edits import Change, Moves, replaced
from dynalint.fix.sides import inserted

from .test_verify import model

pytestmark = pytest.mark.dynamo

Prove = Callable[..., Proof]

CODE = """\
import torch


def f(x, y, *rest, last=None):
    global z
    z = x
    a = x + y; b = [i for i in x]
    for v in b:
        if v > last:
            a = a + z + unknown
        elif v < last:
            with torch.no_grad():
                if a > 1: a = v
                c = a
        else:
            del a
    def inner():
        return a
    return a
"""


def parsed(text: str) -> SourceFile:
    file = parse_source(Path("m.py"), text.encode())
    assert file.tree is not None, file.error
    return file


def change(text: str, old: str, new: str = "pass") -> Change:
    return Change(text.index(old), text.index(old) + len(old), new)


def places(old: str, text: str = CODE) -> dict[str, tuple[str, ...]]:
    """The line that each draw stands before, and the names that are drawn there."""
    file = parsed(text)
    return {
        file.line(file.position(draw.offset)[0]).strip(): draw.names for draw in draws_of(file, [change(text, old)], 0)
    }


def test_names_are_drawn_before_the_change_and_before_what_stands_around_it() -> None:
    assert places("c = a") == {"for v in b:": ("b",), "if v > last:": ("v", "last"), "c = a": ("a",)}
    assert places("z = x") == {"z = x": ("x",)}


def test_what_the_function_does_not_bind_itself_is_not_drawn() -> None:
    assert places("a = a + z + unknown")["a = a + z + unknown"] == ("a",)
    assert places("a = x + y; b = [i for i in x]") == {"a = x + y; b = [i for i in x]": ("x", "y")}


def test_a_statement_without_a_line_of_its_own_is_drawn_for_further_out() -> None:
    assert places("b = [i for i in x]") == {}
    assert places("a = v\n") == {"for v in b:": ("b",), "if v > last:": ("v", "last"), "if a > 1: a = v": ("a", "v")}


def test_code_outside_of_functions_has_no_draws() -> None:
    assert places("import torch\n") == {}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    if a:\n        a = b\n", "    a = b\n"),
        ("if a:\n        a = b\n", "a = b\n"),
        ("    if a:\n        a = b\n    return a", "    test = a\n    return test"),
    ],
)
def test_draws_stand_before_all_that_changes_at_their_place(
    old: str, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "def f(a, b):\n    b = b + 1\n    if a:\n        a = b\n    return a\n"
    file, changes = parsed(text), [change(text, old, new)]
    changes = [Change(text.index("    if a"), text.index("    if a"), "    early = 1\n"), *changes]
    (draw,) = draws_of(file, changes, 7)
    place = Moves(changes).line_moved(draw.offset)
    assert place is not None
    lines = draw.lines("\n")
    before = inserted(text, [(draw.offset, 0, lines)])
    after = inserted(replaced(text, changes), [(place, 0, lines)])
    head = f"def f(a, b):\n    b = b + 1\n{lines}"
    assert before.startswith(head)
    assert after.startswith(head + "    early = 1\n")
    drawn: list[Any] = []
    monkeypatch.setattr(builtins, DRAW, lambda *told: drawn.append(told) or 10, raising=False)
    names: dict[str, Any] = {}
    exec(before, names)
    assert names["f"](1, 2) == 10
    assert drawn == [(7, "a", 1), (7, "b", 3)]


def test_a_name_without_a_value_stays_without() -> None:
    text = "def f():\n    if 0:\n        a = 1\n    print(a)\n"
    (draw,) = draws_of(parsed(text), [change(text, "print(a)")], 0)
    with pytest.raises(UnboundLocalError, match="'a'"):
        exec(f"{inserted(text, [(draw.offset, 0, draw.lines(chr(10)))])}f()", {})


NEVER = """
h = h * h
if h.sum() < 0:
    h = h * 2
else:
    h = h - 1
"""


def test_a_side_that_no_input_reaches_is_shown_by_draws(prove: Prove) -> None:
    branch = NEVER.partition("\n    ")[0]
    branch = "\n".join(NEVER.strip("\n").split("\n")[1:])
    proof = prove(model(NEVER), (branch, "h = torch.where(h.sum() < 0, h * 2, h - 1)"), safety="conditional")
    assert proof.outcome == "proven", proof
    assert "4 of 4 sides and statements ran, 2 of them only on values drawn in the function" in proof.detail


@pytest.mark.parametrize(
    "new",
    [
        "h = torch.where(h.sum() < 0, h * 2.5, h - 1)",
        "h = torch.where(h.sum() < 0, h * 2, h - 1).detach()",
        "h = torch.where(h.sum() < 0, h.double(), h - 1).float() if h.dim() > 3 else h - 1",
    ],
)
def test_what_differs_where_values_are_drawn_is_not_shown(prove: Prove, new: str) -> None:
    branch = "\n".join(NEVER.strip("\n").split("\n")[1:])
    proof = prove(model(NEVER), (branch, new), safety="conditional")
    assert proof.outcome != "proven", proof


@pytest.mark.parametrize("side", ["x", "h.add_(1)", "x.view(-1, 8)"])
def test_what_shares_memory_on_a_side_that_no_input_reaches(prove: Prove, side: str) -> None:
    body = f"k = h.detach()\ng = h * h\nif g.sum() < 0:\n    g = {side}"
    rewritten = f"g = torch.where(g.sum() < 0, {side.replace('add_', 'add')}, g)"
    proof = prove(model(body + "\nreturn g, k"), (body.partition("g = h * h\n")[2], rewritten), safety="conditional")
    assert proof.outcome != "proven", proof


def test_a_side_within_one_that_no_input_reaches(prove: Prove) -> None:
    body = textwrap.dedent("""
        h = h * h
        if h.sum() < 0:
            if h.max() > 5:
                h = h + 1
    """)
    inner = "if h.max() > 5:\n    h = h + 1"
    proof = prove(model(body), (inner, "h = torch.where(h.max() > 5, h + 1, h)"), safety="conditional")
    assert proof.outcome == "proven", proof


def test_gradients_go_on_through_what_is_drawn() -> None:
    import torch

    from dynalint.confirm.worker.comparing.drawn_tensors import Draws
    from dynalint.confirm.worker.comparing.trials import ALIKE, USUAL

    draws = Draws()
    x = torch.ones(3, requires_grad=True)
    assert draws(0, "x", x) is x
    draws.begin(frozenset({0}), USUAL[4])
    one, other, again, elsewhere = draws(0, "x", x), draws(0, "y", x), draws(0, "x", x), draws(1, "x", x)
    assert elsewhere is x
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    (one * 3).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0] * 3
    draws.begin(frozenset({0}), ALIKE)
    assert torch.equal(draws(0, "x", x), draws(0, "y", x))
    assert draws(0, "n", 3) == 3
    draws.begin(frozenset({0}), USUAL[4])
    answers = [draws(0, False, x.sum() + number).item() for number in range(9)]
    assert answers == [draws(0, False, x.sum() + number).item() for number in range(9)]
    assert len(set(answers)) > 3
    assert {draws(0, True, given) for given in (True, False)} <= {True, False}
    assert draws(0, False, x) is x
    mask, index = draws(0, "m", x > 0), draws(0, "i", torch.tensor([0, 5]))
    assert (mask.dtype, index.dtype) == (torch.bool, torch.int64)
    assert index.max() <= 5


ZEROS = "the gradient of {} is zeros where it was None (momentum or weight decay then moves the parameter)"


def test_what_drawn_tensors_let_pass_is_told_too(prove: Prove) -> None:
    """All inputs use `gain`; tensors drawn before the branch do not."""
    body = "h = h * h\nif h.sum() < 0:\n    h = h * 2\nelse:\n    h = h + self.gain"
    branch, new = body.partition("\n")[2], "h = torch.where(h.sum() < 0, h * 2, h + self.gain)"
    proof = prove(model(body), (branch, new), safety="conditional", practical=True)
    assert proof.outcome == "proven", proof
    assert proof.passed == (ZEROS.format("gain"),)
    assert prove(model(body), (branch, new), safety="conditional").outcome != "proven"


AGAINST = """
if h.norm():
    g = h * 2
elif (h > 1).any():
    g = h - 1
else:
    g = h * 3
"""


def test_tests_that_rule_each_other_out_are_given_answers_one_by_one(prove: Prove) -> None:
    """No tensor has elements larger than 1 and a norm of zero."""
    new = "g = torch.where(h.norm() != 0, h * 2, torch.where((h > 1).any(), h - 1, h * 3))"
    proof = prove(model(f"{AGAINST}h = g"), (AGAINST, new), safety="conditional")
    assert proof.outcome == "proven", proof
    assert "2 of them only on values drawn in the function, 2 of these where other tests were given" in proof.detail
    wrong = new.replace("h - 1", "h - 2")
    assert prove(model(f"{AGAINST}h = g"), (AGAINST, wrong), safety="conditional").outcome != "proven"


def test_what_no_answer_given_can_reach_by_itself_is_not_proven(prove: Prove) -> None:
    """Other tensors would bring it about, if any, than have been seen to do no harm on the other side."""
    body = AGAINST.replace("(h > 1).any()", "h.abs().min() < -1")
    new = "g = torch.where(h.norm() != 0, h * 2, torch.where(h.abs().min() < -1, h - 1, h * 3))"
    proof = prove(model(f"{body}h = g"), (body, new), safety="conditional")
    assert proof.outcome == "unverifiable", proof


def asked(before: str, after: str) -> tuple[list[str], list[str], list[list[int]]]:
    """The texts with what the tests in the body of a function ask for drawn."""
    old, new = (parsed(f"def f(a, b):\n{textwrap.indent(text, '    ')}\n") for text in (before, after))
    own = Change(old.text.index("\n") + 1, len(old.text), new.text.partition("\n")[2])
    found, tests = asked_of(old, new, [(own, (own.start, len(new.text)))], 5)
    texts = []
    for file, spans in ((old, [one.before for one in found]), (new, [one.after for one in found])):
        places = [one for asked, own in zip(found, spans, strict=True) for one in asked.insertions(own)]
        texts.append(inserted(file.text, places).replace(DRAW, "D").partition("\n    ")[2].rstrip())
    return texts[0], texts[1], tests


def test_what_tests_ask_is_drawn_wherever_it_stands() -> None:
    before, after, tests = asked(
        "if 0 < a.sum() < b.max() and not bool(b.all()) or torch.equal(a, b):\n    a = a / a.sum()\nreturn a",
        "return torch.where((0 < a.sum()) & ~b.all() | (a == b).all(), a / a.sum(), a)",
    )
    assert before.startswith("if 0 < D(5, False, (a.sum())) < b.max() and not bool(D(6, False, (b.all()))) or")
    assert "a = a / D(5, False, (a.sum()))" in before
    assert after.count("D(5, False, (a.sum()))") == 2
    assert "D(7, True, (torch.equal(a, b)))" in before
    assert "D(7, True, ((a == b).all()))" in after
    assert tests == [[5], [6], [7]]


def test_what_shares_memory_is_looked_for_with_numbers_written_into_it(prove: Prove) -> None:
    """Of tensors drawn apart, the first trial tells the sides; written, both names hold what the second one got."""
    body = "h = h * h\nk = h\nif h.sum() < -5 and k.mean() < 0:\n    h = h * 2\nh = h + k"
    branch = "if h.sum() < -5 and k.mean() < 0:\n    h = h * 2"
    new = "h = torch.where((h.sum() < -5) & (k.mean() < 0), h * 2, h)"
    proof = prove(model(body), (branch, new), safety="conditional")
    assert proof.outcome == "proven", proof


def test_a_side_for_another_number_of_dimensions_is_reached(prove: Prove) -> None:
    branch = "if h.sum() > 0 and h.dim() == 3:\n    h = h * 2"
    new = "if h.dim() == 3:\n    h = torch.where(h.sum() > 0, h * 2, h)"
    proof = prove(model(branch), (branch, new), safety="conditional")
    assert proof.outcome == "proven", proof
    assert "drawn" not in proof.detail
    wrong = prove(model(branch), (branch, new.replace("h * 2", "h * 3")), safety="conditional")
    assert wrong.outcome == "refuted", wrong


def test_a_side_for_other_parameters_in_evaluation_alone_is_reached(prove: Prove) -> None:
    branch = "if not self.training and self.gain.sum() < 0:\n    h = h * 2"
    new = "if not self.training:\n    h = torch.where(self.gain.sum() < 0, h * 2, h)"
    proof = prove(model(branch), (branch, new), safety="conditional")
    assert proof.outcome == "proven", proof
    assert "drawn" not in proof.detail


def test_masks_that_select_all_or_nothing_are_drawn_with_other_tensors_in_any_way() -> None:
    from itertools import islice

    import torch

    from dynalint.confirm.worker.comparing.trials import mixed_trials

    calls = [trial.of(((torch.zeros(12, dtype=torch.bool),), {})) for trial in islice(mixed_trials(), 20)]
    assert {(bool(mask.any()), bool(mask.all())) for (mask,), _ in calls} == {
        (False, False),
        (True, False),
        (True, True),
    }
