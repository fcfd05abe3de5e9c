"""What calls outside the project return: torch by its derived data, the standard library by hand."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from dynalint.analysis import kinds as k
from dynalint.analysis import torch_api, torch_kinds
from dynalint.analysis.dtypes import CONVERSIONS, common_dtype, given_dtype, tensors_in
from dynalint.analysis.elements import element_of
from dynalint.analysis.kinds import NOTHING, UNKNOWN, DType, Kind, join, join_all

# What these return is decided while Dynamo traces: code behind them is compiled away or is all there is.
_WHILE_COMPILING = {
    "torch.compiler.is_compiling": True,
    "torch.compiler.is_dynamo_compiling": True,
    "torch._dynamo.is_compiling": True,
    "torch._dynamo.external_utils.is_compiling": True,
    "torch._utils.is_compiling": True,
    "torch.compiler.is_exporting": False,
    "torch.jit.is_scripting": False,
    "torch.jit.is_tracing": False,
    "torch.onnx.is_in_onnx_export": False,
    "torch._C._get_tracing_state": False,
}

_CERTAIN = frozenset(name.rsplit(".", dots)[0] for name in _WHILE_COMPILING for dots in range(name.count(".")))

_NUMPY_ELEMENTWISE = frozenset("abs absolute ceil cos exp floor log log10 log2 power rint round sin sqrt tan".split())
_NUMPY_REDUCTIONS = frozenset("all any argmax argmin max mean median min prod std sum var".split())
_NUMPY_MAKERS = frozenset(
    "append arange argsort array asarray atleast_1d atleast_2d atleast_3d column_stack concatenate cumprod cumsum diff "
    "empty expand_dims eye flip full geomspace hstack identity linspace logspace ones outer repeat reshape roll sort "
    "stack tile transpose tri unique vstack zeros".split()
)
# How many dimensions the tensors have that these give, whatever they are given; by the last part of the name.
_RANKS = {
    **dict.fromkeys(("arange", "linspace", "randperm", "bincount", "masked_select"), 1),
    **dict.fromkeys(("nonzero", "argwhere", "eye"), 2),
}
_SIZED = frozenset(f"torch.{name}" for name in "empty full normal ones rand randint randn zeros".split())
# The constructors of old, `torch.LongTensor(...)`, `torch.cuda.LongTensor(...)` and `torch.Tensor(...)`, by the dtype
# of what they make.
_LEGACY_DTYPES: dict[DType, str] = {
    "float": "Float Double Half BFloat16",
    "int": "Long Int Short Char Byte",
    "bool": "Bool",
}
_LEGACY = {
    f"torch.{device}{name}Tensor": dtype
    for device in ("", "cuda.")
    for dtype, names in _LEGACY_DTYPES.items()
    for name in names.split()
} | {"torch.Tensor": "float"}
# Make a tensor of the numbers that they are given.
_FROM_NUMBERS = ("torch.tensor", "torch.as_tensor", "torch.Tensor.new_tensor")
_SHAPES_AS_TENSORS = ("torch._shape_as_tensor", "torch.onnx.operators.shape_as_tensor")
_OBJECTS = {
    "logging.getLogger": "logging.Logger",
    "builtins.open": "io.TextIOWrapper",
    "builtins.object": "builtins.object",
    "random.Random": "random.Random",
    "numpy.random.RandomState": "numpy.random.RandomState",
    "numpy.random.default_rng": "numpy.random.Generator",
    "ctypes.CDLL": "ctypes.CDLL",
    "ctypes.cdll.LoadLibrary": "ctypes.CDLL",
    "contextlib.nullcontext": "contextlib.nullcontext",
}
_CONTAINERS = {
    "collections.OrderedDict": "OrderedDict",
    "collections.defaultdict": "defaultdict",
    "collections.Counter": "Counter",
    "builtins.dict": "dict",
    "builtins.list": "list",
    "builtins.tuple": "tuple",
    "builtins.set": "set",
    "builtins.frozenset": "frozenset",
    "torch.Size": "torch.Size",
    "collections.deque": "deque",
    "itertools.chain": "generator",
    "itertools.cycle": "generator",
}
PROGRESS_BARS = frozenset(f"tqdm{part}.{name}" for part in ("", ".auto", ".std") for name in ("tqdm", "trange"))
MODULE_LISTS = {"torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ParameterList"}
MODULE_DICTS = {"torch.nn.ModuleDict", "torch.nn.ParameterDict"}
# What `getattr(nn, name)` is of an unknown name, and the layers of torch that alone take the argument `bidirectional`.
SOME_LAYER = "torch.nn.*"
_BIDIRECTIONAL = ("torch.nn.RNN", "torch.nn.LSTM", "torch.nn.GRU")
# What other libraries make a tensor by.
_GIVING_TENSORS = frozenset(f"torchmetrics.utilities.{name}" for name in ("dim_zero_cat", "data.dim_zero_cat"))
_PASS_THROUGH = {"copy.copy", "copy.deepcopy", "typing.cast"}


@cache
def convert(kind: torch_kinds.Kind, dtype: DType | None) -> Kind:  # noqa: C901 - one case after the other
    """Return a kind of the torch data as a kind of the lattice; `dtype` is that of the tensors put in."""
    name = kind.name
    if name == "tensor":
        return k.Tensor(kind.dtype_for(dtype), 0 if kind.rank0 else None)
    if name == "size":
        return k.SHAPE
    if name == "dim":
        return k.SIZE
    if name in ("python", "data"):
        if name == "data":
            return _data(kind.type, dtype)
        if not kind.type:
            return UNKNOWN
        return k.NONE if kind.type == "none" else k.Value(kind.type)
    if name == "none":
        return k.NONE
    if name == "array":
        return k.Tensor(array=True)
    if name in ("module", "object"):
        return k.Object(kind.type) if kind.type else UNKNOWN
    if name == "union":
        return join_all([convert(item, dtype) for item in kind.items])
    if name == "tuple" and not kind.variadic:
        items = tuple(convert(item, dtype) for item in kind.items)
        return k.Sequence("tuple", join_all(items), items, fields=kind.fields)
    if name in ("list", "tuple", "iterator"):
        return k.Sequence("generator" if name == "iterator" else name, convert(kind.items[0], dtype))
    if name == "dict":
        return k.Dictionary("dict", convert(kind.items[0], dtype))
    return UNKNOWN


def _data(type_: str, dtype: DType | None) -> Kind:
    """A Python value read out of a tensor: a number of the tensor's class, or a list of such."""
    number = k.Value(dtype or "float", k.MISSING, "data")
    if type_ in ("", "number"):
        return number
    return k.Sequence("list", number) if type_ == "list" else k.Value(type_, k.MISSING, "data")


