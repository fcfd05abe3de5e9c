"""Functions whose gradients are not finite everywhere, and arguments with which the gradients are finite.

`torch.where(c, torch.sqrt(x), x)` gives a NaN gradient where the root is not selected and `x` is not positive, because
the backward pass multiplies the infinite slope by zero. The slope stays finite if the input of `torch.sqrt` is
`torch.where(c, x, 1)`.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from dynalint.rulekit import Refusal, k, walk
from dynalint_rules._code.autograd import without_gradients
from dynalint_rules._code.calls import callee as callee_of
from dynalint_rules._code.names import lineage
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.branch.bounded import bound_of
from dynalint_rules._shared.branch.counted import is_count
from dynalint_rules._shared.number.detached import is_detached

# With more of them, the new code is harder to read than the branch.
MOST_GUARDS = 2
# The value that replaces a function's first argument where its result is not used.
_SAFE_ARGUMENT = {
    **dict.fromkeys("sqrt rsqrt log log2 log10 log1p reciprocal lgamma digamma".split(), "1"),
    **dict.fromkeys("acos arccos asin arcsin atanh arctanh erfinv logit".split(), "0.5"),
    **dict.fromkeys("acosh arccosh".split(), "2"),
    **dict.fromkeys("exp expm1 sinh cosh".split(), "0"),
    "binary_cross_entropy": "0.5",
}
# Names with which a function may turn gradients on again.
_ENABLING = frozenset({"enable_grad", "set_grad_enabled"})
_MARGINS = re.compile(r"(^|_)(eps|epsilon|smooth|smoothing|tiny)(_|\d|$)", re.IGNORECASE)
_MOST_MARGIN = 0.01
_DIVISIONS = frozenset({"div", "divide", "true_divide", "floor_divide", "fmod", "remainder", "addcdiv"})
_SPREADS = frozenset({"std", "std_mean"})
_POWERS = frozenset({"pow", "float_power"})
# Functions that raise or are not finite at some points, and for which no single value is always safe.
_HOPELESS = {
    **dict.fromkeys("pinverse inverse cholesky".split(), "raises an exception for some matrices"),
    **dict.fromkeys("logdet slogdet".split(), "has no finite gradient for some matrices"),
    "xlogy": "has no finite gradient at zero",
}


@dataclass(frozen=True)
class Guarded:
    """An operand to replace with `safe` where the other branch is selected.

    If `least` is the text of a number, it is enough to clamp the operand, because it is at least that number where the
    branch is selected.
    """

    node: ast.expr
    safe: str
    least: str = ""

    def harmless(self, text: str, guard: str) -> str:
        """Return the code of the operand clamped or in `guard`, which has the fields `operand` and `safe`."""
        return f"{text}.clamp(min={self.least})" if self.least else guard.format(operand=text, safe=self.safe)


def guarded_operands(scope: Scope, expression: ast.expr) -> list[Guarded]:
    """Return the operands in an expression that must be made harmless where the other branch is selected.

    Raises:
        Refusal: If one of them has no harmless value.
    """
    found: list[Guarded] = []
    gradients = has_gradients(scope, expression) and not is_detached(scope, expression)
    for node in walk(expression):
        if isinstance(node, ast.BinOp):
            found += _of_operator(scope, node, gradients=gradients)
        elif isinstance(node, ast.Call):
            found += _of_call(scope, node, gradients=gradients)
    return found if gradients else [one for one in found if scope.dtype(one.node) != "float"]


def guarded_apart(scope: Scope, expression: ast.expr) -> list[Guarded]:
    """Return what `guarded_operands` does for a branch, whose test is repeated in each of them.

    Raises:
        Refusal: If one of them is computed from another, which would be hard to read, or has no harmless value.
    """
    found = guarded_operands(scope, expression)
    repeated = [one for one in found if not one.least]
    for one in repeated:
        if any(other.node is not one.node and other.node in walk(one.node) for other in repeated):
            raise Refusal(
                f"{scope.quote(one.node)} is not defined for all inputs, and neither is what it is computed from; "
                "protect these operations first"
            )
    return found


def has_gradients(scope: Scope, expression: ast.expr) -> bool:
    """Return whether gradients may be computed for an expression. Without them, only operations that raise matter."""
    known = scope.function.known
    if _ENABLING not in known:
        known[_ENABLING] = any(map(_enables, walk(scope.function.node)))
    if known[_ENABLING]:
        return True
    around = (one for one in lineage(scope, expression) if isinstance(one, ast.With))
    return not without_gradients(scope.function) and not any(map(without_gradients, around))


def _enables(node: ast.AST) -> bool:
    """Return whether a node names a function with which gradients may be turned on."""
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name in _ENABLING


def _of_operator(scope: Scope, node: ast.BinOp, *, gradients: bool) -> list[Guarded]:
    if isinstance(node.op, ast.Div) and not gradients:
        return []  # an infinite value that is not selected does no harm
    if isinstance(node.op, ast.Div | ast.FloorDiv | ast.Mod):
        return _divisor(scope, node.right)
    if isinstance(node.op, ast.Pow):
        return _of_power(scope, node.left, node.right)
    return []


def _of_call(scope: Scope, node: ast.Call, *, gradients: bool) -> list[Guarded]:
    callee = scope.kind(node.func)
    if isinstance(callee, k.Method) and isinstance(callee.receiver, k.Tensor) and isinstance(node.func, ast.Attribute):
        name, arguments = callee.name, [node.func.value, *node.args]
    elif isinstance(callee, k.External) and callee.name.startswith(("torch.", "math.")):
        name, arguments = callee.name, list(node.args)
    else:
        return []
    last = name.rpartition(".")[2]
    if name.startswith("torch.linalg.") and last not in ("norm", "vector_norm", "matrix_norm", "multi_dot", "cross"):
        raise Refusal(
            f"{scope.quote(node)} raises an exception or has no gradient for some matrices; protect its argument first"
        )
    if last in _HOPELESS and (gradients or _HOPELESS[last].startswith("raises")):
        raise Refusal(
            f"{scope.quote(node)} {_HOPELESS[last]}, so NaN would reach the other branch; protect its argument first"
        )
    if gradients and last in _SPREADS and _is_along_dimension(node, len(arguments)):
        raise Refusal(
            f"{scope.quote(node)} is NaN for a batch of one, which would reach the other branch; use `unbiased=False`"
        )
    if last in _POWERS and len(arguments) == 2:
        return _of_power(scope, arguments[0], arguments[1])
    if last in _DIVISIONS:
        return [guarded for one in arguments[1:] for guarded in _divisor(scope, one)]
    if last == "binary_cross_entropy" and arguments and _is_sigmoid(scope, arguments[0]):
        return []
    if last in _SAFE_ARGUMENT and arguments:
        return [Guarded(arguments[0], _SAFE_ARGUMENT[last])] if _is_tensor(scope, arguments[0]) else []
    api = scope.project.api
    entry = api.method(last) if isinstance(callee, k.Method) else api.function(name)
    if entry is not None and "partial_domain" in entry.flags:
        raise Refusal(
            f"{scope.quote(node)} is not finite for all inputs, which would affect the other branch; protect "
            "its argument first"
        )
    return []


def _is_along_dimension(node: ast.Call, arguments: int) -> bool:
    """Return whether a standard deviation along a dimension divides by one less than the number of elements."""
    biased = any(
        one.arg in ("unbiased", "correction") and isinstance(one.value, ast.Constant) and not one.value.value
        for one in node.keywords
    )
    return not biased and (arguments > 1 or any(one.arg in ("dim", "axis") for one in node.keywords))


def _is_sigmoid(scope: Scope, node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and callee_of(scope, node).endswith(".sigmoid")


def _divisor(scope: Scope, node: ast.expr) -> list[Guarded]:
    """Return a divisor, unless it is a number, or the code itself keeps it away from zero, as in `x.sum() + eps`."""
    if not _is_tensor(scope, node) or (isinstance(node, ast.BinOp) and _adds_margin(scope, node)):
        return []
    if isinstance(node, ast.Call) and _is_positive(node):
        return []
    least = "" if scope.careful else "1" if is_count(scope, node) else bound_of(scope, node)
    return [Guarded(node, "1", least)]


def _adds_margin(scope: Scope, total: ast.BinOp) -> bool:
    """Return whether one operand of a sum is a small number that keeps it away from zero, by its value or its name."""
    if not isinstance(total.op, ast.Add):
        return False
    for one in (total.left, total.right):
        name = one.attr if isinstance(one, ast.Attribute) else one.id if isinstance(one, ast.Name) else ""
        if isinstance(one, ast.Constant) and isinstance(one.value, float) and 0 < one.value <= _MOST_MARGIN:
            return True
        kind = scope.kind(one)
        below = isinstance(kind, k.Value) and isinstance(kind.constant, int | float) and kind.constant <= 0
        if _MARGINS.search(name) and not below and (k.is_number(kind) or isinstance(kind, k.Unknown)):
            return True
    return False


def _is_positive(call: ast.Call) -> bool:
    """Return whether a call is `t.clamp(min=c)`, `t.clamp(c)` or `t.clamp_min(c)` with a positive constant."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    given = [one.value for one in call.keywords if one.arg == "min"] or call.args[-1:]
    least = given[0] if given and len(call.args) + len(call.keywords) < 3 else None
    known = isinstance(least, ast.Constant) and isinstance(least.value, int | float) and least.value > 0
    bounded = name == "clamp_min" or (name == "clamp" and (bool(call.keywords) or len(call.args) == 1))
    return known and bounded and not any(one.arg == "max" for one in call.keywords)


def _of_power(scope: Scope, base: ast.expr, exponent: ast.expr) -> list[Guarded]:
    """Return the base of a power, unless the exponent is a positive integer."""
    value = exponent.value if isinstance(exponent, ast.Constant) else None
    if isinstance(value, int | float) and value >= 1 and value == int(value):
        return []
    return [Guarded(base, "1")] if _is_tensor(scope, base) else []


def _is_tensor(scope: Scope, node: ast.expr) -> bool:
    """Return whether a value may be a tensor, or a number read from one, which another rewrite makes a tensor."""
    kind = scope.kind(node)
    read = any(isinstance(one, k.Value) and one.source == "data" for one in kind.members)
    return read or k.may_be_tensor(kind)
