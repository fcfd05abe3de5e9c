"""A module's state before the first call, which code that is not compiled sets."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from typing import Any, Final, cast

from dynalint.rulekit import ClassInfo, FunctionInfo, Project, is_test, k, walk_function, way

_EMPTY = frozenset({"dict", "OrderedDict", "list", "set"})
_FACTORIES = frozenset({"zeros", "ones", "empty", "rand", "randn", "full", "tensor", "Tensor", "FloatTensor"})
_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
_OPEN: Final = object()
# Functions that return a tensor with the same size as their argument.
_ALIKE = frozenset({"zeros_like", "ones_like", "empty_like", "detach", "clone", "to"})


def initial(owner: ClassInfo, name: str, project: Project) -> list[ast.expr]:
    """Return the values that code outside the compiled region assigns to an attribute.

    A constructor parameter stands for its default. Values derived from the state itself are omitted. Compiled methods
    count if a constructor calls them.
    """
    related = [*project.mro(owner), *_below(owner)]
    made = "".join(cls.methods["__init__"].text for cls in related if "__init__" in cls.methods)
    given = [
        _resolved(value, method)
        for cls in related
        for method, value in _given(cls, name)
        if (method.name == "__init__" or not method.reached or f"self.{method.name}(" in made)
        and not _is_alike(value, name)
    ]
    return given + [cls.body[name] for cls in related if name in cls.body]


def by_default(test: ast.expr, owner: ClassInfo, project: Project) -> bool | None:
    """Return the outcome of a test of the object's settings, if nothing sets them to values that would change it.

    The test is a flag, or compares a setting with a constant (`self.mode == "mean"`).
    """
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        outcome = by_default(test.operand, owner, project)
        return None if outcome is None else not outcome
    if not isinstance(test, ast.Compare):
        outcomes = set(_settings(test, owner, project))
    else:
        outcomes = {compared(test, value) for value in _settings(test.left, owner, project)}
    only = outcomes.pop() if len(outcomes) == 1 else None
    return only if isinstance(only, bool) else None


def as_built(test: ast.expr, owner: ClassInfo, project: Project) -> bool | None:
    """Return the outcome of a test of an attribute that only methods change which nothing in the project calls.

    Such a method turns something on if the user wishes: `def record(self): self.recording = True`.
    """
    left = test.left if isinstance(test, ast.Compare) else test
    if not isinstance(left, ast.Attribute) or ast.unparse(left.value) != "self":
        return None
    related = [*project.mro(owner), *_below(owner)]
    stores = [(method, value) for cls in related for method, value in _given(cls, left.attr)]
    values = [value for method, value in stores if method.name == "__init__"]
    values += [cls.body[left.attr] for cls in related if left.attr in cls.body]
    others = {method for method, _ in stores if method.name != "__init__"}
    if any(one.reached or _is_used(one.name, project) for one in others) or _is_set_outside(left.attr, project):
        return None
    known = [one.value if isinstance(one, ast.Constant) else _OPEN for one in values]
    outcomes = {
        compared(test, one) if isinstance(test, ast.Compare) else one is not _OPEN and bool(one) for one in known
    }
    return outcomes.pop() if len(outcomes) == 1 and _OPEN not in known else None


def _is_used(name: str, project: Project) -> bool:
    return any(not is_test(file.path) for file, _, _ in project.attribute_uses(name))


def _is_set_outside(name: str, project: Project) -> bool:
    """Return whether code sets an attribute with this name of anything but `self`."""
    stores = (
        one
        for file, _, one in project.attribute_uses(name)
        if isinstance(one.ctx, ast.Store) and not is_test(file.path)
    )
    return any(ast.unparse(one.value) != "self" for one in stores)


def compared(test: ast.Compare, left: object) -> bool | None:
    """Return the outcome of a comparison of a value with a constant, or None for any other comparison."""
    operation, right = _COMPARED.get(type(test.ops[0])), test.comparators[0]
    if operation is None or len(test.ops) > 1 or not isinstance(right, ast.Constant) or left is _OPEN:
        return None
    with suppress(TypeError):
        return bool(operation(left, right.value))
    return None


def _settings(node: ast.expr, owner: ClassInfo, project: Project) -> list[Hashable]:
    """Return the constants that an attribute of the object, or of its settings (`self.config.causal`), may hold.

    Any other value is represented by `_OPEN`.
    """
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Attribute | ast.Name):
        return []
    if isinstance(node.value, ast.Attribute):
        values = _in_config(node.attr, project)
    elif node.value.id == "self":
        values = _in_object(node.attr, owner, project)
    else:
        return []
    return [one.value if isinstance(one, ast.Constant) else _OPEN for one in values]


def _in_object(name: str, owner: ClassInfo, project: Project) -> list[ast.expr]:
    """Return the values that an attribute of the object may hold, if only constructors set it."""
    related = [*project.mro(owner), *_below(owner)]
    stores = [(method, value) for cls in related for method, value in _given(cls, name)]
    if any(method.reached and method.name != "__init__" for method, _ in stores):
        return []
    given = [(value.id, place_of(value.id, method)) for method, value in stores if isinstance(value, ast.Name)]
    calls = [made for cls in related for made in _creations(cls, project)] if given else []
    passed = [
        value if around is None else _resolved(value, around)
        for one, place in given
        for around, call in calls
        for value in [*passed_by_name(call, one), *placed(call, place)]
    ]
    required = {one for one, _ in given} if passed else set()
    kept = [one for one in initial(owner, name, project) if not (isinstance(one, ast.Name) and one.id in required)]
    return [*kept, *passed]


def _in_config(name: str, project: Project) -> list[ast.expr]:
    """Return the values that a setting may have in a class such as `ModelConfig`: its default, and what is passed."""
    if _is_set_outside(name, project):
        return []
    classes = [cls for module in project.mentioning(name) for cls in module.classes if cls.name.endswith("Config")]
    made = [cls.methods["__init__"] for cls in classes if "__init__" in cls.methods]
    defaults = [one[name] for one in (*(one.defaults for one in made), *(cls.body for cls in classes)) if name in one]
    calls = (node for _, node in project.nodes_with(name) if isinstance(node, ast.Call)) if defaults else ()
    return [*defaults, *(value for call in calls for value in passed_by_name(call, name))]


def argument_by_default(test: ast.expr, function: FunctionInfo, project: Project) -> bool | None:
    """Return the default of a flag that a function takes, if nothing in the project passes or assigns anything else."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        outcome = argument_by_default(test.operand, function, project)
        return None if outcome is None else not outcome
    default = only_default(test, function, project)
    return default.value if default is not None and isinstance(default.value, bool) else None


