"""DYN606: sparse tensors, which Dynamo cannot represent."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from dynalint.rulekit import (
    SPARSE_MAKERS,
    Call,
    FunctionInfo,
    Load,
    Project,
    Rule,
    Violation,
    called_function,
    k,
    leads_to_raise,
    walk,
)
from dynalint_rules._code.order import always_before


class SparseTensor(Rule):
    code = "DYN606"
    name = "sparse-tensor"
    summary = "Creating or using a sparse tensor breaks the graph"
    gb = ("GB0277", "GB0374", "GB0015", "GB0007")
    events = (Call, Load)
    calls = SPARSE_MAKERS
    refusal = (
        "the replacement depends on how the sparse tensor is used; write a product as a gather, a multiplication and "
        "an `index_add`"
    )

    def check(self, event: Call | Load, project: Project) -> Iterable[Violation]:
        """Flag calls that create sparse tensors, and the first uses of sparse tensors."""
        if leads_to_raise(event, project) or (isinstance(event, Load) and not _is_sparse(event.kind)):
            return
        for used in _first_uses(event, project):
            yield Violation(
                used,
                "this uses a sparse tensor, which cannot be part of a graph",
                help="use a gather and `index_add`, or keep the matrix dense",
            )
        if isinstance(event, Call):
            name = event.callee.removeprefix("Tensor").removeprefix("torch")
            shown = name if event.callee.startswith("Tensor") else f"torch{name}"
            yield Violation(
                event.node,
                f"`{shown}()` creates a sparse tensor, which cannot be part of a graph",
                help="use a gather and `index_add`, or keep the matrix dense",
            )


def _first_uses(event: Call | Load, project: Project) -> list[ast.expr]:
    """Return the uses of sparse tensors that come first on some path through a function.

    The rest of the function is not compiled. The use is reported with the event that creates the tensor in this
    function or, if there is none, with the event that reads the tensor.
    """
    kinds, parents = project.kinds(event.function), project.parents(event.function)
    uses = [
        (node, used)
        for node, kind in kinds.items()
        if isinstance(node, (ast.Name, ast.Attribute)) and _is_sparse(kind)
        if (used := _use(node, event.function, project)) is not None
    ]
    return [
        used
        for node, used in uses
        if (_maker(node, event.function, kinds) or node) is event.node
        if not any(_comes_first(other, node, parents) for other, _ in uses)
    ]


def _comes_first(other: ast.expr, node: ast.expr, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Return whether `other` is always evaluated before `node`."""
    return other is not node and always_before(other, node, parents)


def _use(node: ast.expr, function: FunctionInfo, project: Project) -> ast.expr | None:
    """Return the use of a tensor that is read, or None if it is only passed on, which does not break the graph.

    Passing on a tensor means assigning it, putting it in a tuple, calling `ctx.save_for_backward(t)`, or passing it to
    a project function that only passes it on.
    """
    kinds, parents = project.kinds(function), project.parents(function)
    parent = parents.get(node)
    if isinstance(parent, ast.keyword):
        parent = parents.get(parent)
    if isinstance(parent, ast.Attribute):
        call = parents.get(parent)
        return call if isinstance(call, ast.Call) and call.func is parent else parent
    if isinstance(parent, ast.Call):
        callee = kinds.get(parent.func)
        of_torch = isinstance(callee, k.External) and callee.name.startswith("torch.")
        of_tensor = isinstance(callee, k.Method) and isinstance(callee.receiver, k.Tensor)
        if of_torch or of_tensor or isinstance(callee, k.Object):
            return parent
        called = [called_function(one, project) for one in callee.members] if callee is not None else []
        return parent if any(one is not None and _uses_one(one, project) for one in called) else None
    if isinstance(parent, ast.BinOp):
        return parent
    return node if isinstance(parent, (ast.Return, ast.UnaryOp, ast.Subscript)) else None


def _uses_one(function: FunctionInfo, project: Project) -> bool:
    """Return whether a function uses a sparse tensor, so that Dynamo skips its caller as well."""
    known = function.known.get(_uses_one)
    if known is None:
        function.known[_uses_one] = False  # handles recursive functions
        nodes = [node for node, kind in project.kinds(function).items() if _is_sparse(kind)]
        names = [node for node in nodes if isinstance(node, (ast.Name, ast.Attribute))]
        known = function.known[_uses_one] = any(_use(node, function, project) is not None for node in names)
    return bool(known)


def _is_sparse(kind: k.Kind) -> bool:
    tensor = k.only_tensor(kind)
    return tensor is not None and tensor.sparse


def _maker(node: ast.expr, function: FunctionInfo, kinds: Mapping[ast.AST, k.Kind]) -> ast.expr | None:
    """Return the call that creates the sparse tensor in a function's variable."""
    name = node.id if isinstance(node, ast.Name) else None
    for one in walk(function.node):
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.Call):
            callee = kinds.get(one.value.func)
            dotted = f"Tensor.{callee.name}" if isinstance(callee, k.Method) else getattr(callee, "name", "")
            if dotted in SPARSE_MAKERS and any(isinstance(to, ast.Name) and to.id == name for to in one.targets):
                return one.value
    return None
