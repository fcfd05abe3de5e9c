"""DYN304: `one_hot` without a number of classes."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call, Event
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward

_CALLEE = "torch.nn.functional.one_hot"


class OneHotWithoutClasses(Rule):
    """Leave it to `one_hot` to find the number of classes in the data.

    ## What it flags
    `torch.nn.functional.one_hot(t)` without `num_classes`, or with -1 for it, in code that is compiled. Not flagged: a
    number of classes that is a Python number or a shape; for one that is a tensor see DYN204.

    ## Why
    Without a number the function takes the largest class it finds, and one more, so the shape of the result depends on
    the data. Dynamo refuses such a call in every mode, `fullgraph=True` and its capturing of shapes included. It is a
    trap in eager code too: a batch without the last class gives a result with a column less.

    ## Example
    ```python
    def forward(self, logits, labels):
        return (logits - F.one_hot(labels)).abs().mean()
    ```

    Use instead:
    ```python
    def forward(self, logits, labels):
        return (logits - F.one_hot(labels, logits.shape[-1])).abs().mean()
    ```

    ## How it is rewritten
    It is not: how many classes there are, only a person knows. A number of the configuration, or the size of the
    dimension that the result is combined with, is what most code wants.

    ## When the rewrite is not exact
    With a number, the result has as many columns on every call; without, as many as the batch happens to need.

    ## How Dynamo words it
    GB0246: ``Attempted to use `torch.nn.functional.one_hot` with data-dependent output shape``. With the keyword
    `num_classes=-1`, GB0033: `Data dependent operator`.

    ## References
    - https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.one_hot.html
    - https://docs.pytorch.org/docs/stable/compile/programming_model.graph_breaks_index.html
    """

    code = "DYN304"
    name = "one-hot-without-classes"
    summary = "`one_hot` without `num_classes` reads the data for its shape, which ends the graph"
    gb = ("GB0246", "GB0033")
    events = (Call,)
    calls = frozenset({_CALLEE})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call if it certainly leaves the number of classes open."""
        if isinstance(event, Call) and _is_open(event):
            yield Violation(
                event.node,
                "`one_hot()` without `num_classes` reads the largest class out of the data, which ends the graph",
                help="give the number of classes: `one_hot(t, num_classes)`",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: the number of classes is not in the code."""
        return Declined(
            "how many classes there are is not in the code; give the number as `num_classes`, from the configuration "
            "or from the shape that the result has to fit"
        )

    examples = (
        Example(
            name="no-number",
            code=forward(
                """
                labels = self.fc(x).argmax(-1)
                return F.one_hot(labels)  # DYN304
                """,
                head="import torch.nn.functional as F",
            ),
            declined="how many classes there are",
        ),
        Example(
            name="minus-one",
            code=forward("""
                labels = self.fc(x).argmax(-1)
                return nn.functional.one_hot(labels, num_classes=-1)  # DYN304
            """),
            declined="how many classes there are",
        ),
        Example(
            name="number",
            code=forward("""
                h = self.fc(x)
                best = nn.functional.one_hot(x.argmax(-1), num_classes=8)
                return nn.functional.one_hot(h.argmax(-1), h.shape[-1]) * best
            """),
        ),
    )


def _is_open(event: Call) -> bool:
    if len(event.node.args) + len(event.node.keywords) != len(event.args) + len(event.keywords):
        return False  # `*args` may hold the number
    given = event.args[1] if len(event.args) > 1 else event.keywords.get("num_classes")
    return given is None or (isinstance(given, k.Value) and given.constant == -1)
