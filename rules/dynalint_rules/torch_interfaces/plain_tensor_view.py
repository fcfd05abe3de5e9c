"""DYN617: a tensor taken for a plain one by `as_subclass`."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call, Event
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward


class PlainTensorView(Rule):
    """Turn a tensor of a subclass into a plain tensor with `as_subclass`.

    ## What it flags
    `t.as_subclass(torch.Tensor)` in code that is compiled. Not flagged: `t.as_subclass(Sub)` of a subclass, building a
    subclass, and passing tensors of a subclass in, which are traced.

    ## Why
    Dynamo traces `as_subclass` for subclasses that it can follow through `__torch_function__`, and refuses the base
    class itself.

    ## Example
    ```python
    def forward(self, x):
        tagged = x.as_subclass(Tagged)
        return (tagged * 2).as_subclass(torch.Tensor)
    ```

    Use instead:
    ```python
    def forward(self, x):
        return x * 2
    ```

    ## How it is rewritten
    It is not: no other way from a subclass to a plain tensor is known to be traced.

    ## When the rewrite is not exact
    A subclass may do something of its own in each operation, which is lost without it.

    ## How Dynamo words it
    GB0001: `Argument of as_subclass must be a non-dispatcher-style tensor subclass`.

    ## References
    - https://docs.pytorch.org/docs/stable/generated/torch.Tensor.as_subclass.html
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0001.html
    """

    code = "DYN617"
    name = "plain-tensor-view"
    summary = "`as_subclass(torch.Tensor)` ends the graph"
    gb = ("GB0001",)
    events = (Call,)
    calls = frozenset({"Tensor.as_subclass"})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call if the class is that of plain tensors."""
        if isinstance(event, Call) and event.args[:1] == (k.External("torch.Tensor"),):
            yield Violation(
                event.node,
                "Dynamo does not trace `as_subclass(torch.Tensor)`, so the graph ends there",
                help="do the work on plain tensors, and make the subclass outside of the compiled code",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: nothing that is traced does the same."""
        return Declined("nothing that is traced gives a plain tensor of a subclass; work on plain tensors throughout")

    examples = (
        Example(
            name="back-to-plain",
            code=forward(
                """
                tagged = self.fc(x).as_subclass(Tagged)
                return (tagged * 2).as_subclass(torch.Tensor)  # DYN617
                """,
                head="class Tagged(torch.Tensor):\n    pass",
            ),
            declined="work on plain tensors",
        ),
        Example(
            name="subclass",
            code=forward(
                "return self.fc(x).as_subclass(Tagged).mean()",
                head="class Tagged(torch.Tensor):\n    pass",
            ),
        ),
    )
