"""DYN608: changing `requires_grad` in compiled code."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from dynalint.rulekit import (
    Call,
    Declined,
    FunctionInfo,
    Project,
    Rewrite,
    Rule,
    Violation,
    Write,
    k,
    leads_to_raise,
    walk,
)
from dynalint_rules._code.passed_values import is_root_argument, parameter_of
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.leaves import without_gradient

# Functions that were observed to break the graph with `requires_grad=True`. Dynamo traces `t.new_zeros` and similar
# methods.
_FACTORIES = (
    "arange bartlett_window blackman_window empty empty_like full full_like hamming_window hann_window kaiser_window "
    "linspace logspace ones ones_like rand rand_like randint randint_like randn randn_like randperm range tensor zeros "
    "zeros_like"
).split()
_NEW = frozenset(f"torch.{name}" for name in _FACTORIES)
_DETACHING = "Tensor.detach_"
_METHODS = ("Tensor.requires_grad_", "torch.nn.Module.requires_grad_")


class RequiresGradChange(Rule):
    code = "DYN608"
    name = "requires-grad-change"
    summary = "Changing `requires_grad` breaks the graph"
    gb = ("GB0206", "GB0125", "GB8985", "GB0225", "GB0148")
    events = (Call, Write)
    calls = frozenset(
        {"Tensor.requires_grad", _DETACHING, *_METHODS, "Tensor.new_tensor", *(f"torch.{one}" for one in _FACTORIES)}
    )

    def check(self, event: Call | Write, project: Project) -> Iterable[Violation]:
        """Flag the assignment, or the call if it definitely changes whether a leaf requires a gradient."""
        if isinstance(event, Write):
            message = "setting `requires_grad` breaks the graph"
        elif event.callee == _DETACHING:
            if not _is_given(event):
                return
            message = "`detach_()` changes a tensor that was not computed here, which breaks the graph"
        elif event.callee in _METHODS:
            if not _changes(event, project):
                return
            message = "`requires_grad_()` changes what the backward pass computes, which breaks the graph"
        elif (asked := _true(event.node, "requires_grad")) is None:
            return
        else:
            call = f"{event.callee}(requires_grad={asked})"
            message = f"`{call}` creates a leaf that requires a gradient, which breaks the graph"
        if not leads_to_raise(event, project):
            detaches = isinstance(event, Call) and event.callee == _DETACHING
            help_ = "use the result of `detach()`" if detaches else "set `requires_grad` outside the compiled code"
            yield Violation(event.node, message, help=help_)

    def fix(self, event: Call | Write, violation: Violation, project: Project) -> Rewrite | Declined:
        """Make a new tensor without `requires_grad` if nothing reads its gradient."""
        if isinstance(event, Call) and event.callee == _DETACHING:
            return Declined("code outside may need the detached tensor; if not, use the result of `detach()`")
        value = event.value if isinstance(event, Write) else k.UNKNOWN
        off = isinstance(value, k.Value) and value.constant is False
        return without_gradient(Scope.of(event, project), event.node, off=off)


def _is_given(event: Call) -> bool:
    """Return whether a tensor definitely exists before the call of the compiled code."""
    tensor = k.only_tensor(event.receiver) if event.receiver is not None else None
    owner = event.node.func.value if isinstance(event.node.func, ast.Attribute) else None
    if tensor is None or owner is None:
        return False
    return tensor.origin is not None or is_root_argument(owner, event.function)


def _changes(event: Call, project: Project) -> bool:
    """Return whether `requires_grad_` makes a change that a graph cannot contain."""
    mode = event.args[0] if event.args else event.keywords.get("requires_grad", event.keywords.get("mode"))
    asks = True if mode is None else mode.constant if isinstance(mode, k.Value) else k.MISSING
    asks = True if event.node.args and ast.unparse(event.node.args[0]) == "self.training" else asks
    tensor = k.only_tensor(event.receiver) if event.receiver is not None else None
    is_owned = tensor is None or tensor.origin == "parameter"
    if is_owned:
        return asks is False
    owner = event.node.func.value if isinstance(event.node.func, ast.Attribute) else None
    return asks is True and owner is not None and _is_leaf(owner, event.function, project)


def _is_leaf(node: ast.expr, function: FunctionInfo, project: Project, seen: tuple[FunctionInfo, ...] = ()) -> bool:
    """Return whether a tensor definitely needs no gradient.

    This is the case if it is detached, new, an argument of the root, or computed only from tensors that need no
    gradient. `seen` are the functions that pass it on.
    """
    if isinstance(node, ast.Call):
        made = project.kinds(function).get(node.func)
        if isinstance(made, k.External):
            computed = made.name.startswith("torch.") and _is_computed(node.args, function, project, seen)
            return made.name in _NEW or (computed and not node.keywords)
        if not isinstance(node.func, ast.Attribute):
            return False
        is_method = isinstance(made, k.Method) and isinstance(made.receiver, k.Tensor)
        given = [node.func.value, *node.args, *(keyword.value for keyword in node.keywords)]
        return node.func.attr == "detach" or (is_method and _is_computed(given, function, project, seen))
    if isinstance(node, ast.Attribute) and node.attr == "data":
        return True
    if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.List, ast.Tuple)):
        return _is_computed([*ast.iter_child_nodes(node)], function, project, seen)
    if isinstance(node, ast.Subscript):
        return _is_leaf(node.value, function, project, seen)
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return False
    stores = [one for one in _stores(ast.unparse(node), function) if one.lineno < node.lineno]
    if stores:
        parent = project.parents(function).get(max(stores, key=lambda one: one.lineno))
        return isinstance(parent, ast.Assign) and _is_leaf(parent.value, function, project, seen)
    name = node.id if isinstance(node, ast.Name) else ""
    if not any(isinstance(one, ast.arg) and one.arg == name for one in walk(function.node)):
        return False
    return function.caller is None or _is_handed_a_leaf(function, name, project, seen)


def _stores(text: str, function: FunctionInfo) -> list[ast.Name | ast.Attribute]:
    """Return where a function assigns the variable or attribute with this text."""
    return [
        one
        for one in walk(function.node)
        if isinstance(one, (ast.Name, ast.Attribute)) and isinstance(one.ctx, ast.Store) and ast.unparse(one) == text
    ]


def _is_computed(
    given: Sequence[ast.AST], function: FunctionInfo, project: Project, seen: tuple[FunctionInfo, ...]
) -> bool:
    """Return whether at least one operand or argument is a tensor, and none of them needs a gradient."""
    kinds = project.kinds(function)
    operands = [one for one in given if isinstance(one, ast.expr)]
    tensors = [one for one in operands if not _is_plain(kinds.get(one, k.UNKNOWN))]
    return bool(tensors) and all(_is_leaf(one, function, project, seen) for one in tensors)


def _is_plain(kind: k.Kind) -> bool:
    return all(isinstance(one, k.Value) for one in kind.members)


def _is_handed_a_leaf(function: FunctionInfo, name: str, project: Project, seen: tuple[FunctionInfo, ...]) -> bool:
    """Return whether every call to a function in compiled code passes a leaf for the parameter `name`."""
    handed: list[bool] = []
    seen = (*seen, function)
    for caller in function.called_by:
        if caller in seen:
            return False
        kinds = project.kinds(caller)
        for call in (one for one in walk(caller.node) if isinstance(one, ast.Call)):
            callee = kinds.get(call.func)
            if isinstance(callee, k.Function) and callee.function is function:
                given = [*call.args, *(keyword.value for keyword in call.keywords)]
                own = (one for one in given if parameter_of(callee, call, one) == name)
                handed += [_is_leaf(one, caller, project, seen) for one in own]
    return bool(handed) and all(handed)


def _true(node: ast.Call, name: str) -> str | None:
    """Return the source of an argument that is True, at least in training, or None."""
    given = (ast.unparse(keyword.value) for keyword in node.keywords if keyword.arg == name)
    return next((text for text in given if text in ("True", "self.training")), None)
