"""Compute all possible fixes in memory. Only parts of the project are linted, unless that gives unreliable results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from dynalint.fix.model import Decider, FixOptions, FixResult, Linted, Linter, Proposal, Verifier
from dynalint.fix.rounds import Rounds
from dynalint.fix.views import ViewChooser, Views


def fix_findings(
    linted: Sequence[Linted],
    lint: Linter,
    options: FixOptions,
    verify: Verifier | None = None,
    views: Views | None = None,
) -> FixResult:
    """Fix as many of `linted` as possible, in memory. `verify` is None if no code may be run.

    `lint` lints the whole project, and is used for every step if `views` is None.
    """
    if views is not None:
        if options.decide is not None:
            options = replace(options, decide=remembering(options.decide))
        rounds = Rounds(linted, ViewChooser(lint, views), options, verify)
        if rounds.hold():
            return rounds.result()
    return Rounds(linted, ViewChooser(lint), options, verify).result()


def remembering(decide: Decider) -> Decider:
    """Wrap `decide` so that it is asked only once about each fix, even if the fix is proposed again."""
    answers: dict[tuple[object, ...], Literal["accept", "skip", "quit"]] = {}

    def ask(proposal: Proposal) -> Literal["accept", "skip", "quit"]:
        key = tuple((path, *texts) for path, texts in proposal.diffs.items())
        if key not in answers:
            answers[key] = decide(proposal)
        return answers[key]

    return ask
