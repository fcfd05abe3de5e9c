"""DYN714: context managers of torch on an `ExitStack`."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call, Event
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward


class ExitStackCall(Rule):
    """Enter torch's context managers on a `contextlib.ExitStack`.

    ## What it flags

    `stack.enter_context(...)` of `torch.no_grad()`, `torch.autocast(...)`, `torch.profiler.record_function(...)` and
    other context managers of torch, of devices, and of `contextlib.nullcontext()`, in code that is compiled. Not
    flagged: a stack that nothing is entered on, callbacks, and your own context managers, made by a class or by
    `contextlib.contextmanager`, which Dynamo traces.

    ## Why

    A `with` statement over these is something that Dynamo knows. The stack calls `__enter__` and `__exit__` as
    functions instead, which Dynamo has no code for. Within the `with` statement of the stack it cannot go on after the
    break either, so the whole function is left to eager Python.

    ## Example

    ```python
    def forward(self, x):
        with contextlib.ExitStack() as stack:
            if self.frozen:
                stack.enter_context(torch.no_grad())
            return self.fc(x)
    ```

    Use instead:

    ```python
    def forward(self, x):
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen):
            return self.fc(x)
    ```

    ## How it is rewritten

    It is not: write `with` statements, with `contextlib.nullcontext()` where nothing is to be entered.

    ## When the rewrite is not exact

    There is none.

    ## How Dynamo words it

    GB0007: `Attempted to call function marked as skipped`, GB0147, GB0156 and GB0467 for some, with GB0066 for the
    block around them.

    ## References

    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0066.html
    """

    code = "DYN714"
    name = "exit-stack"
    summary = "entering torch's context managers on an `ExitStack` ends the graph"
    gb = ("GB0007", "GB0147", "GB0156", "GB0467", "GB0066", "GB0092")
    events = (Call,)
    calls = frozenset({"contextlib.ExitStack.enter_context"})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag what was seen to break, by the kind of what is entered."""
        if isinstance(event, Call) and event.args and all(_breaks(one) for one in event.args[0].members):
            yield Violation(
                event.node,
                "Dynamo enters this in a `with` statement, and not on a stack",
                help="write a `with` statement, over `contextlib.nullcontext()` where nothing is to be entered",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: the statements around it have to move."""
        return Declined("the statements that follow have to move into a `with` statement of their own")

    examples = (
        Example(
            name="grad-mode",
            code=forward(
                """
                with contextlib.ExitStack() as stack:
                    stack.enter_context(torch.no_grad())  # DYN714
                    h = self.fc(x)
                return h + 1
                """,
                head="import contextlib",
            ),
            declined="have to move",
        ),
        Example(
            name="autocast",
            code=forward(
                """
                h = self.fc(x)
                with ExitStack() as stack:
                    stack.enter_context(torch.autocast("cpu", enabled=False))  # DYN714
                    h = h + 1
                return h
                """,
                head="from contextlib import ExitStack",
            ),
        ),
        Example(
            name="nothing-to-enter",
            code=forward(
                """
                h = self.fc(x)
                with contextlib.ExitStack() as stack:
                    stack.enter_context(contextlib.nullcontext())  # DYN714
                    h = h + 1
                return h
                """,
                head="import contextlib",
            ),
        ),
        Example(
            name="without-a-statement",
            code=forward(
                """
                h = self.fc(x)
                stack = contextlib.ExitStack()
                stack.enter_context(torch.no_grad())  # DYN714
                h = h + 1
                stack.close()
                return h
                """,
                head="import contextlib",
            ),
        ),
        Example(
            name="own-managers",
            code=forward(
                """
                h = self.fc(x)
                with contextlib.ExitStack() as stack:
                    scope = stack.enter_context(Scope())
                    factor = stack.enter_context(scaled())
                    stack.callback(print_nothing)
                    h = h * factor
                with torch.no_grad() if self.training else contextlib.nullcontext():
                    return h + 1
                """,
                head="""
                import contextlib


                class Scope:
                    def __enter__(self):
                        return self

                    def __exit__(self, *error):
                        return False


                @contextlib.contextmanager
                def scaled():
                    yield 2


                def print_nothing():
                    pass
                """,
            ),
        ),
    )


def _breaks(kind: k.Kind) -> bool:
    if isinstance(kind, k.Object):
        return kind.type.startswith("torch.") or kind.type == "contextlib.nullcontext"
    return isinstance(kind, k.Value) and kind.type == "device"
