"""DYN003: what is compiled is wrapped anew by every call or round of a loop."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis.events import CompilerUse, Event
from dynalint.analysis.project import Project
from dynalint.analysis.steps import walk
from dynalint.rules import Example, Rule, Violation
from dynalint_rules._shared.compiling import Compilation, compilation, loops_around


class CompiledAgain(Rule):
    """Call `torch.compile` in every call or round of a loop, instead of once.

    ## What it flags

    `torch.compile(...)` in the `forward` or `__call__` of a module, and in a loop whose rounds all compile the same
    thing. Not flagged is what is compiled once and kept under a test (`if self.fast is None:`), and a loop that
    compiles another layer in every round.

    ## Why

    Each call makes a new wrapper, with a backend and options of its own to compare. As long as these are equal, Dynamo
    finds what it compiled for the same function before, but the search takes milliseconds, some fifty times what a
    call of the kept wrapper takes. With a backend that is made on the spot, a lambda for example, nothing is found and
    everything is compiled again, until Dynamo gives up after eight times.

    ## Example

    ```python
    for batch in loader:
        loss = torch.compile(model)(batch)
    ```

    Use instead:

    ```python
    model.compile()
    for batch in loader:
        loss = model(batch)
    ```

    ## How it is rewritten

    It is not. Compile once, before the loop or in the constructor.

    ## When the rewrite is not exact

    There is no rewrite.

    ## How Dynamo words it

    It does not mind. `TORCH_LOGS=recompiles` shows something only where backends differ.

    ## References

    - https://docs.pytorch.org/docs/stable/generated/torch.compile.html
    - https://docs.pytorch.org/docs/stable/compile/programming_model.where_to_apply_compile.html
    """

    code = "DYN003"
    name = "compiled-again"
    summary = "`torch.compile` is called again and again for the same thing"
    category = "advice"
    severity = "warning"
    events = (CompilerUse,)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag compilations in `forward`, and those that a loop repeats."""
        found = compilation(event, project)
        if found is None:
            return
        if _is_repeated(found, event, project):
            where = "round of this loop"
        elif _is_in_forward(found, event, project):
            where = "call of this method"
        else:
            return
        yield Violation(
            found.call,
            f"every {where} compiles the same thing anew, which costs milliseconds even where Dynamo finds it again",
            help="Compile once, before the loop or in the constructor, and keep the result.",
        )

    examples = (
        Example(
            name="in-a-loop",
            code="""
                import torch


                def train(model, batches):
                    for batch in batches:
                        torch.compile(model)(batch).sum().backward()  # DYN003
            """,
            target="torch.compile(torch.relu)",
            inputs="[(torch.ones(4),)]",
        ),
        Example(
            name="in-forward",
            code="""
                import torch
                from torch import nn


                class Model(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.fc = nn.Linear(8, 8)

                    def forward(self, x):
                        fast = torch.compile(self.fc)  # DYN003
                        return fast(x)
            """,
        ),
        Example(
            name="another-layer-in-every-round",
            code="""
                import torch
                from torch import nn


                def compile_layers(layers):
                    for index, layer in enumerate(layers):
                        layers[index] = torch.compile(layer)


                def compile_blocks(model):
                    for name in ("encoder", "decoder"):
                        setattr(model, name, torch.compile(getattr(model, name)))
            """,
            target="nn.Linear(8, 8)",
        ),
        Example(
            name="compiled-once-and-kept",
            code="""
                import torch
                from torch import nn


                class Model(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.fc = nn.Linear(8, 8)
                        self.fast = torch.compile(self.fc)

                    def forward(self, x):
                        return self.fast(x)
            """,
        ),
    )


def _is_repeated(found: Compilation, event: Event, project: Project) -> bool:
    """Whether a loop compiles the same thing in each of its rounds."""
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
    """Whether a test decides whether a node runs, as for what is made once and kept."""
    parents = project.parents(event.function)
    outer = parents.get(node)
    while outer is not None and outer is not event.function.node:
        if isinstance(outer, ast.If | ast.IfExp | ast.Try):
            return True
        outer = parents.get(outer)
    return False
