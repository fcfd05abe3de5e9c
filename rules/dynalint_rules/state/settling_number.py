"""DYN507: a number or flag that outlives the call and changes on every call, which costs one more graph."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import Declined, Project, Refusal, Rewrite, Rule, StateChange, Violation, k
from dynalint_rules._code.changes import same
from dynalint_rules._code.growth import is_specialised, is_there_before, settles
from dynalint_rules._code.left_out import category_of
from dynalint_rules._code.new_values import is_computed_from_old, new_value
from dynalint_rules._shared.state import number_to_buffer

_PLACES = {"attribute": "`self.{}`", "class": "the class attribute `{}`", "global": "the module global `{}`"}

_UNTIL = " until it reaches a bound"


class SettlingNumber(Rule):
    code = "DYN507"
    name = "settling-number"
    summary = "A float or flag that outlives the call changes, so the second call recompiles"
    category = "recompile"
    severity = "warning"
    events = (StateChange,)

    def check(self, event: StateChange, project: Project) -> Iterable[Violation]:
        """Flag numbers that become dynamic after one recompilation, and flags that are toggled."""
        if event.fresh or event.home.type in ("argument", "default") or not is_there_before(event, project):
            return
        what = _what(event, project)
        if what is not None and not settles(event, project):
            place = _PLACES.get(event.home.type, "`{}` in the enclosing function").format(event.home.name)
            yield Violation(
                event.statement,
                f"{place} is {what} on every call{_UNTIL if _is_bounded(event) else ''}, so the second call recompiles",
                help="Keep it in a buffer that the constructor registers, or change it outside the compiled code.",
                category=category_of(event, project),
            )

    def fix(self, event: StateChange, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Keep a float in a buffer if it belongs to this module."""
        owner = event.function.owner
        is_module = owner is not None and project.is_module_class(owner)
        if event.home.type != "attribute" or not is_module or _is_turned_over(event):
            raise Refusal(
                "a tensor could not decide which code runs, or does not belong to this module; change the value "
                "outside the compiled code"
            )
        return number_to_buffer(event, project)


def _what(event: StateChange, project: Project) -> str | None:
    """Return a description of a value that is different on every call, or None for other values."""
    if _is_turned_over(event):
        return "toggled"
    if not is_computed_from_old(event, project) or not _is_changed(event, project):
        return None
    if _is_only(event.old, "float", "int") and _is_only(event.new, "float"):
        return "a different float"
    if _is_only(event.old, "int") and _is_only(event.new, "int") and not is_specialised(event, project):
        return "a different int"
    return None


def _is_turned_over(event: StateChange) -> bool:
    """Return whether the statement is `flag = not flag`."""
    statement = event.statement
    return (
        isinstance(statement, ast.Assign)
        and len(statement.targets) == 1
        and isinstance(statement.value, ast.UnaryOp)
        and isinstance(statement.value.op, ast.Not)
        and same(statement.value.operand, statement.targets[0])
        and _is_only(event.old, "bool")
    )


def _is_changed(event: StateChange, project: Project) -> bool:
    """Return whether the new value is computed arithmetically. `min`, `max` and similar functions alone converge."""
    statement = event.statement
    if isinstance(statement, ast.AugAssign):
        neutral = 0 if isinstance(statement.op, ast.Add | ast.Sub) else 1
        return not (isinstance(statement.value, ast.Constant) and statement.value.value == neutral)
    return _is_bounded(event) or isinstance(new_value(event, project), ast.BinOp)


def _is_bounded(event: StateChange) -> bool:
    """Return whether the statement is like `t = max(low, t * 0.9)`."""
    value = event.statement.value if isinstance(event.statement, ast.Assign) else None
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name) or value.func.id not in ("min", "max"):
        return False
    return any(isinstance(one, ast.BinOp) for one in value.args)


def _is_only(kind: k.Kind, *types: str) -> bool:
    return all(isinstance(one, k.Value) and one.type in types for one in kind.members)
