"""Text that draws other tensors in the middle of a function, right before what a fix changes.

Some sides of a branch no input reaches, as what comes before it never makes its test hold. With tensors drawn in the
place of those that were computed, in the original and in the rewritten code alike, the part that was rewritten is
compared by itself. A *draw* is a place for that: lines before a statement, for the names that are read from there on.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dynalint.analysis.index import walk_function
from dynalint.analysis.source import SourceFile
from dynalint.fix.edits import Change

# Known to the worker as `drawing.DRAW`.
DRAW = "__dynalint_draw__"

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True, slots=True)
class Draw:
    """A place to draw tensors at: `offset` is the start of a line with this indentation, in the text before a fix.

    `number` is what the place is known by.
    """

    number: int
    offset: int
    indent: str
    names: tuple[str, ...]

    def lines(self, newline: str) -> str:
        """Return the lines to put there. A name without a value gets none."""
        return "".join(
            f"{self.indent}try: {name} = {DRAW}({self.number}, {name!r}, {name}){newline}"
            f"{self.indent}except NameError: pass{newline}"
            for name in self.names
        )


def draws_of(file: SourceFile, own: Iterable[Change], first: int) -> list[Draw]:
    """Return the places before what `own` changes, and before each statement around that in its function.

    Their numbers count up from `first`.
    """
    names: dict[tuple[int, str], dict[str, None]] = {}
    for change in own:
        for place, read in _places(file, change):
            names.setdefault(place, {}).update(dict.fromkeys(read))
    places = [(place, tuple(read)) for place, read in names.items() if read]
    return [Draw(number, *place, read) for number, (place, read) in enumerate(places, first)]


def _places(file: SourceFile, change: Change) -> Iterator[tuple[tuple[int, str], list[str]]]:
    """Yield the places of one change, each with the names of tensors that may be drawn there."""
    function, levels = _levels(file, change)
    if function is None:
        return
    known = _own_names(function)
    last: tuple[int, str] | None = None
    for depth, statements in enumerate(levels):
        head = statements[0]
        parts: Sequence[ast.AST] = statements if depth == len(levels) - 1 else _head(head)
        read = [name for part in parts for name in _loaded(part) if name in known]
        start = file.line_starts[head.lineno - 1]
        indent = file.text[start : file.span(head)[0]]
        if not indent.strip() and not _is_elif(file, head):
            last = start, indent
        if last is not None:
            yield last, read


def _levels(
    file: SourceFile, change: Change
) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef | None, list[list[ast.stmt]]]:
    """Return the innermost function around a change and the statements that it touches, from the outermost block in."""
    function: ast.FunctionDef | ast.AsyncFunctionDef | None = None
    levels: list[list[ast.stmt]] = []
    pending: list[list[ast.stmt]] = [file.tree.body] if file.tree is not None else []
    while pending:
        touched = next((found for block in pending if (found := _touched(file, block, change))), None)
        if touched is None:
            break
        levels.append(touched)
        if isinstance(touched[0], ast.FunctionDef | ast.AsyncFunctionDef):
            function, levels = touched[0], []
        pending = list(_blocks(touched[0])) if len(touched) == 1 else []
    return function, levels


def _touched(file: SourceFile, block: Sequence[ast.stmt], change: Change) -> list[ast.stmt]:
    """Return the statements of a block that a change touches, none where it reaches out of the block."""
    spans = [(file.line_starts[one.lineno - 1], file.span(one)[1]) for one in block]
    if not spans or change.start < spans[0][0] or file.text[spans[-1][1] : change.end].strip():
        return []
    ends = max(change.end, change.start + 1)
    return [one for one, (start, end) in zip(block, spans, strict=True) if start < ends and change.start < end]


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for node in (statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block:
                yield block


def _head(statement: ast.stmt) -> list[ast.AST]:
    """The expressions of a statement, without the blocks in it."""
    return [node for node in ast.iter_child_nodes(statement) if isinstance(node, ast.expr | ast.withitem)]


def _is_elif(file: SourceFile, statement: ast.stmt) -> bool:
    start = file.span(statement)[0]
    return isinstance(statement, ast.If) and file.text.startswith("elif", start)


def _own_names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    """The names that a function binds itself, which lines put into it may bind as well."""
    inner = {
        node
        for made in walk_function(function)
        if isinstance(made, _COMPREHENSIONS)
        for generator in made.generators
        for node in ast.walk(generator.target)
    }
    names: set[str] = set()
    outer: set[str] = set()
    for node in walk_function(function):
        if isinstance(node, ast.Global | ast.Nonlocal):
            outer.update(node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in inner:
            names.add(node.id)
    arguments = function.args
    names.update(one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))
    return frozenset(names - outer)


def _loaded(part: ast.AST) -> Iterator[str]:
    for node in ast.walk(part):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
