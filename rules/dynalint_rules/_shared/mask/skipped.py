"""Remove a `continue` for iterations in which a mask selects nothing, if the rest of the iteration then does nothing.

for i in range(3):                              for i in range(3):
    mask = group == i                               mask = group == i
    if not mask.any():                              out = torch.where(mask, out + x * i, out)
        continue
    out = torch.where(mask, out + x * i, out)
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from dynalint.rulekit import Refusal, Rewrite, k, rw, walk
from dynalint_rules._code.effects import effects_of_always
from dynalint_rules._code.names import is_shared, lineage, names, nodes_in, parameters
from dynalint_rules._code.saved_tensors import refuse_changed_later
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.branch.blocks import is_elif, statements_after
from dynalint_rules._shared.branch.branch_values import NO_RAISE
from dynalint_rules._shared.branch.choice import finished
from dynalint_rules._shared.branch.domain import guarded_operands
from dynalint_rules._shared.mask.masked import TITLE, Body, mask_of_nothing

_DIVIDING = (ast.Div, ast.FloorDiv, ast.Mod)


def rewrite_skipped(scope: Scope, statement: ast.If) -> Rewrite | None:
    """Return the rewrite that removes `if not mask.any(): continue`, or None for a test that is needed.

    Raises:
        Refusal: If a value must not be computed in every iteration.
    """
    alone = len(statement.body) == 1 and isinstance(statement.body[0], ast.Continue) and not statement.orelse
    if not alone or is_elif(scope, statement) or not isinstance(scope.parents[statement], ast.For):
        return None
    mask = mask_of_nothing(scope, statement.test)
    if mask is None:
        return _with_empty_slice(scope, statement)
    body, rest = Body(scope, mask, statement), statements_after(scope, statement)
    inside = [one for one in rest if isinstance(one, ast.Assign) and _is_temporary(scope, one, rest)]
    others = [one for one in rest if one not in inside]
    if not others or not all(body.does_nothing_unselected(one, is_last=False) for one in others):
        return None
    if any(isinstance(one, ast.Try) and one.handlers for one in lineage(scope, statement)):
        return None
    computed = [*body.values, *(one.value for one in inside)]
    if any(_may_fail(scope, one) for one in rest) or _needs_protection(scope, computed):
        return None
    effects_of_always(scope, computed, statement)
    refuse_changed_later(scope, [mask], statement, handed=True)
    return finished(scope, TITLE, rw.written(scope.file, (statement, [])), [*body.conditions, NO_RAISE])


def _with_empty_slice(scope: Scope, statement: ast.If) -> Rewrite | None:
    """Return the rewrite that removes `if a == b: continue` where the rest of an iteration only sets `x[a:b]`, or None.

    Raises:
        Refusal: If a value must not be computed in every iteration.
    """
    rest = statements_after(scope, statement)
    inside = [one for one in rest if isinstance(one, ast.Assign) and _is_temporary(scope, one, rest)]
    stores = [one for one in rest if isinstance(one, ast.Assign) and one not in inside]
    if not stores or len(inside) + len(stores) < len(rest):
        return None
    if not all(_is_empty_if(scope, statement.test, one.targets[0]) and len(one.targets) == 1 for one in stores):
        return None
    computed = [one.value for one in (*inside, *stores)]
    if any(_may_fail(scope, one) for one in computed):
        return None
    effects_of_always(scope, computed, statement)
    return finished(scope, TITLE, rw.written(scope.file, (statement, [])), [NO_RAISE])


def _is_empty_if(scope: Scope, test: ast.expr, target: ast.expr) -> bool:
    """Return whether a test compares the bounds of a tensor's slice, or of its mask, which equal ones make empty."""
    tensor = scope.tensor(target.value) if isinstance(target, ast.Subscript) else None
    if tensor is None or tensor.array:
        return False
    match test:
        case ast.Compare(left, [ast.Eq()], [right]):
            bounds = sorted((ast.dump(left), ast.dump(right)))
        case _:
            return False
    parts = target.slice.elts if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Tuple) else ()
    for part in parts or ([target.slice] if isinstance(target, ast.Subscript) else []):
        match part:
            case ast.Slice(ast.expr() as lower, ast.expr() as upper, None):
                same = True
            case ast.BinOp(
                ast.Compare(one, [ast.GtE()], [lower]), ast.BitAnd(), ast.Compare(other, [ast.Lt()], [upper])
            ):
                same = ast.dump(one) == ast.dump(other)
            case _:
                continue
        if same and sorted((ast.dump(lower), ast.dump(upper))) == bounds:
            return True
    return False


def _is_temporary(scope: Scope, statement: ast.Assign, rest: Sequence[ast.stmt]) -> bool:
    """Return whether the name that a statement assigns is only used later in the same iteration."""
    (target, *more) = statement.targets
    if more or not isinstance(target, ast.Name) or target.id in parameters(scope) or is_shared(scope, target.id):
        return False
    later = frozenset[ast.AST]().union(*map(nodes_in, rest[rest.index(statement) + 1 :]))
    return all(one is target or one in later for one in names(scope, target.id))


def _may_fail(scope: Scope, code: ast.AST) -> bool:
    """Return whether code looks up what may be missing, divides numbers, or raises something to a power."""
    return any(_is_lookup(scope, node) or _is_undefined_somewhere(scope, node) for node in walk(code))


def _is_lookup(scope: Scope, node: ast.AST) -> bool:
    """Return whether a node reads an item of something other than a tensor. A layer of a list is always there."""
    read = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)
    if not isinstance(node, ast.Subscript) or not read or scope.tensor(node.value) is not None:
        return False
    if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
        return False
    return not isinstance(scope.kind(node), k.Object | k.Instance)


def _is_undefined_somewhere(scope: Scope, node: ast.AST) -> bool:
    if not isinstance(node, ast.BinOp):
        return False
    return isinstance(node.op, ast.Pow) or (isinstance(node.op, _DIVIDING) and scope.tensor(node) is None)


def _needs_protection(scope: Scope, values: Sequence[ast.expr]) -> bool:
    """Return whether a value or a gradient may be NaN where the mask selects nothing."""
    try:
        return any(guarded_operands(scope, one) for one in values)
    except Refusal:
        return True