def only_default(name: ast.expr, function: FunctionInfo, project: Project) -> ast.Constant | None:
    """Return the default of an argument, if nothing in the project passes or assigns anything else."""
    default = function.defaults.get(name.id) if isinstance(name, ast.Name) else None
    if not isinstance(name, ast.Name) or not isinstance(default, ast.Constant):
        return None
    place = place_of(name.id, function)
    calls = (node for _, node in project.nodes_with(name.id) if isinstance(node, ast.Call))
    passed = [value for call in calls for value in passed_by_name(call, name.id)]
    passed += [value for _, call in calls_of(function, project) for value in placed(call, place)]
    settled = all(isinstance(one, ast.Constant) and one.value is default.value for one in passed)
    stored = (node for node in walk_function(function.node) if isinstance(node, ast.Name) and node.id == name.id)
    return default if settled and all(isinstance(node.ctx, ast.Load) for node in stored) else None


def place_of(name: str, function: FunctionInfo) -> int:
    """Return the position at which a function takes an argument, after `self`."""
    names = [one.arg for one in function.positional[function.owner is not None :]]
    return names.index(name) if name in names else len(names)


def _creations(cls: ClassInfo, project: Project) -> list[tuple[FunctionInfo | None, ast.Call]]:
    """Return the calls that create instances of a class, and its own calls of the constructors of its bases.

    Each comes with the function around it.
    """
    key = _creations, cls, len(project.modules)
    if key not in project.answers:
        constructor = cls.methods.get("__init__")
        own = [(constructor, node) for node in walk_function(constructor.node)] if constructor is not None else []
        named = [
            (project.function_at(module, node), node)
            for module, node in project.nodes_with(cls.name)
            if isinstance(node, ast.Call) and not is_test(module.file.path)
        ]
        calls = [(one, name) for name, found in ((cls.name, named), ("__init__", own)) for one in found]
        project.answers[key] = [
            (around, node) for (around, node), name in calls if isinstance(node, ast.Call) and _called(node) == name
        ]
    return cast("list[tuple[FunctionInfo | None, ast.Call]]", project.answers[key])


