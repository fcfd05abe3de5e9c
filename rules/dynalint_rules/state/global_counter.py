"""DYN502: a Python counter kept on a class or in a module global."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.analysis.events import Event, StateChange
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.growth import UP_TO_LIMIT, is_counter

_PLACES = {"class": "a class attribute", "global": "a module global"}


class GlobalCounter(Rule):
    """Count in a Python int that a whole class or module shares, so that every call compiles the code anew.

    ## What it flags

    `Model.count += 1`, `type(self).count += 1`, `global N; N += 1`, `STATS["steps"] += 1` and `STATE.n += 1` for a
    dict or object in a module global, in code that a compiled function reaches.

    Not flagged is what settles: floats, flags, a count kept below nine values, one in a closure (`nonlocal`), in an
    argument or its default, which Dynamo makes dynamic after one more graph. A count on `self` is DYN501.

    ## Why

    Dynamo treats such an int as a constant of the code and guards on its value. Every call finds another value and is
    compiled again, until Dynamo gives the function up after eight graphs and runs it uncompiled.

    ## Example

    ```python
    CALLS = 0

    @torch.compile
    def scale(x):
        global CALLS
        CALLS += 1
        return x * 2
    ```

    Use instead:

    ```python
    CALLS = 0

    @torch.compile
    def scale(x):
        return x * 2

    def counted_scale(x):
        global CALLS
        CALLS += 1
        return scale(x)
    ```

    ## How it is rewritten

    It is not: whoever else reads the count may need a Python number. Counting around the compiled function, as above,
    is always right.

    ## When the rewrite is not exact

    There is no rewrite.

    ## How Dynamo words it

    The recompile reason is `G['CALLS'] == 3`, or the like for the place of the count. In the end it says
    "torch._dynamo hit config.recompile_limit (8)", and with `fullgraph=True` raises `FailOnRecompileLimitHit`.

    ## References

    - https://docs.pytorch.org/docs/stable/compile/programming_model.recompilation.html
    """

    code = "DYN502"
    name = "global-counter"
    summary = "A Python int that a class or module shares changes on every call, and every call compiles anew"
    category = "recompile"
    events = (StateChange,)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag counts that live outside of `self`."""
        assert isinstance(event, StateChange)
        place = _PLACES.get(event.home.type)
        if place is not None and is_counter(event, project):
            yield Violation(
                event.statement,
                f"`{event.home.name}`, {place}, is an int that differs on every call: each value is compiled anew, "
                f"{UP_TO_LIMIT}",
                help="Count outside the compiled code, or keep the count in a buffer of the module.",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: the count is not the module's alone."""
        return Declined("others may read the count as a Python number; count around the compiled function instead")

    examples = (
        Example(
            name="module-global",
            code="""
                import torch

                CALLS = 0


                @torch.compile
                def scale(x):
                    global CALLS
                    CALLS += 1  # DYN502
                    return x * 2
            """,
            target="scale",
        ),
        Example(
            name="class-attribute",
            code="""
                import torch
                from torch import nn


                class Model(nn.Module):
                    calls = 0

                    def forward(self, x):
                        Model.calls += 1  # DYN502
                        return x * 2
            """,
            torch=">=2.13",
        ),
        Example(
            name="class-of-the-instance",
            code="""
                import torch
                from torch import nn


                class Model(nn.Module):
                    calls = 0

                    def forward(self, x):
                        type(self).calls += 1  # DYN502
                        return x * 2
            """,
            torch=">=2.13",
        ),
        Example(
            name="global-dict",
            code="""
                import torch

                STATS = {"calls": 0}


                @torch.compile
                def scale(x):
                    STATS["calls"] += 1  # DYN502
                    return x * 2
            """,
            target="scale",
        ),
        Example(
            name="global-object",
            code="""
                import torch


                class Stats:
                    def __init__(self):
                        self.calls = 0


                STATS = Stats()


                @torch.compile
                def scale(x):
                    STATS.calls += 1  # DYN502
                    return x * 2
            """,
            target="scale",
        ),
        Example(
            name="closure-becomes-dynamic",
            code="""
                import torch


                def make():
                    calls = 0

                    @torch.compile
                    def scale(x):
                        nonlocal calls
                        calls += 1  # DYN507
                        return x * calls

                    return scale
            """,
            target="make()",
        ),
        Example(
            name="default-becomes-dynamic",
            code="""
                import torch


                @torch.compile
                def scale(x, calls=[0]):
                    calls[0] += 1
                    return x * 2
            """,
            target="scale",
        ),
        Example(
            name="global-float-becomes-dynamic",
            code="""
                import torch

                TIME = 0.0


                @torch.compile
                def scale(x):
                    global TIME
                    TIME += 0.5  # DYN507
                    return x * TIME
            """,
            target="scale",
        ),
        Example(
            name="global-flag-settles",
            code="""
                import torch

                STARTED = False


                @torch.compile
                def scale(x):
                    global STARTED
                    STARTED = True
                    return x * 2
            """,
            target="scale",
        ),
        Example(
            name="count-in-an-argument",
            code="""
                import torch

                STATS = {"calls": 0}


                @torch.compile
                def scale(x, stats):
                    stats["calls"] += 1
                    return x * 2
            """,
            target="scale",
            inputs='[(torch.ones(4, 8), {"calls": 0})]',
        ),
        Example(
            name="counted-around-the-compiled-code",
            code="""
                import torch

                CALLS = 0


                @torch.compile
                def scale(x):
                    return x * 2


                def counted_scale(x):
                    global CALLS
                    CALLS += 1
                    return scale(x)
            """,
            target="scale",
        ),
    )
