"""DYN208: calling a `math` function with a tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import Call, Declined, Project, Refusal, Rewrite, Rule, Violation, k, leads_to_raise, rw
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.number.detached import detached
from dynalint_rules._shared.number.numbers import flow_of, with_conditions
from dynalint_rules._shared.number.takers import IN_TORCH, WHOLE
from dynalint_rules._shared.text import atom

_FLAT = ".reshape(())"
_QUESTIONS = ("isnan", "isinf", "isfinite")
_OTHERS = (
    "isnan isinf isfinite isclose pow atan2 hypot fmod remainder copysign ldexp frexp modf fsum dist gamma cbrt gcd "
    "lcm comb perm factorial isqrt nextafter ulp"
).split()


class MathOnTensor(Rule):
    code = "DYN208"
    name = "math-on-tensor"
    summary = "Calling a `math` function with a tensor reads the tensor's value and breaks the graph"
    gb = ("GB0033", "GB0208", "GB0007")
    reads_data = True
    events = (Call,)
    calls = frozenset({*(f"math.{name}" for name in (*IN_TORCH, *_OTHERS)), "cmath.*"})

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Flag the call if one of its arguments is known to be a tensor."""
        if not any(k.only_tensor(kind) is not None for kind in event.args):
            return
        if not leads_to_raise(event, project):
            name = event.callee.rpartition(".")[2]
            instead = f"`torch.{IN_TORCH.get(name, name)}`" if name in (*IN_TORCH, *_QUESTIONS) else "torch operations"
            yield Violation(
                event.node,
                f"`{event.callee}()` reads the tensor's value into Python, which breaks the graph",
                help=f"use {instead} on the tensor",
            )

    def fix(self, event: Call, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Call the torch function with the same name."""
        return _in_torch(Scope.of(event, project), event)


def _in_torch(scope: Scope, event: Call) -> Rewrite:
    name = event.callee.rpartition(".")[2]
    if event.callee.startswith("math.") and name in _QUESTIONS:
        return _asked(scope, event.node, name)
    if event.callee.startswith("cmath.") or name not in IN_TORCH or len(event.node.args) != 1:
        raise Refusal(
            f"`{event.callee}()` has no equivalent in torch that returns a number; rewrite it with tensor operations"
        )
    source = event.node.args[0]
    found = detached(scope, source, read=event.node)
    flow = flow_of(scope, event.node, None if name in WHOLE else "float")
    flow.conditions[f"{scope.quote(event.node)} has the same value up to rounding and never raises an exception"] = None
    flow.conditions.update(dict.fromkeys(found.conditions))
    plain = scope.text(source)
    content = f"{scope.torch}.{IN_TORCH[name]}({plain if found.text == atom(source, plain) else found.text})"
    title = f"Use `torch.{IN_TORCH[name]}` instead of `math.{name}`"
    edits = rw.written(scope.file, (event.node, content), *flow.edits)
    return Rewrite(title, flow.safety, edits, flow.clauses, imports=scope.imports, leaves=flow.leaves)


def _asked(scope: Scope, node: ast.Call, name: str) -> Rewrite:
    """Call the torch function for a test whose result does not depend on the precision."""
    found = detached(scope, node.args[0])
    flow = with_conditions(flow_of(scope, node, "bool"), found)
    tensor = k.only_tensor(scope.kind(node.args[0]))
    if tensor is None or not tensor.array:
        flow.changes[f"Python no longer warns if {scope.quote(node.args[0])} requires a gradient"] = None
    # The result has no gradient and shares no memory, so the tensor needs neither `detach` nor `clone`.
    text = f"{scope.torch}.{name}({found.text.replace('.detach()', '').replace('.clone()', '').removesuffix(_FLAT)})"
    text += _FLAT if found.text.endswith(_FLAT) else ""
    edits = rw.written(scope.file, (node, text), *flow.edits)
    title = f"Use `torch.{name}` instead of `math.{name}`"
    return Rewrite(title, flow.safety, edits, flow.clauses, imports=scope.imports, leaves=flow.leaves)
