"""Removing a folder in which user code has done its worst. Standard library only."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import suppress
from pathlib import Path


def remove(folder: Path) -> None:
    """Remove a folder of our own and all in it, as far as that can be done; no link is followed.

    What lies deeper than Python can follow, or keeps its owner out, is left to the programs of the system.
    """
    with suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
            with suppress(OSError):
                subprocess.run([*command, "--", folder], stderr=subprocess.DEVNULL, check=False)
