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
    """Return whether an option is enabled for the whole program, or is patched by a module in the call chain."""
    if (_switched, setting) not in project.answers:
        project.answers[_switched, setting] = _switched(project, setting)
    patching: frozenset[SourceFile] | None = project.answers[_switched, setting]
    return patching is None or any(one.file in patching for one in function.callers)


def _switched(project: Project, setting: str) -> frozenset[SourceFile] | None:
    """Return the files that patch an option temporarily, or None if a statement enables it for the whole program.

    Settings in tests, examples and benchmarks only apply while that code runs, and not for other users of the project.
    """
    assigned = re.compile(rf"^[^#\n]*\.{setting}\s*=\s*True\b", re.MULTILINE)
    patched = re.compile(rf"\bpatch\(\s*(?:[^()#]*\W)??{setting}\W{{1,4}}True\b")
    modules = project.mentioning(setting)
    if any(assigned.search(module.file.text) for module in modules if not _is_beside(module)):
        return None
    return frozenset(module.file for module in modules if patched.search(module.file.text))


def _is_beside(module: ModuleInfo) -> bool:
    """Return whether a module is part of the tests, examples or benchmarks, judging by its package, folder or name."""
    folders = {*module.name.split(".")[:-1], module.file.path.parent.name}
    return not _BESIDE.isdisjoint(folders) or module.file.path.name.startswith(("test_", "conftest", "benchmark"))
