"""Why findings are unconfirmed. Each reason is given once, with the number of findings that it applies to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from dynalint.findings import Finding


def reasons(findings: Iterable[Finding]) -> list[str]:
    """Return a sentence for each reason that applies to more than one finding, starting with the most common reason."""
    counts = Counter(one.evidence.detail for one in findings if one.evidence.status == "unconfirmed")
    shared = sorted((-count, reason) for reason, count in counts.items() if count > 1)
    return [f"{-count} findings are unconfirmed: {reason}" for count, reason in shared]
