"""Correct the line numbers in the code that Dynamo generates, and record the columns of graph breaks.

After a break, Dynamo generates new code for the rest of the function. Its line table is wrong after an instruction of
more than 16 bytes, because the writer splits the entry and adds the distance to the previous line once for each part.
Since Python 3.11, loading attributes and methods takes that many bytes. The function's later breaks, and the lines
traced in it, would all have wrong line numbers (torch 2.0 to 2.15).

torch before 2.12 knows the position of each instruction, but only records the line of a graph break.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from torch._dynamo import bytecode_transformation, symbolic_convert
from torch._guards import TracingContext

# The maximum number of code units in a table entry.
_ENTRY = 8


@contextmanager
def exact_lines() -> Iterator[None]:
    """Make Dynamo's line table writer receive a single entry at a time."""
    writer: Any = getattr(bytecode_transformation, "linetable_311_writer", None)
    if writer is None:
        yield
        return

    def exact(first_line: int) -> tuple[list[int], Callable[[Any, int], None]]:
        table, update = writer(first_line)

        def update_in_parts(positions: Any, size: int) -> None:
            while size > _ENTRY:
                update(positions, _ENTRY)
                size -= _ENTRY
            update(positions, size)

        return table, update_in_parts

    bytecode_transformation.linetable_311_writer = exact
    try:
        yield
    finally:
        bytecode_transformation.linetable_311_writer = writer


@contextmanager
def recorded_columns() -> Iterator[None]:
    """Add columns to the frames of graph breaks, unless torch records them or Python (before 3.11) has none."""
    translator: Any = symbolic_convert.InstructionTranslatorBase
    context: Any = TracingContext
    name = "_populate_loc_in_frame_summary"
    current = getattr(context, name, None)
    is_recorded = len(inspect.signature(context.set_current_loc).parameters) > len(("file", "line", "function"))
    if current is None or is_recorded or not hasattr(traceback.FrameSummary, "colno"):
        yield
        return
    step, outer = translator.step, translator.frame_summary
    tracing: list[Any] = []

    def noted_step(self: Any) -> Any:
        tracing.append(self)
        try:
            return step(self)
        finally:
            tracing.pop()

    with (
        patch.object(translator, "step", noted_step),
        patch.object(translator, "frame_summary", lambda self: _with_columns(outer(self), [self])),
        patch.object(context, name, lambda self: _with_columns(current(self), tracing[-1:])),
    ):
        yield


def _with_columns(summary: Any, translators: Sequence[Any]) -> Any:
    for one in translators:
        positions = getattr(one.current_instruction, "positions", None)
        if positions is not None and (one.f_code.co_filename, one.lineno) == (summary.filename, summary.lineno):
            summary.colno, summary.end_colno = positions.col_offset, positions.end_col_offset
    return summary
