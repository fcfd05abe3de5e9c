"""Building new code out of nodes: expressions without parentheses, statements without layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import libcst as cst

Line = cst.BaseStatement | cst.BaseSmallStatement
"""A statement of a block that is built; a small one is put on a line of its own."""

_BINARY: dict[str, type[cst.BaseBinaryOp]] = {
    "+": cst.Add,
    "-": cst.Subtract,
    "*": cst.Multiply,
    "/": cst.Divide,
    "//": cst.FloorDivide,
    "%": cst.Modulo,
    "**": cst.Power,
    "@": cst.MatrixMultiply,
    "&": cst.BitAnd,
    "|": cst.BitOr,
    "^": cst.BitXor,
    "<<": cst.LeftShift,
    ">>": cst.RightShift,
}
_COMPARING: dict[str, type[cst.BaseCompOp]] = {
    "==": cst.Equal,
    "!=": cst.NotEqual,
    "<": cst.LessThan,
    ">": cst.GreaterThan,
    "<=": cst.LessThanEqual,
    ">=": cst.GreaterThanEqual,
    "is": cst.Is,
    "is not": cst.IsNot,
    "in": cst.In,
    "not in": cst.NotIn,
}


def name(dotted: str) -> cst.BaseExpression:
    """Return a name, or attributes of one: `torch.where`."""
    first, *rest = dotted.split(".")
    node: cst.BaseExpression = cst.Name(first)
    for one in rest:
        node = cst.Attribute(node, cst.Name(one))
    return node


def number(value: float) -> cst.BaseExpression:
    """Return a number as Python writes it."""
    return cst.parse_expression(repr(value))


def call(function: cst.BaseExpression | str, *args: cst.BaseExpression, **keywords: cst.BaseExpression) -> cst.Call:
    """Return a call of a function, or of one by its dotted name."""
    tight = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    given = [cst.Arg(one) for one in args]
    given += [cst.Arg(one, keyword=cst.Name(key), equal=tight) for key, one in keywords.items()]
    return cst.Call(name(function) if isinstance(function, str) else function, given)


def with_argument(
    called: cst.BaseExpression, place: int, value: cst.BaseExpression, keyword: str | None = None
) -> cst.Call:
    """Return a call that has another argument at a place, counted from 0, under a keyword if one is given."""
    assert isinstance(called, cst.Call)
    tight = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    named = {"keyword": cst.Name(keyword), "equal": tight} if keyword is not None else {}
    new = called.args[place].with_changes(value=value, **named)
    return called.with_changes(args=[*called.args[:place], new, *called.args[place + 1 :]])


def attribute(owner: cst.BaseExpression, name: str) -> cst.Attribute:
    """Return an attribute of what an expression gives."""
    return cst.Attribute(owner, cst.Name(name))


def item(owner: cst.BaseExpression, index: cst.BaseExpression) -> cst.Subscript:
    """Return `owner[index]`."""
    return cst.Subscript(owner, [cst.SubscriptElement(cst.Index(index))])


def method(owner: cst.BaseExpression, name: str, *args: cst.BaseExpression, **keywords: cst.BaseExpression) -> cst.Call:
    """Return a call of a method."""
    return call(attribute(owner, name), *args, **keywords)


def calling(
    name: str, *args: cst.BaseExpression, **keywords: cst.BaseExpression
) -> Callable[[cst.BaseExpression], cst.BaseExpression]:
    """Return what calls a method of the expression that it is given."""
    return lambda owner: method(owner, name, *args, **keywords)


def operation(left: cst.BaseExpression, sign: str, right: cst.BaseExpression) -> cst.BaseExpression:
    """Return two operands joined by an arithmetic, bitwise, comparing or logical operator.

    What is joined to the right of `and` or `or` by the same one needs no parentheses: it asks the same in one row.
    """
    if sign in ("and", "or"):
        if isinstance(right, cst.BooleanOperation) and isinstance(right.operator, cst.And) == (sign == "and"):
            return operation(operation(left, sign, right.left), sign, right.right)
        return cst.BooleanOperation(left, cst.And() if sign == "and" else cst.Or(), right)
    if sign in _COMPARING:
        return cst.Comparison(left, [cst.ComparisonTarget(_COMPARING[sign](), right)])
    return cst.BinaryOperation(left, _BINARY[sign](), right)


def negation(operand: cst.BaseExpression) -> cst.BaseExpression:
    """Return `not operand`."""
    return cst.UnaryOperation(cst.Not(), operand)


def inversion(operand: cst.BaseExpression) -> cst.BaseExpression:
    """Return `~operand`."""
    return cst.UnaryOperation(cst.BitInvert(), operand)


def assignment(target: cst.BaseAssignTargetExpression | str, value: cst.BaseExpression) -> cst.Assign:
    """Return `target = value`."""
    return cst.Assign([cst.AssignTarget(cst.Name(target) if isinstance(target, str) else target)], value)


def block(lines: Sequence[Line]) -> cst.IndentedBlock:
    """Return an indented block of statements, small ones included."""
    # A small one becomes a line when the block is put in place, where it is still known as part of the old code.
    return cst.IndentedBlock(lines)  # type: ignore[arg-type]


def branch(
    test: cst.BaseExpression, body: Sequence[Line], orelse: Sequence[Line] = (), *, otherwise: cst.CSTNode | None = None
) -> cst.If:
    """Return `if test:` with the statements below it, and those below its `else:` if there are any.

    `otherwise` is an `if` that becomes its `elif`.
    """
    assert otherwise is None or isinstance(otherwise, cst.If)
    return cst.If(test, block(body), cst.Else(block(orelse)) if orelse else otherwise)


def asking(statement: cst.CSTNode, test: cst.BaseExpression) -> cst.If:
    """Return an `if` with another test and all else that it has; the lines above it stay where it is put."""
    assert isinstance(statement, cst.If)
    return statement.with_changes(test=test, whitespace_before_test=cst.SimpleWhitespace(" "), leading_lines=())
