"""Run an example under Dynamo and describe what fails. Requires torch."""

from __future__ import annotations

import ast
import itertools
import linecache
import math
import re
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any
from unittest import mock

import torch
from torch.utils import _pytree as pytree

from dynalint.confirm.worker.comparing.compiled import compare
from dynalint.confirm.worker.comparing.differences import Equality, difference
from dynalint.confirm.worker.comparing.observing import Observation, globals_of, hearing_all_logs, observe
from dynalint.confirm.worker.dynamo import runs
from dynalint.confirm.worker.dynamo.records import Break, Run

_FEWEST_CALLS = 10
"""More than Dynamo's limit of eight recompilations. Code that still recompiles after this many calls never settles."""

_COMPILED = Equality(compiled=True)
# If code contains one of these words, it may behave differently in training or without gradients.
_GRADIENT_MODES = re.compile(r"\b(training|eval|train|Dropout\w*|BatchNorm\w*|\w*grad\w*|inference_mode)\b")
_numbers = itertools.count()


@dataclass(frozen=True)
class ProgramRun:
    """What Dynamo does in default mode with the calls that return in eager mode, over more than one round of calls.

    `breaks` also includes breaks from calls that raise in eager mode. `rounds` contains the number of graphs after each
    round.
    """

    run: Run
    breaks: tuple[Break, ...]
    rounds: tuple[int, ...]

    @property
    def grows(self) -> bool:
        """Whether Dynamo kept recompiling until the last round or until it gave up."""
        return bool(self.run.limit_hit) or (len(self.rounds) > 1 and self.rounds[-1] > self.rounds[-2])


class _EnoughError(BaseException):
    """Ends a run. Code that catches exceptions does not catch this one."""


class _Impatient(runs.Listener):
    """Ends a run as soon as there are enough breaks, because compiling what follows takes longer than finding them."""

    def __init__(self, enough: Callable[[Sequence[Break]], bool]) -> None:
        super().__init__()
        self._enough = enough

    def note_break(self, *reported: Any) -> None:
        """Record a break."""
        super().note_break(*reported)
        if self._enough(self.breaks):
            raise _EnoughError


class Program:
    """An example as a module that is executed from text, with its callable and calls."""

    def __init__(self, code: str, target: str, inputs: str) -> None:
        self.file = f"<dynalint example {next(_numbers)}>"
        self.code, self._target, self._inputs = code, target, inputs
        self._module = ""
        # Dynamo and inspect look up source lines by file name. An entry without a time stamp does not need a file on
        # disk.
        linecache.cache[self.file] = (len(code), None, code.splitlines(keepends=True), self.file)

    def make(self) -> Callable[..., Any]:
        """Execute the module again with the same seeds, and return its callable without `torch.compile`."""
        return runs.fresh_callable(self._made)

    def _made(self) -> Callable[..., Any]:
        sys.modules.pop(self._module, None)
        self._module = f"dynalint_example_{next(_numbers)}"
        # Dynamo looks up a function's globals by its module name.
        module = sys.modules[self._module] = types.ModuleType(self._module)
        module.__file__ = self.file
        self._execute(module)
        made: Callable[..., Any] = eval(self._target, vars(module))  # noqa: S307 - the rule's own code
        if isinstance(made, torch.nn.Module):
            made._compiled_call_impl = None  # noqa: SLF001 - set by `module.compile()`
        return made

    @cached_property
    def calls(self) -> list[runs.Call]:
        """The calls in the example. They have only positional arguments."""
        torch.manual_seed(0)
        module = types.ModuleType("dynalint_example_inputs")
        self._execute(module)
        given = eval(self._inputs, {**vars(module), "torch": torch})  # noqa: S307
        return [(call if isinstance(call, tuple) else (call,), {}) for call in given]

    @property
    def fine(self) -> list[runs.Call]:
        """The calls that return in eager mode."""
        return [call for call, raises in zip(self.calls, self._raises, strict=True) if not raises]

    @property
    def raising(self) -> list[runs.Call]:
        """The calls that raise in eager mode."""
        return [call for call, raises in zip(self.calls, self._raises, strict=True) if raises]

    @cached_property
    def observed(self) -> ProgramRun:
        """What Dynamo does in default mode. There are enough rounds to see whether it stops recompiling."""
        return self._run(max(3, math.ceil(_FEWEST_CALLS / max(1, len(self.fine)))))

    def first_round(self, enough: Callable[[Sequence[Break]], bool] = lambda _: False) -> ProgramRun:
        """What Dynamo does in default mode in the first round of calls, until there are `enough` breaks."""
        return self._run(1, enough)

    def _run(self, rounds: int, enough: Callable[[Sequence[Break]], bool] = lambda _: False) -> ProgramRun:
        size, listener = len(self.fine), _Impatient(enough)
        run = runs.compiled_run(self.make, self.fine * rounds, listener)
        for call in self.raising:
            if not enough(listener.breaks):
                runs.compiled_run(self.make, [call], listener)
        return ProgramRun(run, tuple(listener.breaks), run.graphs[size - 1 :: size] if size else ())

    @property
    def globals(self) -> dict[str, Any]:
        """The plain values among the globals of the most recently executed module."""
        return globals_of(vars(sys.modules[self._module]))

    def twin(self) -> Program:
        """Return a new instance of the program with its own state."""
        return Program(self.code, self._target, self._inputs)

    @cached_property
    def _raises(self) -> list[bool]:
        return [runs.eager_run(self.make, [call]).error is not None for call in self.calls]

    def _execute(self, module: types.ModuleType) -> None:
        exec(compile(self.code, self.file, "exec"), vars(module))  # noqa: S102


