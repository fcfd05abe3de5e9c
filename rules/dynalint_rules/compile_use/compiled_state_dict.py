"""DYN006: the state dict of a compiled module, whose keys have a prefix."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis.events import CompilerUse, Event
from dynalint.analysis.index import FunctionInfo
from dynalint.analysis.project import Project
from dynalint.analysis.steps import walk
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.compiling import calls_after, compilation, is_call_of, set_again


class CompiledStateDict(Rule):
    """Take the state dict of what `torch.compile` returned, whose keys all begin with `_orig_mod.`.

    ## What it flags

    `compiled.state_dict()` where `compiled` holds the result of `torch.compile(module)`: in the same function, or as
    an attribute of the same class. Not flagged is `compiled._orig_mod.state_dict()`, a module that was compiled in
    place by `module.compile()`, and a file that deals with `_orig_mod` anywhere.

    ## Why

    The compiled module is a wrapper that holds the original under `_orig_mod`. A checkpoint saved from it has keys such
    as `_orig_mod.fc.weight`: a module that is not compiled cannot load it, nor can the same script with compiling
    switched off, and `strict=False` drops all weights without an error.

    ## Example

    ```python
    model = torch.compile(Model())
    torch.save(model.state_dict(), "model.pt")
    ```

    Use instead:

    ```python
    model = Model()
    model.compile()
    torch.save(model.state_dict(), "model.pt")
    ```

    ## How it is rewritten

    It is not: checkpoints that exist already have the prefix, and code that reads them may rely on it.

    ## When the rewrite is not exact

    There is no rewrite.

    ## How Dynamo words it

    `load_state_dict` of the plain module raises "Unexpected key(s) in state_dict" with the prefixed keys.

    ## References

    - https://docs.pytorch.org/docs/stable/compile/programming_model.where_to_apply_compile.html
    - https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.compile
    """

    code = "DYN006"
    name = "compiled-state-dict"
    summary = "The state dict of a compiled module has `_orig_mod.` before every key"
    category = "advice"
    severity = "warning"
    events = (CompilerUse,)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag state dicts of the name that the result is bound to."""
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
                        f"`{found.target}` is the wrapper that `torch.compile` returned: every key of its state dict "
                        "begins with `_orig_mod.`",
                        help="Compile in place with `.compile()`, or save the module that the wrapper was made of.",
                    )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Say why there is none."""
        return Declined("the keys would change, and checkpoints that exist already have the old ones")

    examples = (
        Example(
            name="saved",
            code="""
                import io

                import torch
                from torch import nn


                def save():
                    model = nn.Linear(8, 8)
                    model = torch.compile(model)
                    buffer = io.BytesIO()
                    torch.save(model.state_dict(), buffer)  # DYN006
                    return buffer
            """,
            target="nn.Linear(8, 8)",
            declined="the keys would change",
        ),
        Example(
            name="held-by-a-trainer",
            code="""
                import torch
                from torch import nn


                class Trainer:
                    def __init__(self, model):
                        self.model = torch.compile(model)

                    def checkpoint(self):
                        return {"model": self.model.state_dict()}  # DYN006
            """,
            target="nn.Linear(8, 8)",
            declined="the keys would change",
        ),
        Example(
            name="compiled-in-place",
            code="""
                import torch
                from torch import nn


                def save():
                    model = nn.Linear(8, 8)
                    model.compile()
                    return model.state_dict()


                def save_the_original():
                    model = nn.Linear(8, 8)
                    fast = torch.compile(model)
                    fast(torch.ones(4, 8))
                    return model.state_dict()
            """,
            target="nn.Linear(8, 8)",
        ),
    )


def _functions(target: str, event: Event) -> list[FunctionInfo]:
    """The functions in which what is written `target` means the same: all methods of the class for an attribute."""
    owner = event.function.owner
    if target.startswith("self.") and owner is not None:
        return list(owner.methods.values())
    return [event.function]


def _all_calls(function: FunctionInfo) -> list[ast.Call]:
    return [node for node in walk(function.node) if isinstance(node, ast.Call)]
