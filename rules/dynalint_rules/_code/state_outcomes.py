"""State that compiled code changes, and the outcome of a test for the value that the constructor gives it."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from dynalint.rulekit import ContainerChange, StateChange, k, walk, walk_function
from dynalint_rules._code.changes import state_name
from dynalint_rules._code.initial import is_empty_tensor, is_hasattr, truth_of

Kinds = Mapping[ast.AST, k.Kind]

# Attributes of a tensor that a test can read to find out whether the tensor is empty.
_SIZES = frozenset({"shape", "size", "numel", "nelement"})


@dataclass(frozen=True)
class State:
    """State that an event changes, with the last name that leads to it and the variables that hold its old value."""

    name: str
    is_attribute: bool
    found: frozenset[str] = field(default=frozenset())

    @staticmethod
    def of(event: StateChange | ContainerChange) -> State:
        """Return the state that an event changes."""
        state = State(state_name(event), event.home.type in ("attribute", "class"))
        nodes = list(walk_function(event.function.node))
        values: dict[str, ast.expr | None] = {node.arg: None for node in nodes if isinstance(node, ast.arg)}
        # The code that creates missing state comes later and may use the same name.
        for node in sorted((one for one in nodes if isinstance(one, ast.Assign)), key=lambda one: one.lineno):
            if isinstance(node.targets[0], ast.Name):
                values.setdefault(node.targets[0].id, node.value)
        found = (name for name, value in values.items() if value is not None and state._is_looked_up(value))
        return State(state.name, state.is_attribute, frozenset(found))

    def is_read_by(self, node: ast.AST) -> bool:
        """Return whether an expression is the state, an item of the state, or a variable with its old value."""
        while isinstance(node, ast.Subscript):
            node = node.value
        if isinstance(node, ast.Attribute):
            return node.attr == self.name
        return isinstance(node, ast.Name) and (
            node.id in self.found or (node.id == self.name and not self.is_attribute)
        )

    def is_asked_for(self, test: ast.expr) -> bool:
        """Return whether a test reads the state or checks that the attribute exists."""
        return any(self.is_read_by(node) or _is_text(node, self.name) for node in walk(test))

    def _is_looked_up(self, value: ast.expr) -> bool:
        """Return whether an expression is `self.state`, `self.state.get(key)` or `getattr(self, "state", None)`."""
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "get":
            return self.is_read_by(value.func.value)
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "getattr":
            return len(value.args) > 1 and _is_text(value.args[1], self.name)
        return isinstance(value, ast.Attribute) and value.attr == self.name


def outcome(test: ast.expr, state: State, value: ast.expr, kinds: Kinds) -> bool | None:
    """Return a test's outcome for the state that the constructor sets, or None if it depends on anything else."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = outcome(test.operand, state, value, kinds)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        decisive = isinstance(test.op, ast.Or)
        answers = [outcome(one, state, value, kinds) for one in test.values]
        return decisive if decisive in answers else None if None in answers else not decisive
    if is_hasattr(test):
        return True if state.is_asked_for(test) else None
    test = _as_comparison(test, kinds)
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        left, operator, right = test.left, test.ops[0], test.comparators[0]
        found = _compared(left, operator, right, state, value)
        return _compared_with_input(left, operator, right, state, value, kinds) if found is None else found
    return truth_of(value) if state.is_read_by(test) else None


def _as_comparison(test: ast.expr, kinds: Kinds) -> ast.expr:
    """Return `x is not None` for `exists(x)`, if that is all that the function returns."""
    callee = kinds.get(test.func) if isinstance(test, ast.Call) and len(test.args) == 1 else None
    if not isinstance(test, ast.Call) or not isinstance(callee, k.Function) or callee.function.owner is not None:
        return test
    parameters, statements = callee.function.node.args.args, callee.function.statements
    told = statements[-1].value if statements and isinstance(statements[-1], ast.Return) else None
    if not isinstance(told, ast.Compare) or len(statements) != 1 or len(parameters) != 1:
        return test
    with_none = isinstance(told.comparators[0], ast.Constant) and told.comparators[0].value is None
    asked = isinstance(told.left, ast.Name) and told.left.id == parameters[0].arg
    return ast.Compare(test.args[0], told.ops, told.comparators) if asked and with_none else test


