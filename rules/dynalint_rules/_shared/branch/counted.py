"""Quotients by the number of selected elements, which need no test if the count is clamped.

if valid.sum() == 0:                    return torch.where(valid, loss, 0).sum() / valid.sum().clamp(min=1)
    return loss.sum() * 0
return loss[valid].sum() / valid.sum()

loss = -neg if n == 0 else -(pos + neg) / n                 loss = -(pos + neg) / n.clamp(min=1)

if valid.any():                                             loss = loss + (x * valid).sum() / valid.sum().clamp(min=1)
    loss = loss + (x * valid).sum() / valid.sum()
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from dynalint.rulekit import k, walk
from dynalint_rules._code.calls import callee
from dynalint_rules._code.names import is_named, is_settled, only_value, parameters, stores
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.sharing import may_change_in_place
from dynalint_rules._shared.branch.bounded import scaled_to_bound

NOTHING_COUNTED = "if nothing is counted"
_CONVERSIONS = frozenset({"float", "double", "half", "int", "long", "to", "type", "type_as", "detach", "item"})
# Comparisons of a count that are true if anything is counted, and if nothing is.
_SOMETHING = frozenset({(ast.Gt, 0), (ast.NotEq, 0), (ast.GtE, 1)})
_NOTHING = frozenset({(ast.Eq, 0), (ast.LtE, 0), (ast.Lt, 1)})
_ZEROS = frozenset({"torch.zeros", "torch.tensor", "torch.as_tensor", "Tensor.new_zeros", "Tensor.new_tensor"})


def is_count(scope: Scope, node: ast.expr) -> bool:
    """Return whether an expression counts the elements that a mask selects, and the function tests whether it does.

    Without such a test, a quotient by zero may be intended.
    """
    known: dict[object, set[str]] = scope.function.known
    if is_count not in known:
        tests = [one.test for one in walk(scope.function.node) if isinstance(one, ast.If | ast.IfExp)]
        asked = (_counted_by(scope, test) for test in tests)
        known[is_count] = {ast.dump(one[0]) for one in asked if one is not None}
    mask = _counted(scope, node)
    return mask is not None and ast.dump(mask) in known[is_count]


def is_harmless_if_empty(scope: Scope, node: ast.expr, safe: str, test: ast.expr, *, taken: bool) -> bool:
    """Return whether an operand is harmless where the code that uses it is not selected, because a mask is empty then.

    The operand is `torch.where(mask, x, safe)` or `x[mask]`. The code is selected if the test is true, or if it is
    false unless `taken`.
    """
    asked = _counted_by(scope, test)
    if asked is None or asked[1] is not taken:
        return False
    if isinstance(node, ast.Subscript):
        mask = _mask(scope, node.slice)
    elif isinstance(node, ast.Call) and callee(scope, node) == "torch.where" and len(node.args) == 3:
        value = node.args[2]
        same = isinstance(value, ast.Constant) and value.value == ast.literal_eval(safe)
        mask = _mask(scope, node.args[0]) if same else None
    else:
        return False
    return mask is not None and ast.dump(mask) == ast.dump(asked[0])


def needs_no_test(scope: Scope, test: ast.expr, values: Sequence[ast.expr]) -> tuple[int, str] | None:
    """Return which of two values is right for both sides of a test if the divisor is clamped, and the condition for it.

    The first value is selected if the test is true. The test is whether anything is counted. If nothing is, the
    numerator is zero, or the terms that the other value does not have. Or it is whether a divisor exceeds a bound.
    """
    if (condition := scaled_to_bound(scope, test, values[0], values[1])) is not None:
        return 0, condition
    asked = None if scope.careful else _counted_by(scope, test, soft=True)
    if asked is None:
        return None
    mask, place = asked[0], 0 if asked[1] else 1
    value, other = values[place], values[1 - place]
    quotient = _quotient(scope, value, mask)
    if quotient is not None and k.is_number(scope.kind(quotient.left)):
        return None  # it is not zero if nothing is counted
    if quotient is value and (_is_zero(scope, other) or ast.dump(other) == ast.dump(quotient.left)):
        return place, f"{scope.quote(quotient.left)} is zero {NOTHING_COUNTED}"
    terms, kept = list(_terms(value, quotient)), [one for one, _ in _terms(other, quotient)]
    left = [node for term, node in terms if term not in kept]
    if not left or len(left) + len(kept) != len(terms) or not all(_vanishes(scope, one, mask) for one in left):
        return None
    shown = " and ".join(scope.quote(one) for one in left)
    return place, f"{shown} {'is' if len(left) == 1 else 'are'} zero {NOTHING_COUNTED}"


def _vanishes(scope: Scope, term: ast.expr, mask: ast.expr) -> bool:
    """Return whether a term is a sum with the mask, possibly multiplied, or divided by a number or by the count."""
    if isinstance(term, ast.BinOp) and isinstance(term.op, ast.Mult):
        return _vanishes(scope, term.left, mask) or _vanishes(scope, term.right, mask)
    if isinstance(term, ast.BinOp) and isinstance(term.op, ast.Div):
        by_count = _quotient(scope, term, mask) is term
        return (by_count or k.is_number(scope.kind(term.right))) and _vanishes(scope, term.left, mask)
    if isinstance(term, ast.Name) and (value := only_value(scope, term.id, term)) is not None:
        return _vanishes(scope, value, mask)
    return _is_masked(scope, term, mask)


def _is_masked(scope: Scope, term: ast.expr, mask: ast.expr) -> bool:
    """Return whether a term is a sum of products with the mask, also if the same name first holds the products."""
    values = [term]
    if isinstance(term, ast.Name):
        statements = [scope.parents[store] for store in stores(scope, term.id)]
        if term.id in parameters(scope) or not all(isinstance(one, ast.Assign) for one in statements):
            return False
        values = [one.value for one in statements if isinstance(one, ast.Assign)]
    totals = [_summed(scope, one) for one in values]
    summed = [total for total in totals if total is not None]
    products = [one for one, total in zip(values, totals, strict=True) if total is None]
    products += [one for one in summed if not isinstance(term, ast.Name) or not is_named(one, term.id)]
    return len(summed) == 1 and len(products) == 1 and _has_factor(scope, products[0], mask)


def _summed(scope: Scope, node: ast.expr) -> ast.expr | None:
    """Return what `x.sum()` or `torch.sum(x)` adds up, or None for anything else."""
    name = callee(scope, node) if isinstance(node, ast.Call) else ""
    if not isinstance(node, ast.Call) or node.keywords or name not in ("Tensor.sum", "torch.sum"):
        return None
    if name == "torch.sum":
        return node.args[0] if len(node.args) == 1 else None
    return node.func.value if isinstance(node.func, ast.Attribute) and not node.args else None


def _has_factor(scope: Scope, node: ast.expr, mask: ast.expr) -> bool:
    """Return whether a value is zero except where the mask is true: a product with the mask, or `where(mask, x, 0)`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return _has_factor(scope, node.left, mask) or _has_factor(scope, node.right, mask)
    if isinstance(node, ast.Call) and callee(scope, node) == "torch.where" and len(node.args) == 3:
        return _is_zero(scope, node.args[2]) and _has_factor(scope, node.args[0], mask)
    return ast.dump(converted(scope, node)) == ast.dump(mask)


