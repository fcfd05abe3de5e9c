"""DYN709: lists or tuples with tensors in them, compared with each other."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint import rewriting as rw
from dynalint.analysis import kinds as k
from dynalint.analysis.events import Event, Operation
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Rewrite, Rule, Violation
from dynalint_rules._shared.made_sizes import made_size
from dynalint_rules._shared.scope import Scope


class ContainerComparison(Rule):
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
        rewrite = _with_sizes(Scope.of(event, project), event)
        return rewrite or Declined(
            "compare the plain numbers in Python; what to do about the tensors depends on what it is for"
        )


def _with_sizes(scope: Scope, event: Operation) -> Rewrite | None:
    """Write sizes for the tensors of a comparison, None if there is a tensor that gave none."""
    node = event.node
    if not isinstance(node, ast.Compare):
        return None
    sides = [side for side in (node.left, *node.comparators) if isinstance(side, ast.List | ast.Tuple)]
    tensors = [one for side in sides for one in side.elts if k.only_tensor(scope.kind(one)) is not None]
    numbers = {one: made_size(scope, one, event.statement) for one in tensors}
    replaced = [(one, number) for one, number in numbers.items() if number is not None]
    if not replaced or len(replaced) < len(tensors):
        return None
    names = ", ".join(dict.fromkeys(scope.quote(one) for one in tensors))
    return Rewrite(
        "Compare with the size that the tensor has given",
        "conditional",
        rw.written(scope.file, *replaced),
        (f"{names} has more than 8 bits",),
    )


def _same(node: ast.AST) -> bool:
    """Whether a list or tuple is compared with one that reads the same."""
    return (
        isinstance(node, ast.Compare)
        and len(node.comparators) == 1
        and ast.dump(node.left) == ast.dump(node.comparators[0])
    )
