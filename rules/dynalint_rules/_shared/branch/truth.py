"""The truth of a test as a bool tensor, so that it can be passed to `torch.where`."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, replace

from dynalint.rulekit import Refusal, k, remembered, walk
from dynalint_rules._code.calls import callee
from dynalint_rules._code.chosen_numbers import tensor_again_conditions
from dynalint_rules._code.effects import effects_of
from dynalint_rules._code.memory import makes_tensor
from dynalint_rules._code.names import is_named
from dynalint_rules._code.raising import raising_conditions
from dynalint_rules._code.scope import Scope, as_tensor
from dynalint_rules._code.sharing import may_change_in_place
from dynalint_rules._code.uses import self_name
from dynalint_rules._shared.text import atom

_MOST_MEMBERS = 6
COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
# Expressions that bind less tightly than a comparison, so they need parentheses as its operands.
_LOOSE = (ast.BoolOp, ast.Compare, ast.IfExp, ast.Lambda, ast.NamedExpr)

# Advice for a test that runs in Python but should be a tensor operation.
STAYS = "and select with `torch.where`, because an `if` on the tensor also breaks the graph"


@dataclass(frozen=True)
class Truth:
    """A bool tensor with one element.

    `text` is its code, and `atomic` is true if an operator can follow the text without parentheses. `scalar` is true if
    the tensor definitely has no dimensions, false if it definitely has some, and None if that is unknown. The tensor
    equals the truth value of the test if the `conditions` hold. `opposite` is its negation if there is a
    simpler form than `~`, and `shown` is the test as quoted in a sentence.
    """

    text: str
    atomic: bool
    scalar: bool | None
    conditions: tuple[str, ...] = ()
    opposite: Truth | None = None
    shown: str = ""

    @property
    def operand(self) -> str:
        """The text, in parentheses unless an operator can follow it directly."""
        return self.text if self.atomic else f"({self.text})"

    @property
    def without_dimensions(self) -> str:
        """The same truth value as the text of a 0-dim tensor, if the `selecting_conditions` hold.

        `where` would broadcast its result to the shape (1, 1) otherwise.
        """
        return f"{self.operand}.reshape(())" if self.scalar is False else self.text

    @property
    def selecting_conditions(self) -> tuple[str, ...]:
        """The conditions for selecting with `without_dimensions`.

        Tests rarely have dimensions, so an unknown test is assumed to have none, and a run verifies this.
        """
        return self.conditions if self.scalar is not None else (*self.conditions, f"{self.shown} has no dimensions")

    @property
    def negated(self) -> Truth:
        """The truth of the negated test."""
        if self.opposite is not None:
            back = self.opposite.opposite or self
            return replace(self.opposite, conditions=self.conditions, opposite=back, shown=self.shown)
        return Truth(f"~{self.operand}", False, self.scalar, self.conditions, self, self.shown)


def truth_of(scope: Scope, test: ast.expr) -> Truth:
    """Return the truth value of a test whose operands are all tensors.

    Raises:
        Refusal: If an operand is not a tensor, or must not be evaluated where Python would have stopped earlier.
    """
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return truth_of(scope, test.operand).negated
    if isinstance(test, ast.BoolOp):
        truth = _bool_op(scope, test)
    else:
        truth = _truth_of_one(scope, test)
        truth = replace(truth, conditions=(*truth.conditions, *tensor_again_conditions(scope, test)))
    return replace(truth, shown=scope.quote(test))


def _truth_of_one(scope: Scope, test: ast.expr) -> Truth:
    if isinstance(test, ast.Compare):
        if isinstance(test.ops[0], ast.In | ast.NotIn) and len(test.ops) == 1:
            return _membership(scope, test)
        return _comparison(scope, test)
    if isinstance(test, ast.Call):
        special = _call(scope, test)
        if special is not None:
            return special
    return _value(scope, test)


def is_tensor_test(scope: Scope, test: ast.expr) -> bool:
    """Return whether any part of a test converts a tensor to bool."""
    if isinstance(test, ast.BoolOp):
        return any(is_tensor_test(scope, value) for value in test.values)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return is_tensor_test(scope, test.operand)

    def found() -> bool:
        try:
            truth_of(scope, test)
        except Refusal:
            return k.may_be_tensor(scope.kind(test))
        return True

    return remembered((is_tensor_test, scope.function, test), found)


def is_plain_tensor(scope: Scope, test: ast.expr) -> bool:
    """Return whether a test is a tensor or a single comparison of tensors, which an `assert` can test directly."""
    if isinstance(test, ast.Compare):
        return len(test.ops) == 1 and type(test.ops[0]) in COMPARISONS and scope.tensor(test) is not None
    return not isinstance(test, ast.BoolOp) and scope.tensor(test) is not None


def _value(scope: Scope, node: ast.expr) -> Truth:
    """Return the truth value of a tensor. It is the tensor itself if it is bool, and a comparison `!= 0` otherwise."""
    tensor = scope.tensor(node)
    if tensor is None or tensor.dtype == "bool":
        _require_lasting(scope, node)  # a comparison with zero creates a new tensor
    text = scope.text(node)
    if tensor is None:
        kind = scope.kind(node)
        if isinstance(kind, k.Tensor):  # a NumPy array
            if isinstance(node, ast.Call) and callee(scope, node) in ("numpy.any", "numpy.all"):
                raise Refusal(f"{scope.quote(node)} runs in NumPy; call `any()` or `all()` on the tensor instead")
            text, scalar = f"{scope.torch}.as_tensor({text})", _is_scalar([kind])
            return Truth(text, True, scalar) if kind.dtype == "bool" else Truth(f"{text} != 0", False, scalar)
        if k.may_be_tensor(kind):
            raise Refusal(f"{scope.quote(node)} is not always a tensor; handle the other case before this test")
        raise Refusal(
            f"{scope.quote(node)} is not a tensor, but the condition of `torch.where` has to be a tensor; test it in "
            "a separate `if`"
        )
    scalar = _reduces_all(scope, node) or _is_scalar([tensor])
    if tensor.dtype == "bool":
        opposite = None
        if _may_be_byte(scope, node):
            opposite = Truth(f"{scope.torch}.logical_not({text})", True, scalar)
        return Truth(text, atom(node, text) == text, scalar, (), opposite)
    text = operand_text(scope, node)
    return Truth(f"{text} != 0", False, scalar, (), Truth(f"{text} == 0", False, scalar))


def _may_be_byte(scope: Scope, node: ast.expr) -> bool:
    """Return whether a truth can be uint8. `any()` and `all()` of uint8 return uint8, and `~` of this is never zero."""
    values = [node]
    if isinstance(node, ast.Name):
        assigned = (one for one in walk(scope.function.node) if isinstance(one, ast.Assign))
        values = [one.value for one in assigned if any(is_named(target, node.id) for target in one.targets)]
    return any(_asks_bytes(scope, value) for value in values)


def _asks_bytes(scope: Scope, node: ast.expr) -> bool:
    """Return whether an expression is `any()` or `all()` of a tensor that can be uint8."""
    callee = scope.kind(node.func) if isinstance(node, ast.Call) else k.UNKNOWN
    if isinstance(callee, k.Method) and callee.name in ("any", "all"):
        tested = callee.receiver
    elif isinstance(node, ast.Call) and callee in (k.External("torch.any"), k.External("torch.all")) and node.args:
        tested = scope.kind(node.args[0])
    else:
        return False
    tensor = as_tensor(tested)
    return tensor is None or tensor.dtype in (None, "int")


def _require_lasting(scope: Scope, node: ast.expr) -> None:
    """Ensure that a tensor keeps its value after the test, for the gradient or for later statements.

    Raises:
        Refusal: If the function changes its memory in place.
    """
    owner = held = node
    while not makes_tensor(scope, owner):
        if isinstance(owner, ast.Name):
            if may_change_in_place(scope, owner.id):
                shown = scope.quote(held if owner.id == self_name(scope.function) else owner)
                raise Refusal(f"{shown} is tested and modified in place; assign the tested value to a variable first")
            return
        if isinstance(owner, ast.Call):
            owner = owner.func
        elif isinstance(owner, ast.Attribute | ast.Subscript):
            held, owner = owner, owner.value
        else:
            return


def _reduces_all(scope: Scope, node: ast.expr) -> bool:
    """Return whether an expression is `t.any()` or `torch.any(t)`, without a `dim`."""
    if not isinstance(node, ast.Call) or node.keywords:
        return False
    callee = scope.kind(node.func)
    if isinstance(callee, k.Method):
        return callee.name in ("any", "all") and not node.args
    return isinstance(callee, k.External) and callee.name in ("torch.any", "torch.all") and len(node.args) == 1


_OPPOSITES: dict[type[ast.cmpop], str] = {
    ast.Eq: "!=", ast.NotEq: "==", ast.Lt: ">=", ast.LtE: ">", ast.Gt: "<=", ast.GtE: "<",
}  # fmt: skip


def _comparison(scope: Scope, node: ast.Compare) -> Truth:
    """Return the truth value of a comparison. `a < b < c` becomes `(a < b) & (b < c)`, in which `b` is repeated."""
    values = [node.left, *node.comparators]
    links: list[str] = []
    tensors: list[k.Tensor] = []
    numbers = True
    for operator, left, right in zip(node.ops, values, values[1:], strict=False):
        own = [tensor for tensor in (scope.tensor(left), scope.tensor(right)) if tensor is not None]
        if not own and len(node.ops) == 1:
            return _value(scope, node)
        if not own or type(operator) not in COMPARISONS:
            raise Refusal(f"{scope.quote(node)} compares more than tensors; test its parts one by one")
        others = [kind for kind in (scope.kind(left), scope.kind(right)) if as_tensor(kind) is None]
        numbers = numbers and all(map(_has_no_dimensions, others))
        # Ordering comparisons with a tensor return a tensor or raise. `==` returns False for values that cannot be
        # compared.
        if isinstance(operator, ast.Eq | ast.NotEq) and not numbers:
            raise Refusal(f"{scope.quote(node)} compares a tensor with something that may not be a number")
        tensors += own
        links.append(f"{operand_text(scope, left)} {COMPARISONS[type(operator)]} {operand_text(scope, right)}")
    scalar = numbers and _is_scalar(tensors)
    if len(links) == 1:
        return Truth(scope.text(node), False, scalar, (), _opposite(scope, node, scalar))
    effects_of(scope, values[1:])
    conditions = raising_conditions(scope, values[2:])
    return Truth(" & ".join(f"({link})" for link in links), False, scalar, tuple(conditions))


def _has_no_dimensions(kind: k.Kind) -> bool:
    """Return whether a value is a number, or may also be a tensor without dimensions."""
    tensors = (as_tensor(one) for one in kind.members if not k.is_number(one))
    return all(tensor is not None and tensor.rank == 0 for tensor in tensors)


def _is_scalar(tensors: Iterable[k.Tensor]) -> bool | None:
    """Return whether no tensor has dimensions, or None if that is unknown."""
    return _all_scalar(None if tensor.rank is None else tensor.rank == 0 for tensor in tensors)


def _all_scalar(parts: Iterable[bool | None]) -> bool | None:
    known = set(parts)
    return False if False in known else None if None in known else True


def _opposite(scope: Scope, node: ast.Compare, scalar: bool | None) -> Truth | None:
    """Return the comparison with the opposite result, or None for an order of floats, which NaN would change."""
    sign, sides = _OPPOSITES.get(type(node.ops[0])), (node.left, node.comparators[0])
    ordered = not isinstance(node.ops[0], ast.Eq | ast.NotEq)
    if sign is None or (ordered and not all(_is_integral(scope, side) for side in sides)):
        return None
    return Truth(f"{operand_text(scope, sides[0])} {sign} {operand_text(scope, sides[1])}", False, scalar)


def _is_integral(scope: Scope, node: ast.expr) -> bool:
    """Return whether a value is known to be an integer or a tensor of integers."""
    tensor = scope.tensor(node)
    if tensor is not None:
        return tensor.dtype in ("bool", "int")
    kinds = scope.kind(node).members
    return bool(kinds) and all(isinstance(one, k.Value) and one.type in ("bool", "int") for one in kinds)


def _bool_op(scope: Scope, node: ast.BoolOp) -> Truth:
    """Return the truth value of `a and b` in a form that always evaluates `b`."""
    parts = [truth_of(scope, value) for value in node.values]
    effects_of(scope, list(node.values[1:]))
    operator = " & " if isinstance(node.op, ast.And) else " | "
    conditions = [text for part in parts for text in part.conditions]
    conditions += raising_conditions(scope, node.values[1:], [bool(part.scalar) for part in parts[1:]])
    scalar = _all_scalar(part.scalar for part in parts)
    return Truth(operator.join(part.operand for part in parts), False, scalar, tuple(dict.fromkeys(conditions)))


def _membership(scope: Scope, node: ast.Compare) -> Truth:
    """Return the truth value of `t in (a, b)` as comparisons, or of `a in t` with `any()`."""
    left, right = node.left, node.comparators[0]
    if scope.tensor(right) is not None:
        if scope.tensor(left) is None and not k.is_number(scope.kind(left)):
            raise Refusal(f"{scope.quote(left)} may not be a number, but a tensor only contains numbers")
        found = Truth(f"({atom(right, scope.text(right))} == {operand_text(scope, left)}).any()", True, True)
    elif isinstance(right, ast.Tuple | ast.List | ast.Set) and 1 <= len(right.elts) <= _MOST_MEMBERS:
        tensor = scope.tensor(left)
        if tensor is None or any(not k.is_number(scope.kind(one)) for one in right.elts):
            raise Refusal(f"{scope.quote(node)} searches for more than numbers; compare with each element separately")
        if len(right.elts) > 1:
            effects_of(scope, [left])
        links = [f"{operand_text(scope, left)} == {operand_text(scope, one)}" for one in right.elts]
        text = " | ".join(f"({link})" for link in links) if len(links) > 1 else links[0]
        found = Truth(text, False, _is_scalar([tensor]))
    else:
        raise Refusal(f"the elements of {scope.quote(right)} are not literals; compare with `torch.isin`")
    return found if isinstance(node.ops[0], ast.In) else found.negated


def operand_text(scope: Scope, node: ast.expr) -> str:
    """Return the text of an expression for use as an operand of a comparison."""
    text = scope.text(node)
    loose = isinstance(node, _LOOSE) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))
    return f"({text})" if loose else text


def _call(scope: Scope, node: ast.Call) -> Truth | None:
    """Return the tensor that a call converts to bool, as a truth, or None for any other call."""
    callee = scope.kind(node.func)
    if isinstance(callee, k.External) and len(node.args) >= 1:
        name, arguments = callee.name, node.args
    elif (
        isinstance(callee, k.Method) and isinstance(callee.receiver, k.Tensor) and isinstance(node.func, ast.Attribute)
    ):
        name, arguments = f"torch.{callee.name}", [node.func.value, *node.args]
    else:
        return None
    plain = not node.keywords and not any(isinstance(argument, ast.Starred) for argument in arguments)
    if name in ("builtins.any", "builtins.all") and scope.tensor(arguments[0]) is not None:
        rows = f"each row of {scope.quote(arguments[0])} has one element"
        return Truth(f"{atom(arguments[0], scope.text(arguments[0]))}.{name[-3:]}()", True, True, (rows,))
    if name in ("builtins.bool", "torch.is_nonzero") and len(arguments) == 1 and plain:
        return truth_of(scope, arguments[0]) if name == "builtins.bool" else _value(scope, arguments[0])
    if name == "torch.item" and len(arguments) == 1 and plain:
        return truth_of(scope, arguments[0])
    if name == "torch.equal" and len(arguments) == 2 and plain:
        left, right = (operand_text(scope, argument) for argument in arguments)
        shapes = f"{scope.quote(arguments[0])} and {scope.quote(arguments[1])} have the same shape"
        return Truth(f"({left} == {right}).all()", True, True, (shapes,))
    if name == "torch.allclose" and len(arguments) >= 2:
        given = [scope.text(argument) for argument in arguments]
        given += [scope.text(keyword.value) if keyword.arg is None else f"{keyword.arg}={scope.text(keyword.value)}"
                  for keyword in node.keywords]  # fmt: skip
        return Truth(f"{scope.torch}.isclose({', '.join(given)}).all()", True, True)
    return None
