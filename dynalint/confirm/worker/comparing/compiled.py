"""Check that compiled code gives the same results as eager code: values, gradients and state, over repeated calls.

Some code traces without a break and silently gives wrong results, such as an in-place buffer update whose value reaches
autograd, a `deque(maxlen)`, or a 0-dim float64 buffer. Only a comparison shows this. Compiled code runs on `aot_eager`,
which includes every step before code generation, even the backward pass.

A difference is ignored if eager runs also differ from each other when they are repeated, when they use other random
numbers, or when the last digits of inputs and parameters change.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from ..dynamo import runs
from ..dynamo.records import EagerComparison
from ..dynamo.runs import Call, Maker, clone_inputs, force_eager, fresh_callable, user_compile
from .differences import close

Observation = dict[str, Any]
Difference = tuple[int, str, str]

_PLAIN = (int, float, bool, str, type(None))
_OTHER_SEEDS = 1000
_LAST_DIGITS = 1e-6
# The error allowed for numbers that cancel out, regardless of the size of their terms.
_ROUNDING = {"rtol": 1e-4, "atol": 1e-5, "equal_nan": True}


Compiler = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True)
class Mode:
    """A mode: with a backward pass or without gradients, and in evaluation mode or as the module was built."""

    grad: bool
    evaluation: bool = False

    def callable_of(self, make: Maker) -> Callable[..., Any]:
        """Build the callable in this mode."""
        function = fresh_callable(make)
        module = _module_of(function)
        if self.evaluation and module is not None:
            module.eval()
        return function


_MODES = (Mode(grad=True), Mode(grad=False), Mode(grad=False, evaluation=True))


def compare(make: Maker, calls: Sequence[Call], compiler: Compiler | None = None) -> EagerComparison:
    """Run `calls` in eager mode and compiled, with and without gradients, and compare after each call.

    `compiler` compiles a callable and defaults to `aot_eager`. A module runs in the mode that it was built in, and also
    in evaluation mode if its results are different there. `stable` is False if eager runs differ from each other.
    """
    stable, gradients = True, False
    modes = list(_MODES)
    former: list[Observation] = []
    for mode in modes:
        expected = _observe(make, calls, None, mode)
        if mode.grad and "exception" in expected[-1]:
            # An in-place update of a leaf raises once the leaf requires gradients.
            continue
        if mode == _MODES[-1] and first_difference(former, expected) is None:
            # The results do not depend on the mode.
            continue
        former = expected
        gradients = gradients or any(name.startswith("gradient") for seen in expected for name in seen)
        difference = first_difference(expected, _observe(make, calls, compiler or usual, mode))
        if difference is None:
            continue
        if _is_stable(make, calls, mode, expected):
            call, name, detail = difference
            return EagerComparison(False, stable, gradients, call, name, detail, mode.grad, mode.evaluation)
        stable = False
        if mode == _MODES[0]:
            modes.append(Mode(grad=True, evaluation=True))
    return EagerComparison(True, stable, gradients)


def leaves_traces(make: Maker, call: Call) -> bool:
    """Return whether a call changes its arguments or the state of user modules. If not, a miscompile is unlikely."""
    given = clone_inputs(call)
    try:
        function = fresh_callable(make)
        before = {**_kept(function), **_tensors_in(call)}
        with force_eager():
            function(*given[0], **given[1])
        after = {**_kept(function), **_tensors_in(given)}
        return before.keys() != after.keys() or not all(_equal(value, after[name]) for name, value in before.items())
    except Exception:  # noqa: BLE001 - user code; the actual runs report it
        return False


def _tensors_in(call: Call) -> Observation:
    leaves = enumerate(pytree.tree_leaves(call))
    return {f"argument {at}": leaf for at, leaf in leaves if isinstance(leaf, torch.Tensor)}


def _kept(function: Callable[..., Any]) -> Observation:
    """Return the state of modules that are not torch's own. The state of torch's modules is compiled correctly."""
    module = _module_of(function)
    kept: Observation = {}
    for prefix, part in module.named_modules() if module is not None else ():
        if not type(part).__module__.startswith("torch."):
            values = {**vars(part), **dict(part.named_buffers(recurse=False))}
            kept.update({f"{prefix}.{name}": _frozen(value) for name, value in values.items() if _is_kept(name, value)})
    return kept


def _is_kept(name: str, value: Any) -> bool:
    return not name.startswith("_") and isinstance(value, (torch.Tensor, list, deque, *_PLAIN))


def usual(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile with `aot_eager` and default options."""
    compiled: Callable[..., Any] = user_compile(function, backend="aot_eager")
    return compiled


