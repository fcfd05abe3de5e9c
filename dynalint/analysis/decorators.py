"""Wrappers that the project's decorators put around functions, and that other packages put around modules."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from dynalint.analysis import kinds as k
from dynalint.analysis import torch_api
from dynalint.analysis.index import FunctionInfo, walk_function
from dynalint.analysis.kinds import Kind
from dynalint.analysis.selected_members import is_module

if TYPE_CHECKING:
    from dynalint.analysis.frame import Engine, Frame

# The name that a rule watches to find calls of a `staticmethod` object, as in a function that is decorated with
# `@torch.no_grad()` above `@staticmethod`.
STATIC_OBJECT = "builtins.staticmethod.__call__"
# These context managers are also decorators. Their wrappers call the function from Python code. All were run with torch
# 2.13. (Decorators from `torch.jit` return the `staticmethod` object itself.)
_ENTERING = frozenset(
    f"torch.{name}" for name in "no_grad enable_grad inference_mode autocast cpu.amp.autocast cuda.amp.autocast".split()
)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_known: WeakKeyDictionary[FunctionInfo, tuple[FunctionInfo, ...]] = WeakKeyDictionary()


def wrappers_of(interpreter: Engine, function: FunctionInfo) -> tuple[FunctionInfo, ...]:
    """Return the wrappers that replace a function when the project's decorators are applied, if they call the function.

    A decorator that only returns the wrapper on some paths is ignored.
    """
    if not getattr(function.node, "decorator_list", ()):
        return ()
    known = _known.get(function)
    if known is None:
        known = _known[function] = tuple(_wrappers(interpreter, function))
    return known


def _wrappers(interpreter: Engine, function: FunctionInfo) -> Iterator[FunctionInfo]:
    found = (_wrapper_of(interpreter, function, one) for one in getattr(function.node, "decorator_list", ()))
    yield from (wrapper for wrapper in found if wrapper is not None)


def _wrapper_of(interpreter: Engine, function: FunctionInfo, decorator: ast.expr) -> FunctionInfo | None:
    """Return the wrapper that one of the project's decorators puts around a function, if it calls the function."""
    kind = _decorated_by(interpreter, function, decorator)
    if not isinstance(kind, k.Function) or kind.function is function:
        return None
    maker = made_by(interpreter, kind.function) if isinstance(decorator, ast.Call) else kind.function
    wrapper = made_by(interpreter, maker) if maker is not None else None
    return wrapper if maker is not None and wrapper is not None and _calls_parameter(wrapper, maker) else None


def _decorated_by(interpreter: Engine, function: FunctionInfo, decorator: ast.expr) -> Kind:
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    if not isinstance(target, (ast.Name, ast.Attribute)):
        return k.UNKNOWN
    return interpreter.scopes.in_scope(target, function.module, function.parent)


def calls_static_object(interpreter: Engine, function: FunctionInfo) -> bool:
    """Return whether a decorator above `@staticmethod` calls the `staticmethod` object, which Dynamo does not trace."""
    above: list[ast.expr] = []
    for decorator in getattr(function.node, "decorator_list", ()):
        if isinstance(decorator, ast.Name) and decorator.id == "staticmethod":
            kinds = [(one, _decorated_by(interpreter, function, one)) for one in above]
            return any(
                (isinstance(kind, k.External) and torch_api.canonical(kind.name) in _ENTERING)
                or _wrapper_of(interpreter, function, one) is not None
                for one, kind in kinds
            )
        above.append(decorator)
    return False


def made_by(interpreter: Engine, maker: FunctionInfo) -> FunctionInfo | None:
    """Return the nested function that `maker` returns on every path."""
    inside = list(walk_function(maker.node))
    returned = [node.value for node in inside if isinstance(node, ast.Return)]
    names = {one.id if isinstance(one, ast.Name) else "" for one in returned}
    made = [node for node in inside if isinstance(node, _FUNCTIONS) and {node.name} == names]
    return interpreter.definitions.function_of(made[0], maker.module, maker) if len(made) == 1 else None


def _calls_parameter(wrapper: FunctionInfo, maker: FunctionInfo) -> bool:
    """Return whether a wrapper calls the first argument of the decorator that defines it."""
    return bool(_inner_calls(wrapper, maker))


def _inner_calls(wrapper: FunctionInfo, maker: FunctionInfo) -> list[ast.Call]:
    given = [argument.arg for argument in maker.node.args.args[:1]]
    calls = (node for node in walk_function(wrapper.node) if isinstance(node, ast.Call))
    return [one for one in calls if isinstance(one.func, ast.Name) and one.func.id in given]


def kept_back(interpreter: Engine, function: FunctionInfo) -> tuple[int | None, frozenset[str]]:
    """Return what wrappers do not pass on: all arguments after the first few, and keywords.

    In `def wrapper(pred, target, weight=None, **kwargs): return function(pred, target, **kwargs)`, the third argument
    is the wrapper's own. Other wrappers are assumed to pass on everything.
    """
    for wrapper in wrappers_of(interpreter, function):
        names = [argument.arg for argument in wrapper.node.args.args]
        calls = _inner_calls(wrapper, wrapper.parent) if wrapper.parent is not None else []
        given = [one.id if isinstance(one, ast.Name) else "" for one in calls[0].args] if len(calls) == 1 else None
        if given is not None and given == names[: len(given)] and wrapper.node.args.vararg is None:
            named = {keyword.arg for keyword in calls[0].keywords}
            return len(given), frozenset(names[len(given) :]) - named
    return None, frozenset()


def wrapped(frame: Frame, node: ast.Assign) -> Kind | None:
    """Return the kind that `layer = wrap(layer)` gives `layer` if it is a module and nothing is known about `wrap`.

    The wrapper is assumed to call the module, as the wrapper of an unknown decorator is assumed to call its function.
    """
    call, target = node.value, node.targets[0]
    if not (isinstance(call, ast.Call) and isinstance(target, ast.Name)):
        return None
    given = any(isinstance(one, ast.Name) and one.id == target.id for one in call.args)
    kind = frame.env.get(target.id) if given else None
    return kind if kind is not None and all(is_module(frame, one) for one in kind.members) else None
