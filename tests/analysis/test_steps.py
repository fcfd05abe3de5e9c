"""Walking trees, in the order of `ast.walk`."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import dynalint
from dynalint.analysis.steps import Budget, all_nodes, walk

SYNTAX = '''
import a.b as c
from . import *
from ..a import (b as c, d)

@decorate(1, *x, key=2, **y)
class C(Base, metaclass=M):
    """Text."""
    x: int = 1
    y: "str"

    async def f(self, a, /, b: int = 1, *args: T, c, d=2, **kwargs) -> None:
        global g
        async with a as b, c:
            await b
        async for x in y:
            yield x
        else:
            return
        try:
            raise E from e
        except (A, B) as error:
            del a.b, c[1:2:3, ...]
        finally:
            assert x, f"{y!r:>{width}} {z}"

def g(x, y=lambda *a: a):
    nonlocal_ = [i for i in x if i for j in i] or {a: b, **c} or {*d} or (e, *f)
    while not x < y <= z is None not in w:
        x @= -y if z else ~w
        if (n := 1) and x or y:
            break
        continue
    match x:
        case {"a": 1, **rest} | [1, *others] | C(b, c=None) | "text" as name if rest:
            pass
        case _:
            yield from x
'''


@pytest.mark.parametrize("text", [SYNTAX, *(path.read_text() for path in Path(dynalint.__file__).parent.glob("*.py"))])
def test_the_same_nodes_in_the_same_order(text: str) -> None:
    tree = ast.parse(text)
    nodes = [node for node in ast.walk(tree) if not isinstance(node, ast.expr_context)]
    assert all_nodes(tree) == nodes == list(walk(tree)) == list(Budget(10**6).walk(tree))
