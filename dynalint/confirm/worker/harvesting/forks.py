"""The two sides of a process that was forked to confirm or record a call. Uses only the standard library."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from typing import Any

from ..process.wire import Reply

# The wall-clock limit for a call, as a multiple of its processor-time limit, because some calls wait for something.
_PATIENCE = 4


def result_of_fork(child: int, source: int, seconds: float) -> tuple[dict[str, Any], str]:
    """Wait for a fork to end. Return its message, and how it ended."""
    end = time.monotonic() + _PATIENCE * seconds
    text = b""
    with os.fdopen(source, "rb", buffering=0) as stream:
        while select.select([stream], [], [], max(0.0, end - time.monotonic()))[0]:
            chunk = stream.read(1 << 16)
            if not chunk:
                break
            text += chunk
    status = None
    while status is None:
        ended, code = os.waitpid(child, os.WNOHANG)
        status = code if ended else None
        if status is None and time.monotonic() > end:
            with contextlib.suppress(OSError):
                os.killpg(child, signal.SIGKILL)
        time.sleep(0.005)
    with contextlib.suppress(OSError):
        os.killpg(child, signal.SIGKILL)
    message: dict[str, Any] = {}
    with contextlib.suppress(ValueError):
        message = json.loads(text or b"{}")
    return message, "done" if status == 0 else "timeout" if os.WIFSIGNALED(status) else "exit"


class NumberedReply(Reply):
    """Forwards parts, with the call's number as a prefix, and forwards stages as parts."""

    def __init__(self, name: str, reply: Reply) -> None:
        self._name, self._reply = name, reply
        self.broken = False

    def send(self, kind: str, value: Any) -> None:
        """Forward a part, or a stage as a part."""
        name, content = value if kind == "part" else (kind, value)
        self._reply.part(f"{self._name}.{name}", content)
