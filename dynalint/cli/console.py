"""Writing to the terminal: findings to standard output, everything else to standard error."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from typing import Literal, TextIO

from dynalint.errors import DynalintError
from dynalint.report import runners
from dynalint.report.style import Style, visible, visible_lines

# A name may have a megabyte, and a sentence names it before it says what is wrong.
_LONGEST, _END = 4000, 1000

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
    write(f"{style.paint('error:', 'red', 'bold')} {visible(_short(message))}\n", sys.stderr)


def note(message: str, color: ColorChoice = "auto") -> None:
    """Say something in one line on standard error that nobody has to act on."""
    style = style_for(sys.stderr, color)
    write(f"{style.paint('note:', 'cyan', 'bold')} {visible(_short(message))}\n", sys.stderr)


def _short(message: str) -> str:
    return message if len(message) <= _LONGEST else f"{message[: _LONGEST - _END]} ... {message[-_END:]}"


def write_diff(diff: str, style: Style, color: ColorChoice = "auto") -> None:
    """Write a diff to standard output: exact, unless what reads it there would act on what stands in it.

    A terminal is shown a diff that is safe to look at; everyone else may hand it to `git apply`. A CI system reads what
    is not a file of its own, and is kept from taking a line of it for a command.

    Raises:
        DynalintError: it cannot be written.
    """
    shown = visible_lines(diff)
    if sys.stdout is not None and sys.stdout.isatty():
        if shown != diff:
            note("the diff is shown without characters that act on a terminal; in a file it is exact.", color)
        write(painted(shown, style))
        return
    exact = diff if _is_file(sys.stdout) else runners.exact(diff)
    if exact is None:
        note("the diff is shown without what acts on this CI system; in a file it is exact.", color)
    write(painted(shown if exact is None else exact, style))


def _is_file(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):  # a stream that is no file of the system's
        return False


def painted(diff: str, style: Style) -> str:
    """Return a diff with its lines in colours."""
    colours = {"+": "green", "-": "red", "@": "cyan"}
    if not style.color:
        return diff
    lines = diff.split("\n")
    return "\n".join(style.paint(line, colours[line[0]]) if line[:1] in colours else line for line in lines)
