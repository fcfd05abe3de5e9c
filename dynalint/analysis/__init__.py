"""The static side: from files to events, without running any of the code and without torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynalint.analysis.events import Event
    from dynalint.analysis.index import FunctionInfo
    from dynalint.analysis.interpreter import Failure
    from dynalint.analysis.project import Project
    from dynalint.analysis.source import SourceFile, Sources
    from dynalint.analysis.steps import Budgets


@dataclass(frozen=True, slots=True)
class AnalysisOptions:
    """`roots` tells which code counts as compiled: "modules", "explicit", or a list of "package.module:Name".

    `search` are further folders that absolute imports start from; `rule_options` the settings that rules read.
    """

    roots: str | Sequence[str] = "modules"
    search: Sequence[Path] = ()
    rule_options: Mapping[str, object] = field(default_factory=dict)


@dataclass(eq=False)
class Analysis:
    """What the static side found out: the files read, the functions in the region, and the events in them.

    `events` are those of the checked files, by file in the order given, then by place. `failures` are functions that
    dynalint itself could not cope with; `budgets` tell which there was no budget left for. `unknown_roots` are names of
    roots in the options that nothing has which could be compiled.
    """

    project: Project
    roots: list[FunctionInfo]
    functions: list[FunctionInfo]
    events: list[Event]
    failures: list[Failure]
    budgets: Budgets
    unknown_roots: list[str] = field(default_factory=list)

    @property
    def files(self) -> list[SourceFile]:
        """The files that were to be checked, those that do not parse included."""
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

    `overrides` gives the text of files that are to be taken as if they stood on disk. `watched` says which calls are
    worth an event: it maps the dotted name of a callee to the name to report, or to None. Whoever analyses the same
    files again hands over the `sources` of the first time.
    """
    from dynalint.analysis.run import run_analysis

    return run_analysis(paths, options or AnalysisOptions(), overrides or {}, watched or _nothing, sources)


def _nothing(name: str) -> str | None:
    return None
