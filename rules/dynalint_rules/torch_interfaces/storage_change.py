"""DYN611: the memory or the layout of a tensor, changed in place."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call, Event, Write
from dynalint.analysis.exits import leads_to_raise
from dynalint.analysis.project import Project
from dynalint.analysis.steps import walk
from dynalint.rules import Declined, Example, Replacement, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.memory import is_own
from dynalint_rules._shared.scope import Scope

_RESIZING = ("resize_", "resize_as_")
# They make their tensor a view of what it was; traced of what the graph computes, refused for what comes into it.
_VIEWING = "unsqueeze_ squeeze_ t_ transpose_ swapaxes_ swapdims_ as_strided_".split()


class StorageChange(Rule):
    """Resize a tensor in place, turn one that comes from outside into a view of itself, or exchange its data.

    ## What it flags
    `t.resize_(...)` and `t.resize_as_(...)`; `x.squeeze_()`, `x.unsqueeze_(0)`, `x.t_()`, `x.transpose_(0, 1)` where
    `x` is an argument of the compiled function or a buffer; `h.data = ...` where the function computes `h`. Not
    flagged: the same views of a tensor that the function computes, `param.data = ...`, and in-place arithmetic.

    ## Why
    A graph knows the shape and the memory of what comes in from the start. What changes either has no operation in a
    graph, which ends there.

    ## Example
    ```python
    def forward(self, logits, target):
        target = target.squeeze_()
        hidden = logits.new().resize_(4, 8).zero_()
    ```

    Use instead:
    ```python
    def forward(self, logits, target):
        target = target.squeeze()
        hidden = logits.new_zeros(4, 8)
    ```

    ## How it is rewritten
    `x.new().resize_(4, 8).fill_(0)` becomes `x.new_full((4, 8), 0)`, and `y.resize_(2, 16)` of a tensor that nothing
    else refers to `y = y.reshape(2, 16)`, if it has as many elements. A method that turns a tensor into a view of
    itself loses its underscore, where its result has a name or is given one. Otherwise declined: whoever else holds a
    tensor sees it change.

    ## When the rewrite is not exact
    Without the underscore, the tensor of the caller keeps its shape: that is `unsafe`.

    ## How Dynamo words it
    GB0126: `Unsupported Tensor.resize_() call`, GB0127: `Unsupported Tensor.resize_as_() call`, GB0148: `Unsupported
    function call (delayed)`, GB0056: `Failed to mutate tensor data attribute`.

    ## References
    - https://docs.pytorch.org/docs/stable/generated/torch.Tensor.resize_.html
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0126.html
    """

    code = "DYN611"
    name = "storage-change"
    summary = "changing the size or the layout of a tensor in place ends the graph"
    gb = ("GB0126", "GB0127", "GB0147", "GB0148", "GB0056", "GB0007")
    events = (Call, Write)
    calls = frozenset({*(f"Tensor.{name}" for name in (*_RESIZING, *_VIEWING)), "Tensor.data", "torch.resize_as_"})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag resizing wherever it stands, the others where it is known that the tensor comes from outside, or not."""
        if leads_to_raise(event, project):
            return
        help_ = "make a tensor of that size"
        if isinstance(event, Write):
            owner = event.owner
            if not _is_local(event, event.node.value) or not isinstance(owner, k.Tensor) or owner.origin is not None:
                return
            message, help_ = "a graph cannot exchange the data of a tensor that it computes", "assign to the name"
        elif not isinstance(event, Call):
            return
        elif event.callee.rpartition(".")[2] in _VIEWING:
            if not _comes_from_outside(event):
                return
            message = f"`{event.callee.rpartition('.')[2]}()` turns a tensor from outside into a view of itself"
            help_ = "use the method without the underscore"
        else:
            message = f"`{event.callee.rpartition('.')[2]}()` changes the size of a tensor in place"
        yield Violation(event.node, f"{message}, so the graph ends there", help=help_)

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Make a new tensor where none is kept; decline where somebody else may see the change."""
        node = event.node
        if isinstance(event, Call) and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            scope = Scope.of(event, project)
            rewrite = _made(scope, node) or _reshaped(scope, node) if node.func.attr == "resize_" else None
            rewrite = rewrite or (_viewed(scope, node) if node.func.attr in _VIEWING else None)
            if rewrite is not None:
                return rewrite
        return Declined("whoever else holds the tensor sees it change; make a new one if nobody does")

    examples = (
        Example(
            name="resized",
            code=forward("""
                hidden = x.new().resize_(4, 8).fill_(0)  # DYN611
                return self.fc(x + hidden)
            """),
            fixed=forward("""
                hidden = x.new_full((4, 8), 0)
                return self.fc(x + hidden)
            """),
        ),
        Example(
            name="reshaped",
            code=forward("""
                h = self.fc(x).detach().clone()
                h.resize_(2, 16)  # DYN611
                return h * 2
            """),
            fixed=forward("""
                h = self.fc(x).detach().clone()
                h = h.reshape(2, 16)
                return h * 2
            """),
        ),
        Example(
            name="resized-under-two-names",
            code=forward("""
                h = self.fc(x).detach().clone()
                kept = h
                h.resize_(2, 16)  # DYN611
                return h * 2, kept
            """),
            declined="whoever else holds the tensor",
        ),
        Example(
            name="resized-like",
            code=forward("""
                hidden = torch.ones(32).resize_as_(x)  # DYN611
                return self.fc(x + hidden)
            """),
        ),
        Example(
            name="argument",
            code=forward("""
                x = x.squeeze_(0)  # DYN611
                return self.fc(x)
            """),
            fixed=forward("""
                x = x.squeeze(0)
                return self.fc(x)
            """),
            inputs="[(torch.randn(1, 4, 8),)]",
        ),
        Example(
            name="statement",
            code=forward("""
                x.unsqueeze_(0)  # DYN611
                return self.fc(x)
            """),
            fixed=forward("""
                x = x.unsqueeze(0)
                return self.fc(x)
            """),
        ),
        Example(
            name="exchanged-data",
            code=forward("""
                h = self.fc(x)
                h.data = h.data.clamp(min=0)  # DYN611
                return h * 2
            """),
        ),
        Example(
            name="computed",
            code=forward("""
                h = self.fc(x)
                h.unsqueeze_(0)
                h = h.squeeze_(0).mul_(2)
                self.fc.weight.data = self.fc.weight.data * 1.0
                return h
            """),
        ),
        Example(
            name="new",
            code=forward("return self.fc(x.squeeze(0) + x.new_zeros(4, 8))"),
        ),
    )


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
    start = scope.file.span(made.func.value)[1]
    replacement = Replacement(scope.file, start, scope.file.span(filled)[1], f".{content}")
    return Rewrite(f"Make the tensor at once with `{content.partition('(')[0]}`", "safe", (replacement,))


def _reshaped(scope: Scope, node: ast.Call) -> Rewrite | None:
    """The rewrite of the statement `y.resize_(sizes)` of a tensor that nobody else holds, None for any other."""
    statement, method = scope.parents[node], node.func
    assert isinstance(method, ast.Attribute)
    owner = method.value
    if not isinstance(owner, ast.Name) or not isinstance(statement, ast.Expr) or not node.args or node.keywords:
        return None
    if not is_own(scope, owner.id, statement):
        return None
    (start, end), shown = scope.file.span(method), owner.id
    edit = Replacement(scope.file, start, end, f"{shown} = {shown}.reshape")
    conditions = (
        f"`{shown}` has as many elements before as after, and they are next to each other in memory",
        f"`{shown}` needs no gradient, for which `resize_` raises",
    )
    return Rewrite("Reshape it under the same name", "conditional", (edit,), conditions)


def _calls(node: ast.expr | None, method: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method


def _viewed(scope: Scope, node: ast.Call) -> Rewrite | None:
    """The rewrite of `x = x.squeeze_()` and of the statement `x.squeeze_()`, None if neither stands there."""
    statement, method = scope.parents[node], node.func
    assert isinstance(method, ast.Attribute)
    owner, end = method.value, scope.file.span(method)[1]
    if not isinstance(owner, ast.Name):
        return None
    edits = [Replacement(scope.file, end - 1, end, "")]
    if isinstance(statement, ast.Expr):
        start = scope.file.span(statement)[0]
        edits.insert(0, Replacement(scope.file, start, start, f"{owner.id} = "))
    elif not isinstance(statement, ast.Assign) or [ast.dump(one) for one in statement.targets] != [
        ast.dump(ast.Name(owner.id, ast.Store()))
    ]:
        return None
    conditions = (f"the tensor that is passed as `{owner.id}` keeps its shape",)
    return Rewrite(f"Use `{method.attr.rstrip('_')}`, which gives a view", "unsafe", tuple(edits), conditions)


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
