"""DYN204: a tensor given where a size, a count or a range is asked for."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Branch, Call, Event, Operation, Subscript
from dynalint.analysis.project import Project
from dynalint.analysis.source import quote
from dynalint.analysis.steps import walk
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.detached import is_stored_number
from dynalint_rules._shared.examples import KEPT_INPUTS, KEPT_PIECES, forward
from dynalint_rules._shared.handed_arrays import handed_as_list
from dynalint_rules._shared.known_numbers import multiplied
from dynalint_rules._shared.number_arrays import array_of, listed
from dynalint_rules._shared.one_piece import kept_in_one
from dynalint_rules._shared.order import always_before
from dynalint_rules._shared.scope import Refusal, Scope
from dynalint_rules._shared.selection import reads_by_mask
from dynalint_rules._shared.size_arguments import SIZES, sizes

# What reads a size where Python code of its own, or of NumPy, has to know it.
_IN_PYTHON = ("builtins.range", "numpy.arange")
_DECLINED = (
    "the shape of the result depends on data; use a bound that no input exceeds and mask what is too much, or set "
    "`torch._dynamo.config.capture_scalar_outputs = True`"
)


class TensorAsSize(Rule):
    """Give a tensor where a size, a count or the end of a range is asked for.

    ## What it flags
    A tensor as an argument of `range`, of a function that makes a tensor of a given size (`torch.zeros(n)`,
    `torch.arange(n)`, `x.new_ones(n)`, ...), and of `view`, `reshape`, `expand`, `repeat`, `split`, `narrow`, `F.pad`,
    `F.interpolate` and their like, alone or in a tuple, or as what a list is multiplied by (`[0] * t`), in code that is
    compiled. Not flagged: shapes and Python numbers, tensors that were there before something else in the function
    ended the graph (the graph that goes on gets them as inputs), tensors where a value is asked for
    (`torch.full((4,), t)`), and numbers read by `.item()`, which DYN201 is about.

    ## Why
    The shape of the result depends on the tensor's data. Dynamo ends the graph before the call, reads the tensor and
    goes on after it, and graphs behind it are compiled again as the sizes change. `range(t)` in a `for` leaves the
    whole function to eager Python.

    ## Example
    ```python
    def forward(self, x, lengths):
        positions = torch.arange(lengths.max())
        return positions[None, :] < lengths[:, None]
    ```

    Use instead:
    ```python
    def forward(self, x, lengths):
        positions = torch.arange(x.shape[1])
        return positions[None, :] < lengths[:, None]
    ```

    ## How it is rewritten
    `np.prod(sizes)`, of Python's numbers, becomes `math.prod(sizes)`. An array made of sizes, of which only elements
    are taken, as sizes, becomes a list, also where it is worked out in a list of arrays and handed to a function of
    the same file. Pieces of a tensor that are stored in an attribute for `torch.cat` to put together again become one
    piece, as for DYN207.
    Anything else is declined: a bound that no input exceeds (the padded length, a number of the configuration)
    has to come from a person.
    `torch._dynamo.config.capture_scalar_outputs = True` lets Dynamo trace many of these with a size that it does not
    know.

    ## When the rewrite is not exact
    One piece instead of several is `unsafe`: it is one to whoever counts the pieces. A static bound, by hand, makes
    larger results, whose surplus has to be masked.

    ## How Dynamo words it
    GB0033: `Data dependent operator`, "Operator `aten._local_scalar_dense.default` has a non-Tensor output whose value
    is dependent on the data of Tensor inputs". For `range` GB0059: `Failed to trace builtin operator`.

    ## References
    - https://docs.pytorch.org/docs/stable/compile/programming_model.graph_breaks_index.html
    """

    code = "DYN204"
    name = "tensor-as-size"
    summary = "a tensor as a size, count or range is read into Python and ends the graph"
    gb = ("GB0033", "GB0059")
    events = (Call, Operation)
    calls = frozenset(SIZES)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call if a size is certainly a tensor, or a tuple or list with one in it."""
        if isinstance(event, Operation):
            yield from _repetition(event)
        if not isinstance(event, Call) or event.callee not in SIZES:
            return
        given = [node for node, kind in _sizes(event) if _holds_tensor(kind, stored=event.callee in _IN_PYTHON)]
        if any(not _is_input(event, node, project) for node in given):
            name = event.callee.rpartition(".")[2]
            shown = quote(event.function.file, given[0])
            yield Violation(
                event.node,
                f"{shown}, a tensor, is read into Python as a size in `{name}()`, which ends the graph",
                help="use a bound that no input exceeds, such as a shape, and mask what is too much",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Multiply sizes while tracing, and keep them in a list; only a person knows a bound of anything else."""
        try:
            scope = Scope.of(event, project)
            given = [node for node, kind in _sizes(event) if _holds_tensor(kind)] if isinstance(event, Call) else []
            if len(given) == 1 and isinstance(given[0], ast.Call):
                return multiplied(scope, given[0], given[0]) or Declined(_DECLINED)
            if len(given) == 1:
                made = array_of(scope, given[0])
                found = listed(scope, made) if made is not None else handed_as_list(scope, given[0])
                return found or kept_in_one(scope, given[0]) or Declined(_DECLINED)
        except Refusal as refusal:
            return Declined(str(refusal))
        return Declined(_DECLINED)

    examples = (
        Example(
            name="arange",
            code=forward("""
                lengths = (self.fc(x) > 0).sum(1)
                positions = torch.arange(lengths.max() + 1)  # DYN204
                return positions[None, :] < lengths[:, None]
            """),
            declined="a bound that no input exceeds",
        ),
        Example(
            name="pieces-put-together",
            code=KEPT_PIECES.format(
                cut="""sizes = [length // 2 for length in lengths]  # DYN803
        out.parts = torch.split(out.parts, sizes)  # DYN204""",
                read="torch.cat(out.parts, dim=0)",
            ),
            inputs=KEPT_INPUTS,
            fixed=KEPT_PIECES.format(cut="out.parts = (out.parts,)", read="torch.cat(out.parts, dim=0)"),
        ),
        Example(
            name="range",
            code=forward("""
                h = self.fc(x)
                for _ in range((x > 0).sum()):  # DYN204
                    h = h + 1
                return h
            """),
        ),
        Example(
            name="repetition",
            code=forward("""
                n = (x > 0).sum()
                h = self.fc(x)
                return h * len([0] * n)  # DYN204
            """),
        ),
        Example(
            name="factory",
            code=forward("""
                n = (x > 100).sum() + 2
                return self.fc(x).sum() + torch.zeros(n, 4)  # DYN204
            """),
        ),
        Example(
            name="size-in-a-tuple",
            code=forward("""
                n = (x > 100).sum() + 2
                return self.fc(x).new_ones((n, 4))  # DYN204
            """),
        ),
        Example(
            name="view",
            code=forward("""
                n = (x > 100).sum() + 2
                return self.fc(x).view(n, -1)  # DYN204
            """),
        ),
        Example(
            name="padding",
            code=forward(
                """
                extra = (x > 100).sum() + 1
                return F.pad(self.fc(x), (0, extra))  # DYN204
                """,
                head="import torch.nn.functional as F",
            ),
        ),
        Example(
            name="numpy",
            code=forward(
                """
                n = (x > 100).sum() + 8
                return self.fc(x) + torch.from_numpy(np.arange(n))  # DYN204
                """,
                head="import numpy as np",
            ),
        ),
        Example(
            name="split",
            code=forward("""
                n = (x > 100).sum() + 2
                first, second = self.fc(x).split(n)  # DYN204
                return first + second
            """),
        ),
        Example(
            name="there-before-the-break",
            code=forward("""
                rows, columns = (x[0] > 100).sum() + 1, (x[1] > 100).sum() + 1
                h = self.fc(x).sum() + torch.zeros(rows, 4)  # DYN204
                return h.sum() + torch.zeros(columns, 4)
            """),
        ),
        Example(
            name="product-of-sizes",
            code=forward("""
                count = (x > 100).sum() + 2
                h = self.fc(x).view(count, -1)  # DYN204
                return h.sum() + torch.zeros(count * 2)  # DYN204
            """),
        ),
        Example(
            name="sizes-from-shapes",
            code=forward("""
                n = x.shape[0]
                h = self.fc(x) + torch.zeros(n, 1) + torch.arange(x.size(1))
                for _ in range(len(x.shape)):
                    h = h.view(n, -1)
                return h
            """),
        ),
        Example(
            name="made of numbers",
            code=forward("""
                half = torch.div(x.shape[0], 2, rounding_mode="trunc")
                groups = torch.min(torch.as_tensor(2), torch.tensor([x.shape[0]]))
                wide = torch.ceil(torch.tensor(2.5, device=x.device)).int().to(x.device)
                wide = wide + x.new_tensor(1, dtype=torch.int64)
                return self.fc(x).view(half, 2, -1).sum() + x.reshape(groups, -1).sum() + torch.zeros(wide, 4)
            """),
        ),
        Example(
            name="made of data among numbers",
            code=forward("""
                n = torch.tensor(2) + (x > 100).sum()
                return self.fc(x).sum() + torch.zeros(n, 4)  # DYN204
            """),
        ),
        Example(
            name="made of many numbers",
            code=forward("""
                return self.fc(x).sum() + torch.zeros(torch.tensor([2, 3]).sum(), 4)  # DYN204
            """),
        ),
        Example(
            name="made before the call",
            code=forward(
                """
                return self.fc(x).reshape(ROWS * 2, -1)  # DYN204
                """,
                head="ROWS = torch.tensor(2)",
            ),
        ),
        Example(
            name="product of a stored shape",
            code=forward(
                """
                return self.fc(x).reshape(-1, np.prod(self.shape))  # DYN204
                """,
                head="import numpy as np",
                init="""
                self.fc = nn.Linear(8, 8)
                self.shape = torch.Size((2, 4))
                """,
            ),
            fixed=forward(
                """
                return self.fc(x).reshape(-1, math.prod(self.shape))
                """,
                head="import numpy as np",
                init="""
                self.fc = nn.Linear(8, 8)
                self.shape = torch.Size((2, 4))
                """,
            ).replace("import nn\n", "import nn\nimport math\n"),
        ),
        Example(
            name="sizes-in-an-array",
            code=forward(
                """
                sizes = np.array(x.shape)
                lines = []
                for size in sizes:  # DYN803
                    lines.append(torch.from_numpy(np.linspace(-1, 1, size)))  # DYN204
                return self.fc(x) + lines[1]
                """,
                head="import numpy as np",
            ),
            fixed=forward(
                """
                sizes = list(x.shape)
                lines = []
                for size in sizes:
                    lines.append(torch.from_numpy(np.linspace(-1, 1, size)))
                return self.fc(x) + lines[1]
                """,
                head="import numpy as np",
            ),
        ),
        Example(
            name="sizes-handed-on-in-an-array",
            code=forward(
                """
                shape = np.array(x.shape)
                halves = [(shape + 2**n - 1) // 2**n for n in (1, 2)]
                return self.fc(x)[:2, :4] + torch.from_numpy(grid(halves[0], 2))
                """,
                head="""
                import numpy as np


                def grid(shape, stride):
                    rows, columns = np.arange(0, shape[0]), np.arange(0, shape[1])  # DYN204
                    return (rows[:, None] + columns) * stride
                """,
            ),
            fixed=forward(
                """
                shape = list(x.shape)
                halves = [[(size + 2**n - 1) // 2**n for size in shape] for n in (1, 2)]
                return self.fc(x)[:2, :4] + torch.from_numpy(grid(halves[0], 2))
                """,
                head="""
                import numpy as np


                def grid(shape, stride):
                    rows, columns = np.arange(0, shape[0]), np.arange(0, shape[1])
                    return (rows[:, None] + columns) * stride
                """,
            ),
        ),
        Example(
            name="array-handed-on-for-more",
            code=forward(
                """
                shape = np.array(x.shape)
                halves = [(shape + 2**n - 1) // 2**n for n in (1, 2)]
                return self.fc(x)[:2, :4] + torch.from_numpy(grid(halves[0], 2))
                """,
                head="""
                import numpy as np


                def grid(shape, stride):
                    rows, columns = np.arange(0, shape[0]), np.arange(0, shape[1])  # DYN204
                    return (rows[:, None] + columns) * stride + shape.sum()
                """,
            ),
            declined="the shape of the result depends on data",
        ),
        Example(
            name="stored-by-the-constructor",
            code=forward(
                """
                h = self.fc(x)
                for _ in range(self.count):  # DYN204
                    h = h + 1
                return h
                """,
                head="import numpy as np",
                init="""
                self.fc = nn.Linear(8, 8)
                self.count = np.prod((2, 4))
                """,
            ),
            declined="the shape of the result depends on data",
        ),
        Example(
            name="stored-size",
            code=forward(
                """
                h = self.fc(x)[:, : self.count] * int(self.count)
                return h.reshape(-1, self.count)
                """,
                head="import numpy as np",
                init="""
                self.fc = nn.Linear(8, 8)
                self.count = np.prod((2, 4))
                """,
            ),
        ),
        Example(
            name="tensor-as-value",
            code=forward("""
                top = self.fc(x).max()
                return torch.full((4,), top.detach()) + torch.linspace(0, top.detach(), 4)
            """),
        ),
    )


