"""The effects of evaluating an expression unconditionally, as `torch.where` does with both branches."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from dynalint.rulekit import FunctionInfo, Refusal, has_decorator, k, walk, walk_function
from dynalint_rules._code.calls import may_work_in_place
from dynalint_rules._code.implicit_methods import implied_methods
from dynalint_rules._code.memory import is_own
from dynalint_rules._code.names import kind_of_name, last_value, loads, statement_of, within
from dynalint_rules._code.saved_tensors import refuse_changed_later
from dynalint_rules._code.scope import Scope

SHOWS = ("builtins.print", "logging.", "warnings.warn")
"""The starts of names of functions that only display their arguments."""

# How many nested calls to project functions are followed.
_DEEPEST = 4

_PURE_BUILTINS = frozenset(
    "abs bool complex dict divmod enumerate float frozenset getattr hasattr id int isinstance issubclass "
    "len list max min pow range repr reversed round set slice str sum tuple type zip".split()
)
_PURE_MODULES = ("math.", "operator.", "typing.", "builtins.")
_PURE_NAMES = frozenset(
    "torch.finfo torch.iinfo torch.Size torch.device torch.is_tensor torch.jit.annotate torch.jit.is_scripting "
    "torch.jit.is_tracing torch.onnx.is_in_onnx_export torch.compiler.is_exporting".split()
)
_NUMPY = "abs ceil cos exp floor log log10 log1p log2 power sin sqrt tan tanh"
_PURE_NAMES |= {f"numpy.{name}" for name in _NUMPY.split()}
_PURE_NAMES |= {
    f"torch.{dtype}Tensor" for dtype in ("", *"Float Double Half BFloat16 Long Int Short Char Byte Bool".split())
}
# Methods that read a container without changing it.
_PURE_METHODS = frozenset(
    "buffers children copy count endswith format get index items join keys lower modules named_buffers named_children "
    "named_modules named_parameters numel parameters replace split startswith strip upper values".split()
)
# Layers that update statistics or draw random numbers on every call in training.
_STATEFUL = ("BatchNorm", "InstanceNorm", "SyncBatchNorm", "Fake", "Observer", "AdaptiveLogSoftmax")
_RANDOM = ("Dropout", "RReLU", "FractionalMaxPool", "MultiheadAttention", "Transformer", "RNN", "LSTM", "GRU")
# Of these, layers that only draw random numbers if they are created with dropout. Dynamo does not trace recurrent ones.
_WITHOUT_DROPOUT = frozenset({"MultiheadAttention"})
_STATEFUL_FUNCTIONS = frozenset({"batch_norm", "instance_norm"})
_RANDOM_FUNCTIONS = frozenset(
    "rand randn randint rand_like randn_like randint_like randperm normal bernoulli poisson multinomial "
    "dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout rrelu gumbel_softmax "
    "fractional_max_pool2d fractional_max_pool3d multi_head_attention_forward".split()
)
# Their layers are not known.
_CONTAINERS = frozenset({"Sequential", "ModuleList", "ModuleDict", "Module"})
# Layers without parameters, given by the end of their name.
_WITHOUT_PARAMETERS = (
    "ReLU ReLU6 ELU SELU CELU GELU SiLU Mish Sigmoid LogSigmoid Tanh Tanhshrink Hardtanh Hardswish "
    "Hardsigmoid Hardshrink Softshrink Softplus Softsign Softmax Softmin LogSoftmax Softmax2d Threshold "
    "GLU LeakyReLU Identity Flatten Unflatten Fold Unfold Upsample PixelShuffle PixelUnshuffle "
    "ChannelShuffle ZeroPad1d ZeroPad2d ZeroPad3d Loss Pool1d Pool2d Pool3d Pad1d Pad2d Pad3d "
    "CosineSimilarity PairwiseDistance".split()
)
# A layer that may be created with `inplace=True`.
_INPLACE = re.compile(r"\binplace\s*=\s*(?!False\b)\w")


@dataclass
class Effects:
    """The effects of evaluating some expressions. `layers` are calls to modules that may have parameters.

    `shows` is whether a value is displayed, which is only allowed if it is not None.
    """

    layers: dict[str, None] = field(default_factory=dict)
    shows: bool | None = None


def effects_of(
    scope: Scope, nodes: Sequence[ast.expr], besides: Callable[[ast.Call], bool] = lambda _call: False
) -> Effects:
    """Return the effects of always evaluating `nodes`.

    If a call satisfies `besides`, only the methods that it calls on its arguments are checked.

    Raises:
        Refusal: If an expression has a side effect, or nothing is known about it.
    """
    found = Effects()
    for node in nodes:
        for child in _own_nodes(node):
            if isinstance(child, ast.Call) and besides(child):
                _check_implied(scope, child, found, 0)
            else:
                _check_node(scope, child, found, 0)
    return found


def effects_of_always(scope: Scope, nodes: Sequence[ast.expr], around: ast.AST) -> Effects:
    """Return the effects of computing `nodes` instead of `around` on every call, including effects on gradients.

    Raises:
        Refusal: As for `effects_of`, or because a later in-place change may prevent the gradient from being computed.
    """
    found = effects_of(scope, nodes)
    refuse_changed_later(scope, nodes, around)
    return found


def is_pure(scope: Scope, node: ast.expr) -> bool:
    """Return whether evaluating `node` once more or once less only affects how long the code takes."""
    try:
        effects_of(scope, [node])
    except Refusal:
        return False
    return True


def only_shows_values(scope: Scope, call: ast.Call) -> bool:
    """Return whether a call only displays values, as a function that passes its arguments to `print` does."""
    found = Effects(shows=False)
    try:
        for node in _own_nodes(call):
            _check_node(scope, node, found, 0)
    except Refusal:
        return False
    return bool(found.shows)


def implies_nothing(scope: Scope, node: ast.AST) -> bool:
    """Return whether methods that a node calls implicitly, such as `__str__` or `__bool__`, have no side effects."""
    try:
        _check_implied(scope, node, Effects(), 0)
    except Refusal:
        return False
    return True


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that run when `node` runs, excluding the bodies of lambdas."""
    pending = [node]
    while pending:
        one = pending.pop()
        yield one
        if not isinstance(one, ast.Lambda):
            pending += reversed(list(ast.iter_child_nodes(one)))


