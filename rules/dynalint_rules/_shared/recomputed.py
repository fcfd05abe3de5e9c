"""What a name was computed from, to compute it once more where one side of a test alone goes on with it.

In `d = (x * x).sum().sqrt()`, then `if d > 0: x = x / d`, zeros that flow back to `d` meet the infinite slope of the
square root at zero, although the branch has nothing to do with that. No choice after it helps: the square root has to
be computed of something else, `torch.where(d > 0, (x * x).sum(), 1.0).sqrt()`, where the branch is not taken.
"""

from __future__ import annotations

import ast

from dynalint.analysis import kinds as k
from dynalint_rules._shared.blocks import is_elif
from dynalint_rules._shared.effects import effects_of
from dynalint_rules._shared.liveness import is_dead_after, is_used_by
from dynalint_rules._shared.memory import changes_in_place, on_another_side, sharing
from dynalint_rules._shared.names import end_of, is_named, last_value, statement_of
from dynalint_rules._shared.scope import Refusal, Scope

# Of tensors, what takes little time, above all in a graph, where it is fused with what is around it.
_CHEAP = frozenset(
    "abs acos add asin atan clamp clamp_max clamp_min clip cos cosh detach div divide double erf exp expm1 flatten "
    "float half log log10 log1p log2 logit masked_fill max mean min mul multiply neg norm permute pow reciprocal "
    "relu reshape rsqrt sigmoid sign sin sinh sqrt square squeeze sub subtract sum t tan tanh transpose true_divide "
    "type_as unsqueeze view view_as where".split()
)
_PLAIN = (ast.UnaryOp, ast.Constant, ast.Compare, ast.Subscript, ast.Slice, ast.Tuple)
_MOST_NODES = 32


def definition_of(scope: Scope, name: str, at: ast.stmt) -> tuple[ast.stmt, ast.expr] | None:
    """Return the statement before the test that `name` has its value from at a statement, and the expression.

    None where it is not certain which that is, or where the expression takes long, draws random numbers, or reads what
    may have changed since without having got another name.
    """
    made, value = last_value(scope, name, at) or (None, None)
    if made is None or value is None or made.lineno >= _test(scope).lineno or not _is_cheap(scope, value):
        return None
    return None if _is_changed(scope, name, end_of(made), at) else (made, value)


def is_held(scope: Scope, name: str, since: ast.stmt, until: ast.stmt) -> bool:
    """Whether a name still stands at the statement `until` for what the statement `since` reads."""
    return not _is_changed(scope, name, (since.lineno, since.col_offset), until)


def is_kept(scope: Scope, name: str, since: ast.stmt, until: ast.stmt) -> bool:
    """Whether the tensor that the statement `since` reads under a name is not changed in place before `until`."""
    start, end = (since.lineno, since.col_offset), (until.lineno, until.col_offset)
    changes = [one for shared in sharing(scope, name) for one in changes_in_place(scope, shared)]
    return not any(start <= (one.lineno, one.col_offset) < end for one in changes)


def _is_changed(scope: Scope, name: str, start: tuple[int, int], at: ast.stmt) -> bool:
    """Whether `name` is set, or its tensor changed in place, from a place on to the beginning of `at`.

    What stands on another side of a branch than `at` does not count: where that is taken, this is not.
    """
    end = (at.lineno, at.col_offset)
    named = [one for one in ast.walk(scope.function.node) if is_named(one, name)]
    stores = [one for one in named if not isinstance(getattr(one, "ctx", None), ast.Load)]
    changes = [one for shared in sharing(scope, name) for one in changes_in_place(scope, shared)]
    return any(
        start <= (one.lineno, one.col_offset) < end and not on_another_side(scope, one, at)
        for one in [*stores, *changes]
    )


def is_used_throughout(scope: Scope, name: str) -> bool:
    """Whether what a name holds before the test is used whichever side is taken, so that its gradient is never idle."""
    decision, test = scope.shelter, _test(scope)
    if isinstance(decision, ast.IfExp):
        read = [any(is_named(node, name) for node in ast.walk(side)) for side in (decision.body, decision.orelse)]
        set_anew = isinstance(test, ast.Assign) and any(is_named(target, name) for target in test.targets)
        return all(read) or not (set_anew or is_dead_after(scope, name, test))
    if not isinstance(test, ast.If):
        return False
    sides = [test.body]
    while len(test.orelse) == 1 and isinstance(test.orelse[0], ast.If) and is_elif(scope, test.orelse[0]):
        test = test.orelse[0]
        sides.append(test.body)
    return all(is_used_by(scope, name, side, _test(scope)) for side in [*sides, test.orelse])


def _test(scope: Scope) -> ast.stmt:
    """The statement that the decision stands in, the first of a chain of `if` and `elif`."""
    assert scope.shelter is not None
    statement = statement_of(scope, scope.shelter)
    while is_elif(scope, statement):
        statement = statement_of(scope, scope.parents[statement])
    return statement


def _is_cheap(scope: Scope, value: ast.expr) -> bool:
    nodes = list(ast.walk(value))
    if len(nodes) > _MOST_NODES or not all(_is_known(scope, node) for node in nodes):
        return False
    try:
        return not effects_of(scope, [value]).layers
    except Refusal:
        return False


def _is_known(scope: Scope, node: ast.AST) -> bool:
    kind = scope.kind(node)
    if isinstance(node, ast.Call):
        callee = scope.kind(node.func)
        return isinstance(callee, k.Method | k.External) and callee.name.rpartition(".")[2] in _CHEAP
    if isinstance(node, ast.Name):
        return node.id in scope.function.locals or isinstance(kind, k.External | k.Module)
    if isinstance(node, ast.Attribute):
        return isinstance(kind, k.Method | k.External | k.Module) or _is_steady(scope, node)
    if isinstance(node, ast.BinOp):
        return not isinstance(node.op, ast.MatMult)
    return not isinstance(node, ast.expr) or isinstance(node, _PLAIN)


def _is_steady(scope: Scope, node: ast.Attribute) -> bool:
    """Whether an attribute is a tensor of the module's that the function only reads."""
    if scope.tensor(node) is None or not is_named(node.value, "self"):
        return False
    same = [one for one in ast.walk(scope.function.node) if isinstance(one, ast.Attribute) and one.attr == node.attr]
    return not any(_may_change(scope, one) for one in same)


def _may_change(scope: Scope, node: ast.expr) -> bool:
    parent = scope.parents.get(node)
    if not isinstance(getattr(node, "ctx", None), ast.Load):
        return True
    if isinstance(parent, ast.Subscript):
        return parent.value is node and _may_change(scope, parent)
    return isinstance(parent, ast.Attribute) and parent.attr.endswith("_")
