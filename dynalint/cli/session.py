"""What `check` and `fix` have in common: the workspace for the given options, and reporting."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from dynalint.adoption.baseline import Baseline, BaselineComparison
from dynalint.adoption.fingerprints import Identity, fingerprinted, repository_path, repository_top
from dynalint.analysis.notebook import SUFFIX
from dynalint.analysis.source import SourceFile, parse_source, read_source
from dynalint.caching.last_verdicts import LastVerdicts
from dynalint.cli.activity import Activity
from dynalint.cli.console import ColorChoice, fail, note, style_for, write, write_diff
from dynalint.cli.execution import execution
from dynalint.cli.options import STDIN, kept_catalogue, note_ignored, read_configuration
from dynalint.config import Settings
from dynalint.errors import DynalintError, UsageError
from dynalint.findings import Finding
from dynalint.linting.positions import lines_by_place, placed
from dynalint.profiling import charged, count
from dynalint.projects.workspace import Workspace, open_workspace, text_workspace
from dynalint.report import FOLDING, Report, Style, render, render_statistics
from dynalint.report.reasons import reasons

if TYPE_CHECKING:
    from dynalint.caching.checks import Recalled
    from dynalint.engine import Checked


class CommandRun:
    """A run of a command that checks files, with its command-line options."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        """Find the files to check, and print notes about given paths that are skipped.

        Raises:
            UsageError: If options cannot be combined, or a path does not exist.
            ConfigError: If the configuration is invalid.
        """
        with charged("finding files"):
            self._set_up(options)
            count("finding files", len(self.workspace.files))

    def _set_up(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._start = time.perf_counter()
        self._failures: list[str] = []
        self.color = cast("ColorChoice", options["color"])
        self.quiet = bool(options["quiet"])
        self.catalogue = kept_catalogue(options)
        self.configuration = read_configuration(options, self.catalogue)
        self.directory = Path.cwd()
        self.stdin: bytes | None = None
        self.workspace = replace(self._open(), ignore_suppressions=bool(options["ignore_suppressions"]))
        self.workspace = replace(self.workspace, execution=execution(options, self.settings))
        self._compared: BaselineComparison | None = None
        note_ignored(self.settings, options)
        file = self.settings.config_file
        self.verbose(f"settings are {'the defaults' if file is None else f'from {self.workspace.shown(file)}'}.")

    @property
    def settings(self) -> Settings:
        """The settings for this run."""
        return self.workspace.settings

    def _open(self) -> Workspace:
        paths: Sequence[str] = self._options["paths"]
        if STDIN in paths:
            if len(paths) > 1:
                raise UsageError('"-" reads a file from standard input and cannot be combined with other paths.')
            self.stdin = sys.stdin.buffer.read()
            name = Path(self._options["stdin_filename"] or STDIN)
            return text_workspace(name, self.stdin, self.configuration, self.directory)
        if self._options["stdin_filename"]:
            raise UsageError('--stdin-filename is the name for standard input; pass "-" as the path.')
        workspace, found = open_workspace([Path(path) for path in paths], self.configuration, self.directory)
        for text in found.notes:
            self.note(text)
        self.add_failures(found.failures)
        if not found.files:
            self.note("no Python files were found in the given paths.")
        return workspace

    @cached_property
    def ran_by(self) -> str:
        """A description of the interpreter that runs code and its torch version, or "" if no code is run."""
        if self.settings.confirm == "never":
            return ""
        from dynalint.projects.environments import chosen_interpreter, installed_torch

        choice = chosen_interpreter(self.settings)
        for text in choice.notes(self.directory):
            self.note(text)
        python, release = choice.python, installed_torch(choice.python)
        shown = self.workspace.shown(python) if python.is_relative_to(self.directory) else python.as_posix()
        return f"{shown} with torch {release}" if release is not None else ""

    def activity(self) -> Activity:
        """Return a context manager that shows a progress bar in the terminal if the work takes a while."""
        files = len(self.workspace.files)
        self.verbose(f"reading {files} file{'s' if files != 1 else ''}.")
        if self.ran_by:
            self.verbose(f"code is run by {self.ran_by}.")
        return Activity("reading", enabled=not self.quiet and sys.stderr is not None and sys.stderr.isatty())

    def note(self, text: str) -> None:
        """Print a note to standard error."""
        if not self.quiet:
            note(text, self.color)

    def verbose(self, text: str) -> None:
        """Print a note to standard error if `-v` was given."""
        if self._options["verbose"]:
            note(f"[{time.perf_counter() - self._start:.1f} s] {text}", self.color)

    def add_failures(self, failures: Iterable[str]) -> None:
        """Print dynalint's own failures to standard error. They also affect the exit code."""
        for text in failures:
            fail(text, self.color)
            self._failures.append(text)

    @cached_property
    def _top(self) -> Path:
        return repository_top(self.directory)

    @property
    def folder(self) -> str:
        """The working directory relative to the top of the repository."""
        return self.directory.relative_to(self._top).as_posix()

    @cached_property
    def style(self) -> Style:
        """The style for the output."""
        return Style() if self._options["output_file"] else style_for(sys.stdout, self.color)

    def new(self, findings: Sequence[Finding], lines: Mapping[str, Sequence[str]]) -> tuple[Finding, ...]:
        """Return the findings that are not in the baseline, with their fingerprints.

        Raises:
            UsageError: If the baseline cannot be read.
        """
        found = fingerprinted(findings, lines, self.folder)
        path = self.settings.baseline
        if path is None:
            return found
        compared = Baseline.read(path, self.workspace.shown(path)).compare(found, lines, self.folder)
        gone = tuple(entry for entry in compared.gone if self._looked_for(entry))
        self._compared = replace(compared, gone=gone)
        if gone:
            many = "1 finding in the baseline was" if len(gone) == 1 else f"{len(gone)} findings in the baseline were"
            remove = f"`--write-baseline {self.workspace.shown(path)}` removes {'it' if len(gone) == 1 else 'them'}"
            self.note(f"{many} no longer found; {remove}.")
        for entry in gone:
            where = f" in {entry.function}" if entry.function else ""
            self.verbose(f"no longer found: {entry.path}: {entry.code}{where}: {entry.text}")
        return compared.new

    def _looked_for(self, entry: Identity) -> bool:
        """Return whether this run would have reported the finding in a baseline entry, if it still existed."""
        path = self._top / entry.path
        if entry.code in ("DYN001", "DYN002") and self.settings.confirm == "never":
            return False
        return not path.exists() or (path in self.workspace.files and entry.code in self.workspace.enabled(path))

    def recalled(self) -> Recalled | None:
        """Return the result of an earlier check, if there is one and nothing has changed since then."""
        from dynalint.caching.checks import recalled

        with charged("reading the cache"):
            known = recalled(self.workspace)
        if known is not None:
            self.verbose("nothing has changed, so the findings come from the cache.")
        return known

    def check(self) -> Checked:
        """Check the files."""
        from dynalint import engine

        with self.activity() as progress:
            return engine.check(self.workspace, progress)

    def keep(self, checked: Checked | Recalled) -> None:
        """Store the result for later runs."""
        from dynalint.caching.checks import keep

        if self.settings.cache_directory is not None:
            with charged("writing the cache"):
                self.catalogue.keep()
                keep(checked)

    def keep_verdicts(self, checked: Checked | Recalled) -> None:
        """Store the verdicts for the editor if any code was run."""
        if self.settings.confirm != "never" and self.stdin is None and not checked.interrupted:
            found = fingerprinted(checked.reported(refuted=True), lines_by_place(checked.files().items()), self.folder)
            paths = {repository_path(self.workspace.shown(path), self.folder) for path in self.workspace.files}
            LastVerdicts(self.settings.cache_directory).keep(found, paths, self.folder)

    def write_baseline(self, path: Path, findings: Sequence[Finding], lines: Mapping[str, Sequence[str]]) -> None:
        """Write all findings in this run to a baseline file.

        Raises:
            DynalintError: If the file cannot be written.
        """
        Baseline.of(findings, lines, self.folder).write(path, path.as_posix())
        self.note(f"wrote {len(findings)} finding{'s' if len(findings) != 1 else ''} to {path.as_posix()}.")

    def shown(self, findings: Sequence[Finding]) -> Sequence[Finding]:
        """Return the findings that are listed and determine the exit code: those in code that is compiled."""
        return findings if self._options["all"] else [finding for finding in findings if not finding.doubt]

    def report(
        self,
        findings: Sequence[Finding],
        lines: Mapping[str, Sequence[str]],
        *,
        refuted: int = 0,
        statistics: bool = False,
        ran: bool = False,
        with_fixes: Callable[[Sequence[Finding]], Sequence[Finding]] | None = None,
    ) -> None:
        """Write findings in the selected output format. `ran` says whether code was run.

        Machine-readable formats and statistics include all findings. `with_fixes` adds fixes to the findings that are
        listed. It is None if no fixes were requested.

        Raises:
            DynalintError: If the output file cannot be written.
        """
        with charged("reporting"):
            self._report(findings, lines, refuted=refuted, statistics=statistics, ran=ran, with_fixes=with_fixes)

    def _report(
        self,
        findings: Sequence[Finding],
        lines: Mapping[str, Sequence[str]],
        *,
        refuted: int,
        statistics: bool,
        ran: bool,
        with_fixes: Callable[[Sequence[Finding]], Sequence[Finding]] | None,
    ) -> None:
        form = self.settings.output_format
        listed = self.shown(findings) if form in FOLDING and not statistics else findings
        if with_fixes is not None:
            listed = with_fixes(listed)
        for text in reasons(listed):
            self.note(text)
        report = Report(
            listed,
            lines,
            folded=len(findings) - len(listed),
            refuted=refuted,
            with_fixes=with_fixes is not None,
            unsafe_fixes=self.settings.unsafe_fixes,
            quiet=self.quiet,
            folder=self.folder,
            entries=self.catalogue,
            failures=tuple(self._failures),
            ran_by=self.ran_by if ran else "",
            compared=self._compared,
        )
        self.write(render_statistics(form, report, self.style) if statistics else render(form, report, self.style))
        if form == "github":
            _write_step_summary(report)

    def write(self, text: str) -> None:
        """Write text to the output file, or to standard output.

        Raises:
            DynalintError: If the output file cannot be written.
        """
        file: Path | None = self._options["output_file"]
        if file is None:
            write(text)
            return
        try:
            file.write_text(text, encoding="utf-8", errors="backslashreplace", newline="")
        except OSError as fault:
            raise DynalintError(f"cannot write {file}: {fault.strerror or fault}.") from fault

    def write_diff(self, diff: str) -> None:
        """Write a diff to the output file, or to standard output in the same way as `dynalint.cli.console.write_diff`.

        Raises:
            DynalintError: If the output file cannot be written.
        """
        if self._options["output_file"] is None:
            write_diff(diff, self.style, self.color)
        else:
            self.write(diff)

    def write_stdin(self, text: str | None) -> None:
        """Write the standard input back to standard output, replaced by `text` unless that is None."""
        data = self.stdin or b""
        if text is not None:
            data = parse_source(Path(self._options["stdin_filename"] or STDIN), data).encode(text)
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def lines_now(self, findings: Iterable[Finding]) -> dict[str, tuple[str, ...]]:
        """Return the lines that are currently on disk, for each file that has findings."""
        return lines_by_place((path, self._now(path)) for path in {finding.path for finding in findings})

    def placed(self, finding: Finding) -> Finding:
        """Return a finding with its position in the current file, or in its cell if the file is a notebook."""
        return placed(finding, self._now(finding.path)) if finding.path.endswith(SUFFIX) else finding

    def _now(self, path: str) -> SourceFile:
        if self.stdin is not None:
            return parse_source(self.workspace.directory / path, self.stdin)
        return read_source(self.directory / path)

    def exit_code(self, findings: Sequence[Finding]) -> int:
        """Return the exit code, given the remaining `findings`."""
        if self._failures:
            return 2
        return 1 if findings and not self._options["exit_zero"] else 0


def _write_step_summary(report: Report) -> None:
    from dynalint.report.markdown import SUMMARY_LIMIT, step_summary

    name = os.environ.get("GITHUB_STEP_SUMMARY")
    if not name:
        return
    try:
        file = Path(name)
        room = SUMMARY_LIMIT - (file.stat().st_size if file.exists() else 0)
        with file.open("a", encoding="utf-8", errors="backslashreplace", newline="") as stream:
            stream.write(step_summary(report, room))
    except OSError as fault:
        raise DynalintError(f"cannot write the job summary: {fault.strerror or fault}.") from fault
