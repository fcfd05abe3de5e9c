"""Rows that a mask picks out, are computed on and put back, as a mixture of experts does: compute on all, and choose.

(rows,) = torch.where(best == index)         rows_mask = best == index
out.index_add_(0, rows, expert(x[rows]))     out.add_(torch.where(rows_mask[:, None], expert(x), 0))
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call
from dynalint.rules import Replacement, Rewrite
from dynalint_rules._shared.counts import count_of
from dynalint_rules._shared.effects import effects_of
from dynalint_rules._shared.guard import taken_out
from dynalint_rules._shared.names import loads
from dynalint_rules._shared.places import is_bound_once, listed_tensor, mask_text, names_of
from dynalint_rules._shared.scope import Scope
from dynalint_rules._shared.sides import FINITE

_CHANGES = ("every row is computed, and by itself, also where the mask leaves it out", FINITE)
_NO_ROW = "what was not called where there was no row is, and has gradients of zero instead of none"
# What computes each element, or each row, by itself.
_ROWWISE = frozenset("relu gelu silu sigmoid tanh leaky_relu elu mish linear".split())
_CONVERTING = frozenset({"to", "type_as", "float", "half", "double", "bfloat16"})


@dataclass
class _Dispatch:
    """The edits so far; `computed` are the values that are computed of the rows, `put` those that are put back.

    `skipped` tells that a test for whether there are any rows was taken out.
    """

    scope: Scope
    mask: str
    edits: list[Replacement] = field(default_factory=list)
    computed: dict[ast.expr, None] = field(default_factory=dict)
    put: list[ast.expr] = field(default_factory=list)
    skipped: bool = False

    def replace(self, start: int, end: int, text: str) -> None:
        self.edits.append(Replacement(self.scope.file, start, end, text))

    def choose(self, value: ast.expr, otherwise: str) -> None:
        """Put a choice around a value that is put back."""
        start, end = self.scope.file.span(value)
        self.replace(start, start, f"{self.scope.torch}.where({self.mask}[:, None], ")
        self.replace(end, end, f", {otherwise})")
        self.put.append(value)


def computed_for_all(scope: Scope, event: Call) -> Rewrite | None:
    """The rewrite of rows that are computed on and put back; None where something else is done with them.

    Raises:
        Refusal: computing them for all does more than give values.
    """
    statement, (mask, apart) = event.statement, listed_tensor(event)
    known = scope.tensor(mask) if mask is not None else None
    if mask is None or known is None or known.rank not in (None, 1) or not isinstance(statement, ast.Assign):
        return None
    names, rows = names_of(scope, statement, event.node, apart=apart)
    if rows or len(names) != 1 or not is_bound_once(scope, names[0]):
        return None
    dispatch = _Dispatch(scope, scope.fresh_name(f"{names[0]}_mask"))
    if not all(_use(dispatch, load) for load in loads(scope, names[0])) or not dispatch.put:
        return None
    effects_of(scope, [mask, *dispatch.computed, *dispatch.put])
    dispatch.replace(*scope.file.span(statement), f"{dispatch.mask} = {mask_text(scope, mask, known)}")
    shapes = f"{scope.quote(mask)} has one dimension, what it picks from as many rows, and what is put back two"
    conditions = (*_CHANGES, *([_NO_ROW] if dispatch.skipped else []), shapes)
    title = "Compute all rows, and choose by the mask"
    return Rewrite(title, "unsafe", tuple(dispatch.edits), conditions, scope.imports)


def _use(dispatch: _Dispatch, load: ast.Name) -> bool:
    """Note what stands for one use of the rows; False where it is none of those that the rewrite knows."""
    scope, parent = dispatch.scope, dispatch.scope.parents[load]
    asked = count_of(scope, load)
    if asked is not None:
        return _skipped(dispatch, asked.node)
    if isinstance(parent, ast.Call):
        return _added(dispatch, parent, load)
    read = scope.parents[parent] if isinstance(parent, ast.Tuple) else parent
    if not isinstance(read, ast.Subscript) or read.slice not in (load, parent):
        return False
    if not isinstance(read.ctx, ast.Load):
        return read.slice is load and _stored(dispatch, read)
    if isinstance(parent, ast.Tuple):
        # `weights[rows, None]`, `weights[rows, index]`
        others = [one for one in parent.elts if one is not load]
        if parent.elts[0] is not load or not all(isinstance(one, ast.Slice) or _is_plain(scope, one) for one in others):
            return False
        dispatch.replace(*scope.file.span(load), ":")
    else:
        dispatch.replace(scope.file.span(read.value)[1], scope.file.span(read)[1], "")
    return _follow(dispatch, read)


def _is_plain(scope: Scope, index: ast.expr) -> bool:
    kind = scope.kind(index)
    return isinstance(kind, k.Value) and kind.type in ("int", "none")


def _skipped(dispatch: _Dispatch, count: ast.expr) -> bool:
    """Take out `if rows.numel() == 0: continue`."""
    scope = dispatch.scope
    test = scope.parents[count]
    skip = scope.parents.get(test)
    zero = isinstance(test, ast.Compare) and ast.unparse(test) == f"{ast.unparse(count)} == 0"
    if not zero or not isinstance(skip, ast.If) or skip.test is not test or skip.orelse:
        return False
    if len(skip.body) != 1 or not isinstance(skip.body[0], ast.Continue):
        return False
    dispatch.skipped = True
    dispatch.edits += taken_out(scope, skip, "", "unsafe").replacements
    return True


def _added(dispatch: _Dispatch, call: ast.Call, load: ast.Name) -> bool:
    """Rewrite `out.index_add_(0, rows, value)`, a statement of its own."""
    scope, function = dispatch.scope, call.func
    if not isinstance(function, ast.Attribute) or function.attr != "index_add_" or call.keywords:
        return False
    if len(call.args) != 3 or call.args[1] is not load or ast.unparse(call.args[0]) != "0":
        return False
    if not isinstance(scope.parents[call], ast.Expr):
        return False
    start, value = scope.file.span(function.value)[1], call.args[2]
    dispatch.replace(start, scope.file.span(value)[0], ".add_(")
    dispatch.choose(value, "0")
    return True


def _stored(dispatch: _Dispatch, target: ast.Subscript) -> bool:
    """Rewrite `out[rows] = value` and `out[rows] += value`."""
    scope, statement = dispatch.scope, dispatch.scope.parents[target]
    if isinstance(statement, ast.Assign) and statement.targets == [target]:
        dispatch.choose(statement.value, scope.text(target.value))
    elif isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
        dispatch.choose(statement.value, "0")
    else:
        return False
    dispatch.replace(*scope.file.span(target.slice), "...")
    return True


def _follow(dispatch: _Dispatch, node: ast.expr) -> bool:
    """Whether what is computed of the rows, each by itself, goes nowhere but back to their places."""
    scope, parent = dispatch.scope, dispatch.scope.parents[node]
    if isinstance(parent, ast.BinOp) and not isinstance(parent.op, ast.MatMult):
        return _follow(dispatch, parent)
    if isinstance(parent, ast.Attribute) and parent.attr in _CONVERTING:
        outer = scope.parents[parent]
        return isinstance(outer, ast.Call) and outer.func is parent and _follow(dispatch, outer)
    if isinstance(parent, ast.Call) and parent.args[:1] == [node]:
        return _puts_back(parent, node) or (_is_rowwise(scope, parent) and _follow(dispatch, parent))
    if isinstance(parent, ast.Call):
        return _puts_back(parent, node)
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1:
        target = parent.targets[0]
        if isinstance(target, ast.Name) and is_bound_once(scope, target.id):
            dispatch.computed[parent.value] = None
            return all(_follow(dispatch, load) for load in loads(scope, target.id))
        return isinstance(target, ast.Subscript)
    return isinstance(parent, ast.AugAssign) and isinstance(parent.target, ast.Subscript)


def _puts_back(call: ast.Call, value: ast.expr) -> bool:
    function = call.func
    return isinstance(function, ast.Attribute) and function.attr == "index_add_" and call.args[2:] == [value]


def _is_rowwise(scope: Scope, call: ast.Call) -> bool:
    """Whether a call is one of a module, or of a function that computes each row by itself."""
    kind = scope.kind(call.func)
    if isinstance(kind, k.External):
        return kind.name.rpartition(".")[2] in _ROWWISE
    return all(isinstance(one, k.Object | k.Instance) for one in kind.members)
