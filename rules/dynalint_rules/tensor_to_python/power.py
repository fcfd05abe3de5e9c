"""DYN211: the builtin `pow()` of a tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call, Event
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Replacement, Rewrite, Rule, Violation
from dynalint_rules._shared.scope import Refusal, Scope
from dynalint_rules._shared.text import atom


class BuiltinPow(Rule):
    code = "DYN211"
    name = "builtin-pow"
    summary = "the builtin `pow()` of a tensor ends the graph, the operator `**` does not"
    gb = ("GB0059",)
    events = (Call,)
    calls = frozenset({"builtins.pow"})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call if base or exponent is certainly a tensor."""
        if isinstance(event, Call) and len(event.args) == 2 and any(k.only_tensor(kind) for kind in event.args):
            yield Violation(
                event.node,
                "Dynamo does not trace the builtin `pow()` of a tensor, so the graph ends there",
                help="use the operator `**`",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Use the operator."""
        if not isinstance(event, Call):
            return None
        try:
            scope = Scope.of(event, project)
        except Refusal as refusal:
            return Declined(str(refusal))
        node = event.node
        base, exponent = node.args
        text = f"{_operand(scope, base)} ** {_operand(scope, exponent, right=True)}"
        if _binds_tighter(scope.parents.get(node), node):
            text = f"({text})"
        start, end = scope.file.span(node)
        return Rewrite("Use the operator `**`", "safe", (Replacement(scope.file, start, end, text),))


def _operand(scope: Scope, node: ast.expr, *, right: bool = False) -> str:
    signed = isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not)
    plain = isinstance(node, ast.Constant) or (right and signed)
    return scope.text(node) if plain else atom(node, scope.text(node))


def _binds_tighter(parent: ast.AST | None, node: ast.AST) -> bool:
    """Whether what stands around `node` would take a part of `a ** b` for itself."""
    if isinstance(parent, ast.BinOp):
        return isinstance(parent.op, ast.Pow)
    if isinstance(parent, ast.Attribute | ast.Await):
        return True
    return isinstance(parent, ast.Subscript) and parent.value is node
