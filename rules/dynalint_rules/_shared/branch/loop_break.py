"""Rewrite a data-dependent `break`, so that all iterations run and the values from before it are kept.

                                             settled = torch.zeros((), dtype=torch.bool, device=x.device)
for _ in range(self.steps):                  for _ in range(self.steps):
    new = self.step(x)                           new = self.step(x)
    if (new - x).norm() < self.tol:              settled = settled | ((new - x).norm() < self.tol)
        break                                    x = torch.where(settled, x, new)
    x = new

Under autocast, what layers compute may have a narrower dtype than the value before the loop, which is then converted.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import partial

from dynalint.rulekit import Refusal, Rewrite, k, rw, walk
from dynalint_rules._code.calls import callee
from dynalint_rules._code.effects import effects_of_always
from dynalint_rules._code.names import is_bound_before, is_named, is_shared, kind_left, loads, nodes_in
from dynalint_rules._code.scope import Scope, as_tensor
from dynalint_rules._shared.branch.blocks import does_nothing, is_elif
from dynalint_rules._shared.branch.branch_values import (
    FOR_TENSORS,
    BranchValue,
    alias_conditions,
    gradient_conditions,
    reads_of,
)
from dynalint_rules._shared.branch.choice import GUARD_ORDERS, finished, rendered, require_tensors
from dynalint_rules._shared.branch.domain import guarded_operands
from dynalint_rules._shared.branch.loop_return import check_rounds
from dynalint_rules._shared.branch.truth import truth_of
from dynalint_rules._shared.text import held_together

_PRODUCTS = frozenset("matmul mm bmm mv addmm baddbmm einsum linear bilinear conv1d conv2d conv3d".split())
_TITLE = "Run all iterations, and keep the values from where the loop would have ended"


def rewrite_loop_break(scope: Scope, statement: ast.If) -> Rewrite | None:
    """Return the rewrite of `if test: break` in a loop that only computes tensors, or None for any other statement.

    The loop is a `for`, or a `while` that counts its iterations.
    """
    loop = scope.parents[statement]
    ends = len(statement.body) == 1 and isinstance(statement.body[0], ast.Break) and not statement.orelse
    if not ends or not isinstance(loop, ast.For | ast.While) or statement not in loop.body or is_elif(scope, statement):
        return None
    counting = _counting(scope, loop)
    computed = None if counting is None else _computed(scope, loop, statement, counting)
    if computed is None:
        return None
    if isinstance(loop, ast.For):
        check_rounds(scope, loop)
    kept = _kept(scope, loop, computed, statement)
    truth = truth_of(scope, statement.test)
    effects = effects_of_always(scope, [statement.test, *(one.value for one in computed.values())], statement)
    conditions, reads = list(truth.selecting_conditions), set[str]()
    settled = scope.fresh_name("settled")
    lines: dict[ast.stmt, list[str | ast.stmt]] = {statement: [f"{settled} = {settled} | {truth.operand}"]}
    first, narrows = loop.body[0], bool(effects.layers) or any(map(partial(_multiplies, scope), computed.values()))
    for name in kept:
        assignment, before = computed[name], name
        if assignment is not _assignments(loop, name)[0]:
            before = scope.fresh_name("previous", [settled])
            lines[first] = [f"{before} = {name}", *lines.get(first, [first])]
        sides = [
            BranchValue(None, kind_left(scope, name, loop), name),
            BranchValue(assignment.value, scope.kind(assignment.value)),
        ]
        conditions += [*require_tensors(scope, sides), *FOR_TENSORS]
        conditions += alias_conditions(scope, sides, name, loop)
        reads |= reads_of(scope, sides[1], statement)
        value = _protected(scope, assignment.value, settled)
        *others, _ = lines.get(assignment, [assignment])
        if narrows:
            if not isinstance(assignment.value, ast.Name):
                new = scope.fresh_name(f"new_{name}", [settled])
                others, value = [*others, f"{new} = {value}"], new
            before = f"{before}.to({value}.dtype)"
            conditions.append(f"under autocast, `{name}` may have the dtype of {scope.quote(assignment.value)}")
        lines[assignment] = [*others, f"{name} = {scope.torch}.where({settled}, {before}, {value})"]
    for one in loop.body:
        if isinstance(one, ast.Assign) and not any(one is computed[name] for name in kept):
            value = _protected(scope, one.value, settled)
            if value != held_together(scope.text(one.value)):
                lines[one] = [*lines.get(one, [one])[:-1], f"{scope.text(one.targets[0])} = {value}"]
    conditions += gradient_conditions([set(), reads], effects.layers)
    device = next((name for name in kept if as_tensor(kind_left(scope, name, loop)) is not None), None)
    if device is None:
        raise Refusal("the loop does not update a tensor that exists before it; assign the first value before the loop")
    start = f"{settled} = {scope.torch}.zeros((), dtype={scope.torch}.bool, device={device}.device)"
    edits = rw.written(scope.file, (loop, [start, loop]), *lines.items())
    return finished(scope, _TITLE, edits, conditions)


def _protected(scope: Scope, value: ast.expr, settled: str) -> str:
    """Return the code of a value whose gradient is finite where it is not selected, as after a search has converged."""
    guard = f"{scope.torch}.where({settled}, {GUARD_ORDERS[1]})"
    return held_together(rendered(scope, value, guarded_operands(scope, value), guard))


def _multiplies(scope: Scope, assignment: ast.Assign) -> bool:
    """Return whether autocast may compute a value in half precision, because it multiplies matrices."""
    nodes = list(walk(assignment.value))
    called = {callee(scope, one).rpartition(".")[2] for one in nodes if isinstance(one, ast.Call)}
    products = any(isinstance(one, ast.BinOp) and isinstance(one.op, ast.MatMult) for one in nodes)
    return products or not called.isdisjoint(_PRODUCTS)


def _counting(scope: Scope, loop: ast.For | ast.While) -> ast.AST | None:
    """Return what counts the iterations of a loop: the target of a `for`, or the last statement of `while i < n`.

    The result is None for any other `while`.
    """
    if isinstance(loop, ast.For):
        return loop.target
    test, last = loop.test, loop.body[-1]
    if loop.orelse or not isinstance(test, ast.Compare) or not isinstance(last, ast.AugAssign):
        return None
    below = isinstance(test.left, ast.Name) and [type(one) for one in test.ops] in ([ast.Lt], [ast.LtE])
    steps = isinstance(last.op, ast.Add) and isinstance(last.value, ast.Constant) and last.value.value == 1
    limit = scope.kind(test.comparators[0])
    known = all(isinstance(one, k.Value) and one.type == "int" and one.source != "data" for one in limit.members)
    return last if below and steps and known and ast.dump(last.target) == ast.dump(_stored(test.left)) else None


def _stored(name: ast.expr) -> ast.Name:
    assert isinstance(name, ast.Name)
    return ast.Name(name.id, ast.Store())


def _computed(
    scope: Scope, loop: ast.For | ast.While, ending: ast.If, counting: ast.AST
) -> dict[str, ast.Assign] | None:
    """Return the last assignment to each name in a loop, or None if it also does anything else.

    The result is also None if the loop uses the number of iterations.
    """
    found: dict[str, ast.Assign] = {}
    for one in loop.body:
        if one in (ending, counting) or (does_nothing(scope, one) and not isinstance(one, ast.Continue)):
            continue
        target = one.targets[0] if isinstance(one, ast.Assign) and len(one.targets) == 1 else None
        if not isinstance(one, ast.Assign) or not isinstance(target, ast.Name):
            return None
        found[target.id] = one
    after = loop.body[loop.body.index(ending) :]
    if any(len({one in after for one in _assignments(loop, name)}) > 1 for name in found):
        return None  # the iteration with the `break` ends with the first value
    counted = {node.id for node in walk(counting) if isinstance(node, ast.Name)}
    test = nodes_in(loop.test) if isinstance(loop, ast.While) else ()
    used = any(node not in test for name in counted for node in loads(scope, name))
    return (
        None if used or counted & found.keys() or any(is_shared(scope, name) for name in {*found, *counted}) else found
    )


def _kept(scope: Scope, loop: ast.For | ast.While, computed: dict[str, ast.Assign], ending: ast.If) -> Sequence[str]:
    """Return the names that an iteration, or the code after the loop, reads from an earlier iteration.

    Raises:
        Refusal: If one of them has no value before the loop.
    """
    inside, kept, assigned = nodes_in(loop), dict[str, None](), set[str]()
    for one in loop.body:
        read = ending.test if one is ending else one.value if isinstance(one, ast.Assign) else one
        names = (name for name in computed if any(is_named(node, name) for node in walk(read)))
        kept |= dict.fromkeys(name for name in names if name not in assigned)
        assigned |= {name for name in computed if one in _assignments(loop, name)}
    later = (name for name in computed if any(node not in inside for node in loads(scope, name)))
    end = loop.end_lineno or loop.lineno
    kept |= dict.fromkeys(name for name in later if any(node.lineno > end for node in loads(scope, name)))
    for name in kept:
        if not is_bound_before(scope, name, loop):
            raise Refusal(f"`{name}` has no value before the loop; assign one, so that it can be kept")
    return [name for name in computed if name in kept]


def _assignments(loop: ast.For | ast.While, name: str) -> list[ast.stmt]:
    """Return the statements in a loop's body that assign a name."""
    return [one for one in loop.body if isinstance(one, ast.Assign) and is_named(one.targets[0], name)]
