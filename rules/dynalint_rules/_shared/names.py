"""What becomes of a local name in its function: where it is read, whether its tensor is its own, whether it changes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeGuard

from dynalint.analysis import kinds as k
from dynalint.analysis.index import FunctionInfo, walk_function
from dynalint.analysis.kinds import NOTHING, Kind, join
from dynalint.analysis.subscripts import is_mask
from dynalint_rules._shared.scope import Refusal, Scope, as_tensor
from dynalint_rules._shared.size_arguments import callee_name, sizes

# Methods that return their own tensor, or one that shares its memory, at least for some arguments.
_VIEWS = frozenset(
    "adjoint alias align_as align_to alpha_dropout as_strided as_subclass as_tensor asarray atleast_1d atleast_2d "
    "atleast_3d bfloat16 bool broadcast_tensors broadcast_to cartesian_prod ccol_indices channel_shuffle chunk "
    "coalesce col_indices conj conj_physical contiguous cpu crow_indices cuda dequantize detach diagonal double "
    "dropout dsplit einsum expand expand_as feature_alpha_dropout feature_dropout flatten float from_dlpack half "
    "hsplit imag indices int long meshgrid moveaxis movedim narrow new permute pin_memory pixel_shuffle "
    "pixel_unshuffle positive ravel real refine_names rename requires_grad_ reshape reshape_as resize_as resolve_conj "
    "resolve_neg row_indices select slice_inverse split split_with_sizes squeeze sum_to_size swapaxes swapdims t "
    "tensor_split to to_dense transpose type type_as unbind unflatten unfold unsqueeze values view view_as "
    "view_as_complex view_as_real vsplit".split()
)

# Layers that may return their argument, as some do when made with `inplace=True`, or a view of it.
_MAY_PASS_ON = frozenset(
    "AlphaDropout CELU ChannelShuffle Dropout Dropout1d Dropout2d Dropout3d ELU FeatureAlphaDropout Flatten "
    "Hardsigmoid Hardswish Hardtanh Identity LeakyReLU Mish PixelShuffle PixelUnshuffle RReLU ReLU ReLU6 SELU "
    "Sequential SiLU Threshold Unflatten".split()
)


def loads(scope: Scope, name: str) -> Iterator[ast.Name]:
    """Yield every place of the function, nested functions included, that reads `name`."""
    for node in ast.walk(scope.function.node):
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            yield node


def reads(scope: Scope, node: ast.expr, kept: str) -> Iterator[ast.expr]:
    """Yield the places that read what an expression gives: itself, or those of the one name that it is assigned to.

    Raises:
        Refusal: in the words `kept`, it is kept otherwise; or the name is set elsewhere too.
    """
    statement = scope.parents[node]
    if not isinstance(statement, ast.Assign):
        yield node
        return
    target = statement.targets[0]
    if len(statement.targets) > 1 or not isinstance(target, ast.Name) or target.id not in scope.function.locals:
        raise Refusal(kept)
    names = (one for one in ast.walk(scope.function.node) if isinstance(one, ast.Name) and one.id == target.id)
    if any(one is not target and not isinstance(one.ctx, ast.Load) for one in names):
        raise Refusal(f"`{target.id}` is set at more than one place; give this value a name of its own first")
    yield from loads(scope, target.id)


def is_of_module(function: FunctionInfo, name: str) -> bool:
    """Whether a name that a function reads is one of its module or a builtin, and is set by no function."""
    inner: FunctionInfo | None = function
    while inner is not None and inner.name != "<module>":
        if name in inner.locals:
            return False
        inner = inner.parent
    return not any(isinstance(one, ast.Global) and name in one.names for one in ast.walk(function.module.tree))


def within(node: ast.AST, outer: ast.AST, scope: Scope) -> bool:
    """Whether `node` is `outer` or stands inside it."""
    current: ast.AST | None = node
    while current is not None:
        if current is outer:
            return True
        current = scope.parents.get(current)
    return False


def kind_of_name(scope: Scope, name: str, around: ast.stmt) -> Kind:
    """Return the kind that `name` has at `around`, as its readers see it; `NOTHING` if nobody reads it.

    What is read after the statement is the join of what it leaves and what was there before, so it says most.
    """
    found: Kind = NOTHING
    for node in loads(scope, name):
        known = scope.kinds.get(node)
        if known is not None and (node.lineno > (around.end_lineno or 0) or within(node, around, scope)):
            found = join(found, known)
    return found


def is_bound_before(scope: Scope, name: str, statement: ast.stmt) -> bool:
    """Whether `name` has a value on every way to `statement`."""
    arguments = scope.function.node.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    if any(argument.arg == name for argument in named):
        return True
    current: ast.AST = statement
    while current is not scope.function.node:
        parent = scope.parents.get(current)
        if parent is None:
            return False
        for block in ("body", "orelse", "finalbody"):
            statements = getattr(parent, block, ())
            earlier = (
                statements[: statements.index(current)]
                if isinstance(statements, list) and current in statements
                else ()
            )
            if any(_always_binds(one, name) for one in earlier):
                return True
        if isinstance(parent, ast.For) and _has_target(parent.target, name) and current in parent.body:
            return True
        current = parent
    return False


def may_be_unbound(scope: Scope, value: ast.expr) -> bool:
    """Whether an expression reads a local name that has no value on some way to it."""
    statement: ast.AST = value
    while not isinstance(statement, ast.stmt):
        statement = scope.parents[statement]
    read = {node.id for node in ast.walk(value) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return any(not is_bound_before(scope, name, statement) for name in read & scope.function.locals)


def _always_binds(statement: ast.stmt, name: str) -> bool:
    if isinstance(statement, ast.Assign):
        return any(_has_target(target, name) for target in statement.targets)
    if isinstance(statement, ast.AnnAssign):
        return statement.value is not None and _has_target(statement.target, name)
    if isinstance(statement, ast.AugAssign):
        return _has_target(statement.target, name)
    if isinstance(statement, ast.If) and statement.orelse:
        return all(
            isinstance(block[-1], ast.Raise | ast.Return | ast.Continue | ast.Break)
            or any(_always_binds(one, name) for one in block)
            for block in (statement.body, statement.orelse)
        )
    if isinstance(statement, ast.With):
        return any(_always_binds(one, name) for one in statement.body)
    return False


def _has_target(target: ast.expr, name: str) -> bool:
    if isinstance(target, ast.Name):
        return target.id == name
    if isinstance(target, ast.Tuple | ast.List):
        return any(_has_target(element, name) for element in target.elts)
    return isinstance(target, ast.Starred) and _has_target(target.value, name)


def may_change_in_place(scope: Scope, name: str) -> bool:
    """Whether the tensor under `name` is changed in place somewhere in the function, under whatever name."""
    return any(changed_in_place(scope, one) is not None for one in sharing(scope, name))


def sharing(scope: Scope, name: str) -> set[str]:
    """Return the names that may stand for the memory of the tensor under `name`, or for what holds it; its own too."""
    bound = []
    for node in walk_function(scope.function.node):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            bound.append({name for part in targets for name in _bound_by(part)})
            bound[-1] |= set(_kept_in(scope, node.value))
    found, before = {name}, 0
    while len(found) > before:
        before = len(found)
        found.update(*(names for names in bound if not found.isdisjoint(names)))
    return found


def _bound_by(target: ast.AST) -> Iterator[str]:
    """Yield the names that a target binds, or into whose objects it stores: an index is not kept."""
    if isinstance(target, ast.Name):
        yield target.id
    for child in [target.value] if isinstance(target, ast.Subscript) else ast.iter_child_nodes(target):
        yield from _bound_by(child)


def _kept_in(scope: Scope, value: ast.expr) -> Iterator[str]:
    """Yield the names whose tensors an expression hands on, as they are or as views; no index is handed on."""
    if isinstance(value, ast.Name) and not k.is_number(scope.kind(value)):
        yield value.id
    elif not makes_tensor(scope, value):
        numbers = set(sizes(callee_name(scope.kind(value.func)), value)) if isinstance(value, ast.Call) else ()
        for child in [value.value] if isinstance(value, ast.Subscript) else ast.iter_child_nodes(value):
            if isinstance(child, ast.expr) and child not in numbers:
                yield from _kept_in(scope, child)


def changed_between(scope: Scope, name: str, first: ast.stmt, last: ast.stmt) -> bool:
    """Whether `name` gets another value, or its tensor changes in place, from `first` to the end of `last`.

    Both stand in one block, or `last` further in than `first`, with no loop around it alone.
    """
    start, end = (first.lineno, first.col_offset), _end(last)
    named = [one for one in ast.walk(scope.function.node) if _names(one, name)]
    stores = [one for one in named if not isinstance(getattr(one, "ctx", None), ast.Load)]
    changes = [one for shared in sharing(scope, name) for one in changes_in_place(scope, shared)]
    return any(start <= (one.lineno, one.col_offset) < end for one in [*stores, *changes])


def changed_in_place(scope: Scope, name: str, outside: ast.AST | None = None) -> ast.AST | None:
    """Return a place of the function where the tensor under `name` is changed in place, None if there is none.

    Places inside `outside` do not count.
    """
    return next(changes_in_place(scope, name, outside), None)


def changes_in_place(scope: Scope, name: str, outside: ast.AST | None = None) -> Iterator[ast.stmt | ast.expr]:
    """Yield the places of the function, but for those inside `outside`, where the tensor under `name` is changed."""
    for node in walk_function(scope.function.node):
        if outside is not None and within(node, outside, scope):
            continue
        if isinstance(node, ast.AugAssign):
            target: ast.expr = node.target
            if isinstance(target, ast.Name) and target.id == name and k.is_number(kind_of_name(scope, name, node)):
                continue
            while isinstance(target, ast.Subscript):
                target = target.value
            if isinstance(target, ast.Name) and target.id == name:
                yield node
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            base = node.value
            while isinstance(base, ast.Subscript | ast.Attribute):
                base = base.value
            if isinstance(base, ast.Name) and base.id == name:
                yield node
        elif isinstance(node, ast.Call) and _changes(node, name):
            yield node


def _changes(node: ast.Call, name: str) -> bool:
    """Whether a call is of a method of `name` that works in place, or writes into `name` as `out`."""
    function = node.func
    if isinstance(function, ast.Attribute) and function.attr.endswith("_") and not function.attr.endswith("__"):
        owner = function.value
        while isinstance(owner, ast.Subscript | ast.Attribute | ast.Call):
            owner = owner.func if isinstance(owner, ast.Call) else owner.value
        first = node.args[0] if node.args else None
        if any(isinstance(one, ast.Name) and one.id == name for one in (owner, first)):
            return True
    return any(
        keyword.arg == "out" and isinstance(keyword.value, ast.Name) and keyword.value.id == name
        for keyword in node.keywords
    )


def is_own(scope: Scope, name: str, at: ast.AST) -> bool:
    """Whether `name` holds at `at` a tensor made in this function that nothing else refers to.

    For such a tensor it makes no difference whether a branch keeps it or puts an equal copy in its place.
    """
    return _is_always_own(scope, name) or _is_own_since_made(scope, name, at)


def _is_own_since_made(scope: Scope, name: str, at: ast.AST) -> bool:
    """Whether the last assignment on every way to `at` makes a tensor that nothing up to the end of `at` keeps.

    What `name` held before, and what becomes of it afterwards, does not matter then.
    """
    made = last_assignment(scope, name, at)
    if made is None or not makes_tensor(scope, made.value):
        return False
    own = set(walk_function(scope.function.node))
    start, end = _end(made), _end(at)
    for node in ast.walk(scope.function.node):
        if not _names(node, name):
            continue
        if node not in own:
            return False  # a nested function may run at any time
        if not start <= (node.lineno, node.col_offset) < end:
            continue
        parent = scope.parents.get(node)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            if not _is_read_only(scope, node, parent):
                return False
        elif not within(node, at, scope) and not isinstance(parent, ast.AugAssign):
            return False
    return True


def last_assignment(scope: Scope, name: str, at: ast.AST) -> ast.Assign | None:
    """The nearest plain assignment to `name` before `at` in its block or one around it, with no loop between."""
    current = at
    while not isinstance(current, ast.For | ast.AsyncFor | ast.While) and current is not scope.function.node:
        parent = scope.parents.get(current)
        if parent is None:
            return None
        for block in ("body", "orelse", "finalbody"):
            statements = getattr(parent, block, ())
            if isinstance(statements, list) and current in statements:
                for one in reversed(statements[: statements.index(current)]):
                    if isinstance(one, ast.Assign) and len(one.targets) == 1 and _names(one.targets[0], name):
                        return one
        current = parent
    return None


def _names(node: ast.AST, name: str) -> TypeGuard[ast.expr | ast.pattern | ast.excepthandler]:
    if isinstance(node, ast.Name):
        return node.id == name
    return isinstance(node, ast.MatchAs | ast.MatchStar | ast.ExceptHandler) and node.name == name


def _end(node: ast.AST) -> tuple[int, int]:
    assert isinstance(node, ast.stmt | ast.expr)
    return node.end_lineno or node.lineno, node.end_col_offset or node.col_offset


def _is_always_own(scope: Scope, name: str) -> bool:
    """Whether `name` is no parameter and all that is assigned to it is made in the function and kept by nothing."""
    arguments = scope.function.node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    if any(argument is not None and argument.arg == name for argument in every):
        return False
    stores = 0
    for node in ast.walk(scope.function.node):
        if isinstance(node, ast.Name) and node.id == name:
            parent = scope.parents.get(node)
            if isinstance(node.ctx, ast.Load):
                if not _is_read_only(scope, node, parent):
                    return False
            elif (
                isinstance(parent, ast.Assign) and parent.targets == [node] and makes_tensor(scope, parent.value, name)
            ):
                stores += 1
            elif not isinstance(parent, ast.AugAssign):
                return False
    return stores > 0


def makes_tensor(scope: Scope, value: ast.expr, own: str = "") -> bool:
    """Whether an expression gives a tensor that did not exist before; the name `own` counts as one."""
    if isinstance(value, ast.Name):
        return value.id == own
    if isinstance(value, ast.BinOp | ast.Compare):
        return scope.tensor(value) is not None
    if isinstance(value, ast.UnaryOp):
        return not isinstance(value.op, ast.UAdd) and scope.tensor(value) is not None
    if isinstance(value, ast.Call) and scope.tensor(value) is not None:
        callee = scope.kind(value.func)
        if isinstance(callee, k.Object):
            return callee.type.startswith("torch.nn.") and callee.type.rpartition(".")[2] not in _MAY_PASS_ON
        name = callee.name if isinstance(callee, k.Method | k.External) else ""
        last = name.rpartition(".")[2]
        known = isinstance(callee, k.Method) or name.startswith("torch.")
        return (
            known
            and last not in _VIEWS
            and not last.endswith("_")
            and not (last.endswith("Tensor") and any(k.may_be_tensor(scope.kind(one)) for one in value.args))
            and not name.startswith("torch.nn.functional.dropout")
            and not (isinstance(callee, k.External) and _may_work_in_place(scope, name, value))
        )
    return False


def _may_work_in_place(scope: Scope, name: str, call: ast.Call) -> bool:
    """Whether a call of a function that can be told to work in place, by `inplace`, may tell it so."""
    entry = scope.project.api.function(name)
    if entry is None or not any("mutating" in one.flags for one in entry.overloads):
        return False
    told = [keyword for keyword in call.keywords if keyword.arg in ("inplace", None)]
    if any(not isinstance(one.value, ast.Constant) or one.value.value is not False for one in told):
        return True
    return not all(isinstance(one, ast.Constant) and type(one.value) in (int, float) for one in call.args[1:])


def _is_read_only(scope: Scope, node: ast.Name, parent: ast.AST | None) -> bool:
    """Whether this use of a tensor neither keeps a reference to it nor makes a view of it."""
    if isinstance(parent, ast.BinOp | ast.Compare | ast.UnaryOp | ast.Return):
        return True
    if isinstance(parent, ast.If | ast.IfExp | ast.While):
        return parent.test is node
    if isinstance(parent, ast.Attribute):
        use = scope.parents.get(parent)
        if isinstance(use, ast.Call) and use.func is parent:
            return parent.attr not in _VIEWS or _is_used_up(scope, use)
        return parent.attr in ("shape", "dtype", "device", "ndim", "requires_grad")
    if isinstance(parent, ast.Subscript):
        # A store keeps nothing, and a read by a mask or by rows copies.
        parts = parent.slice.elts if isinstance(parent.slice, ast.Tuple) else [parent.slice]
        copied = any(is_mask(scope.kind(part)) or _is_rows(scope, part) for part in parts)
        return parent.slice is node or isinstance(parent.ctx, ast.Store) or copied
    if isinstance(parent, ast.Call) and node in parent.args:
        return makes_tensor(scope, parent)
    return False


def _is_used_up(scope: Scope, view: ast.Call) -> bool:
    """Whether a view is but an operand of what makes another tensor, as in `b.detach() * 2` and `a -= b.t()`."""
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
    """Whether an index is a tensor of numbers that has a dimension; without one it makes a view, as a number does."""
    tensor = scope.tensor(index)
    return tensor is not None and tensor.dtype == "int" and tensor.rank is not None and tensor.rank > 0


def only_value(scope: Scope, name: str, outside: ast.AST) -> ast.expr | None:
    """Return the expression that a local name gets its value from, None if it is a parameter or has several.

    What is assigned inside `outside` does not count.
    """
    arguments = scope.function.node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    inside = {id(node) for node in ast.walk(outside)}
    stores = [
        node
        for node in ast.walk(scope.function.node)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store) and id(node) not in inside
    ]
    if len(stores) != 1 or any(argument is not None and argument.arg == name for argument in every):
        return None
    parent = scope.parents.get(stores[0])
    return parent.value if isinstance(parent, ast.Assign) and parent.targets == stores else None
