"""Tests that can have but one answer where they stand, so that nothing ever reaches the other side of the branch.

    if x.sum() > 0: ...             if x.max() > x.max(): ...
    elif x.mean() < 1: ...          if x.relu().mean() < 0: ...
    elif x.sum() > 0: ...           never

A side that no input reaches need not run for the proof of a rewrite.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from dynalint.analysis import kinds as k
from dynalint.analysis.index import walk_function
from dynalint.analysis.steps import remembered, step, walk
from dynalint.rules import Settled
from dynalint_rules._shared.bounds import never_holds, never_holds_of_floats
from dynalint_rules._shared.effects import is_pure
from dynalint_rules._shared.leaving import leaves_alone
from dynalint_rules._shared.names import is_named, runs_in_place
from dynalint_rules._shared.scope import Scope

_NEVER = (ast.Lt, ast.Gt)


@dataclass(frozen=True)
class Answer:
    """The answer that a test has for every input; `repeated` tells that it was asked before, and so raises nothing.

    `floats` are the tensors, quoted, that have to hold floats for it.
    """

    truth: bool
    repeated: bool
    floats: tuple[str, ...] = ()


def settled_tests(scope: Scope) -> tuple[Settled, ...]:
    """Return the tests of branches in the function of which the answer is known."""
    return remembered((settled_tests, scope.function), lambda: _settled_tests(scope))


def _settled_tests(scope: Scope) -> tuple[Settled, ...]:
    found = []
    for node in walk_function(scope.function.node):
        if isinstance(node, ast.If | ast.IfExp) and runs_in_place(scope, node):
            values = node.test.values if isinstance(node.test, ast.BoolOp) else []
            for test, place in ((node.test, node), *((value, value) for value in values)):
                answer = _answer(scope, test, dict(_known_at(scope, place)))
                if answer is not None:
                    found.append(Settled(scope.file, *scope.file.span(test), answer.truth))
    return tuple(found)


def answer_of(scope: Scope, node: ast.If | ast.IfExp) -> Answer | None:
    """Return the answer of the test of a branch, None where it is not known.

    It may be one of floats alone; that is no answer of `settled_tests`, which no condition goes with.
    """
    if not runs_in_place(scope, node):
        return None
    known = dict(_known_at(scope, node))
    return _answer(scope, node.test, known) or _answer(scope, node.test, known, presumes=True)


def _answer(scope: Scope, test: ast.expr, known: Mapping[str, bool], *, presumes: bool = False) -> Answer | None:
    """The answer of a test, given those of others by their dump; that of floats if it `presumes` such."""
    dumped = ast.dump(test)
    step(len(dumped) // 8)
    if (truth := known.get(dumped)) is not None:
        return Answer(truth, True)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _answer(scope, test.operand, known, presumes=presumes)
        return None if inner is None else replace(inner, truth=not inner.truth)
    if isinstance(test, ast.BoolOp) and is_pure(scope, test):
        return _joint_answer([_answer(scope, value, known, presumes=presumes) for value in test.values], test.op)
    if _compares_with_itself(scope, test) or never_holds(scope, test):
        return Answer(False, False)
    floats = never_holds_of_floats(scope, test) if presumes else None
    return None if floats is None else Answer(False, False, tuple(floats))


def _joint_answer(answers: Sequence[Answer | None], operator: ast.boolop) -> Answer | None:
    """The answer of `and` or `or`, given those of its operands, which are asked up to the first that decides."""
    asked = []
    for answer in answers:
        asked.append(answer)
        if answer is not None and answer.truth is isinstance(operator, ast.Or):
            return replace(answer, repeated=all(one is not None and one.repeated for one in asked))
    known = [answer for answer in answers if answer is not None]
    all_known = len(known) == len(answers)
    floats = tuple(one for answer in known for one in answer.floats)
    return Answer(known[-1].truth, all(one.repeated for one in known), floats) if all_known else None


def _compares_with_itself(scope: Scope, test: ast.expr) -> bool:
    """Whether a test asks whether a tensor is larger, or smaller, than itself: not even NaN is."""
    return (
        isinstance(test, ast.Compare)
        and len(test.ops) == 1
        and isinstance(test.ops[0], _NEVER)
        and scope.tensor(test.left) is not None
        and ast.dump(test.left) == ast.dump(test.comparators[0])
        and is_pure(scope, test.left)
    )


def _known_at(scope: Scope, node: ast.AST) -> Iterator[tuple[str, bool]]:
    """The answers that the tests around a place have had, those whose values have not changed since."""
    between: list[ast.AST] = []
    while node is not scope.function.node:
        parent = scope.parents[node]
        side = next((one for one in (_block(parent, "body"), _block(parent, "orelse")) if node in one), None)
        if isinstance(parent, ast.If | ast.IfExp) and side is not None:
            between += side[: side.index(node)]
            for test, truth in _parts(parent.test, node in _block(parent, "body")):
                if is_pure(scope, test) and _keeps(scope, between, test):
                    yield ast.dump(test), truth
            between.append(parent.test)
        elif isinstance(parent, ast.While) or (isinstance(parent, ast.stmt) and not isinstance(node, ast.expr)):
            between.append(parent)  # rounds, what `with` enters, and what was tried may all have changed something
        else:
            between += _operands_besides(parent, node)
        node = parent


def _operands_besides(parent: ast.AST, node: ast.AST) -> Iterator[ast.AST]:
    """Yield what may be evaluated before a part of an expression, or of a statement, that is none itself."""
    for one in ast.iter_child_nodes(parent):
        if one is not node and not isinstance(one, ast.stmt) and not isinstance(getattr(one, "ctx", None), ast.Store):
            yield one


def _block(parent: ast.AST, name: str) -> Sequence[ast.AST]:
    block = getattr(parent, name, None)
    return block if isinstance(block, list) else [block] if isinstance(block, ast.AST) else []


def _parts(test: ast.expr, truth: bool) -> Iterator[tuple[ast.expr, bool]]:
    """The tests that have an answer for certain where another one has the answer `truth`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _parts(test.operand, not truth)
    elif isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) is truth:
        yield from chain.from_iterable(_parts(value, truth) for value in test.values)
    else:
        yield test, truth


def _keeps(scope: Scope, nodes: Sequence[ast.AST], test: ast.expr) -> bool:
    """Whether a test has the same answer again after some statements and expressions have run."""
    asked = list(walk(test))
    of_self = any(isinstance(one, ast.Attribute) and is_named(one.value, "self") for one in asked)
    calls = [one for one in asked if isinstance(one, ast.Call)]
    # A function of the project may read names of where it was made.
    hidden = not all(isinstance(scope.kind(one.func), k.Method | k.External) for one in calls)
    between = [one for node in nodes for one in walk(node)] if of_self or hidden else []
    if of_self and any(isinstance(one, ast.Call) and isinstance(scope.kind(one.func), k.Object) for one in between):
        return False  # a hook of a layer may change what the module holds
    read = [one.id for one in (*asked, *(between if hidden else ())) if isinstance(one, ast.Name)]
    return leaves_alone(scope, nodes, set(read))
