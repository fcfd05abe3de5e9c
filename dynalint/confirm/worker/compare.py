"""Does compiled code compute what the code itself computes? Values, gradients and state, over several calls.

Some code traces whole and is silently wrong: an in-place buffer whose value reaches autograd, a `deque(maxlen)`, a
0-dim float64 buffer. Only a comparison shows it. The compiled side runs on `aot_eager`, which does all that happens to
a graph before code is generated.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from .records import Comparison
from .witness import Call, Maker, clone_inputs, force_eager, fresh_callable, user_compile

Observation = dict[str, Any]

_PLAIN = (int, float, bool, str, type(None))
_CLOSE = {"rtol": 1e-4, "atol": 1e-5, "equal_nan": True}


Compiler = Callable[[Callable[..., Any]], Callable[..., Any]]


def compare(make: Maker, calls: Sequence[Call], compiler: Compiler | None = None) -> Comparison:
    """Run `calls` with and without the compiler, with gradients and without, and compare after each call.

    `compiler` returns a callable compiled, by default with `aot_eager` and nothing else. What the code itself computes
    differently in two runs of its own is not compared (`stable` is then False).
    """
    stable, gradients = True, False
    for grad in (True, False):
        expected = _observe(make, calls, None, grad=grad)
        if grad and "exception" in expected[-1]:
            # An in-place update of an input is an error once that input asks for gradients.
            continue
        again = _observe(make, calls, None, grad=grad)
        if _first_difference(expected, again) is not None:
            stable = False
            continue
        gradients = gradients or any(name.startswith("gradient") for seen in expected for name in seen)
        found = _observe(make, calls, compiler or _usual, grad=grad)
        difference = _first_difference(expected, found)
        if difference is not None:
            call, name, detail = difference
            return Comparison(False, stable, gradients, call, name, detail, grad)
    return Comparison(True, stable, gradients)


def _usual(function: Callable[..., Any]) -> Callable[..., Any]:
    compiled: Callable[..., Any] = user_compile(function, backend="aot_eager")
    return compiled


def _observe(make: Maker, calls: Sequence[Call], compiler: Compiler | None, *, grad: bool) -> list[Observation]:
    """Run all calls and return what could be seen after each; an exception is the last thing seen."""
    torch.compiler.reset()
    seen: list[Observation] = []
    try:
        function = fresh_callable(make)
        run = function if compiler is None else compiler(function)
        for number, call in enumerate(calls):
            torch.manual_seed(number)
            random.seed(number)
            args, kwargs = _inputs(call, grad=grad)
            with force_eager() if compiler is None else nullcontext(), torch.set_grad_enabled(grad):
                result = run(*args, **kwargs)
                seen.append(_look(function, result, (args, kwargs), grad=grad))
    except Exception as error:  # noqa: BLE001 - what user code raises is compared like a result
        seen.append({"exception": type(error).__name__, "message": str(error)})
    finally:
        torch.compiler.reset()
    return seen


def _inputs(call: Call, *, grad: bool) -> Any:
    def ask(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.requires_grad_() if grad and tensor.is_floating_point() else tensor

    return pytree.tree_map_only(torch.Tensor, ask, clone_inputs(call))


def _look(function: Callable[..., Any], result: Any, inputs: Any, *, grad: bool) -> Observation:
    """Collect the results, the gradients of inputs and parameters, and the state that the call left."""
    seen: Observation = {}
    leaves = pytree.tree_leaves(result)
    for at, leaf in enumerate(leaves):
        if isinstance(leaf, (torch.Tensor, *_PLAIN)):
            seen[f"result {at}" if len(leaves) > 1 else "result"] = _frozen(leaf)
    owner = function if isinstance(function, nn.Module) else getattr(function, "__self__", None)
    module = owner if isinstance(owner, nn.Module) else None
    if grad:
        sources = {f"input {at}": leaf for at, leaf in enumerate(pytree.tree_leaves(inputs))}
        sources.update({} if module is None else dict(module.named_parameters()))
        seen.update(_gradients(leaves, sources))
    for at, leaf in enumerate(pytree.tree_leaves(inputs)):
        if isinstance(leaf, torch.Tensor):
            seen[f"input {at} after the call"] = _frozen(leaf)
    if module is not None:
        seen.update(_state(module))
    return seen


def _gradients(results: list[Any], sources: dict[str, Any]) -> Observation:
    """Differentiate a fixed weighted sum of all results, and forget the gradients."""
    total: Any = None
    for leaf in results:
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad and leaf.is_floating_point():
            weights = torch.linspace(0.5, 1.5, leaf.numel(), dtype=leaf.dtype, device=leaf.device)
            part = (leaf * weights.reshape(leaf.shape)).sum().double()
            total = part if total is None else total + part
    if total is None:
        return {}
    total.backward()
    seen: Observation = {}
    for name, tensor in sources.items():
        gradient = tensor.grad if isinstance(tensor, torch.Tensor) and tensor.is_leaf else None
        if gradient is not None:
            seen[f"gradient of {name}"] = gradient.detach().clone()
            tensor.grad = None
    return seen


def _state(module: nn.Module) -> Observation:
    seen: Observation = {f"buffer {name}": _frozen(buffer) for name, buffer in module.named_buffers()}
    for prefix, part in module.named_modules():
        for name, value in vars(part).items():
            where = f"{prefix}.{name}" if prefix else name
            if not name.startswith("_") and isinstance(value, (torch.Tensor, list, deque, *_PLAIN)):
                seen[f"attribute {where}"] = _frozen(value)
    return seen


def _frozen(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, (list, deque)):
        return [_frozen(item) for item in value if isinstance(item, (torch.Tensor, *_PLAIN))]
    return value


def _first_difference(expected: list[Observation], found: list[Observation]) -> tuple[int, str, str] | None:
    """Return call, name and words for the first thing that is not the same, None where all is."""
    for call, (one, other) in enumerate(zip(expected, found, strict=False)):
        if "exception" in one or "exception" in other:
            if one.get("exception") == other.get("exception") or "exception" in one:
                continue
            return call, "exception", f"it raises {other['exception']}: {other['message'].splitlines()[0][:200]}"
        for name in one.keys() | other.keys():
            if name not in one or name not in other or not _equal(one[name], other[name]):
                return call, name, _difference(one.get(name), other.get(name))
    return None


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        if one.is_floating_point() or one.is_complex():
            return bool(torch.allclose(one, other, **_CLOSE))
        return bool(torch.equal(one, other))
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other) or (one != one and other != other)  # noqa: PLR0124 - NaN


def _difference(one: Any, other: Any) -> str:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) and one.shape == other.shape and one.numel():
        worst = int((one.double() - other.double()).abs().nan_to_num(torch.inf).argmax())
        return f"{other.reshape(-1)[worst].item():.6g} compiled, {one.reshape(-1)[worst].item():.6g} without"
    return f"{_short(other)} compiled, {_short(one)} without"


def _short(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{value.dtype}{list(value.shape)}".removeprefix("torch.")
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
