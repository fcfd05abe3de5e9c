"""New tensors that require a gradient although nothing reads it.

h = torch.zeros(2, 8).requires_grad_()          h = torch.zeros(2, 8)
out, _ = self.rnn(x, h.detach())                out, _ = self.rnn(x, h.detach())
"""

from __future__ import annotations

import ast

from dynalint.rulekit import Refusal, Rewrite, k, rw
from dynalint_rules._code.memory import makes_tensor
from dynalint_rules._code.names import last_value, loads, parameters, statement_of, stores, value_for
from dynalint_rules._code.scope import Scope

_TITLE = "Remove `requires_grad`, because nothing reads the gradient"
_OFF = "Remove the assignment, because new tensors require no gradient"
_KEPT = "everything computed from {} requires a gradient because of other tensors, too"
_ASKED = frozenset({"shape", "dtype", "device", "ndim", "layout", "data", "is_cuda"})
_WITHOUT_GRADIENT = frozenset({"detach", "size", "dim", "numel", "stride", "item", "tolist"})
# Methods that may return their own tensor.
_SAME = frozenset("to contiguous float double half bfloat16 type type_as cuda cpu reshape expand expand_as".split())
# Modules whose functions compute or keep gradients.
_OF_GRADIENTS = ("torch.autograd", "torch.func", "torch.utils", "torch.jit", "torch.compile")


def without_gradient(scope: Scope, node: ast.Call | ast.Attribute, *, off: bool) -> Rewrite:
    """Return the rewrite that makes a tensor without `requires_grad`.

    `node` is a call that creates the tensor, a call to its `requires_grad_`, or the target of `t.requires_grad = True`.
    If it sets the value to False, `off` is true.

    Raises:
        Refusal: If the tensor is not new, or code may read its gradient.
    """
    method = node.func if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
    owner = method.value if method is not None and method.attr == "requires_grad_" else None
    statement, leaf = statement_of(scope, node), _Leaf(scope)
    change: rw.Change
    if isinstance(node, ast.Attribute) or (isinstance(owner, ast.Name) and _is_alone(node, statement)):
        named = node.value if isinstance(node, ast.Attribute) else owner
        if not isinstance(named, ast.Name) or not _is_new_name(scope, named):
            raise Refusal(f"{scope.quote(named or node)} may exist outside; set `requires_grad` before the call")
        if off and _is_switched(scope, named, node):
            raise Refusal(f"{scope.quote(named)} requires a gradient before; remove the statements that set it")
        if off:  # it already is off
            return Rewrite(_OFF, "safe", rw.written(scope.file, (statement, [])))
        leaf.follow_name(named.id, named)
        change = (statement, [])
    elif owner is not None:
        if not _is_new(scope, owner):
            raise Refusal(f"{scope.quote(owner)} may exist outside; set `requires_grad` before the call")
        leaf.follow(node)
        change = (node, rw.kept(scope.file, owner))
    else:
        leaf.follow(node)
        change = (node, rw.without("requires_grad"))
    condition = (_KEPT.format(scope.quote(node)),) if leaf.computes else ()
    return Rewrite(_TITLE, "conditional" if condition else "safe", rw.written(scope.file, change), condition)


def _is_switched(scope: Scope, named: ast.Name, node: ast.expr) -> bool:
    """Return whether other code sets whether the tensor requires a gradient."""
    uses = [scope.parents[one] for one in loads(scope, named.id)]
    return any(
        isinstance(one, ast.Attribute) and one.attr in ("requires_grad", "requires_grad_") and one is not node
        for one in uses
    )


def _is_alone(node: ast.expr, statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and statement.value is node


def _is_new(scope: Scope, value: ast.expr) -> bool:
    """Return whether an expression creates a tensor object, which may share its memory with others."""
    detached = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "detach"
    return makes_tensor(scope, value) or (detached and scope.tensor(value) is not None)


def _is_new_name(scope: Scope, name: ast.Name) -> bool:
    values = [value_for(statement_of(scope, one), name.id) for one in stores(scope, name.id)]
    new = all(one is not None and _is_new(scope, one) for one in values)
    return bool(values) and new and name.id not in parameters(scope)


class _Leaf:
    """Follows a tensor through a function. `computes` is true if its gradient may be part of other gradients."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.computes = False
        self._followed: set[ast.AST] = set()

    def follow_name(self, name: str, made: ast.expr) -> None:
        """Follow all reads of a variable, apart from the one that makes its tensor require a gradient."""
        for read in loads(self.scope, name):
            if read is not made and read not in self._followed:
                self._followed.add(read)
                self._read(name, read, made)

    def _read(self, name: str, read: ast.Name, made: ast.expr) -> None:
        """Follow a read, unless an assignment that always runs before it replaces the tensor."""
        last, _ = last_value(self.scope, name, read) or (None, None)
        if last is None or not made.lineno < last.lineno:
            self.follow(read)
        else:
            self.computes = True

    def follow(self, node: ast.expr) -> None:
        """Follow a use of the tensor.

        Raises:
            Refusal: If it may let code read the tensor's gradient.
        """
        parent = self.scope.parents[node]
        match parent:
            case ast.Attribute():
                self._attribute(parent)
            case ast.BinOp() | ast.UnaryOp() | ast.Compare():
                self.computes = True
            case ast.Subscript(value=value) | ast.AugAssign(value=value) if value is node:
                self.computes = True
            case ast.IfExp(body=one, orelse=other) if node in (one, other):
                self.follow(parent)
            case ast.Assign([ast.Name(name)]) | ast.AnnAssign(ast.Name(name)):
                self.follow_name(name, node)
            case ast.Call() | ast.keyword() | ast.Tuple() | ast.List():
                self._passed(node)
            case _:
                raise self._refusal(node)

    def _attribute(self, read: ast.Attribute) -> None:
        call = self.scope.parents[read]
        if read.attr in _ASKED:
            return
        if not isinstance(call, ast.Call) or call.func is not read or read.attr.endswith("_"):
            raise self._refusal(read.value)
        if read.attr in _WITHOUT_GRADIENT:
            return
        if not isinstance(self.scope.kind(read), k.Method) or self.scope.tensor(call) is None:
            raise self._refusal(read.value)
        self.computes = True
        if read.attr in _SAME:
            self.follow(call)

    def _passed(self, node: ast.expr) -> None:
        """Check that a call only computes with the tensor, which may be in a tuple or a list."""
        parent: ast.AST = self.scope.parents[node]
        while isinstance(parent, ast.Tuple | ast.List | ast.keyword):
            parent = self.scope.parents[parent]
        called = self.scope.kind(parent.func) if isinstance(parent, ast.Call) else None
        name = called.name if isinstance(called, k.External) else called.type if isinstance(called, k.Object) else ""
        if not name.startswith("torch.") or name.startswith(_OF_GRADIENTS):
            raise self._refusal(node)
        self.computes = True

    def _refusal(self, node: ast.expr) -> Refusal:
        return Refusal(
            f"code that uses {self.scope.quote(node)} may read its gradient; set `requires_grad` before the call"
        )
