"""What one target showed, in the parent's own types; also what the cache keeps of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from dynalint.confirm.client import Answer
from dynalint.confirm.options import Target
from dynalint.confirm.untrusted import sentence
from dynalint.confirm.worker.dynamo.records import (
    Break,
    Comparison,
    Compile,
    EagerRun,
    Explanation,
    Failure,
    Frame,
    Run,
    decode,
)

Spot = tuple[int, int, int, int]
"""A range of source as bytecode counts it: lines 1-based, columns 0-based in UTF-8 bytes, the end exclusive."""


_EVALUATION = "evaluation."
_PHASES = ("import", "build", "inputs", "run")


@dataclass(frozen=True)
class Coverage:
    """How many operations lie in a spot, and how many of them Dynamo traced in frames that it captured."""

    operations: int
    traced: int

    @property
    def whole(self) -> bool:
        """Whether Dynamo traced all there is."""
        return 0 < self.operations == self.traced


@dataclass(frozen=True)
class _Calls:
    same: int
    batch: int
    all: int


@dataclass(frozen=True)
class Problem:
    """Why a target was not heard to the end: `phase` is one of the worker's, or `process` where its process ended."""

    phase: str
    stage: str
    outcome: str
    ending: Mapping[str, Any]
    failure: Failure | None


Covered = Mapping[str, Mapping[Spot, Coverage]]
"""The coverage of each spot that was asked about, by file."""


@dataclass(frozen=True)
class Latent:
    """What showed once the breaks that leave whole frames to eager were taken out of the way."""

    run: Run
    coverage: Covered


@dataclass(frozen=True)
class TargetResult:
    """All that is known of one target; what could not be heard is None, and `problem` says why.

    `same` calls were alike and came first, `batch` more had another batch size. `evaluation` is what the same calls
    showed in evaluation mode, where they reach other code; `mode` says so there. `outdated` tells that there is
    evidence of the target that holds no longer. `part` tells that the target is no compiled root but a function on the
    way from one, called by itself: what it is called with is nobody's claim. Paths are resolved.
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
    explain: Explanation | None
    comparison: Comparison | None
    coverage: Covered
    latent: Latent | None
    files: frozenset[str]
    evaluation: TargetResult | None = None
    mode: str = ""
    outdated: bool = False
    part: bool = False

    @cached_property
    def recompiles(self) -> tuple[Compile, ...]:
        """Compiles in calls like those before them that replaced code which should have fitted."""
        return tuple(c for c in self.default.recompiles if c.call < self.same) if self.default is not None else ()


def result_of(
    target: Target, torch: str, answer: Mapping[str, Any], spots: Mapping[str, list[list[int]]]
) -> TargetResult:
    """Build a result from what `record_of` returned; raises ValueError if it does not fit.

    Code under check may have written every word of it.
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
        problem = Problem(told["phase"], answer["stage"], "done", {}, decode(Failure, told["failure"]))
    elif answer["outcome"] != "done":
        problem = Problem("process", answer["stage"], answer["outcome"], answer["ending"], None)
    elif "default" not in parts:
        raise ValueError("an answer without a verdict and without a problem")
    calls = decode(_Calls, {"same": 0, "batch": 0, "all": 0, **parts.get("calls", {})})
    return TargetResult(
        target=target,
        torch=torch.partition("+")[0],
        inputs=sentence(decode(str, parts.get("inputs", ""))),
        same=calls.same,
        batch=calls.batch,
        problem=problem,
        eager=_decoded(EagerRun, parts, "eager"),
        default=_resolved(_decoded(Run, parts, "default")),
        fullgraph=_resolved(_decoded(Run, parts, "fullgraph")),
        explain=_decoded(Explanation, parts, "explain"),
        comparison=_compared(parts),
        coverage=_covered(parts.get("coverage", {}), spots),
        latent=_latent(parts.get("latent"), spots),
        files=frozenset(decode(tuple[str, ...], parts.get("files", ()))),
        evaluation=_evaluation(target, torch, answer, spots),
    )


def _evaluation(
    target: Target, torch: str, answer: Mapping[str, Any], spots: Mapping[str, list[list[int]]]
) -> TargetResult | None:
    parts = answer["parts"]
    own = {name.removeprefix(_EVALUATION): value for name, value in parts.items() if name.startswith(_EVALUATION)}
    if "default" not in own:
        return None
    shared = {"inputs": f"{parts['inputs']}, in evaluation mode", "files": parts.get("files", ())}
    return replace(result_of(target, torch, {**answer, "parts": {**own, **shared}}, spots), mode="in evaluation mode")


def as_part(result: TargetResult) -> TargetResult:
    """Return what a target showed as that of a part of the way to a finding."""
    evaluation = None if result.evaluation is None else replace(result.evaluation, part=True)
    return replace(result, evaluation=evaluation, part=True)


def record_of(answer: Answer) -> dict[str, Any]:
    """Return what `result_of` needs of a worker's answer, as what JSON can hold."""
    return {
        "outcome": answer.outcome,
        "ending": dict(answer.ending),
        "stage": answer.stage,
        "parts": dict(answer.parts),
    }


def _compared(parts: Mapping[str, Any]) -> Comparison | None:
    found: Comparison | None = _decoded(Comparison, parts, "compare")
    if found is None or found.place is None:
        return found
    return replace(found, place=_resolved_frame(found.place))


def _latent(told: Mapping[str, Any] | None, spots: Mapping[str, list[list[int]]]) -> Latent | None:
    run = None if told is None else _resolved(_decoded(Run, told, "run"))
    return None if told is None or run is None else Latent(run, _covered(told["coverage"], spots))


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
    """Name files in breaks, compiles and errors by their resolved paths."""
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


def _resolved_frame(frame: Frame) -> Frame:
    return replace(frame, file=os.path.realpath(frame.file))
