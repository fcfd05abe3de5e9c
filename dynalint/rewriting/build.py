"""Build new code from nodes. Expressions need no parentheses, and statements need no layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import libcst as cst

Line = cst.BaseStatement | cst.BaseSmallStatement
"""A statement to put in a block. A small statement gets its own line."""

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
    """Return a name or a dotted name such as `torch.where`."""
    first, *rest = dotted.split(".")
    node: cst.BaseExpression = cst.Name(first)
    for one in rest:
        node = cst.Attribute(node, cst.Name(one))
    return node


def number(value: float) -> cst.BaseExpression:
    """Return a number literal."""
    return cst.parse_expression(repr(value))


def call(function: cst.BaseExpression | str, *args: cst.BaseExpression, **keywords: cst.BaseExpression) -> cst.Call:
    """Return a call to an expression, or to a function given by its dotted name."""
    tight = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    given = [cst.Arg(one) for one in args]
    given += [cst.Arg(one, keyword=cst.Name(key), equal=tight) for key, one in keywords.items()]
    return cst.Call(name(function) if isinstance(function, str) else function, given)


def attribute(owner: cst.BaseExpression, name: str) -> cst.Attribute:
    """Return `owner.name`."""
    return cst.Attribute(owner, cst.Name(name))


def item(owner: cst.BaseExpression, index: cst.BaseExpression) -> cst.Subscript:
    """Return `owner[index]`."""
    return cst.Subscript(owner, [cst.SubscriptElement(cst.Index(index))])


def method(owner: cst.BaseExpression, name: str, *args: cst.BaseExpression, **keywords: cst.BaseExpression) -> cst.Call:
    """Return `owner.name(*args, **keywords)`."""
    return call(attribute(owner, name), *args, **keywords)


def calling(
    name: str, *args: cst.BaseExpression, **keywords: cst.BaseExpression
) -> Callable[[cst.BaseExpression], cst.BaseExpression]:
    """Return a function that builds a call to the method `name` of an expression."""
    return lambda owner: method(owner, name, *args, **keywords)


def without(keyword: str) -> Callable[[cst.BaseExpression], cst.BaseExpression]:
    """Return a function that removes a keyword argument from a call."""

    def shortened(call: cst.BaseExpression) -> cst.BaseExpression:
        assert isinstance(call, cst.Call)
        last = call.args[-1]
        given = [one for one in call.args if one.keyword is None or one.keyword.value != keyword]
        if given and given[-1] is not last:
            # The last argument's comma and line break stay.
            given[-1] = given[-1].with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg)
        return call.with_changes(args=given)

    return shortened


def along_last(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return a call with the argument `dim=-1` added to it."""
    assert isinstance(node, cst.Call)
    return node.with_changes(args=[*node.args, *call("_", dim=number(-1)).args])


def operation(left: cst.BaseExpression, sign: str, right: cst.BaseExpression) -> cst.BaseExpression:
    """Return two operands joined by an arithmetic, bitwise, comparison or logical operator.

    If the right operand of `and` or `or` has the same operator, it needs no parentheses because the meaning is the
    same.
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


def block(lines: Sequence[Line]) -> cst.IndentedBlock:
    """Return an indented block of statements, which can include small statements."""
    # Small statements are turned into lines when the block is inserted. Until then, they can be recognized as part of
    # the old code.
    return cst.IndentedBlock(lines)  # type: ignore[arg-type]


def branch(
    test: cst.BaseExpression, body: Sequence[Line], orelse: Sequence[Line] = (), *, otherwise: cst.CSTNode | None = None
) -> cst.If:
    """Return `if test:` with a body, and an `else:` block if `orelse` is not empty.

    `otherwise` is an `if` statement that becomes the `elif`.
    """
    assert otherwise is None or isinstance(otherwise, cst.If)
    return cst.If(test, block(body), cst.Else(block(orelse)) if orelse else otherwise)


def asking(statement: cst.CSTNode, test: cst.BaseExpression) -> cst.If:
    """Return an `if` statement with a different test.

    The lines above it are not included, because they stay where they are.
    """
    assert isinstance(statement, cst.If)
    return statement.with_changes(test=test, whitespace_before_test=cst.SimpleWhitespace(" "), leading_lines=())
