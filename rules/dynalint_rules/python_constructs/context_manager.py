"""DYN706: context managers that Dynamo cannot create or enter."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.rulekit import Call, Entry, Project, Rule, Violation, k

_LOCKS = frozenset(
    f"{owner}.{name}"
    for owner in ("threading", "multiprocessing")
    for name in ("Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore")
)
# Dynamo traces these if the same call creates them, but not if they were stored.
_NOT_KEPT = frozenset(
    {"torch.no_grad", "torch.enable_grad", "torch.set_grad_enabled", "torch.inference_mode", "contextlib.ExitStack"}
)
# Calls that create a context manager and break the graph before it is entered.
_MAKERS: dict[str, str] = {
    "contextlib": "closing redirect_stdout redirect_stderr chdir",
    "decimal": "localcontext",
    "numpy": "errstate printoptions",
    "torch.backends.cuda": "sdp_kernel",
    "torch.backends.cudnn": "flags",
    "torch.backends.mkldnn": "flags",
    "torch.jit": "optimized_execution strict_fusion",
    "torch.utils.flop_counter": "FlopCounterMode",
}


class ContextManager(Rule):
    code = "DYN706"
    name = "context-manager"
    summary = "Entering a context manager that Dynamo does not support breaks the graph"
    gb = ("GB0142", "GB0007", "GB0008", "GB0208", "GB0262", "GB0294")
    events = (Entry, Call)
    calls = frozenset(f"{owner}.{name}" for owner, names in _MAKERS.items() for name in names.split())
    refusal = "the replacement depends on the context manager"

    def check(self, event: Entry | Call, project: Project) -> Iterable[Violation]:
        """Flag objects that Dynamo cannot enter, and calls to context managers that it cannot create."""
        if isinstance(event, Call):
            torch = "<2.15" if event.callee == "contextlib.closing" else ""
            yield Violation(event.node, f"Dynamo does not support the context manager `{event.callee}()`", torch=torch)
        elif isinstance(event, Entry):
            what = _unknown(event, project)
            if what:
                # From torch 2.14 on, Dynamo can enter stored instances of the project's classes.
                torch = "<2.14" if isinstance(event.kind, k.Instance) else ""
                yield Violation(event.node, f"Dynamo cannot enter {what}", torch=torch)


def _unknown(event: Entry, project: Project) -> str | None:
    """Return a description of an object that Dynamo definitely cannot enter, or None."""
    kind, home = event.kind, event.home
    kept = home is not None and (home.type != "global" or home.name in event.function.module.bindings)
    if (isinstance(kind, k.Value) and kind.type == "device") or kind == k.Object("torch.device"):
        return "a device; pass `device=` to the calls that create tensors"
    if isinstance(kind, k.Object) and kind.type in _LOCKS:
        return "a lock; acquire it outside the compiled function"
    if isinstance(kind, k.Object) and kept and kind.type in _NOT_KEPT:
        return f"a `{kind.type}` that was created before the call; create it in the `with` statement"
    if isinstance(kind, k.Instance) and kept and project.find_method(kind.cls, "__enter__") is not None:
        return f"an instance of `{kind.cls.name}` that was created before the call; create it in the `with` statement"
    return None
