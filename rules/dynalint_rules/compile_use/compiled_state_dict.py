"""DYN006: the keys in a compiled module's state dict have a prefix."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import CompilerUse, Event, FunctionInfo, Project, Rule, Violation, walk
from dynalint_rules._code.compiling import calls_after, compilation, is_call_of, set_again


class CompiledStateDict(Rule):
    code = "DYN006"
    name = "compiled-state-dict"
    summary = "Every key in a compiled module's state dict starts with `_orig_mod.`"
    category = "advice"
    severity = "warning"
    events = (CompilerUse,)
    refusal = "the keys would change, but existing checkpoints use the old ones"

    def check(self, event: CompilerUse, project: Project) -> Iterable[Violation]:
        """Flag `state_dict()` calls on the name that refers to the compiled module."""
        found = compilation(event, project)
        if found is None or found.target is None or "_orig_mod" in event.function.file.text:
            return
        for function in _functions(found.target, event):
            start = found.call if function is event.function else function.node
            for call in calls_after(start, function) if function is event.function else _all_calls(function):
                is_taken = is_call_of(call, f"{found.target}.state_dict")
                if is_taken and (function is not event.function or not set_again(found.target, start, call, function)):
                    yield Violation(
                        call,
                        f"`{found.target}` is the wrapper returned by `torch.compile`, so every key in its "
                        "state dict starts with `_orig_mod.`",
                        help="Compile the module in place with `.compile()`, or save the original module.",
                    )


def _functions(target: str, event: Event) -> list[FunctionInfo]:
    """Return the functions in which `target` is the same object: all methods of the class for an attribute."""
    owner = event.function.owner
    if target.startswith("self.") and owner is not None:
        return list(owner.methods.values())
    return [event.function]


def _all_calls(function: FunctionInfo) -> list[ast.Call]:
    return [node for node in walk(function.node) if isinstance(node, ast.Call)]
