"""Follow elements or rows that a mask selects, while each is processed by itself, up to where they are reduced."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from dynalint.rulekit import Refusal, k, walk, walk_function
from dynalint_rules._code.calls import callee
from dynalint_rules._code.counts import count_of
from dynalint_rules._code.effects import is_pure
from dynalint_rules._code.names import lineage, loads, parameters, stores
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.selection import Selection, is_selected, selection_of
from dynalint_rules._code.sharing import may_change_in_place
from dynalint_rules._shared.branch.domain import guarded_operands
from dynalint_rules._shared.mask.selected_losses import Loss, loss_of
from dynalint_rules._shared.mask.trailing_dimensions import is_certain, row_size, trailing

_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)
_COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
ELEMENTWISE = frozenset(
    "abs square pow neg log log1p log2 log10 exp expm1 sqrt rsqrt sin cos tan tanh sigmoid relu reciprocal "
    "clamp clamp_min clamp_max clip float double add sub mul div gelu silu softplus logsigmoid detach contiguous "
    "eq ne gt ge lt le".split()
)
# Functions that process each row by itself, with 1 if the result has the row's dimension, and 0 if it is reduced.
_PER_ROW = {
    **dict.fromkeys(("softmax", "log_softmax", "normalize"), 1),
    **dict.fromkeys(("sum", "mean", "norm", "logsumexp", "amax", "amin", "cosine_similarity"), 0),
}
# Those whose next positional argument after the tensors is not the dimension.
_BY_KEYWORD = frozenset({"norm", "normalize", "cosine_similarity"})
_SCALING = frozenset({"normalize", "cosine_similarity"})
_SELECTING = frozenset({"torch.masked_select", "Tensor.masked_select"})
_APART = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Expr, ast.Assert, ast.Raise, ast.Delete, *_APART)


@dataclass
class Reduction:
    """A call that reduces the selected values to one number, or to one row if it goes `over_rows`.

    They have `own` dimensions per element of the mask.
    """

    values: ast.expr
    name: str
    own: int
    over_rows: bool = False


@dataclass
class Chain:
    """The replacement for all selections with a mask.

    `names` maps the names of selected elements to their number of dimensions per mask element. `known` contains all of
    these names, including names that get another value later. `joined` are selections that are combined with others
    elementwise, `kept` are the values of the names, and `counts` maps expressions that only count selected elements to
    what they count. `direct` maps names of selected elements to the selections that they name. `dimensions` maps calls
    that work along dimension 1, the last one of selected rows, to the argument for it, if there is one.
    `scales` is true if rows are divided by their norm, whose gradient is NaN for a row of zeros in half precision.
    """

    scope: Scope
    read: Selection
    names: dict[str, int] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    selections: list[tuple[Selection, int]] = field(default_factory=list)
    reduced: dict[ast.Call, Reduction] = field(default_factory=dict)
    losses: dict[ast.Call, tuple[Loss, dict[ast.expr, int]]] = field(default_factory=dict)
    joined: set[ast.expr] = field(default_factory=set)
    kept: list[ast.expr] = field(default_factory=list)
    counts: dict[ast.expr, ast.expr] = field(default_factory=dict)
    direct: dict[str, Selection] = field(default_factory=dict)
    dimensions: dict[ast.Call, ast.expr | None] = field(default_factory=dict)
    risky: bool = False
    scales: bool = False

    def is_certain(self) -> bool:
        """Return whether the code shows the number of dimensions per mask element, if it matters."""
        labels = [loss.operands[1] for loss, _ in self.losses.values() if loss.takes_labels]
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
            held = self._reads(statement, selections) if selections or uses else {}
            if held is None:
                return False
            if isinstance(statement, ast.Assign):
                for target in statement.targets:
                    for one in walk(target):
                        self.names.pop(getattr(one, "id", ""), None)
            self.names |= held
        computed = [*self.kept, *self.losses, *(one.values for one in self.reduced.values())]
        try:
            self.risky = any([bool(guarded_operands(scope, value)) for value in computed])  # noqa: C419 - all may raise
            self.risky |= self.scales
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

    def _reads(self, statement: ast.stmt | ast.expr, selections: list[Selection]) -> dict[str, int] | None:
        """Process a statement that computes elementwise or reduces, and return what names it gives to elements.

        The result is None for any other statement.
        """
        if isinstance(statement, _APART):
            return None
        nodes: dict[ast.expr, int] = {}
        for one in selections:
            if self.scope.tensor(one.source) is None and not isinstance(self.scope.kind(one.source), k.Unknown):
                return None
            if not self._keeps(one) or not is_stable(self.scope, one) or is_selected(self.scope, one.source):
                return None
            nodes[one.node] = self._own(one)
            self.selections.append((one, nodes[one.node]))
        nodes |= {
            one: self.names[one.id] for one in walk(statement) if isinstance(one, ast.Name) and self._is_read(one)
        }
        held: dict[str, int] = {}
        for node, own in nodes.items():
            kept = self._climb(node, statement, own)
            if kept is None:
                return None
            if kept < 0:
                continue
            value = self._value_around(node, statement)
            target = _target_of(statement, value)
            if target is None or not self._is_new(target):
                return None
            held[target.id] = max(held.get(target.id, 0), kept)
            self.known.add(target.id)
            self.kept.append(value)
            self.direct.update((target.id, one) for one in selections if one.node is value)
        return held

    def _own(self, one: Selection) -> int:
        """Return how many dimensions each selected element has, as far as the code shows."""
        # `masked_select` broadcasts the mask.
        if isinstance(one.node, ast.Call):
            return 0
        own = trailing(self.scope, one.source, one.mask)
        return own or int(not is_certain(self.scope, one.source, one.mask) and self._are_rows(one.node))

    def _are_rows(self, node: ast.expr) -> bool:
        """Return whether code works along a dimension of selected elements, which shows that they are rows."""
        parent = self.scope.parents[node]
        called = self._method_of(node)
        if isinstance(parent, ast.BinOp | ast.UnaryOp):
            return self._are_rows(parent)
        if called is not None:
            call, name, operands = called[0], called[1].attr, [node]
        elif isinstance(parent, ast.Call) and node in parent.args[:2]:
            call, name, operands = parent, callee(self.scope, parent).rpartition(".")[2], parent.args[:2]
            operands = operands[: 2 if name == "cosine_similarity" else 1]
        else:
            return False
        if name in ELEMENTWISE:
            return self._are_rows(call)
        return name in _PER_ROW and node in operands and _dimension(call, name, operands)[0] in ("-1", "0", "1")

    def _value_around(self, node: ast.expr, statement: ast.stmt | ast.expr) -> ast.expr:
        """Return what a statement assigns that contains `node`: its value, or an item of its tuple."""
        while not self._is_item(node, statement):
            parent = self.scope.parents[node]
            if not isinstance(parent, ast.expr):
                break
            node = parent
        return node

    def _is_item(self, node: ast.expr, statement: ast.stmt | ast.expr) -> bool:
        parent = self.scope.parents[node]
        return isinstance(parent, ast.Tuple) and isinstance(statement, ast.Assign) and statement.value is parent

    def statement_of(self, node: ast.expr) -> ast.Assign | None:
        """Return the statement that assigns an expression, directly or as an item of a tuple."""
        parent = self.scope.parents[node]
        parent = self.scope.parents[parent] if isinstance(parent, ast.Tuple) else parent
        return parent if isinstance(parent, ast.Assign) else None

    def _keeps(self, one: Selection) -> bool:
        """Return whether a tensor is not changed in place later, which would not affect elements selected before."""
        names = {name.id for name in walk(one.source) if isinstance(name, ast.Name)}
        return not any(may_change_in_place(self.scope, name, one.node) for name in names)

    def _is_read(self, node: ast.Name) -> bool:
        return node.id in self.names and isinstance(node.ctx, ast.Load)

    def _is_new(self, target: ast.Name) -> bool:
        """Return whether the order of statements shows where a name has this value."""
        function = self.scope.function
        stored = list(stores(self.scope, target.id))
        top = {id(name) for one in function.statements if isinstance(one, ast.Assign) for name in walk(one.targets[0])}
        alone = stored == [target] and target.id not in parameters(self.scope)
        return target.id in function.locals and (alone or all(id(one) in top for one in stored))

    def _climb(self, node: ast.expr, statement: ast.stmt | ast.expr, own: int) -> int | None:
        """Return the number of dimensions per mask element if a statement only uses an operand elementwise.

        The result is -1 if the operand is reduced, and None for any other use.
        """
        scope = self.scope
        parent, count = scope.parents[node], count_of(scope, node)
        if count is not None and not (count.elements and own):
            self.counts[count.node] = node
            return -1
        if parent is statement or self._is_item(node, statement):
            return own if isinstance(statement, ast.Assign) else None
        if isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.USub):
            return self._climb(parent, statement, own)
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, _OPERATORS):
            other = parent.right if node is parent.left else parent.left
            return self._climb(parent, statement, own) if self._goes_along(other, own) else None
        if isinstance(parent, ast.Compare) and isinstance(parent.ops[0], _COMPARISONS):
            other = parent.comparators[0] if node is parent.left else parent.left
            along = len(parent.ops) == 1 and self._goes_along(other, own)
            return self._climb(parent, statement, own) if along else None
        if isinstance(parent, ast.Call):
            return self._argument(parent, node, statement, own)
        called = self._method_of(node)
        return self._method(*called, statement, own) if called is not None else None

    def _method_of(self, receiver: ast.expr) -> tuple[ast.Call, ast.Attribute] | None:
        """Return the call of a method of `receiver`, and the method, or None if there is no such call."""
        parent = self.scope.parents[receiver]
        call = self.scope.parents.get(parent)
        if isinstance(parent, ast.Attribute) and isinstance(call, ast.Call) and call.func is parent:
            return call, parent
        return None

    def _argument(self, call: ast.Call, node: ast.expr, statement: ast.stmt | ast.expr, own: int) -> int | None:
        """Do the same as `_climb` for an argument of a function or layer."""
        name = callee(self.scope, call)
        short = name.rpartition(".")[2]
        if call.args == [node] and not call.keywords and (size := row_size(self.scope, call.func)):
            return self._climb(call, statement, max(own, size))
        loss = loss_of(self.scope, call)
        if loss is not None and node in loss.operands and loss.reduction == "none":
            self.joined |= {*loss.operands}
            along = all(self._goes_along(one, own) for one in loss.operands if one is not node)
            return self._climb(call, statement, own) if along else None
        if loss is not None and node in loss.operands:
            self.losses.setdefault(call, (loss, {}))[1][node] = own
            self.joined.add(node)
            return -1
        if call.args == [node] and not call.keywords and name in ("torch.sum", "torch.mean", "torch.norm"):
            return self._reduce(call, node, short, own)
        operands = call.args[: 2 if short == "cosine_similarity" else 1]
        along = node in operands and all(self._goes_along(one, own) for one in operands if one is not node)
        if name.startswith("torch.") and along and self._is_per_row(call, short, operands, own):
            return self._climb(call, statement, own - 1 + _PER_ROW[short])
        elementwise = name.startswith("torch.") and (short in ELEMENTWISE or self._compares(call, short))
        return self._climb(call, statement, own) if elementwise and self._all_along(call, node, own) else None

    def _compares(self, call: ast.Call, name: str) -> bool:
        """Return whether a call selects one of several values for each element."""
        number = any(k.is_number(self.scope.kind(one)) for one in call.args[1:])
        if name in ("max", "min", "maximum", "minimum"):
            return len(call.args) == 2 and not number
        return name == "where" and len(call.args) == 3

    def _all_along(self, call: ast.Call, node: ast.expr | None, own: int) -> bool:
        """Return whether all other arguments have values for the same elements as `node`."""
        given = [*(one for one in call.args if one is not node), *(one.value for one in call.keywords)]
        return all(self._goes_along(one, own) for one in given)

    def _method(self, call: ast.Call, method: ast.Attribute, statement: ast.stmt | ast.expr, own: int) -> int | None:
        """Do the same as `_climb` for the receiver of a method."""
        name, receiver = method.attr, method.value
        if name in ("sum", "mean", "norm") and not call.args and not call.keywords:
            return self._reduce(call, receiver, name, own)
        if name in ("sum", "mean") and own == 1 and _dimension(call, name, [receiver])[0] == "0":
            return self._reduce(call, receiver, name, own, over_rows=True)
        if self._is_per_row(call, name, [receiver], own):
            return self._climb(call, statement, own - 1 + _PER_ROW[name])
        if name == "to" and all(is_pure(self.scope, one) for one in call.args) and not call.keywords:
            return self._climb(call, statement, own)
        elementwise = name in ELEMENTWISE and self._all_along(call, None, own)
        return self._climb(call, statement, own) if elementwise else None

    def _is_per_row(self, call: ast.Call, name: str, operands: list[ast.expr], own: int) -> bool:
        """Return whether a function or method works along the last dimension of rows, each with `own` dimensions."""
        if name not in _PER_ROW or own < 1:
            return False
        dimension, argument = _dimension(call, name, operands)
        self.scales |= name in _SCALING
        mask = self.scope.tensor(self.read.mask)
        if dimension == "1" and own == 1 and (mask is None or mask.rank != 1):
            self.dimensions[call] = argument
        return dimension == "-1" or (dimension == "1" and own == 1)

    def _goes_along(self, node: ast.expr, own: int) -> bool:
        """Return whether an operand consists only of selected elements and numbers, or belongs to the module."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, _OPERATORS):
            return self._goes_along(node.left, own) and self._goes_along(node.right, own)
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], _COMPARISONS):
            return self._goes_along(node.left, own) and self._goes_along(node.comparators[0], own)
        if isinstance(node, ast.Call) and not node.keywords:
            owner, _, name = callee(self.scope, node).partition(".")
            receiver = [node.func.value] if owner == "Tensor" and isinstance(node.func, ast.Attribute) else []
            if name in ELEMENTWISE and owner in ("Tensor", "torch"):
                return all(self._goes_along(one, own) for one in (*receiver, *node.args))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return self._goes_along(node.operand, own)
        tensor = self.scope.tensor(node)
        selection = self._selection(node)
        if selection is not None and _is_same(selection, self.read):
            self.joined.add(node)
            return True
        if (isinstance(node, ast.Name) and self._is_read(node)) or k.is_number(self.scope.kind(node)):
            return True
        return tensor is not None and (tensor.rank == 0 or (own > 0 and tensor.origin is not None))

    def _reduce(self, call: ast.Call, values: ast.expr, name: str, own: int, *, over_rows: bool = False) -> int:
        found = self.reduced.setdefault(call, Reduction(values, name, own, over_rows))
        found.own = max(found.own, own)
        return -1


