"""Hear what a graph break hides: run again with the value of the breaking expression given beforehand.

A break inside a `for`, a `try` or a `with` leaves its whole frame to eager, and whatever else breaks there is never
reported. So each such expression is replaced, in the code of the functions in memory, by the values that it had in an
uncompiled run over the same calls; Dynamo then traces the frame up to what breaks next, and so on, for a few rounds.

Nothing is said of frames whose break is no expression with a value to give (a store, an unpacking, the head of a
`with`). Where Python or torch (before 3.11 and 2.12) do not tell columns, the one range asked about that begins in the
line is taken for the expression.
"""

from __future__ import annotations

import ast
import gc
import time
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from . import witness
from .records import Run, Span
from .witness import Call, Maker

_ROUNDS = 6
# A name that ends so is not mangled within a class.
_RECORD = "__dynalint_record__"
_VALUES = "__dynalint_values_{}__"
_HIDING = ("frame", "rest")


@dataclass(frozen=True)
class Place:
    """An expression in a file, by its line, its column and the column of its end, as Dynamo reports a break."""

    file: str
    line: int
    column: int
    end_column: int


@dataclass(frozen=True)
class Asked:
    """The text of a file, and the ranges in it that are asked about."""

    text: str
    spots: Sequence[Sequence[int]]


def latent_run(make: Maker, calls: Sequence[Call], seen: Run, asked: Mapping[str, Asked], seconds: float) -> Run | None:
    """Return the breaks and the traced operations that `seen`, a default run, hid; None where none can be heard.

    `asked` holds the files that are asked about, by the name their code objects have. `seconds` bounds the time after
    which no further round begins.
    """
    deadline = time.monotonic() + seconds
    given: list[Place] = []
    found: Run | None = None
    latest = seen
    for _ in range(_ROUNDS):
        new = [place for place in _hiding(latest, asked) if place not in given]
        if not new or time.monotonic() > deadline:
            break
        given += new
        heard = _given_run(make, calls, given, {file: one.text for file, one in asked.items()})
        if heard is None:
            break
        latest = heard
        found = heard if found is None else _joined(found, heard)
    return found


def _hiding(run: Run, asked: Mapping[str, Asked]) -> Iterator[Place]:
    """Yield the places of the breaks that left a frame, or the rest of one, to eager."""
    for broken in run.breaks:
        frame = next((frame for frame in reversed(broken.stack) if frame.file in asked), None)
        if broken.effect not in _HIDING or frame is None:
            continue
        if frame.column is not None and frame.end_column is not None:
            yield Place(frame.file, frame.line, frame.column, frame.end_column)
            continue
        spots = {(spot[1], spot[3]) for spot in asked[frame.file].spots if spot[0] == frame.line}
        if len(spots) == 1:
            yield Place(frame.file, frame.line, *spots.pop())


def _joined(first: Run, second: Run) -> Run:
    traced: dict[str, tuple[Span, ...]] = {
        file: tuple(sorted({*first.traced.get(file, ()), *second.traced.get(file, ())}))
        for file in {*first.traced, *second.traced}
    }
    breaks = first.breaks + tuple(one for one in second.breaks if one not in first.breaks)
    return replace(second, breaks=breaks, traced=traced)


def _given_run(make: Maker, calls: Sequence[Call], given: Sequence[Place], sources: Mapping[str, str]) -> Run | None:
    """Compile with the values of `given` known; None where they cannot be put in place or the code then fails."""
    edits = [_Edit(number, place) for number, place in enumerate(given)]
    values: dict[int, list[Any]] = {edit.number: [] for edit in edits}

    def record(number: int, value: Any) -> Any:
        value = bool(value) if edits[number].is_truth else value
        values[number].append(pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.detach().clone(), value))
        return value

    with _rewritten(edits, sources, recording=True, names={_RECORD: record}) as done:
        if not done or witness.eager_run(make, calls).error is not None:
            return None
    names = {_VALUES.format(number): kept for number, kept in values.items()}
    with _rewritten(edits, sources, recording=False, names=names) as done:
        return witness.default_run(make, calls, sources) if done else None


@dataclass
class _Edit:
    """The expression to replace, and whether only its truth is asked for; that is known once it has been found."""

    number: int
    place: Place
    is_truth: bool = False


class _Rewriter(ast.NodeTransformer):
    """Wraps expressions to record their values, or puts what gives those values in their place."""

    def __init__(self, tree: ast.AST, edits: Sequence[_Edit], *, recording: bool) -> None:
        self._recording = recording
        self._edits: dict[int, _Edit] = {}
        truths = set(map(id, _truths(tree)))
        wanted = {(edit.place.line, edit.place.column, edit.place.end_column): edit for edit in edits}
        for node in ast.walk(tree):
            if not isinstance(node, ast.expr) or not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
                continue
            edit = wanted.pop((node.lineno, node.col_offset, node.end_col_offset or 0), None)
            if edit is not None:
                edit.is_truth = id(node) in truths
                self._edits[id(node)] = edit
        self.complete = not wanted

    def visit(self, node: ast.AST) -> Any:
        edit = self._edits.get(id(node))
        node = self.generic_visit(node)
        if edit is None or not isinstance(node, ast.expr):
            return node
        if self._recording:
            new: ast.expr = _call(ast.Name(_RECORD, ast.Load()), ast.Constant(edit.number), node)
        else:
            take = ast.Attribute(ast.Name(_VALUES.format(edit.number), ast.Load()), "pop", ast.Load())
            # The expression stays where it is never run, so that the function closes over the same variables.
            new = ast.IfExp(ast.Constant(True), _call(take, ast.Constant(0)), node)
        return ast.fix_missing_locations(ast.copy_location(new, node))


def _call(function: ast.expr, *arguments: ast.expr) -> ast.Call:
    return ast.Call(function, list(arguments), [])


def _truths(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions of which only the truth matters."""
    tests = [node.test for node in ast.walk(tree) if isinstance(node, (ast.If, ast.While, ast.IfExp, ast.Assert))]
    tests += [test for node in ast.walk(tree) if isinstance(node, ast.comprehension) for test in node.ifs]
    for test in tests:
        yield test
        if isinstance(test, ast.BoolOp):
            tests += test.values
        elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            tests.append(test.operand)


@contextmanager
def _rewritten(
    edits: Sequence[_Edit], sources: Mapping[str, str], *, recording: bool, names: Mapping[str, Any]
) -> Iterator[bool]:
    """Give the functions in memory their rewritten code for a while; yields whether all edits are in place."""
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
    file: str, text: str, edits: Sequence[_Edit], *, recording: bool
) -> Mapping[tuple[str, int], list[types.CodeType]]:
    """Compile a file with the edits; return its code objects by name and first line, none if an edit has no place."""
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
    """Yield each function in memory that `codes` has another version of, and that version."""
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
    """Return the functions in memory whose code comes from a file."""
    # By type and not by isinstance, which asks objects for their class and wakes what is made on demand.
    functions = [one for one in gc.get_objects() if type(one) is types.FunctionType]
    return [function for function in functions if function.__code__.co_filename == file]
