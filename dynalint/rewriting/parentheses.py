"""Add parentheses, based on the precedence of Python's operators and on where line breaks are allowed.

libcst does not add parentheses, so inserting `x + y` into `{a} * 2` would give `x + y * 2`. The levels follow the
grammar in section 10, "Full grammar specification", of the Python reference.
"""

from __future__ import annotations

from typing import TypeVar

import libcst as cst

from dynalint.rules import Refusal

_Node = TypeVar("_Node", bound=cst.CSTNode)

_BARE, _NAMED, _LAMBDA, _IF, _OR, _AND, _NOT, _COMPARISON, _BITS = range(9)
_UNARY, _POWER, _AWAIT = 14, 15, 16
PRIMARY = 17
"""The level of expressions, such as names and calls, that never need parentheses."""
_BINARY: dict[type[cst.BaseBinaryOp], int] = {
    cst.BitOr: _BITS,
    cst.BitXor: 9,
    cst.BitAnd: 10,
    cst.LeftShift: 11,
    cst.RightShift: 11,
    cst.Add: 12,
    cst.Subtract: 12,
    cst.Multiply: 13,
    cst.Divide: 13,
    cst.FloorDivide: 13,
    cst.Modulo: 13,
    cst.MatrixMultiply: 13,
    cst.Power: _POWER,
}
_LEVELS: dict[type[cst.BaseExpression], int] = {
    cst.NamedExpr: _NAMED,
    cst.Lambda: _LAMBDA,
    cst.IfExp: _IF,
    cst.Comparison: _COMPARISON,
    cst.Await: _AWAIT,
    cst.Integer: _AWAIT,  # not a primary, because `1.real` is a syntax error
    cst.Tuple: _BARE,
    cst.Yield: _BARE,
    cst.GeneratorExp: _BARE,
}
# The parts of each node, with the lowest level that needs no parentheses.
_SLOTS: dict[type[cst.CSTNode], dict[str, int]] = {
    cst.ComparisonTarget: {"comparator": _BITS},
    cst.Comparison: {"left": _BITS},
    cst.IfExp: {"body": _OR, "test": _OR, "orelse": _LAMBDA},
    cst.Lambda: {"body": _LAMBDA},
    cst.NamedExpr: {"value": _LAMBDA},
    cst.Attribute: {"value": PRIMARY},
    cst.Subscript: {"value": PRIMARY},
    cst.Call: {"func": PRIMARY},
    cst.Await: {"expression": PRIMARY},
    cst.CompFor: {"iter": _OR},
    cst.CompIf: {"test": _OR},
    cst.StarredElement: {"value": _BITS},
    cst.StarredDictElement: {"value": _BITS},
    cst.FormattedStringExpression: {"expression": _IF},
}
# The same as above, but for parts inside brackets, where line breaks are allowed.
_BRACKETED: dict[type[cst.CSTNode], dict[str, int]] = {
    cst.Arg: {"value": _LAMBDA},
    cst.Index: {"value": _LAMBDA},
    cst.Slice: {"lower": _LAMBDA, "upper": _LAMBDA, "step": _LAMBDA},
    cst.Element: {"value": _LAMBDA},
    cst.DictElement: {"key": _LAMBDA, "value": _LAMBDA},
    cst.ListComp: {"elt": _LAMBDA},
    cst.SetComp: {"elt": _LAMBDA},
    cst.GeneratorExp: {"elt": _LAMBDA},
    cst.DictComp: {"key": _LAMBDA, "value": _LAMBDA},
    cst.Param: {"default": _LAMBDA},
}
# Expressions in statements that are not inside brackets. A tuple needs no parentheses there.
_STATEMENTS: dict[type[cst.CSTNode], tuple[str, ...]] = {
    cst.Assign: ("value",),
    cst.AnnAssign: ("value",),
    cst.AugAssign: ("value",),
    cst.Expr: ("value",),
    cst.Return: ("value",),
    cst.If: ("test",),
    cst.While: ("test",),
    cst.For: ("iter",),
    cst.Assert: ("test", "msg"),
    cst.Raise: ("exc",),
    cst.From: ("item",),
    cst.WithItem: ("item",),
    cst.Match: ("subject",),
    cst.Decorator: ("decorator",),
}
_TAKE_TUPLES = (cst.Assign, cst.AnnAssign, cst.AugAssign, cst.Expr, cst.Return, cst.For)
_TAKE_YIELD = (cst.Assign, cst.AnnAssign, cst.AugAssign, cst.Expr)
_IN_BRACKETS = (
    cst.Arg,
    cst.BaseSlice,
    cst.SubscriptElement,
    cst.List,
    cst.Dict,
    cst.Set,
    cst.ListComp,
    cst.SetComp,
    cst.DictComp,
    cst.BaseString,
    cst.LeftParen,
    cst.RightParen,
    cst.LeftSquareBracket,
    cst.RightSquareBracket,
)


