"""The results of calls to functions outside the project."""

from __future__ import annotations

from dataclasses import replace

from dynalint.analysis import kinds as k
from dynalint.analysis import observers, torch_api
from dynalint.analysis.dtypes import dtype_constant, tensors_in
from dynalint.analysis.elements import element_of
from dynalint.analysis.kinds import NOTHING, UNKNOWN, DType, Kind, join_all
from dynalint.analysis.torch_calls import convert, is_one_number, torch_call

# The results of these functions do not change while Dynamo traces, so a branch on them is either compiled away or
# always taken.
_WHILE_COMPILING = {
    "torch.compiler.is_compiling": True,
    "torch.compiler.is_dynamo_compiling": True,
    "torch._dynamo.is_compiling": True,
    "torch._dynamo.external_utils.is_compiling": True,
    "torch._utils.is_compiling": True,
    "transformers.utils.is_torchdynamo_compiling": True,
    "transformers.utils.import_utils.is_torchdynamo_compiling": True,
    "torch.compiler.is_exporting": False,
    "torch.jit.is_scripting": False,
    "torch.jit.is_tracing": False,
    "torch.onnx.is_in_onnx_export": False,
    "torch._C._get_tracing_state": False,
}

_OF_TORCH = [name for name in _WHILE_COMPILING if name.startswith("torch.")]
_CERTAIN = frozenset(name.rsplit(".", dots)[0] for name in _OF_TORCH for dots in range(name.count(".")))

_NUMPY_ELEMENTWISE = frozenset("abs absolute ceil cos exp floor log log10 log2 power rint round sin sqrt tan".split())
_NUMPY_QUESTIONS = frozenset({"isnan", "isinf", "isfinite"})
_NUMPY_REDUCTIONS = frozenset("all any argmax argmin max mean median min prod std sum var".split())
_NUMPY_MAKERS = frozenset(
    "append arange argsort array asarray atleast_1d atleast_2d atleast_3d column_stack concatenate cumprod cumsum diff "
    "empty expand_dims eye flip full geomspace hstack identity linspace logspace ones outer repeat reshape roll sort "
    "stack tile transpose tri unique vstack zeros".split()
)
_NUMPY_RANGES = frozenset({"arange", "geomspace", "linspace", "logspace"})
_NUMPY_COPIES = frozenset("array asarray cumprod cumsum flip roll sort".split())
# The legacy constructors `torch.LongTensor(...)`, `torch.cuda.LongTensor(...)` and `torch.Tensor(...)`, by the dtype
# that they create.
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
_SHAPES_AS_TENSORS = ("torch._shape_as_tensor", "torch.onnx.operators.shape_as_tensor")
_CONSTANTS: dict[str, Kind] = {
    "math.pi": k.FLOAT,
    "math.inf": k.FLOAT,
    "math.e": k.FLOAT,
    "math.nan": k.FLOAT,
    "math.tau": k.FLOAT,
    "numpy.pi": k.FLOAT,
    "numpy.inf": k.FLOAT,
    "numpy.e": k.FLOAT,
    "numpy.nan": k.FLOAT,
    "numpy.newaxis": k.NONE,
    "sys.maxsize": k.INT,
    "typing.TYPE_CHECKING": k.Value("bool", False),
}
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
# Library functions with these names return standard library loggers, except in structlog, whose loggers are different.
_LOGGER_MAKERS = ("getLogger", "get_logger")
PROGRESS_BARS = frozenset(f"tqdm{part}.{name}" for part in ("", ".auto", ".std") for name in ("tqdm", "trange"))
SEQUENTIAL = "torch.nn.Sequential"
MODULE_LISTS = {SEQUENTIAL, "torch.nn.ModuleList", "torch.nn.ParameterList"}
MODULE_DICTS = {"torch.nn.ModuleDict", "torch.nn.ParameterDict"}
# The result of `getattr(nn, name)` with an unknown name, and the only torch layers that take `bidirectional`. Of the
# others that take `num_layers`, none is chosen by name.
SOME_LAYER = "torch.nn.*"
RECURRENT = ("torch.nn.RNN", "torch.nn.LSTM", "torch.nn.GRU")
_OF_RECURRENT = frozenset(("bidirectional", "num_layers"))
# Functions in other libraries that create tensors.
_GIVING_TENSORS = frozenset(f"torchmetrics.utilities.{name}" for name in ("dim_zero_cat", "data.dim_zero_cat"))
# Libraries with layers that return a tensor for a tensor. Layers with names such as `...WithSize` return a tuple.
_LAYERS = ("einops.layers.", "timm.layers.", "timm.models.layers.", "torchvision.ops.")
_PASS_THROUGH = {"copy.copy", "copy.deepcopy", "typing.cast", "builtins.staticmethod"}


def named_outside(name: str) -> Kind:
    """Return the kind of something outside the project, given its dotted name. Some constants are known."""
    constant = torch_api.constant(name) if name.startswith("torch.") else None
    if constant is None:
        return _CONSTANTS.get(name) or k.external(name)
    if constant.type == "layout":
        return k.Value("layout", name)
    return dtype_constant(name) if constant.type == "dtype" else convert(constant, None)


