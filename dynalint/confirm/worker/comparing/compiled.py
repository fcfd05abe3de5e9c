"""Check that compiled code gives the same results as eager code: values, gradients and state, over repeated calls.

Some code traces without a break and silently gives wrong results, such as an in-place buffer update whose value reaches
autograd, a `deque(maxlen)`, or a 0-dim float64 buffer. Only a comparison shows this. Compiled code runs on `aot_eager`,
which includes every step before code generation, even the backward pass.

A difference is ignored if eager runs also differ from each other when they are repeated, when they use other random
numbers, or when the last digits of inputs and parameters change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ..dynamo.records import EagerComparison
from ..dynamo.runs import Call, Maker, clone_inputs, force_eager, fresh_callable, reset, user_compile
from .differences import Equality, difference
from .observing import Observation, hearing_all_logs, modules_of, observe, parameters_of, state_of

_OTHER_SEEDS = 1000
_LAST_DIGITS = 1e-6
_COMPILED = Equality(compiled=True)


Compiler = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True)
class Mode:
    """A mode: with a backward pass or without gradients, and in evaluation mode or as the module was built."""

    grad: bool
    evaluation: bool = False


_MODES = (Mode(grad=True), Mode(grad=False), Mode(grad=False, evaluation=True))


@dataclass(frozen=True)
class RunPlan:
    """A way to run calls: in a mode, and compiled if there is a `compiler`. The first call is seeded with `seed`.

    `differentiated` and `leaves` are as in `observe`. The code runs in the context that `around` returns.
    """

    make: Maker
    calls: Sequence[Call]
    mode: Mode
    compiler: Compiler | None = None
    seed: int = 0
    differentiated: bool = True
    leaves: bool = False
    around: Callable[[], AbstractContextManager[object]] = nullcontext

    def callable(self) -> Callable[..., Any]:
        """Build the callable in its mode."""
        with self.around():
            function = fresh_callable(self.make)
        for _, module in modules_of(function) if self.mode.evaluation else ():
            module.training = False
        return function

    def observed(self, run: Callable[..., Any], owner: Callable[..., Any], number: int) -> Observation:
        """Make the call with this number, and return what it does."""
        how = {"training": self.mode.grad, "differentiated": self.differentiated, "leaves": self.leaves}
        with self.around(), nullcontext() if self.compiler is not None else force_eager():
            return observe(run, owner, self.calls[number], self.seed + number, **how)


def compare(make: Maker, calls: Sequence[Call], compiler: Compiler | None = None) -> EagerComparison:
    """Run `calls` in eager mode and compiled, with and without gradients, and compare after each call.

    `compiler` compiles a callable and defaults to `aot_eager`. A module runs in the mode that it was built in, and also
    in evaluation mode if its results are different there. `stable` is False if eager runs differ from each other.
    """
    stable, gradients = True, False
    modes = list(_MODES)
    for mode in modes:
        eager = RunPlan(make, calls, mode)
        eager = replace(eager, leaves=mode.grad and _takes_leaves(eager))
        if mode == _MODES[-1] and compared(replace(eager, mode=_MODES[-2]), eager).same:
            continue  # The results do not depend on the mode.
        found = compared(eager, replace(eager, compiler=compiler or usual))
        gradients = gradients or found.gradients
        if found.same:
            continue
        if _is_stable(eager):
            return replace(found, stable=stable, gradients=gradients)
        stable = False
        if mode == _MODES[0]:
            modes.append(Mode(grad=True, evaluation=True))
    return EagerComparison(True, stable, gradients)


def compared(one: RunPlan, other: RunPlan) -> EagerComparison:
    """Run calls in two ways, one call after the other, up to the first difference or exception in the first way."""
    reset()
    gradients = False
    try:
        function, counterpart = one.callable(), other.callable()
        run = counterpart if other.compiler is None else other.compiler(counterpart)
        with hearing_all_logs():
            for number in range(len(one.calls)):
                expected = one.observed(function, function, number)
                if expected.error is not None:
                    break
                gradients = gradients or any(found is not None for found in expected.gradients.values())
                seen = other.observed(run, counterpart, number)
                found = difference(expected, seen, _COMPILED)
                if found is not None:
                    what, _, detail = found.partition(": ")
                    if seen.error is not None:
                        detail = " ".join(f"it raises {': '.join(seen.error)}".split())[:200]
                    mode = other.mode
                    return EagerComparison(False, True, gradients, number, what, detail, mode.grad, mode.evaluation)
    finally:
        torch.compiler.reset()
    return EagerComparison(True, True, gradients)


def leaves_traces(make: Maker, call: Call) -> bool:
    """Return whether a call changes its arguments or the state of user modules. If not, a miscompile is unlikely."""
    args, kwargs = clone_inputs(call)
    try:
        function, untouched = fresh_callable(make), fresh_callable(make)
        with force_eager():
            function(*args, **kwargs)
    except Exception:  # noqa: BLE001 - user code; the actual runs report it
        return False
    before = Observation(inputs=call, state=_own_state(untouched))
    return difference(before, Observation(inputs=(args, kwargs), state=_own_state(function)), Equality()) is not None


def _own_state(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the state of modules that are not torch's own. The state of torch's modules is compiled correctly."""
    foreign = {name for name, module in modules_of(function) if type(module).__module__.startswith("torch.")}
    return {name: value for name, value in state_of(function).items() if name.rpartition(".")[0] not in foreign}


def usual(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile with `aot_eager` and default options."""
    compiled: Callable[..., Any] = user_compile(function, backend="aot_eager")
    return compiled


def _takes_leaves(eager: RunPlan) -> bool:
    """Return whether the first call works on leaves that require gradients, which code cannot write to."""
    function = eager.callable()
    return replace(eager, leaves=True).observed(function, function, 0).error is None


def _is_stable(eager: RunPlan) -> bool:
    """Return whether eager code gives the same values again, even if random numbers or last digits change."""
    nudged = replace(eager, make=_nudged_maker(eager.make), calls=[_nudged(call) for call in eager.calls])
    return all(compared(eager, other).same for other in (eager, replace(eager, seed=_OTHER_SEEDS), nudged))


def _nudged_maker(make: Maker) -> Maker:
    def nudged() -> Callable[..., Any]:
        function = fresh_callable(make)
        with torch.no_grad():
            for parameter in parameters_of(function).values():
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
