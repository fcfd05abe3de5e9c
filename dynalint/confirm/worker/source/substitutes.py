"""Temporarily replace the code of functions in memory, with known results instead of operations that break.

The first run records results, and the second run uses them:

    an expression          its values, or only its truth value in a test
    a `with` statement     the values bound to names. The block runs without the context manager
    a store or deletion    a copy of the tensor that was written to. Any other store is skipped
"""

from __future__ import annotations

import ast
import copy
import gc
import types
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch.utils import _pytree as pytree

# A name with these underscores is not mangled in a class.
RECORD = "__dynalint_record__"
VALUES = "__dynalint_values_{}__"


Kind = Literal["value", "truth", "with", "store"]


@dataclass(frozen=True)
class OperationPlace:
    """An expression or `with` statement in a file, by line, column and end column, the way Dynamo reports a break."""

    file: str
    line: int
    column: int
    end_column: int


@dataclass
class Substitute:
    """An operation to replace. `kind` is set once it has been found, and `values` are its results, in order."""

    number: int
    place: OperationPlace
    kind: Kind = "value"
    values: list[Any] = field(default_factory=list)

    def record(self, value: Any) -> Any:
        """Record a value with its tensors copied. Return it, or its truth value if only that is needed."""
        value = bool(value) if self.kind == "truth" else value
        self.values.append(pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.detach().clone(), value))
        return value


class _Rewriter(ast.NodeTransformer):
    """Makes edited operations record their results, or replaces them with recorded results."""

    def __init__(self, tree: ast.AST, edits: Sequence[Substitute], *, recording: bool) -> None:
        self._recording = recording
        self._edits: dict[int, Substitute] = {}
        read = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and _is_load(node)}
        wanted = {(edit.place.line, edit.place.column, edit.place.end_column): edit for edit in edits}
        for node, kind, node_at in _editable(tree, read):
            edit = wanted.pop((node_at.lineno, node_at.col_offset, node_at.end_col_offset or 0), None)
            if edit is not None:
                edit.kind = kind
                self._edits[id(node)] = edit
        self.complete = not wanted

    def visit(self, node: ast.AST) -> Any:
        """Return the replacement for a node, which can be a list of statements."""
        edit = self._edits.get(id(node))
        node = self.generic_visit(node)
        if edit is None:
            return node
        if isinstance(node, ast.With):
            new: Any = self._block(edit, node)
        elif isinstance(node, ast.stmt):
            new = self._store(edit, node)
        else:
            assert isinstance(node, ast.expr)
            new = self._expression(edit, node)
        for one in new if isinstance(new, list) else [new]:
            ast.fix_missing_locations(ast.copy_location(one, node) if not hasattr(one, "lineno") else one)
        return new

    def _expression(self, edit: Substitute, node: ast.expr) -> ast.expr:
        if self._recording:
            return _record(edit, node)
        # The expression stays in dead code, so that the function closes over the same variables.
        return ast.IfExp(ast.Constant(True), _take(edit), node)

    def _block(self, edit: Substitute, node: ast.With) -> ast.stmt | list[ast.stmt]:
        names = [item.optional_vars.id for item in node.items if isinstance(item.optional_vars, ast.Name)]
        if self._recording:
            bound = ast.Tuple([ast.Name(name, ast.Load()) for name in names], ast.Load())
            node.body.insert(0, ast.copy_location(ast.Expr(_record(edit, bound)), node))
            return node
        targets = ast.Tuple([ast.Name(name, ast.Store()) for name in names], ast.Store())
        given: list[ast.stmt] = [ast.Assign([targets], _take(edit))] if names else []
        never = ast.If(ast.Constant(False), [ast.With(node.items, [ast.Pass()])], [])
        return [*given, never, *node.body]

    def _store(self, edit: Substitute, node: ast.stmt) -> list[ast.stmt]:
        target = _target(node)
        assert isinstance(target, (ast.Subscript, ast.Attribute))
        holder = target.value
        if self._recording:
            return [node, ast.Expr(_record(edit, _loaded(holder)))]
        value = getattr(node, "value", None)
        done: list[ast.stmt] = [] if value is None else [ast.Expr(value)]
        if isinstance(target, ast.Subscript) and all(isinstance(kept, torch.Tensor) for kept in edit.values):
            done.append(ast.Expr(_call(ast.Attribute(_loaded(holder), "copy_", ast.Load()), _take(edit))))
        return [*done, ast.If(ast.Constant(False), [node], [])]


def _editable(tree: ast.AST, read: Container[str]) -> Iterator[tuple[ast.AST, Kind, Any]]:
    """Yield each node that can be replaced, with its kind and the node at the position of the break."""
    truths = set(map(id, _truths(tree)))
    heads = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.With) and all(
            isinstance(item.optional_vars, (ast.Name, types.NoneType)) for item in node.items
        ):
            yield node, "with", node
            for item in node.items:
                heads.add(id(item.context_expr))
                yield node, "with", item.context_expr
        elif isinstance(node, ast.stmt) and (target := _target(node)) is not None:
            # If an attribute is read somewhere, storing it cannot be skipped.
            if isinstance(target, ast.Subscript) or target.attr not in read:
                yield node, "store", target
        elif isinstance(node, ast.expr) and _is_load(node) and id(node) not in heads:
            yield node, "truth" if id(node) in truths else "value", node


def _target(node: ast.stmt) -> ast.Subscript | ast.Attribute | None:
    """Return the only target of a store or deletion, or None."""
    targets: Sequence[ast.AST] = ()
    if isinstance(node, (ast.Assign, ast.Delete)):
        targets = node.targets
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        targets = [node.target]
    first = targets[0] if len(targets) == 1 else None
    return first if isinstance(first, (ast.Subscript, ast.Attribute)) else None


def _is_load(node: ast.expr) -> bool:
    return isinstance(getattr(node, "ctx", ast.Load()), ast.Load)


def _loaded(node: ast.expr) -> ast.expr:
    """Return a copy of an expression's node."""
    return copy.deepcopy(node)


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
