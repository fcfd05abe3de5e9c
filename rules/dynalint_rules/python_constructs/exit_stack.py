"""DYN714: entering torch's context managers on an `ExitStack`."""

from __future__ import annotations

from dynalint.rulekit import Call, Project, Rule, k


class ExitStackCall(Rule):
    code = "DYN714"
    name = "exit-stack"
    summary = "Entering a torch context manager through an `ExitStack` breaks the graph"
    gb = ("GB0007", "GB0147", "GB0156", "GB0467", "GB0066", "GB0092")
    events = (Call,)
    calls = frozenset({"contextlib.ExitStack.enter_context"})
    message = "Dynamo supports this context manager in a `with` statement, but not in an `ExitStack`"
    help = "write a `with` statement, using `contextlib.nullcontext()` if there is nothing to enter"
    refusal = "enter it in the `with` statement instead, as in `with torch.no_grad() if frozen else nullcontext():`"

    def flags(self, event: Call, project: Project) -> bool:
        """Return whether entering this kind of object has been observed to break the graph."""
        return bool(event.args) and all(_breaks(one) for one in event.args[0].members)


def _breaks(kind: k.Kind) -> bool:
    if isinstance(kind, k.Object):
        return kind.type.startswith("torch.") or kind.type == "contextlib.nullcontext"
    return isinstance(kind, k.Value) and kind.type == "device"
