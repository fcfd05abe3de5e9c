"""DYN717: explicit graph breaks."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import DISABLED, Call, CompilerUse, FunctionInfo, Project, Rule, Violation, walk

_DISABLING = ("torch.compiler.disable", "torch._dynamo.disable")


class ExplicitBreak(Rule):
    code = "DYN717"
    name = "explicit-break"
    summary = "The code explicitly breaks the graph"
    category = "advice"
    severity = "info"
    gb = ("GB0098", "GB0025", "GB4297")
    events = (Call, CompilerUse)
    calls = frozenset({DISABLED, "torch._dynamo.graph_break", "torch._dynamo.skip_frame"})

    def check(self, event: Call | CompilerUse, project: Project) -> Iterable[Violation]:
        """Report the call, or the decorator of a module's `forward`, which other code may call."""
        if isinstance(event, Call):
            by = "called function is excluded from compilation" if event.callee == DISABLED else "code asks for it"
            yield Violation(event.node, f"the graph breaks here, because the {by}")
        elif event.name in _DISABLING and _is_forward(event.function, project):
            listed = getattr(event.function.node, "decorator_list", ())
            decorator = next((one for one in listed if event.node in walk(one)), None)
            if decorator is not None and not _gives_reason(decorator):
                yield Violation(
                    decorator,
                    "each call of this module breaks the graph, because its `forward` is excluded from compilation",
                    help="if this is intended, say why with `reason=`",
                )


def _is_forward(function: FunctionInfo, project: Project) -> bool:
    return function.name == "forward" and function.owner is not None and project.is_module_class(function.owner)


def _gives_reason(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Call) and any(keyword.arg == "reason" for keyword in decorator.keywords)
