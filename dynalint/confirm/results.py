"""The result of running a target, in the parent's types, and the record of it that the cache stores."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from dynalint.confirm.client import Answer
from dynalint.confirm.options import Target
from dynalint.confirm.untrusted import sentence
from dynalint.confirm.worker.dynamo.records import (
    Break,
    Compile,
    EagerComparison,
    EagerRun,
    Run,
    RunFailure,
    StackFrame,
    decode,
)
from dynalint.findings import Finding

Spot = tuple[int, int, int, int]
"""A range of source code in bytecode positions: 1-based lines, 0-based columns in UTF-8 bytes, and an exclusive end."""


# The name of `deadlines.OutOfTimeError`.
_OUT_OF_TIME = "OutOfTimeError"
_EVALUATION = "evaluation."
_PHASES = ("import", "build", "inputs", "run")


@dataclass(frozen=True)
class Coverage:
    """The number of operations in a spot, and how many of them Dynamo traced in a frame that it captured."""

    operations: int
    traced: int

    @property
    def whole(self) -> bool:
        """Whether Dynamo traced every operation."""
        return 0 < self.operations == self.traced


@dataclass(frozen=True)
class _Calls:
    same: int
    batch: int
    all: int


@dataclass(frozen=True)
class Problem:
    """Why a target did not run to completion.

    `phase` is one of the worker's phases, or `process` if its process ended.
    """

    phase: str
    stage: str
    outcome: str
    ending: Mapping[str, Any]
    failure: RunFailure | None


Covered = Mapping[str, Mapping[Spot, Coverage]]
"""The coverage of each requested spot, by file."""


@dataclass(frozen=True)
class UncoveredRun:
    """The run after removing the breaks that make whole frames fall back to eager mode."""

    run: Run
    coverage: Covered


@dataclass(frozen=True)
class TargetResult:
    """Everything that is known about a target. Missing data is None, and `problem` explains why it is missing.

    The first `same` calls are identical, and the next `batch` calls use another batch size. `evaluation` is the result
    of the same calls in evaluation mode, which may run different code. Its `mode` says so. `outdated` means that the
    stored evidence for the target is out of date. `part` means that the target is not a compiled root but a function
    that a root calls, which was run separately: `called` by the project's own code, or with `guessed` arguments. Paths
    are resolved.
    """

    target: Target
    torch: str
    inputs: str
    same: int
    batch: int
    problem: Problem | None
    eager: EagerRun | None
    default: Run | None
    fullgraph: Run | None
    comparison: EagerComparison | None
    coverage: Covered
    latent: UncoveredRun | None
    files: frozenset[str]
    evaluation: TargetResult | None = None
    mode: str = ""
    outdated: bool = False
    part: Literal["", "called", "guessed"] = ""

    @property
    def complete(self) -> bool:
        """Whether the run in default mode ended. If it did not, only the breaks that it has seen count."""
        return self.default is not None and not _out_of_time(self.default)

    @cached_property
    def recompiles(self) -> tuple[Compile, ...]:
        """Recompilations on identical calls, which should have reused the compiled code."""
        return tuple(c for c in self.default.recompiles if c.call < self.same) if self.default is not None else ()


class Interrupted(KeyboardInterrupt):
    """Raised on Ctrl-C. `findings` have the verdicts that are known so far, and the rest are unconfirmed."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__()
        self.findings = tuple(findings)


def result_of(
    target: Target, torch: str, answer: Mapping[str, Any], spots: Mapping[str, list[list[int]]]
) -> TargetResult:
    """Build a result from a record made by `record_of`. Raises ValueError if the record is malformed.

    The code being checked may have forged any of it.
    """
    try:
        return _result(target, torch, answer, spots)
    except (KeyError, TypeError, AttributeError, LookupError) as error:
        raise ValueError(f"no result: {error}") from error


