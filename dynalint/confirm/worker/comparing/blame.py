"""Find the innermost module that gives different results when compiled alone, and the line responsible."""

from __future__ import annotations

import inspect
import re
import time
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from ..dynamo.records import EagerComparison, StackFrame
from ..dynamo.runs import Call, Maker, fresh_callable
from ..source.loading import is_below
from .compiled import Compiler, Mode, RunPlan, compared, usual


def place_of(
    make: Maker, calls: Sequence[Call], found: EagerComparison, roots: Iterable[str], seconds: float
) -> StackFrame | None:
    """Return where in the user's own code a difference originates, or None if no user code is responsible.

    For each of the user's own module classes in the callable, a submodule is compiled alone, innermost first. The first
    submodule that differs is responsible. The search stops after `seconds`.
    """
    deadline = time.process_time() + seconds
    eager = RunPlan(make, calls, Mode(grad=found.training, evaluation=found.evaluation))
    function = fresh_callable(make)
    folders = [Path(root) for root in roots]
    for name, code in _parts(function, folders):
        if time.process_time() > deadline:
            break
        if not compared(eager, replace(eager, compiler=_part_compiler(name))).same:
            return _frame(code, found.what)
    whole = _code_of(function)
    return _frame(whole, found.what) if whole is not None and _is_own(whole, folders) else None


def _parts(function: Callable[..., Any], folders: Sequence[Path]) -> Iterator[tuple[str, types.CodeType]]:
    """Yield a submodule for each `forward` in the user's own code, deepest first."""
    modules = list(function.named_modules())[1:] if isinstance(function, nn.Module) else []
    seen: set[types.CodeType] = set()
    for name, module in sorted(modules, key=lambda item: -item[0].count(".")):
        code = _code_of(module)
        if code is not None and code not in seen and _is_own(code, folders):
            seen.add(code)
            yield name, code


def _code_of(function: Callable[..., Any]) -> types.CodeType | None:
    called = type(function).forward if isinstance(function, nn.Module) else function
    code = getattr(inspect.unwrap(called), "__code__", None)
    return code if isinstance(code, types.CodeType) else None


def _is_own(code: types.CodeType, folders: Iterable[Path]) -> bool:
    path = Path(code.co_filename).resolve()
    return any(is_below(path, folder) for folder in folders)


def _part_compiler(name: str) -> Compiler:
    """Return a compiler that compiles only a single submodule."""

    def compile_part(function: Callable[..., Any]) -> Callable[..., Any]:
        module: Any = function
        part = module.get_submodule(name)
        part.forward = usual(part.forward)
        return function

    return compile_part


def _frame(code: types.CodeType, what: str) -> StackFrame:
    """Return the first line that mentions the differing state or, if there is none, the function's first line."""
    file = str(Path(code.co_filename).resolve())
    try:
        lines, first = inspect.getsourcelines(code)
    except (OSError, TypeError):
        return StackFrame(file, code.co_firstlineno, code.co_name)
    state = re.match(r"(?:buffer|attribute) (?:\w+\.)*(\w+)$", what)
    pattern = rf"\bself\.{state[1]}\b" if state is not None else rf"\s*(?:async )?def {code.co_name}\b"
    at = next((at for at, line in enumerate(lines) if re.search(pattern, line)), 0)
    return StackFrame(file, first + at, code.co_name)
