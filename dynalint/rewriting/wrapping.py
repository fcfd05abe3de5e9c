"""Wrap long lines. New calls that do not fit are written with one argument per line."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterator

import libcst as cst

WIDTH = 120
"""The maximum line width, beyond which new code is wrapped."""
_SHORT = 20  # arguments with fewer characters are never wrapped
_OPENED = re.compile(r"([(\[{])\s*\n\s*")
_CLOSED = re.compile(r",?\s*\n\s*([)\]}])")
_BROKEN = re.compile(r"[ \t]*\r?\n\s*")
_STRINGS = re.compile(r"""['"]\s*\n\s*\w?['"]""")


def fitting(
    line: cst.SimpleStatementLine,
    indent: str,
    module: cst.Module,
    made: Collection[cst.CSTNode],
    *,
    spread: bool = False,
) -> cst.SimpleStatementLine:
    """Return a line after wrapping as many of the outermost `made` calls as required for it to fit after `indent`.

    If `spread` is true, code that spans lines stands inside a new call. It is joined if the line then fits, and
    otherwise the first call is always wrapped.
    """
    limit = 0
    new, plain = line, cst.TrailingWhitespace()
    if spread and len(line.body) == 1:
        whole = _joined(module.code_for_node(line.body[0]))
        if "\n" not in whole and fits(whole, indent):
            statement = cst.ensure_type(cst.parse_statement(whole), cst.SimpleStatementLine)
            return line.with_changes(body=statement.body)
    while spread or not fits(
        module.code_for_node(new.with_changes(leading_lines=(), trailing_whitespace=plain)), indent
    ):
        limit, spread = limit + 1, False
        wrapping = _Wrapping(module, made, indent, limit=limit)
        visited = line.visit(wrapping)
        assert isinstance(visited, cst.SimpleStatementLine)
        if len(wrapping.wrapped) < limit:
            break
        new = visited
    return new


def outer_calls(node: cst.CSTNode) -> Iterator[cst.Call]:
    """Yield the outermost call in new code, or in a statement's value, and the calls among its arguments.

    Calls whose arguments are already on separate lines are omitted.
    """
    if isinstance(node, cst.If):
        for one in node.body.body:
            yield from outer_calls(one)
    elif isinstance(node, cst.SimpleStatementLine) and isinstance(node.body[0], cst.Assign | cst.Return | cst.Expr):
        if node.body[0].value is not None:
            yield from outer_calls(node.body[0].value)
    elif isinstance(node, cst.Tuple):
        for element in node.elements:
            yield from outer_calls(element.value)
    elif isinstance(node, cst.Call) and is_on_one_line(node):
        yield node
        for arg in node.args:
            yield from outer_calls(arg.value)


def is_on_one_line(call: cst.Call) -> bool:
    """Return whether there are no line breaks between a call's arguments."""
    spaces = [call.whitespace_before_args, *(arg.whitespace_after_arg for arg in call.args)]
    spaces += [arg.comma.whitespace_after for arg in call.args if isinstance(arg.comma, cst.Comma)]
    return all(isinstance(one, cst.SimpleWhitespace) for one in spaces)


def fits(code: str, indent: str) -> bool:
    """Return whether all lines of the code fit within the line width."""
    return all(len(indent) + len(one) <= WIDTH for one in code.splitlines())


def _joined(code: str) -> str:
    """Return code on one line, or unchanged if comments or strings would not survive that."""
    one = _BROKEN.sub(" ", _CLOSED.sub(r"\1", _OPENED.sub(r"\1", code)))
    if "#" in code or "\\" in code or _STRINGS.search(code):
        return code
    try:
        return one if ast.dump(ast.parse(one)) == ast.dump(ast.parse(code)) else code
    except SyntaxError:
        return code


class _Wrapping(cst.CSTTransformer):
    """Wraps the first calls.

    `block` is the block's indentation, and `own` is the indentation added inside wrapped outer calls.
    """

    def __init__(
        self, module: cst.Module, made: Collection[cst.CSTNode], block: str, own: str = "", limit: int = sys.maxsize
    ) -> None:
        super().__init__()
        self._module, self._made, self._block, self._own, self._limit = module, made, block, own, limit
        self.wrapped: set[cst.Call] = set()

    def visit_Call(self, node: cst.Call) -> bool:
        if node in self._made and len(self.wrapped) < self._limit and self._is_long(node):
            self.wrapped.add(node)
        return node not in self.wrapped

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        return self._wrapped(original_node) if original_node in self.wrapped else updated_node

    def _is_long(self, node: cst.Call) -> bool:
        """Return whether the arguments are long enough to wrap. Nobody writes `.squeeze(0)` on three lines."""
        return sum(len(self._module.code_for_node(arg)) for arg in node.args) > _SHORT

    def _wrapped(self, node: cst.Call) -> cst.Call:
        inner, args = self._own + self._module.default_indent, []
        for arg in node.args:
            own = self._module.code_for_node(arg.value)
            if (short := _joined(own)) != own and fits(f"{short},", self._block + inner):
                arg = arg.with_changes(value=cst.parse_expression(short))  # noqa: PLW2901
            last = arg.with_changes(comma=cst.Comma(whitespace_after=_gap(inner)))
            if not fits(self._module.code_for_node(arg.with_changes(comma=cst.Comma())), self._block + inner):
                deeper = last.visit(_Wrapping(self._module, self._made, self._block, inner))
                assert isinstance(deeper, cst.Arg)
                last = deeper
            args.append(last)
        args[-1] = args[-1].with_changes(comma=cst.Comma(whitespace_after=_gap(self._own)))
        return node.with_changes(whitespace_before_args=_gap(inner), args=args)


def _gap(own: str) -> cst.ParenthesizedWhitespace:
    # libcst itself adds the block's indentation.
    return cst.ParenthesizedWhitespace(indent=True, last_line=cst.SimpleWhitespace(own))