def held(node: _Node, *, made: bool) -> _Node:
    """Return a node with the parentheses that its parts need. Unnecessary pairs are removed if it is new."""
    if isinstance(node, cst.BinaryOperation):
        own = _BINARY[type(node.operator)]
        # `**` is right-associative and binds less tightly than a unary operator on its right.
        left, right = (_AWAIT, _UNARY) if own == _POWER else (own, own + 1)
        return _fitted(node, {"left": left, "right": right}, made=made, bracketed=False)
    if isinstance(node, cst.BooleanOperation):
        own = level(node)
        return _fitted(node, {"left": own, "right": own + 1}, made=made, bracketed=False)
    if isinstance(node, cst.UnaryOperation):
        least = _NOT if isinstance(node.operator, cst.Not) else _UNARY
        return _fitted(node, {"expression": least}, made=made, bracketed=False)
    if isinstance(node, cst.Arg) and isinstance(node.value, cst.GeneratorExp):
        return node  # the call knows whether this is its only argument
    if isinstance(node, cst.FormattedString):
        return _in_string(node)  # type: ignore[return-value]
    if type(node) in _STATEMENTS:
        return _in_statement(node)
    node = _fitted(node, _SLOTS.get(type(node), {}), made=made, bracketed=False)
    node = _fitted(node, _BRACKETED.get(type(node), {}), made=made, bracketed=True)
    return _around_generators(node) if isinstance(node, cst.Call) else node


def level(node: cst.BaseExpression) -> int:
    """Return an expression's precedence level, ignoring its own parentheses."""
    if isinstance(node, cst.BinaryOperation):
        return _BINARY[type(node.operator)]
    if isinstance(node, cst.BooleanOperation):
        return _AND if isinstance(node.operator, cst.And) else _OR
    if isinstance(node, cst.UnaryOperation):
        return _NOT if isinstance(node.operator, cst.Not) else _UNARY
    return _LEVELS.get(type(node), PRIMARY)


def enclosed(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return an expression with another pair of parentheses."""
    return node.with_changes(lpar=[cst.LeftParen(), *node.lpar], rpar=[*node.rpar, cst.RightParen()])


def bare(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return an expression without its parentheses, except for tuples and generators, which include them."""
    is_part = isinstance(node, cst.GeneratorExp | cst.Tuple)
    return node if is_part or not node.lpar else node.with_changes(lpar=(), rpar=())


def breaks(node: cst.CSTNode) -> bool:
    """Return whether a node has a line break outside all brackets."""
    if isinstance(node, cst.ParenthesizedWhitespace):
        return True
    if isinstance(node, _IN_BRACKETS) or (isinstance(node, cst.BaseExpression) and node.lpar):
        return False
    if isinstance(node, cst.Call):
        return breaks(node.func) or breaks(node.whitespace_after_func)
    return any(breaks(child) for child in node.children)


def _fitted(node: _Node, slots: dict[str, int], *, made: bool, bracketed: bool) -> _Node:
    changes: dict[str, cst.BaseExpression] = {}
    for slot, least in slots.items():
        part = getattr(node, slot)
        if not isinstance(part, cst.BaseExpression):
            continue
        slim = bare(part) if made else part
        if slim is not part and not bracketed and breaks(slim):
            slim = part
        if not slim.lpar and level(slim) < least:
            slim = part if part.lpar else enclosed(part)
        if slim is not part:
            changes[slot] = slim
    return node.with_changes(**changes) if changes else node


def _in_statement(node: _Node) -> _Node:
    changes: dict[str, cst.BaseExpression] = {}
    for slot in _STATEMENTS[type(node)]:
        part = getattr(node, slot)
        while isinstance(node, cst.WithItem) and isinstance(part, cst.Tuple) and len(part.lpar) < 2:
            # With only one pair, this would be more than one item of the statement.
            part = changes[slot] = enclosed(part)
        if not isinstance(part, cst.BaseExpression) or part.lpar:
            continue
        loose = (
            (isinstance(part, cst.NamedExpr) and not isinstance(node, cst.If | cst.While))
            or (isinstance(part, cst.Tuple) and not isinstance(node, _TAKE_TUPLES))
            or (isinstance(part, cst.Yield) and not isinstance(node, _TAKE_YIELD))
        )
        if loose or breaks(part):
            changes[slot] = enclosed(part)
    return node.with_changes(**changes) if changes else node


def _in_string(node: cst.FormattedString) -> cst.FormattedString:
    """Return an f-string that is valid before Python 3.12, where expressions cannot contain its quotes or backslashes.

    Raises:
        Refusal: If an expression contains one of these or spans more than one line.
    """
    parts: list[cst.BaseFormattedStringContent] = []
    for part in node.parts:
        if isinstance(part, cst.FormattedStringExpression):
            code = cst.Module([]).code_for_node(part.expression)
            if node.end[0] in code or "\\" in code or "\n" in code:
                raise Refusal("the new code has quotes, a backslash or several lines, which an f-string cannot contain")
            space = cst.SimpleWhitespace(" ") if code.startswith("{") else part.whitespace_before_expression
            parts.append(part.with_changes(whitespace_before_expression=space))
        else:
            parts.append(part)
    return node.with_changes(parts=parts)


def _around_generators(node: _Node) -> _Node:
    """Return a call with parentheses around each generator that is not the only argument."""
    args: list[cst.Arg] = list(node.args)  # type: ignore[attr-defined]
    if len(args) < 2 or not any(isinstance(one.value, cst.GeneratorExp) and not one.value.lpar for one in args):
        return node
    return node.with_changes(
        args=[
            one.with_changes(value=enclosed(one.value))
            if isinstance(one.value, cst.GeneratorExp) and not one.value.lpar
            else one
            for one in args
        ]
    )
