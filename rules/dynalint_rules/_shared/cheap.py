"""What can be computed once more, of what it was computed from: it takes little time and gives the same."""

from __future__ import annotations

import ast

from dynalint.analysis import kinds as k
from dynalint.analysis.steps import walk
from dynalint_rules._shared.effects import is_pure
from dynalint_rules._shared.memory import is_read_only
from dynalint_rules._shared.names import is_named
from dynalint_rules._shared.scope import Scope

# Of tensors, what takes little time, above all in a graph, where it is fused with what is around it.
_CHEAP = frozenset(
    "abs acos add all amax amin any argmax argmin asin atan clamp clamp_max clamp_min clip cos cosh detach div divide "
    "double erf exp expm1 flatten float half isfinite isinf isnan log log10 log1p log2 logical_not logit masked_fill "
    "max mean min mul multiply neg norm permute pow reciprocal relu reshape rsqrt sigmoid sign sin sinh sqrt square "
    "squeeze sub subtract sum t tan tanh transpose true_divide type_as unsqueeze view view_as where".split()
)
# Layers that hold nothing but weights, which a call only reads.
_LAYERS = frozenset("Bilinear Conv1d Conv2d Conv3d GELU LayerNorm Linear ReLU SiLU Sigmoid Tanh".split())
_PLAIN = (ast.UnaryOp, ast.Constant, ast.Compare, ast.Subscript, ast.Slice, ast.Tuple)
_MOST_NODES = 40


def is_cheap(scope: Scope, value: ast.expr, *, layers: bool = False) -> bool:
    """Whether an expression is small, always gives the same of what its names hold, and does nothing else.

    It takes little time, too, if `layers` do not count as cheap.
    """
    nodes = [node for node in walk(value) if isinstance(node, ast.expr)]
    if len(nodes) > _MOST_NODES or not all(_is_known(scope, node) for node in nodes) or not is_pure(scope, value):
        return False
    return layers or not any(isinstance(node, ast.Call) and _is_layer(scope.kind(node.func)) for node in nodes)


def _is_known(scope: Scope, node: ast.expr) -> bool:
    kind = scope.kind(node)
    if isinstance(node, ast.Call):
        callee = scope.kind(node.func)
        known = isinstance(callee, k.Method | k.External) and callee.name.rpartition(".")[2] in _CHEAP
        return known or _is_layer(callee)
    if isinstance(node, ast.Name):
        return node.id in scope.function.locals or isinstance(kind, k.External | k.Module)
    if isinstance(node, ast.Attribute):
        return isinstance(kind, k.Method | k.External | k.Module) or _is_steady(scope, node)
    if isinstance(node, ast.BinOp):
        return not isinstance(node.op, ast.MatMult)
    return isinstance(node, _PLAIN)


def _is_layer(kind: k.Kind) -> bool:
    head, _, last = kind.type.rpartition(".") if isinstance(kind, k.Object) else ("", "", "")
    return head.startswith("torch.nn") and last in _LAYERS


def _is_steady(scope: Scope, node: ast.Attribute) -> bool:
    """Whether an attribute is a tensor or a layer of the module's that nothing in the function changes."""
    layer = _is_layer(scope.kind(node))
    if not (layer or scope.tensor(node) is not None) or not is_named(node.value, "self"):
        return False
    parts = list(walk(scope.function.node))
    same = [one for one in parts if isinstance(one, ast.Attribute) and one.attr == node.attr]
    changed = any(not _is_called(scope, one) if layer else _may_change(scope, one) for one in same)
    return not changed and not any(isinstance(one, ast.Call) and _may_store(scope, one, node.attr) for one in parts)


def _is_called(scope: Scope, node: ast.Attribute) -> bool:
    parent = scope.parents.get(node)
    return isinstance(parent, ast.Call) and parent.func is node


def _may_change(scope: Scope, node: ast.Attribute | ast.Subscript) -> bool:
    """Whether a use of a tensor sets it anew, changes it in place, or gives it another name to do that by."""
    parent = scope.parents.get(node)
    if not isinstance(node.ctx, ast.Load):
        return True
    if isinstance(parent, ast.Subscript) and parent.value is node:
        return _may_change(scope, parent)
    if isinstance(parent, ast.AugAssign):
        return parent.target is node
    return (isinstance(parent, ast.Attribute) and parent.attr.endswith("_")) or not is_read_only(scope, node, parent)


def _may_store(scope: Scope, call: ast.Call, name: str) -> bool:
    """Whether a call may change the attribute `name` of the module, or the tensor in it.

    What is of torch or of Python changes nothing that it is not given; a layer changes but what is its own.
    """
    callee = scope.kind(call.func)
    given = [node for one in [*call.args, *call.keywords] for node in walk(one) if isinstance(node, ast.expr)]
    if isinstance(callee, k.External) and any(isinstance(scope.kind(one), k.Function) for one in given):
        return True  # it may call that
    if is_pure(scope, call):
        return False
    if any(is_named(one, "self") and not _is_of_other_tensor(scope, one, name) for one in given):
        return True
    of_tensor = isinstance(callee, k.Method) and isinstance(callee.receiver, k.Tensor)
    return not (of_tensor or isinstance(callee, k.External | k.Object))


def _is_of_other_tensor(scope: Scope, node: ast.expr, name: str) -> bool:
    parent = scope.parents.get(node)
    return isinstance(parent, ast.Attribute) and parent.attr != name and scope.tensor(parent) is not None
