"""DYN623: class variables and class methods of an autograd function, and `apply` on an instance."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import FUNCTION_VARIABLE, Project, Read, Rule, Violation, Write, k


class FunctionVariable(Rule):
    code = "DYN623"
    name = "function-variable"
    summary = (
        "A class variable or class method of an autograd function, or calling `apply` on an instance, breaks the graph"
    )
    gb = ("GB4841", "GB6215", "GB0055", "GB0059", "GB0088", "GB0150", "GB0156", "GB0467", "GB7312")
    events = (Read, Write)
    calls = frozenset({FUNCTION_VARIABLE, "torch.autograd.Function.apply"})
    refusal = (
        "dynalint cannot tell from the code what else sets or reads the variable; keep it in a global, or pass it to "
        "`apply`"
    )

    def check(self, event: Read | Write, project: Project) -> Iterable[Violation]:
        """Flag class variables that are used or set, and `apply` with class methods or on an old-style instance."""
        if event.name == FUNCTION_VARIABLE:
            shown = ast.unparse(event.node)
            if isinstance(event, Write):
                text = f"Dynamo cannot set `{shown}`, because it is a class variable of an autograd function"
                yield Violation(event.node, text, help="set it outside the compiled code, or pass it to `apply`")
            elif _is_used(event, project):
                text = f"Dynamo does not support `{shown}`, because it is a class variable of an autograd function"
                yield Violation(event.node, text, help="keep it in a module global, or pass it to `apply`")
        elif isinstance(event.owner, k.Class):
            method = _class_method(event.owner, project)
            if method is not None:
                text = (
                    f"Dynamo cannot compute gradients of this autograd function, because `{method}` is a class method"
                )
                yield Violation(
                    event.node, text, help=f"make `{method}` a static method and refer to the class by name"
                )
        elif isinstance(event.owner, k.Instance) and not event.owner.made:
            text = (
                f"`{ast.unparse(event.node.value)}` is an instance of an autograd function, but Dynamo only "
                "supports calling `apply` on the class"
            )
            yield Violation(event.node, text, help="store the class, not an instance", torch="<2.14")


def _class_method(owner: k.Class, project: Project) -> str | None:
    """Return the name of the first class method among `forward` and `backward`, or None."""
    for name in ("forward", "backward"):
        method = project.find_method(owner.cls, name)
        if method is not None and "classmethod" in method.decorators:
            return name
    return None


def _is_used(event: Read, project: Project) -> bool:
    """Return whether the variable is used immediately. Passing it on does not break the graph."""
    parent = project.parents(event.function).get(event.node)
    if isinstance(parent, ast.Compare):
        return not all(isinstance(operator, (ast.Is, ast.IsNot)) for operator in parent.ops)
    if isinstance(parent, ast.keyword):
        parent = project.parents(event.function).get(parent)
    if isinstance(parent, ast.Call):
        callee = project.kinds(event.function).get(parent.func)
        return isinstance(callee, (k.External, k.Method, k.Object))
    if isinstance(parent, (ast.For, ast.comprehension)):
        return parent.iter is event.node
    if isinstance(parent, (ast.If, ast.While, ast.IfExp)):
        return parent.test is event.node
    return isinstance(parent, (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Attribute, ast.Subscript))
