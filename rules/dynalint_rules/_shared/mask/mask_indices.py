"""Indices computed from a mask by `nonzero()` or `torch.where(mask)` that are only used to index or to count.

i = (x > 0).nonzero()                   i_mask = x > 0
return x[i[:, 0], i[:, 1]].sum()        return x[i_mask].sum()

idx = torch.where(mask)[0]
x[idx] = y[idx]                         x[mask] = y[mask]

mask = torch.nonzero(y == 0)            mask = y == 0
x.index_fill_(0, mask.squeeze(), 0)     x[mask] = 0
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

from dynalint.rulekit import Call, Rewrite, k, rw, walk
from dynalint_rules._code.calls import callee
from dynalint_rules._code.counts import Count, count_of
from dynalint_rules._code.effects import is_pure
from dynalint_rules._code.memory import makes_tensor
from dynalint_rules._code.names import around, has_one_value, is_shared, loads, only_value, parameters, statement_of
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.sharing import may_change_in_place
from dynalint_rules._shared.number.flow import NumberFlow
from dynalint_rules._shared.number.numbers import flow_of
from dynalint_rules._shared.text import atom

_FLATTENED = ("flatten()", "squeeze(1)", "squeeze(-1)", "view(-1)", "reshape(-1)")
_SELECTED, _STORED = "DYN301", "DYN302"
_INDEX = re.compile(r"_?(?:idxs?|inds?|index|indexes|indices|ids)$")


@dataclass
class _Places:
    """The indices that a call computes for `mask`. `names` has a tensor for each dimension, or one tensor with `rows`.

    If `together` is true, a single name has the tuple with the tensors of all dimensions. `text` is the mask's code,
    and `rank` is its number of dimensions, if known.
    """

    mask: ast.expr
    names: tuple[str, ...]
    rows: bool
    text: str
    rank: int | None
    together: bool = False
    edits: list[rw.Change] = field(default_factory=list)
    flow: NumberFlow = field(default_factory=NumberFlow)
    leaves: dict[str, None] = field(default_factory=dict)


def listed_tensor(event: Call) -> tuple[ast.expr | None, bool]:
    """Return the tensor whose nonzero indices a call computes, and whether it returns one tensor per dimension."""
    node, name = event.node, event.callee.rpartition(".")[2]
    method = event.callee.startswith("Tensor.")
    given = [*([node.func.value] if method and isinstance(node.func, ast.Attribute) else []), *node.args]
    options = {one.arg: isinstance(one.value, ast.Constant) and one.value.value for one in node.keywords}
    if len(given) != 1 or isinstance(given[0], ast.Starred):
        return None, False
    if name == "where" and not options:
        return given[0], True
    plain = name == "argwhere" and not options
    if plain or (name == "nonzero" and options in ({}, {"as_tuple": False}, {"as_tuple": True})):
        return given[0], options.get("as_tuple", False) is True
    return None, False


def masked_instead(scope: Scope, event: Call) -> Rewrite | None:
    """Return the rewrite of named indices that are only used to index or to count, or None if they have other uses."""
    statement = event.statement
    mask, apart = listed_tensor(event)
    known = _tensor_given(scope, event, mask) if mask is not None else None
    if mask is None or known is None or not isinstance(statement, ast.Assign) or not is_pure(scope, mask):
        return None
    if _is_cut(scope, mask):
        return None
    names, rows = names_of(scope, statement, event.node, apart=apart)
    only = statement.targets[0]
    together = not names and apart and statement.value is event.node and isinstance(only, ast.Name)
    names = (only.id,) if together and isinstance(only, ast.Name) else names
    if not names or not all(is_bound_once(scope, name) for name in names):
        return None
    named = isinstance(mask, ast.Name) and _is_kept(scope, mask.id)
    kept = known.dtype == "bool" and (named or _is_used_next(scope, statement, names))
    text = scope.text(mask) if kept else _name_for_mask(scope, names)
    places = _Places(mask, names, rows, text, known.rank, together)
    if not all(_replace(scope, places, load) for name in names for load in loads(scope, name)):
        return None
    made = [] if kept else [f"{text} = {mask_text(scope, mask, known)}"]
    edits = rw.written(scope.file, (statement, made), *places.edits, *places.flow.edits)
    flow, leaves = places.flow, (*places.flow.leaves, *places.leaves)
    title = "Use the mask instead of the indices"
    return Rewrite(title, flow.safety, edits, flow.clauses, scope.imports, tuple(dict.fromkeys(leaves)))


def _tensor_given(scope: Scope, event: Call, mask: ast.expr) -> k.Tensor | None:
    """Return what is known about the tensor whose indices are computed. Functions of torch only accept tensors."""
    known = scope.tensor(mask)
    if known is None and event.callee.startswith("torch.") and isinstance(scope.kind(mask), k.Unknown):
        return k.BOOL_TENSOR if isinstance(mask, ast.Compare) else k.TENSOR
    return known


def names_of(scope: Scope, statement: ast.Assign, node: ast.expr, *, apart: bool) -> tuple[tuple[str, ...], bool]:
    """Return the names that a statement assigns the indices to, and whether a single name holds all dimensions."""
    target = statement.targets[0] if len(statement.targets) == 1 else None
    if isinstance(target, ast.Tuple | ast.List) and apart and statement.value is node:
        names = [one.id for one in target.elts if isinstance(one, ast.Name)]
        return (tuple(names) if len(names) == len(target.elts) == len(set(names)) else ()), False
    if not isinstance(target, ast.Name):
        return (), False
    if statement.value is node and not apart:
        return (target.id,), True
    # The indices of a one-dimensional mask, as in `torch.where(mask)[0]` or `mask.nonzero().flatten()`.
    flat = ("[0]",) if apart else ("[:, 0]", *(f".{one}" for one in _FLATTENED))
    whole = ast.unparse(statement.value) in {f"{ast.unparse(node)}{after}" for after in flat}
    return ((target.id,) if whole and node in walk(statement.value) else ()), False


def _name_for_mask(scope: Scope, names: tuple[str, ...]) -> str:
    stem = _INDEX.sub("", names[0])
    if stem.endswith("mask"):
        return stem if names == (stem,) else scope.fresh_name(stem)
    return scope.fresh_name(f"{stem}_mask".lstrip("_"))


def is_bound_once(scope: Scope, name: str) -> bool:
    """Return whether exactly one statement assigns to a local name, and none deletes it."""
    return has_one_value(scope, name) and name not in parameters(scope) and not is_shared(scope, name)


def _is_kept(scope: Scope, name: str) -> bool:
    """Return whether a name has the same value, with the same elements, in the whole function."""
    return has_one_value(scope, name) and not may_change_in_place(scope, name)


def _is_cut(scope: Scope, mask: ast.expr) -> bool:
    """Return whether a mask is computed from the first elements of a tensor, and so may be shorter than another."""
    value = only_value(scope, mask.id, mask) if isinstance(mask, ast.Name) else mask
    slices = [one for one in walk(value) if isinstance(one, ast.Slice)] if value is not None else []
    return any(one.upper is not None and not isinstance(one.upper, ast.UnaryOp) for one in slices)


def _is_used_next(scope: Scope, statement: ast.Assign, names: tuple[str, ...]) -> bool:
    """Return whether the only use of the indices is to set elements in the next statement, before anything changes."""
    uses = [load for name in names for load in loads(scope, name)]
    following = next(iter(around(scope.parents, statement)[1]), None)
    sets = isinstance(following, ast.Assign) and k.is_number(scope.kind(following.value))
    sets = sets and isinstance(following, ast.Assign) and is_pure(scope, following.value)
    return sets and len(uses) == 1 and statement_of(scope, uses[0]) is following


def mask_text(scope: Scope, mask: ast.expr, known: k.Tensor) -> str:
    """Return a mask's text, copied if its inputs change later in a way that would affect it."""
    text = scope.text(mask)
    if known.dtype != "bool":
        return f"{atom(mask, text)} != 0"
    new = isinstance(mask, ast.Compare | ast.BinOp | ast.UnaryOp) or makes_tensor(scope, mask)
    return text if new else f"{atom(mask, text)}.clone()"


