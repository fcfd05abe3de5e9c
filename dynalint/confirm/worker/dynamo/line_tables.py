"""Correct the line numbers in the code that Dynamo generates.

After a break, Dynamo generates new code for the rest of the function. Its line table is wrong after an instruction of
more than 16 bytes, because the writer splits the entry and adds the distance to the previous line once for each part.
Since Python 3.11, loading attributes and methods takes that many bytes. The function's later breaks, and the lines
traced in it, would all have wrong line numbers (torch 2.0 to 2.15).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch._dynamo import bytecode_transformation

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
