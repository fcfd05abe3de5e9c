"""DYN701: calling `copy.copy` or `copy.deepcopy` on an object that Dynamo does not copy."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import Call, Declined, Project, Rewrite, Rule, Violation, k, quote, rw

# Built-in containers with a `copy` method that does the same as `copy.copy`.
_WITH_METHOD = ("list", "dict", "set", "deque", "defaultdict", "OrderedDict")
_DEEPEST = 5


class CopyCall(Rule):
    code = "DYN701"
    name = "copy-call"
    summary = "Copying with the `copy` module breaks the graph"
    gb = ("GB0007", "GB4198", "GB0208", "GB0156", "GB0008", "GB0088", "GB0179")
    events = (Call,)
    calls = frozenset({"copy.copy", "copy.deepcopy"})

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Flag copies of the kinds of object that have been observed to break the graph."""
        if not event.args:
            return
        deep = event.callee == "copy.deepcopy"
        breaks = _breaks_deep if deep else _breaks_shallow
        if all(breaks(project, one) for one in event.args[0].members):
            why = "does not trace deep copies of tensors or modules" if deep else "does not trace it"
            yield Violation(event.node, f"`{event.callee}()` breaks the graph, because Dynamo {why}")

    def fix(self, event: Call, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Use the container's own method if its type is certain."""
        kind = event.args[0]
        if event.callee == "copy.deepcopy":
            return _cloned(event, project)
        if not (isinstance(kind, k.Sequence | k.Dictionary) and kind.type in _WITH_METHOD and kind.home is None):
            return Declined("the type of the copied object is not certain; call its `copy` method instead")
        if len(event.node.args) != 1 or event.node.keywords:
            return Declined("the call does not have exactly one positional argument")
        file = event.function.file
        copied = rw.method(rw.kept(file, event.node.args[0]), "copy")
        return Rewrite("Use the container's `copy` method", "safe", rw.written(file, (event.node, copied)))


def _cloned(event: Call, project: Project) -> Rewrite | Declined:
    """Replace a deep copy of a tensor, and any `.detach()` of the copy, with `detach().clone()`."""
    tensor = k.only_tensor(event.args[0])
    if tensor is None or event.node.keywords or len(event.node.args) != 1:
        return Declined(
            "`clone()` would propagate gradients; write `clone()` or `detach().clone()`, whichever you need"
        )
    source, file = event.node.args[0], event.function.file
    if tensor.origin == "parameter":
        return Declined(
            "a copy of a parameter is also a parameter; write `detach().clone()` if a plain tensor is acceptable"
        )
    copied = _detached(event, project) or event.node
    alone = isinstance(source, ast.Call) and isinstance(source.func, ast.Attribute) and source.func.attr == "detach"
    kept = rw.kept(file, source)
    edits = rw.written(file, (copied, rw.method(kept if alone else rw.method(kept, "detach"), "clone")))
    title = "Copy the tensor with `detach().clone()`"
    if tensor.dtype in ("bool", "int"):
        return Rewrite(title, "safe", edits)
    # A deep copy of a tensor that was computed from tensors with gradients raises, so only leaves matter.
    condition = f"no code reads the gradient of the copy of {quote(file, source)}"
    return Rewrite(title, "conditional", edits, (condition,))


def _detached(event: Call, project: Project) -> ast.Call | None:
    """Return the `.detach()` call on the result of a call, if there is one."""
    parents = project.parents(event.function)
    attribute = parents.get(event.node)
    call = parents.get(attribute) if isinstance(attribute, ast.Attribute) and attribute.attr == "detach" else None
    return call if isinstance(call, ast.Call) and call.func is attribute else None


def _breaks_shallow(project: Project, kind: k.Kind) -> bool:
    if isinstance(kind, k.Tensor):
        return not kind.array
    if isinstance(kind, k.Sequence | k.Dictionary):
        return kind.type in (*_WITH_METHOD, "torch.nn.ModuleList", "torch.nn.Sequential", "torch.nn.ModuleDict")
    return _is_module(project, kind)


def _breaks_deep(project: Project, kind: k.Kind, depth: int = _DEEPEST) -> bool:
    """Return whether a deep copy definitely reaches a tensor or module."""
    if depth == 0:
        return False
    if isinstance(kind, k.Sequence):
        items = (kind.element,) if kind.items is None and _is_parameter(kind.element) else kind.items or ()
        return kind.type.startswith("torch.nn.") or any(_breaks_deep(project, item, depth - 1) for item in items)
    if isinstance(kind, k.Dictionary):
        items = (kind.value,) if _is_parameter(kind.value) else tuple(item for _, item in kind.items)
        return kind.type.startswith("torch.nn.") or any(_breaks_deep(project, item, depth - 1) for item in items)
    return (isinstance(kind, k.Tensor) and not kind.array) or _is_module(project, kind)


def _is_parameter(kind: k.Kind) -> bool:
    """Return whether a container holds parameters of a module, which hardly ever has none."""
    return isinstance(kind, k.Tensor) and kind.origin == "parameter"


def _is_module(project: Project, kind: k.Kind) -> bool:
    if isinstance(kind, k.Instance):
        return project.is_module_class(kind.cls)
    cls = project.api.torch_class(kind.type) if isinstance(kind, k.Object) else None
    return cls is not None and cls.is_module
