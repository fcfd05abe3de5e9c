"""The types of settings. Each type parses a TOML value, or raises an error that says what is wrong with the value.

Each type also has a JSON Schema for editors.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Generic, TypeVar

from dynalint.config.toml import KeyPath
from dynalint.errors import ConfigError

T = TypeVar("T")

_TYPE_NAMES = {
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    list: "a list",
    dict: "a table",
}
SELECTOR = "Selector"
"""The name that schemas use to refer to codes and prefixes, which depend on the installed rules."""

_DOTTED = r"[^\W\d]\w*(\.[^\W\d]\w*)*"
_TARGET = re.compile(rf"({_DOTTED}|[^:]+\.py):{_DOTTED}")
_RELEASES = re.compile(r"\s*(==|!=|<=|>=|<|>|~=)?\s*\d+(\.\d+)*(\s*,\s*(==|!=|<=|>=|<|>|~=)\s*\d+(\.\d+)*)*\s*")


@dataclass(frozen=True, slots=True)
class Raw:
    """A value as written. `path` is its key and the steps inside the value, and `base` is where relative paths start.

    `locate` returns where a key path was written, such as "pyproject.toml:12" or "--select", for use in messages.
    """

    value: object
    path: KeyPath
    base: Path
    locate: Callable[[KeyPath], str]

    def inside(self, step: str | int, value: object) -> Raw:
        """Return the element or entry `step` of this value."""
        return Raw(value, (*self.path, step), self.base, self.locate)

    @property
    def place(self) -> str:
        """Where the value was written."""
        return self.locate(self.path)

    def wrong(self, expected: str) -> ConfigError:
        """Return the error for a value that is not `expected`, such as "a list of strings"."""
        shown = repr(self.value) if isinstance(self.value, str | int | float) else _TYPE_NAMES.get(type(self.value), "")
        shown = {"True": "true", "False": "false"}.get(shown, shown).replace("'", '"')
        name = f"`{self.path[0]}`"
        if len(self.path) > 1:
            name = f"each value of {name}" if isinstance(self.path[-1], int) else f"`{self.path[-1]}` in {name}"
        return ConfigError(f"{self.place}: {name} must be {expected}, not {shown or 'a date'}.")


@dataclass(frozen=True, slots=True)
class Type(Generic[T]):
    """A type of value, consisting of its parser and its JSON Schema."""

    parse: Callable[[Raw], T]
    schema: Mapping[str, Any]

    def __call__(self, raw: Raw) -> T:
        """Parse a value.

        Raises:
            ConfigError: If the value does not have this type.
        """
        return self.parse(raw)


def _typed(**schema: Any) -> Callable[[Callable[[Raw], T]], Type[T]]:
    return lambda parse: Type(parse, schema)


@dataclass(frozen=True, slots=True)
class Selector:
    """A rule's code, a prefix of codes, or "ALL". `place` is where it was written."""

    text: str
    place: str = field(default="default", compare=False)

    @property
    def prefix(self) -> str:
        """The prefix of the codes that this selects."""
        return "" if self.text == "ALL" else self.text

    def matches(self, code: str) -> bool:
        """Return whether this selects `code`."""
        return code.startswith(self.prefix)


@dataclass(frozen=True, slots=True)
class Glob:
    """A pattern as in `.gitignore`, relative to the directory `base`."""

    base: Path
    pattern: str


@_typed(type="boolean")
def boolean(raw: Raw) -> bool:
    """Parse true or false."""
    if not isinstance(raw.value, bool):
        raise raw.wrong("true or false")
    return raw.value


@_typed(type="integer", minimum=1)
def positive(raw: Raw) -> int:
    """Parse an integer of 1 or more."""
    if not isinstance(raw.value, int) or isinstance(raw.value, bool) or raw.value < 1:
        raise raw.wrong("a positive integer")
    return raw.value


@_typed(type="number", exclusiveMinimum=0)
def seconds(raw: Raw) -> float:
    """Parse a positive number of seconds."""
    if not isinstance(raw.value, int | float) or isinstance(raw.value, bool) or not raw.value > 0:
        raise raw.wrong("a positive number of seconds")
    return float(raw.value)


@_typed(type="string", minLength=1)
def string(raw: Raw) -> str:
    """Parse a non-empty string."""
    if not isinstance(raw.value, str) or not raw.value.strip():
        raise raw.wrong("a string that is not empty")
    return raw.value


