"""Measure where the processor time of a run goes, for `--profile`.

Time is charged to the innermost stage, file and rule that are being worked on, so the stages add up to the whole run.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

_Labels = tuple[str, "Path | None", str]


class Profile:
    """The processor time in seconds for each stage, file and rule since the process started.

    `counts` says how many things each stage has handled.
    """

    def __init__(self) -> None:
        self.stages: defaultdict[str, float] = defaultdict(float)
        self.files: defaultdict[Path, float] = defaultdict(float)
        self.rules: defaultdict[str, float] = defaultdict(float)
        self.counts: Counter[str] = Counter()
        self._labels: _Labels = ("starting", None, "")
        self._whole = False
        self._charged = 0.0

    def charge(self) -> None:
        """Charge the time since the last call to the current stage, file and rule."""
        now = time.process_time()
        spent, self._charged = now - self._charged, now
        stage, file, rule = self._labels
        self.stages[stage] += spent
        if file is not None:
            self.files[file] += spent
        if rule:
            self.rules[rule] += spent

    def enter(self, stage: str, file: Path | None, rule: str, *, whole: bool) -> _Labels | None:
        """Charge what follows to other labels, except for those that are empty.

        Return the previous labels, or None inside a `whole` stage, where nothing is charged separately.
        """
        if self._whole:
            return None
        self.charge()
        before, self._whole = self._labels, whole
        self._labels = stage or before[0], file or before[1], rule or before[2]
        return before

    def leave(self, before: _Labels) -> None:
        """Return to the labels that `enter` has returned."""
        self.charge()
        self._labels, self._whole = before, False


_active: Profile | None = None


@contextmanager
def measuring() -> Iterator[Profile]:
    """Measure the time until the end of the `with` block, and the time since the process started."""
    global _active  # noqa: PLW0603 - the whole process is measured
    _active = profile = Profile()
    try:
        yield profile
    finally:
        profile.charge()
        _active = None


class charged:  # noqa: N801 - it is used like a function
    """A context manager that charges the time in a `with` block to a stage, file or rule, if time is measured.

    If it is for a `whole` stage, which may use more than one thread, nothing inside it is charged separately.
    """

    __slots__ = ("_before", "_labels", "_whole")

    def __init__(self, stage: str = "", *, file: Path | None = None, rule: str = "", whole: bool = False) -> None:
        self._labels = stage, file, rule
        self._whole = whole

    def __enter__(self) -> None:
        self._before = None if _active is None else _active.enter(*self._labels, whole=self._whole)

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._before is not None and _active is not None:
            _active.leave(self._before)


def count(stage: str, number: int = 1) -> None:
    """Record that a stage has handled a number of things."""
    if _active is not None:
        _active.counts[stage] += number
