"""DYN611: the memory or the layout of a tensor, changed in place."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import (
    Call,
    Declined,
    Event,
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
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.text import atom

_RESIZING = ("resize_", "resize_as_")
# They make their tensor a view of what it was; traced of what the graph computes, refused for what comes into it.
_VIEWING = "unsqueeze_ squeeze_ t_ transpose_ swapaxes_ swapdims_ as_strided_".split()


class StorageChange(Rule):
    code = "DYN611"
    name = "storage-change"
    summary = "Changing the size, layout or data of a tensor in place breaks the graph"
    gb = ("GB0126", "GB0127", "GB0147", "GB0148", "GB0056", "GB0007")
    events = (Call, Write)
    calls = frozenset({*(f"Tensor.{name}" for name in (*_RESIZING, *_VIEWING)), "Tensor.data", "torch.resize_as_"})

    def check(self, event: Call | Write, project: Project) -> Iterable[Violation]:
        """Flag resizing wherever it stands, the others where it is known that the tensor comes from outside, or not."""
        if leads_to_raise(event, project):
            return
        help_ = "make a tensor of that size"
        if isinstance(event, Write):
            owner = event.owner
            if not _is_local(event, event.node.value) or not isinstance(owner, k.Tensor) or owner.origin is not None:
                return
            message, help_ = "a graph cannot replace the data of a tensor that it computes", "assign to the name"
        elif event.callee.rpartition(".")[2] in _VIEWING:
            if not _comes_from_outside(event):
                return
            message = f"`{event.callee.rpartition('.')[2]}()` turns an input tensor into a view of itself"
            help_ = "use the method without the underscore"
        else:
            message = f"`{event.callee.rpartition('.')[2]}()` changes the size of a tensor in place"
        yield Violation(event.node, f"{message}, so the graph breaks there", help=help_)

    def fix(self, event: Call | Write, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Make a new tensor where none is kept; decline where somebody else may see the change."""
        node = event.node
        resizes = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "resize_"
        rewrite = _made(Scope.of(event, project), node) if isinstance(node, ast.Call) and resizes else None
        return rewrite or Declined("other code that holds the tensor sees it change; create a new one if there is none")


def _made(scope: Scope, node: ast.Call) -> Rewrite | None:
    """The rewrite of `x.new().resize_(sizes).fill_(number)`, None if that is not what stands there."""
    made = node.func.value if isinstance(node.func, ast.Attribute) else None
    filled = scope.parents.get(scope.parents[node])
    if not (_calls(made, "new") and isinstance(made, ast.Call) and not made.args and not made.keywords):
        return None
    if not isinstance(filled, ast.Call) or not isinstance(filled.func, ast.Attribute) or filled.func.value is not node:
        return None
    number = filled.args[0] if filled.func.attr == "fill_" and len(filled.args) == 1 else None
    whole = isinstance(number, ast.Constant) and type(number.value) is int
    if not (whole or (filled.func.attr == "zero_" and not filled.args)) or filled.keywords or node.keywords:
        return None
    if not node.args or any(isinstance(one, ast.Starred) for one in node.args):
        return None
    # `resize_` takes a number or a tuple, `new_full` a tuple only.
    sizes, first = ", ".join(scope.text(one) for one in node.args), scope.kind(node.args[0])
    if len(node.args) == 1 and number is not None and not (isinstance(first, k.Sequence) or k.is_number(first)):
        return None
    if len(node.args) > 1 or k.is_number(first):
        sizes = f"({sizes},)" if len(node.args) == 1 else f"({sizes})"
    content = f"new_full({sizes}, {scope.text(number)})" if number is not None else f"new_zeros({sizes})"
    assert isinstance(made.func, ast.Attribute)
    like = made.func.value
    edits = rw.written(scope.file, (filled, f"{atom(like, scope.text(like))}.{content}"))
    return Rewrite(f"Create the tensor directly with `{content.partition('(')[0]}`", "safe", edits)


def _calls(node: ast.expr | None, method: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method


def _is_local(event: Event, node: ast.expr) -> bool:
    """Whether an expression is a variable that the function sets itself."""
    arguments = event.function.node.args
    named = {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    return isinstance(node, ast.Name) and node.id not in named


def _comes_from_outside(event: Call) -> bool:
    """Whether the receiver is a buffer, or an argument of the root that nothing was assigned to before."""
    receiver = event.node.func.value if isinstance(event.node.func, ast.Attribute) else None
    if isinstance(event.receiver, k.Tensor) and event.receiver.origin in ("buffer", "parameter"):
        return True
    if not isinstance(receiver, ast.Name) or _is_local(event, receiver) or len(event.function.chain) > 1:
        return False
    stores = (
        node.lineno
        for node in walk(event.function.node)
        if isinstance(node, ast.Name) and node.id == receiver.id and isinstance(node.ctx, ast.Store)
    )
    return all(line >= event.node.lineno for line in stores)