def _check_node(scope: Scope, node: ast.AST, found: Effects, depth: int) -> None:
    if isinstance(node, ast.NamedExpr):
        raise Refusal(f"`:=` in a branch binds `{node.target.id}` only if the branch is taken; bind it before the test")
    if isinstance(node, ast.Await | ast.Yield | ast.YieldFrom):
        raise Refusal(f"{scope.quote(node)} in a branch suspends the function, which cannot happen in both branches")
    if isinstance(node, ast.Call) and not isinstance(scope.parents.get(node), ast.Raise):  # it makes an exception
        _check_call(scope, node, scope.kind(node.func), found, depth)
    if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
        _refuse_iterator(scope, node, depth)
    if isinstance(node, ast.Subscript) and _adds_what_is_missing(scope.kind(node.value)):
        raise Refusal(f"{scope.quote(node)} adds a missing value to the container; use `get` instead")
    _check_implied(scope, node, found, depth)


def _check_implied(scope: Scope, node: ast.AST, found: Effects, depth: int) -> None:
    for owner, one, name in implied_methods(scope, node):
        method = scope.project.find_method(one.cls, name)
        called = name.startswith("__") or name == "extra_repr"
        if method is not None and (called or has_decorator(method, "property")):
            _check_function(scope, method, scope.quote(owner), found, depth)


def _refuse_iterator(scope: Scope, node: ast.Name | ast.Attribute, depth: int) -> None:
    """Ensure that an expression only consumes iterators that it, or a function, has created."""
    if not any(isinstance(one, k.Sequence) and one.type == "generator" for one in scope.kind(node).members):
        return
    given = {one.arg for one in walk(scope.function.node.args) if isinstance(one, ast.arg)}
    if depth == 0 or not isinstance(node, ast.Name) or node.id not in scope.function.locals - given:
        raise Refusal(f"{scope.quote(node)} is an iterator, which is consumed when it is read; create a list first")


def _adds_what_is_missing(kind: k.Kind) -> bool:
    return any(isinstance(one, k.Dictionary) and one.type == "defaultdict" for one in kind.members)


def _check_call(scope: Scope, node: ast.Call, callee: k.Kind, found: Effects, depth: int) -> None:
    shown = scope.quote(node.func)
    if _is_set(node, "inplace"):
        raise Refusal(f"{shown} modifies its argument in place; call it without `inplace`")
    if _is_set(node, "out"):
        raise Refusal(f"{shown} writes to `out`; use the return value instead")
    if any(_is_set(one, "max_norm") for one in (node, *_made(scope, node.func))):
        raise Refusal(f"{shown} renormalizes its weights in place; call it before the test")
    if isinstance(callee, k.Sequence) and callee.items is None and _INPLACE.search(scope.file.text):
        raise Refusal(f"a layer of {shown} may modify its argument in place; create it without `inplace`")
    for one in _called(callee):
        if isinstance(one, k.External):
            _check_external(scope, node, one.name, shown, found)
        elif isinstance(one, k.Method):
            _check_method(scope, one, shown, found)
        elif isinstance(one, k.Object):
            _check_layer(scope, node, one.type, found)
        elif isinstance(one, k.Instance):
            forward = scope.project.find_method(one.cls, "forward") or scope.project.find_method(one.cls, "__call__")
            if forward is None:
                raise Refusal(f"dynalint cannot see what {shown} does; call it before the test")
            found.layers[shown] = None
            _check_function(scope, forward, shown, found, depth)
        elif isinstance(one, k.Function):
            _check_function(scope, one.function, shown, found, depth)
        else:
            raise Refusal(f"dynalint cannot see what {shown} does; call it before the test if it can run on every call")


