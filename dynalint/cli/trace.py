"""`dynalint trace`, which runs a command and confirms findings with the calls that it makes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dynalint.cli.options import configuration_options, seconds
from dynalint.errors import UsageError

if TYPE_CHECKING:
    from dynalint.confirm.results import TargetResult
    from dynalint.confirm.trace import Traced

_EPILOG = """\b
Examples:
  dynalint trace -- pytest                       confirm findings with the calls that the tests make
  dynalint trace -- python train.py --steps 10
  dynalint trace --budget 600 -- pytest -n 4 tests/models
  dynalint check                                 report the findings, using the results of the trace

\b
The exit code is the command's exit code.
"""
_MOST_NAMES = 5


@click.command(epilog=_EPILOG, context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.option(
    "--budget",
    type=seconds,
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="The maximum time to spend on confirming calls, across all of the command's processes.",
)
@click.option("--confirm", is_flag=True, help="Confirm calls even if there is no working sandbox.")
@click.option("--cache-dir", metavar="DIRECTORY", help="The folder in which to store the results.")
@configuration_options
def trace(command: tuple[str, ...], budget: float, **options: Any) -> int:
    """Run COMMAND, and confirm findings with the calls that it makes.

    dynalint confirms the outermost calls to modules and compiled functions. It confirms each kind of call once, in a
    fork of the process, so the command computes, prints, and writes the same things as without `dynalint trace`. Later
    runs of `dynalint check` use the results as long as the files that were run have not changed.
    """
    from dynalint.cli.console import note
    from dynalint.cli.options import note_ignored, read_configuration
    from dynalint.confirm.options import ConfirmOptions
    from dynalint.confirm.trace import trace as run

    settings = read_configuration(options).for_run([])
    note_ignored(settings, options)
    if settings.cache_directory is None:
        raise UsageError("the cache is turned off, so the results cannot be stored; use --cache-dir.")
    confirm = ConfirmOptions(
        mode="always" if settings.confirm == "always" else "auto",
        timeout=settings.timeout,
        memory=settings.memory << 20,
        project=settings.root,
        cache=settings.cache_directory,
    )
    traced = run(command, confirm, budget)
    if not options["quiet"]:
        for line in summary(traced, verbose=options["verbose"]):
            note(f"dynalint trace: {line}", options["color"])
    return traced.code


def summary(traced: Traced, *, verbose: bool = False) -> list[str]:
    """Return a summary of what happened in a traced command, in a few sentences."""
    heard = traced.confirmed
    broken = sum(bool(one.default and one.default.breaks) for one in heard)
    again = sum(any(compiled.call == one.same - 1 for compiled in one.recompiles) for one in heard)
    did = f"{_kinds(len(heard))} confirmed in {traced.seconds:.1f} s: {broken} with graph breaks, {again} recompiled"
    lines = [f"{did} on every call; {traced.known} already known. `dynalint check` uses them."]
    seen = [f"{one.target.qualname}: {_shown(one)}." for one in heard]
    lines += seen if verbose else seen[:_MOST_NAMES]
    if len(seen) > _MOST_NAMES and not verbose:
        lines.append(f"{len(seen) - _MOST_NAMES} more were confirmed; -v lists them.")
    problems = [f"{name} not confirmed: {reason.rstrip('.')}." for name, reason in traced.problems]
    shown = problems if verbose else problems[:_MOST_NAMES]
    lines += shown
    if len(problems) > len(shown):
        lines.append(f"{len(problems) - len(shown)} more were not confirmed; -v lists them.")
    if traced.raising:
        names = f": {', '.join(traced.raising)}" if verbose else ""
        lines.append(
            f"{_kinds(len(traced.raising))} not confirmed, because the call itself raises an exception{names}."
        )
    if traced.left:
        lines.append(
            f"{_kinds(len(traced.left))} not confirmed: the budget is used up; trace again, or increase --budget."
        )
    if not traced.processes:
        lines.append("none of the command's processes imported torch, or they could not be watched.")
    elif not (traced.confirmed or traced.known or traced.left or traced.problems or traced.raising):
        names = ", ".join(traced.foreign[:_MOST_NAMES])
        foreign = f"the command called modules from {names}, but no modules whose code is in this project."
        lines.append(foreign if names else "the command did not call any modules or compiled functions.")
    lines += [f"part of the trace failed: {reason}" for reason in traced.failures[: None if verbose else 1]]
    return lines


def _shown(result: TargetResult) -> str:
    """Describe the result of a call to a target."""
    from dynalint.confirm.results import distinct

    breaks = distinct(result.default.breaks) if result.default is not None else []
    places = dict.fromkeys(f"{Path(one.stack[-1].file).name}:{one.stack[-1].line}" for one in breaks if one.stack)
    many = "1 graph break" if len(breaks) == 1 else f"{len(breaks)} graph breaks"
    shown = f"{many} ({', '.join([*places][:_MOST_NAMES])})" if breaks else "no graph break"
    return f"{shown}, recompiled {len(result.recompiles)} times" if result.recompiles else shown


def _kinds(number: int) -> str:
    return "1 kind of call" if number == 1 else f"{number} kinds of calls"
