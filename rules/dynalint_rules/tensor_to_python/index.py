"""DYN205: a tensor indexed by a tensor without dimensions."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Event, Subscript
from dynalint.analysis.project import Project
from dynalint.analysis.subscripts import index_parts
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.scope import Refusal, Scope
from dynalint_rules._shared.single_index import parts_of, with_a_dimension


class ScalarTensorIndex(Rule):
    """Index a tensor with a 0-dim tensor of whole numbers.

    ## What it flags
    `x[t]`, `x[:, t]`, `x[t, 0]` and the like in code that is compiled, where `t` has no dimensions and is computed
    from other tensors: an `argmax()`, a `sum()`, an element of another tensor. Not flagged: an index with dimensions
    (`x[ids]` with a vector `ids` is traced), a Python number, also one in a tensor of its own (`torch.tensor(3)`), an
    index held in a buffer, and an index of unknown shape.

    ## Why
    PyTorch treats an index without dimensions as a number and reads it, so the graph ends there. `fullgraph=True`
    raises. The same tensor with one dimension stays in the graph.

    ## Example
    ```python
    def forward(self, x):
        best = x.sum(1).argmax()
        return x[best]
    ```

    Use instead:
    ```python
    def forward(self, x):
        best = x.sum(1).argmax()
        return x[best.reshape(1)].squeeze(0)
    ```

    ## How it is rewritten
    `x[t]` becomes `x[t.reshape(1)].squeeze(0)`, and `x[:, t]` becomes `x[:, t.reshape(1)].squeeze(1)`. `x[t] = 1`
    becomes `x[t.reshape(1)] = 1`. Declined where other indices than slices and whole numbers stand beside it, and where
    a tensor is stored, which must be of one dtype with `x` then.

    ## When the rewrite is not exact
    `x[t]` is a view of `x`, the rewritten form a copy. The fix is `conditional` on nothing being changed in place
    through it, nor in `x` before the last use of it. A store is exact for an index that is not of uint8, which would be
    a mask, into a tensor that is no expanded view.

    ## How Dynamo words it
    GB0033: `Data dependent operator`, "Operator `aten._local_scalar_dense.default` has a non-Tensor output whose value
    is dependent on the data of Tensor inputs".

    ## References
    - https://docs.pytorch.org/docs/stable/compile/programming_model.graph_breaks_index.html
    - https://docs.pytorch.org/docs/stable/tensor_view.html
    """

    code = "DYN205"
    name = "scalar-tensor-index"
    summary = "an index that is a tensor without dimensions is read into Python and ends the graph"
    gb = ("GB0033",)
    events = (Subscript,)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag each index that is certainly a computed 0-dim tensor."""
        if not isinstance(event, Subscript) or k.only_tensor(event.base) is None:
            return
        if not any(map(_is_number_in_tensor, index_parts(event.index))):
            return
        kinds = project.kinds(event.function)
        for part in parts_of(event.node):
            if _is_number_in_tensor(kinds.get(part, k.UNKNOWN)):
                yield Violation(
                    part,
                    "a tensor without dimensions as an index is read into Python, which ends the graph",
                    help="give the index a dimension and take it away after: `x[t.reshape(1)].squeeze(0)`",
                )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Index with one dimension more."""
        if not isinstance(event, Subscript) or not isinstance(violation.node, ast.expr):
            return None
        try:
            return _reshaped(Scope.of(event, project), event, violation.node)
        except Refusal as refusal:
            return Declined(str(refusal))

    examples = (
        Example(
            name="counted-row",
            code=forward("""
                h = self.fc(x)
                row = (x.sum(1) > 100).sum()
                return h[row] * 2  # DYN205
            """),
            fixed=forward("""
                h = self.fc(x)
                row = (x.sum(1) > 100).sum()
                return h[row.reshape(1)].squeeze(0) * 2
            """),
        ),
        Example(
            name="last-token",
            code=forward("""
                last = (x[0] > 0).sum() - 1
                return self.fc(x)[:, last]  # DYN205
            """),
            fixed=forward("""
                last = (x[0] > 0).sum() - 1
                return self.fc(x)[:, last.reshape(1)].squeeze(1)
            """),
            inputs="[(torch.ones(4, 8),), (torch.eye(8)[:4] + 1,)]",
        ),
        Example(
            name="with-another-index",
            code=forward("""
                row = (x.sum(1) > 100).sum()
                return self.fc(x)[row, 0] + self.fc(x)[0, row]  # DYN205
            """),
            fixed=forward("""
                row = (x.sum(1) > 100).sum()
                return self.fc(x)[row.reshape(1), 0].squeeze(0) + self.fc(x)[0, row.reshape(1)].squeeze(0)
            """),
        ),
        Example(
            name="with-another-tensor",
            code=forward("""
                row = (x.sum(1) > 100).sum()
                return self.fc(x)[row, x[0].argsort()]  # DYN205
            """),
            declined="beside other indices",
        ),
        Example(
            name="store",
            code=forward("""
                h = self.fc(x).detach()
                h[(x.sum(1) > 100).sum()] = 0.0  # DYN205
                return h
            """),
            fixed=forward("""
                h = self.fc(x).detach()
                h[(x.sum(1) > 100).sum().reshape(1)] = 0.0
                return h
            """),
        ),
        Example(
            name="store-of-a-tensor",
            code=forward("""
                h = self.fc(x).detach()
                h[(x.sum(1) > 100).sum()] = x[0]  # DYN205
                return h
            """),
            declined="is stored to",
        ),
        Example(
            name="element-of-a-list",
            code=forward("""
                steps = torch.tensor([2, 1])
                return self.fc(x)[steps[0]] * 2  # DYN205
            """),
            fixed=forward("""
                steps = torch.tensor([2, 1])
                return self.fc(x)[steps[0].reshape(1)].squeeze(0) * 2
            """),
        ),
        Example(
            name="one-number-in-a-tensor",
            code=forward("""
                h = self.fc(x)
                return h[torch.tensor(2)] + h[torch.tensor([1])[0]]
            """),
        ),
        Example(
            name="index-with-dimensions",
            code=forward("""
                h = self.fc(x)
                order = h.sum(1).argsort()
                return h[order] + h[h.argmax(0) % 4].sum()
            """),
        ),
        Example(
            name="python-number",
            code=forward("return self.fc(x)[0] + self.fc(x)[x.shape[0] - 1]"),
        ),
    )


def _is_number_in_tensor(kind: k.Kind) -> bool:
    """Whether an index is a computed tensor of no dimensions, other than a mask."""
    tensor = k.only_tensor(kind)
    if tensor is None or tensor.foreseen:
        return False
    return tensor.rank == 0 and tensor.dtype != "bool" and tensor.origin is None


def _reshaped(scope: Scope, event: Subscript, index: ast.expr) -> Rewrite:
    statement = event.statement
    stored = statement.value if isinstance(statement, ast.Assign) and statement.targets == [event.node] else None
    if stored is not None and k.is_number(scope.kind(stored)):
        changes, _ = with_a_dimension(scope, event.node, index)
        # One of uint8 is no index but a mask, and a view that repeats elements may be stored to only the old way.
        conditions = (f"{scope.quote(index)} is not of uint8", f"{scope.quote(event.node.value)} is no expanded view")
        return Rewrite("Index with a tensor of one dimension", "conditional", tuple(changes), conditions)
    if event.context != "load":
        raise Refusal(
            f"{scope.quote(event.node)} is stored to; use `index_fill`, `index_copy` or a mask with `torch.where`"
        )
    changes, condition = with_a_dimension(scope, event.node, index)
    return Rewrite("Index with a tensor of one dimension", "conditional", tuple(changes), (condition,))
