"""Arrays of sizes that callers work out with NumPy and hand to a function that takes sizes out of them: lists do.

shape = np.array(image.shape[2:])               shape = list(image.shape[2:])
halves = [(shape + 1) // n for n in (2, 4)]     halves = [[(size + 1) // n for size in shape] for n in (2, 4)]
grid(halves[0])                                 grid(halves[0])
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

from dynalint.analysis import kinds as k
from dynalint.findings import Safety
from dynalint.rules import Replacement, Rewrite
from dynalint_rules._shared.handed_numbers import calls_of, is_parameter_only_read
from dynalint_rules._shared.handover import argument_for
from dynalint_rules._shared.known_numbers import is_whole
from dynalint_rules._shared.names import loads, only_value
from dynalint_rules._shared.number_arrays import array_under, is_plain_number, listed
from dynalint_rules._shared.scope import Scope

_SAME = (ast.Add, ast.Sub, ast.Mult)
_DIVIDING = (ast.FloorDiv, ast.Mod)


def handed_as_list(scope: Scope, number: ast.expr) -> Rewrite | None:
    """Return the rewrite of the callers that hand on the array of which `number` is an element, None if unknown.

    Raises:
        Refusal: a name that the new code needs means something else.
    """
    if not isinstance(number, ast.Subscript) or not isinstance(number.value, ast.Name):
        return None
    name = number.value.id
    if not is_parameter_only_read(scope, name, partial(_gives_size, scope)):
        return None
    found: list[Rewrite] = []
    for caller, call in calls_of(scope):
        argument = argument_for(scope.function, call, name)
        if argument is None or k.only_tensor(caller.kind(argument)) is None:
            continue
        rewrite = _as_list(caller, argument)
        if rewrite is None:
            return None
        found.append(rewrite)
    edits = {(edit.start, edit.end): edit for one in found for edit in one.replacements}
    conditions = tuple(dict.fromkeys(condition for one in found for condition in one.conditions))
    safety: Safety = "conditional" if conditions else "safe"
    return Rewrite(found[0].title, safety, tuple(edits.values()), conditions) if found else None


def _gives_size(scope: Scope, array: ast.Name) -> bool:
    """Whether an array is asked for an element here that is used as a size."""
    element = scope.parents[array]
    if not isinstance(element, ast.Subscript) or element.value is not array or not isinstance(element.ctx, ast.Load):
        return False
    return is_whole(scope.kind(element.slice)) and is_plain_number(scope, element)


def _as_list(caller: Scope, argument: ast.expr) -> Rewrite | None:
    """Have a caller compute with the numbers one by one: the argument is one of a list of arrays."""
    if not isinstance(argument, ast.Subscript) or not isinstance(argument.value, ast.Name):
        return None
    computed = only_value(caller, argument.value.id, argument)
    if not isinstance(computed, ast.ListComp) or list(loads(caller, argument.value.id)) != [argument.value]:
        return None
    leaves, conditions = [], []
    for leaf in _leaves(computed.elt):
        if isinstance(leaf, ast.BinOp):
            conditions.append(f"{caller.quote(leaf.right)} is not zero")
        elif not is_whole(caller.kind(leaf)):
            leaves.append(leaf)
    if len(leaves) != 1 or not isinstance(leaves[0], ast.Name):
        return None
    array = leaves[0]
    made = array_under(caller, array)
    rewrite = listed(caller, made, besides=array) if made is not None else None
    if rewrite is None:
        return None
    size = caller.fresh_name("size")
    start, end = caller.file.span(computed.elt)
    left, right = caller.file.span(array)
    text = f"[{caller.file.text[start:left]}{size}{caller.file.text[right:end]} for {size} in {array.id}]"
    if caller.file.text[start - 1] + caller.file.text[end] == "()":
        start, end = start - 1, end + 1
    edits = (*rewrite.replacements, Replacement(caller.file, start, end, text))
    return Rewrite(rewrite.title, rewrite.safety, edits, (*rewrite.conditions, *conditions))


def _leaves(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the operands of whole-number arithmetic, and the divisions in it."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (*_SAME, *_DIVIDING)):
        if isinstance(node.op, _DIVIDING):
            yield node
        yield from _leaves(node.left)
        yield from _leaves(node.right)
    else:
        yield node
