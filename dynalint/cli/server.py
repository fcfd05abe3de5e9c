"""`dynalint server`, which runs the language server."""

from __future__ import annotations

import click

from dynalint.errors import DynalintError

_EPILOG = """\b
Examples:
  dynalint server                                what an editor starts; see docs/editors.md
"""


@click.command(epilog=_EPILOG)
def server() -> None:
    """Run the language server on standard input and output.

    It shows the findings of the static analysis as you type, with the verdicts of the last `dynalint check`. It
    requires `pip install 'dynalint[server]'`.
    """
    try:
        from dynalint.server.server import serve
    except ModuleNotFoundError as fault:
        if (fault.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise DynalintError("the server needs pygls: run `pip install 'dynalint[server]'`.") from fault
    serve()
