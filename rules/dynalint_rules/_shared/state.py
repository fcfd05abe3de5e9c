"""Turn a counter stored on a module into a registered buffer.

The buffer has dtype int64 and is not part of the state dict. It is assigned rather than changed in place because, in
compiled code, an in-place update can give wrong gradients if the value is part of a differentiable expression.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from dynalint.rulekit import ClassInfo, FunctionInfo, Project, Refusal, Rewrite, SourceFile, StateChange, k, rw, walk
from dynalint_rules._code.calls import callee
from dynalint_rules._code.scope import Scope, torch_name
from dynalint_rules._code.uses import Attribute, Use, self_name
from dynalint_rules._shared.guard.statements import SHOWS
from dynalint_rules._shared.number.numbers import DECISIONS, flow_of

_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult)
# Operators that return ints for ints, both as tensors and as Python numbers.
_INTEGRAL = (*_ARITHMETIC, ast.Mod, ast.FloorDiv)
_WITH_TENSORS = (*_INTEGRAL, ast.Div)
_SIGNS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
_ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
_TIGHT = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant)


def number_to_buffer(event: StateChange, project: Project) -> Rewrite:
    """Return the rewrite that stores the number `self.name` in a buffer and changes all its uses.

    Raises:
        Refusal: If the constructor does not set it to a plain number, or a use requires a Python number.
    """
    name = event.home.name
    cls, function, statement = _constructor(event, project)
    attribute = Attribute(cls, name, project)
    plan = Plan(name)
    torch, imports = torch_name(function)
    for use in attribute.uses():
        if use.statement() is statement:
            plan.replace(use, statement, _registration(plan, function, statement, torch))
        elif use.stored:
            change_store(plan, use)
        else:
            _read(plan, use)
    conditions = [f"no code outside this project reads or sets `{name}` as a Python number"]
    if plan.combined:
        conditions.append(f"the tensors that `{name}` is combined with are float32 or wider, or the count stays small")
    return Rewrite(
        title=f"Keep `{name}` in a buffer",
        safety="conditional",
        replacements=tuple(one for file, some in plan.changes.items() for one in rw.written(file, *some)),
        conditions=(*conditions, *plan.conditions),
        imports=imports,
        leaves=plan.leaves,
    )


@dataclass
class Plan:
    """The replacements that turn a number into a tensor.

    `combined` is true if a tensor is computed from the counter. `leaves` are the codes of findings about decisions that
    depend on the counter.
    """

    name: str
    changes: dict[SourceFile, list[rw.Change]] = field(default_factory=dict)
    conditions: dict[str, None] = field(default_factory=dict)
    combined: bool = False
    leaves: tuple[str, ...] = ()

    def replace(self, use: Use, node: ast.expr | ast.stmt, content: str) -> None:
        new: str | list[str] = content if isinstance(node, ast.expr) else [content]
        self.changes.setdefault(use.file, []).append((node, new))


def _read(plan: Plan, use: Use) -> None:
    """Follow the use of a number through arithmetic that can stay unchanged, and rewrite the uses that must change.

    Raises:
        Refusal: If a use requires a Python number.
    """
    try:
        check_reader(plan, use)
    except Refusal:
        scope = _scope(use)
        if scope is None:
            raise
        try:
            flow = flow_of(scope, use.node, "int", wide=True)
        except Refusal:
            flow = None
        if flow is None or flow.changes:
            raise
        plan.combined = True
        plan.conditions |= flow.conditions
        plan.changes.setdefault(use.file, []).extend(flow.edits)
        plan.leaves = plan.leaves or flow.leaves


def _constructor(event: StateChange, project: Project) -> tuple[ClassInfo, FunctionInfo, ast.Assign | ast.AnnAssign]:
    """Return the constructor that sets the counter, with its class (the first in the MRO) and the statement."""
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
                return cls, function, _checked(name, function, stores)
    raise Refusal(f"no constructor sets `{name}`; register it as a buffer in the constructor")


def _checked(name: str, function: FunctionInfo, stores: list[ast.stmt]) -> ast.Assign | ast.AnnAssign:
    statement = stores[0]
    where = f"`{name}` is not set to a plain number in the constructor"
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement not in function.statements:
        raise Refusal(f"{where}; register it as a buffer there")
    if isinstance(statement, ast.Assign) and (
        len(statement.targets) > 1 or not isinstance(statement.targets[0], ast.Attribute)
    ):
        raise Refusal(f"{where} alone; make it a separate statement")
    if statement.value is None or plain_number(statement.value) is None:
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


def plain_number(node: ast.expr) -> str | None:
    """Return the text of a plain number, which may be negative, or None for any other expression."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = plain_number(node.operand)
        return None if inner is None else f"-{inner}"
    return repr(node.value) if isinstance(node, ast.Constant) and type(node.value) is int else None


def _registration(plan: Plan, function: FunctionInfo, statement: ast.Assign | ast.AnnAssign, torch: str) -> str:
    assert statement.value is not None
    value = plain_number(statement.value)
    return f'{self_name(function)}.register_buffer("{plan.name}", {torch}.tensor({value}), persistent=False)'


