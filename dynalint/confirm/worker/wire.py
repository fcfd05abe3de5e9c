"""Lines of JSON: how messages travel between the processes. Standard library only."""

from __future__ import annotations

import json
import os
from typing import Any


def pack(message: Any) -> bytes:
    """Return a message as one line."""
    return json.dumps(message, separators=(",", ":"), default=str).encode() + b"\n"


def unpack(line: bytes, token: str) -> tuple[str, Any] | None:
    """Return kind and value of a line from the process under watch, None where it does not bear the token."""
    prefix = token.encode() + b" "
    if not line.startswith(prefix):
        return None
    try:
        kind, value = json.loads(line[len(prefix) :])
    except (ValueError, TypeError):
        return None
    return str(kind), value


class Reply:
    """The way out for what an operation has found, a piece at a time, so that a crash costs only what comes after."""

    def __init__(self, descriptor: int, token: str) -> None:
        self.descriptor = descriptor
        self.broken = False
        self._prefix = token.encode() + b" "

    def send(self, kind: str, value: Any) -> None:
        """Write one message; raises OSError, and sets `broken`, where the pipe has been closed."""
        # Begun on a line of its own, whatever user code may have written to this descriptor before.
        line = b"\n" + self._prefix + pack([kind, value])
        try:
            while line:
                line = line[os.write(self.descriptor, line) :]
        except OSError:
            self.broken = True
            raise

    def stage(self, what: str) -> None:
        """Say what is being done now, in words that complete "while ...": the last one heard explains a crash."""
        self.send("stage", what)

    def part(self, name: str, value: Any) -> None:
        """Hand over one named piece of the answer, as what JSON can hold."""
        self.send("part", [name, value])
