"""What torch's errors say about the operands of the failed operation: how many dimensions and which sizes they need."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from .guessed_values import BATCH, LENGTH
from .tensor_shapes import Specs, of_rank, resized, swap_size, tensors_in, with_shape
from .watching import Operand

Revision = Callable[[Specs, re.Match[str]], Iterator[Specs]]


def sizes(got: int, want: int) -> Revision:
    """Return a revision that replaces a size in the message with another size, given their groups."""
    return lambda specs, match: swap_size(specs, int(match[got]), int(match[want]))


def of_other_rank(specs: Specs, message: str, operands: Sequence[Operand]) -> Iterator[Specs]:
    """Yield specs in which an operand gets a number of dimensions that the message states, or one more or fewer.

    The argument that it was computed from may have more or fewer dimensions than the operand, as in `x[:, None]`, so it
    gets as many more or fewer dimensions as the operand needs.
    """
    if _RANK.search(message) is None:
        return
    tensors = tensors_in(specs)
    stated = [] if _NUMBER.search(message) is None else [0]
    stated += [named + 1 if (named := int(one)) >= 0 else -named for one in _NAMED.findall(message)]
    stated += [int(one) for one in _STATED.findall(message)]
    # The first operand is more often as it should be.
    for operand in reversed(operands):
        own = len(operand.shape)
        for wanted in dict.fromkeys((*stated, own + 1, own - 1)):
            for name in sorted(operand.sources & tensors.keys()) if wanted != own else ():
                shape = tensors[name].shape
                rank = len(shape) + wanted - own
                if 0 <= rank < len(shape):
                    # The features are usually kept.
                    yield with_shape(specs, name, (*shape[: rank - 1], *shape[-1:]) if rank else ())
                    yield with_shape(specs, name, shape[:rank])
                elif rank > len(shape) and (fitting := of_rank(shape, rank)) is not None:
                    yield with_shape(specs, name, fitting)


def divisible(specs: Specs, _match: re.Match[str]) -> Iterator[Specs]:
    """Yield specs with another batch size or length. The usual ones are prime numbers, but code may divide them."""
    for sizes_of in ({BATCH: 4}, {LENGTH: 8}, {BATCH: 4, LENGTH: 8}):
        yield resized(specs, sizes_of)


# Messages about numbers of dimensions, those of them that want a number, and what they state: a dimension that the
# tensor should have, or how many there are or should be.
_RANK = re.compile(
    r"number of dimensions|\d dimensions|len\(dims\)|Dimension out of range|too many indices|must be a matrix"
    r"|indices should have the same number|ambiguous|to Scalar|only one element tensors"
)
_NUMBER = re.compile(r"ambiguous|to Scalar|only one element tensors")
_NAMED = re.compile(r"(?:Dimension out of range .* but got|too many indices for tensor of dimension) (-?\d+)")
_STATED = re.compile(r"(?<![-\w.])[0-5](?=D?\b)(?!\.\d)")
