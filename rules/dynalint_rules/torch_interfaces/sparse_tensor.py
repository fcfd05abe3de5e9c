"""DYN606: sparse tensors, which Dynamo has no fake ones of."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from contextlib import suppress

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call, Event
from dynalint.analysis.exits import leads_to_raise
from dynalint.analysis.project import Project
from dynalint.analysis.steps import walk
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.dense import kept_dense
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.scope import Refusal, Scope

_LAYOUTS = ("coo", "csr", "csc", "bsr", "bsc", "compressed")
_LEGACY = "Float Double Half BFloat16 Int Long Short Char Byte".split()


class SparseTensor(Rule):
    """Make a sparse tensor in code that is compiled.

    ## What it flags
    `torch.sparse_coo_tensor(...)` and the other constructors of sparse tensors, `t.to_sparse()` and its namesakes, and
    the old `torch.sparse.FloatTensor(...)`, and the calls and matrix products that take what they made in the same
    function. Not flagged: `torch.sparse.mm` of dense tensors, `nn.Embedding(...,
    sparse=True)` and `t.is_sparse`, which are traced.

    ## Why
    The number of elements that a sparse tensor stores depends on data. Dynamo has no stand-in for such a tensor, so it
    cannot take part in a graph at all: making one ends the graph, and so does each use of it.

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
    A matrix of which only products are taken, or that is made dense again, in the same function, is kept dense:
    `t.to_sparse()` is left out, and coordinates become `values.new_zeros(size).index_put(...)`. Anything else is
    declined: a product with a large sparse matrix is a gather, a multiplication and an `index_add`, which are traced.

    ## When the rewrite is not exact
    It is `unsafe`: a dense matrix takes more memory, its zeros take part in products with NaN and infinity and get
    gradients, and the order of the additions differs, and so may the last digits.

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
    events = (Call,)
    calls = frozenset(
        {
            *(f"torch.sparse_{layout}_tensor" for layout in _LAYOUTS),
            *(f"torch.sparse.{name}Tensor" for name in _LEGACY),
            *(f"Tensor.to_sparse_{layout}" for layout in _LAYOUTS),
            "Tensor.to_sparse",
        }
    )

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call wherever it stands, and what is done with the result."""
        if isinstance(event, Call) and not leads_to_raise(event, project):
            for use in _uses(event, project):
                yield Violation(
                    use,
                    "a sparse tensor is used here, which cannot be part of a graph",
                    help="gather and `index_add`, or keep the matrix dense",
                )
            name = event.callee.removeprefix("Tensor").removeprefix("torch")
            shown = name if event.callee.startswith("Tensor") else f"torch{name}"
            yield Violation(
                event.node,
                f"`{shown}()` makes a sparse tensor, which cannot be part of a graph",
                help="gather and `index_add`, or keep the matrix dense",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Keep it dense where only products are taken; else what is done with it decides what stands for it."""
        if isinstance(event, Call):
            with suppress(Refusal):
                return kept_dense(Scope.of(event, project), event)
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
            fixed=forward("""
                h = self.fc(x)
                edges = torch.tensor([[0, 1], [2, 3]])
                weights = torch.ones(2)
                adjacency = weights.new_zeros((4, 4)).index_put(edges.unbind(), weights, accumulate=True)
                return h, adjacency
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
            fixed=forward("""
                h = self.fc(x)
                edges = torch.tensor([[0, 1], [2, 3]])
                weights = h.mean(0)[:2]
                adjacency = weights.new_zeros((4, 4)).index_put(edges.unbind(), weights, accumulate=True)
                return torch.matmul(adjacency, h)
            """),
            exact=False,
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
            fixed=forward("""
                h = self.fc(x)
                edges = torch.tensor([[0, 1], [2, 3]])
                weights = torch.ones(2)
                adjacency = weights.new_zeros((4, 4)).index_put(edges.unbind(), weights, accumulate=True)
                return adjacency @ h + 1
            """),
        ),
        Example(
            name="conversion",
            code=forward("""
                h = self.fc(x)
                return h.to_sparse().to_dense()  # DYN606
            """),
            fixed=forward("""
                h = self.fc(x)
                return h
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
            fixed=forward("""
                h = self.fc(x)
                sparse = h
                return torch.mm(sparse, h.t())
            """),
            exact=False,
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
            fixed=forward("""
                h = self.fc(x)
                edges = torch.tensor([[0, 1], [2, 3]])
                weights = torch.ones(2)
                adjacency = weights.new_zeros(torch.Size([4, 4])).index_put(edges.unbind(), weights, accumulate=True)
                return h, adjacency
            """),
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


def _uses(event: Call, project: Project) -> Iterator[ast.expr]:
    """Yield what is computed from the sparse tensor that a call makes, by the variable that it is assigned to."""
    parents = project.parents(event.function)
    statement = parents.get(event.node)
    if not (isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)):
        return
    name = statement.targets[0].id
    nodes = [node for node in walk(event.function.node) if isinstance(node, ast.Name) and node.id == name]
    if sum(isinstance(node.ctx, ast.Store) for node in nodes) > 1:
        return
    kinds = project.kinds(event.function)
    for node in nodes:
        parent = parents.get(node)
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.MatMult):
            yield parent
        elif isinstance(parent, ast.Attribute):
            call = parents.get(parent)
            if isinstance(call, ast.Call) and call.func is parent:
                yield call
        elif isinstance(parent, ast.Call) and _is_of_torch(kinds.get(parent.func)):
            yield parent


def _is_of_torch(callee: k.Kind | None) -> bool:
    """Whether a call is one of a function of torch."""
    return isinstance(callee, k.External) and callee.name.startswith("torch.")