def calls_of(function: FunctionInfo, project: Project) -> Iterator[tuple[FunctionInfo, ast.Call]]:
    """Yield the calls of a function, or of modules whose `forward` it is, in compiled code, with their callers."""
    for caller in function.called_by:
        kinds = project.kinds(caller)
        for call in (one for one in walk_function(caller.node) if isinstance(one, ast.Call)):
            for kind in kinds.get(call.func, k.UNKNOWN).members:
                method = kind.function if isinstance(kind, k.Function) else None
                if isinstance(kind, k.Instance):
                    method = project.find_method(kind.cls, function.name)
                if method is function:
                    yield caller, call


def placed(call: ast.Call, place: int) -> list[ast.expr]:
    """Return what a call passes at a position, which is unknown after a starred argument."""
    starred = [one for one in call.args[: place + 1] if isinstance(one, ast.Starred)]
    return [*starred, *call.args[place : place + 1]]


def without_flags(test: ast.expr, function: FunctionInfo, project: Project) -> ast.expr:
    """Return a test without flags whose defaults leave the outcome open: `not self.cached or ...`, `causal and ...`."""
    if not isinstance(test, ast.BoolOp):
        return test
    open_ = not isinstance(test.op, ast.Or)
    kept = [one for one in test.values if not _is_taken_by_default(one, function, project, way=open_)]
    return kept[0] if len(kept) == 1 else ast.BoolOp(test.op, kept) if kept else test


def is_taken(node: ast.AST, arm: str, function: FunctionInfo, project: Project) -> bool:
    """Return whether a branch is taken if flags of the object and of the function have their defaults."""
    chosen = arm == "body"
    return isinstance(node, ast.If | ast.IfExp) and _is_taken_by_default(node.test, function, project, way=chosen)


def is_behind_flag(function: FunctionInfo, project: Project, state: str) -> bool:
    """Return whether all callers reach a method or property only with a flag of their object that may be off.

    `state` is a flag that the function itself changes, and which the first call finds as the constructor leaves it.
    """
    ways = [
        (caller, way(node, project.parents(caller)))
        for caller in function.called_by
        for node in walk_function(caller.node)
        if isinstance(node, ast.Attribute) and node.attr == function.name
    ]
    return bool(ways) and all(any(_is_open(arm, caller, project, state) for arm in one) for caller, one in ways)


def _is_open(arm: tuple[ast.AST, str], function: FunctionInfo, project: Project, state: str) -> bool:
    """Return whether a branch depends on a flag of the object that does not take it by default."""
    node, field = arm
    test = node.test if isinstance(node, ast.If | ast.IfExp) else None
    negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    flag = test.operand if isinstance(test, ast.UnaryOp) and negated else test
    if not isinstance(flag, ast.Attribute) or not ast.unparse(flag.value).startswith("self"):
        return False
    if flag.attr == state and function.owner is not None:
        values = initial(function.owner, state, project)
        return not all(truth_of(one) is ((field == "body") is not negated) for one in values)
    return not is_taken(node, field, function, project)