def _dimension(call: ast.Call, name: str, operands: list[ast.expr]) -> tuple[str, ast.expr | None]:
    """Return the dimension that a call works along, and the argument for it. It is "" if there are other arguments."""
    further = [one for one in call.args if one not in operands]
    places = further + [one.value for one in call.keywords]
    if not places and name in ("normalize", "cosine_similarity"):
        return "1", None  # torch's default
    plain = not (further and name in _BY_KEYWORD) and all(one.arg == "dim" for one in call.keywords)
    return (ast.unparse(places[0]), places[0]) if len(places) == 1 and plain else ("", None)


def is_stable(scope: Scope, read: Selection) -> bool:
    """Return whether a mask has the same value at a selection and everywhere after it."""
    mask = read.mask
    if scope.tensor(mask) is None or not is_pure(scope, mask):
        return False
    first = (read.node.lineno, read.node.col_offset)
    attributes = {ast.unparse(one) for one in walk(mask) if isinstance(one, ast.Attribute)}
    for one in walk_function(scope.function.node):
        if isinstance(one, ast.Attribute) and not isinstance(one.ctx, ast.Load) and ast.unparse(one) in attributes:
            return False
    loops = [part.target for one in lineage(scope, read.node) for part in getattr(one, "generators", ())]
    # The names of a comprehension are bound before the read, although they come after it in the code.
    bound = {one.id for target in loops for one in walk(target) if isinstance(one, ast.Name)}
    for name in {one.id for one in walk(mask) if isinstance(one, ast.Name)} - bound:
        later = any((one.lineno, one.col_offset) > first for one in stores(scope, name))
        if later or may_change_in_place(scope, name, read.node):
            return False
    return True


def _target_of(statement: ast.stmt | ast.expr, value: ast.expr) -> ast.Name | None:
    """Return the name to which a statement assigns a value, or an item of its tuple, or None if there is no name."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target: ast.expr = statement.targets[0]
    if statement.value is not value and isinstance(statement.value, ast.Tuple):
        if not isinstance(target, ast.Tuple) or len(target.elts) != len(statement.value.elts):
            return None
        target = target.elts[statement.value.elts.index(value)]
    return target if isinstance(target, ast.Name) else None


def _is_same(one: Selection, other: Selection) -> bool:
    return ast.dump(one.mask) == ast.dump(other.mask)