def unclean(program: Program, *, in_default_mode: bool = False) -> str | None:
    """Explain why a program does not stay compiled to a single graph, or return None if it does.

    If `in_default_mode` is true, `fullgraph=True` is not tried.
    """
    observed = program.observed
    if observed.breaks:
        return f"Dynamo breaks the graph: {described(program, observed.breaks[0])}"
    if observed.run.error is not None:
        return f"the compiled code raises {observed.run.error.type}: {observed.run.error.message}"
    if observed.rounds and observed.rounds[-1] == 0:
        return "Dynamo compiled no graph at all"
    if observed.grows:
        return f"Dynamo recompiles on repeated calls: {_reason(observed.run)}"
    return None if in_default_mode else _unclean_fullgraph(program)


def refused(program: Program, observed: ProgramRun) -> str | None:
    """Return the id of the error that `fullgraph=True` raises for code that default mode silently runs eagerly."""
    if observed.breaks or observed.run.compiles or observed.run.error is not None:
        return None
    error = runs.fullgraph_run(program.make, program.fine).error
    return None if error is None else error.gb


def recompiling(program: Program) -> str | None:
    """Describe how a program recompiles for calls that it has seen before, or return None if it does not."""
    observed = program.observed
    if observed.rounds and observed.rounds[-1] > observed.rounds[0]:
        return f"Dynamo recompiles on repeated calls: {_reason(observed.run)}"
    return None


def miscompiled(program: Program) -> str | None:
    """Describe how compiled results differ from eager results over three calls, or return None if they are equal."""
    calls = program.fine * math.ceil(3 / max(1, len(program.fine)))
    found = compare(program.make, calls)
    if not found.same:
        return f"call {found.call + 1}: {found.what}: {found.detail}"
    return None if found.stable else "its values differ in every run, so nothing can be compared"


def rewritten_differently(original: Program, fixed: Program, *, exact: bool, by_nature: bool) -> str | None:
    """Describe how a rewrite differs from the original, or from itself when compiled.

    Returns None if there is no difference. Both programs run the same calls, at least three, with and without
    gradients. Compiled code runs without gradients only if it may behave differently then. It is compiled with
    `fullgraph=True` unless a call raises in eager mode. In that case, default mode is used so that the exceptions can
    be compared.

    `exact` requires identical numbers. `by_nature` permits the changes that an unsafe rewrite may make: numbers can
    become tensors, exceptions and text can differ, and code can be left to run in eager mode.
    """
    calls = original.calls * math.ceil(3 / len(original.calls))
    equality = Equality(exact=exact, numbers=_new_state(original.code, fixed.code))
    compiler = partial(runs.user_compile, backend="aot_eager", fullgraph=not fixed.raising)
    with hearing_all_logs():
        for training in (True, False):
            mode = "training" if training else "inference"
            for number, (before, after) in enumerate(_side_by_side(original, fixed, calls, training=training), start=1):
                if by_nature:
                    _allow(before, after)
                found = difference(before, after, equality)
                if found:
                    return f"{mode}, call {number}: {found}"
            if not training and not _GRADIENT_MODES.search(fixed.code):
                continue  # This would compile the training graph again, without its backward pass.
            pairs = _side_by_side(fixed, fixed.twin(), calls, compiler, training=training, as_compiled=by_nature)
            for number, (eager, compiled) in enumerate(pairs, start=1):
                found = difference(eager, compiled, _COMPILED)
                if found:
                    return f"compiled, {mode}, call {number}: {found}"
    return _unclean_fullgraph(fixed) if fixed.raising else None


def broken_lines(program: Program, setting: str) -> set[int | None]:
    """Return the program's lines where Dynamo still breaks when a `torch._dynamo.config` setting is on."""
    with torch._dynamo.config.patch({setting: True}):  # noqa: SLF001 - the module with Dynamo's settings
        return {line_in(program, found) for found in program.first_round().breaks}


def line_in(program: Program, found: Break) -> int | None:
    """Return the line that a break is attributed to, which is the line of the program's innermost frame."""
    return next((frame.line for frame in reversed(found.stack) if frame.file == program.file), None)


