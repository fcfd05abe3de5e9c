"""`torch.func.grad` of a function in the place of `torch.autograd.grad` of its results.

x = x.detach().requires_grad_()                     x = x.detach()
y = self.energy(x).sum()
g = torch.autograd.grad(y, x, create_graph=True)[0]  def differentiated(x):
                                                        y = self.energy(x).sum()
                                                        return y
                                                    g = torch.func.grad(differentiated)(x)
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from dynalint.analysis.steps import walk
from dynalint.findings import Safety
from dynalint.rules import Replacement, Rewrite
from dynalint_rules._shared.guard import step_of, taken_out
from dynalint_rules._shared.memory import makes_tensor
from dynalint_rules._shared.names import last_assignment
from dynalint_rules._shared.scope import Refusal, Scope
from dynalint_rules._shared.text import held_together, indentation, indented

_BY_HAND = "use `torch.func.grad` by hand, or take the gradient outside of the compiled code"
_FLAGS = frozenset({"create_graph", "retain_graph", "only_inputs", "allow_unused"})


@dataclass(frozen=True)
class _Gradient:
    """A call of `torch.autograd.grad`: of what, by which local name, and whether the result has a gradient itself."""

    call: ast.Call
    outputs: str
    name: str
    differentiable: bool


def differentiated(scope: Scope, call: ast.Call) -> Rewrite:
    """Put the statements between a new leaf and the gradient by it into a function, and differentiate that.

    Raises:
        Refusal: there is no such leaf, or more happens in between than that names are assigned to.
    """
    gradient = _gradient(scope, call)
    taken: ast.expr = call
    statement = scope.parents[call]
    if isinstance(statement, ast.Subscript) and ast.unparse(statement.slice) == "0":
        taken, statement = statement, scope.parents[statement]
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    if taken is call and isinstance(target, ast.Tuple) and len(target.elts) == 1:
        target = target.elts[0]
    elif taken is call:
        target = None
    if not isinstance(target, ast.Name) or not isinstance(statement, ast.Assign):
        raise Refusal(f"the gradient is not assigned to a name; {_BY_HAND}")
    block = _block(scope, statement)
    made, leaf = _leaf(scope, block, statement, gradient.name)
    between = block[block.index(made) + 1 : block.index(statement)]
    used = _used_later(scope, between, statement, gradient.name)
    text = _text(scope, gradient, between, statement, target.id, used)
    start = scope.file.span(between[0] if between else statement)[0]
    edit = Replacement(scope.file, start, scope.file.span(statement)[1], text)
    conditions = ["what is computed before the gradient is taken leaves nothing behind but its results"]
    enabled = _enables_gradients(scope, statement)
    if not enabled:
        conditions.append("the gradient is given under `torch.no_grad()` too, where torch raises")
    safety: Safety = "conditional" if enabled else "unsafe"
    title = "Differentiate a function with `torch.func.grad`"
    return Rewrite(title, safety, (*leaf, edit), tuple(conditions))


def _gradient(scope: Scope, call: ast.Call) -> _Gradient:
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    parts = [*call.args, *(given.pop(name) for name in ("outputs", "inputs") if name in given)]
    ones = given.pop("grad_outputs", None)
    if len(parts) != 2 or not given.keys() <= _FLAGS or any(isinstance(one, ast.Starred) for one in parts):
        raise Refusal(f"{scope.quote(call)} asks for more than a gradient; {_BY_HAND}")
    outputs, inputs = parts
    if isinstance(inputs, ast.List | ast.Tuple) and len(inputs.elts) == 1:
        inputs = inputs.elts[0]
    flags = {name: value.value if isinstance(value, ast.Constant) else None for name, value in given.items()}
    if None in flags.values() or flags.get("allow_unused") or not isinstance(inputs, ast.Name):
        raise Refusal(f"{scope.quote(call)} takes no gradient by one local tensor; {_BY_HAND}")
    text = scope.text(outputs)
    if ones is not None:
        if ast.unparse(ones) != f"torch.ones_like({ast.unparse(outputs)})":
            raise Refusal(f"{scope.quote(ones)} weighs the results; {_BY_HAND}")
        text = f"({text}).sum()" if not isinstance(outputs, ast.Name) else f"{text}.sum()"
    return _Gradient(call, text, inputs.id, bool(flags.get("create_graph")))


def _block(scope: Scope, statement: ast.stmt) -> list[ast.stmt]:
    """Return the block of a statement.

    Raises:
        Refusal: it stands in a loop, where a name may hold what the round before has left.
    """
    parent: ast.AST = scope.parents[statement]
    outer: ast.AST | None = parent
    while outer is not None:
        if isinstance(outer, ast.For | ast.AsyncFor | ast.While):
            raise Refusal(f"the gradient is taken in a loop; {_BY_HAND}")
        outer = scope.parents.get(outer) if outer is not scope.function.node else None
    return next(one for one in (getattr(parent, field, []) for field in ("body", "orelse")) if statement in one)


def _leaf(
    scope: Scope, block: list[ast.stmt], statement: ast.stmt, name: str
) -> tuple[ast.stmt, tuple[Replacement, ...]]:
    """Return the statement that makes the leaf that the gradient is taken by, and the edit by which it does not.

    Raises:
        Refusal: the tensor is no leaf of the function itself.
    """
    for one in reversed(block[: block.index(statement)]):
        asked = _asked(one.value) if isinstance(one, ast.Assign | ast.Expr) else None
        if isinstance(one, ast.Assign) and [ast.unparse(target) for target in one.targets] == [name]:
            if asked is not None and (_is_detached(asked) or makes_tensor(scope, asked)):
                edit = Replacement(scope.file, *scope.file.span(one.value), held_together(scope.text(asked)))
                return one, (edit,)
            break
        sets = isinstance(one, ast.Assign) and ast.unparse(one) == f"{name}.requires_grad = True"
        if sets or (isinstance(one, ast.Expr) and asked is not None and ast.unparse(asked) == name):
            before = last_assignment(scope, name, one)
            if before is None or not (_is_detached(before.value) or makes_tensor(scope, before.value)):
                break
            return one, taken_out(scope, one, "", "safe").replacements
    raise Refusal(f"`{name}` is not made to ask for gradients right before, as a tensor of its own; {_BY_HAND}")


def _asked(value: ast.expr) -> ast.expr | None:
    """Return `t` of `t.requires_grad_()`."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return None
    told = [*value.args, *(keyword.value for keyword in value.keywords)]
    plain = all(isinstance(one, ast.Constant) and one.value is True for one in told)
    return value.func.value if value.func.attr == "requires_grad_" and plain else None