def _is_taken_by_default(test: ast.expr, function: FunctionInfo, project: Project, *, way: bool) -> bool:
    """Return whether a test is `way` by default. Modules run in both modes, so a test of the mode has both outcomes."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _is_taken_by_default(test.operand, function, project, way=not way)
    if isinstance(test, ast.BoolOp):
        outcomes = (_is_taken_by_default(one, function, project, way=way) for one in test.values)
        return all(outcomes) if isinstance(test.op, ast.And) is way else any(outcomes)
    if isinstance(test, ast.Attribute) and test.attr == "training" and ast.unparse(test.value) == "self":
        return True
    own = by_default(test, function.owner, project) if function.owner is not None else None
    return own is way or argument_by_default(test, function, project) is way


def passed_by_name(call: ast.Call, name: str) -> Iterator[ast.expr]:
    """Yield what a call passes as this parameter by keyword."""
    yield from (one.value for one in call.keywords if one.arg == name)


def is_filled(owner: ClassInfo, name: str, project: Project) -> bool:
    """Return whether code that is not compiled adds items to the container in an attribute."""
    return any(
        _fills(node, name)
        for cls in [*project.mro(owner), *_below(owner)]
        for method in cls.methods.values()
        if method.name == "__init__" or not method.reached
        for node in walk_function(method.node)
    )


def _fills(node: ast.AST, name: str) -> bool:
    """Return whether a node stores an item in the attribute or calls one of its methods."""
    if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        return isinstance(node.value, ast.Attribute) and node.value.attr == name
    held = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
    return isinstance(held, ast.Attribute) and held.attr == name


def _given(cls: ClassInfo, name: str) -> Iterator[tuple[FunctionInfo, ast.expr]]:
    """Yield the values that code other than tests stores in an attribute or registers as a buffer."""
    for method, statement in cls.stores.get(name, ()):
        if is_test(method.file.path):
            continue
        value = getattr(statement, "value", None)
        if isinstance(statement, ast.Expr) and isinstance(value, ast.Call):
            value = next(iter([*value.args[1:2], *(one.value for one in value.keywords if one.arg == "tensor")]), None)
        if isinstance(statement, ast.Assign) and isinstance(value, ast.Tuple):
            value = item_for(statement.targets, value, name)
        if value is not None:
            yield method, value


def item_for(targets: list[ast.expr], value: ast.Tuple, name: str) -> ast.expr:
    """Return the item of a tuple that an assignment such as `self.size, self.last = size, None` stores in a target."""
    for target in targets:
        if isinstance(target, ast.Tuple) and len(target.elts) == len(value.elts):
            pairs = zip(target.elts, value.elts, strict=True)
            return next((item for one, item in pairs if isinstance(one, ast.Attribute) and one.attr == name), value)
    return value


def _resolved(value: ast.expr, method: FunctionInfo) -> ast.expr:
    """Return the only value assigned to a local name, or a parameter's default."""
    if not isinstance(value, ast.Name):
        return value
    stored = [
        node
        for node in walk_function(method.node)
        if isinstance(node, ast.Name) and node.id == value.id and isinstance(node.ctx, ast.Store)
    ]
    assigned = [
        node.value for node in walk_function(method.node) if isinstance(node, ast.Assign) and node.targets == stored
    ]
    if stored:
        return assigned[0] if len(assigned) == 1 else value
    return method.defaults.get(value.id, value)


def truth_of(value: ast.expr) -> bool | None:
    """Return whether a value is true, or None if this is unknown."""
    if isinstance(value, ast.Constant):
        return bool(value.value)
    if isinstance(value, ast.Call):
        return False if not value.args and not value.keywords and _called(value) in _EMPTY else None
    if isinstance(value, ast.Dict):
        return bool(value.keys)
    return bool(value.elts) if isinstance(value, ast.List | ast.Tuple | ast.Set) else None


def is_hasattr(node: ast.AST) -> bool:
    """Return whether an expression is a call of `hasattr`."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "hasattr"


def is_empty_tensor(value: ast.expr) -> bool:
    """Return whether a value is an empty tensor, such as `torch.zeros(0)` or `torch.tensor([])`."""
    if not isinstance(value, ast.Call) or _called(value) not in _FACTORIES or not value.args:
        return False
    size = value.args[0]
    while isinstance(size, ast.List | ast.Tuple) and size.elts:
        size = size.elts[0]
    is_zero = isinstance(size, ast.Constant) and size.value == 0 and _called(value) not in ("tensor", "FloatTensor")
    return is_zero or isinstance(size, ast.List | ast.Tuple)


def _is_alike(value: ast.expr, name: str) -> bool:
    """Return whether a value has the size of the attribute that it replaces, as in `torch.zeros_like(self.state)`."""
    if not isinstance(value, ast.Call) or _called(value) not in _ALIKE:
        return False
    receiver = [value.func.value] if isinstance(value.func, ast.Attribute) else []
    return any(isinstance(one, ast.Attribute) and one.attr == name for one in [*receiver, *value.args])


def _below(cls: ClassInfo) -> Iterator[ClassInfo]:
    for one in cls.subclasses:
        yield one
        yield from _below(one)


def _called(node: ast.Call) -> str:
    return ast.unparse(node.func).rpartition(".")[2]
