"""Run a callable under Dynamo and record breaks, graphs and recompilations, in default mode and with `fullgraph=True`.

This module, `line_tables`, `metrics` and `reports` are the only modules that use private parts of torch that differ
between supported releases.

It needs torch and the standard library, works in any process (the sandboxed worker, the rule harness, a test), and
starts each run with `torch._dynamo.reset()`.

A *maker* is a function without arguments that returns a new callable each time, so that no run sees state from another.
A *call* is `(args, kwargs)`. Its tensors are cloned before use, so in-place updates of an input do not leak either.
torch and random are seeded before the maker runs.

    default_run(make, calls, files=())   -> Run           `torch.compile(fn)`: every break with its id and stack
    fullgraph_run(make, calls)           -> Run           `fullgraph=True`: `error` is the exception, None if it passed
    eager_run(make, calls, files=())     -> EagerRun      eager: which lines of `files` ran

The records are defined in `records.py` and are sent as JSON. Exceptions in user code are never raised here. Instead, an
exception ends the run and is stored in its `error`.
"""

# Exceptions from user code are results here, never errors in dynalint.
# ruff: noqa: BLE001

from __future__ import annotations

import random
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import _dynamo as dynamo
from torch._dynamo import eval_frame, symbolic_convert
from torch._dynamo import exc as dynamo_exc
from torch._guards import TracingContext
from torch.utils import _pytree as pytree

from ..source.lines import EagerLines
from . import metrics
from .line_tables import exact_lines, recorded_columns
from .records import Break, Compile, EagerRun, Run, Span
from .reports import BREAKS, ending_at, failure, frames_of, is_limit, parts_of, resumed, stack_above_dynamo

# The frames that Dynamo compiles for a module can be in these modules.
_COMPILED_FIRST = ("torch.nn.modules.", "torch._dynamo.external_utils")

Maker = Callable[[], Callable[..., Any]]
Call = tuple[tuple[Any, ...], dict[str, Any]]

# Saved here because `trace_own_compiles` replaces it.
user_compile = torch.compile
# The worker replaces this if there is no GPU.
seed_torch: Callable[[int], object] = torch.manual_seed


def default_run(make: Maker, calls: Iterable[Call], files: Iterable[str] = (), backend: str = "eager") -> Run:
    """Compile as a user would and run `calls`. Traced bytecode is recorded for `files`."""
    return compiled_run(make, calls, Listener(frozenset(files)), backend)


def fullgraph_run(make: Maker, calls: Sequence[Call]) -> Run:
    """Compile with `fullgraph=True` and run `calls` up to the first exception."""
    return compiled_run(make, calls, Listener(), fullgraph=True)


def reset() -> None:
    """Reset Dynamo, including its references to modules of a project that another version of the project replaces.

    Dynamo keeps them in a cache, and in the globals of functions that it compiled, which can be torch's own.
    """
    torch.compiler.reset()
    forget = getattr(getattr(symbolic_convert, "_import_module", None), "cache_clear", None)
    if forget is not None:
        forget()
    for name in [name for name in sys.modules if name.startswith(_COMPILED_FIRST)]:
        names = vars(sys.modules[name])
        for alias in [one for one in names if one.startswith("__import_")]:
            del names[alias]


def eager_run(make: Maker, calls: Sequence[Call], files: Iterable[str] = ()) -> EagerRun:
    """Run `calls` in eager mode and record the lines of `files` that ran."""
    torch.compiler.reset()
    try:
        function = fresh_callable(make)
    except BaseException as error:
        return EagerRun(EagerLines(files).seen(), failure(error, 0))
    return _called(function, calls, files)


def call_once(function: Callable[..., Any], call: Call, files: Iterable[str] = ()) -> EagerRun:
    """Call an existing callable once in eager mode. Its state is not restored afterwards."""
    return _called(function, [call], files)


def _called(function: Callable[..., Any], calls: Iterable[Call], files: Iterable[str]) -> EagerRun:
    lines, done = EagerLines(files), 0
    try:
        for done, call in enumerate(calls):  # noqa: B007 - it is used if the call raises
            args, kwargs = clone_inputs(call)
            with force_eager(), lines:
                function(*args, **kwargs)
    except BaseException as error:
        return EagerRun(lines.seen(), failure(error, done))
    return EagerRun(lines.seen(), None)


def fresh_callable(make: Maker) -> Callable[..., Any]:
    """Seed torch and random, make the callable, and remove the user's `torch.compile` from it."""
    seed_torch(0)
    random.seed(0)
    function: Any = make()
    function = getattr(function, "_orig_mod", function)
    if isinstance(function, types.MethodType):
        return types.MethodType(innermost(function.__func__), function.__self__)
    return innermost(function)


