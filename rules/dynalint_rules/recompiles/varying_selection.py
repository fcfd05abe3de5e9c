"""DYN806: a mask that selects a different number of elements in each call."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

from dynalint.rulekit import FunctionNode, Project, Refusal, Rule, Subscript, Violation, k, walk
from dynalint_rules._code.calls import callee
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.selection import reads_by_mask
from dynalint_rules._code.settings import captures_shapes

_DRAWING = frozenset(
    [f"torch.{name}" for name in "rand randn randint bernoulli normal rand_like randn_like randint_like".split()]
    + [f"Tensor.{name}" for name in "bernoulli bernoulli_ uniform_ normal_ random_ exponential_".split()]
)
# A function that spells none of them draws nothing, and need not be searched any further.
_DRAWN = re.compile("|".join(sorted({re.escape(name.rpartition(".")[2]) for name in _DRAWING})))
# What takes part in choosing a number of elements that is the same each time.
_COUNTED = frozenset({"topk", "kthvalue", "sort", "argsort", "quantile", "median", "randperm", "arange"})


# What makes a tensor of the shape of another, whatever that holds.
_MADE_LIKE = re.compile(r"_like$|(^|\.)new_")
# Two tests of which one holds just where the other does not, but for NaN.
_OPPOSITE: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
}


class VaryingSelection(Rule):
    code = "DYN806"
    name = "varying-selection"
    summary = "A mask selects a different number of elements in each call, and the code after it recompiles"
    category = "recompile"
    severity = "info"
    events = (Subscript,)

    def check(self, event: Subscript, project: Project) -> Iterable[Violation]:
        """Flag reads by a mask that the function draws, or that takes a tensor apart together with another read."""
        if (
            not reads_by_mask(event)
            or event.position.loop
            or event.position.try_
            or captures_shapes(project, event.function)
        ):
            return
        if _is_drawn(event, project):
            yield Violation(
                event.node,
                "a random mask selects a different number of elements in each call: the code after it "
                "recompiles once, and then takes any number",
                help="Keep the full shape with `torch.where`, or select a fixed number of elements with "
                "`torch.randperm`.",
            )
        elif (part := _other_part(event, project)) is not None:
            rest = ast.unparse(part)
            yield Violation(
                event.node,
                f"how many elements are in this part and how many in `{rest}` changes from call to call: the "
                "code after it recompiles once, and then takes any number",
                help="Keep the full shape, compute both and select with `torch.where`.",
            )


def _is_drawn(event: Subscript, project: Project) -> bool:
    """Whether random numbers decide about a mask, and how many elements it selects."""
    node = event.function.node
    if not any(map(_DRAWN.search, event.function.file.lines[node.lineno - 1 : node.end_lineno])):
        return False
    calls, _ = _behind_mask(event, project)
    return bool(calls & _DRAWING) and not _is_counted(calls)


def _other_part(event: Subscript, project: Project) -> ast.expr | None:
    """Return the read of what this one leaves of a tensor that a bound takes apart, if both are kept under a name."""
    if not (isinstance(event.statement, ast.Assign) and event.statement.value is event.node):
        return None
    assigned = _assigned(event.function.node)
    wanted = _opposite(event.node.slice, assigned)
    calls, names = _behind_mask(event, project)
    arguments = {one.arg for one in walk(event.function.node.args) if isinstance(one, ast.arg)} - {"self"}
    if wanted is None or _is_counted(calls) or not names & arguments:
        return None
    reads = (value for values in assigned.values() for value in values if isinstance(value, ast.Subscript))
    base = ast.dump(event.node.value)
    return next((one for one in reads if ast.dump(one.value) == base and ast.unparse(one.slice) == wanted), None)


def _opposite(mask: ast.expr, assigned: Mapping[str, list[ast.expr]]) -> str | None:
    """Return the mask that selects what this one does not, in words; None if this one is no comparison by a bound."""
    if isinstance(mask, ast.Compare) and len(mask.ops) == 1 and type(mask.ops[0]) in _OPPOSITE:
        return ast.unparse(ast.Compare(mask.left, [_OPPOSITE[type(mask.ops[0])]()], mask.comparators))
    inverted = isinstance(mask, ast.UnaryOp) and isinstance(mask.op, ast.Invert)
    name = mask.operand if isinstance(mask, ast.UnaryOp) else mask
    if not isinstance(name, ast.Name):
        return None
    values = assigned.get(name.id, ())
    known = len(values) == 1 and _opposite(values[0], {}) is not None
    return (name.id if inverted else f"~{name.id}") if known else None


def _behind_mask(event: Subscript, project: Project) -> tuple[set[str], set[str]]:
    """Return the dotted names of the calls, and the names, that a mask is computed by; none where that is not known."""
    try:
        scope = Scope.of(event, project)
        found = list(_behind(scope, event.node.slice, set(), _assigned(event.function.node)))
    except Refusal:
        return set(), set()
    calls = {_called(scope, one) for one in found if isinstance(one, ast.Call)}
    return calls, {one.id for one in found if isinstance(one, ast.Name)}


def _is_counted(calls: Iterable[str]) -> bool:
    return any(name.rpartition(".")[2] in _COUNTED for name in calls)


def _behind(
    scope: Scope, node: ast.AST, seen: set[str], assigned: Mapping[str, list[ast.expr]]
) -> Iterator[ast.Call | ast.Name]:
    """Yield the calls and names that the numbers of an expression are computed by, through local names.

    A size, a device or another plain number tells nothing of what the tensor holds that it is asked of, and neither
    does a tensor that is made like it.
    """
    kind = scope.kind(node) if isinstance(node, ast.expr) else None
    if isinstance(kind, k.Value) and kind.source != "data":
        return
    if isinstance(node, ast.Call):
        yield node
        if _MADE_LIKE.search(_called(scope, node)):
            return
    elif isinstance(node, ast.Name) and node.id not in seen:
        yield node
        seen.add(node.id)
        for value in assigned.get(node.id, ()):
            yield from _behind(scope, value, seen, assigned)
    for child in ast.iter_child_nodes(node):
        yield from _behind(scope, child, seen, assigned)


def _called(scope: Scope, node: ast.Call) -> str:
    """The dotted name of what is called, or its last part."""
    return callee(scope, node) or (node.func.attr if isinstance(node.func, ast.Attribute) else "")


def _assigned(function: FunctionNode) -> Mapping[str, list[ast.expr]]:
    """Return what the local names of a function are set to."""
    found: dict[str, list[ast.expr]] = {}
    for node in (one for one in walk(function) if isinstance(one, ast.Assign)):
        for target in (one for one in node.targets if isinstance(one, ast.Name)):
            found.setdefault(target.id, []).append(node.value)
    return found
