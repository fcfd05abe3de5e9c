"""DYN707: reading a `functools.cached_property`."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from dynalint.rulekit import Project, Read, Rule, Violation

# Cached properties do not use a lock in Python 3.12 and later, so Dynamo traces them.
_TAKES_LOCK = sys.version_info < (3, 12)


class CachedProperty(Rule):
    code = "DYN707"
    name = "cached-property"
    summary = "Reading a `functools.cached_property` for the first time costs a graph break or a recompilation"
    category = "advice"
    severity = "info"
    gb = ("GB0142",)
    events = (Read,)
    calls = frozenset({"functools.cached_property"})
    refusal = "compute it in the constructor, or make it a `property`, which Dynamo evaluates during tracing"

    def check(self, event: Read, project: Project) -> Iterable[Violation]:
        """Flag the read. Its cost depends on the Python version."""
        cost = "acquires a lock, which Dynamo cannot enter" if _TAKES_LOCK else "makes the function recompile"
        yield Violation(
            event.node,
            f"the first read of the cached property `{event.node.attr}` {cost}",
            help="compute it in the constructor, or make it a `property`",
        )
