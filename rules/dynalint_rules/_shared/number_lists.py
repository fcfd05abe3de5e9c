"""What becomes of a list of numbers read out of tensors, `[t.item() for t in ts]`, when they stay tensors instead."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dynalint.analysis.index import walk_function
from dynalint.analysis.steps import walk
from dynalint_rules._shared.calls import callee
from dynalint_rules._shared.known_numbers import is_whole
from dynalint_rules._shared.names import loads
from dynalint_rules._shared.scope import Refusal, Scope


@dataclass(frozen=True)
class Use:
    """What is done with the numbers of a list: `node` has all of them `summed`, `stacked`, `counted` or `returned`.

    Or it is the place of `one` of them; with `loop`, what a loop puts each of them under.
    """

    kind: str
    node: ast.expr
    loop: ast.For | None = None


def uses_of_list(scope: Scope, made: ast.ListComp | ast.GeneratorExp) -> Iterator[Use]:
    """Yield what is done with the numbers that a comprehension makes a list of.

    Raises:
        Refusal: something that needs numbers, or that nothing is known of.
    """
    outer = scope.parents[made]
    if isinstance(outer, ast.Assign) and len(outer.targets) == 1 and isinstance(outer.targets[0], ast.Name):
        name = outer.targets[0].id
        stores = [one for one in walk(scope.function.node) if isinstance(one, ast.Name) and one.id == name]
        if sum(not isinstance(one.ctx, ast.Load) for one in stores) > 1 or isinstance(made, ast.GeneratorExp):
            raise Refusal(f"`{name}` is set at more than one place; give this list a name of its own first")
        own = set(walk_function(scope.function.node))
        for use in loads(scope, name):
            if use not in own or name not in scope.function.locals:
                raise Refusal(f"`{name}` is used in another function too; pass it there as a tensor by hand")
            yield _use(scope, use)
    else:
        yield _use(scope, made)


def _use(scope: Scope, node: ast.expr) -> Use:
    outer = scope.parents[node]
    if isinstance(outer, ast.Call) and outer.args == [node] and not outer.keywords:
        name = callee(scope, outer)
        if name == "builtins.sum":
            return Use("summed", outer)
        if name == "builtins.len":
            return Use("counted", outer)
        if name == "torch.tensor":
            return Use("stacked", outer)
    if isinstance(outer, ast.Subscript) and outer.value is node and isinstance(outer.ctx, ast.Load):
        if is_whole(scope.kind(outer.slice)):
            return Use("one", outer)
    elif isinstance(outer, ast.For) and outer.iter is node:
        return Use("one", outer.target, outer)
    elif _is_returned(scope.parents.get, node):
        return Use("returned", node)
    shown = scope.quote(outer) if isinstance(outer, ast.expr | ast.stmt) else scope.quote(node)
    raise Refusal(f"{shown} needs the list {scope.quote(node)} as numbers; read them after the compiled function")


def _is_returned(parent_of: Callable[[ast.AST], ast.AST | None], node: ast.AST) -> bool:
    parent = parent_of(node)
    if isinstance(parent, ast.Return):
        return True
    return isinstance(parent, ast.Tuple | ast.List | ast.Dict) and _is_returned(parent_of, parent)
