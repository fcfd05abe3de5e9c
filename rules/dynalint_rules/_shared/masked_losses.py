"""Logits and labels that one mask selects for a loss, by names: the loss ignores the labels of the others instead."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from dynalint.analysis.steps import walk
from dynalint.rules import Replacement, Rewrite
from dynalint_rules._shared.blocks import statements_after
from dynalint_rules._shared.calls import callee
from dynalint_rules._shared.masked_reductions import IGNORED, LOSS, OTHER_ORDER
from dynalint_rules._shared.names import loads, only_value, statement_of
from dynalint_rules._shared.scope import Scope
from dynalint_rules._shared.text import held_together

_CLASSES = frozenset({"torch.nn.CrossEntropyLoss", "torch.nn.modules.loss.CrossEntropyLoss"})
_SETTINGS = frozenset({"reduction", "weight", "label_smoothing"})


@dataclass(frozen=True)
class _Chosen:
    """`statement` gives `name` what a mask selects, by the subscript `read`."""

    statement: ast.stmt
    name: str
    read: ast.Subscript


def ignored_in_later_loss(scope: Scope, read: ast.Subscript) -> Rewrite | None:
    """The rewrite of `a = x[mask]` beside `b = y[mask]`, both for a cross-entropy; None for anything else."""
    pair = _pair(scope, read)
    if pair is None:
        return None
    call = _loss_of(scope, pair[0])
    if call is None or _loss_of(scope, pair[1]) is not call or len(call.args) != 2 or not _is_plain(scope, call):
        return None
    logits, labels = pair if _reads(call.args[0], pair[0].name) else pair[::-1]
    if not _is_rows(call.args[0], logits.name) or _flat(call.args[1]) != labels.name:
        return None
    file, mask = scope.file, scope.text(labels.read.slice)
    kept = f"{scope.torch}.where({mask}, {scope.text(labels.read.value)}, {IGNORED})"
    edits = (
        Replacement(file, *file.span(logits.read), held_together(scope.text(logits.read.value))),
        Replacement(file, *file.span(labels.read), kept),
    )
    shown = f"{scope.quote(logits.read.value)} is finite"
    conditions = (OTHER_ORDER, f"the mask has as many dimensions as {scope.quote(labels.read.value)}", shown)
    title = f"Ignore labels of {IGNORED} instead of selecting the others"
    return Rewrite(title, "unsafe", edits, conditions, scope.imports, shown=True)


def _pair(scope: Scope, read: ast.Subscript) -> tuple[_Chosen, _Chosen] | None:
    """Return the statement of a read and the one beside it, if both select by the same mask."""
    statement = statement_of(scope, read)
    parent = scope.parents[statement]
    body = next((b for b in (getattr(parent, "body", []), getattr(parent, "orelse", [])) if statement in b), [])
    position = body.index(statement) if body else 0
    own = _chosen(statement)
    for other in [*body[max(position - 1, 0) : position], *statements_after(scope, statement)[:1]]:
        found = _chosen(other)
        if own is None or found is None or own.name == found.name:
            continue
        if _without_devices(own.read.slice) == _without_devices(found.read.slice):
            return own, found
    return None


def _chosen(statement: ast.stmt) -> _Chosen | None:
    """Return what `a = x[mask].contiguous()` chooses."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target, value = statement.targets[0], statement.value
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute) or value.args or value.keywords:
        return None
    read = value.func.value if value.func.attr == "contiguous" else None
    if not isinstance(target, ast.Name) or not isinstance(read, ast.Subscript) or isinstance(read.slice, ast.Tuple):
        return None
    return _Chosen(statement, target.id, read)


def _without_devices(mask: ast.expr) -> str:
    """Return the text of a mask without what moves it to a device."""
    return ast.unparse(_Moved().visit(ast.parse(ast.unparse(mask), mode="eval")))


class _Moved(ast.NodeTransformer):
    """Takes out `.to(x.device)`."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Put what is moved in the place of the call that moves it."""
        self.generic_visit(node)
        moved = isinstance(node.func, ast.Attribute) and node.func.attr == "to" and len(node.args) == 1
        to_device = moved and isinstance(node.args[0], ast.Attribute) and node.args[0].attr == "device"
        return node.func.value if to_device and isinstance(node.func, ast.Attribute) else node


def _loss_of(scope: Scope, chosen: _Chosen) -> ast.Call | None:
    """Return the one call that takes all that is read of the chosen elements, None if there is more."""
    calls = set()
    for use in loads(scope, chosen.name):
        if use.lineno <= (chosen.statement.end_lineno or 0):
            continue
        node: ast.AST = use
        while not isinstance(scope.parents[node], ast.stmt):
            node = scope.parents[node]
        calls.add(node)
    found = calls.pop() if len(calls) == 1 else None
    return found if isinstance(found, ast.Call) else None


def _is_plain(scope: Scope, call: ast.Call) -> bool:
    """Whether a call is of a cross-entropy that ignores what such losses ignore unless they are told otherwise."""
    made = only_value(scope, call.func.id, scope.function.node.args) if isinstance(call.func, ast.Name) else None
    if isinstance(made, ast.Call) and callee(scope, made) in _CLASSES and not made.args and not call.keywords:
        keywords = made.keywords
    elif callee(scope, call) == LOSS:
        keywords = call.keywords
    else:
        return False
    texts = {keyword.arg: ast.unparse(keyword.value) for keyword in keywords}
    return texts.keys() <= _SETTINGS and texts.get("reduction", "'mean'") in ("'mean'", "'sum'")


def _reads(node: ast.AST, name: str) -> bool:
    return any(isinstance(one, ast.Name) and one.id == name for one in walk(node))


def _is_rows(node: ast.expr, name: str) -> bool:
    """Whether an expression makes rows of a tensor: `a.view(-1, a.size(-1))` or the like."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or len(node.args) != 2:
        return False
    first, last = (ast.unparse(one) for one in node.args)
    named = isinstance(node.func.value, ast.Name) and node.func.value.id == name
    wide = last in (f"{name}.size(-1)", f"{name}.shape[-1]") or not _reads(node.args[1], name)
    return named and node.func.attr in ("view", "reshape") and first == "-1" and wide


def _flat(node: ast.expr) -> str | None:
    """Return the name of the tensor in `a.view(-1)`, on whatever device."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "to":
        node = node.func.value
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    owner = node.func.value
    flat = ast.unparse(node).endswith((".view(-1)", ".reshape(-1)", ".flatten()"))
    return owner.id if flat and isinstance(owner, ast.Name) else None
