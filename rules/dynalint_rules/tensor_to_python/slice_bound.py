"""DYN203: a slice with a tensor as a bound."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from dynalint.rulekit import (
    Call,
    Declined,
    Event,
    Project,
    Rewrite,
    Rule,
    Subscript,
    Violation,
    index_parts,
    k,
    rw,
    walk,
)
from dynalint_rules._code.calls import callee
from dynalint_rules._code.effects import is_pure
from dynalint_rules._code.known_numbers import is_stored_number
from dynalint_rules._code.names import loads, within
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.settings import SCALARS, captures_scalars
from dynalint_rules._shared.number.single_index import parts_of
from dynalint_rules._shared.number.slice_stores import filled

_NO_FORM = (
    "the length of the result depends on data; keep the whole dimension and mask it with `torch.arange(n) < length` "
    "and a value that does not affect the result"
)
# Between the line lengths of common formatters and the longer lines of larger projects.
_LONGEST_LINE = 100


class TensorSliceBound(Rule):
    code = "DYN203"
    name = "tensor-slice-bound"
    summary = "Slicing with a tensor as a bound reads the tensor's value and breaks the graph"
    gb = ("GB0124",)
    gives_up = True
    reads_data = True
    events = (Subscript, Call)
    calls = frozenset({"builtins.slice"})

    def check(self, event: Subscript | Call, project: Project) -> Iterable[Violation]:
        """Flag each bound that is known to be a tensor."""
        bounds = list(_bounds(event))
        if not bounds or captures_scalars(project, event.function):
            return
        tensors = _tensors(event, project)
        # Dynamo reports the break on the first line of the whole expression.
        nodes = [bound if bound.lineno == event.node.lineno else event.node for bound in tensors]
        for node in dict.fromkeys(nodes):
            yield Violation(
                node,
                "slicing with a tensor as a bound reads the tensor's value, which breaks the graph",
                help="keep the whole dimension and mask it with `torch.arange(n) < length`",
                setting="" if isinstance(event, Subscript) and k.only_tensor(event.base) is None else SCALARS,
            )

    def fix(self, event: Subscript | Call, violation: Violation, project: Project) -> Rewrite | Declined:
        """Fill the rows of a tensor all at once, or what a slice covers with a number.

        There is no fix for other uses, because it is unclear what should replace the missing elements.
        """
        scope, loop = Scope.of(event, project), project.parents(event.function).get(event.statement)
        rewrite = _filled_at_once(scope, event, loop) if isinstance(loop, ast.For) else None
        return rewrite or _filled(scope, event) or Declined(_NO_FORM)


def _filled(scope: Scope, event: Subscript | Call) -> Rewrite | None:
    """Return the rewrite of a store of a number in a slice with a tensor as a bound, or None for any other use."""
    node = event.node
    parts = parts_of(node) if isinstance(node, ast.Subscript) else []
    bounded = [one for one in parts if isinstance(one, ast.Slice) and (one.lower is not None or one.upper is not None)]
    found = filled(scope, node, bounded[0]) if isinstance(node, ast.Subscript) and len(bounded) == 1 else None
    if found is None:
        return None
    title = "Store through a mask of the positions"
    return Rewrite(title, "conditional", rw.written(scope.file, *found[0]), tuple(found[1]), scope.imports)


def _filled_at_once(scope: Scope, event: Subscript | Call, loop: ast.For) -> Rewrite | None:
    """Return the rewrite of a loop that sets the first elements of each row, or all others, to the same number."""
    statement, target = event.statement, event.node
    if loop.body != [statement] or loop.orelse or not isinstance(statement, ast.Assign):
        return None
    told = {node.id for node in walk(loop.target) if isinstance(node, ast.Name)}
    if statement.targets != [target] or not isinstance(target, ast.Subscript) or not isinstance(target.value, ast.Name):
        return None
    index, value = target.slice, statement.value
    if not isinstance(index, ast.Tuple) or len(index.elts) != 2 or not _is_number(scope, value, told):
        return None
    row, part = index.elts
    if not isinstance(row, ast.Name) or not isinstance(part, ast.Slice) or part.step is not None:
        return None
    from_start = part.lower is None or (isinstance(part.lower, ast.Constant) and part.lower.value == 0)
    bound = part.upper if from_start else part.lower if part.upper is None else None
    lengths = _lengths(scope, loop, row.id, bound) if bound is not None else None
    read_later = any(not within(one, loop, scope) for name in told for one in loads(scope, name))
    if lengths is None or read_later:
        return None
    rows, bounds = target.value.id, scope.text(lengths)
    places = f"{scope.torch}.arange({rows}.shape[1], device={rows}.device)"
    chosen = f"{places} {'<' if from_start else '>='} {bounds}.unsqueeze(1)"
    lines = [f"{rows}[{chosen}] = {scope.text(value)}"]
    if loop.col_offset + len(lines[0]) > _LONGEST_LINE:
        name = scope.fresh_name("inside" if from_start else "outside")
        lines = [f"{name} = {chosen}", f"{rows}[{name}] = {scope.text(value)}"]
    every = (
        f"the loop visits every row of `{rows}`, and {scope.quote(lengths)} is on the same device and has one "
        "non-negative element for each row"
    )
    edits = rw.written(scope.file, (loop, lines))
    return Rewrite("Fill all rows at once", "conditional", edits, (every,), scope.imports)


def _lengths(scope: Scope, loop: ast.For, row: str, bound: ast.expr) -> ast.expr | None:
    """Return the tensor whose element for the current row is `bound` in every iteration, or None."""
    call = loop.iter
    if not isinstance(call, ast.Call) or len(call.args) != 1 or call.keywords:
        return None
    source: ast.expr | None = None
    if callee(scope, call) == "builtins.enumerate" and isinstance(bound, ast.Name):
        both = [one.id for one in walk(loop.target) if isinstance(one, ast.Name)]
        source = call.args[0] if both == [row, bound.id] else None
    elif (
        callee(scope, call) == "builtins.range"
        and isinstance(bound, ast.Subscript)
        and isinstance(bound.slice, ast.Name)
    ):
        alone = isinstance(loop.target, ast.Name) and loop.target.id == bound.slice.id == row
        source = bound.value if alone else None
    tensor = scope.tensor(source) if isinstance(source, ast.Name | ast.Attribute) else None
    return source if tensor is not None and tensor.rank in (1, None) else None


def _is_number(scope: Scope, value: ast.expr, changing: set[str]) -> bool:
    """Return whether an expression is the same Python number in every iteration."""
    kinds = scope.kind(value).members
    names = {node.id for node in walk(value) if isinstance(node, ast.Name)}
    numbers = all(isinstance(one, k.Value) and one.type in ("bool", "int", "float") for one in kinds)
    return numbers and not names & changing and is_pure(scope, value)


def _tensors(event: Event, project: Project) -> list[ast.expr]:
    """Return the bounds that are known to be tensors."""
    if isinstance(event, Subscript) and not any(k.may_be_tensor(part) for part in index_parts(event.index)):
        return []
    kinds = project.kinds(event.function)
    tensors = ((bound, k.only_tensor(kinds.get(bound, k.UNKNOWN))) for bound in _bounds(event))
    return [bound for bound, tensor in tensors if tensor is not None and not is_stored_number(tensor)]


def _bounds(event: Event) -> Iterator[ast.expr]:
    if isinstance(event, Call):
        yield from event.node.args
    elif isinstance(event, Subscript) and not isinstance(event.base, k.Instance):
        index = event.node.slice
        for part in index.elts if isinstance(index, ast.Tuple) else [index]:
            if isinstance(part, ast.Slice):
                yield from (bound for bound in (part.lower, part.upper, part.step) if bound is not None)
