"""Analyse the branches of an `if`: the chain of tests, the assignments, and the returned values."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from dynalint.rulekit import Refusal, k, walk
from dynalint_rules._code.effects import is_pure
from dynalint_rules._code.memory import is_own
from dynalint_rules._code.names import around, kind_of_name, loads
from dynalint_rules._code.raising import is_plain
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.branch.truth import is_tensor_test
from dynalint_rules._shared.text import LOOSE, held_together


@dataclass(frozen=True)
class Assignment:
    """An assignment `name = value`.

    An augmented assignment with `operator` stands for `name = name + written`, and the sum is `value`. If `place` is
    set, the assignment stands for `name[place] = written`, where `name` is the only name of a tensor, and `value`
    contains everything that it reads. If `item` is set, it stands for `name = written[item]`, which is `value`.
    """

    name: str
    value: ast.expr
    statement: ast.stmt
    operator: ast.operator | None = None
    place: ast.expr | None = None
    item: int | None = None

    @property
    def written(self) -> ast.expr:
        """The expression as written in the file."""
        if self.place is not None and isinstance(self.value, ast.Tuple):
            return self.value.elts[-1]
        if self.item is not None and isinstance(self.value, ast.Subscript):
            return self.value.value
        return self.value.right if self.operator is not None and isinstance(self.value, ast.BinOp) else self.value

    @property
    def parts(self) -> list[ast.expr]:
        """The expressions that the assignment evaluates."""
        return [self.written] if self.place is None else [self.place, self.written]


@dataclass(frozen=True)
class Block:
    """A path through the `if`: its assignments in order, and the returned value, or None if the path continues."""

    assignments: tuple[Assignment, ...]
    result: ast.expr | None
    statements: tuple[ast.stmt, ...]

    @property
    def values(self) -> list[ast.expr]:
        """The expressions that the path evaluates, in order."""
        values = [part for assignment in self.assignments for part in assignment.parts]
        return values if self.result is None else [*values, self.result]


@dataclass(frozen=True)
class Chain:
    """An `if` with its `elif`s: the `tests` in order, one more block than tests, and the chain's last statement.

    `head` is the statement with the first test. If `nested` is true, it is an `elif` of an outer `if` that stays
    unchanged, and `last` may follow that `if`.
    """

    head: ast.If
    tests: tuple[ast.expr, ...]
    blocks: tuple[Block, ...]
    last: ast.stmt
    nested: bool

    @property
    def returns(self) -> bool:
        """Whether every path returns."""
        return self.blocks[0].result is not None


def chain_of(scope: Scope, statement: ast.If) -> Chain:
    """Return the chain that a data-dependent `if` or `elif` belongs to.

    Raises:
        Refusal: If a branch contains anything other than assignments to names and a `return`.
    """
    head = head_of(scope, statement)
    tests, bodies = [head.test], [head.body]
    current = head
    while len(current.orelse) == 1 and isinstance(current.orelse[0], ast.If):
        below = current.orelse[0]
        if not is_tensor_test(scope, below.test):
            if not is_elif(scope, below):
                break
            raise Refusal(
                f"{scope.quote(below.test)} in an `elif` is not a tensor; test it first, in a separate `if` "
                "around this one"
            )
        current = below
        tests.append(current.test)
        bodies.append(current.body)
    bodies.append(current.orelse)
    return _chain(scope, head, tests, bodies)


def head_of(scope: Scope, statement: ast.If) -> ast.If:
    """Return the first `if` or `elif` in the chain of data-dependent tests that a statement belongs to."""
    head = statement
    while True:
        parent = scope.parents.get(head)
        if not (isinstance(parent, ast.If) and parent.orelse == [head] and is_tensor_test(scope, parent.test)):
            return head
        head = parent


def _chain(scope: Scope, head: ast.If, tests: list[ast.expr], bodies: list[list[ast.stmt]]) -> Chain:
    last: ast.stmt = head
    rest = _skipped(scope, head, bodies)
    if rest:
        bodies, last = [head.body[:-1], rest], rest[-1]
    outer = _outermost(scope, head)
    leaving = [isinstance(body[-1], ast.Return) if body else False for body in bodies]
    if any(leaving) and not leaving[-1] and not bodies[-1] and outer is not None:
        following = statements_after(scope, outer)[:1]
        if following and isinstance(following[0], ast.Return) and all(leaving[:-1]):
            bodies[-1] = following
            last = following[0]
            leaving[-1] = True
    blocks = tuple(block_of(scope, body, stores=True) for body in bodies)
    if len({block.result is None for block in blocks}) > 1 or (any(leaving) and not all(leaving)):
        raise Refusal(
            "one branch returns and the other continues; assign both results to the same variable and return "
            "it at the end"
        )
    return Chain(head, tuple(tests), blocks, last, is_elif(scope, head))


def _skipped(scope: Scope, head: ast.If, bodies: Sequence[list[ast.stmt]]) -> list[ast.stmt]:
    """Return the rest of an iteration if it is skipped by `if test: continue`, as the other branch of this test."""
    alone = len(bodies) == 2 and not head.orelse and isinstance(head.body[-1], ast.Continue)
    loop = scope.parents[head]
    return statements_after(scope, head) if alone and isinstance(loop, ast.For) and head in loop.body else []


def _outermost(scope: Scope, head: ast.If) -> ast.If | None:
    """Return the `if` with only this chain left if its earlier tests are false, or None if their branches continue."""
    while is_elif(scope, head):
        parent = scope.parents[head]
        if not isinstance(parent, ast.If) or not isinstance(parent.body[-1], ast.Return | ast.Raise):
            return None
        head = parent
    return head


def split_test(scope: Scope, statement: ast.If) -> tuple[str | None, ast.expr]:
    """Split `if flag and tensor:` into the text of the Python part, which stays an `if`, and the tensor part.

    The Python part is None if there is none, and for an `elif`, where it cannot be kept.
    """
    return (None, statement.test) if is_elif(scope, statement) else parts_of_test(scope, statement.test)


def parts_of_test(scope: Scope, test: ast.expr) -> tuple[str | None, ast.expr]:
    """Split `flag and tensor` into the text of the Python part, which is None if there is none, and the tensor part.

    Plain Python values after the tensor belong to the Python part, unless evaluating the tensor has an effect.
    """
    if not (isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And)):
        return None, test
    first = next((i for i, value in enumerate(test.values) if is_tensor_test(scope, value)), len(test.values))
    others = test.values[first:]
    late = [one for one in others if is_plain(one) and is_pure(scope, one) and not is_tensor_test(scope, one)]
    rest = [one for one in others if one not in late]
    if not all(is_pure(scope, one) for one in rest):
        late, rest = [], others
    python = [*test.values[:first], *late]
    if not python or not rest:
        return None, test
    tensors = rest[0] if len(rest) == 1 else ast.copy_location(ast.BoolOp(test.op, rest), rest[0])
    return _joined(scope, python), tensors


def _joined(scope: Scope, parts: Sequence[ast.expr]) -> str:
    """Return the text of a test that is true if all of `parts` are true."""
    texts = [scope.text(part) for part in parts]
    if len(texts) == 1:
        return held_together(texts[0])
    held = [isinstance(part, (ast.BoolOp, *LOOSE)) or "\n" in text for part, text in zip(parts, texts, strict=True)]
    return " and ".join(f"({text})" if loose else text for text, loose in zip(texts, held, strict=True))


def is_elif(scope: Scope, statement: ast.stmt) -> bool:
    """Return whether an `if` is written as `elif`."""
    return scope.file.segment(statement).startswith("elif")


def statements_after(scope: Scope, statement: ast.stmt) -> list[ast.stmt]:
    """Return the statements that follow a statement in its block."""
    return around(scope.parents, statement)[1]


def block_of(scope: Scope, body: Sequence[ast.stmt], *, stores: bool = False) -> Block:
    """Return a path through an `if`. If `stores` is true, it can also assign to elements of the function's own tensors.

    Raises:
        Refusal: If it contains anything other than assignments to names and a `return` with a value.
    """
    assignments: list[Assignment] = []
    result: ast.expr | None = None
    for statement in body:
        if isinstance(statement, ast.Return):
            if statement.value is None or (isinstance(statement.value, ast.Constant) and statement.value.value is None):
                raise Refusal(
                    "one branch returns None; return a tensor from both branches, or decide outside the compiled code"
                )
            result = statement.value
            break
        stored = _stored(scope, statement) if stores else None
        if stored is not None:
            assignments.append(stored)
        elif not does_nothing(scope, statement):
            assignments += _assignments(scope, statement)
    return Block(tuple(assignments), result, tuple(body))


def does_nothing(scope: Scope, statement: ast.stmt) -> bool:
    """Return whether a statement has no effect."""
    text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return text or isinstance(statement, ast.Pass)


def _assignments(scope: Scope, statement: ast.stmt) -> list[Assignment]:
    if isinstance(statement, ast.Assign) and all(isinstance(one, ast.Name) for one in statement.targets[1:]):
        target: ast.expr = statement.targets[0]
        if len(statement.targets) == 1 and isinstance(target, ast.Name):
            return [Assignment(target.id, statement.value, statement)]
        if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            return _one_by_one(scope, statement, target.elts, statement.value.elts)
        if isinstance(target, ast.Tuple) and len(statement.targets) == 1:
            return _unpacked(scope, statement, target.elts)
    elif isinstance(statement, ast.AugAssign | ast.AnnAssign) and isinstance(statement.target, ast.Name):
        name = statement.target.id
        if isinstance(statement, ast.AugAssign):
            return [Assignment(name, _sum(scope, name, statement), statement, statement.op)]
        if statement.value is not None:
            return [Assignment(name, statement.value, statement)]
    raise Refusal(_why_not(scope, statement))


def _stored(scope: Scope, statement: ast.stmt) -> Assignment | None:
    """Return `x[place] = value` as an assignment of a changed copy, or None unless the function created `x`."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    if not isinstance(statement, ast.Assign) or not isinstance(target, ast.Subscript):
        return None
    owner = target.value
    if not isinstance(owner, ast.Name) or scope.tensor(owner) is None or not is_own(scope, owner.id, statement):
        return None
    read = ast.copy_location(ast.Tuple([owner, target.slice, statement.value], ast.Load()), statement)
    scope.made[read] = scope.kind(owner)
    scope.composed.add(read)
    return Assignment(owner.id, read, statement, place=target.slice)


