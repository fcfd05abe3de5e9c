"""Views: the files that have to be linted again to judge a change, because the change may affect them.

The rest of the project can also influence these files. If a finding is shown only by the view or only by the whole
project, it does not count as new later. If a view shows different fixes than the whole project, it is not used.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path

from dynalint.findings import Finding
from dynalint.fix.model import Linted, Linter
from dynalint.fix.recheck import Item
from dynalint.rules import Rewrite


@dataclass(frozen=True, slots=True)
class View:
    """A linter and the `files` that it lints, or None if it lints all files.

    `only_here` are findings in these files that the view shows but the whole project does not. `not_here` are findings
    that the whole project shows but the view does not.
    """

    lint: Linter
    files: frozenset[Path] | None = None
    only_here: tuple[Item, ...] = ()
    not_here: frozenset[Finding] = frozenset()

    def split(self, items: Sequence[Item]) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
        """Split the current `items` into those that the view shows and those that it does not."""
        if self.files is None:
            return tuple(items), ()
        shown = [self._holds(item) and item.linted.finding not in self.not_here for item in items]
        inside, outside = compress(items, shown), (item for item, here in zip(items, shown, strict=True) if not here)
        return (*inside, *self.only_here), tuple(outside)

    def known(self, items: Iterable[Item]) -> list[Item]:
        """Return the items for the view's findings, except those that the whole project does not show."""
        own = {item.origin for item in self.only_here}
        return [item for item in items if item.origin not in own]

    def fitted(self, files: frozenset[Path], items: Sequence[Item], texts: Mapping[Path, str]) -> View | None:
        """Return the view with its differences from the whole project, or None if they affect a fix for `files`."""
        if self.files is None:
            return self
        seen = {_shown(one): one for one in self.lint(texts)}
        missed = [item for item in items if self._holds(item) and seen.pop(_shown(item.linted), None) is None]
        only_here = tuple(Item(one, one.finding) for one in seen.values())
        if any(files_of(item) & files for item in (*missed, *only_here)):
            return None
        return replace(self, only_here=only_here, not_here=frozenset(item.linted.finding for item in missed))

    def _holds(self, item: Item) -> bool:
        return self.files is not None and item.linted.file.path in self.files


@dataclass(frozen=True, slots=True)
class Views:
    """Returns views for changes to some files.

    `felt` lints every file that the changes may affect, `alone` only the files.
    """

    felt: Callable[[Collection[Path]], View]
    alone: Callable[[Collection[Path]], View]


class TooNarrow(Exception):  # noqa: N818 - not an error: the group is judged later by linting the whole project
    """Every view of a group of files shows different fixes than the whole project."""


class ViewChooser:
    """Decides what to lint in each step: the whole project, or a view if one is enough."""

    def __init__(self, lint: Linter, views: Views | None = None) -> None:
        self._whole, self._views = View(lint), views
        self._wide: frozenset[Path] = frozenset()
        self._felt: dict[frozenset[Path], tuple[Sequence[Item], View]] = {}
        self._alone: dict[frozenset[Path], tuple[Sequence[Item], View]] = {}

    @property
    def lint(self) -> Linter:
        """The linter for the whole project."""
        return self._whole.lint

    @property
    def narrowed(self) -> bool:
        """Whether any step was judged without linting the whole project."""
        return any(view.files is not None for _, view in self._felt.values())

    def groups(self, items: Sequence[Item]) -> tuple[frozenset[Path], list[frozenset[Path]]]:
        """Return the files whose fixes need the whole project, and the others, grouped by what is judged together."""
        groups = _groups_of(items)
        wide = [one for one in groups if self._is_wide(one)]
        return frozenset[Path]().union(*wide), [one for one in groups if one not in wide]

    def widened(self, files: frozenset[Path]) -> frozenset[Path]:
        """Always lint the whole project for changes to `files` from now on. Return `files`."""
        self._wide |= files
        return files

    def of(self, files: frozenset[Path], items: Sequence[Item], texts: Mapping[Path, str]) -> View:
        """Return the view for changes to `files`. `items` and `texts` describe the project's current state.

        Raises:
            TooNarrow: If the whole project is needed, and `widened` has not been called.
        """
        if self._views is None or files & self._wide:
            return self._whole
        known, view = self._felt.get(files, (None, None))
        if known is not items:
            view = self._views.felt(files).fitted(files, items, texts)
            if view is None:
                raise TooNarrow
            self._felt[files] = items, view
        assert view is not None
        return view

    def _is_wide(self, files: frozenset[Path]) -> bool:
        return self._views is None or bool(files & self._wide) or self._views.felt(files).files is None

    def near(
        self, files: frozenset[Path], around: frozenset[Path], items: Sequence[Item], texts: Mapping[Path, str]
    ) -> View:
        """Return a view of only `files`, for computing changes that the view of `around` then judges.

        Raises:
            TooNarrow: See `of`.
        """
        if self._views is None:
            return self._whole
        known, view = self._alone.get(files, (None, self._whole))
        if known is not items:
            view = self._views.alone(files).fitted(files, items, texts) or self.of(around, items, texts)
            self._alone[files] = items, view
        return view


def files_of(item: Item) -> frozenset[Path]:
    """Return the files that an item's fix changes."""
    rewrite = item.linted.rewrite
    return frozenset(one.file.path for one in rewrite.replacements) if rewrite is not None else frozenset()


def _groups_of(items: Sequence[Item]) -> list[frozenset[Path]]:
    """Return the files that the items' fixes change, grouped if they are connected by a fix or a compiled root."""
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
    """Return the path and name of the compiled root that reaches a finding, or of the function around it."""
    return (finding.steps[0].path, finding.steps[0].function) if finding.steps else (finding.path, finding.function)


def _shown(linted: Linted) -> tuple[object, ...]:
    """Return the parts of a finding that must be the same in a view.

    Call chains are left out, because they can differ.
    """
    finding, rewrite = linted.finding, linted.rewrite
    return (*finding.sort_key, finding.end_line, finding.end_column, rewrite and _edits(rewrite))


def _edits(rewrite: Rewrite) -> tuple[object, ...]:
    edits = tuple((one.file.path, one.start, one.end, one.content) for one in rewrite.replacements)
    return edits, rewrite.safety, rewrite.conditions
