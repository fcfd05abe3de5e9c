"""Functions whose gradient is not finite everywhere, and how to keep them where it is.

`torch.where(c, torch.sqrt(x), x)` gives a NaN gradient wherever the square root is not taken and `x` is not positive:
the backward pass multiplies the infinite slope by zero. Fed with `torch.where(c, x, 1.0)` the slope stays finite.

The same happens with an infinite `x` in `torch.where(c, x * y, y)`, of which few have to care: only where the scope
asks for shelter are all tensors kept from what is not taken, and where it recomputes, from the slopes of what was
computed before the test as well: that is computed once more, of something harmless.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from dynalint.analysis import kinds as k
from dynalint.analysis.steps import walk
from dynalint_rules._shared.names import is_bound_before, last_value, statement_of
from dynalint_rules._shared.recomputed import definition_of, is_held, is_kept, is_used_throughout
from dynalint_rules._shared.saved import save
from dynalint_rules._shared.scope import Refusal, Scope
from dynalint_rules._shared.sides import HARMLESS

# The value to put in place of the first argument where the function is not wanted.
_SAFE_ARGUMENT = {
    "sqrt": "1.0",
    "rsqrt": "1.0",
    "log": "1.0",
    "log2": "1.0",
    "log10": "1.0",
    "reciprocal": "1.0",
    "acos": "0.5",
    "arccos": "0.5",
    "asin": "0.5",
    "arcsin": "0.5",
    "atanh": "0.5",
    "arctanh": "0.5",
    "erfinv": "0.5",
    "logit": "0.5",
    "acosh": "2.0",
    "arccosh": "2.0",
    "log1p": "1.0",
    "lgamma": "1.0",
    "digamma": "1.0",
    "exp": "0.0",
    "expm1": "0.0",
    "sinh": "0.0",
    "cosh": "0.0",
}
# Where zeros flow back into these they stay zeros, whatever the operands are.
_LINEAR = HARMLESS | frozenset(
    "broadcast_to cat chunk concat concatenate contiguous detach diagonal double expand expand_as flatten flip float "
    "gather half index_select masked_fill mean movedim narrow permute repeat reshape roll select split squeeze stack "
    "sum swapaxes t tile to transpose tril triu type_as unbind unflatten unsqueeze view view_as where".split()
)
# What gives no gradient to what it reads, or reads names of its own.
_WITHOUT_GRADIENT = (ast.Compare, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_DIVISIONS = frozenset({"div", "divide", "true_divide", "floor_divide", "fmod", "remainder", "addcdiv"})
_POWERS = frozenset({"pow", "float_power"})
# Not finite at some points, with no single value that is fine for all arguments; or raising there.
_HOPELESS = {
    "atan2": "has no gradient at zero",
    "arctan2": "has no gradient at zero",
    "std": "has no finite gradient where all values are equal",
    "var_mean": "has no finite gradient where all values are equal",
    "std_mean": "has no finite gradient where all values are equal",
    "xlogy": "has no finite gradient at zero",
    "cdist": "has no finite gradient where two points are equal",
    "pinverse": "raises for some matrices",
    "inverse": "raises for some matrices",
    "cholesky": "raises for some matrices",
    "logdet": "has no finite gradient for some matrices",
    "slogdet": "has no finite gradient for some matrices",
    "renorm": "has no finite gradient at zero",
}
# Beyond these, what is computed once more is no longer read at a glance.
_DEEPEST = 4
_LONGEST = 60


@dataclass(frozen=True)
class Guarded:
    """An operand to be replaced by `safe` where its side is not taken."""

    node: ast.expr
    safe: str


@dataclass(frozen=True)
class Recomputed:
    """A name to be replaced by the expression that it got its value from, in which `guards` are guarded.

    `safe` is what to put in the place of all that where its side is not taken, if that is to be kept out by itself.
    """

    node: ast.expr
    definition: ast.expr
    guards: tuple[Guard, ...]
    safe: str | None = None


Guard: TypeAlias = Guarded | Recomputed


def guarded_operands(scope: Scope, expression: ast.expr) -> list[Guard]:
    """Return the operands in an expression that must be made harmless on the side that is not taken.

    Raises:
        Refusal: there is no harmless value for one of them.
    """
    found = _of_steps(scope, expression)
    again: list[Recomputed | None] = []
    if scope.recomputes == "all" or (scope.recomputes and isinstance(expression, ast.Name)):
        reads = [one for one in _names(scope, expression) if not is_used_throughout(scope, one.id)]
        again = [recomputed(scope, read, statement_of(scope, read)) for read in reads]
    return _joined(scope, expression, found, again)


def recomputed(scope: Scope, read: ast.Name, at: ast.stmt) -> Recomputed | None:
    """Return what to write at `at` for a name that it reads, None where the name will do."""
    found = _again(scope, read, at, at, _DEEPEST)
    return found if found is not None and _size(found) <= _LONGEST else None


def _again(scope: Scope, read: ast.Name, at: ast.stmt, place: ast.stmt, deepest: int) -> Recomputed | None:
    """Return what to write at `place` for a name that an earlier statement `at` reads, None where the name will do.

    Raises:
        Refusal: it means something else by then, and what it meant cannot be computed once more.
    """
    held = is_held(scope, read.id, at, place)
    if held and at is not place and is_used_throughout(scope, read.id):
        return None
    try:
        found = definition_of(scope, read.id, at) if deepest else None
        if found is None:
            raise Refusal(f"{scope.quote(at)} reads what cannot be computed once more")
        again = _of_definition(scope, read, *found, place, deepest - 1)
    except Refusal:
        if held:
            return None
        if at is place or not is_kept(scope, read.id, at, place):
            raise
        save(scope, read, at)
        return None
    return again if not held or any(one.safe is not None for one in parts_of(again.guards)) else None


def _of_definition(
    scope: Scope, read: ast.Name, made: ast.stmt, value: ast.expr, place: ast.stmt, deepest: int
) -> Recomputed:
    reads = _names(scope, value)
    for node in (one for one in walk(value) if isinstance(one, ast.Name) and one not in reads):
        if node.id in scope.function.locals and not is_held(scope, node.id, made, place):
            if not is_kept(scope, node.id, made, place):
                raise Refusal(f"{scope.quote(made)} reads what has changed since")
            save(scope, node, made)
    again = [_again(scope, inner, made, place, deepest) for inner in reads]
    return Recomputed(read, value, tuple(_joined(scope, value, _of_steps(scope, value), again)))


def _joined(
    scope: Scope, expression: ast.expr, guards: Sequence[Guarded], again: Sequence[Recomputed | None]
) -> list[Guard]:
    """Join what is guarded in an expression with what is recomputed in it."""
    safe = {one.node: one.safe for one in guards}
    found: dict[ast.expr, Guard] = {one.node: one for one in guards}
    for one in again:
        if one is not None:
            found[one.node] = replace(one, safe=safe.get(one.node)) if _is_open(scope, one) else one
    return list(found.values())


def _is_open(scope: Scope, one: Recomputed) -> bool:
    """Whether something in what is recomputed is what it always was, where its side is not taken."""
    inside = {node for own in one.guards if isinstance(own, Guarded) or own.safe for node in walk(own.node)}
    inner = {own.node: own for own in one.guards if isinstance(own, Recomputed)}
    reads = [read for read in _names(scope, one.definition) if read not in inside]
    return any(read not in inner or _is_open(scope, inner[read]) for read in reads)


def parts_of(guards: Sequence[Guard]) -> Iterator[Guard]:
    """Yield guards, and those in what is recomputed."""
    for one in guards:
        yield one
        if isinstance(one, Recomputed):
            yield from parts_of(one.guards)


def open_names(scope: Scope, one: Recomputed) -> set[str]:
    """Return the names that are read as they stand where something is recomputed."""
    guarded = {own.node for own in one.guards if isinstance(own, Recomputed) or isinstance(own.node, ast.Name)}
    nodes = [node for node in walk(one.definition) if isinstance(node, ast.Name) and node not in guarded]
    names = {scope.renamed.get(node, node.id) for node in nodes}
    return names.union(*(open_names(scope, own) for own in one.guards if isinstance(own, Recomputed)))


def _size(one: Recomputed) -> int:
    """How many expressions are computed once more, one in another."""
    parts = [part.definition for part in parts_of([one]) if isinstance(part, Recomputed)]
    return sum(isinstance(node, ast.expr) for part in parts for node in walk(part))


def _names(scope: Scope, expression: ast.expr) -> list[ast.Name]:
    """Return the tensors under names that an expression of the file reads."""
    return [read for read in _reads(scope, expression) if isinstance(read, ast.Name) and read in scope.parents]


def _of_steps(scope: Scope, expression: ast.expr) -> list[Guarded]:
    """Return the operands of the operations in an expression that must be harmless."""
    found: list[Guarded] = []
    for node in walk(expression):
        if isinstance(node, ast.BinOp):
            found += _of_operator(scope, node)
        elif isinstance(node, ast.Call):
            found += _of_call(scope, node)
    if scope.shelter is not None:
        found += _sheltered(scope, expression, {one.node for one in found})
    return found


def is_linear(scope: Scope, step: ast.AST, node: ast.AST) -> bool:
    """Whether zeros that flow back into the operation `step` come as zeros to its operand `node`, whatever that is."""
    if isinstance(step, ast.BinOp):
        other = step.right if node is step.left else step.left
        by_number = k.is_number(scope.kind(other))
        plain = isinstance(step.op, ast.Mult) or (isinstance(step.op, ast.Div) and node is step.left)
        return isinstance(step.op, ast.Add | ast.Sub) or (plain and by_number)
    if isinstance(step, ast.Call):
        callee = scope.kind(step.func)
        return isinstance(callee, k.Method | k.External) and callee.name.rpartition(".")[2] in _LINEAR
    return isinstance(step, ast.UnaryOp | ast.Attribute | ast.Subscript | ast.List | ast.Tuple | ast.keyword)


def _sheltered(scope: Scope, expression: ast.expr, guarded: Collection[ast.AST]) -> list[Guarded]:
    """Return the tensors in an expression that zeros flow back to through more than linear steps."""
    around = {child: node for node in walk(expression) for child in ast.iter_child_nodes(node)}
    return [
        Guarded(read, "1")
        for read in _reads(scope, expression)
        if read not in guarded and _meets_infinity(scope, read, around, guarded)
    ]


def _reads(scope: Scope, node: ast.expr) -> Iterator[ast.expr]:
    """Yield the tensors of an expression that may be infinite where it is not wanted; what a module holds is finite."""
    tensor = scope.tensor(node)
    called = scope.kind(node.func) if isinstance(node, ast.Call) else None
    if isinstance(node, _WITHOUT_GRADIENT) or (tensor is not None and tensor.dtype in ("int", "bool")):
        return
    if isinstance(called, k.Method) and called.name == "detach":
        return
    owner = node.value if isinstance(node, ast.Attribute | ast.Subscript) else None
    if isinstance(node, ast.Name) or (owner is not None and tensor is not None and scope.tensor(owner) is None):
        while isinstance(owner, ast.Attribute | ast.Subscript):
            owner = owner.value
        root = node if owner is None else owner
        open_ = isinstance(root, ast.Name) and root.id != "self" and _is_open_to_infinity(scope, root)
        if open_ and (k.may_be_tensor(scope.kind(node)) or _is_taken_for_tensor(scope, node)):
            yield node
        return
    for child in ast.iter_child_nodes(node):
        inner = child.value if isinstance(child, ast.keyword | ast.Starred) else child
        chooses = inner in (getattr(node, "test", None), getattr(node, "slice", None))
        if isinstance(inner, ast.expr) and not chooses:
            yield from _reads(scope, inner)


def _is_taken_for_tensor(scope: Scope, node: ast.expr) -> bool:
    """Whether all that is known of a name is that arguments are computed with: that it is a tensor is a condition."""
    computed = isinstance(scope.parents.get(node), ast.BinOp | ast.UnaryOp)
    if not (computed and isinstance(node, ast.Name) and _is_argument(scope, node)):
        return False
    scope.assumed.add(node.id)
    return True


def _is_argument(scope: Scope, node: ast.Name) -> bool:
    """Whether a name that nothing is known of is an argument without a default, or arithmetic on such and tensors."""
    if not isinstance(scope.kind(node), k.Unknown) or node not in scope.parents:
        return False
    found = last_value(scope, node.id, statement_of(scope, node))
    if found is None:
        arguments = scope.function.node.args
        given = [*arguments.posonlyargs, *arguments.args]
        return node.id in [one.arg for one in given[: len(given) - len(arguments.defaults)]]
    parts = [one for one in walk(found[1]) if isinstance(one, ast.expr)]
    reads = [one for one in parts if not isinstance(one, ast.BinOp | ast.UnaryOp | ast.Constant)]
    return all(
        scope.tensor(one) is not None or (isinstance(one, ast.Name) and _is_argument(scope, one)) for one in reads
    )


def _is_open_to_infinity(scope: Scope, read: ast.Name) -> bool:
    """Whether a name may hold what it held before the test, or what passes the infinities in that on as they are."""
    key = (scope.shelter, read)
    if key not in scope.open_reads:
        scope.open_reads[key] = _may_hold_infinity(scope, read)
    return scope.open_reads[key]


def _may_hold_infinity(scope: Scope, read: ast.Name) -> bool:
    if scope.shelter is None:
        return False
    test = statement_of(scope, scope.shelter)
    if is_bound_before(scope, read.id, test):
        return True
    found = last_value(scope, read.id, statement_of(scope, read)) if read in scope.parents else None
    if found is None or found[0].lineno < test.lineno:
        return False
    value = found[1]
    kept_out = {node for one in _of_steps(scope, value) for node in walk(one.node)}
    return any(one not in kept_out for one in _reads(scope, value))


def _meets_infinity(
    scope: Scope, read: ast.expr, around: Mapping[ast.AST, ast.AST], guarded: Collection[ast.AST]
) -> bool:
    node: ast.AST = read
    while node in around and node not in guarded:
        step = around[node]
        if isinstance(step, ast.Attribute) and not k.may_be_tensor(scope.kind(step)):
            # A size or a dtype; of a method all but what it gives says the same.
            method = around.get(step)
            if not (isinstance(method, ast.Call) and method.func is step):
                return False
            node, step = step, method
        if isinstance(step, ast.expr) and k.is_number(scope.kind(step)):
            return False
        if not is_linear(scope, step, node):
            return True
        node = step
    return False


def _of_operator(scope: Scope, node: ast.BinOp) -> list[Guarded]:
    if isinstance(node.op, ast.Div | ast.FloorDiv | ast.Mod):
        return [Guarded(node.right, "1.0")] if _is_tensor(scope, node.right) else []
    if isinstance(node.op, ast.Pow):
        return _of_power(scope, node.left, node.right)
    return []


def _of_call(scope: Scope, node: ast.Call) -> list[Guarded]:
    callee = scope.kind(node.func)
    if isinstance(callee, k.Method) and isinstance(callee.receiver, k.Tensor) and isinstance(node.func, ast.Attribute):
        name, arguments = callee.name, [node.func.value, *node.args]
    elif isinstance(callee, k.External) and callee.name.startswith("torch."):
        name, arguments = callee.name, list(node.args)
    else:
        return []
    last = name.rpartition(".")[2]
    if name.startswith("torch.linalg.") and last not in ("norm", "vector_norm", "matrix_norm", "multi_dot", "cross"):
        raise Refusal(f"{scope.quote(node)} raises or has no gradient for some matrices; guard its argument by hand")
    if last in _HOPELESS:
        raise Refusal(
            f"{scope.quote(node)} {_HOPELESS[last]}, which would reach the other side as NaN; guard it by hand"
        )
    if last in _POWERS and len(arguments) == 2:
        return _of_power(scope, arguments[0], arguments[1])
    if last in _DIVISIONS:
        return [Guarded(one, "1.0") for one in arguments[1:] if _is_tensor(scope, one)]
    if last in _SAFE_ARGUMENT and arguments:
        return [Guarded(arguments[0], _SAFE_ARGUMENT[last])] if _is_tensor(scope, arguments[0]) else []
    api = scope.project.api
    entry = api.method(last) if isinstance(callee, k.Method) else api.function(name)
    if entry is not None and "partial_domain" in entry.flags:
        raise Refusal(
            f"{scope.quote(node)} is not finite everywhere, which would reach the other side; guard it by hand"
        )
    return []


def _of_power(scope: Scope, base: ast.expr, exponent: ast.expr) -> list[Guarded]:
    """A power is harmless for a whole exponent from 1 on."""
    value = exponent.value if isinstance(exponent, ast.Constant) else None
    if isinstance(value, int | float) and value >= 1 and value == int(value):
        return []
    return [Guarded(base, "1.0")] if _is_tensor(scope, base) else []


def _is_tensor(scope: Scope, node: ast.expr) -> bool:
    return k.may_be_tensor(scope.kind(node))
