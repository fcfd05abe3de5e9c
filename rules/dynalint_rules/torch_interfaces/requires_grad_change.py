"""DYN608: whether a tensor asks for gradients, changed while the model runs."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace

from dynalint.rulekit import Call, Declined, Project, Rewrite, Rule, Violation, Write, k, leads_to_raise, walk
from dynalint_rules._code.effects import is_pure
from dynalint_rules._code.memory import changed_in_place
from dynalint_rules._code.names import loads
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.guard.statements import taken_out

# Those that were seen to break when they are asked for a tensor with gradients; `t.new_zeros` and its kin are traced.
_FACTORIES = (
    "arange bartlett_window blackman_window empty empty_like full full_like hamming_window hann_window kaiser_window "
    "linspace logspace ones ones_like rand rand_like randint randint_like randn randn_like randperm range tensor zeros "
    "zeros_like"
).split()
_NEW = frozenset(f"torch.{name}" for name in _FACTORIES)
_METHODS = ("Tensor.requires_grad_", "torch.nn.Module.requires_grad_")
# Their results have no gradient, whatever they are given.
_MAKING = frozenset(
    f"torch.{name}" for name in "arange empty eye from_numpy ones rand randint randn randperm tensor zeros".split()
)
_GRADIENTS = frozenset({"grad", "backward", "retain_grad", "autograd", "grad_fn", "is_leaf"})
_JOINING = frozenset({"torch.cat", "torch.stack", "torch.meshgrid"})
_RESHAPING = frozenset(
    "unsqueeze squeeze view reshape repeat expand transpose permute t float half double long int to cuda cpu type "
    "clone contiguous type_as".split()
)


class RequiresGradChange(Rule):
    code = "DYN608"
    name = "requires-grad-change"
    summary = "Changing `requires_grad` breaks the graph"
    gb = ("GB0206", "GB0125", "GB8985", "GB0225")
    events = (Call, Write)
    calls = frozenset({"Tensor.requires_grad", *_METHODS, "Tensor.new_tensor", *(f"torch.{one}" for one in _FACTORIES)})

    def check(self, event: Call | Write, project: Project) -> Iterable[Violation]:
        """Flag the assignment, or the call where it certainly makes or unmakes a leaf."""
        if isinstance(event, Write):
            message = "setting `requires_grad` breaks the graph"
        elif event.callee in _METHODS:
            if not _changes(event, project):
                return
            message = "`requires_grad_()` changes what the backward pass computes, which breaks the graph"
        elif not _is_true(event.node, "requires_grad"):
            return
        else:
            message = (
                f"`{event.callee}(requires_grad=True)` creates a leaf that requires a gradient, which breaks the graph"
            )
        if not leads_to_raise(event, project):
            yield Violation(event.node, message, help="set `requires_grad` outside the compiled code")

    def fix(self, event: Call | Write, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Take out what changes nothing; decline where the gradient may be read elsewhere."""
        if isinstance(event, Write):
            scope = Scope.of(event, project)
            rewrite = _changing_nothing(scope, event) or _asking_for_none(scope, event)
            if rewrite is not None:
                return rewrite
        return Declined(
            "the code does not show who reads the gradient; set it before the call, or remove it if the tensor "
            "is new and False is set"
        )


def _changes(event: Call, project: Project) -> bool:
    """Whether `requires_grad_` makes a difference that a graph cannot hold."""
    mode = event.args[0] if event.args else event.keywords.get("requires_grad", event.keywords.get("mode"))
    asks = True if mode is None else mode.constant if isinstance(mode, k.Value) else k.MISSING
    tensor = k.only_tensor(event.receiver) if event.receiver is not None else None
    is_owned = tensor is None or tensor.origin == "parameter"
    if is_owned:
        return asks is False
    owner = event.node.func.value if isinstance(event.node.func, ast.Attribute) else None
    return asks is True and owner is not None and _is_leaf(owner, event, project)


