"""DYN621: `t.is_leaf` of an argument, whose answer compiled code keeps."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Event, Read
from dynalint.analysis.project import Project
from dynalint.analysis.steps import walk
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward

# Called twice in a row by code that Dynamo gives up: with a tensor that nothing has computed, and with what came of it.
_TWICE = "lambda x, model=Model(): [x := (print(end=''), model(x))[1] for _ in range(2)][-1]"


class LeafTest(Rule):
    """Ask whether an argument of compiled code is a leaf of the autograd graph.

    ## What it flags
    `x.is_leaf` of a parameter of the function that Dynamo compiles. Not flagged: `is_leaf` of a tensor that the
    function computes, of weights and buffers, and of an argument in a function that compiled code calls.

    ## Why
    The answer is taken while tracing and nothing guards it. Dynamo guards whether an argument asks for gradients, so
    for a tensor that is computed the answer follows; but a tensor that was made to ask for gradients and the result of
    a layer both do, and one is a leaf. The code that was compiled for the first runs for the second, silently.

    ## Example
    ```python
    def forward(self, x):
        if x.is_leaf:
            x = x.clone()
        return self.norm_(x)
    ```

    Use instead:
    ```python
    def forward(self, x):
        x = x.clone()
        return self.norm_(x)
    ```

    ## How it is rewritten
    It is not: what to do in place of the test depends on what it is for.

    ## When the rewrite is not exact
    There is none. To do on both ways what is right for a leaf, such as to copy it first, is mostly what helps; else
    ask outside of the compiled code and pass the answer as an argument, which is guarded.

    ## How Dynamo words it
    Not at all. The code compiles whole; only a comparison with eager code shows the wrong result.

    ## References
    - https://docs.pytorch.org/docs/stable/generated/torch.Tensor.is_leaf.html
    """

    code = "DYN621"
    name = "leaf-test"
    summary = "whether an argument is a leaf is asked once, when the code is compiled"
    category = "miscompile"
    events = (Read,)
    calls = frozenset({"Tensor.is_leaf"})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag what is asked of an argument as it came, in a function that is compiled by itself."""
        if isinstance(event, Read) and len(event.function.chain) == 1 and _is_argument(event):
            yield Violation(
                event.node,
                "compiled code keeps the answer of `is_leaf` that the first argument gave",
                help="ask outside of the compiled code and pass the answer",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: what the test is for is not in the code."""
        return Declined("what is right for a leaf and for others is not in the code; pass the answer as an argument")

    examples = (
        Example(
            name="argument",
            code=forward(
                """
                return self.fc(x) * 2 if x.is_leaf else self.fc(x)  # DYN621
                """
            ),
            target=_TWICE,
            declined="pass the answer",
        ),
        Example(
            name="computed",
            code=forward(
                """
                h = self.fc(x)
                return h * 2 if h.is_leaf else h
                """
            ),
        ),
        Example(
            name="weight",
            code=forward(
                """
                return self.fc(x) * 2 if self.fc.weight.is_leaf else self.fc(x)
                """
            ),
        ),
        Example(
            name="passed",
            code=forward(
                """
                return self.fc(x) * 2 if is_leaf else self.fc(x)
                """,
                arguments="x: torch.Tensor, is_leaf: bool",
            ),
            inputs="[(torch.randn(4, 8), True), (torch.randn(4, 8), True)]",
        ),
    )


def _is_argument(event: Read) -> bool:
    """Whether the tensor is a parameter that the function does not set anew."""
    owner, node = event.node.value, event.function.node
    if not isinstance(owner, ast.Name) or k.only_tensor(event.owner) is None:
        return False
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    names = [one for one in walk(node) if isinstance(one, ast.Name) and one.id == owner.id]
    return any(one.arg == owner.id for one in arguments) and all(isinstance(one.ctx, ast.Load) for one in names)
