"""Compute fixes for findings on demand. A plain `check` needs none."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dynalint.analysis import steps
from dynalint.analysis.run import with_deep_stack
from dynalint.analysis.source import SourceFile
from dynalint.analysis.steps import Budgets, Exhausted
from dynalint.findings import Finding, Fix, as_sentence
from dynalint.fix import EditError, Linted, to_edits
from dynalint.fix.follow_ups import declined, is_part
from dynalint.profiling import charged, count
from dynalint.rules import Declined, Rewrite

Answer = Callable[[], Rewrite | Declined | None]
"""Computes the rewrite for a finding, or a reason why no fix is offered, or None if the rule has no fixes."""

Follow = Callable[[Sequence[Linted]], Sequence[Fix | None]]
"""Returns the whole fixes for findings whose rewrites leave other findings."""

_COMPILING = "is_compiling()"
_GENERATED = "the file is marked as generated; change its source instead"


class Offers:
    """Computes each finding's rewrite once, by calling the answer stored under the finding's sort key.

    `shown` returns a file's path as used in findings, and `fixable` returns the codes that may be fixed in a file.
    `statements` are the graph breaks in the same statement as each of them, by sort key.
    `failures` are sentences about rewrites that made dynalint fail, with the name of the file. `budgets` count the
    steps that the rewrites took. `cut_short` is true if the budget was too small for some rewrites, depending on what
    else was requested.
    """

    def __init__(
        self,
        shown: Callable[[Path], str],
        fixable: Callable[[Path], Collection[str]],
        answers: Mapping[object, Answer],
        statements: Mapping[object, Sequence[Linted]] | None = None,
    ) -> None:
        self.failures: list[str] = []
        self.cut_short = False
        self.budgets = Budgets(steps.MOST_REWRITE_STEPS)
        self._shown, self._fixable, self._answers, self._statements = shown, fixable, answers, statements or {}
        self._answered: dict[object, Rewrite | Declined | None] = {}
        self._made: dict[object, tuple[Fix | None, Rewrite | None]] = {}
        self._whole: dict[object, Fix | None] = {}

    def made(self, linted: Iterable[Linted]) -> tuple[Linted, ...]:
        """Return the findings with their rewrites, or with the reasons why there are none.

        A rewrite may leave other findings. `shown` returns what `fix` makes of it.
        """
        with charged("fixes"):
            return with_deep_stack(lambda: tuple(self._with_fix(one) for one in linted))

    def shown(self, linted: Iterable[Linted], follow: Follow) -> tuple[Linted, ...]:
        """Return the findings with their fixes as `fix` makes them, or with the reasons why it makes none."""
        made = self.made(linted)
        starts = [one for one in made if one.finding.sort_key not in self._whole and is_part(one.rewrite)]
        if starts:
            keys = (one.finding.sort_key for one in starts)
            self._whole.update(zip(keys, follow(starts), strict=True))
        return tuple(
            replace(one, finding=replace(one.finding, fix=self._whole[one.finding.sort_key]))
            if one.finding.sort_key in self._whole
            else one
            for one in made
        )

    def so_far(self, linted: Linted) -> tuple[Fix | None] | None:
        """Return a finding's fix in a tuple, or None if it has not been computed.

        The tuple contains None if there is no fix.
        """
        key = linted.finding.sort_key
        if key in self._whole:
            return (self._whole[key],)
        fix, rewrite = self._made.get(key, (None, None))
        return (fix,) if key in self._made and not is_part(rewrite) else None

    def _with_fix(self, linted: Linted) -> Linted:
        key = linted.finding.sort_key
        if key not in self._made:
            self._made[key] = self._offer(linted)
            count("fixes")
        fix, rewrite = self._made[key]
        return replace(linted, finding=replace(linted.finding, fix=fix), rewrite=rewrite)

    def _offer(self, linted: Linted) -> tuple[Fix | None, Rewrite | None]:
        finding, file = linted.finding, linted.file
        if finding.sort_key not in self._answers or finding.code not in self._fixable(file.path):
            return None, None
        answer = self._answer(linted)
        if answer is None:
            return None, None
        if isinstance(answer, Declined):
            return declined(answer.reason), None
        if file.generated:
            return declined(_GENERATED), None
        try:
            edits = to_edits(answer, file, lambda other: self._shown(other.path))
        except EditError as fault:
            return declined(str(fault)), None
        left = self._left_by(linted, answer)
        if left is not None:
            return declined(f"the same statement has another break without a fix: {left.message}"), None
        conditions = tuple(map(as_sentence, answer.conditions))
        return Fix(as_sentence(answer.title), answer.safety, conditions=conditions, edits=edits), answer

    def _left_by(self, linted: Linted, rewrite: Rewrite) -> Finding | None:
        """Return a break that a rewrite would leave in its statement, which then gains nothing, or None."""
        finding, file = linted.finding, linted.file
        others = [one for one in self._statements.get(finding.sort_key, ()) if one.finding is not linted.finding]
        own = [one for one in rewrite.replacements if one.file is file]
        if not others or rewrite.leaves or any(_COMPILING in one.content for one in own):
            return None
        spans = [(min(one.start for one in own), max(one.end for one in own))] if own else []
        spans.append(_span(file, finding))
        for other in others:
            start, end = _span(file, other.finding)
            within = any(first <= start and end <= last for first, last in spans)
            answer = None if within else self._answer(other)
            offered = isinstance(answer, Rewrite) and answer.safety in ("safe", "conditional")
            if not within and not offered and other.finding.code in self._fixable(file.path):
                return other.finding
        return None

    def _answer(self, linted: Linted) -> Rewrite | Declined | None:
        key = linted.finding.sort_key
        if key not in self._answered:
            self._answered[key] = self._new_answer(linted)
        return self._answered[key]

    def _new_answer(self, linted: Linted) -> Rewrite | Declined | None:
        finding = linted.finding
        try:
            with charged(rule=finding.code), self.budgets.of(linted.file).spending():
                return self._answers[finding.sort_key]()
        except Exhausted:
            self.cut_short = True
            most = self.budgets.most
            return Declined(f"the rewrites in this file take more than {most} steps; split the file, or fix by hand")
        except Exception as fault:  # noqa: BLE001 - the finding is still reported, without a fix
            place = f"{finding.path}:{finding.line}"
            self.failures.append(f"{place}: {finding.code} failed: {type(fault).__name__}: {fault}")
            return None


def _span(file: SourceFile, finding: Finding) -> tuple[int, int]:
    """Return the offsets where a finding starts and ends."""
    lines = file.line_starts
    return lines[finding.line - 1] + finding.column - 1, lines[finding.end_line - 1] + finding.end_column - 1
