"""Write to the terminal. Findings go to standard output, and everything else to standard error."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from typing import Literal, TextIO

from dynalint.errors import DynalintError
from dynalint.report import runners
from dynalint.report.style import Style, visible, visible_lines

# A name can be a megabyte long and is at the start of the sentence, so both ends are kept.
_LONGEST, _END = 4000, 1000

ColorChoice = Literal["auto", "always", "never"]


def style_for(stream: TextIO | None, choice: ColorChoice, environment: Mapping[str, str] = os.environ) -> Style:
    """Return the style for a stream.

    `--color` takes precedence, followed by `NO_COLOR`, `FORCE_COLOR`, `CLICOLOR_FORCE` and `CLICOLOR`, in this order.
    """
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
    """Write text unchanged to a stream. The default is standard output.

    Characters that the stream's encoding does not support are escaped, so that a report can be written in any locale.

    Raises:
        DynalintError: If the text cannot be written.
    """
    stream = stream or sys.stdout
    if stream is None:  # the process was started without standard streams
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
    """Print a one-line error to standard error."""
    style = style_for(sys.stderr, color)
    write(f"{style.paint('error:', 'red', 'bold')} {visible(_short(message))}\n", sys.stderr)


def note(message: str, color: ColorChoice = "auto") -> None:
    """Print a one-line note to standard error."""
    style = style_for(sys.stderr, color)
    write(f"{style.paint('note:', 'cyan', 'bold')} {visible(_short(message))}\n", sys.stderr)


def _short(message: str) -> str:
    return message if len(message) <= _LONGEST else f"{message[: _LONGEST - _END]} ... {message[-_END:]}"


def write_diff(diff: str, style: Style, color: ColorChoice = "auto") -> None:
    """Write a diff to standard output, unchanged unless that could be unsafe.

    Control characters are replaced in a terminal. Lines that a CI system would interpret as workflow commands are
    defused when running in that system. Otherwise, and in a file, the diff is exact, so that `git apply` accepts it.

    Raises:
        DynalintError: If the diff cannot be written.
    """
    shown = visible_lines(diff)
    if sys.stdout is not None and sys.stdout.isatty():
        if shown != diff:
            note("control characters in the diff were replaced; if you write the diff to a file, it is exact.", color)
        write(painted(shown, style))
        return
    exact = diff if _is_file(sys.stdout) else runners.exact(diff)
    if exact is None:
        note(
            "commands for this CI system were replaced in the diff; if you write the diff to a file, it is exact.",
            color,
        )
    write(painted(shown if exact is None else exact, style))


def _is_file(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):  # a stream without a file descriptor
        return False


def painted(diff: str, style: Style) -> str:
    """Return a diff with coloured lines."""
    colours = {"+": "green", "-": "red", "@": "cyan"}
    if not style.color:
        return diff
    lines = diff.split("\n")
    return "\n".join(style.paint(line, colours[line[0]]) if line[:1] in colours else line for line in lines)
