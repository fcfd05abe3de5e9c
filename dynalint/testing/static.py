"""Compute the findings in an example and the result of the rule's fix. Does not need torch."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from dynalint.analysis import AnalysisOptions, analyze
from dynalint.analysis.events import Event
from dynalint.analysis.project import Project
from dynalint.analysis.source import SourceFile
from dynalint.fix.edits import Accepted, Plan, merged, plan_of, replaced
from dynalint.linting.flags import RuleSet, find, qualified
from dynalint.rules import Declined, Flag, Rewrite, Rule
from dynalint.testing.cases import Case, installed_torch

_MOST_ROUNDS = 10
# This path must not exist, because an example has no neighbouring files and is not in a package.
_PATH = Path(tempfile.gettempdir()) / "dynalint-example" / "example.py"


@dataclass(frozen=True)
class ExampleFinding:
    """A rule's finding, with access to its fix."""

    flag: Flag
    project: Project

    @property
    def code(self) -> str:
        """The rule's code."""
        return self.flag.rule.code

    @property
    def line(self) -> int:
        """The 1-based line of the finding."""
        return self.flag.violation.node.lineno

    @cached_property
    def answer(self) -> Rewrite | Declined | None:
        """What the rule offers for the finding."""
        return self.flag.rule.offer(self.flag.event, self.flag.violation, self.project)

    @property
    def rewrite(self) -> Rewrite | None:
        """The rewrite that would be applied, or None if it is only a suggestion."""
        answer = self.answer
        return answer if isinstance(answer, Rewrite) and answer.safety != "suggestion" else None


class StaticView:
    """The static view of a case: the findings from `rules` in its code, and the result of its own rule's fix."""

    def __init__(self, case: Case, rules: Sequence[Rule]) -> None:
        self.case = case
        self._rules = rules if any(rule.code == case.rule.code for rule in rules) else [*rules, case.rule]

    @cached_property
    def found(self) -> list[ExampleFinding]:
        """All findings in the code, sorted by line and code."""
        return self.find(self.case.code)

    @cached_property
    def own(self) -> list[ExampleFinding]:
        """The findings from the case's own rule."""
        return [found for found in self.found if found.code == self.case.rule.code]

    @property
    def declined(self) -> list[str]:
        """The reasons that the rule gives for not offering a fix."""
        return [found.answer.reason for found in self.own if isinstance(found.answer, Declined)]

    @cached_property
    def fixed(self) -> str:
        """The code after applying the rewrites of the rule and of follow-up rules until there are none left.

        Raises AssertionError if this does not terminate, and EditError if a rewrite cannot be applied.
        """
        code, found, codes = self.case.code, self.own, {self.case.rule.code}
        for _ in range(_MOST_ROUNDS):
            accepted = Accepted()
            rewrites = [one.rewrite for one in found if one.rewrite is not None]
            plans: list[Plan] = [plan for plan in map(plan_of, rewrites) if accepted.add(plan)]
            if not plans:
                return code
            codes.update(left for rewrite in rewrites for left in rewrite.leaves)
            code = replaced(code, merged(plans)[_PATH])
            found = [one for one in self.find(code) if one.code in codes]
        raise AssertionError(f"the rewrites do not terminate: after {_MOST_ROUNDS} rounds the code is\n{code}")

    def find(self, code: str) -> list[ExampleFinding]:
        """Return the findings in `code`, sorted by line and code. Exceptions from a rule are passed on."""
        rules = RuleSet(self._rules, installed_torch() or self.case.example.torch or self.case.rule.torch or None)
        options = AnalysisOptions(rule_options=self.case.example.options)
        analysis = analyze([_PATH], options, overrides={_PATH: code}, watched=rules.watched)
        if analysis.failures:
            failure = analysis.failures[0]
            raise AssertionError(f"the analysis failed on {failure.function}: {failure.fault}")
        flags = qualified(list(find(analysis, rules, _always, _raise)), analysis.project)
        found = [ExampleFinding(flag, analysis.project) for flag in flags]
        return sorted(found, key=lambda one: (one.line, one.code))


def _always(_rule: Rule, _file: SourceFile) -> bool:
    return True


def _raise(rule: Rule, event: Event, fault: Exception) -> None:
    raise AssertionError(f"{rule.code} raised {type(fault).__name__} at line {event.node.lineno}: {fault}") from fault
