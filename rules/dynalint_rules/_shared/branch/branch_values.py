"""The values of the two branches, and the conditions under which `torch.where` can select between them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dynalint.rulekit import Refusal, k, walk, walk_function
from dynalint_rules._code.calls import callee
from dynalint_rules._code.memory import changes_in_place, in_one_loop, is_own, makes_tensor, may_run_after
from dynalint_rules._code.names import lineage, loads, only_value, stores, within
from dynalint_rules._code.precision import is_short
from dynalint_rules._code.raising import never_raises
from dynalint_rules._code.saved_tensors import switch_conditions
from dynalint_rules._code.scope import Scope, as_tensor
from dynalint_rules._code.sharing import kept_in, sharing
from dynalint_rules._shared.number.flow import NumberFlow
from dynalint_rules._shared.number.numbers import flow_of_selected

SAME_FORM = "both branches give tensors with the same dtype, shape and device"
NO_RAISE = "neither branch raises an exception for inputs that take the other branch"
FINITE = "the gradient of the branch that is not selected is finite"

_FORMS = frozenset("zeros_like ones_like full_like empty_like rand_like randn_like new_zeros new_ones new_full".split())
_NUMBERS = (
    "both branches give numbers, and `torch.where` would create a tensor from them; write them as tensors, or use "
    "`torch.where` to compute the values that depend on them"
)
FOR_TENSORS = (SAME_FORM, NO_RAISE, FINITE)
"""The conditions for branches whose values are tensors."""


@dataclass(frozen=True)
class BranchValue:
    """The value that one branch gives a name or the whole expression.

    `node` is the expression. If the branch leaves `name` unchanged, it is None, and `kind` is the name's kind.
    """

    node: ast.expr | None
    kind: k.Kind
    name: str | None = None

    @property
    def source(self) -> str | None:
        """The value's name, if it is a plain name."""
        return self.node.id if isinstance(self.node, ast.Name) else self.name if self.node is None else None


def alias_conditions(
    scope: Scope, sides: Sequence[BranchValue], target: str | None, around: ast.stmt | ast.expr
) -> list[str]:
    """Return the conditions if the value of a branch is an existing tensor, because `torch.where` returns a copy of it.

    Raises:
        Refusal: If the tensor is later changed in place, which would not change the copy.
    """
    shared: list[str] = []
    for side in sides:
        if side.source is None or side.node in scope.renamed:
            if side.node is not None and not (makes_tensor(scope, side.node) or k.is_number(side.kind)):
                shared.append(scope.quote(side.node))
        elif not is_own(scope, side.source, side.node or around):
            shared.append(f"`{side.source}`")
    kept = dict.fromkeys(side.source for side in sides if side.source is not None and side.node not in scope.renamed)
    conditions = [text for name in kept for text in switch_conditions(scope, name, around)]
    if not shared:
        return conditions
    for side in sides:
        views = kept_in(scope, side.node) if side.source is None and side.node is not None else ()
        for name in dict.fromkeys(views) if side.source is None else (side.source,):
            refuse_changed_alias(scope, name, around, target)
    names = " or ".join(dict.fromkeys(shared))
    return [*conditions, f"no code relies on receiving the tensor {names} itself instead of an equal copy"]


def refuse_changed_alias(scope: Scope, name: str, around: ast.stmt | ast.expr, target: str | None = None) -> None:
    """Ensure that no later in-place change distinguishes the tensor called `name` from a copy that `around` creates.

    `target` is the name of the copy, if it has one.

    Raises:
        Refusal: If the tensor may be changed in place later.
    """
    places = (one for shared in sorted(sharing(scope, name)) for one in changes_in_place(scope, shared, around))
    later = (one for one in places if may_run_after(scope, one, around))
    place = next((one for one in later if target is None or not _is_done_with(scope, target, around, one)), None)
    if place is not None:
        raise Refusal(
            f"`{name}` may share memory with another tensor, and {scope.quote(place)} modifies it in place, but "
            "the fix would use a copy; modify it out of place first"
        )


def _is_done_with(scope: Scope, name: str, around: ast.AST, place: ast.stmt | ast.expr) -> bool:
    """Return whether a name is only used to compute new values, before other code runs at `place`."""
    if any(isinstance(node, ast.Name) and node.id == name for node in walk(place)):
        return False
    uses = [use for use in loads(scope, name) if not within(use, around, scope)]
    own = set(walk_function(scope.function.node))
    computing = all(use in own and isinstance(scope.parents[use], ast.BinOp | ast.Compare) for use in uses)
    return computing and not any(may_run_after(scope, use, place) for use in uses)


