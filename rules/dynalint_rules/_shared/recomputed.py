"""What a name was computed from, to compute it once more where one side of a test alone goes on with it.

In `d = (x * x).sum().sqrt()`, then `if d > 0: x = x / d`, zeros that flow back to `d` meet the infinite slope of the
square root at zero, although the branch has nothing to do with that. No choice after it helps: the square root has to
be computed of something else, `torch.where(d > 0, (x * x).sum(), 1.0).sqrt()`, where the branch is not taken.
"""

from __future__ import annotations

import ast

from dynalint.analysis import kinds as k
from dynalint_rules._shared.blocks import is_elif, statements_after
from dynalint_rules._shared.effects import effects_of
from dynalint_rules._shared.memory import changed_between
from dynalint_rules._shared.names import last_assignment, statement_of
from dynalint_rules._shared.scope import Refusal, Scope

# Of tensors, what takes little time, above all in a graph, where it is fused with what is around it.
_CHEAP = frozenset(
    "abs acos add asin atan clamp clamp_max clamp_min clip cos cosh div divide double erf exp expm1 flatten float "
    "half log log10 log1p log2 logit masked_fill max mean min mul multiply neg norm permute pow reciprocal relu "
    "reshape rsqrt sigmoid sign sin sinh sqrt square squeeze sub subtract sum t tan tanh transpose true_divide type_as "
    "unsqueeze view view_as where".split()
)
_PLAIN = (ast.UnaryOp, ast.Constant, ast.Compare, ast.Subscript, ast.Slice, ast.Tuple)
_MOST_NODES = 32


def definition_of(scope: Scope, name: str, at: ast.stmt) -> ast.expr | None:
    """Return the expression that `name` got its value from before the test, if it gives the same again at `at`.

    None where it may not, or where it takes long, draws random numbers, or reads what is no local name.
    """
    made = last_assignment(scope, name, at)
    if made is None or made.lineno >= _test(scope).lineno or not _is_cheap(scope, made.value):
        return None
    read = {node.id for node in ast.walk(made.value) if isinstance(node, ast.Name)} & scope.function.locals
    following = statements_after(scope, made)[0]
    last = max(_test(scope), at, key=lambda one: one.end_lineno or one.lineno)
    if name in read or any(changed_between(scope, one, following, last, _bound_by(at, name)) for one in (name, *read)):
        return None
    return made.value


def _bound_by(statement: ast.stmt, name: str) -> list[ast.AST]:
    """Return what binds names in an assignment, after its value is computed; of a branch, what binds `name` on a side.

    The other side leaves the name as it was.
    """
    inner = [one for one in ast.walk(statement) if isinstance(one, ast.Assign | ast.AugAssign)]
    found: list[ast.AST] = []
    for one in inner:
        targets = one.targets if isinstance(one, ast.Assign) else [one.target]
        names = [node for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
        wanted = [node for node in names if one is statement or node.id == name]
        found += [one, *wanted] if isinstance(one, ast.AugAssign) and wanted else wanted
    return found


def _test(scope: Scope) -> ast.stmt:
    """The statement that the decision stands in, the first of a chain of `if` and `elif`."""
    assert scope.shelter is not None
    statement = statement_of(scope, scope.shelter)
    while is_elif(scope, statement):
        statement = statement_of(scope, scope.parents[statement])
    return statement


def _is_cheap(scope: Scope, value: ast.expr) -> bool:
    nodes = list(ast.walk(value))
    if len(nodes) > _MOST_NODES or not all(_is_known(scope, node) for node in nodes):
        return False
    try:
        return not effects_of(scope, [value]).layers
    except Refusal:
        return False


def _is_known(scope: Scope, node: ast.AST) -> bool:
    kind = scope.kind(node)
    if isinstance(node, ast.Call):
        callee = scope.kind(node.func)
        return isinstance(callee, k.Method | k.External) and callee.name.rpartition(".")[2] in _CHEAP
    if isinstance(node, ast.Name):
        return node.id in scope.function.locals or isinstance(kind, k.External | k.Module)
    if isinstance(node, ast.Attribute):
        return isinstance(kind, k.Method | k.External | k.Module)
    if isinstance(node, ast.BinOp):
        return not isinstance(node.op, ast.MatMult)
    return not isinstance(node, ast.expr) or isinstance(node, _PLAIN)
