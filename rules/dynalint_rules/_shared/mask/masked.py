"""Remove a test that only saves work, such as `if mask.any(): x[mask] = 0`.

If no element is selected, the body does nothing.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace

from dynalint.rulekit import Rewrite, k, rw, walk
from dynalint_rules._code.autograd import keeps_graph
from dynalint_rules._code.effects import effects_of_always
from dynalint_rules._code.memory import is_own
from dynalint_rules._code.names import (
    has_one_value,
    is_named,
    only_value,
    parameters,
    statement_of,
    stores,
)
from dynalint_rules._code.passed_values import is_given_results
from dynalint_rules._code.raising import never_raises
from dynalint_rules._code.saved_tensors import (
    change_conditions,
    kept_conditions,
    refuse_changed_later,
    switch_conditions,
)
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.sharing import may_change_in_place, sharing
from dynalint_rules._code.temporaries import computed_inside
from dynalint_rules._shared.branch.blocks import is_elif, split_test
from dynalint_rules._shared.branch.branch_values import FINITE, NO_RAISE, SAME_FORM, refuse_changed_alias
from dynalint_rules._shared.branch.choice import finished
from dynalint_rules._shared.branch.truth import is_tensor_test

TITLE = "Remove the test, because it does not change the result"
_COPY = "no code relies on receiving the tensor `{}` itself instead of an equal copy"
_EMPTY = "Only test whether the mask is empty"
# Methods that return a mask with the same elements selected, in another shape.
_RESHAPING = frozenset({"unsqueeze", "expand", "expand_as", "view", "view_as", "reshape", "contiguous", "bool"})


def rewrite_masked(scope: Scope, statement: ast.If) -> Rewrite | None:
    """Return the rewrite that removes an `if` test, or None if the body does anything when no element is selected.

    Raises:
        Refusal: If a value must not be computed on every call.
    """
    if statement.orelse or is_elif(scope, statement):
        return None
    python, test = split_test(scope, statement)
    mask = mask_of_something(scope, test)
    if mask is None:
        return None
    body = Body(scope, mask, statement)
    inside = {one: values for one in statement.body if (values := computed_inside(scope, one, statement)) is not None}
    rest = [one for one in statement.body if one not in inside]
    if not rest or not all(body.does_nothing_unselected(one, one is rest[-1]) for one in rest):
        return None
    body.conditions += [NO_RAISE] if inside else []
    effects_of_always(scope, [*body.values, *(value for values in inside.values() for value in values)], statement)
    refuse_changed_later(scope, [mask], statement, handed=True)
    change = (statement, statement.body) if python is None else (statement.test, python)
    removed = finished(scope, TITLE, rw.written(scope.file, change), body.conditions)
    if NO_RAISE not in body.conditions or not isinstance(name := _upright(mask)[0], ast.Name):
        return removed
    # The largest element of an empty tensor raises an exception, for example.
    asked = f"{python} and {name.id}.numel() > 0" if python is not None else f"{name.id}.numel() > 0"
    longer = finished(scope, _EMPTY, rw.written(scope.file, (statement.test, asked)), body.conditions)
    return replace(removed, otherwise=longer)


def mask_of_nothing(scope: Scope, test: ast.expr) -> ast.expr | None:
    """Return the mask that selects nothing if the test is true, as in `not m.any()` or `m.sum() == 0`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return mask_of_something(scope, test.operand)
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
        return mask_of_something(
            scope, ast.copy_location(ast.Compare(test.left, [ast.NotEq()], test.comparators), test)
        )
    return None


