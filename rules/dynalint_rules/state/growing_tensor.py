"""DYN511: a tensor that outlives the call and gets longer with every one."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Event, StateChange
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.growth import is_there_before, same, settles

_JOINING = frozenset({"cat", "concat", "concatenate", "hstack", "vstack", "dstack"})


class GrowingTensor(Rule):
    """Join to a tensor that outlives the call, so that later calls compile the code anew.

    ## What it flags

    An attribute or global that is replaced by itself joined with something: `self.keys = torch.cat([self.keys, k])`,
    the usual cache of keys and values. Also where the first call starts it, as in
    `self.keys = k if self.keys is None else torch.cat([self.keys, k])`.

    Not flagged is what is cut to a length in the same statement (`torch.cat([self.queue, x])[-100:]`), what the code
    sets to something else elsewhere, local tensors, and tensors that the caller passes in.

    ## Why

    Dynamo takes the sizes of buffers and parameters for constants: each call is compiled anew, until Dynamo gives the
    function up after eight graphs and runs it uncompiled. For a plain tensor it takes the size for a variable from the
    third one on; a cache that starts as `None` costs one graph more. Since the tensor moves to a new place in memory
    with every call, CUDA graphs cannot replay, and each call copies all that is there.

    ## Example

    ```python
    def forward(self, x):
        k = self.key(x)
        self.keys = k if self.keys is None else torch.cat([self.keys, k], dim=1)
        return attention(x, self.keys)
    ```

    Use instead:

    ```python
    def forward(self, x, position):
        self.keys.index_copy_(1, position, self.key(x))
        return attention(x, self.keys, mask=self.mask[position])
    ```

    ## How it is rewritten

    It is not. A cache of fixed size needs to know how long it may get, where the next item belongs and which part is
    not filled yet, and the attention must mask that part.

    ## When the rewrite is not exact

    There is no rewrite.

    ## How Dynamo words it

    The recompile reason is a guard on the size, such as `tensor 'self.keys' size mismatch at index 0. expected 4,
    actual 8`, or `self.keys is None`.

    ## References

    - https://docs.pytorch.org/docs/stable/compile/programming_model.recompilation.html
    - https://docs.pytorch.org/docs/stable/torch.compiler_dynamic_shapes.html
    """

    code = "DYN511"
    name = "growing-tensor"
    summary = "A tensor that outlives the call gets longer with every call, and later calls compile anew"
    category = "recompile"
    severity = "warning"
    events = (StateChange,)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag state that is replaced by itself and more."""
        assert isinstance(event, StateChange)
        if event.fresh or not event.reads_old or event.home.type in ("argument", "default"):
            return
        if _is_prolonged(event) and is_there_before(event, project) and not settles(event, project):
            yield Violation(
                event.statement,
                f"`{event.home.name}` gets longer with every call: Dynamo compiles again, until it takes the "
                "size for one that varies",
                help="Write into a tensor of fixed size at a position, or let the caller keep what is joined.",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Say why there is none."""
        assert isinstance(event, StateChange)
        return Declined(
            f"how long `{event.home.name}` may get is not written anywhere; register a buffer of that size and write "
            "at a position that the caller passes in"
        )

    examples = (
        Example(
            name="cache-of-keys",
            code=forward(
                """
                k = self.fc(x)
                self.keys = k.detach() if self.keys is None else torch.cat([self.keys, k.detach()])  # DYN508 DYN511
                return self.keys.sum(0)
                """,
                init="self.fc = nn.Linear(8, 8)\nself.keys = None",
            ),
            declined="how long",
            shows="recompile-once",
        ),
        Example(
            name="grows-a-buffer",
            code=forward(
                """
                self.seen = torch.cat((x, self.seen), dim=0)  # DYN511
                return self.fc(self.seen).mean(0)
                """,
                init='self.fc = nn.Linear(8, 8)\nself.register_buffer("seen", torch.zeros(2, 8))',
            ),
            declined="how long",
        ),
        Example(
            name="cut-to-a-length",
            code=forward(
                """
                self.queue = torch.cat([self.queue, x])[-8:]
                return self.fc(self.queue).mean(0)
                """,
                init='self.fc = nn.Linear(8, 8)\nself.register_buffer("queue", torch.zeros(8, 8))',
            ),
        ),
        Example(
            name="local",
            code=forward(
                """
                rows = x
                for _ in range(3):
                    rows = torch.cat([rows, self.fc(x)])
                return rows
                """,
            ),
        ),
        Example(
            name="begins-anew-in-each-call",
            code=forward(
                """
                self.rows = x
                for _ in range(3):
                    self.rows = torch.cat([self.rows, self.fc(x)])
                return self.rows
                """,
            ),
        ),
        Example(
            name="position-in-a-fixed-cache",
            code=forward(
                """
                self.keys.index_copy_(0, torch.arange(x.shape[0]), self.fc(x).detach())
                return self.keys.sum(0)
                """,
                init='self.fc = nn.Linear(8, 8)\nself.register_buffer("keys", torch.zeros(8, 8))',
            ),
        ),
    )


def _is_prolonged(event: StateChange) -> bool:
    """Whether the new value is the old one joined with something, or one of two values is."""
    statement = event.statement
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or k.only_tensor(event.new) is None:
        return False
    value = statement.value
    ways = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
    return any(_joins(way, statement.targets[0]) for way in ways)


def _joins(value: ast.expr, target: ast.expr) -> bool:
    """Whether an expression is a call such as `torch.cat([target, more])`."""
    if not isinstance(value, ast.Call) or not value.args or not isinstance(value.args[0], ast.List | ast.Tuple):
        return False
    called = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", "")
    parts = value.args[0].elts
    return called in _JOINING and len(parts) > 1 and any(same(part, target) for part in parts)
