"""DYN604: a parameter, or a layer with parameters, that is created in compiled code."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import (
    Call,
    Project,
    Rule,
    Violation,
    k,
    leads_to_raise,
    torch_api,
    walk,
    walk_function,
    way,
)
from dynalint_rules._code.initial import by_default

_PARAMETERS = ("torch.nn.Parameter", "torch.nn.parameter.Parameter")
# Layers that always create parameters. This was found out by creating every layer in `torch.nn`.
_PARAMETRISED = (
    "AdaptiveLogSoftmaxWithLoss Bilinear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d "
    "Embedding EmbeddingBag GRU GRUCell LSTM LSTMCell Linear MultiheadAttention PReLU RNN RNNCell Transformer "
    "TransformerDecoderLayer TransformerEncoderLayer"
).split()
# Layers that create parameters unless this option is False.
_OPTIONAL = {
    **dict.fromkeys(("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm", "GroupNorm"), "affine"),
    **dict.fromkeys(("LayerNorm", "RMSNorm"), "elementwise_affine"),
}


class MadeParameter(Rule):
    code = "DYN604"
    name = "made-parameter"
    summary = "Creating a parameter, or a layer with weights, in compiled code breaks the graph"
    gb = ("GB0264", "GB0119")
    events = (Call,)
    calls = frozenset({*_PARAMETERS, *(f"torch.nn.{name}" for name in (*_PARAMETRISED, *_OPTIONAL))})
    refusal = (
        "if it were created once, it would keep its weights between calls; move it to `__init__`, or use a plain "
        "tensor if every call should sample new numbers"
    )

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Flag the call. A parameter is only flagged if its tensor is known to be created in the graph."""
        if leads_to_raise(event, project) or _is_further(event, project):
            return
        last = event.callee.rpartition(".")[2]
        if event.callee in _PARAMETERS:
            if not _is_made_here(event, project):
                return
            message = "`nn.Parameter()` creates a parameter in compiled code, which breaks the graph"
        elif last in _OPTIONAL and _is_off(event, _OPTIONAL[last], project):
            return
        else:
            message = f"`nn.{last}()` creates parameters in compiled code, which breaks the graph"
        yield Violation(event.node, message, help="create it once, in `__init__`")


def _is_further(event: Call, project: Project) -> bool:
    """Return whether the same statement creates another layer earlier, as the arguments of `nn.Sequential` do."""
    kinds = project.kinds(event.function)
    for node in walk(event.statement):
        if isinstance(node, ast.Call) and node is not event.node:
            callee = kinds.get(node.func, k.UNKNOWN)
            earlier = (node.lineno, node.col_offset) < (event.node.lineno, event.node.col_offset)
            if earlier and isinstance(callee, k.External) and torch_api.canonical(callee.name) in MadeParameter.calls:
                return True
    return False


def _is_made_here(event: Call, project: Project) -> bool:
    """Return whether a parameter's tensor is computed in the function, and after it made any other parameter.

    Creating a parameter breaks the graph, and what was computed before is given to the graph that follows.
    """
    tensor = k.only_tensor(event.args[0]) if event.args else None
    if not event.node.args or tensor is None or tensor.origin is not None:
        return False
    given, values = event.node.args[0], [event.node.args[0]]
    if isinstance(given, ast.Name):
        node = event.function.node
        named = [one for one in walk_function(node) if isinstance(one, ast.Name) and one.id == given.id]
        assigned = [one for one in walk_function(node) if isinstance(one, ast.Assign) and one.targets[0] in named]
        made = len(assigned) == sum(isinstance(one.ctx, ast.Store) for one in named) > 0
        values = [one.value for one in assigned] if made else []
        kinds = project.kinds(event.function)
        # A function of the project may return what it is given.
        values = (
            [] if any(isinstance(one, ast.Call) and not _is_torch(kinds.get(one.func)) for one in values) else values
        )
    first = min((one.lineno for one in values), default=0)
    between = range(first + 1, event.statement.lineno)
    known, parents = project.kinds(event.function), project.parents(event.function)
    earlier = (
        one
        for one in walk_function(event.function.node)
        if isinstance(one, ast.Call) and one.lineno in between and way(one, parents) <= way(event.node, parents)
    )
    callees = (known.get(one.func) for one in earlier)
    if any(isinstance(one, k.External) and torch_api.canonical(one.name) in _PARAMETERS for one in callees):
        return False
    return bool(values) and all(isinstance(one, ast.Call | ast.BinOp) for one in values)


def _is_torch(kind: k.Kind | None) -> bool:
    return isinstance(kind, k.External | k.Method)


def _is_off(event: Call, option: str, project: Project) -> bool:
    """Return whether a layer is created without weights, or may be because the option is not known to be True."""
    for keyword in event.node.keywords:
        if keyword.arg == option:
            owner = event.function.owner
            set_ = owner is not None and by_default(keyword.value, owner, project) is True
            return not set_ and event.keywords.get(option) != k.Value("bool", True)
        if keyword.arg is None:
            return True
    return False
