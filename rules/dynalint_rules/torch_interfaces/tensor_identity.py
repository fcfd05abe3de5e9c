"""DYN609: the memory, the history or the version of a tensor, asked for by Python code."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from contextlib import suppress

from dynalint.rulekit import (
    Call,
    Declined,
    Event,
    Project,
    Read,
    Refusal,
    Rewrite,
    Rule,
    Violation,
    leads_to_raise,
    rw,
    walk,
)
from dynalint_rules._code.memory import makes_tensor
from dynalint_rules._code.scope import Scope


class TensorIdentity(Rule):
    code = "DYN609"
    name = "tensor-identity"
    summary = "Reading the address or the history of a tensor breaks the graph"
    gb = ("GB5976", "GB0104", "GB0023", "GB0170")
    events = (Call, Read)
    calls = frozenset({"Tensor.data_ptr", "Tensor.grad_fn", "Tensor._version"})

    def check(self, event: Call | Read, project: Project) -> Iterable[Violation]:
        """Flag a comparison of addresses once, and what reads the history of a tensor that is no argument."""
        if leads_to_raise(event, project):
            return
        if isinstance(event, Read) and event.name == "Tensor._version":
            if _decides(event.node, project.parents(event.function)):
                yield Violation(
                    event.node,
                    "the version of a tensor is not known while Dynamo traces, so the graph breaks at this test",
                    help="test it outside the compiled code",
                )
        elif isinstance(event, Read) and _is_computed(event):
            yield Violation(
                event.node,
                "`grad_fn` does not exist while Dynamo traces, so the function is not compiled",
                help="ask for `requires_grad`",
            )
        elif isinstance(event, Call):
            parent = project.parents(event.function).get(event.node)
            if isinstance(parent, ast.Compare) and _addresses(parent)[0] is event.node and _compares_two(parent):
                yield Violation(
                    parent,
                    "tensors have no addresses while Dynamo traces, so the graph breaks at this comparison",
                    help="compare the tensors with `is`",
                    # An address that is compared with a number stays a number for torch 2.11.
                    torch="" if len(_addresses(parent)) > 1 else ">=2.13",
                )

    def fix(self, event: Call | Read, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Compare the tensors themselves; decline where there is no such form, or what comes near differs silently."""
        if isinstance(event, Read) and event.name == "Tensor._version":
            return Declined("no tensor operation returns the version; test `_version` outside the compiled code")
        if isinstance(event, Read):
            with suppress(Refusal):
                return _asks_for_gradients(Scope.of(event, project), event)
            return Declined(
                "a leaf that requires a gradient has no `grad_fn`; use `requires_grad` if there is none here"
            )
        if isinstance(violation.node, ast.Compare):
            rewrite = _same_object(event, violation.node)
            if rewrite is not None:
                return rewrite
        return Declined("two views of the same memory are different objects; use `is` if you do not mean views")


def _decides(node: ast.expr, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Whether a comparison with a value is what a branch asks for."""
    test = parents.get(node)
    if not isinstance(test, ast.Compare):
        return False
    parent = parents.get(test)
    while isinstance(parent, ast.BoolOp) or (isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not)):
        test, parent = parent, parents.get(parent)
    return isinstance(parent, ast.If | ast.IfExp | ast.While) and parent.test is test


def _is_computed(event: Read) -> bool:
    """Whether the tensor is no argument, attribute or detached tensor, which may well have no history."""
    owner = event.node.value
    arguments = event.function.node.args
    named = {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    return isinstance(owner, ast.Name) and owner.id not in named


def _addresses(node: ast.Compare) -> list[ast.Call]:
    """The sides of a comparison that ask for an address."""
    sides = [node.left, *node.comparators]
    calls = [one for one in sides if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute)]
    return [one for one in calls if isinstance(one.func, ast.Attribute) and one.func.attr == "data_ptr"]


def _compares_two(node: ast.Compare) -> bool:
    """Whether `==` or `!=` compares an address with something else than the address of the same tensor."""
    if not all(isinstance(one, ast.Eq | ast.NotEq) for one in node.ops):
        return False
    return len({ast.dump(side) for side in [node.left, *node.comparators]}) > 1


def _asks_for_gradients(scope: Scope, event: Read) -> Rewrite:
    """Ask for `requires_grad` in place of `grad_fn` where an operation made the tensor, which has both or neither.

    Raises:
        Refusal: it may be a leaf, or the node itself is needed.
    """
    owner, test = event.node.value, scope.parents[event.node]
    if not isinstance(owner, ast.Name) or not _is_result(scope, owner.id):
        raise Refusal("it may be a leaf")
    named = f"{owner.id}.requires_grad"
    if isinstance(test, ast.Compare) and [ast.unparse(one) for one in test.comparators] == ["None"]:
        node: ast.expr = test
        text = named if isinstance(test.ops[0], ast.IsNot | ast.NotEq) else f"not {named}"
    elif isinstance(test, ast.If | ast.BoolOp) or (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
        node, text = event.node, named
    else:
        raise Refusal("the node itself is needed")
    condition = f"nothing sets `requires_grad` of `{owner.id}` after it is computed"
    edits = rw.written(scope.file, (node, text))
    return Rewrite("Test whether the tensor requires a gradient", "conditional", edits, (condition,))


def _is_result(scope: Scope, name: str) -> bool:
    """Whether all that is assigned to a name is computed by operations, none of which is told to ask for gradients."""
    nodes = list(walk(scope.function.node))
    stores = [one for one in nodes if isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Store)]
    told = any("requires_grad" in (getattr(one, "attr", ""), getattr(one, "arg", "")) for one in nodes)
    in_place = any(isinstance(one, ast.Attribute) and one.attr == "requires_grad_" for one in nodes)
    made = [scope.parents[one] for one in stores]
    return (
        bool(made)
        and not (told or in_place)
        and all(
            isinstance(one, ast.Assign) and len(one.targets) == 1 and makes_tensor(scope, one.value) for one in made
        )
    )


def _same_object(event: Event, node: ast.Compare) -> Rewrite | None:
    """The rewrite into `is` of a comparison of nothing but addresses of tensors that have names."""
    sides = [node.left, *node.comparators]
    names = [one.func.value for one in _addresses(node) if isinstance(one.func, ast.Attribute)]
    if len(names) < len(sides) or not all(isinstance(one, ast.Name) for one in names):
        return None
    file = event.function.file
    words = ["is" if isinstance(one, ast.Eq) else "is not" for one in node.ops]
    first, *others = (file.segment(one) for one in names)
    text = first + "".join(f" {word} {name}" for word, name in zip(words, others, strict=True))
    changes = "views of the same memory, and empty tensors, no longer count as the same tensor"
    return Rewrite("Compare with `is`", "unsafe", rw.written(file, (node, text)), (changes,))
