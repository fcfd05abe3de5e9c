"""Find the config fields that an error is about, and other values for them.

An error is about the fields that are read on the lines in its traceback, or in the condition that guards its `raise`.
If a field is None, it gets the value that its class documents, or a value suggested by its name and type. If a field
was reduced, it gets its default back. If a field must divide another field, it gets a divisor.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import traceback
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import FrameType
from typing import Any

from .guessed_values import NoGuessError, for_parameter, hints_of
from .small_configs import Fields, defaults_of, is_configuration, nested, value_of

_MOST = 6
_CLAUSE = re.compile(r"\s*(if|elif|else|assert|while)\b")
_READ = re.compile(r"((?:\w+\.)*\w+)\.(\w+)")
_DIVISIBLE = re.compile(r"divisible|multiple of|divide|modulo|group")


def revised_fields(error: BaseException, settings: Iterable[Any], fields: Fields) -> Iterator[Fields]:
    """Yield `fields` with a different value for a field that the error is about, most likely first."""
    message = str(error)
    known = [inner for one in settings for inner in nested(one)]
    count = 0
    for holder, name in _blamed(error, known):
        # The code may derive a config from another config.
        given = [one for one in known if one is holder] or [one for one in known if _has(one, name)]
        for value in _others(holder, name, message) if given else ():
            count += 1
            if count <= _MOST:
                yield {**fields, **{type(one): {**fields.get(type(one), {}), name: value} for one in given}}


def _blamed(error: BaseException, settings: list[Any]) -> Iterator[tuple[Any, str]]:
    """Yield configs with the name of a field: from the innermost line outwards, then from the message."""
    seen: set[tuple[int, str]] = set()
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        for path, name in _READ.findall(_text(frame, line)):
            holder = _reached(frame, path)
            if is_configuration(type(holder)) and (id(holder), name) not in seen and _has(holder, name):
                seen.add((id(holder), name))
                yield holder, name
    for word in dict.fromkeys(re.findall(r"\w+", str(error))):
        for holder in settings:
            if word in getattr(holder, "__dict__", {}) and (id(holder), word) not in seen:
                yield holder, word


def _has(holder: Any, name: str) -> bool:
    """Return whether `name` is a field and not a method."""
    try:
        return not callable(getattr(holder, name))
    except Exception:  # noqa: BLE001 - user code
        return False


def _text(frame: FrameType, line: int) -> str:
    """Return the statement that starts on a line, with its condition if the statement is a `raise`."""
    file = frame.f_code.co_filename
    text = linecache.getline(file, line)
    if re.match(r"\s*raise\b", text) is None:
        for below in range(line + 1, line + 12):
            if sum(map(text.count, "([{")) <= sum(map(text.count, ")]}")):
                break
            text += linecache.getline(file, below)
        return text
    indent = len(text) - len(text.lstrip())
    for above in range(line - 1, max(line - 12, 0), -1):
        other = linecache.getline(file, above)
        text = other + text
        if _CLAUSE.match(other) and len(other) - len(other.lstrip()) < indent:
            break
    return text


def _reached(frame: FrameType, path: str) -> Any:
    first, *rest = path.split(".")
    value = frame.f_locals.get(first)
    for name in rest:
        value = getattr(value, "__dict__", {}).get(name)
    return value


def _others(holder: Any, name: str, message: str) -> Iterator[Any]:
    """Yield other values for a field."""
    value = value_of(holder, name)
    default = defaults_of(type(holder)).get(name)
    if value is None:
        yield from _stated(holder, name)
    elif type(value) is int:
        if type(default) is int and default != value:
            yield default
        if _DIVISIBLE.search(message):
            yield from (other for other in (1, 2, 4) if other != value)


def _stated(holder: Any, name: str) -> Iterator[Any]:
    """Yield values for a field that is None: as documented, from a list of choices, or guessed from its name."""
    cls = type(holder)
    documented = _documented(cls, name)
    if documented is not None:
        yield documented
    for word in name.split("_"):
        listed = value_of(holder, f"{word}s")
        if isinstance(listed, (list, tuple)) and listed:
            yield listed[0]
    with suppress(NoGuessError):
        guess = for_parameter(name, hints_of(cls).get(name, inspect.Parameter.empty))
        if type(guess) in (int, float, bool, list, tuple):
            yield guess


def _documented(cls: type, name: str) -> Any:
    """Return a field's default as documented in the docstring of a class or its bases."""
    for owner in cls.__mro__:
        stated = re.search(rf"^\s*{name}\s*\(.*?defaults? to\s*`*([^`]+?)`*\)\s*:", owner.__doc__ or "", re.MULTILINE)
        with suppress(ValueError, SyntaxError):
            if stated is not None:
                return ast.literal_eval(stated[1])
    return None
