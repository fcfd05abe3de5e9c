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
    summary = "The first read of a `functools.cached_property` in compiled code costs a break or a recompilation"
    category = "advice"
    severity = "info"
    gb = ("GB0142",)
    events = (Read,)
    calls = frozenset({"functools.cached_property"})
    refusal = "compute it in the constructor, or make it a `property`, which Dynamo evaluates while it traces"

    def check(self, event: Read, project: Project) -> Iterable[Violation]:
        """Flag the read. Its cost depends on the Python version."""
        cost = "takes a lock, which Dynamo cannot enter," if _TAKES_LOCK else "recompiles"
        yield Violation(
            event.node,
            f"the cached property `{event.node.attr}` {cost} if its value does not exist yet",
            help="compute it in the constructor, or make it a `property`",
        )