def _replace(scope: Scope, places: _Places, load: ast.Name) -> bool:
    """Record the replacement for a use of the indices, and return False if it neither indexes nor counts."""
    asked = count_of(scope, load)
    if places.together:
        return asked is None and _indexed(scope, places, load)
    if asked is not None:
        return _counted(scope, places, asked)
    return _asked_for_dimensions(scope, places, load) or _filled(scope, places, load) or _indexed(scope, places, load)


def _asked_for_dimensions(scope: Scope, places: _Places, load: ast.Name) -> bool:
    """Return whether a test asks if the indices have dimensions, which is as true of the mask."""
    test: ast.AST = load
    while isinstance(test, ast.expr) and not isinstance(test, ast.Compare):
        test = scope.parents[test]
    asked = [f"{load.id}.{size} {sign}" for size in ("dim()", "ndim", "ndimension()") for sign in ("> 0", "!= 0")]
    if ast.unparse(test) not in asked or places.rank == 0:
        return False
    if places.rank is None:
        places.flow.conditions[f"{scope.quote(places.mask)} has one dimension"] = None
    places.edits.append((load, places.text))
    return True


def _filled(scope: Scope, places: _Places, load: ast.Name) -> bool:
    """Return whether the indices are those of an `x.index_fill_(0, indices, number)`, which a masked store replaces."""
    statement = statement_of(scope, load)
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or len(call.args) != 3:
        return False
    flat = (load.id, *(f"{load.id}.{one}" for one in (*_FLATTENED, "squeeze()")))
    written = [ast.unparse(one) for one in call.args[:2]]
    if (
        callee(scope, call) != "Tensor.index_fill_"
        or written[0] != "0"
        or written[1] not in flat
        or not (k.is_number(scope.kind(call.args[2])) and places.rank in (None, 1))
    ):
        return False
    filled = call.func.value
    _require_shape(scope, places, filled, 1)
    places.edits.append((statement, [f"{scope.text(filled)}[{places.text}] = {scope.text(call.args[2])}"]))
    return True


