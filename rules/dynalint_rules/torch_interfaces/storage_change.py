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
from dynalint_rules._code.memory import is_own
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
        if isinstance(event, Call) and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            scope = Scope.of(event, project)
            rewrite = _made(scope, node) or _reshaped(scope, node) if node.func.attr == "resize_" else None
            rewrite = rewrite or (_viewed(scope, node) if node.func.attr in _VIEWING else None)
            if rewrite is not None:
                return rewrite
        return Declined("other code that holds the tensor sees it change; create a new one if there is none")


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


def _reshaped(scope: Scope, node: ast.Call) -> Rewrite | None:
    """The rewrite of the statement `y.resize_(sizes)` of a tensor that nobody else holds, None for any other."""
    statement, method = scope.parents[node], node.func
    assert isinstance(method, ast.Attribute)
    owner = method.value
    if not isinstance(owner, ast.Name) or not isinstance(statement, ast.Expr) or not node.args or node.keywords:
        return None
    if not is_own(scope, owner.id, statement):
        return None
    shown, sizes = owner.id, ", ".join(scope.text(one) for one in node.args)
    edits = rw.written(scope.file, (statement, [f"{shown} = {shown}.reshape({sizes})"]))
    conditions = (
        f"`{shown}` has the same number of elements before and after, contiguous in memory",
        f"`{shown}` needs no gradient, for which `resize_` raises",
    )
    return Rewrite("Reshape it under the same name", "conditional", edits, conditions)


def _calls(node: ast.expr | None, method: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method


def _viewed(scope: Scope, node: ast.Call) -> Rewrite | None:
    """The rewrite of `x = x.squeeze_()` and of the statement `x.squeeze_()`, None if neither stands there."""
    statement, method = scope.parents[node], node.func
    assert isinstance(method, ast.Attribute)
    owner, name = method.value, method.attr.rstrip("_")
    if not isinstance(owner, ast.Name):
        return None
    change: rw.Change = (method, rw.attribute(rw.kept(scope.file, owner), name))
    if isinstance(statement, ast.Expr):
        change = (statement, [f"{owner.id} = {owner.id}.{name}{scope.text(node)[len(scope.text(method)) :]}"])
    elif not isinstance(statement, ast.Assign) or [ast.dump(one) for one in statement.targets] != [
        ast.dump(ast.Name(owner.id, ast.Store()))
    ]:
        return None
    conditions = (f"the tensor that is passed as `{owner.id}` keeps its shape",)
    return Rewrite(f"Use `{name}`, which returns a view", "unsafe", rw.written(scope.file, change), conditions)


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
