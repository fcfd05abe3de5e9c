"""`python -m dynalint`, and the entry point of the `dynalint` command."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress


def main() -> None:
    """Run the command line and exit with its exit code."""
    from dynalint.cli import run

    if sys.argv[1:2] == ["check"] and not {"-w", "--watch"} & set(sys.argv):
        # The analysis needs all its trees until the end, so garbage collection would traverse them without freeing any.
        gc.disable()
    code = run(sys.argv[1:])
    # Text that could not be written is still in the buffer. The error was already reported when it happened.
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with suppress(OSError, ValueError):  # ValueError means that the language server has closed the stream.
            stream.flush()
    # All output has been written and everything is cleaned up. Freeing the trees of a large project, or waiting for a
    # thread that is still running after Ctrl-C, would only delay the exit.
    os._exit(code)


if __name__ == "__main__":
    main()
