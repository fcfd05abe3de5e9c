"""Interpret statements, including how they change the environment and where control continues."""

from __future__ import annotations

import ast
from collections.abc import Callable

from dynalint.analysis import kinds as k
from dynalint.analysis.annotations import annotation_kind, as_declared
from dynalint.analysis.assumptions import assumed
from dynalint.analysis.build import bind_imports
from dynalint.analysis.carried import carried
from dynalint.analysis.compact import ByType
from dynalint.analysis.decorators import wrapped
from dynalint.analysis.dispatch import evaluate
from dynalint.analysis.dunders import call_special, spread
from dynalint.analysis.elements import element_of, has_elements
from dynalint.analysis.events import ClassDefinition, Entry, Importing, Raising
from dynalint.analysis.expressions import note_iteration, test
from dynalint.analysis.frame import Environment, Frame, is_fact, join_environments
from dynalint.analysis.kinds import UNKNOWN, Kind, join
from dynalint.analysis.narrowing import narrow, truth
from dynalint.analysis.operators import binary
from dynalint.analysis.steps import note_cut, walk
from dynalint.analysis.stores import augmented_store, bind_target, held_by, note_item
from dynalint.analysis.usage import note_filled_in

# The maximum number of iterations before a loop must reach its fixpoint. Real loops take three. After that, the current
# environment is used.
_MOST_ROUNDS = 24
_ENTERING_THEMSELVES = ("contextlib.ExitStack", "io.TextIOWrapper")


def run_block(frame: Frame, body: list[ast.stmt]) -> bool:
    """Run the statements, and return whether control can reach the end."""
    for statement in body:
        frame.statement = statement
        if not _RUNNERS[type(statement)](frame, statement):
            return False
    return True


def _ignore(frame: Frame, node: ast.stmt) -> bool:
    return True


def _expression(frame: Frame, node: ast.Expr) -> bool:
    if not isinstance(node.value, ast.Constant):
        evaluate(frame, node.value)
    return True


def _assign(frame: Frame, node: ast.Assign) -> bool:
    kind = evaluate(frame, node.value)
    if isinstance(kind, k.Unknown):
        kind = wrapped(frame, node) or kind
    for target in node.targets:
        bind_target(frame, target, kind, node.value)
    return True


def _annotated(frame: Frame, node: ast.AnnAssign) -> bool:
    if node.value is not None:
        kind = evaluate(frame, node.value)
        if isinstance(kind, (k.Unknown, k.Union)):
            kind = as_declared(kind, annotation_kind(frame.interpreter, node.annotation, frame.module))
        bind_target(frame, node.target, kind, node.value)
    return True


def _augmented(frame: Frame, node: ast.AugAssign) -> bool:
    load = _as_load(node.target)
    old = evaluate(frame, load)
    value = evaluate(frame, node.value)
    new = binary(node.op, old, value)
    if isinstance(old, k.Unknown) and k.may_be_tensor(value) and old.parameter is not None:
        new = k.Tensor()
    if isinstance(old, k.Tensor):
        new = k.Tensor(old.dtype, old.rank, old.origin, old.name, old.array)
    augmented_store(frame, node, old, new)
    return True


def _as_load(target: ast.Name | ast.Attribute | ast.Subscript) -> ast.expr:
    """Return an expression that reads the target of an augmented assignment."""
    if isinstance(target, ast.Name):
        return ast.copy_location(ast.Name(target.id, ast.Load()), target)
    if isinstance(target, ast.Attribute):
        return ast.copy_location(ast.Attribute(target.value, target.attr, ast.Load()), target)
    return ast.copy_location(ast.Subscript(target.value, target.slice, ast.Load()), target)


def _if(frame: Frame, node: ast.If) -> bool:
    kind = test(frame, node.test, "if")
    answer = truth(kind)
    taken = assumed(frame, node.test) if answer is None else answer
    before, certain, departures = frame.env, frame.certain, frame.departures
    goes_on = certain and taken is None
    ends: list[Environment] = []
    for way, body in ((True, node.body), (False, node.orelse)):
        if answer is not None and answer is not way:
            continue
        frame.env, frame.certain = dict(before), certain and taken is way
        narrow(frame, node.test, way)
        if run_block(frame, body):
            ends.append(frame.env)
            goes_on = goes_on or frame.certain
    # Raising is no way out: a call that raises compiles nothing.
    frame.certain = goes_on and (taken is not None or frame.departures == departures)
    note_filled_in(frame, node, before, ends)
    return _meet(frame, ends)


def _meet(frame: Frame, ends: list[Environment]) -> bool:
    """Continue with the join of the paths that reach the end, and return whether there are any."""
    if not ends:
        return False
    env = ends[0]
    for other in ends[1:]:
        env = join_environments(env, other)
    frame.env = env
    return True


