"""Processor time for a whole run, shared by all that is run in it."""

from __future__ import annotations

import threading


class Budget:
    """So many `seconds`; waiting for a processor that others use costs nothing. For use by several threads."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._left = seconds
        self._lock = threading.Lock()

    @property
    def left(self) -> float:
        """The seconds that are left, 0 where all is spent."""
        return max(self._left, 0.0)

    def spend(self, seconds: float) -> None:
        """Take off what something has cost."""
        with self._lock:
            self._left -= seconds
