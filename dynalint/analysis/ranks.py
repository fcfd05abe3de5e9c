"""Compute the number of dimensions of a torch operation's result from the ranks of its arguments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from dynalint.analysis import kinds as k
from dynalint.analysis.kinds import Kind

# The results of these functions always have this rank.
_FIXED = {
    **dict.fromkeys(("dot", "vdot"), 0),
    **dict.fromkeys("arange linspace logspace randperm bincount histc masked_select mv ravel".split(), 1),
    **dict.fromkeys("nonzero argwhere eye mm outer tril_indices triu_indices vander".split(), 2),
    "bmm": 3,
}
# The rank of the result is the number of sizes given as positional arguments, as a sequence, or as `size`.
_SIZED = frozenset("empty full normal ones rand randint randn zeros".split())
_SIZED_METHODS = frozenset("view reshape expand repeat new_zeros new_ones new_empty new_full".split())
# The result has the rank of the first tensor, or of each tensor in a list.
_KEEPING = frozenset(
    "argsort bucketize cat clone concat concatenate contiguous cpu cuda cummax cummin cumprod cumsum detach diff "
    "empty_like flip full_like gather index_add index_copy index_fill index_put index_select isin log_softmax "
    "logcumsumexp masked_fill masked_scatter moveaxis movedim multinomial ones_like permute rand_like randint_like "
    "randn_like roll rot90 scatter scatter_add scatter_reduce softmax softmin sort swapaxes swapdims t to topk "
    "transpose tril triu type type_as zeros_like chunk split tensor_split narrow pad "
    "fft fft2 fftn fftshift ifft ifft2 ifftn ifftshift rfft rfft2 rfftn irfft irfft2 irfftn".split()
)
_REDUCING = frozenset(
    "all amax amin aminmax any argmax argmin logsumexp max mean median min mode nanmean nansum norm prod sum".split()
)
_UNIQUE = ("unique", "unique_consecutive")
_LIKE_THE_OTHER = frozenset(("expand_as", "view_as", "reshape_as", "searchsorted", "take"))
_MORE = {**dict.fromkeys(("unsqueeze", "stack", "one_hot"), 1), **dict.fromkeys(("diagonal", "select", "unbind"), -1)}
FROM_NUMBERS = ("torch.tensor", "torch.as_tensor", "torch.Tensor.new_tensor")
"""Functions that create a tensor from numbers in their argument."""


def with_rank(
    kind: Kind, name: str, tensors: Sequence[k.Tensor], args: Sequence[Kind], keywords: dict[str, Kind], *, method: bool
) -> Kind:
    """Return the result of the torch function or method `name` with its rank, if the rank is known.

    `tensors` are the tensors among the arguments, starting with the receiver of a method. `args` are the positional
    arguments without the receiver.
    """
    if isinstance(kind, k.Tensor):
        others = args if method else args[1:]
        # The torch data does not list its `dim`.
        apart = name.endswith(".norm") and (len(others) > 1 or "dim" in keywords)
        if kind.rank is not None and not apart:
            return kind
        # With other results, `unique` returns a tuple, which also has a tensor of the input's rank.
        single = name.rpartition(".")[2] in _UNIQUE and "dim" not in keywords and len(others) < 2
        rank = 1 if single else _rank(name, tensors, args, keywords, method=method)
        return kind if rank == kind.rank else replace(kind, rank=rank)
    if isinstance(kind, k.Sequence) and kind.type == "tuple" and all(isinstance(one, k.Tensor) for one in _items(kind)):
        last = name.rpartition(".")[2]
        rank = 1 if last in ("where", "nonzero") else _rank(name, tensors, args, keywords, method=method)
        if rank is not None:
            items = None if kind.items is None else tuple(_ranked(one, rank) for one in kind.items)
            return replace(kind, element=_ranked(kind.element, rank), items=items)
    return kind


def _items(kind: k.Sequence) -> Sequence[Kind]:
    return kind.items if kind.items is not None else (kind.element,)


def _ranked(kind: Kind, rank: int) -> Kind:
    return replace(kind, rank=rank) if isinstance(kind, k.Tensor) and kind.rank is None else kind


def _rank(
    name: str, tensors: Sequence[k.Tensor], args: Sequence[Kind], keywords: dict[str, Kind], *, method: bool
) -> int | None:
    last = name.rpartition(".")[2]
    if last in _FIXED:
        return _FIXED[last]
    if name in FROM_NUMBERS:
        return _of_numbers(args)
    others = args if method else args[1:]
    if last in _SIZED or (last in _SIZED_METHODS and (method or last == "reshape")):
        return _number_of_sizes(args if last in _SIZED else others, keywords, last)
    if last == "flatten" and not others and not keywords:
        return 1
    rank = tensors[0].rank if tensors else None
    if last in _LIKE_THE_OTHER:
        return tensors[1].rank if len(tensors) > 1 else None
    if last == "matmul":
        return multiplied(*tensors) if len(tensors) == 2 else None
    if rank is None:
        return None
    if last in _KEEPING:
        return rank
    if last in _MORE and rank + _MORE[last] >= 0:
        return rank + _MORE[last]
    if last == "repeat_interleave":
        return rank if "dim" in keywords or len(others) > 1 else 1
    if last in ("std", "var"):
        return _reduced(rank, others[:1], keywords)  # the second argument is `unbiased`
    return _reduced(rank, others[1:] if last == "norm" else others, keywords) if last in _REDUCING else None


def _of_numbers(args: Sequence[Kind]) -> int | None:
    """Return the rank of a tensor created from nested lists of numbers."""
    given, rank = (args[0] if args else k.UNKNOWN), 0
    while isinstance(given, k.Sequence):
        given, rank = given.element, rank + 1
    return rank if k.is_number(given) else None


def _number_of_sizes(args: Sequence[Kind], keywords: dict[str, Kind], name: str) -> int | None:
    given = [keywords["size"]] if "size" in keywords else list(args)
    sequences = [one for one in given if isinstance(one, k.Sequence)]
    if sequences:
        return len(sequences[0].items) if len(sequences) == 1 and sequences[0].items is not None else None
    if name in ("full", "normal", "randint", "new_full") or not given:
        return None
    return len(given) if all(isinstance(one, k.Value) and one.type == "int" for one in given) else None


def _reduced(rank: int, others: Sequence[Kind], keywords: dict[str, Kind]) -> int | None:
    """Return the rank of a tensor of rank `rank` after reducing one dimension."""
    by_place = others[0] if others else k.UNKNOWN
    dim = keywords.get("dim", keywords.get("axis", by_place))
    keep = keywords.get("keepdim", others[1] if len(others) > 1 else k.constant(False))
    dims = dim.items if isinstance(dim, k.Sequence) else (dim,)
    if not dims or not all(isinstance(one, k.Value) and one.type == "int" for one in dims):
        return None
    if not (isinstance(keep, k.Value) and isinstance(keep.constant, bool) and rank >= len(dims)):
        return None
    return rank if keep.constant else rank - len(dims)


def multiplied(left: Kind, right: Kind) -> int | None:
    """Return the rank of a matrix product, in which each vector loses its dimension."""
    ranks = [one.rank for one in (left, right) if isinstance(one, k.Tensor) and one.rank]
    if len(ranks) < 2:
        return None
    return max(ranks) - 1 if 1 in ranks else max(ranks)


def broadcast(operands: Iterable[Kind]) -> int | None:
    """Return the rank of the result of an elementwise operation, or None unless every tensor's rank is known."""
    ranks = list[int]()
    for one in operands:
        if isinstance(one, k.Tensor) and one.rank is not None:
            ranks.append(one.rank)
        elif not isinstance(one, (k.Value, k.External, k.Object)):
            return None
    return max(ranks, default=None)


def indexed(base: int, parts: Sequence[Kind]) -> int | None:
    """Return the rank of `x[parts]` for a tensor `x` of rank `base`, or None if it is unknown."""
    left, chosen = base, list[int]()
    for part in parts:
        tensor = k.only_tensor(part)
        if isinstance(part, k.Value) and part.type == "int":
            left -= 1
        elif part == k.NONE:
            left += 1
        elif tensor is not None and tensor.dtype == "bool" and tensor.rank is None and base == len(parts) == 1:
            chosen.append(left)  # a mask of a vector can only be a vector
            left = 0
        elif tensor is not None and tensor.rank is not None and (tensor.dtype is not None or tensor.rank == 1):
            # A mask and positions have the same effect if they have one dimension.
            left -= tensor.rank if tensor.dtype == "bool" else 1
            chosen.append(1 if tensor.dtype == "bool" else tensor.rank)
        elif not (isinstance(part, k.Sequence) and part.type == "slice") and not _is_ellipsis(part):
            return None
    return left + max(chosen, default=0) if left >= 0 else None


def _is_ellipsis(kind: Kind) -> bool:
    return isinstance(kind, k.Value) and kind.type == "ellipsis"
