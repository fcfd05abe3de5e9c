"""Run code from documentation, statement by statement, skipping statements that fail."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import nn

from ..inputs.large_models import LARGE, TooLargeError, limited_parameters, small_defaults, too_large
from ..source import loading
from .calls import EnoughError, Harvest
from .processor_time import limited
from .smaller_code import smaller

# The processor time for a snippet, and the time for which it may wait, in seconds.
_SECONDS, _WAITING = 8.0, 4.0
# Errors that other sizes may avoid.
_SIZE = re.compile(r"AssertionError|IndexError|KeyError: .*\d|RuntimeError|ValueError|ZeroDivisionError|.*Einops")


def run_snippets(snippets: Iterable[Mapping[str, Any]], harvest: Harvest, *, patient: bool) -> None:
    """Run each snippet with the surrounding names defined, until the harvest needs no more calls.

    If `patient` is true, each snippet gets its time no matter how long those before it took without new calls.
    """
    for snippet in snippets:
        if harvest.over:
            return
        harvest.start(snippet["where"])
        try:
            names = _names(snippet)
        except BaseException:  # noqa: BLE001, S112 - user code; `Harvest.install` has recorded why it cannot be imported
            continue
        # Docstrings often leave out these imports.
        scope = {"torch": torch, "nn": nn, "F": nn.functional, **names, "__name__": "__main__"}
        problems: list[str] = []
        try:
            with limited(_SECONDS, _WAITING):
                _run_versions(snippet["code"], scope, problems, harvest, patient=patient)
        except EnoughError:
            return
        except SyntaxError:
            continue
        except BaseException as error:  # noqa: BLE001 - user code may raise anything
            problems.append(f"{type(error).__name__}: {error}")
        for one in problems:
            harvest.note(harvest.where, one)


def _run_versions(code: str, scope: Mapping[str, Any], problems: list[str], harvest: Harvest, *, patient: bool) -> None:
    """Run versions of the code, smallest first, until one does not fail because of its sizes.

    If a model is large, run them again with smaller default arguments. `problems` are those of the last version.
    """
    for models, most in ((nullcontext, LARGE), (partial(_small_models, harvest), too_large())):
        for tree in smaller(code):
            if patient:
                harvest.begin(_SECONDS)
            problems.clear()
            torch.manual_seed(0)
            with models(), limited_parameters(most):
                _run(tree.body, dict(scope), problems)
            if not any(map(_SIZE.match, problems)):
                break
        if not any(one.startswith(TooLargeError.__name__) for one in problems):
            break


def _small_models(harvest: Harvest) -> AbstractContextManager[None]:
    modules = loading.modules_below(harvest.roots)
    return small_defaults({one for module in modules for one in vars(module).values() if isinstance(one, type)})


def _names(snippet: Mapping[str, Any]) -> dict[str, Any]:
    """Return the names in the target's module and, if it is imported, in the module that contains the docstring.

    Raises whatever the target's module raises when it is imported.
    """
    target = snippet["target"]
    names = dict(vars(loading.load_module(target["path"], target["module"])))
    for module in list(sys.modules.values()):
        file = loading.file_of(module)
        if file is not None and loading.real_path(file) == snippet["file"]:
            names.update(vars(module))
    return names


def _run(body: list[ast.stmt], scope: dict[str, Any], problems: list[str]) -> None:
    """Run the statements, and add to `problems` the reasons why some of them failed."""
    sys.argv = ["example"]
    missing: set[str] = set()
    for statement in body:
        module = ast.fix_missing_locations(ast.Module([statement], []))
        try:
            exec(compile(module, "<example>", "exec"), scope)  # noqa: S102
        except TimeoutError:
            raise
        except Exception as error:  # noqa: BLE001 - user code may raise anything
            missing |= _bound(statement) - scope.keys()
            if isinstance(error, NameError) and error.name in missing:
                continue  # the statement that should have bound the name has failed, which has been noted
            problems.append(f"{type(error).__name__}: {error}")


def _bound(statement: ast.stmt) -> set[str]:
    """Return the names that a statement binds, in any scope."""
    names = {one.id for one in ast.walk(statement) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    aliases = (one for one in ast.walk(statement) if isinstance(one, ast.alias))
    return names | {one.asname or one.name.partition(".")[0] for one in aliases}
