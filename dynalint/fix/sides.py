"""Determine which parts of changed code must run before a fix counts as tried, and instrument the code to observe them.

A *mark* is a call that is added on the same line around a branch's test or before a simple statement. It records the
test's value and returns it unchanged, so the instrumented code behaves like the original.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dynalint.analysis.source import SourceFile
from dynalint.fix.edits import Change, Moves

# Must be the same name as `search.MARK` in the worker.
MARK = "__dynalint_side__"

Key = tuple[int, bool | None]
Insertion = tuple[int, int, str]
# Calls that look for NaN or infinite values, and that reduce the result.
_LOOKING = frozenset({"isnan", "isinf", "isfinite", "any", "all"})
_Span = tuple[int, int]
_SIMPLE = (
    ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return, ast.Raise, ast.Delete, ast.Pass, ast.Assert,
    ast.Break, ast.Continue,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Side:
    """A part of the code that must run: a statement, or one branch of a test.

    `key` identifies it in reports, and `line` and `words` describe it. `function` is the qualified name of the
    enclosing function, or an empty string if there is none.
    """

    key: Key
    line: int
    words: str
    function: str


def sides_of(
    file: SourceFile,
    new: SourceFile,
    changes: Sequence[Change],
    own: Sequence[Change],
    first: int,
) -> tuple[list[Side], list[Insertion]]:
    """Return the parts that must run for `own`, a subset of the `changes` from `file` to `new`, and the insertions.

    An insertion is a tuple (offset, rank, text). At the same offset, the one with the lower rank comes first. Marks are
    numbered from `first`.

    A test that is still a test in the new code does not count as changed. If a test is removed but its body stays,
    nothing changes when the test is true, so only the false branch must run. Code after a statement that always leaves
    the block never runs, so it is not required.
    """
    if file.tree is None or new.tree is None:
        return [], []
    moves = Moves(changes)
    spans = {
        (change.start, change.end): moves.new_span(index)
        for index, change in enumerate(changes)
        if any(change is one for one in own)
    }
    kept = {ast.dump(test) for test in _tests(new, list(spans.values()))}
    needless = _needless(file, _dropped(file, new, spans))
    sides: list[Side] = []
    insertions: list[Insertion] = []
    mark = first
    for statement in _simple_statements(file, [(change.start, change.end) for change in own]):
        if statement in needless:
            continue
        start, end = file.span(statement)
        sides.append(Side((mark, None), statement.lineno, "the statement", _function_at(file.tree, statement)))
        insertions.append((start, -2 * len(file.text), f"{MARK}({mark}); "))
        mark += 1
    for test in _tests(file, [(change.start, change.end) for change in own]):
        if ast.dump(test) in kept or test in needless:
            continue
        start, end = file.span(test)
        function, words = _function_at(file.tree, test), f"the branch where `{_short(file, test)}` is"
        for truth, verb in ((True, "true"), (False, "false")):
            if (test, truth) not in needless:
                sides.append(Side((mark, truth), test.lineno, f"{words} {verb}", function))
        insertions += _marked_test(file, mark, start, end)
        mark += 1
    return sides, insertions


def marks_beside(
    file: SourceFile, own: Sequence[Change], first: int, marked: Collection[Insertion] = ()
) -> list[Insertion]:
    """Return marks, numbered from `first`, for the unchanged tests in the functions that contain a change.

    A run does not have to see both outcomes of these tests, but the changed code may behave differently depending on
    them. Tests inside changed code are included unless they are already in `marked`.
    """
    insertions: list[Insertion] = []
    for mark, test in _beside(file, own, first, marked):
        insertions += _marked_test(file, mark, *file.span(test))
    return insertions


def marks_kept(
    file: SourceFile, changes: Sequence[Change], first: int, marked: Collection[Insertion] = ()
) -> tuple[dict[int, str], list[Insertion]]:
    """Return the tests from `marks_beside` that no change touches, keyed by mark, and their marks in the new text.

    `while` tests, and any tests inside `while` loops, are excluded because a different outcome could make the loop
    endless.
    """
    moves, changed = Moves(changes), [(change.start, change.end) for change in changes]
    loops = {part for node in _walk(file.tree) if isinstance(node, ast.While) for part in ast.walk(node)}
    words: dict[int, str] = {}
    insertions: list[Insertion] = []
    for mark, test in _beside(file, changes, first, marked):
        start, end = file.span(test)
        if test not in loops and not _touch((start, end), changed):
            words[mark] = f"`{_short(file, test)}` on line {test.lineno}"
            insertions += _marked_test(file, mark, moves.moved(start), moves.moved(end - 1) + 1)
    return words, insertions


def _beside(
    file: SourceFile, own: Sequence[Change], first: int, marked: Collection[Insertion]
) -> Iterator[tuple[int, ast.expr]]:
    changed = [(change.start, change.end) for change in own]
    functions = [node for node in _walk(file.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    spans = [span for span in map(file.span, functions) if _touch(span, changed)]
    places = {(offset, rank) for offset, rank, _ in marked}
    for mark, test in enumerate(_tests(file, spans), first):
        start, end = file.span(test)
        if (start, start - end) not in places:
            yield mark, test


def _marked_test(file: SourceFile, mark: int, start: int, end: int) -> list[Insertion]:
    # At the same offset, the outer mark opens first and closes last.
    return [(start, start - end, f"{MARK}({mark}, ("), (end, end - start - len(file.text), "))")]


def inserted(text: str, insertions: Iterable[Insertion]) -> str:
    """Return `text` with all insertions applied."""
    pieces: list[str] = []
    position = 0
    for offset, _, content in sorted(insertions, key=lambda one: one[:2]):
        pieces += [text[position:offset], content]
        position = offset
    return "".join([*pieces, text[position:]])


def _needless(file: SourceFile, dropped: Sequence[ast.If]) -> set[ast.AST | tuple[ast.expr, bool]]:
    """Return the nodes that do not have to run and the test outcomes that do not have to occur."""
    found: set[ast.AST | tuple[ast.expr, bool]] = set(_unreached(file.tree))
    for node in dropped:
        found.add((_bare(node.test), _truth_taken(node.test)))
        for part in node.body:
            found.update(ast.walk(part))
    return found


def _unreached(tree: ast.AST | None) -> Iterator[ast.AST]:
    """Yield the code after each statement that always leaves its block."""
    own_range = any(_binds_range(node) for node in _walk(tree))
    for node in _walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if not isinstance(block, list):
                continue
            leaving = (n for n, statement in enumerate(block, 1) if _leaves(statement, own_range=own_range))
            for statement in block[next(leaving, len(block)) :]:
                yield from ast.walk(statement)


def _binds_range(node: ast.AST) -> bool:
    names = [getattr(node, name, None) for name in ("name", "arg", "asname")]
    names += [node.id] if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) else []
    return "range" in names


def _leaves(statement: ast.AST, *, own_range: bool) -> bool:
    """Return whether code after `statement` never runs. The first iteration of a loop can decide this."""
    if isinstance(statement, ast.If):
        sides = [statement.body, statement.orelse]
        return all(side and any(_leaves(one, own_range=own_range) for one in side) for side in sides)
    if isinstance(statement, ast.For):
        jumps = any(isinstance(node, ast.Break | ast.Continue) for node in ast.walk(statement))
        certain = not own_range and not jumps and _has_rounds(statement.iter)
        return certain and any(_leaves(one, own_range=own_range) for one in statement.body)
    return isinstance(statement, ast.Return | ast.Raise | ast.Break | ast.Continue)


def _has_rounds(rounds: ast.expr) -> bool:
    """Return whether an expression is a call to `range` with a positive literal."""
    if not isinstance(rounds, ast.Call) or not isinstance(rounds.func, ast.Name) or rounds.func.id != "range":
        return False
    given = rounds.args[0] if len(rounds.args) == 1 else None
    return isinstance(given, ast.Constant) and isinstance(given.value, int) and given.value > 0


def _dropped(file: SourceFile, new: SourceFile, spans: Mapping[_Span, _Span]) -> list[ast.If]:
    """Return each `if` that is replaced by its body and nothing else.

    `spans` maps the changed spans to the spans of their new text.
    """
    found = []
    for node in _walk(file.tree):
        if isinstance(node, ast.If) and not node.orelse and (span := spans.get(file.span(node))) is not None:
            inside = [ast.dump(statement) for statement in _outermost(new, span)]
            if inside == [ast.dump(statement) for statement in node.body]:
                found.append(node)
    return found


def _outermost(file: SourceFile, span: _Span) -> list[ast.stmt]:
    """Return the outermost statements inside `span`, in order."""
    spans = [(file.span(node), node) for node in _walk(file.tree) if isinstance(node, ast.stmt)]
    found: list[ast.stmt] = []
    end = span[0]
    for own, statement in sorted(spans, key=lambda one: (one[0][0], -one[0][1])):
        if end <= own[0] and own[1] <= span[1]:
            found.append(statement)
            end = own[1]
    return found


def _touch(span: _Span, spans: Sequence[_Span]) -> bool:
    """Return whether `span` overlaps or encloses one of `spans`. An empty span is a position."""
    start, end = span
    return any((left < end and start < right) or (left == right and start <= left < end) for left, right in spans)


def _simple_statements(file: SourceFile, spans: Sequence[_Span]) -> Iterator[ast.stmt]:
    for node in _walk(file.tree):
        for block in ("body", "orelse", "finalbody"):
            statements = getattr(node, block, None)
            if not isinstance(statements, list):
                continue
            for position, statement in enumerate(statements):
                docstring = position == 0 and _is_text(statement)
                if isinstance(statement, _SIMPLE) and not docstring and _touch(file.span(statement), spans):
                    yield statement


def _is_text(statement: ast.AST) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _tests(file: SourceFile, spans: Sequence[_Span]) -> Iterator[ast.expr]:
    """Yield the expressions whose truth value decides which code runs next."""
    found: dict[_Span, ast.expr] = {}
    for node in _walk(file.tree):
        tests: list[ast.expr] = []
        if isinstance(node, ast.If | ast.While | ast.IfExp | ast.Assert):
            tests = [node.test]
        elif isinstance(node, ast.BoolOp) and not _looks_for_nan(node):
            tests = node.values[:-1]
        elif isinstance(node, ast.comprehension):
            tests = node.ifs
        for test in map(_bare, tests):
            if _touch(file.span(test), spans):
                found.setdefault(file.span(test), test)
    yield from found.values()


def _looks_for_nan(test: ast.BoolOp) -> bool:
    """Return whether all operands look for NaN or infinite values of the same variables.

    The later ones can then always run: what they read exists if the first one can be evaluated.
    """
    nodes = [one for one in ast.walk(test) if not isinstance(one, ast.expr_context | ast.boolop | ast.BoolOp)]
    called = [one.func.attr for one in nodes if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute)]
    plain = all(isinstance(one, ast.Name | ast.Attribute | ast.Call) for one in nodes)
    plain = plain and len(called) == sum(isinstance(one, ast.Call) for one in nodes)
    read = [{one.id for one in ast.walk(value) if isinstance(one, ast.Name)} for value in test.values]
    return plain and {*called} <= _LOOKING and all(names <= read[0] for names in read)


def _bare(test: ast.expr) -> ast.expr:
    """Remove every `not`, because it does not add another branch."""
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    return test


def _truth_taken(test: ast.expr) -> bool:
    """Return the truth value that the test, without any `not`, has when its body runs."""
    truth = True
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, truth = test.operand, not truth
    return truth


def _walk(tree: ast.AST | None) -> Iterator[ast.AST]:
    """Yield all nodes except those inside f-strings, whose positions are wrong before Python 3.12."""
    pending = [tree] if tree is not None else []
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, ast.JoinedStr):
            pending.extend(ast.iter_child_nodes(node))


def _function_at(tree: ast.AST, wanted: ast.stmt | ast.expr) -> str:
    """Return the qualified name of the innermost function that contains `wanted`."""
    found, prefix, node = "", "", tree
    while True:
        for child in ast.iter_child_nodes(node):
            first, last = getattr(child, "lineno", 0), getattr(child, "end_lineno", 0) or 0
            if first <= wanted.lineno <= last and child is not wanted:
                node = child
                break
        else:
            return found
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            prefix = f"{prefix}.{node.name}".lstrip(".")
            found = prefix if not isinstance(node, ast.ClassDef) else found


def _short(file: SourceFile, node: ast.expr) -> str:
    text = " ".join(file.segment(node).split())
    return text if len(text) <= 50 else f"{text[:47]}..."