def innermost(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function without the user's `torch.compile`."""
    found: Any = getattr(eval_frame, "innermost_fn", None)
    return found(function) if found is not None else function


def to_device(value: Any, device: str) -> Any:
    """Move the tensors in nested lists, tuples and dicts to a device."""
    return pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), value)


@contextmanager
def force_eager() -> Iterator[None]:
    """Make everything that the user compiled run in eager mode."""
    stance = getattr(torch.compiler, "set_stance", None)
    if stance is None:
        yield
        return
    with stance("force_eager"):
        yield


def allow_compiling() -> None:
    """End `force_eager` permanently, in a process that was forked while it was active."""
    set_stance = getattr(torch.compiler, "set_stance", None)
    if set_stance is not None:
        set_stance("default")


def trace_own_compiles() -> None:
    """From now on, make the user's own uses of `torch.compile` report here and never start another backend.

    `fullgraph`, `mode`, `options` and `backend` are dropped, because every run chooses its own. Call this only in the
    worker's processes, because the change is permanent.
    """

    def compile_quietly(model: Any = None, **options: Any) -> Any:
        kept = {name: options[name] for name in ("dynamic", "disable") if name in options}
        if model is None:
            return lambda function: compile_quietly(function, **kept)
        return user_compile(model, backend=_current_backend, **kept)

    torch.compile = compile_quietly


_backends: list[Callable[[torch.fx.GraphModule, list[Any]], Any]] = []


def _current_backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
    return _backends[-1](module, inputs) if _backends else module.forward


def clone_inputs(value: Any) -> Any:
    """Copy the tensors in nested lists, tuples and dicts. Other leaves are shared."""

    def clone(tensor: torch.Tensor) -> torch.Tensor:
        copy = tensor.detach().clone()
        return copy.requires_grad_() if tensor.requires_grad else copy

    return pytree.tree_map_only(torch.Tensor, clone, value)