def _result(
    target: Target, torch: str, answer: Mapping[str, Any], spots: Mapping[str, list[list[int]]]
) -> TargetResult:
    parts = answer["parts"]
    told = parts.get("problem")
    problem = None
    if told is not None:
        if told["phase"] not in _PHASES:
            raise ValueError(f"no phase: {told['phase']}")
        problem = Problem(told["phase"], answer["stage"], "done", {}, decode(RunFailure, told["failure"]))
    elif answer["outcome"] != "done":
        problem = Problem("process", answer["stage"], answer["outcome"], answer["ending"], None)
    elif "default" not in parts:
        raise ValueError("an answer without a verdict and without a problem")
    default = _resolved(_decoded(Run, parts, "default"))
    if default is not None and _out_of_time(default):
        problem = Problem("process", answer["stage"], "timeout", {"seconds": _seconds_of(default)}, None)
    calls = decode(_Calls, {"same": 0, "batch": 0, "all": 0, **parts.get("calls", {})})
    return TargetResult(
        target=target,
        torch=torch.partition("+")[0],
        inputs=sentence(decode(str, parts.get("inputs", ""))),
        same=calls.same,
        batch=calls.batch,
        problem=problem,
        eager=_decoded(EagerRun, parts, "eager"),
        default=default,
        fullgraph=_resolved(_decoded(Run, parts, "fullgraph")),
        comparison=_compared(parts),
        coverage=_covered(parts.get("coverage", {}), spots),
        latent=_latent(parts.get("latent"), spots),
        files=frozenset(decode(tuple[str, ...], parts.get("files", ()))),
        evaluation=_evaluation(target, torch, answer, spots),
    )


def _out_of_time(run: Run) -> bool:
    return run.error is not None and run.error.type == _OUT_OF_TIME


def _seconds_of(run: Run) -> float:
    return float(run.error.message) if run.error is not None else 0.0


def _evaluation(
    target: Target, torch: str, answer: Mapping[str, Any], spots: Mapping[str, list[list[int]]]
) -> TargetResult | None:
    parts = answer["parts"]
    own = {name.removeprefix(_EVALUATION): value for name, value in parts.items() if name.startswith(_EVALUATION)}
    if "default" not in own:
        return None
    shared = {"inputs": f"{parts['inputs']}, in evaluation mode", "files": parts.get("files", ())}
    return replace(result_of(target, torch, {**answer, "parts": {**own, **shared}}, spots), mode="in evaluation mode")


def distinct(breaks: Iterable[Break]) -> list[Break]:
    """Return one break for each kind and location. A line can break in its caller's frame and then in its own."""
    return list({(found.gb, found.gb_type, found.stack[-1:]): found for found in breaks}.values())


def as_part(result: TargetResult, how: Literal["called", "guessed"]) -> TargetResult:
    """Mark a result as the result of a part instead of a compiled root."""
    evaluation = None if result.evaluation is None else replace(result.evaluation, part=how)
    return replace(result, evaluation=evaluation, part=how)


def record_of(answer: Answer) -> dict[str, Any]:
    """Return the parts of a worker's answer that `result_of` needs, as JSON data."""
    return {
        "outcome": answer.outcome,
        "ending": dict(answer.ending),
        "stage": answer.stage,
        "parts": dict(answer.parts),
    }


def _compared(parts: Mapping[str, Any]) -> EagerComparison | None:
    found: EagerComparison | None = _decoded(EagerComparison, parts, "compare")
    if found is None or found.place is None:
        return found
    return replace(found, place=_resolved_frame(found.place))


def _latent(told: Mapping[str, Any] | None, spots: Mapping[str, list[list[int]]]) -> UncoveredRun | None:
    run = None if told is None else _resolved(_decoded(Run, told, "run"))
    return None if told is None or run is None else UncoveredRun(run, _covered(told["coverage"], spots))


def _covered(told: Mapping[str, Any], spots: Mapping[str, list[list[int]]]) -> Covered:
    return {
        path: {_spot(spot): decode(Coverage, counts) for spot, counts in zip(spots[path], found, strict=True)}
        for path, found in told.items()
    }


def _spot(spot: list[int]) -> Spot:
    line, column, end_line, end_column = spot
    return line, column, end_line, end_column


def _decoded(cls: type[Any], parts: Mapping[str, Any], name: str) -> Any:
    return decode(cls, parts[name]) if parts.get(name) is not None else None


def _resolved(run: Run | None) -> Run | None:
    """Resolve the file paths in breaks, compilations and errors."""
    if run is None:
        return None
    error = run.error
    return replace(
        run,
        breaks=tuple(_resolved_stack(found) for found in run.breaks),
        compiles=tuple(replace(found, file=os.path.realpath(found.file)) for found in run.compiles),
        error=None if error is None else replace(error, stack=tuple(map(_resolved_frame, error.stack))),
    )


def _resolved_stack(found: Break) -> Break:
    return replace(found, stack=tuple(map(_resolved_frame, found.stack)))


def _resolved_frame(frame: StackFrame) -> StackFrame:
    return replace(frame, file=os.path.realpath(frame.file))
