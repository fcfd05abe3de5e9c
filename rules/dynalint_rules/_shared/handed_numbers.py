"""Numbers that callers put into a tensor to hand them on, and that the function takes out again as bounds of slices."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from dynalint.analysis import kinds as k
from dynalint.analysis.index import FunctionInfo, walk_function
from dynalint.analysis.steps import walk
from dynalint.rules import Replacement, Rewrite
from dynalint_rules._shared.guard import taken_out
from dynalint_rules._shared.handover import argument_for
from dynalint_rules._shared.known_numbers import is_whole
from dynalint_rules._shared.memory import changed_in_place
from dynalint_rules._shared.names import loads, only_value
from dynalint_rules._shared.scope import Scope

_MAKERS = frozenset({"torch.tensor", "torch.IntTensor", "torch.LongTensor"})


def handed_as_numbers(scope: Scope, bounds: Sequence[ast.expr]) -> Rewrite | None:
    """Return the rewrite of the calls that hand on `bounds`, tensors made of numbers, None if they are none.

    Raises:
        Refusal: the statement that makes the tensor shares its line.
    """
    edits: dict[tuple[int, int], Replacement] = {}
    for bound in bounds:
        if not isinstance(bound, ast.Name) or not is_parameter_only_read(scope, bound.id, partial(_is_bound, scope)):
            return None
        found = list(_handed(scope, bound.id))
        if not found or None in found:
            return None
        for replacement in found:
            if replacement is not None:
                edits[replacement.start, replacement.end] = replacement
    title = "Hand on the number, without a tensor"
    return Rewrite(title, "safe", tuple(edits.values())) if edits else None


def _is_bound(scope: Scope, name: ast.Name) -> bool:
    return isinstance(scope.parents.get(name), ast.Slice)


def is_parameter_only_read(scope: Scope, name: str, fits: Callable[[ast.Name], bool]) -> bool:
    """Whether a name is a parameter that keeps its value and fits wherever it is read."""
    arguments = scope.function.node.args
    if name not in {one.arg for one in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]}:
        return False
    names = [one for one in walk(scope.function.node) if isinstance(one, ast.Name) and one.id == name]
    return all(isinstance(one.ctx, ast.Load) and fits(one) for one in names)


def _handed(scope: Scope, name: str) -> Iterator[Replacement | None]:
    """Yield what to write in the calls of the file that hand on a tensor under a name, None for what is not known."""
    for caller, call in calls_of(scope):
        argument = argument_for(scope.function, call, name)
        if argument is None or k.only_tensor(caller.kind(argument)) is None:
            continue
        number = _number_in(caller, argument)
        if number is None:
            yield None
            return
        yield Replacement(caller.file, *caller.file.span(argument), caller.text(number))
        yield from _no_longer_made(caller, argument)


def calls_of(scope: Scope) -> Iterator[tuple[Scope, ast.Call]]:
    """Yield the calls of the function in its own file, each in the function that it stands in."""
    wanted = scope.function
    for function in wanted.module.functions:
        calls = [one for one in walk_function(function.node) if isinstance(one, ast.Call) and _may_call(one, wanted)]
        if calls:
            caller = Scope(scope.project, function, scope.project.parents(function), scope.torch, ())
            for call in calls:
                callee = caller.kind(call.func)
                if isinstance(callee, k.Function) and callee.function is wanted and callee.receiver is None:
                    yield caller, call


def _may_call(call: ast.Call, function: FunctionInfo) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", None)
    return name == function.name


def _number_in(scope: Scope, argument: ast.expr) -> ast.expr | None:
    """Return the number that a tensor without dimensions is made of, where it can be written in its place."""
    made, place = argument, None
    if isinstance(argument, ast.Subscript) and isinstance(argument.slice, ast.Constant):
        made, place = argument.value, argument.slice.value
    if isinstance(made, ast.Name):
        if changed_in_place(scope, made.id, made) is not None:
            return None
        made = only_value(scope, made.id, argument) or made
    callee = scope.kind(made.func) if isinstance(made, ast.Call) else None
    if not isinstance(made, ast.Call) or len(made.args) != 1 or not isinstance(callee, k.External):
        return None
    number = made.args[0]
    if place is not None:
        items = number.elts if isinstance(number, ast.List | ast.Tuple) else []
        if not isinstance(place, int) or not 0 <= place < len(items):
            return None
        number = items[place]
    keeps = callee.name in _MAKERS and (place is not None or callee.name == "torch.tensor")
    return number if keeps and is_whole(scope.kind(number)) and _is_stable(scope, number) else None


def _is_stable(scope: Scope, number: ast.expr) -> bool:
    """Whether an expression gives the same wherever it stands in the function."""
    root = number
    while isinstance(root, ast.Attribute):
        root = root.value
    if isinstance(number, ast.Constant):
        return True
    texts = {ast.unparse(number), ast.unparse(root)}
    return isinstance(root, ast.Name) and not any(
        isinstance(one, ast.Name | ast.Attribute) and not isinstance(one.ctx, ast.Load) and ast.unparse(one) in texts
        for one in walk(scope.function.node)
    )


def _no_longer_made(scope: Scope, argument: ast.expr) -> Iterator[Replacement]:
    """Yield the deletion of the statement that makes the tensor, if nothing else reads it."""
    made = argument.value if isinstance(argument, ast.Subscript) else argument
    if isinstance(made, ast.Name) and list(loads(scope, made.id)) == [made]:
        value = only_value(scope, made.id, argument)
        statement = scope.parents.get(value) if value is not None else None
        if isinstance(statement, ast.Assign):
            yield from taken_out(scope, statement, "", "safe").replacements
