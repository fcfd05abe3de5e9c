"""Install a probe in a torch function without visible changes to the function object, lines or tracebacks.

A wrapper would add a frame to every traceback, and Dynamo compares function identities. The function's own source is
therefore compiled again with the probe's calls added. Uses only the standard library.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Sequence
from types import CodeType, FunctionType
from typing import Any

_STAND_IN = "<the probe of dynalint>"
_FUTURES = 0x1FF0000  # the flags for `from __future__ import ...` in a code object
_SKELETON = f"""
if torch.compiler.is_compiling() or {_STAND_IN!r}.busy or not {_STAND_IN!r}.enter(SUBJECT, ARGS, KWARGS):
    pass
else:
    try:
        pass
    finally:
        {_STAND_IN!r}.leave()
"""


def instrument(function: FunctionType, probe: object, subject: str, inner: Sequence[str] = ()) -> None:
    """Make a method call `probe.enter(subject, args, kwargs)` first, and `probe.leave()` last if that returned True.

    `subject` is the name that the method uses for the object being called. If `inner` is given, the first function with
    one of these names inside the method is instrumented instead. Dynamo does not see the probe, because it is skipped
    while code is traced.

    Raises LookupError if torch's source has an unexpected form.
    """
    lines, first = inspect.getsourcelines(function)
    owner = function.__qualname__.rpartition(".")[0].rpartition(".")[2]
    # The surrounding class restores the indentation, the qualified name and the mangling of private names.
    tree = ast.parse("".join([f"class {owner}:\n", *lines]))
    ast.increment_lineno(tree, first - 2)
    _rewrite(_definition(tree, inner or (function.__name__,)), subject)
    flags = function.__code__.co_flags & _FUTURES
    code = compile(tree, function.__code__.co_filename, "exec", flags=flags, dont_inherit=True)
    found = _code(code, function)
    if found is None:
        raise LookupError(f"{function.__qualname__} changed while it was being compiled")
    function.__code__ = _with_probe(found, probe)


def probe_in(function: FunctionType) -> Any:
    """Return the probe that is already installed in a function, or None."""

    def search(code: CodeType) -> Any:
        for constant in code.co_consts:
            found = search(constant) if isinstance(constant, CodeType) else constant
            if hasattr(found, "enter") and hasattr(found, "watches"):
                return found
        return None

    return search(function.__code__)


def _definition(tree: ast.AST, names: Sequence[str]) -> ast.FunctionDef:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name in names and node.args.vararg and node.args.kwarg:
            return node
    raise LookupError(f"torch has no function {' or '.join(names)} where calls could be watched")


def _rewrite(node: ast.FunctionDef, subject: str) -> None:
    choice = ast.parse(_SKELETON).body[0]
    assert isinstance(choice, ast.If)
    guarded = choice.orelse[0]
    assert isinstance(guarded, ast.Try)
    assert node.args.vararg is not None
    assert node.args.kwarg is not None
    names = {"SUBJECT": subject, "ARGS": node.args.vararg.arg, "KWARGS": node.args.kwarg.arg}
    for part in ast.walk(choice):
        if isinstance(part, ast.Name):
            part.id = names.get(part.id, part.id)
        if isinstance(part, (ast.stmt, ast.expr)):
            ast.copy_location(part, node.body[0])
    choice.body = guarded.body = node.body
    node.body = [choice]


def _code(code: CodeType, function: FunctionType) -> CodeType | None:
    """Return the function's code object from its module's code."""
    original = function.__code__
    if (code.co_name, code.co_firstlineno) == (original.co_name, original.co_firstlineno):
        return code if code.co_freevars == original.co_freevars else None
    inside = (_code(constant, function) for constant in code.co_consts if isinstance(constant, CodeType))
    return next((found for found in inside if found is not None), None)


def _with_probe(code: CodeType, probe: object) -> CodeType:
    def put(constant: Any) -> Any:
        if isinstance(constant, CodeType):
            return _with_probe(constant, probe)
        return probe if constant == _STAND_IN else constant

    return code.replace(co_consts=tuple(map(put, code.co_consts)))