def layer_call(type_: str, args: list[Kind]) -> Kind:
    """Return the result of calling a layer that is defined in another library."""
    tensor = k.only_tensor(args[0]) if args else None
    known = type_.startswith((*_LAYERS, observers.HOME)) and "With" not in type_
    return k.TENSOR if tensor is not None and known else UNKNOWN


def exists(owner: Kind, name: str) -> bool:
    """Return whether a torch module is known to have an attribute.

    Code checks this to find out whether it is being compiled.
    """
    return isinstance(owner, k.External) and f"{owner.name}.{name}" in _CERTAIN


def external_call(name: str, args: list[Kind], keywords: dict[str, Kind], *, starred: bool) -> Kind:  # noqa: C901
    """Return the result of calling `name`, the dotted name of a function outside the project."""
    if name in _WHILE_COMPILING:
        return k.Value("bool", _WHILE_COMPILING[name])
    if name == "torch.__version__.split" and args == [k.Value("str", ".")]:
        return k.Sequence("list", k.STR, (k.Value("str", "2"), k.STR, k.STR))  # true for all supported releases
    if name == "torch.utils.data.get_worker_info":
        # This identifies a data loader's worker, in which collate functions run. A model runs in the main process.
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
    last = name.rpartition(".")[2]
    if name.startswith("einops.") and last.islower() and args:
        return _einops(last, args[:1])
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
    if last.endswith("to_mask") and args and k.only_tensor(args[0]) is not None:
        return k.Tensor("bool")
    if last in _LOGGER_MAKERS and not name.startswith("structlog."):
        return k.Object("logging.Logger")
    if last[:1].isupper() and not last.isupper():
        return k.Object(name, None if starred else k.outside_call(name, args, keywords))
    return UNKNOWN


