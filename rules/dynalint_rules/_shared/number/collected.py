"""Uses of numbers that a function collects in a list, tuple or dict of its own.

Their sum, an item, and a tensor of them can be computed from 0-dim tensors as well.
"""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

from dynalint.rulekit import k, rw
from dynalint_rules._code.calls import callee, reads_among
from dynalint_rules._code.names import is_shared, loads, only_value
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.sharing import may_change_in_place
from dynalint_rules._shared.number.arguments import CallFollower
from dynalint_rules._shared.number.takers import EXTREMES


@dataclass(frozen=True)
class _Place:
    """Where a number is kept: the `collection` as it is created, and its index or key there, or None if unknown."""

    collection: ast.expr
    key: object = None


class CollectionFollower(CallFollower):
    """A follower that knows which uses of a collection accept tensors instead of numbers."""

    def used_in(self, parent: ast.AST, node: ast.expr, dtype: k.DType | None) -> None:
        """Check the node that uses a number, also in a collection, and the places where its result is used."""
        if not self._is_collected(parent, node, dtype):
            self.used_alone(parent, node, dtype)

    @abstractmethod
    def used_alone(self, parent: ast.AST, node: ast.expr, dtype: k.DType | None) -> None:
        """Check the node that uses a number outside of any collection, and the places where its result is used."""

    def _is_collected(self, parent: ast.AST, node: ast.expr, dtype: k.DType | None) -> bool:
        """Check a number that goes into a collection or becomes a tensor, and return whether it does.

        Raises:
            Refusal: If a use of an item or a sum needs a number.
        """
        if isinstance(parent, ast.Call) and parent.args == [node] and _makes_tensor(self.scope, parent):
            return self._is_made_alone(parent, node)
        place = _place_of(self.scope, parent, node)
        uses = [] if place is None else [*_uses(self.scope, place.collection)]
        if place is None or not uses or not all(self._accepts(use, place) for use in uses):
            return False
        if any(_is_sum(self.scope, self.scope.parents[use]) for use in uses):
            self.widen(node, dtype)
        for use in uses:
            self._follow(use, place, dtype)
        return True

    def _is_made_alone(self, call: ast.Call, node: ast.expr) -> bool:
        """Replace `torch.tensor(number)` with the tensor, unless it is a copy that may be changed in place."""
        if _is_changed(self.scope, call):
            return False
        self._stays_alike(call)
        self.flow.edits.append((call, rw.kept(self.scope.file, node)))
        return True

    def _accepts(self, use: ast.expr, place: _Place) -> bool:
        """Return whether the node that uses a collection can have tensors in it."""
        parent = self.scope.parents[use]
        if isinstance(parent, ast.Subscript):
            known = isinstance(parent.slice, ast.Constant) and place.key is not None
            return known and use is parent.value and isinstance(parent.ctx, ast.Load)
        if not isinstance(parent, ast.Call) or parent.args != [use] or isinstance(place.collection, ast.Dict):
            return False
        name = callee(self.scope, parent)
        if _makes_tensor(self.scope, parent) or (name in EXTREMES and not parent.keywords):
            return _has_only_numbers(self.scope, place.collection)
        return name in ("builtins.sum", "builtins.len") and not parent.keywords

    def _follow(self, use: ast.expr, place: _Place, dtype: k.DType | None) -> None:
        parent = self.scope.parents[use]
        if isinstance(parent, ast.Subscript) and isinstance(parent.slice, ast.Constant):
            if parent.slice.value == place.key:
                self.climb(parent, dtype)
            return
        assert isinstance(parent, ast.Call)
        name = callee(self.scope, parent)
        if _is_sum(self.scope, parent):
            self.flow.conditions[f"{self.scope.quote(parent)} is the same up to rounding"] = None
            self.climb(parent, dtype)
        elif name != "builtins.len":
            self.flow.imports = self.scope.imports
            stacked = rw.call(f"{self.scope.torch}.stack", rw.kept(self.scope.file, use))
            if name in EXTREMES:
                self.flow.conditions[f"{self.scope.quote(use)} holds no NaN"] = None
                self.flow.edits.append((parent, rw.method(stacked, name.rpartition(".")[2])))
                self.climb(parent, dtype)
            else:  # `torch.tensor` makes float32 of floats of any precision
                self._stays_alike(parent)
                self.flow.edits.append((parent, rw.method(stacked, "float") if dtype == "float" else stacked))

    def _stays_alike(self, call: ast.Call) -> None:
        self.flow.conditions[f"the dtype and device of {self.scope.quote(call)} stay the same"] = None


