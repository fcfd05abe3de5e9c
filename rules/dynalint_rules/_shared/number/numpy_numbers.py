"""NumPy's functions of Python numbers, which Dynamo takes for tensors, as those of `math`, which it computes."""

from __future__ import annotations

import ast

from dynalint.rulekit import Import, Refusal, Rewrite, Safety, k, rw
from dynalint_rules._code.names import loads, only_value
from dynalint_rules._code.scope import Scope

_WHOLE = ("ceil", "floor")
_ROUNDED = ("log", "log2", "log10", "exp")
_NAMES = (*_WHOLE, *_ROUNDED, "sqrt", "prod")


def computed_by_math(scope: Scope, node: ast.Call, source: ast.expr) -> Rewrite | None:
    """Return the rewrite of a whole number that NumPy works out, None where more than Python numbers goes into it.

    `node` is `source.item()` or `int(source)`.
    """
    changes: list[rw.Change] = []
    conditions: dict[str, None] = {}
    inner = _converted(scope, source)
    method = isinstance(node.func, ast.Attribute)
    if method and (inner is source or not _gives_int(scope, inner)):
        return None
    if not _collect(scope, inner, changes, conditions) or not changes:
        return None
    if scope.function.module.bindings.get("math", _MATH) != _MATH or "math" in scope.function.locals:
        raise Refusal("the name `math` has another meaning here; import `math` under another name by hand")
    if method or inner is not source:
        changes.append((node if method else source, rw.kept(scope.file, inner)))
    title = "Compute with `math`, which Dynamo evaluates while tracing"
    safety: Safety = "conditional" if conditions else "safe"
    return Rewrite(title, safety, rw.written(scope.file, *changes), tuple(conditions), imports=("import math",))


_MATH = Import("math", None)


def _converted(scope: Scope, source: ast.expr) -> ast.expr:
    """Return what is converted to whole numbers by `source`, which may be `array.astype(int)`; else itself."""
    if not (isinstance(source, ast.Call) and isinstance(source.func, ast.Attribute) and source.func.attr == "astype"):
        return source
    kinds = ("int", "'int'", "'int64'", "np.int64", "numpy.int64")
    plain = len(source.args) == 1 and not source.keywords and ast.unparse(source.args[0]) in kinds
    return source.func.value if plain else source


def _gives_int(scope: Scope, node: ast.expr) -> bool:
    return _function(scope, node) in _WHOLE


def _function(scope: Scope, node: ast.expr) -> str:
    """The name of NumPy's function that a call of one argument calls, if `math` has it too."""
    if not isinstance(node, ast.Call) or len(node.args) != 1 or node.keywords or isinstance(node.args[0], ast.Starred):
        return ""
    called = scope.kind(node.func)
    name = called.name.removeprefix("numpy.") if isinstance(called, k.External) else ""
    return name if isinstance(called, k.External) and called.name == f"numpy.{name}" and name in _NAMES else ""


def _collect(scope: Scope, node: ast.expr, changes: list[rw.Change], conditions: dict[str, None]) -> bool:
    """Gather what has to change in an expression; say whether all of it is known to be Python numbers."""
    name = _function(scope, node)
    if name:
        assert isinstance(node, ast.Call)
        changes.append((node.func, rw.name(f"math.{name}")))
        if name == "prod":
            return _is_of_sizes(scope, node.args[0], conditions)
        if name in _ROUNDED:
            shown = scope.quote(node.args[0])
            conditions[f"`math.{name}` takes {shown} and rounds as NumPy does"] = None
        return _collect(scope, node.args[0], changes, conditions)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div | ast.FloorDiv):
        if isinstance(node.op, ast.Div | ast.FloorDiv):
            conditions[f"{scope.quote(node.right)} is not zero"] = None
        return _collect(scope, node.left, changes, conditions) and _collect(scope, node.right, changes, conditions)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _collect(scope, node.operand, changes, conditions)
    if isinstance(node, ast.Name) and list(loads(scope, node.id)) == [node]:
        value = only_value(scope, node.id, node)
        if value is not None and _function(scope, value):
            return _collect(scope, value, changes, conditions)
    members = scope.kind(node).members
    return k.is_number(scope.kind(node)) and not any(
        isinstance(one, k.Value) and one.source == "data" for one in members
    )


def _is_of_sizes(scope: Scope, node: ast.expr, conditions: dict[str, None]) -> bool:
    kind = scope.kind(node)
    if isinstance(kind, k.Unknown) or not k.may_be_tensor(kind):
        conditions[f"{scope.quote(node)} is a non-empty sequence of integers"] = None
        return True
    return False
