"""Decide which calls are wanted, based on their targets and the lines that they reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# The maximum number of calls to compile for a target.
_MOST_CALLS = 6

Lines = dict[str, list[list[int]]]
Span = tuple[str, int, int]
"""A file and a range of its lines, first and last."""


@dataclass
class Wanted:
    """A target, and the line ranges, by file, that it should reach, or None for any line that no call has run.

    No more than `most` calls are needed.
    """

    target: dict[str, str]
    lines: Lines | None
    most: int = _MOST_CALLS
    kinds: set[Any] = field(default_factory=set)
    ran: set[Span] = field(default_factory=set)
    calls: int = 0

    @property
    def done(self) -> bool:
        """Whether no more calls are needed."""
        return self.calls >= self.most or (self.lines is not None and not any(self.lines.values()))

    def new(self, seen: set[tuple[str, int]]) -> set[Span]:
        """Return the required line ranges that are among the lines that a call ran."""
        if self.lines is None:
            return {(path, line, line) for path, line in seen} - self.ran
        spans = {(path, first, last) for path, found in self.lines.items() for first, last in found}
        return {one for one in spans if any((one[0], line) in seen for line in range(one[1], one[2] + 1))}

    def reach(self, reached: set[Span]) -> None:
        """Record the line ranges that a call has reached."""
        self.ran |= reached
        if self.lines is not None:
            self.lines = {
                path: [span for span in spans if (path, *span) not in reached] for path, spans in self.lines.items()
            }


def wanted_of(asked: Mapping[str, Any], record: int) -> Wanted:
    """Read an entry in a request. If calls are recorded, any line counts that no earlier call has run."""
    if record:
        return Wanted(asked["target"], None, record)
    return Wanted(asked["target"], {path: [list(span) for span in spans] for path, spans in asked["lines"].items()})
