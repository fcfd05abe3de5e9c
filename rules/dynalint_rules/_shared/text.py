"""Source text for rewrites, such as indentation and parentheses."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from dynalint.rulekit import Replacement, SourceFile

WIDTH = 120
"""The line width beyond which new code is wrapped."""

LOOSE = (ast.IfExp, ast.Lambda, ast.NamedExpr)
"""Expressions that always need parentheses when they are operands."""

_COMPARISON = re.compile(r"[\w.]+ (==|!=|<|<=|>|>=) [\w.]+")
_ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.List, ast.Dict, ast.Set, ast.ListComp)


def indentation(file: SourceFile, number: int) -> str:
    """Return the white space at the start of a line."""
    line = file.line(number)
    return line[: len(line) - len(line.lstrip(" \t\f"))]


def inner_indentation(file: SourceFile, statement: ast.If) -> str:
    """Return the indentation of a statement's body, which is one level deeper if the body is on the same line."""
    own = indentation(file, statement.lineno)
    first = statement.body[0]
    if first.lineno > statement.lineno and indentation(file, first.lineno).startswith(own):
        return indentation(file, first.lineno)
    return own + ("\t" if own.endswith("\t") else "    ")


def atom(node: ast.expr, text: str) -> str:
    """Return an expression's text, in parentheses unless an operator or a method call can follow it directly."""
    return text if isinstance(node, _ATOMS) else f"({text})"


def held_together(text: str) -> str:
    """Put an expression in parentheses if it spans more than one line and is not enclosed in brackets."""
    if "\n" not in text and "\r" not in text:
        return text
    try:
        ast.parse(text.replace("\r\n", "\n").replace("\r", "\n"), mode="eval")
    except SyntaxError:
        return f"({text})"
    return text


def end_of_claim(file: SourceFile, statement: ast.stmt) -> Replacement:
    """Return a change of nothing at a statement's end, so that no other rewrite changes lines that only move."""
    starts, line = file.line_starts, statement.end_lineno or statement.lineno
    end = starts[line] - 1 if line < len(starts) else len(file.text)
    return Replacement(file, end, end, "")


def moved_left(text: str, columns: int) -> str:
    """Return an expression's text for a place that many columns further left.

    The lines after the first move along, unless a string spans lines or a line does not start that far right.
    """
    first, *others = text.split("\n")
    if columns <= 0 or not others or '"""' in text or "'''" in text:
        return text
    if not all(line.startswith(" " * columns) or not line.strip() for line in others):
        return text
    return "\n".join([first, *(line[columns:] for line in others)])


def inlined(line: str, others: Sequence[str]) -> list[str] | None:
    """Return other code with the comparison that a line names where it is used, or None unless that is in one place.

    The comparison is one of names and numbers, and the use is the first argument of a call.
    """
    name, _, test = line.partition(" = ")
    uses = sum(len(re.findall(rf"\b{re.escape(name)}\b", one)) for one in others)
    if not _COMPARISON.fullmatch(test) or uses != 1 or not any(f"({name}, " in one for one in others):
        return None
    return [one.replace(f"({name}, ", f"({test}, ") for one in others]
