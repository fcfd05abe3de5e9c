"""The outcomes of tests, where they are known, and how tests narrow variables in each branch."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from dynalint.analysis import kinds as k
from dynalint.analysis import torch_api
from dynalint.analysis.assumptions import assumed, if_large
from dynalint.analysis.dispatch import evaluate
from dynalint.analysis.facts import learn, note_narrowed
from dynalint.analysis.frame import Frame
from dynalint.analysis.index import FunctionInfo
from dynalint.analysis.kinds import NOTHING, UNKNOWN, Kind
from dynalint.analysis.reach import returned_value
from dynalint.analysis.steps import walk
from dynalint.analysis.subjects import is_none, tested_name

if TYPE_CHECKING:
    from dynalint.analysis.project import Project

_SCRIPTED = ("torch.jit.ScriptModule", "torch.jit.RecursiveScriptModule")
_TENSOR_TYPE = k.External("torch.Tensor")


def truth(kind: Kind) -> bool | None:
    """Return whether a value is true if its kind determines this, or None."""
    answers = {_truth(one) for one in kind.members}
    return answers.pop() if len(answers) == 1 else None


def _truth(kind: Kind) -> bool | None:
    if isinstance(kind, k.Value):
        if kind.type == "none":
            return False
        if kind.constant is not k.MISSING:
            return bool(kind.constant)
        return True if kind.type in ("dtype", "device", "ellipsis") else None
    if isinstance(kind, (k.Function, k.Class, k.Module, k.Partial)) or _is_known(kind):
        return True
    if isinstance(kind, k.Sequence) and kind.items is not None and kind.home is None and kind.type in ("list", "tuple"):
        return bool(kind.items)
    return None


def _is_known(kind: Kind) -> bool:
    """Return whether something outside the project is known to be a function, class or method, not a setting."""
    if isinstance(kind, k.External):
        found = torch_api.function(kind.name) or torch_api.torch_class(kind.name)
        return found is not None or kind.name.startswith("builtins.")
    if isinstance(kind, k.Method) and isinstance(kind.receiver, k.Tensor):
        return torch_api.method(kind.name) is not None
    return isinstance(kind, k.Method) and not isinstance(kind.receiver, (k.Object, k.Instance))


def is_condition(frame: Frame, node: ast.expr, kind: Kind, way: bool | None = None) -> bool:
    """Return whether Dynamo may not reach the code after a test, given that the test's outcome must be `way`.

    A test of a tensor already breaks the graph. Some outcomes are assumed. An argument that is required, or for which a
    caller passes a tensor, is not None. A flag or a constructor setting has its default value, and so does an argument
    that is compared with its default. A module is both trained and evaluated. A loop counter exceeds a constant in some
    iteration. Shapes that are compared agree. Tensors are not empty, and their dimensions exceed one. A cache that the
    code fills is not None later.
    """
    if k.may_be_tensor(kind) or (way is not None and (_is_mode(frame, node) or by_default(frame, node) is way)):
        return False
    if way and _is_late_round(frame, node):
        return False
    if way is not None and way in (_if_filled(frame, node), assumed(frame, node), if_large(frame, node)):
        return False
    context = frame.context
    if context is None or not (isinstance(node, ast.Compare) and isinstance(node.left, ast.Name)):
        return True
    name, other = node.left.id, node.comparators[0]
    if name not in context.params or len(node.ops) > 1:
        return True
    default = context.function.defaults.get(name)
    if is_none(other):
        return default is not None and not (context.users and k.may_be_tensor(context.params[name]))
    return not (isinstance(default, ast.Constant) and isinstance(other, ast.Constant) and default.value == other.value)


def _is_mode(frame: Frame, node: ast.expr) -> bool:
    """Return whether the test is of `self.training`."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _is_mode(frame, node.operand)
    receiver = frame.receiver if frame.self_attribute(node) == "training" else None
    return isinstance(receiver, k.Instance) and frame.interpreter.project.is_module_class(receiver.cls)


def by_default(frame: Frame, node: ast.expr) -> bool | None:
    """Return the truth value of a parameter's default, or of the default from which the constructor sets an attribute.

    `self.eos is not None` is also decided by a default, or by a parameter that is required. Return None for anything
    else.
    """
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        answer = by_default(frame, node.operand)
        return None if answer is None else not answer
    if isinstance(node, ast.Name) and frame.context is not None and node.id in frame.context.params:
        given = frame.context.function.defaults.get(node.id)
        truth = given.value if isinstance(given, ast.Constant) else None
        return truth if isinstance(truth, bool) and frame.env.get(node.id) == frame.context.params[node.id] else None
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and is_none(node.comparators[0]):
        setting, asked = _setting(frame, node.left), {ast.Is: True, ast.IsNot: False}.get(type(node.ops[0]))
        if setting is None or asked is None:
            return None
        default = setting[0].defaults.get(setting[1].arg)
        if default is None:
            return None if _may_be_none(setting[1].annotation) else not asked
        return is_none(default) is asked if isinstance(default, ast.Constant) else None
    setting = _setting(frame, node)
    default = setting[0].defaults.get(setting[1].arg) if setting is not None else None
    return bool(default.value) if isinstance(default, ast.Constant) else None


