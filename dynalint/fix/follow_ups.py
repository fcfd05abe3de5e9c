"""Fixes as `fix` makes them: together with the rewrites of the findings that they leave."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from dynalint.findings import Fix, as_sentence
from dynalint.fix.chains import completed, start_of
from dynalint.fix.edits import edits_of
from dynalint.fix.imports import EditError
from dynalint.fix.model import Linted, Unit
from dynalint.fix.recheck import Item
from dynalint.fix.views import View


def whole_fixes(
    path: Path, starts: Sequence[Linted], linted: Sequence[Linted], views: Iterable[View]
) -> tuple[Fix | None, ...]:
    """Return the whole fixes for `starts`, findings in the file `path` whose rewrites leave other findings.

    `linted` are all findings with their rewrites. The first of `views` that shows the same fixes for the file as the
    whole project judges. If none does, only `fix` can tell what a rewrite leaves, and the fixes stay as offered.
    """
    items, files = [Item(one, one.finding) for one in linted], frozenset([path])
    view = next((found for one in views if (found := one.fitted(files, items, {})) is not None), None)
    if view is None:
        return tuple(one.finding.fix for one in starts)
    at = {item.origin.sort_key: item for item in items}
    units = completed([start_of(at[one.finding.sort_key]) for one in starts], view.split(items)[0], {}, view.lint)
    return tuple(_fix(start, end, path) for start, end in zip(starts, units, strict=True))


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
