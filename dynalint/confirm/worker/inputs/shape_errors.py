"""What torch's errors say about the operands of the failed operation: how many dimensions and which sizes they need."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from .guessed_values import BATCH, LENGTH
from .tensor_shapes import Specs, of_rank, resized, swap_size, tensors_in, with_shape
from .watching import Operand

Revision = Callable[[Specs, re.Match[str]], Iterator[Specs]]
Wanted = Iterator[tuple[Operand, int]]


def sizes(got: int, want: int) -> Revision:
    """Return a revision that replaces a size in the message with another size, given their groups."""
    return lambda specs, match: swap_size(specs, int(match[got]), int(match[want]))


def of_other_rank(specs: Specs, message: str, operands: Sequence[Operand]) -> Iterator[Specs]:
    """Yield specs in which an operand gets the number of dimensions that the message asks for.

    The argument that it was computed from may have more or fewer dimensions than the operand, as in `x[:, None]`, so it
    gets as many more or fewer dimensions as the operand needs.
    """
    tensors = tensors_in(specs)
    for operand, wanted in _wanted_ranks(message, operands):
        for name in sorted(operand.sources & tensors.keys()):
            shape = tensors[name].shape
            rank = len(shape) + wanted - len(operand.shape)
            if 0 <= rank < len(shape):
                # The features are usually kept.
                yield with_shape(specs, name, (*shape[: rank - 1], *shape[-1:]) if rank else ())
                yield with_shape(specs, name, shape[:rank])
            elif rank > len(shape) and (fitting := of_rank(shape, rank)) is not None:
                yield with_shape(specs, name, fitting)


def _wanted_ranks(message: str, operands: Sequence[Operand]) -> Wanted:
    """Yield operands, each with the number of dimensions that it needs according to the message."""
    for pattern, wanted in _RANKS:
        match = pattern.search(message)
        if match is not None and operands:
            for operand, rank in wanted(operands, match):
                if rank != len(operand.shape):
                    yield operand, rank


def _stated(got: int, want: int) -> Callable[[Sequence[Operand], re.Match[str]], Wanted]:
    """The message states how many dimensions an operand has and needs, in these groups."""
    return lambda operands, match: ((one, int(match[want])) for one in operands if len(one.shape) == int(match[got]))


def _at_least(operands: Sequence[Operand], match: re.Match[str]) -> Wanted:
    return ((one, int(match[1])) for one in operands if len(one.shape) < int(match[1]))


def _of_operand(operands: Sequence[Operand], match: re.Match[str]) -> Wanted:
    yield from ((one, int(match[1])) for one in operands[int(match[3]) :][:1])


def _like_first(operands: Sequence[Operand], _match: re.Match[str]) -> Wanted:
    yield from ((one, len(operands[0].shape)) for one in operands[1:])
    yield from ((operands[0], len(one.shape)) for one in operands[1:])


def _to_have(dimension: int) -> Callable[[Sequence[Operand], re.Match[str]], Wanted]:
    """The code names a dimension that the first operand does not have, in this group."""

    def wanted(operands: Sequence[Operand], match: re.Match[str]) -> Wanted:
        named = int(match[dimension])
        yield operands[0], named + 1 if named >= 0 else -named

    return wanted


def _first(rank: int) -> Callable[[Sequence[Operand], re.Match[str]], Wanted]:
    return lambda operands, _: ((one, rank) for one in operands[:1])


def of_other_size(specs: Specs, message: str, operands: Sequence[Operand]) -> Iterator[Specs]:
    """Yield specs in which an operand can be divided, split or reshaped as the code does it."""
    view, split = _VIEW.search(message), _SPLIT.search(message)
    if view is not None and operands:
        yield from _divisible(specs, operands[0], [int(size) for size in view[1].split(",")])
    if split is not None:
        yield from swap_size(specs, int(split[1]), sum(map(int, split[2].split(","))))


def _divisible(specs: Specs, operand: Operand, wanted: Sequence[int]) -> Iterator[Specs]:
    """Yield specs in which an operand has as many elements as the wanted shape, or a multiple if it has a -1.

    Sizes that the wanted shape repeats stay.
    """
    count, parts, tensors = math.prod(operand.shape), math.prod(map(abs, wanted)), tensors_in(specs)
    for name in sorted(operand.sources & tensors.keys()):
        shape = tensors[name].shape
        for place in range(len(shape) - 1, 0, -1):
            if shape[place] not in operand.shape or shape[place] in wanted:
                continue
            rest = count // shape[place]
            size, left = (parts // math.gcd(parts, rest), 0) if -1 in wanted else divmod(parts, rest)
            if size > 0 and not left:
                yield with_shape(specs, name, (*shape[:place], size, *shape[place + 1 :]))


def joined(specs: Specs, match: re.Match[str]) -> Iterator[Specs]:
    """Yield specs with fewer features or channels, because others, or the same ones again, are joined to them."""
    more = int(match[1]) - int(match[2])
    for times in (1, 2, 3):
        for name, spec in tensors_in(specs).items():
            place, (fewer, rest) = 1 if len(spec.shape) > 3 else len(spec.shape) - 1, divmod(more, times)
            if place > 0 and not rest and 0 < fewer < spec.shape[place]:
                shape = (*spec.shape[:place], spec.shape[place] - fewer, *spec.shape[place + 1 :])
                yield with_shape(specs, name, shape)


def longer(specs: Specs, match: re.Match[str]) -> Iterator[Specs]:
    """Yield specs with a dimension that is long enough for an index, or with indices that fit it."""
    index, size = int(match[1]), int(match[2])
    yield from swap_size(specs, size, index + 1)
    high = {n: replace(spec, high=size) for n, spec in tensors_in(specs).items() if spec.kind == "int"}
    yield {**specs, **high}


def divisible(specs: Specs, _match: re.Match[str]) -> Iterator[Specs]:
    """Yield specs with another batch size or length. The usual ones are prime numbers, but code may divide them."""
    for sizes_of in ({BATCH: 4}, {LENGTH: 8}, {BATCH: 4, LENGTH: 8}):
        yield resized(specs, sizes_of)


# Torch's messages, each with the operands that it is about and the number of dimensions that they need.
_BY_MESSAGE: tuple[tuple[str, Callable[[Sequence[Operand], re.Match[str]], Wanted]], ...] = (
    (
        r"sizes provided \((\d+)\) must be greater or equal to the number of dimensions in the tensor \((\d+)\)",
        _stated(2, 1),
    ),
    (
        r"subscripts in the equation \((\d+)\) does not match the number of dimensions \((\d+)\) for operand (\d+)",
        _of_operand,
    ),
    (r"input\.dim\(\) = (\d+) is not equal to len\(dims\) = (\d+)", _stated(1, 2)),
    (r"expects a tensor with <= (\d+) dimensions, but self is (\d+)D", _stated(2, 1)),
    (r"at least (\d+) dimensions", _at_least),
    (r"same number of dimensions: got (\d+) and (\d+)", _stated(2, 1)),
    (r"same number of dimensions: got (\d+) and (\d+)", _stated(1, 2)),
    (r"same number of dimensions as (?:input|self|source)|input and indices should have the same number", _like_first),
    (r"Dimension out of range .* but got (-?\d+)", _to_have(1)),
    (r"too many indices for tensor of dimension (\d+)", _to_have(1)),
    (r"must be a matrix", _first(2)),
    (r"more than one value is ambiguous|cannot be converted to Scalar|only one element tensors can be", _first(0)),
)
_VIEW = re.compile(r"(?:shape '|[Pp]rovided sizes )\[([-\d, ]+)\]'? (?:is invalid for input|don't multiply up)")
_SPLIT = re.compile(r"split_sizes to sum exactly to (\d+) .* got split_sizes=\[([\d, ]+)\]")
# Compiled before processes are forked.
_RANKS = tuple((re.compile(pattern), wanted) for pattern, wanted in _BY_MESSAGE)
