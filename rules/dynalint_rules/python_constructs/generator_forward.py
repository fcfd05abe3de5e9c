"""DYN702: a compiled function that is a generator."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.analysis.events import Event, GeneratorRoot
from dynalint.analysis.project import Project
from dynalint.rules import Example, Rule, Violation

_HEAD = """import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

"""


class GeneratorForward(Rule):
    """Compile a function that yields.

    ## What it flags

    A `yield` in a `forward`, or in a function that is given to `torch.compile`, that no other compiled code calls. Not
    flagged: generators that compiled code calls and goes through, which are traced into it, and generators that are
    made within a compiled function.

    ## Why

    What such a function returns is a generator, whose code runs later, a piece at a time, in the hands of whoever asks
    it for values. Dynamo does not compile these pieces: nothing of the function is compiled, and in default mode
    nothing is said about it.

    ## Example

    ```python
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
            yield x
    ```

    Use instead:

    ```python
    def forward(self, x):
        outputs = []
        for layer in self.layers:
            x = layer(x)
            outputs.append(x)
        return outputs
    ```

    ## How it is rewritten

    It is not: callers that ask for one value at a time, or send some in, have to be rewritten as well.

    ## When the rewrite is not exact

    There is none. By hand: a list holds all outputs at once, and what stood behind the last `yield` that a caller asked
    for did not run before.

    ## How Dynamo words it

    GB0003: `Attempt to trace generator`, with `fullgraph=True`. In default mode the function is left to eager Python
    without a word.

    ## References

    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0003.html
    """

    code = "DYN702"
    name = "generator-forward"
    summary = "a compiled function that yields is not compiled at all"
    gb = ("GB0003",)
    events = (GeneratorRoot,)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the function, unless a compiled caller goes through what it yields."""
        if isinstance(event, GeneratorRoot) and not event.called:
            yield Violation(
                event.node,
                f"`{event.function.name}` is a generator, of which Dynamo compiles nothing",
                help="return a list of what it yields, or compile the function that goes through it",
            )

    examples = (
        Example(
            name="forward",
            code=_HEAD
            + """    def forward(self, x: torch.Tensor):  # DYN702
        h = self.fc(x)
        yield h
        yield torch.relu(h)
""",
        ),
        Example(
            name="in-a-loop",
            code="""import torch


@torch.compile
def powers(x: torch.Tensor):  # DYN702
    for exponent in range(3):
        yield x**exponent
""",
            target="powers",
        ),
        Example(
            name="called-by-compiled-code",
            code=_HEAD
            + """    def forward(self, x: torch.Tensor):
        h = self.fc(x)
        yield h
        yield torch.relu(h)


class Sum(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = Model()

    def forward(self, x: torch.Tensor):
        return sum(self.parts(x))
""",
            target="Sum()",
        ),
        Example(
            name="helper",
            code=_HEAD
            + """    def pieces(self, x):
        yield self.fc(x)
        yield torch.relu(x)

    def forward(self, x: torch.Tensor):
        return [piece + 1 for piece in self.pieces(x)]
""",
        ),
    )
