"""DYN206: a list, tuple or string indexed by a tensor."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.rulekit import Declined, Project, Rewrite, Rule, Subscript, Violation, k, rw
from dynalint_rules._code.scope import Scope, as_tensor

_CONTAINERS = (
    "list tuple range torch.Size torch.nn.ModuleList torch.nn.Sequential torch.nn.ParameterList deque collections.deque"
).split()


class ListIndexedByTensor(Rule):
    code = "DYN206"
    name = "list-indexed-by-tensor"
    summary = "Indexing a list, tuple or string with a tensor reads the tensor and breaks the graph"
    gb = ("GB0124", "GB4880", "GB0070", "GB0218", "GB7596")
    events = (Subscript,)

    def check(self, event: Subscript, project: Project) -> Iterable[Violation]:
        """Flag an index that is certainly a tensor, of what is certainly a container."""
        index = k.only_tensor(event.index)
        if index is None or index.array:
            return
        if all(_is_container(kind) for kind in event.base.members):
            yield Violation(
                event.node.slice,
                "a tensor used to index a Python container is read into Python, which breaks the graph",
                help="stack the elements and index the stack with a tensor of one dimension",
            )

    def fix(self, event: Subscript, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Stack tensors that are there anyway; to compute every element is a decision of its own."""
        rewrite = _stacked(Scope.of(event, project), event)
        if rewrite is not None:
            return rewrite
        return Declined(
            "the element depends on data; stack all of them and index the stack with `t.reshape(1)`, or select "
            "the element with a Python number outside the compiled function"
        )


def _is_container(kind: k.Kind) -> bool:
    if isinstance(kind, k.Sequence):
        return kind.type in _CONTAINERS
    return isinstance(kind, k.Value) and kind.type == "str"


def _stacked(scope: Scope, event: Subscript) -> Rewrite | None:
    """Index the stack of a list of tensors; None where it holds anything else."""
    node, base, index = event.node, event.base, event.node.slice
    if not isinstance(base, k.Sequence) or base.type not in ("list", "tuple") or event.context != "load":
        return None
    if as_tensor(base.element) is None:
        return None
    shown, (owner, place, read) = (
        scope.quote(node.value),
        (rw.kept(scope.file, one) for one in (node.value, index, node)),
    )
    edits = rw.written(
        scope.file,
        (node.value, rw.call(f"{scope.torch}.stack", owner)),
        (index, rw.method(place, "reshape", rw.number(1))),
        (node, rw.method(read, "squeeze", rw.number(0))),
    )
    conditions = (
        f"the tensors in {shown} have the same shape, dtype and device",
        f"nothing changes {scope.quote(node)} in place, or the tensors in {shown} while it is used",
    )
    return Rewrite("Index the stack of all tensors", "conditional", edits, conditions, scope.imports)
