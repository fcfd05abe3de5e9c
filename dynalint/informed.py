"""Lint again with what runs have shown about parameters whose kinds the source code does not tell.

If running code shows a graph break where no rule finds one, the analysis may not know that an argument is a tensor. The
run knows. With its kinds as assumptions, the rule that fits flags the code instead, and can offer a fix.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dynalint.analysis import kinds as k
from dynalint.analysis.interpreter import Interpreter
from dynalint.analysis.kinds import Kind, Unknown
from dynalint.analysis.signatures import parameter_kind
from dynalint.confirm.verdicts import CONFIRMABLE
from dynalint.confirming import Confirmed
from dynalint.findings import Finding
from dynalint.fix import Linted
from dynalint.linting.lint import Linter, LintResult

_DISCOVERED = "DYN001"
Place = tuple[str, int, int, str]
"""The path, line, column and code of a finding."""


def may_be_informed(linter: Linter, result: LintResult) -> bool:
    """Return whether there would be more fixes if arguments of roots about which nothing is known were tensors."""
    interpreter = result.analysis.project.interpreter
    assert isinstance(interpreter, Interpreter)
    unknown: dict[tuple[Path, str], dict[str, Kind]] = {}
    for root in result.analysis.roots:
        arguments = [*root.node.args.posonlyargs, *root.node.args.args, *root.node.args.kwonlyargs]
        kinds = {one.arg: parameter_kind(interpreter, root, one) for one in arguments}
        names = [name for name, kind in kinds.items() if kind == Unknown(name)]
        unknown[root.file.path, root.qualname] = dict.fromkeys(names, k.TENSOR)
    known = {one.finding.sort_key for one in (*result.linted, *result.silenced)}
    again = linter.assuming(unknown).lint()
    new = [one for one in again.linted if one.finding.sort_key not in known]
    return any(one.rewrite is not None for one in again.offers.made(new))


def informed_by_runs(linter: Linter, result: LintResult, ran: Confirmed) -> tuple[Linter, LintResult] | None:
    """Lint again with the kinds that runs have shown.

    Return the linter and its result, or None if it finds nothing new in a function in which a break was discovered.
    """
    open_functions = {_function(one.finding) for one in _discovered(ran)}
    if not open_functions or not ran.shown or ran.interrupted:
        return None
    known = {one.finding.sort_key for one in (*result.linted, *result.silenced)}
    informed = linter.assuming(ran.shown)
    again = informed.lint()
    found = (one.finding for one in again.linted if one.finding.sort_key not in known)
    return (informed, again) if any(_function(one) in open_functions for one in found) else None


def explains_more(more: Confirmed, before: Confirmed) -> bool:
    """Return whether fewer breaks have no finding than before, and no other finding was lost.

    Guessed arguments only count if their breaks were seen, because the code may also accept lists instead of tensors.
    """
    left, others = _confirmed(before)
    left_now, others_now = _confirmed(more)
    known = {_place(one.finding) for one in before.linted}
    doubtful = any(
        one.finding.evidence.status not in ("confirmed", "refuted") and _place(one.finding) not in known
        for one in more.linted
        if one.finding.category in CONFIRMABLE
    )
    return (
        len(left_now) < len(left) and others <= others_now and not (doubtful and more.guessed) and not more.interrupted
    )


def with_calls(more: Confirmed, before: Confirmed) -> Confirmed:
    """Say with the new findings which calls have shown the kinds that they depend on."""
    seen = {_function(one.finding): one.finding.evidence.detail for one in _discovered(before)}
    known = {_place(one.finding) for one in before.linted}
    linted = [
        one if _place(one.finding) in known else _with_detail(one, seen.get(_function(one.finding), ""))
        for one in more.linted
    ]
    return replace(more, linted=tuple(linted))


def _with_detail(linted: Linted, text: str) -> Linted:
    evidence = linted.finding.evidence
    detail = f"{evidence.detail} {text}".strip()
    return replace(linted, finding=replace(linted.finding, evidence=replace(evidence, detail=detail)))


def _discovered(ran: Confirmed) -> list[Linted]:
    return [one for one in ran.linted if one.finding.code == _DISCOVERED]


def _confirmed(ran: Confirmed) -> tuple[set[Place], set[Place]]:
    """Return the places of the breaks that only a run shows, and of the other confirmed findings."""
    discovered = {_place(one.finding) for one in _discovered(ran)}
    found = {_place(one.finding) for one in ran.linted if one.finding.evidence.status == "confirmed"}
    return discovered, found - discovered


def _place(finding: Finding) -> Place:
    return finding.sort_key[:4]


def _function(finding: Finding) -> tuple[str, str]:
    return finding.path, finding.function
