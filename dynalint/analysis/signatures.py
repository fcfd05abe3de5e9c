"""Properties of function definitions, such as size, decorators, and parameters with annotations and defaults."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dynalint.analysis import kinds as k
from dynalint.analysis.annotations import annotation_kind
from dynalint.analysis.documented import documented
from dynalint.analysis.frame import Environment
from dynalint.analysis.index import ClassInfo, FunctionInfo, ModuleInfo
from dynalint.analysis.kinds import UNKNOWN, Kind, Unknown, join, widened

if TYPE_CHECKING:
    from dynalint.analysis.frame import Engine

# A function of up to this many lines is interpreted separately for each combination of argument kinds.
_SMALL = 14


def is_small(function: FunctionInfo) -> bool:
    """Return whether a function is small enough to interpret separately for each combination of argument kinds."""
    node = function.node
    return (node.end_lineno or node.lineno) - node.lineno < _SMALL


def may_take(
    interpreter: Engine, function: FunctionInfo, args: Sequence[Kind], keywords: Mapping[str, Kind], *, bound: bool
) -> bool:
    """Return whether a call with these arguments could be meant for a function, if others may be called instead.

    It is not if there is no parameter for one of them, or if a tensor is passed where a number or a dict is declared.
    """
    arguments = function.node.args
    positional = function.positional[bound:]
    if len(args) > len(positional) and arguments.vararg is None:
        return False
    named = {one.arg: one for one in (*arguments.args, *arguments.kwonlyargs)}
    if arguments.kwarg is None and not named.keys() >= keywords.keys():
        return False
    given = [*zip(positional, args, strict=False), *((named[name], keywords[name]) for name in named.keys() & keywords)]
    return not any(_is_refused(interpreter, function, argument, kind) for argument, kind in given)


def _is_refused(interpreter: Engine, function: FunctionInfo, argument: ast.arg, kind: Kind) -> bool:
    if argument.annotation is None or k.only_tensor(kind) is None:
        return False
    declared = declared_kind(interpreter, argument.annotation, function.module)
    return all(isinstance(one, (k.Value, k.Dictionary)) for one in declared.members)


def has_decorator(function: FunctionInfo, name: str) -> bool:
    """Return whether a function has a decorator called `name`, or one whose dotted name ends in `.name`."""
    return name in function.decorators


def bind_defaults(interpreter: Engine, function: FunctionInfo, receiver: Kind | None) -> Environment:
    """Return the kinds of a function's parameters based only on annotations and defaults."""
    arguments = function.node.args
    env: Environment = {}
    for index, argument in enumerate(function.named):
        if index == 0 and receiver is not None and function.positional:
            env[argument.arg] = receiver
        else:
            env[argument.arg] = parameter_kind(interpreter, function, argument)
    if arguments.vararg:
        env[arguments.vararg.arg] = k.Sequence("tuple", UNKNOWN)
    if arguments.kwarg:
        env[arguments.kwarg.arg] = k.Dictionary("dict", UNKNOWN)
    return env


def declared_kind(interpreter: Engine, annotation: ast.expr, module: ModuleInfo) -> Kind:
    """Return the kind of an annotation.

    It is cached unless the annotation names a project class, whose kind can change.
    """
    known = interpreter.annotations.get(annotation)
    if known is None:
        known = annotation_kind(interpreter, annotation, module)
        if all(map(_is_settled, known.members)):
            interpreter.annotations[annotation] = known
    return known


def _is_settled(kind: Kind) -> bool:
    """Return whether a kind given by an annotation names no project class."""
    if isinstance(kind, k.Sequence) and not kind.fields:
        return all(map(_is_settled, kind.element.members))
    if isinstance(kind, k.Dictionary) and not kind.items:
        return all(map(_is_settled, kind.value.members))
    return isinstance(kind, (k.Tensor, k.Value, Unknown))


def declared_attribute(interpreter: Engine, cls: ClassInfo, name: str) -> Kind:
    """Return the kind that an annotation in the body of a class or a base class gives an attribute of its instances."""
    for one in interpreter.project.mro(cls):
        if name in one.annotated:
            return declared_kind(interpreter, one.annotated[name], one.module)
    return UNKNOWN


def _is_unlike(kind: Kind, default: object) -> bool:
    """Return whether a default is None, a constant for a tensor, a string for a number, or a float for an int."""
    numbers = all(k.is_number(one) for one in kind.members)
    whole = all(isinstance(one, k.Value) and one.type == "int" for one in kind.members)
    other = (numbers and isinstance(default, str)) or (whole and isinstance(default, float))
    return default is None or other or k.may_be_tensor(kind)


def parameter_kind(interpreter: Engine, function: FunctionInfo, argument: ast.arg) -> Kind:
    """Return the kind that a parameter's annotation, documentation or default gives.

    If they do not determine it, return an unknown kind with the parameter's name.
    """
    default = function.defaults.get(argument.arg)
    if argument.annotation is not None:
        known = interpreter.annotations.get(argument)
        if known is not None:
            return known
        kind = declared_kind(interpreter, argument.annotation, function.module)
        if kind != UNKNOWN:
            # If the parameter is `flag: Tensor = False` or `size: int = "auto"`, an omitted argument is not what the
            # annotation says.
            if isinstance(default, ast.Constant) and _is_unlike(kind, default.value):
                kind = join(kind, widened(k.constant(default.value)))
            found = k.with_home(kind, k.Home("argument", argument.arg))
            if argument.annotation in interpreter.annotations:
                interpreter.annotations[argument] = found
            return found
    if default is None or (isinstance(default, ast.Constant) and default.value is None):
        known = documented(function).get(argument.arg)
        if known is not None:
            return known if default is None else join(known, k.NONE)
    if default is None:
        return Unknown(argument.arg)
    kind = interpreter.scopes.in_scope(default, function.module, function.parent)
    if isinstance(kind, (k.Sequence, k.Dictionary)):
        return k.with_home(kind, k.Home("default", argument.arg))
    if isinstance(kind, k.Value):
        return Unknown(argument.arg, optional=True) if kind.type == "none" else widened(kind)
    return kind
