"""Calls to methods defined outside the project, on tensors, layers and other objects, and on their subclasses."""

from __future__ import annotations

import ast
from dataclasses import replace

from dynalint.analysis import kinds as k
from dynalint.analysis import observers, torch_api
from dynalint.analysis.containers import state_of_module
from dynalint.analysis.events import InplaceChange
from dynalint.analysis.externals import external_call
from dynalint.analysis.frame import Frame
from dynalint.analysis.kinds import UNKNOWN, Kind, join
from dynalint.analysis.named_attributes import HOLE, name_of
from dynalint.analysis.noting import note_call, note_installed
from dynalint.analysis.recurrent_parts import VISITING, recurrent_part
from dynalint.analysis.selected_members import CHILDREN, is_module, listed, modules_in
from dynalint.analysis.sparse import made_sparse
from dynalint.analysis.torch_calls import torch_call

# Classes whose methods draw random numbers like the functions with the same names in their module.
_DRAWING = ("random.Random", "numpy.random.Generator", "numpy.random.RandomState")
# Methods of NumPy's generators that draw a single number, unless `size` is given, with the position of `size`. The call
# breaks the graph, so that the rest of the code gets the number itself. (`integers` draws a NumPy scalar, which Dynamo
# treats as an array.) All were run with torch 2.13.
_SINGLE = {
    **dict.fromkeys(("beta", "binomial", "normal", "randint", "uniform"), 2),
    **dict.fromkeys(("choice", "exponential", "poisson"), 1),
    **dict.fromkeys(("rand", "randn", "random", "random_sample", "standard_normal"), 0),
}
_WHOLE = ("binomial", "poisson", "randint")
# Methods of modules that store their second argument under the name in the first.
_ADDING = ("add_module", "register_module", "register_parameter")


def object_method(
    frame: Frame,
    receiver: k.Object | k.Instance,
    name: str,
    args: list[Kind],
    keywords: dict[str, Kind],
    node: ast.Call | None,
    *,
    starred: bool,
) -> Kind:
    """Call a method defined outside the project on an object, or on an instance of a project class that inherits it."""
    api, project = frame.interpreter.project.api, frame.interpreter.project
    if isinstance(receiver, k.Object):
        type_ = receiver.type
    else:
        bases = [base for base in project.lineage(receiver.cls)[1] if api.torch_class(base) is not None]
        type_ = torch_api.canonical(bases[0]) if bases else "torch.nn.Module"
    cls = api.torch_class(type_)
    entry = cls.method(name) if cls is not None else None
    if entry is None:
        result = _result_by_type(type_, name, args, keywords, starred=starred)
    else:
        state = state_of_module(name) if cls is not None and cls.is_module else None
        result = state or torch_call(entry, receiver, args, keywords, starred=starred)
    if isinstance(receiver, k.Instance) and name == "forward" and isinstance(result, k.Tensor):
        result = replace(result, rank=None)  # it depends on the constructor's arguments, such as `reduction="none"`
    dotted = f"{type_}.{name}"
    if entry is not None and frame.interpreter.watched(dotted) is None:
        dotted = entry.name  # uses the name of the class that defines it
    note_call(frame, node, dotted, receiver, args, keywords, result, starred=starred)
    if isinstance(receiver, k.Object):
        result = note_installed(frame, node, dotted, args, keywords, result, starred=starred, receiver=receiver)
    if cls is None or not cls.is_module:
        return result
    if name in VISITING and isinstance(receiver, k.Instance):
        layer = recurrent_part(frame, receiver)
        note_call(frame, node if layer else None, f"{layer}.{name}", receiver, args, keywords, result, starred=starred)
    if name == "compile":
        frame.interpreter.compiled[receiver] = None
        frame.interpreter.note_effect("compile", receiver)
    elif name in _ADDING and node is not None and len(node.args) == len(args) == 2:
        store_by_name(frame, receiver, name_of(node.args[0], args[0]), args[1])
    elif name == "register_buffer" and isinstance(receiver, k.Instance):
        _register_buffer(frame, receiver, args, keywords, node)
    elif name in CHILDREN and isinstance(receiver, k.Instance):
        return listed(name, modules_in(frame, receiver))
    return receiver if name in ("to", "cuda", "cpu", "train", "eval", "half") else result


