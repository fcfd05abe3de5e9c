"""Evidence for the kinds of unknown values from how calls use them.

For example, a parameter is a tensor if it is passed where only tensors are accepted.
"""

from __future__ import annotations

import ast
import re
from functools import cache

from dynalint.analysis import kinds as k
from dynalint.analysis import torch_api
from dynalint.analysis.dispatch import evaluate
from dynalint.analysis.externals import SEQUENTIAL
from dynalint.analysis.frame import Environment, Frame
from dynalint.analysis.kinds import UNKNOWN, Kind
from dynalint.analysis.members import member
from dynalint.analysis.subjects import subject
from dynalint.analysis.torch_api import ApiEntry

# Many other objects have attributes with these names, but only tensors and arrays have methods with these names. (So do
# torch storages, which are rarely passed on.)
_OF_TENSORS = ("max", "mean", "min", "var", "numpy", "long", "bool", "int")
# Numbers and loggers have these methods too. A call without arguments whose result is used is a call to the tensor
# method.
_COMPUTING = ("exp", "log", "sqrt")
_SHOWING = frozenset({*_OF_TENSORS, *_COMPUTING})
# Layers often have these names. As methods of tensors, they take numbers, which are nearly always written out.
_OF_LAYERS = frozenset(("log_softmax", "norm", "prelu", "relu", "sigmoid", "softmax", "tanh"))
# Methods that return a size on any object.
_MEASURING = ("size", "dim", "numel", "nelement", "ndimension")
# These methods return the kind of their receiver, whether it is a tensor or a module.
_CONVERTING = ("to", "cpu", "cuda", "float", "half", "double", "bfloat16", "clone", "requires_grad_")
# These methods of dicts return views of the values.
_LISTING = ("items", "values")
_CONVERSIONS = ("builtins.int", "builtins.float")
_TAKING_SEQUENCES = ("cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack", "block_diag")


def is_of_tensor(frame: Frame, node: ast.Attribute, call: ast.Call | None) -> bool:
    """Return whether an attribute that only tensors have is read, in the way in which it is read from a tensor.

    `call` is the call whose callee is evaluated.

    `norm = other.norm` and `other.norm(x)` read a layer, which often has the name of a tensor method.
    """
    if node.attr not in frame.interpreter.project.api.tensor_only():
        return False
    if frame.interpreter.project.api.method(node.attr) is None:
        return True
    if call is None or call.func is not node:
        return False
    if node.attr == "size" and isinstance(node.value, ast.Name) and node.value.id.endswith("group"):
        return False  # the number of processes in a process group
    if isinstance(node.value, ast.Name) and node.value.id not in frame.env and _is_library(frame, node.value.id):
        return False
    return node.attr not in _OF_LAYERS or all(isinstance(one, (ast.Constant, ast.UnaryOp)) for one in call.args)


def _is_library(frame: Frame, name: str) -> bool:
    """Return whether a module uses a global variable like a library, as after `torch = get_torch()`.

    It reads attributes that tensors do not have.
    """
    api, text = frame.interpreter.project.api, frame.module.file.text
    used = set(re.findall(rf"\b{re.escape(name)}\.([a-zA-Z_]\w*)", text))
    return any(api.method(one) is None and api.attribute(one) is None for one in used)


def shows_input(frame: Frame, node: ast.Attribute, owner: k.Unknown) -> bool:
    """Return whether `x.shape` shows that `x`, a parameter of the `forward` of a module, is a tensor.

    Elsewhere, arrays, spaces and specifications have shapes too.
    """
    function = frame.function
    if node.attr != "shape" or owner.parameter is None or function is None or function.name != "forward":
        return False
    return function.owner is not None and frame.interpreter.project.is_module_class(function.owner)