def _counted(scope: Scope, places: _Places, asked: Count) -> bool:
    if asked.elements and places.rows:
        test = scope.parents.get(asked.node)
        sides = (test.left, *test.comparators) if isinstance(test, ast.Compare) else ()
        if places.rank == 0 or not any(ast.unparse(side) == "0" for side in sides):
            return False
        if places.rank is None:
            places.flow.conditions[f"{scope.quote(places.mask)} has at least one dimension"] = None
    flow = flow_of(scope, asked.node, "int", wide=True)
    places.edits.append((asked.node, f"{scope.torch}.count_nonzero({places.text})"))
    places.flow.conditions |= flow.conditions
    places.flow.changes |= flow.changes
    places.flow.edits += flow.edits
    places.flow.leaves = places.flow.leaves or flow.leaves
    return True


def _indexed(scope: Scope, places: _Places, load: ast.Name) -> bool:
    """Return whether the indices are the whole index of a read or a store, so that the mask can replace them."""
    read, dimensions = _read_by(scope, places, load)
    if read is None or places.rank not in (None, dimensions):
        return False
    statement = statement_of(scope, read)
    stores = isinstance(statement, ast.Assign | ast.AugAssign) and _stores_selected(scope, places, statement)
    if isinstance(read.ctx, ast.Load):
        if read.slice is load and places.rows and not stores:  # the elements would have another dimension
            return False
        places.leaves[_STORED if stores else _SELECTED] = None
    elif isinstance(statement, ast.AugAssign):
        places.leaves[_STORED] = None
    elif not isinstance(statement, ast.Assign) or not (stores or k.is_number(scope.kind(statement.value))):
        return False
    _require_shape(scope, places, read.value, dimensions)
    index = rw.name(places.text) if places.text.isidentifier() else rw.kept(scope.file, places.mask)
    places.edits.append((read, rw.item(rw.kept(scope.file, read.value), index)))
    return True


def _require_shape(scope: Scope, places: _Places, tensor: ast.expr, dimensions: int) -> None:
    """Add the conditions for a mask that is an index for the first dimensions of a tensor."""
    mask = scope.quote(places.mask)
    if places.rank is None and not places.together:
        many = "one dimension" if dimensions == 1 else f"{dimensions} dimensions"
        places.flow.conditions[f"{mask} has {many}"] = None
    places.flow.conditions[f"{mask} has the same size as {scope.quote(tensor)} in each of the mask's dimensions"] = None


def _stores_selected(scope: Scope, places: _Places, statement: ast.Assign | ast.AugAssign) -> bool:
    """Return whether a statement only stores elements through the indices that it also reads through them."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    stored, read = (
        [_read_by(scope, places, one)[0] for one in walk(part) if isinstance(one, ast.Name) and one.id in places.names]
        for part in (targets[0], statement.value)
    )
    return len(targets) == 1 and targets[0] in stored and bool(read) and None not in read


def _read_by(scope: Scope, places: _Places, load: ast.Name) -> tuple[ast.Subscript | None, int]:
    """Return the `x[...]` that uses the indices in order, and how many dimensions they have."""
    direct = scope.parents.get(load)
    if (places.rows or places.together) and isinstance(direct, ast.Subscript) and direct.slice is load:
        return direct, (places.rank or 1) if places.together else 1  # rows: for a mask with one dimension
    part: ast.AST | None = scope.parents[load] if places.rows else load
    outer = scope.parents.get(part) if part is not None else None
    parts = outer.elts if isinstance(outer, ast.Tuple) else [part]
    read = scope.parents.get(outer) if isinstance(outer, ast.Tuple) else outer
    if not isinstance(read, ast.Subscript) or read.slice not in (outer, part):
        return None, 0
    wanted = [f"{places.names[0]}[:, {number}]" for number in range(len(parts))] if places.rows else [*places.names]
    given = [ast.unparse(one) for one in parts if one is not None]
    return (read, len(parts)) if given == wanted else (None, 0)
