"""Calls that depend on nothing in the call of the function: made once, when the module is imported.

f(x):                                   _EXISTS = os.path.exists("weights.pt")
    if os.path.exists("weights.pt"):
                                        f(x):
                                            if _EXISTS:
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Iterator
from itertools import count, islice

from dynalint.analysis.index import FunctionInfo
from dynalint.analysis.steps import walk
from dynalint.findings import Safety
from dynalint.rules import Replacement, Rewrite
from dynalint_rules._shared.calls import callee
from dynalint_rules._shared.names import is_of_module
from dynalint_rules._shared.scope import Refusal, Scope

# What makes an argument of others.
_PARTS = (
    ast.Attribute,
    ast.Constant,
    ast.Dict,
    ast.List,
    ast.Name,
    ast.Tuple,
    ast.UnaryOp,
    ast.expr_context,
    ast.keyword,
    ast.unaryop,
)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_Binding = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.alias | ast.Name


def computed_once(scope: Scope, node: ast.Call, known: Collection[str] = ()) -> Rewrite:
    """Hoist a call of a function that only computes: of constants it gives the same on every call.

    Raises:
        Refusal: as `hoisted` does.
    """
    shown = scope.quote(node)
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    constant = not any(isinstance(part, ast.Name | ast.Call) for one in given for part in walk(one))
    condition = f"{shown} raises nothing" if constant else f"{shown} gives the same in every call"
    return hoisted(scope, node, known, "conditional" if constant else "unsafe", (condition,))


def asked_once(scope: Scope, node: ast.Call, known: Collection[str] = ()) -> Rewrite:
    """Hoist a call that asks for something outside of the program, of which the answer may change.

    Raises:
        Refusal: as `hoisted` does.
    """
    condition = f"{scope.quote(node)} is asked for once, when the module is imported"
    return hoisted(scope, node, known, "unsafe", (condition,))


def hoisted(
    scope: Scope, node: ast.Call, known: Collection[str], safety: Safety, conditions: tuple[str, ...] = ()
) -> Rewrite:
    """Move a call in front of the function, or the class of the function, to the top level of the module.

    `known` are the dotted names of what may be called there in its arguments.

    Raises:
        Refusal: it takes something from the function, or what it takes is not settled when the module is imported.
    """
    file, module = scope.file, scope.function.module
    place = next(one for one in module.tree.body if scope.function.node in walk(one))
    for part in walk(node):
        if isinstance(part, ast.Call) and (part is node or callee(scope, part) in known):
            continue
        if not isinstance(part, _PARTS):
            shown = scope.quote(part) if isinstance(part, ast.expr) else scope.quote(node)
            raise Refusal(f"{shown} may hang on the call of the function; work it out before, and pass the result")
        if isinstance(part, ast.Name) and not _is_settled(scope.function, part.id, place):
            raise Refusal(f"`{part.id}` is not settled when the module is imported; work it out before, and pass it")
    name = _fresh_name(module.tree, node)
    first = min([place.lineno, *(one.lineno for one in getattr(place, "decorator_list", ()))])
    start = file.line_starts[first - 1]
    above = Replacement(file, start, start, f"{name} = {scope.text(node)}{file.newline * 3}")
    use = Replacement(file, *file.span(node), name)
    return Rewrite(f"Call {scope.quote(node.func)} once, at the top of the module", safety, (above, use), conditions)


def _fresh_name(tree: ast.Module, node: ast.Call) -> str:
    """Return a name that means nothing in the module, and that no other call of it is given in the same round."""
    taken = {word for one in walk(tree) for word in (getattr(one, "id", None), getattr(one, "arg", None))}
    taken |= {_name(one) for one in walk(tree) if isinstance(one, _Binding)}
    calls = [one for one in walk(tree) if isinstance(one, ast.Call) and _last(one.func) == _last(node.func)]
    stem = f"_{_last(node.func).upper()}"
    names = (stem if number == 1 else f"{stem}_{number}" for number in count(1))
    free = (name for name in names if name not in taken)
    return next(islice(free, calls.index(node), None))


def _last(func: ast.expr) -> str:
    """The last part of the name of what is called."""
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else "value"


def _is_settled(function: FunctionInfo, name: str, place: ast.stmt) -> bool:
    """Whether a name of the module has its one meaning for good before a statement of the top level."""
    if not is_of_module(function, name):
        return False
    bound = [one for statement in function.module.tree.body for one in _bindings(statement) if _name(one) == name]
    if not bound:
        return hasattr(builtins, name)
    # `import os` and `import os.path` bind the same.
    alike = all(isinstance(one, ast.alias) and one.asname is None and one.name.startswith(name) for one in bound)
    return bound[0].lineno < place.lineno and (len(bound) == 1 or alike)


def _bindings(node: ast.AST) -> Iterator[_Binding]:
    """Yield what binds names at the top level in a statement."""
    if isinstance(node, _Binding) and not (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)):
        yield node
    if not isinstance(node, _DEFINITIONS):
        for child in ast.iter_child_nodes(node):
            yield from _bindings(child)


def _name(node: _Binding) -> str:
    if isinstance(node, ast.alias):
        return node.asname or node.name.partition(".")[0]
    return node.id if isinstance(node, ast.Name) else node.name
