"""Count in a fixed number of bins.

counts = torch.bincount(a * n + b, minlength=n * n)     index = (a * n + b).long()
                                                        ones = torch.ones_like(index)
                                                        counts = index.new_zeros(n * n).scatter_add(0, index, ones)
"""

from __future__ import annotations

import ast

from dynalint.rulekit import Call, Refusal, Rewrite, rw
from dynalint_rules._code.effects import effects_of
from dynalint_rules._code.names import statement_of
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.text import atom

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
    changes: list[rw.Change] = []
    name = scope.text(source)
    if not isinstance(source, ast.Name | ast.Attribute):
        made, statement = f"{atom(source, name)}{_as_index(source)}", statement_of(scope, node)
        name = scope.fresh_name("index")
        changes.append((statement, [f"{name} = {made}", statement]))
    ones = f"{scope.torch}.ones_like({name})"
    changes.append((node, f"{name}.new_zeros({scope.text(bins)}).scatter_add(0, {name}, {ones})"))
    below = f"{scope.quote(source)} is a one-dimensional int64 tensor with values less than {scope.quote(bins)}"
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
