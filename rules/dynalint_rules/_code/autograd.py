"""Find uses of a buffer that give wrong gradients if compiled code changes the buffer in place.

The compiler saves the buffer itself for the backward pass and recomputes values derived from it, although the buffer
has its new value by then. As a result, the gradient of a product with the buffer is wrong. The gradient of a sum is
correct because it does not need the value.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from dynalint.rulekit import FunctionInfo, InplaceChange, Project, k, walk
from dynalint_rules._code.changes import reached_functions, related

_PRODUCTS = (ast.Mult, ast.Div, ast.Pow)
_PRODUCT_NAMES = frozenset("mul multiply div divide true_divide pow float_power addcmul addcdiv lerp".split())
# Pointwise functions and views that are cheap enough for the compiler to recompute in the backward pass.
_CHEAP = _PRODUCT_NAMES | frozenset(
    "abs add ceil clamp clone cos double exp expand expand_as float floor half log log1p neg negative reciprocal "
    "reshape round rsqrt sigmoid sin sqrt square sub subtract tanh to type_as unsqueeze view".split()
)
_FACTORIES = frozenset(
    "ones zeros full empty arange linspace eye rand randn tensor ones_like zeros_like full_like".split()
)
_CUT = frozenset({"detach", "item", "tolist", "numpy", "argmax", "argmin", "size", "dim", "numel"})
_NO_GRADIENTS = ("no_grad", "inference_mode")


def product_with(event: InplaceChange, project: Project) -> ast.expr | None:
    """Return a product of the changed buffer, or of a value derived from it, and a tensor that may need a gradient."""
    name = event.home.name
    for function in reached_functions(project, name):
        if related(function.owner, event.function.owner, project):
            changed = event if function is event.function else None
            taken = _sides_taken(event, project)
            # Computing kinds is slow, so it is only done if there is a product.
            if any(_Flow(function, name, project, changed, taken=taken, all_live=True).products()):
                for node in _Flow(function, name, project, changed, taken=taken).products():
                    return node
    return None


def _sides_taken(event: InplaceChange, project: Project) -> dict[str, bool]:
    """Return the tests around a change, keyed by their text, with the outcome that leads to the change."""
    parents = project.parents(event.function)
    taken: dict[str, bool] = {}
    inner: ast.AST = event.statement
    outer = parents.get(inner)
    while outer is not None:
        if isinstance(outer, ast.If):
            taken[ast.unparse(outer.test)] = inner in outer.body
        inner, outer = outer, parents.get(outer)
    return taken


def keeps_graph(
    statement: ast.stmt, values: list[ast.expr], function: FunctionInfo, name: str, project: Project
) -> bool:
    """Return whether any of `values`, parts of a statement that assigns `name`, can be a tensor with a gradient."""
    flow = _Flow(function, name, project, None, watched=statement, values=values)
    for _ in flow.products():
        pass
    return flow.found


def without_gradients(statement: ast.With | FunctionInfo) -> bool:
    """Return whether a `with` statement or a decorator disables gradients."""
    if isinstance(statement, ast.With):
        nodes: list[ast.expr] = [item.context_expr for item in statement.items]
    else:
        nodes = [] if isinstance(statement.node, ast.Lambda) else list(statement.node.decorator_list)
    return any(text in ast.unparse(node) for node in nodes for text in _NO_GRADIENTS)


@dataclass
class _Flow:
    """A function's local names derived from the buffer, and its tensors that may need a gradient.

    `changed` is the change if this function makes it. Before the change, the buffer itself does not count as an
    operand, because eager code would raise for the product. `found` is set if a value in `values` was live when
    `watched` ran with gradients enabled. `taken` are the tests that determine whether the change is made. The buffer is
    an ordinary tensor (`unchanged`) in their other branch. If `all_live` is true, every value counts as having a
    gradient.
    """

    function: FunctionInfo
    name: str
    project: Project
    changed: InplaceChange | None
    derived: set[str] = field(default_factory=set)
    live: set[str] = field(default_factory=set)
    watched: ast.stmt | None = None
    values: list[ast.expr] = field(default_factory=list)
    found: bool = False
    taken: dict[str, bool] = field(default_factory=dict)
    unchanged: bool = False
    all_live: bool = False

    def products(self) -> Iterator[ast.expr]:
        """Yield the products in source order."""
        arguments = self.function.node.args
        self.live = {argument.arg for argument in self.function.named}
        if self.function.owner is not None and arguments.args:
            self.live.discard(arguments.args[0].arg)
        if not without_gradients(self.function):
            yield from self._block(self.function.statements, gradients=True)

    def _block(self, statements: list[ast.stmt], *, gradients: bool) -> Iterator[ast.expr]:
        for statement in statements:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            if statement is self.watched and gradients:
                self.found = self.found or any(map(self._is_live, self.values))
            inner = gradients and not (isinstance(statement, ast.With) and without_gradients(statement))
            for child in ast.iter_child_nodes(statement):
                if gradients and isinstance(child, ast.expr):
                    yield from self._in_expression(child)
            self._bind(statement, gradients=gradients)
            side = self.taken.get(ast.unparse(statement.test)) if isinstance(statement, ast.If) else None
            for block in ("body", "orelse", "finalbody"):
                before = self.unchanged
                self.unchanged = before or (side is not None and side is not (block == "body"))
                yield from self._block(getattr(statement, block, []), gradients=inner)
                self.unchanged = before
            for handler in getattr(statement, "handlers", []):
                yield from self._block(handler.body, gradients=inner)

    def _bind(self, statement: ast.stmt, *, gradients: bool) -> None:
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign) and statement.value is not None:
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            bound = {node.id for target in targets for node in walk(target) if isinstance(node, ast.Name)}
            keeps = isinstance(statement, ast.AugAssign)
            for known, holds in (
                (self.derived, self._is_derived(statement.value)),
                (self.live, gradients and self._is_live(statement.value)),
            ):
                if holds:
                    known.update(bound)
                elif not keeps:
                    known.difference_update(bound)

    def _in_expression(self, node: ast.expr) -> Iterator[ast.expr]:
        for part in walk(node):
            operands = _operands(part)
            for position, operand in enumerate(operands):
                others = operands[:position] + operands[position + 1 :]
                if self._is_late(operand) and self._is_derived(operand) and any(map(self._is_live, others)):
                    yield operand
                    break

    def _is_late(self, operand: ast.expr) -> bool:
        """Return whether an operand is used with its new value, or is a different value."""
        if self.changed is None or self.changed.position.loop or not self._is_buffer(operand):
            return True
        return operand.lineno > self.changed.statement.lineno

    def _is_buffer(self, node: ast.expr) -> bool:
        return (
            not self.unchanged
            and isinstance(node, ast.Attribute)
            and node.attr == self.name
            and isinstance(node.value, ast.Name)
        )

    def _is_derived(self, node: ast.expr) -> bool:
        """Return whether a value is computed from the buffer with cheap operations."""
        if isinstance(node, ast.Name):
            return node.id in self.derived
        if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.MatMult):
            return self._is_derived(node.left) or self._is_derived(node.right)
        if isinstance(node, ast.UnaryOp):
            return self._is_derived(node.operand)
        if isinstance(node, ast.IfExp):
            return self._is_derived(node.body) or self._is_derived(node.orelse)
        if isinstance(node, ast.Call) and _called(node) in _CHEAP:
            return any(self._is_derived(operand) for operand in _inputs(node))
        return self._is_buffer(node)

    def _is_live(self, node: ast.expr) -> bool:
        """Return whether a value can be a tensor that needs a gradient."""
        if self.all_live:
            return True
        kind = self.project.kinds(self.function).get(node, k.UNKNOWN)
        tensor = k.only_tensor(kind)
        if isinstance(kind, k.Value) or (tensor is not None and tensor.dtype in ("bool", "int")):
            return False
        if isinstance(node, ast.Name):
            return node.id in self.live
        if isinstance(node, ast.Compare):
            return False
        if isinstance(node, ast.Call):
            called = _called(node)
            if called in _CUT or called in _FACTORIES:
                return False
            callee = self.project.kinds(self.function).get(node.func, k.UNKNOWN)
            of_tensor = isinstance(callee, k.Method) and isinstance(callee.receiver, k.Tensor)
            return (_is_on_self(node.func) and not of_tensor) or any(map(self._is_live, _inputs(node)))
        if isinstance(node, ast.Attribute):
            return (tensor is not None and tensor.origin == "parameter") or self._is_live(node.value)
        return any(self._is_live(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))


def _operands(node: ast.AST) -> list[ast.expr]:
    """Return the factors of a product."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, _PRODUCTS):
        return [node.left, node.right]
    if isinstance(node, ast.Call) and _called(node) in _PRODUCT_NAMES:
        return _inputs(node)
    return []


def _inputs(node: ast.Call) -> list[ast.expr]:
    """Return the receiver of a method and all arguments."""
    receiver = [node.func.value] if isinstance(node.func, ast.Attribute) else []
    return [*receiver, *node.args, *(keyword.value for keyword in node.keywords)]


def _called(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _is_on_self(node: ast.expr) -> bool:
    """Return whether an expression calls a layer or method of the module, as in `self.fc(x)` or `self.blocks[0](x)`."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return isinstance(node, ast.Name) and node.id == "self"
