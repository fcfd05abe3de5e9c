"""DYN606: sparse tensors, which Dynamo has no fake ones of."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call, Event, SparseLoad
from dynalint.analysis.exits import leads_to_raise
from dynalint.analysis.index import FunctionInfo
from dynalint.analysis.project import Project
from dynalint.analysis.sparse import SPARSE_MAKERS
from dynalint.analysis.steps import walk
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward

_SPREAD = """
def spread(adjacency, h):
    moved = adjacency.to(h.device)  # DYN606
    return torch.mm(moved, h)
"""
_BUILD = """
def build():
    edges = torch.tensor([[0, 1], [2, 3]])
    adjacency = torch.sparse_coo_tensor(edges, torch.ones(2), (4, 4))  # DYN606
    return adjacency  # DYN606
"""


class SparseTensor(Rule):
    """Make a sparse tensor in code that is compiled.

    ## What it flags
    `torch.sparse_coo_tensor(...)` and the other constructors of sparse tensors, `t.to_sparse()` and its namesakes, and
    the old `torch.sparse.FloatTensor(...)`, and where a function first uses a sparse tensor: one that it made, that a
    call gave it, or that a module holds as a buffer or attribute. Not flagged: `torch.sparse.mm` of dense tensors,
    `nn.Embedding(..., sparse=True)` and `t.is_sparse` of a dense tensor, which are traced.

    ## Why
    The number of elements that a sparse tensor stores depends on data. Dynamo has no stand-in for such a tensor, so it
    cannot take part in a graph at all: making one ends the graph, and so does using one, after which the rest of the
    function runs uncompiled.

    ## Example
    ```python
    def forward(self, x):
        adjacency = torch.sparse_coo_tensor(self.edges, self.weights, (self.n, self.n))
        return torch.sparse.mm(adjacency, x)
    ```

    Use instead:
    ```python
    def forward(self, x):
        source, target = self.edges
        messages = self.weights[:, None] * x[target]
        return torch.zeros_like(x).index_add(0, source, messages)
    ```

    ## How it is rewritten
    It is not: a product with a large sparse matrix is a gather, a multiplication and an `index_add`, which are traced.
    A small matrix of which only products are taken can be kept dense.

    ## When the rewrite is not exact
    By hand: sums run in another order, so the last digits may differ.

    ## How Dynamo words it
    GB0277: `Attempted to wrap sparse Tensor with VariableTracker`, GB0374: `Sparse tensor creation not supported`,
    GB0015: `Attempted to wrap sparse Tensor`, GB0007: `Attempted to call function marked as skipped`.

    ## References
    - https://docs.pytorch.org/docs/stable/sparse.html
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0277.html
    """

    code = "DYN606"
    name = "sparse-tensor"
    summary = "making a sparse tensor ends the graph"
    gb = ("GB0277", "GB0374", "GB0015", "GB0007")
    events = (Call, SparseLoad)
    calls = SPARSE_MAKERS

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call wherever it stands, what is done with the result, and what comes from elsewhere."""
        assert isinstance(event, Call | SparseLoad)
        if leads_to_raise(event, project):
            return
        used = _first_use(event, project)
        if used is not None:
            yield Violation(
                used,
                "a sparse tensor is used here, which cannot be part of a graph",
                help="gather and `index_add`, or keep the matrix dense",
            )
        if isinstance(event, Call):
            name = event.callee.removeprefix("Tensor").removeprefix("torch")
            shown = name if event.callee.startswith("Tensor") else f"torch{name}"
            yield Violation(
                event.node,
                f"`{shown}()` makes a sparse tensor, which cannot be part of a graph",
                help="gather and `index_add`, or keep the matrix dense",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: what is done with it decides what stands for it."""
        return Declined(
            "what is done with the sparse tensor decides what can stand for it; a product is a gather, a "
            "multiplication and an `index_add`"
        )

    examples = (
        Example(
            name="coordinates",
            code=forward("""
                h = self.fc(x)
                edges = torch.tensor([[0, 1], [2, 3]])
                weights = torch.ones(2)
                adjacency = torch.sparse_coo_tensor(edges, weights, (4, 4))  # DYN606
                return h, adjacency.to_dense()  # DYN606
            """),
        ),
        Example(
            name="product",
            code=forward("""
                h = self.fc(x)
                edges = torch.tensor([[0, 1], [2, 3]])
                weights = h.mean(0)[:2]
                adjacency = torch.sparse_coo_tensor(edges, weights, (4, 4))  # DYN606
                return torch.matmul(adjacency, h)  # DYN606
            """),
        ),
        Example(
            name="operator",
            code=forward("""
                h = self.fc(x)
                edges = torch.tensor([[0, 1], [2, 3]])
                weights = torch.ones(2)
                adjacency = torch.sparse_coo_tensor(edges, weights, (4, 4))  # DYN606
                return adjacency @ h + 1  # DYN606
            """),
        ),
        Example(
            name="conversion",
            code=forward("""
                h = self.fc(x)
                return h.to_sparse().to_dense()  # DYN606
            """),
        ),
        Example(
            name="asked-for-its-indices",
            code=forward("""
                h = self.fc(x)
                edges = torch.tensor([[0, 1], [2, 3]])
                adjacency = torch.sparse_coo_tensor(edges, torch.ones(2), (4, 4))  # DYN606
                return torch.mm(adjacency, h) + adjacency._nnz()  # DYN606
            """),
            declined="an `index_add`",
        ),
        Example(
            name="dense-first",
            code=forward("""
                h = self.fc(x)
                sparse = h.to_sparse()  # DYN606
                return torch.sparse.mm(sparse, h.t())  # DYN606
            """),
        ),
        Example(
            name="compressed-rows",
            code=forward("""
                h = self.fc(x)
                rows, columns = torch.tensor([0, 1, 2]), torch.tensor([0, 1])
                diagonal = torch.sparse_csr_tensor(rows, columns, torch.ones(2))  # DYN606
                return h
            """),
        ),
        Example(
            name="old-constructor",
            code=forward("""
                h = self.fc(x)
                edges = torch.tensor([[0, 1], [2, 3]])
                weights = torch.ones(2)
                adjacency = torch.sparse.FloatTensor(edges, weights, torch.Size([4, 4]))  # DYN606
                return h, adjacency.to_dense()  # DYN606
            """),
        ),
        Example(
            name="buffer",
            code=forward(
                """
                h = self.fc(x)
                h = torch.sparse.mm(self.adjacency, h)  # DYN606
                return spread(self.adjacency, h)
                """,
                head=_SPREAD,
                init='self.fc = nn.Linear(8, 8)\nself.register_buffer("adjacency", torch.eye(4).to_sparse())',
            ),
            declined="an `index_add`",
        ),
        Example(
            name="given",
            code=forward(
                """
                h = self.fc(x)
                adjacency = build()
                return torch.mm(adjacency, h)  # DYN606
                """,
                head=_BUILD,
            ),
        ),
        Example(
            name="handed-on",
            code=forward(
                """
                h = self.fc(x)
                adjacency = build()
                other = adjacency
                pair = (other, h)
                h = h * 2
                return torch.mm(other, h) + pair[1]  # DYN606
                """,
                head=_BUILD,
            ),
        ),
        Example(
            name="saved-for-backward",
            code=forward(
                "return Spread.apply(torch.tensor([[0, 1], [2, 3]]), self.fc(x))",
                head="""
                class Spread(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, edges, h):
                        adjacency = torch.sparse_coo_tensor(edges, torch.ones(2), (4, 4))  # DYN606
                        ctx.save_for_backward(adjacency)
                        return torch.matmul(adjacency, h)  # DYN606

                    @staticmethod
                    def backward(ctx, gradient):
                        return None, gradient
                """,
            ),
        ),
        Example(
            name="dense",
            code=forward("""
                h = self.fc(x)
                if h.is_sparse:
                    h = h.to_dense()
                return torch.sparse.mm(h, h.t())
            """),
        ),
    )


def _first_use(event: Call | SparseLoad, project: Project) -> ast.expr | None:
    """Return what is done with the first sparse tensor that a function uses: with it, the rest is left uncompiled.

    It belongs to the call that makes the tensor, where that stands in the function, and else to the reading.
    """
    kinds, parents = project.kinds(event.function), project.parents(event.function)
    uses = [
        (node, used)
        for node, kind in kinds.items()
        if isinstance(node, (ast.Name, ast.Attribute)) and _is_sparse(kind)
        if (used := _use(node, kinds, parents)) is not None
    ]
    first, used = min(uses, key=lambda one: (one[0].lineno, one[0].end_col_offset or 0), default=(None, None))
    if first is None or (_maker(first, event.function, kinds) or first) is not event.node:
        return None
    return used


def _use(node: ast.expr, kinds: Mapping[ast.AST, k.Kind], parents: Mapping[ast.AST, ast.AST]) -> ast.expr | None:
    """Return what is done with a tensor that is read; None where it is only handed on, at which Dynamo does not look.

    That is an assignment, an item of a tuple, an argument of a function of the project, `ctx.save_for_backward(t)`.
    """
    parent = parents.get(node)
    if isinstance(parent, ast.keyword):
        parent = parents.get(parent)
    if isinstance(parent, ast.Attribute):
        call = parents.get(parent)
        return call if isinstance(call, ast.Call) and call.func is parent else parent
    if isinstance(parent, ast.Call):
        callee = kinds.get(parent.func)
        of_torch = isinstance(callee, k.External) and callee.name.startswith("torch.")
        of_tensor = isinstance(callee, k.Method) and isinstance(callee.receiver, k.Tensor)
        return parent if of_torch or of_tensor or isinstance(callee, k.Object) else None
    if isinstance(parent, ast.BinOp):
        return parent
    return node if isinstance(parent, (ast.Return, ast.UnaryOp, ast.Subscript)) else None


def _is_sparse(kind: k.Kind) -> bool:
    tensor = k.only_tensor(kind)
    return tensor is not None and tensor.sparse


def _maker(node: ast.expr, function: FunctionInfo, kinds: Mapping[ast.AST, k.Kind]) -> ast.expr | None:
    """Return the call that makes the sparse tensor which a variable of a function holds."""
    name = node.id if isinstance(node, ast.Name) else None
    for one in walk(function.node):
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.Call):
            callee = kinds.get(one.value.func)
            dotted = f"Tensor.{callee.name}" if isinstance(callee, k.Method) else getattr(callee, "name", "")
            if dotted in SPARSE_MAKERS and any(isinstance(to, ast.Name) and to.id == name for to in one.targets):
                return one.value
    return None
