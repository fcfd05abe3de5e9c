"""DYN707: a property that is computed once and kept."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from dynalint.rulekit import Project, Read, Rule, Violation

# From Python 3.12 on it takes no lock, so that Dynamo traces it.
_TAKES_LOCK = sys.version_info < (3, 12)


class CachedProperty(Rule):
    code = "DYN707"
    name = "cached-property"
    summary = "reading a `functools.cached_property` for the first time in compiled code costs a break or a graph"
    category = "advice"
    severity = "info"
    gb = ("GB0142",)
    events = (Read,)
    calls = frozenset({"functools.cached_property"})
    refusal = "compute it in the constructor, or make it a `property`, which is worked out while tracing"

    def check(self, event: Read, project: Project) -> Iterable[Violation]:
        """Flag the read; what it costs depends on the version of Python."""
        cost = "takes a lock, which Dynamo cannot enter," if _TAKES_LOCK else "is compiled for twice"
        yield Violation(
            event.node,
            f"the cached property `{event.node.attr}` {cost} if its value is not there yet",
            help="compute it in the constructor, or make it a `property`",
        )