def _torch_function(name: str, args: list[Kind], keywords: dict[str, Kind], starred: bool) -> Kind:
    name = torch_api.canonical(name)
    if name == SOME_LAYER:
        return join_all([k.Object(one) for one in RECURRENT]) if keywords.keys() & _OF_RECURRENT else UNKNOWN
    if name in MODULE_LISTS:
        return _module_list(name, args, keywords)
    if name in MODULE_DICTS:
        return args[0] if args and isinstance(args[0], k.Dictionary) else k.Dictionary(name, UNKNOWN)
    if name in ("torch.nn.Parameter", "torch.nn.parameter.Parameter", "torch.nn.Buffer", "torch.nn.parameter.Buffer"):
        given = k.only_tensor(args[0]) if args else None
        origin = "buffer" if name.endswith("Buffer") else "parameter"
        return k.Tensor(given.dtype if given else "float", given.rank if given else None, origin)  # type: ignore[arg-type]
    # The former class for tensors with gradients, which returns the tensor itself.
    if name == "torch.autograd.Variable":
        given = k.only_tensor(args[0]) if args else None
        return UNKNOWN if given is None else k.Tensor(given.dtype, given.rank)
    if name in _LEGACY:
        return k.Tensor(
            _LEGACY[name], foreseen=bool(args) and isinstance(args[0], k.Sequence) and is_one_number(args[0])
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
    observer = observers.observer(name)
    return k.Object(observer) if observer else UNKNOWN


def _module_list(name: str, args: list[Kind], keywords: dict[str, Kind]) -> Kind:
    if name == SEQUENTIAL:
        if len(args) == 1 and isinstance(args[0], k.Dictionary):
            if not args[0].items or args[0].optional:
                return k.Sequence(name, args[0].value)
            layers = k.sequence(name, [kind for _, kind in args[0].items])
            names = tuple(str(key) for key, _ in args[0].items)
            return layers if layers.items is None else replace(layers, fields=names)
        return k.sequence(name, args)
    given = args[0] if args else keywords.get("modules", k.Sequence("list", NOTHING, ()))
    if isinstance(given, k.Sequence):
        return k.Sequence(name, given.element, given.items)
    return k.Sequence(name, UNKNOWN)


def _progress_bar(name: str, args: list[Kind]) -> Kind:
    """Return the result of calling a progress bar: its argument's elements, or an object that methods advance."""
    if name.endswith("range"):
        return k.Sequence("generator", k.INT)
    return k.Sequence("generator", element_of(args[0])) if args else k.Object("tqdm.tqdm")


def _container(type_: str, args: list[Kind], keywords: dict[str, Kind]) -> Kind:
    if type_ in ("dict", "OrderedDict", "defaultdict", "Counter"):
        if type_ == "defaultdict":
            return k.Dictionary(type_, NOTHING)
        given = args[0] if args else None
        if given is None or isinstance(given, k.Dictionary):
            base = given or k.Dictionary(type_, NOTHING)
            known = base.by_key() | {(str, key): kind for key, kind in keywords.items()}
            return k.dictionary(type_, join_all([base.value, *keywords.values()]), known, base.rest, base.optional)
        named = _by_name(given)
        if named:
            return k.dictionary(type_, join_all(list(named.values())), named, NOTHING)
        pair = element_of(given)
        value = pair.items[1] if isinstance(pair, k.Sequence) and pair.items and len(pair.items) == 2 else UNKNOWN
        return k.Dictionary(type_, value)
    if not args:
        return k.Sequence(type_, NOTHING, () if type_ in ("list", "tuple") else None)
    given = args[0]
    if isinstance(given, k.Sequence):
        return k.Sequence(type_, given.element, given.items if type_ in ("list", "tuple") else None)
    return k.Sequence(type_, element_of(given))


def _by_name(pairs: Kind) -> dict[k.Key, Kind]:
    """Return a dict of the pairs in `OrderedDict([("fc", nn.Linear(3, 3)), ...])`, or an empty one if unknown."""
    items = pairs.items if isinstance(pairs, k.Sequence) else None
    known: dict[k.Key, Kind] = {}
    for pair in items or ():
        if not isinstance(pair, k.Sequence) or pair.items is None or len(pair.items) != 2:
            return {}
        name, kind = pair.items
        if not isinstance(name, k.Value) or not isinstance(name.constant, str):
            return {}
        known[str, name.constant] = kind
    return known


def _einops(name: str, args: list[Kind]) -> Kind:
    """Return the result of a function from a library whose functions return tensors for tensors."""
    tensors = tensors_in(args)
    if not tensors or name == "parse_shape":
        return UNKNOWN
    tensor = k.Tensor(tensors[0].dtype)
    if name == "unpack":
        return k.Sequence("list", tensor)
    return k.sequence("tuple", [tensor, k.Sequence("list", k.SHAPE)]) if name == "pack" else tensor


def _math(name: str, args: list[Kind]) -> Kind:
    last = name.rpartition(".")[2]
    sources = [one.source for kind in args for one in kind.members if isinstance(one, k.Value)]
    source = "data" if tensors_in(args) or "data" in sources else "shape" if "shape" in sources else "python"
    if last in ("isnan", "isinf", "isfinite", "isclose"):
        return k.Value("bool", k.MISSING, source)  # type: ignore[arg-type]
    type_ = "int" if last in ("floor", "ceil", "trunc", "gcd", "lcm", "comb", "factorial", "isqrt") else "float"
    return k.Value(type_, k.MISSING, source)  # type: ignore[arg-type]


def _numpy(name: str, args: list[Kind], keywords: dict[str, Kind]) -> Kind:
    """Return the array that a NumPy function returns. Dynamo traces it like a tensor even for Python numbers."""
    if name.startswith("numpy.random."):
        return k.Tensor(array=True) if args else k.FLOAT
    last = name.rpartition(".")[2]
    foreseen = all(k.is_number(one) or (isinstance(one, k.Tensor) and one.foreseen) for one in args)
    if last in _NUMPY_ELEMENTWISE and args and foreseen:
        return k.Tensor("float", 0, array=True, foreseen=True)
    if last in _NUMPY_QUESTIONS and args and foreseen:
        return k.Tensor("bool", 0, array=True, foreseen=True)
    rank = _rank_of_copied(args) if last in _NUMPY_COPIES and "axis" not in keywords else None
    if tensors_in(args):
        return _numpy_of_arrays(name, args, rank)
    if last in _NUMPY_REDUCTIONS and len(args) == 1 and "axis" not in keywords:
        return k.Tensor(None, 0, array=True, foreseen=not _has_several(args[0]))
    if last not in _NUMPY_MAKERS:
        return UNKNOWN
    return k.Tensor(rank=1 if last in _NUMPY_RANGES else rank, array=True)


def _rank_of_copied(args: list[Kind]) -> int | None:
    """Return the rank of a NumPy array made from an array of rank 1, or from a list of numbers."""
    given = args[0] if args else UNKNOWN
    is_flat = isinstance(given, k.Sequence) and given.type in ("list", "tuple") and k.is_number(given.element)
    return 1 if is_flat or (isinstance(given, k.Tensor) and given.rank == 1) else None


def _has_several(kind: Kind) -> bool:
    """Return whether a container has more than one element. Tracing knows a single one, but code rarely uses it."""
    given = [one for one in kind.members if isinstance(one, k.Sequence)]  # any other alternative is a single number
    return bool(given) and all(map(_is_of_several, given))


def _is_of_several(given: k.Sequence) -> bool:
    is_open = given.items is None and given.type in ("list", "tuple")
    return is_open or given.type == "torch.Size" or len(given.items or ()) > 1


def _numpy_of_arrays(name: str, args: list[Kind], rank: int | None) -> Kind:
    """Return the result of a NumPy function on arrays, if Dynamo traces it as the torch function with the same name."""
    last = name.rpartition(".")[2]
    entry = torch_api.function(f"torch.{last}")
    kind = k.TENSOR if entry is None else torch_call(entry, None, args, {}, starred=False)
    if isinstance(kind, k.Sequence) and last in ("where", "nonzero"):
        return k.Sequence("tuple", k.Tensor("int", array=True))
    return k.Tensor(kind.dtype if isinstance(kind, k.Tensor) else None, rank, array=True)
