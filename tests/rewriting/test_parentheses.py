"""Whatever expression takes the place of another one, or is built of others, the code says what was meant."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import libcst as cst
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynalint.analysis.source import parse_text
from dynalint.rewriting import build
from dynalint.rewriting.substitution import Substitution, substituted
from dynalint.rewriting.tree import Tree
from dynalint.rules import Refusal

# One or two of each level of Python's grammar, and forms that libcst writes in a way of their own.
EXPRESSIONS = [
    "x", "x.y", "f(x)", "x[0]", "[x]", "{x}", "{x: y}", "(x, y)", "x, y", "()", "1", "1.5", "1j", "'s'", "'s' 't'", "f'{x}'",
    "...", "None", "x ** y", "-x", "~x", "not x", "x * y", "x @ y", "x / y", "x + y", "x - y", "x << y", "x & y", "x ^ y", "x | y",
    "x < y", "x < y < z", "x in y", "x is not y", "x and y", "x or y", "x if y else z", "lambda: x", "lambda x: x", "(x := y)",
    "[x for x in y]", "{x for x in y}", "{x: y for x in z}", "(x for x in y)", "(yield)", "(yield x)", "await x", "(x\n    + y)",
    "f(x,\n    y)", "(x\n    .y())", "-1", "-x ** -y", "(x ** y) ** z", "(x < y) < z", "(not x) < y", "(x if y else z).w", "(lambda: x)()",
]  # fmt: skip
SLOTS = [
    "a = _", "a: int = _", "a += _", "return _", "_", "if _: pass", "while _: pass", "for a in _: pass", "assert _", "assert a, _",
    "raise _", "raise a from _", "with _: pass", "with _ as b: pass", "a = -_", "a = ~_", "a = not _", "a = _ + b", "a = b + _", "a = _ ** b",
    "a = b ** _", "a = _ * b", "a = b - _", "a = b @ _ @ c", "a = _ | b", "a = b & _", "a = _ << b", "a = _ < b", "a = b < _", "a = b < _ < c",
    "a = _ in b", "a = b is _", "a = _ and b", "a = b and _", "a = _ or b", "a = b or _ or c", "a = _ if b else c", "a = b if _ else c",
    "a = b if c else _", "a = lambda: _", "a = lambda b=_: b", "a = _.b", "a = _.b()", "a = _[b]", "a = b[_]", "a = b[_, c]", "a = b[_:c]",
    "a = b[c:_:d]", "a = _(b)", "f(_)", "f(_, b)", "f(b, _)", "f(b=_)", "f(*_)", "f(**_)", "a = [_]", "a = [b, *_]", "a = {_}", "a = {_: b}",
    "a = {b: _}", "a = {**_}", "a = (_, b)", "a = b, _", "a = (_)", "a = [_ for b in c]", "a = [b for b in _]", "a = [b for b in c if _]",
    "a = {_ for b in c}", "a = {_: b for b in c}", "a = {b: _ for b in c}", "f(_ for b in c)", "a = (b := _)", "a = yield _", "a = await _",
    "if(_): pass", "a = not(_)", "return(_)", "a = b if(_)else c", "a = [b]if(_)else(c)", "match _:\n        case 1: pass", "return[_]", "a = f'{_}'",
    "@_\n    def a(): pass", "a[_] = b", "_.a = b", "del b[_]", "async with _: pass", "lambda a=_: a", "if a: pass\n    elif _: pass", "a = _; b = c",
    "if a: b = _; c = d", "a = (b\n        + _)", "f(b,  # why\n        _)",
]  # fmt: skip
NEW = [(one, cst.parse_expression(one), ast.parse(f"({one})", mode="eval").body) for one in EXPRESSIONS]


class _Put(ast.NodeTransformer):
    def __init__(self, new: ast.expr) -> None:
        self.new = new

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.new if node.id == "_old" else node


class _Flat(ast.NodeTransformer):
    """`a and b and c` is one operation for `ast`, and says the same as `(a and b) and c` and `a and (b and c)`."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.BoolOp:
        self.generic_visit(node)
        alike = [isinstance(one, ast.BoolOp) and type(one.op) is type(node.op) for one in node.values]
        values = [one.values if flat else [one] for one, flat in zip(node.values, alike, strict=True)]  # type: ignore[attr-defined]
        node.values = [one for some in values for one in some]
        return node