def mask_of_something(scope: Scope, test: ast.expr) -> ast.expr | None:
    """Return the mask that selects something if the test is true, as in `m.any()` or `m.sum() > 0`.

    If the test is `not m.all()`, the mask is `~m`.
    """
    if isinstance(test, ast.Name):
        value = only_value(scope, test.id, test)
        mask = mask_of_something(scope, value) if value is not None else None
        read = {one.id for one in walk(mask) if isinstance(one, ast.Name)} if mask is not None else set()
        changed = any(not has_one_value(scope, name) or may_change_in_place(scope, name) for name in read)
        return None if changed else mask
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        mask = reduced_as_whole(scope, test.operand, "all")
        return mask and ast.copy_location(ast.UnaryOp(ast.Invert(), mask), mask)
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Gt | ast.NotEq):
        bound = test.comparators[0]
        summed = isinstance(bound, ast.Constant) and bound.value == 0 and type(bound.value) is int
        counted = (reduced_as_whole(scope, test.left, name) for name in ("sum", "count_nonzero"))
        mask = next((one for one in counted if one is not None), None) if summed else None
        return mask if mask is not None and _is_bool(scope, mask) else None
    return reduced_as_whole(scope, test, "any")


def reduced_as_whole(scope: Scope, node: ast.expr, name: str) -> ast.expr | None:
    """Return the tensor that a call to the method or function `name` reduces to a single value, or None."""
    if not isinstance(node, ast.Call) or node.keywords:
        return None
    callee = scope.kind(node.func)
    if isinstance(node.func, ast.Attribute) and node.func.attr == name and not node.args:
        owner = node.func.value
        unknown = name == "any" and isinstance(scope.kind(owner), k.Unknown) and is_tensor_test(scope, node)
        if unknown or (isinstance(callee, k.Method) and scope.tensor(owner) is not None):
            return owner
    if isinstance(callee, k.External) and callee.name == f"torch.{name}" and len(node.args) == 1:
        return node.args[0]
    return None


def _upright(mask: ast.expr) -> tuple[ast.expr, bool]:
    """Return a mask without any `~`, and whether it was inverted."""
    inverted = False
    while isinstance(mask, ast.UnaryOp) and isinstance(mask.op, ast.Invert):
        mask, inverted = mask.operand, not inverted
    return mask, inverted


def _is_bool(scope: Scope, node: ast.expr) -> bool:
    return scope.dtype(_upright(node)[0]) == "bool"