def gradient_conditions(branches: Sequence[set[str]], layers: dict[str, None]) -> list[str]:
    """Return the conditions for tensors that only some branches read, because these get zero gradients, not None.

    `branches` are results of `reads_of`, and `layers` are called modules that may have parameters.
    """
    everywhere = set.intersection(*branches) if branches else set()
    unequal = set().union(*branches) - everywhere
    names = [f"`{name}`" for name in sorted(unequal)]
    names += [name for name in layers if name.strip("`") not in everywhere | unequal]
    if not names:
        return []
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    verb = "gets" if len(names) == 1 else "get"
    other = "when the other branch is selected"
    return [f"it makes no difference that {listed} {verb} a gradient of zeros instead of None {other}"]


def reads_of(scope: Scope, side: BranchValue, branch: ast.AST) -> set[str]:
    """Return the source text of each tensor with gradients that a branch reads, and of each layer that it calls."""
    if side.node is None:
        known = side.name is not None and _may_have_gradient(side.kind)
        return set(_leaves(scope, side.name, branch, ())) if known and side.name is not None else set()
    if as_tensor(side.kind) is not None and not _may_have_gradient(side.kind):
        return set()
    return set(_reads(scope, side.node, branch, ()))


def _leaves(scope: Scope, name: str, branch: ast.AST, seen: tuple[str, ...]) -> Iterator[str]:
    """Yield the tensors that a local name is computed from, or the name itself.

    The name itself is yielded unless it is assigned exactly once before the branch.
    """
    value = None if name in seen else only_value(scope, name, branch)
    if value is None:
        yield name
    else:
        yield from _reads(scope, value, branch, (*seen, name))


def gradients_read(scope: Scope, node: ast.expr, branch: ast.AST) -> set[str]:
    """Return the source text of each tensor with gradients and of each layer that an expression reads."""
    return set(_reads(scope, node, branch, ()))


def _reads(scope: Scope, node: ast.AST, branch: ast.AST, seen: tuple[str, ...]) -> Iterator[str]:
    if isinstance(node, ast.Name):
        if _may_have_gradient(scope.kind(node)):
            yield from _leaves(scope, node.id, branch, seen)
    elif isinstance(node, ast.Attribute) and _is_layer_or_tensor(scope, node):
        yield scope.text(node)
    elif not isinstance(scope.kind(node), k.Value) and not _only_looks(scope, node):
        passive = _passive(scope, node)
        for child in ast.iter_child_nodes(node):
            if child is not passive:
                yield from _reads(scope, child, branch, seen)


def _only_looks(scope: Scope, node: ast.AST) -> bool:
    """Return whether a call creates a tensor that has the form of another, and no more of it."""
    return isinstance(node, ast.Call) and callee(scope, node).rpartition(".")[2] in _FORMS


def _is_layer_or_tensor(scope: Scope, node: ast.Attribute) -> bool:
    kind = scope.kind(node)
    return isinstance(kind, k.Instance | k.Object) or (_may_have_gradient(kind) and _rooted_in_self(scope, node))


def _passive(scope: Scope, node: ast.AST) -> ast.AST | None:
    """Return the part of an expression through which no gradient passes: an index, or the mask of `masked_fill`."""
    if isinstance(node, ast.Subscript):
        return node.slice
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "detach":
        return node.func
    if isinstance(node, ast.Call) and node.args:
        callee = scope.kind(node.func)
        if isinstance(callee, k.Method) and callee.name in ("masked_fill", "masked_scatter", "masked_select", "where"):
            return node.args[0]
        if isinstance(callee, k.External) and callee.name == "torch.where":
            return node.args[0]
    return None


def _rooted_in_self(scope: Scope, node: ast.Attribute) -> bool:
    owner: ast.expr = node
    while isinstance(owner, ast.Attribute):
        owner = owner.value
    return isinstance(owner, ast.Name) and not k.may_be_tensor(scope.kind(owner))


def _may_have_gradient(kind: k.Kind) -> bool:
    if not k.may_be_tensor(kind):
        return False
    tensor = as_tensor(kind)
    return tensor is None or (tensor.dtype not in ("bool", "int") and tensor.origin != "buffer")


def flow_of_numbers(scope: Scope, sides: Sequence[BranchValue], reads: Sequence[ast.expr]) -> NumberFlow:
    """Return what follows if all branches have numbers as values, from which `torch.where` creates a 0-dim tensor.

    Raises:
        Refusal: If the numbers are not ints and floats that Dynamo knows, or one of the `reads` needs a number.
    """
    numbers = [one for side in sides for one in side.kind.members]
    types = {one.type if isinstance(one, k.Value) and one.source != "data" else None for one in numbers}
    if not types <= {"int", "float"} or not reads:
        raise Refusal(_NUMBERS)
    try:
        flow = flow_of_selected(scope, reads, "float" if "float" in types else "int")
    except Refusal as needed:  # its advice is about numbers that are read from tensors
        raise Refusal(_NUMBERS) from needed
    if not all(isinstance(one, k.Value) and (one.type == "int" or is_short(one)) for one in numbers):
        flow.conditions["the numbers are combined with tensors whose precision is sufficient"] = None
    written = [side.node for side in sides if side.node is not None]
    if not all(node in scope.parents and never_raises(scope, node) for node in written):
        flow.conditions[NO_RAISE] = None
    return flow


