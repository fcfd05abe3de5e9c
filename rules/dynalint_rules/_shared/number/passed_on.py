"""Uses of a number in other functions of the project, to which it is passed or returned."""

from __future__ import annotations

import ast
from abc import abstractmethod
from dataclasses import replace

from dynalint.rulekit import FunctionInfo, Refusal, k, rw, walk_function
from dynalint_rules._code.eager import is_in_eager_code
from dynalint_rules._code.names import loads, stores
from dynalint_rules._code.passed_values import is_passed_up, parameter_of, results_on_self
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.number.arguments import Arguments
from dynalint_rules._shared.number.flow import NumberFlow


class PassedOn(Arguments):
    """A follower that follows a number into other functions."""

    def climb(self, node: ast.expr, dtype: k.DType | None) -> None:
        """Check the expression that uses `node`, and the places where its result is used."""
        parent = self.scope.parents[node]
        if not is_in_eager_code(self.scope, node):
            self.used_in(parent, node, dtype)
        elif not isinstance(parent, ast.FormattedValue):
            self.flow.edits.append((node, rw.method(rw.kept(self.scope.file, node), "item")))
        elif parent.conversion != -1:  # otherwise, a 0-dim tensor is formatted like its number
            self.refuse(parent, node)

    @abstractmethod
    def used_in(self, parent: ast.AST, node: ast.expr, dtype: k.DType | None) -> None:
        """Check the node that uses a number in compiled code, and the places where its result is used."""

    def passed(self, call: ast.Call, node: ast.expr, dtype: k.DType | None) -> None:
        """Follow a number into a function of the project that a call passes it to.

        Raises:
            Refusal: If the function is not known, or a use in it does not accept a tensor as well as a number.
        """
        called = _called(self.scope, call)
        if not called:
            self.refuse(call, node)
        for one in called:
            self._enter(call, node, one, dtype)

    def _enter(self, call: ast.Call, node: ast.expr, called: k.Function, dtype: k.DType | None) -> None:
        name = parameter_of(called, call, node)
        if name is None or called.function.qualname in self.functions:
            self.refuse(call, node)
            return
        inner = self._inside(called.function)
        reads, own = list(loads(inner.scope, name)), set(walk_function(called.function.node))
        if next(stores(inner.scope, name), None) is not None or not own.issuperset(reads):
            self.refuse(call, node)
        for use in reads:
            inner.climb(use, dtype)
        if inner.flow.edits or inner.flow.leaves:  # the function's other callers pass numbers
            self.refuse(call, node)
        self.flow.add(inner.flow)

    def returned(self, node: ast.expr, dtype: k.DType | None) -> None:
        """Check a number that is returned to the user or to other methods. Uses in other methods are followed.

        Raises:
            Refusal: If a caller is not known, or may need a number.
        """
        scope, caller = self.scope, self.scope.function.caller
        if caller is None or is_passed_up(scope):
            self.flow.changes["the caller receives a 0-dim tensor instead of a number"] = None
            return
        results = results_on_self(scope) if isinstance(scope.parents[node], ast.Return) else None
        if results is None or scope.function.qualname in self.functions:
            shown = scope.quote(node)
            raise Refusal(f"{shown} is returned to `{caller.qualname}`, which may need a number; change both together")
        self.flow.conditions[
            f"no code outside this project uses the result of `{scope.function.name}` as a Python number"
        ] = None
        for user, result in results:
            inner = self._inside(user)
            inner.climb(result, dtype)
            self.flow.add(inner.flow)

    def _inside(self, function: FunctionInfo) -> PassedOn:
        """Return a follower for another function that has not recorded anything yet."""
        parents = self.scope.project.parents(function)
        there = replace(self.scope, function=function, parents=parents, renamed={}, composed=set(), made={})
        followed = self.functions | {self.scope.function.qualname}
        return replace(self, scope=there, flow=NumberFlow(), functions=followed, targets=set(), buffer="")


def _called(scope: Scope, call: ast.Call) -> list[k.Function]:
    """Return the functions of the project that a call may run, or none if it may also run something else."""
    kinds = scope.kind(call.func).members
    functions = [one for one in kinds if isinstance(one, k.Function)]
    return functions if len(functions) == len(kinds) else []
