"""Small models that are easily repaired wrongly: how they are written down, called, and compared with their fix.

A family is a text file. A model begins with a line of hyphens and its name, what `forward` takes and what the constructor sets:

    --- name | x, m: mask | self.bn = nn.BatchNorm1d(8); self.last = None
    if m.any():
        return self.bn(x)
    return x

Without parameters it takes `x`, a tensor of n rows of 8. What begins with `class`, `def`, `import` or a decorator is a module as it
stands, with a class `M`. The inputs of the comparison are not those that dynalint is given (one example) or draws.
"""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import io
import math
import pickle
import random
import re
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

FAMILIES = Path(__file__).parent / "families"
_IMPORTS = """\
import math
import random

import torch
import torch.nn.functional as F
from torch import nn
"""
_HEAD = f"""\
{_IMPORTS}

class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.w = nn.Parameter(torch.ones(()))
        self.register_buffer("b", torch.zeros(8))
"""
# What a parameter may be: as it is drawn, its annotation, and as an example is written.
_DRAWN: dict[str, tuple[Callable[[int, torch.Generator], Any], str, str]] = {
    "floats": (lambda n, g: torch.randn(n, 8, generator=g), "torch.Tensor", "torch.randn(4, 8)"),
    "unknown": (lambda n, g: torch.randn(n, 8, generator=g), "", "torch.randn(4, 8)"),
    "cube": (lambda n, g: torch.randn(n, 3, 8, generator=g), "torch.Tensor", "torch.randn(4, 3, 8)"),
    "column": (lambda n, g: torch.randn(n, generator=g), "torch.Tensor", "torch.randn(4)"),
    "scalar": (lambda n, g: torch.randn((), generator=g), "torch.Tensor", "torch.randn(())"),
    "one": (lambda n, g: torch.randn(1, generator=g), "torch.Tensor", "torch.randn(1)"),
    "mask": (lambda n, g: torch.rand(n, 8, generator=g) > 0.5, "torch.Tensor", "torch.rand(4, 8) > 0.5"),
    "rows": (lambda n, g: torch.rand(n, generator=g) > 0.5, "torch.Tensor", "torch.rand(4) > 0.5"),
    "ints": (lambda n, g: torch.randint(-3, 4, (n, 8), generator=g), "torch.Tensor", "torch.randint(-3, 4, (4, 8))"),
    "labels": (lambda n, g: torch.randint(0, 8, (n,), generator=g), "torch.Tensor", "torch.randint(0, 8, (4,))"),
    "flag": (lambda n, g: n % 2 == 0, "bool", "True"),
    "number": (lambda n, g: n % 3 - 1, "int", "1"),
}  # fmt: skip
_WHOLE = re.compile(r"(class|def|import|from|@)\b|@")


@dataclass(frozen=True)
class Model:
    """A model: its name, its module, and how its arguments are drawn."""

    name: str
    text: str
    draws: tuple[str, ...]

    def arguments(self, rows: int, generator: torch.Generator) -> list[Any]:
        return [_DRAWN[kind][0](rows, generator) for kind in self.draws]


