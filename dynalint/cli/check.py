"""`dynalint check`: find, and confirm where a sandbox holds."""

from __future__ import annotations

from typing import Any

import click

from dynalint.cli.options import linting_options
from dynalint.errors import UsageError

_EPILOG = """\b
Examples:
  dynalint check                                 check the project, confirm what can be run
  dynalint check --static src/model.py           only read the source; needs no torch
  dynalint check --select DYN1,DYN2 --statistics
  dynalint check --fail-on graph-break           advice and recompiles do not fail the build
  dynalint check --output-format github          annotations on a pull request
  cat model.py | dynalint check --stdin-filename model.py -
"""

_CATEGORIES = ("graph-break", "recompile", "miscompile", "advice", "error")


@click.command(epilog=_EPILOG)
@linting_options
@click.option("--statistics", is_flag=True, help="Count the findings by rule instead of listing them.")
@click.option("--show-files", is_flag=True, help="List the files that would be checked, and check none.")
@click.option(
    "--show-refuted", is_flag=True, help="Report findings too that Dynamo refuted: it traced that place whole."
)
@click.option(
    "--fail-on",
    multiple=True,
    type=click.Choice(_CATEGORIES),
    help="Exit with 1 only for findings of this category; may be repeated.",
)
def check(**options: Any) -> int:
    """Find the lines that break graphs or force recompilation.

    PATHS are files and directories; without any, what the configuration includes is checked, else the working
    directory. "-" reads one file from standard input.
    """
    from dynalint import engine
    from dynalint.cli.session import Run

    run = Run(options)
    if options["show_files"]:
        if options["statistics"]:
            raise UsageError("--show-files and --statistics exclude each other.")
        run.write("".join(f"{run.workspace.shown(path)}\n" for path in run.workspace.files))
        return run.exit_code(())
    with run.activity() as progress:
        checked = engine.check(run.workspace, progress)
    run.add_failures(checked.failures)
    lines = checked.lines()
    findings = run.fingerprinted(checked.reported(refuted=options["show_refuted"]), lines)
    refuted = len(checked.linted) - len(findings)
    run.verbose(f"{len(findings)} findings, {refuted} refuted.")
    run.report(findings, lines, refuted=refuted, statistics=options["statistics"])
    wanted = options["fail_on"] or _CATEGORIES
    # A refuted finding is shown on demand, and is still none.
    return run.exit_code([one for one in checked.reported() if one.category in wanted])
