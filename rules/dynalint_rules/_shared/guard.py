"""Statements that are kept for eager code and left out while compiling, and statements that are taken out."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call
from dynalint.analysis.steps import walk
from dynalint.findings import Safety
from dynalint.rules import Replacement, Rewrite
from dynalint_rules._shared.effects import implies_nothing, is_pure
from dynalint_rules._shared.raising import never_raises, shows_without_raising
from dynalint_rules._shared.scope import Refusal, Scope
from dynalint_rules._shared.text import WIDTH, indentation, indented

_TEST_START = re.compile(r"((?:el)?if)[ ]*")
# What stands between a test and its colon: the parentheses around it.
_TEST_END = re.compile(r"([ )]*\)|)[ ]*:")


def guarded(
    scope: Scope,
    event: Call,
    title: str,
    *,
    alike: Callable[[ast.Call], bool] | None = None,
    safety: Safety = "safe",
    conditions: tuple[str, ...] = (),
) -> Rewrite:
    """Put the statement of a call behind `if not torch.compiler.is_compiling():`.

    Neighbours whose calls are `alike` go behind the same guard, with the comments between them.

    Raises:
        Refusal: the value of the call is used, its arguments have effects of their own, or it shares its line.
    """
    statement = own_statement(scope, event)
    check_arguments(scope, event.node)
    run = _neighbours(scope, statement, alike) if alike is not None else [statement]
    return Rewrite(title, safety, (_behind_guard(scope, run),), conditions, imports=scope.imports)


def guarded_all(
    scope: Scope, statements: Sequence[ast.stmt], title: str, safety: Safety, conditions: tuple[str, ...]
) -> Rewrite:
    """Put each of some statements behind a guard of its own; ones that follow each other go behind one.

    Raises:
        Refusal: a statement shares its line.
    """
    replacements = tuple(_behind_guard(scope, run) for run in _runs(scope, statements))
    return Rewrite(title, safety, replacements, conditions, imports=scope.imports)


def _behind_guard(scope: Scope, run: Sequence[ast.stmt]) -> Replacement:
    """Return what puts statements that follow each other behind one guard.

    Raises:
        Refusal: others share a line with them.
    """
    file, step = scope.file, step_of(scope)
    (start, _), (_, end) = file.span(run[0]), file.span(run[-1])
    if _follows(scope, end):
        raise _shares_line(scope, run[0])
    joined = _joined_to_branch(scope, run)
    if joined is not None:
        return joined
    indent, opening = indentation(file, run[0].lineno), f"if not {scope.torch}.compiler.is_compiling():"
    if not _begins_line(scope, run[0]):
        # `if verbose: print(x)` becomes a block of its own.
        start, indent = _after_colon(scope, run[0])
        opening = f"{file.newline}{indent}{opening}"
    body = indented(file.text[file.span(run[0])[0] : end], step)
    return Replacement(file, start, end, f"{opening}{file.newline}{indent}{step}{body}")


def _joined_to_branch(scope: Scope, run: Sequence[ast.stmt]) -> Replacement | None:
    """Return what adds the guard to the test of an `if` that holds nothing but these statements; None if it may not.

    It goes before a test that asks a tensor, which ends the graph as well, and behind any other.
    """
    branch, file = scope.parents[run[0]], scope.file
    if not isinstance(branch, ast.If) or branch.orelse or branch.body != list(run):
        return None
    first = _asks_tensor(scope, branch.test)
    if first and not may_go_unasked(scope, branch.test):
        return None
    start, end = file.span(branch)[0], file.span(branch.test)[1]
    rest = file.text[end : _line_end(scope, end)]
    opening, closing = _TEST_START.match(file.text, start), _TEST_END.match(rest)
    if opening is None or closing is None or file.position(end)[0] != branch.lineno:
        return None
    text = file.text[opening.end() : end] + closing[1]
    if not closing[1] and _is_loose(branch.test):
        text = f"({text})"
    guard = f"not {scope.torch}.compiler.is_compiling()"
    header = f"{opening[1]} {guard} and {text}" if first else f"{opening[1]} {text} and {guard}"
    if file.position(start)[1] - 1 + len(header) + len(rest[closing.end(1) :].rstrip()) > WIDTH:
        return None
    return Replacement(file, start, end + closing.end(1), header)


def _is_loose(test: ast.expr) -> bool:
    """Whether an `and` behind a test would take only its end."""
    return isinstance(test, ast.IfExp | ast.Lambda | ast.NamedExpr) or (
        isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or)
    )


def _asks_tensor(scope: Scope, test: ast.expr) -> bool:
    if isinstance(test, ast.BoolOp):
        return any(_asks_tensor(scope, value) for value in test.values)
    if isinstance(test, ast.UnaryOp):
        return _asks_tensor(scope, test.operand)
    return scope.tensor(test) is not None or any(_is_read(scope.kind(node)) for node in walk(test))


def _is_read(kind: k.Kind) -> bool:
    """Whether a value was read out of a tensor, which ends the graph."""
    return isinstance(kind, k.Value) and kind.source == "data"


def _runs(scope: Scope, statements: Sequence[ast.stmt]) -> Iterator[list[ast.stmt]]:
    """Yield the statements in the order of the code, those that follow each other in one list."""
    run: list[ast.stmt] = []
    for statement in sorted(statements, key=lambda one: one.lineno):
        block = _block(scope, statement)
        position = block.index(statement)
        if run and position > 0 and block[position - 1] is run[-1]:
            run.append(statement)
        else:
            if run:
                yield run
            run = [statement]
    if run:
        yield run


def removed(scope: Scope, event: Call, title: str, safety: Safety, conditions: tuple[str, ...] = ()) -> Rewrite:
    """Take the statement of a call out, and its line with it where nothing else stands there.

    Raises:
        Refusal: the value of the call is used, its arguments have effects of their own, or it shares its line.
    """
    statement = own_statement(scope, event)
    check_arguments(scope, event.node)
    return taken_out(scope, statement, title, safety, conditions)


def taken_out(
    scope: Scope, statement: ast.stmt, title: str, safety: Safety, conditions: tuple[str, ...] = ()
) -> Rewrite:
    """Take a statement out, and its line with it where nothing else stands there.

    Raises:
        Refusal: it shares its line.
    """
    file, content = scope.file, ""
    start, end = file.span(statement)
    before = _text_before(scope, start)
    if len(_block(scope, statement)) == 1:
        content = "pass"
    elif before.rstrip().endswith(";"):
        start = start - len(before) + len(before.rstrip().rstrip(";").rstrip())
    elif before.strip() or _follows(scope, end):
        raise _shares_line(scope, statement)
    else:
        start, end = start - len(before), _next_line(scope, end)
    return Rewrite(title, safety, (Replacement(file, start, end, content),), conditions)


def own_statement(scope: Scope, event: Call) -> ast.Expr:
    """Return the statement that consists of the call of `event` alone.

    Raises:
        Refusal: the call is part of an expression.
    """
    statement = scope.parents.get(event.node)
    if isinstance(statement, ast.Expr):
        return statement
    shown = scope.quote(event.node)
    if isinstance(scope.function.node, ast.Lambda):
        raise Refusal(f"{shown} stands in a lambda, which has no place for a guard; write the lambda as a function")
    raise Refusal(f"{shown} is part of a larger expression; make it a statement of its own, then it can be guarded")


def check_arguments(scope: Scope, call: ast.Call) -> None:
    """Make sure that a call which only shows what it is given can be left out of a compiled run.

    Raises:
        Refusal: making the arguments, or a text of them, may do more, or decides by an exception what runs next.
    """
    parts = [*call.args, *(keyword.value for keyword in call.keywords)]
    check_left_out(scope, parts)
    if not implies_nothing(scope, call):
        raise Refusal(
            f"{scope.quote(call)} calls methods of what it is given that may have an effect of their own, which would "
            "be left out as well; make the text before and show that"
        )
    for part in parts if is_caught(scope, call) else []:
        if not shows_without_raising(scope, part):
            raise may_raise(scope, part)


def may_raise(scope: Scope, part: ast.expr) -> Refusal:
    """Return why an expression cannot be left out of a compiled run where exceptions are caught."""
    return Refusal(
        f"evaluating {scope.quote(part)} may raise, which decides what the function does next; evaluate it before, "
        "then what shows it can be guarded"
    )


def may_go_unasked(scope: Scope, test: ast.expr) -> bool:
    """Whether a test that decides what is shown can be left out of a compiled run."""
    pure = is_pure(scope, test) and implies_nothing(scope, scope.parents[test])
    return pure and (never_raises(scope, test) or not is_caught(scope, test))


def is_caught(scope: Scope, node: ast.AST) -> bool:
    """Whether the function goes on in another way if `node` raises."""
    while node is not scope.function.node:
        parent = scope.parents[node]
        if isinstance(parent, ast.Try) and parent.handlers and node in parent.body:
            return True
        if isinstance(parent, ast.With) and any("suppress" in ast.unparse(one.context_expr) for one in parent.items):
            return True
        node = parent
    return False


def check_left_out(scope: Scope, parts: Sequence[ast.expr]) -> None:
    """Make sure that expressions do no more than give a value: they would no longer do it in a compiled run.

    Raises:
        Refusal: one of them may do more.
    """
    for part in parts:
        if not is_pure(scope, part.value if isinstance(part, ast.Starred) else part):
            raise Refusal(
                f"evaluating {scope.quote(part)} may have an effect of its own, which would be left out as well; "
                "assign it to a variable first"
            )


def _neighbours(scope: Scope, statement: ast.Expr, alike: Callable[[ast.Call], bool]) -> list[ast.stmt]:
    """Return the statements around `statement` that may go behind the same guard, `statement` among them."""

    def fits(one: ast.stmt) -> bool:
        if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Call) and alike(one.value)):
            return False
        try:
            check_arguments(scope, one.value)
        except Refusal:
            return False
        return _begins_line(scope, one) and not _follows(scope, scope.file.span(one)[1])

    block = _block(scope, statement)
    first = last = block.index(statement)
    if not fits(statement):
        return [statement]
    while first > 0 and fits(block[first - 1]):
        first -= 1
    while last + 1 < len(block) and fits(block[last + 1]):
        last += 1
    return block[first : last + 1]


def _block(scope: Scope, statement: ast.stmt) -> list[ast.stmt]:
    parent = scope.parents[statement]
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and statement in block:
            return block
    return [statement]


def _after_colon(scope: Scope, statement: ast.stmt) -> tuple[int, str]:
    """Return where a body on the line of its header begins, and the indentation of a body on lines of its own.

    Raises:
        Refusal: other statements stand on the line.
    """
    start, _ = scope.file.span(statement)
    before = _text_before(scope, start)
    if not before.rstrip().endswith(":") or len(_block(scope, statement)) > 1:
        raise _shares_line(scope, statement)
    return start - len(before) + len(before.rstrip()), indentation(scope.file, statement.lineno) + step_of(scope)


def _shares_line(scope: Scope, statement: ast.stmt) -> Refusal:
    return Refusal(f"{scope.quote(statement)} shares its line with another statement; put it on a line of its own")


def _begins_line(scope: Scope, statement: ast.stmt) -> bool:
    return not _text_before(scope, scope.file.span(statement)[0]).strip()


def _text_before(scope: Scope, offset: int) -> str:
    line, _ = scope.file.position(offset)
    return scope.file.text[scope.file.line_starts[line - 1] : offset]


def _line_end(scope: Scope, offset: int) -> int:
    line, _ = scope.file.position(offset)
    return scope.file.line_starts[line - 1] + len(scope.file.line(line))


def _next_line(scope: Scope, offset: int) -> int:
    starts = scope.file.line_starts
    line, _ = scope.file.position(offset)
    return starts[line] if line < len(starts) else len(scope.file.text)


def _follows(scope: Scope, offset: int) -> bool:
    """Whether another statement follows on the line."""
    return scope.file.text[offset : _line_end(scope, offset)].lstrip().startswith(";")


def step_of(scope: Scope) -> str:
    """Return one step of indentation as the function has it."""
    node, first = scope.function.node, scope.function.statements[0]
    if first.lineno > node.lineno:
        own, inner = indentation(scope.file, node.lineno), indentation(scope.file, first.lineno)
        if inner.startswith(own) and inner != own:
            return inner[len(own) :]
    return "    "
