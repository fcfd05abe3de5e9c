"""Turn a number stored on a module into a registered buffer.

The buffer is not part of the state dict, and has dtype int64 for a counter and the default dtype for a float. It is
assigned rather than changed in place because, in compiled code, an in-place update can give wrong gradients if the
value is part of a differentiable expression.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from dynalint.rulekit import ClassInfo, FunctionInfo, Project, Refusal, Rewrite, SourceFile, StateChange, k, rw, walk
from dynalint_rules._code.calls import callee
from dynalint_rules._code.names import only_value
from dynalint_rules._code.new_values import mentions_target
from dynalint_rules._code.precision import is_double
from dynalint_rules._code.scope import Scope, torch_name
from dynalint_rules._code.uses import Attribute, Use, self_name
from dynalint_rules._shared.number.detached import detached
from dynalint_rules._shared.number.numbers import flow_of
from dynalint_rules._shared.text import atom

_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult)
_SIGNS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
# Operators that return ints for ints, both as tensors and as Python numbers.
_INTEGRAL = (*_ARITHMETIC, ast.Mod, ast.FloorDiv)


def number_to_buffer(event: StateChange, project: Project, *, careful: bool = False) -> Rewrite:
    """Return the rewrite that stores the number `self.name` in a buffer and changes all its uses.

    If `careful` is true, it is converted to the dtype of each tensor that may have no dimensions.

    Raises:
        Refusal: If the constructor does not set it to a plain number, or a use requires a Python number.
    """
    name = event.home.name
    plan = BufferPlan(name, whole=_is_int(k.join(event.old, event.new)), careful=careful)
    cls, function, statement = _constructor(event, project, plan)
    attribute = Attribute(cls, name, project)
    stores = [use for use in attribute.uses() if use.stored and use.statement() is not statement]
    plan.renewed = all(_is_renewed(plan, use) for use in stores)
    torch, imports = torch_name(function)
    for use in attribute.uses():
        if use.statement() is statement:
            plan.replace(use, statement, _registration(plan, function, statement, project, torch))
        elif use.stored:
            change_store(plan, use)
        else:
            _read(plan, use)
    conditions = [f"no code outside this project reads or sets `{name}` as a Python number"]
    if not plan.whole:
        least = "float32" if plan.renewed else "the default dtype, or that of a converted model,"
        conditions.append(f"{least} is precise enough for `{name}`")
    elif plan.combined:
        conditions.append(f"the tensors that `{name}` is combined with are float32 or wider, or the count stays small")
    return Rewrite(
        title=f"Keep `{name}` in a buffer",
        safety="conditional" if plan.whole or plan.renewed else "unsafe",
        replacements=tuple(one for file, some in plan.changes.items() for one in rw.written(file, *some)),
        conditions=(*conditions, *plan.conditions),
        imports=imports,
        leaves=plan.leaves,
        otherwise=number_to_buffer(event, project, careful=True) if plan.widens and not careful else None,
    )


@dataclass
class BufferPlan:
    """The replacements that turn a number into a tensor.

    `whole` is true if the number is a counter. `renewed` is true if each update computes it in float32, even after the
    model, and the buffer with it, was converted to a narrower dtype. `combined` is true if a tensor is computed from
    it. `leaves` are the codes of findings about decisions that depend on it. `widens` is true if it may decide the
    dtype of a tensor without dimensions. If `careful` is true, it is converted there.
    """

    name: str
    whole: bool = True
    careful: bool = False
    renewed: bool = False
    changes: dict[SourceFile, list[rw.Change]] = field(default_factory=dict)
    conditions: dict[str, None] = field(default_factory=dict)
    combined: bool = False
    widens: bool = False
    leaves: tuple[str, ...] = ()

    def replace(self, use: Use, node: ast.expr | ast.stmt, content: str) -> None:
        new: str | list[str] = content if isinstance(node, ast.expr) else [content]
        self.changes.setdefault(use.file, []).append((node, new))


def _read(plan: BufferPlan, use: Use) -> None:
    """Follow the use of a number through arithmetic that can stay unchanged, and rewrite the uses that must change.

    Raises:
        Refusal: If a use requires a Python number.
    """
    node: ast.expr = use.node
    parent = use.parent(node)
    while plan.whole and isinstance(parent, ast.BinOp) and isinstance(parent.op, _INTEGRAL):
        if not _is_int(use.kind(parent.right if parent.left is node else parent.left)):
            break
        node, parent = parent, use.parent(parent)
    updated = isinstance(parent, ast.Assign) and [ast.unparse(one) for one in parent.targets] == [ast.unparse(use.node)]
    if updated or (isinstance(parent, ast.FormattedValue) and parent.conversion == -1):
        return  # a 0-dim tensor is formatted like its number
    if use.function is None:
        raise _needs_number(use)
    scope = Scope(use.project, use.function, careful=plan.careful)
    dtype: k.DType = "int" if plan.whole else "float"
    flow = flow_of(scope, node, dtype, wide=plan.whole, buffer=ast.unparse(use.node), converted=plan.renewed)
    if flow.changes:
        raise _needs_number(use)
    plan.combined |= flow.meets and not flow.leaves
    plan.widens |= flow.widens
    plan.conditions |= flow.conditions
    plan.changes.setdefault(use.file, []).extend(flow.edits)
    plan.leaves = plan.leaves or flow.leaves


def _constructor(
    event: StateChange, project: Project, plan: BufferPlan
) -> tuple[ClassInfo, FunctionInfo, ast.Assign | ast.AnnAssign]:
    """Return the constructor that sets the number, with its class (the first in the MRO) and the statement."""
    name, owner = event.home.name, event.function.owner
    if owner is None or not name.isidentifier() or not project.is_module_class(owner):
        raise Refusal(
            f"`{name}` is stored on an object other than the module; keep it in a buffer on the module instead"
        )
    for cls in project.mro(owner):
        function = cls.methods.get("__init__")
        if function is not None:
            stores = [statement for method, statement in cls.stores.get(name, ()) if method is function]
            if stores:
                return cls, function, _checked(plan, function, stores, project)
    raise Refusal(f"no constructor sets `{name}`; register it as a buffer in the constructor")


def _checked(
    plan: BufferPlan, function: FunctionInfo, stores: list[ast.stmt], project: Project
) -> ast.Assign | ast.AnnAssign:
    statement, name = stores[0], plan.name
    where = f"`{name}` is not set to a plain number in the constructor"
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement not in function.statements:
        raise Refusal(f"{where}; register it as a buffer there")
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    if len(targets) != 1 or not isinstance(targets[0], ast.Attribute) or statement.value is None:
        raise Refusal(f"{where}; register it as a buffer there")
    known = not plan.whole and _is_float(project.kinds(function).get(statement.value, k.UNKNOWN))
    if plain_number(statement.value) is None and not known:
        raise Refusal(f"{where}; register it as a buffer there")
    before = function.statements[: function.statements.index(statement)]
    if not any(_calls_constructor(one) for one in before):
        raise Refusal(
            f"`{name}` is set before `super().__init__()` is called, when it is too early to register a buffer"
        )
    return statement


def _calls_constructor(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "__init__"


def plain_number(node: ast.expr, *types: type) -> str | None:
    """Return the text of a plain number of one of the types, int by default, or None for any other expression."""
    return repr(node.value) if isinstance(node, ast.Constant) and type(node.value) in (types or (int,)) else None


def _registration(
    plan: BufferPlan, function: FunctionInfo, statement: ast.Assign | ast.AnnAssign, project: Project, torch: str
) -> str:
    assert statement.value is not None
    value = plain_number(statement.value, *((int,) if plan.whole else (int, float)))
    if value is None:
        value = function.file.segment(statement.value)
        types = [getattr(one, "type", "") for one in project.kinds(function).get(statement.value, k.UNKNOWN).members]
        value = value if types == ["float"] else f"float({value})"
    elif not plan.whole:
        value = repr(float(value))
    return f'{self_name(function)}.register_buffer("{plan.name}", {torch}.tensor({value}), persistent=False)'


def change_store(plan: BufferPlan, use: Use) -> None:
    """Rewrite a statement that sets the number, turning an update into an assignment, and a number into a tensor.

    Raises:
        Refusal: If the statement sets the number in another way.
    """
    statement = use.statement()
    target = use.file.segment(use.node)
    if isinstance(statement, ast.AugAssign) and statement.target is use.node:
        if type(statement.op) not in (_ARITHMETIC if plan.whole else _SIGNS):
            raise Refusal(f"{use.quote(statement)} has no tensor equivalent; use `+`, `-` or `*`")
        if not (_is_int if plan.whole else _is_float)(use.kind(statement.value)):
            raise Refusal(f"{use.quote(statement.value)} may be something that the buffer cannot hold")
        value = rw.spliced(use.file, statement.value, _kept_tensors(plan, use, statement.value))
        value = value if isinstance(statement.value, ast.Constant) else atom(statement.value, value)
        plan.replace(use, statement, f"{target} = {target} {_SIGNS[type(statement.op)]} {value}")
        return
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
        raise Refusal(f"{use.place} sets `{plan.name}` in a way that does not work with a buffer; change it first")
    if isinstance(statement, ast.Assign) and statement.targets != [use.node]:
        raise Refusal(f"{use.quote(statement)} sets more than `{plan.name}`; make that a separate statement")
    number = plain_number(statement.value, *((int,) if plan.whole else (int, float)))
    if number is not None:
        assert use.function is not None, "a use on `self` is in a method"
        torch, _ = torch_name(use.function)
        value = f"{torch}.zeros_like({target})" if number == "0" else f"{torch}.full_like({target}, {number})"
        plan.replace(use, statement.value, value)
        return
    if kept := _kept_tensors(plan, use, statement.value):
        plan.changes.setdefault(use.file, []).extend(kept.items())
    # If the value is computed from the number itself, its uses are checked separately.
    elif not _is_computed_from(use, statement.value):
        raise Refusal(f"{use.place} sets {use.quote(use.node)} to {use.quote(statement.value)}, which is not a tensor")


def _is_computed_from(use: Use, value: ast.expr) -> bool:
    """Return whether a value, or the only value of its name, reads the attribute."""
    if isinstance(value, ast.Name) and use.function is not None:
        value = only_value(Scope(use.project, use.function), value.id, value) or value
    return mentions_target(value, use.node)


def _is_renewed(plan: BufferPlan, use: Use) -> bool:
    """Return whether a statement sets the number to a constant, or averages it with what it reads from a tensor.

    A sum does not count, because a long one needs the precision of a Python float.
    """
    statement = use.statement()
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
        return False
    if isinstance(statement.value, ast.Constant):
        return True
    target = ast.unparse(use.node)
    own = [one for one in walk(statement.value) if isinstance(one, ast.Attribute) and ast.unparse(one) == target]
    products = [one for one in map(use.parent, own) if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mult)]
    averages = len(products) == len(own) and not is_double(statement.value)
    return averages and bool(_kept_tensors(plan, use, statement.value))


def _kept_tensors(plan: BufferPlan, use: Use, value: ast.expr) -> dict[ast.expr, str]:
    """Return the text of a tensor for each number that an expression reads with `.item()`."""
    if plan.whole or use.function is None:
        return {}
    scope = Scope(use.project, use.function)
    kept: dict[ast.expr, str] = {}
    for node in walk(value):
        if isinstance(node, ast.Call) and callee(scope, node) == "Tensor.item" and isinstance(node.func, ast.Attribute):
            found = detached(scope, node.func.value, read=node)
            plan.conditions |= dict.fromkeys(found.conditions)
            # The sum or product is a new tensor, and saves nothing because neither operand has a gradient.
            combined = isinstance(scope.parents[node], ast.BinOp | ast.AugAssign)
            text = found.text.removesuffix(".clone()") if combined else found.text
            kept[node] = f"{text}.float()" if plan.renewed else text
    return kept


def _needs_number(use: Use) -> Refusal:
    """Return the refusal for a use that requires a Python number."""
    shown = use.quote(use.node)
    return Refusal(f"{use.place} uses {shown} where a Python number may be needed; change that code first")


def _is_float(kind: k.Kind) -> bool:
    """Return whether a value is known to be an int or a float."""
    return all(isinstance(member, k.Value) and member.type in ("int", "float") for member in kind.members)


def _is_int(kind: k.Kind) -> bool:
    return all(isinstance(member, k.Value) and member.type == "int" for member in kind.members)
