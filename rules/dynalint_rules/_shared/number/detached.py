"""Replacements for a tensor's number, or for the list of its numbers, that do not read the tensor."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from dynalint.rulekit import Refusal, k, walk, walk_function
from dynalint_rules._code.autograd import without_gradients
from dynalint_rules._code.calls import callee
from dynalint_rules._code.memory import is_read_only, makes_tensor
from dynalint_rules._code.names import loads, only_value, statement_of, within
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.sharing import may_change_in_place
from dynalint_rules._shared.branch.blocks import statements_after
from dynalint_rules._shared.number.arguments import COMPARING
from dynalint_rules._shared.text import atom

# Methods whose results do not share memory with the receiver.
_FRESH = frozenset(
    "sum mean prod max min amax amin norm std var median mode argmax argmin any all count_nonzero logsumexp nansum "
    "nanmean abs exp log sqrt square pow add sub mul div".split()
)


@dataclass(frozen=True)
class Detached:
    """The `text` of a 0-dim tensor without gradients, and the `conditions` under which it equals the number."""

    text: str
    conditions: tuple[str, ...]


def detached(scope: Scope, source: ast.expr, *, read: ast.expr | None = None, whole: bool = False) -> Detached:
    """Return the replacement for the number in `source`, which has a single element.

    `read` is the expression that reads the number, if the code around it stays. If `whole` is true, `.long()` follows,
    unless the tensor has integers. Its result has no gradient, and is a copy of a tensor with any other dtype.

    Raises: Refusal: Unless `source` is always a torch tensor or always an array.
    """
    tensor = k.only_tensor(scope.kind(source))
    shown = scope.quote(source)
    if tensor is None:
        raise Refusal(f"{shown} is not always a tensor; handle the other case before this line")
    conditions = [f"{shown} is on the CPU, or on the same device as the tensors that it is combined with"]
    if tensor.array:
        # An array has no gradient and is on the CPU.
        text, conditions = f"{scope.torch}.as_tensor({scope.text(source)})", []
    else:
        text = atom(source, scope.text(source))
    compared = read is not None and _is_compared(scope, read)  # the result has no gradient
    at_once = compared or (read is not None and _is_used_up(scope, read))
    # Integers have no gradient, and neither has what is computed without gradients.
    without = tensor.dtype in ("bool", "int") or without_gradients(scope.function)
    used_first = without and read is not None and _is_changed_last(scope, source, read)
    plain = read is not None and (tensor.dtype in ("bool", "int") or used_first or compared)
    if not tensor.array and not plain and not whole and not _is_detached(scope, source):
        text += ".detach()"
    stays = tensor.origin == "parameter" and not _is_changed(source, scope.function.node)
    # Autograd saves neither of these, so the tensor can be changed as soon as it has been used.
    if not (at_once or stays or used_first or _is_fresh(scope, source) or (whole and tensor.dtype == "float")):
        # A number is a copy. A detached tensor shares memory, so later in-place changes would affect it.
        text += ".clone()"
    if tensor.rank is None:
        conditions.insert(0, f"{shown} has no dimensions")
    elif tensor.rank > 0:
        text += ".reshape(())"
    return Detached(text, tuple(conditions))


def _is_detached(scope: Scope, node: ast.expr) -> bool:
    """Return whether an expression starts with `.detach()` and is a chain of calls that use no other tensors."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr == "detach":
            return True
        given = [*node.args, *(one.value for one in node.keywords)]
        subject = node.func.value
        if callee(scope, node).startswith("torch.") and given:
            subject, *given = given
        if any(k.may_be_tensor(scope.kind(one)) for one in given):
            return False
        node = subject
    return False


def _is_compared(scope: Scope, read: ast.expr) -> bool:
    """Return whether a number is only compared with another value."""
    parent = scope.parents[read]
    parent = scope.parents[parent] if isinstance(parent, ast.keyword) else parent
    return isinstance(parent, ast.Compare) or (isinstance(parent, ast.Call) and callee(scope, parent) in COMPARING)


def _is_used_up(scope: Scope, read: ast.expr) -> bool:
    """Return whether the value is only used to create a tensor. Autograd may save a value combined with tensors."""
    parent = scope.parents[read]
    if isinstance(parent, ast.Call):
        return callee(scope, parent) in ("torch.where", "torch.full")
    if not isinstance(parent, ast.BinOp):
        return False
    return k.is_number(scope.kind(parent.right if parent.left is read else parent.left))


def _is_fresh(scope: Scope, node: ast.expr) -> bool:
    """Return whether nothing changes the tensor later, because it is new, or part of one that is only read."""
    if isinstance(node, ast.BinOp | ast.Compare):
        return True
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        return _never_changes(scope, node.value)
    if isinstance(node, ast.Call):
        return callee(scope, node).rpartition(".")[2] in _FRESH or makes_tensor(scope, node)
    return False


def _never_changes(scope: Scope, name: ast.Name) -> bool:
    """Return whether a name has a single value, a tensor that the function creates and only reads."""
    value = only_value(scope, name.id, name)
    if value is None or not makes_tensor(scope, value) or may_change_in_place(scope, name.id):
        return False
    parents = ((use, scope.parents.get(use)) for use in loads(scope, name.id))
    return all(isinstance(one, ast.Subscript | ast.Attribute) or is_read_only(scope, use, one) for use, one in parents)


def _is_changed_last(scope: Scope, source: ast.expr, read: ast.expr) -> bool:
    """Return whether a number's uses all compute new values, and nothing changes its tensor before the last of them."""
    statement = statement_of(scope, read)
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    uses = list(loads(scope, target.id)) if isinstance(target, ast.Name) else []
    if not uses or not all(isinstance(scope.parents[use], ast.BinOp | ast.Compare | ast.Slice) for use in uses):
        return False
    after = statements_after(scope, statement)
    using = [at for at, one in enumerate(after) if any(within(use, one, scope) for use in uses)]
    run = after[: using[-1] + 1] if using else []
    inside = sum(within(use, one, scope) for use in uses for one in run)
    if inside < len(uses) or not isinstance(run[-1], ast.Assign | ast.AugAssign):
        return False
    # The last statement stores its value when it has computed it.
    steps: list[ast.AST] = [*run[:-1], run[-1].value]
    calls = (one for step in steps for one in walk(step) if isinstance(one, ast.Call))
    return not any(_is_changed(source, one) for one in steps) and all(callee(scope, one) for one in calls)


def _is_changed(source: ast.expr, code: ast.AST) -> bool:
    """Return whether code changes a tensor that an expression reads, with `+=`, a store, or `t.add_(...)`."""
    text = ast.unparse(source)
    for node in walk_function(code):
        stored = isinstance(node, ast.Attribute | ast.Name | ast.Subscript) and not isinstance(node.ctx, ast.Load)
        target = node.value if isinstance(node, ast.Subscript) else node
        called = node.func if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
        if called is not None and called.attr.endswith("_"):
            stored, target = True, called.value
        if stored and ast.unparse(target).startswith(text):
            return True
    return False
