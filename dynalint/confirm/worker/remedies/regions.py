"""Parts of a model to compile by themselves, and functions to leave out: what can be done where a break must stay."""

from __future__ import annotations

import inspect
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..dynamo.records import Run
from ..dynamo.reports import resumed
from ..dynamo.runs import Call, Maker, clone_inputs, force_eager, fresh_callable, fullgraph_run, user_compile
from ..source.loading import file_of, is_below

_MOST_BOUNDARIES = 6
_INDEX = re.compile(r"(.*)\.(\d+)$")


@dataclass(frozen=True)
class Boundary:
    """A function of the user's own that can be left out; `owner` is the class or module that holds it."""

    owner: Any
    attribute: str
    name: str
    place: str

    @property
    def lines(self) -> tuple[str, ...]:
        """What the user would write."""
        return "@torch.compiler.disable", f"def {self.attribute}(...):  # {self.place}"


@contextmanager
def disabled(boundary: Boundary) -> Iterator[None]:
    """Leave a function out of what is compiled."""
    function = vars(boundary.owner)[boundary.attribute]
    setattr(boundary.owner, boundary.attribute, torch.compiler.disable(function))
    try:
        yield
    finally:
        setattr(boundary.owner, boundary.attribute, function)


def boundaries(run: Run, roots: Iterable[str], make: Maker) -> list[Boundary]:
    """Return the user's own functions that breaks lie in, those with the most breaks first, the root left out."""
    folders = [Path(root).resolve() for root in roots]
    function = fresh_callable(make)
    root = inspect.unwrap(function.forward if isinstance(function, nn.Module) else function)
    root_code = getattr(root, "__code__", None)
    counts: dict[tuple[str, int], int] = {}
    for found in run.breaks:
        for frame in dict.fromkeys((frame.file, frame.line) for frame in found.stack):
            counts[frame] = counts.get(frame, 0) + 1
    weights: dict[Boundary, int] = {}
    for (file, line), count in counts.items():
        if not any(is_below(Path(file).resolve(), folder) for folder in folders):
            continue
        for boundary, code in _functions_of(file):
            if code is not root_code and any(number == line for _, _, number in code.co_lines()):
                weights[boundary] = weights.get(boundary, 0) + count
    return sorted(weights, key=lambda boundary: -weights[boundary])[:_MOST_BOUNDARIES]


def _functions_of(file: str) -> Iterator[tuple[Boundary, types.CodeType]]:
    """Yield the functions and methods that the modules of a file hold."""
    for module in list(sys.modules.values()):
        if file_of(module) != file:
            continue
        classes = [value for value in vars(module).values() if isinstance(value, type)]
        for owner in (module, *(cls for cls in classes if cls.__module__ == module.__name__)):
            for name, value in list(vars(owner).items()):
                # Dynamo keeps the functions that it goes on with beside the user's own.
                own = (
                    isinstance(value, types.FunctionType) and resumed(value.__code__.co_name) == value.__code__.co_name
                )
                if own and value.__code__.co_filename == file:
                    place = f"{Path(file).name}:{value.__code__.co_firstlineno}"
                    yield Boundary(owner, name, value.__qualname__, place), value.__code__


def clean_regions(make: Maker, call: Call, enough: Callable[[], bool]) -> tuple[str, ...]:
    """Return the names of the largest submodules that compile whole, none inside of another, until it is enough."""
    model = fresh_callable(make)
    if not isinstance(model, nn.Module):
        return ()
    seen = _calls_of_parts(model, call)
    found: list[str] = []

    def visit(prefix: str, module: nn.Module) -> None:
        for name, child in module.named_children():
            path = f"{prefix}.{name}" if prefix else name
            if enough():
                return
            if path in seen and not _is_layer(child) and _is_clean(make, path, seen[path]):
                found.append(path)
            else:
                visit(path, child)

    visit("", model)
    return tuple(found)


def _is_layer(module: nn.Module) -> bool:
    """Whether it is a layer of torch's own, which is too little for a graph of its own."""
    return _is_torchs(module) and next(module.children(), None) is None


def _is_clean(make: Maker, path: str, call: Call) -> bool:
    return fullgraph_run(partial(_part, make, path), [call]).error is None


def _part(make: Maker, path: str) -> Any:
    return fresh_callable(make).get_submodule(path)  # type: ignore[attr-defined]


def _calls_of_parts(model: nn.Module, call: Call) -> dict[str, Call]:
    """Return the first call of each submodule while the model runs without a compiler."""
    seen: dict[str, Call] = {}

    def note(path: str, _module: nn.Module, args: Any, kwargs: Any) -> None:
        if path not in seen:
            seen[path] = clone_inputs((args, kwargs))

    handles = [
        module.register_forward_pre_hook(partial(note, path), with_kwargs=True)
        for path, module in model.named_modules()
        if path
    ]
    try:
        args, kwargs = clone_inputs(call)
        with force_eager():
            model(*args, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
    return seen


def compile_regions(make: Maker, names: Sequence[str]) -> tuple[list[str], Callable[[Any, Any], Any]]:
    """Return the code that compiles these submodules, and what does so to a model."""

    def compiler(model: Any, backend: Any) -> Any:
        for name in names:
            part: Any = model.get_submodule(name)
            if _is_torchs(part):
                part.forward = user_compile(part.forward, backend=backend, fullgraph=True)
            else:
                # What `Module.compile` does; `torch.compile` itself is ours in the worker.
                run = user_compile(part._call_impl, backend=backend, fullgraph=True)  # noqa: SLF001
                part._compiled_call_impl = run  # noqa: SLF001
        return model

    return _worded(names, fresh_callable(make)), compiler


def _is_torchs(part: nn.Module) -> bool:
    """Whether it is of a class of torch's own, such as `nn.Sequential`: `Module.compile` finds no frame in those."""
    return type(part).__module__.startswith("torch.")


def _line(path: str, part: nn.Module) -> str:
    if _is_torchs(part):
        return f"{path}.forward = torch.compile({path}.forward, fullgraph=True)"
    return f"{path}.compile(fullgraph=True)"


def _worded(names: Sequence[str], model: Any) -> list[str]:
    """Return the lines of code, a loop for a list of which all are compiled."""
    lists: dict[str, list[int]] = {}
    for name in names:
        match = _INDEX.match(name)
        if match:
            lists.setdefault(match[1], []).append(int(match[2]))
    lines: list[str] = []
    for name in names:
        match = _INDEX.match(name)
        whole = match is not None and len(lists[match[1]]) == len(list(model.get_submodule(match[1]).children()))
        if match is None or not whole:
            lines.append(_line(_path(name), model.get_submodule(name)))
        elif match[2] == "0":
            lines += [f"for part in {_path(match[1])}:", f"    {_line('part', model.get_submodule(name))}"]
    return lines


def _path(name: str) -> str:
    return "model." + re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", name)
