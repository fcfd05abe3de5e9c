"""The command line, which consists of thin commands on top of the engine.

A command's modules are imported when it runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from io import StringIO
from traceback import format_exc

import click

from dynalint import __version__
from dynalint.cli.check import check
from dynalint.cli.clean import clean
from dynalint.cli.config import config
from dynalint.cli.ending import INTERRUPTED, interruptible
from dynalint.cli.explain import explain
from dynalint.cli.fix import fix
from dynalint.cli.merge import merge
from dynalint.cli.rule import rule
from dynalint.cli.server import server
from dynalint.cli.trace import trace
from dynalint.cli.trust import trust
from dynalint.errors import DynalintError

FAILED = 2
CUT_OFF = 141

_EPILOG = """\b
Examples:
  dynalint check                     check the project, and confirm the findings
  dynalint check --static src        only read the source code, without torch
  dynalint fix                       show the fixes as a diff
  dynalint fix --apply               apply the fixes
  dynalint rule DYN101               explain what a rule flags, why, and how to fix it

\b
The exit code is 0 if there is nothing to report, 1 if there are findings, 2 if the
command was used incorrectly or dynalint failed, and 130 if it was interrupted.
"""


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=_EPILOG,
    no_args_is_help=True,
)
@click.version_option(__version__, prog_name="dynalint", message="%(prog)s %(version)s")
def cli() -> None:
    """Find the lines that cause torch.compile to break the graph or recompile.

    dynalint reads the source code, confirms its findings with Dynamo, and rewrites the code so that the model compiles
    into one graph.
    """


for _command in (check, merge, fix, trace, explain, rule, config, trust, server, clean):
    cli.add_command(_command)


def run(arguments: Sequence[str]) -> int:
    """Run the command line with `arguments` and return the exit code. Every error is reported in one sentence."""
    with interruptible() as interrupted:
        code = _run(arguments)
    # After an interrupt, the language server shuts down normally and returns, so the exit code has to be set here.
    return INTERRUPTED if interrupted else code


def _run(arguments: Sequence[str]) -> int:
    from dynalint.cli.console import fail, write
    from dynalint.report.style import visible_lines

    try:
        result = cli.main(list(arguments), prog_name="dynalint", standalone_mode=False)
    except click.ClickException as fault:
        _show(fault)
        return fault.exit_code
    except DynalintError as fault:
        fail(str(fault))
        return fault.exit_code
    except (click.Abort, KeyboardInterrupt):
        fail("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe, as in `dynalint check | head`. This keeps Python from flushing the rest to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CUT_OFF
    except Exception as fault:  # noqa: BLE001 - only -v shows a traceback
        if "-v" in arguments or "--verbose" in arguments:
            write(visible_lines(format_exc()), sys.stderr)
        fail(f"dynalint failed: {type(fault).__name__}: {fault}; this is a bug in dynalint, and -v shows the traceback")
        return FAILED
    return result if isinstance(result, int) else 0


def _show(fault: click.ClickException) -> None:
    """Print a usage error in a form that is safe to display, because file names in it may come from a shell pattern."""
    from dynalint.cli.console import write
    from dynalint.report.style import visible_lines

    text = StringIO()
    fault.show(file=text)
    write(visible_lines(text.getvalue()), sys.stderr)
