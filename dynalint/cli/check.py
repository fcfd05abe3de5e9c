"""`dynalint check`, which finds problems and confirms them where a sandbox is available."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dynalint.cli.execution import read_shard
from dynalint.cli.options import linting_options
from dynalint.errors import UsageError
from dynalint.findings import CATEGORIES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dynalint.analysis.source import SourceFile
    from dynalint.cli.session import CommandRun
    from dynalint.findings import Finding

_EPILOG = """\b
Examples:
  dynalint check                                 check the project, and confirm the findings
  dynalint check --static src/model.py           only read the source code, without torch
  dynalint check --select DYN1,DYN2 --statistics
  dynalint check --fail-on graph-break           do not fail because of advice or recompilations
  dynalint check --since origin/main             only report findings on changed lines
  dynalint check --write-baseline baseline.json  write today's findings to a file for --baseline
  dynalint check --output-format github          write annotations for a pull request
  dynalint check --output-format html -o r.html  write a page with all findings and diffs
  cat model.py | dynalint check --stdin-filename model.py -
"""

_ADD_IGNORE, _SHARD = "--add-ignore", "--shard"

# Options that select a different action, each with the options that cannot be combined with it.
_EXCLUDED = {
    "--watch": ("-", "--profile"),
    "--show-files": ("--watch", "--statistics"),
    "--write-baseline": ("--watch", "--statistics", "--since"),
    _ADD_IGNORE: ("--watch", "--statistics", "--ignore-suppressions", "-"),
    _SHARD: ("--watch", "--statistics", "--write-baseline", _ADD_IGNORE, "--since", "-"),
}


class _Command(click.Command):
    """Only accepts a value for `--add-ignore` after "=", because the next argument can be a path."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        options = [f"{arg}=" if arg == _ADD_IGNORE else arg for arg in args[:end]]
        return super().parse_args(ctx, [*options, *args[end:]])


@click.command(cls=_Command, epilog=_EPILOG)
@linting_options
@click.option("--statistics", is_flag=True, help="Count the findings by rule instead of listing them.")
@click.option("--show-fixes", is_flag=True, help="Show how each finding would be fixed, or why there is no fix.")
@click.option("--show-files", is_flag=True, help="List the files that would be checked, without checking them.")
@click.option(
    "--show-refuted", is_flag=True, help="Also report refuted findings. Dynamo traced these without breaking the graph."
)
@click.option(
    "--fail-on",
    multiple=True,
    type=click.Choice(CATEGORIES),
    help="Exit with 1 only if there are findings in this category. Can be repeated.",
)
@click.option(
    "--since", metavar="REVISION", help="Only report findings on lines that have changed since this git revision."
)
@click.option(
    "--write-baseline",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write all findings to this file instead of reporting them. Pass the file to --baseline later.",
)
@click.option(
    _ADD_IGNORE,
    metavar="[REASON]",
    help="Silence all findings by adding comments. To add a reason to them, use --add-ignore=REASON.",
)
@click.option(
    _SHARD,
    type=read_shard,
    metavar="I/N",
    help="Only run part I of N of the code. Write the results to --output-file, for `dynalint merge`.",
)
@click.option("-w", "--watch", is_flag=True, help="Check again whenever a file changes, until you press Ctrl-C.")
def check(**options: Any) -> int:
    """Find the lines that break graphs or cause recompilations.

    PATHS are files and directories. By default, dynalint checks the `include` paths in the configuration or, if there
    are none, the working directory. "-" reads a file from standard input.
    """
    _check_options(options)
    if options["watch"]:
        from dynalint.cli.watch import watch

        watch(lambda: check_once(options), lambda: _watched(options))
    return check_once(options)


def check_once(options: dict[str, Any]) -> int:
    """Check once with the options of `check`, and return the exit code."""
    from dynalint.cli.profile import profiled

    with profiled(options):
        return _check_once(options)


