"""Follow calls to project functions: bind their parameters and compute their results."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call
from dynalint.analysis.facts import forget_attribute, passed_on
from dynalint.analysis.frame import Environment, Frame
from dynalint.analysis.index import ClassInfo, FunctionInfo
from dynalint.analysis.kinds import NOTHING, UNKNOWN, Kind, widened
from dynalint.analysis.public import is_public
from dynalint.analysis.signatures import declared_kind, has_decorator, is_small, parameter_kind
from dynalint.analysis.sparse import note_sparse_argument
from dynalint.analysis.steps import walk

# Decorators that make Dynamo skip a function. Calling the function breaks the graph, and nothing inside it is traced.
# Rules watch these calls under the first name.
DISABLED = "torch.compiler.disable.__call__"
_CONSTANT = "torch.compiler.assume_constant_result"
_OPERATION = "torch.library.custom_op"
_ALLOWED = ("torch.compiler.allow_in_graph", "torch._dynamo.allow_in_graph", "torch._dynamo.nonstrict_trace")
# Decorators that also stop tracing, but without a graph break.
_OPAQUE = (_CONSTANT, _OPERATION, *_ALLOWED)
# Checks the types of arguments. It draws random numbers to decide which item of a sequence to check.
_CHECKING = "beartype.beartype"
_CHECKED = f"{_CHECKING}.__call__"
# What a parameter that is declared as a tensor does not get.
_NO_TENSORS = (k.Instance, k.Sequence, k.Dictionary)
_ITEMS = re.compile(r"\b([Ll]ist|(Mutable)?Sequence)\[(?!(typing\.)?Any\])|\b[Tt]uple\[[^\[\]]*\.\.\.\]")
_DISABLING = (
    "torch.compiler.disable",
    "torch._dynamo.disable",
    "torch._disable_dynamo",
    "torch._dynamo.disallow_in_graph",
    *_OPAQUE,
)


def call_function(
    frame: Frame,
    callee: k.Function,
    args: list[Kind],
    keywords: dict[str, Kind],
    *,
    starred: bool,
    node: ast.Call | None = None,
) -> Kind:
    """Follow a call to a project function and return its result."""
    function = callee.function
    interpreter = frame.interpreter
    kept_out_by = keeping_out(frame, function)
    if kept_out_by is not None:
        if node is not None and kept_out_by not in _OPAQUE and frame.interpreter.watched(DISABLED) is not None:
            frame.emit(Call, node, extra=DISABLED, callee=DISABLED, receiver=None, args=tuple(args), result=UNKNOWN)
        returns = getattr(function.node, "returns", None)
        return UNKNOWN if returns is None else declared_kind(interpreter, returns, function.module)
    if node is not None and has_decorator(function, "beartype") and _draws_items(frame, function):
        frame.emit(Call, node, extra=_CHECKED, callee=_CHECKED, receiver=None, args=(), result=UNKNOWN)
    params = _bind(frame, function, callee.receiver, args, keywords, starred)
    if frame.function in interpreter.scripts:
        params = {name: k.as_input(kind) for name, kind in params.items()}
    params.update(passed_on(frame, callee, node))
    context = interpreter.context_for(function, params)
    on_self = frame.self_name is not None and callee.receiver == frame.env.get(frame.self_name)
    if frame.context is not None:
        frame.note_callee(context)
        context.users[frame.context] = on_self or context.users.get(frame.context, False)
        interpreter.note_effect("use", context, on_self)
    _share_evidence(frame, function, callee.receiver, node)
    if on_self:
        handed = {name: params[parameter] for name, parameter in context.handed.items()}
        for name, kind in {**context.exits, **handed}.items():
            frame.env[f"{frame.self_name}.{name}"] = kind
            forget_attribute(frame, name)
    if context.running and context.returns is NOTHING:
        return UNKNOWN if _is_constructor(function) else NOTHING
    made_of = callee.receiver.members if callee.receiver is not None else ()
    if made_of and all(isinstance(one, k.Class) for one in made_of) and makes_instance(function):
        return k.join_all([new_instance(frame, one.cls) for one in made_of if isinstance(one, k.Class)])
    declared = getattr(function.node, "returns", None)
    if declared is not None and isinstance(context.returns, k.Unknown):
        return declared_kind(interpreter, declared, function.module)
    return context.returns


def _draws_items(frame: Frame, function: FunctionInfo) -> bool:
    """Return whether a decorator checks the items of one of a function's parameters."""
    arguments = function.node.args
    annotations = (one.annotation for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))
    decorators = (
        frame.interpreter.scopes.in_scope(one, function.module, function.parent)
        for one in getattr(function.node, "decorator_list", ())
    )
    return (
        frame.interpreter.watched(_CHECKED) is not None
        and any(one is not None and _ITEMS.search(ast.unparse(one)) for one in annotations)
        and any(isinstance(one, k.External) and one.name == _CHECKING for one in decorators)
    )


