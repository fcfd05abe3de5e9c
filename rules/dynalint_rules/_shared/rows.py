"""Which names of the branches are chosen between, and which are only on the way to them."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from dynalint_rules._shared.blocks import Assignment, Block, Chain, is_temporary
from dynalint_rules._shared.scope import Refusal, Scope

Row = tuple[str, list[Assignment | None]]
"""A name, and what each block gives it; None for a block that leaves it alone."""


@dataclass
class Plan:
    """What becomes of the assignments of a chain.

    `rows` are the names to be chosen, in an order that keeps that of every block. `temporaries` are the assignments
    carried out whatever the test says, with the name that each is given.
    """

    rows: list[Row] = field(default_factory=list)
    temporaries: dict[ast.expr, str] = field(default_factory=dict)


def plan_of(scope: Scope, chain: Chain) -> Plan:
    """Return the plan for a chain. Reads of names that get another one are noted in `scope.renamed`.

    Raises:
        Refusal: the blocks assign their names in different orders.
    """
    plan = Plan()
    everywhere = set.intersection(*({one.name for one in block.assignments} for block in chain.blocks))
    blocks = [_sort_out(scope, chain, block, everywhere, plan) for block in chain.blocks]
    order = list(dict.fromkeys(one.name for block in sorted(blocks, key=len, reverse=True) for one in block))
    for block in blocks:
        names = [one.name for one in block]
        if names != [name for name in order if name in names]:
            raise Refusal("the branches assign their names in different orders; bring them into the same order first")
    for name in order:
        plan.rows.append((name, [next((one for one in block if one.name == name), None) for block in blocks]))
    return plan


def _sort_out(scope: Scope, chain: Chain, block: Block, everywhere: set[str], plan: Plan) -> list[Assignment]:
    """Enter the temporaries of a block into the plan and return the other assignments.

    All values of a name but the last are temporary, and where every way returns, so is whatever some block alone
    assigns. Such a name gets another one, since its own must keep its value for the other blocks.
    """
    last = {one.name: one for one in block.assignments}
    current: dict[str, str] = {}
    chosen: list[Assignment] = []
    for assignment in block.assignments:
        _rename_reads(scope, assignment.value, current)
        if is_temporary(scope, assignment, block):
            plan.temporaries[assignment.value] = assignment.name
        elif last[assignment.name] is not assignment or (chain.returns and assignment.name not in everywhere):
            name = scope.fresh_name(assignment.name, plan.temporaries.values())
            plan.temporaries[assignment.value] = current[assignment.name] = name
        else:
            current.pop(assignment.name, None)
            chosen.append(assignment)
    if block.result is not None:
        _rename_reads(scope, block.result, current)
    return chosen


def _rename_reads(scope: Scope, value: ast.expr, current: dict[str, str]) -> None:
    for node in ast.walk(value):
        if isinstance(node, ast.Name) and node.id in current:
            if not isinstance(node.ctx, ast.Load):
                raise Refusal(f"`{node.id}` means several things in one branch; give each a name of its own first")
            scope.renamed[node] = current[node.id]