def change_store(plan: Plan, use: Use) -> None:
    """Rewrite a statement that sets the number, turning an update into an assignment, and a number into a tensor.

    Raises:
        Refusal: If the statement sets the number in another way.
    """
    statement = use.statement()
    target = use.file.segment(use.node)
    if isinstance(statement, ast.AugAssign) and statement.target is use.node:
        if type(statement.op) not in _ARITHMETIC:
            raise Refusal(f"{use.quote(statement)} has no tensor equivalent; use `+`, `-` or `*`")
        if not _is_int(use.kind(statement.value)):
            raise Refusal(
                f"{use.quote(statement.value)} may be something other than an integer, which the buffer cannot hold"
            )
        value = use.file.segment(statement.value)
        if not isinstance(statement.value, _TIGHT):
            value = f"({value})"
        plan.replace(use, statement, f"{target} = {target} {_SIGNS[type(statement.op)]} {value}")
        return
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
        raise Refusal(f"{use.place} sets `{plan.name}` in a way that does not work with a buffer; change it first")
    if isinstance(statement, ast.Assign) and statement.targets != [use.node]:
        raise Refusal(f"{use.quote(statement)} sets more than `{plan.name}`; make that a separate statement")
    number = plain_number(statement.value)
    if number is not None:
        torch, _ = torch_name(_function(use))
        value = f"{torch}.zeros_like({target})" if number == "0" else f"{torch}.full_like({target}, {number})"
        plan.replace(use, statement.value, value)
    # If the value is computed from the number itself, its uses are checked separately.
    elif not any(_is_same(node, use.node) for node in walk(statement.value)):
        raise Refusal(f"{use.place} sets {use.quote(use.node)} to {use.quote(statement.value)}, which is not a tensor")


def _function(use: Use) -> FunctionInfo:
    assert use.function is not None, "a use on `self` is in a method"
    return use.function


def check_reader(plan: Plan, use: Use) -> None:
    """Follow a use of the counter through integer arithmetic until it reaches a tensor or the counter itself.

    Raises:
        Refusal: If a step requires a Python number.
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
            if isinstance(use.kind(other), k.Unknown) and isinstance(parent.op, _WITH_TENSORS):
                plan.combined = True
                plan.conditions[f"{use.quote(other)} is a floating-point tensor"] = None
                return
            if not isinstance(parent.op, _INTEGRAL) or not _is_int(use.kind(other)):
                raise Refusal(_needs_number(plan, use, parent))
            node = parent
        elif isinstance(parent, ast.Assign | ast.AugAssign | ast.AnnAssign) and parent.value is node:
            targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
            if all(_is_same(target, use.node) for target in targets):
                return
            raise Refusal(_needs_number(plan, use, parent))
        elif isinstance(parent, ast.Expr) or _is_shown(use, parent):
            return
        elif _decides(plan, use, node, parent):
            plan.leaves = DECISIONS
            return
        else:
            raise Refusal(_needs_number(plan, use, parent))


def _scope(use: Use) -> Scope | None:
    """Return the function that contains a use, or None if the use is at a file's top level."""
    if use.function is None:
        return None
    return Scope(use.project, use.function, use.project.parents(use.function), *torch_name(use.function))


def _is_shown(use: Use, part: ast.AST | None) -> bool:
    """Return whether part of an f-string is only printed or logged. There, a 0-dim tensor looks like its number."""
    if not isinstance(part, ast.FormattedValue) or part.conversion != -1:
        return False
    scope, text = _scope(use), use.parent(part)
    call = use.parent(text) if text is not None else None
    return scope is not None and isinstance(call, ast.Call) and callee(scope, call).startswith(SHOWS)


def _decides(plan: Plan, use: Use, node: ast.expr, parent: ast.AST | None) -> bool:
    """Return whether a number, or the result of comparing it with another number, is only used to select a branch."""
    if isinstance(parent, ast.Compare):
        others = [one for one in (parent.left, *parent.comparators) if one is not node]
        if len(others) != 1 or not isinstance(parent.ops[0], _ORDER) or not _is_int(use.kind(others[0])):
            return False
        node, parent = parent, use.parent(parent)
    while isinstance(parent, ast.BoolOp) or (isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not)):
        node, parent = parent, use.parent(parent)
    return isinstance(parent, ast.If | ast.IfExp) and parent.test is node


def _is_same(node: ast.AST, used: ast.expr) -> bool:
    """Return whether a node has the same text as a use of the number."""
    return isinstance(node, type(used)) and ast.unparse(node) == ast.unparse(used)


def _check_combination(plan: Plan, use: Use, operation: ast.BinOp, other: ast.expr) -> None:
    if not isinstance(operation.op, _WITH_TENSORS):
        raise Refusal(f"{use.place}: {use.quote(operation)} gives a different result if `{plan.name}` is a tensor")
    tensor = k.only_tensor(use.kind(other))
    assert tensor is not None
    plan.combined = True
    if tensor.dtype not in ("float", "complex") and tensor.rank in (0, None):
        plan.conditions[f"{use.quote(other)} is floating-point, or has at least one dimension"] = None


def _needs_number(plan: Plan, use: Use, parent: ast.AST | None) -> str:
    """Return the refusal for a use that requires a Python number."""
    shown = use.quote(use.node)
    while isinstance(parent, ast.Tuple | ast.List | ast.Dict | ast.Set | ast.keyword):
        parent = use.parent(parent)
    if isinstance(parent, ast.Return | ast.Yield):
        what, hint = f"returns {shown} to the caller, which would get a tensor", "change the callers first"
    elif isinstance(parent, ast.Compare | ast.If | ast.While | ast.IfExp | ast.BoolOp | ast.Assert):
        what, hint = f"branches on {shown} in Python", "select with `torch.where` instead"
    else:
        what, hint = f"uses {shown} where a Python number may be needed", "change that code first"
    return f"{use.place} {what}; {hint}"


def _is_int(kind: k.Kind) -> bool:
    return all(isinstance(member, k.Value) and member.type == "int" for member in kind.members)


def _is_tensor(kind: k.Kind) -> bool:
    tensor = kind if isinstance(kind, k.Tensor) else None
    return tensor is not None and not tensor.array
