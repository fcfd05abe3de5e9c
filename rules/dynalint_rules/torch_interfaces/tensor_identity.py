"""DYN609: reading a tensor's address, autograd history or version."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from dynalint.rulekit import (
    Call,
    Declined,
    Project,
    Read,
    Rule,
    Violation,
    leads_to_raise,
)


class TensorIdentity(Rule):
    code = "DYN609"
    name = "tensor-identity"
    summary = "Reading a tensor's address or autograd history breaks the graph"
    gb = ("GB5976", "GB0104", "GB0023", "GB0170")
    events = (Call, Read)
    calls = frozenset({"Tensor.data_ptr", "Tensor.grad_fn", "Tensor._version"})

    def check(self, event: Call | Read, project: Project) -> Iterable[Violation]:
        """Flag comparisons of addresses, tests of the version, and reads of a computed tensor's `grad_fn`."""
        if leads_to_raise(event, project):
            return
        if isinstance(event, Read) and event.name == "Tensor._version":
            if _decides(event.node, project.parents(event.function)):
                yield Violation(
                    event.node,
                    "a tensor's version is not known during tracing, so testing it breaks the graph",
                    help="test it outside the compiled code",
                )
        elif isinstance(event, Read) and _is_computed(event):
            yield Violation(
                event.node,
                "`grad_fn` does not exist during tracing, so the function is not compiled",
                help="test `requires_grad`",
            )
        elif isinstance(event, Call):
            parent = project.parents(event.function).get(event.node)
            if isinstance(parent, ast.Compare) and _addresses(parent)[0] is event.node and _compares_two(parent):
                yield Violation(
                    parent,
                    "tensors have no addresses during tracing, so comparing addresses breaks the graph",
                    help="compare the tensors with `is`",
                    # torch 2.11 traces comparing an address with a number.
                    torch="" if len(_addresses(parent)) > 1 else ">=2.13",
                )

    def fix(self, event: Call | Read, violation: Violation, project: Project) -> Declined:
        """Offer no fix, because the closest alternative gives different results in some cases."""
        if isinstance(event, Read) and event.name == "Tensor._version":
            return Declined("no tensor operation returns the version; test `_version` outside the compiled code")
        if isinstance(event, Read):
            return Declined(
                "a leaf that requires a gradient has no `grad_fn`; use `requires_grad` if the tensor is never a leaf"
            )
        return Declined(
            "two views of the same memory are different objects; use `is` if views do not have to count as equal"
        )


def _decides(node: ast.expr, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Return whether the result of a comparison with this value determines a branch."""
    test = parents.get(node)
    if not isinstance(test, ast.Compare):
        return False
    parent = parents.get(test)
    while isinstance(parent, ast.BoolOp) or (isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not)):
        test, parent = parent, parents.get(parent)
    return isinstance(parent, ast.If | ast.IfExp | ast.While) and parent.test is test


def _is_computed(event: Read) -> bool:
    """Return whether the tensor is a local variable, rather than an argument or attribute that may have no history."""
    owner = event.node.value
    named = {one.arg for one in event.function.named}
    return isinstance(owner, ast.Name) and owner.id not in named


def _addresses(node: ast.Compare) -> list[ast.Call]:
    """Return the operands of a comparison that read an address."""
    sides = [node.left, *node.comparators]
    calls = [one for one in sides if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute)]
    return [one for one in calls if isinstance(one.func, ast.Attribute) and one.func.attr == "data_ptr"]


def _compares_two(node: ast.Compare) -> bool:
    """Return whether `==` or `!=` compares an address with anything other than the same tensor's address."""
    if not all(isinstance(one, ast.Eq | ast.NotEq) for one in node.ops):
        return False
    return len({ast.dump(side) for side in [node.left, *node.comparators]}) > 1
