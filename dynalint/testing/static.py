"""What the rules find in the code of an example, and what a rule's fix makes of it. Needs no torch."""

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
from dynalint.lint import Flag, RuleSet, find, qualified
from dynalint.rules import Declined, Rewrite, Rule
from dynalint.testing.cases import Case

_MOST_ROUNDS = 10
# Nothing is there: examples are text, and must find neither neighbours nor a package around them.
_PATH = Path(tempfile.gettempdir()) / "dynalint-example" / "example.py"


@dataclass(frozen=True)
class Found:
    """Something that a rule found, and what its fix answers."""

    flag: Flag
    project: Project

    @property
    def code(self) -> str:
        """The rule's code."""
        return self.flag.rule.code

    @property
    def line(self) -> int:
        """The line at which it stands, from 1."""
        return self.flag.violation.node.lineno

    @cached_property
    def answer(self) -> Rewrite | Declined | None:
        """What the rule's fix answers."""
        return self.flag.rule.offer(self.flag.event, self.flag.violation, self.project)

    @property
    def rewrite(self) -> Rewrite | None:
        """The rewrite that would be applied: one that is no mere suggestion."""
        answer = self.answer
        return answer if isinstance(answer, Rewrite) and answer.safety != "suggestion" else None


class Study:
    """A case seen without running it: what `rules` find in its code, and what the fix of its own rule makes of it."""

    def __init__(self, case: Case, rules: Sequence[Rule]) -> None:
        self.case = case
        self._rules = rules if any(rule.code == case.rule.code for rule in rules) else [*rules, case.rule]

    @cached_property
    def found(self) -> list[Found]:
        """Everything found in the code, by line and code."""
        return self.find(self.case.code)

    @cached_property
    def own(self) -> list[Found]:
        """What the rule of the case found."""
        return [found for found in self.found if found.code == self.case.rule.code]

    @property
    def declined(self) -> list[str]:
        """The reasons for which the rule offers no fix."""
        return [found.answer.reason for found in self.own if isinstance(found.answer, Declined)]

    @cached_property
    def fixed(self) -> str:
        """The code after all rewrites of the rule, and of what they leave to others, until none is offered any more.

        Raises AssertionError where that does not come to an end, EditError where a rewrite cannot be carried out.
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
        raise AssertionError(f"the rewrites come to no end: after {_MOST_ROUNDS} rounds the code is\n{code}")

    def find(self, code: str) -> list[Found]:
        """Return what the rules find in some code, by line and code.

        Raises whatever a rule raises.
        """
        rules = RuleSet(self._rules)
        options = AnalysisOptions(rule_options=self.case.example.options)
        analysis = analyze([_PATH], options, overrides={_PATH: code}, watched=rules.watched)
        if analysis.failures:
            failure = analysis.failures[0]
            raise AssertionError(f"the analysis failed on {failure.function}: {failure.fault}")
        flags = qualified(list(find(analysis, rules, _always, _raise)), analysis.project)
        found = [Found(flag, analysis.project) for flag in flags]
        return sorted(found, key=lambda one: (one.line, one.code))


def _always(_rule: Rule, _file: SourceFile) -> bool:
    return True


def _raise(rule: Rule, event: Event, fault: Exception) -> None:
    raise AssertionError(f"{rule.code} raised {type(fault).__name__} at line {event.node.lineno}: {fault}") from fault
