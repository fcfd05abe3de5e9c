"""Source text for rewrites: indentation, comments, and calls that fit on a line."""

from __future__ import annotations

import ast

from dynalint.rulekit import SourceFile

WIDTH = 120
"""The maximum width of a line of new code before it is wrapped."""

LOOSE = (ast.IfExp, ast.Lambda, ast.NamedExpr)
"""Expressions that bind so loosely that they cannot be an operand without parentheses."""

_ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.List, ast.Dict, ast.Set, ast.ListComp)


def indentation(file: SourceFile, number: int) -> str:
    """Return the white space at the beginning of a line."""
    line = file.line(number)
    return line[: len(line) - len(line.lstrip(" \t\f"))]


def inner_indentation(file: SourceFile, statement: ast.If) -> str:
    """Return the indentation of the body of a statement, or one more level if the body is on the same line."""
    own = indentation(file, statement.lineno)
    first = statement.body[0]
    if first.lineno > statement.lineno and indentation(file, first.lineno).startswith(own):
        return indentation(file, first.lineno)
    return own + ("\t" if own.endswith("\t") else "    ")


def atom(node: ast.expr, text: str) -> str:
    """Return the text of an expression, in parentheses unless an operator or a method may follow it."""
    return text if isinstance(node, _ATOMS) else f"({text})"


def held_together(text: str) -> str:
    """Put an expression of several lines in parentheses, unless parentheses already enclose it."""
    if "\n" not in text and "\r" not in text:
        return text
    try:
        ast.parse(text.replace("\r\n", "\n").replace("\r", "\n"), mode="eval")
    except SyntaxError:
        return f"({text})"
    return text
