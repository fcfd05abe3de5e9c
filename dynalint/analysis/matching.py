"""Match a module's syntax tree after an edit with the tree before it, and keep every statement that did not change.

Only bodies of functions may differ. Everything else has the same text, though perhaps on other lines.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from dynalint.analysis.source import SourceFile

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Different(Exception):  # noqa: N818 - not an error, but the answer that the edit may matter elsewhere
    """An edit changes more than the bodies of functions."""


def merged(old: SourceFile, new: SourceFile) -> tuple[SourceFile, list[tuple[Function, Function]]]:
    """Return the new file with a tree that contains the old nodes of all statements with the same text and lines.

    Also return the old and new nodes of the functions whose text has changed. No tree is modified.

    Raises:
        Different: If anything other than the bodies of functions has changed.
    """
    if old.tree is None or new.tree is None or old.notebook is not None:
        raise Different
    matcher = _Matcher(old, new)
    body = matcher.block(old.tree.body, new.tree.body)
    return replace(new, tree=ast.Module(body=body, type_ignores=[])), matcher.changed


class _Matcher:
    def __init__(self, old: SourceFile, new: SourceFile) -> None:
        self.changed: list[tuple[Function, Function]] = []
        self._old, self._new = old.lines, new.lines

    def block(self, old: Sequence[ast.stmt], new: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Return the new statements of a block, with the old nodes of those that are the same."""
        if len(old) != len(new):
            raise Different
        return [self._statement(one, other) for one, other in zip(old, new, strict=True)]

    def _statement(self, old: ast.stmt, new: ast.stmt) -> ast.stmt:
        if self._texts(old, new, None):
            return old if old.lineno == new.lineno and old.col_offset == new.col_offset else new
        if not any(isinstance(old, kind) and isinstance(new, kind) for kind in (*_FUNCTIONS, ast.ClassDef)):
            raise Different
        if not self._texts(old, new, "body"):
            raise Different
        if isinstance(old, ast.ClassDef) and isinstance(new, ast.ClassDef):
            fields = {name: getattr(new, name) for name in new._fields}
            cls = ast.ClassDef(**{**fields, "body": self.block(old.body, new.body)})
            return ast.copy_location(cls, new)
        assert isinstance(old, Function)
        assert isinstance(new, Function)
        self.changed.append((old, new))
        return new

    def _texts(self, old: ast.stmt, new: ast.stmt, until: str | None) -> bool:
        """Return whether two statements have the same text, up to a block in a field if there is one."""
        return _lines(self._old, old, until) == _lines(self._new, new, until)


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _lines(lines: Sequence[str], node: ast.stmt, until: str | None) -> list[str]:
    """Return the lines of a statement with its decorators, as far as they belong to it."""
    first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
    last, column = node.end_lineno or node.lineno, node.end_col_offset or 0
    if until is not None:
        inside: ast.stmt = getattr(node, until)[0]
        last, column = min([inside.lineno, *(one.lineno for one in getattr(inside, "decorator_list", ()))]), 0
        last, column = (last, inside.col_offset) if last == node.lineno else (last - 1, -1)
    found = list(lines[first - 1 : last])
    if column >= 0:
        found[-1] = found[-1].encode()[:column].decode()
    return [str(node.col_offset), *found]
