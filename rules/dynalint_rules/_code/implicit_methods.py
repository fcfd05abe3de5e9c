"""Methods of project classes that Python calls implicitly, such as `__len__` and `__format__`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dynalint.rulekit import k, method_name
from dynalint_rules._code.calls import callee
from dynalint_rules._code.scope import Scope

_SHOWN = tuple("__str__ __repr__ __format__ extra_repr".split())
_TRUTH = ("__bool__", "__len__")
_ITEMS = tuple("__iter__ __next__ __getitem__ __len__ __contains__ __reversed__ __lt__ __gt__ __add__ __radd__".split())
_NUMBER = tuple("__int__ __float__ __complex__ __index__ __trunc__ __abs__ __round__ __bool__ __len__ __pow__".split())
_COMPARED = tuple("__eq__ __ne__ __lt__ __le__ __gt__ __ge__ __contains__ __iter__ __getitem__".split())
_OF_BUILTINS = {
    **dict.fromkeys("format print repr str".split(), _SHOWN),
    **dict.fromkeys("abs bool complex divmod float int len pow range round slice".split(), _NUMBER),
    **dict.fromkeys("dict enumerate frozenset list max min reversed set sum tuple zip".split(), _ITEMS),
}
# Functions that display their arguments, given by the start of their dotted name.
_SHOWING = ("logging.", "warnings.", "sys.stdout.", "sys.stderr.")


def implied_methods(scope: Scope, node: ast.AST) -> Iterator[tuple[ast.expr, k.Instance, str]]:
    """Yield the methods that a node may call implicitly, each as an expression, its kind and the method's name."""
    for owner, names in _implied(scope, node):
        for one in _held(scope.kind(owner), within=names is _SHOWN):
            for name in names:
                yield owner, one, name


def _held(kind: k.Kind, *, within: bool) -> Iterator[k.Instance]:
    """Yield the instances that a value can be and, with `within`, the instances that it contains and displays."""
    for one in kind.members:
        if isinstance(one, k.Instance):
            yield one
        elif within and isinstance(one, k.Sequence):
            yield from _held(one.element, within=True)
        elif within and isinstance(one, k.Dictionary):
            yield from _held(one.value, within=True)


def _implied(scope: Scope, node: ast.AST) -> Iterator[tuple[ast.expr, tuple[str, ...]]]:
    if isinstance(node, ast.Attribute):
        yield node.value, (node.attr,)
    elif isinstance(node, ast.Subscript):
        yield node.value, ("__getitem__",)
    elif isinstance(node, ast.BinOp | ast.UnaryOp | ast.Compare | ast.BoolOp):
        yield from _operated(node)
    elif isinstance(node, ast.FormattedValue):
        yield node.value, _SHOWN
    elif isinstance(node, ast.Call):
        names = _called(scope, node)
        yield from ((one, names) for one in (*node.args, *(keyword.value for keyword in node.keywords)))
    elif isinstance(node, ast.comprehension | ast.For):
        yield node.iter, _ITEMS
        yield from ((one, _TRUTH) for one in getattr(node, "ifs", ()))
    elif isinstance(node, ast.Starred):
        yield node.value, _ITEMS
    elif isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert):
        yield node.test, _TRUTH


def _operated(node: ast.BinOp | ast.UnaryOp | ast.Compare | ast.BoolOp) -> Iterator[tuple[ast.expr, tuple[str, ...]]]:
    if isinstance(node, ast.BinOp):
        yield node.left, (method_name(node.op),)
        yield node.right, (method_name(node.op, reflected=True), *(_SHOWN if isinstance(node.op, ast.Mod) else ()))
    elif isinstance(node, ast.UnaryOp):
        yield node.operand, _TRUTH if isinstance(node.op, ast.Not) else (method_name(node.op),)
    elif isinstance(node, ast.Compare):
        yield from ((one, _COMPARED) for one in (node.left, *node.comparators))
    else:
        yield from ((one, _TRUTH) for one in node.values)


def _called(scope: Scope, node: ast.Call) -> tuple[str, ...]:
    """Return the names of the methods that a call may call on its arguments."""
    name = callee(scope, node)
    if name.startswith(_SHOWING) or (isinstance(node.func, ast.Attribute) and node.func.attr == "format"):
        return _SHOWN
    head, _, last = name.rpartition(".")
    return _OF_BUILTINS.get(last, ()) if head == "builtins" else ()