def _makes_tensor(scope: Scope, call: ast.Call) -> bool:
    return callee(scope, call) == "torch.tensor" and {one.arg for one in call.keywords} <= {"device"}


def _is_sum(scope: Scope, node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and callee(scope, node) == "builtins.sum"


def _place_of(scope: Scope, parent: ast.AST, node: ast.expr) -> _Place | None:
    """Return where a number is kept if it goes into a collection that this function creates, or None."""
    match parent:
        case ast.List(elts=elts) | ast.Tuple(elts=elts) if not any(isinstance(one, ast.Starred) for one in elts):
            return _Place(parent, elts.index(node))
        case ast.Dict(keys=keys, values=values) if node in values:
            key = keys[values.index(node)]
            statement = scope.parents[parent]
            target = statement.targets[0] if isinstance(statement, ast.Assign) else None
            once = not isinstance(target, ast.Name) or _is_only(scope, parent, target.id, key)
            return _Place(parent, key.value) if isinstance(key, ast.Constant) and once else None
        case ast.ListComp(elt=elt) | ast.GeneratorExp(elt=elt) if elt is node:
            return _Place(parent)
        case ast.Call(func=ast.Attribute(ast.Name() as name, "append"), args=[one]) if one is node:
            made = only_value(scope, name.id, parent)
            return _Place(made) if isinstance(made, ast.List) and isinstance(scope.parents[parent], ast.Expr) else None
        case ast.Assign(targets=[ast.Subscript(ast.Name() as name, ast.Constant() as key)]):
            made = only_value(scope, name.id, parent)
            return (
                _Place(made, key.value) if isinstance(made, ast.Dict) and _is_only(scope, made, name.id, key) else None
            )
    return None


def _is_only(scope: Scope, made: ast.Dict, name: str, key: ast.expr | None) -> bool:
    """Return whether an item of a dict is set once."""
    around = (scope.parents[use] for use in loads(scope, name))
    stored = [one.slice for one in around if isinstance(one, ast.Subscript) and isinstance(one.ctx, ast.Store)]
    keys = [ast.dump(one) for one in (*made.keys, *stored) if one is not None]
    return key is not None and keys.count(ast.dump(key)) == 1


def _is_changed(scope: Scope, call: ast.Call) -> bool:
    """Return whether the result of a call, which is a copy, may be changed in place."""
    statement = scope.parents[call]
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    return isinstance(target, ast.Name) and may_change_in_place(scope, target.id)


def _uses(scope: Scope, collection: ast.expr) -> Iterator[ast.expr]:
    """Yield the expressions that use a collection, except where items are added to it."""
    statement = scope.parents[collection]
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    if not isinstance(target, ast.Name):
        yield collection
    elif only_value(scope, target.id, collection) is not collection or is_shared(scope, target.id):
        yield target  # which nothing accepts
    else:
        yield from (one for one in loads(scope, target.id) if not _is_added_to(scope, one))


def _is_added_to(scope: Scope, use: ast.expr) -> bool:
    parent = scope.parents[use]
    stored = isinstance(parent, ast.Subscript) and isinstance(parent.ctx, ast.Store) and parent.value is use
    stored = stored and isinstance(scope.parents[parent], ast.Assign)
    return stored or _appended(scope, use) is not None


def _appended(scope: Scope, use: ast.expr) -> ast.expr | None:
    """Return the item that a statement appends to a list, or None for any other use of the list."""
    match scope.parents[use]:
        case ast.Attribute(attr="append") as method:
            match scope.parents[method]:
                case ast.Call(func=func, args=[item]) as call if func is method:
                    return item if isinstance(scope.parents[call], ast.Expr) else None
    return None


def _has_only_numbers(scope: Scope, collection: ast.expr) -> bool:
    """Return whether all items of a collection are replaced at the same time, so that they can be stacked."""
    if isinstance(collection, ast.ListComp):
        return bool(reads_among(scope, collection.elt))
    if not isinstance(collection, ast.List | ast.Tuple):
        return False
    statement = scope.parents[collection]
    if collection.elts:
        return not isinstance(statement, ast.Assign) and all(reads_among(scope, one) for one in collection.elts)
    assert isinstance(statement, ast.Assign)
    items = [_appended(scope, one) for target in statement.targets for one in loads(scope, ast.unparse(target))]
    added = [one for one in items if one is not None]
    return len(added) == 1 and bool(reads_among(scope, added[0]))
