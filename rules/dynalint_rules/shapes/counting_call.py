"""DYN303: functions whose result has as many elements as the data asks for."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis import torch_api
from dynalint.analysis.events import Call, Event
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Replacement, Rewrite, Rule, Violation
from dynalint_rules._shared.bins import binned
from dynalint_rules._shared.counts import count_of
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.number_arrays import listed
from dynalint_rules._shared.numbers import flow_of
from dynalint_rules._shared.places import listed_tensor, masked_instead
from dynalint_rules._shared.scope import Refusal, Scope
from dynalint_rules._shared.settings import captures_shapes

# The mask reads have a rule of their own; Dynamo does not follow the last one, whatever shape it gives.
_ELSEWHERE = ("__getitem__", "masked_select", "unpad_sequence")
# NumPy's functions of the sort, each of which was run: Dynamo traces them by torch's, on lists of numbers too.
_NUMPY = frozenset(f"numpy.{name}" for name in ("unique", "nonzero", "flatnonzero", "argwhere", "bincount"))
_NUMPY_WHERE = "numpy.where"
_NUMPY_REPEAT = "numpy.repeat"

_HELP = {
    "nonzero": "work with the mask itself: `mask.sum()` counts, `torch.where(mask, a, b)` chooses",
    "argwhere": "work with the mask itself: `mask.sum()` counts, `torch.where(mask, a, b)` chooses",
    "where": "give `torch.where` the two values to choose from, or work with the mask itself",
    "flatnonzero": "work with the mask itself: `mask.sum()` counts, `torch.where(mask, a, b)` chooses",
    "repeat_interleave": "give `output_size=`, where the sum of the repeats is known as a Python number",
    "repeat": "repeat by one number, or gather rows by an index that is computed before",
    "bincount": "sum `one_hot(t, n)` over its first dimension, or `scatter_add_` ones into `n` zeros",
    "combinations": "index by `torch.triu_indices(n, n, 1)`, which depends on a shape alone",
}
_HELP_ELSE = "move it out of the compiled code: into the constructor, or to where the batch is made"
_LISTING = ("Tensor.nonzero", "torch.nonzero", "Tensor.argwhere", "torch.argwhere")


def _watched() -> frozenset[str]:
    """The names under which calls of the functions, methods and layers that have the flag are noted."""
    names = set()
    for name in torch_api.flagged("dynamic_shape"):
        owner, _, last = name.rpartition(".")
        if last not in _ELSEWHERE:
            names.add(f"Tensor.{last}" if owner == "torch.Tensor" else name)
            names.add(f"{owner}.__call__" if last == "forward" else name)
    return frozenset(names)


class CountingCall(Rule):
    """Call a function whose result has as many elements as its data asks for.

    ## What it flags
    `nonzero`, `argwhere`, `torch.where` with one argument, `unique`, `unique_consecutive`, `bincount`,
    `repeat_interleave` by a tensor without `output_size`, `torch.combinations`, `torch.linalg.lstsq`, the CTC loss, the
    adaptive softmax, and NumPy's functions of the same sort, in code that is compiled. Not flagged: `torch.where` with
    three arguments, `repeat_interleave` by a number or with `output_size`, `nonzero_static`, `topk`, `histc`, and
    projects that set `torch._dynamo.config.capture_dynamic_output_shape_ops = True`.

    ## Why
    Dynamo has to know the shape of every result. Here it depends on the data, so the graph ends before the call, and
    the code behind it is compiled anew as the number of elements changes. In the body of a loop it costs the whole
    function, and a loop over the result is unrolled once for each length.

    ## Example
    ```python
    def forward(self, x, labels):
        rows, columns = torch.where(labels > 0)
        return x[rows, columns].sum()
    ```

    Use instead:
    ```python
    def forward(self, x, labels):
        return torch.where(labels > 0, x, 0).sum()
    ```

    ## How it is rewritten
    Where only the number of places is asked for, by `t.nonzero().shape[0]` or `len(t.nonzero())`, it is
    `torch.count_nonzero(t)`, if every use takes a tensor (see DYN201). `x[torch.where(mask)] = 0` becomes `x[mask] =
    0`, which is traced where one number is stored, on the condition that `mask` is as large as `x`. Where places under
    a name do nothing but index or be counted, the name gets the mask instead, and `x[mask]` is rewritten with it (see
    DYN301): `i = (x > 0).nonzero()` and `x[i[:, 0], i[:, 1]].sum()` become `i_mask = x > 0` and `torch.where(i_mask, x,
    0).sum()`.
    `torch.bincount(t, minlength=n)` adds ones into `n` zeros, on the condition that no element needs more.
    `np.unique` of whole numbers that are known while tracing becomes `sorted(set(numbers))` where the array is only
    gone through.
    Nothing else is rewritten: what takes the place of the list of indices depends on what is
    done with it. Often the mask itself does, with `torch.where` and its neutral value; an upper bound that is known
    makes `nonzero_static` or `output_size` possible.

    ## When the rewrite is not exact
    A form with a fixed shape, by
    hand, returns more elements than the original, which have to be masked.

    ## How Dynamo words it
    GB0036: `Dynamic shape operator`, "Operator `aten.nonzero.default`'s output shape depends on input Tensor data".

    ## References
    - https://docs.pytorch.org/docs/stable/compile/programming_model.graph_breaks_index.html
    - https://docs.pytorch.org/docs/stable/generated/torch.nonzero.html
    - https://docs.pytorch.org/docs/stable/generated/torch.repeat_interleave.html
    """

    code = "DYN303"
    name = "counting-call"
    summary = "a result with as many elements as the data asks for ends the graph"
    severity = "warning"
    gb = ("GB0036",)
    events = (Call,)
    calls = _watched() | _NUMPY | {_NUMPY_WHERE, _NUMPY_REPEAT}

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call if every way to understand it gives a shape that depends on data."""
        if not isinstance(event, Call) or captures_shapes(project, event.function) or not _counts(event):
            return
        owner, _, last = event.callee.rpartition(".")
        last = owner.rpartition(".")[2] if last == "__call__" else last
        yield Violation(
            event.node,
            f"the shape of what `{last}()` returns depends on data, which ends the graph",
            help=_HELP.get(last, _HELP_ELSE),
        )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Count without listing; decline where the list itself is used."""
        if isinstance(event, Call) and event.callee.endswith(".bincount"):
            try:
                return binned(Scope.of(event, project), event)
            except Refusal as refusal:
                return Declined(str(refusal))
        if isinstance(event, Call) and event.callee in (*_LISTING, "torch.where", "numpy.unique"):
            try:
                scope = Scope.of(event, project)
                rewrite = _stored_by_mask(scope, event) or _counted(scope, event) or listed(scope, event.node)
                rewrite = rewrite or masked_instead(scope, event)
            except Refusal as refusal:
                return Declined(str(refusal))
            if rewrite is not None:
                return rewrite
        return Declined(
            "what can take the place of a result whose length depends on data depends on its use; work with a mask of "
            "the full shape, or set `torch._dynamo.config.capture_dynamic_output_shape_ops = True`"
        )

    examples = (
        Example(
            name="nonzero",
            code=forward("""
                h = self.fc(x)
                rows = (x.sum(-1) > 0).nonzero().squeeze(-1)  # DYN303
                return h[rows], rows
            """),
            declined="depends on its use",
        ),
        Example(
            name="stored-by-places",
            code=forward("""
                h = self.fc(x).detach()
                h[torch.where(x > 0)] = 0.0  # DYN303
                h[(x < -1).nonzero(as_tuple=True)] = 1.0  # DYN303
                return h
            """),
            fixed=forward("""
                h = self.fc(x).detach()
                h[x > 0] = 0.0
                h[x < -1] = 1.0
                return h
            """),
        ),
        Example(
            name="number-of-places",
            code=forward("""
                h = self.fc(x)
                count = (x > 0).nonzero().shape[0]  # DYN303
                return h / (count + 1)
            """),
            fixed=forward("""
                h = self.fc(x)
                count = torch.count_nonzero(x > 0)
                return h / (count + 1)
            """),
        ),
        Example(
            name="places-that-index",
            code=forward("""
                h = self.fc(x)
                places = (x > 0).nonzero()  # DYN303
                rows, columns = torch.where(h > 0)  # DYN303
                return h[places[:, 0], places[:, 1]].sum() + h[rows, columns].mean()
            """),
            fixed=forward("""
                h = self.fc(x)
                places_mask = x > 0
                rows_mask = h > 0
                return torch.where(places_mask, h, 0).sum() + (torch.where(rows_mask, h, 0).sum() / rows_mask.sum())
            """),
            exact=False,
        ),
        Example(
            name="places-that-are-counted",
            code=forward("""
                h, rows = self.fc(x), x.sum(-1) > 0
                found = rows.nonzero().flatten()  # DYN303
                anywhere = torch.argwhere(x)  # DYN303
                if anywhere.numel() == 0:
                    return h
                return h * len(found) + anywhere.numel()
            """),
            fixed=forward("""
                h, rows = self.fc(x), x.sum(-1) > 0
                found_mask = rows.clone()
                anywhere_mask = x != 0
                return torch.where(
                    torch.count_nonzero(anywhere_mask) == 0,
                    h,
                    h * torch.count_nonzero(found_mask) + (torch.count_nonzero(anywhere_mask) * anywhere_mask.dim()),
                )
            """),
            inputs="[(torch.randn(4, 8),), (torch.zeros(4, 8),), (torch.ones(4, 8),)]",
            exact=False,
        ),
        Example(
            name="places-in-another-order",
            code=forward("""
                h = self.fc(x)
                rows, columns = torch.where(h[:, :4] > 0)  # DYN303
                return h[columns, rows].sum()
            """),
            declined="depends on its use",
        ),
        Example(
            name="nonzero-as-tuple",
            code=forward("""
                rows, columns = torch.nonzero(x > 0, as_tuple=True)  # DYN303
                return self.fc(x)[rows, columns], columns
            """),
        ),
        Example(
            name="where-of-one-argument",
            code=forward("""
                rows, _ = torch.where(x > 0)  # DYN303
                return self.fc(x)[rows]
            """),
        ),
        Example(
            name="argwhere",
            code=forward("return torch.argwhere(self.fc(x) > 0)  # DYN303"),
        ),
        Example(
            name="unique",
            code=forward("""
                values, places = x.round().unique(return_inverse=True)  # DYN303
                return self.fc(x) + values[places]
            """),
        ),
        Example(
            name="unique-consecutive",
            code=forward("return torch.unique_consecutive(self.fc(x).round())  # DYN303"),
        ),
        Example(
            name="bincount",
            code=forward("""
                up = (x.sum(-1) > 0).long()
                counts = torch.bincount(up, minlength=2)  # DYN303
                return self.fc(x) / counts[up].unsqueeze(-1)
            """),
            fixed=forward("""
                up = (x.sum(-1) > 0).long()
                counts = torch.zeros(2, dtype=torch.int64, device=up.device).scatter_add(0, up, torch.ones_like(up))
                return self.fc(x) / counts[up].unsqueeze(-1)
            """),
        ),
        Example(
            name="bins-nobody-counted",
            code=forward("return self.fc(x).sum() + torch.bincount((x.sum(-1) > 0).long())  # DYN303"),
            declined="how many bins there are is not in the code",
        ),
        Example(
            name="repeat-by-a-tensor",
            code=forward("""
                counts = (x > 0).sum(-1)
                return torch.repeat_interleave(self.fc(x), counts, dim=0)  # DYN303
            """),
        ),
        Example(
            name="combinations",
            code=forward("return torch.combinations(self.fc(x)[0])  # DYN303"),
        ),
        Example(
            name="least-squares",
            code=forward("return torch.linalg.lstsq(self.fc(x).T, x.T).solution  # DYN303"),
        ),
        Example(
            name="ctc-loss",
            code=forward(
                """
                log_probs = self.fc(x).log_softmax(-1).unsqueeze(1)
                return self.loss(log_probs, self.target, self.lengths, self.target_lengths)  # DYN303
                """,
                init="""
                    self.fc = nn.Linear(8, 8)
                    self.loss = nn.CTCLoss()
                    self.register_buffer("target", torch.tensor([[1, 2]]))
                    self.register_buffer("lengths", torch.tensor([4]))
                    self.register_buffer("target_lengths", torch.tensor([2]))
                """,
            ),
        ),
        Example(
            name="numpy",
            code=forward(
                """
                values = np.unique(x.numpy().round())  # DYN303
                rows = np.where(x.numpy().sum(-1) > 0)[0]  # DYN303
                return self.fc(x)[rows].sum() + values.sum()
                """,
                head="import numpy as np",
            ),
        ),
        Example(
            name="known-shapes",
            code=forward("""
                h = torch.where(x > 0, self.fc(x), 0)
                counts = torch.tensor([1, 2, 1, 2])
                h = torch.repeat_interleave(h, counts, dim=0, output_size=6)
                places = torch.nonzero_static(x > 0, size=3)
                return h.repeat_interleave(2, dim=0)[places[:, 0].clamp(min=0)]
            """),
        ),
        Example(
            name="in-the-constructor",
            code=forward(
                "return self.fc(x)[self.rows]",
                init="""
                    self.fc = nn.Linear(8, 8)
                    self.register_buffer("rows", torch.nonzero(torch.arange(4) % 2).flatten())
                """,
            ),
        ),
        Example(
            name="numbers-in-order",
            code=forward(
                """
                axes = np.unique((1, -1)).astype(int)  # DYN303
                for axis in sorted(axes, reverse=True):  # DYN708
                    x = x.sum(int(axis), keepdim=True)
                return self.fc(x * torch.ones(8))
                """,
                head="import numpy as np",
            ),
            fixed=forward(
                """
                axes = sorted(set((1, -1)))
                for axis in sorted(axes, reverse=True):
                    x = x.sum(int(axis), keepdim=True)
                return self.fc(x * torch.ones(8))
                """,
                head="import numpy as np",
            ),
        ),
        Example(
            name="numbers-with-more-done-to-them",
            code=forward(
                """
                axes = np.unique((0, 1)) + 1  # DYN303
                for axis in axes:  # DYN803
                    x = x.unsqueeze(0)
                return self.fc(x)
                """,
                head="import numpy as np",
            ),
            declined="a result whose length depends on data",
        ),
        Example(
            name="numpy-choice",
            code=forward(
                """
                signs = np.where(x.numpy() > 0, 1.0, -1.0)
                return self.fc(x) * torch.from_numpy(np.repeat(signs[:, :1], 8, axis=1)).float()
                """,
                head="import numpy as np",
            ),
        ),
    )


def _counts(event: Call) -> bool:
    """Whether the shape of the result certainly depends on data."""
    given = len(event.args) + len(event.keywords)
    starred = len(event.node.args) + len(event.node.keywords) != given
    if event.callee == _NUMPY_WHERE:
        return given == 1 and not starred
    if event.callee == _NUMPY_REPEAT:
        repeats = event.args[1] if len(event.args) > 1 else event.keywords.get("repeats", k.UNKNOWN)
        return k.only_tensor(repeats) is not None or isinstance(repeats, k.Sequence)
    return event.callee in _NUMPY or "dynamic_shape" in event.flags


def _counted(scope: Scope, event: Call) -> Rewrite | None:
    """The rewrite of `t.nonzero().shape[0]` and its like, None where more than the number of places is asked for."""
    node, asked = event.node, count_of(scope, event.node) if event.callee in _LISTING else None
    method = event.callee.startswith("Tensor.")
    if asked is None or asked.elements or node.keywords or len(node.args) != (0 if method else 1):
        return None
    source = node.func.value if method and isinstance(node.func, ast.Attribute) else node.args[0]
    if scope.tensor(source) is None:
        return None
    flow = flow_of(scope, asked.node, "int", wide=True)
    start, end = scope.file.span(asked.node)
    replacement = Replacement(scope.file, start, end, f"{scope.torch}.count_nonzero({scope.text(source)})")
    title = "Count without listing: `torch.count_nonzero`"
    edits = (replacement, *flow.edits)
    return Rewrite(title, flow.safety, edits, flow.clauses, imports=scope.imports, leaves=flow.leaves)


def _stored_by_mask(scope: Scope, event: Call) -> Rewrite | None:
    """The rewrite of `x[torch.where(mask)] = 0`, None where anything else is done with the places."""
    node, target = event.node, scope.parents[event.node]
    mask, apart = listed_tensor(event)
    statement = scope.parents.get(target)
    if mask is None or not apart or not isinstance(target, ast.Subscript) or target.slice is not node:
        return None
    if not isinstance(statement, ast.Assign) or target not in statement.targets:
        return None
    known = scope.tensor(mask)
    if known is None or known.dtype != "bool" or not k.is_number(scope.kind(statement.value)):
        return None
    replacement = Replacement(scope.file, *scope.file.span(node), scope.text(mask))
    shown = f"{scope.quote(mask)} is as large as {scope.quote(target.value)} in each of its own dimensions"
    return Rewrite("Store by the mask itself", "conditional", (replacement,), (shown,))
