"""Recurrent layers among the parts of a module, which methods that visit all of its parts reach."""

from __future__ import annotations

from dynalint.analysis import kinds as k
from dynalint.analysis.frame import Frame
from dynalint.analysis.index import ClassInfo
from dynalint.analysis.kinds import Kind
from dynalint.analysis.members import stored
from dynalint.analysis.sparse import RECURRENT_LAYERS

# Methods that visit all parts. All were run: Dynamo gives up where the first recurrent layer is met.
VISITING = frozenset("apply bfloat16 double eval float half requires_grad_ state_dict to train zero_grad".split())


def recurrent_part(frame: Frame, owner: k.Instance, above: frozenset[ClassInfo] = frozenset()) -> str:
    """Return the name of a recurrent layer that a module or one of its parts certainly contains, or "".

    `above` are the classes of the modules that contain it.
    """
    if owner.cls in above:
        return ""
    frame.interpreter.attributes.initialise(owner.cls)
    classes = frame.interpreter.project.mro(owner.cls)
    names = dict.fromkeys(name for cls in classes for name in cls.attributes)
    found = (_among(frame, stored(frame, owner, name), above | {owner.cls}) for name in names)
    return next((layer for layer in found if layer), "")


def _among(frame: Frame, kind: Kind, above: frozenset[ClassInfo]) -> str:
    layers = [_of_one(frame, one, above) for one in kind.members]
    return layers[0] if layers and all(layers) else ""


def _of_one(frame: Frame, kind: Kind, above: frozenset[ClassInfo]) -> str:
    if isinstance(kind, k.Object):
        return kind.type if kind.type in RECURRENT_LAYERS else ""
    if isinstance(kind, k.Sequence) and kind.type.startswith("torch.nn."):
        layers = (_among(frame, one, above) for one in kind.items or ())
        return next((layer for layer in layers if layer), "")
    if isinstance(kind, k.Instance) and frame.interpreter.project.is_module_class(kind.cls):
        return recurrent_part(frame, kind, above)
    return ""
