"""Why findings are unconfirmed. Each reason is given once, with the number of findings that it applies to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from dynalint.findings import Finding


def reasons(findings: Iterable[Finding]) -> list[str]:
    """Return a sentence for each reason that applies to more than one finding, starting with the most common reason.

    If all findings for which code had to be run are unconfirmed, all reasons are given.
    """
    asked = [one.evidence for one in findings if one.evidence.status != "static"]
    counts = Counter(one.detail for one in asked if one.status == "unconfirmed")
    least = 1 if counts.total() == len(asked) else 2
    given = sorted((-count, reason) for reason, count in counts.items() if count >= least)
    return [f"{_counted(-count)} unconfirmed: {reason}" for count, reason in given]


def _counted(count: int) -> str:
    return "1 finding is" if count == 1 else f"{count} findings are"
