"""Optional arguments that the code works out by itself where it is given none, and breaks the graph in doing so.

    def forward(self, ids, positions=None):
        if positions is None:
            positions = self.positions_of(ids)  # breaks

Where `positions` is computed before the compiled code and handed over, nothing of this is traced. So it is with what
the code takes from its keywords, see `handed_keywords`.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator, Sequence
from functools import partial
from types import CodeType, FrameType
from typing import Any, TypeGuard

import torch
from torch import nn
from torch.utils import _pytree as pytree

from ..comparing.compiled import compare
from ..dynamo.records import Run
from ..dynamo.runs import Call, Maker, call_once, fresh_callable
from ..inputs.search import parameters_of
from .optional_keywords import Keywords, keywords_worked_out
from .settings import Setting, Shapes, handing, shapes_of

_Found = dict[str, tuple[CodeType, Any]]
# A tensor of whole numbers with no more elements may be one of sizes.
_FEW = 64


def arguments_worked_out(make: Maker, calls: Sequence[Call], run: Run) -> Iterator[Setting]:
    """Yield the optional arguments that breaks of `run` lie in the computing of, with what they come to.

    Each is handed over in eager code first: what changes results, gradients or state is none.
    """
    broken = {(frame.file, frame.line) for found in run.breaks for frame in found.stack}
    distinct = {shapes_of(call): call for call in calls}
    seen = {shapes: _worked_out(make, call) for shapes, call in distinct.items()}
    names = set.intersection(*(set(found) for found in seen.values())) if seen else set()
    for name in sorted(names):
        code = next(iter(seen.values()))[name][0]
        if not any((code.co_filename, line) in broken for line in _lines(code, name)):
            continue
        given = {shapes: {name: found[name][1]} for shapes, found in seen.items()}
        together = compare(make, list(distinct.values()), partial(handing, given=given))
        if together.same:
            yield Setting(
                f"{name} handed over",
                f"model(..., {name}={name})",
                given=given,
                note=f"Compute `{name}` for each input before, as `{_shown(code)}` does where it is given none.",
            )


def keywords_handed(make: Maker, calls: Sequence[Call], run: Run) -> Iterator[Setting]:
    """Yield one setting, if any, that hands over all keywords which breaks of `run` lie in the computing of.

    Each is handed over in eager code first, under the name by which it arrives: what changes results, gradients or
    state is none.
    """
    broken = {(frame.file, frame.line) for found in run.breaks for frame in found.stack}
    distinct = {shapes_of(call): call for call in calls}
    seen = {shapes: keywords_worked_out(fresh_callable(make), call) for shapes, call in distinct.items()}
    given: dict[Shapes, dict[str, Any]] = {shapes: {} for shapes in seen}
    taken: dict[str, None] = {}
    for group in next(iter(seen.values()), {}):
        if not any((group.code.co_filename, line) in broken for _, _, line in group.code.co_lines()):
            continue
        if not all(group in found and _is_data(found[group]) for found in seen.values()):
            continue
        for prefix in dict.fromkeys((group.prefix, "")):
            names = [prefix + name for name in group.names]
            more = {
                shapes: given[shapes] | dict(zip(names, _detached(found[group]), strict=True))
                for shapes, found in seen.items()
            }
            arrive = all(_arrives(make, call, more[shapes], group) for shapes, call in distinct.items())
            if arrive and compare(make, list(distinct.values()), partial(handing, given=more)).same:
                given = more
                taken[_shown(group.code)] = None
                break
    names = list(next(iter(given.values()), {}))
    if names:
        verb = "do where they are" if len(taken) > 1 else "does where it is"
        yield Setting(
            f"{_listed(names)} handed over",
            f"model(..., {', '.join(f'{name}={name}' for name in names)})",
            given=given,
            note=f"Compute {_listed(names)} for each input before, as {_listed(list(taken))} {verb} given none.",
        )


def numbers_as_lists(make: Maker, calls: Sequence[Call], run: Run) -> Iterator[Setting]:
    """Yield each argument that may as well be a list of numbers: the code reads it, and works with what it reads.

    It is handed over so in eager code first: what changes results, gradients or state is none.
    """
    distinct = {shapes_of(call): call for call in calls}
    for name in sorted(calls[0][1]) if run.breaks else ():
        values = {shapes: call[1].get(name) for shapes, call in distinct.items()}
        given = {shapes: {name: value.tolist()} for shapes, value in values.items() if _may_be_sizes(value)}
        if len(given) == len(values) and compare(make, list(distinct.values()), partial(handing, given=given)).same:
            yield Setting(
                f"`{name}` as a list",
                f"model(..., {name}={name}.tolist())",
                given=given,
                note=f"It is compiled anew for other numbers in `{name}`.",
            )


def _may_be_sizes(value: Any) -> TypeGuard[torch.Tensor]:
    whole = isinstance(value, torch.Tensor) and value.dtype in (torch.int32, torch.int64)
    return bool(whole and value.dim() > 0 and value.numel() <= _FEW)


def _arrives(make: Maker, call: Call, given: dict[str, Any], group: Keywords) -> bool:
    """Whether a function finds its keywords where the model is handed them."""
    args, kwargs = call
    return group not in keywords_worked_out(fresh_callable(make), (args, {**kwargs, **given}))


def _listed(names: Sequence[str]) -> str:
    *most, last = [f"`{name}`" for name in names]
    return f"{', '.join(most)} and {last}" if most else last


def _shown(code: CodeType) -> str:
    return str(getattr(code, "co_qualname", code.co_name))


def _worked_out(make: Maker, call: Call) -> _Found:
    """Return what optional arguments that a call leaves out come to, and in which code, the outermost that does it."""
    function = fresh_callable(make)
    target = function.forward if isinstance(function, nn.Module) else function
    parameters = parameters_of(target)
    taken = {one.name for one in parameters[: len(call[0])]} | {
        name for name, value in call[1].items() if value is not None
    }
    wanted = {one.name for one in parameters if one.default is None and one.name not in taken}
    entered: dict[FrameType, list[str]] = {}
    found: _Found = {}

    def watch(frame: FrameType, event: str, result: Any) -> None:
        code = frame.f_code
        if event == "call":
            names = wanted.intersection(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
            missing = [name for name in names if frame.f_locals.get(name, wanted) is None]
            if missing:
                entered[frame] = missing
        elif event == "return" and result is not None:
            for name in entered.pop(frame, ()):
                if frame.f_locals.get(name) is not None:
                    found[name] = code, frame.f_locals[name]

    if not wanted:
        return {}
    with torch.enable_grad():
        sys.setprofile(watch)
        try:
            call_once(function, call)
        finally:
            sys.setprofile(None)
    return {name: (code, _detached(value)) for name, (code, value) in found.items() if _is_data(value)}


def _is_data(value: Any) -> bool:
    """Whether a value holds tensors of which no gradient is asked, and besides plain values alone."""
    leaves = pytree.tree_leaves(value)
    tensors = [one for one in leaves if isinstance(one, torch.Tensor)]
    plain = all(isinstance(one, torch.Tensor | int | float | str | None) for one in leaves)
    return bool(tensors) and plain and not any(one.requires_grad for one in tensors)


def _detached(value: Any) -> Any:
    return pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.detach().clone(), value)


def _lines(code: CodeType, name: str) -> set[int]:
    """Return the lines of a function that work out a value for a name: those that bind it, and the branches around."""
    try:
        lines, first = inspect.getsourcelines(code)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError):
        return set()
    found: set[int] = set()
    for node in ast.walk(tree):
        binds = isinstance(node, ast.Assign | ast.AnnAssign) and _binds(node, name)
        decides = (
            isinstance(node, ast.If) and _mentions(node.test, name) and any(_binds(one, name) for one in node.body)
        )
        if binds or decides:
            found.update(range(node.lineno + first - 1, (node.end_lineno or node.lineno) + first))  # type: ignore[attr-defined]
    return found


def _binds(node: ast.AST, name: str) -> bool:
    return any(
        isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Store) for one in ast.walk(node)
    )


def _mentions(node: ast.AST, name: str) -> bool:
    return any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(node))