def _may_be_none(annotation: ast.expr | None) -> bool:
    """Return whether an annotation mentions None, as `Optional[int]` and `int | None` do."""
    text = "" if annotation is None else ast.unparse(annotation)
    return "Optional" in text or "None" in text


def _setting(frame: Frame, node: ast.expr) -> tuple[FunctionInfo, ast.arg] | None:
    """Return the parameter of the constructor that is the only value of an attribute, with the constructor."""
    name = frame.self_attribute(node)
    if name is None or not isinstance(frame.receiver, k.Instance):
        return None
    stores = [one for cls in frame.interpreter.project.mro(frame.receiver.cls) for one in cls.stores.get(name, ())]
    if len(stores) != 1 or stores[0][0].name != "__init__":
        return None
    constructor, statement = stores[0]
    value = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign)) else None
    arguments = constructor.node.args
    named = {one.arg: one for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    return (constructor, named[value.id]) if isinstance(value, ast.Name) and value.id in named else None


def _if_filled(frame: Frame, node: ast.expr) -> bool | None:
    """Return the outcome of `self.cache is None` on the second call if this function fills the cache, or None."""
    if not (isinstance(node, ast.Compare) and len(node.ops) == 1 and is_none(node.comparators[0])):
        return None
    name = frame.self_attribute(node.left)
    if name is None or not isinstance(frame.receiver, k.Instance):
        return None
    stores = [one for cls in frame.interpreter.project.mro(frame.receiver.cls) for one in cls.stores.get(name, ())]
    filled = any(function is frame.function and not _stores_none(statement) for function, statement in stores)
    return {ast.Is: False, ast.IsNot: True}.get(type(node.ops[0])) if filled else None


def _stores_none(statement: ast.stmt) -> bool:
    return isinstance(statement, (ast.Assign, ast.AnnAssign)) and (statement.value is None or is_none(statement.value))


def _is_late_round(frame: Frame, node: ast.expr) -> bool:
    """Return whether a test checks that an enclosing loop's counter is greater than a constant."""
    if not frame.loop or frame.function is None or not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return False
    if not isinstance(node.left, ast.Name) or not isinstance(node.comparators[0], ast.Constant):
        return False
    counter = frame.env.get(node.left.id)
    if not isinstance(node.ops[0], (ast.Gt, ast.GtE)) or not isinstance(counter, k.Value) or counter.type != "int":
        return False
    loops = [one for one in walk(frame.function.node) if isinstance(one, ast.For) and one.lineno < node.lineno]
    return any(node.lineno <= (one.end_lineno or 0) and _counts(one, node.left.id) for one in loops)


def _counts(loop: ast.For, name: str) -> bool:
    """Return whether a variable is the counter of a loop over `range` or `enumerate`."""
    called = loop.iter.func if isinstance(loop.iter, ast.Call) else None
    target = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) else loop.target
    return isinstance(called, ast.Name) and called.id in ("range", "enumerate", "trange") and _names(target, name)