def _called(callee: k.Kind) -> Iterator[k.Kind]:
    """Yield the possible callees of a call, including the layers in a sequence."""
    for one in callee.members:
        if isinstance(one, k.Sequence) and one.type == "torch.nn.Sequential":
            for item in (one.element,) if one.items is None else one.items:
                yield from _called(item)
        else:
            yield one


def _check_external(scope: Scope, node: ast.Call, name: str, shown: str, found: Effects) -> None:
    head, _, last = name.rpartition(".")
    if found.shows is not None and name.startswith(SHOWS):
        found.shows = True
        return
    if name in _PURE_NAMES or (head == "builtins" and last in _PURE_BUILTINS):
        return
    if head == "builtins":
        raise Refusal(f"{shown} in a branch has a side effect; move it out of the branch")
    if name.startswith(_PURE_MODULES):
        return
    api = scope.project.api
    if last in _STATEFUL_FUNCTIONS:
        raise Refusal(f"{shown} updates running statistics, which would happen on every call; call it in both branches")
    entry = api.function(name)
    flags = entry.flags if entry is not None else frozenset()
    if "random" in flags or last in _RANDOM_FUNCTIONS or _has_dropout(node):
        raise Refusal(
            f"{shown} draws random numbers, and drawing them on every call would change all later ones; draw them "
            "before the test"
        )
    if may_work_in_place(scope, name, node) or (last.endswith("_") and not last.endswith("__")):
        raise Refusal(f"{shown} modifies its argument in place; use the version that returns a new tensor")
    if entry is None:
        raise Refusal(f"dynalint does not know what {shown} does; call it before the test if it can run on every call")


def _has_dropout(node: ast.Call) -> bool:
    """Return whether a function such as `scaled_dot_product_attention` is called with dropout."""
    for keyword in node.keywords:
        if keyword.arg in ("dropout_p", "dropout"):
            return not (isinstance(keyword.value, ast.Constant) and not keyword.value.value)
    return False


def _check_method(scope: Scope, method: k.Method, shown: str, found: Effects) -> None:
    for owner in method.receiver.members:
        if found.shows is not None and isinstance(owner, k.Object) and f"{owner.type}.{method.name}".startswith(SHOWS):
            found.shows = True
            continue
        if isinstance(owner, k.Tensor):
            entry = scope.project.api.method(method.name)
            flags = entry.flags if entry is not None else frozenset()
            if "random" in flags:
                raise Refusal(
                    f"{shown} draws random numbers, and drawing them on every call would change all later ones; draw "
                    "them before the test"
                )
            if "mutating" in flags or (method.name.endswith("_") and not method.name.endswith("__")):
                raise Refusal(f"{shown} modifies its tensor in place; use the version that returns a new tensor")
            if entry is None:
                raise Refusal(
                    f"dynalint does not know what {shown} does; call it before the test if it can run on every call"
                )
        elif isinstance(owner, k.Value) or method.name in _PURE_METHODS:
            continue
        else:
            raise Refusal(f"{shown} in a branch may have a side effect; move it out of the branch")


def _check_layer(scope: Scope, node: ast.Call, type_: str, found: Effects) -> None:
    """Check a call to a torch layer."""
    shown = scope.quote(node.func)
    known = scope.project.api.torch_class(type_)
    name = type_.rpartition(".")[2]
    if known is None or not known.is_module or name in _CONTAINERS:
        raise Refusal(f"dynalint does not know what {shown} does; call it before the test if it can run on every call")
    flags = known.call.flags if known.call is not None else frozenset()
    if name.startswith(_STATEFUL) or "BatchNorm" in name or "mutating" in flags:
        raise Refusal(f"{shown} updates running statistics, which would happen on every call; call it in both branches")
    if "random" in flags or (
        any(part in name for part in _RANDOM) and not _is_made_without_dropout(scope, node.func, name)
    ):
        raise Refusal(
            f"{shown} draws random numbers in training, and drawing them on every call would change all later ones; "
            "call it before the test"
        )
    if _made_inplace(scope, node.func):
        raise Refusal(f"{shown} was created with `inplace=True` and modifies its argument; create it without `inplace`")
    if not name.endswith(tuple(_WITHOUT_PARAMETERS)) or name == "PReLU":
        found.layers[shown] = None


