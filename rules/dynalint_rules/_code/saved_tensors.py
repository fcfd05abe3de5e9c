"""What the backward pass requires of a branch: saved tensors must not change, and gradients must be enabled."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from dynalint.rulekit import Refusal, k, walk, walk_function
from dynalint_rules._code.memory import changes_in_place, in_one_loop, makes_tensor, may_run_after, on_another_side
from dynalint_rules._code.names import last_assignment, loads, statement_of, within
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.sharing import may_change_in_place, sharing
from dynalint_rules._code.uses import self_name

UNCHANGED = "no gradient needs the old value of a tensor that is modified in place"

_SWITCHES = ("no_grad", "inference_mode", "set_grad_enabled")
# Functions whose gradients do not need the result.
_NOT_NEEDED = frozenset(
    "add arange bmm clone cat detach empty empty_like expand_copy full full_like linspace linear masked_fill matmul mm "
    "new_empty new_full new_ones new_tensor new_zeros ones ones_like rand rand_like randn randn_like stack sub sum "
    "tensor zeros zeros_like".split()
)
_NOT_NEEDED_LAYERS = frozenset("Bilinear Conv1d Conv2d Conv3d Linear".split())
_SKIPPED = (ast.If, ast.IfExp, ast.BoolOp, ast.For, ast.While, ast.Try, ast.Match)
_EXITS = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_LOOKS = frozenset("all any argmax argmin dim eq ge gt isfinite isinf isnan le lt ne numel size".split())


def kept_conditions(scope: Scope, nodes: Iterable[ast.AST | None]) -> list[str]:
    """Return the conditions for computing expressions on every call if they save tensors for the backward pass."""
    parts = (part for node in nodes if node is not None for part in walk(node))
    names = sorted({part.id for part in parts if isinstance(part, ast.Name)})
    return [UNCHANGED] if any(may_change_in_place(scope, name) for name in names) else []


def refuse_changed_later(scope: Scope, nodes: Iterable[ast.expr], around: ast.AST, *, handed: bool = False) -> None:
    """Ensure that no conditional code later changes the tensors that `nodes` read.

    A run of either branch shows the effect of an unconditional change. A conditional change may not have run together
    with the branch that saves a tensor for its gradient, in which case `backward()` would raise. Code inside `around`
    does not count. A node that is only a name saves nothing, unless it is passed (`handed`) to an operation that does.

    Raises:
        Refusal: If there may be a conditional change.
    """
    for node in nodes:
        for read in _read_in(scope, node, handed) if handed or not _is_read_by_none(scope, node) else ():
            for place in sorted(_later_changes(scope, read, around), key=lambda one: (one.lineno, one.col_offset)):
                raise Refusal(
                    f"{scope.quote(place)} on line {place.lineno} may modify a tensor in place, but the "
                    f"gradient of {scope.quote(read)} needs its old value; write the operation out of place "
                    "first"
                )


def _is_read_by_none(scope: Scope, node: ast.expr) -> bool:
    parent = scope.parents.get(node)
    target = parent.targets[0] if isinstance(parent, ast.Assign) and len(parent.targets) == 1 else None
    return isinstance(target, ast.Name) and next(loads(scope, target.id), None) is None


def _read_in(scope: Scope, node: ast.expr, handed: bool) -> Iterator[ast.Name | ast.Attribute]:
    """Yield the names and module attributes that an expression reads, except the expression itself."""
    for part in walk(node):
        parent = scope.parents.get(part)
        if isinstance(parent, ast.expr) and _keeps_no_operand(scope, parent):
            continue
        if (part is node and not handed) or (isinstance(parent, ast.Attribute) and _is_own_attribute(scope, parent)):
            continue
        named = isinstance(part, ast.Name) or (isinstance(part, ast.Attribute) and _is_own_attribute(scope, part))
        if isinstance(part, ast.Name | ast.Attribute) and named and not k.is_number(scope.kind(part)):
            yield part


def _keeps_no_operand(scope: Scope, node: ast.expr) -> bool:
    """Return whether an operation's gradient needs none of its operands, as for a sum or a product with a number."""
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub)
    if not isinstance(node, ast.BinOp):
        return False
    numbers = [isinstance(one, ast.Constant) for one in (node.left, node.right)]
    return (
        isinstance(node.op, ast.Add | ast.Sub)
        or (isinstance(node.op, ast.Mult) and any(numbers))
        or (isinstance(node.op, ast.Div) and numbers[1])
    )


def _is_own_attribute(scope: Scope, node: ast.Attribute) -> bool:
    owner = node.value
    return scope.function.owner is not None and isinstance(owner, ast.Name) and owner.id == self_name(scope.function)


def _later_changes(scope: Scope, read: ast.Name | ast.Attribute, around: ast.AST) -> Iterator[ast.stmt | ast.expr]:
    """Yield the code after `around` that may change the tensor that `read` refers to in place."""
    assert isinstance(around, ast.stmt | ast.expr)
    for name, place in _changes_of(scope, read, around):
        assert isinstance(place, ast.stmt | ast.expr)
        if not in_one_loop(scope, place, around):
            made = last_assignment(scope, name, place) if name is not None else None
            anew = made is not None and made.lineno > around.lineno and makes_tensor(scope, made.value)
            if not may_run_after(scope, place, around) or anew:
                continue
            if name is not None and _gets_another(scope, name, around):
                continue
        if _may_be_missed(scope, place, around):
            yield place


