"""Pieces of a tensor that are kept for code that puts them together again: the tensor does as the only piece."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dynalint.rulekit import Rewrite, rw, walk
from dynalint_rules._code.effects import is_pure
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.loop.pieces import Cut, cuts_by, joined_axis, maker_of


def kept_in_one(scope: Scope, sizes: ast.expr) -> Rewrite | None:
    """The rewrite of `out.parts = x.split(sizes)` where `torch.cat` takes `out.parts`; None for anything else.

    Raises:
        Refusal: the statement of the lengths shares its line.
    """
    cuts, made = cuts_by(scope, sizes), maker_of(scope, sizes)
    if cuts is None or not is_pure(scope, sizes if made is None else made.value):
        return None
    kept = [_kept(scope, cut) for cut in cuts]
    names = [name for name in kept if name is not None]
    joined = {axis for name in names for axis in _joins(scope, name)}
    if len(names) != len(cuts) or not joined or any(joined != {cut.axis} for cut in cuts):
        return None
    changes: list[rw.Change] = [(cut.call, f"({scope.text(cut.source)},)") for cut in cuts]
    if made is not None:
        changes.append((made, []))
    shown = " and ".join(f"`{name}`" for name in dict.fromkeys(names))
    conditions = (
        f"{shown} holds one piece, which is equivalent only for code that joins the pieces",
        "lengths that are not those of the whole no longer raise",
    )
    return Rewrite("Keep the tensor in one piece", "unsafe", rw.written(scope.file, *changes), conditions, shown=True)


def _kept(scope: Scope, cut: Cut) -> str | None:
    """Return the attribute that the pieces go to, by themselves or in a list of such pieces."""
    value, parent = cut.call, scope.parents[cut.call]
    if isinstance(parent, ast.ListComp) and parent.elt is value:
        parent = scope.parents[parent]
    if not isinstance(parent, ast.Assign) or len(parent.targets) != 1:
        return None
    target = parent.targets[0]
    return target.attr if isinstance(target, ast.Attribute) else None


def _joins(scope: Scope, name: str) -> Iterator[int]:
    """Yield the axis of each `torch.cat` in the file that takes an attribute `name`, by itself or by a local name."""
    for file, function, node in scope.project.attribute_uses(name):
        if file is not scope.file or function is None or not isinstance(node.ctx, ast.Load):
            continue
        parent = scope.project.parents(function).get(node)
        target = parent.targets[0] if isinstance(parent, ast.Assign) and len(parent.targets) == 1 else None
        for call in walk(function.node):
            if not isinstance(call, ast.Call) or not call.args or ast.unparse(call.func) != f"{scope.torch}.cat":
                continue
            first = call.args[0]
            by_name = isinstance(target, ast.Name) and isinstance(first, ast.Name) and first.id == target.id
            if first is node or by_name:
                axis = joined_axis(call)
                yield -1 if axis is None else axis
