"""Elements or rows that are selected by a mask, processed independently, and then reduced to a loss.

scores = self.head(h[known])                scores = self.head(h)
return F.mse_loss(scores, y[known])         loss = F.mse_loss(scores, y, reduction="none").mean(-1)
                                            return torch.where(known, loss, 0).sum() / known.sum()
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dynalint.rulekit import Refusal, Rewrite, Safety, k, rw, walk, walk_function
from dynalint_rules._code.calls import callee
from dynalint_rules._code.counts import count_of
from dynalint_rules._code.effects import is_pure
from dynalint_rules._code.names import end_of, has_one_value, loads, only_value, parameters, stores
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.selection import Selection, is_selected, selection_of
from dynalint_rules._code.sharing import may_change_in_place
from dynalint_rules._shared.branch.branch_values import FINITE
from dynalint_rules._shared.branch.domain import guarded_operands
from dynalint_rules._shared.mask.selected_losses import Loss, loss_of
from dynalint_rules._shared.mask.trailing_dimensions import is_certain, row_size, trailing
from dynalint_rules._shared.number.numbers import flow_of

if TYPE_CHECKING:
    import libcst as cst

OTHER_ORDER = "the sum is computed in a different order, so it is equal up to rounding"
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)
_COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
ELEMENTWISE = frozenset(
    "abs square pow neg log log1p log2 log10 exp expm1 sqrt rsqrt sin cos tan tanh sigmoid relu reciprocal "
    "clamp clip float double add sub mul div gelu silu softplus detach".split()
)
_SELECTING = frozenset({"torch.masked_select", "Tensor.masked_select"})
_APART = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Expr, ast.Assert, ast.Raise, ast.Delete, *_APART)
# Values that these masks exclude are usually NaN or infinite, and so are their gradients.
_NO_NUMBERS = frozenset({"isnan", "isinf", "isfinite"})


def reduced_at_last(scope: Scope, read: Selection) -> Rewrite | None:
    """Return the rewrite of all selections with a mask in a function's body, or None if the mask has other uses."""
    chain = _Chain(scope, read)
    if not chain.is_stable() or not chain.follow():
        return None
    chain = _Chain(scope, read, rows=chain.rows)
    chain.follow()
    chain.write()
    title = "Compute with all elements, and reduce with zeros where the mask is false"
    flows = [flow_of(scope, count, "int", wide=True) for count in chain.counts]
    edits = rw.written(scope.file, *chain.edits, *(edit for flow in flows for edit in flow.edits))
    shape = f"{scope.quote(read.mask)} covers the first dimensions of the tensor that it selects from"
    clauses = dict.fromkeys([shape, OTHER_ORDER, FINITE, *(clause for flow in flows for clause in flow.clauses)])
    safety: Safety = "unsafe" if any(flow.changes for flow in flows) else "conditional"
    imports = dict.fromkeys([*scope.imports, *(one for flow in flows for one in flow.imports)])
    leaves = dict.fromkeys(code for flow in flows for code in flow.leaves)
    ranks = not chain.is_certain()
    return Rewrite(title, safety, edits, tuple(clauses), tuple(imports), tuple(leaves), ranks=ranks)


@dataclass
class _Reduction:
    """A call that reduces the selected values to one number. They have `own` dimensions per element of the mask."""

    values: ast.expr
    name: str
    own: int


