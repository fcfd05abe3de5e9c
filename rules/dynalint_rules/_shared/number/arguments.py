"""Uses of a number as an argument of a call, also in the functions of the project that it is passed or returned to."""

from __future__ import annotations

import ast
import re
from abc import abstractmethod
from dataclasses import replace

from dynalint.rulekit import FunctionInfo, Refusal, k, rw, walk, walk_function
from dynalint_rules._code.calls import callee, reads_among
from dynalint_rules._code.eager import is_in_eager_code, is_in_eager_test
from dynalint_rules._code.names import loads, parameters, statement_of, stores, value_for
from dynalint_rules._code.passed_values import is_passed_up, parameter_of, results_on_self
from dynalint_rules._code.scope import Scope, as_tensor
from dynalint_rules._shared.number.detached import detached
from dynalint_rules._shared.number.flow import NumberFlow
from dynalint_rules._shared.number.indexed import IndexFollower
from dynalint_rules._shared.number.single_index import rolled
from dynalint_rules._shared.number.takers import COMPARING, EXTREMES, IN_TORCH, TAKES_EITHER, WHOLE

_CLAMPING = frozenset(f"{owner}.{name}" for owner in ("torch", "Tensor") for name in ("clamp", "clip"))
_ADDING = frozenset(f"{owner}.{name}" for owner in ("torch", "Tensor") for name in ("add", "add_", "sub", "sub_"))
_FOR_NUMBERS = re.compile(r"^(math|numpy)\.")