def choice(*names: str) -> Type[str]:
    """Parse one of `names`."""
    expected = "one of " + ", ".join(f'"{name}"' for name in names)

    def parse(raw: Raw) -> str:
        if raw.value not in names:
            raise raw.wrong(expected + nearest(str(raw.value), names))
        return str(raw.value)

    return Type(parse, {"enum": list(names)})


def array(element: Type[T]) -> Type[tuple[T, ...]]:
    """Parse a list whose elements are parsed by `element`."""

    def parse(raw: Raw) -> tuple[T, ...]:
        if not isinstance(raw.value, list):
            raise raw.wrong("a list")
        return tuple(element(raw.inside(number, value)) for number, value in enumerate(raw.value))

    return Type(parse, {"type": "array", "items": element.schema})


def table(key: Type[str], value: Type[T]) -> Type[Mapping[str, T]]:
    """Parse a table whose keys and values are parsed by `key` and `value`."""

    def parse(raw: Raw) -> Mapping[str, T]:
        if not isinstance(raw.value, dict):
            raise raw.wrong("a table")
        return {key(raw.inside(name, name)): value(raw.inside(name, held)) for name, held in raw.value.items()}

    return Type(parse, {"type": "object", "additionalProperties": value.schema})


@_typed(type="string", minLength=1)
def path(raw: Raw) -> Path:
    """Parse a path. A relative path is relative to the directory of the file that it was written in."""
    return raw.base / Path(string(raw)).expanduser()


@_typed(type="string", minLength=1)
def interpreter(raw: Raw) -> Path:
    """Parse the path of a Python interpreter. A name without a path is looked up on PATH.

    Symbolic links are not resolved, because an interpreter uses them to find its virtual environment.
    """
    name = string(raw)
    if Path(name).name == name:
        return Path(shutil.which(name) or name)
    return path(raw)


@_typed(type="string", minLength=1)
def glob(raw: Raw) -> Glob:
    """Parse a pattern as in `.gitignore`, relative to the directory of the file that it was written in."""
    return Glob(raw.base, string(raw))


@_typed(**{"$ref": f"#/definitions/{SELECTOR}"})
def selector(raw: Raw) -> Selector:
    """Parse a code or prefix without checking that the rule exists."""
    return Selector(string(raw), raw.place)


@_typed(type="string", pattern=f"^({_TARGET.pattern})$")
def target(raw: Raw) -> str:
    """Parse the name of an importable object, "package.module:Name" or "path/file.py:Name"."""
    name = string(raw)
    if not _TARGET.fullmatch(name):
        raise raw.wrong('a name like "package.module:Name" or "path/file.py:Name"')
    return name


@_typed(
    anyOf=[
        {"enum": ["modules", "explicit"]},
        {"type": "array", "items": {"type": "string", "pattern": f"^({_TARGET.pattern})$"}},
    ]
)
def roots(raw: Raw) -> str | tuple[str, ...]:
    """Parse what code counts as compiled: "modules", "explicit" or a list of targets."""
    if isinstance(raw.value, list):
        return array(target)(raw)
    if raw.value not in ("modules", "explicit"):
        raise raw.wrong('"modules", "explicit" or a list of names like "package.module:Name"')
    return str(raw.value)


@_typed(type="string", pattern=f"^({_RELEASES.pattern})$")
def releases(raw: Raw) -> str:
    """Parse a torch release such as "2.13.0", or a range of releases such as ">=2.6,<2.14"."""
    if not isinstance(raw.value, str) or not _RELEASES.fullmatch(raw.value):
        raise raw.wrong('a release such as "2.13" or a range such as ">=2.6,<2.14"')
    return raw.value.replace(" ", "")


@_typed(type="object", additionalProperties={"type": "array", "items": selector.schema})
def per_file_ignores(raw: Raw) -> tuple[tuple[Glob, tuple[Selector, ...]], ...]:
    """Parse a table of patterns, each with the selectors to disable for the files that it matches."""
    entries = table(string, array(selector))(raw)
    return tuple((Glob(raw.base, pattern), selectors) for pattern, selectors in entries.items())


def nearest(name: str, known: Iterable[str]) -> str:
    """Return " (did you mean `...`?)" with the most similarly spelled name in `known`, or "" if there is none."""
    slack = max(len(name) // 4, 1)  # a prefix is not a misspelling of every longer name
    alike = [other for other in known if abs(len(other) - len(name)) <= slack]
    close = get_close_matches(name, alike, n=1, cutoff=0.65)
    return f" (did you mean `{close[0]}`?)" if close else ""
