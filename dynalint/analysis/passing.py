"""Join the arguments passed by all callers of a function, and the function's effects on `self`."""

from __future__ import annotations

from dataclasses import replace

from dynalint.analysis import kinds as k
from dynalint.analysis.frame import Context, Environment, Frame, is_fact
from dynalint.analysis.kinds import NOTHING, UNKNOWN, Kind, Unknown, join


def either_caller(old: Kind, new: Kind) -> Kind:
    """Join the arguments of two callers, in the same way as `either_known`.

    If only one caller knows a tensor's dtype, that dtype is kept. A tensor that is sparse for one caller stays sparse,
    because the graph breaks for that caller.
    """
    joined = either_known(old, new)
    one, other = k.only_tensor(old), k.only_tensor(new)
    either = None if one is None or other is None else k.only_tensor(joined)
    if one is None or other is None or either is None:
        return joined
    dtype = one.dtype or other.dtype if None in (one.dtype, other.dtype) else either.dtype
    sparse = one.sparse or other.sparse
    if dtype == either.dtype and sparse == either.sparse:
        return joined
    tensor = replace(either, dtype=dtype, sparse=sparse)
    return join(tensor, k.NONE) if k.NONE in joined.members else tensor


def either_known(old: Kind, new: Kind) -> Kind:
    """Join two kinds. None only means that a parameter can be omitted.

    If one of the kinds is unknown, the other still gives the type, but not the value of a number.
    """
    if isinstance(new, Unknown):
        return new if old in (k.NONE, NOTHING) else k.widened(old)
    if isinstance(old, Unknown):
        return old if new in (k.NONE, NOTHING) else k.widened(new)
    joined = join(old, new)
    if isinstance(old, k.Dictionary) and isinstance(new, k.Dictionary) and isinstance(joined, k.Dictionary):
        one, other = old.by_key(), new.by_key()
        known = {key: either_known(one.get(key, old.rest), other.get(key, new.rest)) for key in joined.by_key()}
        value, rest = either_known(old.value, new.value), either_known(old.rest, new.rest)
        return k.dictionary(joined.type, value, known, rest, joined.optional, joined.home)
    return joined


def either_store(old: Kind, new: Kind) -> Kind:
    """Join the kind of an attribute with a newly stored kind.

    A parameter that is only known from outside calls says nothing about the objects that other callers pass. For
    example, a subclass can pass a method or a layer to the constructor of its base class, which is never called
    directly.
    """
    for given, other in ((old, new), (new, old)):
        if isinstance(given, Unknown) and given.parameter is not None and not given.is_element:
            if isinstance(other, Unknown):
                return old if other.parameter is not None and not other.is_element else UNKNOWN
            if all(one == k.NONE or _is_object(one) for one in other.members) and other != k.NONE:
                return join(other, k.NONE) if given.optional else other
    return join(old, new)


def _is_object(kind: Kind) -> bool:
    """Return whether a value is an object that is only called or read, so that its truth value does not matter."""
    return k.is_record(kind) or isinstance(kind, (k.Function, k.Instance, k.Class, k.Partial, k.Object))


def _drop_facts(context: Context, params: Environment) -> bool:
    """Drop the facts that do not hold for a new caller, and return whether there were any."""
    dropped = [name for name in context.params if is_fact(name) and context.params[name] != params.get(name)]
    for name in dropped:
        del context.params[name]
    return bool(dropped)


def _differ(old: Kind, new: Kind) -> bool:
    """Return whether two callers pass tensors whose dtype classes are known and different."""
    one, other = k.only_tensor(old), k.only_tensor(new)
    return one is not None and other is not None and len({one.dtype, other.dtype, None}) == 3


def widen(context: Context, params: Environment) -> bool:
    """Join a new call's parameters into a context's parameters, and return whether any of them has grown."""
    grown = _drop_facts(context, params)
    for name, kind in params.items():
        if name not in context.params and is_fact(name):
            continue  # it is unknown for some caller
        old = context.params.get(name, NOTHING)
        if (
            kind is old
            or kind == old
            or (name in context.crowded and (isinstance(old, Unknown) or isinstance(kind, Unknown)))
        ):
            continue
        if (name, kind) in context.absorbed:
            continue  # callers are interpreted again and again, and mostly pass the same
        context.absorbed.add((name, kind))
        new = join(old, kind) if name in context.crowded else either_caller(old, kind)
        if _differ(old, kind):
            context.crowded[name] = None  # a third caller with an unknown dtype does not settle which of the two it is
        unknown = isinstance(new, Unknown)
        if unknown and not (isinstance(old, Unknown) or isinstance(kind, Unknown)):
            context.crowded[name] = None
        if new != old and not (unknown and isinstance(old, Unknown)):
            context.params[name] = new
            grown = True
    return grown


def left_behind(frame: Frame) -> tuple[Environment, dict[str, str]]:
    """Return the attributes of `self` that are set on every path out of a function.

    Attributes that hold a parameter are returned separately, with the parameter's name, because each caller knows its
    own argument better than the join of all arguments does.
    """
    if frame.self_name is None or frame.context is None or not frame.exits:
        return {}, {}
    prefix, (first, *others) = f"{frame.self_name}.", frame.exits
    common = [name for name in first if name.startswith(prefix) and all(name in env for env in others)]
    objects = {id(kind): name for name, kind in frame.context.params.items() if isinstance(kind, (k.Instance, k.Union))}
    exits, handed = {}, {}
    for name in sorted(common):
        parameters = {objects.get(id(env[name])) for env in frame.exits}
        parameter = parameters.pop() if len(parameters) == 1 else None
        if parameter is not None and parameter != frame.self_name:
            handed[name[len(prefix) :]] = parameter
        else:
            exits[name[len(prefix) :]] = k.join_all([env[name] for env in frame.exits])
    return exits, handed
