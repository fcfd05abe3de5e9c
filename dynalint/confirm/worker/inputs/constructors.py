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

from .guessed_values import WIDTH, GuessedConfig, GuessLevel, PassThrough, constructor_arguments
from .own_code import compared_in
from .search import NoInputsError
from .small_configs import DIVISORS, heads_fit, is_configuration
from .value_text import worded

ATTEMPTS = 20
_BY_DIVISOR = 8
_FEW = 4

Arguments = Mapping[str, Any]
Built = tuple[Callable[[], Any], str]
Revision = Callable[[Any, "re.Match[str]"], Iterator[Any]]


def constructions(cls: type) -> Generator[Built, BaseException | None, None]:
    """Yield makers of instances, each with the expression that it evaluates. Receive each outcome through `send`.

    The outcome is the constructor's exception, a NoInputsError if the instance was built but no call was found, or
    None. If the arguments include configs, their widths are first divided by a large number, then by smaller numbers.
    Raises NoGuessError if a parameter cannot be guessed.
    """
    first = constructor_arguments(cls, GuessLevel(DIVISORS[0]))
    settled = any(is_configuration(type(value)) for value in first.values())
    divisors = sorted(DIVISORS, key=lambda one: not _fits(cls, one)) if settled else DIVISORS[:1]
    tried: set[str] = set()
    for divisor in divisors:
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


def _fits(cls: type, divisor: int) -> bool:
    return all(map(heads_fit, constructor_arguments(cls, GuessLevel(divisor)).values()))


def _built(cls: type, arguments: Arguments) -> Built:
    text = ", ".join(f"{name}={worded(value)}" for name, value in arguments.items())
    # The code being checked may change its arguments, so each instance gets a copy.
    return (lambda: cls(**copy.deepcopy(dict(arguments)))), f"{cls.__name__}({text})"


def _revised(cls: type, arguments: Arguments, error: BaseException) -> Iterator[Arguments]:
    """Yield changed arguments in response to an error, most likely first."""
    message = f"{type(error).__name__}: {error}"
    cause = _DIVIDED.search(message)
    if cause is not None:
        value, divisor = map(int, cause.groups())
        alike = [name for name, one in arguments.items() if type(one) is int and one == value]
        for names in dict.fromkeys((tuple(alike), *((name,) for name in alike))):
            yield {**arguments, **dict.fromkeys(names, divisor)}
    blamed = _blamed(arguments, error)
    for pattern, revise in _REVISIONS:
        match = pattern.search(message)
        if match is not None:
            for name in blamed:
                yield from ({**arguments, name: value} for value in revise(arguments[name], match))
    compared = compared_in(cls)
    for name in blamed:
        for literal in compared.get(name, ()):
            if type(literal) is not type(arguments[name]) or literal != arguments[name]:
                yield {**arguments, name: literal}


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


def _lists(value: Any, _match: re.Match[str]) -> Iterator[Any]:
    """Replace a number with a list, typically with a value for each stage."""
    if type(value) in (int, float):
        for count in (2, 3, 4, 5):
            yield [value] * count


def _longer(value: Any, _match: re.Match[str]) -> Iterator[Any]:
    if isinstance(value, (list, tuple)) and 0 < len(value) < 6:
        yield type(value)([*value, value[-1]])


def _unpacked(value: Any, match: re.Match[str]) -> Iterator[Any]:
    if isinstance(value, (list, tuple)) and value:
        yield [value[0]] * int(match[1])


def _number(value: Any, _match: re.Match[str]) -> Iterator[Any]:
    if type(value) is not int and not is_configuration(type(value)):
        yield WIDTH
        yield 2


def _function(value: Any, _match: re.Match[str]) -> Iterator[Any]:
    """If the code called a value, replace the value with a class or function that accepts anything."""
    if not isinstance(value, type) and not callable(value):
        yield nn.Identity
        yield functional.relu


def _called(value: Any, _match: re.Match[str]) -> Iterator[Any]:
    """Replace a module that was called as if it were a class, or a class that was called as if it were a function."""
    if isinstance(value, nn.Module):
        yield nn.Identity
        yield functional.relu
        yield PassThrough()
    elif value is nn.Identity:
        yield functional.relu


def _module(value: Any, _match: re.Match[str]) -> Iterator[Any]:
    """Replace a number with a module that can be called with more than one argument."""
    if type(value) in (int, float, str):
        yield PassThrough()


def _with_parameters(value: Any, _match: re.Match[str]) -> Iterator[Any]:
    """Replace a module without parameters: the code asks for the first one, usually for its device."""
    if isinstance(value, nn.Identity):
        yield nn.Linear(WIDTH, WIDTH)


def _object(value: Any, match: re.Match[str]) -> Iterator[Any]:
    """If a value is missing an attribute, replace it with a config, or with a layer that has the attribute."""
    if type(value) in (int, float, str):
        yield nn.Linear(WIDTH, WIDTH) if hasattr(nn.Linear(1, 1), match[1]) else GuessedConfig()


def _divisible(value: Any, match: re.Match[str]) -> Iterator[Any]:
    if type(value) is int:
        cause = [int(digits) for digits in re.findall(r"\d+", match.string)]
        yield from (other for other in dict.fromkeys((*cause, 1, WIDTH, 4, 2)) if 0 < other != value)


# The error message from `nn.GroupNorm`.
_DIVIDED = re.compile(r"\((\d+)\) must be divisible by \w+ \((\d+)\)")
_BY_MESSAGE: tuple[tuple[str, Revision], ...] = (
    (r"'(?:int|float)' object is not (?:subscriptable|iterable|reversible)|'(?:int|float)' has no len", _lists),
    (r"argument of type '(?:int|float)' is not", _lists),
    (r"cannot unpack non-iterable (?:int|float)|argument after \* must be an iterable, not (?:int|float)", _lists),
    (r"index out of range|zip\(\) argument \d is shorter", _longer),
    (r"values to unpack \(expected (\d+)", _unpacked),
    (r"'(?:int|float|str|list)' object is not callable", _function),
    (r"(?:int|float|str) is not a Module subclass", _module),
    (r"\.forward\(\) (?:missing|takes|got)|is not a Module subclass|\.__init__\(\) takes", _called),
    (r"'(?:int|float|str)' object has no attribute '(\w+)'", _object),
    (
        r"unsupported operand|not supported between|of type int|as an integer|can't multiply|must be .*\bint|int\(\)",
        _number,
    ),
    (r"^StopIteration", _with_parameters),
    (r"divisible|multiple of|divide|modulo", _divisible),
    (r"AssertionError", _divisible),
)
# Compiled before processes are forked.
_REVISIONS = tuple((re.compile(pattern), revise) for pattern, revise in _BY_MESSAGE)
