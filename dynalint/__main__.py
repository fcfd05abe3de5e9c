"""`python -m dynalint`, and the entry point of the command `dynalint`."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress


def main() -> None:
    """Run the command line and exit with its exit code."""
    from dynalint.cli import run

    if sys.argv[1:2] == ["check"] and not {"-w", "--watch"} & set(sys.argv):
        # All trees of the analysis are needed until the end, so garbage collection would traverse them without freeing
        # any.
        gc.disable()
    code = run(sys.argv[1:])
    # Text that could not be written is still in the buffer; the error was reported when it happened.
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with suppress(OSError, ValueError):  # ValueError: the language server has closed the stream
            stream.flush()
    # All output is written and everything is cleaned up. Freeing the trees of a large project, or waiting for a thread
    # that still runs after Ctrl-C, would only delay the exit.
    os._exit(code)


if __name__ == "__main__":
    main()