@pytest.mark.parametrize("slot", SLOTS)
def test_any_expression_in_a_slot(slot: str) -> None:
    tried, place = 0, SLOTS.index(slot)
    # What is put for an expression in parentheses differs by slot: all of it is put somewhere.
    for put, some in (("_old", NEW), ("(_old)", NEW[place % 3 :: 3])):
        file = parse_text(Path("a.py"), f"async def g():\n    {slot.replace('_', put)}\n")
        if file.tree is None:
            continue  # `@(_old)` and the like
        (old,) = (one for one in ast.walk(file.tree) if isinstance(one, ast.Name) and one.id == "_old")
        tree = Tree.around(file, old)
        for code, new, meant in some:
            try:
                text = substituted(tree, [Substitution((tree.expression(old),), (new,))])
            except Refusal:
                continue
            tried += 1
            expected = _Put(meant).visit(ast.parse(file.text))
            assert ast.dump(_Flat().visit(ast.parse(text))) == ast.dump(_Flat().visit(expected)), f"{code}:\n{text}"
    assert tried > len(NEW) / 2


Pair = tuple[cst.BaseExpression, ast.expr]
_SIGNS: dict[str, ast.AST] = {
    "+": ast.Add(), "-": ast.Sub(), "*": ast.Mult(), "**": ast.Pow(), "@": ast.MatMult(), "&": ast.BitAnd(), "|": ast.BitOr(),
    "<": ast.Lt(), "is not": ast.IsNot(), "in": ast.In(), "and": ast.And(), "or": ast.Or(),
}  # fmt: skip
_OLD = [f"({one})" for one in EXPRESSIONS if not one.startswith("(yield") and not one.startswith("await")]
_FILE = parse_text(Path("a.py"), "async def g():\n" + "".join(f"    a = {one}\n" for one in [*_OLD, "_old"]))


def _old_nodes() -> list[Pair]:
    assert _FILE.tree is not None
    (function,) = _FILE.tree.body
    assert isinstance(function, ast.AsyncFunctionDef)
    values = [one.value for one in function.body if isinstance(one, ast.Assign)]
    tree = Tree.around(_FILE, values[0])
    return [(tree.expression(one), one) for one in values]


_NODES = _old_nodes()


def _joined(left: Pair, sign: str, right: Pair) -> Pair:
    node, operator = build.operation(left[0], sign, right[0]), _SIGNS[sign]
    if isinstance(operator, ast.boolop):
        return node, ast.BoolOp(operator, [left[1], right[1]])
    if isinstance(operator, ast.cmpop):
        return node, ast.Compare(left[1], [operator], [right[1]])
    assert isinstance(operator, ast.operator)
    return node, ast.BinOp(left[1], operator, right[1])


def _called(function: Pair, argument: Pair, other: Pair) -> Pair:
    node = build.call(function[0], argument[0], key=other[0])
    return node, ast.Call(function[1], [argument[1]], [ast.keyword("key", other[1])])


def _method(owner: Pair, argument: Pair) -> Pair:
    return build.method(owner[0], "m", argument[0]), ast.Call(
        ast.Attribute(owner[1], "m", ast.Load()), [argument[1]], []
    )


def _signed(make: Callable[[cst.BaseExpression], cst.BaseExpression], operator: ast.unaryop) -> Callable[[Pair], Pair]:
    return lambda one: (make(one[0]), ast.UnaryOp(operator, one[1]))


def _built(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    return st.one_of(
        st.builds(_joined, inner, st.sampled_from(sorted(_SIGNS)), inner),
        st.builds(_called, inner, inner, inner),
        st.builds(_method, inner, inner),
        inner.map(_signed(build.negation, ast.Not())),
        inner.map(_signed(lambda one: cst.UnaryOperation(cst.BitInvert(), one), ast.Invert())),
    )


@given(st.recursive(st.sampled_from(_NODES[:-1]), _built, max_leaves=6))
@settings(max_examples=40)
def test_built_of_old_nodes(pair: Pair) -> None:
    new, meant = pair
    tree = Tree.around(_FILE, _NODES[-1][1])
    try:
        text = substituted(tree, [Substitution((_NODES[-1][0],), (new,))])
    except Refusal:
        return
    written = ast.parse(text).body[0]
    assert isinstance(written, ast.AsyncFunctionDef)
    last = written.body[-1]
    assert isinstance(last, ast.Assign)
    expected = ast.fix_missing_locations(ast.parse(ast.unparse(ast.fix_missing_locations(meant)), mode="eval")).body
    assert ast.dump(_Flat().visit(last.value)) == ast.dump(_Flat().visit(expected)), text