def _check_once(options: dict[str, Any]) -> int:
    from dynalint.adoption.changes import changes_since
    from dynalint.cli.session import CommandRun
    from dynalint.linting.positions import lines_by_place
    from dynalint.report import WITH_FIXES
    from dynalint.report.runners import in_text
    from dynalint.report.style import visible

    run = CommandRun(options)
    if options["show_files"]:
        run.write(in_text("".join(f"{visible(run.workspace.shown(path))}\n" for path in run.workspace.files)))
        return run.exit_code(())
    changes = changes_since(options["since"], run.directory) if options["since"] else None
    silencing = options["add_ignore"] is not None  # this needs the files' syntax trees
    checked = (None if silencing else run.recalled()) or run.check()
    run.add_failures(checked.failures)
    for text in checked.notes:
        run.note(text)
    run.keep_verdicts(checked)
    if checked.interrupted and (options["write_baseline"] or silencing or options["shard"]):
        raise KeyboardInterrupt
    if options["shard"]:
        return _write_shard(run, options)
    found, lines = checked.reported(refuted=options["show_refuted"]), lines_by_place(checked.files().items())
    if options["write_baseline"]:
        run.keep(checked)
        run.write_baseline(options["write_baseline"], found, lines)
        return run.exit_code(())
    refuted = 0 if options["show_refuted"] else checked.refuted
    findings = run.new(found, lines)
    if changes is not None:
        unchanged = len(findings)
        findings = changes.among(findings)
        run.verbose(f"{unchanged - len(findings)} findings are on lines that have not changed.")
    if silencing:
        return _silence(run, checked.files(), run.shown(findings), options["add_ignore"])
    run.verbose(f"{len(findings)} findings, {refuted} refuted.")
    statistics = options["statistics"]
    wants_fixes = statistics or options["show_fixes"] or run.settings.output_format in WITH_FIXES
    with_fixes = checked.with_fixes if wants_fixes else None
    try:
        run.report(findings, lines, refuted=refuted, statistics=statistics, ran=checked.ran, with_fixes=with_fixes)
    finally:  # even if nobody reads the report any more
        run.keep(checked)
    run.add_failures(checked.failures_in_fixes)
    if checked.interrupted:
        # The report covers what has been found so far. Raising makes the command line print that it was interrupted.
        raise KeyboardInterrupt
    wanted = options["fail_on"] or CATEGORIES
    # `--show-refuted` lists refuted findings, but they do not affect the exit code.
    counting = (one for one in run.shown(findings) if one.category in wanted)
    return run.exit_code([one for one in counting if one.evidence.status != "refuted"])


def _watched(options: dict[str, Any]) -> Iterator[Path]:
    """Yield the files that a check depends on: the checked files and the configuration.

    Raises:
        UsageError: If a path does not exist.
        ConfigError: If the configuration is invalid.
    """
    from dynalint.cli.options import read_configuration
    from dynalint.projects.workspace import open_workspace

    paths = [Path(path) for path in options["paths"]]
    workspace, _ = open_workspace(paths, read_configuration(options), Path.cwd())
    yield from workspace.files
    for directory in {path.parent for path in workspace.files}:
        file = workspace.configuration.for_directory(directory).config_file
        if file is not None:
            yield file


def _check_options(options: dict[str, Any]) -> None:
    """Reject options that cannot be combined.

    Raises:
        UsageError: If two of the options cannot be combined.
    """
    given = [f"--{name.replace('_', '-')}" for name, value in options.items() if value not in (None, False, (), "")]
    given += [_ADD_IGNORE] if options["add_ignore"] == "" else []
    given += ["-"] if "-" in options["paths"] else []
    if options["shard"] and not options["output_file"]:
        raise UsageError("--shard requires --output-file, because `dynalint merge` reads that file.")
    doing = [name for name in given if name in _EXCLUDED]
    doing += [name for one in doing for name in given if name in _EXCLUDED[one]]
    if len(doing) > 1:
        raise UsageError(f"{doing[0]} and {doing[1]} cannot be combined.")


def _silence(run: CommandRun, files: Mapping[str, SourceFile], findings: Sequence[Finding], reason: str) -> int:
    """Write ignore comments for the findings into their files. `files` maps the paths in findings to the files."""
    from dynalint.adoption.add_ignore import NOT_SILENCED, silence
    from dynalint.errors import DynalintError
    from dynalint.fix.write import FileWrite, write_groups
    from dynalint.linting.positions import unplaced

    by_path: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.code not in NOT_SILENCED and finding.evidence.status != "refuted":
            by_path.setdefault(finding.path, []).append(finding)
    writes = {}
    for path, some in by_path.items():
        file = files[path]
        try:
            text = silence(file, [unplaced(one, file) for one in some], " ".join(reason.split()))
        except DynalintError as fault:
            run.add_failures([f"{path}: not silenced: {fault}."])
            continue
        before = file.data if file.data is not None else file.encode(file.text)
        writes[file.path] = FileWrite(file.path, path, before, file.encode(text))
    written, failures = write_groups([[path] for path in writes], writes)
    run.add_failures(failures)
    done = sum(len(some) for path, some in by_path.items() if files[path].path in written)
    many = f"{done} finding{'s' if done != 1 else ''} in {len(written)} file{'s' if len(written) != 1 else ''}"
    run.note(f"silenced {many}.")
    return run.exit_code(())


def _write_shard(run: CommandRun, options: Mapping[str, Any]) -> int:
    """Write a shard's answers to the output file, and return the exit code.

    Raises:
        DynalintError: If the file cannot be written.
    """
    answers = run.workspace.execution.answers if run.workspace.execution is not None else None
    assert answers is not None
    answers.write(options["output_file"], options["paths"])
    many = len(answers.made)
    run.note(f"shard {answers.shard}: {many} answer{'s' if many != 1 else ''}; `dynalint merge` combines all shards.")
    return run.exit_code(())
