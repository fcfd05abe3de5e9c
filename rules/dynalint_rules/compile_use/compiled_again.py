"""DYN003: `torch.compile` is called on every call of a function or in every iteration of a loop."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import CompilerUse, Event, Project, Rule, Violation, walk
from dynalint_rules._code.compiling import Compilation, compilation, loops_around


class CompiledAgain(Rule):
    code = "DYN003"
    name = "compiled-again"
    summary = "`torch.compile` is called repeatedly on the same thing"
    category = "advice"
    severity = "warning"
    events = (CompilerUse,)

    def check(self, event: CompilerUse, project: Project) -> Iterable[Violation]:
        """Flag compilations in `forward`, and compilations that a loop repeats."""
        found = compilation(event, project)
        if found is None:
            return
        if _is_repeated(found, event, project):
            where = "in every iteration of this loop"
        elif _is_in_forward(found, event, project):
            where = "on every call of this method"
        else:
            return
        yield Violation(
            found.call,
            f"the same thing is compiled again {where}, which takes milliseconds even if Dynamo reuses its "
            "earlier result",
            help="Compile once, before the loop or in the constructor, and keep the result.",
        )


def _is_repeated(found: Compilation, event: Event, project: Project) -> bool:
    """Return whether a loop compiles the same thing in every iteration."""
    loops = loops_around(found.call, event, project)
    if not loops or _is_tested(found.call, event, project):
        return False
    loop = loops[0]
    read = {node.id for node in walk(found.call) if isinstance(node, ast.Name)}
    return not any(
        isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in read for node in walk(loop)
    ) and found.target != ast.unparse(found.subject)


def _is_in_forward(found: Compilation, event: Event, project: Project) -> bool:
    function = event.function
    is_forward = function.owner is not None and project.is_module_class(function.owner)
    return is_forward and function.name in ("forward", "__call__") and not _is_tested(found.call, event, project)


def _is_tested(node: ast.AST, event: Event, project: Project) -> bool:
    """Return whether a node is in an `if`, a conditional expression or a `try`, so that it may only run once."""
    parents = project.parents(event.function)
    outer = parents.get(node)
    while outer is not None and outer is not event.function.node:
        if isinstance(outer, ast.If | ast.IfExp | ast.Try):
            return True
        outer = parents.get(outer)
    return False
