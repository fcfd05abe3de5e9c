"""`torch.bincount(t, minlength=n)` with all values less than `n`."""

from __future__ import annotations

import ast

from dynalint.rulekit import Call, Refusal, Rewrite, rw
from dynalint_rules._code.effects import effects_of
from dynalint_rules._code.scope import Scope


def binned(scope: Scope, event: Call) -> Rewrite:
    """Return the rewrite that adds ones into a tensor of zeros, one per bin.

    Raises:
        Refusal: the code does not show the number of bins, or adds up weights instead of counting.
    """
    node, function = event.node, event.node.func
    method = event.callee == "Tensor.bincount" and isinstance(function, ast.Attribute)
    given = [*([function.value] if method and isinstance(function, ast.Attribute) else []), *node.args]
    keywords = {one.arg: one.value for one in node.keywords}
    if len(given) != 1 or keywords.keys() != {"minlength"} or event.callee.startswith("numpy."):
        raise Refusal(
            "the code does not say how many bins there are; sum `one_hot(t, n)` over its first dimension, with "
            "the number "
            "from the configuration"
        )
    source, bins = given[0], keywords["minlength"]
    if not isinstance(source, ast.Name | ast.Attribute):
        raise Refusal(f"{scope.quote(source)} would be computed more than once; assign it to a name first")
    effects_of(scope, [source, bins])
    text, torch = scope.text(source), scope.torch
    made = f"{torch}.zeros({scope.text(bins)}, dtype={torch}.int64, device={text}.device)"
    edits = rw.written(scope.file, (node, f"{made}.scatter_add(0, {text}, {torch}.ones_like({text}))"))
    below = f"{scope.quote(source)} is a one-dimensional int64 tensor with values less than {scope.quote(bins)}"
    return Rewrite("Add ones into a fixed number of bins", "conditional", edits, (below,), scope.imports)
