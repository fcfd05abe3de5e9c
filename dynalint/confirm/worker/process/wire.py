"""Lines of JSON: how messages travel between the processes. Standard library only.

Code under check can find the token that its process writes with, and write anything: what comes from there is bounded
in size, in depth and in kind before anybody looks at it.
"""

from __future__ import annotations

import json
import math
import os
from typing import Any, NoReturn

# Of one line, and of all that is said of one job. An explanation of a model of thousands of operators takes a tenth.
LONGEST_LINE = 8 << 20
MOST_BYTES = 16 << 20
# A value takes some seventy bytes of memory, and may have been written with two.
MOST_VALUES = 1 << 20
_DEEPEST = 48
# By the clock, an answer may take so many times its limit: on a busy machine, code has to wait for its turn.
PATIENCE = 10
_MOST_DIGITS = 19


def pack(message: Any) -> bytes:
    """Return a message as one line."""
    return json.dumps(message, separators=(",", ":"), default=str).encode() + b"\n"


def values_in(line: bytes) -> int:
    """Return how many values a line of JSON has at most, without reading it."""
    return 1 + line.count(b",") + line.count(b"[") + line.count(b"{")


def parse(line: bytes) -> Any:
    """Return what a line of JSON says.

    Raises ValueError where it is none, is too long, nests too deep, or has numbers in it that nobody counts to.
    """
    if len(line) > LONGEST_LINE or values_in(line) > MOST_VALUES:
        raise ValueError("the line is too long")
    try:
        value = json.loads(line, parse_constant=_refuse, parse_int=_integer, parse_float=_number)
    except RecursionError:
        raise ValueError("the line nests too deep") from None
    _check_depth(value, _DEEPEST)
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number")


def _integer(digits: str) -> int:
    # Of millions of digits, it would take minutes to read.
    if len(digits) > _MOST_DIGITS:
        raise ValueError("a number is too large")
    return int(digits)


def _number(digits: str) -> float:
    value = float(digits)
    return value if math.isfinite(value) else _refuse(digits[:_MOST_DIGITS])


def _check_depth(value: Any, depth: int) -> None:
    if isinstance(value, (list, dict)):
        if not depth:
            raise ValueError("the line nests too deep")
        for item in value.values() if isinstance(value, dict) else value:
            _check_depth(item, depth - 1)


def unpack(line: bytes, token: str) -> tuple[str, Any] | None:
    """Return kind and value of a line from the process under watch, None where it does not bear the token or is wrong.

    A `stage` is a text and a `part` a pair of a name and anything.
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
    """The way out for what an operation has found, a piece at a time, so that a crash costs only what comes after."""

    # Whether the walls around this process hold, as far as is known.
    enclosed = False

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
