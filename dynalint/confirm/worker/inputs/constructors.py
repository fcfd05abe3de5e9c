"""Find constructor arguments: start with a guess, then change the argument that the error is about."""

from __future__ import annotations

import copy
import linecache
import re
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import nullcontext
from typing import Any

import torch

from .guessed_values import WIDTH, GuessLevel, PassThrough, constructor_arguments
from .large_models import LARGE, TooLargeError, has_large_defaults, limited_parameters, small_defaults, too_large
from .own_code import compared_in
from .search import NoInputsError
from .small_configs import DIVISORS, is_configuration
from .value_text import worded

ATTEMPTS = 20
_BY_DIVISOR = 8
_FEW = 4
Size = tuple[int, bool]
"""What default widths are divided by, and whether the model may be large."""
_AS_WRITTEN: Size = (1, False)
# If a model is large, smaller ones come first.
_OTHER_SIZES: tuple[Size, ...] = ((16, True), (4, True), (1, True))

Arguments = Mapping[str, Any]
Built = tuple[Callable[[], Any], str]
Revision = Callable[[Any], Iterator[Any]]


def constructions(cls: type) -> Generator[Built, BaseException | None, None]:
    """Yield makers of instances, each with the expression that it evaluates. Receive each outcome through `send`.

    The outcome is the constructor's exception, a NoInputsError if the instance was built but no call was found, or
    None. If the arguments include configs, their widths are first divided by a large number, then by smaller numbers.
    If the model is large, its default arguments are reduced in the same way, and only used as they are if it cannot be
    built otherwise. Raises NoGuessError if a parameter cannot be guessed.
    """
    first = constructor_arguments(cls, GuessLevel(DIVISORS[0]))
    settled = any(is_configuration(type(value)) for value in first.values())
    tried: set[tuple[str, Size]] = set()
    for divisor in DIVISORS if settled else DIVISORS[:1]:
        waiting: list[tuple[Arguments, Size]] = [(constructor_arguments(cls, GuessLevel(divisor)), _AS_WRITTEN)]
        most = len(tried) + _BY_DIVISOR if settled else ATTEMPTS
        while waiting and len(tried) < min(most, ATTEMPTS):
            arguments, size = waiting.pop(0)
            if (key := (re.sub(r" at 0x\w+", "", repr(arguments)), size)) in tried:
                continue
            tried.add(key)
            error = yield _built(cls, arguments, size)
            if isinstance(error, TooLargeError):
                # If this is not the first time, a model with larger default arguments is too large too.
                others = _OTHER_SIZES if has_large_defaults(cls.__mro__) else _OTHER_SIZES[-1:]
                waiting = [*((arguments, one) for one in others), *waiting] if size == _AS_WRITTEN else []
            elif error is not None and not isinstance(error, NoInputsError):
                waiting[:0] = ((one, size) for one in _revised(cls, arguments, error))
            elif size == _AS_WRITTEN:
                # The instance was built, but no call was found.
                waiting += ((one, size) for one in _alike(arguments))
            else:
                return


def _built(cls: type, arguments: Arguments, size: Size) -> Built:
    text = ", ".join(f"{name}={worded(value)}" for name, value in arguments.items())
    divisor, may_be_large = size

    def build() -> Any:
        defaults = nullcontext() if divisor == 1 else small_defaults(cls.__mro__, divisor)
        with defaults, limited_parameters(too_large() if may_be_large else LARGE):
            # The code being checked may change its arguments, so each instance gets a copy.
            return cls(**copy.deepcopy(dict(arguments)))

    return build, f"{cls.__name__}({text})" + ("" if divisor == 1 else " with smaller default arguments")


