"""The text of the user's files: columns in characters and bytes, the words on a line, and the names of functions."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from dynalint.confirm.results import Spot
from dynalint.findings import Finding
from dynalint.projects.reading import read_bounded

_SUFFIXES = (".py", ".pyi", ".ipynb")
_WORD = re.compile(r"[A-Za-z_]\w*")


class UserSources:
    """Reads each file only once. `overrides` maps resolved paths to text that replaces the file on disk."""

    def __init__(self, overrides: Mapping[str, str] | None = None) -> None:
        self._overrides = dict(overrides or {})
        self._lines: dict[str, list[str]] = {}
        self._functions: dict[str, list[tuple[int, int, str]]] = {}

    def lines(self, path: str) -> list[str]:
        """Return a file's lines without line endings, or an empty list if the file cannot be read."""
        if path not in self._lines:
            text = self._overrides.get(path)
            if text is None:
                try:
                    text = read_bounded(Path(path)).decode("utf-8", "replace").removeprefix("\ufeff")
                except (OSError, ValueError):
                    self._lines[path] = []
                    return []
            # Split the way Python does. A form feed or a Unicode line separator does not end a line.
            self._lines[path] = re.split(r"\r\n|\r|\n", text)
        return self._lines[path]

    def line(self, path: str, number: int) -> str:
        """Return a line, counted from 1, or an empty string if it does not exist."""
        lines = self.lines(path)
        return lines[number - 1] if 0 < number <= len(lines) else ""

    def has_line(self, path: str, number: int) -> bool:
        """Return whether the file is a readable Python file or notebook with at least this many lines."""
        return (
            path.endswith((".py", ".pyi", ".ipynb")) and 0 < number <= len(self.lines(path)) and bool(self.lines(path))
        )

    def spot(self, path: str, finding: Finding) -> Spot:
        """Return a finding's range in bytecode positions."""
        start = self._byte_column(path, finding.line, finding.column)
        end = self._byte_column(path, finding.end_line, finding.end_column)
        return finding.line, start, finding.end_line, end

    def character_columns(self, path: str, line: int, start: int, end: int) -> tuple[int, int]:
        """Convert a line's byte columns to the columns used in findings, which count characters from 1."""
        data = self.line(path, line).encode()
        return tuple(len(data[:column].decode("utf-8", "replace")) + 1 for column in (start, end))  # type: ignore[return-value]

    def _byte_column(self, path: str, line: int, column: int) -> int:
        return len(self.line(path, line)[: column - 1].encode())

    def words(self, path: str, first: int, last: int) -> frozenset[str]:
        """Return the identifiers on these lines."""
        return frozenset(word for number in range(first, last + 1) for word in _WORD.findall(self.line(path, number)))

    def function_at(self, path: str, line: int) -> str:
        """Return the qualified name of the innermost function around a line, or an empty string if there is none."""
        return self._around(path, line)[2]

    def body_around(self, path: str, line: int) -> tuple[int, int]:
        """Return the lines of the innermost function around a line, without its first line, or those of the file."""
        first, last, name = self._around(path, line)
        return first + bool(name and first < last), last

    def _around(self, path: str, line: int) -> tuple[int, int, str]:
        if path not in self._functions:
            self._functions[path] = functions_of("\n".join(self.lines(path)))
        around = [one for one in self._functions[path] if one[0] <= line <= one[1]]
        return min(around, key=lambda one: one[1] - one[0], default=(1, len(self.lines(path)), ""))

    def is_handled(self, path: str, line: int) -> bool:
        """Return whether a line is in a `try` that may handle an exception there."""
        return any(first <= line <= last for first, last in _handled("\n".join(self.lines(path))))


@lru_cache(maxsize=64)
def _handled(text: str) -> list[tuple[int, int]]:
    """Return the first and last lines of the code in each `try` of a module that has an `except`."""
    with suppress(SyntaxError, ValueError, RecursionError):
        tries = [one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Try) and one.handlers]
        return [(one.body[0].lineno, one.body[-1].end_lineno or one.lineno) for one in tries]
    return []


@lru_cache(maxsize=64)
def functions_of(text: str) -> list[tuple[int, int, str]]:
    """Return the first line, last line and qualified name of every function in a module."""
    found: list[tuple[int, int, str]] = []

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                name = f"{prefix}{child.name}"
                if not isinstance(child, ast.ClassDef):
                    found.append((child.lineno, child.end_lineno or child.lineno, name))
                visit(child, f"{name}.")
            else:
                visit(child, prefix)

    try:
        visit(ast.parse(text), "")
    except (SyntaxError, ValueError, RecursionError):
        return []
    return found