def _is_leaf(node: ast.expr, event: Call, project: Project) -> bool:
    """Whether a tensor certainly asks for no gradient: it is detached, new, or an argument of the compiled function."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        made = project.kinds(event.function).get(node.func)
        if node.func.attr == "detach" or (isinstance(made, k.External) and made.name in _NEW):
            return True
        is_method = isinstance(made, k.Method) and isinstance(made.receiver, k.Tensor)
        return is_method and _is_leaf(node.func.value, event, project)
    if isinstance(node, ast.Attribute):
        return node.attr == "data"
    if not isinstance(node, ast.Name):
        return False
    inside = list(walk(event.function.node))
    named = [one for one in inside if isinstance(one, ast.Name) and one.id == node.id and one.lineno < node.lineno]
    stores = [one for one in named if isinstance(one.ctx, ast.Store)]
    if stores:
        parent = project.parents(event.function).get(max(stores, key=lambda one: one.lineno))
        return isinstance(parent, ast.Assign) and _is_leaf(parent.value, event, project)
    return event.function.caller is None and any(isinstance(one, ast.arg) and one.arg == node.id for one in inside)


def _is_true(node: ast.Call, name: str) -> bool:
    return any(
        keyword.arg == name and isinstance(keyword.value, ast.Constant) and keyword.value.value is True
        for keyword in node.keywords
    )


def _changing_nothing(scope: Scope, event: Write) -> Rewrite | None:
    """Take out `t.requires_grad = False` where `t` is new and made of numbers alone; None where it may be more."""
    statement, owner = event.statement, event.node.value
    plain = isinstance(statement, ast.Assign) and len(statement.targets) == 1
    if not plain or event.value != k.constant(False) or not isinstance(owner, ast.Name):
        return None
    if event.position.loop or not _is_made_of_numbers(scope, owner):
        return None
    changed = changed_in_place(scope, owner.id)
    if changed is not None and getattr(changed, "lineno", 0) < statement.lineno:
        return None
    return taken_out(scope, statement, "Remove the statement: the tensor requires no gradient anyway", "safe")


def _asking_for_none(scope: Scope, event: Write) -> Rewrite | None:
    """Take out `t.requires_grad = True` where the function that makes `t` does nothing with its gradient."""
    statement, owner = event.statement, event.node.value
    plain = isinstance(statement, ast.Assign) and len(statement.targets) == 1
    if not plain or event.value != k.constant(True) or not isinstance(owner, ast.Name):
        return None
    arguments = scope.function.node.args
    if any(isinstance(one, ast.arg) and one.arg == owner.id for one in walk(arguments)):
        return None
    if not _is_lost(scope, owner.id, statement) or any(map(_reads_gradients, walk(scope.function.node))):
        return None
    parent = scope.parents[statement]
    alone = isinstance(parent, ast.If) and parent.body == [statement] and not parent.orelse
    if isinstance(parent, ast.If) and alone and is_pure(scope, parent.test):
        statement = parent
    shown = f"`{owner.id}`"
    conditions = (
        f"no code reads the gradient of {shown}",
        f"what is computed from {shown} has gradients anyway",
    )
    gone = taken_out(scope, statement, "Remove `requires_grad` for a gradient that nobody reads", "unsafe", conditions)
    return replace(gone, shown=True)


def _is_lost(scope: Scope, name: str, since: ast.stmt) -> bool:
    """Whether what a local name holds is only given to calls, or computed with, until it holds something else."""
    stores = [
        node.lineno
        for node in walk(scope.function.node)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
    ]
    return all(
        isinstance(scope.parents[use], ast.Call | ast.BinOp | ast.Attribute | ast.Subscript)
        or any(since.lineno < line < use.lineno for line in stores)
        for use in loads(scope, name)
    )


def _reads_gradients(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and (node.attr in _GRADIENTS or node.attr.endswith("_hook"))


def _is_made_of_numbers(scope: Scope, node: ast.expr) -> bool:
    """Whether a tensor is computed from numbers alone, so that it has no gradient."""
    if isinstance(node, ast.Name):
        return _is_named_for_numbers(scope, node.id)
    if isinstance(node, ast.BinOp):
        return _is_made_of_numbers(scope, node.left) and _is_made_of_numbers(scope, node.right)
    if isinstance(node, ast.List | ast.Tuple):
        return all(_is_made_of_numbers(scope, one) for one in node.elts)
    if not isinstance(node, ast.Call):
        return k.is_number(scope.kind(node))
    if any(keyword.arg in ("requires_grad", "out", None) for keyword in node.keywords):
        return False
    function = scope.kind(node.func)
    if isinstance(function, k.External):
        name = scope.project.api.canonical(function.name)
        if name in _MAKING:
            return True
        return name in _JOINING and all(_is_made_of_numbers(scope, one) for one in node.args)
    if isinstance(function, k.Method) and isinstance(node.func, ast.Attribute) and function.name in _RESHAPING:
        return _is_made_of_numbers(scope, node.func.value)
    return False


def _is_named_for_numbers(scope: Scope, name: str) -> bool:
    """Whether a name is bound once, to a number or to a tensor that is computed from numbers alone."""
    stores = [
        node
        for node in walk(scope.function.node)
        if isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)
    ]
    if len(stores) != 1 or any(isinstance(one, ast.arg) and one.arg == name for one in walk(scope.function.node)):
        return False
    target: ast.AST = stores[0]
    made = scope.parents[target]
    if isinstance(made, ast.Tuple):
        target, made = made, scope.parents[made]
    if not isinstance(made, ast.Assign) or made.targets != [target]:
        return False
    return _is_made_of_numbers(scope, made.value)
