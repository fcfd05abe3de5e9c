"""Which names of the branches are chosen between, and which are only on the way to them."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from dynalint.rulekit import Refusal, walk
from dynalint_rules._code.liveness import is_dead_after
from dynalint_rules._code.names import is_shared, names
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.branch.blocks import Assignment, Block, Chain, assigns_at_once

Row = tuple[str, list[Assignment | None]]
"""A name, and what each block gives it; None for a block that leaves it alone."""


@dataclass
class Plan:
    """What becomes of the assignments of a chain.

    `rows` are the names to be chosen, in an order that keeps that of every block. `temporaries` are the values that are
    computed whatever the test says, with the name that each is given. With `late`, every value is one of them, and all
    are computed before the first choice.
    """

    rows: list[Row] = field(default_factory=list)
    temporaries: dict[ast.expr, str] = field(default_factory=dict)
    late: bool = False


def plan_of(scope: Scope, chain: Chain) -> Plan:
    """Return the plan for a chain. Reads of names that get another one are noted in `scope.renamed`.

    Raises:
        Refusal: a name means several things in one block.
    """
    plan = Plan(late=any(map(assigns_at_once, chain.blocks)) or not _in_one_order(scope, chain))
    everywhere = set.intersection(*({one.name for one in block.assignments} for block in chain.blocks))
    blocks = [_sort_out(scope, chain, block, everywhere, plan) for block in chain.blocks]
    for name in _order(blocks):
        plan.rows.append((name, [next((one for one in block if one.name == name), None) for block in blocks]))
    return plan


def _order(blocks: Sequence[Sequence[Assignment]]) -> list[str]:
    return list(dict.fromkeys(one.name for block in sorted(blocks, key=len, reverse=True) for one in block))


def _in_one_order(scope: Scope, chain: Chain) -> bool:
    """Whether the names can be chosen one after the other as the blocks assign them."""
    blocks = []
    for block in chain.blocks:
        last = {one.name: one for one in block.assignments if not _is_temporary(scope, one, block)}
        blocks.append([one for one in block.assignments if last.get(one.name) is one])
    order = _order(blocks)
    names = [[one.name for one in block] for block in blocks]
    return all(block == [name for name in order if name in block] for block in names)


def _sort_out(scope: Scope, chain: Chain, block: Block, everywhere: set[str], plan: Plan) -> list[Assignment]:
    """Enter the temporaries of a block into the plan and return the other assignments.

    All values of a name but the last are temporary, and so is what nobody reads behind the chain. Such a name gets
    another one, since its own must keep its value for the other blocks.
    """
    last = {one.name: one for one in block.assignments}
    current: dict[str, str] = {}
    chosen: list[Assignment] = []
    for _, group in itertools.groupby(block.assignments, key=lambda one: one.statement):
        assignments = list(group)
        for assignment in assignments:
            _rename_reads(scope, assignment.value, current)
        for assignment in assignments:
            unread = chain.returns and assignment.name not in everywhere
            unread = unread or _is_unread(scope, assignment.name, chain)
            if _is_temporary(scope, assignment, block) and not plan.late:
                plan.temporaries[assignment.value] = assignment.name
                continue
            if last[assignment.name] is assignment and not unread:
                chosen.append(assignment)
                if not plan.late:
                    current.pop(assignment.name, None)
                    continue
            name = scope.fresh_name(assignment.name, plan.temporaries.values())
            plan.temporaries[assignment.value] = current[assignment.name] = name
    if block.result is not None:
        _rename_reads(scope, block.result, current)
    return chosen


def _rename_reads(scope: Scope, value: ast.expr, current: dict[str, str]) -> None:
    for node in walk(value):
        if isinstance(node, ast.Name) and node.id in current:
            if not isinstance(node.ctx, ast.Load):
                raise Refusal(f"`{node.id}` has several meanings in one branch; give each its own name first")
            scope.renamed[node] = current[node.id]


def _is_temporary(scope: Scope, assignment: Assignment, block: Block) -> bool:
    """Whether a name is used inside one block only, so that assigning it always disturbs nobody."""
    inside = {id(node) for statement in block.statements for node in walk(statement)}
    return not is_shared(scope, assignment.name) and all(id(node) in inside for node in names(scope, assignment.name))


def _is_unread(scope: Scope, name: str, chain: Chain) -> bool:
    """Whether nothing reads a name after a chain, so that only the block that has given it its value may.

    Which blocks read it without having given it one is not looked at: they refer to a value from before the chain.
    """
    if is_shared(scope, name) or _around_loop(scope, chain):
        return False
    if is_dead_after(scope, name, chain.last):
        return True
    inside = {id(node) for block in chain.blocks for statement in block.statements for node in walk(statement)}
    start = (chain.head.lineno, chain.head.col_offset)
    for node in names(scope, name):
        earlier = (node.lineno, node.col_offset) < start and not _in_inner_function(scope, node)
        if not (isinstance(node.ctx, ast.Store) or id(node) in inside or earlier or _in_test(chain, node)):
            return False
    return True


def _in_test(chain: Chain, name: ast.Name) -> bool:
    return any(node is name for test in chain.tests for node in walk(test))


def _in_inner_function(scope: Scope, node: ast.AST) -> bool:
    """Whether code runs later than where it stands."""
    while node is not scope.function.node:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or node not in scope.parents:
            return True
        node = scope.parents[node]
    return False


def _around_loop(scope: Scope, chain: Chain) -> bool:
    """Whether a chain runs several times in one call, so that what one round leaves is there in the next."""
    node: ast.AST | None = chain.head
    while node is not None and node is not scope.function.node:
        node = scope.parents.get(node)
        if isinstance(node, ast.For | ast.While | ast.AsyncFor):
            return True
    return False
