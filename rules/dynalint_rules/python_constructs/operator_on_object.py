"""DYN715: operators that a class of the project defines, with tensors."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import (
    ClassInfo,
    Declined,
    FunctionInfo,
    Operation,
    Project,
    Refusal,
    Rewrite,
    Rule,
    Violation,
    k,
    method_name,
    rw,
    walk,
)
from dynalint_rules._code.effects import is_pure
from dynalint_rules._code.scope import Scope


class OperatorOnObject(Rule):
    code = "DYN715"
    name = "operator-on-object"
    summary = "An operator between a tensor and an object that defines the operator breaks the graph"
    gb = ("GB0055", "GB0059")
    events = (Operation,)

    def check(self, event: Operation, project: Project) -> Iterable[Violation]:
        """Flag an operator with a tensor, and those that Dynamo has no code for."""
        if issubclass(event.operator, ast.cmpop):
            return
        sides = [event.left, *([event.right] if event.right is not None else [])]
        owners = [side for side in sides if isinstance(side, k.Instance)]
        if not owners or any(_is_known_to_torch(project, owner.cls) for owner in owners):
            return
        name = owners[0].cls.name
        if any(k.only_tensor(side) is not None for side in sides):
            yield Violation(
                event.node,
                f"Dynamo treats this operator as a torch operation, and cannot pass it an instance of `{name}`",
                help="call a method of the object",
            )
        elif event.operator in (ast.MatMult, ast.Invert):
            operator = "@" if event.operator is ast.MatMult else "~"
            yield Violation(
                event.node,
                f"Dynamo does not trace `{operator}` into a method of `{name}`",
                help="call a method of the object",
                torch="<2.14" if event.operator is ast.Invert else "",
            )

    def fix(self, event: Operation, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Call the method."""
        return _called(Scope.of(event, project), event)


def _is_known_to_torch(project: Project, cls: ClassInfo) -> bool:
    """Whether a tensor may take an instance for a number, or hands operators over: no method is called then."""
    inherited = project.lineage(cls)[1]
    plain = all(name == "builtins.object" or name.startswith(("abc.", "typing.", "torch.nn.")) for name in inherited)
    return not plain or project.find_method(cls, "__torch_function__") is not None


def _called(scope: Scope, event: Operation) -> Rewrite:
    """Return the operator as a call of the method that Python comes to.

    Raises:
        Refusal: it may come to another one.
    """
    node = event.node
    if isinstance(node, ast.UnaryOp):
        return _call(scope, node, node.operand, event.left, method_name(node.op), None)
    if not isinstance(node, ast.BinOp):
        raise Refusal("the operator changes its target; add a named method to the class, and call it")
    own, reflected = method_name(node.op), method_name(node.op, reflected=True)
    if _method(scope, event.left, own) is not None:
        if _method(scope, event.right, reflected) is not None:
            raise Refusal("both sides define the operator; add a named method to the class, and call it")
        return _call(scope, node, node.left, event.left, own, node.right)
    if not is_pure(scope, node.left):
        raise Refusal(
            f"{scope.quote(node.left)} is evaluated first; assign it to a name first, and call a method of "
            f"{scope.quote(node.right)}"
        )
    return _call(scope, node, node.right, event.right, reflected, node.left)


def _method(scope: Scope, kind: k.Kind | None, name: str) -> FunctionInfo | None:
    return scope.project.find_method(kind.cls, name) if isinstance(kind, k.Instance) else None


def _call(
    scope: Scope, node: ast.expr, owner: ast.expr, kind: k.Kind | None, name: str, argument: ast.expr | None
) -> Rewrite:
    method = _method(scope, kind, name)
    if method is None:
        raise Refusal("add a named method to the class, and call it")
    if isinstance(kind, k.Instance) and any(name in cls.stores for cls in scope.project.mro(kind.cls)):
        raise Refusal(f"an instance may have a `{name}` of its own, which the operator does not use")
    if any(isinstance(one, ast.Name) and one.id == "NotImplemented" for one in walk(method.node)):
        raise Refusal(f"`{name}` may return `NotImplemented`; add a named method to the class, and call it")
    given = [rw.kept(scope.file, argument)] if argument is not None else []
    called = rw.method(rw.kept(scope.file, owner), name, *given)
    return Rewrite("Call the method by its name", "safe", rw.written(scope.file, (node, called)))
