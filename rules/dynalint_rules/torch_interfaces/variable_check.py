"""DYN618: a test for the `Variable` of old, which no tensor passes while Dynamo traces."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call, Event
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Replacement, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.scope import Refusal, Scope


class VariableCheck(Rule):
    """Ask whether a tensor is an instance of `torch.autograd.Variable`.

    ## What it flags
    `isinstance(x, Variable)` of a tensor in code that is compiled. Where the answer no leads to a `raise`, the graph
    ends at that `raise`; elsewhere the compiled code takes the other side than Python does. Not flagged:
    `isinstance(x, torch.Tensor)`, and tests in code that is not compiled.

    ## Why
    Since torch 0.4 every tensor is a `Variable`: the class says so in its `__instancecheck__`. Dynamo does not ask it.
    It compares the classes, and `torch.Tensor` is no subclass of `Variable`, so the answer is no.

    ## Example
    ```python
    def forward(self, x):
        if not isinstance(x, Variable):
            raise TypeError("not a tensor")
        return self.fc(x)
    ```

    Use instead:
    ```python
    def forward(self, x):
        if not isinstance(x, torch.Tensor):
            raise TypeError("not a tensor")
        return self.fc(x)
    ```

    ## How it is rewritten
    `Variable` becomes `torch.Tensor`, which gives the same answer in Python and the same in compiled code.

    ## When the rewrite is not exact
    There is no such case: both ask whether the value is a tensor.

    ## How Dynamo words it
    GB0088: `Observed exception`, at the `raise`. Where nothing is raised, it says nothing.

    ## References
    - https://docs.pytorch.org/docs/stable/autograd.html#variable-deprecated
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0088.html
    """

    code = "DYN618"
    name = "variable-check"
    summary = "no tensor is a `Variable` while Dynamo traces"
    gb = ("GB0088",)
    events = (Call,)
    calls = frozenset({"torch.autograd.Variable.__instancecheck__"})
    gives_up = True

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the `raise` that a tensor is sent to, or else the test that it fails."""
        if not isinstance(event, Call):
            return
        raised = _raised(event, project)
        if raised is not None:
            yield Violation(
                raised,
                "Dynamo takes no tensor for a `Variable`, comes to this `raise`, and gives up the function",
                help="ask `isinstance(..., torch.Tensor)`",
            )
        elif k.only_tensor(event.args[0]) is not None:
            yield Violation(
                event.node,
                "a tensor is no `Variable` for Dynamo, so compiled code takes the other side than Python does",
                help="ask `isinstance(..., torch.Tensor)`",
                category="miscompile",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Ask for a tensor."""
        if not isinstance(event, Call):
            return None
        try:
            scope = Scope.of(event, project)
        except Refusal as refusal:
            return Declined(str(refusal))
        start, end = scope.file.span(event.node.args[1])
        title = "Ask for `torch.Tensor`, which every `Variable` is"
        return Rewrite(
            title, "safe", (Replacement(scope.file, start, end, f"{scope.torch}.Tensor"),), (), scope.imports
        )

    examples = (
        Example(
            name="raises",
            code=forward(
                """
                if not isinstance(x, Variable):
                    raise TypeError("not a tensor")  # DYN618
                return self.fc(x)
                """,
                head="from torch.autograd import Variable",
                arguments="x",
            ),
            fixed=forward(
                """
                if not isinstance(x, torch.Tensor):
                    raise TypeError("not a tensor")
                return self.fc(x)
                """,
                head="from torch.autograd import Variable",
                arguments="x",
            ),
        ),
        Example(
            name="raises-otherwise",
            code=forward(
                """
                if isinstance(x, Variable):
                    return self.fc(x)
                else:
                    raise TypeError("not a tensor")  # DYN618
                """,
                head="from torch.autograd import Variable",
            ),
            fixed=forward(
                """
                if isinstance(x, torch.Tensor):
                    return self.fc(x)
                else:
                    raise TypeError("not a tensor")
                """,
                head="from torch.autograd import Variable",
            ),
        ),
        Example(
            name="other-side",
            code=forward(
                """
                h = self.fc(x)
                if isinstance(h, Variable):  # DYN618
                    h = h * 2
                return h
                """,
                head="from torch.autograd import Variable",
            ),
            fixed=forward(
                """
                h = self.fc(x)
                if isinstance(h, torch.Tensor):
                    h = h * 2
                return h
                """,
                head="from torch.autograd import Variable",
            ),
            shows="miscompile",
        ),
        Example(
            name="tensor",
            code=forward(
                """
                if not isinstance(x, torch.Tensor):
                    raise TypeError("not a tensor")
                return self.fc(x)
                """,
                arguments="x",
            ),
        ),
    )


def _raised(event: Call, project: Project) -> ast.Raise | None:
    """Return the `raise` that an answer of no leads to, where that answer alone decides."""
    parents = project.parents(event.function)
    node: ast.AST = event.node
    parent = parents.get(node)
    negated = isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not)
    if negated and parent is not None:
        node, parent = parent, parents.get(parent)
    if not isinstance(parent, ast.If) or parent.test is not node:
        return None
    side = parent.body if negated else parent.orelse
    return side[0] if side and isinstance(side[0], ast.Raise) else None
