"""DYN621: `t.is_leaf` of an argument, whose answer compiled code keeps."""

from __future__ import annotations

import ast

from dynalint.rulekit import Project, Read, Rule, k, walk


class LeafTest(Rule):
    code = "DYN621"
    name = "leaf-test"
    summary = "Compiled code keeps the answer of `is_leaf` from when it was compiled"
    category = "miscompile"
    events = (Read,)
    calls = frozenset({"Tensor.is_leaf"})
    message = "compiled code keeps the answer of `is_leaf` for the first argument"
    help = "test outside the compiled code and pass in the answer"
    refusal = "the code does not show what is right for a leaf and for others; pass the answer as an argument"

    def flags(self, event: Read, project: Project) -> bool:
        """Return whether it is asked of an argument as it came, in a function that is compiled by itself."""
        return len(event.function.chain) == 1 and _is_argument(event)


def _is_argument(event: Read) -> bool:
    """Return whether the tensor is a parameter that the function does not set anew."""
    owner, node = event.node.value, event.function.node
    if not isinstance(owner, ast.Name) or k.only_tensor(event.owner) is None:
        return False
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    names = [one for one in walk(node) if isinstance(one, ast.Name) and one.id == owner.id]
    return any(one.arg == owner.id for one in arguments) and all(isinstance(one.ctx, ast.Load) for one in names)