def models(family: str) -> list[Model]:
    """Read a family."""
    blocks = re.split(r"^---+ ", (FAMILIES / f"{family}.txt").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return [_model(*block.split("\n", 1)) for block in blocks]


def _model(head: str, body: str) -> Model:
    name, taken, made = ([part.strip() for part in head.split("|")] + ["", ""])[:3]
    parameters = [part.partition(":")[::2] for part in (taken or "x").split(",")]
    kinds = tuple(kind.strip() or "floats" for _, kind in parameters)
    body = body.strip("\n")
    if _WHOLE.match(body):
        text = f"{_IMPORTS}\n\n{body}\n"
    else:
        listed = (
            f"{one.strip()}: {_DRAWN[kind][1]}".removesuffix(": ")
            for (one, _), kind in zip(parameters, kinds, strict=True)
        )
        made = "".join(f"        {one.strip()}\n" for one in made.split(";") if one.strip())
        text = f"{_HEAD}{made}\n    def forward(self, {', '.join(listed)}):\n{textwrap.indent(body, ' ' * 8)}\n"
    example = ", ".join(_DRAWN[kind][2] for kind in kinds)
    return Model(name, f"{text}\n\ndef example():\n    return M(), ({example},)\n", kinds)


def loaded(path: Path, name: str) -> ModuleType:
    """Import a file under a name."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


# -- calls


@dataclass
class Seen:
    """What a call did."""

    error: str | None
    outputs: Any
    inputs: list[Any]
    gradients: dict[str, torch.Tensor | None]
    state: dict[str, Any]
    rest: tuple[Any, ...]


def _changed(arguments: list[Any], change: Callable[[torch.Tensor], torch.Tensor]) -> list[Any]:
    floats = (isinstance(one, torch.Tensor) and one.is_floating_point() for one in arguments)
    return [change(one) if float_ else one for one, float_ in zip(arguments, floats, strict=True)]


def calls(model: Model, *, exact: bool) -> Iterator[list[Any]]:
    """Draw the arguments of calls: of several sizes and scales, constant ones, an empty batch."""
    generator = torch.Generator().manual_seed(20)
    changes: list[tuple[int, Callable[[torch.Tensor], torch.Tensor]]] = [
        (4, lambda t: t), (4, lambda t: t.abs() + 0.1), (4, lambda t: -t.abs() - 0.1), (1, lambda t: t * 3), (0, lambda t: t),
        (4, torch.zeros_like), (3, torch.ones_like), (4, lambda t: t * 30 - 4), (2, lambda t: t * 0.01), (5, lambda t: t + 4),
        (4, lambda t: t.round()), (4, lambda t: t.clamp(min=0)), (1, lambda t: t - 9), (6, lambda t: t * 3 + 2),
    ]  # fmt: skip
    for rows, change in changes:
        yield _changed(model.arguments(rows, generator), change)
    for filler in (True, False):
        yield [torch.full_like(one, filler) if isinstance(one, torch.Tensor) and one.dtype == torch.bool else one
               for one in model.arguments(4, generator)]  # fmt: skip
    if exact:
        for special in (float("nan"), float("inf")):
            yield _changed(
                model.arguments(4, generator),
                lambda t, s=special: t.flatten().index_fill(0, torch.arange(1), s).view_as(t),
            )


def observe(module: Any, called: Any, arguments: list[Any], mode: str, *, training: bool) -> Seen:
    """Call a model and say what it did."""
    torch.manual_seed(7)
    random.seed(7)
    arguments = [one.clone() if isinstance(one, torch.Tensor) else one for one in arguments]
    if mode == "half":
        arguments = _changed(arguments, torch.Tensor.bfloat16)
    if mode == "double":
        arguments = _changed(arguments, torch.Tensor.double)
    if mode == "strided":
        arguments = _changed(arguments, lambda t: torch.stack([t, t + 1], -1)[..., 0])
    leaves = [
        one
        for one in arguments
        if mode in ("leaf", "grown") and isinstance(one, torch.Tensor) and one.is_floating_point()
    ]
    for one in leaves:
        one.requires_grad_()
    given = _changed(arguments, lambda t: t * 1) if mode == "grown" else arguments
    module.zero_grad(set_to_none=True)
    printed, error, outputs = io.StringIO(), None, None
    try:
        with contextlib.redirect_stdout(printed), torch.autocast("cpu", torch.bfloat16, enabled=mode == "autocast"):
            outputs = called(*given)
            if training and isinstance(total := _total(outputs), torch.Tensor) and total.requires_grad:
                total.backward()
    except Exception as raised:  # noqa: BLE001 - whatever it is, the fix must raise it too
        error = type(raised).__name__
    gradients = {name: one.grad for name, one in module.named_parameters()}
    gradients |= {f"argument {number}": one.grad for number, one in enumerate(leaves)}
    fields = {name: copy.copy(value) for name, value in vars(module).items() if name[0] != "_" and name != "training"}
    state = {**fields, **{name: one.detach().clone() for name, one in module.named_buffers()}}
    shared = [_memory(one) for one in _tensors(given)]
    aliases = (
        tuple(_memory(one) in shared for one in _tensors(outputs)),
        tuple(any(one is other for other in given) for one in _tensors(outputs)),
    )
    rest = (torch.get_rng_state().tolist(), random.getstate(), printed.getvalue(), sorted(module.state_dict()), aliases)
    return Seen(
        error,
        outputs,
        [one.detach() if isinstance(one, torch.Tensor) else one for one in given],
        gradients,
        state,
        rest,
    )


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [one for part in value for one in _tensors(part)] if isinstance(value, (list, tuple)) else []


def _total(outputs: Any) -> Any:
    floats = [one for one in _tensors(outputs) if one.is_floating_point() and one.requires_grad]
    return sum((one.float().flatten() * torch.linspace(0.5, 1.5, one.numel())).sum() for one in floats)


def _memory(one: torch.Tensor) -> int:
    return one.untyped_storage().data_ptr() if one.numel() else 0


# -- comparing

_ASPECTS = ("random numbers of torch", "random numbers of Python", "printed text", "keys of the state dict", "memory")


def differs(one: Any, other: Any, *, exact: bool, loose: bool, numbers: bool = False) -> str | None:
    """Say how two values differ; None if they do not. `numbers` may be tensors of one element in the second."""
    if numbers and isinstance(other, torch.Tensor) and isinstance(one, (int, float)):
        other = other.item()
        one = type(other)(one)
    if isinstance(one, float) and isinstance(other, float) and not exact:
        one, other = torch.tensor(one).double(), torch.tensor(other).double()
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        # Rules may say that a fix is equal up to rounding, under `exact` too.
        near = 5e-2 if loose else 2e-6 if exact else 2e-3 if one.dtype == torch.half else 1e-4
        try:
            torch.testing.assert_close(other, one, equal_nan=True, rtol=near, atol=near)
        except AssertionError as error:
            return str(error).replace("\n", " ")[:200]
        return None if one.requires_grad == other.requires_grad or not exact else "requires_grad"
    if type(one) is not type(other):
        return f"{type(one).__name__} became {type(other).__name__}"
    if isinstance(one, (list, tuple)):
        if len(one) != len(other):
            return f"{len(one)} became {len(other)}"
        return next(
            (said for pair in zip(one, other, strict=True) if (said := differs(*pair, exact=exact, loose=loose))), None
        )
    if isinstance(one, dict):
        return differs(list(one.items()), list(other.items()), exact=exact, loose=loose)
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one) and math.isnan(other):
        return None
    return f"{one!r} became {other!r}" if isinstance(one, (int, float, str, bool)) and one != other else None


def difference(one: Seen, other: Seen, *, exact: bool, loose: bool) -> str | None:
    """Say how two calls differ; None if they do not."""
    if one.error != other.error:
        return f"raised {one.error}, then {other.error}"
    how = {"exact": exact, "loose": loose}
    pairs = [] if one.error else [("output", one.outputs, other.outputs), ("input", one.inputs, other.inputs)]
    for what, left, right in pairs:
        if said := differs(left, right, **how):
            return f"{what}: {said}"
    for name, value in one.state.items():
        if said := differs(value, other.state.get(name, value), numbers=True, **how):
            return f"state {name}: {said}"
    for name, left in {} if one.error else one.gradients.items():
        right = other.gradients.get(name)
        if exact and (left is None) != (right is None):
            return (
                f"gradient of {name}: {'none' if left is None else 'some'} became {'none' if right is None else 'some'}"
            )
        if left is not None or right is not None:
            filled = [
                part if part is not None else torch.zeros_like(whole) for part, whole in ((left, right), (right, left))
            ]
            if said := differs(*filled, exact=False, loose=loose):
                return f"gradient of {name}: {said}"
    for what, left, right in zip(_ASPECTS, one.rest, other.rest, strict=True):
        if left != right and (what != "memory" or exact):
            return f"{what}: {str(left)[:60]} became {str(right)[:60]}"
    return None


def _is_infinite_now(one: Seen, other: Seen) -> bool:
    finite = any(part.numel() and part.isfinite().all() for part in _tensors(other.outputs))
    return one.error in _INFINITE_NOW and other.error is None and not finite


def _converted(one: Any, other: Any) -> Any:
    """Give zeros the dtype that they have now: one branch of a converted model may have made them in the default dtype."""
    floats = all(isinstance(part, torch.Tensor) and part.is_floating_point() for part in (one, other))
    return one.to(other.dtype) if floats and not one.any() else one


_MODES = ("plain", "leaf", "grown", "strided", "double", "half", "autocast")
# Where an original that does not run promises nothing.
_NARROW = ("half", "autocast")
_CONVERTED = ("double", *_NARROW)
# A quotient or an extreme of nothing may be infinite in a fix where the original raises.
_INFINITE_NOW = ("ZeroDivisionError", "RuntimeError", "IndexError")


def first_difference(model: Model, before: Path, after: Path, *, exact: bool) -> str | None:
    """Call a model and its fix alike; say what differs first, None if nothing does."""
    warnings.simplefilter("ignore")
    modules = loaded(before, f"before_{model.name}"), loaded(after, f"after_{model.name}")
    for training in (True, False):
        for mode in _MODES:
            pair = [_built(module, mode, training=training) for module in modules]
            pair[1].load_state_dict(pair[0].state_dict())
            for number, arguments in enumerate(calls(model, exact=exact)):
                seen = [observe(one, one, arguments, mode, training=training) for one in pair]
                if (seen[0].error and mode in _NARROW) or (not exact and _is_infinite_now(*seen)):
                    continue
                if mode in _CONVERTED and not exact:
                    seen[0].outputs = _converted(seen[0].outputs, seen[1].outputs)
                if said := difference(*seen, exact=exact, loose=mode in _NARROW):
                    return f"{'training' if training else 'evaluation'}, {mode}, call {number}: {said}"
                if number == 2 and mode in ("plain", "double"):
                    pair = [_stored(one) for one in pair]
    return _compiled_difference(model, *modules)


def _built(module: ModuleType, mode: str, *, training: bool) -> Any:
    torch.manual_seed(3)
    random.seed(3)
    built = module.M().train(training)
    return built.bfloat16() if mode == "half" else built.double() if mode == "double" else built


def _stored(one: Any) -> Any:
    """Put a model through pickle, or leave it where its original cannot be."""
    try:
        return pickle.loads(pickle.dumps(one))
    except (AttributeError, TypeError, pickle.PicklingError):
        return one


def _compiled_difference(model: Model, before: ModuleType, after: ModuleType) -> str | None:
    pair = [_built(module, "plain", training=True) for module in (before, after)]
    torch.compiler.reset()
    compiled = torch.compile(pair[1], backend="aot_eager")
    generator = torch.Generator().manual_seed(30)
    for number in range(3):
        arguments = model.arguments(4, generator)
        seen = [
            observe(one, called, arguments, "leaf", training=True)
            for one, called in zip(pair, (pair[0], compiled), strict=True)
        ]
        for one in seen:
            one.rest = ((),) * len(_ASPECTS)
        if said := difference(*seen, exact=False, loose=False) if not seen[0].error else None:
            return f"compiled, call {number}: {said}"
    return None
