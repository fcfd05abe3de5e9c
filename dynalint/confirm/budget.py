"""The processor time that a run of dynalint may spend on running code."""

from __future__ import annotations

import threading


class TimeBudget:
    """A budget of processor `seconds` that threads can share. Waiting for a processor does not count."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._left = seconds
        self._lock = threading.Lock()

    @property
    def left(self) -> float:
        """The remaining seconds, or 0 if the budget is used up."""
        return max(self._left, 0.0)

    def spend(self, seconds: float) -> None:
        """Subtract `seconds` from the budget."""
        with self._lock:
            self._left -= seconds