def hint(kind: Kind) -> str:
    """Return what the torch data wants to know of an argument to choose between overloads."""
    if isinstance(kind, k.Tensor):
        return "tensor"
    if isinstance(kind, k.Value):
        if kind.type == "int":
            return "dim" if kind.source == "shape" else "int"
        if kind.type == "bool" and kind.constant is not k.MISSING:
            return "true" if kind.constant else "false"
        if kind.type == "str" and kind.constant is not k.MISSING:
            return f"str:{kind.constant}"
        return kind.type if kind.type in ("bool", "float", "complex", "str", "none", "dtype", "device") else "other"
    if isinstance(kind, k.Object) and kind.type == "torch.device":
        return "device"
    if isinstance(kind, k.Sequence):
        return "size" if kind.type == "torch.Size" else "sequence"
    if isinstance(kind, k.Union):
        tensor = k.only_tensor(kind)
        return "tensor" if tensor is not None else "unknown"
    return "unknown" if isinstance(kind, (k.Unknown, k.Nothing)) else "other"


def certain_flags(
    entry: torch_api.Entry, args: list[Kind], keywords: dict[str, Kind], *, starred: bool
) -> frozenset[torch_api.Flag]:
    """Return what holds for every way to call a function or method of torch with these arguments."""
    return _certain_flags(entry, *_hints(args, keywords), starred)


def _hints(args: list[Kind], keywords: dict[str, Kind]) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    named = tuple((name, hint(argument)) for name, argument in keywords.items()) if keywords else ()
    return tuple([hint(argument) for argument in args]), named


