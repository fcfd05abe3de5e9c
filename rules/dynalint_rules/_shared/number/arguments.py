"""Uses of a number as an argument of a call."""

from __future__ import annotations

import ast
import re
from abc import abstractmethod

from dynalint.rulekit import k, rw
from dynalint_rules._code.calls import callee
from dynalint_rules._code.scope import as_tensor
from dynalint_rules._shared.number.flow import Follower
from dynalint_rules._shared.number.single_index import rolled
from dynalint_rules._shared.number.tensor_or_number import COMPARING, IN_TORCH, TAKES_EITHER, WHOLE

_FOR_NUMBERS = re.compile(r"^(math|numpy)\.")


class Arguments(Follower):
    """A follower that knows which calls accept a tensor instead of a number."""

    def argument(self, call: ast.Call, node: ast.expr, dtype: k.DType | None) -> None:
        """Check a use as an argument of a call.

        Raises:
            Refusal: If the call does not accept a tensor for this argument.
        """
        name = callee(self.scope, call)
        position = next((at for at, argument in enumerate(call.args) if argument is node), None)
        keyword = next((one.arg for one in call.keywords if one.value is node), None)
        if name in ("builtins.max", "builtins.min") and position is not None and len(call.args) > 1:
            self._extreme(call, node, position, dtype)
        elif name == "builtins.abs":
            self.climb(call, dtype)
        elif name == "builtins.float" and dtype in ("float", "int"):
            self._converted(call, node, dtype)
        elif _FOR_NUMBERS.sub("", name) in IN_TORCH and call.args == [node] and not call.keywords:
            self._computed(call, name)
        elif name in ("torch.roll", "Tensor.roll"):
            self._rolled(call, node, dtype)
        elif name in TAKES_EITHER:
            positions, keywords = TAKES_EITHER[name]
            if position not in positions and keyword not in keywords:
                self.refuse(call, node)
            # The result of `torch.full` has the default dtype in both cases.
            if name != "torch.full" and name not in COMPARING:
                self._meet_argument(call, name, dtype)
        else:
            self.passed(call, node, dtype)

    @abstractmethod
    def passed(self, call: ast.Call, node: ast.expr, dtype: k.DType | None) -> None:
        """Check a number that is passed to any other function."""

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
        """Rewrite `max(t, 1)` as `t.clamp(min=1)`, which is equivalent and always returns a tensor."""
        if len(call.args) == 2:
            other = call.args[0] if call.args[1] is node else call.args[1]
            bound = {"min" if callee(self.scope, call) == "builtins.max" else "max": rw.kept(self.scope.file, other)}
            self.flow.edits.append((call, rw.method(rw.kept(self.scope.file, node), "clamp", **bound)))
