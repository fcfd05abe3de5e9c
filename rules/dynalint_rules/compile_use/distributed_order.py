"""DYN007: a compiled module is wrapped for distributed training."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import CompilerUse, Project, Rule, Violation
from dynalint_rules._code.compiling import DISTRIBUTED, calls_after, compilation, external_name, set_again


class DistributedOrder(Rule):
    code = "DYN007"
    name = "distributed-order"
    summary = "`DistributedDataParallel` wraps a compiled module instead of being compiled itself"
    category = "advice"
    severity = "info"
    events = (CompilerUse,)

    def check(self, event: CompilerUse, project: Project) -> Iterable[Violation]:
        """Flag distributed wrappers around the result of `torch.compile`."""
        found = compilation(event, project)
        if found is None:
            return
        parent = project.parents(event.function).get(found.call)
        wrappers = [parent] if isinstance(parent, ast.Call) and found.call in parent.args else []
        if found.target is not None:
            wrappers += [call for call in calls_after(found.call, event.function) if _is_given(call, found.target)]
        for wrapper in wrappers:
            is_other = found.target is not None and set_again(found.target, found.call, wrapper, event.function)
            if external_name(wrapper.func, event, project) in DISTRIBUTED and not is_other:
                yield Violation(
                    wrapper,
                    "`DistributedDataParallel` wraps a module that is already compiled, so Dynamo cannot split "
                    "the graph at the gradient buckets",
                    help="Compile the wrapper, or compile the module in place with `.compile()` before you wrap it.",
                )


def _is_given(call: ast.Call, written: str) -> bool:
    return bool(call.args) and ast.unparse(call.args[0]) == written
