"""DYN713: tensors told apart by `id`."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import Call, Declined, Event, Project, Rewrite, Rule, Violation, k, rw, walk


class IdentityComparison(Rule):
    code = "DYN713"
    name = "identity-comparison"
    summary = "Comparing tensors by `id` breaks the graph, or recompiles for each tensor"
    gb = ("GB9316", "GB0141")
    events = (Call,)
    calls = frozenset({"builtins.id"})

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Flag a comparison by its left side, once."""
        if not event.args or k.only_tensor(event.args[0]) is None:
            return
        node = project.parents(event.function).get(event.node)
        sides = _compared(node)
        if sides is None or not isinstance(node, ast.Compare) or node.left is not event.node:
            return
        arguments = _unchanged_parameters(event)
        among = [isinstance(side, ast.Name) and side.id in arguments for side in sides]
        if all(among):
            message = "the code recompiles for each new tensor, because of its address"
            yield Violation(node, message, help="compare with `is`", category="recompile")
        elif any(among):
            message = "a tensor that was computed has no address to compare while Dynamo traces"
            yield Violation(node, message, help="compare with `is`")

    def fix(self, event: Call, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Compare with `is` itself."""
        node = violation.node
        sides = _compared(node)
        if sides is None or not isinstance(node, ast.Compare):
            return None
        if not all(isinstance(side, ast.Name | ast.Attribute) for side in sides):
            return Declined("one side is not a plain name; assign it to a variable and compare with `is`")
        file = event.function.file
        left, right = (rw.kept(file, side) for side in sides)
        compared = rw.operation(left, "is" if isinstance(node.ops[0], ast.Eq) else "is not", right)
        return Rewrite("Compare with `is`", "safe", rw.written(file, (node, compared)))


def _compared(node: ast.AST | None) -> tuple[ast.expr, ast.expr] | None:
    """Return what `id(a) == id(b)` compares the identities of."""
    if not (isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq | ast.NotEq)):
        return None
    sides = []
    for side in (node.left, node.comparators[0]):
        called = isinstance(side, ast.Call) and isinstance(side.func, ast.Name) and side.func.id == "id"
        if not called or len(side.args) != 1:  # type: ignore[attr-defined]
            return None
        sides.append(side.args[0])  # type: ignore[attr-defined]
    return sides[0], sides[1]


def _unchanged_parameters(event: Event) -> set[str]:
    """The parameters of a function that nothing in it assigns to."""
    node = event.function.node
    names = {argument.arg for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
    before = [
        one.id
        for one in walk(node)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store) and one.lineno < event.node.lineno
    ]
    return names - set(before)
