"""Uses of torch's compiler in the checked files, both in compiled code and in the scripts and tests around it."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from dynalint.analysis import kinds as k
from dynalint.analysis.build import bind_imports
from dynalint.analysis.events import CompilerUse, Position
from dynalint.analysis.index import FunctionInfo, Import, ModuleInfo, walk_function

if TYPE_CHECKING:
    from dynalint.analysis.hierarchy import KindSource
    from dynalint.analysis.interpreter import Interpreter
    from dynalint.analysis.project import Project

_WORDS = ("compile", "compiler", "_dynamo", "is_compiling")
# There is no `\b` before the word because a pattern that starts with plain text is much faster.
_SPELLED = [re.compile(rf"{word}(?<!\w{word})\b") for word in _WORDS]
_PLACES = ("torch.compile", "torch.compiler.", "torch._dynamo.", "torch._utils.is_compiling")


def compiler_uses(
    project: Project, interpreter: Interpreter, modules: Collection[ModuleInfo] | None = None
) -> Iterator[CompilerUse]:
    """Yield each use of a part of torch's compiler in the checked files, or in those of some modules."""
    for module in list(project.modules.values() if modules is None else modules):
        if "torch" not in module.file.text or not project.is_checked(module.file) or not _spells(module.file.text):
            continue
        aliases = _aliases(module)
        for function in (*module.functions, module.top):
            own = function.text
            if _spells(own) or any(alias in own for alias in aliases):
                yield from _uses(project, interpreter, function)


def _spells(text: str) -> bool:
    """Return whether a text contains a word from the API of torch's compiler."""
    return any(pattern.search(text) for pattern in _SPELLED)


def _aliases(module: ModuleInfo) -> list[str]:
    """Return the names under which a module imports parts of torch's compiler."""
    return [
        name
        for name, binding in module.bindings.items()
        if isinstance(binding, Import) and f"{binding.module}.{binding.attribute}.".startswith(_PLACES)
    ]


def _uses(project: Project, interpreter: Interpreter, function: FunctionInfo) -> Iterator[CompilerUse]:
    owners: set[ast.expr] = set()  # an expression comes after the attribute that is read from it
    named = [node for node in walk_function(function.node) if isinstance(node, (ast.Attribute, ast.Name))]
    # Loop and comprehension targets are not module bindings, so looking them up would only search the star imports.
    bound = {node.id for node in named if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound -= function.module.bindings.keys()
    for node in named:
        if isinstance(node, ast.Attribute):
            owners.add(node.value)
        if node in owners:
            continue
        name = dotted_name(interpreter, function, node) if _root(node) not in bound else None
        if name is None and isinstance(node, ast.Attribute) and node.attr == "compile":
            name = "torch.nn.Module.compile" if _is_module(project, function, node.value) else None
        elif name is not None and not name.startswith(_PLACES):
            name = None
        if name is not None:
            statement = _statement(node, function, project)
            yield CompilerUse(node=node, statement=statement, function=function, position=Position(), name=name)


def _root(node: ast.expr) -> str | None:
    """Return the first part of a dotted name."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _is_module(project: Project, function: FunctionInfo, node: ast.expr) -> bool:
    """Return whether an expression is an `nn.Module` from the project, as far as the code interpreted so far shows."""
    kind = project.kinds(function).get(node)
    return isinstance(kind, k.Instance) and project.is_module_class(kind.cls)


def _statement(node: ast.AST, function: FunctionInfo, project: Project) -> ast.stmt:
    parents = project.parents(function)
    while not isinstance(node, ast.stmt):
        node = parents[node]
    return node


def dotted_name(interpreter: KindSource, function: FunctionInfo, node: ast.expr) -> str | None:
    """Return the dotted name of an expression that refers to something outside the project, or None for any other."""
    if isinstance(node, ast.Attribute):
        owner = dotted_name(interpreter, function, node.value)
        return None if owner is None else f"{owner}.{node.attr}"
    if not isinstance(node, ast.Name):
        return None
    scope: FunctionInfo | None = function
    while scope is not None and scope.name != "<module>":
        if node.id in scope.locals:
            return _imported_locally(scope, node.id)
        scope = scope.parent
    kind = interpreter.scopes.global_kind(function.module, node.id)
    return kind.name if isinstance(kind, k.External) else None


def _imported_locally(function: FunctionInfo, name: str) -> str | None:
    """Return the dotted name that an import inside the function binds to a local name."""
    known: dict[str, str] | None = function.known.get(_imported_locally)
    if known is None:
        nodes = walk_function(function.node) if "import " in function.text else ()
        imports = (node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom)))
        bound = [pair for node in imports for pair in bind_imports(function.module, node)]
        known = function.known[_imported_locally] = {
            one: target.module if target.attribute is None else f"{target.module}.{target.attribute}"
            for one, target in reversed(bound)
        }
    return known.get(name)
