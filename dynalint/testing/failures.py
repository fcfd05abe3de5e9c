"""Build the message for code that does not compile: the line, Dynamo's reason and hint, and dynalint's rewrite."""

from __future__ import annotations

import difflib
import os
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from dynalint.analysis.source import SourceFile
from dynalint.confirm.discoveries import discoveries
from dynalint.confirm.located import Located
from dynalint.confirm.results import TargetResult
from dynalint.confirm.sources import UserSources
from dynalint.confirm.verdicts import Confirmation, with_verdicts
from dynalint.findings import Finding
from dynalint.fix import Linted
from dynalint.fix.edits import merged, plan_of, replaced
from dynalint.fix.imports import EditError

_INSTALLED = ("site-packages", "dist-packages")
_STDLIB = Path(sysconfig.get_paths()["stdlib"]).resolve()
_CONTEXT = 2


def is_users(path: str) -> bool:
    """Return whether a file is user code, not an installed package or part of Python. `path` must be resolved."""
    file = Path(path)
    return not (set(file.parts) & set(_INSTALLED) or file.is_relative_to(_STDLIB))


def formatted(results: Sequence[TargetResult], is_own: Callable[[str], bool]) -> str:
    """Format breaks and recompilations the way `dynalint check` reports them, with the suggested rewrites."""
    linted = _linted(_files(results, is_own))
    directory = Path.cwd()
    sources = UserSources()
    asked = [replace(one.finding, category="graph-break") if one.conditional else one.finding for one in linted]
    paths = [os.path.realpath(directory / finding.path) for finding in asked]
    placed = [Located(one, path, sources.spot(path, one)) for one, path in zip(asked, paths, strict=True)]
    confirmation = Confirmation(placed, results, sources, is_own)
    known = [replace(one, finding=finding) for one, finding in zip(linted, with_verdicts(confirmation), strict=True)]
    shown = {one.finding: one for one in known if one.finding.evidence.status == "confirmed"}
    findings = sorted([*shown, *discoveries(confirmation, directory)], key=lambda finding: finding.sort_key)
    return "".join(f"\n\n{_block(finding, shown.get(finding), sources, directory)}" for finding in findings)


def _files(results: Iterable[TargetResult], is_own: Callable[[str], bool]) -> list[Path]:
    """Return the files that may have findings, because Dynamo broke or recompiled there."""
    files: dict[str, None] = {}
    for result in results:
        if result.default is not None:
            for found in result.default.breaks:
                files.update(dict.fromkeys(frame.file for frame in found.stack))
            files.update(dict.fromkeys(again.file for again in result.default.recompiles))
    return [Path(file) for file in files if is_own(file) and Path(file).is_file()]


def _linted(files: Sequence[Path]) -> tuple[Linted, ...]:
    """Return the static findings in `files`."""
    from dynalint.config import Configuration, Overrides, parse_layer
    from dynalint.engine import in_project
    from dynalint.linting.lint import Linter
    from dynalint.projects.workspace import open_workspace
    from dynalint.rulebook.catalogue import known_codes
    from dynalint.rules import all_rules

    if not files:
        return ()
    directory = Path.cwd()
    layer = parse_layer({"confirm": "never"}, directory, lambda _: "assert_compiles")
    configuration = Configuration(Overrides((layer,)), known_codes(), directory)
    workspace, _ = open_workspace(files, configuration, directory)
    return Linter(in_project(workspace)[0], all_rules())({})


def _block(finding: Finding, linted: Linted | None, sources: UserSources, directory: Path) -> str:
    from dynalint.report import Report, Style, render

    path = os.path.realpath(directory / finding.path)
    report = Report([finding], {finding.path: tuple(sources.lines(path))}, quiet=True)
    text = render("full", report, Style()).partition("\n\n")[0].rstrip()
    return "\n".join([text, *_rewritten(linted)])


def _rewritten(linted: Linted | None) -> Iterator[str]:
    """Yield the diff for the rewrite that dynalint suggests."""
    if linted is None or linted.rewrite is None:
        return
    try:
        plan = merged([plan_of(linted.rewrite)])
    except EditError:
        return
    file: SourceFile = linted.file
    for path, changes in plan.items():
        if path == file.path:
            before, after = file.text.splitlines(), replaced(file.text, changes).splitlines()
            diff = list(difflib.unified_diff(before, after, lineterm="", n=_CONTEXT))
            yield from (f"   {line}" for line in diff[2:])
