"""DYN005: compiled code is timed with its compilation, or before the device is done."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dynalint.rulekit import CompilerUse, Event, Project, Rule, Violation, walk_function
from dynalint_rules._code.compiling import calls_after, compilation, external_name, loops_around

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
    code = "DYN005"
    name = "cold-timing"
    summary = "Compiled code is timed together with its compilation, or before the device has finished"
    category = "advice"
    severity = "warning"
    events = (CompilerUse,)

    def check(self, event: CompilerUse, project: Project) -> Iterable[Violation]:
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
                    f"this is the first call of `{found.target}`: the measured time is mostly compilation",
                    help="Call it a few times before you read the clock.",
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
