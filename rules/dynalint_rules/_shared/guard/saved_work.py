"""Tests that only save work. Compiled code skips them and always does the work."""

from __future__ import annotations

import ast
from collections.abc import Container
from dataclasses import replace

from dynalint.rulekit import Rewrite, k, rw, walk
from dynalint_rules._code.eager import all_of
from dynalint_rules._code.effects import is_pure
from dynalint_rules._code.names import is_named, last_value, loads, only_value, stores, within
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.branch.blocks import is_elif, split_test
from dynalint_rules._shared.guard.skipping import may_go_unasked
from dynalint_rules._shared.guard.statements import compiling, eager_test
from dynalint_rules._shared.mask.masked import mask_of_something, reduced_as_whole


def leaves_loop_in_eager(scope: Scope, statement: ast.If) -> Rewrite | None:
    """Return the rewrite of `if test: break` that only tests in eager code, or None if the branch does more.

    The remaining iterations must not change anything, and a run verifies this. Whether an algorithm has converged also
    depends on how the module is configured, so a run only shows it for tests of a mask that each iteration applies.
    """
    loop = scope.parents[statement]
    ends = len(statement.body) == 1 and isinstance(statement.body[0], ast.Break) and not statement.orelse
    if not ends or not isinstance(loop, ast.For) or loop.orelse or not may_go_unasked(scope, statement.test):
        return None
    told = {node.id for node in walk(loop.target) if isinstance(node, ast.Name)}
    if any(read.lineno > (loop.end_lineno or 0) for name in told for read in loads(scope, name)):
        return None
    condition = (
        f"the iterations after the `break` on line {statement.body[0].lineno} change nothing, so compiled code "
        "runs them"
    )
    found = _only_in_eager(scope, statement, "Leave the loop only in eager mode", condition)
    return found if _asks_mask_of(scope, loop, statement) else replace(found, safety="unsafe")


def _asks_mask_of(scope: Scope, loop: ast.For, statement: ast.If) -> bool:
    """Return whether a test asks if a mask is empty or full, and the loop uses the mask for more than that."""
    match positive_of(statement.test):
        case ast.Call(ast.Attribute(_, "any" | "all"), [ast.Name(mask)], []) | ast.Call(
            ast.Attribute(ast.Name(mask), "any" | "all"), [], []
        ):
            reads = (use for use in loads(scope, mask) if not within(use, statement.test, scope))
            return any(within(use, loop, scope) for use in reads)
    return False


def drops_tensor_in_eager(scope: Scope, statement: ast.If) -> Rewrite | None:
    """Return the rewrite of `if not mask.any(): mask = None` that only tests in eager code, or None for other code.

    Without the mask, the code does less, but its result must be the same, and a run verifies this.
    """
    match statement.body:
        case [ast.Assign([ast.Name(name)], ast.Constant(None)) as dropped] if not statement.orelse:
            asked = [one for one in walk(statement.test) if is_named(one, name)]
        case _:
            return None
    if is_elif(scope, statement) or not any(k.may_be_tensor(scope.kind(one)) for one in asked):
        return None
    if not may_go_unasked(scope, statement.test):
        return None
    condition = f"keeping `{name}` where line {dropped.lineno} drops it gives the same result"
    return _only_in_eager(scope, statement, "Drop the tensor only in eager mode", condition)


def makes_tensor_in_compiled(scope: Scope, statement: ast.If) -> Rewrite | None:
    """Return the rewrite of `if padding.any(): mask = ...` that always makes the mask in compiled code, or None.

    Without the branch, the mask must be None, and the result must be the same with it, which a run verifies.
    """
    _, test = split_test(scope, statement)
    asked = mask_of_something(scope, test)
    if statement.orelse or is_elif(scope, statement) or asked is None or not may_go_unasked(scope, test):
        return None
    made: dict[str, None] = {}
    for one in statement.body:
        match one:
            case ast.Assign([ast.Name(name)], value) if is_pure(scope, value):
                if name not in made and not _is_none(scope, name, statement):
                    return None
                made[name] = None
            case ast.Expr(value) if _fills(scope, value, made):
                pass
            case _:
                return None
    if not made:
        return None
    name = next(iter(made))
    edits = rw.written(scope.file, (test, lambda test: rw.operation(compiling(scope), "or", test)))
    condition = f"`{name}` gives the same result as None where {scope.quote(asked)} selects nothing"
    return Rewrite("Make the tensor in any case in compiled code", "conditional", edits, (condition,), scope.imports)


