"""A Python counter kept on a module, turned into a buffer that the module registers.

The buffer does not go into the state dict, holds int64, and is only ever assigned to, never changed in place: an
update in place gives wrong gradients in compiled code once its value takes part in a differentiable expression.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from dynalint.analysis import kinds as k
from dynalint.analysis.events import StateChange
from dynalint.analysis.index import ClassInfo, FunctionInfo
from dynalint.analysis.kinds import Kind
from dynalint.analysis.project import Project
from dynalint.rules import Replacement, Rewrite
from dynalint_rules._shared.scope import Refusal, torch_name
from dynalint_rules._shared.uses import Attribute, Use, self_name

_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult)
# Between ints these give ints, of tensors as of Python numbers.
_INTEGRAL = (*_ARITHMETIC, ast.Mod, ast.FloorDiv)
_WITH_TENSORS = (*_INTEGRAL, ast.Div)
_SIGNS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
_TIGHT = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant)


def counter_to_buffer(event: StateChange, project: Project) -> Rewrite:
    """Return the rewrite that keeps a counter `self.name` in a buffer, in all places at once.

    Raises:
        Refusal: the constructor does not set it to a plain number, or a place that uses it needs a Python number.
    """
    name = event.home.name
    cls, function, statement = _constructor(event, project)
    attribute = Attribute(cls, name, project)
    plan = _Plan(name)
    torch, imports = torch_name(function)
    for use in attribute.uses():
        if use.statement() is statement:
            plan.replace(use, statement, _registration(function, name, statement, torch))
        elif use.stored:
            _change_store(plan, use)
        else:
            _check_reader(plan, use)
    conditions = [f"nothing outside this project reads or sets `{name}` as a Python number"]
    if plan.combined:
        conditions.append(f"the tensors that `{name}` is combined with are float32 or wider, or the count stays small")
    return Rewrite(
        title=f"Keep `{name}` in a buffer",
        safety="conditional",
        replacements=tuple(plan.replacements),
        conditions=(*conditions, *plan.conditions),
        imports=imports,
    )


@dataclass
class _Plan:
    """What is to be replaced; `combined` tells that a tensor is computed from the counter."""

    name: str
    replacements: list[Replacement] = field(default_factory=list)
    conditions: dict[str, None] = field(default_factory=dict)
    combined: bool = False

    def replace(self, use: Use, node: ast.expr | ast.stmt, content: str) -> None:
        self.replacements.append(Replacement(use.file, *use.file.span(node), content))


def _constructor(event: StateChange, project: Project) -> tuple[ClassInfo, FunctionInfo, ast.Assign | ast.AnnAssign]:
    """Return the class whose constructor first sets the counter, that constructor, and the statement."""
    name, owner = event.home.name, event.function.owner
    if owner is None or not name.isidentifier() or not project.is_module_class(owner):
        raise Refusal(
            f"`{name}` is kept on another object than the module; keep the count in a buffer of the module by hand"
        )
    for cls in project.mro(owner):
        function = cls.methods.get("__init__")
        if function is not None:
            stores = [statement for method, statement in cls.stores.get(name, ()) if method is function]
            if stores:
                return cls, function, _checked(name, function, stores)
    raise Refusal(f"no constructor sets `{name}`; register it there as a buffer by hand")


def _checked(name: str, function: FunctionInfo, stores: list[ast.stmt]) -> ast.Assign | ast.AnnAssign:
    statement = stores[0]
    where = f"`{name}` is not set to one plain number in the constructor"
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement not in function.statements:
        raise Refusal(f"{where}; register it there as a buffer by hand")
    if isinstance(statement, ast.Assign) and (
        len(statement.targets) > 1 or not isinstance(statement.targets[0], ast.Attribute)
    ):
        raise Refusal(f"{where} alone; give it a statement of its own")
    if statement.value is None or _number(statement.value) is None:
        raise Refusal(f"{where}; register it there as a buffer by hand")
    before = function.statements[: function.statements.index(statement)]
    if not any(_calls_constructor(one) for one in before):
        raise Refusal(f"`{name}` is set before `super().__init__()` is called, where no buffer can be registered yet")
    return statement


def _calls_constructor(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "__init__"


def _number(node: ast.expr) -> str | None:
    """The text of a plain int, negative or not."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(node.operand)
        return None if inner is None else f"-{inner}"
    return str(node.value) if isinstance(node, ast.Constant) and type(node.value) is int else None


def _registration(function: FunctionInfo, name: str, statement: ast.Assign | ast.AnnAssign, torch: str) -> str:
    assert statement.value is not None
    value = _number(statement.value)
    return f'{self_name(function)}.register_buffer("{name}", {torch}.tensor({value}), persistent=False)'


