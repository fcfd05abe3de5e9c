"""Compact trees have the same nodes, fields and positions as the trees of `ast`, in a fraction of the memory."""

from __future__ import annotations

import ast
import copy
import random
import sys
import sysconfig
import tracemalloc
from pathlib import Path

import pytest

from dynalint.analysis.compact import ByType, compacted
from dynalint.analysis.source import parse_text

FILES = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
TEXTS = [path.read_text(encoding="utf-8") for path in random.Random(0).sample(FILES, 30)]
EVERYTHING = """
import a.b as c, d
from . import e as f
@decorated(1, *x, key=2, **y)
class A(B, metaclass=M):
    '''Text.'''
    n: int = 1
    m: float
async def g(a, /, b: int = 1, *c, d=2, **e) -> None:
    global h
    async with a as b, c:
        await d
    async for i in j:
        yield i
def k(*, a):
    nonlocal_ = lambda a, b=1, *c: (yield a)
    with a as (b, c): pass
    for i in range(3):
        if i: continue
        elif not i: break
        else: pass
    else: pass
    while a < b <= c in d: a += 1
    try: raise E from f
    except (E, F) as g: pass
    except G: pass
    else: pass
    finally: del a, b[1]
    assert a, b
    return [x for x in y if x], {x for x in y}, {x: y for x in z}, (x async for x in y), {**a, 1: 2}
match a:
    case {"x": [1, *rest], **others} | B(1, c=2) if d: pass
    case None | "x" as e: pass
    case _: pass
f"{a!r:>{b}} {c}" "d"
x = a if b else c; y = u"text"; z = b"bytes"; w = ...; v = (n := 3), a[1:2, ::3, ...], -1j, a and b or c, a @ b
"""


@pytest.mark.parametrize("text", [EVERYTHING, *TEXTS])
def test_a_compact_tree_says_the_same(text: str) -> None:
    tree, file = ast.parse(text), parse_text(Path("a.py"), text)
    assert file.tree is not None
    assert ast.dump(file.tree, include_attributes=True) == ast.dump(tree, include_attributes=True)
    assert ast.unparse(file.tree) == ast.unparse(tree)
    assert [type(node).__name__ for node in ast.walk(file.tree)] == [type(node).__name__ for node in ast.walk(tree)]
    assert all(not vars(node) for node in ast.walk(file.tree) if node._fields or node._attributes)


def test_it_compiles_to_the_same_code() -> None:
    text = "def f(a, *b):\n    return [x + a for x in b if x]\n"
    tree = parse_text(Path("a.py"), text).tree
    assert tree is not None
    variables: dict[str, object] = {}
    exec(compile(tree, "a.py", "exec"), variables)
    assert eval("f(1, 0, 2)", variables) == [3]


def test_it_takes_less_than_half_of_the_memory() -> None:
    text = max(TEXTS, key=len)

    def size(*, compact: bool) -> int:
        tracemalloc.start()
        tree = ast.parse(text)
        kept = compacted(tree, text.count("\n") + 1) if compact else tree
        del tree
        taken, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert kept.body
        return taken

    size(compact=True)
    assert size(compact=True) < 0.5 * size(compact=False)


def test_copies_are_ordinary_nodes() -> None:
    tree = parse_text(Path("a.py"), EVERYTHING).tree
    assert tree is not None
    copied = copy.deepcopy(tree)
    assert ast.dump(copied, include_attributes=True) == ast.dump(tree, include_attributes=True)
    assert {type(node) for node in ast.walk(copied)} == {type(node) for node in ast.walk(ast.parse(EVERYTHING))}
    assert vars(copy.copy(tree.body[0]))["lineno"] == tree.body[0].lineno


def test_deep_code_keeps_a_tree() -> None:
    text = "x = 1\ny = " + " + ".join(["x"] * 1_500) + "\nz = 2\n"
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(600)  # `ast.parse` may recurse more deeply than Python code
    try:
        tree = parse_text(Path("a.py"), text).tree
    finally:
        sys.setrecursionlimit(limit)
    assert tree is not None
    assert [ast.unparse(one.targets[0]) for one in tree.body if isinstance(one, ast.Assign)] == ["x", "y", "z"]
    last = tree.body[1]
    assert isinstance(last, ast.Assign)
    assert sum(isinstance(node, ast.Name) for node in ast.walk(last.value)) == 1_500


def test_values_by_type_cover_compact_and_derived_nodes() -> None:
    tree = parse_text(Path("a.py"), "f(x)\nreturn_ = 1\n").tree
    assert tree is not None
    call, assignment = tree.body
    names = ByType({ast.Expr: "expression", ast.stmt: "statement"})
    assert (names[type(call)], names[type(assignment)], names[ast.Expr]) == ("expression", "statement", "expression")
    with pytest.raises(KeyError):
        names[ast.Name]
