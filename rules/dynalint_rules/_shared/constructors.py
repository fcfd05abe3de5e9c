"""Statements that move into the constructor of a class: what they may read there, and where they go."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from dynalint.analysis import kinds as k
from dynalint.analysis.index import ClassInfo, FunctionInfo, walk_function
from dynalint.analysis.source import SourceFile
from dynalint.analysis.steps import walk
from dynalint.rules import Refusal, Replacement
from dynalint_rules._shared.effects import is_pure
from dynalint_rules._shared.growth import related
from dynalint_rules._shared.names import is_of_module
from dynalint_rules._shared.scope import Scope
from dynalint_rules._shared.text import indentation
from dynalint_rules._shared.uses import self_name


def constructor_for(scope: Scope) -> FunctionInfo:
    """Return the constructor that a statement of a method can move into, so that it runs once for every instance.

    Raises:
        Refusal: there is none in the file, or a class that inherits may not call it.
    """
    owner = scope.function.owner
    constructor = owner.methods.get("__init__") if owner is not None else None
    if owner is None or constructor is None or self_name(constructor) != self_name(scope.function):
        raise Refusal("the class has no constructor of its own")
    for cls in scope.project.all_classes:
        own = cls.methods.get("__init__")
        if cls is not owner and own is not None and owner in scope.project.mro(cls) and not _calls_other(own):
            raise Refusal(f"the constructor of `{cls.name}` does not call that of `{owner.name}`")
    if any(isinstance(node, ast.Return) for node in walk_function(constructor.node)):
        raise Refusal("the constructor returns early")
    return constructor


def _calls_other(constructor: FunctionInfo) -> bool:
    """Whether a constructor calls the one of the class that it inherits from, by `super()` without arguments."""
    return any(
        ast.unparse(one).startswith("super().__init__(") for one in constructor.statements if isinstance(one, ast.Expr)
    )


def check_reads(scope: Scope, value: ast.expr, constructor: FunctionInfo) -> None:
    """Make sure that an expression gives in the constructor what it gives in a call.

    Raises:
        Refusal: it may do more than give a value, or it reads what the constructor does not have or may change.
    """
    if not is_pure(scope, value):
        raise Refusal(f"{scope.quote(value)} may do more than give a value")
    for node in walk(value):
        if isinstance(node, ast.Name) and not _is_alike(scope.function, constructor, node.id):
            parent = scope.parents[node]
            if node.id != self_name(scope.function) or not isinstance(parent, ast.Attribute):
                raise Refusal(f"the constructor does not have {scope.quote(node)}")
            if not _is_number_for_good(scope, parent):
                raise Refusal(f"{scope.quote(parent)} may change after the constructor")
            for function, store in stores_of(scope, parent.attr):
                if function is not constructor or not _is_top_level(constructor, store):
                    raise Refusal(f"{scope.quote(parent)} may change after the constructor")


def _is_number_for_good(scope: Scope, attribute: ast.Attribute) -> bool:
    """Whether an attribute is a number, or one is read off it that a layer of torch is made with."""
    outer = scope.parents.get(attribute)
    kind = scope.kind(attribute)
    if isinstance(outer, ast.Attribute) and isinstance(kind, k.Object) and kind.type.startswith("torch.nn."):
        return k.is_number(scope.kind(outer))
    return k.is_number(kind)


def _is_top_level(constructor: FunctionInfo, store: ast.Attribute) -> bool:
    return any(isinstance(one, ast.Assign | ast.AnnAssign) and store in walk(one) for one in constructor.statements)


def _is_alike(function: FunctionInfo, constructor: FunctionInfo, name: str) -> bool:
    """Whether a name means the same at the top of the module, in the function and in the constructor, for good."""
    if name in constructor.locals or not is_of_module(function, name):
        return False
    return name in function.module.bindings or hasattr(builtins, name)


def stores_of(scope: Scope, name: str) -> Iterator[tuple[FunctionInfo | None, ast.Attribute]]:
    """Yield the places that may store to an attribute of the class of a method, each with its function."""
    for _, function, node in scope.project.attribute_uses(name):
        if not isinstance(node.ctx, ast.Load) and _may_be_ours(scope, function, node):
            yield function, node


def uses_of(scope: Scope, name: str) -> Iterator[tuple[FunctionInfo | None, ast.Attribute]]:
    """Yield the places that may use an attribute of the class of a method, each with its function."""
    for _, function, node in scope.project.attribute_uses(name):
        if _may_be_ours(scope, function, node):
            yield function, node


def _may_be_ours(scope: Scope, function: FunctionInfo | None, node: ast.Attribute) -> bool:
    owner: ClassInfo | None = function.owner if function is not None else None
    if function is None or owner is None or not isinstance(node.value, ast.Name):
        return True
    return node.value.id != self_name(function) or related(owner, scope.function.owner, scope.project)


def appended(scope: Scope, constructor: FunctionInfo, statement: str) -> Replacement:
    """Return what puts a statement at the end of a constructor.

    Raises:
        Refusal: the last statement shares its line with the header.
    """
    file: SourceFile = constructor.file
    last = constructor.statements[-1]
    if constructor.statements[0].lineno == constructor.node.lineno or "\n" in statement or "\r" in statement:
        raise Refusal("the constructor is written on one line")
    line = last.end_lineno or last.lineno
    indent = indentation(file, constructor.statements[0].lineno)
    end = file.line_starts[line - 1] + len(file.line(line))
    return Replacement(file, end, end, f"{file.newline}{indent}{statement}")
