"""Elements that a mask selects in each round of a loop, put into a list, and averaged over all rounds.

values = []                          values = []
                                     kept = []
for i in range(n):                   for i in range(n):
    value = d[i][m[i]].abs()             value = torch.where(m[i], d[i], 1).abs()
    values.append(value)                 values.append(torch.where(m[i], value, 0))
                                         kept.append(m[i])
return torch.cat(values).mean()      return torch.cat(values).sum() / torch.cat(kept).sum()
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from dynalint.analysis import kinds as k
from dynalint.analysis.steps import walk
from dynalint.rules import Replacement, Rewrite
from dynalint_rules._shared.calls import callee
from dynalint_rules._shared.effects import is_pure
from dynalint_rules._shared.masked_reductions import OTHER_ORDER, Selection, matches, may_match
from dynalint_rules._shared.names import loads, statement_of, within
from dynalint_rules._shared.scope import Scope
from dynalint_rules._shared.selected_chains import ELEMENTWISE
from dynalint_rules._shared.sides import FINITE
from dynalint_rules._shared.text import indentation


@dataclass(frozen=True)
class _List:
    """The list: where it is made, the call that puts a value into it, the statements that join it and reduce that."""

    made: ast.Assign
    append: ast.Expr
    value: ast.expr
    reduction: ast.Call
    joined: ast.expr


def reduced_over_rounds(scope: Scope, read: Selection) -> Rewrite | None:
    """Return the rewrite of all that one mask selects round by round; None where more is done with it."""
    statement = statement_of(scope, read.node)
    loop = scope.parents[statement]
    if not isinstance(loop, ast.For) or loop.orelse or not may_match(scope, read) or not is_pure(scope, read.mask):
        return None
    found = _list_of(scope, loop, _last_value(scope, statement, read.node))
    if found is None or not _is_stable(scope, read, loop):
        return None
    mean = isinstance(found.reduction.func, ast.Attribute) and found.reduction.func.attr == "mean"
    file, torch, mask = scope.file, scope.torch, scope.text(read.mask)
    kept = scope.fresh_name("kept")
    before, inside = (indentation(file, one.lineno) for one in (found.made, found.append))
    tail = ".sum()"
    edits = [
        Replacement(file, *file.span(read.node), f"{torch}.where({mask}, {scope.text(read.source)}, 1)"),
        Replacement(file, *file.span(found.value), f"{torch}.where({mask}, {scope.text(found.value)}, 0)"),
    ]
    if mean:
        end = file.span(found.made)[1]
        edits.append(Replacement(file, end, end, f"{file.newline}{before}{kept} = []"))
        end = file.span(found.append)[1]
        edits.append(Replacement(file, end, end, f"{file.newline}{inside}{kept}.append({mask})"))
        tail = f".sum() / {torch}.cat({kept}).sum()"
    enclosed = mean and isinstance(scope.parents[found.reduction], ast.BinOp | ast.UnaryOp | ast.Attribute)
    text = f"{scope.text(found.joined)}{tail}"
    edits.append(Replacement(file, *file.span(found.reduction), f"({text})" if enclosed else text))
    conditions = (
        OTHER_ORDER,
        *([] if matches(scope, read) else ["the mask has as many dimensions as the tensor"]),
        f"{scope.quote(read.source)} has the same dimensions but for the first one in every round",
        FINITE,
    )
    title = "Compute with all elements, and reduce with zeros where nothing is selected"
    return Rewrite(title, "unsafe", tuple(edits), conditions, scope.imports, shown=True)


def _last_value(scope: Scope, statement: ast.stmt, node: ast.expr) -> ast.expr | None:
    """Return what is put into a list, computed of the elements one by one; None where more is done with them.

    That is the expression in `append`, or the name in it that statements before have computed.
    """
    parent = scope.parents[node]
    while isinstance(parent, ast.Attribute | ast.Call) and _is_step(scope, node, parent):
        node = parent if isinstance(parent, ast.Call) else node
        if isinstance(parent, ast.Attribute):
            call = scope.parents[parent]
            assert isinstance(call, ast.Call)
            node = call
        parent = scope.parents[node]
    if not isinstance(statement, ast.Assign):
        return node if isinstance(parent, ast.Call) else None
    target = statement.targets[0]
    if parent is not statement or len(statement.targets) != 1 or not isinstance(target, ast.Name):
        return None
    end = scope.file.span(statement)[1]
    following = sorted((one for one in loads(scope, target.id) if scope.file.span(one)[0] > end), key=scope.file.span)
    use: ast.AST | None = following[0] if following else None
    while use is not None and not isinstance(use, ast.stmt):
        use = scope.parents[use]
    if use is None or scope.parents[use] is not scope.parents[statement]:
        return None
    if sum(within(one, use, scope) for one in following) > 1:
        return None
    again = isinstance(use, ast.Assign) and len(use.targets) == 1 and ast.dump(use.targets[0]) == ast.dump(target)
    if len(following) > 1 and not again:
        return None
    return _last_value(scope, use, following[0])


def _is_step(scope: Scope, node: ast.expr, parent: ast.AST) -> bool:
    """Whether what stands around an expression computes with its elements one by one, and with nothing but numbers."""
    call = scope.parents[parent] if isinstance(parent, ast.Attribute) else parent
    if not isinstance(call, ast.Call) or (isinstance(parent, ast.Attribute) and call.func is not parent):
        return False
    name = callee(scope, call)
    if not name.startswith(("torch.", "Tensor.")) or name.rpartition(".")[2] not in ELEMENTWISE:
        return False
    others = [one for one in (*call.args, *(keyword.value for keyword in call.keywords)) if one is not node]
    return all(k.is_number(scope.kind(one)) for one in others)


def _list_of(scope: Scope, loop: ast.For, value: ast.expr | None) -> _List | None:
    """Return the list that a value is put into, if it is only joined and reduced after the loop."""
    append = scope.parents[value] if value is not None else None
    if value is None or not isinstance(append, ast.Call) or append.args != [value] or append.keywords:
        return None
    function, statement = append.func, scope.parents[append]
    if not isinstance(function, ast.Attribute) or function.attr != "append" or not isinstance(function.value, ast.Name):
        return None
    if not isinstance(statement, ast.Expr) or scope.parents[statement] is not loop:
        return None
    name = function.value.id
    made = _made(scope, loop, name)
    uses = sorted((one for one in loads(scope, name) if one is not function.value), key=scope.file.span)
    stores = [one for one in _stores(scope, name) if made is None or one is not made.targets[0]]
    if made is None or not uses or scope.file.span(uses[0])[0] < scope.file.span(loop)[1]:
        return None
    joined = scope.parents[uses[0]]
    if (
        not isinstance(joined, ast.Call)
        or callee(scope, joined) not in ("torch.cat", "torch.concat")
        or joined.keywords
    ):
        return None
    if joined.args != uses[:1]:
        return None
    assigned = scope.parents[joined]
    ends: list[ast.expr] = [joined]
    if isinstance(assigned, ast.Assign) and len(assigned.targets) == 1 and isinstance(assigned.targets[0], ast.Name):
        target = assigned.targets[0]
        if target.id != name and list(_stores(scope, target.id)) != [target]:
            return None
        ends = [*(uses[1:] if target.id == name else loads(scope, target.id))]
        stores = [one for one in stores if one is not target]
    elif len(uses) > 1:
        return None
    reduction = _reduction(scope, ends[0]) if len(ends) == 1 else None
    if stores or reduction is None or any(isinstance(one, ast.Break | ast.Continue) for one in walk(loop)):
        return None
    return _List(made, statement, value, reduction, ends[0])


def _made(scope: Scope, loop: ast.For, name: str) -> ast.Assign | None:
    """Return the statement before a loop that makes an empty list under a name."""
    body = getattr(scope.parents[loop], "body", [])
    for one in body[: body.index(loop)] if isinstance(body, list) and loop in body else []:
        if isinstance(one, ast.Assign) and ast.unparse(one) == f"{name} = []":
            return one
    return None


def _stores(scope: Scope, name: str) -> list[ast.Name]:
    walked = walk(scope.function.node)
    return [one for one in walked if isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Store)]


def _reduction(scope: Scope, node: ast.expr) -> ast.Call | None:
    """Return `node.sum()` or `node.mean()`, None where something else is done with it."""
    parent = scope.parents[node]
    call = scope.parents[parent]
    plain = isinstance(parent, ast.Attribute) and parent.attr in ("sum", "mean") and isinstance(call, ast.Call)
    if not plain or not isinstance(call, ast.Call) or call.func is not parent or call.args or call.keywords:
        return None
    return call


def _is_stable(scope: Scope, read: Selection, loop: ast.For) -> bool:
    """Whether the mask and the tensor stay what they are in a round."""
    own = {one.id for one in walk(loop.target) if isinstance(one, ast.Name)}
    names = {one.id for part in (read.mask, read.source) for one in walk(part) if isinstance(one, ast.Name)} - own
    for node in walk(loop):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in names:
            return False
        if isinstance(node, ast.AugAssign) or (isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)):
            return False
        if isinstance(node, ast.Attribute) and node.attr.endswith("_"):
            return False
    return bool(names)