def _quotient(scope: Scope, value: ast.expr, mask: ast.expr) -> ast.BinOp | None:
    """Return the quotient by the number of elements in `mask` that a value is, or that it has as a term."""
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        return _quotient(scope, value.operand, mask)
    if not isinstance(value, ast.BinOp):
        return None
    if isinstance(value.op, ast.Add | ast.Sub):
        return _quotient(scope, value.left, mask) or _quotient(scope, value.right, mask)
    counted = _counted(scope, value.right, soft=True) if isinstance(value.op, ast.Div) else None
    return value if counted is not None and ast.dump(counted) == ast.dump(mask) else None


def _terms(value: ast.expr, quotient: ast.BinOp | None, sign: int = 1) -> Iterator[tuple[tuple[int, str], ast.expr]]:
    """Yield the terms of a sum with their signs, where the numerator takes the place of the quotient."""
    if value is quotient:
        yield from _terms(quotient.left, quotient, sign)
    elif isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        yield from _terms(value.operand, quotient, -sign)
    elif isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add | ast.Sub):
        yield from _terms(value.left, quotient, sign)
        yield from _terms(value.right, quotient, sign if isinstance(value.op, ast.Add) else -sign)
    else:
        yield (sign, ast.dump(value)), value


def _counted_by(scope: Scope, test: ast.expr, *, soft: bool = False) -> tuple[ast.expr, bool] | None:
    """Return the mask if a test is only about whether it selects anything, and whether the test is true if it does.

    A `soft` mask may consist of zeros and ones.
    """
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        asked = _counted_by(scope, test.operand, soft=soft)
        return None if asked is None else (asked[0], not asked[1])
    positive, mask = True, None
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.comparators[0], ast.Constant):
        compared = (type(test.ops[0]), test.comparators[0].value)
        positive = compared in _SOMETHING
        with_zero = compared not in ((ast.GtE, 1), (ast.Lt, 1))
        mask = _counted(scope, test.left, soft=soft and with_zero) if compared in _SOMETHING | _NOTHING else None
    elif isinstance(test, ast.Call) and isinstance(test.func, ast.Attribute) and callee(scope, test) == "Tensor.any":
        mask = _mask(scope, test.func.value) if not test.args and not test.keywords else None
    else:
        mask = _counted(scope, test, soft=soft)
    return None if mask is None else (mask, positive)


