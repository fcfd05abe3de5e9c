"""DYN622: `shape_as_tensor`, which returns a tuple in compiled code."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import Call, Event, Project, Rule, Violation, k


class ShapeAsTensor(Rule):
    code = "DYN622"
    name = "shape-as-tensor"
    summary = "In compiled code, `shape_as_tensor` returns a tuple, which has no tensor methods"
    gb = ("GB0088", "GB0156")
    events = (Call,)
    calls = frozenset({f"{k.SHAPE_AS_TENSOR.type}.*", "int.*"})
    gives_up = True
    refusal = "dynalint cannot tell from the code whether the shape has to be a tensor; if it does not, use `x.shape`"

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Flag methods that tensors have and that tuples or ints do not have."""
        method = event.node.func
        if not isinstance(method, ast.Attribute) or project.api.method(method.attr) is None:
            return
        is_element = not isinstance(event.receiver, k.Sequence)
        if hasattr(int if is_element else tuple, method.attr) or (not is_element and method.attr == "numel"):
            return
        if is_element and not _is_element_of_shape(method.value, event, project):
            return
        what = "an int" if is_element else "a tuple"
        yield Violation(
            event.node,
            f"in compiled code, `shape_as_tensor()` returns the shape, so `{method.attr}()` is called on {what}",
            help="use `x.shape`, or `torch.tensor(x.shape)` if it has to be a tensor",
        )


def _is_element_of_shape(node: ast.expr, event: Event, project: Project) -> bool:
    """Return whether an expression reads an element of the result of `shape_as_tensor`."""
    if not isinstance(node, ast.Subscript):
        return False
    owner = project.kinds(event.function).get(node.value, k.UNKNOWN)
    return isinstance(owner, k.Sequence) and owner.type == k.SHAPE_AS_TENSOR.type
