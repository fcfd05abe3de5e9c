"""Write fixes as soon as they are verified, so that everything an interrupted run reported as fixed is on disk."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from dynalint.analysis.source import SourceFile
from dynalint.fix.model import ChangedFile, Fixed, FixResult
from dynalint.fix.write import FileWrite, write_groups
from dynalint.projects.reading import hard_links


class Writer:
    """Writes changed files and keeps track of what it has written. `name` formats paths for messages.

    `failures` are sentences about files that could not be written, and `notes` are other sentences for the user.
    """

    def __init__(self, name: Callable[[SourceFile], str]) -> None:
        self.failures: list[str] = []
        self.notes: list[str] = []
        self._name = name
        self._sources: dict[Path, SourceFile] = {}
        self._on_disk: dict[Path, bytes] = {}
        self._stuck: set[Path] = set()

    @property
    def written(self) -> list[str]:
        """The names of the files that have been changed on disk so far."""
        sources = (
            self._sources[path] for path, data in self._on_disk.items() if data != _original(self._sources[path])
        )
        return sorted(self._name(source) for source in sources)

    def keep(self, files: Sequence[ChangedFile], groups: Iterable[Collection[Path]]) -> None:
        """Write files that have changed. The files in a group are written together or not at all.

        If a file cannot be written, neither it nor the rest of its group is tried again.
        """
        by_path = {file.source.path: file for file in files}
        writes: dict[Path, FileWrite] = {}
        wanted: list[list[Path]] = []
        for group in groups:
            if self._stuck.intersection(group):
                self._stuck.update(group)
                continue
            changed = [path for path in group if self._now(by_path[path].source) != by_path[path].data]
            wanted += [changed] if changed else []
            for path in changed:
                source = by_path[path].source
                writes[path] = FileWrite(path, self._name(source), self._now(source), by_path[path].data)
                self._note_other_names(source)
        written, failures = write_groups(wanted, writes)
        for path in written:
            self._sources.setdefault(path, by_path[path].source)
            self._on_disk[path] = by_path[path].data
        self._stuck.update(writes.keys() - written)
        self.failures += failures

    def finish(self, result: FixResult) -> FixResult:
        """Write the final result of the rounds, and return what was actually written.

        Findings in files that could not be written are moved back to the remaining findings.
        """
        files = {file.source.path for file in result.files}
        undone = [ChangedFile(source, source.text, ()) for path, source in self._sources.items() if path not in files]
        self.keep(undone, [[file.source.path] for file in undone])
        self.keep(result.files, result.groups)
        missed = [file for file in result.files if file.source.path in self._stuck]
        names = {self._name(file.source) for file in missed}
        places = {finding.sort_key for file in missed for finding in file.findings}

        def is_lost(fixed: Fixed) -> bool:
            return fixed.finding.path in names or fixed.finding.sort_key in places

        remaining = [*result.remaining, *(fixed.finding for fixed in result.fixed if is_lost(fixed))]
        return replace(
            result,
            files=tuple(file for file in result.files if file not in missed),
            groups=tuple(group for group in result.groups if self._stuck.isdisjoint(group)),
            fixed=tuple(fixed for fixed in result.fixed if not is_lost(fixed)),
            remaining=tuple(sorted(remaining, key=lambda finding: finding.sort_key)),
            notes=(*result.notes, *self.notes),
            failures=tuple(self.failures),
        )

    def _now(self, source: SourceFile) -> bytes:
        known = self._on_disk.get(source.path)
        return _original(source) if known is None else known

    def _note_other_names(self, source: SourceFile) -> None:
        others = hard_links(source.path) - 1 if source.path not in self._on_disk else 0
        if others > 0:
            files = f"{others} other name{'s' if others > 1 else ''}"
            self.notes.append(f"{self._name(source)} had {files} (hard links), which still have the old contents")


def _original(source: SourceFile) -> bytes:
    return source.data if source.data is not None else source.encode(source.text)
