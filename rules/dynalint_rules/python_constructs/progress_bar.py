"""DYN718: progress bars."""

from __future__ import annotations

import ast

from dynalint.rulekit import PROGRESS_BARS, Call, Declined, Project, Rewrite, Rule, Violation, rw
from dynalint_rules._code.scope import Scope

_METHODS = "update set_description set_postfix refresh write close"


class ProgressBar(Rule):
    code = "DYN718"
    name = "progress-bar"
    summary = "A progress bar breaks the graph"
    gb = ("GB0007", "GB0008", "GB0142")
    events = (Call,)
    calls = PROGRESS_BARS | {f"tqdm.tqdm.{name}" for name in _METHODS.split()}
    message = "`{callee}()` cannot be part of a graph, which breaks there"
    help = "show progress around the compiled code"

    def fix(self, event: Call, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Go through the values themselves while compiling."""
        if event.callee not in PROGRESS_BARS:
            return Declined("updating the bar may be all that the statement does; show progress around the call")
        scope = Scope.of(event, project)
        parent, arguments = scope.parents.get(event.node), event.node.args
        loops = isinstance(parent, ast.For | ast.comprehension) and parent.iter is event.node
        starred = any(isinstance(argument, ast.Starred) for argument in arguments)
        if not loops or not arguments or starred:
            return Declined("the bar is used for more than iterating over its values; show progress around the call")
        texts = [scope.text(argument) for argument in arguments]
        if event.callee.endswith("trange"):
            values = f"range({', '.join(texts)})"
        elif len(texts) == 1:
            values = texts[0]
        else:
            return Declined("the bar gets more than its values by position; use keyword arguments")
        content = f"{values} if {scope.torch}.compiler.is_compiling() else {scope.text(event.node)}"
        edits = rw.written(scope.file, (event.node, content))
        return Rewrite("Show the bar only in eager code", "safe", edits, imports=scope.imports)
