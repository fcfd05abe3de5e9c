"""DYN101: an `if`, `elif` or conditional expression on the data of a tensor."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.analysis.events import Branch, Event
from dynalint.analysis.given_up import ends_function
from dynalint.analysis.project import Project
from dynalint.analysis.source import quote
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.decide import rewrite_decision
from dynalint_rules._shared.decision import asks_tensor, decision_of, is_guard, operand_of, tested_value, thing
from dynalint_rules._shared.examples import forward

_WHAT = {
    "if": "which side of this `if` to trace",
    "ifexp": "which side of this conditional expression to trace",
    "comprehension": "which elements this comprehension keeps",
    "match": "which `case` of this `match` to trace",
}
_HELP = {
    "if": "Compute both sides and choose with `torch.where`.",
    "ifexp": "Compute both sides and choose with `torch.where`.",
    "comprehension": "Keep all elements and give those that do not count a weight of zero.",
    "match": "Compute every case and choose with `torch.where`.",
}
_SKIPPED = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.rate, self.always = nn.Linear(8, 8), 0.5, False

    def forward(self, x: torch.Tensor):
        h = self.fc(x)
        for _ in range(3):
            skip = False
            if self.training and self.rate > 0.0:
                draw = torch.rand([])
                skip = draw < self.rate
{step}
        return h
"""