@cache
def _certain_flags(
    entry: torch_api.Entry, positional: tuple[str, ...], keywords: tuple[tuple[str, str], ...], starred: bool
) -> frozenset[torch_api.Flag]:
    return entry.certain_flags(positional, dict(keywords), starred=starred)


@cache
def _resolved(
    entry: torch_api.Entry, positional: tuple[str, ...], keywords: tuple[tuple[str, str], ...], starred: bool
) -> torch_api.Overload:
    return entry.resolve(positional, dict(keywords), starred=starred)


def torch_call(
    entry: torch_api.Entry, receiver: Kind | None, args: list[Kind], keywords: dict[str, Kind], *, starred: bool
) -> Kind:
    """Return the kind that a function or method of torch gives for these arguments."""
    overload = _resolved(entry, *_hints(args, keywords), starred)
    tensors = tensors_in([*([receiver] if receiver is not None else []), *args, *keywords.values()])
    # What works in place returns what it works on: a method its receiver, a function or a layer its first argument.
    subject = receiver if isinstance(receiver, k.Tensor) else args[0] if args else UNKNOWN
    if overload.kind.name == "self":
        return k.only_tensor(subject) or subject
    if overload.kind.name == "union" and any(item.name == "self" for item in overload.kind.items):
        others = [convert(item, None) for item in overload.kind.items if item.name != "self"]
        return join_all([*others, k.only_tensor(subject) or k.TENSOR])
    kind = convert(overload.kind, common_dtype(tensors, args))
    if isinstance(kind, k.Tensor):
        if kind.rank is None and "elementwise" in overload.flags and tensors and all(one.rank == 0 for one in tensors):
            kind = k.Tensor(kind.dtype, 0)
        given = given_dtype(entry.name, tensors, args, keywords)
        if given is not None:
            kind = k.Tensor(given[0], kind.rank)
        rank = _RANKS.get(entry.name.rpartition(".")[2], _rank_of_given(entry.name, args, keywords))
        if kind.rank is None and rank is not None:
            kind = replace(kind, rank=rank)
        if _is_foreseen(entry.name, overload, tensors, args, keywords):
            kind = replace(kind, foreseen=True)
    return kind


def _rank_of_given(name: str, args: list[Kind], keywords: dict[str, Kind]) -> int | None:
    """Return how many dimensions a factory makes: of a size of known length, or of numbers in lists."""
    if name in _FROM_NUMBERS:
        given, rank = (args[0] if args else UNKNOWN), 0
        while isinstance(given, k.Sequence):
            given, rank = given.element, rank + 1
        return rank if k.is_number(given) else None
    sizes = [one for one in (*args, keywords.get("size")) if isinstance(one, k.Sequence)] if name in _SIZED else []
    return len(sizes[0].items) if len(sizes) == 1 and sizes[0].items is not None else None


def _is_foreseen(
    name: str, overload: torch_api.Overload, tensors: list[k.Tensor], args: list[Kind], keywords: dict[str, Kind]
) -> bool:
    """Whether tracing knows the value that a call gives: one element, of Python numbers alone.

    On a GPU it may not; what cannot be told from the source must not be flagged, so the device is left aside.
    """
    if name in _FROM_NUMBERS:
        return bool(args) and _is_one_number(args[0])
    if not (tensors or args) or not all(tensor.foreseen for tensor in tensors):
        return False
    if name in CONVERSIONS:
        return True
    numbers = (one for one in (*args, *keywords.values()) if not isinstance(one, k.Tensor))
    plain = all(isinstance(member, k.Value) for number in numbers for member in number.members)
    return "elementwise" in overload.flags and plain


def _is_one_number(given: Kind) -> bool:
    """Whether a value is a Python number, or a list of one."""
    if isinstance(given, k.Sequence) and given.items is not None and len(given.items) == 1:
        given = given.items[0]
    return k.is_number(given) or (isinstance(given, k.Tensor) and given.foreseen)


def exists(owner: Kind, name: str) -> bool:
    """Whether a module of torch has an attribute for certain: what code asks to learn whether it is being compiled."""
    return isinstance(owner, k.External) and f"{owner.name}.{name}" in _CERTAIN


