"""Find constructor arguments: start with a guess, then change the argument that the error is about."""

from __future__ import annotations

import copy
import linecache
import re
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

from torch import nn
from torch.nn import functional

from .guessed_values import WIDTH, GuessLevel, PassThrough, constructor_arguments
from .search import NoInputsError
from .small_configs import DIVISORS, is_configuration
from .value_text import worded

ATTEMPTS = 20
_BY_DIVISOR = 8
_FEW = 4

Arguments = Mapping[str, Any]
Built = tuple[Callable[[], Any], str]
Revision = Callable[[Any], Iterator[Any]]


def constructions(cls: type) -> Generator[Built, BaseException | None, None]:
    """Yield makers of instances, each with the expression that it evaluates. Receive each outcome through `send`.

    The outcome is the constructor's exception, a NoInputsError if the instance was built but no call was found, or
    None. If the arguments include configs, their widths are first divided by a large number, then by smaller numbers.
    Raises NoGuessError if a parameter cannot be guessed.
    """
    first = constructor_arguments(cls, GuessLevel(DIVISORS[0]))
    settled = any(is_configuration(type(value)) for value in first.values())
    tried: set[str] = set()
    for divisor in DIVISORS if settled else DIVISORS[:1]:
        waiting: list[Arguments] = [constructor_arguments(cls, GuessLevel(divisor))]
        most = len(tried) + _BY_DIVISOR if settled else ATTEMPTS
        while waiting and len(tried) < min(most, ATTEMPTS):
            arguments = waiting.pop(0)
            if (key := repr(arguments)) in tried:
                continue
            tried.add(key)
            error = yield _built(cls, arguments)
            if error is None or isinstance(error, NoInputsError):
                # The instance was built, but no call was found.
                waiting += _alike(arguments)
            else:
                waiting[:0] = _revised(cls, arguments, error)


def _built(cls: type, arguments: Arguments) -> Built:
    text = ", ".join(f"{name}={worded(value)}" for name, value in arguments.items())
    # The code being checked may change its arguments, so each instance gets a copy.
    return (lambda: cls(**copy.deepcopy(dict(arguments)))), f"{cls.__name__}({text})"


def _revised(cls: type, arguments: Arguments, error: BaseException) -> Iterator[Arguments]:
    """Yield changed arguments in response to an error, most likely first."""
    message = f"{type(error).__name__}: {error}"
    blamed = _blamed(arguments, error)
    for pattern, revise in _REVISIONS:
        if pattern.search(message):
            for name in blamed:
                yield from ({**arguments, name: value} for value in revise(arguments[name]))


def _alike(arguments: Arguments) -> Iterator[Arguments]:
    """Yield arguments with equal numbers, because code that adds or compares tensors needs equal sizes."""
    numbers = {name: value for name, value in arguments.items() if type(value) is int}
    if len(numbers) > 1:
        largest = max(numbers.values())
        yield {**arguments, **{name: largest for name, value in numbers.items() if 2 * value >= largest}}
        yield {**arguments, **dict.fromkeys(numbers, _FEW)}


def _blamed(arguments: Arguments, error: BaseException) -> list[str]:
    """Return the arguments in the order in which the lines of the traceback name them, innermost first."""
    found: dict[str, None] = {}
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        text = linecache.getline(frame.f_code.co_filename, line)
        for word in re.findall(r"\w+", text):
            if word in arguments and frame.f_locals.get(word, error) is not error:
                found[word] = None
    return list(dict.fromkeys([*found, *arguments]))


def _lists(value: Any) -> Iterator[Any]:
    """Replace a number with a list, typically with a value for each stage."""
    if type(value) in (int, float):
        for count in (2, 3, 4, 5):
            yield [value] * count


def _number(value: Any) -> Iterator[Any]:
    if type(value) is not int and not is_configuration(type(value)):
        yield WIDTH
        yield 2


def _function(value: Any) -> Iterator[Any]:
    """If the code called a value, replace the value with a class or function that accepts anything."""
    if not isinstance(value, type) and not callable(value):
        yield nn.Identity
        yield functional.relu


def _called(value: Any) -> Iterator[Any]:
    """Replace a module that was called as if it were a class, or a class that was called as if it were a function."""
    if isinstance(value, nn.Module):
        yield nn.Identity
        yield functional.relu
        yield PassThrough()
    elif value is nn.Identity:
        yield functional.relu


_BY_MESSAGE: tuple[tuple[str, Revision], ...] = (
    (r"'(?:int|float)' object is not (?:subscriptable|iterable|reversible)|'(?:int|float)' has no len", _lists),
    (r"argument of type '(?:int|float)' is not", _lists),
    (r"cannot unpack non-iterable (?:int|float)|argument after \* must be an iterable, not (?:int|float)", _lists),
    (r"'(?:int|float|str|list)' object is not callable", _function),
    (r"\.forward\(\) (?:missing|takes|got)|is not a Module subclass|\.__init__\(\) takes", _called),
    (
        r"unsupported operand|not supported between|of type int|as an integer|can't multiply|must be .*\bint|int\(\)",
        _number,
    ),
)
# Compiled before processes are forked.
_REVISIONS = tuple((re.compile(pattern), revise) for pattern, revise in _BY_MESSAGE)
