"""Names whose values a branch selects, and names that only hold intermediate values."""

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
"""A name, and the assignment to it in each block, or None for a block without one."""


@dataclass
class SelectionPlan:
    """How a chain's assignments are handled.

    `rows` are the names to select, in an order that is consistent with every block. `temporaries` are the values that
    are computed independently of the test, each with its new name.
    """

    rows: list[Row] = field(default_factory=list)
    temporaries: dict[ast.expr, str] = field(default_factory=dict)


def plan_of(scope: Scope, chain: Chain) -> SelectionPlan:
    """Return the plan for a chain, and record renamed names in `scope.renamed`.

    Raises:
        Refusal: If a name has more than one meaning in a block, or no order of the names fits every block.
    """
    if any(map(assigns_at_once, chain.blocks)) or not _in_one_order(scope, chain):
        raise Refusal("the branches swap values, or assign them in different orders; use separate variables first")
    plan = SelectionPlan()
    everywhere = set.intersection(*({one.name for one in block.assignments} for block in chain.blocks))
    blocks = [_sort_out(scope, chain, block, everywhere, plan) for block in chain.blocks]
    for name in _order(blocks):
        plan.rows.append((name, [next((one for one in block if one.name == name), None) for block in blocks]))
    return plan


def _order(blocks: Sequence[Sequence[Assignment]]) -> list[str]:
    return list(dict.fromkeys(one.name for block in sorted(blocks, key=len, reverse=True) for one in block))


def _in_one_order(scope: Scope, chain: Chain) -> bool:
    """Return whether the names can be selected one after another, in the order in which the blocks assign them."""
    blocks = []
    for block in chain.blocks:
        last = {one.name: one for one in block.assignments if not _is_temporary(scope, one, block)}
        blocks.append([one for one in block.assignments if last.get(one.name) is one])
    order = _order(blocks)
    names = [[one.name for one in block] for block in blocks]
    return all(block == [name for name in order if name in block] for block in names)


def _sort_out(scope: Scope, chain: Chain, block: Block, everywhere: set[str], plan: SelectionPlan) -> list[Assignment]:
    """Add a block's temporaries to the plan and return its other assignments.

    Temporaries are all values of a name except the last, and any value that is not read after the chain. Their names
    are changed, because the original name must keep its value for the other blocks.
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
            if _is_temporary(scope, assignment, block):
                plan.temporaries[assignment.value] = assignment.name
                continue
            if last[assignment.name] is assignment and not unread:
                chosen.append(assignment)
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
                raise Refusal(f"`{node.id}` has more than one meaning in a branch; use separate variables first")
            scope.renamed[node] = current[node.id]


def _is_temporary(scope: Scope, assignment: Assignment, block: Block) -> bool:
    """Return whether a name is only used inside one block, so that it can always be assigned."""
    inside = {id(node) for statement in block.statements for node in walk(statement)}
    return not is_shared(scope, assignment.name) and all(id(node) in inside for node in names(scope, assignment.name))


def _is_unread(scope: Scope, name: str, chain: Chain) -> bool:
    """Return whether no code after a chain reads a name, except possibly in the block that assigned it.

    Reads in blocks that have not assigned the name do not matter, because they get a value from before the chain.
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
    """Return whether code is in a nested function or a lambda, which may run later."""
    while node is not scope.function.node:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or node not in scope.parents:
            return True
        node = scope.parents[node]
    return False


def _around_loop(scope: Scope, chain: Chain) -> bool:
    """Return whether a chain runs more than once per call, so that an iteration sees values from the previous one."""
    node: ast.AST | None = chain.head
    while node is not None and node is not scope.function.node:
        node = scope.parents.get(node)
        if isinstance(node, ast.For | ast.While | ast.AsyncFor):
            return True
    return False
