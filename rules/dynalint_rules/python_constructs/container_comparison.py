"""DYN709: lists or tuples with tensors in them, compared with each other."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis.events import Event, Operation
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward


class ContainerComparison(Rule):
    """Compare lists or tuples that hold tensors.

    ## What it flags

    `==`, `!=`, `<` and the like between two lists, tuples or sizes, where a tensor is compared with a number or another
    tensor before the outcome is known otherwise. Not flagged: comparisons of shapes, of lists of numbers, of lists that
    differ in length, or in a constant that stands before the tensor, and of a tensor with a tensor, which is no truth
    value yet.

    ## Why

    Python compares item by item, and asks each pair for its truth. For a tensor only the data tells.

    ## Example

    ```python
    def forward(self, x, lengths):
        assert list(x.shape[:2]) == [self.batch, lengths.max()]
        return self.fc(x)
    ```

    Use instead:

    ```python
    def forward(self, x, lengths):
        assert x.shape[0] == self.batch
        return self.fc(x)
    ```

    ## How it is rewritten

    It is not. Compare the plain numbers in Python, and the tensors with `torch.equal` outside of the graph or with
    `(a == b).all()` in it.

    ## When the rewrite is not exact

    There is none.

    ## How Dynamo words it

    GB6622: `list_richcompare_nonconst`.

    ## References

    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb6622.html
    """

    code = "DYN709"
    name = "container-comparison"
    summary = "comparing lists or tuples that hold tensors ends the graph"
    gb = ("GB6622", "GB0170")
    events = (Operation,)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the comparison, unless both sides hold the very same tensor."""
        if isinstance(event, Operation) and issubclass(event.operator, ast.cmpop) and not _same(event.node):
            yield Violation(
                event.node,
                "the comparison asks a tensor in these lists for its truth, which only the data tells",
                help="compare the plain numbers in Python, and the tensors by torch",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: what the comparison is for decides."""
        return Declined("compare the plain numbers in Python; what to do about the tensors depends on what it is for")

    examples = (
        Example(
            name="size-with-a-number-from-data",
            code=forward(
                """
                h = self.fc(x)
                fits = list(h.shape) == [4, h.argmax()]  # DYN709
                return h + fits
                """,
            ),
            declined="compare the plain numbers",
        ),
        Example(
            name="tuple",
            code=forward(
                """
                h = self.fc(x)
                fits = (h.shape[0], h.sum()) == (4, 1)  # DYN709
                return h + fits
                """,
            ),
        ),
        Example(
            name="order",
            code=forward(
                """
                h = self.fc(x)
                before = (h.sum(), 1) < (h.mean(), 2)  # DYN709
                return h + before
                """,
            ),
        ),
        Example(
            name="known-otherwise",
            code=forward(
                """
                h = self.fc(x)
                shapes = list(h.shape) == [4, 8] and h.shape == (4, 8)
                constant = [1, h.sum()] == [2, 1]
                longer = [h.sum()] == [1, 2]
                return h + shapes + constant + longer
                """,
            ),
        ),
        Example(
            name="tensors-themselves",
            torch=">=2.13",
            code=forward(
                """
                h = self.fc(x)
                same = (h, 1) == (h, 1)
                return torch.where(h == x, h, x) + same
                """,
            ),
        ),
    )


def _same(node: ast.AST) -> bool:
    """Whether a list or tuple is compared with one that reads the same."""
    return (
        isinstance(node, ast.Compare)
        and len(node.comparators) == 1
        and ast.dump(node.left) == ast.dump(node.comparators[0])
    )