def _made_inplace(scope: Scope, func: ast.expr) -> bool:
    """Return whether the layer in `self.name` was created with `inplace=True`."""
    return any(_is_set(call, "inplace") for call in _made(scope, func))


def _is_made_without_dropout(scope: Scope, func: ast.expr, name: str) -> bool:
    """Return whether the layer in `self.name` has a dropout of 0 by default, and is created without one."""
    made = [call for call in _made(scope, func) if ast.unparse(call.func).rpartition(".")[2] == name]
    few = all(len(call.args) <= 2 and not _is_set(call, "dropout") and not _is_starred(call) for call in made)
    return bool(made) and few and name in _WITHOUT_DROPOUT


def _made(scope: Scope, func: ast.expr) -> Iterator[ast.Call]:
    """Yield the calls in the statements that set `self.name`."""
    owner = scope.function.owner
    if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and owner is not None:
        for cls in scope.project.mro(owner):
            for _, statement in cls.stores.get(func.attr, ()):
                yield from (child for child in walk(statement) if isinstance(child, ast.Call))


def _is_starred(call: ast.Call) -> bool:
    return any(isinstance(one, ast.Starred) for one in call.args) or any(one.arg is None for one in call.keywords)


def _is_set(node: ast.Call, name: str) -> bool:
    """Return whether a keyword argument is passed and is neither the constant False nor None."""
    return any(
        keyword.arg == name and not (isinstance(keyword.value, ast.Constant) and not keyword.value.value)
        for keyword in node.keywords
    )


def _check_function(scope: Scope, function: FunctionInfo, shown: str, found: Effects, depth: int) -> None:
    """Check a call to a project function, including all code that may run in it."""
    if depth >= _DEEPEST:
        raise Refusal(
            f"{shown} leads to code that is too deeply nested for dynalint to analyse; call it before the test"
        )
    inner = replace(scope, function=function)
    refuse_lasting_effects(inner, function.statements, shown)
    for node in (node for statement in function.statements for node in walk_function(statement)):
        if found.shows is not None and isinstance(node, ast.Raise | ast.Assert):
            raise Refusal(f"{shown} may raise an exception")
        try:
            _check_node(inner, node, found, depth + 1)
        except Refusal as refusal:
            raise Refusal(f"in {shown}, {refusal}") from None


def _changes_another(scope: Scope, statement: ast.AugAssign) -> bool:
    """Return whether an augmented assignment may write to a tensor that other code refers to as well."""
    target = statement.target
    if not isinstance(target, ast.Name):
        return k.may_be_tensor(scope.kind(target))
    kind = kind_of_name(scope, target.id, statement)
    if kind == k.NOTHING:  # it is not read afterwards, but the tensor's original owner may read it
        for node in loads(scope, target.id):
            kind = k.join(kind, scope.kind(node))
    return (kind == k.NOTHING or k.may_be_tensor(kind)) and not is_own(scope, target.id, statement)


def refuse_lasting_effects(scope: Scope, statements: Sequence[ast.stmt], shown: str) -> None:
    """Ensure that the statements, which `shown` describes, only change local names.

    Raises:
        Refusal: If a statement changes something else.
    """
    for node in (node for statement in statements for node in walk_function(statement)):
        if isinstance(node, ast.Global | ast.Nonlocal | ast.Delete | ast.Import | ast.ImportFrom):
            raise Refusal(f"{shown} has side effects; call it before the test if it can run on every call")
        stored = isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store)
        if isinstance(node, ast.expr) and stored and not _is_stored_in_own(scope, node, statements):
            raise Refusal(
                f"{shown} stores to {scope.quote(node)}, which would happen on every call; move the assignment out "
                "of the branch"
            )
        if isinstance(node, ast.AugAssign) and _changes_another(scope, node):
            raise Refusal(f"{shown} modifies {scope.quote(node.target)} in place; use `a = a + b` instead")


def _is_stored_in_own(scope: Scope, store: ast.expr, statements: Sequence[ast.stmt]) -> bool:
    """Return whether a store such as `x[0] = y` is into a tensor that the same statements create."""
    base = store.value if isinstance(store, ast.Subscript) else None
    if not isinstance(base, ast.Name) or scope.tensor(base) is None:
        return False
    statement = statement_of(scope, store)
    made = last_value(scope, base.id, statement)
    return (
        made is not None
        and any(within(made[0], one, scope) for one in statements)
        and is_own(scope, base.id, statement)
    )
