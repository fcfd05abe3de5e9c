"""DYN105: a guard that raises where the data of a tensor is not as it should be."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.analysis.events import Branch, Event
from dynalint.analysis.project import Project
from dynalint.analysis.source import quote
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.decide import rewrite_decision
from dynalint_rules._shared.decision import Decision, asks_tensor, decision_of, is_guard, operand_of
from dynalint_rules._shared.examples import forward


class RaiseOnTensor(Rule):
    """A check of a tensor's data that raises an exception is a branch like any other.

    ## What it flags

    An `if` on a tensor with a side that ends in `raise`: `if torch.isnan(x).any(): raise ValueError(...)`. Each operand
    of its test that is a tensor is flagged by itself.

    Not flagged are checks of shapes, dtypes, devices and `None`, which Dynamo decides while tracing, and `assert`
    statements, which belong to DYN104.

    ## Why

    Dynamo cannot know whether the check will fail, so it ends the graph, runs the test in Python and starts another
    graph after it. A check that never fails costs as much as one that does: on a GPU every call waits for its result.

    ## Example

    ```python
    def forward(self, x):
        if torch.isnan(x).any():
            raise ValueError("the input holds NaN")
        return self.fc(x)
    ```

    Use instead:

    ```python
    def forward(self, x):
        torch._assert_async(~torch.isnan(x).any(), "the input holds NaN")
        return self.fc(x)
    ```

    ## How it is rewritten

    An `if` whose only statement is `raise SomeError("a constant message")` becomes `torch._assert_async` of the
    opposite, which is traced into the graph and checks on the device. This is what Dynamo itself makes of
    `assert test, "message"`. An f-string that shows settings, such as `{self.config.vocab_size}`, stays as it is:
    Dynamo makes a constant of it. Of another one the text is kept, with the names of its values in braces. An
    exception without a message is shown by its name.

    ## When the rewrite is not exact

    It never is, so it is only applied with `--unsafe-fixes`: the exception becomes a RuntimeError, whatever it was, so
    `except ValueError:` in a caller no longer catches it. On a GPU it is raised later, when the processor next waits
    for the device. There is no form that keeps the type of the exception without a break. The rewrite is declined where
    the message is put together elsewhere, and where the branch does more than raise.

    ## How Dynamo words it

    GB0170, "Data-dependent branching", at the test. Where the exception is raised as well, GB0088, "Observed
    exception", may follow.

    ## References

    - https://docs.pytorch.org/docs/stable/torch.compiler_faq.html
    - https://arxiv.org/abs/2509.16248
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0170.html
    """

    code = "DYN105"
    name = "raise-on-tensor"
    summary = "Guard that raises depending on the data of a tensor"
    gb = ("GB0170",)
    events = (Branch,)

    examples = (
        Example(
            "NaN",
            forward("""
                if torch.isnan(x).any():  # DYN105
                    raise ValueError("the input holds NaN")
                return self.fc(x)
            """),
            inputs='[(torch.randn(4, 8),), (torch.full((4, 8), float("nan")),)]',
            fixed=forward("""
                torch._assert_async(~torch.isnan(x).any(), "the input holds NaN")
                return self.fc(x)
            """),
        ),
        Example(
            "not, with a comment",
            forward("""
                if not torch.isfinite(x).all():  # DYN105
                    # overflow, most likely
                    raise RuntimeError("the input is not finite")
                return self.fc(x)
            """),
            fixed=forward("""
                # overflow, most likely
                torch._assert_async(torch.isfinite(x).all(), "the input is not finite")
                return self.fc(x)
            """),
        ),
        Example(
            "range",
            forward("""
                if x.min() < -10 or x.max() > 10:  # DYN105
                    raise ValueError("out of range: "
                                     "expected values from -10 to 10")
                return self.fc(x)
            """),
            inputs="[(torch.ones(4, 8),), (-torch.ones(4, 8),), (20 * torch.ones(4, 8),)]",
            fixed=forward("""
                torch._assert_async(
                    ~((x.min() < -10) | (x.max() > 10)),
                    "out of range: "
                                     "expected values from -10 to 10",
                )
                return self.fc(x)
            """),
        ),
        Example(
            "after a test of the shape",
            forward("""
                if x.dim() == 2 and (x < -10).any():  # DYN105
                    raise ValueError("too small")
                return self.fc(x)
            """),
            fixed=forward("""
                if x.dim() == 2:
                    torch._assert_async(~(x < -10).any(), "too small")
                return self.fc(x)
            """),
        ),
        Example(
            "in a helper",
            forward(
                "return self.fc(checked(x))",
                head="""
                def checked(y: torch.Tensor):
                    if y.sum() == 7: raise ValueError("seven")  # DYN105
                    return y
                """,
            ),
            fixed=forward(
                "return self.fc(checked(x))",
                head="""
                def checked(y: torch.Tensor):
                    torch._assert_async(~(y.sum() == 7), "seven")
                    return y
                """,
            ),
        ),
        Example(
            "message put together",
            forward("""
                if torch.isnan(x).any():  # DYN105
                    raise ValueError(f"NaN in a tensor of shape {tuple(x.shape)}")
                return self.fc(x)
            """),
            fixed=forward("""
                torch._assert_async(~torch.isnan(x).any(), "NaN in a tensor of shape {tuple(x.shape)}")
                return self.fc(x)
            """),
        ),
        Example(
            "message that shows settings",
            """
            import torch
            from torch import nn


            class Settings:
                def __init__(self):
                    self.vocab_size = 100


            class Model(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.config = Settings()
                    self.limit = 100
                    self.fc = nn.Linear(8, 8)

                def forward(self, x):
                    if x.max() >= self.config.vocab_size:  # DYN105
                        raise ValueError(f"values must be < {self.config.vocab_size}, {self.limit} that is")
                    return self.fc(x)
            """,
            fixed="""
            import torch
            from torch import nn


            class Settings:
                def __init__(self):
                    self.vocab_size = 100


            class Model(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.config = Settings()
                    self.limit = 100
                    self.fc = nn.Linear(8, 8)

                def forward(self, x):
                    torch._assert_async(
                        ~(x.max() >= self.config.vocab_size),
                        f"values must be < {self.config.vocab_size}, {self.limit} that is",
                    )
                    return self.fc(x)
            """,
        ),
        Example(
            "no message",
            forward("""
                if torch.isnan(x).any():  # DYN105
                    raise ValueError
                return self.fc(x)
            """),
            fixed=forward("""
                torch._assert_async(~torch.isnan(x).any(), "ValueError")
                return self.fc(x)
            """),
        ),
        Example(
            "message worked out elsewhere",
            forward("""
                text = "NaN in " + str(tuple(x.shape))
                if torch.isnan(x).any():  # DYN105
                    raise ValueError(text)
                return self.fc(x)
            """),
            declined="make it constant first",
        ),
        Example(
            "more than a guard",
            forward("""
                if x.sum() > 100:  # DYN105
                    raise ValueError("too large")
                else:
                    x = x * 2
                return self.fc(x)
            """),
            declined="does more than raise",
        ),
        Example(
            "raise in else",
            forward("""
                if x.sum() < 100:  # DYN105
                    x = x * 2
                else:
                    raise ValueError("too large")
                return self.fc(x)
            """),
            declined="does more than raise",
        ),
        Example(
            "shapes and types",
            forward(
                """
                if x.dim() != 2 or x.shape[1] != 8:
                    raise ValueError("expected (batch, 8)")
                if not x.is_floating_point() or x.dtype == torch.float16:
                    raise TypeError("expected floats")
                if mask is not None and mask.shape != x.shape:
                    raise ValueError("the mask does not fit")
                return self.fc(x)
                """,
                arguments="x: torch.Tensor, mask: torch.Tensor | None = None",
            ),
        ),
        Example(
            "check on the device",
            forward("""
                torch._assert_async(torch.isfinite(x).all(), "the input is not finite")
                assert (x < 100).all(), "the input is too large"
                return self.fc(x)
            """),
        ),
        Example(
            "check outside the compiled code",
            """
            import torch
            from torch import nn

            def checked(x):
                if torch.isnan(x).any():
                    raise ValueError("the input holds NaN")
                return x

            class Model(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 8)
                    checked(self.fc.weight)

                def forward(self, x):
                    return self.fc(x)
            """,
        ),
    )

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the operands of tests that guard a `raise`."""
        operand = operand_of(event)
        if operand is None or not isinstance(event, Branch) or event.form in ("in", "chained-comparison"):
            return
        decision: Decision = decision_of(project.parents(event.function), operand)
        if decision.form == "if" and is_guard(decision.node) and asks_tensor(event, project):
            shown = quote(event.function.file, operand)
            message = f"whether this raises depends on the data of {shown}, which Dynamo does not have"
            yield Violation(operand, message, help="Check on the device with `torch._assert_async`.")

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Check with `torch._assert_async`."""
        operand = operand_of(event)
        if operand is None:
            return None
        return rewrite_decision(event, operand, project, value="it guards nothing here")
