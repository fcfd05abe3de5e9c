"""Compile the code after a fix, and the code before it where that helps to judge the result."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ..dynamo import runs
from ..dynamo.records import Break, Run, RunFailure
from ..inputs.variants import other_batch
from ..source import loading
from .compiled import Mode, RunPlan, compared, usual
from .lockstep import Findings
from .pairs import ComparedVersion, alike, fresh
from .trials import BASE, USUAL, Trial

_REPEATS = 3
_OTHER_VALUES = 3
# The number of the compiled frame, and numbers in a guard.
_VALUES = re.compile(r"^\d+/\d+: |\b\d+(\.\d+)?\b")


def compiled_after(
    subject: ComparedVersion,
    plain: Callable[[], ComparedVersion],
    found: Findings,
    changed: Mapping[str, Sequence[int]],
) -> dict[str, Any]:
    """Compile the rewritten code, and the original code if there are results to compare with."""
    values = [trial for trial in found.worked if trial in USUAL]
    repeats, others = (_REPEATS, _OTHER_VALUES) if found.stride == 1 else (2, 1)
    trials = ([BASE] * repeats if BASE in found.worked else []) + values[:others]
    if not trials:
        return {"problem": "no input of the example's own shape ran without an exception"}
    same = [trial.of(subject.call) for trial in trials]
    batch = other_batch(subject.call)
    with subject.version.active():
        calls = same if batch is None or runs.eager_run(subject.make, [batch]).error else [*same, batch]
        default = runs.default_run(subject.make, calls)
        # If there are breaks in default mode, this would only fail at the first of them.
        whole = default if default.breaks else runs.fullgraph_run(subject.make, calls)
    answer: dict[str, Any] = {
        "breaks": [_broken(one) for one in default.breaks],
        "breaks_before": [],
        "failure": None if whole is default or whole.error is None else _failed(whole.error),
        "recompiles": len(_needless(default, len(same))),
        "recompiled_before": None,
        "same_causes": False,
        "reason": next((_guard(str(one.recompile)) for one in _needless(default, len(same))), ""),
        "differs": _compiles_wrong(subject, trials),
        "differed_before": None,
    }
    suspicious = answer["recompiles"] or answer["differs"]
    if suspicious or any(_is_new(one, changed) for one in answer["breaks"]):
        before = plain()
        with before.version.active():
            run = runs.default_run(before.make, [trial.of(before.call) for trial in trials])
        answer["breaks_before"] = [_broken(one) for one in run.breaks]
        earlier = _needless(run, len(same))
        answer["recompiled_before"] = len(earlier)
        answer["same_causes"] = _causes(_needless(default, len(same))) <= _causes(earlier)
        answer["differed_before"] = _compiles_wrong(before, trials) if suspicious else None
    return answer


def _is_new(broken: Mapping[str, Any], changed: Mapping[str, Sequence[int]]) -> bool:
    """Return whether a break is on a changed line. All others are there because of code that the fix leaves alone."""
    return any(frame["line"] in changed.get(loading.real_path(frame["file"]), ()) for frame in broken["frames"])


def _broken(one: Break) -> dict[str, Any]:
    frames = [{"file": frame.file, "line": frame.line} for frame in one.stack]
    return {"frames": frames, "gb": one.gb, "effect": one.effect, "reason": first_line(one.gb_type or one.reason)}


def _failed(one: RunFailure) -> dict[str, Any]:
    frames = [{"file": frame.file, "line": frame.line} for frame in one.stack]
    return {"frames": frames, "gb": one.gb, "reason": first_line(one.gb_type or f"{one.type}: {one.message}")}


def _guard(reason: str) -> str:
    """Return the failed guard without the source location that torch appends."""
    return first_line(reason).partition("  #")[0].strip()


def _needless(run: Run, same: int) -> list[Any]:
    """Return the recompilations in calls whose shapes were seen before."""
    return [one for one in run.recompiles if one.call < same]


def _causes(recompilations: Sequence[Any]) -> set[str]:
    """Return what the failed guards are about, without the values that they compare with."""
    return {_VALUES.sub("", _guard(str(one.recompile))) for one in recompilations}


def _compiles_wrong(subject: ComparedVersion, trials: Sequence[Trial]) -> str | None:
    """Compare compiled code (`aot_eager`) with eager code, including gradients and state.

    Both are imported again, so that neither sees the other's changes to globals or the environment.
    """
    pair = alike(subject.again(), subject), alike(subject.again(), subject)
    for training in (True, False):
        plain, compiled = (
            RunPlan(
                partial(fresh, one, training=training),
                [trial.of(one.call) for trial in trials],
                Mode(training),
                differentiated=subject.differentiated,
                around=one.version.active,
            )
            for one in pair
        )
        found = compared(plain, replace(compiled, compiler=usual))
        if not found.same:
            mode = "while training" if training else "in evaluation"
            return f"{found.what}: {found.detail} ({mode}, with aot_eager)"
    return None


def first_line(text: str) -> str:
    """Return the first line of a text that is not blank."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
