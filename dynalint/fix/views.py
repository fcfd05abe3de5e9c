"""What has to be linted again to judge a change: the files that it may be felt in, and no others.

A view that does not show what the whole project shows of its files is not used: something else in the project then
bears on them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dynalint.findings import Finding
from dynalint.fix.model import Linted, Linter
from dynalint.fix.recheck import Item
from dynalint.rules import Rewrite


@dataclass(frozen=True, slots=True)
class View:
    """A linter and the `files` that it lints; None if these are all."""

    lint: Linter
    files: frozenset[Path] | None = None

    def split(self, items: Sequence[Item]) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
        """Return the items in these files, and the others."""
        inside = tuple(item for item in items if self.files is None or item.linted.file.path in self.files)
        known = set(map(id, inside))
        return inside, tuple(item for item in items if id(item) not in known)

    def agrees(self, items: Sequence[Item], texts: Mapping[Path, str]) -> bool:
        """Whether it shows the same findings in its files, with the same fixes, as are known of the whole project."""
        if self.files is None:
            return True
        return {_shown(item.linted) for item in self.split(items)[0]} == {_shown(one) for one in self.lint(texts)}


@dataclass(frozen=True, slots=True)
class Views:
    """Returns views for changes to some files: `felt` of all that they may be felt in, `alone` of these files only."""

    felt: Callable[[Collection[Path]], View]
    alone: Callable[[Collection[Path]], View]


class Sight:
    """What is linted for each step: the whole project, or the views of it that are enough."""

    def __init__(self, lint: Linter, views: Views | None = None) -> None:
        self._whole, self._views = View(lint), views
        self._felt: dict[frozenset[Path], View] = {}
        self._alone: dict[frozenset[Path], View] = {}

    @property
    def lint(self) -> Linter:
        """Lints the whole project."""
        return self._whole.lint

    @property
    def narrowed(self) -> bool:
        """Whether less than the whole was linted to judge any step."""
        return any(view.files is not None for view in self._felt.values())

    def groups(self, items: Sequence[Item]) -> list[frozenset[Path]]:
        """Return the files that the fixes of items change, those together that are to be judged together.

        Those whose changes are felt everywhere come first, and are one.
        """
        groups = _groups_of(items)
        everywhere = [one for one in groups if self._views is None or self._views.felt(one).files is None]
        joined = frozenset[Path]().union(*everywhere)
        return [*([joined] if joined else []), *(one for one in groups if one not in everywhere)]

    def of(self, files: frozenset[Path], items: Sequence[Item], texts: Mapping[Path, str]) -> View:
        """Return the view for changes to `files`; `items` and `texts` are what is known of the project by now."""
        if self._views is None:
            return self._whole
        if files not in self._felt:
            view = self._views.felt(files)
            self._felt[files] = view if view.agrees(items, texts) else self._whole
        return self._felt[files]

    def near(
        self, files: frozenset[Path], around: frozenset[Path], items: Sequence[Item], texts: Mapping[Path, str]
    ) -> View:
        """Return a view of `files` alone to work changes out by; what `around` them shows is their judge."""
        if self._views is None:
            return self._whole
        if files not in self._alone:
            view = self._views.alone(files)
            self._alone[files] = view if view.agrees(items, texts) else self.of(around, items, texts)
        return self._alone[files]


def files_of(item: Item) -> frozenset[Path]:
    """Return the files that the fix of an item changes."""
    rewrite = item.linted.rewrite
    return frozenset(one.file.path for one in rewrite.replacements) if rewrite is not None else frozenset()


def _groups_of(items: Sequence[Item]) -> list[frozenset[Path]]:
    """Return the files that the fixes of items change: together those of one fix, and those below one compiled root."""
    groups: list[tuple[set[Path], set[tuple[str, str | None]]]] = []
    for item in items:
        files, roots = set(files_of(item)), {_root(item.linted.finding)}
        for group in [one for one in groups if one[0] & files or one[1] & roots]:
            groups.remove(group)
            files |= group[0]
            roots |= group[1]
        groups.append((files, roots))
    return sorted((frozenset(files) for files, _ in groups), key=sorted)


def _root(finding: Finding) -> tuple[str, str | None]:
    """Return the place and name of the compiled root that reaches a finding, or of the function that it stands in."""
    return (finding.steps[0].path, finding.steps[0].function) if finding.steps else (finding.path, finding.function)


def _shown(linted: Linted) -> tuple[object, ...]:
    finding, rewrite = linted.finding, linted.rewrite
    return (*finding.sort_key, finding.end_line, finding.end_column, finding.region, rewrite and _edits(rewrite))


def _edits(rewrite: Rewrite) -> tuple[object, ...]:
    edits = tuple((one.file.path, one.start, one.end, one.content) for one in rewrite.replacements)
    return edits, rewrite.safety, rewrite.conditions, rewrite.sheltered and _edits(rewrite.sheltered)