def method_of_tensors(frame: Frame, call: ast.Call) -> Kind | None:
    """Return the tensor method called by `x.mean()` if `x` is a parameter of unknown kind."""
    node, statement = call.func, frame.statement
    if not isinstance(node, ast.Attribute) or node.attr not in _SHOWING:
        return None
    used = not (isinstance(statement, ast.Expr) and statement.value is call)
    if node.attr in _COMPUTING and (call.args or call.keywords or not used):
        return None
    owner = evaluate(frame, node.value)
    if not isinstance(owner, k.Unknown) or owner.parameter is None:
        return None
    frame.note_tensor(node.value, owner)
    return member(frame, k.TENSOR, node.attr)


def unknown_method(frame: Frame, node: ast.Attribute, args: list[Kind]) -> Kind | None:
    """Return the result of calling a method on an unknown value, or None if the method's name does not determine it."""
    if node.attr in _MEASURING:
        return k.SIZE if args or node.attr != "size" else k.SHAPE
    if node.attr in _CONVERTING:
        owner = evaluate(frame, node.value)
        # If the receiver turns out to be a tensor, so is the result.
        return k.Unknown(owner.parameter) if isinstance(owner, k.Unknown) else UNKNOWN
    if node.attr in _LISTING and not args:
        owner = evaluate(frame, node.value)
        element = owner.element() if isinstance(owner, k.Unknown) else UNKNOWN
        return k.Sequence("view", k.sequence("tuple", [UNKNOWN, element]) if node.attr == "items" else element)
    return None


def note_converted(frame: Frame, node: ast.Call, callee: Kind) -> None:
    """Record that `labels` is a tensor in `int(labels[i])`, where `i` counts rows of a tensor.

    A list of numbers would not need the conversion.
    """
    if not isinstance(callee, k.External) or callee.name not in _CONVERSIONS or len(node.args) != 1:
        return
    value = node.args[0]
    if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name) and isinstance(value.slice, ast.Name):
        owner, index = (frame.env.get(one.id, UNKNOWN) for one in (value.value, value.slice))
        if isinstance(owner, k.Unknown) and isinstance(index, k.Value) and index.source == "shape":
            frame.note_tensor(value.value, owner)


def note_masks(frame: Frame, keywords: dict[str, Kind]) -> None:
    """Record the keywords with which masks are passed to unknown callees.

    `self.decoder(x, places=mask)` shows that the `forward` of an unknown module receives a mask as `places`.
    """
    for name, kind in keywords.items():
        tensor = k.only_tensor(kind)
        if tensor is not None and tensor.dtype == "bool":
            frame.interpreter.note_mask(frame.module, name)


def note_arguments(frame: Frame, node: ast.Call, callee: Kind, args: list[Kind]) -> None:
    """Record a parameter as a tensor if it is passed to a torch layer, function or method that only accepts tensors."""
    for kind in args:
        if isinstance(kind, k.Unknown) and kind.parameter is not None:
            break
    else:
        if isinstance(callee, k.External) and callee.name.startswith("torch.") and node.args:
            _note_elements(frame, callee.name, node.args[0])
        return
    entries = _entries(frame, callee)
    if isinstance(callee, k.External) and _is_operand_taker(callee.name, args):
        for value, kind in zip(node.args, args, strict=False):
            frame.note_tensor(value, kind)
    if not entries or None in entries:
        return
    for position, (value, kind) in enumerate(zip(node.args, args, strict=False)):
        if isinstance(value, ast.Starred):
            return
        if isinstance(kind, k.Unknown) and all(_takes_only_tensors(*one, position) for one in entries if one):
            frame.note_tensor(value, kind)


def _is_operand_taker(name: str, args: list[Kind]) -> bool:
    """Return whether a function takes tensors and a text that describes their dimensions."""
    if name in ("torch.einsum", "torch.functional.einsum"):
        return _is_text(args[0])
    return name in ("einops.rearrange", "einops.reduce", "einops.repeat") and len(args) > 1 and _is_text(args[1])


