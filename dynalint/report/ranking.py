"""Order findings by their cost, if it is known, and give the reasons as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from dynalint.findings import STATUSES, Finding


@dataclass(frozen=True, slots=True)
class CostLevel:
    """A level of cost.

    `why` says what findings on this level cost, and `holds` says whether a finding is on this level.
    """

    title: str
    why: str
    holds: Callable[[Finding], bool]


def _breaks(finding: Finding) -> bool:
    return finding.category == "graph-break"


def _gives_up(finding: Finding) -> bool:
    return bool(finding.cost.gives_up) or finding.evidence.effect in ("rest", "frame")


LEVELS = (
    CostLevel(
        "Wrong results",
        "Compiled code may give different results from eager code, without raising an error.",
        lambda one: one.category == "miscompile",
    ),
    CostLevel(
        "Tensors read in a loop",
        "Python waits for the GPU in each iteration. With a tensor read in each of 24 layers, a call took 24 times as "
        "long.",
        lambda one: _breaks(one) and bool(one.cost.loop) and one.cost.reads,
    ),
    CostLevel(
        "Graph breaks in a loop",
        "Each iteration leaves the compiled code, and Dynamo usually gives up on the function that contains the "
        "loop. With a graph break in each of 24 layers, a call took 8 to 12 times as long.",
        lambda one: _breaks(one) and bool(one.cost.loop),
    ),
    CostLevel(
        "Functions that Dynamo gives up on",
        "The function runs in eager mode. If the function was the whole model, a call took 6 times as long.",
        lambda one: _breaks(one) and _gives_up(one),
    ),
    CostLevel(
        "Recompilations on every call",
        "Each call takes seconds to compile until Dynamo gives up on the function. After that, a call took 6 times as "
        "long.",
        lambda one: one.category == "recompile" and one.severity == "error",
    ),
    CostLevel(
        "Tensors read on each call",
        "Python waits for the GPU. With a single tensor read, a call took 1.4 times as long.",
        lambda one: _breaks(one) and one.cost.reads,
    ),
    CostLevel(
        "Other graph breaks and recompilations",
        "A graph break outside a loop costs next to nothing once all code has been compiled.",
        lambda one: _breaks(one) or one.category == "recompile",
    ),
    CostLevel("Notes and advice", "These do not cost anything at the moment.", bool),
)
"""All levels, starting with the most expensive.

A finding is on the first level that applies. The last two have no known cost.
"""

MEASURED = (
    "The durations were measured on an H200 with 24 small layers and CUDA graphs, where overhead matters most. "
    "Large kernels hide most of the overhead: with a tensor read in each layer, a call only took 2.4 times as long."
)
_NOTHING_KNOWN = len(LEVELS) - 2
_SHOWN = 3


def level_of(finding: Finding) -> int:
    """Return the index of a finding's level. Findings that were refuted or are in rarely compiled code cost nothing."""
    if finding.doubt or finding.evidence.status == "refuted":
        return len(LEVELS) - 1
    return next(index for index, level in enumerate(LEVELS) if level.holds(finding))


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings by cost, starting with the most expensive. Within a level, confirmed findings come first."""
    return sorted(findings, key=lambda one: (level_of(one), STATUSES.index(one.evidence.status), one.sort_key))


def most_expensive(findings: Sequence[Finding]) -> tuple[list[Finding], int]:
    """Return the findings to fix first, each in a different function, and how many findings cost at least as much.

    Only findings that are known to cost more than others are returned.
    """
    order = ranked(findings)
    least = min(level_of(order[-1]), _NOTHING_KNOWN) if order else 0
    dear = [finding for finding in order if level_of(finding) < least]
    named = list({(one.place, one.function): one for one in reversed(dear)}.values())[::-1][:_SHOWN]
    return named, sum(level_of(one) <= level_of(named[-1]) for one in dear) if named else 0


def because(finding: Finding) -> str:
    """Return what a finding costs, as a sentence without subject or full stop, or "" if the cost is unknown."""
    return "; ".join(_reasons(finding))


def _reasons(finding: Finding) -> Iterator[str]:
    cost, effect = finding.cost, finding.evidence.effect
    if finding.category == "miscompile":
        confirmed = finding.evidence.status == "confirmed"
        yield f"{'gives' if confirmed else 'may give'} different results from eager code"
        return
    if finding.category == "recompile":
        yield "recompiles on every call" if finding.severity == "error" else "recompiles on later calls"
        return
    if not _breaks(finding):
        return
    what = "waits for the GPU" if cost.reads else "breaks the graph"
    if cost.loop:
        yield f"{what} in each iteration of a loop in `{cost.loop}`"
    elif cost.reads:
        yield f"{what} on each call"
    if cost.gives_up:
        yield f"makes Dynamo give up on `{cost.gives_up}`"
    elif effect in ("rest", "frame"):
        yield f"makes Dynamo give up on {'the rest of ' if effect == 'rest' else ''}the function"
