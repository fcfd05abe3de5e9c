"""Where code changes tensors in place, and whether a tensor is shared."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from typing import TypeGuard

from dynalint.rulekit import FunctionInfo, is_mask, k, remembered, walk, walk_function
from dynalint_rules._code.calls import may_work_in_place
from dynalint_rules._code.names import (
    end_of,
    is_named,
    kind_of_name,
    last_value,
    lineage,
    named,
    names,
    parameters,
    within,
)
from dynalint_rules._code.scope import Scope, as_tensor

# Methods that, at least for some arguments, return their own tensor or one that shares its memory.
_VIEWS = frozenset(
    "adjoint alias align_as align_to alpha_dropout as_strided as_subclass as_tensor asarray atleast_1d atleast_2d "
    "atleast_3d bfloat16 bool broadcast_tensors broadcast_to cartesian_prod ccol_indices channel_shuffle chunk "
    "coalesce col_indices conj conj_physical contiguous cpu crow_indices cuda dequantize detach diagonal double "
    "dropout dsplit einsum expand expand_as feature_alpha_dropout feature_dropout flatten float from_dlpack half "
    "hsplit imag indices int long meshgrid moveaxis movedim narrow new numpy permute pin_memory pixel_shuffle "
    "pixel_unshuffle positive ravel real refine_names rename requires_grad_ reshape reshape_as resize_as resolve_conj "
    "resolve_neg row_indices select slice_inverse split split_with_sizes squeeze sum_to_size swapaxes swapdims t "
    "tensor_split to to_dense transpose type type_as unbind unflatten unfold unsqueeze values view view_as "
    "view_as_complex view_as_real vsplit".split()
)

# Layers that may return their argument, for example with `inplace=True`, or a view of it.
_MAY_PASS_ON = frozenset(
    "AlphaDropout CELU ChannelShuffle Dropout Dropout1d Dropout2d Dropout3d ELU FeatureAlphaDropout Flatten "
    "Hardsigmoid Hardswish Hardtanh Identity LeakyReLU Mish PixelShuffle PixelUnshuffle RReLU ReLU ReLU6 SELU "
    "Sequential SiLU Threshold Unflatten".split()
)
# Methods that only ask their argument for its shape, dtype or device.
_LIKE = frozenset("expand_as reshape_as resize_as type_as view_as".split())
# Endings of the names of classes that keep the memory of a tensor that they are given.
_WRAPPING = ("Tensor", "Parameter", "Buffer")


def changed_in_place(scope: Scope, name: str, outside: ast.AST | None = None) -> ast.AST | None:
    """Return code in the function that changes the tensor called `name` in place, or None.

    Code inside `outside` does not count.
    """
    return next(changes_in_place(scope, name, outside), None)


def in_one_loop(scope: Scope, one: ast.AST, other: ast.AST) -> bool:
    """Return whether both nodes are in the same loop of the function."""
    known = scope.function.known
    if in_one_loop not in known:
        known[in_one_loop] = {one for one in walk_function(scope.function.node) if isinstance(one, ast.For | ast.While)}
    return any(loop in known[in_one_loop] and within(other, loop, scope) for loop in lineage(scope, one))


def may_run_after(scope: Scope, place: ast.stmt | ast.expr, around: ast.stmt | ast.expr) -> bool:
    """Return whether `place`, outside `around`, may run after `around`: it is further down, or both are in a loop."""
    if in_one_loop(scope, place, around):
        return True
    return place.lineno >= around.lineno and not on_another_side(scope, place, around)


def on_another_side(scope: Scope, one: ast.AST, other: ast.AST) -> bool:
    """Return whether two nodes are in different branches of an `if`, so that at most one of them runs."""
    taken, sides = _sides_around(scope, one), _sides_around(scope, other)
    return any(sides.get(branch, side) != side for branch, side in taken.items())


def _sides_around(scope: Scope, node: ast.AST) -> dict[ast.If, bool]:
    """Return each `if` around a node, with True if the node is in its body."""
    found: dict[ast.If, bool] = {}
    while node is not scope.function.node and node in scope.parents:
        parent = scope.parents[node]
        if isinstance(parent, ast.If) and node is not parent.test:
            found[parent] = node in parent.body
        node = parent
    return found


def changes_in_place(scope: Scope, name: str, outside: ast.AST | None = None) -> Iterator[ast.stmt | ast.expr]:
    """Yield the code in the function, except inside `outside`, that changes the tensor called `name`."""
    return (one for one in _changed(scope, name) if outside is None or not within(one, outside, scope))


def _changed(scope: Scope, name: str) -> Iterator[ast.stmt | ast.expr]:
    known = scope.function.known
    if _changed not in known:
        by_name = defaultdict[str, list[ast.AST]](list)
        for node in walk_function(scope.function.node):
            for base in {one.id for one in _changed_by(scope, node) if isinstance(one, ast.Name)}:
                by_name[base].append(node)
        known[_changed] = by_name
    for node in known[_changed].get(name, ()):
        summed = isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)
        kinds = kind_of_name(scope, name, node).members if summed else ()
        if not kinds or not all(k.is_number(one) or isinstance(one, k.Sequence) for one in kinds):
            yield node


def _changed_by(scope: Scope, node: ast.AST) -> Iterator[ast.AST]:
    """Yield the expressions whose tensors a statement or expression may change in place."""
    if isinstance(node, ast.AugAssign):
        yield _base(node.target, ast.Subscript)
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
        yield _base(node.value, ast.Subscript, ast.Attribute)
    elif isinstance(node, ast.Call):
        yield from (one.value for one in node.keywords if one.arg == "out")
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr.endswith("_") and not function.attr.endswith("__"):
            owner = function.value
            if scope.tensor(owner) is None:  # such as `nn.init.zeros_(x)`
                yield from node.args[:1]
            while isinstance(owner, ast.Subscript | ast.Attribute | ast.Call):
                owner = owner.func if isinstance(owner, ast.Call) else owner.value
            yield owner


def _base(node: ast.expr, *kinds: type[ast.Subscript | ast.Attribute]) -> ast.expr:
    while isinstance(node, kinds):
        node = node.value
    return node


def is_own(scope: Scope, name: str, at: ast.AST) -> bool:
    """Return whether `name` at `at` is a tensor that this function created and that nothing else refers to.

    A branch can then either keep the tensor or replace it with an equal copy.
    """
    return _is_always_own(scope, name) or _is_own_since_made(scope, name, at)


def _is_own_since_made(scope: Scope, name: str, at: ast.AST) -> bool:
    """Return whether the last assignment on every path to `at` creates a tensor that only `name` refers to.

    If so, neither the earlier value of `name` nor its later use matters.
    """
    made, value = last_value(scope, name, at, before_loop=True) or (None, None)
    if made is None:
        loop = _loop_around(scope, at)
        return loop is not None and not _is_set_in(scope, name, loop) and _is_own_since_made(scope, name, loop)
    if value is None or not _makes_own(scope, value):
        return False
    start, end = end_of(made), end_of(at)
    for node in named(scope, name):
        if node not in _own_nodes(scope):
            return False  # a nested function can run at any time
        if not start <= (node.lineno, node.col_offset) < end:
            continue
        if on_another_side(scope, node, at) and not in_one_loop(scope, node, at):
            continue
        parent = scope.parents.get(node)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            if not is_read_only(scope, node, parent):
                return False
        elif not within(node, at, scope) and not isinstance(parent, ast.AugAssign):
            return False
    return True


def _own_nodes(scope: Scope) -> set[ast.AST]:
    """Return the nodes of the function, without the bodies of nested functions and classes."""
    known = scope.function.known
    if _own_nodes not in known:
        known[_own_nodes] = set(walk_function(scope.function.node))
    nodes: set[ast.AST] = known[_own_nodes]
    return nodes


def _loop_around(scope: Scope, node: ast.AST) -> ast.For | ast.While | None:
    while node is not scope.function.node and node in scope.parents:
        node = scope.parents[node]
        if isinstance(node, ast.For | ast.While):
            return node
    return None


def _is_set_in(scope: Scope, name: str, loop: ast.AST) -> bool:
    """Return whether a loop rebinds a name, as opposed to changing its tensor."""
    stores = (node for node in walk(loop) if is_named(node, name) and not isinstance(node.ctx, ast.Load))  # type: ignore[union-attr]
    return any(not isinstance(scope.parents.get(node), ast.AugAssign) for node in stores)


def _is_always_own(scope: Scope, name: str) -> bool:
    """Return whether `name` is not a parameter, and its values are created here and not stored anywhere else."""
    key = (_is_always_own, name, scope.above)
    if key not in scope.function.known:
        scope.function.known[key] = name not in parameters(scope) and _is_made_here(scope, name)
    return bool(scope.function.known[key])


def _is_made_here(scope: Scope, name: str) -> bool:
    stores = 0
    for node in names(scope, name):
        parent = scope.parents.get(node)
        if isinstance(node.ctx, ast.Load):
            if not is_read_only(scope, node, parent):
                return False
        elif _sets_alone(parent, node) and _makes_own(scope, parent.value, name):
            stores += 1
        elif not isinstance(parent, ast.AugAssign):
            return False
    return stores > 0


def _makes_own(scope: Scope, value: ast.expr, own: str = "") -> bool:
    """Return whether an expression returns a new tensor, or a number, which a sum starts with."""
    number = isinstance(value, ast.Constant) and isinstance(value.value, int | float)
    return number or makes_tensor(scope, value, own)


def _sets_alone(node: ast.AST | None, name: ast.Name) -> TypeGuard[ast.Assign]:
    """Return whether a statement assigns to a single name, with or without an annotation."""
    if isinstance(node, ast.AnnAssign):
        return node.target is name and node.value is not None
    return isinstance(node, ast.Assign) and node.targets == [name]


def makes_tensor(scope: Scope, value: ast.expr, own: str = "") -> bool:
    """Return whether an expression returns a new tensor. The name `own` counts as a new tensor."""
    if isinstance(value, ast.Name):
        return value.id == own
    if isinstance(value, ast.BinOp | ast.Compare):
        return scope.tensor(value) is not None
    if isinstance(value, ast.UnaryOp):
        return not isinstance(value.op, ast.UAdd) and scope.tensor(value) is not None
    if isinstance(value, ast.Subscript):
        return scope.tensor(value) is not None and _copies(scope, value)
    if isinstance(value, ast.Call) and scope.tensor(value) is not None:
        callee = scope.kind(value.func)
        if isinstance(callee, k.Function):
            return _returns_new(scope, callee.function)
        if isinstance(callee, k.Method) and callee.name.endswith("_") and isinstance(value.func, ast.Attribute):
            return callee.name not in ("requires_grad_", "detach_", "set_") and makes_tensor(
                scope, value.func.value, own
            )
        if isinstance(callee, k.Method) and callee.name in _VIEWS and isinstance(value.func, ast.Attribute):
            return callee.name != "numpy" and makes_tensor(scope, value.func.value, own)
        if isinstance(callee, k.Object):
            return callee.type.startswith("torch.nn.") and callee.type.rpartition(".")[2] not in _MAY_PASS_ON
        name = callee.name if isinstance(callee, k.Method | k.External) else ""
        last = name.rpartition(".")[2]
        known = isinstance(callee, k.Method) or name.startswith("torch.")
        return (
            known
            and last not in _VIEWS
            and not last.endswith("_")
            and not _asks_gradient(value)
            and not (last.endswith(_WRAPPING) and any(k.may_be_tensor(scope.kind(one)) for one in value.args))
            and not name.startswith("torch.nn.functional.dropout")
            and not (isinstance(callee, k.External) and may_work_in_place(scope, name, value))
        )
    return False


def _returns_new(scope: Scope, function: FunctionInfo) -> bool:
    """Return whether a project function only returns new tensors that nothing else refers to."""
    above = (*scope.above, scope.function)
    if function in above or not isinstance(function.node, ast.FunctionDef) or function.node.decorator_list:
        return False

    def found() -> bool:
        returns = [one for one in walk_function(function.node) if isinstance(one, ast.Return)]
        inner = Scope(scope.project, function, above=above)
        return bool(returns) and all(_is_new(inner, one) for one in returns)

    return remembered((_returns_new, function), found)


def _is_new(scope: Scope, statement: ast.Return) -> bool:
    value = statement.value
    if isinstance(value, ast.Name):
        return is_own(scope, value.id, statement)
    return value is not None and makes_tensor(scope, value)


def _copies(scope: Scope, read: ast.Subscript) -> bool:
    """Return whether an index, such as a mask or rows, copies the elements that it selects.

    Others may create a view.
    """
    parts = read.slice.elts if isinstance(read.slice, ast.Tuple) else [read.slice]
    return any(is_mask(scope.kind(part)) or _is_rows(scope, part) for part in parts)


def _asks_gradient(call: ast.Call) -> bool:
    """Return whether a call may create a leaf that requires a gradient and so cannot be changed in place."""
    given = [keyword.value for keyword in call.keywords if keyword.arg in ("requires_grad", None)]
    return any(not (isinstance(value, ast.Constant) and not value.value) for value in given)


def is_read_only(scope: Scope, node: ast.expr, parent: ast.AST | None) -> bool:
    """Return whether using a tensor in this way neither keeps a reference to it nor creates a view."""
    if isinstance(parent, ast.BinOp | ast.Compare | ast.UnaryOp | ast.Return):
        return True
    if isinstance(parent, ast.Tuple):
        return isinstance(scope.parents.get(parent), ast.Return)
    if isinstance(parent, ast.If | ast.IfExp | ast.While):
        return parent.test is node
    if isinstance(parent, ast.Attribute):
        use = scope.parents.get(parent)
        if isinstance(use, ast.Call) and use.func is parent:
            return parent.attr not in _VIEWS or _is_used_up(scope, use)
        return isinstance(parent.ctx, ast.Load) and parent.attr in ("shape", "dtype", "device", "ndim", "requires_grad")
    if isinstance(parent, ast.Subscript):
        # A store does not keep a reference.
        stored = isinstance(parent.ctx, ast.Store)
        return parent.slice is node or stored or _copies(scope, parent) or _is_used_up(scope, parent)
    if isinstance(parent, ast.Call) and node in parent.args:
        callee = scope.kind(parent.func)
        like = isinstance(callee, k.Method) and callee.name in _LIKE and scope.tensor(parent) is not None
        return like or makes_tensor(scope, parent) or _gives_number(scope, parent)
    return False


def _gives_number(scope: Scope, call: ast.Call) -> bool:
    """Return whether a torch call returns a plain number, as `torch.equal` does.

    A number does not refer to the tensor.
    """
    callee, given = scope.kind(call.func), scope.kind(call)
    known = isinstance(callee, k.External) and callee.name.startswith("torch.")
    return known and isinstance(given, k.Value) and k.is_number(given)


def _is_used_up(scope: Scope, view: ast.Call | ast.Subscript) -> bool:
    """Return whether a view is only an operand in computing another tensor, as in `b.detach() * 2` or `a -= b.t()`."""
    parent = scope.parents.get(view)
    if isinstance(parent, ast.AugAssign) and isinstance(parent.target, ast.Name):
        return as_tensor(kind_of_name(scope, parent.target.id, parent)) is not None
    if isinstance(parent, ast.Attribute):
        use = scope.parents.get(parent)
        return (
            isinstance(use, ast.Call) and use.func is parent and (makes_tensor(scope, use) or _is_used_up(scope, use))
        )
    return isinstance(parent, ast.BinOp | ast.Compare) and scope.tensor(parent) is not None


def _is_rows(scope: Scope, index: ast.expr) -> bool:
    """Return whether an index is a numeric tensor with dimensions. A 0-dim tensor creates a view, as a number does."""
    return scope.dtype(index) == "int" and (scope.rank(index) or 0) > 0
