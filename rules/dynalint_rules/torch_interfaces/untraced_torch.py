"""DYN610: a function of torch that no graph can hold."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache

from dynalint.rulekit import (
    Call,
    Declined,
    Project,
    Refusal,
    Rewrite,
    Rule,
    Safety,
    Violation,
    all_rules,
    leads_to_raise,
    rw,
    torch_api,
)
from dynalint_rules._code.calls import callee
from dynalint_rules._code.memory import makes_tensor
from dynalint_rules._code.names import last_assignment
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.guard.statements import guarded
from dynalint_rules._shared.text import atom

# What the derived data has no sample call of; each was seen to end the graph under torch 2.13.
_WITHOUT_SAMPLE = {
    "torch.Tensor.apply_": "GB0055",
    "torch.Tensor.map_": "GB0055",
    "torch.Tensor.is_set_to": "GB0208",
    "torch.backends.mha.set_fastpath_enabled": "GB0007",
    "torch.backends.mkldnn.is_available": "GB0007",
    "torch.can_cast": "GB0208",
    "torch.compiler.cudagraph_mark_step_begin": "GB0007",
    "torch.frombuffer": "GB0059",
    "torch.jit.fork": "GB0007",
    "torch.jit.wait": "GB0007",
    "torch.typename": "GB0007",
}
_UNTRACED = {
    name.replace("torch.Tensor.", "Tensor."): gb for name, gb in {**torch_api.untraced(), **_WITHOUT_SAMPLE}.items()
}
_ROUNDED_ONCE: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
# Whole numbers up to this are exact in any floating type that is computed with.
_SMALL = 256
_IN_PYTHON = ("Tensor.apply_", "Tensor.map_")

_OUTSIDE = "do it outside the compiled code, and pass in the tensor"
# What does something, where the others tell something: what to do instead.
_DOES = {
    "Tensor.apply_": "write it with operations on whole tensors",
    "Tensor.map_": "write it with operations on whole tensors",
    "Tensor.random_": "draw with `torch.randint`",
    "Tensor.share_memory_": "share memory outside the compiled code",
    "torch.backends.mha.set_fastpath_enabled": "set it outside the compiled code",
    "torch.compiler.cudagraph_mark_step_begin": "call it before each call of the compiled function",
    "torch.nn.init.normal": "use `torch.nn.init.normal_`",
    "torch.nn.init.uniform": "use `torch.nn.init.uniform_`",
    **dict.fromkeys(("Tensor.to_mkldnn", "torch.from_dlpack", "torch.frombuffer"), _OUTSIDE),
}
_FACTORIES = frozenset(
    "empty empty_like full full_like ones ones_like new_empty new_full new_ones new_zeros zeros zeros_like".split()
)


class UntracedTorch(Rule):
    code = "DYN610"
    name = "untraced-torch"
    summary = "A torch function that Dynamo does not trace breaks the graph"
    gb = tuple(sorted({*_UNTRACED.values(), "GB0008"}))
    events = (Call,)
    calls = frozenset(_UNTRACED)

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Flag the call, unless another rule stands for the function."""
        if leads_to_raise(event, project):
            return
        if event.callee not in _claimed() and event.callee in _UNTRACED:
            name = event.callee.replace("Tensor.", "t.")
            yield Violation(
                event.node,
                f"Dynamo does not trace `{name}()`, so the graph breaks there",
                help=_DOES.get(event.callee, "query it beforehand, in `__init__` if it does not change"),
                gb=(_UNTRACED[event.callee],),
            )

    def fix(self, event: Call, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Ask for what does not change when the module is imported; decline where that is for a person to say."""
        rewrite = _rewrite(Scope.of(event, project), event)
        if rewrite is not None:
            return rewrite
        if event.callee in _IN_PYTHON:
            whole = _on_whole_tensor(Scope.of(event, project), event.node)
            return whole or Declined(f"Python computes each element; {_DOES[event.callee]}")
        if event.callee in _DOES:
            return Declined(f"it does more than return information; {_DOES[event.callee]}")
        if event.callee.startswith("Tensor."):
            return Declined(
                "the answer depends on the tensor; query it outside the compiled code, and pass in the answer"
            )
        return Declined(
            "the code does not show whether its answer changes; query it once, in `__init__`, if it does not"
        )


def _rewrite(scope: Scope, event: Call) -> Rewrite | None:
    if event.callee == "Tensor.random_":
        return _drawn(scope, event.node)
    if event.callee == "Tensor.share_memory_":
        condition = "a compiled run does not share the tensor's memory"
        return guarded(scope, event, "Share memory only in eager code", safety="unsafe", conditions=(condition,))
    return None


def _drawn(scope: Scope, call: ast.Call) -> Rewrite:
    """Draw with `torch.randint_like`, which gives the same numbers in the same dtype and layout.

    Raises:
        Refusal: the bounds are not written out.
    """
    function, arguments = call.func, call.args
    if not arguments and not call.keywords:
        raise Refusal(
            f"{scope.quote(call)} draws from all integers of the dtype; use `torch.randint`, which takes bounds"
        )
    plain = 1 <= len(arguments) <= 2 and not any(isinstance(one, ast.Starred) for one in arguments)
    if not isinstance(function, ast.Attribute) or not plain or call.keywords:
        raise Refusal(f"the bounds of {scope.quote(call)} are not passed by position; draw with `torch.randint`")
    owner, bounds = function.value, ", ".join(scope.text(one) for one in arguments)
    drawn = f"{scope.torch}.randint_like({scope.text(owner)}, {bounds})"
    made: ast.expr | None = owner
    if isinstance(owner, ast.Name):
        drawn = f"{owner.id}.copy_({drawn})"
        assignment = last_assignment(scope, owner.id, call)
        made = assignment.value if assignment is not None else None
    is_new = made is not None and _is_made_by_factory(scope, made)
    if not is_new and not isinstance(owner, ast.Name):
        raise Refusal(f"{scope.quote(owner)} may be a view of another tensor; draw with `torch.randint`, and copy")
    conditions = () if is_new else (f"{scope.quote(owner)} needs no gradient, and none of its elements share memory",)
    edits = rw.written(scope.file, (call, drawn))
    safety: Safety = "safe" if is_new else "conditional"
    return Rewrite("Draw with `torch.randint_like`", safety, edits, conditions, scope.imports)


def _is_made_by_factory(scope: Scope, node: ast.expr) -> bool:
    """Whether a tensor is made of a size alone, so that it is no view and has no gradient."""
    if not isinstance(node, ast.Call) or any(one.arg in ("requires_grad", "out", None) for one in node.keywords):
        return False
    return callee(scope, node).rpartition(".")[2] in _FACTORIES


@cache
def _claimed() -> frozenset[str]:
    """Return the names that rules of their own stand for."""
    others = (rule.calls for rule in all_rules() if not isinstance(rule, UntracedTorch))
    return frozenset[str]().union(*others)


def _on_whole_tensor(scope: Scope, call: ast.Call) -> Rewrite | None:
    """Return the rewrite of `t.apply_(lambda value: value * 2)` of a new tensor: one operation, on all its elements.

    Python computes with 64 bits, and what it gives is rounded to the tensor's. Of one operation with a whole number
    that is small the result is the same.
    """
    given = call.args[0] if len(call.args) == 1 and not call.keywords else None
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if owner is None or not isinstance(given, ast.Lambda) or not isinstance(given.body, ast.BinOp):
        return None
    names, body, tensor = [one.arg for one in given.args.args], given.body, scope.tensor(owner)
    fits = tensor is not None and tensor.dtype in ("float", None)
    if len(names) != 1 or not fits or not makes_tensor(scope, owner) or type(body.op) not in _ROUNDED_ONCE:
        return None
    left, right = body.left, body.right
    variable, number = (left, right) if isinstance(left, ast.Name) else (right, left)
    small = isinstance(number, ast.Constant) and type(number.value) is int and abs(number.value) <= _SMALL
    if not isinstance(variable, ast.Name) or variable.id != names[0] or not small:
        return None
    text = atom(owner, scope.text(owner))
    sides = [text if side is variable else scope.text(side) for side in (left, right)]
    made = f"{sides[0]} {_ROUNDED_ONCE[type(body.op)]} {sides[1]}"
    edits = rw.written(scope.file, (call, made))
    condition = f"{scope.quote(owner)} is floating-point, and needs no gradient"
    return Rewrite("Compute with the whole tensor", "conditional", edits, (condition,))
