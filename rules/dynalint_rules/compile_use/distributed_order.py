"""DYN007: a module is wrapped for distributed training after it was compiled."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis.events import CompilerUse, Event
from dynalint.analysis.project import Project
from dynalint.rules import Example, Rule, Violation
from dynalint_rules._shared.compiling import DISTRIBUTED, calls_after, compilation, external_name, set_again


class DistributedOrder(Rule):
    """Wrap what `torch.compile` returned in `DistributedDataParallel`.

    ## What it flags

    `DistributedDataParallel(torch.compile(model))`, directly or through a name. Not flagged are
    `torch.compile(DistributedDataParallel(model))` and a module that was compiled in place with `model.compile()`.

    ## Why

    Gradients are sent in buckets while the backward pass still runs. Dynamo knows where the buckets end only if it
    sees the distributed wrapper: then it cuts the graph there, so that sending and computing overlap. Compiled inside
    the wrapper, a whole model has one backward graph, whose gradients all appear at its end. Two wrappers around each
    other also leave their marks in the state dict: keys begin with `module._orig_mod.`.

    ## Example

    ```python
    model = DistributedDataParallel(torch.compile(model))
    ```

    Use instead:

    ```python
    model = torch.compile(DistributedDataParallel(model))
    ```

    ## How it is rewritten

    It is not. PyTorch's documentation knows two ways: compile the wrapper, which overlaps sending and computing, or
    call `model.compile()` before wrapping, which keeps Dynamo away from the wrapper and the keys clean. Measure.

    ## When the rewrite is not exact

    There is no rewrite.

    ## How Dynamo words it

    `TORCH_LOGS=ddp_graphs` shows how the graph was cut, and nothing where Dynamo does not see the wrapper.

    ## References

    - https://docs.pytorch.org/docs/stable/notes/ddp.html
    - https://docs.pytorch.org/docs/stable/compile/programming_model.where_to_apply_compile.html
    """

    code = "DYN007"
    name = "distributed-order"
    summary = "`DistributedDataParallel` wraps a compiled module, instead of being compiled with it"
    category = "advice"
    severity = "info"
    events = (CompilerUse,)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag distributed wrappers around what a compilation returned."""
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
                    "`DistributedDataParallel` wraps a module that is compiled already, so that Dynamo cannot cut the "
                    "graph where the buckets of gradients end",
                    help="Compile the wrapper, or compile the module in place with `.compile()` before wrapping it.",
                )

    examples = (
        Example(
            name="around-the-compiled-module",
            code="""
                import torch
                from torch import nn
                from torch.nn.parallel import DistributedDataParallel as DDP


                def prepare(model, rank):
                    model = torch.compile(model)
                    return DDP(model, device_ids=[rank])  # DYN007


                def prepare_at_once(model):
                    return DDP(torch.compile(model))  # DYN007
            """,
            target="nn.Linear(8, 8)",
        ),
        Example(
            name="compiled-with-the-wrapper",
            code="""
                import torch
                from torch import nn
                from torch.nn.parallel import DistributedDataParallel as DDP


                def prepare(model, rank):
                    model = DDP(model, device_ids=[rank])
                    return torch.compile(model)


                def prepare_in_place(model):
                    model.compile()
                    return DDP(model)
            """,
            target="nn.Linear(8, 8)",
        ),
    )


def _is_given(call: ast.Call, written: str) -> bool:
    return bool(call.args) and ast.unparse(call.args[0]) == written