def _compared(left: ast.expr, operator: ast.cmpop, right: ast.expr, state: State, value: ast.expr) -> bool | None:
    """Return a comparison's outcome for the state that the constructor sets."""
    if isinstance(operator, ast.In | ast.NotIn):
        return isinstance(operator, ast.NotIn) if state.is_read_by(right) and truth_of(value) is False else None
    equal: bool | None = None
    if state.is_read_by(left) and isinstance(right, ast.Constant):
        if isinstance(value, ast.Constant):
            equal = value.value is right.value or (value.value == right.value and right.value is not None)
        elif right.value is None:
            # `found = self.masks.get(key)` is None while the dict is empty.
            equal = isinstance(left, ast.Name) and truth_of(value) is False
    elif is_empty_tensor(value) and not state.is_asked_for(right):
        equal = _is_of_nothing(left, right, state)
        if isinstance(operator, ast.Lt | ast.GtE) and equal is False:
            return isinstance(operator, ast.Lt)
    if equal is None or not isinstance(operator, ast.Is | ast.Eq | ast.IsNot | ast.NotEq):
        return None
    return isinstance(operator, ast.Is | ast.Eq) is equal


def _compared_with_input(
    left: ast.expr, operator: ast.cmpop, right: ast.expr, state: State, value: ast.expr, kinds: Kinds
) -> bool | None:
    """Return the outcome of comparing state with what the call gets: `self.length != n`, `n > self.length`."""
    if state.is_asked_for(left) is state.is_asked_for(right):
        return None
    other = right if state.is_asked_for(left) else left
    if not state.is_read_by(left if other is right else right):
        return None
    kind = kinds.get(other, k.UNKNOWN)
    nothing = isinstance(value, ast.Constant) and value.value is None
    if not (_is_there(other, kind) if nothing else is_no_size(value) and _is_size(kind)):
        return None
    if isinstance(operator, ast.Eq | ast.NotEq):
        return isinstance(operator, ast.NotEq)
    if nothing or not isinstance(operator, ast.Lt | ast.Gt):
        return None
    return isinstance(operator, ast.Gt) is (other is left)


def _is_there(node: ast.expr, kind: k.Kind) -> bool:
    """Return whether a value is certain to be something other than None or a tensor."""
    if isinstance(node, ast.Tuple | ast.List):
        return True
    return all(isinstance(one, k.Sequence) or (isinstance(one, k.Value) and one != k.NONE) for one in kind.members)


def _is_size(kind: k.Kind) -> bool:
    """Return whether a value is a size of a tensor or a sequence of sizes, which are hardly ever 0."""
    parts = [part for one in kind.members for part in (one.element.members if isinstance(one, k.Sequence) else (one,))]
    return bool(parts) and all(isinstance(one, k.Value) and one.source == "shape" for one in parts)


def is_no_size(value: ast.expr) -> bool:
    """Return whether a constant is 0 or negative, or a sequence of such numbers."""
    try:
        constant = ast.literal_eval(value)
    except ValueError:
        return False
    numbers = constant if isinstance(constant, tuple | list) else [constant]
    return bool(numbers) and all(type(one) is int and one <= 0 for one in numbers)


def _is_of_nothing(measure: ast.expr, other: ast.expr, state: State) -> bool | None:
    """Return whether `other` equals the size of an empty tensor. Any expression other than 0 counts as larger."""
    while isinstance(measure, ast.Subscript):
        measure = measure.value
    if isinstance(measure, ast.Call):
        asked = measure.args[0] if isinstance(measure.func, ast.Name) and measure.args else measure.func
        measure = asked
    of_state = isinstance(measure, ast.Attribute) and measure.attr in _SIZES and state.is_read_by(measure.value)
    if not of_state and not state.is_read_by(measure):
        return None
    return isinstance(other, ast.Constant) and other.value == 0


def _is_text(node: ast.AST, text: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == text
