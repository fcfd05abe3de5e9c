"""The bound between two parts of a tensor that are combined elementwise, and are therefore its halves.

n = channels[0]                                 n = x.size(1) // 2
y = torch.tanh(x[:, :n]) * x[:, n:]             y = torch.tanh(x[:, :n]) * x[:, n:]
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from dynalint.rulekit import Rewrite, rw
from dynalint_rules._code.calls import callee
from dynalint_rules._code.effects import is_pure
from dynalint_rules._code.names import has_one_value, loads, only_value, statement_of
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.mask.selected_chains import ELEMENTWISE
from dynalint_rules._shared.number.single_index import parts_of

_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div)
_MODULES = frozenset({"torch", "torch.nn.functional", "Tensor"})
_TITLE = "Compute the bound from the size of the tensor"


@dataclass(frozen=True)
class _Part:
    """A read of the elements of a tensor before or after a bound, in the dimension at `position`."""

    read: ast.Subscript
    tensor: str
    position: int
    before: bool


def between_halves(scope: Scope, node: ast.AST) -> Rewrite | None:
    """Return the rewrite of the bound `node` between two halves of a tensor, or None for any other bound."""
    if not isinstance(node, ast.Name) or not has_one_value(scope, node.id):
        return None
    made = only_value(scope, node.id, node)
    parts = [_part_at(scope, one) for one in loads(scope, node.id)]
    if made is None or len(parts) != 2 or not is_pure(scope, made):
        return None
    first, last = parts
    if first is None or last is None or first.before is last.before:
        return None
    if (first.tensor, first.position) != (last.tensor, last.position) or not _are_combined(scope, first, last):
        return None
    before, after = statement_of(scope, made), statement_of(scope, first.read)
    if not isinstance(before, ast.Assign) or scope.parents[before] is not scope.parents[after]:
        return None
    half = f"{node.id} = {first.tensor}.size({first.position}) // 2"
    edits = rw.written(scope.file, (before, []), (after, [half, after]))
    condition = f"the two parts of `{first.tensor}` have the same size"
    return Rewrite(_TITLE, "conditional", edits, (condition,))


def _part_at(scope: Scope, bound: ast.Name) -> _Part | None:
    """Return the part of a tensor that a name bounds, or None if the read has any other bound or index."""
    part = scope.parents[bound]
    index = scope.parents[part]
    read = scope.parents[index] if isinstance(index, ast.Tuple) else index
    if not isinstance(part, ast.Slice) or not isinstance(read, ast.Subscript) or not isinstance(read.ctx, ast.Load):
        return None
    others = [one for one in parts_of(read) if one is not part]
    whole = all(isinstance(one, ast.Slice) and not _bounds(one) for one in others)
    if not whole or _bounds(part) != [bound] or part.step is not None or scope.tensor(read.value) is None:
        return None
    if not isinstance(read.value, ast.Name) or not has_one_value(scope, read.value.id):
        return None
    return _Part(read, read.value.id, parts_of(read).index(part), part.upper is bound)


def _bounds(part: ast.Slice) -> list[ast.expr]:
    return [one for one in (part.lower, part.upper, part.step) if one is not None]


def _are_combined(scope: Scope, first: _Part, last: _Part) -> bool:
    """Return whether two parts are only combined with each other, which requires that they have the same size."""
    combined = _combined(scope, first.read)
    return combined is not None and combined is _combined(scope, last.read)


def _combined(scope: Scope, node: ast.expr) -> ast.BinOp | None:
    """Return the operation on a value, or on elementwise functions of it, if it is the value's only use."""
    parent = scope.parents[node]
    if isinstance(parent, ast.Attribute):
        node, parent = parent, scope.parents[parent]
    if isinstance(parent, ast.Call):
        module, _, called = callee(scope, parent).rpartition(".")
        alone = (parent.args == [node] or (parent.func is node and not parent.args)) and not parent.keywords
        known = module in _MODULES and called in ELEMENTWISE
        return _combined(scope, parent) if alone and known else None
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(name := parent.targets[0], ast.Name):
        reads = [*loads(scope, name.id)]
        return _combined(scope, reads[0]) if len(reads) == 1 and has_one_value(scope, name.id) else None
    return parent if isinstance(parent, ast.BinOp) and isinstance(parent.op, _OPERATORS) else None