def external_call(name: str, args: list[Kind], keywords: dict[str, Kind], *, starred: bool) -> Kind:  # noqa: C901 - one case after the other
    """Return the kind that calling `name`, a dotted name outside the project, gives."""
    if name in _WHILE_COMPILING:
        return k.Value("bool", _WHILE_COMPILING[name])
    if name == "torch.__version__.split" and args == [k.Value("str", ".")]:
        return k.Sequence("list", k.STR, (k.Value("str", "2"), k.STR, k.STR))  # all releases that are supported
    if name == "torch.utils.data.get_worker_info":
        # It tells the workers of a data loader apart, where collating runs; a model runs in the main process.
        return k.NONE
    if name in _CONTAINERS:
        return _container(_CONTAINERS[name], args, keywords)
    if name.startswith("torch."):
        return _torch_function(name, args, keywords, starred)
    if name in _OBJECTS:
        return k.Object(_OBJECTS[name])
    if name in _PASS_THROUGH and args:
        return args[-1] if name == "typing.cast" else args[0]
    if name in PROGRESS_BARS:
        return _progress_bar(name, args)
    if name in _GIVING_TENSORS:
        return k.TENSOR
    if name == "itertools.count":
        return k.Sequence("count", k.INT)
    if name == "functools.partial" and args:
        return k.Partial(args[0], tuple(args[1:]), tuple(keywords.items()))
    if name.startswith("math."):
        return _math(name, args)
    if name.startswith("numpy."):
        return _numpy(name, args, keywords)
    if name.startswith("einops.") and args:
        tensors = tensors_in(args[:1])
        return k.Tensor(tensors[0].dtype) if tensors and not name.endswith("parse_shape") else UNKNOWN
    if name.startswith("random."):
        return (
            k.INT
            if name.endswith(("randint", "randrange"))
            else k.FLOAT
            if name.endswith(("random", "uniform"))
            else UNKNOWN
        )
    if name.startswith("time."):
        return k.FLOAT
    last = name.rpartition(".")[2]
    if last[:1].isupper() and not last.isupper():
        return k.Object(name)
    return UNKNOWN


def _torch_function(name: str, args: list[Kind], keywords: dict[str, Kind], starred: bool) -> Kind:
    name = torch_api.canonical(name)
    if name == SOME_LAYER:
        return join_all([k.Object(one) for one in _BIDIRECTIONAL]) if "bidirectional" in keywords else UNKNOWN
    if name in MODULE_LISTS:
        return _module_list(name, args, keywords)
    if name in MODULE_DICTS:
        return args[0] if args and isinstance(args[0], k.Dictionary) else k.Dictionary(name, UNKNOWN)
    if name in ("torch.nn.Parameter", "torch.nn.parameter.Parameter", "torch.nn.Buffer", "torch.nn.parameter.Buffer"):
        given = k.only_tensor(args[0]) if args else None
        origin = "buffer" if name.endswith("Buffer") else "parameter"
        return k.Tensor(given.dtype if given else "float", given.rank if given else None, origin)  # type: ignore[arg-type]
    if name == "torch.autograd.Variable":  # what tensors with gradients once were: the tensor itself
        given = k.only_tensor(args[0]) if args else None
        return UNKNOWN if given is None else k.Tensor(given.dtype, given.rank)
    if name in _LEGACY:
        return k.Tensor(
            _LEGACY[name], foreseen=bool(args) and isinstance(args[0], k.Sequence) and _is_one_number(args[0])
        )
    if name in _SHAPES_AS_TENSORS:
        return k.SHAPE_AS_TENSOR
    if name == "torch.jit.load":
        return k.Object("torch.jit.ScriptModule")
    entry = torch_api.function(name)
    if entry is not None:
        return torch_call(entry, None, args, keywords, starred=starred)
    cls = torch_api.torch_class(name)
    if cls is not None:
        return k.Object(cls.name) if cls.name != "torch.nn.Module" else UNKNOWN
    return UNKNOWN


def _module_list(name: str, args: list[Kind], keywords: dict[str, Kind]) -> Kind:
    if name == "torch.nn.Sequential":
        if len(args) == 1 and isinstance(args[0], k.Dictionary):
            items = [kind for _, kind in args[0].items]
            return k.sequence(name, items) if items else k.Sequence(name, args[0].value)
        return k.sequence(name, args)
    given = args[0] if args else keywords.get("modules", k.Sequence("list", NOTHING, ()))
    if isinstance(given, k.Sequence):
        return k.Sequence(name, given.element, given.items)
    return k.Sequence(name, UNKNOWN)