@dataclass
class _Chain:
    """The replacement for all selections with a mask.

    `rows` is true if rows are selected. `names` maps the names of selected elements to their number of dimensions per
    mask element. `known` contains all of these names, including names that get another value later. `joined` are
    selections that are combined with others elementwise, `kept` are the values of the names, and `counts` are
    expressions that only count the selected elements.
    """

    scope: Scope
    read: Selection
    rows: bool = False
    names: dict[str, int] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    edits: list[rw.Change] = field(default_factory=list)
    selections: list[tuple[Selection, int]] = field(default_factory=list)
    reduced: dict[ast.Call, _Reduction] = field(default_factory=dict)
    losses: dict[ast.Call, tuple[Loss, dict[ast.expr, int]]] = field(default_factory=dict)
    joined: set[ast.expr] = field(default_factory=set)
    kept: list[ast.expr] = field(default_factory=list)
    counts: list[ast.expr] = field(default_factory=list)
    risky: bool = False

    def is_stable(self) -> bool:
        """Return whether the mask has the same value wherever the rewrite uses it."""
        scope, mask = self.scope, self.read.mask
        if scope.tensor(mask) is None or not is_pure(scope, mask):
            return False
        first = (self.read.node.lineno, self.read.node.col_offset)
        read = {ast.unparse(one) for one in walk(mask) if isinstance(one, ast.Attribute)}
        for one in walk_function(scope.function.node):
            if isinstance(one, ast.Attribute) and not isinstance(one.ctx, ast.Load) and ast.unparse(one) in read:
                return False
        for name in {one.id for one in walk(mask) if isinstance(one, ast.Name)}:
            later = any((one.lineno, one.col_offset) > first for one in stores(scope, name))
            if later or may_change_in_place(scope, name):
                return False
        return True

    def is_certain(self) -> bool:
        """Return whether the code shows the number of dimensions per mask element, if it matters."""
        labels = [loss.operands[1] for loss, _ in self.losses.values() if loss.function == "cross_entropy"]
        scored = bool(labels) and len(labels) == len(self.losses) and not self.reduced
        own = [one for one, size in self.selections if not scored or size == 0]
        shown = {
            one.node for one in own if isinstance(one.node, ast.Call) or is_certain(self.scope, one.source, one.mask)
        }
        return all(one.node in shown or (shown and one.node in self.joined) for one in own)

    def follow(self) -> bool:
        """Follow the statements of the function. Return whether the rewrite covers all reads of selected elements."""
        scope = self.scope
        for statement in self._statements():
            selections = [one for one in self._selections(statement) if _is_same(one, self.read)]
            uses = [one for one in walk(statement) if isinstance(one, ast.Name) and one.id in self.names]
            if (selections or uses) and not self._reads(statement, selections):
                return False
            if isinstance(statement, ast.Assign) and not (self.kept and self.kept[-1] is statement.value):
                for target in statement.targets:
                    self.names.pop(getattr(target, "id", ""), None)
        computed = [*self.kept, *self.losses, *(one.values for one in self.reduced.values())]
        try:
            self.risky = any([bool(guarded_operands(scope, value)) for value in computed])  # noqa: C419 - all may raise
        except Refusal:
            return False
        own = {id(one) for one in walk_function(scope.function.node)}
        ends = bool(self.reduced) or bool(self.losses) or bool(self.counts)
        whole = all(set(reached) == set(loss.operands) for loss, reached in self.losses.values())
        return ends and whole and all(id(one) in own for name in self.known for one in loads(scope, name))

    def _statements(self) -> Iterator[ast.stmt | ast.expr]:
        """Yield the simple statements in order, and the expressions at the start of other statements."""
        waiting: list[ast.AST] = list(self.scope.function.statements)
        while waiting:
            node = waiting.pop(0)
            if isinstance(node, (ast.expr, *_SIMPLE)):
                yield node
            else:
                waiting[:0] = ast.iter_child_nodes(node)

    def _selections(self, statement: ast.stmt | ast.expr) -> Iterator[Selection]:
        yield from (found for node in walk(statement) if (found := self._selection(node)) is not None)

    def _selection(self, node: ast.AST) -> Selection | None:
        """Return what an expression selects, or None if it is neither `x[mask]` nor a `masked_select`."""
        called = isinstance(node, ast.Call) and callee(self.scope, node) in _SELECTING
        read = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)
        return selection_of(node) if isinstance(node, ast.Subscript | ast.Call) and (called or read) else None

    def _reads(self, statement: ast.stmt | ast.expr, selections: list[Selection]) -> bool:
        """Process a statement, and return whether it only computes elementwise or reduces."""
        if isinstance(statement, _APART):
            return False
        nodes: dict[ast.expr, int] = {}
        for one in selections:
            if self.scope.tensor(one.source) is None and not isinstance(self.scope.kind(one.source), k.Unknown):
                return False
            if not self._keeps(one.source) or is_selected(self.scope, one.source):
                return False
            apart = isinstance(one.node, ast.Call)  # `masked_select` broadcasts the mask
            own = 0 if apart else trailing(self.scope, one.source, one.mask)
            nodes[one.node] = own if own or not self.rows or apart else self._size_met(one.node)
            self.selections.append((one, nodes[one.node]))
        nodes |= {
            one: self.names[one.id] for one in walk(statement) if isinstance(one, ast.Name) and self._is_read(one)
        }
        kept = [self._climb(node, statement, own) for node, own in nodes.items()]
        if None in kept:
            return False
        values = [one for one in kept if one is not None and one >= 0]
        if values:
            if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or len(values) < len(kept):
                return False
            target = statement.targets[0]
            if not isinstance(target, ast.Name) or not self._is_new(target):
                return False
            self.names[target.id] = max(values)
            self.known.add(target.id)
            self.kept.append(statement.value)
        return True

    def _size_met(self, node: ast.expr) -> int:
        """Return the number of dimensions per item for a layer to which selected elements are passed directly."""
        parent = self.scope.parents[node]
        return row_size(self.scope, parent.func) if isinstance(parent, ast.Call) and parent.args == [node] else 0

    def _keeps(self, source: ast.expr) -> bool:
        """Return whether a tensor is never changed in place. A change does not affect elements selected earlier."""
        names = {one.id for one in walk(source) if isinstance(one, ast.Name)}
        return not any(may_change_in_place(self.scope, name) for name in names)

    def _is_read(self, node: ast.Name) -> bool:
        return node.id in self.names and isinstance(node.ctx, ast.Load)

    def _is_new(self, target: ast.Name) -> bool:
        """Return whether the order of statements shows where a name has this value."""
        function = self.scope.function
        stored = list(stores(self.scope, target.id))
        top = [one.targets for one in function.statements if isinstance(one, ast.Assign)]
        alone = stored == [target] and target.id not in parameters(self.scope)
        return target.id in function.locals and (alone or all([one] in top for one in stored))

    def _climb(self, node: ast.expr, statement: ast.stmt | ast.expr, own: int) -> int | None:
        """Return the number of dimensions per mask element if a statement only uses an operand elementwise.

        The result is -1 if the operand is reduced, and None for any other use.
        """
        scope = self.scope
        parent, count = scope.parents[node], count_of(scope, node)
        if count is not None and not (count.elements and own):
            self.counts.append(count.node)
            return -1
        if parent is statement:
            return own if isinstance(statement, ast.Assign) else None
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, _OPERATORS):
            other = parent.right if node is parent.left else parent.left
            return self._climb(parent, statement, own) if self._goes_along(other, own) else None
        if isinstance(parent, ast.Compare) and isinstance(parent.ops[0], _COMPARISONS):
            other = parent.comparators[0] if node is parent.left else parent.left
            along = len(parent.ops) == 1 and self._goes_along(other, own)
            return self._climb(parent, statement, own) if along else None
        if isinstance(parent, ast.Call):
            return self._argument(parent, node, statement, own)
        call = scope.parents.get(parent)
        if isinstance(parent, ast.Attribute) and isinstance(call, ast.Call) and call.func is parent:
            return self._method(call, parent, statement, own)
        return None

    def _argument(self, call: ast.Call, node: ast.expr, statement: ast.stmt | ast.expr, own: int) -> int | None:
        """Do the same as `_climb` for an argument of a function or layer."""
        name = callee(self.scope, call)
        short = name.rpartition(".")[2]
        if call.args == [node] and not call.keywords and (size := row_size(self.scope, call.func)):
            self.rows = True
            return self._climb(call, statement, max(own, size))
        loss = loss_of(self.scope, call)
        if loss is not None and node in loss.operands:
            self.losses.setdefault(call, (loss, {}))[1][node] = own
            self.joined.add(node)
            return -1
        if call.args == [node] and not call.keywords and name in ("torch.sum", "torch.mean"):
            return self._reduce(call, node, short, own)
        elementwise = name.startswith("torch.") and short in ELEMENTWISE
        return self._climb(call, statement, own) if elementwise and self._all_along(call, node, own) else None

    def _all_along(self, call: ast.Call, node: ast.expr | None, own: int) -> bool:
        """Return whether all other arguments have values for the same elements as `node`."""
        given = [*(one for one in call.args if one is not node), *(one.value for one in call.keywords)]
        return all(self._goes_along(one, own) for one in given)

    def _method(self, call: ast.Call, method: ast.Attribute, statement: ast.stmt | ast.expr, own: int) -> int | None:
        """Do the same as `_climb` for the receiver of a method."""
        if method.attr in ("sum", "mean") and not call.args and not call.keywords:
            return self._reduce(call, method.value, method.attr, own)
        elementwise = method.attr in ELEMENTWISE and self._all_along(call, None, own)
        return self._climb(call, statement, own) if elementwise else None

    def _goes_along(self, node: ast.expr, own: int) -> bool:
        """Return whether an operand consists only of selected elements and numbers, or belongs to the module."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, _OPERATORS):
            return self._goes_along(node.left, own) and self._goes_along(node.right, own)
        if isinstance(node, ast.Call) and not node.keywords:
            owner, _, name = callee(self.scope, node).partition(".")
            receiver = [node.func.value] if owner == "Tensor" and isinstance(node.func, ast.Attribute) else []
            if name in ELEMENTWISE and owner in ("Tensor", "torch"):
                return all(self._goes_along(one, own) for one in (*receiver, *node.args))
        tensor = self.scope.tensor(node)
        selection = self._selection(node)
        if selection is not None and _is_same(selection, self.read):
            self.joined.add(node)
            return True
        if (isinstance(node, ast.Name) and self._is_read(node)) or k.is_number(self.scope.kind(node)):
            return True
        return tensor is not None and (tensor.rank == 0 or (own > 0 and tensor.origin is not None))

    def _reduce(self, call: ast.Call, values: ast.expr, name: str, own: int) -> int:
        found = self.reduced.setdefault(call, _Reduction(values, name, own))
        found.own = max(found.own, own)
        return -1

    @property
    def _mask(self) -> cst.BaseExpression:
        return rw.kept(self.scope.file, self.read.mask)

    def _mask_over(self, own: int) -> cst.BaseExpression:
        """Return the mask with a dimension added for each dimension per element."""
        if not own:
            return self._mask
        written = self.scope.text(self.read.mask)
        named = isinstance(self.read.mask, ast.Name | ast.Attribute)
        return rw.expression(f"{written if named else f'({written})'}[..., {', '.join(['None'] * own)}]")

    def write(self) -> None:
        """Write the replacements for the selections and their reductions."""
        scope, mask = self.scope, self.read.mask
        value = only_value(scope, mask.id, mask) if isinstance(mask, ast.Name) else mask
        asked = {one.attr for one in walk(value) if isinstance(one, ast.Attribute)} if value is not None else set()
        risky = self.risky or not asked.isdisjoint(_NO_NUMBERS)
        for one, own in self.selections:
            source: cst.BaseExpression = rw.kept(scope.file, one.source)
            if risky and one.node not in [found.values for found in self.reduced.values()]:
                # Elements that are not selected must be excluded even if they are NaN. Otherwise, their gradients would
                # be NaN.
                source = rw.call(f"{scope.torch}.where", self._mask_over(own), source, rw.number(1))
                self.edits.append((one.node, source))
            else:
                self.edits += self._without_name(one) or [(one.node, source)]
        for call, found in self.reduced.items():
            values = rw.kept(scope.file, found.values)
            self.edits.append((call, self._total(values, found.name, found.own)))
        for call, (loss, reached) in self.losses.items():
            own = max(reached.values())
            if loss.function == "cross_entropy":
                self.edits += loss.with_ignored(scope, call, mask, value)
            else:
                self.edits.append((call, self._total(loss.of_each(scope, call), loss.reduction, own)))
        self.edits += [(count, rw.method(self._mask, "sum")) for count in self.counts]
        self._drop_mask()

    def _without_name(self, one: Selection) -> list[rw.Change]:
        """Return the changes that remove a name for selected elements because another name now has its value.

        Elements that are only counted do not need a name either. The result is empty if the name stays.
        """
        scope, statement = self.scope, self.scope.parents[one.node]
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            return []
        name, source = statement.targets[0].id, getattr(one.source, "id", "")
        uses = [use for use in loads(scope, name) if (use.lineno, use.col_offset) > end_of(statement)]
        uses = [use for use in uses if (count := count_of(scope, use)) is None or count.node not in self.counts]
        if not uses or source == name:
            return [(statement, [])]
        alone = [statement] in (getattr(scope.parents.get(statement), block, None) for block in ("body", "orelse"))
        if alone or not has_one_value(scope, name) or not has_one_value(scope, source):
            return []
        return [(statement, []), *((use, rw.kept(scope.file, one.source)) for use in uses)]

    def _total(self, values: cst.BaseExpression, name: str, own: int) -> cst.BaseExpression:
        """Return the reduction of `values` over the full shape."""
        if name == "mean":
            values = rw.method(values, "flatten", rw.number(-own)) if own > 1 else values
            values = rw.method(values, "mean", rw.number(-1)) if own else values
        over = self._mask_over(own if name == "sum" else 0)
        total = rw.method(rw.call(f"{self.scope.torch}.where", over, values, rw.number(0)), "sum")
        return total if name == "sum" else rw.operation(total, "/", rw.method(self._mask, "sum"))

    def _drop_mask(self) -> None:
        """Remove a mask that was only created for a loss, because the loss now ignores the label instead."""
        scope, mask = self.scope, self.read.mask
        if not isinstance(mask, ast.Name) or any(loss.keeps_mask for loss, _ in self.losses.values()):
            return
        if self.reduced or self.risky or len(list(loads(scope, mask.id))) > len(self.selections):
            return
        made = only_value(scope, mask.id, mask)
        statement = scope.parents.get(made) if made is not None else None
        if isinstance(statement, ast.Assign):
            self.edits.append((statement, []))


def _is_same(one: Selection, other: Selection) -> bool:
    return ast.dump(one.mask) == ast.dump(other.mask)
