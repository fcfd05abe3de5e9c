"""Store the result of a static check in the cache folder, and report it again as long as it is still valid.

Only `check` without confirmation uses this. Confirming, fixing, explaining and silencing findings need the analysis
itself. Its events, trees and call chains are a hundred times larger than the findings, so reading them back would take
almost as long as computing them again. The language server keeps its analysis in memory. Text from standard input is
always analysed, because it is rarely the same twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any

from dynalint.analysis.source import decode_source
from dynalint.caching.basis import Basis, basis_of, content, still_holds
from dynalint.caching.folders import Records
from dynalint.caching.stamp import stamp
from dynalint.findings import NO_COST, Cost, Edit, Finding, Fix, Step
from dynalint.projects.environments import package_folders, release_for
from dynalint.projects.workspace import search_folders

if TYPE_CHECKING:
    from dynalint.analysis.source import SourceFile
    from dynalint.engine import Checked
    from dynalint.projects.workspace import Workspace

_FORMAT = 1
FOLDER = "findings"
_MOST, _MOST_BYTES = 32, 64 << 20

Made = tuple[Fix | None] | None
"""A tuple with a finding's fix, or with None if there is none. It is just None if no fix has been computed yet."""


_PLAIN = tuple(
    one.name for one in fields(Finding) if one.name not in ("steps", "evidence", "fix", "cost", "fingerprint")
)


