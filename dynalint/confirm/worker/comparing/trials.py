"""Variations of an example's inputs: signs, scales, zeros, masks, batch sizes, non-finite values.

A trial only changes the tensors in a call. It is deterministic for a given seed, so that it can be repeated for another
copy of the code.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ..dynamo.runs import Call
from .tensor_changes import (
    Change,
    apart,
    coin,
    drawn,
    filled,
    highest,
    largest,
    lowest,
    mask,
    negative,
    normal,
    positive,
    same,
    scaled,
    unit,
    with_one,
)


@dataclass(frozen=True)
class ElementChange:
    """Sets an element of each float tensor in the range `which` to `value`, or every third element if `widely`."""

    value: float
    which: tuple[int, int | None] = (0, None)
    widely: bool = False


@dataclass(frozen=True)
class Trial:
    """A change to all tensors in a call, with a name and a function for each kind of tensor.

    `seed` seeds both the trial and the code being checked. `batch` is a different size for the first dimension of
    tensors that share it. `method`, such as "Class.method", is called without arguments on the first part of the target
    that has the class. If `alike` is true, all tensors with the same shape and dtype get the same numbers as the first.
    `which` is the range of tensors that the trial changes. Then the elements given by `spoilt` are replaced. The target
    is called `times` times before a backward pass. If the trial is `optional`, the code does not have to support it.
    """

    name: str
    seed: int
    floats: Change
    ints: Change
    bools: Change
    batch: int | None = None
    method: str | None = None
    alike: bool = False
    which: tuple[int, int | None] = (0, None)
    spoilt: tuple[ElementChange, ...] = ()
    times: int = 1
    optional: bool = False

    def of(self, call: Call) -> Call:
        """Return the call with its tensors changed. It does not share any tensors with `call`."""
        leaves, layout = pytree.tree_flatten(call)
        generator = torch.Generator().manual_seed(self.seed)
        size = _batch_size(leaves)
        places = [place for place, leaf in enumerate(leaves) if is_changeable(leaf)]
        meant = set(places[slice(*self.which)])
        changed = [
            self._leaf(leaf, generator, size, meant=place in meant) if isinstance(leaf, torch.Tensor) else leaf
            for place, leaf in enumerate(leaves)
        ]
        if self.alike:
            _copy_the_first(changed)
        for spoilt in self.spoilt:
            for place in places[slice(*spoilt.which)]:
                _spoil(changed[place], spoilt, generator)
        args, kwargs = pytree.tree_unflatten(changed, layout)
        return tuple(args), kwargs

    def _leaf(self, leaf: torch.Tensor, generator: torch.Generator, size: int | None, *, meant: bool) -> torch.Tensor:
        tensor = leaf.detach()
        if not is_changeable(leaf):
            return tensor.clone().requires_grad_(leaf.requires_grad)
        if not meant:
            pass
        elif tensor.is_floating_point() or tensor.is_complex():
            tensor = self.floats(tensor, generator)
        elif tensor.dtype is torch.bool:
            tensor = self.bools(tensor, generator)
        else:
            tensor = self.ints(tensor, generator)
        if size and self.batch is not None and tensor.dim() and tensor.shape[0] == size:
            tensor = torch.cat([tensor] * max(1, -(-self.batch // size)))[: self.batch]
        tensor = tensor.to(leaf.device, leaf.dtype).detach().clone()
        return tensor.requires_grad_() if leaf.requires_grad else tensor


def all_finite(call: Call) -> bool:
    """Return whether all numbers in a call are finite."""
    floats = (leaf for leaf in pytree.tree_leaves(call) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point())
    return all(bool(torch.isfinite(leaf.to_dense()).all()) for leaf in floats)


def is_changeable(leaf: object) -> bool:
    """Return whether a part of a call is a tensor whose elements can be set. Sparse tensors stay unchanged."""
    return isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided


def _spoil(tensor: torch.Tensor, spoilt: ElementChange, generator: torch.Generator) -> None:
    if tensor.is_floating_point() and tensor.numel():
        size = tensor.numel()
        chosen = torch.rand(size, generator=generator) < 1 / 3
        if not spoilt.widely:
            chosen = torch.arange(size) == torch.randint(size, (), generator=generator)
        with torch.no_grad():
            tensor.view(-1)[chosen.to(tensor.device)] = spoilt.value


def _copy_the_first(leaves: list[Any]) -> None:
    first: dict[tuple[torch.Size, torch.dtype], torch.Tensor] = {}
    for leaf in leaves:
        if is_changeable(leaf):
            with torch.no_grad():
                leaf.copy_(first.setdefault((leaf.shape, leaf.dtype), leaf))


def _batch_size(leaves: list[Any]) -> int | None:
    sizes = [leaf.shape[0] for leaf in leaves if is_changeable(leaf) and leaf.dim()]
    return sizes[0] if sizes else None


BASE = Trial("the example's own inputs", 0, same, same, same)

USUAL: tuple[Trial, ...] = (
    Trial("inputs negated", 1, scaled(-1.0), same, lambda tensor, _: ~tensor),
    Trial("inputs all zero", 2, filled(0.0), filled(0), filled(0)),
    Trial("inputs all one", 3, filled(1.0), lowest, filled(1)),
    Trial("inputs all minus one", 4, filled(-1.0), highest, filled(0)),
    Trial("random inputs", 5, normal(1.0), drawn, coin),
    Trial("inputs positive", 6, positive, drawn, filled(1)),
    Trial("inputs negative", 7, negative, drawn, filled(0)),
    Trial("inputs a thousand times larger", 8, scaled(1e3), same, same),
    Trial("inputs a thousand times smaller", 9, scaled(1e-3), same, same),
    Trial("inputs between 0 and 1", 20, unit, drawn, coin),
)

BATCHES: tuple[Trial, ...] = (
    Trial("a batch of one", 10, same, same, same, batch=1),
    Trial("a random batch of seven", 11, normal(1.0), drawn, coin, batch=7),
    Trial("an empty batch", 24, same, same, same, batch=0),
)


def _lifted(tensor: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    return tensor.unsqueeze(0)


def _lowered(tensor: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    return tensor[0] if tensor.dim() > 1 and tensor.shape[0] else tensor


# For code that tests the number of dimensions.
RANKS: tuple[Trial, ...] = (
    Trial("inputs with one more dimension", 22, _lifted, _lifted, _lifted),
    Trial("inputs with one fewer dimension", 23, _lowered, _lowered, _lowered),
)


def other_ranks(call: Call) -> Iterator[Trial]:
    """Yield trials in which one of a call's tensors, or all of them, have one more or one fewer dimension."""
    count = sum(map(is_changeable, pytree.tree_leaves(call)))
    places: list[tuple[str, tuple[int, int | None]]] = [("all tensors", (0, None))]
    places += [(f"tensor {place}", (place, place + 1)) for place in range(min(count, _MOST_RESHAPED))]
    for words, which in places:
        for at in (0, 1, -1):
            more, fewer = partial(_widened, at), partial(_narrowed, at)
            yield Trial(f"{words} with one more dimension", 27, more, more, more, which=which, optional=True)
            if at != 1:
                yield Trial(f"{words} with one fewer dimension", 28, fewer, fewer, fewer, which=which, optional=True)


