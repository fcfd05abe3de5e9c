"""DYN603: `Variable(...)`, which has been unnecessary since torch 0.4."""

from __future__ import annotations

import ast

from dynalint.rulekit import Call, Declined, Project, Rewrite, Rule, Violation, k, rw
from dynalint_rules._code.memory import makes_tensor
from dynalint_rules._code.names import last_value, stores
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.sharing import may_change_in_place
from dynalint_rules._shared.number.detached import is_detached

# Methods that create a tensor from their arguments, and methods that fill or move a tensor.
_MAKES = frozenset("new new_empty new_full new_ones new_zeros".split())
_FILLS = frozenset(
    "bernoulli_ cuda double exponential_ fill_ float half int long normal_ random_ to uniform_ zero_".split()
)
# Functions whose result has no history: their arguments are sizes and numbers, or a tensor that gives the shape.
_FACTORIES = frozenset(
    f"torch.{name}"
    for name in "arange empty empty_like eye linspace ones ones_like rand rand_like randint randn randn_like "
    "randperm zeros zeros_like".split()
)


class VariableWrapper(Rule):
    code = "DYN603"
    name = "variable-wrapper"
    summary = "`Variable(...)` does the same as `detach()`, but breaks the graph"
    gb = ("GB0007",)
    events = (Call,)
    calls = frozenset({"torch.autograd.Variable"})
    message = "Dynamo does not trace `Variable()`, so the graph breaks here, although tensors do not need a wrapper"
    help = "use `.detach()`, or the tensor itself if it has no history"

    def fix(self, event: Call, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Detach the tensor, or just remove the wrapper if the tensor has no history."""
        scope = Scope.of(event, project)
        node = event.node
        wrapped = _wrapped(node)
        if wrapped is None or k.only_tensor(event.args[0]) is None:
            return Declined(
                "a graph cannot create a new leaf that requires a gradient; remove `Variable()` by hand and "
                "use `.detach()` where gradients should stop"
            )
        tensor = rw.kept(scope.file, wrapped)
        if _is_made_here(scope, wrapped) or (is_detached(scope, wrapped) and makes_tensor(scope, wrapped)):
            return Rewrite("Remove `Variable()`", "safe", rw.written(scope.file, (node, tensor)))
        edits = rw.written(scope.file, (node, rw.method(tensor, "detach")))
        return Rewrite("Use `.detach()` instead of `Variable()`", "safe", edits)


def _wrapped(node: ast.Call) -> ast.expr | None:
    """Return the argument of `Variable` if the call only detaches it."""
    if len(node.args) != 1 or isinstance(node.args[0], ast.Starred):
        return None
    for keyword in node.keywords:
        off = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
        if keyword.arg != "requires_grad" or not off:
            return None
    return node.args[0]


def _is_made_here(scope: Scope, node: ast.expr) -> bool:
    """Return whether an expression creates a tensor from plain values, so that it has no history."""
    if isinstance(node, ast.Name) and not may_change_in_place(scope, node.id):
        statement, value = last_value(scope, node.id, node) or (None, None)
        if statement is None or value is None:
            return False
        between = any(statement.lineno < one.lineno < node.lineno for one in stores(scope, node.id))
        return not between and _is_made_here(scope, value)
    if not isinstance(node, ast.Call):
        return False
    callee = scope.kind(node.func)
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    if any(keyword.arg in (None, "requires_grad", "out") for keyword in node.keywords):
        return False
    name = callee.name if isinstance(callee, k.External) else ""
    listed = all(isinstance(one, ast.List | ast.Tuple) or _is_array(scope.kind(one)) for one in given)
    # Several arguments of `torch.FloatTensor` are sizes.
    copied = name.startswith("torch.") and name.endswith("Tensor") and (listed or len(node.args) > 1)
    if name in _FACTORIES or copied:
        return True
    if not all(_is_plain(scope.kind(one)) for one in given):
        return False
    if isinstance(callee, k.External):
        return name.startswith("torch.")
    if not isinstance(node.func, ast.Attribute):
        return False
    owner, name = node.func.value, node.func.attr
    if name in _MAKES:
        return scope.tensor(owner) is not None
    return name in _FILLS and _is_made_here(scope, owner)


def _is_array(kind: k.Kind) -> bool:
    tensor = k.only_tensor(kind)
    return tensor is not None and tensor.array


def _is_plain(kind: k.Kind) -> bool:
    """Return whether a value definitely is not and does not contain a tensor."""
    if isinstance(kind, k.Sequence):
        return all(isinstance(one, k.Value) for one in kind.element.members)
    return all(isinstance(one, k.Value) for one in kind.members)
