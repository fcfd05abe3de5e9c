"""Remove tests of whether a bound is exceeded, because the bound changes nothing otherwise.

if (n == 0).any():              n = n.clamp(min=1)
    n = n.clamp(min=1)

if self.scale > limit:          self.scale.data.clamp_(max=limit)
    self.scale.data.fill_(limit)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dynalint.rulekit import Rewrite, k, rw, walk
from dynalint_rules._code.calls import callee
from dynalint_rules._code.effects import is_pure
from dynalint_rules._code.memory import is_own
from dynalint_rules._code.names import parameters, stores
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.branch.blocks import is_elif
from dynalint_rules._shared.branch.choice import finished

_TITLE = "Remove the test, because the bound changes nothing otherwise"
_EXTREMES = {"min": "min", "amin": "min", "max": "max", "amax": "max"}
_SIDES: dict[type[ast.cmpop], str] = {ast.Lt: "min", ast.LtE: "min", ast.Gt: "max", ast.GtE: "max", ast.Eq: "min"}
_COUNTING = ("Tensor.sum", "Tensor.count_nonzero", "torch.sum", "torch.count_nonzero")


def rewrite_bounded(scope: Scope, statement: ast.If) -> Rewrite | None:
    """Return the rewrite of a branch that only bounds the tested tensor, or None for any other branch."""
    only = statement.body[0]
    if len(statement.body) > 1 or statement.orelse or is_elif(scope, statement) or not is_pure(scope, statement.test):
        return None
    if isinstance(only, ast.Assign) and len(only.targets) == 1 and isinstance(only.targets[0], ast.Name):
        name = only.targets[0].id
        clamp = _bound(only.value, name)
        if clamp is None or not any(
            _is_kept(scope, test, name, *clamp) for test in _comparisons(scope, statement.test)
        ):
            return None
        same = f"no code relies on receiving the tensor `{name}` itself instead of an equal copy"
        conditions = [] if is_own(scope, name, statement) else [same]
        tensor = scope.tensor(only.value)
        whole = all(isinstance(one, k.Value) and one.type == "int" for one in scope.kind(clamp[1]).members)
        if not whole and (tensor is None or tensor.dtype != "float"):
            conditions.append(f"`{name}` is a floating-point tensor")
        return finished(scope, _TITLE, rw.written(scope.file, (statement, [only])), conditions)
    call = only.value if isinstance(only, ast.Expr) and isinstance(only.value, ast.Call) else None
    return _filled(scope, statement, call) if call is not None else None


def _bound(value: ast.expr, name: str) -> tuple[str, ast.expr] | None:
    """Return the side and the bound of `name.clamp(min=bound)`, or None for any other value."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return None
    owner, method = ast.unparse(value.func.value), value.func.attr
    if owner != name or len(value.args) + len(value.keywords) != 1:
        return None
    if method in ("clamp_min", "clamp_max") and value.args:
        return method.removeprefix("clamp_"), value.args[0]
    if method not in ("clamp", "clip"):
        return None
    return ("min", value.args[0]) if value.args else (str(value.keywords[0].arg), value.keywords[0].value)


def _comparisons(scope: Scope, test: ast.expr) -> Iterator[tuple[ast.Compare, str]]:
    """Yield a comparison that is true if any element exceeds a bound, and the side on which its tensor was reduced."""
    if isinstance(test, ast.Compare):
        yield test, ""
        left = test.left
        if isinstance(left, ast.Call) and isinstance(left.func, ast.Attribute) and not left.args and not left.keywords:
            yield test, _EXTREMES.get(left.func.attr, "")
    elif isinstance(test, ast.Call) and callee(scope, test) in ("Tensor.any", "torch.any") and not test.keywords:
        given = test.args or ([test.func.value] if isinstance(test.func, ast.Attribute) else [])
        yield from ((one, "") for one in given[:1] if isinstance(one, ast.Compare))


def _is_kept(scope: Scope, tested: tuple[ast.Compare, str], name: str, side: str, bound: ast.expr) -> bool:
    """Return whether clamping changes nothing if a comparison is false for all elements."""
    comparison, reduced = tested
    value = comparison.left
    if reduced and isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        value = value.func.value
    if len(comparison.ops) > 1 or ast.unparse(value) != name or _SIDES.get(type(comparison.ops[0])) != side:
        return False
    limit = comparison.comparators[0]
    if reduced not in ("", side):
        return False
    if isinstance(comparison.ops[0], ast.Eq):
        return [_number(limit), _number(bound)] == [0, 1] and _is_count(scope, name, bound)
    return ast.dump(limit) == ast.dump(bound) and is_pure(scope, bound) and k.is_number(scope.kind(bound))


def _number(node: ast.expr) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def _is_count(scope: Scope, name: str, bound: ast.expr) -> bool:
    """Return whether a name is the number of elements that a mask selects, also for each row, until it is bounded."""
    values = [scope.parents[store] for store in stores(scope, name)]
    made = [one.value for one in values if isinstance(one, ast.Assign) and not any(part is bound for part in walk(one))]
    value = made[0] if len(made) == 1 and len(values) == 2 and name not in parameters(scope) else None
    if not isinstance(value, ast.Call) or callee(scope, value) not in _COUNTING:
        return False
    method = isinstance(value.func, ast.Attribute) and callee(scope, value).startswith("Tensor.")
    counted = value.func.value if method and isinstance(value.func, ast.Attribute) else value.args[0]
    tensor = scope.tensor(counted)
    return tensor is not None and tensor.dtype == "bool"


def _filled(scope: Scope, statement: ast.If, call: ast.Call) -> Rewrite | None:
    """Return the rewrite of `if p > c: p.data.fill_(c)`, or None for any other call in a branch."""
    test, method = statement.test, call.func
    if not isinstance(test, ast.Compare) or len(test.ops) > 1 or not isinstance(method, ast.Attribute):
        return None
    side, bound = _SIDES.get(type(test.ops[0]), ""), test.comparators[0]
    owner = method.value
    of_data = isinstance(owner, ast.Attribute) and owner.attr == "data"
    tested = owner.value if of_data and isinstance(owner, ast.Attribute) else owner
    known = scope.tensor(test.left)
    alone = isinstance(test.left, ast.Name | ast.Attribute) and ast.dump(tested) == ast.dump(test.left)
    if not side or isinstance(test.ops[0], ast.Eq) or not alone or known is None or not k.is_number(scope.kind(bound)):
        return None
    if method.attr != "fill_" or [ast.dump(one) for one in call.args] != [ast.dump(bound)] or call.keywords:
        return None
    if any(isinstance(one, ast.Call) for one in walk(bound)):
        return None
    new = rw.method(rw.kept(scope.file, owner), "clamp_", **{side: rw.kept(scope.file, bound)})
    conditions = [] if known.rank == 0 else [f"{scope.quote(test.left)} has no dimensions"]
    return finished(scope, _TITLE, rw.written(scope.file, (statement, [statement.body[0]]), (call, new)), conditions)
