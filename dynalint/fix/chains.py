"""If a rewrite leaves new findings, combine it with the rewrites that resolve these findings.

When a number becomes a tensor, any branch that depends on it is still there, and only another rule can rewrite that
branch. The first rewrite is useless without the second, so the two form a single fix.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dynalint.diffs import differences
from dynalint.findings import Finding, Safety
from dynalint.fix.edits import Change, plan_of, replaced
from dynalint.fix.imports import EditError
from dynalint.fix.model import Linted, Linter, Unit
from dynalint.fix.recheck import Item, brought, way
from dynalint.fix.views import View, ViewChooser
from dynalint.rules import Rewrite

CAUTION: Sequence[Safety] = ("safe", "conditional", "unsafe", "suggestion")
_MOST_STEPS = 6
# Changes to a statement are at most this many lines apart. The lines between them may have moved into another block, so
# no other fix may change them at the same time.
_NEAR = 20


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """A unit whose item leaves new findings with the codes in `leaves`."""

    item: Item
    unit: Unit
    leaves: tuple[str, ...]


def start_of(item: Item) -> Start:
    """Return the start for an item that has a rewrite.

    Raises:
        EditError: If the rewrite cannot be applied.
    """
    linted = item.linted
    assert linted.rewrite is not None
    rewrite = form_of(linted.rewrite, item.refuted)
    sources = {replacement.file.path: replacement.file for replacement in rewrite.replacements}
    about = (rewrite.title, rewrite.safety, rewrite.conditions, sources, rewrite.ranks)
    return Start(item, Unit((linted,), plan_of(rewrite), *about), rewrite.leaves)


def form_of(rewrite: Rewrite, refuted: int | None) -> Rewrite:
    """Return the form of a rewrite to try after `refuted` shorter forms. If it is None, nothing is run to judge them.

    The longest form is correct under the fewest conditions.
    """
    while refuted != 0 and rewrite.otherwise is not None:
        rewrite, refuted = rewrite.otherwise, refuted and refuted - 1
    return rewrite


class Chains:
    """Units that have been combined with follow-up rewrites, cached until the surrounding code changes."""

    def __init__(self, chooser: ViewChooser) -> None:
        self._chooser = chooser
        self._units: dict[tuple[int, int | None], Unit] = {}
        self._refused: dict[Finding, tuple[Path, EditError]] = {}

    def result(self, start: Start) -> Unit | EditError | None:
        """Return the combined unit for `start`, or the error that prevents it, or None if it is not computed yet."""
        if start.item.origin in self._refused:
            return self._refused[start.item.origin][1]
        unit = self._units.get((id(start.item.linted), start.item.refuted))
        return unit if unit is not None and unit.linted[0] is start.item.linted else None

    def complete(
        self, starts: Sequence[Start], around: frozenset[Path], items: Sequence[Item], texts: Mapping[Path, str]
    ) -> None:
        """Compute the missing results. Each step lints a view, so starts with the same view are processed together."""
        groups: dict[frozenset[Path] | None, tuple[View, list[Start]]] = {}
        for start in starts:
            if self.result(start) is None:
                view = self._chooser.near(frozenset(start.unit.plan), around, items, texts)
                groups.setdefault(view.files, (view, []))[1].append(start)
        for view, group in groups.values():
            found = completed(group, view.split(items)[0], texts, view.lint)
            for start, result in zip(group, found, strict=True):
                if isinstance(result, EditError):
                    self._refused[start.item.origin] = start.item.linted.file.path, result
                else:
                    self._units[id(start.item.linted), start.item.refuted] = result

    def forget(self, changed: Collection[Path], on_way: Collection[str | None]) -> None:
        """Forget refusals in files that have changed, or on a call chain from a root to a change."""
        self._refused = {
            finding: (path, refusal)
            for finding, (path, refusal) in self._refused.items()
            if path not in changed and way(finding).isdisjoint(on_way)
        }


def completed(
    starts: Sequence[Start], items: Sequence[Item], texts: Mapping[Path, str], lint: Linter
) -> list[Unit | EditError]:
    """Return each start combined with the rewrites of all the findings it leaves, or the error that prevents this.

    `items` are the findings for the state in `texts`. Chains in different files advance together.
    """
    chains = [_Chain(start) for start in starts]
    while going := [chain for chain in chains if chain.error is None and not chain.done]:
        step = list({chain.path: chain for chain in reversed(going)}.values())
        left = _left(step, items, texts, lint)
        for chain in step:
            chain.advance(left[chain.unit])
    return [chain.error or chain.unit for chain in chains]


def _left(
    chains: Sequence[_Chain], items: Sequence[Item], texts: Mapping[Path, str], lint: Linter
) -> dict[Unit, list[Linted]]:
    """Return the findings that each chain has left so far.

    If it is unclear which chain caused a finding, each of the chains involved is linted separately.
    """
    units = [chain.unit for chain in chains]
    after = lint({**texts, **{chain.path: chain.text for chain in chains}})
    left, unclear = brought(items, after, units, whole=[chain.unit for chain in chains if chain.whole])
    for chain in chains:
        if chain.unit in unclear:
            left.update(_left([chain], items, texts, lint))
    return left


class _Chain:
    """A unit that is extended until it leaves no findings. If that is impossible, `error` explains why."""

    def __init__(self, start: Start) -> None:
        self.unit, self._leaves, self._refuted = start.unit, start.leaves, start.item.refuted
        self.path, *others = start.unit.plan
        self.done = False
        # A unit that leaves findings with its own code has moved its breaks elsewhere in its text, and Dynamo would
        # report them there.
        self.whole = start.unit.linted[0].finding.code in start.leaves
        self.error = (
            EditError("it changes more than one file, so make the follow-up changes by hand") if others else None
        )
        self._steps = 0
        # The code that the first rewrite has moved belongs to the unit too, even if its lines stay the same.
        self._end = start.unit.plan[self.path][-1].end

    @property
    def text(self) -> str:
        """The file's current text."""
        return replaced(self.unit.sources[self.path].text, self.unit.plan[self.path])

    def advance(self, left: Sequence[Linted]) -> None:
        """Add the rewrite of the first finding that is left."""
        self.done, self._steps = not left, self._steps + 1
        try:
            if left:
                # A finding that has no rewrite yet may get one after another finding has been rewritten.
                ready = (one for one in left if one.rewrite is not None and one.finding.code in self._leaves)
                self._add(form_of(_step(next(ready, left[0]), self._leaves), self._refuted))
        except EditError as fault:
            self.error = fault

    def _add(self, step: Rewrite) -> None:
        plan = plan_of(step)
        if set(plan) != {self.path}:
            raise EditError("it needs follow-up changes in other files; make them by hand")
        if self._steps == _MOST_STEPS:
            raise EditError("it leads to a long chain of changes; make them by hand")
        before = self.unit.sources[self.path].text
        self.unit = replace(
            self.unit,
            plan={self.path: _changes(before, replaced(self.text, plan[self.path]), self._end)},
            safety=max(self.unit.safety, step.safety, key=CAUTION.index),
            ranks=self.unit.ranks or step.ranks,
            conditions=tuple(dict.fromkeys([*self.unit.conditions, *step.conditions])),
        )


