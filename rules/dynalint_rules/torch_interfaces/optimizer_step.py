"""DYN613: the loop around the model, inside of it: optimizers, schedules, loaders of data."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.analysis.events import Call, Event
from dynalint.analysis.exits import leads_to_raise
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward

_SCALER = "scale step update unscale_ get_scale state_dict".split()
_SCALERS = ("torch.GradScaler", "torch.amp.GradScaler", "torch.cuda.amp.GradScaler")


class OptimizerStep(Rule):
    """Step an optimizer, a schedule or a gradient scaler, or load batches, in code that is compiled.

    ## What it flags
    `optimizer.step()` and `optimizer.zero_grad()` of an optimizer of torch, `scheduler.step()` of `torch.optim
    .lr_scheduler`, the methods of `torch.amp.GradScaler`, and making any of these or a
    `DataLoader`. Not flagged:
    `model.zero_grad()`, `nn.utils.clip_grad_norm_`, and code outside of what is compiled.

    ## Why
    An optimizer keeps its state by parameter in a dictionary of Python and is written to be run between graphs: its
    `step` has a graph break of its own. Schedules and scalers are skipped.

    ## Example
    ```python
    @torch.compile
    def train_step(x):
        loss = model(x).sum()
        optimizer.step()
        return loss
    ```

    Use instead:
    ```python
    step = torch.compile(optimizer.step)
    ```

    ## How it is rewritten
    It is not. `torch.compile(optimizer.step)` compiles the step by itself, which is what the break in it is for.

    ## When the rewrite is not exact
    A fused step may differ in the last digits.

    ## How Dynamo words it
    GB0025: `Call to torch._dynamo.graph_break()`, GB0008: `Attempted to inline function marked as skipped`.

    ## References
    - https://docs.pytorch.org/tutorials/recipes/compiling_optimizer.html
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0025.html
    """

    code = "DYN613"
    name = "optimizer-step"
    summary = "stepping an optimizer inside of the compiled function ends the graph"
    gb = ("GB0025", "GB0008", "GB0007")
    events = (Call,)
    calls = frozenset(
        {
            "torch.optim.Optimizer.step",
            "torch.optim.Optimizer.zero_grad",
            "torch.optim.lr_scheduler.LRScheduler.step",
            "torch.utils.data.DataLoader",
            *(f"torch.optim.{name}.{method}" for name in ("SGD", "Adam", "AdamW") for method in ("step", "zero_grad")),
            *(f"torch.optim.{name}" for name in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "LBFGS")),
            *(f"{owner}.{method}" for owner in _SCALERS for method in _SCALER),
        }
    )

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call wherever it stands."""
        if isinstance(event, Call) and not leads_to_raise(event, project):
            yield Violation(
                event.node,
                f"`{event.callee.removeprefix('torch.')}()` belongs between graphs, and ends this one",
                help="step outside of the compiled code, or compile the step by itself",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: the loop has to move."""
        return Declined("the training loop has to move out of the compiled function; compile the step by itself")

    examples = (
        Example(
            name="step",
            code=forward(
                """
                h = self.fc(x)
                self.optimizer.step()  # DYN613
                return h
                """,
                init="""
                self.fc = nn.Linear(8, 8)
                self.optimizer = torch.optim.SGD(self.fc.parameters(), lr=0.1)
                """,
            ),
            declined="compile the step by itself",
        ),
        Example(
            name="zeroed",
            code=forward(
                """
                h = self.fc(x)
                self.optimizer.zero_grad()  # DYN613
                return h
                """,
                init="""
                self.fc = nn.Linear(8, 8)
                self.optimizer = torch.optim.Adam(self.fc.parameters(), lr=0.1)
                """,
            ),
        ),
        Example(
            name="scaled",
            code=forward(
                "return self.scaler.scale(self.fc(x))  # DYN613",
                init="""
                self.fc = nn.Linear(8, 8)
                self.scaler = torch.amp.GradScaler("cpu")
                """,
            ),
        ),
        Example(
            name="loaded",
            code=forward("""
                for batch in torch.utils.data.DataLoader(torch.ones(2, 8)):  # DYN613
                    x = x + batch
                return self.fc(x)
            """),
        ),
        Example(
            name="gradients-of-the-model",
            code=forward("""
                h = self.fc(x)
                self.fc.zero_grad()
                return h
            """),
        ),
        Example(
            name="training-loop",
            code=forward("return self.fc(x)") + "\n\ndef train(model, batches):\n"
            "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
            "    for x in batches:\n        model(x).sum().backward()\n        optimizer.step()\n",
        ),
    )
