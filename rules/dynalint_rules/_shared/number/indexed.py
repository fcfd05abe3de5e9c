"""Uses of a number as an index, or as a bound of a slice."""

from __future__ import annotations

import ast

from dynalint.rulekit import Refusal, k
from dynalint_rules._shared.number.data_slices import fixed_slices
from dynalint_rules._shared.number.flow import Follower
from dynalint_rules._shared.number.single_index import as_window, with_a_dimension

# More places than this that each need a dimension are more than a reviewer would read.
_MOST_INDEXED = 3


class IndexFollower(Follower):
    """A follower that knows which indices can be tensors. `indexed` is how many places it has found."""

    indexed = 0

    def is_index(self, parent: ast.AST, node: ast.expr) -> bool:
        """Return whether a number is one of the indices into a tensor."""
        outer = self.scope.parents.get(parent) if isinstance(parent, ast.Tuple) else parent
        if not isinstance(outer, ast.Subscript) or outer.value is node or outer.slice not in (parent, node):
            return False
        return self.scope.tensor(outer.value) is not None and not isinstance(outer.ctx, ast.Del)

    def index(self, parent: ast.AST, node: ast.expr, dtype: k.DType | None) -> None:
        """Check a number that is an index, or a bound of a slice.

        Raises:
            Refusal: If a tensor cannot take its place.
        """
        subscript = parent
        while not isinstance(subscript, ast.Subscript):
            subscript = self.scope.parents[subscript]
        if isinstance(parent, ast.Slice):
            self._bounding(subscript, parent, node, dtype)
            return
        shown = self.scope.quote(node)
        if dtype in ("bool", "float", "complex"):
            raise Refusal(f"{shown} is not an integer index")
        if dtype is None:
            self.flow.conditions[f"{shown} is an integer"] = None
        edits, condition = with_a_dimension(self.scope, subscript, node)
        self.flow.edits += edits
        self.indexed += 1
        if self.indexed > _MOST_INDEXED:
            raise Refusal(
                "the number is an index in several places, and each would need a dimension; select once with "
                "`index_select`, or write all rows at once"
            )
        statement = self.scope.parents.get(subscript)
        if isinstance(subscript.ctx, ast.Load):
            self.flow.conditions[condition] = None
        elif isinstance(statement, ast.Assign) and not k.is_number(self.scope.kind(statement.value)):
            stored, taking = self.scope.quote(statement.value), self.scope.quote(subscript.value)
            self.flow.conditions[f"{stored} has the dtype of {taking}"] = None

    def _bounding(self, subscript: ast.Subscript, part: ast.Slice, node: ast.expr, dtype: k.DType | None) -> None:
        """Check a bound of a slice, which must have the same number of elements for every value of the number."""
        taken = self.scope.tensor(subscript.value) is not None and dtype == "int"
        window = as_window(self.scope, subscript, part) if taken else None
        fixed = fixed_slices(self.scope, subscript, [part]) if taken and window is None else None
        if (found := window or fixed) is None:
            self.refuse(part, node)
        elif node is part.lower or fixed is not None:
            known = [old for old, _ in self.flow.edits]
            self.flow.edits += [one for one in found[0] if one[0] not in known]
            self.flow.imports = self.scope.imports
            self.flow.conditions.update(dict.fromkeys(found[1]))