def described(program: Program, found: Break) -> str:
    """Return a break's id, type and location as text."""
    line = line_in(program, found)
    return f"{found.gb or 'no id'} ({found.gb_type}){'' if line is None else f' at line {line}'}"


def _side_by_side(
    left: Program,
    right: Program,
    calls: Sequence[runs.Call],
    compiler: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None,
    *,
    training: bool,
    as_compiled: bool = False,
) -> Iterator[tuple[Observation, Observation]]:
    """Yield the observations of two programs for each call. If `compiler` is given, the second program is compiled.

    If `as_compiled` is true, `torch.compiler.is_compiling()` is true in the first program, so it skips the same code.
    """
    torch.compiler.reset()
    one, other = left.make(), right.make()
    run = other if compiler is None else compiler(other)
    try:
        for seed, call in enumerate(calls):
            with runs.force_eager(), _as_if_compiling() if as_compiled else nullcontext():
                before = observe(one, one, call, seed, training=training)
            with runs.force_eager() if compiler is None else nullcontext():
                after = observe(run, other, call, seed, training=training)
            before.state.update(left.globals)
            after.state.update(right.globals)
            yield before, after
    finally:
        torch.compiler.reset()


def _as_if_compiling() -> AbstractContextManager[Any]:
    return mock.patch("torch.compiler.is_compiling", return_value=True)


def _allow(before: Observation, after: Observation) -> None:
    """Remove what an unsafe rewrite may change from two observations."""
    if before.error is not None and after.error is not None:
        after.error = before.error
    for seen in (before, after):
        seen.output = pytree.tree_map_only(torch.Tensor, _number, seen.output)
        seen.state = pytree.tree_map(_kept, seen.state)
        # An input that became a view of itself keeps its shape.
        seen.inputs = pytree.tree_map_only(torch.Tensor, torch.flatten, seen.inputs)
        seen.gradients = {name: None if one is None else one.flatten() for name, one in seen.gradients.items()}
        seen.effects.clear()
        seen.aliases = ()
    after.output = _made_alike(before.output, after.output)


def _made_alike(before: Any, after: Any) -> Any:
    """Convert tensors in `after` to lists where `before` has lists, and use the text from `before`."""
    if isinstance(before, str) and isinstance(after, str):
        return before
    if isinstance(after, torch.Tensor) and type(before) is list:
        return after.tolist()
    if type(before) is type(after) and type(after) in (tuple, list) and len(before) == len(after):
        return type(after)(map(_made_alike, before, after))
    return after


def _number(tensor: torch.Tensor) -> Any:
    return tensor.item() if tensor.dim() == 0 else tensor


def _kept(leaf: Any) -> Any:
    """Return a value to compare: the example's own objects become attributes, and 0-dim tensors numbers."""
    if isinstance(leaf, torch.Tensor):
        return _number(leaf.detach())
    if type(leaf).__module__.startswith("dynalint_example_") and hasattr(leaf, "__dict__"):
        return pytree.tree_map(_kept, {"": type(leaf).__name__, **vars(leaf)})
    return leaf


def _new_state(code: str, fixed: str) -> frozenset[str]:
    """Return the names of what a rewrite added: buffers, constants, and attributes that record a tensor."""
    return _state(fixed) - _state(code)


def _state(code: str) -> frozenset[str]:
    tree = ast.parse(code)
    assigned = (target for one in tree.body if isinstance(one, ast.Assign) for target in one.targets)
    constants = frozenset(target.id for target in assigned if isinstance(target, ast.Name))
    stores = [one for one in ast.walk(tree) if isinstance(one, ast.Assign) and isinstance(one.value, ast.Call)]
    kept = (target for one in stores for target in one.targets if ast.unparse(one.value).endswith(".detach()"))
    attributes = (target.value if isinstance(target, ast.Subscript) else target for target in kept)
    recorded = {target.attr for target in attributes if isinstance(target, ast.Attribute)}
    return (
        constants
        | recorded
        | frozenset(
            node.args[0].value
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "register_buffer"
            and node.args
            and isinstance(node.args[0], ast.Constant)
            and isinstance(node.args[0].value, str)
        )
    )


def _reason(run: Run) -> str:
    reasons = [attempt.recompile.strip() for attempt in run.recompiles if attempt.recompile]
    return reasons[-1].splitlines()[0] if reasons else "Dynamo gave no reason"


def _unclean_fullgraph(program: Program) -> str | None:
    run = runs.fullgraph_run(program.make, program.fine * 2)
    if run.error is not None:
        return f"fullgraph=True raises {run.error.type}: {run.error.gb_type or run.error.message}"
    for call in program.raising:
        error = runs.fullgraph_run(program.make, [call]).error
        if error is None:
            return "with fullgraph=True, nothing is raised although eager code raises"
        if error.gb_type:
            return f"fullgraph=True raises {error.type}: {error.gb_type}"
    return None