def _one_by_one(
    scope: Scope, statement: ast.Assign, targets: Sequence[ast.expr], values: Sequence[ast.expr]
) -> list[Assignment]:
    """Split `a, b = one, other` into separate assignments (see `assigns_at_once`)."""
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    starred = any(isinstance(value, ast.Starred) for value in values)
    if len(names) != len(targets) or len(names) != len(values) or len(set(names)) != len(names) or starred:
        raise Refusal(_why_not(scope, statement))
    return [Assignment(name, value, statement) for name, value in zip(names, values, strict=True)]


def _unpacked(scope: Scope, statement: ast.Assign, targets: Sequence[ast.expr]) -> list[Assignment]:
    """Split `least, _ = x.min(dim=1)` into an assignment for each name that other code reads."""
    value, kind = statement.value, scope.kind(statement.value)
    names = [one.id if isinstance(one, ast.Name) else "" for one in targets]
    read = [at for at, name in enumerate(names) if not name or any(loads(scope, name))]
    if not isinstance(value, ast.Call) or not read or not all(names) or len(set(names)) < len(names):
        raise Refusal(_why_not(scope, statement))
    items = kind.items if isinstance(kind, k.Sequence) else None
    known = items if items is not None and len(items) == len(targets) else (k.UNKNOWN,) * len(targets)
    found: list[Assignment] = []
    for at in read:
        item = ast.copy_location(ast.Subscript(value, ast.Constant(at), ast.Load()), value)
        scope.made[item] = known[at]
        scope.composed.add(item)
        found.append(Assignment(names[at], item, statement, item=at))
    return found