def _revised(cls: type, arguments: Arguments, error: BaseException) -> Iterator[Arguments]:
    """Yield changed arguments in response to an error, most likely first."""
    message = f"{type(error).__name__}: {error}"
    blamed = _blamed(arguments, error)
    for pattern, revise in _REVISIONS:
        if pattern.search(message):
            for name in blamed:
                yield from ({**arguments, name: value} for value in revise(arguments[name]))
    divided = _DIVIDED.search(message)
    if divided is not None:
        yield {
            name: int(divided[2]) if type(value) is int and value == int(divided[1]) else value
            for name, value in arguments.items()
        }
    unpacked = _UNPACKED.search(message)
    if unpacked is not None:
        for name, value in ((name, arguments[name]) for name in blamed[:1]):
            first = value[0] if isinstance(value, (list, tuple)) and value else value
            yield {**arguments, name: [first] * int(unpacked[1])}
    elif isinstance(error, (AssertionError, ValueError)):
        known = compared_in(cls)
        for name in blamed:
            plain = (value for value in known.get(name, ()) if isinstance(arguments[name], (str, int, float)))
            yield from ({**arguments, name: value} for value in plain if value != arguments[name])


def _alike(arguments: Arguments) -> Iterator[Arguments]:
    """Yield arguments with equal numbers, because code that adds or compares tensors needs equal sizes."""
    numbers = {name: value for name, value in arguments.items() if type(value) is int}
    if len(numbers) > 1:
        largest = max(numbers.values())
        yield {**arguments, **{name: largest for name, value in numbers.items() if 2 * value >= largest}}
        yield {**arguments, **dict.fromkeys(numbers, _FEW)}


def _blamed(arguments: Arguments, error: BaseException) -> list[str]:
    """Return the arguments in the order in which the lines of the traceback name them, innermost first.

    Attributes often have shorter names, as in `self.mask = joint_mask`.
    """
    found: dict[str, None] = {}
    words: dict[str, None] = {}
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        text = linecache.getline(frame.f_code.co_filename, line)
        for word in re.findall(r"\w+", text):
            words[word] = None
            if word in arguments and frame.f_locals.get(word, error) is not error:
                found[word] = None
    alike = [name for word in words for name in arguments if name.endswith(f"_{word}")]
    return list(dict.fromkeys([*found, *alike, *arguments]))


def _lists(value: Any) -> Iterator[Any]:
    """Replace a number with a list, typically with a value for each stage."""
    if type(value) in (int, float):
        for count in (2, 3, 4, 5):
            yield [value] * count


def _number(value: Any) -> Iterator[Any]:
    if type(value) is not int and not is_configuration(type(value)):
        yield WIDTH
        yield 2


def _tensor(value: Any) -> Iterator[Any]:
    """Replace a number with a tensor, such as statistics or weights."""
    if type(value) in (int, float):
        yield torch.ones(WIDTH)


def _mask(value: Any) -> Iterator[Any]:
    """Replace a tensor that selects elements with a mask."""
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        yield value.bool()


def _called(_value: Any) -> Iterator[Any]:
    """Replace a value that was called with a class that accepts anything."""
    yield PassThrough


_BY_MESSAGE: tuple[tuple[str, Revision], ...] = (
    (r"'(?:int|float)' object is not (?:subscriptable|iterable|reversible)|'(?:int|float)' has no len", _lists),
    (r"argument of type '(?:int|float)' is not", _lists),
    (r"cannot unpack non-iterable (?:int|float)|argument after \* must be an iterable, not (?:int|float)", _lists),
    (r"'(?:int|float|str|list)' object is not callable", _called),
    (r"(?:must be|expected) Tensor\b.*\b(?:not|got) (?:int|float)|'(?:int|float)' object .*\bTensor", _tensor),
    (r"used as indices must be|Boolean-type tensors", _mask),
    (r"'(?:int|float)' object has no attribute '(?:shape|size|n?dim|dtype|to|view|reshape|detach|clone)'", _tensor),
    (
        r"unsupported operand|not supported between|of type int|as an integer|can't multiply|must be .*\bint|int\(\)",
        _number,
    ),
)
# Compiled before processes are forked.
_DIVIDED = re.compile(r"\((\d+)\) must be divisible by \w+ \((\d+)\)")
_UNPACKED = re.compile(r"values to unpack \(expected (\d+)")
_REVISIONS = tuple((re.compile(pattern), revise) for pattern, revise in _BY_MESSAGE)