def differs(make: Maker, calls: Sequence[Call], compiler: Compiler, mode: Mode) -> Difference | None:
    """Return the call, name and description of the first difference in a mode, or None."""
    return first_difference(_observe(make, calls, None, mode), _observe(make, calls, compiler, mode))


def _is_stable(make: Maker, calls: Sequence[Call], mode: Mode, expected: list[Observation]) -> bool:
    """Return whether eager code gives the same values again, even if random numbers or last digits change."""
    others = (
        _observe(make, calls, None, mode),
        _observe(make, calls, None, mode, seed=_OTHER_SEEDS),
        _observe(_nudged_maker(make), [_nudged(call) for call in calls], None, mode),
    )
    return all(first_difference(expected, other) is None for other in others)


def _nudged_maker(make: Maker) -> Maker:
    def nudged() -> Callable[..., Any]:
        function = fresh_callable(make)
        module = _module_of(function)
        with torch.no_grad():
            for parameter in module.parameters() if module is not None else ():
                if parameter.is_floating_point():
                    parameter.copy_(_nudged(parameter))
        return function

    return nudged


def _nudged(value: Any) -> Any:
    """Change the last digits of all floats in a nested value, alternating up and down."""

    def nudge(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point():
            return tensor
        signs = torch.arange(tensor.numel(), device=tensor.device) % 2 * 2 - 1
        return tensor.detach() * (1 + _LAST_DIGITS * signs.reshape(tensor.shape)).to(tensor.dtype)

    return pytree.tree_map_only(torch.Tensor, nudge, value)


def _module_of(function: Callable[..., Any]) -> nn.Module | None:
    owner = function if isinstance(function, nn.Module) else getattr(function, "__self__", None)
    return owner if isinstance(owner, nn.Module) else None


def _observe(
    make: Maker, calls: Sequence[Call], compiler: Compiler | None, mode: Mode, seed: int = 0
) -> list[Observation]:
    """Run all calls and return an observation after each call. An exception ends the list."""
    torch.compiler.reset()
    seen: list[Observation] = []
    try:
        function = mode.callable_of(make)
        run = function if compiler is None else compiler(function)
        for number, call in enumerate(calls):
            runs.seed_torch(seed + number)
            random.seed(seed + number)
            args, kwargs = _inputs(call, grad=mode.grad)
            with force_eager() if compiler is None else nullcontext(), torch.set_grad_enabled(mode.grad):
                result = run(*args, **kwargs)
                seen.append(_look(function, result, (args, kwargs), grad=mode.grad))
    except Exception as error:  # noqa: BLE001 - exceptions of user code are compared like results
        seen.append({"exception": type(error).__name__, "message": str(error)})
    finally:
        torch.compiler.reset()
    return seen


def _inputs(call: Call, *, grad: bool) -> Any:
    def ask(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.requires_grad_() if grad and tensor.is_floating_point() else tensor

    return pytree.tree_map_only(torch.Tensor, ask, clone_inputs(call))


def _look(function: Callable[..., Any], result: Any, inputs: Any, *, grad: bool) -> Observation:
    """Collect the results, the gradients of inputs and parameters, and the state after the call."""
    seen: Observation = {}
    leaves = pytree.tree_leaves(result)
    for at, leaf in enumerate(leaves):
        if isinstance(leaf, (torch.Tensor, *_PLAIN)):
            seen[f"result {at}" if len(leaves) > 1 else "result"] = _frozen(leaf)
    module = _module_of(function)
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
    """Differentiate a weighted sum of all results, then clear the gradients."""
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
            if _is_kept(name, value):
                seen[f"attribute {where}"] = _frozen(value)
    return seen


def _frozen(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, (list, deque)):
        return [_frozen(item) for item in value if isinstance(item, (torch.Tensor, *_PLAIN))]
    return value


def first_difference(expected: list[Observation], found: list[Observation]) -> Difference | None:
    """Return the call, name and description of the first difference, or None if there is none."""
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
        return close(one, other) or (one.is_floating_point() and bool(torch.allclose(one, other, **_ROUNDING)))
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
