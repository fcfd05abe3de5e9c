"""Marks: the marked text does what the original does, and tells which sides of the changed branches ran."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import pytest

from dynalint.analysis.source import parse_source
from dynalint.fix.edits import Change, replaced
from dynalint.fix.sides import MARK, inserted, marks_beside, marks_kept, sides_of

CODE = '''\
"""Doc."""
from __future__ import annotations


def f(a, b):
    """Doc."""
    out = []
    if a and not (b
                  or a > 2):  # why
        out.append("both"); out.append("ü")
    elif a: out.append("a")
    while b > 2:
        b -= 1
    x = 1 if a else 2
    kept = [y for y in range(4) if y % 2 if y]
    assert a >= 0, f"{a if a else b}"
    if (n := a + b): out.append(n)
    g = lambda v: v or (yield_ := v)
    return out, x, kept, g(a), [
        1 if b else 2,
    ]
'''


def marked(text: str, *wanted: str, new: str = "pass") -> tuple[str, dict[Any, str]]:
    """Mark what a rewrite of each of these texts by `new` changes."""
    file = parse_source(Path("m.py"), text.encode())
    changes = [Change(text.index(old), text.index(old) + len(old), new) for old in wanted]
    after = parse_source(Path("m.py"), replaced(text, changes).encode())
    assert after.tree is not None, after.error
    sides, insertions = sides_of(file, after, changes, changes, 0)
    return inserted(text, insertions), {side.key: side.words for side in sides}


def run(text: str, *arguments: Any) -> tuple[Any, set[tuple[int, bool | None]]]:
    seen: set[tuple[int, bool | None]] = set()

    def mark(number: int, *tested: Any) -> Any:
        seen.add((number, bool(tested[0]) if tested else None))
        return tested[0] if tested else None

    scope: dict[str, Any] = {}
    setattr(builtins, MARK, mark)
    try:
        exec(compile(text, "m.py", "exec"), scope)
        return scope["f"](*arguments), seen
    finally:
        delattr(builtins, MARK)


BODY = CODE[CODE.index("    out = []") : CODE.rindex("    return")].strip()


def test_the_marked_text_does_the_same_and_sees_every_side() -> None:
    text, sides = marked(CODE, BODY, new="out = x = kept = g = print")
    assert text.count("\n") == CODE.count("\n")
    assert 'def f(a, b):\n    """Doc."""\n' in text
    seen = set()
    for arguments in [(0, 0), (1, 0), (0, 5), (3, 4), (1, 1), (2, -2)]:
        expected, _ = run(CODE, *arguments)
        result, ran = run(text, *arguments)
        assert result == expected
        seen |= ran
    missing = {key: words for key, words in sides.items() if key not in seen}
    assert sorted(missing.values()) == [f"the branch where `{test}` is false" for test in ("a >= 0", "y")]


def test_only_what_is_changed_is_marked() -> None:
    text, sides = marked(CODE, "b -= 1", new="b = b - 1")
    assert list(sides.values()) == ["the statement"]
    assert f"        {MARK}(0); b -= 1\n" in text


def test_a_test_that_stays_is_not_marked() -> None:
    code = "def f(a, t):\n    if a and t > 0:\n        t = 1\n    return t\n"
    old = "if a and t > 0:\n        t = 1"
    _, sides = marked(code, old, new="if a:\n        t = where(t > 0, 1, t)")
    assert list(sides.values()) == [
        "the statement",
        "the branch where `a and t > 0` is true",
        "the branch where `a and t > 0` is false",
    ]


def test_what_stood_under_a_dropped_test_needs_no_run() -> None:
    code = "def f(a, t):\n    if not t > 0:\n        # why\n        a = 1\n        if t:\n            a = 2\n    return a\n"
    old = "if not t > 0:\n        # why\n        a = 1\n        if t:\n            a = 2"
    _, sides = marked(code, old, new="# why\n    a = 1\n    if t:\n        a = 2")
    assert list(sides.values()) == ["the branch where `t > 0` is true"]


_FIRST = "for _ in range(2):\n            a = 2\n            return a"


@pytest.mark.parametrize(
    "leaving", ["return a", "raise a", "if a:\n            return a\n        else:\n            raise a", _FIRST]
)
def test_what_never_runs_needs_no_run(leaving: str) -> None:
    code = f"def f(a, t):\n    if t > 0:\n        {leaving}\n        a = 3 if t else 4\n        a = 5\n    return a\n"
    _, sides = marked(code, code[code.index("if t") : code.index("\n    return a\n")])
    assert "the branch where `t` is true" not in sides.values()
    assert list(sides.values()).count("the statement") == {_FIRST: 2}.get(leaving, leaving.count("a\n") + 1)


@pytest.mark.parametrize(
    ("before", "jumping"),
    [
        ("", "for _ in range(2):\n            if a:\n                break\n            return a"),
        ("", "for _ in range(a):\n            return a"),
        ("", "for _ in range(0):\n            return a"),
        ("", "for _ in a:\n            return a"),
        ("", "if a:\n            return a"),
        ("", "while a:\n            return a"),
        ("", "with a:\n            return a"),
        ("range = list\n\n\n", "for _ in range(2):\n            return a"),
        ("from m import numbers as range\n\n\n", "for _ in range(2):\n            return a"),
    ],
)
def test_what_may_run_behind_a_return_needs_a_run(before: str, jumping: str) -> None:
    code = f"{before}def f(a, t):\n    if t > 0:\n        {jumping}\n        a = 3 if t else 4\n    return a\n"
    _, sides = marked(code, code[code.index("if t") : code.index("\n    return a\n")])
    assert "the branch where `t` is true" in sides.values()


@pytest.mark.parametrize("new", ["a = 2", "a = 1\n    b = 2", "if t:\n        a = 1", "a = where(t > 0, 1, a)", "pass"])
def test_what_stood_under_a_test_needs_a_run_if_something_else_is_there_now(new: str) -> None:
    code = "def f(a, t):\n    if t > 0:\n        a = 1\n    return a\n"
    _, sides = marked(code, "if t > 0:\n        a = 1", new=new)
    assert "the statement" in sides.values()
    assert "the branch where `t > 0` is true" in sides.values()


def test_sides_name_the_function_they_stand_in() -> None:
    code = "x = 1\nclass A:\n    def f(self):\n        if x:\n            def g():\n                return 2\n        return g\n"
    file = parse_source(Path("m.py"), code.encode())
    changes = [Change(code.index(old), code.index(old) + len(old), "0") for old in ("1\n", "2\n", "g\n")]
    after = parse_source(Path("m.py"), replaced(code, changes).replace("0", "0\n").encode())
    sides, _ = sides_of(file, after, changes, changes, 0)
    assert [(side.line, side.function) for side in sides] == [(1, ""), (7, "A.f"), (6, "A.f.g")]


def test_lines_that_are_put_in_ask_for_nothing_that_was_there() -> None:
    code = "def f(a):\n    b = a\n    return b\n"
    file = parse_source(Path("m.py"), code.encode())
    changes = [Change(code.index("    return"), code.index("    return"), "    b += 1\n")]
    sides, _ = sides_of(file, parse_source(Path("m.py"), replaced(code, changes).encode()), changes, changes, 0)
    assert sides == []


@pytest.mark.parametrize("ending", ["\r\n", "\r"])
def test_other_line_endings(ending: str) -> None:
    code = "def f(a):\n    if a:\n        return 1\n    return 2\n".replace("\n", ending)
    text, sides = marked(code, f"if a:{ending}        return 1", new="pass")
    assert len(sides) == 3
    assert run(text, 1)[0] == 1
    assert run(text, 0)[0] == 2


def test_tests_that_stay_are_marked_in_the_functions_that_change() -> None:
    text = "def f(a, b):\n    if a:\n        b = 1\n    return 2 if b else 3\n\n\ndef g(a):\n    return 1 if a else 2\n"
    file = parse_source(Path("m.py"), text.encode())
    start = text.index("if a:")
    change = Change(start, text.index("    return 2"), "b = 1\n")
    after = parse_source(Path("m.py"), replaced(text, [change]).encode())
    _, marked = sides_of(file, after, [change], [change], 0)
    marked_text = inserted(text, marks_beside(file, [change], 70, marked))
    assert marked_text == text.replace("if b else", f"if {MARK}(70, (b)) else")


def test_tests_that_stay_in_what_changes_are_marked() -> None:
    text = "def f(a, b):\n    if a:\n        b = 1 if b else 2\n    return b\n"
    file = parse_source(Path("m.py"), text.encode())
    change = Change(text.index("if a:"), text.index("    return b"), "b = where(a, 1 if b else 2, b)\n")
    after = parse_source(Path("m.py"), replaced(text, [change]).encode())
    _, marked = sides_of(file, after, [change], [change], 0)
    marked_text = inserted(text, marks_beside(file, [change], 70, marked))
    assert f"if {MARK}(71, (b)) else" in marked_text


def test_tests_that_no_change_touches_are_marked_in_the_new_text_too() -> None:
    text = "def f(a, b):\n    while b:\n        b -= 1 if a else 2\n    if a > 1:\n        b = 1\n    return 2 if b else 3\n"
    file = parse_source(Path("m.py"), text.encode())
    changes = [
        Change(text.index("    while"), text.index("    while"), "    c = 1\n"),
        Change(text.index("if a >"), text.index("    return"), "b = where(a > 1, 1, b)\n"),
    ]
    words, insertions = marks_kept(file, changes, 70)
    assert words == {70: "`b` on line 6"}
    assert inserted(replaced(text, changes), insertions) == (
        "def f(a, b):\n    c = 1\n    while b:\n        b -= 1 if a else 2\n    b = where(a > 1, 1, b)\n"
        f"    return 2 if {MARK}(70, (b)) else 3\n"
    )
    beside = inserted(text, marks_beside(file, changes, 70))
    assert f"return 2 if {MARK}(70, (b)) else 3" in beside


@pytest.mark.parametrize(
    ("test", "number"),
    [
        ("isinf(x).any() or isnan(x).any()", 2),
        ("t.isinf(x).any() or t.isnan(x).any()", 1),
        ("t.isinf(x).any() or t.isnan(y).any()", 2),  # `y` may be None if `x` is infinite
        ("t.isinf(x).any() or t.isnan(x[0]).any()", 2),
        ("t.isinf(x).any() or t.relu(x).any()", 2),
    ],
)
def test_the_operands_of_a_search_for_nan_need_no_run_of_their_own(test: str, number: int) -> None:
    code = f"def f(t, x, y):\n    if {test}:\n        x = 1\n    return x\n"
    _, words = marked(code, f"if {test}:\n        x = 1")
    assert len({key[0] for key in words if key[1] is not None}) == number