def _step(left: Linted, leaves: Collection[str]) -> Rewrite:
    """Return the rewrite of `left`, a finding that the chain has left."""
    finding = left.finding
    if finding.code in leaves and left.rewrite is not None:
        return left.rewrite
    why = finding.fix.declined if finding.fix is not None and finding.fix.declined else finding.message
    raise EditError(f"it would leave a {finding.code} on line {finding.line}: {why}")


def _changes(old: str, new: str, until: int) -> tuple[Change, ...]:
    """Return the whole-line changes that turn `old` into `new`, with the lines between nearby changes.

    The last change includes the unchanged lines after it up to the offset `until` in `old`.
    """
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    starts = [0]
    for line in before:
        starts.append(starts[-1] + len(line))
    joined: list[tuple[int, int, int, int]] = []
    for start, end, new_start, new_end in differences(before, after):
        near = joined.pop() if joined and start - joined[-1][1] <= _NEAR else (start, end, new_start, new_end)
        joined.append((near[0], end, near[2], new_end))
    for start, end, new_start, new_end in joined[-1:]:
        more = max(0, len(old[:until].splitlines()) - end)
        joined[-1] = (start, end + more, new_start, new_end + more)
    return tuple(
        Change(starts[start], starts[end], "".join(after[new_start:new_end]))
        for start, end, new_start, new_end in joined
    )
