"""A progress bar on standard error. It is shown in a terminal when an operation takes more than a second."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from dynalint.report.style import visible

if TYPE_CHECKING:
    from rich.progress import Progress

DELAY_SECONDS = 1.0


class Activity:
    """A context manager that shows a progress bar after one second, or nothing if not `enabled`.

    Entering it returns a callback that takes the amount done, the total and a description. It is thread-safe.
    """

    def __init__(self, description: str, *, enabled: bool) -> None:
        self._state = (0, 0, description)
        self._enabled = enabled
        self._lock = threading.Lock()
        self._timer = threading.Timer(DELAY_SECONDS, self._show)
        self._timer.daemon = True
        self._progress: Progress | None = None

    def __enter__(self) -> Callable[[int, int, str], None] | None:
        if not self._enabled:
            return None
        self._timer.start()
        return self._tell

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._lock:
            self._enabled = False
            if self._progress is not None:
                self._progress.stop()

    def _tell(self, done: int, total: int, what: str) -> None:
        with self._lock:
            self._state = (done, total, visible(what))
            self._update()

    def _update(self) -> None:
        if self._progress is not None:
            done, total, what = self._state
            # If there is no total, the bar pulses.
            self._progress.update(self._progress.task_ids[0], completed=done, total=total or None, description=what)

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False),
        )
        with self._lock:
            if not self._enabled:
                return
            self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
            self._progress.add_task(self._state[2], total=None)
            self._update()
            self._progress.start()
