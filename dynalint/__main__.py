"""`python -m dynalint`, and the entry point of the command `dynalint`."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress


def main() -> None:
    """Run the command line and leave with its exit code."""
    from dynalint.cli import run

    if sys.argv[1:2] == ["check"] and not {"-w", "--watch"} & set(sys.argv):
        # One analysis, whose trees are needed to the end: the collector would walk them all and find nothing.
        gc.disable()
    code = run(sys.argv[1:])
    # What could not be written stays in the buffer, and was said when it was tried.
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with suppress(OSError, ValueError):  # ValueError: the language server has closed it
            stream.flush()
    # All is said and cleaned up: taking down the trees of a large project, or waiting for a thread that still computes
    # after Ctrl-C, would only keep the user waiting.
    os._exit(code)


if __name__ == "__main__":
    main()
