"""Rewrite stores through a mask if the stored values are computed from elements that the same mask selects.

The values of all elements are computed, and then selected. If all elements of a tensor are stored, it need not be
created before.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import suppress

from dynalint.rulekit import Refusal, Rewrite, Subscript, k, rw, walk
from dynalint_rules._code.calls import callee
from dynalint_rules._code.effects import is_pure
from dynalint_rules._code.memory import changed_in_place, is_own
from dynalint_rules._code.names import around, names, only_value, within
from dynalint_rules._code.scope import Scope, as_tensor
from dynalint_rules._code.selection import selected_in, source_of
from dynalint_rules._shared.branch.blocks import statements_after
from dynalint_rules._shared.branch.branch_values import FINITE
from dynalint_rules._shared.branch.domain import Guarded, guarded_operands
from dynalint_rules._shared.mask.trailing_dimensions import is_certain, row_size, trailing
from dynalint_rules._shared.text import atom

_OPERATORS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**"}
# The gradients of these operators, if one operand is a number, do not need the other operand, so it can be overwritten.
_FORGETFUL = (ast.Add, ast.Sub, ast.Mult, ast.Div)
_ELEMENTWISE = (*_OPERATORS, ast.Mod, ast.FloorDiv)
# The parts of an index that is written in the code, such as `..., 0`. It selects a view.
_FIXED = (ast.Constant, ast.Slice, ast.Tuple, ast.UnaryOp, ast.USub, ast.Load)
# Operators whose results are harmless for zeros, which replace the values that are not selected.
_HARMLESS = (ast.Add, ast.Sub, ast.Mult)
_FILLS = {"torch.zeros_like": "0", "torch.ones_like": "1"}
_NEW = ("zeros", "ones", "empty", "full")
_CREATING = frozenset(text for name in _NEW for text in (f"torch.{name}", f"torch.{name}_like", f"Tensor.new_{name}"))
_TITLE = "Compute the value for all elements and select with `torch.where`"


def put_back(scope: Scope, event: Subscript) -> Rewrite | None:
    """Return the rewrite of `b = a.index_put((mask,), f(x[mask]))`, or None for any other code."""
    match event.statement:
        case ast.Assign(
            [_], ast.Call(ast.Attribute(owner) as method, [ast.Tuple([mask]) | ast.List([mask]), value], [])
        ) as statement:
            called = scope.kind(method)
            put = isinstance(called, k.Method) and called.name == "index_put"
            if put and ast.dump(mask) == ast.dump(event.node.slice) and within(event.node, value, scope):
                target = ast.copy_location(ast.Subscript(owner, event.node.slice, ast.Store()), owner)
                return StoreRewrite(scope, statement, target, statement, value=value).rewrite()
    return None


class StoreRewrite:
    """The rewrite of a statement whose value is stored in `target` through a mask, there or in the statement `last`.

    If `value` is given, the statement assigns a copy of the target with this value stored in it. `picked`
    holds the statements before it that only name elements selected by the mask.
    """

    def __init__(
        self,
        scope: Scope,
        statement: ast.Assign | ast.AugAssign,
        target: ast.Subscript,
        last: ast.stmt,
        value: ast.expr | None = None,
        picked: Sequence[ast.Assign] = (),
    ) -> None:
        self.scope, self.statement, self.target, self.last = scope, statement, target, last
        self.mask, self.value = target.slice, value or statement.value
        self.put, self.rows, self.row, self.added = value is not None, False, 0, 0
        self.picked = {name: one for one in picked if (name := picked_name(scope, one, self.mask)) is not None}
        self.reads = dict(self._reads(self.value))
        self.given: list[ast.expr] = []
        self.kept: list[ast.expr] = []
        self.guards: dict[ast.expr, str] = {}
        self.computed = isinstance(statement, ast.AugAssign)

    def rewrite(self) -> Rewrite:
        """Return the rewrite."""
        scope, target, file = self.scope, self.target, self.scope.file
        base = target.value
        while isinstance(base, ast.Subscript) and all(isinstance(one, _FIXED) for one in walk(base.slice)):
            base = base.value
        # An item in a list or dict may also be known by other names, which an assignment to the item would not change.
        held = isinstance(base, ast.Attribute) and base is target.value and scope.tensor(base) is not None
        if not held and (not isinstance(base, ast.Name) or (base is not target.value and scope.tensor(base) is None)):
            raise Refusal(
                f"assign {scope.quote(target.value)} to a variable, so that `torch.where` can select between "
                "its old and new value"
            )
        name, place = ast.unparse(base), scope.text(target.value)
        text, mask = self.values()
        if self.row and isinstance(self.statement, ast.AugAssign) and isinstance(self.statement.op, ast.Add | ast.Sub):
            row = f"{scope.torch}.where({mask}, {scope.text(self.value)}, 0)"
            added = f"{place} {_OPERATORS[type(self.statement.op)]}= {row}"
            edits = rw.written(file, (self.statement, [added]))
            conditions = tuple(self.conditions(place))
            return Rewrite("Add zeros where the mask is false", "conditional", edits, conditions, scope.imports)
        # Part of a tensor is assigned in place.
        own = self.put or (target.value is base and not held and is_own(scope, name, self.last))
        if not own and target.value is not base and self._keeps_old_value(name):
            raise Refusal(f"`{place}` is assigned in place, and the gradient needs its old value; copy `{name}` first")
        if not own and self._keeps_old_value(name):
            raise Refusal(
                f"`{name}` comes from elsewhere, and the gradient needs its old value; if no other code relies "
                f"on the change, copy it first with `{name} = {name}.clone()`"
            )
        head = f"{place if own or target.value is not base else f'{name}[...]'} = "
        if self.put and isinstance(self.statement, ast.Assign):
            head = f"{scope.text(self.statement.targets[0])} = "
        if isinstance(self.statement, ast.AugAssign):
            sign = _OPERATORS.get(type(self.statement.op))
            if sign is None:
                raise Refusal("no harmless number is known for this operator where the mask is false")
            plain = k.is_number(scope.kind(self.value)) and isinstance(self.value, ast.Constant | ast.UnaryOp)
            operand = self.reads.get(self.value, self.value)
            text = f"{place} {sign} {text if plain or self.value in self.given else atom(operand, text)}"
        after = [] if self.last is self.statement else statements_after(scope, self.statement)
        run = [*self.picked.values(), self.statement, *after[: after.index(self.last) + 1 if after else 0]]
        copied = None if held else self._copied(place)
        run, old = ([copied[0], *run], copied[1]) if copied is not None else (run, place)
        alone = own and not self.put and old == name and not self.added and not self.given
        filled = _filled(scope, name, run) if alone else None
        changes: list[rw.Change] = []
        if filled is not None:
            made, old = filled
            changes.append((made, []))
        changes.append((run, [f"{head}{scope.torch}.where({mask}, {text}, {old})"]))
        conditions = tuple(dict.fromkeys(self.conditions(place)))
        edits = rw.written(file, *changes)
        return Rewrite(_TITLE, "conditional", edits, conditions, scope.imports, ranks=not self.ranks_known())

    def ranks_known(self) -> bool:
        """Return whether the number of dimensions of the mask and of what it selects from is certain."""
        return all(is_certain(self.scope, one, self.mask) for one in self.reads.values() or [self.target.value])

    def values(self) -> tuple[str, str]:
        """Return the code of the stored values for all elements, and the code of the mask.

        Raises:
            Refusal: If a value depends on which elements are selected.
        """
        scope = self.scope
        harmless = not isinstance(self.statement, ast.AugAssign) or isinstance(self.statement.op, _HARMLESS)
        self._require_elementwise(self.value, harmless=harmless)
        mask = self._full_mask()
        self.guards = self._guarded()
        if self.value in self.reads and self.value not in self.guards:
            return scope.text(self.reads[self.value]), mask  # an argument of `torch.where` needs no parentheses
        return self._part(self.value, mask), mask

    def _copied(self, name: str) -> tuple[ast.stmt, str] | None:
        """Return the previous statement if it sets the target to a copy of a tensor, and the tensor's text."""
        scope = self.scope
        before = next(reversed(around(scope.parents, self.statement)[0]), None)
        call = before.value if isinstance(before, ast.Assign) else None
        if (
            not isinstance(before, ast.Assign)
            or not isinstance(call, ast.Call)
            or not isinstance(call.func, ast.Attribute)
        ):
            return None
        source = call.func.value
        plain = call.func.attr == "clone" and not call.args and not call.keywords and isinstance(source, ast.Name)
        if not plain or ast.unparse(before.targets[0]) != name or not isinstance(source, ast.Name):
            return None
        reads = any(isinstance(one, ast.Name) and one.id == name for one in walk(self.value))
        return None if reads and source.id != name else (before, source.id)

    def conditions(self, place: str) -> Iterator[str]:
        scope = self.scope
        fewer = f"{self.row} fewer dimension{'s' if self.row > 1 else ''} than"
        less = fewer if self.row else "as many dimensions as"
        yield f"the mask has {less} `{place}`, and the dtypes are equal"
        if self.rows:
            yield f"{scope.quote(self.value)} computes each row independently"
        for one in self.kept:
            yield f"{scope.quote(one)} has a single element, or one for each column of {scope.quote(self.target.value)}"
        for one in self.given:
            yield f"{scope.quote(one)} has exactly one element for each element that the mask selects"
        if self.computed:
            yield FINITE
            for read in dict.fromkeys(one.id for one in self.reads.values() if isinstance(one, ast.Name)):
                if read != place and changed_in_place(scope, read, self.statement) is not None:
                    yield f"nothing modifies `{read}` in place before the backward pass"

    def _full_mask(self) -> str:
        """Return the text of the mask, with a dimension added for each `:` after it."""
        scope, mask = self.scope, self.mask
        full = 0
        if isinstance(mask, ast.Tuple) and len(mask.elts) > 1 and all(map(_is_full, mask.elts[1:])):
            full = len(mask.elts) - 1
            mask = mask.elts[0]
        kind = scope.kind(mask)
        if isinstance(kind, k.Tensor) and kind.array:
            raise Refusal(f"{scope.quote(mask)} is a NumPy array; compute the mask with tensors")
        if not is_pure(scope, mask) or isinstance(mask, ast.Tuple):
            raise Refusal(f"{scope.quote(mask)} is more than a mask; select with `torch.where` instead")
        full = full or self.row
        if not full and self.rows:
            full = max(trailing(scope, one, mask) for one in (self.target.value, *self.reads.values()))
            full = full or max(self._sizes())
        self.added = full
        if not full:
            return scope.text(mask)
        return f"{atom(mask, scope.text(mask))}[..., {', '.join(['None'] * full)}]"

    def _sizes(self) -> Iterator[int]:
        """Yield the number of dimensions per item for the layers to which the selected elements are passed directly."""
        for read in self.reads:
            call = self.scope.parents.get(read)
            yield row_size(self.scope, call.func) if isinstance(call, ast.Call) and call.args == [read] else 0

    def _reads(self, node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
        """Yield the outermost reads through the mask, each with the tensor that is read."""
        source = source_of(self.scope, node, self.mask)
        if isinstance(node, ast.Name) and node.id in self.picked:
            source = source_of(self.scope, self.picked[node.id].value, self.mask)
        if source is not None and isinstance(node, ast.expr):
            yield node, source
            return
        for child in ast.iter_child_nodes(node):
            yield from self._reads(child)

    def _guarded(self) -> dict[ast.expr, str]:
        """Return the operands that are not defined for all numbers, each with a harmless value."""
        found: dict[ast.expr, str] = {}
        with suppress(Refusal):
            operands = guarded_operands(self.scope, self.value)
            found = {one.node: one.safe for one in operands if isinstance(one, Guarded)}
        divided = isinstance(self.statement, ast.AugAssign) and isinstance(self.statement.op, ast.Div)
        if divided and not k.is_number(self.scope.kind(self.value)):
            found[self.value] = "1"
        return found

    def _part(self, node: ast.expr, mask: str) -> str:
        """Return the text of part of the value, in which whole tensors replace the selected elements.

        If an operand needs a harmless value, it has that value where nothing is selected.
        """
        text = self._inside(node, mask)
        return f"{self.scope.torch}.where({mask}, {text}, {self.guards[node]})" if node in self.guards else text

    def _inside(self, node: ast.expr, mask: str) -> str:
        file = self.scope.file
        if node in self.reads:
            return atom(self.reads[node], file.segment(self.reads[node]))
        if node in self.given:
            place = file.segment(self.target.value)
            return f"{self.scope.torch}.zeros_like({place}).masked_scatter({mask}, {file.segment(node)})"
        marked = {*self.reads, *self.given, *self.guards} - {node}
        parts = {one: self._part(one, mask) for one in walk(node) if isinstance(one, ast.expr) and one in marked}
        return rw.spliced(file, node, parts)

    def _require_elementwise(self, node: ast.expr, *, harmless: bool) -> None:
        scope = self.scope
        if node in self.reads:
            return
        kind = scope.kind(node)
        tensor = scope.tensor(node)
        if k.is_number(kind) or (tensor is not None and tensor.rank == 0):
            if next(self._reads(node), None) is not None:
                raise Refusal(f"{scope.quote(node)} depends on which elements are selected; compute it first")
            if not is_pure(scope, node):
                raise Refusal(f"{scope.quote(node)} may do more than return a value; compute it first")
            return
        self.computed = True
        if tensor is not None and harmless and next(self._reads(node), None) is None:
            if tensor.rank is not None and tensor.rank > 1 and is_pure(scope, node):
                self.row = max(self.row, tensor.rank - 1)  # the value applies to every row that the mask selects
            elif isinstance(node, ast.Attribute):
                self.kept.append(node)  # the module's tensors do not have as many elements as the mask selects
            else:
                self._require_given(node)
                self.given.append(node)
            return
        if isinstance(node, ast.BinOp) and isinstance(node.op, _ELEMENTWISE):
            parts: list[ast.expr] = [node.left, node.right]
            harmless = harmless and isinstance(node.op, _HARMLESS)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            parts = [node.operand]
        elif isinstance(node, ast.Call):
            operands = self._operands(node)
            parts, harmless = operands or [], False
        else:
            raise Refusal(
                f"{scope.quote(node)} is not known to be a number and may have one element for each selected "
                "element; compute it with the full shape first"
            )
        for part in parts:
            self._require_elementwise(part, harmless=harmless)

    def _require_given(self, node: ast.expr) -> None:
        """Ensure that the number of selected elements does not break the graph where a value is computed."""
        values = [node]
        for value in values:  # grows during iteration
            if (found := selected_in(self.scope, value)) is not None:
                raise Refusal(
                    f"{self.scope.quote(node)} is computed from {self.scope.quote(found)}, whose size depends on data; "
                    "compute it with the full shape first"
                )
            named = (only_value(self.scope, one.id, one) for one in walk(value) if isinstance(one, ast.Name))
            values += [one for one in named if one is not None and one not in values]

    def _operands(self, node: ast.Call) -> list[ast.expr] | None:
        """Return the operands of an elementwise call, or None if the call may operate on whole rows."""
        scope, callee = self.scope, self.scope.kind(node.func)
        api = scope.project.api
        match node:
            case ast.Call(ast.Attribute(read, "unsqueeze"), [ast.UnaryOp(ast.USub(), ast.Constant(1))], []):
                if read in self.reads:
                    self.row = max(self.row, 1)
                    return [read]  # the last dimension is added to the whole tensor as well
        entry = None
        operands = list(node.args)
        if isinstance(callee, k.Method) and as_tensor(callee.receiver) and isinstance(node.func, ast.Attribute):
            entry = api.method(callee.name)
            operands.insert(0, node.func.value)
        elif isinstance(callee, k.External) and callee.name.startswith("torch."):
            entry = api.function(callee.name)
        plain = not node.keywords and not any(isinstance(one, ast.Starred) for one in operands)
        if entry is None or not plain or any("elementwise" not in one.flags for one in entry.overloads):
            # An embedding raises an exception for indices that the mask may exclude.
            layer = not isinstance(callee, k.Method | k.External) and not _is_embedding(callee)
            if layer and is_pure(scope, node) and next(self._reads(node), None) is not None:
                self.rows = True
                return None
            raise Refusal(f"{scope.quote(node)} is not elementwise, so its result depends on which elements it gets")
        return operands

    def _keeps_old_value(self, name: str) -> bool:
        """Return whether computing the value may save the tensor called `name` for the gradient."""
        if isinstance(self.statement, ast.AugAssign):
            return not isinstance(self.statement.op, _FORGETFUL) or not k.is_number(self.scope.kind(self.value))
        parts = [self.value, *self.reads.values()]
        names = (one for part in parts for one in walk(part) if isinstance(one, ast.Name | ast.Attribute))
        return any(ast.unparse(one) == name for one in names)


def _is_embedding(layer: k.Kind) -> bool:
    return any(isinstance(one, k.Object) and one.type == "torch.nn.Embedding" for one in layer.members)


def picked_name(scope: Scope, one: ast.Assign, mask: ast.expr) -> str | None:
    """Return the name to which a statement assigns the elements of a variable that a mask selects, or None."""
    target = one.targets[0] if len(one.targets) == 1 else None
    source = source_of(scope, one.value, mask)
    return target.id if isinstance(target, ast.Name) and isinstance(source, ast.Name | ast.Attribute) else None


def _is_full(node: ast.expr) -> bool:
    """Return whether an index is a plain `:`."""
    return isinstance(node, ast.Slice) and node.lower is node.upper is node.step is None


def _filled(scope: Scope, name: str, run: Sequence[ast.stmt]) -> tuple[ast.Assign, str] | None:
    """Return the statement that fills a tensor with a number, and the number, unless it is read before `run` ends."""
    made = creation(scope, name, run)
    if made is None:
        return None
    call = made.value
    number = _FILLS.get(callee(scope, call)) if isinstance(call, ast.Call) else None
    plain = isinstance(call, ast.Call) and len(call.args) == 1 and not call.keywords
    return (made, number) if number is not None and plain else None


def creation(scope: Scope, name: str, run: Sequence[ast.stmt]) -> ast.Assign | None:
    """Return the statement that creates a tensor, unless it is read between that statement and the end of `run`."""
    earlier = [one for one in around(scope.parents, run[0])[0] if isinstance(one, ast.Assign)]
    made = next((one for one in reversed(earlier) if list(map(ast.unparse, one.targets)) == [name]), None)
    if made is None or not isinstance(made.value, ast.Call) or callee(scope, made.value) not in _CREATING:
        return None
    targets = [one.targets[0] for one in run if isinstance(one, ast.Assign) and len(one.targets) == 1]
    stored = [one.value for one in targets if isinstance(one, ast.Subscript)]
    last = run[-1].end_lineno or run[-1].lineno
    used = [node for node in names(scope, name) if made.lineno < node.lineno <= last]
    return made if all(node in stored for node in used) and is_pure(scope, made.value) else None
