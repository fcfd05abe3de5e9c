"""Functions that Dynamo skips because of a graph break in a loop or `try`. They run eagerly; callees are traced."""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence

from dynalint.analysis import kinds as k
from dynalint.analysis.comprehensions import sees_tensor
from dynalint.analysis.events import Event, Position
from dynalint.analysis.exits import is_passed_by_all
from dynalint.analysis.index import FunctionInfo
from dynalint.analysis.kinds import UNKNOWN, Kind
from dynalint.analysis.project import Project
from dynalint.analysis.steps import walk

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_TRIES = ("Try", "TryStar")
_COVERED = ("builtins", "math", "numpy", "torch")
_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr)
# Since Python 3.12, an `if` without `else` at the end of a `for` loop jumps back before its body.
_JUMPS_BACK_FIRST = sys.version_info >= (3, 12)
# Expressions that may not evaluate a call inside them, or that evaluate it in their own frame.
_OPEN = (ast.BoolOp, ast.IfExp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# Statements that may only run in part, with the fields that always run.
_CONDITIONAL: Mapping[str, tuple[str, ...]] = {
    "If": ("test",),
    "IfExp": ("test",),
    "Match": ("subject",),
    "match_case": (),
    "Try": ("body", "finalbody"),
    "TryStar": ("body", "finalbody"),
    "ExceptHandler": (),
}

Parents = Mapping[ast.AST, ast.AST]
Way = frozenset[tuple[ast.AST, str]]


def ancestors(node: ast.AST, parents: Parents) -> list[tuple[ast.AST, str]]:
    """Return a node's ancestors within its function, innermost first, each with the field that holds the node."""
    found = []
    parent = parents.get(node)
    while parent is not None and not isinstance(parent, _FUNCTIONS):
        found.append((parent, _field(parent, node)))
        node, parent = parent, parents.get(parent)
    return found


def _around(node: ast.AST, parents: Parents) -> Iterator[ast.AST]:
    """Yield a node's ancestors within its function, innermost first."""
    parent = parents.get(node)
    while parent is not None and not isinstance(parent, _FUNCTIONS):
        yield parent
        parent = parents.get(parent)


def _field(parent: ast.AST, child: ast.AST) -> str:
    """Return the name of the field that holds a child."""
    values = ((name, getattr(parent, name, None)) for name in parent._fields)
    return next(name for name, value in values if value is child or (type(value) is list and child in value))


def way(node: ast.AST, parents: Parents) -> Way:
    """Return the branches of conditional statements that must be taken to reach a node."""
    return frozenset(
        (parent, field)
        for parent, field in ancestors(node, parents)
        if field not in _CONDITIONAL.get(type(parent).__name__, (field,))
    )


def runs_always(event: Event, project: Project) -> bool:
    """Return whether an event always runs. The conditions of a check that every successful call passes are ignored."""
    certain = event.condition is None or is_passed_by_all(event, project)
    return certain and not way(event.node, project.parents(event.function))


def is_scripted(function: FunctionInfo) -> bool:
    """Return whether a function is decorated with `@torch.jit.script`.

    Dynamo traces such a function as if it were Python. At the first break, it calls the script instead.
    """
    return "script" in function.decorators


def ends_function(event: Event, parents: Parents) -> bool:
    """Return whether a graph break at an event makes Dynamo skip the whole function, because of what is around it.

    It cannot resume in a `try` or in the handler of an exception. In a loop, it looks for a backward jump in the
    bytecode that follows, up to the next `return`. If it reaches the `return` first, as after the test of a `while`,
    it resumes after the break.
    """
    child: ast.AST = event.node
    if is_tried(child, parents):
        return True
    if not _is_in_loop(child, parents):
        return False
    following: list[ast.stmt] = []
    tested: ast.If | None = None
    for parent, field in ancestors(event.node, parents):
        if isinstance(child, ast.Return):
            return False
        if isinstance(parent, ast.If) and field == "test":
            following, tested = [*parent.body], parent
        elif isinstance(child, ast.stmt):
            block = getattr(parent, field)
            following += block[block.index(child) + 1 :]
        if isinstance(parent, _LOOPS) and field == "body":
            if following and isinstance(parent, ast.For) and _JUMPS_BACK_FIRST:
                following = _before_last_jump(following, tested)
            return not isinstance(_leaving(following), ast.Return)
        child = parent
    return False


def is_in_own_context(event: Event, project: Project) -> bool:
    """Return whether an event is in the body of a `with` whose context manager is written in the project.

    Dynamo can enter and leave such a context, but it cannot resume in it.
    """
    kinds = project.kinds(event.function)
    return any(
        isinstance(one, ast.With)
        and field == "body"
        and any(_is_own(kinds.get(item.context_expr)) for item in one.items)
        for one, field in ancestors(event.node, project.parents(event.function))
    )


def _is_own(kind: Kind | None) -> bool:
    return isinstance(kind, k.Instance) or (isinstance(kind, k.Sequence) and kind.type == "generator")


def is_tried(node: ast.AST, parents: Parents) -> bool:
    """Return whether a node is in the body of a `try` or in a handler. What follows the body in `else` is not."""
    return any(
        isinstance(one, ast.ExceptHandler) or (type(one).__name__ in _TRIES and field == "body")
        for one, field in ancestors(node, parents)
    )


def _before_last_jump(following: Sequence[ast.stmt], tested: ast.If | None) -> list[ast.stmt]:
    """Return the statements that come before the backward jump of an `if` at the end of the loop's body, if any."""
    last = following[-1]
    if tested and not tested.orelse and last is tested.body[-1]:
        return []
    return [*following[:-1]] if isinstance(last, ast.If) and not last.orelse else [*following]


def _is_in_loop(node: ast.AST, parents: Parents) -> bool:
    parent = parents.get(node)
    while parent is not None and not isinstance(parent, (*_FUNCTIONS, *_LOOPS)):
        parent = parents.get(parent)
    return isinstance(parent, _LOOPS)


def _leaving(statements: Sequence[ast.stmt]) -> ast.stmt | None:
    """Return the first `return` or `continue` in a loop's body. A `return` in an `else` may come after a jump."""
    for one in statements:
        if isinstance(one, (ast.Return, ast.Continue)):
            return one
        if not isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            first, other = _leaving(getattr(one, "body", ())), _leaving(getattr(one, "orelse", ()))
            if isinstance(first, ast.Return):
                return first
            if not isinstance(one, _LOOPS) and isinstance(first or other, ast.Continue):
                return first or other
    return None


def calls_in_loops(function: FunctionInfo, breaking: Collection[FunctionInfo], project: Project) -> Iterator[Event]:
    """Yield an event for each call in a loop to a function that breaks the graph. Dynamo skips the caller."""
    if not breaking or project.interpreter is None:
        return
    called = {callee.function for one in project.interpreter.contexts.get(function, ()) for callee in one.callees}
    if called.isdisjoint(breaking):
        return
    parents = project.parents(function)
    for node in (one for one in parents if isinstance(one, ast.Call)):
        around = list(_around(node, parents))
        if any(isinstance(one, _LOOPS) for one in around) and not any(isinstance(one, _OPEN) for one in around):
            statement = next(one for one in around if isinstance(one, ast.stmt))
            event = Event(node=node, statement=statement, function=function, position=Position(loop=True))
            if ends_function(event, parents):
                reached = called_function(project.kinds(function).get(node.func, UNKNOWN), project)
                if reached in breaking:
                    yield event


def called_function(kind: Kind, project: Project) -> FunctionInfo | None:
    """Return the project function that runs when `kind` is called, if any."""
    if isinstance(kind, k.Function):
        return kind.function
    if isinstance(kind, k.Instance):
        return project.find_method(kind.cls, "forward" if project.is_module_class(kind.cls) else "__call__")
    return None


def find_stranded(
    comprehensions: Mapping[Event, ast.AST], certain: Sequence[Event], breaks: Collection[Event], project: Project
) -> set[Event]:
    """Return the comprehensions, as their iteration events, that Dynamo compiles as separate frames.

    This happens when Dynamo skips the enclosing function because of a break that comes before the comprehension or is
    certain to come after it. The break is in `certain`, or in a call to a function that contains a break in `certain`.
    There must be no event in `breaks` before it, and no call that the rules do not cover.
    """
    found: set[Event] = set()
    breaking = {one.function for one in certain if runs_always(one, project)} if comprehensions else set()
    for event in comprehensions:
        parents = project.parents(event.function)
        own = [one for one in certain if one.function is event.function and ends_function(one, parents)]
        for cause in [*own, *calls_in_loops(event.function, breaking, project)]:
            around = ancestors(cause.node, parents)
            loop = next((one for one, field in reversed(around) if isinstance(one, _LOOPS) and field == "body"), None)
            if loop is None or not way(cause.node, parents) <= way(event.node, parents):
                continue
            if loop.lineno < event.node.lineno or _leads_to(event, loop, breaks, project):
                found.add(event)
    return {one for one in found if sees_tensor(comprehensions[one], one.function, project)}


def _leads_to(event: Event, loop: ast.AST, breaks: Collection[Event], project: Project) -> bool:
    """Return whether no statement between an event and a loop can break the graph."""
    parents = project.parents(event.function)
    block = getattr(parents[loop], _field(parents[loop], loop))
    if not isinstance(block, list) or event.statement not in block:
        return False
    between: list[ast.AST] = block[block.index(event.statement) : block.index(loop)]
    nodes = [node for one in [*between, *_entered(loop)] for node in walk(one)]
    kinds = project.kinds(event.function)
    return (
        all(isinstance(one, _SIMPLE) for one in between)
        and not any(one.node in nodes for one in breaks)
        and all(_is_covered(kinds.get(node.func, UNKNOWN)) for node in nodes if isinstance(node, ast.Call))
    )


def _entered(loop: ast.AST) -> list[ast.expr]:
    return (
        [loop.test] if isinstance(loop, ast.While) else [loop.iter] if isinstance(loop, (ast.For, ast.AsyncFor)) else []
    )


def _is_covered(kind: Kind) -> bool:
    """Return whether the callee is known and the rules cover every graph break in it."""
    return all(
        _is_covered(one.receiver) if isinstance(one, k.Method) else _origin(one) in _COVERED for one in kind.members
    )


def _origin(kind: Kind) -> str:
    """Return the library that a value comes from: torch for tensors, Python for plain values."""
    if isinstance(kind, (k.External, k.Object)):
        return (kind.name if isinstance(kind, k.External) else kind.type).partition(".")[0]
    return "builtins" if isinstance(kind, (k.Tensor, k.Value, k.Sequence, k.Dictionary)) else ""
