"""DYN010: an import in compiled code."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable

from dynalint.rulekit import Importing, Project, Rule, Violation

_CERTAIN = frozenset({"torch", "", *sys.stdlib_module_names})  # a relative import's name starts with a dot


class ImportInRegion(Rule):
    code = "DYN010"
    name = "import-in-region"
    summary = "A module is imported in compiled code"
    category = "advice"
    severity = "info"
    gb = ("GB0069",)
    events = (Importing,)

    def check(self, event: Importing, project: Project) -> Iterable[Violation]:
        """Flag the statement."""
        name = _module(event.node)
        root = name.partition(".")[0]
        if root in _CERTAIN or project.locate(root) is not None:
            return
        if event.position.try_:
            message = f"if `{name}` is not installed, this import makes the whole function run in eager mode"
            yield Violation(event.node, message, help="Import it at the top of the file.", severity="warning")
        else:
            message = f"Dynamo imports `{name}` during tracing, and not when the compiled code runs"
            yield Violation(event.node, message, help="Import it at the top of the file.")


def _module(node: ast.Import | ast.ImportFrom) -> str:
    if isinstance(node, ast.Import):
        return node.names[0].name
    return "." * node.level + (node.module or "")
