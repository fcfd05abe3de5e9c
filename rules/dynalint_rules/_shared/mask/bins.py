"""Count in a fixed number of bins, also elements that a mask selects.

counts = torch.bincount(ids[known], minlength=n)        index = torch.where(known, ids, 0)
                                                        counts = index.new_zeros(n).scatter_add(0, index, known.long())
"""

from __future__ import annotations

import ast

from dynalint.rulekit import Call, Refusal, Rewrite, k, rw, walk
from dynalint_rules._code.effects import effects_of
from dynalint_rules._code.names import loads, only_value, statement_of
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.selection import Selection, source_of
from dynalint_rules._shared.mask.selected_chains import is_stable
from dynalint_rules._shared.mask.trailing_dimensions import rank_of
from dynalint_rules._shared.text import atom

_CONVERSIONS = frozenset({"long", "int", "to"})
_MAYBE = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_INT64 = (".long()", "argmax(", "argmin(", "int64", "torch.long")
_SIMPLE = ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return | ast.Expr


def counted_in_bins(scope: Scope, event: Call) -> Rewrite:
    """Return the rewrite of `bincount` that adds ones to a tensor of zeros with one element per bin.

    Raises:
        Refusal: If the code does not show the number of bins, or adds up weights instead of counting.
    """
    node, function = event.node, event.node.func
    method = event.callee == "Tensor.bincount" and isinstance(function, ast.Attribute)
    given = [*([function.value] if method and isinstance(function, ast.Attribute) else []), *node.args]
    keywords = {one.arg: one.value for one in node.keywords}
    if len(given) != 1 or keywords.keys() != {"minlength"} or event.callee.startswith("numpy."):
        raise Refusal(
            "the code does not say how many bins there are; take the number from the configuration, and sum "
            "`one_hot(t, n)` over its first dimension"
        )
    source, bins = given[0], keywords["minlength"]
    effects_of(scope, [source, bins])
    if not _runs_once(scope, node):
        raise Refusal(f"{scope.quote(source)} would be computed more than once; assign it to a variable first")
    value, name = source, ""
    if isinstance(source, ast.Name) and len(list(loads(scope, source.id))) == 1:
        value, name = only_value(scope, source.id, source) or source, source.id
    found = _taken(scope, value)
    changes: list[rw.Change] = []
    ones = flat = ""
    if found is not None:
        mask, reads = found
        flat = "" if rank_of(scope, mask) == 1 else ".flatten()"
        shown = scope.text(mask) if isinstance(mask, ast.Name | ast.Attribute) else f"({scope.text(mask)})"
        ones = f"{shown}{flat}.long()"
        sources = {one: scope.text(whole) for one, whole in reads.items()}
        made = f"{scope.torch}.where({scope.text(mask)}, {rw.spliced(scope.file, value, sources)}, 0){_as_index(value)}"
        if name:
            changes.append((value, made))
    else:
        made = f"{atom(source, scope.text(source))}{_as_index(value)}"
    if not name and (found is not None or not isinstance(source, ast.Name | ast.Attribute)):
        statement = statement_of(scope, node)
        name = scope.fresh_name("index")
        changes.append((statement, [f"{name} = {made}", statement]))
    name = name or scope.text(source)
    ones = ones or f"{scope.torch}.ones_like({name})"
    changes.append((node, f"{name}.new_zeros({scope.text(bins)}).scatter_add(0, {name}{flat}, {ones})"))
    below = f"{scope.quote(source)} is a one-dimensional int64 tensor with values less than {scope.quote(bins)}"
    if found is not None and not is_stable(scope, Selection(next(iter(reads)), next(iter(reads.values())), mask)):
        raise Refusal(f"{scope.quote(mask)} may change between the selection and the count; count in one statement")
    edits = rw.written(scope.file, *changes)
    return Rewrite("Add ones to a fixed number of bins", "conditional", edits, (below,), scope.imports)


def _runs_once(scope: Scope, node: ast.expr) -> bool:
    """Return whether a call runs exactly when its statement does, so that the statement before it can do a part."""
    around = scope.parents[node]
    while isinstance(around, ast.expr | ast.keyword):
        if isinstance(around, _MAYBE):
            return False
        around = scope.parents[around]
    return isinstance(around, _SIMPLE)


def _as_index(value: ast.expr) -> str:
    """Return what converts an index to int64, or nothing if the code shows that it is one."""
    text = ast.unparse(value)
    return "" if any(word in text for word in _INT64) else ".long()"


def _taken(scope: Scope, value: ast.expr) -> tuple[ast.expr, dict[ast.expr, ast.expr]] | None:
    """Return the mask and the selections with it, if an expression consists only of these and of numbers, or None."""
    masks = [one.slice for one in walk(value) if isinstance(one, ast.Subscript) and _is_mask(scope, one.slice)]
    masks += [
        one.args[-1] for one in walk(value) if isinstance(one, ast.Call) and one.args and _is_mask(scope, one.args[-1])
    ]
    if not masks:
        return None
    reads: dict[ast.expr, ast.expr] = {}
    waiting = [value]
    for one in waiting:
        taken = source_of(scope, one, masks[0])
        if taken is not None:
            reads[one] = taken
        elif isinstance(one, ast.BinOp):
            waiting += [one.left, one.right]
        elif _is_conversion(one) and isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute):
            waiting.append(one.func.value)
        elif not k.is_number(scope.kind(one)):
            return None
    return (masks[0], reads) if reads else None


def _is_conversion(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CONVERSIONS


def _is_mask(scope: Scope, node: ast.expr) -> bool:
    tensor = scope.tensor(node)
    return tensor is not None and tensor.dtype == "bool"
