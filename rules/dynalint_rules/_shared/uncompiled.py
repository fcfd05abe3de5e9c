"""Sides of a branch that a compiled run never comes to, in a branch that a tensor decides.

    if t:                                       condition = t
        y = y * 2                               y = torch.where(condition, y * 2, y)
        if not torch.compiler.is_compiling():   if not torch.compiler.is_compiling() and condition:
            print("twice", y)                       print("twice", y)

So it is with what only another value of an attribute leads to than any that the project gives it. Of such code no
kinds are known, and it needs no other form: it stays as it is written, behind the tensor that decided on it before,
which is asked where the code is reached and nowhere else.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from dynalint.analysis.steps import walk
from dynalint_rules._shared.scope import Scope
from dynalint_rules._shared.text import LOOSE, held_together


def is_uncompiled(scope: Scope, statement: ast.If, block: Sequence[ast.stmt]) -> bool:
    """Whether the test of a statement decides, for each compiled run, that this block of it does not run."""
    return _was_asked(scope, statement.test) and not any(_was_asked(scope, one) for one in block) and _asks(block)


def as_operand(scope: Scope, node: ast.expr) -> str:
    """Return the text of one of several parts of a test, in parentheses where it needs some."""
    text = scope.text(node)
    return f"({text})" if isinstance(node, (ast.BoolOp, *LOOSE)) or "\n" in text or "\r" in text else text


def all_of(scope: Scope, parts: Sequence[ast.expr | str]) -> str:
    """Return the text of a test that holds where all parts do; a part is an expression, or the text of a name."""
    only, *others = parts
    if not others and isinstance(only, ast.expr):
        return held_together(scope.text(only))
    return " and ".join(one if isinstance(one, str) else as_operand(scope, one) for one in parts)


def _was_asked(scope: Scope, node: ast.AST) -> bool:
    """Whether the analysis came to any expression of a node."""
    return any(child in scope.kinds for child in walk(node))


def _asks(block: Sequence[ast.stmt]) -> bool:
    """Whether the analysis would have seen an expression, had it come to the block: `pass` shows nothing."""
    return any(isinstance(node, ast.expr) for statement in block for node in walk(statement))