def _loop(frame: Frame, node: ast.For | ast.AsyncFor | ast.While, enter: Callable[[], bool | None]) -> bool:
    """Run a loop to its fixpoint.

    `enter` binds the target or tests the condition. It returns True if the body definitely runs, and
    False if it never does.
    """
    before, body, orelse = frame.env, node.body, node.orelse
    certain, departures = frame.certain, frame.departures
    frame.breaks.append([])
    frame.continues.append([])
    frame.loop += 1
    head = before
    entered: bool | None = True
    for _ in range(_MOST_ROUNDS):
        frame.breaks[-1].clear()
        frame.continues[-1].clear()
        frame.env, frame.certain = dict(head), certain
        entered = enter()
        if entered is False:
            break
        frame.certain = certain and (entered is True or _endless(frame, enter, entered))
        ends = [frame.env] if run_block(frame, body) else []
        _meet(frame, [head, *ends, *frame.continues[-1]])
        if frame.env == head:
            break
        stays = _is_followed(frame, node, head)
        head = frame.env
        if stays and not (frame.breaks[-1] and (orelse or _endless(frame, enter, entered))):
            break
    else:
        line = body[0].lineno
        note_cut(f"the loop around line {line} is not followed beyond {_MOST_ROUNDS} iterations; split its computation")
    frame.loop -= 1
    breaks = frame.breaks.pop()
    frame.continues.pop()
    frame.certain = certain and frame.departures == departures
    ends = list(breaks)
    if not _endless(frame, enter, entered):
        frame.env = dict(head)
        if run_block(frame, orelse):
            ends.append(frame.env)
    return _meet(frame, ends)


def _is_followed(frame: Frame, node: ast.For | ast.AsyncFor | ast.While, head: Environment) -> bool:
    """Return whether no change made in an iteration that started with `head` matters to the next iteration."""
    env = frame.env
    changed = {name for name, kind in env.items() if head.get(name) is not kind and head.get(name) != kind}
    changed.update(head.keys() - env.keys())
    if frame.function is None or frame.globals or any("." in name or is_fact(name) for name in changed):
        return False
    known = frame.function.known
    if node not in known:
        known[node] = carried(getattr(node, "target", None), getattr(node, "test", None), node.body)
    return known[node] is not None and known[node].isdisjoint(changed)


def _endless(frame: Frame, enter: Callable[[], bool | None], entered: bool | None) -> bool:
    """Return whether only `break` leaves the loop, as with `while True`."""
    return getattr(enter, "endless", False) and entered is not False


def _for(frame: Frame, node: ast.For | ast.AsyncFor) -> bool:
    iterated = evaluate(frame, node.iter)
    note_iteration(frame, node.iter, iterated)
    element = element_of(spread(frame, iterated))

    def enter() -> bool | None:
        if isinstance(iterated, k.Sequence) and iterated.items == () and iterated.home is None:
            return False
        bind_target(frame, node.target, element, None)
        return has_elements(iterated) or None

    return _loop(frame, node, enter)


def _while(frame: Frame, node: ast.While) -> bool:
    endless = isinstance(node.test, ast.Constant) and bool(node.test.value)

    def enter() -> bool | None:
        frame.statement = node
        answer = truth(test(frame, node.test, "while"))
        narrow(frame, node.test, True)
        return answer

    enter.endless = endless  # type: ignore[attr-defined]
    return _loop(frame, node, enter)


def _break(frame: Frame, node: ast.Break) -> bool:
    if frame.breaks:
        frame.breaks[-1].append(frame.env)
    return False


def _continue(frame: Frame, node: ast.Continue) -> bool:
    if frame.continues:
        frame.continues[-1].append(frame.env)
    return False


def _return(frame: Frame, node: ast.Return) -> bool:
    kind = k.NONE if node.value is None else evaluate(frame, node.value)
    frame.returns = join(frame.returns, kind)
    frame.exits.append(frame.env)
    return False


def _raise(frame: Frame, node: ast.Raise) -> bool:
    if node.exc is not None:
        evaluate(frame, node.exc)
    frame.emit(Raising, node)
    return False


def _assert(frame: Frame, node: ast.Assert) -> bool:
    test(frame, node.test, "assert")
    if node.msg is not None:
        evaluate(frame, node.msg)
    narrow(frame, node.test, True)
    return True


def _with(frame: Frame, node: ast.With | ast.AsyncWith) -> bool:
    entered: list[Kind] = []
    for item in node.items:
        kind = evaluate(frame, item.context_expr)
        home = held_by(frame, item.context_expr)
        frame.emit(Entry, item.context_expr, kind=kind, home=home)
        value = (call_special(frame, kind, "__enter__", []) if home is None else None) or UNKNOWN
        if home is None:
            entered.append(kind)
        if isinstance(kind, k.Sequence) and kind.type == "generator":
            value = kind.element
        elif isinstance(kind, k.Object) and kind.type in _ENTERING_THEMSELVES:
            value = kind
        if item.optional_vars is not None:
            bind_target(frame, item.optional_vars, value, None)
    frame.with_ += 1
    falls_through = run_block(frame, node.body)
    frame.with_ -= 1
    for kind in reversed(entered):
        call_special(frame, kind, "__exit__", [k.NONE, k.NONE, k.NONE])
    return falls_through


