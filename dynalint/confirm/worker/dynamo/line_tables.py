"""Make the code that Dynamo generates name the lines of its source.

For the rest of a function after a break, Dynamo writes new code. Its table of lines is off by as many lines as an
instruction of more than 16 bytes lies after the one before it: the writer splits its entry and counts the distance once
for each part. Loads of attributes and methods are that long since Python 3.11. All later breaks of the function, and
what of it was traced, would have the wrong lines (torch 2.0 to 2.13).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch._dynamo import bytecode_transformation

# The most code units of one entry in the table.
_ENTRY = 8


@contextmanager
def exact_lines() -> Iterator[None]:
    """Have Dynamo's writer of line tables get one entry at a time."""
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
