"""DYN005: compiled code is timed with its compilation, or before the device is done."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dynalint.analysis.events import CompilerUse, Event
from dynalint.analysis.index import walk_function
from dynalint.analysis.project import Project
from dynalint.rules import Example, Rule, Violation
from dynalint_rules._shared.compiling import calls_after, compilation, external_name, loops_around

_CLOCKS = frozenset(
    {"time.time", "time.perf_counter", "time.monotonic", "timeit.default_timer", "time.perf_counter_ns"}
)
_TRAINING = frozenset({"backward", "step"})
_WAITING = frozenset({"synchronize", "item", "cpu", "tolist", "numpy", "elapsed_time"})


@dataclass(frozen=True)
class _Span:
    """What a clock was read around: from the line after `start` to the line of `end`."""

    start: ast.Assign
    end: ast.expr

    def holds(self, node: ast.AST) -> bool:
        line = getattr(node, "lineno", 0)
        return self.start.lineno < line < self.end.lineno


class ColdTiming(Rule):
    """Time the first call of compiled code, or stop the clock before the device is done.

    ## What it flags

    A call of what `torch.compile` returned between two readings of a clock in the same function, where no call comes
    before the first reading; and, in code that speaks of CUDA, where nothing waits for the device before the second.

    Not flagged are measurements after a call for warming up, in a loop that reads the clock in every round, of
    training (what calls `backward()` or steps an optimizer is no benchmark), and with `torch.utils.benchmark`, which
    does both by itself.

    ## Why

    The first call compiles, for seconds or minutes, and the time for that is what is measured. On a GPU the opposite
    happens as well: a call returns as soon as its kernels are queued, so the clock stops before they have run.

    ## Example

    ```python
    model = torch.compile(model)
    start = time.perf_counter()
    model(x)
    print(time.perf_counter() - start)
    ```

    Use instead:

    ```python
    model = torch.compile(model)
    model(x)
    print(torch.utils.benchmark.Timer("model(x)", globals=globals()).blocked_autorange())
    ```

    ## How it is rewritten

    It is not: a measurement of the time to compile is a good thing, too, where it is meant. Call the compiled code two
    or three times before, with the shapes that are timed, and call `torch.cuda.synchronize()` before each reading.

    ## When the rewrite is not exact

    There is no rewrite.

    ## How Dynamo words it

    `torch._dynamo.utils.compile_times()` tells how much of it was compiling.

    ## References

    - https://docs.pytorch.org/docs/stable/benchmark_utils.html
    - https://docs.pytorch.org/docs/stable/generated/torch.cuda.synchronize.html
    """

    code = "DYN005"
    name = "cold-timing"
    summary = "Compiled code is timed with its compilation, or before the device is done"
    category = "advice"
    severity = "warning"
    events = (CompilerUse,)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the first timed call of what was compiled in the same function."""
        found = compilation(event, project)
        if found is None or found.target is None:
            return
        spans = list(_spans(event, project))
        calls = [call for call in calls_after(found.call, event.function) if ast.unparse(call.func) == found.target]
        for call in calls[:1]:
            span = next((span for span in spans if span.holds(call)), None)
            if span is not None and not loops_around(span.end, event, project) and not _trains(span, event):
                yield Violation(
                    call,
                    f"this is the first call of `{found.target}`: what is timed is the compilation",
                    help="Call it a few times before the clock is read.",
                )
        for call in calls[1:]:
            span = next((span for span in spans if span.holds(call)), None)
            if span is not None and "cuda" in event.function.file.text and not _waits(span, event):
                yield Violation(
                    call,
                    f"the clock is read again while the device may still be busy with this call of `{found.target}`",
                    help="Call `torch.cuda.synchronize()` before each reading.",
                )
                return

    examples = (
        Example(
            name="no-warm-up",
            code="""
                import time

                import torch


                def measure(function, x):
                    fast = torch.compile(function)
                    start = time.perf_counter()
                    fast(x)  # DYN005
                    return time.perf_counter() - start
            """,
            target="torch.relu",
            inputs="[(torch.ones(4),)]",
        ),
        Example(
            name="no-warm-up-many-rounds",
            code="""
                from time import time

                import torch


                def measure(function, x):
                    fast = torch.compile(function)
                    begin = time()
                    for _ in range(100):
                        fast(x)  # DYN005
                    end = time()
                    print((end - begin) / 100)
            """,
            target="torch.relu",
            inputs="[(torch.ones(4),)]",
        ),
        Example(
            name="device-still-busy",
            code="""
                import time

                import torch


                def measure(model):
                    x = torch.randn(64, 64, device="cuda")
                    model = torch.compile(model)
                    model(x)
                    start = time.perf_counter()
                    model(x)  # DYN005
                    return time.perf_counter() - start
            """,
            target="torch.relu",
            inputs="[(torch.ones(4),)]",
        ),
        Example(
            name="warm-and-waited-for",
            code="""
                import time

                import torch


                def measure(model):
                    x = torch.randn(64, 64, device="cuda")
                    model = torch.compile(model)
                    model(x)
                    torch.cuda.synchronize()
                    start = time.perf_counter()
                    model(x)
                    torch.cuda.synchronize()
                    return time.perf_counter() - start
            """,
            target="torch.relu",
            inputs="[(torch.ones(4),)]",
        ),
        Example(
            name="on-the-cpu-and-warm",
            code="""
                import time

                import torch


                def measure(function, x):
                    fast = torch.compile(function)
                    for _ in range(3):
                        start = time.perf_counter()
                        fast(x)
                        print(time.perf_counter() - start)
            """,
            target="torch.relu",
            inputs="[(torch.ones(4),)]",
        ),
        Example(
            name="each-step-and-all-of-training",
            code="""
                import time

                import torch


                def train(model, optimizer, batches):
                    model = torch.compile(model)
                    begin = end = time.time()
                    for batch in batches:
                        loaded = time.time() - end
                        loss = model(batch).sum()
                        loss.backward()
                        optimizer.step()
                        print(loaded, time.time() - end)
                        end = time.time()
                    print("all", time.time() - begin)
            """,
            target="torch.relu",
            inputs="[(torch.ones(4),)]",
        ),
    )