@dataclass
class Body:
    """Statements that write where `mask` selects, after or in the `test`.

    `values` are the expressions that would always be computed.
    """

    scope: Scope
    mask: ast.expr
    test: ast.If
    values: list[ast.expr] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)

    def does_nothing_unselected(self, statement: ast.stmt, is_last: bool) -> bool:
        """Return whether a statement does nothing if the mask selects nothing. Only the last may change the mask."""
        if isinstance(statement, ast.If):
            self.values.append(statement.test)
            self.conditions += [] if never_raises(self.scope, statement.test) else [NO_RAISE]
            branches = [*statement.body, *statement.orelse]
            return not is_tensor_test(self.scope, statement.test) and all(
                self.does_nothing_unselected(one, is_last=False) for one in branches
            )
        if isinstance(statement, ast.Expr):
            return self._fills_in_place(statement.value)
        if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Subscript):
            return self._is_stored_at(statement.target, statement.value, None)
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return False
        target, value = statement.targets[0], statement.value
        if isinstance(target, ast.Subscript):
            return self._is_stored_at(target, value, statement)
        if not isinstance(target, ast.Name) or is_named(_upright(self.mask)[0], target.id):
            return False
        if not is_last and self._reads_mask(target.id):
            return False
        return self._copies(target.id, value) or self._keeps(target.id, value)

    def _copies(self, name: str, value: ast.expr) -> bool:
        """Return whether this is `x = x.clone()`."""
        match value:
            case ast.Call(ast.Attribute(own, "clone"), [], []) if is_named(own, name) and self.scope.tensor(own):
                refuse_changed_alias(self.scope, name, self.test)
                self.conditions.append(_COPY.format(name))
                return True
        return False

    def _is_stored_at(self, target: ast.Subscript, value: ast.expr, store: ast.Assign | None) -> bool:
        known = _is_bool(self.scope, self.mask) and self._selects_at(target.slice)
        return known and self._may_be_written(target.value, store) and self._is_stored(value)

    def _fills_in_place(self, value: ast.expr) -> bool:
        """Return whether this is `x.masked_fill_(mask, 0)`."""
        match value:
            case ast.Call(ast.Attribute(owner, "masked_fill_"), [mask, number]):
                return self._selects(mask) and self._is_number(number) and self._may_be_written(owner)
        return False

    def _may_be_written(self, base: ast.expr, store: ast.Assign | None = None) -> bool:
        while isinstance(base, ast.Subscript):
            base = base.value
        scope, tensor, shown = self.scope, self.scope.tensor(base), self.scope.quote(base)
        if tensor is None:
            return False
        if not _is_bool(scope, self.mask):
            self.conditions.append("the mask is a bool tensor")
        if not isinstance(base, ast.Name) or not made_from(scope, self.mask, base.id):
            self.conditions.append(f"the mask matches the shape of {shown}")
        if isinstance(base, ast.Attribute) and tensor.origin == "buffer":
            # Even a store of no elements makes the buffer require a gradient if the value has one.
            return store is None or not keeps_graph(store, [store.value], scope.function, base.attr, scope.project)
        if isinstance(base, ast.Attribute) and tensor.origin is None:
            self.conditions.append(f"{shown} may be written to even if nothing is selected")
            return True
        if not isinstance(base, ast.Name):
            return False
        if not is_own(scope, base.id, base):
            if not all(is_given_results(scope, one) for one in sharing(scope, base.id) & parameters(scope)):
                # A leaf that requires a gradient cannot be changed in place, even if no element is changed.
                return False
            self.conditions.append(f"{shown} may be written to even if nothing is selected")
        self.conditions += change_conditions(scope, base.id, base)
        return True

    def _keeps(self, name: str, value: ast.expr) -> bool:
        """Return whether this is `x = x.masked_fill(mask, 0)`, or `torch.where(mask, y, x)` in either order.

        `x.float().masked_fill(mask, 0).type_as(x)` counts as well.
        """
        value = self._in_own_dtype(name, value)
        if not isinstance(value, ast.Call) or value.keywords or not value.args:
            return False
        callee, selected, other = self.scope.kind(value.func), value.args[0], value.args[-1]
        if isinstance(callee, k.Method) and isinstance(value.func, ast.Attribute):
            owner = value.func.value
            fits = callee.name == "masked_fill" and len(value.args) == 2 and self._is_number(value.args[1])
            kept = fits and is_named(self._as_float(owner), name)
        else:
            fits = isinstance(callee, k.External) and callee.name == "torch.where" and len(value.args) == 3
            kept = fits and any(is_named(one, name) for one in value.args[1:])
            if kept and is_named(value.args[2], name):
                other = value.args[1]
            elif kept:
                selected = ast.copy_location(ast.UnaryOp(ast.Invert(), selected), selected)
            if kept:
                self.values.append(other)
                self.conditions += [SAME_FORM] if self._is_number(other) else [SAME_FORM, NO_RAISE, FINITE]
        if not (kept and self._selects(selected)):
            return False
        if not made_from(self.scope, self.mask, name):
            self.conditions.append(f"the mask is not larger than `{name}`")
        tensor = self.scope.tensor(value.func.value if isinstance(value.func, ast.Attribute) else value)
        whole = isinstance(other, ast.Constant) and isinstance(other.value, int)
        fits = whole or (tensor is not None and tensor.dtype == "float")
        if self._is_number(other) and not fits:
            self.conditions.append(f"`{name}` is a floating-point tensor")
        self.conditions += switch_conditions(self.scope, name, value) + kept_conditions(self.scope, [self.mask])
        if not is_own(self.scope, name, value):
            refuse_changed_alias(self.scope, name, value)
            self.conditions.append(_COPY.format(name))
        return True

    def _in_own_dtype(self, name: str, value: ast.expr) -> ast.expr:
        """Return `v` for `v.type_as(x)` and `v.to(x.dtype)`, where `x` is `name`, and other values as they are."""
        match value:
            case ast.Call(ast.Attribute(inner, "type_as"), [own]) if is_named(own, name):
                return inner
            case ast.Call(ast.Attribute(inner, "to"), [ast.Attribute(own, "dtype")]) if is_named(own, name):
                return inner
        return value

    def _as_float(self, value: ast.expr) -> ast.expr:
        """Return `x` for `x.float()`, and other values as they are."""
        match value:
            case ast.Call(ast.Attribute(inner, "float"), [], []) if self.scope.dtype(inner) == "float":
                self.conditions.append(f"{self.scope.quote(inner)} is not more precise than float32")
                return inner
        return value

    def _selects(self, node: ast.expr) -> bool:
        """Return whether an index or argument is the mask, possibly reshaped."""
        mask, wanted = _upright(self.mask)
        node, inverted = _upright(node)
        while ast.dump(node) != ast.dump(mask):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _RESHAPING:
                self.values += node.args
                node = node.func.value
            elif isinstance(node, ast.Subscript) and _only_adds_dimensions(node.slice):
                node = node.value
            else:
                return False
            node, turned = _upright(node)
            inverted ^= turned
        return inverted is wanted

    def _selects_at(self, index: ast.expr) -> bool:
        """Return whether an index is the mask, or the mask with positions in other dimensions, as in `x[mask, -1]`."""
        if not isinstance(index, ast.Tuple):
            return self._selects(index)
        others = [one for one in index.elts if not isinstance(one, ast.Slice | ast.Constant | ast.UnaryOp)]
        others += [one for one in index.elts if isinstance(one, ast.UnaryOp) and not k.is_number(self.scope.kind(one))]
        if len(others) != 1 or any(isinstance(one, ast.Slice) and not _is_fixed(one) for one in index.elts):
            return False
        self.conditions.append(NO_RAISE)
        return self._selects(others[0])

    def _is_number(self, node: ast.expr) -> bool:
        return k.is_number(self.scope.kind(node))

    def _is_stored(self, value: ast.expr) -> bool:
        """Return whether a value is a number, or can be computed even if no element is selected."""
        if self._is_number(value):
            return True
        self.values.append(value)
        if not (isinstance(value, ast.Subscript) and ast.dump(value.slice) == ast.dump(self.mask)):
            self.conditions.append(NO_RAISE)
        return True

    def _reads_mask(self, name: str) -> bool:
        return any(isinstance(node, ast.Name) and node.id == name for node in walk(self.mask))


