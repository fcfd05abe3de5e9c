"""Temporarily replace expressions in functions in memory that break with their known results.

The first run records the values of each expression, or only its truth values in a test, and the second run uses them.
"""

from __future__ import annotations

import ast
import gc
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

# A name with these underscores is not mangled in a class.
RECORD = "__dynalint_record__"
VALUES = "__dynalint_values_{}__"


@dataclass(frozen=True)
class OperationPlace:
    """An expression in a file, by line, column and end column, the way Dynamo reports a break."""

    file: str
    line: int
    column: int
    end_column: int


@dataclass
class Substitute:
    """An expression to replace, of which only the truth value may be needed. `values` are its results, in order."""

    number: int
    place: OperationPlace
    is_test: bool = False
    values: list[Any] = field(default_factory=list)

    def record(self, value: Any) -> Any:
        """Record a value with its tensors copied. Return it, or its truth value if only that is needed."""
        value = bool(value) if self.is_test else value
        self.values.append(pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.detach().clone(), value))
        return value


class _Rewriter(ast.NodeTransformer):
    """Makes edited expressions record their results, or replaces them with recorded results."""

    def __init__(self, tree: ast.AST, edits: Sequence[Substitute], *, recording: bool) -> None:
        self._recording = recording
        self._edits: dict[int, Substitute] = {}
        wanted = {(edit.place.line, edit.place.column, edit.place.end_column): edit for edit in edits}
        tests = set(map(id, _truths(tree)))
        for node in _editable(tree):
            edit = wanted.pop((node.lineno, node.col_offset, node.end_col_offset or 0), None)
            if edit is not None:
                edit.is_test = id(node) in tests
                self._edits[id(node)] = edit
        self.complete = not wanted

    def visit(self, node: ast.AST) -> Any:
        """Return the replacement for a node."""
        edit = self._edits.get(id(node))
        node = self.generic_visit(node)
        if edit is None:
            return node
        assert isinstance(node, ast.expr)
        # The expression stays in dead code, so that the function closes over the same variables.
        new = _record(edit, node) if self._recording else ast.IfExp(ast.Constant(True), _take(edit), node)
        return ast.fix_missing_locations(ast.copy_location(new, node))


def _editable(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield each expression that can be replaced, which a context manager cannot."""
    heads = {id(item.context_expr) for node in ast.walk(tree) if isinstance(node, ast.With) for item in node.items}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.expr)
            and isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
            and id(node) not in heads
        ):
            yield node


def _record(edit: Substitute, value: ast.expr) -> ast.expr:
    return _call(ast.Name(RECORD, ast.Load()), ast.Constant(edit.number), value)


def _take(edit: Substitute) -> ast.expr:
    take = ast.Attribute(ast.Name(VALUES.format(edit.number), ast.Load()), "pop", ast.Load())
    return _call(take, ast.Constant(0))


def _call(function: ast.expr, *arguments: ast.expr) -> ast.Call:
    return ast.Call(function, list(arguments), [])


def _truths(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions for which only the truth value is needed."""
    tests = [node.test for node in ast.walk(tree) if isinstance(node, (ast.If, ast.While, ast.IfExp, ast.Assert))]
    tests += [test for node in ast.walk(tree) if isinstance(node, ast.comprehension) for test in node.ifs]
    for test in tests:
        yield test
        if isinstance(test, ast.BoolOp):
            tests += test.values
        elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            tests.append(test.operand)


@contextmanager
def rewritten(
    edits: Sequence[Substitute], sources: Mapping[str, str], *, recording: bool, names: Mapping[str, Any]
) -> Iterator[bool]:
    """Temporarily give functions in memory their rewritten code. Yields whether all edits were applied."""
    before: list[tuple[types.FunctionType, types.CodeType]] = []
    try:
        done = True
        for file in dict.fromkeys(edit.place.file for edit in edits):
            here = [edit for edit in edits if edit.place.file == file]
            swaps = list(_swaps(file, _rewritten_codes(file, sources[file], here, recording=recording)))
            for function, code in swaps:
                before.append((function, function.__code__))
                function.__code__ = code
                function.__globals__.update(names)
            done = done and bool(swaps)
        yield done
    finally:
        for function, code in before:
            function.__code__ = code
            for name in names:
                function.__globals__.pop(name, None)


def _rewritten_codes(
    file: str, text: str, edits: Sequence[Substitute], *, recording: bool
) -> Mapping[tuple[str, int], list[types.CodeType]]:
    """Compile a file with the edits. Return its code objects by name and first line, or none if an edit fails."""
    tree = ast.parse(text)
    rewriter = _Rewriter(tree, edits, recording=recording)
    if not rewriter.complete:
        return {}
    codes: dict[tuple[str, int], list[types.CodeType]] = {}
    for code in _codes(compile(rewriter.visit(tree), file, "exec", dont_inherit=True)):
        codes.setdefault((code.co_name, code.co_firstlineno), []).append(code)
    return codes


def _swaps(
    file: str, codes: Mapping[tuple[str, int], Sequence[types.CodeType]]
) -> Iterator[tuple[types.FunctionType, types.CodeType]]:
    """Yield each function in memory that has a new version in `codes`, with that version."""
    for function in _functions(file):
        old = function.__code__
        new = codes.get((old.co_name, old.co_firstlineno), ())
        if len(new) == 1 and new[0] != old and new[0].co_freevars == old.co_freevars:
            yield function, new[0]


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _functions(file: str) -> list[types.FunctionType]:
    """Return the functions in memory whose code comes from `file`."""
    frozen = gc.get_freeze_count() > 0
    gc.unfreeze()  # `gc.get_objects` does not return frozen objects.
    # `isinstance` would access `__class__`, which triggers lazy objects.
    functions = [one for one in gc.get_objects() if type(one) is types.FunctionType]
    if frozen:
        gc.freeze()
    return [function for function in functions if function.__code__.co_filename == file]
