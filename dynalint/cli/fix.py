"""`dynalint fix`, which shows the fixes as a diff or applies them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import click

from dynalint.cli.options import STDIN, linting_options
from dynalint.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from dynalint.cli.session import CommandRun
    from dynalint.engine import Checked
    from dynalint.findings import Finding
    from dynalint.fix import FixResult, Writer

_EPILOG = """\b
Examples:
  dynalint fix                                   show the fixes as a diff; exit with 1 if there are any
  dynalint fix --apply                           write the fixes
  dynalint fix --interactive                     ask about each fix, and write those that you accept
  dynalint fix --apply --test "pytest -q tests"  drop fixes that make a test fail
  dynalint fix --apply --static                  only apply fixes that are exact; run no code
  dynalint fix --select DYN1 --unsafe-fixes src
  dynalint fix --settings                        turn on Dynamo settings instead of rewriting code
  dynalint fix --print-fix remove                remove prints and log calls instead of guarding them
"""

_MOST_TESTS = 3
# Formats in which a finding's fix includes `applied`, whether it was applied, and `tests`, which tests ran its code.
_WITH_FIXED = ("json", "json-lines")


@click.command(epilog=_EPILOG)
@linting_options
@click.option("--apply", is_flag=True, help="Write the fixes.")
@click.option("--interactive", is_flag=True, help="Show each fix and its evidence, and ask whether to write it.")
@click.option("--unsafe-fixes", is_flag=True, help="Include fixes that change behaviour by design.")
@click.option("--no-verify", is_flag=True, help="Do not run the original and the fixed code to compare them.")
@click.option(
    "--print-fix",
    type=click.Choice(["guard", "remove"]),
    help="Whether to skip prints, log calls, and warnings while compiling, or to remove them.",
)
@click.option(
    "--test",
    "test_command",
    metavar="COMMAND",
    help="Run the project's tests with this command, in a copy of the project, and drop fixes that make a test fail.",
)
@click.option(
    "--settings",
    is_flag=True,
    help="Do not rewrite code. Instead, turn on settings that let Dynamo trace it, in files that call torch.compile.",
)
@click.option("--exit-non-zero-on-fix", is_flag=True, help="Exit with 1 if --apply has fixed anything.")
def fix(**options: Any) -> int:
    """Show the fixes as a diff, or write them with --apply.

    dynalint verifies each fix by running the original and the fixed code. The results, gradients, state, and exceptions
    must be the same, and the fixed code must compile into one graph. If a fix is only correct under a condition,
    dynalint only applies it if verification shows that the condition is met.
    """
    from dynalint.cli.profile import profiled

    with profiled(options):
        return _fix(options)


def _fix(options: Mapping[str, Any]) -> int:
    from dynalint import engine
    from dynalint.cli.session import CommandRun
    from dynalint.confirm.servers import keeping_a_server
    from dynalint.fix import Writer
    from dynalint.profiling import charged

    asking, verify = bool(options["interactive"]), not options["no_verify"]
    writing = options["apply"] or asking
    if options["static"] and options["test_command"]:
        raise UsageError("--static and --test cannot be combined.")
    if asking and STDIN in options["paths"]:
        raise UsageError('"-" and --interactive cannot be combined, because both of them read standard input.')
    if options["settings"] and (asking or options["test_command"]):
        raise UsageError(f"--settings and {'--interactive' if asking else '--test'} cannot be combined.")
    run = CommandRun(options)
    writer = Writer(lambda source: run.workspace.shown(source.path))
    keep = writer.keep if writing and run.stdin is None else None

    def fixing(checked: Checked, **how: Any) -> tuple[FixResult, tuple[str, ...]]:
        with charged("trying fixes", whole=True):
            return engine.fix(checked, verify=verify, unlikely=options["all"], keep=keep, **how)

    with keeping_a_server(), _noting_progress(run, writer, writing=keep is not None):
        with run.activity() as progress:
            checked = engine.check(run.workspace, progress, fixable=not writing and not options["settings"])
            if checked.interrupted:
                raise KeyboardInterrupt
            if options["settings"]:
                result, failures = engine.fix_settings(checked, unlikely=options["all"], keep=keep)
            else:
                checked = checked.offered()
            if not asking and not options["settings"]:
                result, failures = fixing(checked, progress=progress)
        if asking:
            from dynalint.cli.prompts import Prompts

            result, failures = fixing(checked, decide=Prompts(run))
    run.add_failures(dict.fromkeys([*checked.failures, *failures]))
    if not writing:
        return _show(run, result, settings=options["settings"])
    return _apply(run, result, writer, options, ran=checked.ran)


@contextlib.contextmanager
def _noting_progress(run: CommandRun, writer: Writer, *, writing: bool) -> Iterator[None]:
    """Print which files have been written so far if fixing is interrupted. `writing` says whether files are written."""
    try:
        yield
    except KeyboardInterrupt:
        if writer.written:
            run.note(f"the fixes so far have been written: {', '.join(writer.written)}.")
        elif writing:
            run.note("no file has been changed so far.")
        raise


def _show(run: CommandRun, result: FixResult, *, settings: bool) -> int:
    """Write the diff, and return the exit code, which is 1 if there is a diff."""
    run.write_diff("".join(file.diff(run.workspace.shown(file.source.path)) for file in result.files))
    if result.fixed:
        run.note(f"would fix {_counted(result)}; to write {_them(len(result.fixed))}, pass `--apply`.")
    elif run.workspace.files:
        run.note(_nothing(len(_reported(result.remaining)), settings=settings))
    _explain(run, result)
    return run.exit_code([fixed.finding for fixed in result.fixed])


def _apply(run: CommandRun, result: FixResult, writer: Writer, options: Mapping[str, Any], *, ran: bool) -> int:
    """Write the files, and report the remaining findings. `ran` says whether code was run."""
    if run.stdin is not None:
        run.write_stdin(next((file.text for file in result.files), None))
        _explain(run, result)
        return run.exit_code(
            [
                *run.shown(_reported(result.remaining)),
                *(fixed.finding for fixed in result.fixed if options["exit_non_zero_on_fix"]),
            ]
        )
    result = writer.finish(result)
    run.add_failures(result.failures)
    if result.fixed:
        run.note(f"fixed {_counted(result)}.")
    _explain(run, result)
    remaining = [run.placed(finding) for finding in _reported(result.remaining)]
    lines = run.lines_now(remaining)
    left = run.new(remaining, lines)
    listed: Sequence[Finding] = left
    if run.settings.output_format in _WITH_FIXED and any(
        one.finding.fix and one.finding.fix.tests for one in result.fixed
    ):
        done = [run.placed(one.finding) for one in result.fixed]
        listed = sorted([*left, *done], key=lambda finding: finding.sort_key)
    run.report(listed, lines, refuted=len(result.remaining) - len(remaining), ran=ran, with_fixes=tuple)
    return run.exit_code([*run.shown(left), *_counting(result, options)])


def _counting(result: FixResult, options: Mapping[str, Any]) -> list[Finding]:
    """Return the fixed findings if they count for the exit code."""
    return [fixed.finding for fixed in result.fixed] if options["exit_non_zero_on_fix"] else []


def _reported(findings: Iterable[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.evidence.status != "refuted"]


def _some(tests: Sequence[str]) -> str:
    """Return the names of a few tests, and the number of others."""
    shown = ", ".join(tests[:_MOST_TESTS])
    return shown if len(tests) <= _MOST_TESTS else f"{shown} and {len(tests) - _MOST_TESTS} more"


def _nothing(left: int, *, settings: bool) -> str:
    """Return the message for an empty diff, which says how to find out why findings have no fix."""
    if settings:
        return "there is no Dynamo setting to turn on."
    findings = "1 finding has" if left == 1 else f"{left} findings have"
    return (
        f"nothing to fix: {findings} no fix; to see why, run `dynalint check --show-fixes`."
        if left
        else "nothing to fix."
    )


def _them(number: int) -> str:
    return "it" if number == 1 else "them"


def _counted(result: FixResult) -> str:
    """Return the number of fixes, and how many of them were verified by running the code."""
    found, files = len(result.fixed), len(result.files)
    proven = sum(fixed.verification is not None and fixed.verification.outcome == "proven" for fixed in result.fixed)
    verified = f", {proven} verified by running the code" if proven else ""
    return f"{found} finding{'s' if found != 1 else ''} in {files} file{'s' if files != 1 else ''}{verified}"


def _explain(run: CommandRun, result: FixResult) -> None:
    """Print what the applied fixes change, and why other fixes were not applied."""
    for fixed in result.fixed:
        finding = run.placed(fixed.finding)
        place = f"{finding.place}:{finding.line}:{finding.column}: {finding.code}"
        if fixed.verification is not None and fixed.verification.passed:
            run.note(f"{place}: {fixed.verification.detail}.")
        if finding.fix is not None and finding.fix.tests:
            run.note(f"{place}: tested by {_some(finding.fix.tests)}.")
    for refused in result.refused:
        finding = run.placed(refused.finding)
        place = f"{finding.place}:{finding.line}:{finding.column}: {finding.code}"
        unlock = f" ({refused.unlock} applies it)" if refused.unlock else ""
        run.note(f"{place} not fixed: {refused.reason}{unlock}.")
    for text in result.notes:
        run.note(f"{text}.")
    left = [finding for finding in result.remaining if finding.fixable]
    folded = len(left) - len(run.shown(left))
    if folded:
        run.note(
            f"{folded} more in code that is rarely compiled can be fixed; to include {_them(folded)}, pass `--all`."
        )
