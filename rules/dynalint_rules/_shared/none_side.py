"""`y = value if test else None`, where all that is asked of the None is whether it is there.

y = x * 2 if t > 0 else None        condition = t > 0
                                    y = x * 2
return x if y is None else y        return x if not condition else y

The tests that this leaves are those of tensors, which other rewrites have to take on with it.
"""

from __future__ import annotations

import ast

from dynalint.rules import Replacement, Rewrite
from dynalint_rules._shared.domain import guarded_operands
from dynalint_rules._shared.effects import effects_of_always
from dynalint_rules._shared.names import loads, only_value, within
from dynalint_rules._shared.scope import Scope
from dynalint_rules._shared.sides import NO_RAISE, Side, gradient_conditions, reads_of
from dynalint_rules._shared.text import held_together, indentation
from dynalint_rules._shared.truth import truth_of

_TITLE = "Ask the test itself whether there is a value"


def rewrite_none_side(scope: Scope, node: ast.IfExp) -> Rewrite | None:
    """Return the rewrite of the statement and of all tests for None; None where it is another expression.

    Raises:
        Refusal: the value may not always be computed.
    """
    statement, given = scope.parents[node], _is_none(node.orelse)
    value = node.body if given else node.orelse
    if not isinstance(statement, ast.Assign) or len(statement.targets) > 1 or given is _is_none(node.body):
        return None
    target = statement.targets[0]
    if not isinstance(target, ast.Name) or scope.tensor(value) is None:
        return None
    if only_value(scope, target.id, scope.function.node.args) is not node or guarded_operands(scope, value):
        return None
    tests = _tests_of(scope, target.id)
    if tests is None:
        return None
    truth, layers = truth_of(scope, node.test), effects_of_always(scope, [value], node).layers
    condition, file = scope.fresh_name("condition"), scope.file
    step = f"{file.newline}{indentation(file, statement.lineno)}"
    shown = held_together(scope.text(value))
    lines = [f"{condition} = {held_together(truth.without_dimensions)}", f"{target.id} = {shown}"]
    edits = [Replacement(file, *file.span(statement), step.join(lines))]
    for test in tests:
        there = isinstance(test.ops[0], ast.IsNot) is given
        edits.append(Replacement(file, *file.span(test), condition if there else f"not {condition}"))
    conditions = [*truth.conditions, NO_RAISE]
    conditions += gradient_conditions([reads_of(scope, Side(value, scope.kind(value)), node), set()], layers)
    unique = tuple(dict.fromkeys(conditions))
    return Rewrite(_TITLE, "conditional", tuple(edits), unique, scope.imports, leaves=("DYN101",))


def _tests_of(scope: Scope, name: str) -> list[ast.Compare] | None:
    """Return the tests whether a name is None; None where it is read in another place than where it is not."""
    tests: list[ast.Compare] = []
    there: list[ast.AST] = []
    for read in loads(scope, name):
        test = scope.parents[read]
        decision = scope.parents.get(test)
        if not isinstance(test, ast.Compare) or test.left is not read or len(test.ops) != 1:
            continue
        if not isinstance(test.ops[0], ast.Is | ast.IsNot) or not _is_none(test.comparators[0]):
            continue
        if not isinstance(decision, ast.If | ast.IfExp) or decision.test is not test:
            return None
        side = decision.body if isinstance(test.ops[0], ast.IsNot) else decision.orelse
        there += side if isinstance(side, list) else [side]
        tests.append(test)
    asked = {test.left for test in tests}
    inside = all(read in asked or any(within(read, one, scope) for one in there) for read in loads(scope, name))
    return tests if tests and inside else None


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
