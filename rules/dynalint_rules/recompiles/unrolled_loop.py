"""DYN803: a loop over the rows of a tensor, which Dynamo unrolls into the graph."""

from __future__ import annotations

import ast

from dynalint.rulekit import Iteration, Project, Rule, k, walk
from dynalint_rules._code.calls import callee
from dynalint_rules._code.growth import UP_TO_LIMIT
from dynalint_rules._code.names import only_value
from dynalint_rules._code.scope import Scope

_COUNTING = frozenset({"torch.arange", "torch.linspace", "numpy.arange", "numpy.linspace"})
_RANK = frozenset({"dim", "ndim", "ndimension"})


class UnrolledLoop(Rule):
    code = "DYN803"
    name = "unrolled-loop"
    summary = "A loop over the rows of a tensor is unrolled, and recompiles when the number of rows changes"
    category = "advice"
    severity = "info"
    events = (Iteration,)
    message = (
        "the graph contains the body of this loop once for every row, so each number of rows recompiles the function "
        f"{UP_TO_LIMIT}"
    )
    help = "Compute on the whole tensor, or compile only the loop's body."
    refusal = (
        "not every loop can be replaced with an operation on the whole tensor; write that operation yourself, use "
        "`torch.vmap`, or compile only the loop's body"
    )

    def flags(self, event: Iteration, project: Project) -> bool:
        """Flag loops whose number of iterations is a tensor's size."""
        if _is_held(event) or _is_counted_out(Scope.of(event, project), event.node):
            return False
        return k.only_tensor(event.kind) is not None or _is_range_of_size(event)


def _is_held(event: Iteration) -> bool:
    """Return whether the number of iterations depends only on the module, which Dynamo guards on anyway."""
    function = event.function.node
    names = {node.id for node in walk(event.node) if isinstance(node, ast.Name)} - {"range", "len", "reversed"}
    is_method = event.function.owner is not None and "staticmethod" not in event.function.decorators
    own = function.args.args[0].arg if is_method and function.args.args else None
    return names == {own}


def _is_counted_out(scope: Scope, node: ast.expr | ast.stmt) -> bool:
    """Return whether a loop goes through an `arange` or `linspace` whose length does not depend on any tensor."""
    value = only_value(scope, node.id, node) if isinstance(node, ast.Name) else node
    if not isinstance(value, ast.Call) or callee(scope, value) not in _COUNTING:
        return False
    return not any(
        isinstance(one, k.Value) and one.source in ("shape", "data")
        for argument in value.args
        for one in scope.kind(argument).members
    )


def _is_range_of_size(event: Iteration) -> bool:
    """Return whether a loop iterates over a range that ends at a dimension's size."""
    kind = event.kind
    if not isinstance(kind, k.Sequence) or kind.type != "range" or not isinstance(event.node, ast.Call):
        return False
    is_size = isinstance(kind.element, k.Value) and kind.element.source == "shape"
    return is_size and not any(_is_rank(node) for argument in event.node.args for node in walk(argument))


def _is_rank(node: ast.AST) -> bool:
    """Return whether an expression gives the number of dimensions, as `x.dim()`, `x.ndim` or `len(x.shape)` do."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len" and node.args:
        measured = node.args[0]
        measured = measured.func if isinstance(measured, ast.Call) else measured
        return isinstance(measured, ast.Attribute) and measured.attr in ("shape", "size")
    return isinstance(node, ast.Attribute) and node.attr in _RANK
