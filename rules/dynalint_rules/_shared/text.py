"""Text of the file that is rewritten: indentation, comments, calls that fit their line."""

from __future__ import annotations

import ast

from dynalint.rulekit import SourceFile

WIDTH = 120
"""Columns that a line of new code may take before it is wrapped."""

LOOSE = (ast.IfExp, ast.Lambda, ast.NamedExpr)
"""What takes in all that stands before or behind it, so that no part of another expression may be one."""

_ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.List, ast.Dict, ast.Set, ast.ListComp)


def indentation(file: SourceFile, number: int) -> str:
    """Return the white space that a line begins with."""
    line = file.line(number)
    return line[: len(line) - len(line.lstrip(" \t\f"))]


def inner_indentation(file: SourceFile, statement: ast.If) -> str:
    """Return the indentation of the body of a statement; one step more than its own where the body has no line."""
    own = indentation(file, statement.lineno)
    first = statement.body[0]
    if first.lineno > statement.lineno and indentation(file, first.lineno).startswith(own):
        return indentation(file, first.lineno)
    return own + ("\t" if own.endswith("\t") else "    ")


def atom(node: ast.expr, text: str) -> str:
    """Return the text of an expression so that an operator or a method may follow it."""
    return text if isinstance(node, _ATOMS) else f"({text})"


def held_together(text: str) -> str:
    """Put an expression that goes over several lines in parentheses, unless some of its own hold it together."""
    if "\n" not in text and "\r" not in text:
        return text
    try:
        ast.parse(text.replace("\r\n", "\n").replace("\r", "\n"), mode="eval")
    except SyntaxError:
        return f"({text})"
    return text