class CallFollower(IndexFollower):
    """A follower that knows which calls accept a tensor instead of a number, and goes on into functions."""

    def argument(self, call: ast.Call, node: ast.expr, dtype: k.DType | None) -> None:
        """Check a use as an argument of a call.

        Raises:
            Refusal: If the call does not accept a tensor for this argument.
        """
        name = callee(self.scope, call)
        position = next((at for at, argument in enumerate(call.args) if argument is node), None)
        keyword = next((one.arg for one in call.keywords if one.value is node), None)
        if name in EXTREMES and position is not None and len(call.args) > 1:
            self._extreme(call, node, position, dtype)
        elif name == "builtins.abs":
            self.climb(call, dtype)
        elif name == "builtins.float" and dtype in ("float", "int"):
            self._converted(call, node, dtype)
        elif _FOR_NUMBERS.sub("", name) in IN_TORCH and call.args == [node] and not call.keywords:
            self._computed(call, name)
        elif name in ("torch.roll", "Tensor.roll"):
            self._rolled(call, node, dtype)
        elif name in _CLAMPING:
            self._bounded(call, node, name, dtype)
        elif name in _ADDING and keyword == "alpha" and call.args:
            self._factor(call, node, dtype)
        elif name in TAKES_EITHER:
            positions, keywords = TAKES_EITHER[name]
            if position not in positions and keyword not in keywords:
                self.refuse(call, node)
            # The result of `torch.full` has the default dtype in both cases.
            if name != "torch.full" and name not in COMPARING:
                self._meet_argument(call, name, dtype)
        else:
            self._passed(call, node, dtype)

    def _converted(self, call: ast.Call, node: ast.expr, dtype: k.DType) -> None:
        """Replace `float(number)`, which does nothing to a float."""
        kept = rw.kept(self.scope.file, node)
        self.flow.edits.append((call, kept if dtype == "float" else rw.method(kept, "float")))
        if dtype == "int":
            self.flow.conditions[f"{self.scope.quote(call)} is the same up to rounding"] = None
        self.climb(call, "float")

    def _rolled(self, call: ast.Call, node: ast.expr, dtype: k.DType | None) -> None:
        edits = rolled(self.scope, call, node) if dtype == "int" else None
        if edits is None:
            self.refuse(call, node)
        else:
            self.flow.edits += edits
            self.flow.imports = self.scope.imports

    def _factor(self, call: ast.Call, node: ast.expr, dtype: k.DType | None) -> None:
        """Replace `x.add(y, alpha=number)` with `x.add(y * number)`."""
        file, (*others, added) = self.scope.file, call.args
        if as_tensor(self.scope.kind(added)) is None or len(call.keywords) > 1:
            self.refuse(call, node)
        product = rw.operation(rw.kept(file, added), "*", rw.kept(file, node))
        self.flow.conditions[f"{self.scope.quote(call)} is the same up to rounding"] = None
        self.flow.edits.append(
            (call, rw.call(rw.kept(file, call.func), *(rw.kept(file, one) for one in others), product))
        )
        self._meet_argument(call, callee(self.scope, call), dtype)

    def _computed(self, call: ast.Call, function: str) -> None:
        """Replace a function of `math` or NumPy with the corresponding torch function."""
        name = _FOR_NUMBERS.sub("", function)
        there = f"{self.scope.torch}.{IN_TORCH[name]}"
        self.flow.conditions[
            f"{self.scope.quote(call)} has the same value up to rounding and never raises an exception"
        ] = None
        self.flow.edits.append((call.func, rw.name(there)))
        self.flow.imports = self.scope.imports
        self.climb(call, None if function.startswith("math.") and name in WHOLE else "float")

    def _bounded(self, call: ast.Call, node: ast.expr, name: str, dtype: k.DType | None) -> None:
        """Check a bound of `clamp`. The other bound becomes a tensor as well, or gets a `clamp` of its own."""
        file, given = self.scope.file, [*call.args]
        subject = given.pop(0) if name.startswith("torch.") and given else None
        bounds = dict(zip(("min", "max"), given, strict=False)) | {one.arg: one.value for one in call.keywords}
        other = next((one for one in bounds.values() if one is not node and not _is_none(one)), None)
        if not bounds.keys() <= {"min", "max"} or node is subject:
            self.refuse(call, node)
        read = other.func.value if isinstance(other, ast.Call) and isinstance(other.func, ast.Attribute) else None
        if read is not None and isinstance(other, ast.Call) and callee(self.scope, other) == "Tensor.item":
            found = detached(self.scope, read, read=other)
            self.flow.edits.append((other, found.text))
            self.flow.conditions |= dict.fromkeys(found.conditions)
        elif other is not None and self._reads_followed(other):
            pass  # the other bound becomes a tensor with the same name
        elif other is not None and k.is_number(self.scope.kind(other)):
            least, most = (rw.kept(file, bounds[one]) for one in ("min", "max"))
            function = rw.kept(file, call.func)
            own = rw.call(function, *([] if subject is None else [rw.kept(file, subject)]), min=least)
            self.flow.edits.append((call, rw.method(own, name.rpartition(".")[2], max=most)))
        elif other is not None and as_tensor(self.scope.kind(other)) is None:
            self.refuse(call, node)
        self._meet_argument(call, name, dtype)

    def _reads_followed(self, node: ast.expr) -> bool:
        """Return whether an expression reads a variable that holds the number."""
        names = {one.id for one in self.targets}
        return any(isinstance(one, ast.Name) and one.id in names for one in walk(node))

    def _meet_argument(self, call: ast.Call, name: str, dtype: k.DType | None) -> None:
        subject = call.args[0] if name.startswith("torch.") and call.args else None
        if isinstance(call.func, ast.Attribute) and name.startswith("Tensor."):
            subject = call.func.value
        if name in ("torch.where", "Tensor.where"):
            subject = None  # the other branch of the conditional expression determines the result
        self.meet(as_tensor(self.scope.kind(subject)) if subject is not None else None, dtype, call)

    def _extreme(self, call: ast.Call, node: ast.expr, position: int, dtype: k.DType | None) -> None:
        others = [self.scope.kind(argument) for argument in call.args if argument is not node]
        if call.keywords or not all(k.is_number(kind) for kind in others):
            self.refuse(call, node)
        if dtype == "float" and position > 0:
            self.flow.conditions[f"{self.scope.quote(node)} is never NaN"] = None
        self._clamped(call, node)
        types = {one.type for kind in others for one in kind.members if isinstance(one, k.Value)}
        self.climb(call, dtype if dtype == "float" or types <= {"int"} else None)

    def _clamped(self, call: ast.Call, node: ast.expr) -> None:
        """Rewrite `max(t, 1)` as `t.clamp(min=1)`, which is equivalent and always returns a tensor.

        `max(t.item(), u.item())`, in which both reads are replaced at the same time, becomes `torch.maximum(t, u)`.
        """
        if len(call.args) != 2:
            return
        other = call.args[0] if call.args[1] is node else call.args[1]
        bound, function = ("min", "maximum") if callee(self.scope, call) == "builtins.max" else ("max", "minimum")
        if reads_among(self.scope, node) and reads_among(self.scope, other):
            self.flow.edits.append((call.func, rw.name(f"{self.scope.torch}.{function}")))
            self.flow.imports = self.scope.imports
        else:
            limit = {bound: rw.kept(self.scope.file, other)}
            self.flow.edits.append((call, rw.method(rw.kept(self.scope.file, node), "clamp", **limit)))

    def climb(self, node: ast.expr, dtype: k.DType | None) -> None:
        """Check the expression that uses `node`, and the places where its result is used."""
        parent = self.scope.parents[node]
        if not is_in_eager_code(self.scope, node):
            self.used_in(parent, node, dtype)
        elif is_in_eager_test(self.scope, node) and self._is_compared(node):
            return  # a 0-dim tensor is compared like its number
        elif not isinstance(parent, ast.FormattedValue):
            self.flow.edits.append((node, rw.method(rw.kept(self.scope.file, node), "item")))
        elif parent.conversion != -1:  # otherwise, a 0-dim tensor is formatted like its number
            self.refuse(parent, node)

    def _is_compared(self, node: ast.expr) -> bool:
        """Return whether arithmetic with a number ends in a comparison that is the same for a 0-dim tensor."""
        parent = self.scope.parents[node]
        if isinstance(parent, ast.BinOp):
            return self._is_compared(parent)
        return isinstance(parent, ast.Compare) and not any(
            isinstance(one, ast.Is | ast.IsNot | ast.In | ast.NotIn) for one in parent.ops
        )

    @abstractmethod
    def used_in(self, parent: ast.AST, node: ast.expr, dtype: k.DType | None) -> None:
        """Check the node that uses a number in compiled code, and the places where its result is used."""

    def _passed(self, call: ast.Call, node: ast.expr, dtype: k.DType | None) -> None:
        """Follow a number into a function of the project that a call passes it to.

        Raises:
            Refusal: If the function is not known, or a use in it does not accept a tensor as well as a number.
        """
        if _is_never_read(self.scope, call):
            return
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
        """Check a number that is returned, alone or in a tuple. Uses in other methods are followed.

        Raises:
            Refusal: If a caller is not known, or may need a number.
        """
        scope, caller = self.scope, self.scope.function.caller
        if caller is None or is_passed_up(scope):
            self.flow.changes["the caller receives a 0-dim tensor instead of a number"] = None
            return
        parent = scope.parents[node]
        items = parent.elts if isinstance(parent, ast.Tuple) else []
        whole = scope.parents[parent] if items else parent
        results = results_on_self(scope) if isinstance(whole, ast.Return) else None
        if results is None or scope.function.qualname in self.functions:
            shown = scope.quote(node)
            raise Refusal(f"{shown} is returned to `{caller.qualname}`, which may need a number; change both together")
        declared = getattr(scope.function.node, "returns", None)
        if isinstance(declared, ast.Name) and declared.id in ("int", "float", "bool"):
            self.flow.edits.append((declared, rw.name(f"{scope.torch}.Tensor")))
            self.flow.imports = scope.imports
        self.flow.conditions[
            f"no code outside this project uses the result of `{scope.function.name}` as a Python number"
        ] = None
        for user, result in results:
            inner = self._inside(user)
            if items:
                inner.unpacked(result, items.index(node), len(items), dtype)
            else:
                inner.climb(result, dtype)
            self.flow.add(inner.flow)

    def unpacked(self, result: ast.expr, position: int, size: int, dtype: k.DType | None) -> None:
        """Check the item at `position` of a tuple that another method returns. The tuple has `size` items."""
        statement = self.scope.parents[result]
        target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        if not (isinstance(statement, ast.Assign) and isinstance(target, ast.Tuple) and len(target.elts) == size):
            self.refuse(statement, result)
            return
        self.follow_name(target.elts[position], statement, dtype)

    @abstractmethod
    def follow_name(self, target: ast.expr, statement: ast.stmt, dtype: k.DType | None) -> None:
        """Check all uses of the name to which a statement assigns the number."""

    def _inside(self, function: FunctionInfo) -> CallFollower:
        """Return a follower for another function that has not recorded anything yet."""
        there = replace(self.scope, function=function, line=0, renamed={}, composed=set(), made={})
        followed = self.functions | {self.scope.function.qualname}
        return replace(self, scope=there, flow=NumberFlow(), functions=followed, targets=set(), buffer="")


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_never_read(scope: Scope, call: ast.Call) -> bool:
    """Return whether a call appends to a list that this function creates, and to which it does nothing else."""
    match call.func:
        case ast.Attribute(ast.Name(name), "append"):
            made = [value_for(statement_of(scope, one), name) for one in stores(scope, name)]
            uses = [scope.parents[one] for one in loads(scope, name)]
            called = [scope.parents[one] for one in uses if isinstance(one, ast.Attribute) and one.attr == "append"]
            alone = [isinstance(one, ast.Call) and isinstance(scope.parents[one], ast.Expr) for one in called]
            new = [isinstance(one, ast.List) and not one.elts for one in made]
            own = name in scope.function.locals and name not in parameters(scope)
            return own and all(new) and len(called) == len(uses) and all(alone)
    return False


def _called(scope: Scope, call: ast.Call) -> list[k.Function]:
    """Return the functions of the project that a call may run, or none if it may also run something else."""
    kinds = scope.kind(call.func).members
    functions = [one for one in kinds if isinstance(one, k.Function)]
    return functions if len(functions) == len(kinds) else []
