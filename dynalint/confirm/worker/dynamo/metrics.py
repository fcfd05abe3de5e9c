"""Read the metrics that Dynamo records whenever it compiles a frame."""

from __future__ import annotations

from typing import Any

import torch
from torch._dynamo import utils as dynamo_utils

from .records import Compile

_KEPT = 4096


class UnknownReleaseError(Exception):
    """A private part of torch that dynalint needs has moved. The message says which one."""


def forget() -> None:
    """Clear Dynamo's list of compilation metrics, and make it long enough for a model with many frames."""
    set_limit = getattr(dynamo_utils, "set_compilation_metrics_limit", None)
    if set_limit is not None:
        set_limit(_KEPT)
    dynamo_utils.clear_compilation_metrics()


def attempts(call: int) -> list[Compile]:
    """Return all attempts to compile a frame since the list was cleared. New attempts belong to `call`.

    Raises:
        UnknownReleaseError: If the metrics are not where they were in the releases that dynalint knows.
    """
    try:
        return _read(call)
    except AttributeError as missing:
        # Without the metrics, a recompilation would look as if it had not happened.
        raise UnknownReleaseError(f"dynalint cannot read the metrics of torch {torch.__version__}: {missing}") from None


def _read(call: int) -> list[Compile]:
    found = []
    frames: dict[str, Any] = {}
    for metric in dynamo_utils.get_compilation_metrics():
        # An attempt that ended at the recompile limit does not name its code, but its id starts with the frame's id.
        compile_id = str(getattr(metric, "compile_id", "")).strip("[]")
        frame = compile_id.partition("/")[0]
        code = metric if metric.co_filename is not None else frames.get(frame)
        if code is None or getattr(metric, "is_runtime", False):
            continue
        frames[frame] = code
        found.append(
            Compile(
                function=str(code.co_name),
                file=str(code.co_filename),
                line=int(code.co_firstlineno or 0),
                call=call,
                operations=int(getattr(metric, "graph_op_count", None) or 0),
                guarded=bool(getattr(metric, "has_guarded_code", False)),
                recompile=_recompile_reason(metric),
                fail_type=metric.fail_type,
                fail_reason=metric.fail_reason,
                compile_id=compile_id,
            )
        )
    return found


def _recompile_reason(metric: Any) -> str | None:
    """Return the guard that failed. Releases before 2.7 only report that the frame already had compiled code."""
    reason = getattr(metric, "recompile_reason", None)
    if reason is None and not hasattr(metric, "recompile_reason") and getattr(metric, "cache_size", None):
        return "a guard that this release of torch does not name"
    return reason