def _spans(event: Event, project: Project) -> Iterator[_Span]:
    """Yield what lies between the two readings of a clock that are subtracted from each other."""
    nodes = list(walk_function(event.function.node))
    readings = [node for node in nodes if isinstance(node, ast.Assign) and _is_clock(node.value, event, project)]
    for node in nodes:
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Sub) or not isinstance(node.right, ast.Name):
            continue
        starts = [one for one in readings if _binds(one, node.right.id) and one.lineno < node.lineno]
        if _is_clock(node.left, event, project):
            ends: list[ast.expr] = [node.left]
        else:
            ends = [one.value for one in readings if isinstance(node.left, ast.Name) and _binds(one, node.left.id)]
        if starts and ends:
            yield _Span(max(starts, key=lambda one: one.lineno), ends[-1])


def _is_clock(node: ast.expr, event: Event, project: Project) -> bool:
    return isinstance(node, ast.Call) and external_name(node.func, event, project) in _CLOCKS


def _binds(statement: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in statement.targets)


def _trains(span: _Span, event: Event) -> bool:
    """Whether weights are changed between the readings, which takes long whatever is compiled."""
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _TRAINING
        for node in walk_function(event.function.node)
        if span.holds(node)
    )


def _waits(span: _Span, event: Event) -> bool:
    """Whether something between the readings waits for the device."""
    return any(
        isinstance(node, ast.Attribute) and node.attr in _WAITING and span.start.lineno < node.lineno <= span.end.lineno
        for node in walk_function(event.function.node)
    )
