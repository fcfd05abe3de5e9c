"""The two sides of a process that was forked to confirm or record a call. Uses only the standard library."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from dataclasses import dataclass
from typing import Any

from .wanted import Wanted

# The wall-clock limit for a call, as a multiple of its processor-time limit, because some calls wait for something.
_PATIENCE = 4


def message_of(source: int, seconds: float) -> dict[str, Any]:
    """Return the message that a fork sends before it closes its end of the pipe, or an empty one."""
    end = time.monotonic() + _PATIENCE * seconds
    text = b""
    with os.fdopen(source, "rb", buffering=0) as stream:
        while select.select([stream], [], [], max(0.0, end - time.monotonic()))[0]:
            chunk = stream.read(1 << 16)
            if not chunk:
                break
            text += chunk
    message: dict[str, Any] = {}
    with contextlib.suppress(ValueError):
        message = json.loads(text or b"{}")
    return message


def ending_of(child: int, seconds: float) -> str:
    """Wait for a fork to end, kill what is left of it, and return how it ended."""
    end = time.monotonic() + _PATIENCE * seconds
    status = None
    while status is None:
        try:
            ended, code = os.waitpid(child, os.WNOHANG)
        except ChildProcessError:  # User code has waited for it.
            ended, code = child, 1 << 8
        status = code if ended else None
        if status is None and time.monotonic() >= end:
            with contextlib.suppress(OSError):
                os.killpg(child, signal.SIGKILL)
        time.sleep(0.005)
    with contextlib.suppress(OSError):
        os.killpg(child, signal.SIGKILL)
    return "done" if status == 0 else "timeout" if os.WIFSIGNALED(status) else "exit"


@dataclass(frozen=True)
class Fork:
    """A call in a fork: its number, the process, the pipe that lets it go on, its targets, and what it has said."""

    number: int
    child: int
    opener: int
    wanted: list[Wanted]
    said: dict[str, Any]

    def end(self) -> None:
        """Kill it."""
        os.close(self.opener)
        ending_of(self.child, 0)
