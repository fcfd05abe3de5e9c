"""A step that is skipped at random, as LayerDrop does: take it always, and choose what there was before.

if not skip:                       before = hidden
    hidden = layer(hidden)         hidden = layer(hidden)
                                   if isinstance(skip, torch.Tensor):
                                       hidden = torch.where(skip, before, hidden)
"""

from __future__ import annotations

import ast

from dynalint.rulekit import Rewrite, k, rw, walk
from dynalint_rules._code.calls import callee
from dynalint_rules._code.effects import is_pure
from dynalint_rules._code.names import is_bound_before, loads
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.branch.blocks import statements_after
from dynalint_rules._shared.text import atom

_DRAWS = frozenset({"torch.rand", "torch.rand_like", "torch.bernoulli"})
_TITLE = "Always take the step, and select with `torch.where`"
_CONDITIONS = (
    "a skipped step is computed anyway, with its random numbers and side effects",
    "parameters of a step that is skipped get gradients of zero",
    "the step keeps shape and dtype, and changes nothing in place",
)


def rewrite_skipped(scope: Scope, statement: ast.If) -> Rewrite | None:
    """Return the rewrite of `if not skip or always:` over one step of a loop; None where more depends on the test.

    An `if skip:` behind it that only forgets what the step gave belongs to it.
    """
    if isinstance(statement.test, ast.Name):
        block = getattr(scope.parents[statement], "body", [])
        position = block.index(statement) if statement in block else 0
        before = block[position - 1] if position else statement
        return (
            rewrite_skipped(scope, before) if isinstance(before, ast.If) and _skip_of(scope, before.test)[0] else None
        )
    skip, always = _skip_of(scope, statement.test)
    if skip is None or statement.orelse or not _is_drawn(scope, skip):
        return None
    assigned = [_target(one) for one in statement.body]
    chosen = [name for name in dict.fromkeys(assigned) if name and is_bound_before(scope, name, statement)]
    if not chosen or "" in assigned:
        return None
    following = [one for one in statements_after(scope, statement)[:1] if _forgets(one, skip.id, assigned)]
    tests = [statement.test, *(one.test for one in following if isinstance(one, ast.If))]
    if sum(1 for test in tests for node in walk(test) if _is_name(node, skip.id)) != len(list(loads(scope, skip.id))):
        return None
    kept: list[str] = []
    for _ in chosen:
        kept.append(scope.fresh_name("before", kept))
    test = f"isinstance({skip.id}, {scope.torch}.Tensor)"
    if always is not None:
        test += f" and not {atom(always, scope.text(always))}"
    pairs = list(zip(chosen, kept, strict=True))
    lines: list[str | ast.stmt] = [
        *(f"{old} = {name}" for name, old in pairs),
        *statement.body,
        f"if {test}:",
        *(f"    {name} = {scope.torch}.where({skip.id}, {old}, {name})" for name, old in pairs),
    ]
    return Rewrite(
        _TITLE, "unsafe", rw.written(scope.file, ([statement, *following], lines)), _CONDITIONS, scope.imports
    )


def _skip_of(scope: Scope, test: ast.expr) -> tuple[ast.Name | None, ast.expr | None]:
    """Return `skip` and `always` of `not skip or always`."""
    always: ast.expr | None = None
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) and len(test.values) == 2:
        test, always = test.values
        if k.may_be_tensor(scope.kind(always)) or not is_pure(scope, always):
            return None, None
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) and isinstance(test.operand, ast.Name):
        return test.operand, always
    return None, None


def _is_drawn(scope: Scope, skip: ast.Name) -> bool:
    """Whether a name is False, or else a tensor that says whether a number drawn at random is small enough."""
    values = [value for name, value in _assignments(scope) if name == skip.id]
    drawn = {
        name for name, value in _assignments(scope) if isinstance(value, ast.Call) and callee(scope, value) in _DRAWS
    }
    plain = [one for one in values if isinstance(one, ast.Constant) and one.value is False]
    compared = [
        one
        for one in values
        if isinstance(one, ast.Compare) and any(isinstance(node, ast.Name) and node.id in drawn for node in walk(one))
    ]
    return bool(compared) and len(plain) + len(compared) == len(values)


def _assignments(scope: Scope) -> list[tuple[str, ast.expr]]:
    """Return the names that the function assigns to, each with the value."""
    return [
        (target.id, node.value)
        for node in walk(scope.function.node)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    ]


def _target(statement: ast.stmt) -> str:
    """Return the one name that a statement assigns to, an empty text where it does anything else."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        return target.id if isinstance(target, ast.Name) else ""
    return ""


def _forgets(statement: ast.stmt, skip: str, assigned: list[str]) -> bool:
    """Whether a statement is `if skip: outputs = (None, None)`, of what the step has assigned."""
    if not isinstance(statement, ast.If) or statement.orelse or not _is_name(statement.test, skip):
        return False
    return all(
        isinstance(one, ast.Assign) and _target(one) in assigned and _is_nothing(one.value) for one in statement.body
    )


def _is_nothing(value: ast.expr) -> bool:
    """Whether a value is None, or a tuple of nothing else."""
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    return all(isinstance(one, ast.Constant) and one.value is None for one in parts)


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
