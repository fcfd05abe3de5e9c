"""Return values of builtin functions, and which builtins convert tensors to bool."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from dynalint.analysis import kinds as k
from dynalint.analysis.dunders import length, spread
from dynalint.analysis.elements import element_of
from dynalint.analysis.externals import RECURRENT, SOME_LAYER, exists
from dynalint.analysis.kinds import UNKNOWN, Kind, join, join_all
from dynalint.analysis.members import member
from dynalint.analysis.narrowing import is_instance

if TYPE_CHECKING:
    from dynalint.analysis.frame import Frame

_ITERATING = frozenset(
    f"builtins.{name}"
    for name in "list tuple set frozenset dict zip enumerate sorted iter map filter sum min max any all".split()
)
Handler = Callable[["Frame", list[Kind], dict[str, Kind]], Kind]


def taken(frame: Frame, name: str, args: list[Kind]) -> list[Kind]:
    """Return the arguments as the builtin sees them, after it has called the project's special methods on them."""
    return [spread(frame, argument) for argument in args] if name in _ITERATING else args


def builtin_call(frame: Frame, name: str, args: list[Kind], keywords: dict[str, Kind]) -> Kind | None:
    """Return the kind that a builtin function returns, or None if it is handled like any other callable."""
    if name == "torch.is_tensor":
        return _isinstance(frame, [*args, k.External("torch.Tensor")], keywords)
    prefix, _, name = name.rpartition(".")
    if prefix != "builtins":
        return None
    if name in _FIXED:
        return _FIXED[name]
    handler = _HANDLERS.get(name)
    return None if handler is None else handler(frame, args, keywords)


def _number(type_: str) -> Handler:
    def handler(frame: Frame, args: list[Kind], keywords: dict[str, Kind]) -> Kind:
        if not args:
            return k.Value(type_)
        results: list[Kind] = []
        for one in args[0].members:
            if isinstance(one, k.Tensor):
                results.append(k.Value(type_, k.MISSING, "data"))
            elif isinstance(one, k.Value):
                results.append(k.Value(type_, _converted(type_, one.constant), one.source))
            else:
                results.append(k.Value(type_))
        return join_all(results)

    return handler


def _converted(type_: str, value: object) -> object:
    if type_ == "int" and isinstance(value, (int, float)) and math.isfinite(value):
        return int(value)
    if type_ == "int" and isinstance(value, str) and value.isdecimal():
        return int(value)
    return bool(value) if type_ == "bool" and value is not k.MISSING else k.MISSING


def _len(frame: Frame, args: list[Kind], keywords: dict[str, Kind]) -> Kind:
    if args and isinstance(args[0], k.Sequence) and args[0].items is not None and args[0].home is None:
        return k.Value("int", len(args[0].items))
    if args and k.may_be_tensor(args[0]):
        return k.SIZE
    # The constructor runs eagerly, where `len` returns a number.
    made = frame.function is not None and frame.function.name == "__init__"
    return (length(frame, args[0]) if args and not made else None) or k.INT


def _isinstance(frame: Frame, args: list[Kind], keywords: dict[str, Kind]) -> Kind:
    if len(args) == 2:
        answers = {is_instance(frame.interpreter.project, one, args[1]) for one in args[0].members}
        if len(answers) == 1 and None not in answers:
            return k.Value("bool", answers.pop())
    return k.BOOL


def _range(frame: Frame, args: list[Kind], keywords: dict[str, Kind]) -> Kind:
    sources = [one.source for kind in args for one in kind.members if isinstance(one, k.Value)]
    data = "data" in sources or any(k.may_be_tensor(argument) for argument in args)
    source = "data" if data else "shape" if "shape" in sources else "python"
    element = k.Value("int", k.MISSING, source)  # type: ignore[arg-type]
    return k.Sequence("range", element)


def _zip(frame: Frame, args: list[Kind], keywords: dict[str, Kind]) -> Kind:
    return k.Sequence("generator", k.sequence("tuple", [element_of(argument) for argument in args]))


def _enumerate(frame: Frame, args: list[Kind], keywords: dict[str, Kind]) -> Kind:
    element = element_of(args[0]) if args else UNKNOWN
    return k.Sequence("generator", k.sequence("tuple", [k.INT, element]))


def _sorted(frame: Frame, args: list[Kind], keywords: dict[str, Kind]) -> Kind:
    if not args:
        return UNKNOWN
    tensor = k.only_tensor(args[0])
    # Sorting an array breaks the graph, so the result holds numbers that enter the next graph as inputs.
    return k.Sequence("list", UNKNOWN if tensor is not None and tensor.array else element_of(args[0]))


def _iter(frame: Frame, args: list[Kind], keywords: dict[str, Kind]) -> Kind:
    if not args:
        return UNKNOWN
    ranges = isinstance(args[0], k.Sequence) and args[0].type == "range"
    return k.Sequence("range_iterator" if ranges else "generator", element_of(args[0]))


def _filter(frame: Frame, args: list[Kind], keywords: dict[str, Kind]) -> Kind:
    return k.Sequence("generator", k.without(element_of(args[1]), "none")) if len(args) == 2 else UNKNOWN


def _sum(frame: Frame, args: list[Kind], keywords: dict[str, Kind]) -> Kind:
    if not args:
        return UNKNOWN
    element = element_of(args[0])
    return k.Tensor() if k.only_tensor(element) is not None else element


