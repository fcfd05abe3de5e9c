"""The entry point for evaluation, which calls the function registered for the type of each expression.

Expressions, calls, attributes and statements all evaluate one another. They all go through this module to avoid
circular imports.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from dynalint.analysis.compact import ByType
from dynalint.analysis.kinds import NOTHING, UNKNOWN, Kind, join
from dynalint.analysis.steps import Exhausted

if TYPE_CHECKING:
    from dynalint.analysis.frame import Frame

Evaluator = TypeVar("Evaluator", bound=Callable[..., Kind])

_EVALUATORS = ByType[Callable[..., Kind]]({})


def evaluates(*types: type[ast.expr]) -> Callable[[Evaluator], Evaluator]:
    """Register the decorated function to evaluate nodes of the given types."""

    def register(evaluator: Evaluator) -> Evaluator:
        _EVALUATORS.update(dict.fromkeys(types, evaluator))
        return evaluator

    return register


def evaluate(frame: Frame, node: ast.expr) -> Kind:
    """Return the kind of an expression.

    Raises:
        Exhausted: If the file's budget is used up. Code outside functions then has unknown kinds.
    """
    budget = frame.budget
    budget.spent += 1
    if budget.spent > budget.most:
        if frame.context is None:
            return UNKNOWN
        raise Exhausted
    kind = _EVALUATORS[type(node)](frame, node)
    if frame.record is not None:
        frame.record[node] = join(frame.record.get(node, NOTHING), kind)
    return kind
