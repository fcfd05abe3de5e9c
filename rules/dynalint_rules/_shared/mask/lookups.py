"""Indices into embeddings that a mask keeps in range, as in `self.rare(ids[ids >= n] - n)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from dynalint.rulekit import k, walk
from dynalint_rules._code.names import only_value
from dynalint_rules._code.scope import Scope


def looked_up(scope: Scope, value: ast.expr, mask: ast.expr, reads: Mapping[ast.expr, ast.expr]) -> Iterator[ast.expr]:
    """Yield the arguments of embeddings in `value` that may only be in range where the mask selects.

    These are computed from tensors that the mask compares. `reads` maps selections to the tensors selected from.
    """
    compared = _names_in(scope, mask)
    for node in walk(value):
        if not isinstance(node, ast.Call) or not embeds(scope, node):
            continue
        sources = [reads[one] for one in walk(node.args[0]) if isinstance(one, ast.expr) and one in reads]
        ranged = sources and all(isinstance(one, ast.Name) and one.id in compared for one in sources)
        if ranged:
            yield node.args[0]


def embeds(scope: Scope, node: ast.AST) -> bool:
    """Return whether a node calls an embedding, whose result has one dimension more than its argument."""
    if not isinstance(node, ast.Call) or len(node.args) != 1 or node.keywords:
        return False
    return any(isinstance(one, k.Object) and one.type == "torch.nn.Embedding" for one in scope.kind(node.func).members)


def _names_in(scope: Scope, node: ast.expr) -> set[str]:
    """Return the names that an expression reads, also through other names."""
    found: set[str] = set()
    waiting = [node]
    for one in waiting:
        for part in walk(one):
            if isinstance(part, ast.Name) and part.id not in found:
                found.add(part.id)
                value = only_value(scope, part.id, part)
                waiting += [value] if value is not None else []
    return found
