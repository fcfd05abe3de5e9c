"""DYN620: a loss made while the model runs, told by an old option how to reduce."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call, Event
from dynalint.analysis.exits import leads_to_raise
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Replacement, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward

_OPTIONS = ("size_average", "reduce")
# What each stands for, if it is true and if it is false, where the other is not given.
_WORDS = {"size_average": ("mean", "sum"), "reduce": ("mean", "none")}
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
    `size_average=True` and `reduce=True` alone become `reduction="mean"`, `size_average=False` becomes `"sum"`, and
    `reduce=False` becomes `"none"`. An option that is no constant chooses between the two words. It is declined where
    both options or `reduction` are given too, and where other arguments follow by their place.

    ## When the rewrite is not exact
    Results always are the same. The warning that torch gives of the old options goes away, so the rewrite is only
    applied with `--unsafe-fixes`.

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
        """Say how to reduce by `reduction`, where a single old option says it."""
        rewrite = _by_reduction(event) if isinstance(event, Call) else None
        return rewrite or Declined(
            "several arguments say how to reduce, or stand by their place; use `reduction` by hand"
        )

    examples = (
        Example(
            name="summed",
            code=forward("return nn.MSELoss(size_average=False)(self.fc(x), x)  # DYN620"),
            fixed=forward('return nn.MSELoss(reduction="sum")(self.fc(x), x)'),
        ),
        Example(
            name="not-reduced",
            code=forward("""
                loss = nn.SmoothL1Loss(beta=0.5, reduce=False)  # DYN620
                return loss(self.fc(x), x)
            """),
            fixed=forward("""
                loss = nn.SmoothL1Loss(beta=0.5, reduction="none")
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
            fixed=forward(
                'return nn.L1Loss(reduction="mean" if self.mean else "sum")(self.fc(x), x)',
                init="""
                self.fc = nn.Linear(8, 8)
                self.mean = True
                """,
            ),
        ),
        Example(
            name="both",
            code=forward("return nn.NLLLoss(size_average=True, reduce=False)(self.fc(x), x.argmax(1))  # DYN620"),
            declined="use `reduction` by hand",
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


def _by_reduction(event: Call) -> Rewrite | None:
    """The rewrite of a call that one old option alone tells how to reduce; None if there is more."""
    node, file = event.node, event.function.file
    places = dict(zip(_PLACES[event.callee.rpartition(".")[2]], _OPTIONS, strict=True))
    if any(isinstance(one, ast.Starred) for one in node.args) or any(one.arg is None for one in node.keywords):
        return None
    given: list[tuple[str, ast.expr | ast.keyword, ast.expr]] = [
        (places[place], value, value) for place, value in enumerate(node.args) if place in places
    ]
    given += [(one.arg, one, one.value) for one in node.keywords if one.arg in _OPTIONS]
    if len(given) != 1 or any(one.arg == "reduction" for one in node.keywords):
        return None
    option, argument, value = given[0]
    if argument is value and value is not node.args[-1]:
        return None
    yes, no = _WORDS[option]
    conditions = [f"torch no longer warns that `{option}` is deprecated"]
    if isinstance(value, ast.Constant):
        text = f'"{yes if value.value else no}"'
    elif isinstance(value, ast.Name | ast.Attribute):
        text = f'"{yes}" if {file.segment(value)} else "{no}"'
        conditions.append(f"`{file.segment(value)}` is never None, which torch takes for true")
    else:
        return None
    replacement = Replacement(file, *file.span(argument), f"reduction={text}")
    return Rewrite("Say how to reduce by `reduction`", "unsafe", (replacement,), tuple(conditions))
