"""DYN621: `t.is_leaf` of an argument, whose answer compiled code keeps."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import Declined, Event, Project, Read, Rewrite, Rule, Violation, k, walk


class LeafTest(Rule):
    code = "DYN621"
    name = "leaf-test"
    summary = "whether an argument is a leaf is asked once, when the code is compiled"
    category = "miscompile"
    events = (Read,)
    calls = frozenset({"Tensor.is_leaf"})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag what is asked of an argument as it came, in a function that is compiled by itself."""
        if isinstance(event, Read) and len(event.function.chain) == 1 and _is_argument(event):
            yield Violation(
                event.node,
                "compiled code keeps the answer of `is_leaf` that the first argument gave",
                help="ask outside of the compiled code and pass the answer",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: what the test is for is not in the code."""
        return Declined("what is right for a leaf and for others is not in the code; pass the answer as an argument")


def _is_argument(event: Read) -> bool:
    """Whether the tensor is a parameter that the function does not set anew."""
    owner, node = event.node.value, event.function.node
    if not isinstance(owner, ast.Name) or k.only_tensor(event.owner) is None:
        return False
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    names = [one for one in walk(node) if isinstance(one, ast.Name) and one.id == owner.id]
    return any(one.arg == owner.id for one in arguments) and all(isinstance(one.ctx, ast.Load) for one in names)
