"""Static analysis, which turns source files into events without running the code or importing torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynalint.analysis.events import Event
    from dynalint.analysis.index import FunctionInfo
    from dynalint.analysis.installed import Installed
    from dynalint.analysis.project import Project
    from dynalint.analysis.source import SourceFile, Sources
    from dynalint.analysis.steps import AnalysisFailure, Budgets


@dataclass(frozen=True, slots=True)
class AnalysisOptions:
    """Settings for the analysis.

    `roots` determines which code counts as compiled: "modules", "explicit", or a list of "package.module:Name".
    `search` lists additional folders where absolute imports are looked up, and `packages` the folders of installed
    packages. `rule_options` holds the rules' own settings.
    """

    roots: str | Sequence[str] = "modules"
    search: Sequence[Path] = ()
    packages: Sequence[Path] = ()
    rule_options: Mapping[str, object] = field(default_factory=dict)


@dataclass(eq=False)
class Analysis:
    """The result of the static analysis: the files read, the functions in the compiled region, and their events.

    `events` only contains events in the checked files, sorted by file in the given order, then by position. `failures`
    lists functions on which dynalint itself failed. `budgets` records the functions that were skipped because their
    file's budget ran out. `installed` follows calls into installed packages. `unknown_roots` lists the names given in
    `roots` that match nothing that could be compiled.
    """

    project: Project
    roots: list[FunctionInfo]
    functions: list[FunctionInfo]
    events: list[Event]
    failures: list[AnalysisFailure]
    budgets: Budgets
    installed: Installed
    unknown_roots: list[str] = field(default_factory=list)

    @property
    def files(self) -> list[SourceFile]:
        """Return the files to check, including those with syntax errors."""
        return self.project.checked


def analyze(
    paths: Iterable[Path],
    options: AnalysisOptions | None = None,
    *,
    overrides: Mapping[Path, str] | None = None,
    watched: Callable[[str], str | None] | None = None,
    sources: Sources | None = None,
) -> Analysis:
    """Analyse the files at `paths` as one project.

    `overrides` gives the new text of some files, which is used instead of the text on disk. `watched` selects the calls
    that become events: it maps the dotted name of a callee to the name to report, or to None. To analyse the same files
    again, pass the `sources` of the first analysis.
    """
    from dynalint.analysis.run import run_analysis

    return run_analysis(paths, options or AnalysisOptions(), overrides or {}, watched or _nothing, sources)


def revise(analysis: Analysis, overrides: Mapping[Path, str]) -> Analysis | None:
    """Return what `analyze` returns for other `overrides`, or None if the whole project has to be analysed again.

    Only the functions that have changed are analysed, so they must have the same effects on others as before.
    `analysis` must not be used any more, even if the result is None.
    """
    from dynalint.analysis.run import revise_analysis

    return revise_analysis(analysis, overrides)


def _nothing(name: str) -> str | None:
    return None
