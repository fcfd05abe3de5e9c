"""JSON lines, the format of messages between the processes. Standard library only.

The code under check can find its process's token and write any message, so messages are limited in size, depth and type
before they are used.
"""

from __future__ import annotations

import json
import math
import os
from typing import Any, NoReturn

# Limits of one line, and of all messages of a job, in bytes. An explanation of a model with thousands of operators
# needs a tenth of that.
LONGEST_LINE = 8 << 20
MOST_BYTES = 16 << 20
# A value takes about seventy bytes of memory, but as little as two bytes of a message.
MOST_VALUES = 1 << 20
_DEEPEST = 48
# The wall-clock limit of an answer, as a multiple of its time limit, because code has to wait on a busy machine.
PATIENCE = 10
_MOST_DIGITS = 19


def pack(message: Any) -> bytes:
    """Return a message as one line."""
    return json.dumps(message, separators=(",", ":"), default=str).encode() + b"\n"


def values_in(line: bytes) -> int:
    """Return an upper bound for the number of values in a line of JSON, without parsing it."""
    return 1 + line.count(b",") + line.count(b"[") + line.count(b"{")


def parse(line: bytes) -> Any:
    """Parse a line of JSON.

    Raises ValueError if it is invalid, too long, or too deeply nested, or contains numbers that are too large.
    """
    if len(line) > LONGEST_LINE or values_in(line) > MOST_VALUES:
        raise ValueError("the line is too long")
    try:
        value = json.loads(line, parse_constant=_refuse, parse_int=_integer, parse_float=_number)
    except RecursionError:
        raise ValueError("the line is nested too deeply") from None
    _check_depth(value, _DEEPEST)
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number")


def _integer(digits: str) -> int:
    # Parsing millions of digits would take minutes.
    if len(digits) > _MOST_DIGITS:
        raise ValueError("a number is too large")
    return int(digits)


def _number(digits: str) -> float:
    value = float(digits)
    return value if math.isfinite(value) else _refuse(digits[:_MOST_DIGITS])


def _check_depth(value: Any, depth: int) -> None:
    if isinstance(value, (list, dict)):
        if not depth:
            raise ValueError("the line is nested too deeply")
        for item in value.values() if isinstance(value, dict) else value:
            _check_depth(item, depth - 1)


def unpack(line: bytes, token: str) -> tuple[str, Any] | None:
    """Return kind and value of a line from the sandboxed process, or None if it is invalid or lacks the token.

    The value of a `stage` is a string, and that of a `part` is a pair of a name and any value.
    """
    prefix = token.encode() + b" "
    if not line.startswith(prefix):
        return None
    try:
        kind, value = parse(line[len(prefix) :])
    except (ValueError, TypeError):
        return None
    if kind == "stage":
        return (kind, value) if isinstance(value, str) else None
    if kind == "part":
        fits = isinstance(value, list) and len(value) == 2 and isinstance(value[0], str)
        return (kind, value) if fits else None
    return (kind, value) if isinstance(kind, str) else None


class Reply:
    """Sends an operation's results piece by piece, so that a crash only loses later ones."""

    # Whether this process is known to be sandboxed.
    enclosed = False

    def __init__(self, descriptor: int, token: str) -> None:
        self.descriptor = descriptor
        self.broken = False
        self._prefix = token.encode() + b" "

    def send(self, kind: str, value: Any) -> None:
        """Write one message; raises OSError, and sets `broken`, if the pipe was closed."""
        # Starts on a new line, in case user code has written to this descriptor.
        line = b"\n" + self._prefix + pack([kind, value])
        try:
            while line:
                line = line[os.write(self.descriptor, line) :]
        except OSError:
            self.broken = True
            raise

    def stage(self, what: str) -> None:
        """Report the current step, in words that complete "while ...". The last one explains a crash."""
        self.send("stage", what)

    def part(self, name: str, value: Any) -> None:
        """Send one named part of the answer, as JSON data."""
        self.send("part", [name, value])


class Silent(Reply):
    """A reply that sends nothing."""

    def __init__(self) -> None:
        super().__init__(-1, "")

    def send(self, kind: str, value: Any) -> None:
        """Do nothing."""
