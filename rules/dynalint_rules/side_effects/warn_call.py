"""DYN403: calls to `warnings`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dynalint.rulekit import Call, Declined, Project, Rewrite, Rule, Violation, k, walk
from dynalint_rules._code.calls import callee
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.guard.statements import guarded

_FILTERS = ("simplefilter", "filterwarnings", "resetwarnings")


class WarnCall(Rule):
    code = "DYN403"
    name = "warn-call"
    summary = "Issuing a warning or changing the warning filters breaks the graph"
    gb = ("GB0007",)
    events = (Call,)
    calls = frozenset({"warnings.warn", "warnings.warn_explicit", *(f"warnings.{name}" for name in _FILTERS)})
    message = "`{callee}()` breaks the graph"
    help = "warn only in eager mode, under `if not torch.compiler.is_compiling():`"

    def fix(self, event: Call, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Warn in eager code only."""
        if event.callee.rpartition(".")[2] in _FILTERS and not _is_undone(event, project):
            return Declined("warning filters apply to the whole program; set them once, outside the compiled function")
        if event.callee.rpartition(".")[2] in _FILTERS and not _only_hides(event, project):
            return Declined(
                "the filter may raise or record warnings instead of hiding them; set it outside the compiled function"
            )
        if event.callee.rpartition(".")[2] not in _FILTERS and not _is_for_others(event, project):
            return Declined(
                "the function records its own warnings or turns them into errors; test for the cause of the "
                "warning instead"
            )
        scope = Scope.of(event, project)
        title = "Warn only in eager mode; compiled code does not warn"
        if event.callee.rpartition(".")[2] in _FILTERS:
            title = "Filter warnings only in eager mode; compiled code does not warn"
        return guarded(scope, event, title, alike=lambda call: callee(scope, call) == event.callee)


def _is_undone(event: Call, project: Project) -> bool:
    """Return whether a block around a call restores the filters."""
    return next(_catching(event, project), None) is not None


def _only_hides(event: Call, project: Project) -> bool:
    """Return whether a filter only hides warnings that nothing records."""
    named = [keyword.value for keyword in event.node.keywords if keyword.arg == "action"]
    action = next(iter([*event.node.args, *named]), None)
    hides = isinstance(action, ast.Constant) and action.value == "ignore"
    return hides and all(
        isinstance(item.context_expr, ast.Call)
        and not (item.context_expr.args or item.context_expr.keywords or item.optional_vars)
        for item in _catching(event, project)
    )


def _is_for_others(event: Call, project: Project) -> bool:
    """Return whether the function itself neither records its warnings nor turns them into errors."""
    catching = [item.context_expr for item in _catching(event, project)]
    kinds = project.kinds(event.function)
    calls = (node for node in walk(event.function.node) if catching and isinstance(node, ast.Call))
    filters = [node for node in calls if kinds.get(node.func) in [k.External(f"warnings.{name}") for name in _FILTERS]]
    raises = any(isinstance(one, ast.Constant) and one.value == "error" for node in filters for one in walk(node))
    return not raises and not any(isinstance(one, ast.Call) and (one.args or one.keywords) for one in catching)


def _catching(event: Call, project: Project) -> Iterator[ast.withitem]:
    """Yield the `warnings.catch_warnings()` items in `with` statements around a call."""
    parents, kinds = project.parents(event.function), project.kinds(event.function)
    node: ast.AST | None = event.node
    while node is not None and node is not event.function.node:
        for item in node.items if isinstance(node, ast.With) else ():
            called = item.context_expr.func if isinstance(item.context_expr, ast.Call) else None
            if called is not None and kinds.get(called) == k.External("warnings.catch_warnings"):
                yield item
        node = parents.get(node)
