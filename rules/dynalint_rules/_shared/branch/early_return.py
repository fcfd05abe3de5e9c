"""Rewrite an early return that depends on a tensor, so that the code after it always runs.

Each `return` then selects between the early result and its own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from dynalint.rulekit import Refusal, Rewrite, rw, walk, walk_function
from dynalint_rules._code.calls import callee
from dynalint_rules._code.effects import effects_of, effects_of_always, refuse_lasting_effects
from dynalint_rules._code.memory import makes_tensor
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.branch.blocks import Block, Chain, block_of, is_elif, statements_after
from dynalint_rules._shared.branch.branch_values import (
    FINITE,
    NO_RAISE,
    SAME_FORM,
    BranchValue,
    alias_conditions,
    reads_of,
    refuse_changed_alias,
)
from dynalint_rules._shared.branch.choice import (
    GUARD_ORDERS,
    TITLE,
    escaped,
    finished,
    guarded,
    refuse_other_sizes,
    rendered,
    require_tensors,
    without_zeros,
)
from dynalint_rules._shared.branch.counted import is_harmless_if_empty, needs_no_test
from dynalint_rules._shared.branch.domain import MOST_GUARDS, Guarded, guarded_apart
from dynalint_rules._shared.branch.not_finite import gradients_of_both
from dynalint_rules._shared.branch.selected_names import plan_of
from dynalint_rules._shared.branch.truth import is_tensor_test, truth_of
from dynalint_rules._shared.text import atom, held_together, inlined

# A `return` in one of these leaves more than the function, or the statement may raise.
_OPAQUE = (
    ast.Try, ast.With, ast.AsyncWith, ast.AsyncFor, ast.While, ast.Match, ast.FunctionDef, ast.AsyncFunctionDef,
    ast.ClassDef,
)  # fmt: skip


# Calls that break the graph, so that little would be gained if the code around them always ran.
_READING = frozenset({"Tensor.item", "Tensor.tolist", "Tensor.numpy", "Tensor.nonzero", "torch.nonzero"})


def rewrite_early_return(scope: Scope, statement: ast.If) -> Rewrite | None:
    """Return the rewrite of an `if` with one branch that returns and one that continues, or None for any other `if`."""
    returning, going_on = statement.body, statement.orelse
    if not isinstance(returning[-1], ast.Return):
        returning, going_on = going_on, returning
    after = statements_after(scope, statement)
    following = [*going_on, *after]
    if not returning or not isinstance(returning[-1], ast.Return) or not after or not always_returns(after):
        return None
    if not stands_in_branches(scope, statement) or any(map(partial(is_elif, scope), statement.orelse)):
        return None
    if isinstance(following[0], ast.Return) or (going_on and isinstance(going_on[-1], ast.Return)):
        return None
    return _EarlyReturn(scope, statement, returning, going_on, after).rewrite()


def check_rest(scope: Scope, statement: ast.If, rest: list[ast.stmt]) -> None:
    """Ensure that statements can always run, regardless of the outcome of tests before or around them.

    Raises:
        Refusal: If the statements have side effects, may raise, or contain a data-dependent test.
    """
    _EarlyReturn(scope, statement, [], [], rest).check_following()


@dataclass
class _EarlyReturn:
    """The `if`, with its `returning` branch, its `other` branch, and the code `after` it up to the function's end.

    `condition` is a name whose value is true if the early result is selected.
    """

    scope: Scope
    statement: ast.If
    returning: list[ast.stmt]
    going_on: list[ast.stmt]
    after: list[ast.stmt]
    conditions: list[str] = field(default_factory=list)
    condition: str = ""

    @property
    def following(self) -> list[ast.stmt]:
        """The code that runs unless the early result is selected."""
        return [*self.going_on, *self.after]

    def rewrite(self) -> Rewrite:
        block = block_of(self.scope, self.returning)
        layers = effects_of_always(self.scope, block.values, self.statement).layers | self.check_following()
        lines, early = self._head(block)
        changes = self.follow(block.values, block.result, early, layers)
        for name in (self.condition, *early):
            if not any(name in str(change) for _, change in changes):
                lines = [line for line in lines if not line.startswith(f"{name} = ")]
        lines, changes = self._inlined(lines, changes)
        edits = rw.written(self.scope.file, (self.statement, [*lines, *self.going_on]), *changes)
        return finished(self.scope, TITLE, edits, self.conditions)

    def _inlined(self, lines: list[str], changes: list[rw.Change]) -> tuple[list[str], list[rw.Change]]:
        """Write a short test where it is used if that is in one place, and it can be asked there."""
        stated = [line for line in lines if line.startswith(f"{self.condition} = ")]
        if not stated or not self._can_wait(self.statement.test, set(_stored(self.following))):
            return lines, changes
        rest = [line for line in lines if line not in stated]
        texts = inlined(stated[0], [*rest, *(str(new) for _, new in changes)])
        if texts is None:
            return lines, changes
        found = zip(changes, texts[len(rest) :], strict=True)
        return texts[: len(rest)], [(node, text if isinstance(new, str) else new) for (node, new), text in found]

    def follow(
        self, values: Sequence[ast.expr], result: ast.expr | None, early: list[str], layers: dict[str, None]
    ) -> list[rw.Change]:
        """Return the changes after the `if`.

        `values` are the expressions in the returning branch, and `result` is the last of them.
        """
        later = [node for one in self.following for node in returns_of(one)]
        changes: list[rw.Change] = []
        inside = {id(node) for one in self.going_on for node in walk(one)}
        for one in later:
            if id(one) in inside:
                raise Refusal(
                    "the function returns at more than one nesting level; assign a single result to a variable "
                    "and return that"
                )
            if one.value is None or result is None:
                raise Refusal(
                    "one branch returns None; return a tensor from both branches, or decide outside the function"
                )
            choice = self._choice(one, one.value, result, early)
            changes.append((one.value, choice))
        changes += self._guarded(later)
        branches = [self._reads(expressions) for expressions in (values, list(_expressions(self.following)))]
        self.conditions += gradients_of_both(self.scope, [self.statement.test], branches, layers, self.statement)
        return changes

    def check_following(self) -> dict[str, None]:
        """Ensure that the following code can always run, and return the layers that it calls."""
        scope = self.scope
        for node in (node for one in self.following for node in walk_function(one)):
            if isinstance(node, _OPAQUE):
                raise Refusal(
                    f"{scope.quote(node)} follows the early return and would always run; assign both results to "
                    "the same variable and return it at the end"
                )
            if isinstance(node, ast.Raise | ast.Assert):
                raise Refusal(
                    f"{scope.quote(node)} follows the early return and might raise an exception where it did "
                    "not run before; check before the early return"
                )
            if isinstance(node, ast.If | ast.IfExp) and is_tensor_test(scope, node.test):
                raise Refusal(
                    f"{scope.quote(node.test)} after the early return is a separate test; rewrite that test first"
                )
            if isinstance(node, ast.Call) and callee(scope, node) in _READING:
                raise Refusal(
                    f"{scope.quote(node)} after the early return breaks the graph as well, and would always run; "
                    "rewrite it first"
                )
        refuse_lasting_effects(scope, self.following, "the code after the early return")
        return effects_of(scope, list(_expressions(self.following))).layers

    def _head(self, block: Block) -> tuple[list[str], list[str]]:
        """Return the lines that replace the `if` and its returning branch, and each part of the early result."""
        scope = self.scope
        truth = truth_of(scope, self.statement.test)
        truth = truth if self.returning is self.statement.body else truth.negated
        self.conditions += truth.selecting_conditions
        lines: list[str] = []
        self.condition = truth.without_dimensions
        stored = set(_stored(self.following)) | {one.name for one in block.assignments}
        chain = Chain(self.statement, (self.statement.test,), (block, Block((), None, ())), self.statement, False)
        plan = plan_of(scope, chain)
        if not self.condition.isidentifier() or self.condition in stored:
            self.condition = scope.fresh_name("condition", plan.temporaries.values())
            lines.append(f"{self.condition} = {held_together(truth.without_dimensions)}")
        guards = [guarded for value in block.values for guarded in guarded_apart(scope, value)]
        texts = {value: self._rendered(value, guards, GUARD_ORDERS[0]) for value in block.values}
        for one in block.assignments:
            if one.operator is not None:
                raise Refusal(f"{scope.quote(one.statement)} works in place; write it as an assignment first")
            lines.append(f"{plan.temporaries[one.value]} = {held_together(texts[one.value])}")
        early: list[str] = []
        for part in parts_of(block.result):
            text = lasting(scope, part, self._rendered(part, guards, GUARD_ORDERS[0]), self.statement)
            if not (text.isidentifier() and text not in stored) and not self._can_wait(part, stored):
                name = scope.fresh_name("early", [*early, *plan.temporaries.values()])
                lines.append(f"{name} = {held_together(text)}")
                text = name
            early.append(text)
        return lines, early

    def _can_wait(self, part: ast.expr, stored: set[str]) -> bool:
        """Return whether part of the early result is the same if the `return` that selects it computes it."""
        names = {node.id for node in walk(part) if isinstance(node, ast.Name)}
        if names & stored or sum(len(returns_of(one)) for one in self.following) > 1:
            return False
        try:
            for name in sorted(names & self.scope.function.locals):
                refuse_changed_alias(self.scope, name, self.statement)
        except Refusal:
            return False
        return True

    def _choice(self, later: ast.Return, value: ast.expr, first: ast.expr, early: list[str]) -> str:
        """Return the value of a later `return`, which selects between its own value and the early result."""
        scope = self.scope
        ones, others = parts_of(first), parts_of(value)
        if len(ones) != len(others) or isinstance(first, ast.Tuple) is not isinstance(value, ast.Tuple):
            raise Refusal(
                f"{scope.quote(later)} does not return the same structure as the early return; make both the same"
            )
        guards = self._guards_after(value)
        texts = []
        stored = set(_stored(self.following))
        for one, other, text in zip(ones, others, early, strict=True):
            if isinstance(other, ast.Name) and other.id == text and text not in stored:
                texts.append(text)
                continue
            value_then = self._rendered(other, guards, GUARD_ORDERS[1])
            early_first = self.returning is self.statement.body
            found = needs_no_test(scope, self.statement.test, (one, other) if early_first else (other, one))
            if found is not None and found[0] == int(early_first):
                self.conditions.append(found[1])
                texts.append(value_then)
                continue
            sides = [BranchValue(one, scope.kind(one)), BranchValue(other, scope.kind(other))]
            self.conditions += require_tensors(scope, sides)
            refuse_other_sizes(scope, sides)
            self.conditions += [SAME_FORM, NO_RAISE, FINITE]
            self.conditions += alias_conditions(scope, sides[:1], None, self.statement)
            self.conditions += alias_conditions(scope, sides[1:], None, later)
            chosen = ", ".join(without_zeros(scope, (one, other), (text, value_then)))
            texts.append(f"{scope.torch}.where({self.condition}, {chosen})")
        return ", ".join(texts) + ("," if isinstance(value, ast.Tuple) and len(texts) == 1 else "")

    def _guards_after(self, expression: ast.expr) -> list[Guarded]:
        """Return the operands after the early return that must be harmless if the early result is selected."""
        found = guarded_apart(self.scope, expression)
        test, taken = self.statement.test, self.returning is not self.statement.body
        return [one for one in found if not is_harmless_if_empty(self.scope, one.node, one.safe, test, taken=taken)]

    def _guarded(self, later: Sequence[ast.Return]) -> Iterator[rw.Change]:
        """Yield the changes to operands in the following code that must be harmless if the early result is selected."""
        scope = self.scope
        values = {result.value for result in later}
        if any(map(self._guards_after, _expressions(self.going_on))):
            raise Refusal(
                "the code that follows the early return is not defined for all inputs; protect its arguments first"
            )
        repeated = 0
        for expression in _expressions(self.after):
            guards = [] if expression in values else self._guards_after(expression)
            inner = {node for one in guards for node in walk(one.node) if node is not one.node}
            for one in guards:
                if one.node not in inner:  # an inner operand is rewritten with the operand around it
                    repeated += not one.least
                    if repeated > MOST_GUARDS:
                        raise Refusal(
                            f"more than {MOST_GUARDS} operations that follow the early return are not defined for all "
                            "inputs; protect their arguments first"
                        )
                    yield one.node, guarded(scope, one, guards, self._guard(GUARD_ORDERS[1]))

    def _reads(self, values: Sequence[ast.expr]) -> set[str]:
        """Return the tensors that have gradients, existed before the test, and are read by the given expressions."""
        scope = self.scope
        found = set().union(
            *(reads_of(scope, BranchValue(value, scope.kind(value)), self.statement) for value in values)
        )
        return found - set(_stored(self.following)) - set(_stored(self.returning))

    def _rendered(self, node: ast.expr, guards: Sequence[Guarded], order: str) -> str:
        return rendered(self.scope, node, guards, self._guard(order))

    def _guard(self, order: str) -> str:
        return f"{self.scope.torch}.where({escaped(self.condition)}, {order})"


def parts_of(value: ast.expr | None) -> list[ast.expr]:
    """Return the elements of a tuple literal, or the value itself if it is not one."""
    return [] if value is None else list(value.elts) if isinstance(value, ast.Tuple) else [value]


def _expressions(statements: Sequence[ast.stmt]) -> Iterator[ast.expr]:
    """Yield the expressions that statements evaluate, including expressions in nested statements."""
    for statement in statements:
        for child in ast.iter_child_nodes(statement):
            if isinstance(child, ast.expr):
                yield child
        for block in ("body", "orelse"):
            yield from _expressions(getattr(statement, block, []))


def _stored(statements: Sequence[ast.stmt]) -> Iterator[str]:
    for statement in statements:
        for node in walk_function(statement):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                yield node.id


def stands_in_branches(scope: Scope, statement: ast.stmt) -> bool:
    """Return whether all blocks around a statement are branches that depend only on Python values."""
    node = scope.parents.get(statement)
    while isinstance(node, ast.If) and not is_tensor_test(scope, node.test):
        node = scope.parents.get(node)
    return node is scope.function.node


def always_returns(statements: Sequence[ast.stmt]) -> bool:
    """Return whether every path through the statements ends in a `return`."""
    last = statements[-1]
    if isinstance(last, ast.If):
        return bool(last.orelse) and always_returns(last.body) and always_returns(last.orelse)
    return isinstance(last, ast.Return)


def returns_of(node: ast.AST) -> list[ast.Return]:
    """Return the `return` statements in a statement, without those in nested functions."""
    return [one for one in walk_function(node) if isinstance(one, ast.Return)]


def lasting(scope: Scope, part: ast.expr, text: str, head: ast.stmt) -> str:
    """Return the text of part of an early result, as a copy if later code changes what it reads in place.

    Raises:
        Refusal: If what it reads is changed, and is not known to be a tensor.
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
