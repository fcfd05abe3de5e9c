"""Read TOML with the line of each value, which `tomllib` does not provide, for use in error messages."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dynalint.errors import ConfigError
from dynalint.projects.reading import read_bounded

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

KeyPath = tuple[str | int, ...]

_FAULT_PLACE = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)$")
_BLANK = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_KEY_PART = r"""(?:[\w-]+|"(?:\\.|[^"\\])*"|'[^']*')"""
_KEY = re.compile(rf"{_KEY_PART}(?:[ \t]*\.[ \t]*{_KEY_PART})*")
# `tomllib` takes quadratic time for a key with this many parts, which nobody needs. The match starts at the start of a
# part.
_ENDLESS_KEY = re.compile(r"""(?<![\w"'.-])(?:[\w"'-]+[ \t]*\.[ \t]*){100}""")
_MOST_BYTES = 1 << 20
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}(?!")'
    r"|'''.*?'{3,5}(?!')"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\n]*")


@dataclass(frozen=True, slots=True)
class Document:
    """A TOML document: its tables, and the offset in `text` of each key and array element."""

    text: str
    values: Mapping[str, Any]
    offsets: Mapping[KeyPath, int]

    def line(self, path: KeyPath) -> int:
        """Return the 1-based line of `path`, or the line of the nearest enclosing key if it has none."""
        while path and path not in self.offsets:
            path = path[:-1]
        return self.text.count("\n", 0, self.offsets.get(path, 0)) + 1


def read_toml(path: Path, shown: str) -> Document:
    """Read a TOML file. Error messages refer to it as `shown`.

    Raises:
        ConfigError: If the file cannot be read or is not TOML.
    """
    try:
        text = read_bounded(path, _MOST_BYTES).decode("utf-8-sig")
    except OSError as fault:
        raise ConfigError(f"{shown}: cannot read the configuration: {fault.strerror or fault}.") from fault
    except UnicodeDecodeError as fault:
        raise ConfigError(f"{shown}: the configuration is not UTF-8 text.") from fault
    return parse_toml(text, shown)


def parse_toml(text: str, shown: str) -> Document:
    """Parse TOML from text.

    Raises:
        ConfigError: If the text is not TOML. The message includes `shown` and the line.
    """
    text = text.replace("\r\n", "\n")
    if endless := _ENDLESS_KEY.search(text):
        line = text.count("\n", 0, endless.start()) + 1
        raise ConfigError(f"{shown}:{line}: a key has more than 100 parts, which dynalint does not support.")
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        message = str(fault)
        place = _FAULT_PLACE.search(message)
        line = int(place[1]) if place and place[1] else len(text.splitlines())
        raise ConfigError(f"{shown}:{line}: not valid TOML: {_FAULT_PLACE.sub('', message)}.") from fault
    except (RecursionError, ValueError) as fault:  # ValueError: a number with thousands of digits
        raise ConfigError(
            f"{shown}: the configuration is nested too deeply, or contains a number that is too long."
        ) from fault
    try:
        return Document(text, values, _Scanner(text).document())
    except RecursionError as fault:
        raise ConfigError(f"{shown}: the configuration is nested too deeply.") from fault


class _Scanner:
    """Scans valid TOML and records where keys and array elements start.

    It only needs to find where strings, arrays and inline tables end, because the values come from `tomllib`. It treats
    all tables in an array of tables as one, because dynalint has no setting of this type.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.offsets: dict[KeyPath, int] = {}

    def document(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        self.skip(_BLANK)
        while self.position < len(self.text):
            if self.text[self.position] == "[":
                table = self.header()
            else:
                self.pair(table)
            self.skip(_BLANK)
        return self.offsets

    def header(self) -> KeyPath:
        start = self.position
        brackets = 2 if self.text.startswith("[[", start) else 1
        self.position += brackets
        self.skip(_BLANK)
        path = self.key((), start)
        self.skip(_BLANK)
        self.position += brackets
        return path

    def pair(self, table: KeyPath) -> None:
        path = self.key(table, self.position)
        self.skip(_BLANK)
        self.position += 1  # the equals sign
        self.skip(_BLANK)
        self.value(path)

    def key(self, path: KeyPath, start: int) -> KeyPath:
        table: Any = tomllib.loads(f"{self.skip(_KEY)} = 0")
        while isinstance(table, dict):
            name, table = next(iter(table.items()))
            path = (*path, name)
            self.offsets.setdefault(path, start)
        return path

    def value(self, path: KeyPath) -> None:
        opening = self.text[self.position]
        if opening == "[":
            self.items("]", path)
        elif opening == "{":
            self.items("}", path)
        else:
            self.skip(_STRING if opening in "\"'" else _SCALAR)

    def items(self, closing: str, path: KeyPath) -> None:
        self.position += 1
        self.skip(_BLANK)
        number = 0
        while self.text[self.position] != closing:
            if closing == "]":
                element: KeyPath = (*path, number)
                self.offsets[element] = self.position
                self.value(element)
                number += 1
            else:
                self.pair(path)
            self.skip(_BLANK)
            if self.text[self.position] == ",":
                self.position += 1
                self.skip(_BLANK)
        self.position += 1

    def skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.position)
        if match is None:
            raise AssertionError(f"tomllib accepts a form that this scanner does not know, at {self.position}")
        self.position = match.end()
        return match[0]