class BranchOnTensor(Rule):
    """Dynamo traces one way through the code. Where a tensor's data decides the way, it has to stop.

    ## What it flags

    An `if`, `elif`, conditional expression, comprehension condition or `match` whose test is a tensor, alone or as an
    operand of `and`, `or` and `not`: a comparison of tensors, a reduction such as `mask.any()`, a buffer, a parameter,
    a tensor that came from a helper. Each operand that is a tensor is flagged by itself.

    Not flagged is what Dynamo knows while tracing: shapes, `len(x)`, `x.dim()`, dtypes, devices, `x is None`,
    `isinstance`, `self.training`, flags and configuration. A test of `t.item()` breaks at `.item()` and belongs to
    DYN201, a guard that only raises to DYN105, `in` to DYN106.

    ## Why

    Tracing runs the code without its data, so nobody can say which side comes next. Dynamo ends the graph there, runs
    the test in Python and goes on with a new graph for each side: kernels cannot be fused across the branch, and on a
    GPU the processor waits for the result of the test. In a `for` or `while` loop (unless a `return` follows there), in
    a `try` or in many `with` blocks it gives up the whole function, which then runs uncompiled.

    ## Example

    ```python
    def forward(self, x):
        if x.sum() > 0:
            y = x * 2
        else:
            y = x - 1
        return y
    ```

    Use instead:

    ```python
    def forward(self, x):
        y = torch.where(x.sum() > 0, x * 2, x - 1)
        return y
    ```

    ## How it is rewritten

    `if`/`elif`/`else` that assign the same names, `if` without `else` that assigns names which exist already, `if`
    that returns on every way, and conditional expressions become `torch.where(test, one, other)`. Names that only one
    side uses are assigned before it, on every call. `and`, `or` and `not` become `&`, `|` and `~` of bool tensors, a
    test that is not bool is compared with zero, and a test that may have dimensions of size 1 is reshaped to none,
    because `where` would give its result those dimensions. The operand of a square root, a logarithm or a division
    is replaced by a harmless number where its side is not taken, so that its gradient does not become NaN there.
    What a side stores in a tensor of the function's own (`x[mask] = y`) is stored in a copy, and `where` takes that or
    the tensor. A test both sides of which are the same code is dropped. A test of a conditional expression that is too
    long to come twice, that would come more than twice, or that draws random numbers, gets a name.

    After an early `return` the rest of the function always runs, and each later `return` chooses between its own value
    and the early one. Where it stands in a loop, all rounds run: the early value is None at first, its mask false, and
    each later `return` asks whether it is there. `continue` makes the rest of the round the other side. A loop that a
    `break` ends runs all its rounds, with a `done` mask that keeps every tensor as it was when the loop would have
    ended; that is declined where the number of rounds is not known, or where the code after the loop asks for it.

    `if mask.any():` around statements that only write where the mask selects (`x[mask] = 0`, `masked_fill`) loses its
    test: it only spares work. So does `if not mask.any(): return x` before such statements and `return x`.

    Where a flag or another Python value decides together with a tensor, as in `if self.calm and x.sum() > 0:`, it keeps
    an `if` of its own around the rewritten one. What is there for the `else` comes twice then, which is declined where
    that is more than ten lines.

    A step of a loop that is skipped at random, as LayerDrop does, is taken always, and what there was before is chosen
    where a number was drawn that skips it.

    ## When the rewrite is not exact

    Taking a step that is skipped is `unsafe`: it draws its random numbers, and its parameters get gradients of zero.

    Numbers that the sides return become 0-dim tensors, which is `unsafe`. So is a function that ends in `if`s for less,
    equal and greater: it returns None for NaN, and a tensor then. A number on one side and a tensor on the
    other may only meet tensors in arithmetic, which is `conditional`.

    `torch.where` computes both sides. The rewrite is declined where that can be told to matter: a side that raises,
    prints while it is compiled, draws random numbers, stores state, changes somebody else's tensor in place, updates
    running statistics or calls code that dynalint cannot see. It is offered under conditions where only running it can
    tell, and applied after a run of both sides has shown them: the sides have the same dtype, shape and device; neither
    raises on the other's inputs; gradients are finite; a tensor that one side alone uses gets a gradient of zeros where
    it had None, which an optimizer with weight decay or momentum takes for a step; nobody needs the very tensor that a
    side passes on, rather than an equal copy; what stands behind `and`, `or` or `elif` does not raise where Python
    would not come to it (`m.any() and x[m].max() > 1`). Both sides cost time on every call.

    ## How Dynamo words it

    GB0170, "Data-dependent branching": "Detected data-dependent branching (e.g. `if my_tensor.sum() > 0:`). Dynamo does
    not support tracing dynamic control flow." In a loop it is followed by GB7000, "graph break in loop"; in a generator
    expression by GB8335. `torch._dynamo.explain` gives it no id and says `generic_jump TensorVariable()`.

    ## References

    - https://docs.pytorch.org/docs/stable/generated/torch.where.html
    - https://docs.pytorch.org/docs/stable/generated/torch.cond.html
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0170.html
    """

    code = "DYN101"
    name = "branch-on-tensor"
    summary = "Branch on the data of a tensor"
    gb = ("GB0170",)
    events = (Branch,)

    examples = (
        Example(
            name="skipped-at-random",
            code=_SKIPPED.format(
                step="""            if not skip or self.always:  # DYN101
                # All of them, if they must keep in step.
                outputs = (
                    torch.dropout(h, 0.0, self.training),
                    None,
                )
                h = outputs[0] + 1"""
            ),
            fixed=_SKIPPED.format(
                step="""            before = h
            # All of them, if they must keep in step.
            outputs = (
                torch.dropout(h, 0.0, self.training),
                None,
            )
            h = outputs[0] + 1
            if isinstance(skip, torch.Tensor) and not self.always:
                h = torch.where(skip, before, h)"""
            ),
        ),
        Example(
            name="skipped-at-random-and-told",
            code=_SKIPPED.format(
                step="""            if not skip:  # DYN101
                h = torch.dropout(h, 0.0, self.training)
                self.steps = h"""
            ),
            declined="stores state",
        ),
        Example(
            name="all-three-cases",
            code=forward("""
                low = x.min()
                if low < 0.0:  # DYN101
                    return x * 2
                if low == 0.0:  # DYN101
                    return x + 1
                if low > 0.0:  # DYN101
                    return -x
            """),
            inputs="[(torch.randn(4, 8),), (torch.rand(4, 8) + 1,), (torch.zeros(4, 8),)]",
            fixed=forward("""
                low = x.min()
                return torch.where(low < 0.0, x * 2, torch.where(low == 0.0, x + 1, -x))
            """),
        ),
        Example(
            name="two-of-three-cases",
            code=forward("""
                if x.min() < 0.0:  # DYN101
                    return self.fc(x) * 2
                if x.min() > 0.0:  # DYN101
                    return self.fc(x) * 3
            """),
            declined="returns",
        ),
        Example(
            name="flag-and-tensor",
            code=forward(
                """
                h = self.fc(x)
                if self.calm and h.mean() > 0:  # DYN101
                    h = h * 0.5
                else:
                    h = torch.tanh(h)
                return h
                """,
                init="self.fc, self.calm = nn.Linear(8, 8), True",
            ),
            fixed=forward(
                """
                h = self.fc(x)
                if self.calm:
                    h = torch.where(h.mean() > 0, h * 0.5, torch.tanh(h))
                else:
                    h = torch.tanh(h)
                return h
                """,
                init="self.fc, self.calm = nn.Linear(8, 8), True",
            ),
        ),
        Example(
            name="one-of-two-results",
            code=forward(
                """
                y, _ = split(self.fc(x))
                if x.sum() > 0:  # DYN101
                    z = x * 2
                    y, _ = split(self.fc(z))
                return y
                """,
                head="""
                def split(x: torch.Tensor):
                    return x.relu(), x.sum()
                """,
            ),
            fixed=forward(
                """
                y, _ = split(self.fc(x))
                condition = x.sum() > 0
                z = x * 2
                y = torch.where(condition, split(self.fc(z))[0], y)
                return y
                """,
                head="""
                def split(x: torch.Tensor):
                    return x.relu(), x.sum()
                """,
            ),
        ),
        Example(
            name="both-of-two-results",
            code=forward(
                """
                y, total = split(self.fc(x))
                if x.sum() > 0:  # DYN101
                    y, total = split(self.fc(x * 2))
                return y + total
                """,
                head="""
                def split(x: torch.Tensor):
                    return x.relu(), x.sum()
                """,
            ),
            declined="assigns to several targets at once",
        ),
        Example(
            name="same-on-both-sides",
            code=forward("""
                if x.sum() == 0:  # DYN101
                    return self.fc(x).relu_()
                return self.fc(x).relu_()
            """),
            fixed=forward("return self.fc(x).relu_()"),
        ),
        Example(
            name="same-with-else",
            code=forward("""
                outputs = []
                if x.sum() == 0:  # DYN101
                    outputs.append(self.fc(x))
                else:
                    outputs.append(self.fc(x))
                return outputs[0]
            """),
            fixed=forward("""
                outputs = []
                outputs.append(self.fc(x))
                return outputs[0]
            """),
        ),
        Example(
            name="same-but-drawn",
            code=forward("""
                if torch.rand(()) > 0.5:  # DYN101
                    return torch.rand(4)
                return torch.rand(4)
            """),
            declined="draw",
        ),
        Example(
            "if and else assign",
            forward("""
                if x.sum() > 0:  # DYN101
                    y = x * 2
                else:
                    y = x - 1
                return self.fc(y)
            """),
            fixed=forward("""
                y = torch.where(x.sum() > 0, x * 2, x - 1)
                return self.fc(y)
            """),
        ),
        Example(
            "if without else",
            forward("""
                h = self.fc(x)
                if h.mean() > 0:  # DYN101
                    h = h * 3
                return h
            """),
            fixed=forward("""
                h = self.fc(x)
                h = torch.where(h.mean() > 0, h * 3, h)
                return h
            """),
        ),
        Example(
            "return on both sides",
            forward("""
                if x.sum() > 0 and x.max() < 2:  # DYN101
                    return x * 2
                return x - 1
            """),
            fixed=forward("""
                return torch.where((x.sum() > 0) & (x.max() < 2), x * 2, x - 1)
            """),
        ),
        Example(
            "elif",
            forward("""
                s = x.mean()
                if s > 0.2:  # DYN101
                    y = x * 2
                elif s < -0.2:  # DYN101
                    y = x * 3
                else:
                    y = x + 1
                return y
            """),
            fixed=forward("""
                s = x.mean()
                y = torch.where(s > 0.2, x * 2, torch.where(s < -0.2, x * 3, x + 1))
                return y
            """),
        ),
        Example(
            "elif after a test of a shape",
            forward("""
                if x.dim() == 3:
                    y = x.flatten(1)
                elif not x.sum() > 0:  # DYN101
                    y = x * 2
                else:
                    y = x - 1
                return y
            """),
            fixed=forward("""
                if x.dim() == 3:
                    y = x.flatten(1)
                else:
                    y = torch.where(~(x.sum() > 0), x * 2, x - 1)
                return y
            """),
        ),
        Example(
            "conditional expression",
            forward("return self.fc(x * 2 if x.sum() > 0 else -x)  # DYN101"),
            fixed=forward("return self.fc(torch.where(x.sum() > 0, x * 2, -x))"),
        ),
        Example(
            "numbers that scale a tensor",
            forward("return self.fc(x) * (2.0 if x.sum() else 0.5)  # DYN101"),
            fixed=forward("return self.fc(x) * torch.where(x.sum() != 0, 2.0, 0.5)"),
        ),
        Example(
            "chained comparison",
            forward("""
                if 0 < x.mean() < 2:  # DYN101
                    x = x.clamp(min=-1.0)
                return x * 2
            """),
            fixed=forward("""
                x = torch.where((0 < x.mean()) & (x.mean() < 2), x.clamp(min=-1.0), x)
                return x * 2
            """),
        ),
        Example(
            "clamp where there are infinities",
            forward("""
                h = self.fc(x)
                if torch.isinf(h).any() or torch.isnan(h).any():  # DYN101
                    limit = torch.finfo(h.dtype).max - 1000
                    h = torch.clamp(h, min=-limit, max=limit)
                return h
            """),
            inputs='[(torch.randn(4, 8),), (torch.full((4, 8), float("inf")),)]',
            fixed=forward("""
                h = self.fc(x)
                condition = torch.isinf(h).any() | torch.isnan(h).any()
                limit = torch.finfo(h.dtype).max - 1000
                h = torch.where(condition, torch.clamp(h, min=-limit, max=limit), h)
                return h
            """),
        ),
        Example(
            "square root of what may be negative",
            forward("""
                if x.min() > 0:  # DYN101
                    return torch.sqrt(x)
                return x * 2
            """),
            fixed=forward("""
                condition = x.min() > 0
                return torch.where(condition, torch.sqrt(torch.where(condition, x, 1.0)), x * 2)
            """),
        ),
        Example(
            "division by what may be zero",
            forward("""
                h = x * 2
                total = h.sum()
                return h if total == 0 else h / total  # DYN101
            """),
            inputs="[(torch.randn(4, 8),), (torch.zeros(4, 8),)]",
            fixed=forward("""
                h = x * 2
                total = h.sum()
                return torch.where(total == 0, h, h / torch.where(total == 0, 1.0, total))
            """),
        ),
        Example(
            "mask that may be None",
            forward(
                """
                h = self.fc(x)
                if mask is not None and mask.any():  # DYN101
                    h = h.masked_fill(mask, 0.0)
                return h
                """,
                arguments="x: torch.Tensor, mask: torch.Tensor | None = None",
            ),
            inputs="[(torch.randn(4, 8), torch.eye(4, 8) > 0), (torch.randn(4, 8), torch.zeros(4, 8) > 0)]",
            fixed=forward(
                """
                h = self.fc(x)
                if mask is not None:
                    h = h.masked_fill(mask, 0.0)
                return h
                """,
                arguments="x: torch.Tensor, mask: torch.Tensor | None = None",
            ),
        ),
        Example(
            "test that only spares work",
            forward("""
                y = self.fc(x)
                padding = x < 0
                if padding.any():  # DYN101
                    y[padding] = 0.0
                return y
            """),
            fixed=forward("""
                y = self.fc(x)
                padding = x < 0
                y[padding] = 0.0
                return y
            """),
        ),
        Example(
            name="elements stored on both sides",
            code=forward("""
                y = self.fc(x)
                if x.sum() > 0:  # DYN101
                    row = x[1]
                    y[0] = row * 2
                else:
                    y[1:, x[0] > 0] = 0.5
                return y
            """),
            fixed=forward("""
                y = self.fc(x)
                condition = x.sum() > 0
                row = x[1]
                changed = y.clone()
                changed[0] = row * 2
                changed_2 = y.clone()
                changed_2[1:, x[0] > 0] = 0.5
                y = torch.where(condition, changed, changed_2)
                return y
            """),
        ),
        Example(
            name="an element stored in the caller's tensor",
            code=forward("""
                if x.sum() > 0:  # DYN101
                    x[0] = 1.0
                return self.fc(x)
            """),
            declined="changes something in place",
        ),
        Example(
            "mask that the caller makes",
            forward(
                """
                y = self.fc(x)
                ignored = given["mask"] == -1
                if ignored.any():  # DYN101
                    y.masked_fill_(ignored, 0.0)
                return y
                """,
                arguments="x: torch.Tensor, given: dict",
            ),
            inputs='[(torch.randn(4, 8), {"mask": torch.zeros(4, 8)})]',
            fixed=forward(
                """
                y = self.fc(x)
                ignored = given["mask"] == -1
                y.masked_fill_(ignored, 0.0)
                return y
                """,
                arguments="x: torch.Tensor, given: dict",
            ),
        ),
        Example(
            "early return that only spares work",
            forward("""
                y = self.fc(x)
                padding = y < 0
                if not padding.any():  # DYN101
                    return y
                y[padding] = 0.0
                return y
            """),
            fixed=forward("""
                y = self.fc(x)
                padding = y < 0
                y[padding] = 0.0
                return y
            """),
        ),
        Example(
            "early return of something else",
            forward("""
                y = self.fc(x)
                padding = y < 0
                if padding.sum() == 0:  # DYN101
                    return x
                y[padding] = 0.0
                return y
            """),
            declined="would happen on every call",
        ),
        Example(
            "sides of different sizes",
            forward("""
                if x.sum() > 0:  # DYN101
                    x = x[1:]
                return x * 2
            """),
            declined="is smaller than",
        ),
        Example(
            "size that depends on data",
            forward("return (x[x > 0] if x.sum() > 0 else x[0]) * 2  # DYN101 DYN301"),
            declined="has a size that depends on data",
        ),
        Example(
            "several names, and comments",
            forward("""
                if x.sum() > 0:  # DYN101
                    # grow
                    low = x * 2
                    high = low + 1
                else:
                    low = x * 3  # keep
                    high = low - 1
                return low * high
            """),
            fixed=forward("""
                # grow
                # keep
                condition = x.sum() > 0
                low = torch.where(condition, x * 2, x * 3)
                high = torch.where(condition, low + 1, low - 1)
                return low * high
            """),
        ),
        Example(
            "branch in a branch",
            forward("""
                y = x * 1.5
                if x.sum() > 0:  # DYN101
                    y = x * 2
                    if self.training:
                        y = x * 3
                return y
            """),
            fixed=forward("""
                y = x * 1.5
                condition = x.sum() > 0
                y_2 = x * 2
                y = torch.where(condition, x * 3 if self.training else y_2, y)
                return y
            """),
        ),
        Example(
            "tuples returned by a helper",
            forward(
                """
                a, b = split(x)
                return a + b
                """,
                head="""
                def split(y):
                    if y.sum() > 0:  # DYN101
                        return y, y * 2
                    return y, y - 1
                """,
            ),
            fixed=forward(
                """
                a, b = split(x)
                return a + b
                """,
                head="""
                def split(y):
                    return y, torch.where(y.sum() > 0, y * 2, y - 1)
                """,
            ),
        ),
        Example(
            "buffer",
            forward(
                """
                if self.level.sum() > 0:  # DYN101
                    x = x * self.level
                return x + 1
                """,
                init='self.register_buffer("level", torch.ones(8))',
            ),
            fixed=forward(
                """
                x = torch.where(self.level.sum() > 0, x * self.level, x)
                return x + 1
                """,
                init='self.register_buffer("level", torch.ones(8))',
            ),
        ),
        Example(
            "random test in a loop",
            forward("""
                for _ in range(3):
                    if torch.rand(1) < 0.5:  # DYN101
                        x = x * 2
                return x + 1
            """),
            fixed=forward("""
                for _ in range(3):
                    x = torch.where((torch.rand(1) < 0.5).reshape(()), x * 2, x)
                return x + 1
            """),
        ),
        Example(
            "torch under another name",
            """
            import torch as th

            @th.compile
            def scale(x: th.Tensor):
                return x * 2 if th.sum(x) > 0 else x - 1  # DYN101
            """,
            target="scale",
            fixed="""
            import torch as th

            @th.compile
            def scale(x: th.Tensor):
                return th.where(th.sum(x) > 0, x * 2, x - 1)
            """,
        ),
        Example(
            "side that prints",
            forward("""
                if x.sum() > 0:  # DYN101
                    print("positive")  # DYN401
                return x * 2
            """),
            declined="for its effect",
        ),
        Example(
            "side that draws random numbers",
            forward("""
                if x.sum() > 0:  # DYN101
                    x = torch.dropout(x, 0.5, True)
                return x * 2
            """),
            declined="draws random numbers",
        ),
        Example(
            "side that updates statistics",
            forward(
                """
                if x.sum() > 0:  # DYN101
                    x = self.norm(x)
                return x * 2
                """,
                init="self.norm = nn.BatchNorm1d(8)",
            ),
            declined="updates running statistics",
        ),
        Example(
            "side that changes a tensor in place",
            forward("""
                if x.sum() > 0:  # DYN101
                    x[0] = 0
                return x * 2
            """),
            declined="in place",
        ),
        Example(
            "copy that a later change would not reach",
            forward("""
                y = x
                if x.sum() > 0:  # DYN101
                    y = x * 2
                y.add_(1)
                return y
            """),
            inputs="[(torch.randn(4, 8),), (-torch.ones(4, 8),)]",
            declined="would put a copy in its place",
        ),
        Example(
            "side that stores state",
            forward("""
                if x.sum() > 0:  # DYN101
                    self.last = x
                return x * 2
            """),
            declined="stores state",
        ),
        Example(
            "side that gives a number",
            forward("""
                h = self.fc(x)
                scale = 1.0
                if h.abs().max() > 1:  # DYN101
                    scale = h.detach().abs().max()
                return h * scale
            """),
            fixed=forward("""
                h = self.fc(x)
                scale = 1.0
                scale = torch.where(h.abs().max() > 1, h.detach().abs().max(), scale)
                return h * scale
            """),
        ),
        Example(
            "number that the caller receives",
            forward("""
                if x.sum() > 0:  # DYN101
                    return x * 2, 1
                return x - 1, 2
            """),
            fixed=forward("""
                condition = x.sum() > 0
                return torch.where(condition, x * 2, x - 1), torch.where(condition, 1, 2)
            """),
        ),
        Example(
            "side that gives a number where one may be needed",
            forward("""
                scale = x.abs().max() if x.sum() > 0 else 1.0  # DYN101
                return x * scale, scale
            """),
            declined="may need the one or the other",
        ),
        Example(
            "side that gives None to whoever calls",
            forward("""
                y = None if x.sum() > 0 else x * 2  # DYN101
                return x, y
            """),
            declined="gives None",
        ),
        Example(
            "break out of a loop",
            forward(
                """
                y = x * 1.5
                for layer in self.layers:
                    x = layer(x).tanh()
                    if x.abs().max() > 0.8:  # DYN101
                        break
                    y = y + x
                return y
            """,
                init="self.layers = nn.ModuleList([nn.Softmax(-1), nn.Softmax(0)])",
            ),
            fixed=forward(
                """
                y = x * 1.5
                done = torch.zeros((), dtype=torch.bool, device=x.device)
                for layer in self.layers:
                    x = torch.where(done, x, layer(x).tanh())
                    done = done | (x.abs().max() > 0.8)
                    y = torch.where(done, y, y + x)
                return y
            """,
                init="self.layers = nn.ModuleList([nn.Softmax(-1), nn.Softmax(0)])",
            ),
            inputs="[(torch.randn(4, 8),), (torch.eye(4, 8) * 40,)]",
        ),
        Example(
            "break out of a loop that tells its round",
            forward("""
                for step in range(3):
                    x = x * 2
                    if x.abs().max() > 4:  # DYN101
                        break
                return x * step
            """),
            declined="in which round it ended",
        ),
        Example(
            "break before a side effect",
            forward("""
                for _ in range(3):
                    if x.abs().max() > 4:  # DYN101
                        break
                    self.last = x
                return x
            """),
            declined="stores state",
        ),
        Example(
            "on with the next round",
            forward("""
                y = x * 0.5
                for scale in (1.0, -2.0, 3.0):
                    if (x * scale).sum() > 0:  # DYN101
                        continue
                    y = y * scale
                return y
            """),
            fixed=forward("""
                y = x * 0.5
                for scale in (1.0, -2.0, 3.0):
                    y = torch.where((x * scale).sum() > 0, y, y * scale)
                return y
            """),
        ),
        Example(
            "early return",
            forward(
                """
                if x.abs().max() < 0.5:  # DYN101
                    return x * 2
                # the long way
                h = self.fc(x)
                if self.training:
                    h = h * 0.5
                return h / x.norm()
            """,
                init="self.fc = nn.Softmax(-1)",
            ),
            fixed=forward(
                """
                condition = x.abs().max() < 0.5
                early = x * 2
                # the long way
                h = self.fc(x)
                if self.training:
                    h = h * 0.5
                return torch.where(condition, early, h / torch.where(condition, 1.0, x.norm()))
            """,
                init="self.fc = nn.Softmax(-1)",
            ),
            inputs="[(torch.randn(4, 8),), (torch.rand(4, 8) * 0.4 + 0.05,)]",
        ),
        Example(
            "return out of a loop",
            forward(
                """
                h = x * 0.5
                for layer in self.layers:
                    h = layer(h).tanh()
                    if h.abs().max() > 0.8:  # DYN101
                        return h * 2
                return h
                """,
                init="self.layers = nn.ModuleList([nn.Softmax(-1), nn.Softmax(0)])",
            ),
            fixed=forward(
                """
                h = x * 0.5
                returned = torch.zeros((), dtype=torch.bool, device=h.device)
                early = None
                for layer in self.layers:
                    h = layer(h).tanh()
                    condition = ~returned & (h.abs().max() > 0.8)
                    result = h * 2
                    early = result if early is None else torch.where(returned, early, result)
                    returned = returned | condition
                if early is None:
                    return h
                return torch.where(returned, early, h)
                """,
                init="self.layers = nn.ModuleList([nn.Softmax(-1), nn.Softmax(0)])",
            ),
            inputs="[(torch.randn(4, 8),), (torch.eye(4, 8) * 40,)]",
        ),
        Example(
            "early return before a side effect",
            forward("""
                if x.abs().max() < 0.5:  # DYN101
                    return x * 2
                self.last = x
                return x * 3
            """),
            declined="stores to",
        ),
        Example(
            "comprehension",
            forward("return torch.stack([row for row in x if row.sum() > 0] or [x[0]])  # DYN101 DYN803"),
            declined="how many elements there are",
        ),
        Example(
            "match",
            forward("""
                match x.sum():
                    case 0:  # DYN101
                        return x * 2
                    case _:
                        return x * 3
            """),
            declined="`match` on a tensor",
        ),
        Example(
            "shapes, types and flags",
            forward(
                """
                if x.shape[0] > 2 and len(x) > 1 and x.dim() == 2 and x.numel():
                    x = x * 2
                if self.training or not self.scale or x.dtype == torch.float64 or x.is_cuda:
                    x = x + self.scale
                if mask is not None and isinstance(mask, torch.Tensor):
                    x = x * mask
                return x if x.requires_grad or x.is_contiguous() else -x
                """,
                init="self.scale = 0.5",
                arguments="x, mask=None",
            ),
        ),
        Example(
            "configuration and containers",
            forward(
                """
                outputs = [x, x * 2]
                if self.config["double"] and outputs and "a" in {"a": x}:
                    x = torch.stack([part for part in outputs if part is not None]).sum(0)
                return self.norm(x) if self.norm else x
                """,
                init="self.config = {'double': True}\nself.norm = nn.LayerNorm(8)",
            ),
        ),
        Example(
            "code that is not compiled",
            forward(
                """
                if not torch.compiler.is_compiling():
                    if x.sum() > 0:
                        print("positive")
                return x * 2
                """,
                init="self.big = bool(torch.ones(3).sum() > 2)",
            ),
        ),
        Example(
            "choice with tensor operations",
            forward("""
                big = x.sum() > 0
                return torch.where(big, x * 2, x) + (x * big) + x.clamp(min=0) + (x > 0) * (x < 1)
            """),
        ),
    )

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the operands of tests that are no loops, assertions or guards."""
        operand, parents = operand_of(event), project.parents(event.function)
        if operand is None or not isinstance(event, Branch) or event.form in ("in", "chained-comparison"):
            return
        decision = decision_of(parents, operand)
        if decision.form not in _WHAT or is_guard(decision.node) or not asks_tensor(event, project):
            return
        shown = quote(event.function.file, operand)
        lost = ", and gives up the whole function for the loop around it" if ends_function(event, parents) else ""
        message = f"{shown} is {thing(event.kind)}: Dynamo cannot know {_WHAT[decision.form]}{lost}"
        yield Violation(tested_value(operand, decision), message, help=_HELP[decision.form])

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Choose with `torch.where`."""
        operand = operand_of(event)
        if operand is None:
            return None
        return rewrite_decision(event, operand, project, value="it decides nothing here")
