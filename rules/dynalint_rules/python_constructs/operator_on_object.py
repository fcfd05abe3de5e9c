"""DYN715: operators between a tensor and an instance of a class that defines them."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import ClassInfo, Operation, Project, Rule, Violation, k


class OperatorOnObject(Rule):
    code = "DYN715"
    name = "operator-on-object"
    summary = "Using an operator on a tensor and an object that defines the operator breaks the graph"
    gb = ("GB0055", "GB0059")
    events = (Operation,)
    refusal = "add a method with a descriptive name to the class, and call it instead"

    def check(self, event: Operation, project: Project) -> Iterable[Violation]:
        """Flag operators with a tensor operand, and operators that Dynamo does not support."""
        if issubclass(event.operator, ast.cmpop):
            return
        sides = [event.left, *([event.right] if event.right is not None else [])]
        owners = [one for side in sides for one in side.members if isinstance(one, k.Instance)]
        if not owners or any(_is_known_to_torch(project, owner.cls) for owner in owners):
            return
        name = owners[0].cls.name
        if any(k.only_tensor(side) is not None for side in sides):
            yield Violation(
                event.node,
                f"Dynamo treats this operator as a torch operation, which cannot take an instance of `{name}`",
                help="call a method with a descriptive name instead",
            )
        elif event.operator in (ast.MatMult, ast.Invert):
            operator = "@" if event.operator is ast.MatMult else "~"
            yield Violation(
                event.node,
                f"Dynamo does not trace into the method of `{name}` that implements `{operator}`",
                help="call a method with a descriptive name instead",
                torch="<2.14",
            )


def _is_known_to_torch(project: Project, cls: ClassInfo) -> bool:
    """Return whether torch may accept an instance as an operand, so that Python does not call the class's method."""
    inherited = project.lineage(cls)[1]
    plain = all(name == "builtins.object" or name.startswith(("abc.", "typing.", "torch.nn.")) for name in inherited)
    return not plain or project.find_method(cls, "__torch_function__") is not None
