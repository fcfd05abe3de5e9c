"""Find the uses of a number read from a tensor, to keep it as a 0-dim tensor instead.

A number and a 0-dim tensor with the same value give the same result in arithmetic with other tensors, as long as the
result's dtype is the same. They behave differently in a test, as an index or size, when stored, and when passed to
unknown code. No fix is offered for these uses.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, replace

from dynalint.rulekit import Refusal, k, rw, step, walk_function
from dynalint_rules._code.calls import callee
from dynalint_rules._code.decision import decision_of
from dynalint_rules._code.eager import is_in_eager_code
from dynalint_rules._code.effects import SHOWS
from dynalint_rules._code.given import given_tensor
from dynalint_rules._code.names import kind_of_name, loads, own_reads, parameters, statement_of
from dynalint_rules._code.passed_values import asks_for_tensor, condition_to_record, is_returned
from dynalint_rules._code.precision import is_double, is_nonzero, is_short, is_small, is_wide
from dynalint_rules._code.scope import Scope, as_tensor
from dynalint_rules._code.selection import refuse_counted_loops
from dynalint_rules._shared.number.collected import CollectionFollower
from dynalint_rules._shared.number.detached import Detached
from dynalint_rules._shared.number.flow import DIVIDING, NumberFlow, is_whole
from dynalint_rules._shared.number.powers import check_power

_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, *DIVIDING)
_ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
_BINDING = ast.Assign | ast.AnnAssign | ast.NamedExpr
_ASKING = ast.If | ast.IfExp | ast.Assert | ast.BoolOp | ast.UnaryOp
DECISIONS = ("DYN101", "DYN103", "DYN104", "DYN105")
"""The codes of findings that remain if the number selected a branch and is now a tensor."""


def flow_of(
    scope: Scope,
    node: ast.expr,
    dtype: k.DType | None,
    *,
    wide: bool = False,
    buffer: str = "",
    converted: bool = False,
) -> NumberFlow:
    """Follow the number that `node` reads to all its uses, as if it were a 0-dim tensor of dtype class `dtype`.

    `wide` is true if the tensor will have 64 bits. `buffer` is the attribute, as text, that will hold a tensor. If
    `converted` is true, the tensor is float32 even in a model that was converted to a narrower dtype.

    Raises:
        Refusal: If at least one use does not accept a tensor, or is unknown.
    """
    refuse_counted_loops(scope, node)
    wide = wide or is_wide(node)
    follower = _Follower(scope, double=is_double(node), wide=wide, converted=converted or wide, buffer=buffer)
    follower.climb(node, dtype)
    return follower.flow


def flow_of_selected(scope: Scope, reads: Iterable[ast.expr], dtype: k.DType, *, stored: bool = False) -> NumberFlow:
    """Follow a number of type `dtype` that a tensor selects. `torch.where` makes a 0-dim tensor of it.

    It may also be an element of a tensor that the module stores.

    Raises:
        Refusal: If at least one use does not accept a tensor, or is unknown.
    """
    follower = _Follower(scope, wide=dtype == "int", converted=dtype == "float", stored=stored)
    for read in reads:
        follower.climb(read, dtype)
    return follower.flow


@dataclass
class _Follower(CollectionFollower):
    """Checks all uses of a number."""

    def used_alone(self, parent: ast.AST, node: ast.expr, dtype: k.DType | None) -> None:
        """Check the node that uses a number outside of any collection, and the places where its result is used."""
        self.flow.meets |= not isinstance(parent, ast.Assign | ast.NamedExpr | ast.Compare | _ASKING)
        if isinstance(parent, ast.keyword):
            parent = self.scope.parents[parent]
        if isinstance(parent, ast.BinOp):
            self._operation(parent, node, dtype)
        elif isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.USub | ast.UAdd):
            self.climb(parent, dtype)
        elif isinstance(parent, ast.AugAssign) and node is parent.value:
            self._in_place(parent, node, dtype)
        elif isinstance(parent, ast.Compare):
            self._comparison(parent, node, dtype)
        elif isinstance(parent, ast.Call):
            self.argument(parent, node, dtype)
        elif isinstance(parent, ast.FormattedValue) and parent.conversion == -1:
            self._formatted(parent)
        elif isinstance(parent, ast.Slice) or self.is_index(parent, node):
            self.index(parent, node, dtype)
        elif isinstance(parent, _BINDING | ast.Tuple | ast.List | ast.Dict | ast.Return):
            self._result(parent, node, dtype)
        elif self._decides(node):
            self.flow.leaves = DECISIONS
        elif isinstance(parent, ast.IfExp) and node is not parent.test:
            self._chosen(parent, node, dtype)
        else:
            self.refuse(parent, node)

    def _chosen(self, choice: ast.IfExp, node: ast.expr, dtype: k.DType | None) -> None:
        """Check a number that is one branch of a conditional expression whose other branch is also a number."""
        other = self.scope.kind(choice.orelse if node is choice.body else choice.body)
        if not k.is_number(other):
            self.refuse(choice, node)
        types = {one.type for one in other.members if isinstance(one, k.Value)}
        before, self.flow.leaves = self.flow.leaves, tuple[str, ...]()  # of the test, for example
        self.climb(choice, "float" if "float" in types else dtype)
        if self.flow.leaves:  # the analysis does not report a test of a value that is only sometimes a tensor
            raise Refusal(
                f"{self.scope.quote(choice)} decides a branch, but it could be a tensor or a number; select with "
                "`torch.where` instead"
            )
        self.flow.leaves = before

    def _formatted(self, part: ast.FormattedValue) -> None:
        """Check an f-string.

        A 0-dim tensor is formatted like its number, but printing the text or joining it with others breaks the graph.
        """
        text = self.scope.parents.get(part)
        user = self.scope.parents.get(text) if text is not None else None
        shows = isinstance(user, ast.Call) and callee(self.scope, user).startswith(SHOWS)
        joined = isinstance(user, ast.GeneratorExp | ast.ListComp | ast.BinOp | ast.AugAssign)
        if shows or joined:
            shown = self.scope.quote(part.value)
            raise Refusal(f"{shown} is only shown; move the statement under `if not torch.compiler.is_compiling():`")

    def _operation(self, operation: ast.BinOp, node: ast.expr, dtype: k.DType | None) -> None:
        other = operation.right if node is operation.left else operation.left
        kind = self.scope.kind(other)
        shown = self.scope.quote(operation)
        power = isinstance(operation.op, ast.Pow)
        if not power and not isinstance(operation.op, _ARITHMETIC):
            raise Refusal(
                f"{shown} gives a different result with a tensor; rewrite that step with tensor operations first"
            )
        tensor = as_tensor(kind)
        if tensor is not None:
            self.keep_narrow(operation, node, other, dtype)
            self.meet(tensor, dtype, operation)
            if power or (isinstance(operation.op, ast.Div) and node is operation.left):
                self.rounded(operation, node, kind)  # torch multiplies a number by the reciprocal of a tensor
        elif power:
            result = check_power(self, operation, node, dtype)
            self.rounded(operation, node, kind)
            self.climb(operation, result)
        elif k.is_number(kind):
            integral = dtype == "int" and all(isinstance(one, k.Value) and one.type == "int" for one in kind.members)
            defined = isinstance(operation.op, ast.Add | ast.Sub | ast.Mult) or (
                isinstance(operation.op, ast.FloorDiv | ast.Mod) and other is operation.right and is_nonzero(kind)
            )
            if not (integral and defined):
                self.rounded(operation, node, kind)
                floats = any(isinstance(one, k.Value) and one.type == "float" for one in kind.members)
                dtype = "float" if floats or isinstance(operation.op, ast.Div) else dtype
            self.climb(operation, dtype)
        elif (given := given_tensor(self.scope, other)) is not None:
            self.flow.conditions[f"`{given}` is a tensor"] = None
            self.meet(None, dtype, operation)
        elif isinstance(kind, k.Unknown):
            self.flow.conditions[f"{self.scope.quote(other)} in {shown} is a number or a tensor"] = None
            self.rounded(operation, node, kind)
            self.climb(operation, None)
        elif all(as_tensor(one) is not None or k.is_number(one) for one in kind.members):
            self.meet(None, dtype, operation)  # a sum that starts with a number is a tensor after the first addition
            self.rounded(operation, node, kind)
        else:
            raise Refusal(f"{self.scope.quote(other)} in {shown} does not accept a tensor; rewrite it first")

    def _in_place(self, statement: ast.AugAssign, node: ast.expr, dtype: k.DType | None) -> None:
        target = statement.target
        kind = kind_of_name(self.scope, target.id, statement) if isinstance(target, ast.Name) else k.UNKNOWN
        tensor, shown = as_tensor(kind), self.scope.quote(statement)
        if tensor is not None and isinstance(statement.op, _ARITHMETIC):
            self.meet(tensor, dtype, node)
        elif k.is_number(kind) and isinstance(statement.op, ast.Add | ast.Sub) and self._only_grows(target):
            self.widen(node, dtype)
            self.flow.conditions[f"{shown} is the same up to rounding"] = None
            self.follow_name(target, statement, dtype)
        else:
            raise Refusal(f"{shown} adds up numbers; start with a tensor and add up tensors instead")

    def _only_grows(self, target: ast.expr) -> bool:
        """Return whether a sum starts as a constant, and nothing keeps it, because adding to a tensor changes it."""
        uses = self.scope.names.get(target.id, []) if isinstance(target, ast.Name) else []
        around = [(use, self.scope.parents[use]) for use in uses]
        kept = (ast.Assign, ast.AnnAssign, ast.Tuple, ast.List, ast.Dict, ast.keyword, ast.Call)
        starts = [one for use, one in around if isinstance(one, ast.Assign) and use in one.targets]
        constant = all(isinstance(one.value, ast.Constant) for one in starts)
        return constant and not any(isinstance(one, kept) for _, one in around if one not in starts)

    def _comparison(self, comparison: ast.Compare, node: ast.expr, dtype: k.DType | None) -> None:
        other = comparison.comparators[0] if node is comparison.left else comparison.left
        tensor = as_tensor(self.scope.kind(other))
        shown = self.scope.quote(comparison)
        if len(comparison.ops) == 1 and isinstance(comparison.ops[0], _ORDER) and self._is_checked(comparison):
            self._compared(node, other, dtype, shown)
            return
        named = isinstance(self.scope.parents[comparison], ast.Assign) and tensor is None
        if len(comparison.ops) == 1 and isinstance(comparison.ops[0], _ORDER) and (named or self._decides(comparison)):
            if isinstance(self.scope.kind(other), k.Unknown):
                self.flow.conditions[f"{self.scope.quote(other)} in {shown} is a number or a tensor"] = None
            elif tensor is None and not k.is_number(self.scope.kind(other)):
                raise Refusal(f"{self.scope.quote(other)} in {shown} may not be a number; compare with a tensor")
            self._compared(node, other, dtype, shown)
            if named:
                self.climb(comparison, "bool")
                return
            self.flow.leaves, self.flow.meets = DECISIONS, self.flow.meets or tensor is not None
            return
        if len(comparison.ops) > 1 or not isinstance(comparison.ops[0], _ORDER) or tensor is None:
            why = "decides a branch in Python, and a tensor would also break the graph there"
            raise Refusal(f"{shown} {why}; select with `torch.where` instead")
        self.meet(tensor, dtype, comparison)

    def _compared(self, node: ast.expr, other: ast.expr, dtype: k.DType | None, shown: str) -> None:
        """Convert an operand of a comparison if its narrow dtype cannot represent Python's ints."""
        kind = self.scope.kind(other)
        if as_tensor(kind) is not None or (dtype in ("float", None) and is_short(kind)):
            return
        if dtype in ("int", "bool") and is_whole(kind):
            if (self.wide and dtype == "int") or is_small(kind):
                return
            if isinstance(node, ast.Name | ast.Call | ast.Attribute | ast.Subscript):
                self.flow.edits.append((node, rw.calling("long")))
                return
        self.flow.conditions[f"{shown} gives the same result in the tensor's precision"] = None

    def _decides(self, node: ast.expr) -> bool:
        """Return whether `node` is all or part of the test of an `if`, a conditional expression or an assertion."""
        parent = self.scope.parents[node]
        asked = isinstance(parent, _ASKING) and (not isinstance(parent, ast.UnaryOp) or isinstance(parent.op, ast.Not))
        return asked and decision_of(self.scope.parents, node).form in ("if", "ifexp", "assert")

    def _is_checked(self, comparison: ast.Compare) -> bool:
        """Return whether a comparison's result is only asserted, or passed to a function that tests for a tensor."""
        parent = self.scope.parents[comparison]
        if isinstance(parent, ast.Assert):
            return parent.msg is None or isinstance(parent.msg, ast.Constant)
        return isinstance(parent, ast.Call) and asks_for_tensor(self.scope, parent, comparison)

    def _result(self, parent: ast.AST, node: ast.expr, dtype: k.DType | None) -> None:
        """Check a number that is assigned to a name or returned, possibly inside a tuple, list or dict."""
        outer = self.scope.parents.get(parent)
        if isinstance(parent, ast.Tuple) and isinstance(outer, ast.Assign) and outer.value is parent:
            target = outer.targets[0]
            if len(outer.targets) == 1 and isinstance(target, ast.Tuple) and len(target.elts) == len(parent.elts):
                self.follow_name(target.elts[parent.elts.index(node)], outer, dtype)
                return
        if isinstance(parent, ast.Assign) and len(parent.targets) == 1:
            self.follow_name(parent.targets[0], parent, dtype)
        elif isinstance(parent, ast.AnnAssign):
            self.follow_name(parent.target, parent, dtype)
        elif isinstance(parent, ast.NamedExpr):
            if next(loads(self.scope, parent.target.id), None) is not None:
                self.follow_name(parent.target, statement_of(self.scope, parent), dtype)
            self.climb(parent, dtype)
        elif isinstance(parent, ast.Return) or (isinstance(parent, ast.expr) and is_returned(self.scope, parent)):
            self.returned(node, dtype)
        else:
            self.refuse(parent, node)

    def follow_name(self, target: ast.expr, statement: ast.stmt, dtype: k.DType | None) -> None:
        """Check all uses of the name to which a statement assigns the number."""
        if self._goes_into_tensor(target) or ast.unparse(target) == self.buffer:
            return
        if (condition := condition_to_record(self.scope, target)) is not None:
            self.flow.conditions[condition] = None
            self.flow.recorded = True
            return
        if not isinstance(target, ast.Name):
            raise Refusal(
                f"{self.scope.quote(target)} keeps the number after this statement; if all other code accepts a "
                "tensor, store the tensor's `.detach()` instead"
            )
        name = target.id
        uses = self.scope.names.get(name, [])
        step(len(uses))
        reads = own_reads(self.scope, statement, target)
        if reads is None and dtype == "float" and self._is_scaled(target):
            reads = list(loads(self.scope, name))
        mixed = reads is None
        if name not in self.scope.function.locals or (mixed and not self._are_numbers(target)):
            raise Refusal(f"`{name}` is assigned more than once; use a separate variable for this value first")
        own = set(walk_function(self.scope.function.node))
        if any(use not in own for use in uses):
            raise Refusal(f"`{name}` is used in a nested function; pass a tensor to that function instead")
        reads = list(loads(self.scope, name)) if reads is None else reads
        if not reads:
            raise Refusal(f"`{name}` is never used; delete {self.scope.quote(statement)}")
        if target not in self.targets:
            self.targets.add(target)
            if mixed:
                self._follow_mixed(name, reads, dtype)
                return
            for use in reads:
                self.climb(use, dtype)

    def _follow_mixed(self, name: str, reads: list[ast.Name], dtype: k.DType | None) -> None:
        """Check the uses of a name that is a tensor or a number, so they have to accept both as they are."""
        shown = [use for use in reads if is_in_eager_code(self.scope, use)]
        changes: list[rw.Change] = [(use, rw.call(str(dtype), rw.kept(self.scope.file, use))) for use in shown]
        inner = replace(self, flow=NumberFlow(), mixed=changes)
        for use in reads:
            if use not in shown:
                inner.climb(use, dtype)
        values = [self.scope.parents[store] for store in self.scope.names[name] if isinstance(store.ctx, ast.Store)]
        kinds = [self.scope.kind(one.value) for one in values if isinstance(one, ast.Assign)]
        alike = all(isinstance(one, k.Value) and one.type == dtype for kind in kinds for one in kind.members)
        if inner.flow.edits or (shown and not alike):
            raise Refusal(f"`{name}` is assigned more than once; use a separate variable for this value first")
        self.flow.add(inner.flow)
        self.flow.edits += changes

    def _is_scaled(self, target: ast.Name) -> bool:
        """Return whether a name has no other value, except that statements such as `width /= 2` change it."""
        changes: list[ast.AugAssign] = []
        for store in self.scope.names.get(target.id, []):
            statement = self.scope.parents.get(store)
            if isinstance(statement, ast.AugAssign) and isinstance(statement.op, _ARITHMETIC):
                changes.append(statement)
            elif store is not target and not isinstance(store.ctx, ast.Load):
                return False
        if target.id in parameters(self.scope) or not all(k.is_number(self.scope.kind(one.value)) for one in changes):
            return False
        for one in changes:
            self.flow.conditions[f"{self.scope.quote(one)} is the same up to rounding"] = None
        return bool(changes)

    def _goes_into_tensor(self, target: ast.expr) -> bool:
        """Return whether a number is assigned to elements of a tensor, which converts any value to its own dtype.

        Assigning through an index tensor requires a value of the same dtype.
        """
        if not isinstance(target, ast.Subscript) or self.scope.tensor(target.value) is None:
            return False
        return is_whole(self.scope.kind(target.slice)) or self.scope.dtype(target.slice) == "bool"

    def _are_numbers(self, target: ast.Name) -> bool:
        """Return whether every other value of a name is a number that Dynamo knows, as far as the code shows."""
        for store in self.scope.names.get(target.id, []):
            statement = self.scope.parents.get(store)
            if store is target or isinstance(store.ctx, ast.Load):
                continue
            if not isinstance(statement, ast.Assign) or statement.targets != [store]:
                return False
            kind = self.scope.kind(statement.value)
            if isinstance(kind, k.Unknown) and isinstance(statement.value, ast.Attribute | ast.Name):
                self.flow.conditions[f"{self.scope.quote(statement.value)} is a number"] = None
            elif not all(
                isinstance(one, k.Value)
                and one.type in ("int", "float")
                and (one.source != "data" or isinstance(statement.value, ast.Call))
                for one in kind.members
            ):
                return False
        return target.id not in parameters(self.scope)


def with_conditions(flow: NumberFlow, found: Detached) -> NumberFlow:
    """Return `flow` with the detached tensor's conditions added, unless the number is only used to select a branch."""
    if flow.leaves and not flow.meets and not flow.conditions:
        return flow
    return replace(flow, conditions={**dict.fromkeys(found.conditions), **flow.conditions})