def _extreme(frame: Frame, args: list[Kind], keywords: dict[str, Kind]) -> Kind:
    values = args if len(args) > 1 else [element_of(argument) for argument in args]
    if any(k.only_tensor(value) is not None for value in values):
        return k.Tensor()
    joined = join_all(values)
    if k.is_number(joined):
        sources = [one.source for one in joined.members if isinstance(one, k.Value)]
        types = {one.type for one in joined.members if isinstance(one, k.Value)}
        source = "data" if "data" in sources else "shape" if "shape" in sources else "python"
        return k.Value("float" if "float" in types else "int", k.MISSING, source)  # type: ignore[arg-type]
    return joined


def _abs(frame: Frame, args: list[Kind], keywords: dict[str, Kind]) -> Kind:
    kind = join_all(args[:1])
    if isinstance(kind, k.Tensor):
        return k.Tensor(kind.dtype, kind.rank)
    return k.Value(kind.type, k.MISSING, kind.source) if isinstance(kind, k.Value) else UNKNOWN


def _round(frame: Frame, args: list[Kind], keywords: dict[str, Kind]) -> Kind:
    kind = join_all(args[:1])
    if isinstance(kind, k.Value):
        return k.Value("int" if len(args) == 1 else kind.type, k.MISSING, kind.source)
    return kind if isinstance(kind, k.Tensor) else UNKNOWN


def _pow(frame: Frame, args: list[Kind], keywords: dict[str, Kind]) -> Kind:
    return k.Tensor() if any(k.may_be_tensor(argument) for argument in args) else join_all(args)


def _getattr(frame: Frame, args: list[Kind], keywords: dict[str, Kind]) -> Kind:
    if len(args) >= 2 and isinstance(args[1], k.Value) and isinstance(args[1].constant, str):
        kind = member(frame, args[0], args[1].constant)
        return join(kind, args[2]) if len(args) == 3 and not exists(args[0], args[1].constant) else kind
    return k.External(SOME_LAYER) if args and args[0] == k.External("torch.nn") else UNKNOWN


def layer_by_default(frame: Frame, node: ast.expr) -> Kind | None:
    """Return the layer that `getattr(nn, name)` gives for the default of the parameter `name`, in any case of letters.

    A recurrent layer stands for all of them, because such a parameter chooses among these. Return None if the parameter
    has no default, or if it does not name a layer.
    """
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("lower", "upper"):
        node = node.func.value
    if frame.function is None or not isinstance(node, ast.Name):
        return None
    default = frame.function.defaults.get(node.id)
    if not isinstance(default, ast.Constant) or not isinstance(default.value, str):
        return None
    for name in (default.value, default.value.upper()):
        if f"torch.nn.{name}" in RECURRENT:
            return join_all([k.External(one) for one in RECURRENT])
        cls = frame.interpreter.project.api.torch_class(f"torch.nn.{name}")
        if cls is not None and cls.is_module:
            return k.External(f"torch.nn.{name}")
    return None


def _hasattr(frame: Frame, args: list[Kind], keywords: dict[str, Kind]) -> Kind:
    name = args[1].constant if len(args) == 2 and isinstance(args[1], k.Value) else None
    return k.Value("bool", True) if isinstance(name, str) and exists(args[0], name) else k.BOOL


def _super(frame: Frame, args: list[Kind], keywords: dict[str, Kind]) -> Kind:
    if args and isinstance(args[0], k.Class):
        return k.Super(args[0].cls, frame.receiver)
    function = frame.function
    while function is not None and function.owner is None:
        function = function.parent
    return UNKNOWN if function is None or function.owner is None else k.Super(function.owner, frame.receiver)


def _type(frame: Frame, args: list[Kind], keywords: dict[str, Kind]) -> Kind:
    return k.Class(args[0].cls) if len(args) == 1 and isinstance(args[0], k.Instance) else UNKNOWN


def _next(frame: Frame, args: list[Kind], keywords: dict[str, Kind]) -> Kind:
    return join_all([element_of(args[0]), *args[1:]]) if args else UNKNOWN


def _divmod(frame: Frame, args: list[Kind], keywords: dict[str, Kind]) -> Kind:
    both = join_all(args)
    return k.sequence("tuple", [both, both])


def _reversed(frame: Frame, args: list[Kind], keywords: dict[str, Kind]) -> Kind:
    if args and isinstance(args[0], k.Sequence):
        items = None if args[0].items is None else tuple(reversed(args[0].items))
        return k.Sequence("generator", args[0].element, items)
    return k.Sequence("generator", element_of(args[0])) if args else UNKNOWN


def _slice(frame: Frame, args: list[Kind], keywords: dict[str, Kind]) -> Kind:
    return k.Sequence("slice", join_all(args), tuple(args))


_FIXED: dict[str, Kind] = {
    "print": k.NONE,
    "callable": k.BOOL,
    "issubclass": k.BOOL,
    "any": k.BOOL,
    "all": k.BOOL,
    "str": k.STR,
    "repr": k.STR,
    "format": k.STR,
    "input": k.STR,
    "id": k.INT,
    "hash": k.INT,
    "ord": k.INT,
    "chr": k.STR,
    "setattr": k.NONE,
}
_HANDLERS: dict[str, Handler] = {
    "slice": _slice,
    "int": _number("int"),
    "float": _number("float"),
    "bool": _number("bool"),
    "len": _len,
    "isinstance": _isinstance,
    "range": _range,
    "zip": _zip,
    "enumerate": _enumerate,
    "sorted": _sorted,
    "iter": _iter,
    "reversed": _reversed,
    "filter": _filter,
    "sum": _sum,
    "min": _extreme,
    "max": _extreme,
    "abs": _abs,
    "round": _round,
    "pow": _pow,
    "getattr": _getattr,
    "hasattr": _hasattr,
    "super": _super,
    "type": _type,
    "next": _next,
    "divmod": _divmod,
}
