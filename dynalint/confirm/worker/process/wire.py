"""JSON lines, the format for messages between the processes. Uses only the standard library.

The code being checked can find its process's token and write any message, so the size, depth and types of messages are
checked before they are used.
"""

from __future__ import annotations

import json
import math
import os
from typing import Any, NoReturn

# Limits in bytes for a line, and for all messages from a job. Explaining a model with thousands of operators takes a
# tenth of that.
LONGEST_LINE = 8 << 20
MOST_BYTES = 16 << 20
# A value takes about seventy bytes of memory, but can be as short as two bytes in a message.
MOST_VALUES = 1 << 20
_DEEPEST = 48
# The wall-clock limit for an answer, as a multiple of its time limit, because code has to wait on a busy machine.
PATIENCE = 10
_MOST_DIGITS = 19


def pack(message: Any) -> bytes:
    """Return a message as a single line."""
    return json.dumps(message, separators=(",", ":"), default=str).encode() + b"\n"


def values_in(line: bytes) -> int:
    """Return an upper bound for the number of values in a line of JSON without parsing it."""
    return 1 + line.count(b",") + line.count(b"[") + line.count(b"{")


def parse(line: bytes) -> Any:
    """Parse a line of JSON.

    Raises ValueError if the line is invalid, too long or too deeply nested, or contains numbers that are too large.
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
    """Return the kind and value of a line from the sandboxed process, or None if it is invalid or has no token.

    The value of a `stage` is a string, and the value of a `part` is a pair of a name and any value.
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
    """Sends an operation's results piece by piece, so that a crash loses only the results that were not sent yet."""

    # Whether this process is known to be sandboxed.
    enclosed = False

    def __init__(self, descriptor: int, token: str) -> None:
        self.descriptor = descriptor
        self.broken = False
        self._prefix = token.encode() + b" "

    def send(self, kind: str, value: Any) -> None:
        """Write a message. If the pipe was closed, set `broken` and raise OSError."""
        # The message starts on a new line, in case user code has written to this descriptor.
        line = b"\n" + self._prefix + pack([kind, value])
        try:
            while line:
                line = line[os.write(self.descriptor, line) :]
        except OSError:
            self.broken = True
            raise

    def stage(self, what: str) -> None:
        """Report the current step, in words that complete "while ...". The last step explains a crash."""
        self.send("stage", what)

    def part(self, name: str, value: Any) -> None:
        """Send a named part of the answer, as JSON data."""
        self.send("part", [name, value])


class Silent(Reply):
    """A reply that sends nothing."""

    def __init__(self) -> None:
        super().__init__(-1, "")

    def send(self, kind: str, value: Any) -> None:
        """Do nothing."""


class Prefixed(Reply):
    """Forwards everything to another reply, with a prefix before the names of parts.

    If `stages` is true, stages are forwarded as parts, too.
    """

    def __init__(self, prefix: str, reply: Reply, *, stages: bool = False) -> None:
        super().__init__(-1, "")
        self._name, self._reply, self._stages = prefix, reply, stages

    def send(self, kind: str, value: Any) -> None:
        """Forward a message."""
        if kind == "part" or self._stages:
            name, content = value if kind == "part" else (kind, value)
            self._reply.part(f"{self._name}.{name}", content)
        else:
            self._reply.send(kind, value)