def _widened(at: int, tensor: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    return torch.stack([tensor] * _COPIES, at) if tensor.dim() >= at else tensor


def _narrowed(at: int, tensor: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    return tensor.select(at, 0) if tensor.dim() > 1 and tensor.shape[at] else tensor


# For code that tests whether two tensors are equal.
ALIKE = Trial("random inputs that are equal to each other", 15, normal(1.0), drawn, coin, alike=True)

# The second call must not change tensors that the first call saved for its backward pass.
TWICE = tuple(
    Trial(f"two calls before one backward pass{words}", 25, normal(scale), drawn, coin, times=2, optional=True)
    for scale, words in ((1.0, ""), (0.1, ", with small inputs"), (10.0, ", with large inputs"))
)

# In half precision, sums with these numbers are infinite.
LARGEST = Trial("inputs as large as half precision allows", 26, largest, same, same)

# These run on separate callables, because state that has become NaN hides other differences. An infinite value in a
# branch that is not taken must not reach the gradient. The sign usually selects the branch.
NO_NUMBERS: tuple[Trial, ...] = (
    Trial("one element infinite", 12, with_one(float("inf")), same, same),
    Trial("one element infinite and negative", 17, with_one(float("-inf")), same, same),
    Trial("one element of the first tensor infinite", 18, with_one(float("inf")), same, same, which=(0, 1)),
    Trial("one element of the others infinite", 19, with_one(float("-inf")), same, same, which=(1, None)),
    Trial("one element NaN", 13, with_one(float("nan")), same, same),
    Trial("inputs all NaN", 14, filled(float("nan")), same, same),
    Trial(
        "random inputs, a third NaN", 21, normal(1.0), same, same, spoilt=(ElementChange(float("nan"), widely=True),)
    ),
)


def at_edges(trials: Sequence[Trial]) -> Iterator[Trial]:
    """Yield some of these trials with an element where slopes are infinite, or with a non-finite element.

    If a branch keeps this element out of a gradient, selecting between both branches must do so too. The same applies
    to numbers whose exponential is infinite, and to NaN if another function stops gradients. Afterwards, the state is
    no longer useful, so these trials come last.
    """
    some = trials[:_MOST_AT_EDGES]
    for value, words, (where, which) in _EDGES:
        for trial in some:
            yield _with(trial, f"one element of {where} {words}", ElementChange(value, which))
    for trial in trials[:_MOST_LARGER]:
        yield from (_larger(trial, *way) for way in _LARGER)
    for trial in some:
        larger = _larger(trial, *_LARGER[0])
        yield _with(larger, "one element of each NaN", ElementChange(float("nan")))
        yield _with(trial, "a third of the elements NaN", ElementChange(float("nan"), widely=True))


def _with(trial: Trial, words: str, spoilt: ElementChange) -> Trial:
    """Return a copy of `trial` that also replaces the elements given by `spoilt`."""
    return replace(trial, name=f"{trial.name}, {words}", spoilt=(*trial.spoilt, spoilt))


def _larger(trial: Trial, change: Change, words: str) -> Trial:
    return replace(trial, name=f"{trial.name}, {words}", floats=_then(trial.floats, change))


def _then(change: Change, after: Change) -> Change:
    return lambda tensor, generator: after(change(tensor, generator), generator)


def _stretched(tensor: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    """Return the tensor scaled so that its largest absolute value is 1000."""
    largest = tensor.abs().amax() if tensor.numel() else tensor.new_ones(())
    return tensor * (1000 / largest) if largest > 0 else tensor


def _shifted(tensor: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    """Return the tensor shifted so that its largest value is 100."""
    return tensor + (100 - tensor.amax()) if tensor.numel() else tensor


_FIRST, _OTHERS = ("the first tensor", (0, 1)), ("the others", (1, None))
_EDGES: tuple[tuple[float, str, tuple[str, tuple[int, int | None]]], ...] = (
    (0.0, "zero", ("each", (0, None))),
    *((float("inf"), "infinite", place) for place in (_FIRST, _OTHERS)),
    *((float("-inf"), "infinite and negative", place) for place in (_FIRST, _OTHERS)),
    *((float("nan"), "NaN", place) for place in (_FIRST, _OTHERS)),
)
_MOST_AT_EDGES = 8
_MOST_RESHAPED = 4
_COPIES = 3
_MOST_LARGER = 8
# The exponential overflows from 89 on. Each change preserves different properties that tests may check.
_LARGER: tuple[tuple[Change, str], ...] = (
    (scaled(30), "30 times larger"),
    (_stretched, "larger, up to 1000"),
    (_shifted, "with 100 as the largest"),
)


def is_left_out(trial: Trial, names: Collection[str]) -> bool:
    """Return whether a trial is in `names`, or contains the kind of non-finite value that two of the names share."""
    return trial.name in names or any(
        word in trial.name and sum(word in name for name in names) > 1 for word in ("NaN", "infinite")
    )


def visit(method: str) -> Trial:
    """Return the trial that calls a method on the target or on a part of it."""
    return Trial(f"a call to {method}()", 16, same, same, same, method=method)


def random_trials() -> Iterator[Trial]:
    """Yield an endless series of trials with different distributions, for branches that the usual trials miss."""
    seed = 100
    while True:
        choose = random.Random(seed)  # noqa: S311 - inputs for a comparison, not secrets
        scale = choose.choice([0.01, 0.1, 1.0, 3.0, 10.0, 100.0])
        shift = choose.choice([0.0, -1.0, 1.0, 0.5, -10.0, 10.0]) * choose.choice([1.0, scale])
        bools = choose.choice([coin, filled(0), filled(1)])
        name = f"random inputs with mean {shift:g} and deviation {scale:g}"
        yield Trial(name, seed, normal(scale, shift), drawn, bools)
        yield Trial("random inputs, with a different mean and deviation for each tensor", seed, apart, drawn, bools)
        seed += 1


def broken_trials(*, wild: bool = False) -> Iterator[Trial]:
    """Yield an endless series of trials with a non-finite element, to run on separate callables.

    If they are `wild`, integers may be out of range, for checks that reject them.
    """
    for seed in itertools.count(10_000):
        choose = random.Random(seed)  # noqa: S311 - as above
        floats, how = choose.choice([(apart, "apart"), (negative, "negative"), (positive, "positive")])
        value, words = choose.choice([("inf", "infinite"), ("-inf", "infinite and negative"), ("nan", "NaN")])
        where, which = choose.choice([("the first tensor", (0, 1)), ("the others", (1, None)), ("each", (0, None))])
        name = f"random inputs {how}, one element of {where} {words}"
        ints = floats if wild else drawn
        yield Trial(name, seed, floats, ints, coin, spoilt=(ElementChange(float(value), which),))


def mixed_trials() -> Iterator[Trial]:
    """Yield an endless series of trials that change each tensor differently, some to non-finite values."""
    for seed in itertools.count(20_000):
        yield Trial("each tensor changed in its own way, some infinite or NaN", seed, _in_any_way, drawn, mask)


def _in_any_way(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    way = _WAYS[int(torch.randint(len(_WAYS), (), generator=generator))]
    return way(tensor, generator)


_WAYS: tuple[Change, ...] = (
    same, normal(1.0), apart, positive, negative, unit, filled(0.0), filled(-1.0),
    with_one(float("inf")), with_one(float("-inf")), with_one(float("nan")),
)  # fmt: skip