def new_instance(frame: Frame, cls: ClassInfo) -> k.Instance:
    """Return the result of calling a class. It is a new instance, unless the class may return an existing one."""
    made = frame.context is not None and frame.interpreter.project.find_method(cls, "__new__") is None
    return k.Instance(cls, made)


def makes_instance(function: FunctionInfo) -> bool:
    """Return whether a method is an alternative constructor, which only returns results of `cls(...)`."""
    arguments = function.node.args.args
    if not has_decorator(function, "classmethod") or not arguments:
        return False
    made: set[str] = set()
    returned: list[ast.expr | None] = []
    for node in walk(function.node):
        if isinstance(node, ast.Return):
            returned.append(node.value)
        elif isinstance(node, ast.Assign) and _calls(node.value, arguments[0].arg):
            made.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return bool(returned) and all(
        (isinstance(value, ast.Name) and value.id in made) or _calls(value, arguments[0].arg) for value in returned
    )


def _calls(node: ast.expr | None, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def _is_constructor(function: FunctionInfo) -> bool:
    return function.name == "__init__"


def _share_evidence(frame: Frame, function: FunctionInfo, receiver: Kind | None, node: ast.Call | None) -> None:
    """Apply evidence from the callee to the arguments. If a parameter is a tensor, so is the argument for it."""
    known, sparse = frame.interpreter.evidence.of(function), frame.interpreter.evidence.sparse(function)
    if node is None or not (known or sparse) or any(isinstance(argument, ast.Starred) for argument in node.args):
        return
    names = [argument.arg for argument in function.positional][1 if receiver is not None else 0 :]
    pairs = [*zip(names, node.args, strict=False), *((keyword.arg, keyword.value) for keyword in node.keywords)]
    for name, value in pairs:
        if name in sparse:
            note_sparse_argument(frame, value)
        if isinstance(value, ast.Name) and name in known:
            kind = frame.env.get(value.id)
            if isinstance(kind, k.Unknown):
                frame.note_tensor(value, kind)


def is_disabled(frame: Frame, function: FunctionInfo) -> bool:
    """Return whether a decorator makes Dynamo skip a function."""
    return keeping_out(frame, function) is not None


def keeping_out(frame: Frame, function: FunctionInfo) -> str | None:
    """Return the name of the decorator that makes Dynamo skip a function, or None."""
    decorators = getattr(function.node, "decorator_list", ())
    if not decorators or not function.module.may_disable:
        return None
    for decorator in decorators:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(target, (ast.Name, ast.Attribute)):
            kind = frame.interpreter.scopes.in_scope(target, function.module, None)
            if isinstance(kind, k.External) and kind.name in _DISABLING:
                return kind.name
    return None


def _may_be_no_method(frame: Frame, kind: k.Method) -> bool:
    """Return whether an attribute of an object from another library, passed without a call, may be any value."""
    receiver = kind.receiver
    if not isinstance(receiver, k.Object) or frame.interpreter.project.api.torch_class(receiver.type) is not None:
        return False
    return frame.interpreter.watched(f"{receiver.type}.{kind.name}") is None


def _bind(
    frame: Frame,
    function: FunctionInfo,
    receiver: Kind | None,
    args: list[Kind],
    keywords: dict[str, Kind],
    starred: bool,
) -> Environment:
    """Return the kinds of the parameters in a call, from the arguments, defaults or, if unknown, annotations."""
    arguments, interpreter = function.node.args, frame.interpreter
    own = interpreter.method_receiver(function)
    given = args if own is None or receiver is None else [receiver, *args]
    positional = function.positional
    by_position = min(len(given), len(positional))
    small = interpreter.exact or is_small(function)
    keeps_omitted = small or not (_is_constructor(function) or is_public(function))
    env: Environment = {}
    rest = dict(keywords)
    for index, argument in enumerate(function.named):
        name = argument.arg
        if index == 0 and own is not None and positional:
            if interpreter.exact and receiver is None and given[:1] == [UNKNOWN]:
                env[name] = UNKNOWN  # `Class.method(self, ...)`, or a method that another class inherits
                continue
            known = receiver is not None and all(isinstance(one, (k.Class, k.Instance)) for one in receiver.members)
            env[name] = receiver if receiver is not None and known else own
            continue
        kind = given[index] if index < by_position else rest.pop(name, None)
        keeps = keeps_omitted if kind is None else small
        if isinstance(kind, k.Method) and _may_be_no_method(frame, kind):
            kind = UNKNOWN
        declared = None
        if kind is None or isinstance(kind, k.Unknown):
            declared = parameter_kind(interpreter, function, argument)
        if kind is None:
            kind = _omitted(frame, function, name, declared, starred)
        elif isinstance(kind, k.Unknown):
            kind = declared if declared is not None else k.Unknown(name)
        elif isinstance(kind, k.Union) and any(isinstance(one, _NO_TENSORS) for one in kind.alternatives):
            kind = _without_objects(kind, parameter_kind(interpreter, function, argument))
        # The value that one caller passes says little about other callers. A parameter that no caller passes has its
        # default value.
        env[name] = _kept(kind) if keeps else widened(kind)
    if arguments.vararg:
        extra = given[len(positional) :]
        env[arguments.vararg.arg] = k.Sequence("tuple", UNKNOWN) if starred else k.sequence("tuple", extra)
    if arguments.kwarg:
        unknown = starred or not rest
        named: dict[k.Key, Kind] = {} if unknown else {(str, key): kind for key, kind in rest.items()}
        value = UNKNOWN if unknown else k.join_all(list(named.values()))
        env[arguments.kwarg.arg] = k.dictionary("dict", value, named, UNKNOWN if unknown else k.NOTHING)
    return env


def _without_objects(kind: k.Union, declared: Kind) -> Kind:
    """Drop objects and containers from the alternatives of an argument if its parameter is declared as a tensor."""
    if k.only_tensor(declared) is None or not k.may_be_tensor(kind):
        return kind
    return k.join_all([one for one in kind.alternatives if not isinstance(one, _NO_TENSORS)])


def _omitted(frame: Frame, function: FunctionInfo, name: str, declared: Kind | None, starred: bool) -> Kind:
    """Return the kind of a parameter that a call omits: its default's kind, unless `*args` may supply the value."""
    default = function.defaults.get(name)
    if starred or default is None:
        return declared if declared is not None else k.Unknown(name)
    return frame.interpreter.scopes.in_scope(default, function.module, function.parent)


def _kept(kind: Kind) -> Kind:
    """Return the kind to keep for a small function's argument or a default: everything except numbers' values."""
    if isinstance(kind, k.Value) and kind.type in ("int", "float") and kind.constant is not k.MISSING:
        return k.Value(kind.type, k.MISSING, kind.source)
    if isinstance(kind, k.Tensor) and kind.foreseen:
        return replace(kind, foreseen=False)
    return kind