def _counted(scope: Scope, node: ast.expr, *, soft: bool = False) -> ast.expr | None:
    """Return the mask whose selected elements an expression counts, in any dtype, or None."""
    node = converted(scope, node)
    if not isinstance(node, ast.Call) or node.keywords:
        return None
    name = callee(scope, node)
    if isinstance(node.func, ast.Attribute) and name in ("Tensor.sum", "Tensor.count_nonzero") and not node.args:
        return _mask(scope, node.func.value, soft=soft)
    if name in ("torch.sum", "torch.count_nonzero") and len(node.args) == 1:
        return _mask(scope, node.args[0], soft=soft)
    return None


def _mask(scope: Scope, node: ast.expr, *, soft: bool = False) -> ast.expr | None:
    """Return the bool tensor that an expression was converted from if it is the same wherever it is written.

    A `soft` mask may also be an argument that is called a mask, of zeros and ones in any dtype.
    """
    mask = converted(scope, node)
    tensor = scope.tensor(mask)
    names = {one.id for one in walk(mask) if isinstance(one, ast.Name)} & scope.function.locals
    fixed = all(is_settled(scope, name, mask) and not may_change_in_place(scope, name) for name in names)
    if tensor is None or not fixed:
        return None
    given = isinstance(mask, ast.Name) and mask.id in parameters(scope) and "mask" in mask.id.lower()
    return mask if tensor.dtype == "bool" or (soft and given and tensor.dtype in ("float", None)) else None


def converted(scope: Scope, node: ast.expr) -> ast.expr:
    """Return the expression that a value with the same elements was converted from."""
    while True:
        if isinstance(node, ast.Name) and (value := only_value(scope, node.id, node)) is not None:
            node = value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CONVERSIONS:
            if not isinstance(scope.kind(node.func), k.Method):
                return node
            node = node.func.value
        else:
            return node


def _is_zero(scope: Scope, node: ast.expr) -> bool:
    """Return whether an expression is a zero without dimensions: `0.0`, `x.sum() * 0` or `torch.tensor(0.0)`."""
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float) and node.value == 0
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return scope.rank(node) == 0 and (_is_zero(scope, node.left) or _is_zero(scope, node.right))
    if not isinstance(node, ast.Call) or callee(scope, node) not in _ZEROS or len(node.args) != 1:
        return False
    given = node.args[0]
    return _is_zero(scope, given) or (isinstance(given, ast.Tuple | ast.List) and not given.elts)
