"""DYN709: lists or tuples with tensors in them, compared with each other."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Event, Operation
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Replacement, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.made_sizes import made_size
from dynalint_rules._shared.scope import Refusal, Scope


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

    Where the tensor has given a size to another one before, as in `h = x.new_zeros(n, 8)`, that size takes its place:
    `[h.shape[0], 8]` for `[n, 8]`. Otherwise compare the plain numbers in Python, and the tensors with `torch.equal`
    outside of the graph or with `(a == b).all()` in it.

    ## When the rewrite is not exact

    Of a tensor of 8 bits: it cannot hold a size of 256, and torch compares with what is left of it.

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
        """Put sizes in the place of tensors that have given them; else what the comparison is for decides."""
        assert isinstance(event, Operation)
        try:
            rewrite = _with_sizes(Scope.of(event, project), event)
        except Refusal as refusal:
            return Declined(str(refusal))
        return rewrite or Declined(
            "compare the plain numbers in Python; what to do about the tensors depends on what it is for"
        )

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
            name="size-given-before",
            code=forward(
                """
                count = torch.tensor(4)
                kept = x.new_zeros(count, 8)
                h = kept + self.fc(x)[:1]
                assert list(h.size()) == [count, 8], f"{h.size()} is not {(count, 8)}"  # DYN709
                return h
                """,
            ),
            fixed=forward(
                """
                count = torch.tensor(4)
                kept = x.new_zeros(count, 8)
                h = kept + self.fc(x)[:1]
                assert list(h.size()) == [kept.shape[0], 8], f"{h.size()} is not {(count, 8)}"
                return h
                """,
            ),
        ),
        Example(
            name="size-changed-since",
            code=forward(
                """
                count = (x > 0).sum(dim=1).max()
                kept = x.new_zeros(count, 8)  # DYN204
                count += 1
                assert list(kept.size()) != [count, 8]  # DYN709
                return kept + self.fc(x)[:1]
                """,
            ),
            inputs="[(torch.eye(4, 8),), (torch.ones(4, 8),)]",
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


def _with_sizes(scope: Scope, event: Operation) -> Rewrite | None:
    """Write sizes for the tensors of a comparison, None if there is a tensor that gave none."""
    node = event.node
    if not isinstance(node, ast.Compare):
        return None
    sides = [side for side in (node.left, *node.comparators) if isinstance(side, ast.List | ast.Tuple)]
    tensors = [one for side in sides for one in side.elts if k.only_tensor(scope.kind(one)) is not None]
    numbers = {one: made_size(scope, one, event.statement) for one in tensors}
    replaced = [
        Replacement(scope.file, *scope.file.span(one), number) for one, number in numbers.items() if number is not None
    ]
    if not replaced or len(replaced) < len(tensors):
        return None
    names = ", ".join(dict.fromkeys(scope.quote(one) for one in tensors))
    return Rewrite(
        "Compare with the size that the tensor has given",
        "conditional",
        tuple(replaced),
        (f"{names} has more than 8 bits",),
    )


def _same(node: ast.AST) -> bool:
    """Whether a list or tuple is compared with one that reads the same."""
    return (
        isinstance(node, ast.Compare)
        and len(node.comparators) == 1
        and ast.dump(node.left) == ast.dump(node.comparators[0])
    )
