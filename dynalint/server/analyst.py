"""The analysis behind the language server. It does not depend on the protocol."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import dedent
from typing import Any

from dynalint.adoption.add_ignore import NOT_SILENCED, silence
from dynalint.adoption.fingerprints import fingerprinted, repository_path, repository_top
from dynalint.analysis.outlines import Outline
from dynalint.analysis.source import SourceFile, Sources
from dynalint.caching.last_verdicts import LastVerdicts
from dynalint.config import Configuration, Overrides, environment_layer, parse_layer, split_reserved
from dynalint.engine import check, surroundings
from dynalint.errors import DynalintError
from dynalint.findings import Finding, Fix
from dynalint.fix import FixOptions, Linted, View, fix_findings
from dynalint.fix.follow_ups import whole_fixes
from dynalint.linting.lint import Linter
from dynalint.linting.offers import Offers
from dynalint.linting.positions import lines_by_place, placed, unplaced
from dynalint.projects.discover import is_excluded
from dynalint.projects.related_files import Outlines
from dynalint.projects.trust import RequestedSetting
from dynalint.projects.workspace import Workspace, open_workspace
from dynalint.report.offered_diffs import offered_diff
from dynalint.rulebook.catalogue import known_codes
from dynalint.rules import all_rules


@dataclass(frozen=True)
class AnalysedFile:
    """The analysis of a file: its text, its findings as the user sees them, and what is needed to compute their fixes.

    `linted` has the same findings as the engine sees them, with positions in the file's text. `linter` found them.
    """

    file: SourceFile
    findings: tuple[Finding, ...]
    linted: tuple[Linted, ...]
    offers: Offers
    linter: Linter

    def whole_fixes(self, starts: Sequence[Linted]) -> Sequence[Fix | None]:
        """Return the whole fixes for findings in this file whose rewrites leave other findings."""
        alone = View(self.linter.narrowed([self.file.path]), frozenset([self.file.path]))
        return whole_fixes(starts, self.offers.made(self.linted), lambda _: [alone])


class Analyst:
    """Analyses the open files in a folder. A lock ensures that only one analysis runs at a time."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        """Use `settings`, which have the same keys as `[tool.dynalint]` and take precedence over configuration files.

        The editor may read them from a file in the project, so unless the project is trusted, settings that only the
        user may set are ignored and listed in `ignored`.
        """
        self.folder = folder
        self.ignored: tuple[RequestedSetting, ...] = ()
        self._settings = settings
        self._lock = threading.Lock()
        # These are kept between analyses, because a keystroke changes only a single file.
        self._sources, self._outlines = Sources(), Outlines()
        self._latest: tuple[object, Linter] | None = None
        self._scanned: tuple[Path, ...] = ()
        self._project: object = None
        self._in_use = 0  # the number of objects after the last garbage collection

    def look(self, texts: Mapping[Path, str]) -> dict[Path, AnalysedFile]:
        """Return the static findings in the open files, with the verdicts from the last confirmation.

        Raises:
            DynalintError: If the configuration is invalid.
        """
        with self._lock:
            linter = self._linter(texts)
            workspace, result = linter.workspace, linter.relint({})
            self._keep(result.analysis.project)
            verdicts = LastVerdicts(workspace.settings.cache_directory)
            shown = {workspace.shown(file.path): file for file in result.analysis.files}
            found = [placed(one.finding, one.file) for one in result.linted]
            lines = lines_by_place((path, file) for path, file in shown.items() if file.path in texts)
            top = self.folder.relative_to(repository_top(self.folder)).as_posix()
            judged = [
                replace(one, evidence=verdicts.of(repository_path(one.path, top), one.fingerprint) or one.evidence)
                for one in fingerprinted(found, lines, top)
            ]
            pairs = list(zip(judged, result.linted, strict=True))
            return {
                file.path: AnalysedFile(
                    file,
                    tuple(finding for finding, _ in pairs if finding.path == path),
                    tuple(linted for finding, linted in pairs if finding.path == path),
                    result.offers,
                    linter,
                )
                for path, file in shown.items()
                if file.path in texts
            }

    def with_fixes(self, seen: AnalysedFile, findings: Collection[Finding]) -> list[Finding]:
        """Return some of a file's findings with their fixes, or with the reasons why there are none."""
        with self._lock:
            wanted = [pair for pair in zip(seen.findings, seen.linted, strict=True) if pair[0] in findings]
            made = seen.offers.shown((linted for _, linted in wanted), seen.whole_fixes)
        pairs = zip((finding for finding, _ in wanted), made, strict=True)
        return [replace(finding, fix=placed(one.finding, one.file).fix) for finding, one in pairs]

    def fixed(self, texts: Mapping[Path, str], path: Path) -> Mapping[Path, str]:
        """Apply the safe fixes for a file without running code, and return the new text of each file that they change.

        Raises:
            DynalintError: If the configuration is invalid.
        """
        with self._lock:
            linter = Linter(self._around(self._workspace(texts)), all_rules(), self._sources)
            own = [one for one in linter({}) if one.file.path == path]
            result = fix_findings(
                own, lambda held: [one for one in linter(held) if one.file.path == path], FixOptions()
            )
            return {file.source.path: file.text for file in result.files}

    def confirm(self, path: Path) -> int:
        """Confirm the findings in a file as it is on disk, store the verdicts, and return how many were confirmed.

        Raises:
            DynalintError: If the configuration is invalid, or code cannot be run.
        """
        with self._lock:
            workspace, _ = open_workspace([path], self._configuration({}), self.folder)
            checked = check(workspace)
            if checked.failures:
                raise DynalintError("; ".join(checked.failures))
            top = self.folder.relative_to(repository_top(self.folder)).as_posix()
            found = fingerprinted(checked.reported(refuted=True), lines_by_place(checked.files().items()), top)
            shown = {repository_path(workspace.shown(one), top) for one in workspace.files}
            LastVerdicts(workspace.settings.cache_directory).keep(found, shown, top)
            return sum(one.evidence.status == "confirmed" for one in found)

    def _configuration(self, more: Mapping[str, Any]) -> Configuration:
        known = known_codes()
        variables = environment_layer(os.environ, self.folder)
        edited = parse_layer(self._settings, self.folder, lambda path: f"the editor's setting {path[0]}")
        own = parse_layer(more, self.folder, lambda path: str(path[0]))
        project = Configuration(Overrides((variables,)), known, self.folder).for_directory(self.folder)
        harmless, asked = split_reserved(edited)
        self.ignored = (*project.ignored, *(() if project.trusted else asked))
        layers = (variables, edited if project.trusted else harmless, own)
        return Configuration(Overrides(layers), known, self.folder)

    def _workspace(self, texts: Mapping[Path, str]) -> Workspace:
        """Return a workspace with the open files."""
        configuration = self._configuration({"confirm": "never"})
        own = tuple(sorted(path for path in texts if not is_excluded(path, configuration.for_directory)))
        settings = configuration.for_directory(self.folder)
        return Workspace(own, configuration, settings, self.folder, own, dict(texts))

    def _around(self, workspace: Workspace) -> Workspace:
        """Return a workspace that includes the project files that affect the open files."""
        near = surroundings(workspace, self._outlines)
        self._scanned = near.scanned
        return replace(workspace, around=near.files)

    def _linter(self, texts: Mapping[Path, str]) -> Linter:
        """Return a linter for the open files. If only their texts have changed, it goes on from the latest analysis."""
        workspace = self._workspace(texts)
        state = self._state(workspace)
        if self._latest is None or self._latest[0] != state:
            linter = Linter(self._around(workspace), all_rules(), self._sources)
            state = self._state(workspace)
        else:
            linter = self._latest[1].resumed(workspace.texts)
        self._latest = state, linter
        return linter

    def _keep(self, project: object) -> None:
        """Exclude what a new analysis has built from garbage collection, which would traverse all of it repeatedly.

        Earlier analyses are only collected when there may be as much of them as of the last one, because that takes
        about as long as a small analysis.
        """
        if project is self._project:
            return
        if self._in_use and gc.get_freeze_count() > 2 * self._in_use:
            gc.unfreeze()
            gc.collect()
            self._in_use = 0
        gc.freeze()
        self._project, self._in_use = project, self._in_use or gc.get_freeze_count()

    def _state(self, workspace: Workspace) -> object:
        """Return what decides, apart from the bodies of functions in the open files, which files have to be read."""
        outlines = (Outline(path, "", package=False, text=text) for path, text in sorted(workspace.texts.items()))
        bearing = [outline.bearing for outline in outlines]
        files = [path for path in self._scanned if path not in workspace.texts]
        stamps = [_stamp(path) for path in dict.fromkeys([*files, *(path.parent for path in self._scanned)])]
        return workspace.files, workspace.settings, bearing, stamps


