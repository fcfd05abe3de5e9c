"""Arrays of whole numbers that are known while tracing, which Dynamo takes for tensors: lists do instead.

axes = np.unique(axes).astype(int)      axes = sorted(set(axes))
for axis in axes:                       for axis in axes:
x = x.sum(int(axis))                    x = x.sum(int(axis))
"""

from __future__ import annotations

import ast

from dynalint import rewriting as rw
from dynalint.analysis import kinds as k
from dynalint.analysis.steps import walk
from dynalint.findings import Safety
from dynalint.rules import Refusal, Rewrite
from dynalint_rules._shared.calls import callee
from dynalint_rules._shared.known_numbers import is_whole
from dynalint_rules._shared.names import loads
from dynalint_rules._shared.scope import Scope
from dynalint_rules._shared.size_arguments import sizes

_FORMS = {"numpy.unique": "sorted(set({}))", "numpy.array": "list({})", "numpy.asarray": "list({})"}


def listed(scope: Scope, made: ast.expr, besides: ast.Name | None = None) -> Rewrite | None:
    """Return the rewrite of a call that makes such an array, None where more is done with it than with a list.

    What is done with it at `besides` does not count.

    Raises:
        Refusal: a name that the new code needs means something else.
    """
    if not isinstance(made, ast.Call) or len(made.args) != 1 or made.keywords:
        return None
    form = _FORMS.get(callee(scope, made))
    value = _converted(scope, made)
    statement = scope.parents.get(value)
    if form is None or not isinstance(statement, ast.Assign) or statement.value is not value:
        return None
    numbers = made.args[0]
    conditions = _conditions(scope, numbers)
    if conditions is None or not _is_read_as_list(scope, statement, besides):
        return None
    for name in ("sorted", "set", "list"):
        if name in scope.function.locals or name in scope.function.module.bindings:
            raise Refusal(f"the name `{name}` means something else here; make a list of the numbers by hand")
    edits = rw.written(scope.file, (value, form.format(scope.text(numbers))))
    safety: Safety = "conditional" if conditions else "safe"
    return Rewrite("Keep the numbers in a list, without an array", safety, edits, conditions)


def array_of(scope: Scope, number: ast.expr) -> ast.expr | None:
    """Return the call that makes the array that `number`, a name for one of its elements, is taken from."""
    if not isinstance(number, ast.Name):
        return None
    for loop in _ancestors(scope, number):
        if isinstance(loop, ast.For) and isinstance(loop.target, ast.Name) and loop.target.id == number.id:
            source = loop.iter
            return array_under(scope, source) if isinstance(source, ast.Name) else None
    return None


def _ancestors(scope: Scope, node: ast.AST) -> list[ast.AST]:
    found = []
    parent = scope.parents.get(node)
    while parent is not None:
        found.append(parent)
        parent = scope.parents.get(parent)
    return found


def array_under(scope: Scope, name: ast.Name) -> ast.expr | None:
    """Return what the last assignment before a name is read gives it, if that stands in the body of the function."""
    found = None
    for statement in scope.function.statements:
        if isinstance(statement, ast.Assign) and statement.lineno < name.lineno and _binds(statement, name.id):
            found = statement.value
    return found


def _binds(statement: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in statement.targets)


def _converted(scope: Scope, made: ast.Call) -> ast.expr:
    """Return `made.astype(int)` if that is what stands there, else `made`."""
    method = scope.parents.get(made)
    outer = scope.parents.get(method) if isinstance(method, ast.Attribute) and method.attr == "astype" else None
    whole = isinstance(outer, ast.Call) and len(outer.args) == 1 and not outer.keywords
    if isinstance(outer, ast.Call) and whole and scope.kind(outer.args[0]) == k.External("builtins.int"):
        return outer
    return made


def _conditions(scope: Scope, numbers: ast.expr) -> tuple[str, ...] | None:
    """Return what must hold for `numbers` to be a flat sequence of whole numbers, None if it is none."""
    kind = scope.kind(numbers)
    named = (f"{scope.quote(numbers)} is a sequence of whole numbers, and of nothing else",)
    if isinstance(kind, k.Unknown):
        return named
    if not isinstance(kind, k.Sequence) or kind.type not in ("list", "tuple", "torch.Size"):
        return None
    if is_whole(kind.element) and not isinstance(kind.element, k.Nothing):
        return ()
    return named if isinstance(kind.element, k.Unknown) else None


def _is_read_as_list(scope: Scope, statement: ast.Assign, besides: ast.Name | None) -> bool:
    """Whether an array, from the one assignment to its name on, is only asked for its elements and its length."""
    target = statement.targets[0]
    if len(statement.targets) > 1 or not isinstance(target, ast.Name):
        return False
    if target.id not in scope.function.locals or scope.parents.get(statement) is not scope.function.node:
        return False
    start, end = scope.file.span(statement)
    names = [one for one in walk(scope.function.node) if isinstance(one, ast.Name) and one.id == target.id]
    stores = [one for one in names if not isinstance(one.ctx, ast.Load) and scope.file.span(one)[0] >= start]
    reads = [one for one in names if isinstance(one.ctx, ast.Load) and scope.file.span(one)[0] > end]
    return stores == [target] and bool(reads) and all(one is besides or _is_plain_read(scope, one) for one in reads)


def _is_plain_read(scope: Scope, array: ast.expr) -> bool:
    parent = scope.parents[array]
    if isinstance(parent, ast.Call) and parent.args == [array]:
        if _builtin(scope, parent) == "len":
            return True
        ordered = _builtin(scope, parent) == "sorted" and all(one.arg == "reverse" for one in parent.keywords)
        return ordered and _is_plain_read(scope, parent) and not isinstance(scope.parents[parent], ast.Call)
    if isinstance(parent, ast.Subscript) and parent.value is array and is_whole(scope.kind(parent.slice)):
        return isinstance(parent.ctx, ast.Load) and is_plain_number(scope, parent)
    if isinstance(parent, ast.For | ast.comprehension) and parent.iter is array:
        return isinstance(parent.target, ast.Name) and all(
            is_plain_number(scope, one) for one in loads(scope, parent.target.id)
        )
    return False


def is_plain_number(scope: Scope, number: ast.expr) -> bool:
    """Whether an element is used where a Python number does the same: converted by `int()`, or as a size."""
    call = scope.parents[number]
    if isinstance(call, ast.keyword):
        call = scope.parents[call]
    if not isinstance(call, ast.Call):
        return False
    converted = _builtin(scope, call) == "int" and call.args == [number]
    return converted or number in list(sizes(callee(scope, call), call))


def _builtin(scope: Scope, call: ast.Call) -> str:
    """Return the name of the builtin that is called, by its text: of code that is not reached nothing else is known."""
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    return "" if name in scope.function.locals or name in scope.function.module.bindings else name
