"""DYN714: context managers of torch on an `ExitStack`."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.rulekit import Call, Declined, Event, Project, Rewrite, Rule, Violation, k


class ExitStackCall(Rule):
    code = "DYN714"
    name = "exit-stack"
    summary = "entering torch's context managers on an `ExitStack` ends the graph"
    gb = ("GB0007", "GB0147", "GB0156", "GB0467", "GB0066", "GB0092")
    events = (Call,)
    calls = frozenset({"contextlib.ExitStack.enter_context"})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag what was seen to break, by the kind of what is entered."""
        if isinstance(event, Call) and event.args and all(_breaks(one) for one in event.args[0].members):
            yield Violation(
                event.node,
                "Dynamo enters this in a `with` statement, and not on a stack",
                help="write a `with` statement, over `contextlib.nullcontext()` where nothing is to be entered",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: what else the stack holds decides where it may be entered."""
        return Declined(
            "enter it in the `with` statement of the stack, as `with torch.no_grad() if frozen else nullcontext():`"
        )


def _breaks(kind: k.Kind) -> bool:
    if isinstance(kind, k.Object):
        return kind.type.startswith("torch.") or kind.type == "contextlib.nullcontext"
    return isinstance(kind, k.Value) and kind.type == "device"
