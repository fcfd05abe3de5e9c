"""DYN104: assertions of tensors in the forms that Dynamo does not keep in the graph."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis.events import Branch, Call, Event
from dynalint.analysis.kinds import only_tensor
from dynalint.analysis.project import Project
from dynalint.analysis.source import quote
from dynalint.rules import Declined, Example, Replacement, Rewrite, Rule, Violation
from dynalint_rules._shared.checks import is_constant_message
from dynalint_rules._shared.decide import rewrite_decision
from dynalint_rules._shared.decision import asks_tensor, decision_of, operand_of
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.scope import Refusal, Scope


class AssertOnTensor(Rule):
    """Dynamo keeps `assert tensor` in the graph, but only if the tensor alone is asserted, with a constant message.

    ## What it flags

    In an `assert`: `not` of a tensor, a tensor that `and` or `or` asks before the last operand, a chained comparison,
    and any tensor at all where the message is not a constant string (an f-string with values, a formatted string, a
    name, an exception). Also `torch._assert` of a tensor.

    Not flagged is what Dynamo keeps: `assert t`, `assert ~t`, `assert t > 0, "message"`, `assert shape_is_fine and t`,
    and assertions of shapes, dtypes and other Python values.

    ## Why

    An assertion is a branch. Dynamo recognises the instructions of `assert t, "message"` and makes them an
    `_assert_async` in the graph; anything in between, and a message that it would have to compute, makes it a branch
    on data: the graph ends, and the processor waits for the result of the test.

    ## Example

    ```python
    def forward(self, x):
        assert not torch.isnan(x).any(), "the input holds NaN"
        return self.fc(x)
    ```

    Use instead:

    ```python
    def forward(self, x):
        assert ~torch.isnan(x).any(), "the input holds NaN"
        return self.fc(x)
    ```

    ## How it is rewritten

    `assert a and b` becomes two assertions, `not t` becomes `~t` of a bool tensor or a comparison with zero, a chained
    comparison becomes one assertion for each of its links. An f-string loses its `f`, so that the message shows the
    names in braces; an exception given as the message is replaced by its text. `torch._assert` becomes
    `torch._assert_async`.

    ## When the rewrite is not exact

    In eager code it is, but for the message. In compiled code an assertion that fails in the graph raises RuntimeError
    and not AssertionError, so the rewrite is only applied with `--unsafe-fixes`. `torch._assert_async` raises
    RuntimeError in eager code too. On a GPU the failure shows when the processor next waits for the device.

    ## How Dynamo words it

    GB0170, "Data-dependent branching"; GB0171, "assert with non-string message": "Dynamo only supports asserts with
    string messages"; for `torch._assert` GB0033, "Data dependent operator".

    ## References

    - https://docs.python.org/3/reference/simple_stmts.html#the-assert-statement
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0170.html
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0171.html
    """

    code = "DYN104"
    name = "assert-on-tensor"
    summary = "Assertion of a tensor in a form that Dynamo cannot keep in the graph"
    gb = ("GB0170", "GB0171", "GB0033")
    events = (Branch, Call)
    calls = frozenset({"torch._assert"})

    examples = (
        Example(
            "not",
            forward("""
                assert not torch.isnan(x).any(), "the input holds NaN"  # DYN104
                return self.fc(x)
            """),
            inputs='[(torch.randn(4, 8),), (torch.full((4, 8), float("nan")),)]',
            fixed=forward("""
                assert ~torch.isnan(x).any(), "the input holds NaN"
                return self.fc(x)
            """),
        ),
        Example(
            "not of a tensor that is not bool",
            forward("""
                assert not (x - x).sum()  # DYN104
                return self.fc(x)
            """),
            fixed=forward("""
                assert (x - x).sum() == 0
                return self.fc(x)
            """),
        ),
        Example(
            "and",
            forward("""
                assert x.min() > -9 and x.max() < 9, "out of range"  # DYN104
                return self.fc(x)
            """),
            fixed=forward("""
                assert x.min() > -9, "out of range"
                assert x.max() < 9, "out of range"
                return self.fc(x)
            """),
        ),
        Example(
            "tensor before a Python value",
            forward("""
                assert x.max() < 9 and x.dim() == 2  # DYN104
                return self.fc(x)
            """),
            fixed=forward("""
                assert x.max() < 9
                assert x.dim() == 2
                return self.fc(x)
            """),
        ),
        Example(
            "or",
            forward("""
                assert x.max() < 9 or x.min() > 9  # DYN104
                return self.fc(x)
            """),
            fixed=forward("""
                assert (x.max() < 9) | (x.min() > 9)
                return self.fc(x)
            """),
        ),
        Example(
            "chained comparison",
            forward("""
                assert -9 < x.mean() <= 9, "out of range"  # DYN104
                return self.fc(x)
            """),
            fixed=forward("""
                assert -9 < x.mean(), "out of range"
                assert x.mean() <= 9, "out of range"
                return self.fc(x)
            """),
        ),
        Example(
            "f-string with values",
            forward("""
                assert x.max() < 9, f"too large for {tuple(x.shape)}"  # DYN104
                return self.fc(x)
            """),
            fixed=forward("""
                assert x.max() < 9, "too large for {tuple(x.shape)}"
                return self.fc(x)
            """),
        ),
        Example(
            "exception as the message",
            forward("""
                assert x.max() < 9, ValueError("too large")  # DYN104
                return self.fc(x)
            """),
            fixed=forward("""
                assert x.max() < 9, "too large"
                return self.fc(x)
            """),
        ),
        Example(
            "message by name",
            forward(
                """
                assert x.max() < 9, MESSAGE  # DYN104
                return self.fc(x)
                """,
                head='MESSAGE = "too large"',
            ),
            declined="make it constant first",
        ),
        Example(
            "message put together",
            forward("""
                assert x.max() < 9, "too large: %d" % x.dim()  # DYN104
                return self.fc(x)
            """),
            declined="make it constant first",
        ),
        Example(
            "torch._assert",
            forward("""
                torch._assert(x.max() < 9, "too large")  # DYN104
                return self.fc(x)
            """),
            fixed=forward("""
                torch._assert_async(x.max() < 9, "too large")
                return self.fc(x)
            """),
        ),
        Example(
            "in a loop",
            forward("""
                for _ in range(2):
                    assert not x.max() > 99  # DYN104
                    x = x * 2
                return x
            """),
            fixed=forward("""
                for _ in range(2):
                    assert ~(x.max() > 99)
                    x = x * 2
                return x
            """),
        ),
        Example(
            "one tensor",
            forward("""
                assert x.max() < 9
                assert (x < 9).all(), "too " + "large"
                assert ~torch.isnan(x).any(), f"the input holds NaN"
                return self.fc(x)
            """),
        ),
        Example(
            "last operand",
            forward("""
                assert x.dim() == 2 and x.max() < 9, "too large"
                assert x.dim() == 3 or x.min() > -9
                return self.fc(x)
            """),
        ),
        Example(
            "Python values",
            forward(
                """
                assert x.dim() == 2 and x.shape[1] == 8, f"expected (batch, 8), not {tuple(x.shape)}"
                assert mask is None or mask.shape == x.shape, ValueError("the mask does not fit")
                assert 0 < x.size(0) < 99 and not self.frozen
                torch._assert(x.dim() == 2, "expected two dimensions")
                return self.fc(x)
                """,
                init="self.fc = nn.Linear(8, 8)\nself.frozen = False",
                arguments="x: torch.Tensor, mask: torch.Tensor | None = None",
            ),
        ),
    )

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the operands of assertions that Dynamo would branch on."""
        if isinstance(event, Call):
            if event.args and only_tensor(event.args[0]) is not None:
                message = "`torch._assert` asks a tensor for its truth"
                yield Violation(event.node, message, help="Check on the device with `torch._assert_async`.")
            return
        operand = operand_of(event)
        if operand is None or not isinstance(event, Branch) or event.form == "in" or not asks_tensor(event, project):
            return
        decision = decision_of(project.parents(event.function), operand)
        if not isinstance(decision.node, ast.Assert):
            return
        constant = is_constant_message(decision.node.msg)
        shown = quote(event.function.file, operand)
        if not decision.asked or (event.form == "chained-comparison" and constant):
            message = (
                f"Dynamo keeps an `assert` of one plain tensor, and here has to know first whether {shown} is true"
            )
            yield Violation(operand, message, help="Assert one tensor at a time; write `~t` for `not t`.")
        elif not constant and event.form != "chained-comparison":
            message = f"Dynamo keeps the `assert` of {shown} only with a constant message"
            yield Violation(operand, message, help="Make the message a constant string.")

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Assert one tensor at a time, with a constant message."""
        if isinstance(event, Call):
            return _rewrite_call(event, project)
        operand = operand_of(event)
        return None if operand is None else rewrite_decision(event, operand, project, value="it asserts nothing here")


def _rewrite_call(event: Call, project: Project) -> Rewrite | Declined:
    try:
        scope = Scope.of(event, project)
    except Refusal as refusal:
        return Declined(str(refusal))
    given = event.node.args[1] if len(event.node.args) == 2 else None
    message = next((keyword.value for keyword in event.node.keywords if keyword.arg == "message"), given)
    if message is None or not is_constant_message(message) or event.node.keywords:
        return Declined("the message is not a constant string, and a graph holds only those; make it constant first")
    start, end = scope.file.span(event.node.func)
    changes = (
        "a failing check raises RuntimeError instead of AssertionError, "
        "on a GPU only when the device is next waited for"
    )
    replacement = Replacement(scope.file, start, end, f"{scope.torch}._assert_async")
    return Rewrite(
        "Check on the device with `torch._assert_async`", "unsafe", (replacement,), (changes,), scope.imports
    )
