"""`dynalint completion`: print the shell completion script."""

from __future__ import annotations

import click

VARIABLE = "_DYNALINT_COMPLETE"

_EPILOG = """\b
Examples:
  eval "$(dynalint completion bash)"             in ~/.bashrc
  eval "$(dynalint completion zsh)"              in ~/.zshrc
  dynalint completion fish > ~/.config/fish/completions/dynalint.fish
"""


@click.command(epilog=_EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes commands, options and their values in SHELL."""
    from click.shell_completion import get_completion_class

    from dynalint.cli.console import write

    found = get_completion_class(shell)
    assert found is not None
    write(found(context.find_root().command, {}, "dynalint", VARIABLE).source() + "\n")