def _repetition(event: Operation) -> Iterator[Violation]:
    """Flag `[0] * t`."""
    sides = (event.left, event.right or k.UNKNOWN)
    if event.operator is ast.Mult and any(isinstance(side, k.Sequence) for side in sides):
        for side in sides:
            tensor = k.only_tensor(side)
            if tensor is not None and not is_stored_number(tensor):
                yield Violation(
                    event.node,
                    "a tensor says how often a list is repeated, so it is read into Python, which ends the graph",
                    help="make a tensor of the largest length, and mask what is too much",
                )


def _sizes(event: Call) -> Iterator[tuple[ast.expr, k.Kind]]:
    """Yield the arguments that give sizes, each with its kind."""
    kinds: dict[ast.expr, k.Kind] = dict(zip(event.node.args, event.args, strict=False))
    for keyword in event.node.keywords:
        if keyword.arg in event.keywords:
            kinds[keyword.value] = event.keywords[keyword.arg]
    yield from ((node, kinds[node]) for node in sizes(event.callee, event.node) if node in kinds)


def _holds_tensor(kind: k.Kind, *, stored: bool = False) -> bool:
    if isinstance(kind, k.Sequence) and kind.type in ("list", "tuple"):
        return any(_is_read(item, stored) for item in kind.items or (kind.element,))
    return _is_read(kind, stored)


