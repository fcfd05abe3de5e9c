"""DYN621: `t.is_leaf` of an argument, whose value becomes a constant in compiled code."""

from __future__ import annotations

import ast

from dynalint.rulekit import Project, Read, Rule, k, walk


class LeafTest(Rule):
    code = "DYN621"
    name = "leaf-test"
    summary = "Compiled code keeps the value that `is_leaf` had when Dynamo traced it"
    category = "miscompile"
    events = (Read,)
    calls = frozenset({"Tensor.is_leaf"})
    message = "compiled code keeps the value that `is_leaf` had during tracing, without a guard"
    help = "test outside the compiled code and pass in the result"
    refusal = "dynalint cannot tell from the code why leaves are treated differently; pass the result as an argument"

    def flags(self, event: Read, project: Project) -> bool:
        """Return whether this reads `is_leaf` on an unchanged argument of the outermost compiled function."""
        return len(event.function.chain) == 1 and _is_argument(event)


def _is_argument(event: Read) -> bool:
    """Return whether the tensor is a parameter that the function never reassigns."""
    owner, node = event.node.value, event.function.node
    if not isinstance(owner, ast.Name) or k.only_tensor(event.owner) is None:
        return False
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    names = [one for one in walk(node) if isinstance(one, ast.Name) and one.id == owner.id]
    return any(one.arg == owner.id for one in arguments) and all(isinstance(one.ctx, ast.Load) for one in names)
