"""Recurrent layers among the parts of a module, which methods that visit all of its parts reach."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dynalint.analysis import kinds as k
from dynalint.analysis.frame import Frame
from dynalint.analysis.kinds import Kind
from dynalint.analysis.members import stored
from dynalint.analysis.sparse import RECURRENT_LAYERS
from dynalint.analysis.steps import step

# Methods that visit all parts. All were run: Dynamo gives up where the first recurrent layer is met.
VISITING = frozenset("apply bfloat16 double eval float half requires_grad_ state_dict to train zero_grad".split())


def recurrent_part(frame: Frame, owner: k.Instance) -> str:
    """Return the name of a recurrent layer that a module or one of its parts definitely contains, or "".

    Modules that contain each other have many paths between them, so each module is looked at once, and then what is
    known about the parts is passed on to the modules that contain them until nothing changes.
    """
    held: dict[k.Instance, list[Kind]] = {}
    waiting = [owner]
    while waiting:
        one = waiting.pop()
        if one not in held:
            step()
            held[one] = _attributes(frame, one)
            waiting += [part for kind in held[one] for part in _modules(frame, kind)]
    known: dict[k.Instance, str] = {}
    grown = True
    while grown and owner not in known:
        grown = False
        for one in [one for one in reversed(held) if one not in known]:
            step()
            layer = next((layer for kind in held[one] if (layer := _among(known, kind))), "")
            if layer:
                known[one] = layer
                grown = True
    return known.get(owner, "")


def _attributes(frame: Frame, owner: k.Instance) -> list[Kind]:
    """Return the kinds of the attributes that may hold parts of a module."""
    frame.interpreter.attributes.initialise(owner.cls)
    classes = frame.interpreter.project.mro(owner.cls)
    names = dict.fromkeys(name for cls in classes for name in cls.attributes)
    kinds = (stored(frame, owner, name) for name in names)
    return [kind for kind in kinds if any(_may_be_part(one) for one in kind.members)]


def _may_be_part(kind: Kind) -> bool:
    if isinstance(kind, k.Object):
        return kind.type in RECURRENT_LAYERS
    return isinstance(kind, k.Instance) or _is_container(kind)


def _is_container(kind: Kind) -> bool:
    return isinstance(kind, k.Sequence) and kind.type.startswith("torch.nn.")


def _modules(frame: Frame, kind: Kind) -> Iterator[k.Instance]:
    """Yield the modules of the project that a value may be or, if it is one of torch's containers, contain."""
    for one in kind.members:
        if isinstance(one, k.Instance) and frame.interpreter.project.is_module_class(one.cls):
            yield one
        elif isinstance(one, k.Sequence) and _is_container(one):
            for item in one.items or ():
                yield from _modules(frame, item)


def _among(known: Mapping[k.Instance, str], kind: Kind) -> str:
    """Return a layer that each of the values that `kind` stands for contains, or ""."""
    layers = [_in_one(known, one) for one in kind.members]
    return layers[0] if layers and all(layers) else ""


def _in_one(known: Mapping[k.Instance, str], kind: Kind) -> str:
    if isinstance(kind, k.Object):
        return kind.type if kind.type in RECURRENT_LAYERS else ""
    if isinstance(kind, k.Sequence) and _is_container(kind):
        return next((layer for one in kind.items or () if (layer := _among(known, one))), "")
    return known.get(kind, "") if isinstance(kind, k.Instance) else ""