def _names(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def narrow(frame: Frame, node: ast.expr, truth_: bool) -> None:
    """Narrow the environment of `frame` in place, given that the outcome of a test was `truth_`."""
    if isinstance(node, (ast.Name, ast.Attribute, ast.Compare, ast.Call)):
        learn(frame, node, truth_)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        narrow(frame, node.operand, not truth_)
    elif isinstance(node, ast.BoolOp):
        if isinstance(node.op, ast.And) is truth_:
            for operand in node.values:
                narrow(frame, operand, truth_)
        else:
            _narrow_to_any(frame, node, truth_)
    elif isinstance(node, ast.NamedExpr):
        narrow(frame, node.target, truth_)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        _narrow_compare(frame, node, truth_)
    elif isinstance(node, ast.Call):
        _narrow_call(frame, node, truth_)
    elif truth_:
        _refine(frame, node, lambda kind: k.without(kind, "none"))


def _narrow_to_any(frame: Frame, node: ast.BoolOp, truth_: bool) -> None:
    """Narrow a variable that each operand tests, as in `isinstance(x, A) or isinstance(x, B)`."""
    tested = {tested_name(one) for one in node.values}
    name = tested.pop() or ""
    if tested or name not in frame.env:
        return
    before, found = frame.env[name], list[Kind]()
    for one in node.values:
        inner, way = (one.operand, not truth_) if isinstance(one, ast.UnaryOp) else (one, truth_)
        if isinstance(inner, ast.Call):
            _narrow_call(frame, inner, way, among=True)
        else:
            narrow(frame, inner, way)
        found.append(frame.env[name])
        frame.env[name] = before
    frame.env[name] = _plausible(before, k.join_all(found))


def _narrow_compare(frame: Frame, node: ast.Compare, truth_: bool) -> None:
    other = node.comparators[0]
    if not is_none(other):
        return
    op = node.ops[0]
    if isinstance(op, (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)):
        found = isinstance(op, (ast.Is, ast.Eq)) is truth_
        _refine(frame, node.left, _as_none if found else lambda kind: k.without(kind, "none"))


def _as_none(kind: Kind) -> Kind:
    return k.NONE if k.NONE in kind.members or isinstance(kind, k.Unknown) else kind


def _narrow_call(frame: Frame, node: ast.Call, truth_: bool, *, among: bool = False) -> None:
    """Narrow by the outcome of `isinstance(x, T)`, `torch.is_tensor(x)`, or a project helper such as `exists(x)`."""
    if not node.args or not isinstance(node.args[0], (ast.Name, ast.Attribute)):
        return
    recording, frame.record = frame.record, None
    callee = evaluate(frame, node.func)
    if isinstance(callee, k.External):
        if callee.name == "builtins.isinstance" and len(node.args) == 2:
            tested = evaluate(frame, node.args[1])
            of_these = partial(of_type, frame.interpreter.project, tested=tested, truth_=truth_)
            _refine(frame, node.args[0], of_these if among else lambda kind: _plausible(kind, of_these(kind)))
        elif callee.name == "torch.is_tensor":
            _refine(frame, node.args[0], lambda kind: of_type(frame.interpreter.project, kind, _TENSOR_TYPE, truth_))
    elif isinstance(callee, k.Function) and len(node.args) == 1:
        frame.interpreter.project.asked.add((returned_value, callee.function))
        is_none = _tests_for_none(callee.function.node)
        if is_none is not None:
            _refine(frame, node.args[0], _as_none if is_none is truth_ else lambda kind: k.without(kind, "none"))
    frame.record = recording


def _tests_for_none(node: ast.AST) -> bool | None:
    """Return whether a function consists of `return x is None` (True) or `return x is not None` (False)."""
    body = [node.body] if isinstance(node, ast.Lambda) else getattr(node, "body", [])
    if len(body) != 1:
        return None
    value = body[0].value if isinstance(body[0], ast.Return) else body[0]
    if isinstance(value, ast.Compare) and isinstance(value.left, ast.Name) and len(value.ops) == 1:
        other = value.comparators[0]
        if isinstance(other, ast.Constant) and other.value is None:
            return True if isinstance(value.ops[0], ast.Is) else False if isinstance(value.ops[0], ast.IsNot) else None
    return None


def _refine(frame: Frame, node: ast.expr, refine: Callable[[Kind], Kind]) -> None:
    """Narrow the kind of a variable or an attribute of `self`."""
    name = frame.self_attribute(node)
    # An attribute that this call has not set must stay out of the environment, because an entry means that this call
    # has set it.
    key = node.id if isinstance(node, ast.Name) else f"{frame.self_name}.{name}" if name is not None else None
    kind = frame.env.get(key) if key is not None else None
    if name is not None and kind is None:
        _refine_attribute(frame, node, name, refine)
    if key is not None and kind is not None:
        refined = refine(kind)
        if refined is not NOTHING:
            frame.env[key] = refined


def _refine_attribute(frame: Frame, node: ast.expr, name: str, refine: Callable[[Kind], Kind]) -> None:
    """Record the narrowed kind of an attribute that this call has not set."""
    recording, frame.record = frame.record, None
    kind = evaluate(frame, node)
    frame.record = recording
    refined = refine(kind)
    if refined is not NOTHING and refined != kind:
        note_narrowed(frame, name, refined)


def _plausible(before: Kind, found: Kind) -> Kind:
    """Return `found`, or the kind from before a test if it finds arrays alone, which compiled code may never get."""
    arrays = [one.array for one in found.members if isinstance(one, k.Tensor)]
    return before if isinstance(before, k.Unknown) and arrays and all(arrays) else found


def of_type(project: Project, kind: Kind, tested: Kind, truth_: bool) -> Kind:
    """Return the alternatives of `kind` that are instances of the type `tested`, or those that are not."""
    if isinstance(kind, k.Unknown):
        return _instance_kind(tested) if truth_ else kind
    kept = []
    for one in kind.members:
        answer = is_instance(project, one, tested)
        if truth_ and answer is None and _is_declared(one):
            kept.append(_instance_kind(tested) if _instance_kind(tested) != UNKNOWN else one)
        elif answer in (truth_, None):
            kept.append(one)
    return k.rejoined(kind, kept)


def _is_declared(kind: Kind) -> bool:
    """Return whether a parameter is a container only by its annotation, which an `isinstance` test overrides."""
    return isinstance(kind, (k.Sequence, k.Dictionary)) and kind.home is not None and kind.home.type == "argument"


def is_instance(project: Project, kind: Kind, tested: Kind) -> bool | None:
    """Return whether a value of this kind is an instance of the tested types, or None if this is unknown."""
    if isinstance(tested, k.Sequence):
        if tested.items is None:
            return None
        answers = [is_instance(project, kind, item) for item in tested.items]
        return True if True in answers else None if None in answers else False
    if isinstance(kind, (k.Unknown, k.Nothing, k.Union)):
        return None
    if isinstance(tested, k.Class):
        return _is_project_instance(project, kind, tested)
    if not isinstance(tested, k.External):
        return None
    if isinstance(kind, k.Instance) and tested.name in _SCRIPTED:
        return False  # a project class itself, referred to by name
    answer = _is_external_instance(kind, tested.name)
    plain = isinstance(kind, k.Tensor) and not tested.name.startswith(("torch.", "numpy."))
    return False if answer is None and plain and _is_exact(project) else answer


def _is_project_instance(project: Project, kind: Kind, tested: k.Class) -> bool | None:
    if k.is_record(kind):
        return None  # the class of the original value is not known
    if isinstance(kind, k.Tensor) and any(base in _TENSORS for base in project.lineage(tested.cls)[1]):
        return False if _is_exact(project) else None
    if not isinstance(kind, k.Instance):
        return None if isinstance(kind, k.Object) else False
    # An instance of a base class may be an instance of the subclass at run time.
    return True if tested.cls in project.mro(kind.cls) else False if kind.made and _is_exact(project) else None


def _is_exact(project: Project) -> bool:
    """Whether the analysis is that of a single call, whose tensors are plain ones."""
    return project.interpreter is not None and project.interpreter.exact


_TENSORS = ("torch.Tensor", "torch.nn.Parameter", "torch.nn.Buffer")
_NUMERIC = {"numbers.Number": ("bool", "int", "float", "complex"), "numbers.Integral": ("bool", "int")}


def _is_external_instance(kind: Kind, name: str) -> bool | None:
    last = name.rpartition(".")[2]
    if isinstance(kind, k.Tensor):
        if name.startswith("torch.") and last.endswith(("Tensor", "Parameter")):
            return True if last == "Tensor" else None
        return None if name.startswith("numpy.") or "Tensor" in last else False
    if isinstance(kind, k.Value):
        if name in _NUMERIC:
            return kind.type in _NUMERIC[name]
        if kind.type == "bool" and name == "builtins.int":
            return True
        return name == f"builtins.{kind.type}" if name.startswith("builtins.") else False if "Tensor" in last else None
    if isinstance(kind, (k.Sequence, k.Dictionary)):
        if name in ("collections.abc.Sequence", "typing.Sequence", "collections.abc.Iterable", "typing.Iterable"):
            return kind.type != "slice"
        if kind.type == "torch.Size" and name in ("builtins.tuple", "torch.Size"):
            return True
        if kind.type in ("list", "tuple", "dict", "set", "slice") and name.startswith("builtins."):
            return kind.type == last
        return False if "Tensor" in last and not _is_declared(kind) else None
    return None


def _instance_kind(tested: Kind) -> Kind:
    """Return the kind of an unknown value that passed an `isinstance` test."""
    if isinstance(tested, k.Sequence) and tested.items:
        return k.join_all([_instance_kind(one) for one in tested.items])
    if isinstance(tested, k.Class):
        return k.Instance(tested.cls)
    if isinstance(tested, k.External):
        last = tested.name.rpartition(".")[2]
        if tested.name.startswith("torch.") and last in ("Tensor", "Parameter"):
            return k.TENSOR
        if tested.name == "numpy.ndarray":
            return k.Tensor(array=True)
        if tested.name in ("builtins.int", "builtins.float", "builtins.bool", "builtins.str"):
            return k.Value(last)
        if tested.name in ("builtins.list", "builtins.tuple"):
            return k.Sequence(last, UNKNOWN)
        if tested.name == "builtins.dict":
            return k.Dictionary("dict", UNKNOWN)
    return UNKNOWN