def flow_of_sum(scope: Scope, name: str, sides: Sequence[BranchValue], assigned: Sequence[ast.stmt]) -> NumberFlow:
    """Return what follows if a number becomes a tensor as soon as one of the statements adds to it.

    Raises:
        Refusal: If code that runs when nothing was added needs a number or a tensor, or asks which of them it is.
    """
    _refuse_asked(scope, name, assigned[0])
    flow = flow_of_numbers(scope, sides, reads_of_number(scope, name, assigned))
    loop = next((one for one in lineage(scope, assigned[0]) if isinstance(one, ast.For)), None)
    if flow.leaves or (flow.edits and not (loop is not None and _surely_runs(scope, loop.iter))):
        raise Refusal(f"`{name}` stays a number if nothing is added to it; start with a tensor")
    return flow


def number_conditions(scope: Scope, sides: Sequence[BranchValue], head: ast.stmt) -> list[str]:
    """Return the conditions for names that hold a number as long as no branch gives them a tensor.

    Raises:
        Refusal: If code asks which of them they hold.
    """
    names = [one.name for one in sides if one.node is None and any(k.is_number(kind) for kind in one.kind.members)]
    return [condition for name in names if name is not None for condition in start_conditions(scope, name, head)]


def start_conditions(scope: Scope, name: str, head: ast.stmt) -> list[str]:
    """Return the conditions for a name that starts with a number, if the branches of `head` may not assign it.

    Raises:
        Refusal: If code asks whether something was added.
    """
    _refuse_asked(scope, name, head)
    return [f"other code accepts `{name}` as a 0-dim tensor if nothing is added to it"]


def _refuse_asked(scope: Scope, name: str, head: ast.stmt) -> None:
    """Ensure that no code asks whether a number has become a tensor. The test of `head` may compare it with another.

    Raises:
        Refusal: If a test reads it, or division by zero may be caught.
    """
    own = head.test if isinstance(head, ast.If) and isinstance(head.test, ast.Compare) else None
    for read in loads(scope, name):
        if own is not None and read in (own.left, *own.comparators):
            continue
        for one in lineage(scope, read):
            test = one.test if isinstance(one, ast.If | ast.IfExp | ast.While | ast.Assert) else None
            caught = isinstance(one, ast.Try) and one.handlers
            asked = isinstance(one, ast.Call) and ast.unparse(one.func) in ("isinstance", "type", "float", "bool")
            if caught or asked or (test is not None and within(read, test, scope)):
                raise Refusal(f"other code asks for `{name}`, which would be a tensor; start with a tensor")


def _surely_runs(scope: Scope, iterated: ast.expr) -> bool:
    """Return whether a loop runs at least once, as far as a size of the model or a number in the code shows."""
    if isinstance(iterated, ast.Tuple | ast.List):
        return bool(iterated.elts)
    if not isinstance(iterated, ast.Call):
        return False
    name, first = callee(scope, iterated), next(iter(iterated.args), None)
    if name in ("builtins.enumerate", "builtins.reversed", "builtins.zip"):
        return all(_surely_runs(scope, one) for one in iterated.args)
    if name == "builtins.range":
        plain = isinstance(first, ast.Attribute) or (isinstance(first, ast.Constant) and first.value != 0)
        return len(iterated.args) == 1 and plain
    return name in ("torch.chunk", "Tensor.chunk")


def reads_of_number(scope: Scope, name: str, assigned: Sequence[ast.stmt]) -> list[ast.expr]:
    """Return the expressions that read a number that statements, such as an `if`, assign in one of two branches.

    Raises:
        Refusal: If a nested function reads it, or another statement modifies it in place.
    """
    own = set(walk_function(scope.function.node))
    if any(use not in own for use in scope.names.get(name, [])):
        raise Refusal(f"`{name}` is used in a nested function; pass a tensor to that function instead")
    for store in stores(scope, name):
        known = any(within(store, one, scope) for one in assigned)
        if isinstance(scope.parents.get(store), ast.AugAssign) and not known:
            raise Refusal(f"another statement modifies `{name}` in place; write it as `{name} = ...` first")
    inside = in_one_loop(scope, assigned[0], assigned[0])
    return [node for node in loads(scope, name) if inside or not within(node, assigned[0], scope)]
