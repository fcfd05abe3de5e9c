"""DYN605: a module of TorchScript, which Dynamo cannot see into."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.analysis.events import Call, Event
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward


class ScriptedModule(Rule):
    """Call a module that was scripted or traced by TorchScript.

    ## What it flags
    Calls of what `torch.jit.script`, `torch.jit.trace`, `torch.jit.freeze` or `torch.jit.load` made of a module, and of
    subclasses of `torch.jit.ScriptModule`, in code that is compiled. Not flagged: functions under `@torch.jit.script`,
    whose Python source Dynamo still finds and traces.

    ## Why
    Such a module is a program of TorchScript and has no Python code left. Dynamo leaves the call to the interpreter of
    TorchScript; for some the whole function around it is not compiled.

    ## Example
    ```python
    def __init__(self):
        super().__init__()
        self.block = torch.jit.script(Block())
    ```

    Use instead:
    ```python
    def __init__(self):
        super().__init__()
        self.block = Block()
    ```

    ## How it is rewritten
    It is not: which programs load the script, and whether the module behaves the same in Python, is not to be seen from
    the call. Dropping `torch.jit.script` is mostly all there is to do, since the compiler does what it was for.

    ## When the rewrite is not exact
    Keys of the state dict stay the same. A traced module has the branches of its example inputs only, the module it was
    traced from has all of them.

    ## How Dynamo words it
    GB4695: `torch.jit.script/freeze modules unsupported`, GB0008: `Attempted to inline function marked as skipped`.

    ## References
    - https://docs.pytorch.org/docs/stable/jit.html
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb4695.html
    """

    code = "DYN605"
    name = "scripted-module"
    summary = "a call of a module that TorchScript has taken over ends the graph"
    gb = ("GB4695", "GB0008", "GB0357")
    events = (Call,)
    calls = frozenset({"torch.jit.ScriptModule.__call__", "torch.jit.ScriptModule.forward"})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call wherever it stands."""
        if isinstance(event, Call):
            yield Violation(
                event.node,
                "Dynamo cannot see into a module of TorchScript, so the graph ends at its call",
                help="use the module itself instead of its script",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: the module behind the script is made elsewhere, and may not be there at all."""
        return Declined(
            "the module is scripted elsewhere; use the Python module itself, and let the compiler work on it"
        )

    examples = (
        Example(
            name="scripted",
            code=forward(
                "return self.block(self.fc(x))  # DYN605",
                init="""
                self.fc = nn.Linear(8, 8)
                self.block = torch.jit.script(nn.Linear(8, 8))
                """,
            ),
            declined="use the Python module itself",
        ),
        Example(
            name="traced",
            code=forward(
                "return self.block(self.fc(x))  # DYN605",
                init="""
                self.fc = nn.Linear(8, 8)
                self.block = torch.jit.trace(nn.Linear(8, 8), torch.ones(4, 8))
                """,
            ),
        ),
        Example(
            name="script-module",
            code=forward(
                "return self.block(self.fc(x))  # DYN605",
                head="""
                class Block(torch.jit.ScriptModule):
                    @torch.jit.script_method
                    def forward(self, x: torch.Tensor):
                        return x * 2
                """,
                init="""
                self.fc = nn.Linear(8, 8)
                self.block = Block()
                """,
            ),
        ),
        Example(
            name="scripted-function",
            code=forward(
                "return scaled(self.fc(x))",
                head="""
                @torch.jit.script
                def scaled(x: torch.Tensor):
                    return x * 2
                """,
            ),
        ),
        Example(
            name="traced-function",
            code=forward(
                "return self.scaled(self.fc(x))",
                init="""
                self.fc = nn.Linear(8, 8)
                self.scaled = torch.jit.trace(lambda x: x * 2, torch.ones(4, 8))
                """,
            ),
        ),
    )
