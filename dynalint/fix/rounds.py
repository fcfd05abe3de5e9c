"""Choose rewrites and apply them in memory, in rounds, until no more rewrites are possible.

Each round applies rewrites that do not overlap, parses and lints the result, and compares it with the previous state by
running both. Rewrites that cause problems are dropped one by one. The next round starts from the new text.

Files that are not connected by a fix or a compiled root have separate rounds. To judge a round, dynalint lints only the
part of the project that its changes affect. At the end, it lints the whole project once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dynalint.analysis.source import SourceFile
from dynalint.findings import Finding
from dynalint.fix.applied import as_applied, as_repaired
from dynalint.fix.chains import Chains, Start, form_of, start_of
from dynalint.fix.edits import Accepted, merged, replaced
from dynalint.fix.imports import EditError
from dynalint.fix.model import (
    ChangedFile,
    Fixed,
    FixOptions,
    FixResult,
    Linted,
    Proposal,
    Refused,
    Unit,
    Verification,
    Verifier,
)
from dynalint.fix.outcome import (
    RoundOutcome,
    is_refuted,
    longer_forms,
    never,
    not_allowed,
    parse_fault,
    refusal_of,
    together,
    united,
)
from dynalint.fix.recheck import ONLY_BY_RUNNING, Item, carried, count_codes, in_order, moved, recheck, way
from dynalint.fix.views import TooNarrow, View, ViewChooser, files_of
from dynalint.rules import Replacement, Rewrite

MOST_ROUNDS = 10


class Rounds:
    """The rounds for a set of findings. `result` returns the outcome."""

    def __init__(
        self, linted: Sequence[Linted], views: ViewChooser, options: FixOptions, verify: Verifier | None
    ) -> None:
        self._chooser, self._options, self._verify = views, options, verify
        self._files: frozenset[Path] = frozenset()
        self._items = tuple(
            Item(one, one.finding, never(one)) for one in linted if one.finding.code not in ONLY_BY_RUNNING
        )
        self._seen_running = tuple(one for one in linted if one.finding.code in ONLY_BY_RUNNING)
        self._texts: dict[Path, str] = {}
        self._sources: dict[Path, SourceFile] = {}
        self._fixed: list[tuple[Unit, Verification | None, tuple[Finding, ...]]] = []
        self._refused: dict[Finding, Refused] = {}
        self._blocked: set[Finding] = set()
        self._undecided: set[Finding] = set()
        self._forms: dict[Finding, list[Unit]] = {}
        self._fixed_along: dict[Finding, Finding] = {}
        self._note: str | None = None
        self._outcomes: dict[frozenset[Unit], RoundOutcome] = {}
        self._chains = Chains(views)
        self._changed: set[str | None] = set()
        self._rounds, self._ended = 0, False
        self._too_late: list[Finding] = []
        self._run()

    def _run(self) -> None:
        # Fixes cannot undo each other forever. An accepted round removes findings and adds none, so the same text never
        # occurs twice.
        while not self._ended:
            taken = len(self._fixed)
            offered = self._pass()
            if self._too_late:
                codes = count_codes(self._too_late)
                self._note = f"there are still fixes to apply after {MOST_ROUNDS} rounds ({codes}); run `fix` again"
                return
            self._rounds += len(self._fixed) > taken
            if not offered and not self._offer_again():
                return

    def _pass(self) -> bool:
        """Apply the fixes that are currently possible, one group of files at a time. Return whether there were any.

        If no view can judge a fix, it is applied at the end, because each step then lints the whole project.
        """
        wide, groups = self._chooser.groups(self._open())
        offered = False
        for files in groups:
            self._files = files
            try:
                units = self._offered()
                if units:
                    self._round(units)
                    offered = True
            except TooNarrow:
                wide |= files
        self._files = self._chooser.widened(wide)
        units = self._offered()
        if units:
            self._round(units)
        return offered or bool(units)

    def _round(self, units: tuple[Unit, ...]) -> None:
        """Apply the offered `units` that are currently possible."""
        self._outcomes.clear()
        accepted = self._settle((), units)
        if accepted and self._rounds == MOST_ROUNDS:
            self._too_late += [linted.finding for unit in accepted for linted in unit.linted]
            return
        wanted = self._wanted(accepted) if accepted else ()
        if wanted != accepted:
            # These units were tried together with others that are now rejected, so the result may be different.
            wanted = self._settle((), wanted)
        if wanted:
            self._take(wanted, self._outcomes[frozenset(wanted)])

    def _wanted(self, units: tuple[Unit, ...]) -> tuple[Unit, ...]:
        """If there is a decider, ask it about each unit. Rejected units are never offered again."""
        decide, verifications = self._options.decide, self._outcomes[frozenset(units)].verifications
        if decide is None:
            return units
        wanted: list[Unit] = []
        for unit in units:
            changes = {path: (self._text(path), replaced(self._text(path), own)) for path, own in unit.plan.items()}
            answer = "quit" if self._ended else decide(Proposal(unit, verifications.get(unit), changes))
            self._ended = answer == "quit"
            if answer == "accept":
                wanted.append(unit)
            else:
                self._block(unit, "you skipped it", None, for_good=True)
        return tuple(wanted)

    def _open(self) -> tuple[Item, ...]:
        """Return the items that have a fix that has not failed."""
        return tuple(
            replace(item, refuted=len(self._forms.get(item.origin, ())) if self._verify is not None else None)
            for item in self._items
            if item.linted.rewrite is not None and item.origin not in self._blocked
            if self._options.unlikely or not item.linted.finding.doubt
        )

    def _view(self) -> View:
        return self._chooser.of(self._files, self._items, self._texts)

    def hold(self) -> bool:
        """Lint the whole project unless views already did, and return whether it has no unexpected findings."""
        if not self._texts or not self._chooser.narrowed:
            return True
        check = recheck(self._items, self._chooser.lint(self._texts), (), {})
        if check.trouble is not None:
            return False
        self._note_gone(check.items, [unit for unit, *_ in self._fixed], {})
        self._items = check.items
        return True

    def _offered(self) -> tuple[Unit, ...]:
        """Return the units to try in this round, sorted by position. If two conflict, the later one has to wait."""
        if self._ended or not self._files:
            return ()
        groups: dict[tuple[object, ...], list[tuple[Item, Unit]]] = {}
        items = [item for item in self._open() if files_of(item) <= self._files]
        starts = [start for item in items if (start := self._start(item)) is not None and start.leaves]
        self._chains.complete(starts, self._files, self._items, self._texts)
        for item in items:
            unit = self._unit(item)
            if unit is not None:
                key = tuple(sorted(((path, changes) for path, changes in unit.plan.items()), key=lambda one: one[0]))
                groups.setdefault(key, []).append((item, unit))
        units = [united([unit for _, unit in group]) for group in groups.values()]
        units.sort(key=lambda unit: min((str(path), changes[0].start) for path, changes in unit.plan.items()))
        accepted = Accepted()
        return tuple(unit for unit in units if accepted.add(unit.plan))

    def _offer_again(self) -> bool:
        """Offer refused fixes again if code on the same call chain has changed since. Return whether there are any.

        Otherwise a second run of `fix` would do more than the first. For example, removing a branch can let inputs
        reach more code, and `torch.where` can give zeros to a parameter that had no gradient because of a branch.
        """
        again = {finding for finding in self._undecided if way(finding) & self._changed}
        self._changed.clear()
        self._undecided -= again
        self._blocked -= again
        return bool(again)

    def _start(self, item: Item) -> Start | None:
        """Return the item's own rewrite if it may be applied now. Otherwise, record why it may not."""
        if item.linted.rewrite is None:
            return None
        if item.blocked is not None:
            self._refused.setdefault(item.origin, Refused(item.origin, item.blocked))
            return None
        rewrite = form_of(item.linted.rewrite, item.refuted)
        if not self._is_allowed(item, rewrite):
            return None
        try:
            self._check_sources(rewrite.replacements)
            return start_of(item)
        except EditError as fault:
            self._refused.setdefault(item.origin, Refused(item.origin, str(fault)))
            return None

    def _unit(self, item: Item) -> Unit | None:
        """Return the item's unit with follow-up rewrites if it may be applied now. Otherwise, record why not."""
        unit = self._combined(item)
        refuted = self._forms.get(item.origin)
        if unit is None or not refuted or unit.plan != refuted[-1].plan:
            return unit
        self._blocked.add(item.origin)  # there is no longer form
        self._undecided.add(item.origin)
        return None

    def _combined(self, item: Item) -> Unit | None:
        start = self._start(item)
        if start is None or not start.leaves:
            return start.unit if start is not None else None
        self._chains.complete([start], self._files, self._items, self._texts)
        unit = self._chains.result(start)
        if isinstance(unit, EditError):
            self._refused.setdefault(item.origin, Refused(item.origin, str(unit)))
            return None
        return unit if unit is not None and self._is_allowed(item, unit) else None

    def _is_allowed(self, item: Item, fix: Rewrite | Unit) -> bool:
        """Return whether a fix may be tried. If it may not, record why."""
        refusal = not_allowed(fix, unsafe=self._options.unsafe, runs=self._verify is not None)
        if refusal is not None:
            self._refused.setdefault(item.origin, Refused(item.origin, refusal[0], unlock=refusal[1]))
        return refusal is None

    def _check_sources(self, replacements: Sequence[Replacement]) -> None:
        """Remember each file as it was first read, and check that the rewrite was made for the current text."""
        for file in (replacement.file for replacement in replacements):
            source = self._sources.setdefault(file.path, file)
            if file.text != self._texts.get(file.path, source.text):
                raise EditError("its edits were made for a different version of the file")
            if source.data is not None and source.encode(source.text) != source.data:
                raise EditError(f"the file's encoding {source.encoding} does not preserve its bytes")

    def _settle(self, accepted: tuple[Unit, ...], candidates: tuple[Unit, ...]) -> tuple[Unit, ...]:
        """Return the largest set of `accepted` and `candidates` that work together."""
        units = accepted + candidates
        outcome = self._outcome(units)
        if outcome.sound:
            return units
        if outcome.blamed:
            for unit, reason in outcome.blamed.items():
                self._block(unit, reason, outcome.verifications.get(unit))
            left = tuple(unit for unit in accepted if unit not in outcome.blamed)
            return self._settle(left, tuple(unit for unit in candidates if unit not in outcome.blamed))
        suspects = tuple(unit for unit in candidates if unit in outcome.suspects) or candidates or accepted
        others = tuple(unit for unit in candidates if unit not in suspects)
        if others:
            return self._settle(self._settle(accepted, others), suspects)
        if len(suspects) == 1:
            self._block(suspects[0], outcome.trouble or "", outcome.verifications.get(suspects[0]))
            return self._settle((), tuple(unit for unit in accepted if unit not in suspects))
        base = () if suspects == accepted else accepted
        middle = len(suspects) // 2
        return self._settle(self._settle(base, suspects[:middle]), suspects[middle:])

    def _outcome(self, units: tuple[Unit, ...]) -> RoundOutcome:
        key = frozenset(units)
        if key not in self._outcomes:
            self._outcomes[key] = self._tried(units) if units else RoundOutcome(self._texts, self._items)
        return self._outcomes[key]

    def _tried(self, units: tuple[Unit, ...]) -> RoundOutcome:
        """Apply `units`, then parse, lint and run the result. Stop at the first of these steps that fails."""
        changes = merged(unit.plan for unit in units)
        texts = {path: replaced(self._text(path), wanted) for path, wanted in changes.items()}
        for path, text in texts.items():
            fault = parse_fault(self._sources[path], text)
            if fault is not None:
                suspects = tuple(unit for unit in units if path in unit.plan)
                return RoundOutcome(trouble=f"the result does not parse: {fault}", suspects=suspects)
        texts = {**self._texts, **texts}
        view = self._view()
        after = view.lint(texts)
        for linted in after:
            if linted.file.text != texts.get(linted.file.path, linted.file.text):
                suspects = tuple(unit for unit in units if linted.file.path in unit.plan)
                return RoundOutcome(trouble="the changed file cannot be checked again", suspects=suspects)
        items, others = view.split(self._items)
        check = recheck(items, after, units, changes)
        if check.blamed or check.trouble is not None:
            return RoundOutcome(blamed=check.blamed, trouble=check.trouble, suspects=check.suspects)
        outcome = RoundOutcome(texts, in_order([*view.known(check.items), *moved(others, changes, texts)]))
        return outcome if self._verify is None else self._verified(outcome, units, self._verify)

    def _verified(self, outcome: RoundOutcome, units: tuple[Unit, ...], verify: Verifier) -> RoundOutcome:
        verifications = verify(self._texts, outcome.texts, units)
        outcome = replace(outcome, verifications=verifications)
        refuted = tuple(unit for unit in units if is_refuted(unit, verifications[unit]))
        if len(refuted) > 1:
            trouble = f"running it showed a difference: {verifications[refuted[0]].detail}"
            return replace(outcome, trouble=trouble, suspects=refuted)
        # A run stops at the first difference. Without the unit that caused it, the other cases may pass in another run.
        refusals = {unit: refusal_of(unit, verifications[unit]) for unit in refuted or units}
        blamed = {unit: reason for unit, reason in refusals.items() if reason is not None}
        return replace(outcome, blamed=blamed)

    def _block(self, unit: Unit, reason: str, verification: Verification | None, *, for_good: bool = False) -> None:
        refuted = verification is not None and verification.outcome == "refuted"
        for finding in self._origins(unit):
            self._refused[finding] = Refused(finding, reason, refuted)
            forms = self._forms.setdefault(finding, [])
            if refuted and (unit in forms or len(forms) < longer_forms(unit)):
                forms += [unit] if unit not in forms else []
                continue  # the next longer form is offered next
            self._blocked.add(finding)
            if not for_good:
                self._undecided.add(finding)

    def _origins(self, unit: Unit) -> tuple[Finding, ...]:
        members = {id(linted) for linted in unit.linted}
        return tuple(item.origin for item in self._items if id(item.linted) in members)

    def _take(self, accepted: tuple[Unit, ...], outcome: RoundOutcome) -> None:
        for unit in accepted:
            self._fixed.append((unit, outcome.verifications.get(unit), self._origins(unit)))
        self._note_gone(outcome.items, accepted, outcome.verifications)
        changes = merged(unit.plan for unit in accepted)
        running = (carried(one, changes.get(one.file.path, ()), outcome.texts) for one in self._seen_running)
        self._seen_running = tuple(one for one in running if one is not None)
        self._texts = dict(outcome.texts)
        self._items = outcome.items
        on_way = set().union(*(way(linted.finding) for unit in accepted for linted in unit.linted))
        self._changed |= on_way
        self._chains.forget(changes, on_way)
        if self._options.keep is not None:
            files = [file for file in self._changed_files() if file.source.path in changes]
            self._options.keep(files, together(accepted, {file.source.path for file in files}))

    def _note_gone(self, left: Sequence[Item], units: Sequence[Unit], results: Mapping[Unit, Verification]) -> None:
        """Record the findings that disappeared although `units` were meant for other findings."""
        gone = {item.origin for item in self._items} - {item.origin for item in left}
        gone.difference_update(*(findings for *_, findings in self._fixed))
        self._fixed_along.update({finding: as_repaired(finding, units, results) for finding in gone})

    def _text(self, path: Path) -> str:
        return self._texts.get(path, self._sources[path].text)

    def result(self) -> FixResult:
        """Return the result of all rounds."""
        gone = {finding for *_, findings in self._fixed for finding in findings}.union(self._fixed_along)
        refused = [refused for finding, refused in self._refused.items() if finding not in gone]
        fixed = [
            Fixed(as_applied(finding, unit, verification, self._only_source(unit)), verification)
            for unit, verification, found in self._fixed
            for finding in found
        ]
        fixed += [Fixed(finding, None) for finding in self._fixed_along.values()]
        remaining = [*map(self._left, self._items), *(one.finding for one in self._seen_running)]
        files = self._changed_files()
        return FixResult(
            files=files,
            groups=together([unit for unit, *_ in self._fixed], {file.source.path for file in files}),
            fixed=tuple(sorted(fixed, key=lambda fixed: fixed.finding.sort_key)),
            refused=tuple(sorted(refused, key=lambda refused: refused.finding.sort_key)),
            remaining=tuple(sorted(remaining, key=lambda finding: finding.sort_key)),
            notes=(self._note,) if self._note else (),
        )

    def _changed_files(self) -> tuple[ChangedFile, ...]:
        by_path: dict[Path, dict[Finding, None]] = {}
        for unit, _, findings in self._fixed:
            for path in unit.plan:
                by_path.setdefault(path, {}).update(dict.fromkeys(findings))
        return tuple(
            ChangedFile(self._sources[path], text, tuple(by_path.get(path, ())))
            for path, text in sorted(self._texts.items())
            if text != self._sources[path].text
        )

    def _only_source(self, unit: Unit) -> SourceFile | None:
        """Return the only file that a unit changes, as it was first read, or None if it changes more than one."""
        path, *others = unit.plan
        return None if others else self._sources[path]

    def _left(self, item: Item) -> Finding:
        """Return a remaining finding, including the results of running its fix."""
        finding, refused = item.linted.finding, self._refused.get(item.origin)
        if finding.fix is None or refused is None or refused.unlock is not None:
            return finding
        verified = False if refused.refuted else finding.fix.verified
        return replace(finding, fix=replace(finding.fix, verified=verified, declined=refused.reason))
