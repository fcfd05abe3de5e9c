"""Code that is hardly ever compiled even if a root reaches it: training loops, code that drives models, and tests."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping
from functools import cache
from typing import TYPE_CHECKING

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call, Event
from dynalint.analysis.externals import PROGRESS_BARS
from dynalint.analysis.given_up import called_function, runs_always, way
from dynalint.analysis.index import FunctionInfo
from dynalint.analysis.signatures import parameter_kind
from dynalint.projects.reading import project_root

if TYPE_CHECKING:
    from pathlib import Path

    from dynalint.analysis.interpreter import Interpreter
    from dynalint.analysis.project import Project

_TOLD = {
    "Tensor.backward": "runs a backward pass",
    "torch.autograd.backward": "runs a backward pass",
    "accelerate.Accelerator.backward": "runs a backward pass",
    "torch.utils.data.DataLoader": "loads data",
    **dict.fromkeys(PROGRESS_BARS, "shows progress"),
}
_DRAWING = ("matplotlib.", "PIL.ImageDraw.")
_OPTIMIZERS = re.compile(r"torch\.optim\.(?!lr_scheduler\.|swa_utils\.)(\w+|\w+\.(step|zero_grad))")
# These count even inside a conditional branch.
_TRAINING = ("runs a backward pass", "steps an optimizer")
_PARALLEL = ("torch.nn.DataParallel", "torch.nn.parallel.DataParallel", "torch.nn.parallel.DistributedDataParallel")
_TEST_FOLDERS = frozenset({"test", "tests", "testing"})
_TEST_FILE = re.compile(r"test_.*|.*_test|conftest")


def suggests_eager(callee: str) -> bool:
    """Return whether calling `callee`, a dotted name, suggests that the code around it is not meant to be compiled."""
    return callee in _TOLD or callee.startswith(_DRAWING) or _OPTIMIZERS.fullmatch(callee) is not None


def _doubt_from(event: Event) -> str:
    """Describe what an event shows its code to be doing, or return an empty string if the code may well be compiled."""
    return _doubt_from_call(event.callee) if isinstance(event, Call) else ""


@cache
def _doubt_from_call(callee: str) -> str:
    if callee.startswith(_DRAWING):
        return "draws"
    # Code that creates an optimizer steps it, too, and may do so in a closure.
    return "steps an optimizer" if _OPTIMIZERS.fullmatch(callee) else _TOLD.get(callee, "")


def doubts_of_roots(interpreter: Interpreter, roots: Collection[FunctionInfo]) -> dict[FunctionInfo, str]:
    """Return the roots that are rarely compiled, each with a reason.

    The reason is the predicate of a sentence whose subject is the root.
    """
    found = {root: _doubt(interpreter, root) for root in roots}
    return {root: doubt for root, doubt in found.items() if doubt}


def _doubt(interpreter: Interpreter, root: FunctionInfo) -> str:
    known = interpreter.doubts.get(root)  # The bodies of functions do not matter, so it is kept in the editor.
    if known is None:
        known = interpreter.doubts[root] = _doubt_from_head(interpreter, root)
    return known or interpreter.forwards.get(root, "")


def _doubt_from_head(interpreter: Interpreter, root: FunctionInfo) -> str:
    project = interpreter.project
    if is_test(root.file.path):
        return "is in a test"
    if root.owner is not None and any(name in _PARALLEL for name in project.lineage(root.owner)[1]):
        return "distributes a model over devices"
    if _takes_module(interpreter, root):
        return "takes a model as an argument"
    return "takes text" if _takes_text(interpreter, root) else ""


def _takes_module(interpreter: Interpreter, function: FunctionInfo) -> bool:
    """Return whether a function's annotations require an `nn.Module` argument."""
    arguments = function.node.args
    return any(
        _is_module(interpreter.scopes.in_scope(one.annotation, function.module, function.parent), interpreter.project)
        for one in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        if one.annotation is not None and one.arg not in function.defaults
    )


def _is_module(annotation: k.Kind, project: Project) -> bool:
    """Return whether an annotation is a module that can be called. Some modules only hold data."""
    if isinstance(annotation, k.Class):
        plain = ("torch.nn.Module", "abc.ABC", "typing.Generic", "typing.Protocol")
        inherits = any(base not in plain for base in project.lineage(annotation.cls)[1])
        forwards = inherits or project.find_method(annotation.cls, "forward") is not None
        return forwards and project.is_module_class(annotation.cls)
    return isinstance(annotation, k.External) and annotation.name == "torch.nn.Module"


def _takes_text(interpreter: Interpreter, function: FunctionInfo) -> bool:
    """Return whether a function's first argument is declared as a list of strings, which have to be preprocessed."""
    first = function.positional[0 if interpreter.method_receiver(function) is None else 1 :][:1]
    kinds = [parameter_kind(interpreter, function, one) for one in first if one.arg not in function.defaults]
    members = [member for kind in kinds for member in kind.members]
    return any(isinstance(one, k.Sequence) for one in members) and all(map(_is_text, members))


def _is_text(kind: k.Kind) -> bool:
    if isinstance(kind, k.Sequence):
        return all(map(_is_text, kind.element.members))
    return isinstance(kind, k.Value) and kind.type == "str"


def is_test(path: Path) -> bool:
    """Return whether a file is one of the project's tests, judging by its name or folder."""
    if _TEST_FILE.fullmatch(path.stem) is not None:
        return True
    if _TEST_FOLDERS.isdisjoint(path.parent.parts):
        return False
    root = project_root(path.parent)  # this looks at every parent folder
    return path.is_relative_to(root) and not _TEST_FOLDERS.isdisjoint(path.relative_to(root).parts[:-1])


def drivers(interpreter: Interpreter) -> Mapping[FunctionInfo, str]:
    """Return the functions that train a model, load data or show progress, and functions that always call these."""
    found: dict[FunctionInfo, str] = {}
    for function, contexts in interpreter.contexts.items():
        for event in (event for context in contexts for event in context.events.values()):
            told = _doubt_from(event)
            if told in _TRAINING or (told and runs_always(event, interpreter.project)):
                found.setdefault(function, told)
    waiting = list(found)
    for function in waiting:
        for caller in _callers(interpreter, function):
            if caller not in found and _always_calls(caller, function, interpreter.project):
                found[caller] = found[function]
                waiting.append(caller)
    return found


def _callers(interpreter: Interpreter, function: FunctionInfo) -> dict[FunctionInfo, None]:
    return {user.function: None for context in interpreter.contexts[function] for user in context.users}


def _always_calls(caller: FunctionInfo, function: FunctionInfo, project: Project) -> bool:
    """Return whether `caller` always calls `function`, outside any conditional branch."""
    parents, kinds = project.parents(caller), project.kinds(caller)
    return any(
        called_function(kinds.get(node.func, k.UNKNOWN), project) is function and not way(node, parents)
        for node in parents
        if isinstance(node, ast.Call)
    )
