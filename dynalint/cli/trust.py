"""`dynalint trust`, which allows a project's own configuration to start programs and weaken the sandbox."""

from __future__ import annotations

from typing import Any

import click

from dynalint.cli.options import talking_options
from dynalint.errors import UsageError

_EPILOG = """\b
Examples:
  dynalint trust                                 trust the project in the working directory
  dynalint trust ../other
  dynalint trust --revoke

\b The following require trust: `python`, `test-command`, `cache-dir`, `confirm = "always"`,
`device = "cuda"`, a `timeout` of more than 600 seconds, more `memory` or `jobs` than by default, and using a .venv in a
project that has no git repository.
"""


@click.command(epilog=_EPILOG)
@click.argument("path", required=False)
@click.option("--revoke", is_flag=True, help="Stop trusting the project.")
@talking_options
def trust(path: str | None, *, revoke: bool, **options: Any) -> None:
    """Allow a project's configuration to choose the interpreter and weaken the sandbox.

    PATH is the project, or a file or folder in it. The default is the working directory. Review the project's
    configuration first, because the programs that it names are started outside the sandbox. Trust applies to the
    project at this location and to its current settings. If you move the project or these settings change, they have
    no effect until you trust the project again.
    """
    from pathlib import Path

    from dynalint.cli.console import note
    from dynalint.config import Configuration, Overrides
    from dynalint.projects.trust import Trust
    from dynalint.projects.workspace import absolute
    from dynalint.rulebook.catalogue import known_codes

    directory = Path.cwd()
    place = absolute(Path(path), directory) if path else directory
    if not place.exists():
        raise UsageError(f"{path}: no such file or directory.")
    settings = Configuration(Overrides(), known_codes(), directory).for_run([place])
    messages = []
    if revoke:
        was = Trust().revoke(settings.root)
        messages.append(f"{settings.root} is no longer trusted." if was else f"{settings.root} was not trusted.")
    else:
        Trust().grant(settings.root, settings.asked)
        messages += [f"{one.place}: {one.described} takes effect from now on." for one in settings.asked]
        messages.append(f"{settings.root} is trusted; to undo this, run `dynalint trust --revoke`.")
    if not options["quiet"]:
        for text in messages:
            note(text, options["color"])
