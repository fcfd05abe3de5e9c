"""DYN501: a Python counter kept on a module."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.analysis.events import Event, StateChange
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.buffers import number_to_buffer
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.growth import UP_TO_LIMIT, is_counter
from dynalint_rules._shared.scope import Refusal


class PythonCounter(Rule):
    """Count in a Python int on a module, so that every call compiles the code anew.

    ## What it flags

    `self.n += 1`, `self.n = self.n + x.numel()` and the like, where the attribute holds a Python int and the code is
    reached from a compiled function: in `forward`, in a method that it calls, on a plain object that the module holds
    (`self.stats.n += 1`) or in a container of its own (`self.counts["steps"] += 1`).

    Not flagged is what settles: tensors and buffers, floats (which become dynamic after one more graph), flags, a count
    that the same call has set before, one that a comparison or `%` keeps below nine values, one in a closure or in an
    argument.

    ## Why

    Dynamo treats an int on a module as a constant of the code. It guards on the value, the next call finds another one,
    and the whole function is compiled again. After eight graphs (`torch._dynamo.config.recompile_limit`) Dynamo gives
    the function up: all later calls run uncompiled, and with `fullgraph=True` they raise. A count that nobody reads
    costs as much as one that is used.

    ## Example

    ```python
    def __init__(self):
        super().__init__()
        self.steps = 0

    def forward(self, x):
        self.steps += 1
        return x * 2
    ```

    Use instead:

    ```python
    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.tensor(0), persistent=False)

    def forward(self, x):
        self.steps = self.steps + 1
        return x * 2
    ```

    ## How it is rewritten

    The number becomes a buffer, registered where the constructor set the attribute: an int64 tensor that moves with
    the module and stays out of the state dict, so that old checkpoints load. It is updated by assignment and never in
    place, because an update in place gives wrong gradients as soon as the value takes part in a differentiable
    expression (DYN505). Places that set the count to a number fill a new tensor instead. All places in the project
    change together, and each that reads the count must be arithmetic that ends in a tensor, or in the count itself, or
    a comparison with a whole number that decides a branch, which is rewritten with it (see DYN101).

    Declined where a reader needs a Python number: a loop, an index, a size, a text, a return value, an
    argument of another function, arithmetic with Python floats; where the count is used from outside the class or by
    its name as text; and where the constructor does not set it to one plain number after `super().__init__()`.

    ## When the rewrite is not exact

    Its value is the same, its type is not: code outside the project that reads the attribute gets a tensor, and gets
    a TypeError where it sets a plain number. Multiplied with a half-precision tensor, a count beyond a few hundred is
    rounded before the operation and not after it. An int64 count ends at 2**63. Distributed data parallelism sends
    buffers from the first process to the others, unless told not to.

    ## How Dynamo words it

    The recompile reason is `self.steps == 3`, with a hint at `allow_unspec_int_on_nn_module`; that setting helps
    without a change of the code. In the end "torch._dynamo hit config.recompile_limit (8)", and with
    `fullgraph=True` the exception `FailOnRecompileLimitHit`.

    ## References

    - https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.register_buffer
    - https://docs.pytorch.org/docs/stable/compile/programming_model.recompilation.html
    """

    code = "DYN501"
    name = "python-counter"
    summary = "A Python int on a module changes on every call, and every call compiles anew"
    category = "recompile"
    events = (StateChange,)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag counts that live on `self`."""
        assert isinstance(event, StateChange)
        if event.home.type == "attribute" and is_counter(event, project):
            yield Violation(
                event.statement,
                f"`self.{event.home.name}` is an int that differs on every call: each value is compiled anew, "
                f"{UP_TO_LIMIT}",
                help="Keep the count in a buffer that the constructor registers, or count outside the compiled code.",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Keep the count in a buffer, if it is the module's own."""
        assert isinstance(event, StateChange)
        owner = event.function.owner
        is_module = owner is not None and project.is_module_class(owner)
        try:
            if event.home.name.isidentifier() and is_module:
                return number_to_buffer(event, project)
            raise Refusal("the count is not the module's alone; count around the compiled function instead")
        except Refusal as refusal:
            return Declined(str(refusal))

    examples = (
        Example(
            name="steps",
            code=forward(
                """
                self.steps += 1  # DYN501
                return self.fc(x)
                """,
                init="self.fc = nn.Linear(8, 8)\nself.steps = 0",
            ),
            fixed=forward(
                """
                self.steps = self.steps + 1
                return self.fc(x)
                """,
                init=('self.fc = nn.Linear(8, 8)\nself.register_buffer("steps", torch.tensor(0), persistent=False)'),
            ),
        ),
        Example(
            name="on-the-way-to-an-exception",
            code=forward(
                """
                if x.shape[0] > 64:
                    self.refused += 1
                    raise ValueError(f"{self.refused} batches were too large")
                return self.fc(x)
                """,
                init="self.fc = nn.Linear(8, 8)\nself.refused = 0",
            ),
        ),
        Example(
            name="scales-the-output",
            code=forward(
                """
                self.calls = self.calls + 1  # DYN501
                return self.fc(x) * self.calls
                """,
                init="self.fc = nn.Linear(8, 8)\nself.calls = 0",
            ),
            fixed=forward(
                """
                self.calls = self.calls + 1
                return self.fc(x) * self.calls
                """,
                init=('self.fc = nn.Linear(8, 8)\nself.register_buffer("calls", torch.tensor(0), persistent=False)'),
            ),
        ),
        Example(
            name="count-of-elements",
            code=forward(
                """
                y = self.fc(x)
                if self.training:
                    self.seen += x.shape[0] * x.shape[1]  # DYN501
                return y / (self.seen + 1)
                """,
                init="self.fc = nn.Linear(8, 8)\nself.seen = 0  # elements so far",
            ),
            fixed=forward(
                """
                y = self.fc(x)
                if self.training:
                    self.seen = self.seen + (x.shape[0] * x.shape[1])
                return y / (self.seen + 1)
                """,
                init=(
                    "self.fc = nn.Linear(8, 8)\n"
                    'self.register_buffer("seen", torch.tensor(0), persistent=False)  # elements so far'
                ),
            ),
        ),
        Example(
            name="counted-in-a-helper",
            code="""
                import torch.nn as nn


                class Model(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.fc = nn.Linear(8, 8)
                        self.count: int = 2

                    def reset(self):
                        self.count = 0

                    def tick(self):
                        self.count -= 1  # DYN501

                    def forward(self, x):
                        self.tick()
                        return self.fc(x) + self.count
            """,
            fixed="""
                import torch
                import torch.nn as nn


                class Model(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.fc = nn.Linear(8, 8)
                        self.register_buffer("count", torch.tensor(2), persistent=False)

                    def reset(self):
                        self.count = torch.zeros_like(self.count)

                    def tick(self):
                        self.count = self.count - 1

                    def forward(self, x):
                        self.tick()
                        return self.fc(x) + self.count
            """,
        ),
        Example(
            name="counted-by-the-base",
            code="""
                import torch
                from torch import nn


                class Base(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.steps = 0

                    def count(self):
                        self.steps += 1  # DYN501


                class Model(Base):
                    def __init__(self):
                        super().__init__()
                        self.fc = nn.Linear(8, 8)

                    def forward(self, x):
                        self.count()
                        return self.fc(x) * self.steps
            """,
            fixed="""
                import torch
                from torch import nn


                class Base(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.register_buffer("steps", torch.tensor(0), persistent=False)

                    def count(self):
                        self.steps = self.steps + 1


                class Model(Base):
                    def __init__(self):
                        super().__init__()
                        self.fc = nn.Linear(8, 8)

                    def forward(self, x):
                        self.count()
                        return self.fc(x) * self.steps
            """,
        ),
        Example(
            name="decides-in-python",
            code=forward(
                """
                self.steps += 1  # DYN501
                if self.steps % 3 == 0:
                    x = x * 2
                return self.fc(x)
                """,
                init="self.fc = nn.Linear(8, 8)\nself.steps = 0",
            ),
            inputs="[(torch.randn(4, 8),) for _ in range(12)]",
            fixed=forward(
                """
                self.steps = self.steps + 1
                x = torch.where(self.steps % 3 == 0, x * 2, x)
                return self.fc(x)
                """,
                init=('self.fc = nn.Linear(8, 8)\nself.register_buffer("steps", torch.tensor(0), persistent=False)'),
            ),
        ),
        Example(
            name="compared-with-a-float",
            code=forward(
                """
                self.steps += 1  # DYN501
                return self.fc(x * 2 if self.steps > 1.5 else x)
                """,
                init="self.fc = nn.Linear(8, 8)\nself.steps = 0",
            ),
            declined="compares `self.steps` in Python",
        ),
        Example(
            name="handed-to-the-caller",
            code=forward(
                """
                self.steps += 1  # DYN501
                return self.fc(x), self.steps
                """,
                init="self.fc = nn.Linear(8, 8)\nself.steps = 0",
            ),
            declined="to the caller, who would get a tensor",
        ),
        Example(
            name="read-from-outside",
            code="""
                import torch
                from torch import nn


                class Model(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.fc = nn.Linear(8, 8)
                        self.steps = 0

                    def forward(self, x):
                        self.steps += 1  # DYN501
                        return self.fc(x)


                def report(model):
                    return f"{model.steps} steps"
            """,
            declined="from outside the class",
        ),
        Example(
            name="float-precision",
            code=forward(
                """
                self.steps += 1  # DYN501
                return self.fc(x) * (1.0 - 0.5**self.steps)
                """,
                init="self.fc = nn.Linear(8, 8)\nself.steps = 0",
            ),
            declined="less precise",
        ),
        Example(
            name="long-cycle",
            code="""
                import torch
                from torch import nn


                class Model(nn.Module):
                    def __init__(self, size: int = 64):
                        super().__init__()
                        self.size = size
                        self.index = 0
                        self.register_buffer("memory", torch.randn(size, 8))

                    def forward(self, x: torch.Tensor):
                        self.index = (self.index + x.shape[0]) % self.size  # DYN501
                        return x @ self.memory.t()
            """,
            fixed="""
                import torch
                from torch import nn


                class Model(nn.Module):
                    def __init__(self, size: int = 64):
                        super().__init__()
                        self.size = size
                        self.register_buffer("index", torch.tensor(0), persistent=False)
                        self.register_buffer("memory", torch.randn(size, 8))

                    def forward(self, x: torch.Tensor):
                        self.index = (self.index + x.shape[0]) % self.size
                        return x @ self.memory.t()
            """,
        ),
        Example(
            name="given-to-the-constructor",
            code="""
                import torch
                from torch import nn


                class Model(nn.Module):
                    def __init__(self, start: int = 0):
                        super().__init__()
                        self.fc = nn.Linear(8, 8)
                        self.steps = start

                    def forward(self, x):
                        self.steps += 1  # DYN501
                        return self.fc(x)
            """,
            declined="is not set to one plain number in the constructor",
        ),
        Example(
            name="on-a-held-object",
            code="""
                import torch
                from torch import nn


                class Stats:
                    def __init__(self):
                        self.calls = 0


                class Model(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.fc = nn.Linear(8, 8)
                        self.stats = Stats()

                    def forward(self, x):
                        self.stats.calls += 1  # DYN501
                        return self.fc(x)
            """,
        ),
        Example(
            name="method-of-a-held-object",
            code="""
                import torch
                from torch import nn


                class Stats:
                    def __init__(self):
                        self.calls = 0

                    def note(self):
                        self.calls += 1  # DYN501


                class Model(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.fc = nn.Linear(8, 8)
                        self.stats = Stats()

                    def forward(self, x):
                        self.stats.note()
                        return self.fc(x)
            """,
        ),
        Example(
            name="in-a-dict",
            code=forward(
                """
                self.counts["steps"] += 1  # DYN501
                return self.fc(x)
                """,
                init='self.fc = nn.Linear(8, 8)\nself.counts = {"steps": 0}',
            ),
        ),
        Example(
            name="buffer",
            code=forward(
                """
                self.steps = self.steps + 1
                return self.fc(x) * self.steps
                """,
                init='self.fc = nn.Linear(8, 8)\nself.register_buffer("steps", torch.tensor(0))',
            ),
        ),
        Example(
            name="set-in-the-same-call",
            code=forward(
                """
                self.hops = 0
                for _ in range(3):
                    x = self.fc(x)
                    self.hops += 1
                return x * self.hops
                """,
                init="self.fc = nn.Linear(8, 8)\nself.hops = 0",
            ),
        ),
        Example(
            name="float-becomes-dynamic",
            code=forward(
                """
                self.time += 0.5  # DYN507
                return self.fc(x) * self.time
                """,
                init="self.fc = nn.Linear(8, 8)\nself.time = 0.0",
            ),
        ),
        Example(
            name="flag-settles",
            code=forward(
                """
                if not self.seen:
                    self.seen = True  # DYN508
                return self.fc(x)
                """,
                init="self.fc = nn.Linear(8, 8)\nself.seen = False",
            ),
        ),
        Example(
            name="short-cycle",
            code=forward(
                """
                self.phase = (self.phase + 1) % 3
                return self.fc(x) * self.phase
                """,
                init="self.fc = nn.Linear(8, 8)\nself.phase = 0",
            ),
        ),
        Example(
            name="bounded",
            code=forward(
                """
                if self.warmup < 3:
                    self.warmup += 1
                return self.fc(x) * self.warmup
                """,
                init="self.fc = nn.Linear(8, 8)\nself.warmup = 0",
            ),
        ),
        Example(
            name="object-of-the-caller",
            code="""
                import torch
                from torch import nn


                class Stats:
                    def __init__(self):
                        self.calls = 0

                    def note(self):
                        self.calls += 1


                class Model(nn.Module):
                    def forward(self, x: torch.Tensor, stats: Stats):
                        stats.note()
                        return x * stats.calls
            """,
            inputs="[(torch.ones(4, 8), Stats())]",
        ),
        Example(
            name="once-for-every-key",
            code=forward(
                """
                size = x.shape[0]
                if size not in self.sizes:
                    self.sizes[size] = True  # DYN508
                    self.distinct += 1
                return self.fc(x)
                """,
                init="self.fc = nn.Linear(8, 8)\nself.sizes = {}\nself.distinct = 0",
            ),
        ),
        Example(
            name="only-outside-the-compiler",
            code=forward(
                """
                if not torch.compiler.is_compiling():
                    self.steps += 1
                return self.fc(x)
                """,
                init="self.fc = nn.Linear(8, 8)\nself.steps = 0",
            ),
        ),
        Example(
            name="object-with-a-compiled-method",
            code="""
                import torch


                class Sampler:
                    def __init__(self):
                        self.draws = 0

                    @torch.compile
                    def draw(self, x):
                        self.draws += 1  # DYN507
                        return x * self.draws
            """,
            target="Sampler().draw",
        ),
    )