def _try(frame: Frame, node: ast.Try) -> bool:
    before = dict(frame.env)
    frame.try_ += 1
    ends: list[Environment] = []
    body_through = run_block(frame, node.body)
    frame.try_ -= 1
    after = frame.env
    if body_through and run_block(frame, node.orelse):
        ends.append(frame.env)
    certain = frame.certain
    for handler in () if _cannot_fail(frame, node.body) else node.handlers:
        frame.env, frame.certain = dict(join_environments(before, after)), False
        if handler.name:
            frame.env[handler.name] = UNKNOWN
        if run_block(frame, handler.body):
            ends.append(frame.env)
    frame.certain = certain
    going_on = _meet(frame, ends)
    if not going_on:
        frame.env = dict(join_environments(before, after))
    return run_block(frame, node.finalbody) and going_on


def _cannot_fail(frame: Frame, body: list[ast.stmt]) -> bool:
    """Return whether the body of a `try` cannot raise, because it only exists to support old releases.

    It consists of imports and of calls whose result is fixed while Dynamo traces.
    """
    asked = [node.value for node in body if isinstance(node, (ast.Return, ast.Assign))]
    if not asked or not all(isinstance(node, (ast.Import, ast.ImportFrom, ast.Return, ast.Assign)) for node in body):
        return False
    return all(isinstance(value, ast.Call) and truth(evaluate(frame, value)) is not None for value in asked)


def _function(frame: Frame, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    function = frame.interpreter.definitions.function_of(node, frame.module, frame.function)
    frame.env[node.name] = k.Function(function)
    frame.interpreter.scopes.capture(function, frame.env, frame.context)
    return True


def _class(frame: Frame, node: ast.ClassDef) -> bool:
    frame.emit(ClassDefinition, node)
    cls = frame.interpreter.definitions.class_of(node, frame.module)
    frame.env[node.name] = UNKNOWN if cls is None else k.Class(cls)
    return True


def _import(frame: Frame, node: ast.Import | ast.ImportFrom) -> bool:
    frame.emit(Importing, node)
    for name, target in bind_imports(frame.module, node):
        frame.env[name] = frame.interpreter.scopes.imported(target)
    return True


def _global(frame: Frame, node: ast.Global | ast.Nonlocal) -> bool:
    for name in node.names:
        frame.globals[name] = "global" if isinstance(node, ast.Global) else "closure"
    return True


def _delete(frame: Frame, node: ast.Delete) -> bool:
    for target in node.targets:
        if isinstance(target, ast.Name):
            frame.env.pop(target.id, None)
        elif isinstance(target, ast.Subscript):
            note_item(frame, target, evaluate(frame, target.value))
    return True


def _match(frame: Frame, node: ast.Match) -> bool:
    test(frame, node.subject, "match") if _compares_values(node) else evaluate(frame, node.subject)
    before, certain, departures = frame.env, frame.certain, frame.departures
    ends = [before]
    for case in node.cases:
        frame.env, frame.certain = dict(before), False
        for child in walk(case.pattern):
            name = getattr(child, "name", None) or getattr(child, "rest", None)
            if isinstance(name, str):
                frame.env[name] = UNKNOWN
        if case.guard is not None:
            test(frame, case.guard, "match")
        if run_block(frame, case.body):
            ends.append(frame.env)
    frame.certain = certain and frame.departures == departures
    return _meet(frame, ends)


def _compares_values(node: ast.Match) -> bool:
    """Return whether a case compares the subject with a value. The result of the comparison is converted to bool."""
    return any(isinstance(child, ast.MatchValue) for case in node.cases for child in walk(case.pattern))


_RUNNERS = ByType[Callable[..., bool]](
    {
        ast.Expr: _expression,
        ast.Assign: _assign,
        ast.AnnAssign: _annotated,
        ast.AugAssign: _augmented,
        ast.If: _if,
        ast.For: _for,
        ast.AsyncFor: _for,
        ast.While: _while,
        ast.Break: _break,
        ast.Continue: _continue,
        ast.Return: _return,
        ast.Raise: _raise,
        ast.Assert: _assert,
        ast.With: _with,
        ast.AsyncWith: _with,
        ast.Try: _try,
        ast.FunctionDef: _function,
        ast.AsyncFunctionDef: _function,
        ast.ClassDef: _class,
        ast.Import: _import,
        ast.ImportFrom: _import,
        ast.Global: _global,
        ast.Nonlocal: _global,
        ast.Delete: _delete,
        ast.Match: _match,
        ast.stmt: _ignore,
    }
)
if hasattr(ast, "TryStar"):
    _RUNNERS[ast.TryStar] = _try
