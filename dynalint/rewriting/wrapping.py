"""Long lines: calls that were made are written with one argument a line where they do not fit."""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst

WIDTH = 120
"""Columns that a line of new code may take before it is wrapped."""


def fitting(
    line: cst.SimpleStatementLine, indent: str, module: cst.Module, made: Collection[cst.CSTNode]
) -> cst.SimpleStatementLine:
    """Return a line, the outermost calls in it that were `made` wrapped if it does not fit behind `indent`."""
    bare = line.with_changes(leading_lines=(), trailing_whitespace=cst.TrailingWhitespace())
    if fits(module.code_for_node(bare), indent):
        return line
    wrapped = line.visit(_Wrapping(module, made, indent))
    assert isinstance(wrapped, cst.SimpleStatementLine)
    return wrapped


def fits(code: str, indent: str) -> bool:
    """Whether all lines of some code keep within the width."""
    return all(len(indent) + len(one) <= WIDTH for one in code.splitlines())


class _Wrapping(cst.CSTTransformer):
    """Wraps calls; `block` is the indentation of the block, `own` what a wrapped call around adds to it."""

    def __init__(self, module: cst.Module, made: Collection[cst.CSTNode], block: str, own: str = "") -> None:
        super().__init__()
        self._module, self._made, self._block, self._own = module, made, block, own

    def visit_Call(self, node: cst.Call) -> bool:
        return not self._wraps(node)

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        return self._wrapped(original_node) if self._wraps(original_node) else updated_node

    def _wraps(self, node: cst.Call) -> bool:
        return node in self._made and bool(node.args)

    def _wrapped(self, node: cst.Call) -> cst.Call:
        inner, args = self._own + self._module.default_indent, []
        for arg in node.args:
            last = arg.with_changes(comma=cst.Comma(whitespace_after=_gap(inner)))
            if not fits(self._module.code_for_node(arg.with_changes(comma=cst.Comma())), self._block + inner):
                deeper = last.visit(_Wrapping(self._module, self._made, self._block, inner))
                assert isinstance(deeper, cst.Arg)
                last = deeper
            args.append(last)
        args[-1] = args[-1].with_changes(comma=cst.Comma(whitespace_after=_gap(self._own)))
        return node.with_changes(whitespace_before_args=_gap(inner), args=args)


def _gap(own: str) -> cst.ParenthesizedWhitespace:
    # libcst itself writes the indentation of the block in front.
    return cst.ParenthesizedWhitespace(indent=True, last_line=cst.SimpleWhitespace(own))