def assigns_at_once(block: Block) -> bool:
    """Return whether a statement in a block reads a name after assigning to it, given the order of its targets."""
    for one, other in itertools.combinations(block.assignments, 2):
        reads = (node for node in walk(other.value) if isinstance(node, ast.Name))
        together = one.statement is other.statement and one.item is None  # a call for several items runs only once
        if together and any(node.id == one.name for node in reads):
            return True
    return False


def _sum(scope: Scope, name: str, statement: ast.AugAssign) -> ast.expr:
    """Return the result of an augmented assignment as an expression."""
    old = ast.copy_location(ast.Name(name, ast.Load()), statement)
    result = ast.copy_location(ast.BinOp(old, statement.op, statement.value), statement)
    scope.made[old] = scope.made[result] = kind_of_name(scope, name, statement)
    return result


def _why_not(scope: Scope, statement: ast.stmt) -> str:
    """Return the reason why a statement cannot be in a branch that becomes an expression."""
    shown = scope.quote(statement)
    if isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        if any(isinstance(target, ast.Attribute) for target in targets):
            return f"a branch stores state, {shown}; compute the value with `torch.where` and store it on every call"
        if any(isinstance(target, ast.Subscript) for target in targets):
            return f"a branch modifies something in place, {shown}; compute the new value with `torch.where` instead"
        return f"a branch assigns to more than one target at once, {shown}; assign them one by one"
    if isinstance(statement, ast.Raise):
        return "a branch raises an exception; check with `torch._assert_async` in a separate statement"
    if isinstance(statement, ast.Break):
        return "a branch leaves the loop; run a fixed number of iterations and use `torch.where` with a `done` mask"
    if isinstance(statement, ast.Continue):
        return (
            "a branch continues with the next iteration; always compute the rest of the iteration and select "
            "with `torch.where`"
        )
    if isinstance(statement, ast.If):
        if is_tensor_test(scope, statement.test):
            return f"a branch contains another `if`, on {scope.quote(statement.test)}; rewrite that `if` first"
        return f"a branch contains an `if` on the Python value {scope.quote(statement.test)}; move it before this test"
    if isinstance(statement, ast.For | ast.While | ast.With | ast.Try | ast.AsyncFor | ast.AsyncWith | ast.Match):
        keyword = type(statement).__name__.lower().removeprefix("async")
        return f"a branch contains a `{keyword}` statement; move the branch into a function that returns a tensor"
    if isinstance(statement, ast.Expr):
        return (
            f"a branch runs {shown} for its side effect, which must not happen when the other branch is taken; "
            "move it out of the branch"
        )
    return f"a branch contains {shown}, which is more than an assignment; select with `torch.where` instead"
