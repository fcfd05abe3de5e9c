"""Change tensor arguments in response to the error that they caused."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import nn

from .guessed_values import BATCH, LENGTH, PLACEHOLDER
from .tensor_shapes import Specs, of_rank, resized, swap_size, tensors_in, wanted_by, with_shape
from .watching import Operand

Shape = tuple[int, ...]
Revision = Callable[[Specs, re.Match[str]], Iterator[Specs]]

_SIDES = (28, 64, 224, 96, 16, 128, 8)


@dataclass(frozen=True)
class FailedAttempt:
    """Why an attempt failed: the message, and the layer that was running with its input tensor."""

    message: str
    layer: nn.Module | None = None
    received: torch.Tensor | None = None
    direct: str | None = None
    """The parameter that was passed to the layer unchanged."""
    error: Exception | None = None
    operands: tuple[Operand, ...] = ()
    """The tensors that the last operation received."""
    progress: int = 0
    """How many places in the code ran operations before the error."""


def revisions(specs: Specs, trouble: FailedAttempt) -> Iterator[Specs]:
    """Yield changed specs in response to an error, most likely first."""
    found: list[Specs] = []
    if trouble.layer is not None and trouble.received is not None:
        found += _for_layer(specs, trouble.layer, trouble.received, trouble.direct)
    for pattern, revise in _REVISIONS:
        match = pattern.search(trouble.message)
        if match:
            found += revise(specs, match)
    found += _of_stated_rank(specs, trouble)
    blamed = {name for operand in trouble.operands for name in operand.sources}
    # An argument that the failed operation does not depend on is rarely the cause.
    found.sort(key=lambda one: any(value != specs.get(name) for name, value in one.items() if name not in blamed))
    alike = _like_operands(specs, trouble.operands)
    first = _of_other_rank(specs, trouble.message, trouble.operands)
    mismatch = _MISMATCH.search(trouble.message) is not None
    yield from itertools.chain(first, alike, found) if mismatch else itertools.chain(first, found, alike)


def _like_operands(specs: Specs, operands: Sequence[Operand]) -> Iterator[Specs]:
    """Yield specs in which an operand of the failed operation gets the shape of another operand."""
    tensors = tensors_in(specs)
    for one, other in itertools.permutations(operands, 2):
        for name in one.sources if len(one.sources) == 1 else ():
            for shape in _reshaped(tensors[name].shape, one.shape, other.shape) if name in tensors else ():
                yield {**specs, name: replace(tensors[name], shape=shape)}
        # If the same mask selected from both, each was computed from one other argument.
        alone, model = one.sources - other.sources, other.sources - one.sources
        if len(alone) == len(model) == 1 and one.sources & other.sources and alone | model <= tensors.keys():
            (name,), (like,) = alone, model
            yield {**specs, name: replace(tensors[name], shape=tensors[like].shape)}


def _of_stated_rank(specs: Specs, trouble: FailedAttempt) -> Iterator[Specs]:
    """Yield specs with a number of dimensions that the message states, in the tensor that it names, or is about."""
    ranks = list(dict.fromkeys(map(int, _RANKS.findall(trouble.message))))
    tensors = tensors_in(specs)
    words = re.findall(r"\w+", trouble.message) if ranks else []
    about = [name for name in tensors if name in words]
    about += [name for operand in trouble.operands for name in operand.sources if name in tensors]
    for name in dict.fromkeys(about) if ranks else ():
        shape = tensors[name].shape
        for rank in ranks:
            fitting = shape[:rank] if rank < len(shape) else of_rank(shape, rank)
            if rank != len(shape) and fitting is not None:
                yield {**specs, name: replace(tensors[name], shape=fitting)}


def _of_other_rank(specs: Specs, message: str, operands: Sequence[Operand]) -> Iterator[Specs]:
    """Yield specs in which an operand gets a number of dimensions that the message states, or one more or fewer.

    The argument that it was computed from may have more or fewer dimensions than the operand, as in `x[:, None]`, so it
    gets as many more or fewer dimensions as the operand needs.
    """
    if _ABOUT_RANK.search(message) is None:
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


def _reshaped(shape: Shape, given: Shape, wanted: Shape) -> Iterator[Shape]:
    """Yield shapes for an argument so that an operand made from it has the shape `wanted` instead of `given`."""
    if given == shape:
        yield tuple(LENGTH if size == 1 else size for size in wanted)
    elif len(given) == len(shape) == len(wanted):
        pairs = zip(shape, given, wanted, strict=True)
        yield tuple(new if old == now and new > 1 else old for old, now, new in pairs)
    elif len(given) == len(shape) + 1:
        # The operand has one more dimension, as in `mask[:, None]`.
        for place, size in enumerate(given):
            if size == 1 and given[:place] + given[place + 1 :] == shape:
                yield wanted[:place] + wanted[place + 1 :] if len(wanted) == len(given) else shape[: len(wanted) - 1]
    elif len(given) < len(shape):
        if shape[-len(given) :] == given:
            yield shape[: -len(given)] + wanted
        if shape[: len(given)] == given:
            yield wanted + shape[len(given) :]


def _for_layer(specs: Specs, layer: nn.Module, received: torch.Tensor, direct: str | None) -> Iterator[Specs]:
    """Yield specs in which the argument that reached the failed layer fits the layer."""
    wanted = sorted(wanted_by(layer), key=lambda spec: len(spec.shape) != received.dim())
    if not wanted:
        return
    tensors = tensors_in(specs)
    same = [name for name, spec in tensors.items() if spec.shape == tuple(received.shape)]
    sources = [direct] if direct is not None else same[:1]
    for name in sources:
        for spec in wanted:
            yield {**specs, name: spec}
    if sources:
        return
    want, got = wanted[0], received.shape
    if isinstance(layer, nn.Linear):
        yield from _for_features(specs, got[-1] if got else 1, layer.in_features)
    elif len(want.shape) > 1 and len(got) > 1:
        yield from swap_size(specs, got[1], want.shape[1])
    for name, spec in tensors.items():
        if want.kind != spec.kind:
            yield {**specs, name: replace(spec, kind=want.kind, high=want.high)}
        yield {**specs, name: want}


def _for_features(specs: Specs, got: int, want: int) -> Iterator[Specs]:
    """Yield specs that give a linear layer `want` features, not `got`: as the last dimension or a flattened image."""
    yield from swap_size(specs, got, want)
    for name, spec in tensors_in(specs).items():
        if len(spec.shape) < 3:
            continue
        exact = round(spec.shape[-1] * math.sqrt(want / max(got, 1)))
        # Padding and strides cause rounding, so any common size near the exact size is possible.
        near = [side for side in _SIDES if abs(side - exact) <= 4]
        for side in dict.fromkeys((*near, exact, *_SIDES)):
            if side > 0 and len(spec.shape) == 4:
                yield {**specs, name: replace(spec, shape=(*spec.shape[:2], side, side))}
        long = round(spec.shape[-1] * want / max(got, 1))
        if long > 0 and len(spec.shape) == 3:
            yield {**specs, name: replace(spec, shape=(*spec.shape[:2], long))}


def _sizes(got: int, want: int) -> Revision:
    """Return a revision that replaces a size in the message with another size, given their groups."""
    return lambda specs, match: swap_size(specs, int(match[got]), int(match[want]))


def sizes_in_message(specs: Specs, message: str) -> Iterator[Specs]:
    """Yield specs in which a size from the message is replaced with another number from the message."""
    numbers = list(dict.fromkeys(int(digits) for digits in re.findall(r"(?<![\w.])\d{1,5}(?![\w.]\d)", message)))[:4]
    sizes = {size for spec in tensors_in(specs).values() for size in spec.shape}
    for got in numbers:
        for want in numbers:
            if got in sizes and want != got and want > 0:
                yield from swap_size(specs, got, want)


def deeper(specs: Specs, _match: re.Match[str] | None = None) -> Iterator[Specs]:
    """Yield specs that add a dimension to one of the tensors."""
    for name, spec in tensors_in(specs).items():
        shape = of_rank(spec.shape, len(spec.shape) + 1)
        if shape is not None:
            yield {**specs, name: replace(spec, shape=shape)}


def _unpacked(specs: Specs, match: re.Match[str]) -> Iterator[Specs]:
    """Yield specs in which a tensor has as many dimensions as the code unpacks, as in `b, t, c = x.shape`."""
    for name, spec in tensors_in(specs).items():
        shape = of_rank(spec.shape, int(match[1]))
        if shape is not None and len(shape) != len(spec.shape):
            yield {**specs, name: replace(spec, shape=shape)}


def _alike(specs: Specs, _match: re.Match[str]) -> Iterator[Specs]:
    """Yield specs in which all tensors have the same shape."""
    tensors = tensors_in(specs)
    for spec in dict.fromkeys(tensors.values()):
        yield {**specs, **dict.fromkeys(tensors, spec)}


def _larger(specs: Specs, _match: re.Match[str]) -> Iterator[Specs]:
    """Yield specs with larger pictures or longer rows, because kernels, patches or pooling windows were too large."""
    pictures = {name: spec for name, spec in tensors_in(specs).items() if len(spec.shape) == 4}
    for side in (64, 128, 224) if pictures else ():
        yield {**specs, **{n: replace(one, shape=(*one.shape[:-2], side, side)) for n, one in pictures.items()}}
    for name, spec in tensors_in(specs).items():
        if len(spec.shape) in (2, 3) and spec.kind == "float":
            yield {**specs, name: replace(spec, shape=(*spec.shape[:-1], 16 * spec.shape[-1]))}


def _whole(specs: Specs, _match: re.Match[str]) -> Iterator[Specs]:
    """Yield specs with integers, as indices and class labels are, also with one for each row."""
    for name, spec in tensors_in(specs).items():
        if spec.kind == "float":
            yield {**specs, name: replace(spec, kind="int")}
        elif spec.kind == "int" and len(spec.shape) > 1:
            yield {**specs, name: replace(spec, shape=spec.shape[:-1])}


def _model(specs: Specs, match: re.Match[str]) -> Iterator[Specs]:
    """Yield specs with a placeholder for a module, because the code calls an argument, or looks at its parts."""
    for name in tensors_in(specs) if match[1] is None or hasattr(nn.Module, match[1]) else ():
        yield {**specs, name: PLACEHOLDER}


def _boolean(specs: Specs, _match: re.Match[str]) -> Iterator[Specs]:
    for name, spec in tensors_in(specs).items():
        if spec.kind != "bool":
            yield {**specs, name: replace(spec, kind="bool")}


def _floating(specs: Specs, _match: re.Match[str]) -> Iterator[Specs]:
    for name, spec in tensors_in(specs).items():
        if spec.kind in ("int", "bool"):
            yield {**specs, name: replace(spec, kind="float")}


def _between(specs: Specs, _match: re.Match[str]) -> Iterator[Specs]:
    """Yield specs with values between 0 and 1, which fit a rate, a scale, and a probability."""
    floats = {name: replace(spec, between=True) for name, spec in tensors_in(specs).items() if spec.kind == "float"}
    yield {**specs, **floats}


def _falling(specs: Specs, _match: re.Match[str]) -> Iterator[Specs]:
    """Yield specs with sorted lengths, as `pack_padded_sequence` requires."""
    for name, spec in tensors_in(specs).items():
        if spec.kind == "int" and len(spec.shape) == 1:
            yield {**specs, name: replace(spec, falling=True)}


def _with_gradients(specs: Specs, _match: re.Match[str]) -> Iterator[Specs]:
    """Yield specs whose float tensors require gradients, as code that differentiates with respect to them needs."""
    yield {**specs, **{n: replace(one, grad=True) for n, one in tensors_in(specs).items() if one.kind == "float"}}


def _divisible(specs: Specs, _match: re.Match[str]) -> Iterator[Specs]:
    """Yield specs with another batch size or length. The usual ones are prime numbers, but code may divide them."""
    for sizes_of in ({BATCH: 4}, {LENGTH: 8}, {BATCH: 4, LENGTH: 8}):
        yield resized(specs, sizes_of)


_BY_MESSAGE: tuple[tuple[str, Revision], ...] = (
    (r"cannot be multiplied \(\d+x(\d+) and (\d+)x\d+\)", _sizes(1, 2)),
    (r"(tuple index|Dimension) out of range|too many indices|Dimension specified as|same number of dimensions", deeper),
    (r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)", _sizes(1, 2)),
    (r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)", _sizes(2, 1)),
    (r"must match the size of tensor|[Tt]arget size|(same|equal) size|same (shape|number of)|shapes? must", _alike),
    (r"shape mismatch|[Dd]iffer(ent|ing) (size|shape)|shapes? (do not|don'?t) match", _alike),
    (r"^(?:TypeError|AttributeError): 'Tensor' object (?:is not callable|has no attribute '(\w+)')", _model),
    (r"used as indices must be|dtype int|to be (one of types )?Long|0D or 1D target|to indexing result", _whole),
    (r"[Bb]oolean (tensor|masks)|BoolTensor|Boolean-type|\"(bitwise_)?(and|x?or)_cpu\" not implemented", _boolean),
    (r"floating[ -]point|same dtype|expected dtype|not implemented for '(Long|Bool)'|Float can't be cast", _floating),
    (r"to satisfy the constraint (Greater|Interval|HalfOpen|Positive|Unit)", _between),  # torch.distributions
    (r"[Oo]utside|[Dd]omain|\[0, ?1\]", _between),
    (r"\b([Nn]a[Nn]s?|[Ii]nf(inite|inity)?|([Nn]on-?)?finite|positive|[Nn]on-?negative)\b", _between),
    (
        r"[Oo]utput size is too small|Kernel size can't be|[Pp]adding size should be|of 0 elements|'from' to be less",
        _larger,
    ),
    (r"values to unpack \(expected (\d+)", _unpacked),
    (r"sorted in de(creas|scend)ing order", _falling),
    (r"[Tt]ensors? .*does not require grad", _with_gradients),
    (r"^AssertionError|[Dd]ivisible|multiple of", _divisible),
)
# Messages about numbers of dimensions, those of them that want a number, and what they state: a dimension that the
# tensor should have, or how many there are or should be.
_ABOUT_RANK = re.compile(
    r"number of dimensions|\d dimensions|len\(dims\)|Dimension out of range"
    r"|too many indices|must be a matrix|indices should have the same number|ambiguous|to Scalar|one element tensors"
)
_NUMBER = re.compile(r"ambiguous|to Scalar|one element tensors")
_NAMED = re.compile(r"(?:Dimension out of range .* but got|too many indices for tensor of dimension) (-?\d+)")
_STATED = re.compile(r"(?<![-\w.])[0-5](?=D?\b)(?!\.\d)")
_RANKS = re.compile(r"\b([1-5])-?[dD](?:imensional)?\b")
# Errors about operands whose shapes do not fit together.
_MISMATCH = re.compile(
    r"must match|[Ss]izes? (do|does) not match|broadcast|same (number of|shape)|(same|equal) size|expand"
)
# Compiled before processes are forked.
_REVISIONS = tuple((re.compile(pattern), revise) for pattern, revise in _BY_MESSAGE)
