"""Find code that only runs before an exception is raised. A compiled call only traces it if the call raises as well."""

from __future__ import annotations

import ast

from dynalint.analysis.events import Event
from dynalint.analysis.project import Project
from dynalint.analysis.steps import walk

# Expressions other than operators that may leave some of their parts unevaluated.
_OPEN = (ast.IfExp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# Calls that end the program.
_ENDINGS = ("sys.exit", "exit", "quit", "os._exit")


def fails(statement: ast.stmt) -> bool:
    """Return whether a statement always raises: a `raise`, or `torch._assert(False, ...)`."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not call.args or ast.unparse(call.func) != "torch._assert":
        return isinstance(statement, ast.Raise)
    return isinstance(call.args[0], ast.Constant) and call.args[0].value is False


def _ends_program(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and ast.unparse(call.func) in _ENDINGS


def leads_to_raise(event: Event, project: Project) -> bool:
    """Return whether an event is in a `raise`, in the message of an `assert`, or in a branch that ends in a `raise`.

    Branches that end the program count, too, and so does the end of a function that has returned if all went well.
    """
    parents = project.parents(event.function)
    node: ast.AST = event.node
    while node is not event.function.node and node in parents:
        parent = parents[node]
        if isinstance(node, ast.Raise) or (isinstance(parent, ast.Assert) and node is parent.msg):
            return True
        if isinstance(node, ast.stmt) and parent is not event.function.node:
            block = next((block for block in _blocks(parent) if node in block), None)
            if block is not None and (fails(block[-1]) or _ends_program(block[-1])):
                return True
        if parent is event.function.node and node in event.function.statements:
            body = event.function.statements
            place = body.index(node)
            return fails(body[-1]) and _returns(body[:place]) and not _returns(body[place:])
        node = parent
    return False


def _returns(statements: list[ast.stmt]) -> bool:
    return any(isinstance(node, ast.Return) for one in statements for node in walk(one))


def is_passed_by_all(event: Event, project: Project) -> bool:
    """Return whether every call that passes a check, such as `if not (a and t.all()): raise`, evaluates this event."""
    check = event.statement
    if isinstance(check, ast.Assert):
        test, truth = check.test, True
    elif isinstance(check, ast.If) and (fails(check.body[-1]) or _fails_else(check)):
        test, truth = check.test, not fails(check.body[-1])
    else:
        return False
    parents = project.parents(event.function)
    way: list[ast.AST] = [event.node]
    while way[-1] is not test and way[-1] in parents:
        way.append(parents[way[-1]])
    return way[-1] is test and _comes_to(way, truth)


def _fails_else(check: ast.If) -> bool:
    return bool(check.orelse) and fails(check.orelse[-1])


def _comes_to(way: list[ast.AST], truth: bool | None) -> bool:
    """Return whether evaluating `way[-1]` to `truth` always evaluates `way[0]`, which is inside it."""
    for outer, inner in zip(reversed(way), reversed(way[:-1]), strict=False):
        if isinstance(outer, ast.BoolOp):
            # A true `or` or a false `and` may have stopped at any operand. Otherwise, every operand was evaluated.
            if truth is not isinstance(outer.op, ast.And) and inner is not outer.values[0]:
                return False
            truth = truth if truth is isinstance(outer.op, ast.And) else None
        elif isinstance(outer, ast.UnaryOp) and isinstance(outer.op, ast.Not):
            truth = None if truth is None else not truth
        elif isinstance(outer, _OPEN) or (isinstance(outer, ast.Compare) and inner in outer.comparators[1:]):
            return False
        else:
            truth = None
    return True


def _blocks(node: ast.AST) -> list[list[ast.stmt]]:
    fields = (getattr(node, name, None) for name in ("body", "orelse", "finalbody"))
    return [block for block in fields if isinstance(block, list)]
