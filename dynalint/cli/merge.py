"""`dynalint merge`, which combines the shards of a run on more than one machine into one report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dynalint.cli.check import check, check_once
from dynalint.errors import UsageError

_EPILOG = """\b
Examples, on three machines with the same files at the same paths:
  dynalint check --shard 1/3 -o shard-1.json src      on the first machine
  dynalint check --shard 2/3 -o shard-2.json src      on the second machine
  dynalint check --shard 3/3 -o shard-3.json src      on the third machine
  dynalint merge shard-*.json --output-format github  afterwards, on any of them
"""

# Options of `check` that do not apply here, because the shards determine what was checked.
_NOT_TAKEN = frozenset({"paths", "stdin_filename", "watch", "shard", "static"})


@click.command(
    epilog=_EPILOG,
    params=[
        click.Argument(
            ["shards"], nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False), metavar="SHARDS..."
        ),
        *(parameter for parameter in check.params if parameter.name not in _NOT_TAKEN),
    ],
)
def merge(shards: tuple[Path, ...], **options: Any) -> int:
    """Combine the results of `dynalint check --shard` into one report.

    SHARDS are the files for all shards of one run, which can come from different machines. The report is the same as
    for a run on a single machine. If there is code that no shard could have known about, such as the parts of a model
    that could not be built, it is run now. All other options are the same as for `check`. Options that determine what
    is checked and run must have the same values as they had for the shards.
    """
    from dynalint.cli.console import note
    from dynalint.confirm.shards import read_shards
    from dynalint.projects.reading import is_inside

    answers, paths = read_shards(shards)
    # The shards may come from a job that ran untrusted code, so they must not determine which files are read here.
    outside = next((path for path in paths if not is_inside(Path(path), Path.cwd())), None)
    if outside is not None:
        raise UsageError(
            f"the shards are for {outside}, which is not in this folder; merge them where they were created."
        )
    left_out = dict.fromkeys(_NOT_TAKEN)
    code = check_once({**options, **left_out, "paths": paths, "answers": answers})
    unused = answers.given.keys() - answers.used
    if unused and not options["quiet"]:
        many = f"{len(unused)} of the shards' {len(answers.given)} answers were not used"
        note(
            f"{many}, because files, options, or the interpreter have changed, or because they were not required.",
            options["color"],
        )
    return code