def _is_none(scope: Scope, name: str, statement: ast.If) -> bool:
    """Return whether a name is None before an `if`: its last value, or as `if mask is None:` around it tells."""
    _, before = last_value(scope, name, statement) or (None, None)
    if isinstance(before, ast.Constant) and before.value is None:
        return True
    outer = scope.parents.get(statement)
    told = (
        isinstance(outer, ast.If)
        and statement in outer.body
        and f"{name} is None" in map(ast.unparse, all_of(outer.test))
    )
    earlier = outer.body[: outer.body.index(statement)] if told and isinstance(outer, ast.If) else []
    return told and not any(within(store, one, scope) for store in stores(scope, name) for one in earlier)


def _fills(scope: Scope, value: ast.expr, made: Container[str]) -> bool:
    """Return whether an expression is a call such as `mask.masked_fill_(...)` on one of the `made` names."""
    match value:
        case ast.Call(ast.Attribute(ast.Name(name), method), args, keywords) if name in made and method.endswith("_"):
            return all(is_pure(scope, one) for one in (*args, *(keyword.value for keyword in keywords)))
    return False


def keeps_tensor_in_compiled(scope: Scope, choice: ast.IfExp | ast.If) -> Rewrite | None:
    """Return the rewrite of `mask if mask.any() else None` that always keeps the mask in compiled code, or None.

    The choice may also be an `if` with an `else`. As in `drops_tensor_in_eager`, the result must be the same with the
    mask. The test only asks what the mask selects, because a flag in it would also decide in compiled code.
    """
    body, orelse = _values_of(choice)
    is_kept = isinstance(orelse, ast.Constant)
    value, nothing = (body, orelse) if is_kept else (orelse, body)
    if not isinstance(nothing, ast.Constant) or nothing.value is not None or not isinstance(value, ast.Name):
        return None
    test = only_value(scope, choice.test.id, choice) if isinstance(choice.test, ast.Name) else choice.test
    asked = [reduced_as_whole(scope, positive_of(test), name) for name in ("any", "all")] if test is not None else []
    if not any(one is not None and is_named(one, value.id) for one in asked) or not may_go_unasked(scope, choice.test):
        return None
    condition = f"keeping `{value.id}` where line {choice.lineno} drops it gives the same result"
    if not is_kept:
        return _only_in_eager(scope, choice, "Drop the tensor only in eager mode", condition)
    edits = rw.written(scope.file, (choice.test, lambda test: rw.operation(compiling(scope), "or", test)))
    return Rewrite("Drop the tensor only in eager mode", "conditional", edits, (condition,), scope.imports)


def _values_of(choice: ast.IfExp | ast.If) -> tuple[ast.AST | None, ast.AST | None]:
    """Return the values of a conditional expression, or those that an `if` does nothing but assign to one name."""
    match choice:
        case ast.IfExp(_, body, orelse):
            return body, orelse
        case ast.If(_, [ast.Assign([ast.Name(name)], body)], [ast.Assign([ast.Name(other)], orelse)]) if name == other:
            return body, orelse
    return None, None


def positive_of(test: ast.expr) -> ast.expr:
    """Return a test without any `not` or `~` in front of it."""
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not | ast.Invert):
        test = test.operand
    return test


def _only_in_eager(scope: Scope, asking: ast.If | ast.IfExp, title: str, condition: str) -> Rewrite:
    edits = rw.written(scope.file, (asking.test, lambda test: rw.operation(eager_test(scope), "and", test)))
    return Rewrite(title, "conditional", edits, (condition,), scope.imports)
