"""Remove tests for a mask that selects all or nothing, if the general path gives the same result.

if mask.all():                                  out = x.clone()
    return self.f(x)                            out[mask] = self.f(x[mask])
out = x.clone()                                 return out
out[mask] = self.f(x[mask])
return out
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence

from dynalint.rulekit import Rewrite, rw, walk
from dynalint_rules._code.effects import is_pure
from dynalint_rules._code.memory import changes_in_place, is_own
from dynalint_rules._code.names import only_value, within
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.branch.blocks import is_elif, statements_after
from dynalint_rules._shared.branch.branch_values import NO_RAISE
from dynalint_rules._shared.branch.choice import finished
from dynalint_rules._shared.mask.masked import mask_of_nothing, mask_of_something, reduced_as_whole

_OPPOSITE = {ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
_TITLE = "Remove the test, because it does not change the result"


def rewrite_shortcut(scope: Scope, statement: ast.If) -> Rewrite | None:
    """Return the rewrite that only keeps the last path of an `if`, or None unless the others are shortcuts for it."""
    head = statement
    while is_elif(scope, head) and isinstance(parent := scope.parents.get(head), ast.If):
        head = parent
    branches = [head]
    while (
        len(branches[-1].orelse) == 1 and isinstance(inner := branches[-1].orelse[0], ast.If) and is_elif(scope, inner)
    ):
        branches.append(inner)
    shortcuts, last = [one.body for one in branches], branches[-1].orelse
    if last and len(branches) == 1 and mask_of_something(scope, head.test) is not None:
        shortcuts, last = [last], head.body
    rest = last or statements_after(scope, head)
    masks = [_asked(scope, one.test) for one in branches]
    first = masks[0]
    if first is None or any(one is None or ast.dump(one) != ast.dump(first) for one in masks):
        return None
    general = _expressions(rest, first, _as_written(scope, first))
    values = [_value(one, returned=not last or isinstance(last[-1], ast.Return)) for one in shortcuts]
    if not general or any(value is None or ast.dump(value) not in general for value in values):
        return None
    if not all(is_pure(scope, one.test) for one in branches) or _writes_to_others(scope, rest):
        return None
    same = f"the remaining code gives the same result where {scope.quote(first)} selects all or nothing"
    return finished(scope, _TITLE, rw.written(scope.file, (head, last)), [same, NO_RAISE])


def _writes_to_others(scope: Scope, statements: Sequence[ast.stmt]) -> bool:
    """Return whether statements change a tensor from elsewhere in place, which may raise if the mask is empty."""
    names = {node.id for one in statements for node in walk(one) if isinstance(node, ast.Name)}
    return any(
        within(place, one, scope) and not is_own(scope, name, one)
        for name in names
        for place in changes_in_place(scope, name)
        for one in statements
    )


def _asked(scope: Scope, test: ast.expr) -> ast.expr | None:
    """Return the mask if a test checks whether it selects everything, anything or nothing."""
    return reduced_as_whole(scope, test, "all") or mask_of_nothing(scope, test) or mask_of_something(scope, test)


def _value(body: Sequence[ast.stmt], *, returned: bool) -> ast.expr | None:
    """Return the value of a path that does nothing but return the value or, unless `returned`, assign it to a name."""
    (only, *more) = body
    if more or isinstance(only, ast.Return) is not returned:
        return None
    plain = isinstance(only, ast.Assign) and len(only.targets) == 1 and isinstance(only.targets[0], ast.Name)
    return only.value if isinstance(only, ast.Return) or (isinstance(only, ast.Assign) and plain) else None


def _as_written(scope: Scope, mask: ast.expr) -> set[str]:
    """Return the mask, its value if it is a name, and the opposite comparison if it is one."""
    value = only_value(scope, mask.id, mask) if isinstance(mask, ast.Name) else mask
    found = {ast.dump(mask)} | ({ast.dump(value)} if value is not None else set())
    if isinstance(value, ast.Compare) and type(value.ops[0]) in _OPPOSITE and len(value.ops) == 1:
        found.add(ast.dump(ast.Compare(value.left, [_OPPOSITE[type(value.ops[0])]()], value.comparators)))
    return found


def _expressions(statements: Sequence[ast.stmt], mask: ast.expr, written: set[str]) -> set[str]:
    """Return the expressions in statements that select with a mask, with the whole tensor instead of the selection.

    The mask may be `written` in several ways. Operands are left out, because the result of the operation is different.
    """
    wanted = ast.dump(mask)
    selecting = any(
        ast.dump(part) in written
        for one in statements
        for node in walk(one)
        if isinstance(node, ast.Subscript | ast.Call | ast.Tuple)
        for part in ast.iter_child_nodes(node)
    )
    whole = [_Whole(wanted).visit(copy.deepcopy(one)) for one in statements] if selecting else []
    parts = [(node, part) for one in whole for node in walk(one) for part in ast.iter_child_nodes(node)]
    return {
        ast.dump(part)
        for node, part in parts
        if isinstance(part, ast.expr) and not isinstance(node, ast.BinOp | ast.UnaryOp | ast.Compare)
    }


class _Whole(ast.NodeTransformer):
    """Replaces `x[mask]` with `x`."""

    def __init__(self, mask: str) -> None:
        self._mask = mask

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        return node.value if ast.dump(node.slice) == self._mask else node
