"""DYN706: a `with` statement over something that Dynamo cannot enter."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import Call, Declined, Entry, Import, Project, Refusal, Rewrite, Rule, Violation, k, rw
from dynalint_rules._code.scope import Scope

# Locks and the like, entered wherever they come from.
_CONTEXTLIB = Import("contextlib", None)
_LOCKS = frozenset(
    f"{owner}.{name}"
    for owner in ("threading", "multiprocessing")
    for name in ("Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore")
)
# Traced where the same call makes them, and not where they are kept.
_NOT_KEPT = frozenset(
    {"torch.no_grad", "torch.enable_grad", "torch.set_grad_enabled", "torch.inference_mode", "contextlib.ExitStack"}
)
# Calls that make a context manager, in which Dynamo breaks already, as it does when it is entered.
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
# Of those, the ones that leave results as they are but for rounding, each with what a compiled run goes without.
_HARMLESS_TO_LEAVE = {
    "torch.backends.cudnn.flags": "a compiled run uses the cuDNN kernels selected by the caller's settings",
    "torch.backends.mkldnn.flags": "a compiled run uses the oneDNN kernels selected by the caller's settings",
    "numpy.errstate": "a compiled run treats floating-point errors according to the caller's settings",
    "numpy.printoptions": "a compiled run prints arrays according to the caller's settings",
}


class ContextManager(Rule):
    code = "DYN706"
    name = "context-manager"
    summary = "Entering a context manager that Dynamo does not support breaks the graph"
    gb = ("GB0142", "GB0007", "GB0008", "GB0208", "GB0262", "GB0294")
    events = (Entry, Call)
    calls = frozenset(f"{owner}.{name}" for owner, names in _MAKERS.items() for name in names.split())

    def check(self, event: Entry | Call, project: Project) -> Iterable[Violation]:
        """Flag what is entered by its kind and by where it comes from, and what Dynamo cannot make by its name."""
        if isinstance(event, Call):
            yield Violation(event.node, f"Dynamo does not support the context manager `{event.callee}()`")
        elif isinstance(event, Entry):
            what = _unknown(event, project)
            if what:
                yield Violation(event.node, f"Dynamo cannot enter {what}")

    def fix(self, event: Entry | Call, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Take a lock, or settings that hardly change a result, in eager code only."""
        title = "Take the lock only in eager code"
        if isinstance(event, Entry) and isinstance(event.kind, k.Object) and event.kind.type in _LOCKS:
            condition: str | None = "a compiled run does not hold the lock"
        else:
            title = "Change the settings only in eager code"
            condition = _HARMLESS_TO_LEAVE.get(event.callee) if isinstance(event, Call) else None
        if condition is None:
            return Declined("the replacement depends on the context manager; see the help of the finding")
        return _left_to_eager(Scope.of(event, project), violation.node, title, condition)


def _left_to_eager(scope: Scope, node: ast.AST, title: str, condition: str) -> Rewrite:
    """The rewrite of `with lock:`, which enters it in eager code only."""
    item = scope.parents.get(node)
    if not isinstance(node, ast.expr) or not isinstance(item, ast.withitem):
        raise Refusal("it is not created where it is entered; move it into the `with` statement first")
    if item.optional_vars is not None:
        raise Refusal("the result of entering it is used; enter it around the call of the compiled function")
    if "contextlib" in scope.function.locals or (
        scope.function.module.bindings.get("contextlib", _CONTEXTLIB) != _CONTEXTLIB
    ):
        raise Refusal("the name `contextlib` has another meaning here; import `nullcontext` under another name")
    text = f"contextlib.nullcontext() if {scope.torch}.compiler.is_compiling() else {scope.text(node)}"
    edits = rw.written(scope.file, (node, text))
    imports = ("import contextlib", *scope.imports)
    return Rewrite(title, "unsafe", edits, (condition,), imports)


def _unknown(event: Entry, project: Project) -> str | None:
    """Say what is entered if Dynamo certainly does not know it."""
    kind, home = event.kind, event.home
    kept = home is not None and (home.type != "global" or home.name in event.function.module.bindings)
    if (isinstance(kind, k.Value) and kind.type == "device") or kind == k.Object("torch.device"):
        return "a device; pass `device=` to the calls that create tensors"
    if isinstance(kind, k.Object) and kind.type in _LOCKS:
        return "a lock; take it around the call of the compiled function"
    if isinstance(kind, k.Object) and kept and kind.type in _NOT_KEPT:
        return f"a `{kind.type}` that was created before the call; create it in the `with` statement"
    if isinstance(kind, k.Instance) and kept and project.find_method(kind.cls, "__enter__") is not None:
        return f"an instance of `{kind.cls.name}` that was created before the call; create it in the `with` statement"
    return None
