"""The processor time that one run of dynalint may spend on running code."""

from __future__ import annotations

import threading


class Budget:
    """A budget of processor `seconds`, safe to share between threads. Waiting for a processor does not count."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._left = seconds
        self._lock = threading.Lock()

    @property
    def left(self) -> float:
        """The remaining seconds, 0 when the budget is spent."""
        return max(self._left, 0.0)

    def spend(self, seconds: float) -> None:
        """Subtract `seconds` from the budget."""
        with self._lock:
            self._left -= seconds
