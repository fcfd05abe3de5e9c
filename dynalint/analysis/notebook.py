"""Jupyter notebooks: combine the code cells into one Python text, and map the text back to the cells.

Each cell in the text begins with a marker comment that identifies the cell after edits. A line that only IPython
understands, such as `%matplotlib inline`, `!ls` or `help?`, becomes `pass` with the line in a comment.
"""

from __future__ import annotations

import ast
import json
import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

from dynalint.errors import DynalintError

SUFFIX = ".ipynb"

_MARK = "# %% cell {} of the notebook"
_MARKS = re.compile(r"^# %% cell (\d+) of the notebook\n", re.MULTILINE)
_HIDDEN = re.compile(r"^[ \t]*pass  # IPython: (.*)$", re.MULTILINE)
_MAGIC = re.compile(r"\s*[%!?]|[\w.,*\s]+=\s*[%!]|.*\?\s*$")
_MOST_CODE = 4 << 20  # total number of characters, the same limit as for other files
_MOST_PARSED = 4 << 20  # number of characters in a cell, times the number of its lines that are not Python
_LONGEST_NUMBER = 1000
# Cell magics that run the rest of the cell as Python in the current process.
_PYTHON_MAGICS = frozenset({"capture", "debug", "prun", "python", "python3", "time", "timeit"})


class NotebookError(DynalintError):
    """The file is not a readable notebook. The message is a clause that says why, and `line` says where."""

    def __init__(self, text: str, line: int = 1) -> None:
        super().__init__(text)
        self.line = line


class Cells:
    """The position of each cell in the combined text. Lines are 1-based."""

    def __init__(self, text: str) -> None:
        self._text = text
        marks = list(_MARKS.finditer(text))
        starts = [0, *(mark.start() for mark in marks)]
        self._lines = [1 + line for line in accumulate(text.count("\n", *between) for between in pairwise(starts))]
        self.numbers = [int(mark[1]) for mark in marks]

    def place(self, line: int) -> tuple[int, int]:
        """Return the cell number and the line in the cell for a line of the text."""
        index = max(bisect_right(self._lines, line) - 1, 0)
        return (self.numbers[index], max(line - self._lines[index], 1)) if self._lines else (1, line)

    def line(self, cell: int, line: int) -> int:
        """Return the line of the text for a line of a cell."""
        return self._lines[self.numbers.index(cell)] + line if cell in self.numbers else line

    def codes(self) -> dict[int, str]:
        """Return the code of each cell as it is in the notebook, without a trailing line break."""
        pieces = _MARKS.split(self._text)[2::2]
        shown = (_HIDDEN.sub(lambda hidden: hidden[1], piece).removesuffix("\n") for piece in pieces)
        return dict(zip(self.numbers, shown, strict=True))


