"""What becomes of the uses of a number read out of a tensor when it stays a 0-dim tensor instead.

A number and a 0-dim tensor of the same value give the same results in arithmetic with other tensors, as long as the
dtype comes out the same. They do not in a test, as an index, as a size, in a store or in a call of unknown code; there
the rewrite is refused.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

from dynalint.analysis import kinds as k
from dynalint.analysis.index import walk_function
from dynalint.analysis.steps import walk
from dynalint.findings import Safety
from dynalint.rules import Replacement
from dynalint_rules._shared.calls import callee
from dynalint_rules._shared.decision import decision_of
from dynalint_rules._shared.detached import Detached
from dynalint_rules._shared.doubles import bounded, divided, meeting, operands
from dynalint_rules._shared.either import CLAMPS, IN_TORCH, TAKES_EITHER, WHOLE
from dynalint_rules._shared.handover import asks_for_tensor, is_passed_up
from dynalint_rules._shared.known_numbers import is_whole
from dynalint_rules._shared.names import kind_of_name
from dynalint_rules._shared.no_number import SHOWS, why_not
from dynalint_rules._shared.precision import Class, is_double, is_nonzero, is_short, is_small, is_wide
from dynalint_rules._shared.scope import Refusal, Scope, as_tensor
from dynalint_rules._shared.single_index import with_a_dimension
from dynalint_rules._shared.sliced import without_bounds

_DIVIDING = (ast.Div, ast.FloorDiv, ast.Mod)
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, *_DIVIDING)
_ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
_ASKING = ast.If | ast.IfExp | ast.Assert | ast.BoolOp | ast.UnaryOp
DECISIONS = ("DYN101", "DYN103", "DYN104", "DYN105")
"""The codes of what a number leaves that decided something, and is a tensor now."""


@dataclass
class Flow:
    """What keeping the tensor asks for (`conditions`) and what it changes by nature (`changes`), one clause each.

    `edits` are what has to change at its uses, for which `imports` may be needed. `leaves` are the codes of what the
    tensor decides, which other rules rewrite; `meets` tells that there are other uses.
    """

    conditions: dict[str, None] = field(default_factory=dict)
    changes: dict[str, None] = field(default_factory=dict)
    edits: list[Replacement] = field(default_factory=list)
    imports: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    meets: bool = False

    @property
    def safety(self) -> Safety:
        """How far the rewrite may be trusted."""
        return "unsafe" if self.changes else "conditional" if self.conditions else "safe"

    @property
    def clauses(self) -> tuple[str, ...]:
        """Everything to be named with the fix, what it changes first."""
        return (*self.changes, *self.conditions)


def flow_of(
    scope: Scope,
    node: ast.expr,
    dtype: k.DType | None,
    *,
    wide: bool = False,
    doubles: bool = False,
    drawn: bool = False,
) -> Flow:
    """Follow the number that `node` gives to all its uses, as if it were a 0-dim tensor of that class of dtypes.

    `wide` tells that it will be one of 64 bits. With `doubles` the tensor is converted where Python computes with more
    digits than it has, if that is all that would change. `drawn` tells that it is drawn at random, so that no digit of
    it matters.

    Raises:
        Refusal: at least one of the uses takes no tensor, or nothing is known of it.
    """
    follower = _Follower(scope, double=is_double(node), wide=wide or is_wide(node), drawn=drawn)
    follower.climb(node, dtype)
    if doubles and follower.flow.changes:
        exact = replace(follower, flow=Flow(), names=set(), sliced=set(), doubles=True)
        with suppress(Refusal):
            exact.climb(node, dtype)
            return follower.flow if exact.flow.changes else exact.flow
    return follower.flow


def flow_into(scope: Scope, target: ast.expr, loop: ast.stmt, dtype: k.DType | None) -> Flow:
    """Follow the numbers that a loop puts under a name, as if they were 0-dim tensors.

    Raises:
        Refusal: at least one of the uses takes no tensor, or nothing is known of it.
    """
    follower = _Follower(scope)
    follower.follow_name(target, loop, dtype)
    return follower.flow


@dataclass
class _Follower:
    scope: Scope
    flow: Flow = field(default_factory=Flow)
    names: set[str] = field(default_factory=set)
    double: bool = False
    wide: bool = False
    doubles: bool = False
    drawn: bool = False
    positive: set[ast.expr] = field(default_factory=set)
    sliced: set[ast.Subscript] = field(default_factory=set)

    def climb(self, node: ast.expr, dtype: Class) -> None:
        """Judge the one use that stands around `node`, and those that this leads to."""
        parent = self.scope.parents[node]
        self.flow.meets |= not isinstance(parent, ast.Assign | ast.Compare | _ASKING)
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
            self._argument(parent, node, dtype)
        elif isinstance(parent, ast.FormattedValue) and parent.conversion == -1 and dtype != "double":
            self._formatted(parent)
        elif self._is_index(parent, node):
            self._index(parent if isinstance(parent, ast.Subscript) else self.scope.parents[parent], node, dtype)
        elif isinstance(parent, ast.Slice | ast.ListComp | ast.GeneratorExp):
            self._part(parent, node, dtype)
        elif isinstance(parent, ast.Assign | ast.AnnAssign | ast.Tuple | ast.List | ast.Dict | ast.Return):
            self._result(parent, node, dtype)
        elif self._decides(node):
            self.flow.leaves = DECISIONS
        else:
            self._refuse(parent, node)

    def _is_index(self, parent: ast.AST, node: ast.expr) -> bool:
        """Whether a number is one of the indices of a tensor."""
        outer = self.scope.parents.get(parent) if isinstance(parent, ast.Tuple) else parent
        if not isinstance(outer, ast.Subscript) or outer.value is node or outer.slice not in (parent, node):
            return False
        return self.scope.tensor(outer.value) is not None and not isinstance(outer.ctx, ast.Del)

    def _index(self, subscript: ast.AST, node: ast.expr, dtype: Class) -> None:
        assert isinstance(subscript, ast.Subscript)
        shown = self.scope.quote(node)
        if dtype in ("bool", "float", "complex", "double"):
            raise Refusal(f"{shown} is no whole number to index with")
        if dtype is None:
            self.flow.conditions[f"{shown} is a whole number"] = None
        edits, condition = with_a_dimension(self.scope, subscript, node)
        self.flow.edits += edits
        statement = self.scope.parents.get(subscript)
        if isinstance(subscript.ctx, ast.Load):
            self.flow.conditions[condition] = None
        elif isinstance(statement, ast.Assign) and not k.is_number(self.scope.kind(statement.value)):
            stored, taking = self.scope.quote(statement.value), self.scope.quote(subscript.value)
            self.flow.conditions[f"{stored} has the dtype of {taking}"] = None

    def _part(self, parent: ast.Slice | ast.ListComp | ast.GeneratorExp, node: ast.expr, dtype: Class) -> None:
        if isinstance(parent, ast.Slice):
            self._bound(parent, node, dtype)
        else:
            self._refuse(parent, node)

    def _bound(self, part: ast.Slice, node: ast.expr, dtype: Class) -> None:
        """A number bounds a slice, of which only a sum, a mean or a window of fixed length may be wanted."""
        outer = self.scope.parents[part]
        subscript = self.scope.parents[outer] if isinstance(outer, ast.Tuple) else outer
        named = all(isinstance(one, ast.Name | ast.BinOp | ast.Constant | ast.operator | ast.expr_context)
                    for one in walk(node))  # fmt: skip
        if not isinstance(subscript, ast.Subscript) or not named or dtype not in ("int", None):
            self._refuse(part, node)
            return
        if subscript in self.sliced:
            return
        try:
            found = without_bounds(self.scope, subscript, node)
        except Refusal:
            self._refuse(part, node)
            return
        self.sliced.add(subscript)
        if dtype is None:
            self.flow.conditions[f"{self.scope.quote(node)} is a whole number"] = None
        self.flow.edits += found.edits
        self.flow.changes.update(dict.fromkeys(found.changes))
        self.flow.conditions.update(dict.fromkeys(found.conditions))

    def _formatted(self, part: ast.FormattedValue) -> None:
        """A 0-dim tensor formats as its number does, but who prints the text has ended the graph already."""
        text = self.scope.parents.get(part)
        call = self.scope.parents.get(text) if text is not None else None
        if isinstance(call, ast.Call) and callee(self.scope, call).startswith(SHOWS):
            shown = self.scope.quote(part.value)
            raise Refusal(f"{shown} is only shown; put the statement behind `if not torch.compiler.is_compiling():`")

    def _operation(self, operation: ast.BinOp, node: ast.expr, dtype: Class) -> None:
        other = operation.right if node is operation.left else operation.left
        kind = self.scope.kind(other)
        shown = self.scope.quote(operation)
        if isinstance(operation.op, ast.Pow) and k.is_number(kind):
            self._power(operation, kind, dtype)
            return
        if not isinstance(operation.op, _ARITHMETIC):
            raise Refusal(f"{shown} does not come out the same with a tensor; write that step with tensors by hand")
        tensor = as_tensor(kind)
        if tensor is not None:
            if isinstance(operation.op, ast.Div) and node is operation.left:
                enclose = dtype != "double" or bool(tensor.rank)
                self.flow.edits += divided(self.scope, operation, node, enclose=enclose)
            self._meet(tensor, dtype, operation, (node, other))
        elif k.is_number(kind):
            integral = dtype == "int" and all(isinstance(one, k.Value) and one.type == "int" for one in kind.members)
            defined = isinstance(operation.op, ast.Add | ast.Sub | ast.Mult) or (
                isinstance(operation.op, ast.FloorDiv | ast.Mod) and other is operation.right and is_nonzero(kind)
            )
            if not (integral and defined) and self.doubles:
                self._note(*operands(self.scope, operation, node, dtype, node in self.positive))
                dtype = "double"
            elif not (integral and defined):
                if not self.drawn or (node is operation.right and isinstance(operation.op, _DIVIDING)):
                    clause = "is computed in the precision of the tensor, and gives inf or nan where Python raises"
                    self.flow.changes[f"{shown} {clause}"] = None
                floats = any(isinstance(one, k.Value) and one.type == "float" for one in kind.members)
                dtype = "float" if floats or isinstance(operation.op, ast.Div) else dtype
            self.climb(operation, dtype)
        elif isinstance(kind, k.Unknown) and self.doubles:
            self._note(*operands(self.scope, operation, node, dtype, node in self.positive))
            self.climb(operation, "double")
        elif isinstance(kind, k.Unknown):
            clause = f"{self.scope.quote(other)} in {shown} is a tensor, or a number that is as good in its precision"
            self.flow.changes[clause] = None
            self.climb(operation, None)
        else:
            raise Refusal(f"{self.scope.quote(other)} in {shown} takes no tensor; rewrite it by hand")

    def _power(self, operation: ast.BinOp, kind: k.Kind, dtype: Class) -> None:
        """A power is defined for other numbers in torch than in Python: whole ones have no negative exponents."""
        shown = self.scope.quote(operation)
        clause = (
            f"{shown} is computed in the precision of the tensor, and raises or gives inf or nan where Python does not"
        )
        self.flow.changes[clause] = None
        floats = any(isinstance(one, k.Value) and one.type == "float" for one in kind.members)
        self.climb(operation, "float" if floats or dtype == "double" else dtype)

    def _in_place(self, statement: ast.AugAssign, node: ast.expr, dtype: Class) -> None:
        target = statement.target
        kind = kind_of_name(self.scope, target.id, statement) if isinstance(target, ast.Name) else k.UNKNOWN
        tensor = as_tensor(kind)
        if tensor is None or not isinstance(statement.op, _ARITHMETIC):
            shown = self.scope.quote(statement)
            raise Refusal(f"{shown} sums up numbers; start from a tensor and sum up tensors by hand")
        self._meet(tensor, dtype, node, (node, target))

    def _comparison(self, comparison: ast.Compare, node: ast.expr, dtype: Class) -> None:
        other = comparison.comparators[0] if node is comparison.left else comparison.left
        tensor = as_tensor(self.scope.kind(other))
        shown = self.scope.quote(comparison)
        if len(comparison.ops) == 1 and isinstance(comparison.ops[0], _ORDER) and self._is_checked(comparison):
            self._compared(node, other, dtype, shown)
            return
        if len(comparison.ops) == 1 and isinstance(comparison.ops[0], _ORDER) and self._decides(comparison):
            if self.drawn and isinstance(self.scope.kind(other), k.Unknown):
                self.flow.changes[f"{self.scope.quote(other)} is a number"] = None
            elif tensor is None and not k.is_number(self.scope.kind(other)):
                raise Refusal(f"{self.scope.quote(other)} in {shown} may be no number; compare with a tensor by hand")
            self._compared(node, other, dtype, shown)
            self.flow.leaves, self.flow.meets = DECISIONS, self.flow.meets or tensor is not None
            return
        if len(comparison.ops) > 1 or not isinstance(comparison.ops[0], _ORDER) or tensor is None:
            raise Refusal(
                f"{shown} decides something in Python, which a tensor cannot do in one graph; "
                "select with `torch.where` by hand"
            )
        self._meet(tensor, dtype, comparison)

    def _compared(self, node: ast.expr, other: ast.expr, dtype: Class, shown: str) -> None:
        """Convert what is compared where the precision of the tensor does not hold what Python's numbers do.

        A tensor of few bits compares with what is left of a number that does not fit into them.
        """
        kind = self.scope.kind(other)
        if self.drawn:
            return
        if dtype == "double":
            if as_tensor(kind) is not None:
                self._meet(None, dtype, node)
            return
        if as_tensor(kind) is not None or (dtype in ("float", None) and is_short(kind)):
            return
        if dtype in ("int", "bool") and is_whole(kind):
            if not (self.wide and dtype == "int") and not is_small(kind):
                if not isinstance(node, ast.Name | ast.Call | ast.Attribute | ast.Subscript):
                    self.flow.conditions[f"{self.scope.quote(other)} fits into the dtype of the tensor"] = None
                else:
                    end = self.scope.file.span(node)[1]
                    self.flow.edits.append(Replacement(self.scope.file, end, end, ".long()"))
            return
        if isinstance(node, ast.Name | ast.Call | ast.Attribute | ast.Subscript) and dtype in ("float", None):
            if dtype is None:
                self.flow.conditions[f"{self.scope.quote(node)} is a floating-point number, or below 2**53"] = None
            end = self.scope.file.span(node)[1]
            self.flow.edits.append(Replacement(self.scope.file, end, end, ".double()"))
            return
        self.flow.conditions[f"{shown} comes out the same in the precision of the tensor"] = None

    def _decides(self, node: ast.expr) -> bool:
        """Whether `node` is all or part of what an `if`, a conditional expression or an assertion tests."""
        parent = self.scope.parents[node]
        asked = isinstance(parent, _ASKING) and (not isinstance(parent, ast.UnaryOp) or isinstance(parent.op, ast.Not))
        return asked and decision_of(self.scope.parents, node).form in ("if", "ifexp", "assert")

    def _is_checked(self, comparison: ast.Compare) -> bool:
        """Whether an outcome is only asserted, or handed to a function that asks whether it was given a tensor."""
        parent = self.scope.parents[comparison]
        if isinstance(parent, ast.Assert):
            return parent.msg is None or isinstance(parent.msg, ast.Constant)
        return isinstance(parent, ast.Call) and asks_for_tensor(self.scope, parent, comparison)

    def _argument(self, call: ast.Call, node: ast.expr, dtype: Class) -> None:
        name = callee(self.scope, call)
        position = next((at for at, argument in enumerate(call.args) if argument is node), None)
        keyword = next((one.arg for one in call.keywords if one.value is node), None)
        if name in ("builtins.max", "builtins.min") and position is not None and len(call.args) > 1:
            self._extreme(call, node, position, dtype)
        elif name == "builtins.abs":
            self.climb(call, dtype)
        elif name.removeprefix("math.") in IN_TORCH and call.args == [node]:
            self._computed(call, name.removeprefix("math."))
        elif name in CLAMPS and self._is_one_bound(call, name, node):
            self._meet_argument(call, name, dtype)
        elif name in TAKES_EITHER:
            positions, keywords = TAKES_EITHER[name]
            if position not in positions and keyword not in keywords:
                self._refuse(call, node)
            if name != "torch.full":  # its result has the default dtype either way
                self._meet_argument(call, name, dtype)
        else:
            self._refuse(call, node)

    def _computed(self, call: ast.Call, name: str) -> None:
        """A function of `math` is computed by torch's instead."""
        there = f"{self.scope.torch}.{IN_TORCH[name]}"
        clause = (
            f"`{there}` computes in the precision of the tensor, and gives NaN or infinity where `math.{name}` raises"
        )
        self.flow.changes[clause] = None
        self.flow.edits.append(Replacement(self.scope.file, *self.scope.file.span(call.func), there))
        self.flow.imports = self.scope.imports
        self.climb(call, None if name in WHOLE else "float")

    def _meet_argument(self, call: ast.Call, name: str, dtype: Class) -> None:
        subject = call.args[0] if name.startswith("torch.") and call.args else None
        if isinstance(call.func, ast.Attribute) and name.startswith("Tensor."):
            subject = call.func.value
        if name in ("torch.where", "Tensor.where"):
            subject = None  # what decides is the other branch
        self._meet(as_tensor(self.scope.kind(subject)) if subject is not None else None, dtype, call)

    def _is_one_bound(self, call: ast.Call, name: str, node: ast.expr) -> bool:
        """Whether a clamp has no other bound than `node`: a number and a tensor do not go together."""
        bounds = [*call.args[1 if name.startswith("torch.") else 0 :], *(one.value for one in call.keywords)]
        return all(one is node or (isinstance(one, ast.Constant) and one.value is None) for one in bounds)

    def _extreme(self, call: ast.Call, node: ast.expr, position: int, dtype: Class) -> None:
        others = [self.scope.kind(argument) for argument in call.args if argument is not node]
        if call.keywords or not all(k.is_number(kind) for kind in others):
            self._refuse(call, node)
        if self.doubles:
            edits, kept, positive = bounded(self.scope, call, node, dtype)
            self.flow.edits += edits
            self.flow.imports = self.scope.imports
            self.positive |= {call} if positive else set()
            self.climb(call, kept)
            return
        if dtype == "float" and position > 0:
            self.flow.conditions[f"{self.scope.quote(node)} is never NaN"] = None
        types = {one.type for kind in others for one in kind.members if isinstance(one, k.Value)}
        self.climb(call, dtype if dtype == "float" or types <= {"int"} else None)

    def _result(self, parent: ast.AST, node: ast.expr, dtype: Class) -> None:
        """The number is given a name, or returned, maybe as part of a tuple, list or dict."""
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
        elif isinstance(parent, ast.Return) or (isinstance(parent, ast.expr) and self._is_returned(parent)):
            self._returned(node)
        else:
            self._refuse(parent, node)

    def _is_returned(self, node: ast.expr) -> bool:
        parent = self.scope.parents.get(node)
        if isinstance(parent, ast.Return):
            return True
        return isinstance(parent, ast.Tuple | ast.List | ast.Dict) and self._is_returned(parent)

    def _returned(self, node: ast.expr) -> None:
        caller = self.scope.function.caller
        if caller is not None and not is_passed_up(self.scope):
            shown = self.scope.quote(node)
            raise Refusal(f"{shown} is returned to `{caller.qualname}`, which may need a number; change both by hand")
        self.flow.changes["the caller receives a 0-dim tensor instead of a number"] = None

    def follow_name(self, target: ast.expr, statement: ast.stmt, dtype: Class) -> None:
        """Judge all uses of the name that a statement binds to the number."""
        if self._goes_into_tensor(target):
            return
        if not isinstance(target, ast.Name):
            raise Refusal(
                f"{self.scope.quote(target)} keeps the number after this statement; "
                "store the tensor's `.detach()` by hand if every reader takes a tensor"
            )
        name = target.id
        uses = list(_uses(self.scope, name))
        stores = [use for use in uses if not isinstance(use.ctx, ast.Load)]
        alone = stores == [target] and name not in _parameters(self.scope)
        mixed = not alone and not self._is_last(statement, stores)
        if name not in self.scope.function.locals or (mixed and not self._are_numbers(target, stores)):
            raise Refusal(f"`{name}` is set at more than one place; give this value a name of its own first")
        own = set(walk_function(self.scope.function.node))
        if any(use not in own for use in uses):
            raise Refusal(f"`{name}` is used in a nested function; pass it there as a tensor by hand")
        loads = [use for use in uses if isinstance(use.ctx, ast.Load) and (alone or mixed or _is_after(use, statement))]
        if not loads:
            raise Refusal(f"`{name}` is never used; delete {self.scope.quote(statement)}")
        if name not in self.names:
            self.names.add(name)
            edits = len(self.flow.edits)
            for use in loads:
                self.climb(use, dtype)
            if mixed and (len(self.flow.edits) > edits or self.flow.leaves):
                raise Refusal(f"`{name}` is set at more than one place; give this value a name of its own first")

    def _goes_into_tensor(self, target: ast.expr) -> bool:
        """Whether a number is stored to elements of a tensor, in whose dtype it ends up either way.

        What tensors of positions select takes only values of the same dtype.
        """
        if not isinstance(target, ast.Subscript) or self.scope.tensor(target.value) is None:
            return False
        index = self.scope.tensor(target.slice)
        return is_whole(self.scope.kind(target.slice)) or (index is not None and index.dtype == "bool")

    def _is_last(self, statement: ast.stmt, stores: list[ast.Name]) -> bool:
        """Whether what follows a statement of the function itself sees no value of a name but that which it gives."""
        if not isinstance(statement, ast.Assign | ast.AnnAssign):
            return False
        own = self.scope.parents.get(statement) is self.scope.function.node
        return own and not any(_is_after(store, statement) for store in stores)

    def _are_numbers(self, target: ast.Name, stores: list[ast.Name]) -> bool:
        """Whether all that a name is set to elsewhere are numbers that are known while tracing."""
        for store in stores:
            statement = self.scope.parents.get(store)
            if store is target:
                continue
            if not isinstance(statement, ast.Assign) or statement.targets != [store]:
                return False
            kinds = self.scope.kind(statement.value).members
            if not all(
                isinstance(one, k.Value) and one.type in ("int", "float") and one.source != "data" for one in kinds
            ):
                return False
        return target.id not in _parameters(self.scope)

    def _note(self, edits: list[Replacement], conditions: list[str]) -> None:
        self.flow.edits += edits
        self.flow.conditions.update(dict.fromkeys(conditions))

    def _meet(
        self,
        tensor: k.Tensor | None,
        dtype: Class,
        where: ast.expr,
        operands: tuple[ast.expr, ast.expr] | None = None,
    ) -> None:
        """Note what must hold for the dtype of the result to stay, when a number meets a tensor.

        A number never changes the dtype within its category. A 0-dim tensor does not either, unless the other one has
        no dimensions too; and in a higher category it brings a dtype of its own, a number the default dtype.
        `operands` are the number and the tensor of an operation.
        """
        ranks = ("bool", "int", "float", "complex")
        if dtype == "double":
            if tensor is None or operands is None:
                raise Refusal(f"{self.scope.quote(where)} needs a number; convert the tensor of doubles by hand")
            self._note(*meeting(self.scope, tensor, *operands))
            return
        if tensor is not None and tensor.dtype is not None and dtype is not None:
            by_category = ranks.index(dtype) - ranks.index(tensor.dtype)
            if by_category <= 0 and (tensor.rank or (by_category < 0 and dtype in ("bool", "int"))):
                return
            if by_category > 0 and dtype == "float" and self.double:
                shown = self.scope.quote(where)
                raise Refusal(f"{shown} would become a tensor of doubles; convert what is read with `.float()` first")
        self.flow.conditions[f"the dtype of {self.scope.quote(where)} stays the same"] = None

    def _refuse(self, parent: ast.AST, node: ast.expr) -> None:
        called = callee(self.scope, parent) if isinstance(parent, ast.Call) else ""
        raise Refusal(why_not(self.scope, parent, node, called))


def with_conditions(flow: Flow, found: Detached) -> Flow:
    """Return `flow` with the conditions of the detached tensor added: none where the number does nothing but decide."""
    if flow.leaves and not flow.meets and not flow.conditions:
        return flow
    return replace(flow, conditions={**dict.fromkeys(found.conditions), **flow.conditions})


def _is_after(node: ast.expr, statement: ast.stmt) -> bool:
    end = (statement.end_lineno or 0, statement.end_col_offset or 0)
    return (node.lineno, node.col_offset) >= end


def _uses(scope: Scope, name: str) -> Iterator[ast.Name]:
    for node in walk(scope.function.node):
        if isinstance(node, ast.Name) and node.id == name:
            yield node


def _parameters(scope: Scope) -> set[str]:
    return {node.arg for node in walk(scope.function.node.args) if isinstance(node, ast.arg)}
