"""DYN507: a number or flag that outlives the call, changes on every one, and costs one graph more."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Event, StateChange
from dynalint.analysis.kinds import Kind
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.buffers import number_to_buffer
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.growth import is_specialised, is_there_before, same, settles
from dynalint_rules._shared.scope import Refusal

_PLACES = {"attribute": "`self.{}`", "class": "the class attribute `{}`", "global": "the module global `{}`"}


class SettlingNumber(Rule):
    """Change a float or a flag that outlives the call, so that the second call compiles the code anew.

    ## What it flags

    A Python float that is computed from its own old value and kept on a module, a class, a module global or an object
    that one of these holds (`self.decay *= 0.99`), an int that is counted in a closure or on an object whose own
    method was compiled, and a flag that is turned over (`self.odd = not self.odd`), in code that Dynamo traces.

    Not flagged are tensors, what the same call has set before, what is set once and then left (DYN508), and ints on
    modules, classes and globals, which are worse (DYN501, DYN502).

    ## Why

    Dynamo takes the value for a constant first and guards on it. The next call brings another value, and the function
    is compiled again. From then on a float, or an int of a closure, is a variable of the graph, and a flag has a graph
    for each of its two values. The price is one more compilation of the whole function, minutes for a large model, at
    a time when everybody believes that it is warm; and with `torch._dynamo.config.specialize_float` on, one for each
    value.

    ## Example

    ```python
    def forward(self, x):
        self.decay *= 0.99
        return self.fc(x) * self.decay
    ```

    Use instead:

    ```python
    def __init__(self):
        super().__init__()
        self.register_buffer("decay", torch.tensor(1.0))

    def forward(self, x):
        self.decay = self.decay * 0.99
        return self.fc(x) * self.decay
    ```

    ## How it is rewritten

    With `--unsafe-fixes` a float that the constructor of a module sets becomes a buffer, which stays out of the state
    dict; a number read by `.item()` that goes into it stays a tensor; and a branch that it decides is chosen by
    `torch.where` (see DYN101). It is assigned, because an update in place gives wrong gradients (DYN505). All places in
    the project change together, under the conditions of DYN501. Flags, and what is shared or in a closure, are left.

    ## When the rewrite is not exact

    Python counts in 64 bits and a buffer of the usual dtype in 32, so each value is a little another one. Whoever reads
    the attribute gets a tensor.

    ## How Dynamo words it

    The recompile reason names the place and the first value, such as `self.decay == 1.0` or `not self.odd`; for an int
    of a closure it is the content of the cell.

    ## References

    - https://docs.pytorch.org/docs/stable/compile/programming_model.recompilation.html
    """

    code = "DYN507"
    name = "settling-number"
    summary = "A float or flag that outlives the call changes, and the second call compiles anew"
    category = "recompile"
    severity = "warning"
    events = (StateChange,)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag numbers that become variables after one more graph, and flags that are turned over."""
        assert isinstance(event, StateChange)
        if event.fresh or event.home.type in ("argument", "default") or not is_there_before(event, project):
            return
        what = _what(event, project)
        if what is not None and not settles(event, project):
            place = _PLACES.get(event.home.type, "`{}` of the enclosing function").format(event.home.name)
            yield Violation(
                event.statement,
                f"{place} is {what} on every call: Dynamo compiles a second time before it puts up with that",
                help="Keep it in a buffer that the constructor registers, or change it outside the compiled code.",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Keep a float of a module in a buffer."""
        assert isinstance(event, StateChange)
        if event.home.type != "attribute" or not _is_only(event.new, "float"):
            return Declined(
                f"a tensor would hold `{event.home.name}` less precisely, or cannot decide which code runs; "
                "keep it in a buffer where that does not matter, or change it around the compiled call"
            )
        try:
            return number_to_buffer(event, project, floating=True)
        except Refusal as refusal:
            return Declined(str(refusal))

    examples = (
        Example(
            name="decay",
            code=forward(
                """
                self.decay *= 0.99  # DYN507
                return self.fc(x) * self.decay
                """,
                init="self.fc = nn.Linear(8, 8)\nself.decay = 1.0",
            ),
            fixed=forward(
                """
                self.decay = self.decay * 0.99
                return self.fc(x) * self.decay
                """,
                init='self.fc = nn.Linear(8, 8)\nself.register_buffer("decay", torch.tensor(1.0), persistent=False)',
            ),
            shows="recompile-once",
            exact=False,
        ),
        Example(
            name="moving-average-of-a-size",
            code=forward(
                """
                self.mean = 0.9 * self.mean + 0.1 * x.shape[0]  # DYN507
                return self.fc(x) / self.mean
                """,
                init="self.fc = nn.Linear(8, 8)\nself.mean = 1",
            ),
            fixed=forward(
                """
                self.mean = 0.9 * self.mean + 0.1 * x.shape[0]
                return self.fc(x) / self.mean
                """,
                init='self.fc = nn.Linear(8, 8)\nself.register_buffer("mean", torch.tensor(1.0), persistent=False)',
            ),
            shows="recompile-once",
            exact=False,
        ),
        Example(
            name="moving-average-of-a-loss",
            code=forward(
                """
                loss = self.fc(x).pow(2).mean()
                self.mean = 0.9 * self.mean + 0.1 * loss.item()  # DYN507 DYN201
                return loss / (self.mean + 1)
                """,
                init="self.fc = nn.Linear(8, 8)\nself.mean = 0.0",
            ),
            fixed=forward(
                """
                loss = self.fc(x).pow(2).mean()
                self.mean = 0.9 * self.mean + 0.1 * loss.detach()
                return loss / (self.mean + 1)
                """,
                init='self.fc = nn.Linear(8, 8)\nself.register_buffer("mean", torch.tensor(0.0), persistent=False)',
            ),
            shows="graph-break",
            gb=("GB0124",),
            exact=False,
        ),
        Example(
            name="total-of-losses",
            code=forward(
                """
                loss = self.fc(x).pow(2).mean()
                self.total += loss.item()  # DYN507 DYN201
                if self.total > 2:
                    loss = loss / self.total
                return loss
                """,
                init="self.fc = nn.Linear(8, 8)\nself.total = 0.0",
            ),
            fixed=forward(
                """
                loss = self.fc(x).pow(2).mean()
                self.total = self.total + loss.detach()
                condition = self.total > 2
                loss = torch.where(condition, loss / torch.where(condition, self.total, 1.0), loss)
                return loss
                """,
                init='self.fc = nn.Linear(8, 8)\nself.register_buffer("total", torch.tensor(0.0), persistent=False)',
            ),
            shows="graph-break",
            gb=("GB0124",),
            exact=False,
        ),
        Example(
            name="every-other-call",
            code=forward(
                """
                self.odd = not self.odd  # DYN507
                return self.fc(x) * 2 if self.odd else self.fc(x)
                """,
                init="self.fc = nn.Linear(8, 8)\nself.odd = False",
            ),
            declined="which code runs",
            shows="recompile-once",
        ),
        Example(
            name="closure",
            code="""
                import torch


                def counted():
                    calls = 0

                    @torch.compile
                    def scale(x):
                        nonlocal calls
                        calls += 1  # DYN507
                        return x * 2

                    return scale
            """,
            target="counted()",
            declined="less precisely",
            shows="recompile-once",
        ),
        Example(
            name="cell-of-a-closure",
            code="""
                import torch


                def counted():
                    calls = [0]

                    @torch.compile
                    def scale(x):
                        calls[0] += 1  # DYN507
                        return x * calls[0]

                    return scale
            """,
            target="counted()",
            declined="less precisely",
            shows="recompile-once",
        ),
        Example(
            name="global-float",
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
            declined="less precisely",
            shows="recompile-once",
        ),
        Example(
            name="set-anew-in-each-call",
            code=forward(
                """
                self.gain = 1.0
                for _ in range(3):
                    self.gain *= 0.5
                return self.fc(x) * self.gain
                """,
            ),
        ),
        Example(
            name="buffer",
            code=forward(
                """
                self.decay = self.decay * 0.99
                return self.fc(x) * self.decay
                """,
                init='self.fc = nn.Linear(8, 8)\nself.register_buffer("decay", torch.tensor(1.0))',
            ),
        ),
        Example(
            name="local-numbers",
            code=forward(
                """
                gain, odd = 1.0, False
                for _ in range(3):
                    gain *= 0.5
                    odd = not odd
                return self.fc(x) * gain if odd else self.fc(x)
                """,
            ),
        ),
        Example(
            name="closure-of-the-same-call",
            code="""
                import torch


                @torch.compile
                def scale(x):
                    calls = 0

                    def step(y):
                        nonlocal calls
                        calls += 1
                        return y * calls

                    return step(step(x))
            """,
            target="scale",
        ),
        Example(
            name="closure-that-is-only-read",
            code="""
                import torch


                def scaled(gain=0.5):
                    @torch.compile
                    def scale(x):
                        return x * gain

                    return scale
            """,
            target="scaled()",
        ),
    )


def _what(event: StateChange, project: Project) -> str | None:
    """What the value is that differs on every call, None where it does not or is no such value."""
    if _is_turned_over(event):
        return "turned over"
    if not event.reads_old or not _is_changed(event):
        return None
    if _is_only(event.old, "float", "int") and _is_only(event.new, "float"):
        return "another float"
    if _is_only(event.old, "int") and _is_only(event.new, "int") and not is_specialised(event, project):
        return "another int"
    return None


def _is_turned_over(event: StateChange) -> bool:
    """Whether the statement is `flag = not flag`."""
    statement = event.statement
    return (
        isinstance(statement, ast.Assign)
        and len(statement.targets) == 1
        and isinstance(statement.value, ast.UnaryOp)
        and isinstance(statement.value.op, ast.Not)
        and same(statement.value.operand, statement.targets[0])
        and _is_only(event.old, "bool")
    )


def _is_changed(event: StateChange) -> bool:
    """Whether the new value is computed by arithmetic; `min`, `max` and the like come to rest by themselves."""
    statement = event.statement
    if isinstance(statement, ast.AugAssign):
        neutral = 0 if isinstance(statement.op, ast.Add | ast.Sub) else 1
        return not (isinstance(statement.value, ast.Constant) and statement.value.value == neutral)
    return isinstance(statement, ast.Assign) and isinstance(statement.value, ast.BinOp)


def _is_only(kind: Kind, *types: str) -> bool:
    return all(isinstance(one, k.Value) and one.type in types for one in kind.members)
