"""DYN710: an iterator that outlives the call."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.rulekit import Call, Iteration, Project, Rule, Violation, k


class KeptIterator(Rule):
    code = "DYN710"
    name = "kept-iterator"
    summary = "Advancing an iterator that was created before the call breaks the graph"
    gb = ("GB4347", "GB0811", "GB0156", "GB0253", "GB0116", "GB9493")
    events = (Call, Iteration)
    calls = frozenset({"builtins.next"})
    refusal = "the callers would have to change; get the next value before the call and pass it in"

    def check(self, event: Call | Iteration, project: Project) -> Iterable[Violation]:
        """Flag calling `next` on an iterator that existed before the call, and looping over one."""
        kind = next(iter(event.args), k.UNKNOWN) if isinstance(event, Call) else event.kind
        home = kind.home if isinstance(kind, k.Sequence) else None
        if not isinstance(kind, k.Sequence) or home is None or home.type not in ("attribute", "class", "global"):
            return
        if kind.type == "generator":
            yield Violation(
                event.node, f"Dynamo cannot advance the iterator `{home.name}`, which was created before the call"
            )
        elif kind.type in ("count", "range_iterator") and isinstance(event, Call):
            yield Violation(
                event.node,
                f"every call recompiles, because Dynamo specialises on the next number of `{home.name}`",
                category="recompile",
                torch=">=2.13" if kind.type == "count" else "",
            )
