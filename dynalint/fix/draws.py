"""Text that draws other tensors in the middle of a function, right before what a fix changes.

Some sides of a branch no input reaches, as what comes before it never makes its test hold. With tensors drawn in the
place of those that were computed, in the original and in the rewritten code alike, the part that was rewritten is
compared by itself. A *draw* is a place for that: lines before a statement, for the names that are read from there on.

Where the tests around a side rule each other out (`if x.norm(): ... elif x.max() > 1: ...`), no tensors drawn before
them reach it. What a test asks of tensors can be drawn too, wherever it stands in either version: these numbers give
the test an answer, and what is compared is how both go on from there.
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

Span = tuple[int, int]
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_ASKED = (ast.Call, ast.Subscript, ast.BinOp)
_PYTHON_FORMS = ("equal", "allclose")
_TO_PYTHON = ("bool", "float", "int")


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


@dataclass(frozen=True, slots=True)
class Asked:
    """What a test asks of tensors, as `x.sum()` in `x.sum() > 0`, by the places where it stands before and after a fix.

    `number` is what it is known by. With `python`, it may be given as a Python bool.
    """

    number: int
    before: tuple[Span, ...]
    after: tuple[Span, ...]
    python: bool

    def insertions(self, spans: Sequence[Span]) -> list[tuple[int, int, str]]:
        """Return the insertions (offset, rank, text) that draw at these places."""
        # Of several at one place, the outer opens first.
        opened = [(start, start - end, f"{DRAW}({self.number}, {self.python}, (") for start, end in spans]
        return [*opened, *((end, end - start, "))") for start, end in spans)]


def asked_of(
    file: SourceFile, new: SourceFile, own: Iterable[tuple[Change, Span]], first: int
) -> tuple[list[Asked], list[list[int]]]:
    """Return what is asked by the tests in and around the changes `own`, and the numbers of what each test asks.

    Each change comes with the place of its new text: what that asks no more is left as it is. The numbers count up from
    `first`.
    """
    found: dict[str, Asked] = {}
    tests: dict[tuple[int, ...], None] = {}
    for change, span in own:
        function, changed = _levels(file, change)[0], _levels(new, Change(*span, ""))[0]
        if function is None or changed is None:
            continue
        before, after = _places_of(file, function), _places_of(new, changed)
        for test in _tests(file, function, change):
            for parts in _asked(test):
                kept = {_form(part): part for part in parts}
                kept = {
                    form: part for form, part in kept.items() if _stays(before[form], after.get(form), change, span)
                }
                for form, part in kept.items():
                    number = found[form].number if form in found else first + len(found)
                    python = form != ast.dump(part)
                    found[form] = Asked(number, tuple(before[form]), tuple(after[form]), python)
                tests[tuple(found[form].number for form in kept)] = None
    return list(found.values()), [list(numbers) for numbers in tests if numbers]


def _stays(before: Iterable[Span], after: Iterable[Span] | None, change: Change, span: Span) -> bool:
    """Whether what is asked before a change is asked after it as well: what stands in it, in the new text."""
    if after is None or not any(_lies_in(place, (change.start, change.end)) for place in before):
        return after is not None
    return any(_lies_in(place, span) for place in after)


def _places_of(file: SourceFile, function: ast.AST) -> dict[str, dict[Span, None]]:
    """Return the places of all expressions of a function by what they are."""
    found: dict[str, dict[Span, None]] = {}
    for node in _outside_of_texts(function):
        if isinstance(node, _ASKED):
            found.setdefault(_form(node), {})[file.span(node)] = None
    return found


def _form(node: ast.expr) -> str:
    """Return what an expression is, as text; a question that gives a Python bool is the tensor that is asked for it."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _PYTHON_FORMS:
        owner, name = node.func.value, node.func.attr
        asked: ast.expr = ast.Call(ast.Attribute(owner, "isclose", ast.Load()), node.args, node.keywords)
        if name == "equal":
            operands = node.args if len(node.args) > 1 else [owner, *node.args]
            asked = ast.Compare(operands[0], [ast.Eq()], operands[1:])
        node = ast.Call(ast.Attribute(asked, "all", ast.Load()), [], [])
    return ast.dump(node)


def _lies_in(span: Span, outer: Span) -> bool:
    return outer[0] <= span[0] and span[1] <= outer[1]


def _tests(file: SourceFile, function: ast.AST, change: Change) -> Iterator[ast.expr]:
    """Yield the tests in a change and those that it stands under."""
    for node in _outside_of_texts(function):
        if isinstance(node, ast.If | ast.IfExp | ast.While):
            start, end = file.span(node)
            if start < change.end and change.start < end:
                yield node.test


def _asked(test: ast.expr) -> Iterator[list[ast.expr]]:
    """Yield what each test in a test compares, or what is true or not; for a plain name, tensors are drawn by lines."""
    parts: list[ast.expr] = []
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        parts = [test.operand]
    elif isinstance(test, ast.BoolOp):
        parts = test.values
    elif isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id in _TO_PYTHON:
        parts = test.args
    else:
        compared = [test.left, *test.comparators] if isinstance(test, ast.Compare) else [test]
        yield [one for one in compared if isinstance(one, _ASKED)]
    for part in parts:
        yield from _asked(part)


def _outside_of_texts(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function but those in f-strings, whose places are not known before Python 3.12."""
    texts = [node for node in walk_function(function) if isinstance(node, ast.JoinedStr)]
    inside = {node for text in texts for node in ast.walk(text)}
    return (node for node in walk_function(function) if node not in inside)


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
    """Return the statements of a block that a change touches; none if the change extends beyond the block."""
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