def _is_text(kind: Kind) -> bool:
    return isinstance(kind, k.Value) and kind.type == "str"


def _entries(frame: Frame, callee: Kind) -> list[tuple[ApiEntry, bool] | None]:
    """Return what torch's data says about each thing that may be called, and whether it is a layer.

    Of an `nn.Sequential`, the first layer is called with the arguments.
    """
    api = frame.interpreter.project.api
    found: list[tuple[ApiEntry, bool] | None] = []
    for one in callee.members:
        entry = None
        if isinstance(one, k.Sequence) and one.type == SEQUENTIAL:
            found += _entries(frame, one.items[0] if one.items else one.element)
            continue
        if isinstance(one, k.Object):
            cls = api.torch_class(one.type)
            entry = cls.call if cls is not None and cls.is_module else None
        elif isinstance(one, k.External):
            entry = api.function(one.name) if one.name.startswith("torch.") else None
        elif isinstance(one, k.Method):
            entry = api.method(one.name) if isinstance(one.receiver, k.Tensor) else None
        elif isinstance(one, k.Instance):
            entry = _inherited_call(frame, one)
        found.append(None if entry is None else (entry, isinstance(one, (k.Object, k.Instance))))
    return found


def _inherited_call(frame: Frame, module: k.Instance) -> ApiEntry | None:
    """Return what torch's data says about calling a project class that has the `forward` of a torch layer."""
    project = frame.interpreter.project
    if any(project.find_method(module.cls, name) is not None for name in ("forward", "__call__")):
        return None
    classes = [project.api.torch_class(base) for base in project.lineage(module.cls)[1]]
    layers = [one for one in classes if one is not None and one.name not in ("torch.nn.Module", SEQUENTIAL)]
    return layers[0].call if layers and layers[0].is_module else None


@cache
def _takes_only_tensors(entry: ApiEntry, is_layer: bool, position: int) -> bool:
    """Return whether every overload of a torch function requires a tensor at this position."""
    if is_layer and position == 0:
        return True
    for overload in entry.overloads:
        parameters = [one for one in overload.parameters or () if not one.keyword_only]
        if position >= len(parameters) or parameters[position].letters != "T":
            if overload.parameters is not None or position > 0:
                return False
            # The parameters are not recorded. A function that is also a tensor method takes a tensor first.
            prefix, _, last = entry.name.rpartition(".")
            return prefix in ("torch", "torch.nn.functional") and last in torch_api.tensor_only()
    return True


def _note_elements(frame: Frame, name: str, value: ast.expr) -> None:
    """Record the elements of a list as tensors if it is passed to `torch.cat` or a similar function."""
    if isinstance(value, (ast.List, ast.Tuple)) and name.rpartition(".")[2] in _TAKING_SEQUENCES:
        for element in value.elts:
            _note_element(frame, element)


def _note_element(frame: Frame, node: ast.expr) -> None:
    if isinstance(node, ast.Name):
        frame.note_tensor(node, frame.env.get(node.id, UNKNOWN))


def note_filled_in(frame: Frame, node: ast.If, before: Environment, ends: list[Environment]) -> None:
    """In `if mask is None: mask = torch.ones(...)`, the fallback shows the kind of the parameter.

    A fallback with one element (`if length is None: length = lengths.max()`) often replaces a number.
    """
    asked = subject(node.test, None)
    if asked is None or asked.asks != "none" or not asked.positive or len(ends) != 2:
        return
    kind, filled = before.get(asked.name), ends[0].get(asked.name)
    given = isinstance(kind, k.Unknown) and kind.parameter == asked.name and ends[1].get(asked.name) == kind
    if kind is not None and filled is not None and given:
        ends[1][asked.name] = k.stand_in(kind, filled)
    if kind is not None and given and isinstance(filled, k.Tensor) and filled.rank != 0 and not filled.array:
        frame.env = ends[1]
        frame.note_tensor(ast.Name(asked.name, ast.Load()), kind)
