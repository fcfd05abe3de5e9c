"""`dynalint server`, which runs the language server."""

from __future__ import annotations

import click

from dynalint.errors import DynalintError

_EPILOG = """\b
Examples:
  dynalint server                                the command that editors run; see docs/editors.md
"""


@click.command(epilog=_EPILOG)
def server() -> None:
    """Run the language server on standard input and output.

    The server shows the findings of a static check as you type, with the verdicts from the last `dynalint check`. To
    install it, run `pip install 'dynalint[server]'`.
    """
    try:
        from dynalint.server.server import serve
    except ModuleNotFoundError as fault:
        if (fault.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise DynalintError("the server requires pygls; run `pip install 'dynalint[server]'`.") from fault
    serve()