def _is_read(kind: k.Kind, stored: bool) -> bool:
    """Whether a size is a tensor of which tracing does not know the value; of what is `stored` it may know it."""
    tensor = k.only_tensor(kind)
    return tensor is not None and not tensor.foreseen and (stored or not is_stored_number(tensor))


def _is_input(event: Call, node: ast.expr, project: Project) -> bool:
    """Whether every tensor in a size was there before the graph ended: the graph that goes on gets it as an input."""
    inside = list(walk(node))
    # What is computed here is new, however old the tensors that it is computed from.
    if any(isinstance(one, ast.Call | ast.Subscript | ast.Attribute | ast.BinOp) for one in inside):
        return False
    kinds, parents = project.kinds(event.function), project.parents(event.function)
    names = {one.id for one in inside if isinstance(one, ast.Name) and k.only_tensor(kinds.get(one, k.UNKNOWN))}
    if isinstance(node, ast.Name) and _holds_tensor(kinds.get(node, k.UNKNOWN)):
        names.add(node.id)
    if not names:
        return False
    ends = [end.node for end in _ends(event, project) if always_before(end.node, event.node, parents)]
    for one in walk(event.function.node):
        if isinstance(one, ast.Name) and one.id in names and isinstance(one.ctx, ast.Store):
            ends = [end for end in ends if (one.lineno, one.col_offset) < (end.lineno, end.col_offset)]
    return bool(ends)


def _ends(event: Call, project: Project) -> Iterator[Event]:
    """Yield what ends the graph in the function of an event, as far as sizes, branches, masks and numbers go."""
    interpreter = project.interpreter
    contexts = interpreter.contexts.get(event.function, ()) if interpreter is not None else ()
    for other in (one for context in contexts for one in context.events.values() if one.node is not event.node):
        if isinstance(other, Branch):
            ends = k.only_tensor(other.kind) is not None
        elif isinstance(other, Subscript):
            ends = reads_by_mask(other)
        elif isinstance(other, Call):
            sized = other.callee in SIZES and any(_holds_tensor(kind) for _, kind in _sizes(other))
            ends = sized or other.callee in ("Tensor.item", "Tensor.tolist") or "dynamic_shape" in other.flags
        else:
            ends = False
        if ends:
            yield other
