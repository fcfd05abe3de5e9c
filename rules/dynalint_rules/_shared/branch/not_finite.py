"""Tests for NaN and infinity, which protect gradients as well as values.

`torch.where` passes a gradient of zeros to the tensor that it does not select. If that tensor is NaN, zero times its
own gradient is NaN too, and reaches everything that it was computed from.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from dynalint.rulekit import Refusal, walk, walk_function
from dynalint_rules._code.autograd import without_gradients
from dynalint_rules._code.names import only_value, stores
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.branch.branch_values import gradient_conditions, gradients_read
from dynalint_rules._shared.branch.counted import converted
from dynalint_rules._shared.branch.domain import guarded_operands

# A test of their results is one of the tensor itself.
_WHOLE = ("any", "all", "min", "amin", "abs")
_QUESTIONS = ("isnan", "isinf", "isfinite")


def gradients_of_both(
    scope: Scope, tests: Sequence[ast.expr], branches: Iterable[set[str]], layers: dict[str, None], branch: ast.AST
) -> list[str]:
    """Return the conditions for tensors that only some branches read, whose gradient becomes zeros instead of None.

    `branches` are results of `reads_of`, and `layers` are called modules that may have parameters.

    Raises:
        Refusal: If a branch drops a tensor that a test finds not to be finite, or to be computed from a division by
            zero, for example.
    """
    asked = {name for test in tests for name in _asked(scope, test, branch, set())} if _questions(scope) else set()
    branches = list(branches)
    unequal = {name for own in branches for name in own if not all(name in other for other in branches)}
    spread = sorted(asked & unequal)
    if spread and not _has_no_gradients(scope, branch):
        raise Refusal(
            f"where the test finds NaN, `torch.where` would also make the gradient of `{spread[0]}` NaN; prevent NaN "
            "before it arises, or skip the step outside the compiled code"
        )
    _refuse_spoilt(scope, tests, branch)
    return gradient_conditions(branches, layers)


def _refuse_spoilt(scope: Scope, tests: Sequence[ast.expr], branch: ast.AST) -> None:
    """Ensure that no test comes too late for what was computed before it, as in `m = s / n` before `if n == 0:`.

    Raises:
        Refusal: If an operand that a test asks about has no finite gradient in an earlier statement.
    """
    asked = {ast.dump(converted(scope, one)) for test in tests for one in _decisive(test)}
    for operand, name, value in (found for dump in asked for found in _unprotected(scope).get(dump, ())):
        if value.lineno < getattr(branch, "lineno", 0) and only_value(scope, name, branch) is value:
            raise Refusal(
                f"the gradient of `{name}` is not finite where {scope.quote(operand)} is what the test asks for; "
                "protect that operand instead, as in `x / torch.where(test, 1, n)`"
            )


def _decisive(test: ast.expr) -> Iterator[ast.expr]:
    """Yield what a test compares, and what it asks about as a whole."""
    yield test
    for node in walk(test):
        if isinstance(node, ast.Compare):
            yield from (node.left, *node.comparators)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _WHOLE:
            yield node.func.value


def _unprotected(scope: Scope) -> dict[str, list[tuple[ast.expr, str, ast.expr]]]:
    """Return the operands in assigned values whose gradient is not finite everywhere, by what a test may ask about.

    Each comes with the name and the value. The mask whose elements an operand counts is a key, too.
    """
    known: dict[object, dict[str, list[tuple[ast.expr, str, ast.expr]]]] = scope.function.known
    if _unprotected in known:
        return known[_unprotected]
    found = known[_unprotected] = defaultdict(list)
    for node in walk_function(scope.function.node):
        match node:
            case ast.Assign([ast.Name(name)], value):
                for operand in _operands(scope, value):
                    for form in _forms(scope, operand):
                        found[ast.dump(form)].append((operand, name, value))
    return found


def _operands(scope: Scope, value: ast.expr) -> list[ast.expr]:
    try:
        return [one.node for one in guarded_operands(scope, value)]
    except Refusal:
        return []


def _forms(scope: Scope, operand: ast.expr) -> Iterator[ast.expr]:
    """Yield what a test may ask about instead of an operand: its value, and the mask whose elements it counts."""
    value = converted(scope, operand)
    yield value
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "sum":
        yield converted(scope, value.func.value)


def _questions(scope: Scope) -> list[ast.expr]:
    """Return where a function asks whether something is finite: `isnan(x)`, or `x != x`."""
    known: dict[object, list[ast.expr]] = scope.function.known
    if _questions not in known:
        known[_questions] = [
            one for one in walk(scope.function.node) if isinstance(one, ast.expr) and _is_question(one)
        ]
    return known[_questions]


def _is_question(node: ast.expr) -> bool:
    if isinstance(node, ast.Compare):
        return ast.dump(node.left) == ast.dump(node.comparators[0])
    called = node.func if isinstance(node, ast.Call) else None
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name in _QUESTIONS


def _asked(scope: Scope, test: ast.expr, branch: ast.AST, seen: set[str]) -> Iterator[str]:
    """Yield the tensors with gradients that a test asks about, also through names that were not `seen` yet."""
    for node in walk(test):
        if isinstance(node, ast.Name) and node.id not in seen:
            seen.add(node.id)
            for store in stores(scope, node.id):
                statement = scope.parents[store]
                if isinstance(statement, ast.Assign):
                    yield from _asked(scope, statement.value, branch, seen)
        elif node in _questions(scope):
            operands = [node.left] if isinstance(node, ast.Compare) else [*getattr(node, "args", ())]
            operands += [node.func.value] if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else []
            for operand in operands:
                yield from gradients_read(scope, operand, branch)


def _has_no_gradients(scope: Scope, node: ast.AST) -> bool:
    while node is not scope.function.node:
        if isinstance(node, ast.With) and without_gradients(node):
            return True
        node = scope.parents[node]
    return without_gradients(scope.function)
