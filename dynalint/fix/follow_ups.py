"""Fixes as `fix` makes them: together with the rewrites of the findings that they leave."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from dynalint.findings import Fix, as_sentence
from dynalint.fix.chains import completed, start_of
from dynalint.fix.edits import edits_of
from dynalint.fix.imports import EditError
from dynalint.fix.model import Linted, Unit
from dynalint.fix.recheck import Item
from dynalint.fix.views import View
from dynalint.rules import Rewrite

_TOO_LARGE = (
    "the project is too large to find out here whether everything that this changes can be rewritten; "
    "run `dynalint fix` on this file"
)


def is_part(rewrite: Rewrite | None) -> bool:
    """Return whether a rewrite leaves other findings, so that it is only a part of a fix."""
    return rewrite is not None and bool(rewrite.leaves)


def whole_fixes(
    starts: Sequence[Linted], linted: Sequence[Linted], views: Callable[[Path], Iterable[View]]
) -> list[Fix | None]:
    """Return the whole fixes for `starts`, findings whose rewrites leave other findings.

    `linted` are all findings with their rewrites, and `views` returns views for changes to a file. The first one that
    shows the same fixes for the file as the whole project judges. If none does, only `fix` can tell what a rewrite
    leaves, and none is offered.
    """
    items = [Item(one, one.finding) for one in linted]
    at = {item.origin.sort_key: item for item in items}
    found: dict[tuple[object, ...], Fix | None] = {one.finding.sort_key: declined(_TOO_LARGE) for one in starts}
    for path in dict.fromkeys(one.file.path for one in starts):
        own = [one for one in starts if one.file.path == path]
        view = next((fit for one in views(path) if (fit := one.fitted(frozenset([path]), items, {})) is not None), None)
        if view is not None:
            units = completed([start_of(at[one.finding.sort_key]) for one in own], view.split(items)[0], {}, view.lint)
            found |= {one.finding.sort_key: _fix(one, unit, path) for one, unit in zip(own, units, strict=True)}
    return [found[one.finding.sort_key] for one in starts]


def _fix(start: Linted, end: Unit | EditError, path: Path) -> Fix | None:
    if isinstance(end, EditError):
        return declined(str(end))
    if start.finding.fix is None:
        return None
    conditions = tuple(map(as_sentence, end.conditions))
    return Fix(start.finding.fix.title, end.safety, conditions, tuple(edits_of(end.plan[path], end.sources[path])))


def declined(reason: str) -> Fix:
    """Return what a finding has instead of a fix, with the reason why there is none."""
    return Fix("No fix is offered", "suggestion", declined=as_sentence(reason))
