"""DYN620: a loss made while the model runs, told by an old option how to reduce."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call, Event
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.exits import leads_to_raise

_OPTIONS = ("size_average", "reduce")
# At which places the constructors take the two options. Dynamo makes a `CrossEntropyLoss` by itself.
_PLACES = {
    **dict.fromkeys("KLDivLoss L1Loss MSELoss MultiLabelMarginLoss SmoothL1Loss SoftMarginLoss".split(), (0, 1)),
    **dict.fromkeys("BCELoss BCEWithLogitsLoss CosineEmbeddingLoss HingeEmbeddingLoss".split(), (1, 2)),
    **dict.fromkeys("MarginRankingLoss MultiLabelSoftMarginLoss".split(), (1, 2)),
    "NLLLoss": (1, 3),
    "PoissonNLLLoss": (2, 4),
    "MultiMarginLoss": (3, 4),
    "TripletMarginLoss": (4, 5),
}


class LegacyReduction(Rule):
    """Make a loss of `torch.nn` with `size_average` or `reduce` in code that is compiled.

    ## What it flags
    `nn.MSELoss(size_average=False)`, `nn.NLLLoss(reduce=False)`, `nn.L1Loss(True)` and the like below `forward`,
    where the option is certainly not None. Not flagged: losses made in `__init__`, `reduction="sum"`, and
    `nn.CrossEntropyLoss` and the functions of `torch.nn.functional`, where Dynamo traces the old options.

    ## Why
    The constructor puts the two options into words by a function that Dynamo takes for an operation, and an operation
    that returns text is none that a graph can hold.

    ## Example
    ```python
    def forward(self, x, y):
        return nn.MSELoss(size_average=False)(self.fc(x), y)
    ```

    Use instead:
    ```python
    def forward(self, x, y):
        return nn.MSELoss(reduction="sum")(self.fc(x), y)
    ```

    ## How it is rewritten
    It is not. By hand: `size_average=True` and `reduce=True` alone are `reduction="mean"`, `size_average=False` is
    `"sum"`, and `reduce=False` is `"none"`, whatever `size_average` says.

    ## When the rewrite is not exact
    It always is; only the warning that torch gives of the old options goes away.

    ## How Dynamo words it
    GB0208: `torch.* op returned non-Tensor`.

    ## References
    - https://docs.pytorch.org/docs/stable/generated/torch.nn.MSELoss.html
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0208.html
    """

    code = "DYN620"
    name = "legacy-reduction"
    summary = "a loss made with `size_average` or `reduce` while the model runs ends the graph"
    gb = ("GB0208",)
    events = (Call,)
    calls = frozenset(f"torch.nn.{name}" for name in _PLACES)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the constructor's call where one of the options is given, and not as None."""
        if not isinstance(event, Call) or leads_to_raise(event, project):
            return
        name = event.callee.rpartition(".")[2]
        given = dict(enumerate(event.args))
        for option, place in zip(_OPTIONS, _PLACES[name], strict=True):
            kind = event.keywords.get(option, given.get(place, k.NONE))
            if k.is_number(kind):
                message = f"`nn.{name}()` is told by `{option}` how to reduce, which ends the graph"
                yield Violation(event.node, message, help="use `reduction`")
                return

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: the call would no longer warn."""
        return Declined("torch warns of the old option, and would no longer; use `reduction` by hand")

    examples = (
        Example(
            name="summed",
            code=forward("return nn.MSELoss(size_average=False)(self.fc(x), x)  # DYN620"),
            declined="use `reduction` by hand",
        ),
        Example(
            name="not-reduced",
            code=forward("""
                loss = nn.SmoothL1Loss(beta=0.5, reduce=False)  # DYN620
                return loss(self.fc(x), x)
            """),
        ),
        Example(
            name="by-place",
            code=forward(
                "return nn.L1Loss(self.mean)(self.fc(x), x)  # DYN620",
                init="""
                self.fc = nn.Linear(8, 8)
                self.mean = True
                """,
            ),
        ),
        Example(
            name="both",
            code=forward("return nn.NLLLoss(size_average=True, reduce=False)(self.fc(x), x.argmax(1))  # DYN620"),
        ),
        Example(
            name="reduction",
            code=forward("""
                h = self.fc(x)
                return nn.MSELoss(None, None, "sum")(h, x) + nn.L1Loss(reduction="mean")(h, x)
            """),
        ),
        Example(
            name="traced",
            code=forward("""
                h = self.fc(x)
                rows = nn.CrossEntropyLoss(reduce=False)(h, x.argmax(1))
                return rows + nn.functional.mse_loss(h, x, size_average=False)
            """),
        ),
        Example(
            name="in-the-constructor",
            code=forward(
                "return self.loss(self.fc(x), x)",
                init="""
                self.fc = nn.Linear(8, 8)
                self.loss = nn.MSELoss(size_average=False)
                """,
            ),
        ),
    )