def _is_fixed(part: ast.Slice) -> bool:
    """Return whether all bounds of a slice are constants."""
    return all(
        one is None or isinstance(one, ast.Constant | ast.UnaryOp) for one in (part.lower, part.upper, part.step)
    )


def _only_adds_dimensions(index: ast.expr) -> bool:
    """Return whether this is an index such as `:, None`, which keeps all elements."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return all(
        (isinstance(one, ast.Constant) and one.value in (None, ...))
        or (isinstance(one, ast.Slice) and one.lower is one.upper is one.step is None)
        for one in parts
    )


def made_from(scope: Scope, mask: ast.expr, name: str) -> bool:
    """Return whether the mask is computed elementwise from a tensor, so that it has the same shape."""
    mask = place = _upright(mask)[0]
    if isinstance(mask, ast.Name):
        known = only_value(scope, mask.id, place)
        lines = [node.lineno for node in stores(scope, name) if node.lineno < place.lineno]
        apart = known is None or _block_around(scope, known) is not _block_around(scope, place)
        if known is None or apart or any(line >= known.lineno for line in lines):
            return False
        mask = known
    if isinstance(mask, ast.Compare) and len(mask.ops) == 1:
        return is_named(mask.left, name) and k.is_number(scope.kind(mask.comparators[0]))
    return False


def _block_around(scope: Scope, node: ast.AST) -> ast.AST | None:
    """Return the block that contains an expression's statement."""
    return scope.parents.get(statement_of(scope, node))
