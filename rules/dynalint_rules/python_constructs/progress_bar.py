"""DYN718: progress bars."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis.events import Call, Event
from dynalint.analysis.externals import PROGRESS_BARS
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Replacement, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.scope import Refusal, Scope

_METHODS = "update set_description set_postfix refresh write close"


class ProgressBar(Rule):
    """Show a progress bar while a model runs.

    ## What it flags

    `tqdm(...)` and `trange(...)`, also from `tqdm.auto`, and methods of a bar such as `bar.update(1)`, in code that is
    compiled. Not flagged: bars around the calls of a compiled model, and plain loops.

    ## Why

    A bar takes locks, reads the clock and writes to the terminal. Dynamo does not trace any of it, not even of a bar
    with `disable=True`: it ends the graph where the bar is made, and again where the loop goes through it, so that
    nothing of the loop is compiled.

    ## Example

    ```python
    def forward(self, x):
        for step in tqdm(range(self.steps)):
            x = self.denoise(x, step)
        return x
    ```

    Use instead:

    ```python
    def forward(self, x):
        for step in range(self.steps) if torch.compiler.is_compiling() else tqdm(range(self.steps)):
            x = self.denoise(x, step)
        return x
    ```

    ## How it is rewritten

    A bar that a loop goes through becomes `values if torch.compiler.is_compiling() else tqdm(values)`. The rewrite is
    `safe`: eager code shows its bar as before, and only one of the two is ever evaluated. Bars that are kept in a
    variable or moved on by hand are declined.

    ## When the rewrite is not exact

    It always is. A compiled run shows no bar.

    ## How Dynamo words it

    GB0007: `Attempted to call function marked as skipped`, GB0008: `Attempted to inline function marked as skipped`.
    GB0142: `Unsupported context manager` for `with tqdm(...) as bar`.

    ## References

    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0008.html
    """

    code = "DYN718"
    name = "progress-bar"
    summary = "a progress bar ends the graph"
    gb = ("GB0007", "GB0008", "GB0142")
    events = (Call,)
    calls = PROGRESS_BARS | {f"tqdm.tqdm.{name}" for name in _METHODS.split()}

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the bar, and what is done with it."""
        if isinstance(event, Call):
            yield Violation(
                event.node,
                f"`{event.callee}()` is no part of a graph, which ends there",
                help="show progress around what is compiled",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Go through the values themselves while compiling."""
        if not isinstance(event, Call) or event.callee not in PROGRESS_BARS:
            return Declined("what the bar is told may be all that the statement does; show progress around the call")
        try:
            scope = Scope.of(event, project)
        except Refusal as refusal:
            return Declined(str(refusal))
        parent, arguments = scope.parents.get(event.node), event.node.args
        loops = isinstance(parent, ast.For | ast.comprehension) and parent.iter is event.node
        starred = any(isinstance(argument, ast.Starred) for argument in arguments)
        if not loops or not arguments or starred:
            return Declined("the bar is used for more than to go through its values; show progress around the call")
        texts = [scope.text(argument) for argument in arguments]
        if event.callee.endswith("trange"):
            values = f"range({', '.join(texts)})"
        elif len(texts) == 1:
            values = texts[0]
        else:
            return Declined("the bar is given more than its values by position; name the arguments")
        content = f"{values} if {scope.torch}.compiler.is_compiling() else {scope.text(event.node)}"
        if isinstance(parent, ast.comprehension):
            content = f"({content})"
        start, end = scope.file.span(event.node)
        return Rewrite(
            "Show the bar only in eager code",
            "safe",
            (Replacement(scope.file, start, end, content),),
            imports=scope.imports,
        )

    examples = (
        Example(
            name="loop",
            code=forward(
                """
                h = self.fc(x)
                for step in tqdm(range(2), disable=True):  # DYN718
                    h = h + step
                return h
                """,
                head="from tqdm import tqdm",
            ),
            fixed=forward(
                """
                h = self.fc(x)
                for step in range(2) if torch.compiler.is_compiling() else tqdm(range(2), disable=True):
                    h = h + step
                return h
                """,
                head="from tqdm import tqdm",
            ),
        ),
        Example(
            name="range",
            code=forward(
                """
                h = self.fc(x)
                for step in trange(1, 3, disable=True):  # DYN718
                    h = h + step
                return h
                """,
                head="from tqdm.auto import trange",
            ),
            fixed=forward(
                """
                h = self.fc(x)
                for step in range(1, 3) if torch.compiler.is_compiling() else trange(1, 3, disable=True):
                    h = h + step
                return h
                """,
                head="from tqdm.auto import trange",
            ),
        ),
        Example(
            name="comprehension",
            code=forward(
                """
                h = self.fc(x)
                return sum([h + step for step in tqdm.tqdm([1, 2], disable=True)])  # DYN718
                """,
                head="import tqdm",
            ),
            fixed=forward(
                """
                h = self.fc(x)
                return sum([h + step for step in ([1, 2] if torch.compiler.is_compiling() else tqdm.tqdm([1, 2], disable=True))])
                """,  # noqa: E501 - what the rewrite gives
                head="import tqdm",
            ),
        ),
        Example(
            name="moved-on-by-hand",
            code=forward(
                """
                h = self.fc(x)
                self.bar.update(1)  # DYN718
                return h + 1
                """,
                head="from tqdm import tqdm",
                init="""
                self.fc = nn.Linear(8, 8)
                self.bar = tqdm(total=100, disable=True)
                """,
            ),
            declined="show progress around the call",
        ),
        Example(
            name="in-a-variable",
            code=forward(
                """
                h = self.fc(x)
                steps = tqdm([1, 2], disable=True)  # DYN718
                return h + 1
                """,
                head="from tqdm import tqdm",
            ),
            declined="used for more than",
        ),
        Example(
            name="plain-loop",
            code=forward(
                """
                h = self.fc(x)
                for step in range(2) if torch.compiler.is_compiling() else tqdm(range(2)):
                    h = h + step
                return h
                """,
                head="""
                from tqdm import tqdm


                def train(model, batches):
                    return [model(batch) for batch in tqdm(batches)]
                """,
            ),
        ),
    )
