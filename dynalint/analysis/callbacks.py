"""Functions passed as callbacks to `map`, `reduce`, activation checkpointing and the transforms of `torch.func`."""

from __future__ import annotations

from dynalint.analysis import kinds as k
from dynalint.analysis.elements import element_of
from dynalint.analysis.kinds import UNKNOWN, Kind, join

# This returns a function that takes the same parameters as the given function and returns a similar result.
VECTORISED = "torch.vmap"
# These return a function that takes the same parameters as the given function. Its result has the structure of the
# parameters, so it is a dict of tensors for a dict of parameters.
DERIVATIVES = frozenset(f"torch.func.{name}" for name in "grad jacrev jacfwd hessian".split())
_CHECKPOINT = "torch.utils.checkpoint.checkpoint"
_TREE_MAP = ("torch.utils._pytree.tree_map", "torch.utils._pytree.tree_map_")
_OPTIONS = frozenset("use_reentrant preserve_rng_state context_fn determinism_check debug early_stop".split())

Arguments = tuple[list[Kind], dict[str, Kind]]


def callback_arguments(name: str, args: list[Kind], keywords: dict[str, Kind]) -> Arguments | None:
    """Return the arguments that `name` passes to its first argument, or None if they are unknown or not passed."""
    if len(args) < 2 or isinstance(args[0], k.Unknown):
        return None
    first, elements = args[1], [element_of(one) for one in args[1:]]
    if name in ("builtins.map", "builtins.filter"):
        return elements, {}
    if name == "functools.reduce":
        return [join(args[2], elements[0]) if len(args) > 2 else elements[0], elements[0]], {}
    if name == "itertools.starmap":
        return _items(elements[0])
    if name in _TREE_MAP:
        return [_leaf(one) for one in args[1:]], {}
    if name == "torch.func.jvp":
        return _items(first)
    if name == "torch.func.vjp":
        return args[1:], {}
    if name in DERIVATIVES:
        return args[1:], keywords
    if name == _CHECKPOINT:
        return args[1:], {key: kind for key, kind in keywords.items() if key not in _OPTIONS}
    return None


def result_with_callback(name: str, args: list[Kind], given: Kind, result: Kind) -> Kind:
    """Return the result of calling `name` with a callback that returned `given`.

    `result` is the kind that is known without looking at the callback.
    """
    first = args[1]
    if name == "builtins.map":
        items = first.items if isinstance(first, k.Sequence) and len(args) == 2 else None
        return k.Sequence("generator", given, None if items is None else (given,) * len(items))
    if name == "itertools.starmap":
        return k.Sequence("generator", given)
    if name in _TREE_MAP:
        return _with_leaf(first, given)
    if name == "torch.func.jvp":
        return k.sequence("tuple", [given, given])
    if name == "torch.func.vjp":
        return k.sequence("tuple", [given, UNKNOWN])
    if name in DERIVATIVES:
        return given if all(k.only_tensor(one) is not None for one in args[1:]) else UNKNOWN
    return result if name == "builtins.filter" else given


def _items(kind: Kind) -> Arguments | None:
    return (list(kind.items), {}) if isinstance(kind, k.Sequence) and kind.items is not None else None


def _leaf(kind: Kind) -> Kind:
    """Return the kind of the leaves in nested containers."""
    while isinstance(kind, (k.Sequence, k.Dictionary)):
        kind = kind.element if isinstance(kind, k.Sequence) else kind.value
    return kind


def _with_leaf(kind: Kind, leaf: Kind) -> Kind:
    """Return nested containers with the same structure and with `leaf` in place of their leaves."""
    if isinstance(kind, k.Sequence):
        return k.Sequence(kind.type, _with_leaf(kind.element, leaf))
    return k.Dictionary(kind.type, _with_leaf(kind.value, leaf)) if isinstance(kind, k.Dictionary) else leaf
