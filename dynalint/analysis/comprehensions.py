"""Comprehensions, which run in their own frame before Python 3.12."""

from __future__ import annotations

import ast
import sys

from dynalint.analysis import kinds as k
from dynalint.analysis.index import FunctionInfo
from dynalint.analysis.kinds import UNKNOWN, Kind, only_tensor
from dynalint.analysis.project import Project
from dynalint.analysis.steps import walk

Comprehension = ast.ListComp | ast.SetComp | ast.DictComp
# The comprehensions that run in their own frame.
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp) if sys.version_info < (3, 12) else ()
# Dynamo compiles a frame that refers to one of these libraries.
_LIBRARIES = ("torch", "torch.nn", "torch.nn.functional", "numpy")


def sees_tensor(node: ast.AST, function: FunctionInfo, project: Project) -> bool:
    """Return whether a comprehension uses a tensor or module defined outside it.

    If it does, Dynamo compiles its frame.
    """
    assert isinstance(node, Comprehension)
    first = {id(child) for child in walk(node.generators[0].iter)}
    names = [child for child in walk(node) if isinstance(child, ast.Name) and id(child) not in first]
    bound = {name.id for name in names if isinstance(name.ctx, ast.Store)}
    kinds = project.kinds(function)
    return any(_holds_tensor(kinds.get(name, UNKNOWN), project) for name in names if name.id not in bound)


def _holds_tensor(kind: Kind, project: Project) -> bool:
    if isinstance(kind, k.Sequence):
        return _holds_tensor(kind.element, project)
    if isinstance(kind, k.External):
        return kind.name in _LIBRARIES
    if isinstance(kind, k.Instance):
        return project.is_module_class(kind.cls)
    return only_tensor(kind) is not None