def _result_by_type(type_: str, name: str, args: list[Kind], keywords: dict[str, Kind], *, starred: bool) -> Kind:
    """Return the result of a method that torch's data does not describe."""
    if type_ in _DRAWING:
        if type_.startswith("numpy.") and name in _SINGLE and not starred:
            given = args[_SINGLE[name]] if len(args) > _SINGLE[name] else keywords.get("size", k.NONE)
            if given == k.NONE:
                return UNKNOWN if name == "choice" else k.INT if name in _WHOLE else k.FLOAT
        return external_call(f"{type_.rpartition('.')[0]}.{name}", args, keywords, starred=starred)
    if type_.startswith(observers.HOME) and name == "calculate_qparams":
        return k.sequence("tuple", [k.TENSOR, k.TENSOR])
    return UNKNOWN


def tensor_method(
    frame: Frame,
    receiver: k.Tensor,
    name: str,
    args: list[Kind],
    keywords: dict[str, Kind],
    node: ast.Call | None,
    *,
    starred: bool,
) -> Kind:
    """Call a method on a tensor."""
    entry = frame.interpreter.project.api.method(name)
    if name == "tolist":
        result: Kind = _as_list(receiver)
    elif name in ("astype", "copy"):  # only arrays have these
        result = k.Tensor(receiver.dtype if name == "copy" else None, receiver.rank, array=True)
    else:
        result = UNKNOWN if entry is None else torch_call(entry, receiver, args, keywords, starred=starred)
    if receiver.array and isinstance(result, k.Tensor):
        result = replace(result, array=True)
    result = made_sparse(f"Tensor.{name}", receiver, result)
    note_call(frame, node, f"Tensor.{name}", receiver, args, keywords, result, starred=starred)
    changes = name.endswith("_") and name != "requires_grad_" and entry is not None and "mutating" in entry.flags
    if changes and node is not None and receiver.name is not None:
        home = k.Home("attribute", receiver.name)
        frame.emit(InplaceChange, node, home=home, tensor=receiver, method=name)
    return result


def _as_list(receiver: k.Tensor) -> Kind:
    """Return the result of `tolist()`, which has one level of lists per dimension. Most tensors have one dimension."""
    number = k.Value(receiver.dtype or "float", k.MISSING, "data")
    return number if receiver.rank == 0 else k.Sequence("list", number if receiver.rank in (None, 1) else UNKNOWN)


def _register_buffer(
    frame: Frame, receiver: k.Instance, args: list[Kind], keywords: dict[str, Kind], node: ast.Call | None
) -> None:
    """Add the buffer that `self.register_buffer("name", tensor)` registers to a module."""
    named = args[0] if args else keywords.get("name", UNKNOWN)
    given = args[1] if len(args) > 1 else keywords.get("tensor", k.NONE)
    called = name_of(node.args[0] if args and node is not None and node.args else ast.Constant(None), named)
    if called is not None:
        tensor = k.only_tensor(given)
        kind: Kind = k.Tensor(origin="buffer")
        if tensor is not None:
            kind = k.Tensor(tensor.dtype, tensor.rank, "buffer", sparse=tensor.sparse)
        if given == k.NONE:
            kind = join(kind, k.NONE)
        store_by_name(frame, receiver, called, kind)


def store_by_name(frame: Frame, owner: Kind, name: str | None, value: Kind) -> None:
    """Store a value in the way that an assignment does.

    If a method stores an attribute on its own `self`, the attribute belongs to the class that defines the method. If
    nothing is known about the name, only modules are stored.
    """
    if name is None and all(is_module(frame, one) for one in value.members):
        name = HOLE
    if name is not None and isinstance(owner, k.Instance):
        own = frame.receiver.cls if isinstance(frame.receiver, k.Instance) else owner.cls
        frame.interpreter.attributes.store(own if own in owner.cls.above else owner.cls, name, value, frame)
