"""Places of a mask that are only added up: each place along a dimension, times how often it is there.

i, j = torch.where(x > 0)               mask = x > 0
i.sum() + j.sum()                       (mask * torch.arange(mask.shape[0], device=mask.device)[:, None]).sum() + ...
"""

from __future__ import annotations

import ast

from dynalint.analysis.steps import walk
from dynalint.findings import Safety
from dynalint.rules import Replacement, Rewrite
from dynalint_rules._shared.calls import callee
from dynalint_rules._shared.memory import makes_tensor
from dynalint_rules._shared.names import loads, only_value
from dynalint_rules._shared.scope import Scope
from dynalint_rules._shared.text import held_together


def summed(scope: Scope, call: ast.Call) -> Rewrite | None:
    """Return the rewrite of `i, j = torch.where(mask)` where all that is asked of each name is its sum."""
    statement = scope.parents.get(call)
    condition = call.args[0] if callee(scope, call) == "torch.where" and len(call.args) == 1 else None
    if condition is None or call.keywords or not isinstance(statement, ast.Assign) or len(statement.targets) > 1:
        return None
    target, tensor = statement.targets[0], scope.tensor(condition)
    names = [one.id for one in target.elts if isinstance(one, ast.Name)] if isinstance(target, ast.Tuple) else []
    # A mask that is made here stays what it is, and has as many dimensions as there are names.
    if not isinstance(target, ast.Tuple) or not names or len(set(names)) < len(target.elts):
        return None
    if tensor is None or tensor.dtype != "bool" or not makes_tensor(scope, condition):
        return None
    # Of a tensor without dimensions there is one place all the same.
    if tensor.rank not in (len(names), None) or (tensor.rank is None and len(names) == 1):
        return None
    mask, edits = scope.fresh_name("mask"), []
    for dimension, name in enumerate(names):
        stored = [one for one in walk(scope.function.node) if isinstance(one, ast.Name) and one.id == name]
        reads = list(loads(scope, name))
        if len(stored) - len(reads) > 1 or only_value(scope, name, statement) is not None or name in _arguments(scope):
            return None
        after = ", None" * (len(names) - dimension - 1)
        shape = f"[:{after}]" if after else ""
        place = f"{scope.torch}.arange({mask}.shape[{dimension}], device={mask}.device){shape}"
        for read in reads:
            method = scope.parents.get(read)
            use = scope.parents.get(method) if isinstance(method, ast.Attribute) and method.attr == "sum" else None
            if not isinstance(use, ast.Call) or use.func is not method or use.args or use.keywords:
                return None
            edits.append(Replacement(scope.file, *scope.file.span(use), f"({mask} * {place}).sum()"))
    made = Replacement(scope.file, *scope.file.span(statement), f"{mask} = {held_together(scope.text(condition))}")
    conditions = () if tensor.rank is not None else (f"{scope.quote(condition)} has {len(names)} dimensions",)
    safety: Safety = "conditional" if conditions else "safe"
    return Rewrite("Add up the places of the mask", safety, (made, *edits), conditions, scope.imports)


def _arguments(scope: Scope) -> set[str]:
    return {node.arg for node in walk(scope.function.node) if isinstance(node, ast.arg)}
