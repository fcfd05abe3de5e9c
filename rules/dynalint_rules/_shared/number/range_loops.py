"""Loop over a `range` instead of the elements of an `arange`, so that the loop variable is a number from the start.

for t in torch.arange(n, device=x.device):      for t in range(n):
    if t > 0:                                       if t > 0:
        x = x + noise[t]                                x = x + noise[t]
"""

from __future__ import annotations

import ast

from dynalint.rulekit import Rewrite, k, rw, walk
from dynalint_rules._code.calls import callee
from dynalint_rules._code.names import has_one_value, is_named, lineage, loads, only_value, parameters, stores
from dynalint_rules._code.scope import Scope, as_tensor
from dynalint_rules._shared.number.flow import is_whole

_ARANGES = frozenset({"torch.arange", "numpy.arange"})
_INTEGRAL = frozenset({"long", "int64", "int", "int32"})
# Calls that do the same with a number.
_TAKES_NUMBER = frozenset(
    "builtins.int builtins.float builtins.range builtins.abs torch.full torch.full_like Tensor.new_full "
    "Tensor.fill_".split()
)


def over_range(scope: Scope, node: ast.AST) -> Rewrite | None:
    """Return the rewrite of the loop over an `arange` whose elements decide the value of `node`, or None."""
    for read in walk(node):
        if not isinstance(read, ast.Name):
            continue
        loop = _loop_of(scope, read)
        call = _arange_of(scope, loop) if loop is not None else None
        if call is None:
            continue
        changes: list[rw.Change] = []
        if all(_takes_number(scope, one, changes) for one in loads(scope, read.id)):
            arguments = [rw.kept(scope.file, one) for one in call.args]
            changes.append((call, rw.call(rw.name("range"), *arguments)))
            same = f"`{read.id}` has the same effect as a Python int, up to rounding"
            return Rewrite("Loop over a `range`", "conditional", rw.written(scope.file, *changes), (same,))
    return None


def _loop_of(scope: Scope, read: ast.Name) -> ast.For | None:
    """Return the loop that assigns a name, alone or as the element that `enumerate` counts."""
    for outer in lineage(scope, read):
        if not isinstance(outer, ast.For):
            continue
        target = outer.target
        counted = isinstance(target, ast.Tuple) and len(target.elts) == 2 and _counted(scope, outer) is not None
        named = target.elts[1] if counted and isinstance(target, ast.Tuple) else target
        if is_named(named, read.id):
            return outer if [*stores(scope, read.id)] == [named] and read.id not in parameters(scope) else None
    return None


def _counted(scope: Scope, loop: ast.For) -> ast.expr | None:
    """Return what `enumerate` goes through if the loop goes through an `enumerate`, or None."""
    call = loop.iter
    if not isinstance(call, ast.Call) or len(call.args) != 1 or call.keywords:
        return None
    return call.args[0] if callee(scope, call) == "builtins.enumerate" else None


def _arange_of(scope: Scope, loop: ast.For) -> ast.Call | None:
    """Return the `arange` of ints that a loop goes through, if nothing else needs the tensor."""
    items: ast.expr | None = _counted(scope, loop) or loop.iter
    if isinstance(items, ast.Name):
        only_looped = all(_is_gone_through(scope, one) for one in loads(scope, items.id))
        if not has_one_value(scope, items.id) or not only_looped:
            return None
        items = only_value(scope, items.id, items)
    if not isinstance(items, ast.Call) or callee(scope, items) not in _ARANGES:
        return None
    given = {one.arg: ast.unparse(one.value) for one in items.keywords}
    whole = given.keys() <= {"device", "dtype"} and given.get("dtype", "int").rpartition(".")[2] in _INTEGRAL
    return items if whole and items.args and all(is_whole(scope.kind(one)) for one in items.args) else None


def _is_gone_through(scope: Scope, read: ast.Name) -> bool:
    parent = scope.parents[read]
    called = isinstance(parent, ast.Call) and callee(scope, parent) in ("builtins.enumerate", "builtins.len")
    return called or (isinstance(parent, ast.For | ast.comprehension) and parent.iter is read)


def _takes_number(scope: Scope, node: ast.expr, changes: list[rw.Change]) -> bool:
    """Return whether the code around an element does the same with a number, after the `changes` that this adds."""
    parent = scope.parents[node]
    if isinstance(parent, ast.BinOp):
        other = parent.right if parent.left is node else parent.left
        kind = scope.kind(other)
        if as_tensor(kind) is not None:
            return True
        # A tensor that is zero gives infinity where Python raises an exception.
        divides = parent.right is node and isinstance(parent.op, ast.Div | ast.FloorDiv | ast.Mod)
        return not divides and k.is_number(kind) and _takes_number(scope, parent, changes)
    if isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.USub):
        return _takes_number(scope, parent, changes)
    if isinstance(parent, ast.Attribute):
        call = scope.parents[parent]
        if parent.attr != "item" or not isinstance(call, ast.Call) or call.args:
            return False
        changes.append((call, rw.kept(scope.file, node)))
        return True
    if isinstance(parent, ast.Assign):
        target = parent.targets[0]
        alone = len(parent.targets) == 1 and isinstance(target, ast.Name) and [*stores(scope, target.id)] == [target]
        return (
            alone
            and isinstance(target, ast.Name)
            and all(_takes_number(scope, one, changes) for one in loads(scope, target.id))
        )
    if isinstance(parent, ast.Call):
        return node in parent.args and callee(scope, parent) in _TAKES_NUMBER
    if isinstance(parent, ast.Subscript | ast.Tuple | ast.Slice):
        indices = parent if isinstance(parent, ast.Subscript) else scope.parents[parent]
        indices = scope.parents[indices] if isinstance(indices, ast.Tuple) else indices
        return isinstance(indices, ast.Subscript) and indices.value is not node
    return isinstance(parent, ast.Compare | ast.BoolOp | ast.If | ast.IfExp | ast.FormattedValue) or (
        isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not)
    )
