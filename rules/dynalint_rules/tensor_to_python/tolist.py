"""DYN207: `.tolist()` of a tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call, Event
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.exits import leads_to_raise


class TolistOfTensor(Rule):
    """Read the elements of a tensor into a Python list with `.tolist()`.

    ## What it flags
    `.tolist()` called on a tensor or a NumPy array in code that is compiled. Not flagged: `.tolist()` of a value that
    is no tensor or of which nothing is known, code that is not compiled, and code that only runs on the way to a
    `raise`.

    ## Why
    The numbers exist only when the kernels have run, so the graph ends there, and what is done with the list in Python
    afterwards (a loop, a split) is compiled again for other numbers.

    ## Example
    ```python
    def forward(self, x, lengths):
        return torch.stack([x[i, :n].sum() for i, n in enumerate(lengths.tolist())])
    ```

    Use instead:
    ```python
    def forward(self, x, lengths):
        keep = torch.arange(x.shape[1]) < lengths[:, None]
        return torch.where(keep, x, 0).sum(1)
    ```

    ## How it is rewritten
    It is not: which tensor operation stands for a loop over numbers is for a person to say.

    ## When the rewrite is not exact
    A masked sum adds up in another order than a sum over a slice, so it may round otherwise.

    ## How Dynamo words it
    GB0033: `Data dependent operator` for whole numbers, which `fullgraph=True` can capture. GB0109: `Tensor.tolist()
    with non-integer tensor` for all others, which nothing can capture.

    ## References
    - https://docs.pytorch.org/docs/stable/compile/programming_model.graph_breaks_index.html
    """

    code = "DYN207"
    name = "tolist-of-tensor"
    summary = "`.tolist()` reads the elements of a tensor and ends the graph"
    gb = ("GB0033", "GB0109")
    events = (Call,)
    calls = frozenset({"Tensor.tolist", "numpy.ndarray.tolist"})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag `.tolist()` of what is certainly a tensor."""
        if not isinstance(event, Call) or event.receiver is None:
            return
        tensor = k.only_tensor(event.receiver)
        if tensor is None or (tensor.foreseen and tensor.dtype != "float"):
            return
        if not leads_to_raise(event, project):
            yield Violation(
                event.node,
                "`.tolist()` reads the elements of a tensor into Python, which ends the graph",
                help="work on the tensor itself, or read it after the compiled function has returned",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline, with what comes nearest."""
        parent = project.parents(event.function).get(event.node)
        if isinstance(parent, ast.For | ast.comprehension):
            return Declined("a loop over the elements runs in Python; write it as one operation on the whole tensor")
        if isinstance(parent, ast.Call):
            return Declined("the sizes come from data; mask a tensor of fixed size instead of cutting it into pieces")
        return Declined("a list of numbers cannot stay in the graph; index or unbind the tensor and go on with tensors")

    examples = (
        Example(
            name="of one number",
            code=forward("""
                rows = torch.tensor(x.shape[0]).tolist()
                return self.fc(x).view(rows, -1)
            """),
        ),
        Example(
            name="loop",
            code=forward("""
                h = self.fc(x)
                for n in (x > 0).sum(1).tolist():  # DYN207
                    h = h + n
                return h
            """),
            declined="one operation on the whole tensor",
        ),
        Example(
            name="split-sizes",
            code=forward("""
                sizes = torch.tensor([1, 3]) + 0 * (x > 0).sum()
                return torch.cat(self.fc(x).split(sizes.tolist())[::-1])  # DYN207
            """),
            declined="mask a tensor of fixed size",
        ),
        Example(
            name="floats",
            code=forward("""
                low, high = torch.stack([x.min(), x.max()]).tolist()  # DYN207
                return self.fc(x).clamp(low, high)
            """),
            declined="index or unbind",
        ),
        Example(
            name="unbind-instead",
            code=forward("""
                low, high = torch.stack([x.min(), x.max()]).detach().unbind()
                return torch.minimum(torch.maximum(self.fc(x), low), high)
            """),
        ),
        Example(
            name="list-of-shapes",
            code=forward(
                """
                sizes = self.sizes.tolist()
                return self.fc(x).view(sizes)
                """,
                head="""
                class Sizes(tuple):
                    def tolist(self):
                        return list(self)
                """,
                init="self.fc, self.sizes = nn.Linear(8, 8), Sizes((4, 8))",
            ),
        ),
        Example(
            name="message-of-an-exception",
            code=forward("""
                if x.dim() != 2:
                    raise ValueError(f"bad input {x.tolist()}")
                return self.fc(x)
            """),
        ),
    )