class Recalled:
    """The result of an earlier check that is still valid. It has the same attributes as `Checked`."""

    interrupted = ran = False
    refuted = 0

    def __init__(self, record: Mapping[str, Any], workspace: Workspace) -> None:
        """Read a record.

        Raises:
            KeyError, TypeError, AssertionError: If the record was not written by dynalint.
        """
        self.notes: tuple[str, ...] = tuple(record["notes"])
        self.failures: tuple[str, ...] = tuple(record["failures"])
        self.checked_again: Checked | None = None
        self._workspace = workspace
        self._files: dict[str, SourceFile] = {}
        self._findings = tuple(_finding(one) for one in record["findings"])
        self.fixes: list[Made] = [one and (_fix(one["fix"]),) for one in record["fixes"]]
        assert len(self._findings) == len(self.fixes)

    @property
    def failures_in_fixes(self) -> tuple[str, ...]:
        """Sentences about errors that occurred while fixes were computed."""
        return () if self.checked_again is None else self.checked_again.failures_in_fixes

    def reported(self, *, refuted: bool = False) -> tuple[Finding, ...]:
        """Return the findings to report."""
        return self._findings

    def with_fixes(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """Return some of the reported findings with their fixes, or with the reasons why there are none.

        Computing a fix that has not been requested before requires an analysis.
        """
        findings = tuple(findings)
        known = {_key(one): fix for one, fix in zip(self._findings, self.fixes, strict=True)}
        made = [(finding, one) for finding in findings if (one := known[_key(finding)]) is not None]
        if len(made) == len(findings):
            return tuple(replace(finding, fix=one[0]) for finding, one in made)
        from dynalint import engine

        self.checked_again = engine.check(self._workspace)
        return self.checked_again.with_fixes(findings)

    def files(self) -> dict[str, SourceFile]:
        """Return all files with findings, without their trees. The keys are the paths in the findings."""
        return self._files

    def read_files(self, basis: Basis) -> bool:
        """Read the files with findings. Return whether they are unchanged since the result was computed."""
        marked = {finding.path for finding in self._findings}
        paths = {shown: path for path in self._workspace.files if (shown := self._workspace.shown(path)) in marked}
        found = {shown: (path, content(basis, path)) for shown, path in paths.items()}
        self._files = {shown: decode_source(path, data) for shown, (path, data) in found.items() if data is not None}
        return len(self._files) == len(marked)


def recalled(workspace: Workspace) -> Recalled | None:
    """Return the result of an earlier check of the same files with the same settings, if it is still valid."""
    if (question := _question(workspace)) is None:
        return None
    records, key = _records(workspace), _hash(question)
    record = records.get(key)
    try:
        basis = record["basis"]
        near = basis["near"]
        if record["question"] != question or not still_holds(basis, workspace):
            return None
        found = Recalled(record["result"], workspace)
        if basis["near"] is not near:
            records.put(key, record)
        return found if found.read_files(basis) else None
    except (KeyError, TypeError, ValueError, AttributeError, AssertionError):
        return None  # There is no record, or dynalint did not write it.


def keep(checked: Checked | Recalled, known: Sequence[Made] | None = None) -> None:
    """Store the result of a check for later runs. `known` are the fixes that were already computed.

    A result is not stored if an exception was raised, because another attempt may succeed.
    """
    if isinstance(checked, Recalled):
        if checked.checked_again is not None:
            keep(checked.checked_again, checked.fixes)
        return
    workspace = checked.linter.workspace
    question = None if checked.lint.crashed or checked.interrupted else _question(workspace)
    basis = None if question is None else basis_of(checked)
    if basis is None:
        return
    # If computing fixes failed or was cut short, the outcome depends on which fixes were requested.
    sound = not (checked.lint.offers.cut_short or checked.lint.offers.failures)
    made = checked.fixes_so_far()
    fixes = [one or old for one, old in zip(made, known or [None] * len(made), strict=True)] if sound else []
    result = {
        "notes": checked.notes,
        "failures": checked.failures,
        "findings": [_plain(finding) for finding in checked.reported()],
        "fixes": [one and {"fix": one[0] and asdict(one[0])} for one in fixes] or [None] * len(made),
    }
    _records(workspace).put(_hash(question), {"question": question, "basis": basis, "result": result})


def _question(workspace: Workspace) -> dict[str, Any] | None:
    """Return what was requested, as JSON, or None if the result should not be stored."""
    settings, code = workspace.settings, stamp()
    texts = bool(workspace.texts) or workspace.unreadable is not None
    if code is None or texts or settings.confirm != "never" or settings.cache_directory is None:
        return None
    return {
        "format": _FORMAT,
        "code": code,
        "torch": release_for(settings),
        "directory": str(workspace.directory),
        "named": [str(path) for path in workspace.named],
        "roots": settings.roots if isinstance(settings.roots, str) else list(settings.roots),
        "origin of roots": settings.origins.get("roots"),  # Appears in the message about an unknown root.
        "packages": [str(folder) for folder in package_folders(settings)],
        "search": [str(folder) for folder in search_folders(settings)],
        "suppressions": not workspace.ignore_suppressions,
        "codes": sorted(settings.selection.enabled),
    }


def _records(workspace: Workspace) -> Records:
    folder = workspace.settings.cache_directory
    return Records(None if folder is None else folder / FOLDER, _MOST, _MOST_BYTES)


def _hash(question: Any) -> str:
    return hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()[:32]


def _key(finding: Finding) -> tuple[object, ...]:
    return finding.cell, *finding.sort_key


def _plain(finding: Finding) -> dict[str, Any]:
    """Return a static finding as JSON, without its evidence and fix."""
    values = {name: getattr(finding, name) for name in _PLAIN}
    steps = [asdict(step) for step in finding.steps]
    return {**values, "steps": steps, "cost": None if finding.cost == NO_COST else asdict(finding.cost)}


def _finding(values: Mapping[str, Any]) -> Finding:
    steps, cost = tuple(Step(**step) for step in values["steps"]), values["cost"]
    plain = {name: values[name] for name in _PLAIN}
    lists = {"region": tuple(plain["region"]), "gb": tuple(plain["gb"])}
    return Finding(**{**plain, **lists}, steps=steps, cost=NO_COST if cost is None else Cost(**cost))


def _fix(values: Mapping[str, Any] | None) -> Fix | None:
    if values is None:
        return None
    lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    return Fix(**{**values, **lists, "edits": tuple(Edit(**edit) for edit in values["edits"])})
