"""DYN708: sorting values by tensors."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.rulekit import Ordering, Project, Rule, Violation, k


class SortByTensor(Rule):
    code = "DYN708"
    name = "sort-by-tensor"
    summary = "Sorting by tensors breaks the graph"
    gb = ("GB0207", "GB0193", "GB0059")
    reads_data = True
    events = (Ordering,)
    refusal = "`torch.sort` and `torch.topk` need stacked values, so the code around the call has to change too"

    def check(self, event: Ordering, project: Project) -> Iterable[Violation]:
        """Flag sorting that depends on tensors, or that Dynamo treats as if it did."""
        called = event.callee.removeprefix("builtins.")
        if event.callee in ("builtins.min", "builtins.max"):
            if event.has_key and _is_tensor_or_holds_one(event.elements, project, modules=True):
                message = f"Dynamo does not trace `{called}` with a `key` over tensors or modules"
                yield Violation(event.node, message, torch="<2.14")
        elif _is_array(event.values):
            yield Violation(
                event.node,
                f"Dynamo does not trace `{called}` on an array",
                help="sort with `np.sort`, or sort a list of Python numbers",
            )
        elif k.only_tensor(event.key) is not None and not event.has_key:
            return  # DYN106
        elif _is_tensor_or_holds_one(event.key, project, modules=False):
            yield Violation(
                event.node,
                f"`{called}` compares the values of tensors, which breaks the graph",
                help="use `torch.sort` or `torch.topk`, or a `key` that returns a number",
                # Later releases compare pairs item by item, so they only reach a tensor if the items before it are
                # equal.
                torch="" if k.only_tensor(event.key) is not None else "<2.14",
            )


def _is_array(kind: k.Kind) -> bool:
    tensor = k.only_tensor(kind)
    return tensor is not None and tensor.array


def _is_tensor_or_holds_one(kind: k.Kind, project: Project, *, modules: bool) -> bool:
    """Return whether values of this kind definitely are or contain tensors, or are modules if `modules` is true."""
    if isinstance(kind, k.Union):
        return all(_is_tensor_or_holds_one(one, project, modules=modules) for one in kind.alternatives)
    if isinstance(kind, k.Sequence) and kind.type in ("list", "tuple"):
        items = kind.items if kind.items is not None else (kind.element,)
        return any(_is_tensor_or_holds_one(item, project, modules=modules) for item in items)
    if isinstance(kind, k.Instance):
        return modules and project.is_module_class(kind.cls)
    if isinstance(kind, k.Object):
        cls = project.api.torch_class(kind.type)
        return modules and cls is not None and cls.is_module
    return isinstance(kind, k.Tensor)
