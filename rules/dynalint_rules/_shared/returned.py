"""What a function has returned in the middle of statements that run on: a result that may be there, and a mask for it.

    for layer in self.layers:            returned = torch.zeros((), dtype=torch.bool, device=x.device)
        x = layer(x)                     early = None
        if x.max() > 9:                  for layer in self.layers:
            return x / 2                     x = layer(x)
    return x                                 condition = ~returned & (x.max() > 9)
                                             result = x / 2
                                             early = result if early is None else torch.where(returned, early, result)
                                             returned = returned | condition
                                         if early is None:
                                             return x
                                         return torch.where(returned, early, x)

The mask is a tensor from the beginning on. Whether there is a result at all is no question of data: a Python value
decides, or how many rounds a loop has.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dynalint.analysis import kinds as k
from dynalint.analysis.index import walk_function
from dynalint.analysis.steps import walk
from dynalint.rules import Replacement
from dynalint_rules._shared.blocks import statements_after
from dynalint_rules._shared.effects import effects_of
from dynalint_rules._shared.liveness import has_rounds
from dynalint_rules._shared.memory import makes_tensor
from dynalint_rules._shared.names import is_bound_before, kind_before, kind_of_name, loads, sets, within
from dynalint_rules._shared.scope import Refusal, Scope, as_tensor
from dynalint_rules._shared.sides import refuse_changed_alias
from dynalint_rules._shared.text import atom, indentation
from dynalint_rules._shared.truth import is_tensor_test
from dynalint_rules._shared.uncompiled import is_uncompiled

UNROLLED = frozenset({"builtins.range", "builtins.enumerate", "builtins.zip", "builtins.reversed"})
_DEPTHS = "the function returns at several depths; give it one result under a name and return that"


@dataclass(frozen=True)
class Place:
    """Where a branch that returns stands: `anchor` is the outermost statement around it, `after` what may run then.

    `looped` tells that one of the rounds of a loop is meant.
    """

    anchor: ast.stmt
    after: list[ast.stmt]
    looped: bool


@dataclass
class Returned:
    """The result of a branch that returns on some ways: the names of its parts, and of the mask.

    `mask` is None until it has one. An `open` result may be missing, and has both from the beginning on.
    """

    parts: list[str] = field(default_factory=list)
    mask: str | None = None
    open: bool = False


def stands_in_branches(scope: Scope, statement: ast.stmt) -> bool:
    """Whether nothing but tests of Python values stand around a statement: a block that returns leads nowhere else."""
    node = scope.parents.get(statement)
    while isinstance(node, ast.If) and not is_tensor_test(scope, node.test):
        node = scope.parents.get(node)
    return node is scope.function.node


def always_returns(statements: Sequence[ast.stmt]) -> bool:
    """Whether every way through statements ends in a `return`."""
    last = statements[-1]
    if isinstance(last, ast.If):
        return bool(last.orelse) and always_returns(last.body) and always_returns(last.orelse)
    return isinstance(last, ast.Return)


def returns_of(node: ast.AST) -> list[ast.Return]:
    """Return the `return` statements of a statement, those of functions in it left out."""
    return [one for one in walk_function(node) if isinstance(one, ast.Return)]


def returns_openly(scope: Scope, head: ast.If) -> bool:
    """Whether a loop or a test of a Python value decides as well whether a branch on a tensor returns."""
    returns = _compiled_returns(scope, head)
    if any(_is_uneven(scope, one, head) for one in returns):
        return True
    after = statements_after(scope, head)
    follows = stands_in_branches(scope, head) and bool(after) and always_returns(after)
    return bool(returns) and not always_returns([head]) and not follows


def _compiled_returns(scope: Scope, head: ast.If) -> list[ast.Return]:
    """Return the `return` statements that a compiled run may come to: the others stay as they are written."""
    branches = [node for node in walk_function(head) if isinstance(node, ast.If)]
    blocks = [(branch, block) for branch in branches for block in (branch.body, branch.orelse) if block]
    kept = [one for branch, block in blocks if is_uncompiled(scope, branch, block) for one in block]
    return [one for one in returns_of(head) if not any(within(one, block, scope) for block in kept)]


def _is_uneven(scope: Scope, node: ast.AST, head: ast.If) -> bool:
    while node is not head:
        node = scope.parents[node]
        if isinstance(node, ast.For) and not ends_at_once(scope, node):
            return True
        if isinstance(node, ast.If) and (
            not is_tensor_test(scope, node.test)
            or (isinstance(node.test, ast.BoolOp) and not all(is_tensor_test(scope, one) for one in node.test.values))
        ):
            return True
    return False


def ends_at_once(scope: Scope, loop: ast.For) -> bool:
    """Whether a loop has a first round, for certain, that returns whatever happens, and is its body then."""
    jumps = any(isinstance(node, ast.Break | ast.Continue) for one in loop.body for node in walk_function(one))
    targets = [node.id for node in walk(loop.target) if isinstance(node, ast.Name)]
    asked = any(True for name in targets for _ in loads(scope, name))
    plain = isinstance(loop.target, ast.Name) and is_range(scope, loop.iter)
    return plain and has_rounds(loop.iter) and always_returns(loop.body) and not (jumps or asked)


def is_range(scope: Scope, rounds: ast.expr) -> bool:
    """Whether an expression calls the builtin `range`."""
    kind = scope.kind(rounds.func) if isinstance(rounds, ast.Call) else None
    return isinstance(kind, k.External) and kind.name == "builtins.range"


def place_of(scope: Scope, head: ast.If) -> Place:
    """Return where a branch stands, of which a way returns.

    Raises:
        Refusal: what stands around it may not run on, or leads to no result.
    """
    function = scope.function.node
    around = list(_around(scope, head))
    loops = [node for node in around if isinstance(node, ast.For)]
    after: list[ast.stmt] = []
    inner: ast.stmt = head
    for node in around:
        after += _reached(scope, inner, node, again=any(within(node, loop, scope) for loop in loops))
        inner = node
    after += statements_after(scope, inner)
    if isinstance(function, ast.Lambda) or not always_returns(function.body):
        raise Refusal(_DEPTHS)
    for loop in loops:
        _check_loop(scope, loop)
    return Place(around[-1] if around else head, after, bool(loops))


def _around(scope: Scope, head: ast.If) -> Iterator[ast.stmt]:
    """Yield the statements around a branch, none of which may be more than a loop or a test of a Python value."""
    node = scope.parents[head]
    while node is not scope.function.node:
        if not isinstance(node, ast.For | ast.If) or (isinstance(node, ast.If) and is_tensor_test(scope, node.test)):
            raise Refusal(_DEPTHS)
        yield node
        node = scope.parents[node]


def _reached(scope: Scope, inner: ast.stmt, outer: ast.AST, *, again: bool) -> list[ast.stmt]:
    """Return what may run after `inner` of the blocks of what is around it, of all of them in another round."""
    if not again:
        return statements_after(scope, inner)
    blocks = [getattr(outer, name, []) for name in ("body", "orelse")]
    return [one for block in blocks for one in block if one is not inner]


def _check_loop(scope: Scope, loop: ast.For) -> None:
    """Make sure that the rounds of a loop may run on."""
    if loop.orelse or not has_known_rounds(scope, loop):
        raise Refusal(f"{scope.quote(loop.iter)} may have other rounds in other calls; return after the loop")
    tests = [node.test for node in walk(loop) if isinstance(node, ast.If) and not is_tensor_test(scope, node.test)]
    effects_of(scope, [loop.iter, *tests])


def has_known_rounds(scope: Scope, loop: ast.For) -> bool:
    """Whether a loop goes through what has as many elements in every call that is traced once."""
    rounds = scope.kind(loop.iter.func) if isinstance(loop.iter, ast.Call) else scope.kind(loop.iter)
    known = isinstance(rounds, k.Sequence | k.Object | k.Instance)
    return known or (isinstance(rounds, k.External) and rounds.name in UNROLLED)


def opened(scope: Scope, anchor: ast.stmt, returned: Returned) -> tuple[list[str], list[str]]:
    """Return the lines before `anchor` that say that there is no result so far, and the conditions of their working.

    Raises:
        Refusal: no name is known to hold a tensor there, whose device the mask could have.
    """
    name, conditions = _tensor_before(scope, anchor)
    made = f"{scope.torch}.zeros((), dtype={scope.torch}.bool, device={name}.device)"
    return [f"{returned.mask} = {made}", *(f"{part} = None" for part in returned.parts)], conditions


def insertion(scope: Scope, anchor: ast.stmt, lines: Sequence[str]) -> Replacement:
    """Return the change that puts lines before a statement."""
    step = f"{scope.file.newline}{indentation(scope.file, anchor.lineno)}"
    start = scope.file.span(anchor)[0]
    return Replacement(scope.file, start, start, "".join(f"{line}{step}" for line in lines))


def _tensor_before(scope: Scope, anchor: ast.stmt) -> tuple[str, list[str]]:
    """Return a name that is a tensor where a statement begins, and the conditions of that."""
    names = dict.fromkeys(node.id for node in walk(anchor) if isinstance(node, ast.Name))
    bound = [name for name in names if name in scope.function.locals and is_bound_before(scope, name, anchor)]
    for name in bound:
        stays = not any(sets(one, name) for one in [anchor, *statements_after(scope, anchor)])
        if as_tensor(kind_of_name(scope, name, anchor) if stays else kind_before(scope, name, anchor)) is not None:
            return name, []
    for name in bound:
        if _is_given(scope, name, anchor):
            return name, [f"`{name}` is a tensor"]
    raise Refusal(_DEPTHS)


def _is_given(scope: Scope, name: str, anchor: ast.stmt) -> bool:
    """Whether a name is a parameter that every call gives, which nothing has set yet where a statement begins."""
    arguments = scope.function.node.args
    given = {one.arg for one in [*arguments.posonlyargs, *arguments.args]} - scope.function.defaults.keys()
    used = [node for node in walk(scope.function.node) if isinstance(node, ast.Name) and node.id == name]
    first = min((node for node in used if isinstance(node.ctx, ast.Load)), key=lambda node: node.lineno, default=None)
    early = any(not isinstance(node.ctx, ast.Load) and node.lineno < anchor.lineno for node in used)
    return name in given and first is not None and not early and isinstance(scope.kind(first), k.Unknown | k.Tensor)


def lasting(scope: Scope, part: ast.expr, text: str, head: ast.stmt) -> str:
    """Return the text of a part of an early result, as a copy where what follows changes in place what it reads.

    Raises:
        Refusal: what it reads is changed, and it is not known to be a tensor.
    """
    if makes_tensor(scope, part):
        return text
    names = {node.id for node in walk(part) if isinstance(node, ast.Name)} & scope.function.locals
    try:
        for name in sorted(names):
            refuse_changed_alias(scope, name, head)
    except Refusal:
        if scope.tensor(part) is None:
            raise
        return f"{atom(part, text)}.clone()"
    return text
