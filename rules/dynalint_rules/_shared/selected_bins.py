"""Elements that a mask selects only for `bincount` to count them: what is not selected counts for nothing.

found = labels[mask]                                 found = torch.where(mask, labels, 0)
counts = torch.bincount(found, minlength=n)          counts = mask.new_zeros(n, dtype=torch.int64).scatter_add(
                                                         0, found.long(), mask.long()
                                                     )
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from dynalint import rewriting as rw
from dynalint.rules import Rewrite
from dynalint_rules._shared.blocks import statements_after
from dynalint_rules._shared.calls import callee
from dynalint_rules._shared.effects import is_pure
from dynalint_rules._shared.masked_reductions import Selection, matches, may_match
from dynalint_rules._shared.memory import changed_between
from dynalint_rules._shared.names import loads, only_value, statement_of, within
from dynalint_rules._shared.scope import Scope

_TITLE = "Count all in bins, with nothing added where nothing is selected"
_CONVERSIONS = ("long", "int")


@dataclass(frozen=True)
class _Binned:
    """`call` counts the values `source` in `bins`."""

    call: ast.Call
    source: ast.expr
    bins: ast.expr


def counted_in_bins(scope: Scope, read: Selection) -> Rewrite | None:
    """Return the rewrite of a selection of which nothing but `torch.bincount` takes the elements, else None."""
    mask, statement = read.mask, statement_of(scope, read.node)
    if (
        not isinstance(mask, ast.Name)
        or mask.id not in scope.function.locals
        or not may_match(scope, read)
        or not is_pure(scope, read.source)
    ):
        return None
    binned = _binned(scope, _converted(scope, read.node)) or _by_name(scope, read, statement)
    if binned is None:
        return None
    last = statement_of(scope, binned.call)
    if changed_between(scope, mask.id, statement, last) or not is_pure(scope, binned.bins):
        return None
    flat = "" if _is_flat(scope, mask) or _is_flat(scope, read.source) else ".flatten()"
    chosen = f"{scope.torch}.where({mask.id}, {scope.text(read.source)}, 0){flat}"
    file = scope.file
    source, changes = scope.text(binned.source), list[rw.Change]()
    if within(read.node, binned.call, scope):
        first, end = (at - file.span(binned.source)[0] for at in file.span(read.node))
        source = source[:first] + chosen + source[end:]
    else:
        changes.append((read.node, chosen))
    whole = _ends_in_long(binned.source) or _ends_in_long(_converted(scope, read.node))
    added = f"{mask.id}{flat}.long()"
    zeros = f"{mask.id}.new_zeros({scope.text(binned.bins)}, dtype={scope.torch}.int64)"
    new = f"{zeros}.scatter_add(0, {source if whole else f'{source}.long()'}, {added})"
    changes.append((binned.call, new))
    conditions = [f"all that is selected is below {scope.quote(binned.bins)}"]
    if not matches(scope, read):
        conditions.insert(0, f"the mask has as many dimensions as {scope.quote(read.source)}")
    return Rewrite(_TITLE, "conditional", rw.written(file, *changes), tuple(conditions), scope.imports)


def _by_name(scope: Scope, read: Selection, statement: ast.stmt) -> _Binned | None:
    """The one use of a name that the selected elements get."""
    if not isinstance(statement, ast.Assign) or statement.value is not _converted(scope, read.node):
        return None
    target = statement.targets[0]
    if not isinstance(target, ast.Name) or only_value(scope, target.id, read.node) is not statement.value:
        return None
    use, *others = [*loads(scope, target.id), None]
    after = statements_after(scope, statement)
    if use is None or len(others) > 1 or not any(within(use, one, scope) for one in after):
        return None
    binned = _binned(scope, _converted(scope, use))
    return None if binned is None or _in_loop(scope, binned.call, statement) else binned


def _binned(scope: Scope, source: ast.expr) -> _Binned | None:
    """The `torch.bincount(source, minlength=bins)` or `source.bincount(minlength=bins)` around some values."""
    parent = scope.parents[source]
    call = scope.parents[parent] if isinstance(parent, ast.Attribute) and parent.value is source else parent
    if not isinstance(call, ast.Call) or [one.arg for one in call.keywords] != ["minlength"]:
        return None
    name = callee(scope, call)
    fits = (name == "torch.bincount" and call.args == [source]) or (name == "Tensor.bincount" and not call.args)
    return _Binned(call, source, call.keywords[0].value) if fits else None


def _converted(scope: Scope, node: ast.expr) -> ast.expr:
    """Return the outermost `.long()` around an expression."""
    parent = scope.parents[node]
    call = scope.parents[parent] if isinstance(parent, ast.Attribute) and parent.attr in _CONVERSIONS else None
    if isinstance(call, ast.Call) and call.func is parent and not call.args and not call.keywords:
        return _converted(scope, call)
    return node


def _ends_in_long(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "long"


def _is_flat(scope: Scope, node: ast.expr) -> bool:
    tensor = scope.tensor(node)
    return tensor is not None and tensor.rank == 1


def _in_loop(scope: Scope, node: ast.AST, beside: ast.stmt) -> bool:
    """Whether there is a loop or a function of its own around `node` that is not around `beside`."""
    while node is not scope.parents[beside]:
        if isinstance(node, ast.For | ast.While | ast.AsyncFor | ast.FunctionDef | ast.Lambda | ast.comprehension):
            return True
        node = scope.parents[node]
    return False