@dataclass(eq=False)
class Notebook:
    """A notebook's JSON document, and the code of its cells. The keys are 1-based positions among all cells."""

    document: Mapping[str, Any]
    source: str = field(repr=False)
    cells: Mapping[int, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """All cells as one Python text."""
        return text_of(self.cells)

    def encode(self, text: str) -> bytes:
        """Return the notebook with its cells taken from an edited text, and everything else unchanged.

        Raises:
            NotebookError: If the text no longer shows where the cells begin.
        """
        cells = list(self.document["cells"])
        changed = False
        for number, code in self._edited(text).items():
            if code == self.cells[number].removesuffix("\n"):
                continue
            whole = f"{code}\n" if self.cells[number].endswith("\n") else code
            cell = dict(cells[number - 1])
            cell["source"] = whole if isinstance(cell["source"], str) else whole.splitlines(keepends=True)
            cells[number - 1] = cell
            changed = True
        return (self._dump({**self.document, "cells": cells}) if changed else self.source).encode()

    def _edited(self, text: str) -> dict[int, str]:
        cells = Cells(text)
        if cells.numbers != list(self.cells) or not text.startswith(
            "".join(_MARK.format(one) for one in cells.numbers[:1])
        ):
            raise NotebookError("the edit crosses the boundary of a notebook cell")
        return cells.codes()

    def _dump(self, document: Mapping[str, Any]) -> str:
        """Return a document in the layout of the original, as far as JSON writers allow."""
        first = re.match(r"\{\r?\n([ \t]*)\S", self.source)
        ending = self.source[len(self.source.rstrip()) :]

        def dump(what: Mapping[str, Any], *, ascii_only: bool) -> str:
            indent = first[1] if first else None
            separators = (",", ": ") if first else None
            return json.dumps(what, indent=indent, separators=separators, ensure_ascii=ascii_only) + ending

        return dump(document, ascii_only=dump(self.document, ascii_only=True) == self.source)


def text_of(cells: Mapping[int, str]) -> str:
    """Return the code of cells, keyed by cell number, as one Python text."""
    return "".join(f"{_MARK.format(number)}\n{_ended(_hide(code))}" for number, code in cells.items())


def read_notebook(source: str) -> Notebook:
    """Read the text of a notebook file.

    Raises:
        NotebookError: If it is not a notebook, or its format is older than version 4.
    """
    try:
        document = json.loads(source, parse_int=_integer, object_pairs_hook=_table)
    except json.JSONDecodeError as fault:
        raise NotebookError(f"the notebook is not JSON: {fault.msg}", fault.lineno) from fault
    except RecursionError as fault:
        raise NotebookError("the notebook is not JSON: it is nested too deeply") from fault
    if not isinstance(document, dict) or not isinstance(document.get("cells"), list):
        raise NotebookError("the file is not a version 4 notebook: it has no list of cells")
    if _language(document) not in ("python", "ipython"):
        return Notebook(document, source)
    cells = {number: code for number, cell in enumerate(document["cells"], 1) if (code := _code(cell)) is not None}
    if sum(map(len, cells.values())) > _MOST_CODE:
        raise NotebookError(f"the code of the notebook is longer than {_MOST_CODE >> 20} million characters")
    return Notebook(document, source, cells)


def _integer(digits: str) -> int:
    if len(digits) > _LONGEST_NUMBER:  # slow to parse, and Python may reject it
        raise NotebookError("the notebook contains a number that is too long")
    return int(digits)


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):  # a rewrite would lose one of the duplicate keys
        raise NotebookError("the notebook has a duplicate key in an object")
    return table


def _language(document: Mapping[str, Any]) -> str:
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    for table, key in (("language_info", "name"), ("kernelspec", "language")):
        held = metadata.get(table)
        if isinstance(held, dict) and isinstance(held.get(key), str):
            return str(held[key]).lower()
    return "python"


def _code(cell: Any) -> str | None:
    """Return a cell's Python code, or None if it has none."""
    if not isinstance(cell, dict) or cell.get("cell_type") != "code":
        return None
    source = cell.get("source", "")
    code = "".join(source) if isinstance(source, list) and all(isinstance(line, str) for line in source) else source
    if not isinstance(code, str) or "\r" in code or _MARKS.search(code) or _HIDDEN.search(code):
        return None
    return code if is_python(code) else None


def is_python(code: str) -> bool:
    """Return whether a cell contains Python, judging by its cell magic."""
    magic = re.match(r"\s*%%(\w+)", code)
    return magic is None or magic[1] in _PYTHON_MAGICS


def _ended(code: str) -> str:
    return code if code.endswith("\n") or not code else f"{code}\n"


def _hide(code: str) -> str:
    """Return the code with each line that only IPython understands replaced by `pass`."""
    lines = code.split("\n")
    for _ in lines[: _MOST_PARSED // max(len(code), 1) + 1]:
        try:
            ast.parse("\n".join(lines))
        except SyntaxError as fault:
            number = (fault.lineno or 0) - 1
            if not (0 <= number < len(lines) and _MAGIC.match(lines[number]) and not _HIDDEN.match(lines[number])):
                break
            indent = lines[number][: len(lines[number]) - len(lines[number].lstrip())]
            more = True
            while more and number < len(lines):
                more = lines[number].endswith("\\")
                lines[number] = f"{indent}pass  # IPython: {lines[number]}"
                number += 1
        except (ValueError, RecursionError, MemoryError):
            break
        else:
            break
    return "\n".join(lines)
