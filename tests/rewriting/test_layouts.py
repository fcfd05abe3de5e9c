"""Rewrites of code in the layouts that people write: nothing else of it changes, and no comment is lost."""

from __future__ import annotations

import ast
from pathlib import Path
from textwrap import dedent

import libcst as cst
import pytest

from dynalint.analysis.source import parse_text
from dynalint.rewriting import build
from dynalint.rewriting.code import written
from dynalint.rewriting.difference import edits
from dynalint.rewriting.substitution import Substitution, replacements, substituted
from dynalint.rewriting.tree import Tree
from dynalint.rules import Refusal


def rewritten(source: str) -> str:
    """Put each run of statements `p(...)` behind a guard, take out each `gone()`, write `new(x)` for each `old(x)`."""
    file = parse_text(Path("a.py"), source)
    assert file.tree is not None, file.error
    trees: dict[Tree, list[Substitution]] = {}
    for parent in ast.walk(file.tree):
        for block in (getattr(parent, name, None) for name in ("body", "orelse", "finalbody")):
            for run in runs(block if isinstance(block, list) else []):
                tree = Tree.around(file, run[0])
                guarded = build.branch(build.name("eager"), [tree.line(one) for one in run])
                new = (guarded,) if called(run[0]) == "p" else ()
                trees.setdefault(tree, []).append(Substitution(tuple(map(tree.statement, run)), new))
        if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id == "old":
            tree = Tree.around(file, parent)
            call = tree.expression(parent)
            assert isinstance(call, cst.Call)
            made = build.call("new", *(one.value for one in call.args))
            trees.setdefault(tree, []).append(Substitution((call,), (made,)))
    changes = sorted(
        (one for tree, some in trees.items() for one in replacements(tree, some)), key=lambda one: one.start
    )
    for tree, some in trees.items():
        text = tree.text
        for change in sorted(replacements(tree, some), key=lambda one: -one.start):
            text = text[: change.start - tree.start] + change.content + text[change.end - tree.start :]
        assert text == substituted(tree, some), "what differs is all that differs"
    for change in reversed(changes):
        content = change.content.replace("\n", "\r") if file.newline == "\r" else change.content
        source = source[: change.start] + content + source[change.end :]
    return source


def called(statement: ast.stmt) -> str | None:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return ast.unparse(statement.value.func)
    return None


def runs(block: list[ast.stmt]) -> list[list[ast.stmt]]:
    """Return the runs of statements `p(...)`, and each `gone()` alone."""
    found: list[list[ast.stmt]] = []
    for before, statement in zip([None, *block], block, strict=False):
        if called(statement) == "p" and before is not None and called(before) == "p":
            found[-1].append(statement)
        elif called(statement) in ("p", "gone"):
            found.append([statement])
    return found