@dataclass
class Listener:
    """Collects what Dynamo reports while its hooks are installed. `call` is the number of the current call."""

    files: frozenset[str] = frozenset()
    call: int = 0
    graphs: int = 0
    operations: int = 0
    explained: bool = False
    breaks: list[Break] = field(default_factory=list)
    traced: dict[str, set[Span]] = field(default_factory=dict)
    attempt: dict[str, set[Span]] = field(default_factory=dict)
    attempt_breaks: int = 0

    def compile(self, function: Callable[..., Any], backend: Callable[..., Any], *, fullgraph: bool) -> Any:
        """Compile as a user would."""
        return user_compile(function, backend=backend, fullgraph=fullgraph)

    def note_graph(self, module: torch.fx.GraphModule) -> None:
        """Record a new graph before it is compiled."""
        self.graphs += 1
        self.operations += sum(node.op.startswith("call_") for node in module.graph.nodes)
        # `torch._dynamo.explain` runs a single call and collects these reasons.
        reason = getattr(module, "compile_subgraph_reason", None)
        self.explained |= self.call == 0 and getattr(reason, "graph_break", False)

    def runner(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function that runs the latest graph, which is `run` by default."""
        return run

    def note_break(
        self, error: BaseException | None, reason: str, stack: Any, effect: str = "split", positions: Any = None
    ) -> None:
        """Record a break before Dynamo logs it. `positions` are those of the instruction that breaks."""
        message = str(getattr(error, "msg", "")) or reason
        primary, *others = parts_of(error, message)
        stack = getattr(error, "real_stack", None) or stack or TracingContext.extract_stack()
        found = Break(
            gb=primary.gb,
            gb_type=primary.gb_type,
            explanation=primary.explanation,
            hints=primary.hints,
            reason=reason,
            stack=ending_at(frames_of([*stack_above_dynamo(), *stack]), positions),
            call=self.call,
            effect=effect,
            secondary=tuple(part.gb for part in others if part.gb),
        )
        self.breaks.append(found)
        self.attempt_breaks += 1

    def note_lost_frame(self, error: BaseException) -> None:
        """Record that a frame fell back to eager mode. Mark its break, or add one that older releases do not report."""
        if self.attempt_breaks:
            self.breaks[-1] = replace(self.breaks[-1], effect="frame")
        elif isinstance(error, BREAKS) or isinstance(error.__cause__, BREAKS):
            cause = error if isinstance(error, BREAKS) else error.__cause__
            self.note_break(cause, str(cause), None, "frame")

    def note_instruction(self, file: str, instruction: Any) -> None:
        """Record an instruction before it is traced."""
        positions = getattr(instruction, "positions", None)
        if positions is None:
            if instruction.starts_line is not None:
                line = int(instruction.starts_line)
                self.attempt.setdefault(file, set()).add((line, 0, line, 0))
        elif None not in (positions.lineno, positions.end_lineno, positions.col_offset, positions.end_col_offset):
            span = (positions.lineno, positions.col_offset, positions.end_lineno, positions.end_col_offset)
            self.attempt.setdefault(file, set()).add(span)

    def keep_attempt(self) -> None:
        """Record that the frame was captured, so its traced instructions count."""
        for file, spans in self.attempt.items():
            self.traced.setdefault(file, set()).update(spans)


@contextmanager
def _listening(listener: Listener) -> Iterator[None]:
    """Install hooks in Dynamo's translator, and remove them afterwards."""
    base = symbolic_convert.InstructionTranslatorBase
    # This has been a method of the translator since 2.8. Before, it was a function in the module.
    owner: Any = base if "log_graph_break" in vars(base) else symbolic_convert
    log, run, step = owner.log_graph_break, base.run, base.step

    def log_graph_break(*args: Any, **kwargs: Any) -> Any:
        error = kwargs.get("exc")
        if error is None and isinstance(sys.exc_info()[1], BREAKS):
            error = sys.exc_info()[1]
        reason = str(kwargs.get("reason", ""))
        if not getattr(error, "logged", False):
            effect = "rest" if "cannot resume from" in reason else "split"
            positions = getattr(getattr(args[0] if args else None, "current_instruction", None), "positions", None)
            listener.note_break(error, reason, kwargs.get("user_stack"), effect, positions)
        return log(*args, **kwargs)

    def traced_run(self: Any) -> Any:
        if not isinstance(self, symbolic_convert.InstructionTranslator):
            return run(self)
        listener.attempt, listener.attempt_breaks = {}, 0
        try:
            result = run(self)
        except BREAKS as error:
            listener.note_lost_frame(error)
            raise
        except dynamo_exc.SkipFrame as error:
            listener.note_lost_frame(error)
            raise
        listener.keep_attempt()
        return result

    def traced_step(self: Any) -> Any:
        file = self.f_code.co_filename
        if file in listener.files and self.instruction_pointer is not None:
            listener.note_instruction(file, self.instructions[self.instruction_pointer])
        return step(self)

    owner.log_graph_break = log_graph_break
    base.run = traced_run
    if listener.files:
        base.step = traced_step
    try:
        yield
    finally:
        owner.log_graph_break = log
        base.run = run
        base.step = step


def compiled_run(
    make: Maker, calls: Iterable[Call], listener: Listener, backend: str = "eager", *, fullgraph: bool = False
) -> Run:
    """Compile and run `calls` up to the first exception, while `listener` records Dynamo's reports.

    Raises:
        UnknownReleaseError: If Dynamo's metrics are not where they were in the releases that dynalint knows.
    """
    reset()
    metrics.forget()
    inner = dynamo.lookup_backend(backend) if backend != "eager" else None

    def counting(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        listener.note_graph(module)
        return listener.runner(module.forward if inner is None else inner(module, inputs))

    graphs: list[int] = []
    operations: list[int] = []
    compiles: list[Compile] = []
    error = None
    _backends.append(counting)
    try:
        with _listening(listener), exact_lines(), recorded_columns():
            try:
                function = listener.compile(fresh_callable(make), counting, fullgraph=fullgraph)
                for listener.call, call in enumerate(calls):
                    args, kwargs = clone_inputs(call)
                    try:
                        function(*args, **kwargs)
                    finally:
                        compiles += metrics.attempts(listener.call)[len(compiles) :]
                    graphs.append(listener.graphs)
                    operations.append(listener.operations)
            except metrics.UnknownReleaseError:
                raise
            except BaseException as raised:
                error = failure(raised, listener.call)
    finally:
        _backends.pop()
        torch.compiler.reset()
    return Run(
        graphs=tuple(graphs),
        operations=tuple(operations),
        breaks=tuple(listener.breaks),
        compiles=tuple(compiles),
        limit_hit=tuple(dict.fromkeys(resumed(c.function) for c in compiles if is_limit(c.fail_reason or ""))),
        error=error,
        traced={file: tuple(sorted(spans)) for file, spans in listener.traced.items()},
        explained=listener.explained,
    )
