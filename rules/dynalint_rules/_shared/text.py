"""Text of the file that is rewritten: indentation, comments, calls that fit their line."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Sequence

from dynalint.analysis.source import SourceFile
from dynalint.analysis.steps import step

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


def comments(file: SourceFile, start: int, end: int) -> list[tuple[int, str]] | None:
    """Return the comments between two offsets, each with its offset; None if the text cannot be split into tokens."""
    first_line, _ = file.position(start)
    base = file.line_starts[first_line - 1]
    # The tokenizer counts "\r" as a line ending only in "\r\n", so the other endings are made equal first.
    text = file.text[base:end].replace("\r\n", " \n").replace("\r", "\n")
    step(len(text))  # a token takes some ten times what a node does
    starts = [0, *(index + 1 for index, character in enumerate(text) if character == "\n")]
    found = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                offset = base + starts[token.start[0] - 1] + token.start[1]
                if offset >= start:
                    found.append((offset, token.string.rstrip()))
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return None
    return found


def atom(node: ast.expr, text: str) -> str:
    """Return the text of an expression so that an operator or a method may follow it."""
    return text if isinstance(node, _ATOMS) else f"({text})"


def call(name: str, arguments: Sequence[str], *, column: int, indent: str, newline: str, after: int = 0) -> str:
    """Return `name(arguments)`, on one line if it fits, else with one argument a line.

    `column` is where it starts, `indent` the indentation of the statement that it stands in, `after` the number of
    characters that follow it on its line.
    """
    flat = f"{name}({', '.join(arguments)})"
    if column + len(flat) + after <= WIDTH and "\n" not in flat and "\r" not in flat:
        return flat
    step = "\t" if indent.endswith("\t") else "    "
    # A call among the arguments that was written for the same statement moves in by a step.
    inner = [indented(one, step) if _is_wrapped(one, f"{newline}{indent})") else one for one in arguments]
    lines = "".join(f"{indent}{step}{argument},{newline}" for argument in inner)
    return f"{name}({newline}{lines}{indent})"


def _is_wrapped(text: str, end: str) -> bool:
    return text.endswith(end) and re.match(r"[\w.]+\([\r\n]", text) is not None


def held_together(text: str) -> str:
    """Put an expression that goes over several lines in parentheses, unless some of its own hold it together."""
    if "\n" not in text and "\r" not in text:
        return text
    try:
        ast.parse(text.replace("\r\n", "\n").replace("\r", "\n"), mode="eval")
    except SyntaxError:
        return f"({text})"
    return text


def indented(text: str, step: str) -> str:
    """Indent all lines but the first, save for those that begin inside a string."""
    inside = _inside_strings(text)
    return "".join(
        part if number == 1 or number in inside or not part.strip() else step + part
        for number, part in enumerate(_lines(text), start=1)
    )


def moved(text: str, old: str, new: str) -> str:
    """Return statements, of which the first begins at the start of `text`, for another indentation than the `old`."""
    inside = _inside_strings(old + text)
    return "".join(
        new + part.removeprefix(old) if number > 1 and number not in inside and part.startswith(old) else part
        for number, part in enumerate(_lines(text), start=1)
    )


def _inside_strings(text: str) -> set[int]:
    """The numbers of the lines that begin inside a string."""
    inside: set[int] = set()
    opened: list[int] = []
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    for token in tokenize.generate_tokens(io.StringIO(f"{lines}\n").readline):
        name = tokenize.tok_name[token.type]
        if name == "STRING":
            inside.update(range(token.start[0] + 1, token.end[0] + 1))
        elif name in ("FSTRING_START", "TSTRING_START"):
            opened.append(token.start[0])
        elif name in ("FSTRING_END", "TSTRING_END"):
            inside.update(range(opened.pop() + 1, token.end[0] + 1))
    return inside


def _lines(text: str) -> list[str]:
    # As the tokenizer counts lines: `str.splitlines` would split at form feeds as well.
    return re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text)
