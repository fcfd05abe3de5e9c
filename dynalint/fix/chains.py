"""Rewrites that leave something to other rules, joined with the rewrites of those.

A number that stays a tensor leaves the branch that it decides, which only another rule can rewrite. Nothing is gained
before that is done too, so the two are one fix.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dynalint.findings import Safety
from dynalint.fix.edits import Change, plan_of, replaced
from dynalint.fix.imports import EditError
from dynalint.fix.model import Linted, Linter, Unit
from dynalint.fix.recheck import Item, brought
from dynalint.rules import Rewrite

CAUTION: Sequence[Safety] = ("safe", "conditional", "unsafe", "suggestion")
_MOST_STEPS = 6


def completed(
    first: Unit,
    leaves: Collection[str],
    items: Sequence[Item],
    texts: Mapping[Path, str],
    lint: Linter,
    *,
    form: int = 0,
) -> Unit:
    """Return a unit with the rewrites of all that it leaves: new findings of the codes `leaves`.

    `items` are the findings of the state that `texts` hold. `form` counts the
    longer forms of rewrites from the one that is tried first.

    Raises:
        EditError: one of them has no rewrite.
    """
    path, *others = first.plan
    if others:
        raise EditError("it changes several files, and what it leaves in them has to be changed by hand")
    source, unit = first.sources[path], first
    # What leaves its own kind of finding has moved the others in its text, which Dynamo would meet there.
    whole = first.linted[0].finding.code in leaves
    for _ in range(_MOST_STEPS):
        text = replaced(source.text, unit.plan[path])
        left = brought(items, lint({**texts, path: text}), unit, whole=whole)
        if not left:
            return unit
        step = form_of(_step(left[0], leaves), form)
        plan = plan_of(step)
        if set(plan) != {path}:
            raise EditError("what it leaves has to be changed in other files too; do that by hand")
        unit = replace(
            unit,
            plan={path: _changes(source.text, replaced(text, plan[path]))},
            title=first.title,
            safety=max(unit.safety, step.safety, key=CAUTION.index),
            shown=unit.shown or step.shown,
            conditions=tuple(dict.fromkeys([*unit.conditions, *step.conditions])),
        )
    raise EditError("it leads to ever more changes; carry them out by hand")


def form_of(rewrite: Rewrite, form: int) -> Rewrite:
    """Return the longer form of a rewrite that has this number; the longest where there are not as many."""
    for _ in range(form):
        rewrite = rewrite.sheltered or rewrite
    return rewrite


def _step(left: Linted, leaves: Collection[str]) -> Rewrite:
    """Return the rewrite of something that is left."""
    finding = left.finding
    if finding.code in leaves and left.rewrite is not None:
        return left.rewrite
    why = finding.fix.declined if finding.fix is not None and finding.fix.declined else finding.message
    raise EditError(f"it would leave a {finding.code} on line {finding.line}: {why}")


def _changes(old: str, new: str) -> tuple[Change, ...]:
    """Return the changes, of whole lines, that lead from one text to another."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    starts = [0]
    for line in before:
        starts.append(starts[-1] + len(line))
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    return tuple(
        Change(starts[start], starts[end], "".join(after[new_start:new_end]))
        for tag, start, end, new_start, new_end in matcher.get_opcodes()
        if tag != "equal"
    )