def _gets_another(scope: Scope, name: str, around: ast.AST) -> bool:
    """Return whether `around` binds a name to a new tensor, so that later changes do not affect the old one."""
    statement = statement_of(scope, around)
    values: list[ast.expr] = []
    for node in walk(statement):
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store):
            parent = scope.parents[node]
            if not isinstance(parent, ast.Assign) or parent.targets != [node]:
                return False
            whole = parent.value
            values += [whole.body, whole.orelse] if isinstance(whole, ast.IfExp) else [whole]
    return bool(values) and all(makes_tensor(scope, value) for value in values)


def _changes_of(scope: Scope, read: ast.Name | ast.Attribute, around: ast.AST) -> Iterator[tuple[str | None, ast.AST]]:
    """Yield the code that changes the tensor, each with the name that it uses, if any."""
    if isinstance(read, ast.Name):
        yield from (
            (name, place) for name in sharing(scope, read.id) for place in changes_in_place(scope, name, around)
        )
        return
    for node in walk_function(scope.function.node):
        changed: ast.AST | None = None
        if isinstance(node, ast.AugAssign):
            changed = node.target
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            changed = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_"):
            changed = node.func.value
        while isinstance(changed, ast.Subscript):
            changed = changed.value
        same = isinstance(changed, ast.Attribute) and ast.unparse(changed) == ast.unparse(read)
        if same and not within(node, around, scope):
            yield None, node


def _may_be_missed(scope: Scope, place: ast.stmt | ast.expr, around: ast.stmt | ast.expr) -> bool:
    """Return whether a call that reaches `around` may skip `place`."""
    node: ast.AST = place
    while node is not scope.function.node:
        node = scope.parents[node]
        if isinstance(node, _SKIPPED) and not within(around, node, scope):
            return True
    if on_another_side(scope, place, around):
        return True
    between = range((around.end_lineno or around.lineno) + 1, place.lineno)
    return any(isinstance(one, _EXITS) and one.lineno in between for one in walk_function(scope.function.node))


def change_conditions(scope: Scope, name: str, at: ast.AST) -> list[str]:
    """Return the conditions for changing the tensor called `name` in place on every call."""
    made = last_assignment(scope, name, at)
    if made is None:
        return [UNCHANGED]
    if scope.dtype(made.value) in ("bool", "int"):
        return []
    reads = (node for node in loads(scope, name) if made.lineno < node.lineno <= at.lineno)  # type: ignore[attr-defined]
    needed = not _is_not_needed(scope, made.value) or not all(_only_looks(scope, node) for node in reads)
    return [UNCHANGED] if needed or in_one_loop(scope, at, at) else []


def _is_not_needed(scope: Scope, value: ast.expr) -> bool:
    if isinstance(value, ast.BinOp):
        return isinstance(value.op, ast.Add | ast.Sub | ast.Mult | ast.MatMult)
    if not isinstance(value, ast.Call):
        return False
    callee = scope.kind(value.func)
    if isinstance(callee, k.Object):
        return callee.type.rpartition(".")[2] in _NOT_NEEDED_LAYERS
    return isinstance(callee, k.Method | k.External) and callee.name.rpartition(".")[2] in _NOT_NEEDED


def _only_looks(scope: Scope, node: ast.Name) -> bool:
    """Return whether this use of a tensor, such as comparing it or reading its shape, saves nothing for a gradient."""
    parent = scope.parents.get(node)
    if isinstance(parent, ast.Compare):
        return True
    if isinstance(parent, ast.Subscript):
        return isinstance(parent.ctx, ast.Store)
    if isinstance(parent, ast.Attribute):
        use = scope.parents.get(parent)
        called = isinstance(use, ast.Call) and use.func is parent
        return not called or parent.attr in _LOOKS or parent.attr.endswith("_")
    if isinstance(parent, ast.Call) and node in parent.args:
        callee = scope.kind(parent.func)
        return isinstance(callee, k.External) and callee.name.rpartition(".")[2] in _LOOKS
    return False


def switch_conditions(scope: Scope, name: str, at: ast.AST) -> list[str]:
    """Return the conditions if a branch inside `with torch.no_grad():` keeps a tensor from before the branch.

    A tensor that the branch creates instead has no gradient.
    """
    block: ast.AST | None = at
    while block is not None and not (isinstance(block, ast.With) and _switches(block)):
        block = scope.parents.get(block) if block is not scope.function.node else None
    if block is None:
        return []
    made = last_assignment(scope, name, at)
    if made is not None and (within(made, block, scope) or _has_no_gradient(scope, made.value)):
        return []
    return [f"`{name}` does not need a gradient, because gradients are disabled here"]


def _switches(block: ast.With) -> bool:
    return any(word in ast.unparse(item.context_expr) for item in block.items for word in _SWITCHES)


def _has_no_gradient(scope: Scope, value: ast.expr) -> bool:
    return scope.dtype(value) in ("bool", "int")
