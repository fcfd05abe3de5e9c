"""Dynamo settings that avoid breaks and recompilations: which ones may help, and how to apply them."""

from __future__ import annotations

import builtins
import linecache
import logging
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import _dynamo as dynamo
from torch import nn

from ..inputs.search import parameters_of
from .records import Run
from .runs import Call, user_compile

_CONFIG = "torch._dynamo.config"
_LOGGERS = "debug info warning error exception critical log".split()


@dataclass(frozen=True)
class Setting:
    """A setting, with the line of code that applies it.

    `config` are values in Dynamo's configuration. Sets are added to the existing value. `options` are passed to
    `torch.compile`. `dynamic` lists the (position or name, dimension) pairs to mark as dynamic. `note` describes the
    setting's side effects.
    """

    name: str
    line: str
    config: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    dynamic: tuple[tuple[int | str, int], ...] = ()
    note: str = ""


@contextmanager
def in_force(settings: Iterable[Setting]) -> Iterator[None]:
    """Apply the configuration of all settings."""
    values: dict[str, Any] = {}
    for setting in settings:
        for name, value in setting.config.items():
            known = values.get(name, getattr(dynamo.config, name))
            values[name] = known | value if isinstance(value, set) else value
    with ExitStack() as stack:
        if values:
            stack.enter_context(dynamo.config.patch(values))
        yield


def compiled(function: Callable[..., Any], settings: Sequence[Setting], backend: Any, **options: Any) -> Any:
    """Compile with the options of all settings. Dimensions are marked on each call."""
    for setting in settings:
        options.update(setting.options)
    run = user_compile(function, backend=backend, **options)
    marks = [mark for setting in settings for mark in setting.dynamic]
    if not marks:
        return run

    def marking(*args: Any, **kwargs: Any) -> Any:
        for where, dimension in marks:
            dynamo.mark_dynamic(args[where] if isinstance(where, int) else kwargs[where], dimension)
        return run(*args, **kwargs)

    return marking


def relevant(function: Callable[..., Any], calls: Sequence[Call], run: Run) -> list[Setting]:
    """Return the settings that may avoid a run's breaks and recompilations. Those with the least effect come first."""
    found: list[Setting] = []
    if run.breaks:
        found += map(_switch, _known("capture_scalar_outputs", "capture_dynamic_output_shape_ops"))
        found += _logging(run)
        if isinstance(function, nn.Module) and any(isinstance(part, nn.RNNBase) for part in function.modules()):
            found += map(_switch, _known("allow_rnn"))
    if run.recompiles:
        if any(re.search(r" == -?\d+", str(one.recompile)) for one in run.recompiles):
            found += map(_switch, _known("allow_unspec_int_on_nn_module"))
        found += _marks(function, calls)
        found.append(Setting("dynamic", "torch.compile(model, dynamic=True)", options={"dynamic": True}))
    return found


def _known(*names: str) -> list[str]:
    """Return the names that exist in this torch release."""
    return [name for name in names if hasattr(dynamo.config, name)]


def _switch(name: str) -> Setting:
    return Setting(name, f"{_CONFIG}.{name} = True", config={name: True})


def _logging(run: Run) -> Iterator[Setting]:
    """Yield settings that allow the printing and logging calls on the lines that break."""
    called: dict[str, Any] = {}
    for found in run.breaks:
        for frame in found.stack[-1:]:
            called.update(_writers(linecache.getline(frame.file, frame.line)))
    for name, function in called.items():
        if not name.startswith("logging.") and _known("reorderable_logging_functions"):
            yield Setting(
                f"reorderable_logging_functions: {name}",
                f"{_CONFIG}.reorderable_logging_functions.add({name})",
                config={"reorderable_logging_functions": {function}},
                note=f"The output of {name} appears after the graph has run.",
            )
    for name, function in called.items():
        for key in _known("ignore_logging_functions", "ignore_logger_methods")[:1]:
            yield Setting(
                f"{key}: {name}",
                f"{_CONFIG}.{key}.add({name})",
                config={key: {function}},
                note=f"Compiled code does not call {name}.",
            )


def _writers(line: str) -> Iterator[tuple[str, Any]]:
    if re.search(r"(?<![\w.])print\(", line):
        yield "print", builtins.print
    if re.search(r"\bwarn\(", line):
        yield "warnings.warn", warnings.warn
    for module, name in re.findall(rf"(\w+)\.({'|'.join(_LOGGERS)})\(", line):
        owner: Any = logging if module == "logging" else logging.Logger
        yield f"{'logging' if module == 'logging' else 'logging.Logger'}.{name}", getattr(owner, name)


def _marks(function: Callable[..., Any], calls: Sequence[Call]) -> Iterator[Setting]:
    """Yield marks for the dimensions that differ between the first and last call."""
    (args, kwargs), (other_args, other_kwargs) = calls[0], calls[-1]
    target = function.forward if isinstance(function, nn.Module) else function
    names = [parameter.name for parameter in parameters_of(target)]
    marks: list[tuple[int | str, int]] = []
    lines = []
    pairs: list[tuple[int | str, Any, Any]] = [
        (at, one, other) for at, (one, other) in enumerate(zip(args, other_args, strict=False))
    ]
    pairs += [(name, one, other_kwargs.get(name)) for name, one in kwargs.items()]
    for where, one, other in pairs:
        if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) and one.dim() == other.dim():
            name = names[where] if isinstance(where, int) and where < len(names) else str(where)
            for dimension in range(one.dim()):
                if one.shape[dimension] != other.shape[dimension]:
                    marks.append((where, dimension))
                    lines.append(f"torch._dynamo.mark_dynamic({name}, {dimension})")
    if marks:
        yield Setting("mark_dynamic", "\n".join(lines), dynamic=tuple(marks))
