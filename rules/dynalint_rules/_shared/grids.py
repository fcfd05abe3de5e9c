"""`np.ogrid[:n, :m]` and `np.mgrid[:n, :m]` by functions of NumPy that Dynamo traces."""

from __future__ import annotations

import ast

from dynalint import rewriting as rw
from dynalint.analysis import kinds as k
from dynalint.rules import Rewrite
from dynalint_rules._shared.known_numbers import is_whole
from dynalint_rules._shared.scope import Scope

_TITLE = "Make the grid with `np.arange`, which Dynamo traces"


def as_ranges(scope: Scope, grid: ast.expr) -> Rewrite | None:
    """Return the rewrite of what `grid`, `np.ogrid` or `np.mgrid`, is indexed to; None where that is no plain grid."""
    made = scope.parents.get(grid)
    if not isinstance(grid, ast.Attribute) or not isinstance(made, ast.Subscript) or made.value is not grid:
        return None
    axes = made.slice.elts if isinstance(made.slice, ast.Tuple) else []
    numpy = scope.text(grid.value)
    ranges, conditions = [], []
    for axis in axes:
        if not isinstance(axis, ast.Slice) or axis.step is not None or axis.upper is None:
            return None
        bounds = [bound for bound in (axis.lower, axis.upper) if bound is not None]
        if not all(is_whole(scope.kind(bound)) for bound in bounds):
            return None
        ranges.append(f"{numpy}.arange({', '.join(scope.text(bound) for bound in bounds)})")
        if not _is_ordered(scope, bounds):
            conditions.append(f"the bounds of {scope.quote(axis)} are in order")
    if len(ranges) < 2:
        return None
    if grid.attr == "mgrid":
        text = f'{numpy}.stack({numpy}.meshgrid({", ".join(ranges)}, indexing="ij"))'
    else:
        parts = [
            f"{one}[{', '.join(':' if axis == own else 'None' for axis in range(len(ranges)))}]"
            for own, one in enumerate(ranges)
        ]
        text = ", ".join(parts)
    edits = rw.written(scope.file, (made, text))
    unique = tuple(dict.fromkeys(conditions))
    return Rewrite(_TITLE, "conditional" if unique else "safe", edits, unique)


def _is_ordered(scope: Scope, bounds: list[ast.expr]) -> bool:
    """Whether the last bound is certainly not before the first, or before zero."""
    numbers = [bound.value if isinstance(bound, ast.Constant) else None for bound in bounds]
    if len(bounds) == 1 and scope.kind(bounds[0]) == k.SIZE:
        return True
    known = [number for number in numbers if isinstance(number, int)]
    return len(known) == len(bounds) and known == sorted([0, *known])[-len(known) :]