def _stamp(path: Path) -> tuple[int, int] | None:
    """Return what changes when a file or the list of files in a folder changes, or None if the path does not exist."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def silenced(seen: AnalysedFile, finding: Finding) -> str | None:
    """Return the file's text with an ignore comment for `finding`, or None if it cannot be silenced by a comment."""
    if finding.code in NOT_SILENCED:
        return None
    try:
        return silence(seen.file, [unplaced(finding, seen.file)], "")
    except DynalintError:
        return None


def fix_diff(finding: Finding, seen: AnalysedFile) -> str:
    """Return the changes that a fix makes in the finding's own file.

    They are a diff without a header or common indentation, and with `...` between distant changes.
    """
    hunks: list[list[str]] = []
    for _, lines in offered_diff(finding, lines_by_place([(finding.path, seen.file)]), context=1):
        for line in lines:
            if line.startswith("@@"):
                hunks.append([])
            else:
                hunks[-1].append(line)
    return "\n...\n".join("\n".join(_compact(hunk)) for hunk in hunks)


def _compact(hunk: list[str]) -> list[str]:
    """Return a hunk without common indentation, and without blank context lines at its ends."""
    kept = [number for number, line in enumerate(hunk) if line.strip()]
    lines = hunk[kept[0] : kept[-1] + 1]
    texts = dedent("\n".join(line[1:] for line in lines)).split("\n")
    return [line[0] + text for line, text in zip(lines, texts, strict=True)]
