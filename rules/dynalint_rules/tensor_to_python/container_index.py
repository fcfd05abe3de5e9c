"""DYN206: a list, tuple or string indexed by a tensor."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.rulekit import Project, Rule, Subscript, Violation, k

_CONTAINERS = (
    "list tuple range torch.Size torch.nn.ModuleList torch.nn.Sequential torch.nn.ParameterList deque collections.deque"
).split()


class ListIndexedByTensor(Rule):
    code = "DYN206"
    name = "list-indexed-by-tensor"
    summary = "Indexing a list, tuple or string with a tensor reads the tensor's value and breaks the graph"
    gb = ("GB0124", "GB4880", "GB0070", "GB0218", "GB7596")
    reads_data = True
    events = (Subscript,)
    refusal = (
        "the element depends on data; stack all elements and index the stack with `t.reshape(1)`, or select the "
        "element with a Python number outside the compiled function"
    )

    def check(self, event: Subscript, project: Project) -> Iterable[Violation]:
        """Flag an index that is known to be a tensor if the indexed object is known to be a container."""
        index = k.only_tensor(event.index)
        if index is None or index.array:
            return
        if all(_is_container(kind) for kind in event.base.members):
            yield Violation(
                event.node.slice,
                "indexing a Python container with a tensor reads the tensor's value, which breaks the graph",
                help="stack the elements and index the stack with a one-dimensional tensor",
            )


def _is_container(kind: k.Kind) -> bool:
    if isinstance(kind, k.Sequence):
        return kind.type in _CONTAINERS
    return isinstance(kind, k.Value) and kind.type == "str"
