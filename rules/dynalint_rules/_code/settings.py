"""Dynamo settings in the project's code that rules depend on."""

from __future__ import annotations

import ast
import re

from dynalint.rulekit import FunctionInfo, ModuleInfo, Project, SourceFile
from dynalint_rules._code.decision import decision_of

SCALARS, SHAPES = "capture_scalar_outputs", "capture_dynamic_output_shape_ops"
"""The options in `torch._dynamo.config` that make Dynamo trace data-dependent numbers and shapes."""
_BESIDE = frozenset({"tests", "test", "testing", "examples", "example", "benchmarks", "benchmark", "docs"})


def captures_scalars(project: Project, function: FunctionInfo) -> bool:
    """Return whether `capture_scalar_outputs` is enabled when a function runs, so that Dynamo traces `.item()`."""
    return _is_on(project, function, SCALARS)


def captures_number(project: Project, function: FunctionInfo, node: ast.expr) -> bool:
    """Return whether Dynamo traces the expression that reads a number from a tensor, because of a setting.

    A test of the number, or of a comparison with it, breaks the graph with that setting too.
    """
    if not captures_scalars(project, function):
        return False
    parents = project.parents(function)
    parent = parents.get(node)
    tested = parent if isinstance(parent, ast.Compare) else node
    return decision_of(parents, tested).form not in ("if", "ifexp", "while")


def captures_shapes(project: Project, function: FunctionInfo) -> bool:
    """Return whether `capture_dynamic_output_shape_ops` is enabled when a function runs.

    If it is, Dynamo traces `x[mask]`.
    """
    return _is_on(project, function, SHAPES)


def _is_on(project: Project, function: FunctionInfo, setting: str) -> bool:
    """Return whether an option is enabled for the whole program, or by a module in the call chain."""
    if (_switched, setting) not in project.answers:
        project.answers[_switched, setting] = _switched(project, setting)
    switching: frozenset[SourceFile] | None = project.answers[_switched, setting]
    return switching is None or any(one.file in switching for one in function.callers)


def _switched(project: Project, setting: str) -> frozenset[SourceFile] | None:
    """Return the files that enable an option for what they call, or None if it is enabled for the whole program.

    A statement enables it for the program if importing a module or running a script executes it. In a function of a
    library, it only takes effect once that function is called. Settings in tests, examples and benchmarks apply while
    that code runs, and not for other users of the project.
    """
    patched = re.compile(rf"\bpatch\(\s*(?:[^()#]*\W)??{setting}\W{{1,4}}True\b")
    switching = {module.file for module in project.mentioning(setting) if patched.search(module.file.text)}
    for module, node in project.nodes_with(setting):
        if _enables(node, setting) and not _is_beside(module):
            function = project.function_at(module, node)
            if function is None or _is_script(module) or _is_called_at_import(project, function):
                return None
            switching.add(module.file)
    return frozenset(switching)


def _is_called_at_import(project: Project, function: FunctionInfo) -> bool:
    """Return whether a module may call a function, by its name, when it is imported or started as a script."""
    return any(
        isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] == function.name
        and (project.function_at(module, node) is None or _is_script(module))
        for module, node in project.nodes_with(function.name)
    )


def _enables(node: ast.AST, setting: str) -> bool:
    """Return whether a node is the statement `torch._dynamo.config.<setting> = True`."""
    match node:
        case ast.Assign(targets=[ast.Attribute(attr=name)], value=ast.Constant(value=True)):
            return name == setting
    return False


def _is_script(module: ModuleInfo) -> bool:
    """Return whether a module has a block that runs if it is started as a script."""
    return any(
        isinstance(one, ast.If)
        and any(isinstance(part, ast.Name) and part.id == "__name__" for part in ast.walk(one.test))
        for one in module.tree.body
    )


def _is_beside(module: ModuleInfo) -> bool:
    """Return whether a module is part of the tests, examples or benchmarks, judging by its package, folder or name."""
    folders = {*module.name.split(".")[:-1], module.file.path.parent.name}
    return not _BESIDE.isdisjoint(folders) or module.file.path.name.startswith(("test_", "conftest", "benchmark"))
