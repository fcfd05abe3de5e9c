"""The creation of a tensor whose elements are all stored later, so that the tensor need not be created."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from dynalint.rulekit import rw
from dynalint_rules._code.calls import callee
from dynalint_rules._code.names import around, is_named, names
from dynalint_rules._code.scope import Scope

_CREATIONS = frozenset(
    f"torch.{name}" for name in "empty empty_like full full_like ones ones_like zeros zeros_like".split()
)
_FILLS = {"torch.zeros_like": "0", "torch.ones_like": "1"}


def removed_creation(scope: Scope, name: str, run: Sequence[ast.stmt]) -> Iterator[rw.Change]:
    """Yield the removal of the statement that creates a tensor, unless an element is read before `run` ends."""
    made = _creation(scope, name, run)
    if made is not None:
        yield made, []


def filled_with(scope: Scope, name: str, run: Sequence[ast.stmt]) -> str | None:
    """Return the code of the number with which `zeros_like` or `ones_like` fills a tensor whose creation can go."""
    made = _creation(scope, name, run)
    if made is None or not isinstance(made.value, ast.Call) or len(made.value.args) != 1 or made.value.keywords:
        return None
    return _FILLS.get(callee(scope, made.value))


def _creation(scope: Scope, name: str, run: Sequence[ast.stmt]) -> ast.Assign | None:
    before, _ = around(scope.parents, run[0])
    made = next((one for one in reversed(before) if isinstance(one, ast.Assign) and _assigns(one, name)), None)
    if made is None or not isinstance(made.value, ast.Call) or callee(scope, made.value) not in _CREATIONS:
        return None
    targets = [one.targets[0] for one in run if isinstance(one, ast.Assign) and len(one.targets) == 1]
    stored = [one.value for one in targets if isinstance(one, ast.Subscript)]
    last = run[-1].end_lineno or run[-1].lineno
    used = [node for node in names(scope, name) if made.lineno < node.lineno <= last]
    return made if all(node in stored for node in used) else None


def _assigns(one: ast.Assign, name: str) -> bool:
    return len(one.targets) == 1 and is_named(one.targets[0], name)
