"""DYN502: a Python counter kept on a class or in a module global."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.analysis.events import Event, StateChange
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.growth import UP_TO_LIMIT, is_counter
from dynalint_rules._shared.scope import Refusal
from dynalint_rules._shared.shared_numbers import shared_to_tensor

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

    With `--unsafe-fixes` the count becomes a tensor at its place: `CALLS = torch.tensor(0)`, and `CALLS = CALLS + 1`.
    All places in the file change together, on the terms of DYN501. Declined where the place is used as a whole (a dict
    that is handed on), imported elsewhere, reached in two ways, or where a reader needs a Python number. Counting
    around the compiled function, as above, is always right.

    ## When the rewrite is not exact

    Whoever else reads the count gets a tensor, and it stays on the CPU. The fix is `unsafe` for that reason.

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
        """Keep the count in a tensor."""
        assert isinstance(event, StateChange)
        try:
            return shared_to_tensor(event, project)
        except Refusal as refusal:
            return Declined(str(refusal))

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
            fixed="""
                import torch

                CALLS = torch.tensor(0)


                @torch.compile
                def scale(x):
                    global CALLS
                    CALLS = CALLS + 1
                    return x * 2
            """,
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
            fixed="""
                import torch
                from torch import nn


                class Model(nn.Module):
                    calls = torch.tensor(0)

                    def forward(self, x):
                        Model.calls = Model.calls + 1
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
            fixed="""
                import torch
                from torch import nn


                class Model(nn.Module):
                    calls = torch.tensor(0)

                    def forward(self, x):
                        type(self).calls = type(self).calls + 1
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
            fixed="""
                import torch

                STATS = {"calls": torch.tensor(0)}


                @torch.compile
                def scale(x):
                    STATS["calls"] = STATS["calls"] + 1
                    return x * 2
            """,
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
            fixed="""
                import torch


                class Stats:
                    def __init__(self):
                        self.calls = torch.tensor(0)


                STATS = Stats()


                @torch.compile
                def scale(x):
                    STATS.calls = STATS.calls + 1
                    return x * 2
            """,
        ),
        Example(
            name="put-to-use",
            code="""
                import torch

                CALLS = 2


                def reset():
                    global CALLS
                    CALLS = 1


                @torch.compile
                def scale(x: torch.Tensor):
                    global CALLS
                    CALLS += 1  # DYN502 DYN805
                    if CALLS % 2 == 0:
                        x = x + 1
                    return x * CALLS
            """,
            target="scale",
            fixed="""
                import torch

                CALLS = torch.tensor(2)


                def reset():
                    global CALLS
                    CALLS = torch.full_like(CALLS, 1)


                @torch.compile
                def scale(x: torch.Tensor):
                    global CALLS
                    CALLS = CALLS + 1
                    x = torch.where(CALLS % 2 == 0, x + 1, x)
                    return x * CALLS
            """,
        ),
        Example(
            name="class-attribute-set-elsewhere",
            code="""
                import torch
                from torch import nn


                class Model(nn.Module):
                    calls = 0

                    def forward(self, x):
                        Model.calls += 1  # DYN502
                        return x * 2


                def fresh():
                    Model.calls = 0
                    return Model()
            """,
            fixed="""
                import torch
                from torch import nn


                class Model(nn.Module):
                    calls = torch.tensor(0)

                    def forward(self, x):
                        Model.calls = Model.calls + 1
                        return x * 2


                def fresh():
                    Model.calls = torch.zeros_like(Model.calls)
                    return Model()
            """,
            target="fresh()",
            torch=">=2.13",
        ),
        Example(
            name="told-to-someone",
            code="""
                import torch

                CALLS = 0


                def report():
                    print(f"{CALLS} calls")


                @torch.compile
                def scale(x):
                    global CALLS
                    CALLS += 1  # DYN502
                    return x * 2
            """,
            target="scale",
            declined="prints `CALLS`",
        ),
        Example(
            name="reached-in-two-ways",
            code="""
                import torch
                from torch import nn


                class Model(nn.Module):
                    calls = 0

                    def forward(self, x):
                        type(self).calls += 1  # DYN502
                        return x * self.calls
            """,
            declined="reached in more than one way",
            torch=">=2.13",
        ),
        Example(
            name="handed-on-as-a-whole",
            code="""
                import torch

                STATS = {"calls": 0}


                def stats():
                    return dict(STATS)


                @torch.compile
                def scale(x):
                    STATS["calls"] += 1  # DYN502
                    return x * 2
            """,
            target="scale",
            declined="uses `STATS` as a whole",
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