def _progress_bar(name: str, args: list[Kind]) -> Kind:
    """A bar goes through what it is given; one that is given nothing is moved on by its methods."""
    if name.endswith("range"):
        return k.Sequence("generator", k.INT)
    return k.Sequence("generator", element_of(args[0])) if args else k.Object("tqdm.tqdm")


def _container(type_: str, args: list[Kind], keywords: dict[str, Kind]) -> Kind:
    if type_ in ("dict", "OrderedDict", "defaultdict", "Counter"):
        if type_ == "defaultdict":
            return k.Dictionary(type_, NOTHING)
        given = args[0] if args else None
        if isinstance(given, k.Dictionary):
            return k.Dictionary(type_, join(given.value, join_all(list(keywords.values()))), given.items)
        if given is None:
            return k.Dictionary(type_, join_all(list(keywords.values())), tuple(keywords.items()))
        pair = element_of(given)
        value = pair.items[1] if isinstance(pair, k.Sequence) and pair.items and len(pair.items) == 2 else UNKNOWN
        return k.Dictionary(type_, value)
    if not args:
        return k.Sequence(type_, NOTHING, () if type_ in ("list", "tuple") else None)
    given = args[0]
    if isinstance(given, k.Sequence):
        return k.Sequence(type_, given.element, given.items if type_ in ("list", "tuple") else None)
    return k.Sequence(type_, element_of(given))


def _math(name: str, args: list[Kind]) -> Kind:
    last = name.rpartition(".")[2]
    sources = [one.source for kind in args for one in kind.members if isinstance(one, k.Value)]
    source = "data" if tensors_in(args) or "data" in sources else "shape" if "shape" in sources else "python"
    if last in ("isnan", "isinf", "isfinite", "isclose"):
        return k.Value("bool", k.MISSING, source)  # type: ignore[arg-type]
    type_ = "int" if last in ("floor", "ceil", "trunc", "gcd", "lcm", "comb", "factorial", "isqrt") else "float"
    return k.Value(type_, k.MISSING, source)  # type: ignore[arg-type]


def _numpy(name: str, args: list[Kind], keywords: dict[str, Kind]) -> Kind:
    """What NumPy gives is an array, which Dynamo traces like a tensor, even of Python numbers."""
    if name.startswith("numpy.random."):
        return k.Tensor(array=True) if args else k.FLOAT
    last = name.rpartition(".")[2]
    foreseen = all(k.is_number(one) or (isinstance(one, k.Tensor) and one.foreseen) for one in args)
    if last in _NUMPY_ELEMENTWISE and args and foreseen:
        return k.Tensor("float", 0, array=True, foreseen=True)
    if tensors_in(args):
        return _numpy_of_arrays(name, args)
    if last in _NUMPY_REDUCTIONS and len(args) == 1 and "axis" not in keywords:
        return k.Tensor(None, 0, array=True, foreseen=not _has_several(args[0]))
    return k.Tensor(array=True) if last in _NUMPY_MAKERS else UNKNOWN


def _has_several(kind: Kind) -> bool:
    """Whether a container has more than one element: of one, tracing knows the value, and nobody would ask for it."""
    given = [one for one in kind.members if isinstance(one, k.Sequence)]  # whatever else it may be is one number
    return bool(given) and all(map(_is_of_several, given))


def _is_of_several(given: k.Sequence) -> bool:
    is_open = given.items is None and given.type in ("list", "tuple")
    return is_open or given.type == "torch.Size" or len(given.items or ()) > 1


def _numpy_of_arrays(name: str, args: list[Kind]) -> Kind:
    """NumPy on arrays, as far as torch has a function of that name, which Dynamo traces it by."""
    last = name.rpartition(".")[2]
    entry = torch_api.function(f"torch.{last}")
    kind = k.TENSOR if entry is None else torch_call(entry, None, args, {}, starred=False)
    if isinstance(kind, k.Sequence) and last in ("where", "nonzero"):
        return k.Sequence("tuple", k.Tensor("int", array=True))
    return k.Tensor(kind.dtype if isinstance(kind, k.Tensor) else None, array=True)
