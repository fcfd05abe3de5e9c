"""Writing to the terminal: findings to standard output, everything else to standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Literal, TextIO

from dynalint.errors import DynalintError
from dynalint.report.style import Style, visible

ColorChoice = Literal["auto", "always", "never"]


def style_for(stream: TextIO | None, choice: ColorChoice, environment: Mapping[str, str] = os.environ) -> Style:
    """Return how to write to a stream: `--color` wins, then `NO_COLOR`, `FORCE_COLOR`, `CLICOLOR_FORCE`, `CLICOLOR`."""
    if choice != "auto":
        return Style(choice == "always")
    if environment.get("NO_COLOR"):
        return Style(False)
    for name in ("FORCE_COLOR", "CLICOLOR_FORCE"):
        if environment.get(name, "") not in ("", "0"):
            return Style(True)
    if environment.get("CLICOLOR") == "0" or environment.get("TERM") == "dumb":
        return Style(False)
    return Style(stream is not None and stream.isatty())


def write(text: str, stream: TextIO | None = None) -> None:
    """Write text as it stands to a stream, by default standard output.

    Characters that its encoding lacks are written as escapes, so that no locale makes a report fail.

    Raises:
        DynalintError: it cannot be written.
    """
    stream = stream or sys.stdout
    if stream is None:  # the process was started without it
        return
    encoding = stream.encoding or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as fault:
        raise DynalintError(f"cannot write to {stream.name}: {fault.strerror or fault}.") from fault


def fail(message: str, color: ColorChoice = "auto") -> None:
    """Say in one line on standard error what went wrong."""
    style = style_for(sys.stderr, color)
    write(f"{style.paint('error:', 'red', 'bold')} {visible(message)}\n", sys.stderr)


def note(message: str, color: ColorChoice = "auto") -> None:
    """Say something in one line on standard error that nobody has to act on."""
    style = style_for(sys.stderr, color)
    write(f"{style.paint('note:', 'cyan', 'bold')} {visible(message)}\n", sys.stderr)


def painted(diff: str, style: Style) -> str:
    """Return a diff with its lines in colours."""
    colours = {"+": "green", "-": "red", "@": "cyan"}
    if not style.color:
        return diff
    lines = diff.split("\n")
    return "\n".join(style.paint(line, colours[line[0]]) if line[:1] in colours else line for line in lines)