LAYOUTS = {
    "lines": (
        """
        def f(x):
            # above

            # nearer
            p(1)  # behind
            # between
            p(
                2,  # inside
                '''text
            stays''',
            )

            return x
        """,
        """
        def f(x):
            # above

            # nearer
            if eager:
                p(1)  # behind
                # between
                p(
                    2,  # inside
                    '''text
            stays''',
                )

            return x
        """,
    ),
    "semicolons": (
        """
        def f(x):
            a = 1; p(a); b = 2; p(b)  # why
            return x
        """,
        """
        def f(x):
            # why
            a = 1
            if eager:
                p(a)
            b = 2
            if eager:
                p(b)
            return x
        """,
    ),
    "a-semicolon-behind-the-suite": (
        """
        def f(x):
            if x: p(x);  # why
            if x: gone() ;
            return x;
        """,
        """
        def f(x):
            if x:
                # why
                if eager:
                    p(x)
            if x: pass
            return x;
        """,
    ),
    "on-the-line-of-the-header": (
        """
        def f(x):
            if x: p(x)  # why
            if x: old(x)
            elif y: gone()
            else: a = 1; p(a)
            for a in x: gone(); b = 2
            return x
        """,
        """
        def f(x):
            if x:
                # why
                if eager:
                    p(x)
            if x: new(x)
            elif y: pass
            else:
                a = 1
                if eager:
                    p(a)
            for a in x: b = 2
            return x
        """,
    ),
    "taken-out": (
        """
        def f(x):
            # of what is gone
            gone()  # noqa: T201
            # of what stays
            a = 1; gone()
            if a:
                # alone
                gone()
            with x:
                a = 2
                # last
                gone()
            # after
        """,
        """
        def f(x):
            # of what is gone
            # of what stays
            a = 1
            if a:
                # alone
                pass
            with x:
                a = 2
                # last
            # after
        """,
    ),
    "inside-each-other": (
        """
        def f(x):
            def inner():
                p(old(old(x)))
                return old(
                    x,  # first
                    old(2)
                )
            return old((
                x  # the input
            ))
        """,
        """
        def f(x):
            def inner():
                if eager:
                    p(new(new(x)))
                # first
                return new(x, new(2))
            # the input
            return new(x)
        """,
    ),
    "outside-of-functions": (
        """
        a = old(1); b = 2

        class C:
            k: int = (old(3))  # in a class
            g = lambda x: old(x) + 1
            if k: l = old(k)
            elif old(l): m = 2
        """,
        """
        a = new(1); b = 2

        class C:
            k: int = (new(3))  # in a class
            g = lambda x: new(x) + 1
            if k: l = new(k)
            elif new(l): m = 2
        """,
    ),
    "decorators-and-async": (
        """
        class C:
            @property
            # of the method
            @old(1)
            async def f(self, x=old(2)):
                async with old(x) as y, z:
                    p(await y)
        """,
        """
        class C:
            @property
            # of the method
            @new(1)
            async def f(self, x=new(2)):
                async with new(x) as y, z:
                    if eager:
                        p(await y)
        """,
    ),
    "clauses": (
        """
        def f(x):
            try:
                p(1)
            except old(E) as e:  # of the handler
                p(2)
            else:
                # nothing
                gone()
            finally:
                p(3)
            match old(x):
                case 1:
                    gone()
        """,
        """
        def f(x):
            try:
                if eager:
                    p(1)
            except new(E) as e:  # of the handler
                if eager:
                    p(2)
            else:
                # nothing
                pass
            finally:
                if eager:
                    p(3)
            match new(x):
                case 1:
                    pass
        """,
    ),
}


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
@pytest.mark.parametrize("indent", ["    ", "  ", "\t"], ids=["four", "two", "tab"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_layout(name: str, indent: str, newline: str) -> None:
    before, after = (dedent(text).lstrip().replace("    ", indent).replace("\n", newline) for text in LAYOUTS[name])
    assert rewritten(before) == after


def test_long_call_is_wrapped_once_it_is_made() -> None:
    names = [f"argument_number_{index}" for index in range(8)]
    source = f"class C:\n    def f(self):\n        return old({', '.join(names)})\n"
    lines = "".join(f"            {name},\n" for name in names)
    assert rewritten(source) == f"class C:\n    def f(self):\n        return new(\n{lines}        )\n"


def test_a_call_with_little_in_it_is_not_wrapped_for_the_line_around_it() -> None:
    source = f"def f(x):\n    return {'x' * 60}({'y' * 45}, old(0))\n"
    assert rewritten(source) == source.replace("old(0)", "new(0)")


def test_two_changes_of_one_node_are_refused() -> None:
    file = parse_text(Path("a.py"), "def f(x):\n    return old(x)\n")
    assert file.tree is not None
    (call,) = (one for one in ast.walk(file.tree) if isinstance(one, ast.Call))
    tree = Tree.around(file, call)
    outer, inner = tree.expression(call), tree.expression(call.args[0])
    one, other = Substitution((outer,), (build.name("a"),)), Substitution((outer,), (build.name("b"),))
    with pytest.raises(Refusal, match="two rewrites"):
        substituted(tree, [one, other])
    with pytest.raises(Refusal, match="removes code"):
        substituted(tree, [one, Substitution((inner,), (build.name("b"),))])


def test_edits_are_small() -> None:
    assert list(edits("a = b.item()\nc\n", "a = b\nc\n")) == [(5, 12, "")]
    assert list(edits("a\nb\nc\n", "a\nc\n")) == [(2, 4, "")]
    assert list(edits("a\n", "a\n")) == []


SPREAD = {
    "fits": ("g(\n        a,\n        [b, (c,)],\n    )", "x = where(test, g(a, [b, (c,)]), 0)"),
    "only the argument fits": (
        f"g(\n        {'a' * 60},\n        b\n    )",
        f"x = where(\n        test,\n        g({'a' * 60}, b),\n        {'z' * 40},\n    )",
    ),
    "comment": (
        "g(\n        a,  # why\n    )",
        "x = where(\n        test,\n        g(\n        a,  # why\n    ),\n        0,\n    )",
    ),
    "string": (
        'g("""\n  a""", b)',
        'x = where(\n        test,\n        g("""\n  a""", b),\n        0,\n    )',
    ),
}


@pytest.mark.parametrize("name", SPREAD)
def test_code_that_moves_into_a_call_is_joined_where_it_fits(name: str) -> None:
    value, expected = SPREAD[name]
    source = f"def f():\n    x = {value}\n"
    file = parse_text(Path("a.py"), source)
    assert file.tree is not None
    (assign,) = (one for one in ast.walk(file.tree) if isinstance(one, ast.Assign))
    other = "z" * 40 if "z" in expected else "0"
    for edit in reversed(written(file, (assign, [f"x = where(test, {value}, {other})"]))):
        source = source[: edit.start] + edit.content + source[edit.end :]
    assert source == f"def f():\n    {expected}\n"


def test_code_written_as_text_keeps_its_lines_where_they_are() -> None:
    text = "def f(x):\n    assert (\n        any(\n            x,\n            1\n        ).item()\n    )\n"
    file = parse_text(Path("a.py"), text)
    assert file.tree is not None
    call = next(one for one in ast.walk(file.tree) if isinstance(one, ast.Call) and not one.args)
    assert isinstance(call.func, ast.Attribute)
    changes = written(file, (call, file.segment(call.func.value)))
    for change in sorted(changes, key=lambda one: -one.start):
        text = text[: change.start] + change.content + text[change.end :]
    assert text == "def f(x):\n    assert (\n        any(\n            x,\n            1\n        )\n    )\n"