def _change_store(plan: _Plan, use: Use) -> None:
    """A place that sets the counter: an update becomes an assignment, a number becomes a tensor."""
    statement = use.statement()
    target = use.file.segment(use.node)
    if isinstance(statement, ast.AugAssign) and statement.target is use.node:
        if type(statement.op) not in _SIGNS:
            raise Refusal(f"{use.quote(statement)} has no equal for a tensor; write it with `+`, `-` or `*`")
        _refuse_other_numbers(use, statement.value)
        value = use.file.segment(statement.value)
        if not isinstance(statement.value, _TIGHT):
            value = f"({value})"
        plan.replace(use, statement, f"{target} = {target} {_SIGNS[type(statement.op)]} {value}")
        return
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
        raise Refusal(f"{use.place} sets `{plan.name}` in a way that a buffer does not allow; change it by hand")
    if isinstance(statement, ast.Assign) and statement.targets != [use.node]:
        raise Refusal(f"{use.quote(statement)} sets more than `{plan.name}`; give it a statement of its own")
    number = _number(statement.value)
    if number is not None:
        torch, _ = torch_name(_function(use))
        value = f"{torch}.zeros_like({target})" if number == "0" else f"{torch}.full_like({target}, {number})"
        plan.replace(use, statement.value, value)
    elif not any(isinstance(node, ast.Attribute) and node.attr == plan.name for node in ast.walk(statement.value)):
        raise Refusal(f"{use.place} sets {use.quote(use.node)} to {use.quote(statement.value)}, which is no tensor")
    # Else it is computed from the counter itself, and every reader in it is looked at by itself.


def _function(use: Use) -> FunctionInfo:
    assert use.function is not None, "a use on `self` stands in a method"
    return use.function


def _refuse_other_numbers(use: Use, node: ast.expr) -> None:
    if not _is_int(use.kind(node)):
        raise Refusal(
            f"{use.quote(node)} may be something else than a whole number; a buffer of whole numbers is not enough"
        )


def _check_reader(plan: _Plan, use: Use) -> None:
    """Follow a read of the counter upwards: whole-number arithmetic, then a tensor, or back into the counter.

    Raises:
        Refusal: something in between needs a Python number.
    """
    node: ast.expr = use.node
    while True:
        parent = use.parent(node)
        if isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.USub):
            node = parent
        elif isinstance(parent, ast.BinOp):
            other = parent.right if parent.left is node else parent.left
            if _is_tensor(use.kind(other)):
                _check_combination(plan, use, parent, other)
                return
            if not isinstance(parent.op, _INTEGRAL) or not _is_int(use.kind(other)):
                raise Refusal(_needs_number(plan, use, parent))
            node = parent
        elif isinstance(parent, ast.Assign | ast.AugAssign | ast.AnnAssign) and parent.value is node:
            targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
            if all(isinstance(target, ast.Attribute) and target.attr == plan.name for target in targets):
                return
            raise Refusal(_needs_number(plan, use, parent))
        elif isinstance(parent, ast.Expr):
            return
        else:
            raise Refusal(_needs_number(plan, use, parent))


def _check_combination(plan: _Plan, use: Use, operation: ast.BinOp, other: ast.expr) -> None:
    if not isinstance(operation.op, _WITH_TENSORS):
        raise Refusal(f"{use.place}: {use.quote(operation)} is computed in another way if `{plan.name}` is a tensor")
    tensor = k.only_tensor(use.kind(other))
    assert tensor is not None
    plan.combined = True
    if tensor.dtype not in ("float", "complex") and tensor.rank in (0, None):
        plan.conditions[f"{use.quote(other)} is floating, or has a dimension or more"] = None


def _needs_number(plan: _Plan, use: Use, parent: ast.AST | None) -> str:
    """The sentence that refuses for a reader, by what it does with the number."""
    shown = f"`self.{plan.name}`"
    while isinstance(parent, ast.Tuple | ast.List | ast.Dict | ast.Set | ast.keyword):
        parent = use.parent(parent)
    if isinstance(parent, ast.Compare):
        what = f"compares {shown} in Python, where a tensor would break the graph"
        hint = "choose with `torch.where` instead"
    elif isinstance(parent, ast.If | ast.While | ast.IfExp | ast.BoolOp | ast.Assert):
        what = f"tests {shown} in Python, where a tensor would break the graph"
        hint = "choose with `torch.where` instead"
    elif isinstance(parent, ast.Return | ast.Yield):
        what, hint = f"hands {shown} to the caller, who would get a tensor", "change the callers first"
    elif isinstance(parent, ast.FormattedValue):
        what, hint = f"prints {shown}, which would read `tensor(...)`", "print it outside the compiled code"
    elif isinstance(parent, ast.Subscript | ast.Slice):
        what, hint = f"uses {shown} as an index, which has to be a Python number", "index with a tensor by hand"
    elif isinstance(parent, ast.Call):
        what, hint = f"passes {shown} to {use.quote(parent.func)}, which may need a Python number", "change it by hand"
    elif isinstance(parent, ast.BinOp):
        what = f"computes {use.quote(parent)} in Python, and a tensor would be less precise or of another type"
        hint = "change it by hand"
    else:
        what, hint = f"uses {shown} where a Python number may be needed", "change it by hand"
    return f"{use.place} {what}; {hint}"


def _is_int(kind: Kind) -> bool:
    return all(isinstance(member, k.Value) and member.type == "int" for member in kind.members)


def _is_tensor(kind: Kind) -> bool:
    tensor = kind if isinstance(kind, k.Tensor) else None
    return tensor is not None and not tensor.array
