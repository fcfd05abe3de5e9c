"""DYN611: changing a tensor's memory or layout in place."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import (
    Call,
    Declined,
    Event,
    FunctionInfo,
    Project,
    Rewrite,
    Rule,
    Violation,
    Write,
    k,
    leads_to_raise,
    rw,
    walk,
)
from dynalint_rules._code.autograd import without_gradients

_RESIZING = ("resize_", "resize_as_")
# These turn a tensor into a view of itself. Dynamo traces them for tensors that the graph computes, but not for the
# graph's inputs.
_VIEWING = "unsqueeze_ squeeze_ t_ transpose_ swapaxes_ swapdims_ as_strided_".split()
_IN_PLACE: dict[type[ast.operator], str] = {ast.Add: "add_", ast.Sub: "sub_", ast.Mult: "mul_", ast.Div: "div_"}
# The setters of these attributes copy into the tensor, which Dynamo does not trace.
_PARTS = ("Tensor.imag", "Tensor.real")


class StorageChange(Rule):
    code = "DYN611"
    name = "storage-change"
    summary = "Changing a tensor's size, layout or data in place breaks the graph"
    gb = ("GB0126", "GB0127", "GB0147", "GB0148", "GB0056", "GB0058", "GB0007")
    refusal = "other code that holds the tensor sees the change; if no other code holds it, create a new tensor"
    events = (Call, Write)
    calls = frozenset(
        {*(f"Tensor.{name}" for name in (*_RESIZING, *_VIEWING)), *_PARTS, "Tensor.data", "torch.resize_as_"}
    )

    def check(self, event: Call | Write, project: Project) -> Iterable[Violation]:
        """Flag every resize, and flag other changes depending on whether the graph computes the tensor."""
        if leads_to_raise(event, project):
            return
        help_ = "create a new tensor of that size"
        if isinstance(event, Write) and event.name in _PARTS:
            part = event.node.attr
            message, help_ = (
                f"Dynamo does not trace assignments to a tensor's `{part}`",
                f"write `t.{part}[...] = value`",
            )
        elif isinstance(event, Write):
            yield from _of_data(event, project)
            return
        elif event.callee.rpartition(".")[2] in _VIEWING:
            receiver = event.node.func.value if isinstance(event.node.func, ast.Attribute) else None
            if not _comes_from_outside(event, receiver, event.receiver):
                return
            message = f"`{event.callee.rpartition('.')[2]}()` turns an input tensor into a view of itself"
            help_ = "use the method without the underscore"
        else:
            message = f"`{event.callee.rpartition('.')[2]}()` changes the size of a tensor in place"
        yield Violation(event.node, f"{message}, so the graph breaks here", help=help_)

    def fix(self, event: Call | Write, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Use an in-place method instead of an augmented assignment to a tensor's data."""
        statement = event.statement
        method = _IN_PLACE.get(type(statement.op)) if isinstance(statement, ast.AugAssign) else None
        if not isinstance(event, Write) or not isinstance(statement, ast.AugAssign) or method is None:
            return super().fix(event, violation, project)
        file = event.function.file
        changed, value = file.segment(statement.target), file.segment(statement.value)
        edits = rw.written(file, (statement, [f"{changed}.{method}({value})"]))
        return Rewrite("Change the data in place, without assigning it", "safe", edits)


def _of_data(event: Write, project: Project) -> Iterable[Violation]:
    """Flag assignments to `t.data` that are not traced, or that make compilation fail."""
    owner, parents = event.owner, project.parents(event.function)
    if not isinstance(owner, k.Tensor):
        return
    if _is_local(event, event.node.value) and owner.origin is None:
        message = "a graph cannot replace the data of a tensor that it computes, so the graph breaks here"
        yield Violation(event.node, message, help="assign a new tensor to the variable")
    elif isinstance(event.statement, ast.AugAssign) and _comes_from_outside(event, event.node.value, owner):
        around: list[ast.With | FunctionInfo] = [*event.function.callers]
        block = parents.get(event.statement)
        while block is not None:
            around += [block] if isinstance(block, ast.With) else []
            block = parents.get(block)
        if not any(without_gradients(one) for one in around):
            yield Violation(
                event.statement,
                f"this changes `{ast.unparse(event.node.value)}` in place and then replaces its data, so compiling "
                "fails with an error from AOTAutograd if gradients are enabled",
                help="use an in-place method, such as `t.data.mul_(...)`",
                category="miscompile",
            )


def _is_local(event: Event, node: ast.expr) -> bool:
    """Return whether an expression is a local variable that is not a parameter."""
    named = {one.arg for one in event.function.named}
    return isinstance(node, ast.Name) and node.id not in named


def _comes_from_outside(event: Event, node: ast.expr | None, tensor: k.Kind | None) -> bool:
    """Return whether a tensor is a module's own, or an argument of the root that has not been reassigned."""
    if isinstance(tensor, k.Tensor) and tensor.origin in ("buffer", "parameter"):
        return True
    if not isinstance(node, ast.Name) or _is_local(event, node) or len(event.function.chain) > 1:
        return False
    stores = (
        one.lineno
        for one in walk(event.function.node)
        if isinstance(one, ast.Name) and one.id == node.id and isinstance(one.ctx, ast.Store)
    )
    return all(line >= event.node.lineno for line in stores)