def _enables_gradients(scope: Scope, statement: ast.stmt) -> bool:
    """Whether a statement stands under `with torch.enable_grad():`."""
    outer: ast.AST | None = statement
    while outer is not None and outer is not scope.function.node:
        if isinstance(outer, ast.With) and any(
            ast.unparse(one.context_expr) == f"{scope.torch}.enable_grad()" for one in outer.items
        ):
            return True
        outer = scope.parents.get(outer)
    return False


def _is_detached(value: ast.expr) -> bool:
    """Whether an expression ends in `.detach()`, or in `.detach().clone()`."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and not (value.args or value.keywords):
        if value.func.attr == "detach":
            return True
        if value.func.attr != "clone":
            return False
        value = value.func.value
    return False


def _used_later(scope: Scope, between: list[ast.stmt], statement: ast.stmt, name: str) -> list[str]:
    """Return the names that are assigned to in between and read afterwards.

    Raises:
        Refusal: more happens in between, or the leaf is read afterwards.
    """
    assigned: dict[str, None] = {}
    for one in between:
        targets = one.targets if isinstance(one, ast.Assign) else []
        names = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
        if not names or not all(isinstance(part, ast.Name) and part.id != name for part in names):
            raise Refusal(f"{scope.quote(one)} does more than name a result; {_BY_HAND}")
        assigned.update(dict.fromkeys(part.id for part in names if isinstance(part, ast.Name)))
    last = statement.end_lineno or statement.lineno
    reads = (one for one in walk(scope.function.node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load))
    later = {one.id for one in reads if one.lineno > last}
    if name in later:
        raise Refusal(f"`{name}` is read after the gradient is taken; {_BY_HAND}")
    return [one for one in assigned if one in later]


def _text(
    scope: Scope, gradient: _Gradient, between: list[ast.stmt], statement: ast.stmt, target: str, used: list[str]
) -> str:
    file, step, newline = scope.file, step_of(scope), scope.file.newline
    indent = indentation(file, statement.lineno)
    function = scope.fresh_name("differentiated")
    lines = [f"def {function}({gradient.name}):"]
    if between:
        body = file.text[file.span(between[0])[0] : file.span(statement)[0]].rstrip()
        lines.append(f"{indent}{step}{indented(body, step)}")
    kept = used[0] if len(used) == 1 else f"({', '.join(used)})"
    lines.append(f"{indent}{step}return {gradient.outputs}{f', {kept}' if used else ''}")
    grad = f"{scope.torch}.func.grad({function}{', has_aux=True' if used else ''})({gradient.name})"
    lines.append(f"{indent}{target}{f', {kept}' if used else ''} = {grad}")
    if not gradient.differentiable:
        lines.append(f"{indent}{target} = {target}.detach()")
    return newline.join(lines)
