"""Test a rule with its examples: its static findings, the result of its fix, and what Dynamo does with the code.

Each check raises AssertionError with a sentence that names the example, the claim that does not hold, and what was
found instead. The static checks do not need torch. The other checks run code and fail if torch is missing.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from dynalint.findings import CATEGORIES
from dynalint.fix.imports import EditError
from dynalint.rulebook.graph_breaks import table
from dynalint.rules import Rule
from dynalint.testing.cases import Case
from dynalint.testing.static import StaticView

if TYPE_CHECKING:
    from dynalint.confirm.worker.dynamo.records import Break
    from dynalint.testing import running

HEADINGS = (
    "## What it flags",
    "## Why",
    "## Example",
    "## How it is rewritten",
    "## When the rewrite is not exact",
    "## How Dynamo words it",
    "## References",
)
"""The sections that the documentation of every rule must have, in this order."""


class Proof:
    """Proves a case. Its code may only have findings from `rules`."""

    def __init__(self, case: Case, rules: Sequence[Rule]) -> None:
        self.case = case
        self.study = StaticView(case, rules)
        self.ran = False
        """Whether the code was actually run under Dynamo."""

    def prove(self) -> None:
        """Check everything that the example claims."""
        self.prove_findings()
        self.prove_fix()
        self.prove_run()

    def prove_findings(self) -> None:
        """Check that the findings are on exactly the marked lines, with exactly the marked codes."""
        case = self.case
        found = {(one.line, one.code): one for one in self.study.found}
        wanted = {(line, code) for line, codes in case.marks.items() for code in codes}
        faults = [
            f"{code} is not found at line {line}: `{case.line(line)}`" for line, code in sorted(wanted - set(found))
        ]
        for line, code in sorted(set(found) - wanted):
            message = found[line, code].flag.violation.message
            faults.append(f"{code} is found at line {line}, but is not marked there: `{case.line(line)}` ({message})")
        self._assert_none(faults)

    def prove_fix(self) -> None:
        """Check that the rule rewrites the example to exactly the declared text, or gives the declared reason."""
        case, study = self.case, self.study
        offered = [one for one in study.own if one.rewrite is not None]
        if case.example.declined is not None:
            self._assert_none([f"line {one.line}: a fix is offered, but it should be declined" for one in offered])
            if not study.declined:
                self._fail("the fix should be declined with a reason, but the rule gives none")
            wrong = [reason for reason in study.declined if case.example.declined not in reason]
            self._assert_none(
                f"the fix is declined with {reason!r}, which does not contain {case.example.declined!r}"
                for reason in wrong
            )
        elif case.fixed is not None:
            self._assert_none(f"the fix is declined: {reason}" for reason in study.declined)
            text = self._fixed()
            if text != case.fixed:
                self._fail("the result of the fix differs from `fixed`:\n" + _diff(case.fixed, text))
            allowed = {code for codes in case.marks.values() for code in codes} - {case.rule.code}
            left = [one for one in study.find(text) if one.code not in allowed]
            self._assert_none(
                f"after the fix {one.code} is found at line {one.line} ({one.flag.violation.message})" for one in left
            )
        elif offered:
            self._fail("the fix rewrites it, but the example has no `fixed`:\n" + _diff(case.code, self._fixed()))

    def prove_run(self) -> None:
        """Run the example under Dynamo and check what the rule says about it.

        Flagged code must do what the rule says, and other code must not. The rewritten code must compile.
        """
        try:
            from dynalint.testing import running
        except ImportError as fault:
            self._fail(f"it cannot be run: {fault}")
        case = self.case
        program = running.Program(case.code, case.example.target, case.example.inputs)
        shows = case.example.shows or (self._category() if case.flagged else "clean")
        # Every call may compile code that breaks again, so only as many are made as the example needs.
        result = program.first_round(partial(self._all_break, program)) if shows == "graph-break" else program.observed
        self.ran = result.run.compiles != ()
        if shows == "clean":
            self._assert_none(f"it should be clean, but {fault}" for fault in [running.unclean(program)] if fault)
            if case.rule.category == "miscompile":
                wrong = running.miscompiled(program)
                self._assert_none([f"it should be correct when compiled, but is not: {wrong}"] if wrong else [])
        elif shows == "graph-break":
            self._prove_breaks(program, result)
        elif shows == "recompile":
            if not result.grows:
                totals = ", ".join(map(str, result.rounds))
                self._fail(f"it should keep recompiling, but the graphs after each round of calls are {totals}")
        elif shows == "recompile-once":
            if result.grows or result.rounds[-1] <= result.run.graphs[0]:
                totals = ", ".join(map(str, result.run.graphs))
                self._fail(f"it should recompile and then settle, but the graphs after each call are {totals}")
        elif shows == "miscompile" and running.miscompiled(program) is None:
            self._fail("it should be wrong when compiled, but gives the same values, gradients and state as eager code")
        if case.fixed is not None:
            self._prove_rewrite(program, running.Program(case.fixed, case.example.target, case.example.inputs))

    def _prove_breaks(self, program: running.Program, observed: running.ProgramRun) -> None:
        from dynalint.testing import running

        if running.refused(program, observed) in self._allowed:
            self.ran = True
            return
        self._assert_none(self._break_faults(program, observed.breaks))
        self._prove_settings()

    @property
    def _allowed(self) -> set[str | None]:
        return {*self.case.example.gb} or {*self.case.rule.gb}

    def _all_break(self, program: running.Program, breaks: Sequence[Break]) -> bool:
        return not any(self._break_faults(program, breaks))

    def _break_faults(self, program: running.Program, breaks: Sequence[Break]) -> Iterator[str]:
        from dynalint.testing import running

        shown = "; ".join(dict.fromkeys(running.described(program, found) for found in breaks)) or "none"
        for line in self.case.lines:
            here = [found for found in breaks if running.line_in(program, found) == line]
            if not here:
                yield f"Dynamo does not break at line {line}: `{self.case.line(line)}` (its breaks: {shown})"
            elif not any({found.gb, *found.secondary} & self._allowed for found in here):
                ids = ", ".join(sorted({found.gb or "no id" for found in here}))
                yield f"the break at line {line} is {ids}, not {' or '.join(sorted(filter(None, self._allowed)))}"

    def _prove_settings(self) -> None:
        """If a finding names a setting, check that Dynamo traces its line when the setting is on."""
        from dynalint.testing import running

        case = self.case
        named = {(one.flag.violation.setting, one.line) for one in self.study.own if one.flag.violation.setting}
        faults = []
        for setting in sorted({setting for setting, _ in named}):
            program = running.Program(case.code, case.example.target, case.example.inputs)
            broken = running.broken_lines(program, setting)
            faults += [
                f"`{setting}` does not help: Dynamo still breaks at line {line}"
                for line in sorted(line for name, line in named if name == setting and line in broken)
            ]
        self._assert_none(faults)

    def _prove_rewrite(self, original: running.Program, fixed: running.Program) -> None:
        from dynalint.testing import running

        fault = running.unclean(fixed, in_default_mode=True) or running.recompiling(fixed)
        self._assert_none([f"the rewritten code is not clean: {fault}"] if fault else [])
        unsafe = any(one.rewrite is not None and one.rewrite.safety == "unsafe" for one in self.study.own)
        exact = self.case.example.exact
        fault = running.rewritten_differently(original, fixed, exact=exact, by_nature=unsafe)
        self._assert_none([f"the rewritten code differs: {fault}"] if fault else [])

    def _category(self) -> str:
        """Return the category of the rule's findings in this example, which can differ from the rule's own category."""
        own = [one.flag.violation.category for one in self.study.own]
        return next((category for category in own if category), self.case.rule.category)

    def _fixed(self) -> str:
        try:
            return self.study.fixed
        except EditError as fault:
            self._fail(f"the rewrite cannot be carried out: {fault}")

    def _assert_none(self, faults: Iterable[str]) -> None:
        listed = list(faults)
        if listed:
            self._fail("\n  ".join(listed))

    def _fail(self, text: str) -> NoReturn:
        rule = self.case.rule
        raise AssertionError(f"{rule.code} {rule.name}, example {self.case.example.name!r}:\n  {text}")


def rule_faults(rule: Rule) -> list[str]:
    """Return what is wrong with a rule, such as missing documentation or examples, or invalid graph break ids."""
    text, examples = rule.page().documentation, rule.page().examples
    headings = tuple(line for line in text.splitlines() if line.startswith("## "))
    faults = [] if text else [f"it has no page {type(rule).__module__.rpartition('.')[2]}.md next to it"]
    if headings != HEADINGS:
        faults.append(f"its documentation has the headings {list(headings)}, not {list(HEADINGS)}")
    faults += [f"no text below {heading!r}" for heading in HEADINGS if re.search(rf"{heading}\s*(##|\Z)", text)]
    if not re.fullmatch(r"[a-z]+(-[a-z0-9]+)+", rule.name):
        faults.append(f"its name {rule.name!r} does not consist of lower-case words with hyphens")
    if rule.category not in CATEGORIES:
        faults.append(f"its category {rule.category!r} is not one of {', '.join(CATEGORIES)}")
    cases = [Case(rule, example) for example in examples]
    if not any(case.flagged for case in cases):
        faults.append("it has no example that it flags")
    if all(case.flagged for case in cases):
        faults.append("it has no example that is not flagged")
    ids = {*rule.gb, *(gb for example in examples for gb in example.gb)}
    faults += [f"torch has no break with the id {gb}" for gb in sorted(ids - _known_ids())]
    if rule.category == "graph-break" and not ids:
        faults.append("it does not name the id of its graph break")
    return faults


def _known_ids() -> set[str]:
    """Return the graph break ids from the installed torch, if any, and from the release that dynalint's data covers."""
    torch = find_spec("torch")
    own = set(table()["breaks"])
    if torch is None or torch.origin is None:
        return own
    registry = Path(torch.origin).with_name("_dynamo") / "graph_break_registry.json"
    return own | set(json.loads(registry.read_text(encoding="utf-8")))


def _diff(wanted: str, seen: str) -> str:
    lines = difflib.unified_diff(wanted.splitlines(), seen.splitlines(), "wanted", "given", lineterm="")
    return "\n".join(lines)
