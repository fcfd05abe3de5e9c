"""A function that is called for the elements a mask selects, and stored by that mask: call it for all, and choose."""

from __future__ import annotations

import ast

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Subscript
from dynalint.analysis.steps import walk
from dynalint.rules import Replacement, Rewrite
from dynalint_rules._shared.memory import is_own
from dynalint_rules._shared.scope import Scope
from dynalint_rules._shared.sides import FINITE
from dynalint_rules._shared.text import call, indentation


def called_for_all(scope: Scope, event: Subscript) -> Rewrite | None:
    """The rewrite of `a[mask], b[mask] = f(x[mask], y[mask, :], n)`; None where something else stands there."""
    statement = event.statement
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    value, target = statement.value, statement.targets[0]
    targets = target.elts if isinstance(target, ast.Tuple) else [target]
    names = [_stored(one) for one in targets]
    stored = [name for name, mask in names if mask is not None]
    if len({ast.dump(mask) for _, mask in names if mask is not None}) != 1 or len(set(stored)) != len(targets):
        return None
    mask = names[0][1]
    if not isinstance(mask, ast.Name) or not isinstance(value, ast.Call):
        return None
    if not isinstance(scope.kind(value.func), k.Function | k.Instance):
        return None
    every: list[ast.expr | ast.keyword] = [*value.args, *value.keywords]
    arguments = [_whole(scope, one, mask.id) for one in every]
    given = [one for one in arguments if one is not None]
    if len(given) != len(arguments):
        return None
    return _rewrite(scope, statement, stored, mask.id, given)


def _stored(target: ast.expr) -> tuple[str, ast.expr | None]:
    """Return the name and the index of `name[index]`; without an index for any other target."""
    if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
        return target.value.id, target.slice
    return "", None


def _whole(scope: Scope, argument: ast.expr | ast.keyword, mask: str) -> str | None:
    """Return the text of an argument, of the full shape if it is `x[mask]`; None if it has to do with the mask else."""
    value = argument.value if isinstance(argument, ast.keyword) else argument
    head = f"{argument.arg}=" if isinstance(argument, ast.keyword) and argument.arg else ""
    index = value.slice if isinstance(value, ast.Subscript) else None
    chosen, *rest = index.elts if isinstance(index, ast.Tuple) and index.elts else [index]
    full = all(isinstance(one, ast.Slice) and one.lower is one.upper is one.step is None for one in rest)
    if isinstance(value, ast.Subscript) and isinstance(chosen, ast.Name) and chosen.id == mask and full:
        wide = f"{mask}[..., {', '.join(['None'] * len(rest))}]" if rest else mask
        return f"{head}{scope.torch}.where({wide}, {scope.text(value.value)}, 0)"
    if any(isinstance(node, ast.Name) and node.id == mask for node in walk(value)):
        return None
    if isinstance(argument, ast.keyword) and argument.arg is None:
        return f"**{scope.text(value)}"
    return f"{head}{scope.text(value)}"


def _rewrite(scope: Scope, statement: ast.Assign, stored: list[str], mask: str, given: list[str]) -> Rewrite | None:
    assert isinstance(statement.value, ast.Call)
    file, indent = scope.file, indentation(scope.file, statement.lineno)
    everywhere: list[str] = []
    for name in stored:
        everywhere.append(scope.fresh_name(f"all_{name}", everywhere))
    head = ", ".join(everywhere)
    function = scope.text(statement.value.func)
    column = len(f"{indent}{head} = ")
    lines = [f"{head} = {call(function, given, column=column, indent=indent, newline=file.newline)}"]
    for name, one in zip(stored, everywhere, strict=True):
        target = name if is_own(scope, name, statement) else f"{name}[...]"
        lines.append(f"{target} = {scope.torch}.where({mask}, {one}, {name})")
    text = f"{file.newline}{indent}".join(lines)
    conditions = (
        f"`{function}` computes each selected element by itself",
        f"the mask has as many dimensions as {' and '.join(f'`{name}`' for name in stored)}, and dtypes are equal",
        FINITE,
    )
    title = f"Call `{function}` for all elements, zeros in the place of the others, and choose"
    edits = (Replacement(file, *file.span(statement), text),)
    return Rewrite(title, "unsafe", edits, conditions, scope.imports, shown=True)
