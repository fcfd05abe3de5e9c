"""The join of what the callers of a function pass it."""

from __future__ import annotations

from dataclasses import replace

from dynalint.analysis import kinds as k
from dynalint.analysis.frame import Context, Environment
from dynalint.analysis.kinds import NOTHING, Kind, Unknown, join


def either_caller(old: Kind, new: Kind) -> Kind:
    """Join what two callers pass; None says no more of a parameter than that it may be left out."""
    if isinstance(new, Unknown):
        return new if old in (k.NONE, NOTHING) else old
    if isinstance(old, Unknown):
        return old if new == k.NONE else new
    if old is new:
        return old
    if isinstance(old, (k.Sequence, k.Dictionary)) and type(old) is type(new):
        return _either_container(old, new)
    joined = join(old, new)
    if not isinstance(joined, (k.Tensor, k.Union)):
        return joined
    one, other, either = k.only_tensor(old), k.only_tensor(new), k.only_tensor(joined)
    if one is not None and other is not None and either is not None and None in (one.dtype, other.dtype):
        tensor = replace(either, dtype=one.dtype or other.dtype)
        return join(tensor, k.NONE) if k.NONE in joined.members else tensor
    return joined


def _either_container(old: k.Sequence | k.Dictionary, new: Kind) -> Kind:
    """Join what two callers pass as containers: elements that one of them knows nothing of say no more than None."""
    joined = join(old, new)
    if isinstance(joined, k.Sequence) and isinstance(old, k.Sequence) and isinstance(new, k.Sequence):
        return replace(joined, element=either_caller(old.element, new.element))
    if isinstance(joined, k.Dictionary) and isinstance(old, k.Dictionary) and isinstance(new, k.Dictionary):
        return replace(joined, value=either_caller(old.value, new.value))
    return joined


def widen(context: Context, params: Environment) -> bool:
    """Join the parameters of one more call into those of a context; return whether any has grown."""
    grown = False
    for name, kind in params.items():
        old = context.params.get(name, NOTHING)
        if name in context.crowded or kind is old:
            continue
        new = either_caller(old, kind)
        unknown = isinstance(new, Unknown)
        if unknown and not (isinstance(old, Unknown) or isinstance(kind, Unknown)):
            context.crowded.add(name)
        if new != old and not (unknown and isinstance(old, Unknown)):
            context.params[name] = new
            grown = True
    return grown
