"""`dynalint clean`, which removes the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from dynalint.cli.options import configuration_options, note_ignored
from dynalint.errors import DynalintError

if TYPE_CHECKING:
    from pathlib import Path

_EPILOG = """\b
Examples:
  dynalint clean                                 remove the cache for the project in the working directory
  dynalint clean --config 'cache-dir = "/tmp/dynalint"'
"""

# Folders that dynalint creates in the cache. Anything else there does not belong to dynalint.
_KEPT = ("verdicts", "evidence", "last", "findings", "rules")


@click.command(epilog=_EPILOG)
@configuration_options
def clean(**options: Any) -> None:
    """Remove cached results.

    These are the findings and verdicts from earlier runs, and the evidence that `dynalint trace` has recorded. The next
    check analyses and runs all code again.
    """
    from pathlib import Path

    from dynalint.cli.console import note
    from dynalint.cli.options import read_configuration
    from dynalint.config import show_path

    directory = Path.cwd()
    settings = read_configuration(options).for_directory(directory)
    note_ignored(settings, options)
    folder = settings.cache_location
    if folder is None:
        raise DynalintError("there is no cache, because this user has no home folder and cache-dir is not set.")
    removed = _remove(folder)
    if not options["quiet"]:
        shown = show_path(folder, directory)
        outcome = (
            f"removed {removed} file{'s' if removed != 1 else ''} from {shown}" if removed else f"nothing in {shown}"
        )
        note(f"{outcome}.", options["color"])


def _remove(folder: Path) -> int:
    """Remove the cache in a folder, and the folder if it is empty afterwards. Return the number of files removed."""
    import shutil

    count = 0
    try:
        for name in _KEPT:
            if (folder / name).is_dir() and not (folder / name).is_symlink():
                count += sum(1 for path in (folder / name).rglob("*") if path.is_file())
                shutil.rmtree(folder / name)
        if folder.is_dir() and {path.name for path in folder.iterdir()} <= {".gitignore"}:
            (folder / ".gitignore").unlink(missing_ok=True)
            folder.rmdir()
    except OSError as fault:
        raise DynalintError(f"cannot remove the cache in {folder}: {fault.strerror or fault}.") from fault
    return count
