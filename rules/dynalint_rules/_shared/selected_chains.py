"""Elements that a mask selects, computed with one by one over several statements and only then reduced.

near = error[error < 1]                     near = error
loss = near**2 / 2                          loss = near**2 / 2
return loss.sum() / len(loss)               return torch.where(error < 1, loss, 0).sum() / (error < 1).sum()
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from dynalint import rewriting as rw
from dynalint.analysis import kinds as k
from dynalint.analysis.index import walk_function
from dynalint.analysis.steps import walk
from dynalint.rules import Rewrite
from dynalint_rules._shared.calls import callee
from dynalint_rules._shared.masked_reductions import OTHER_ORDER, Selection, matches, may_match, selection_of
from dynalint_rules._shared.memory import may_change_in_place
from dynalint_rules._shared.names import loads, only_value
from dynalint_rules._shared.numbers import flow_of
from dynalint_rules._shared.scope import Scope
from dynalint_rules._shared.sides import FINITE

_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)
ELEMENTWISE = frozenset(
    "abs square pow neg log log1p log2 log10 exp expm1 sqrt rsqrt sin cos tan tanh sigmoid relu reciprocal "
    "clamp float double add sub mul div".split()
)
_REDUCTIONS = ("sum", "mean")
_REDUCING = frozenset("all any sum mean max min amax amin prod argmax argmin norm squeeze select count_nonzero".split())


def reduced_at_last(scope: Scope, read: Selection) -> Rewrite | None:
    """Return the rewrite of all that one mask selects in the body of a function, None where more is done with it.

    Raises:
        Refusal: a count of the elements is asked for where no tensor will do.
    """
    chain = _Chain(scope, read)
    if not chain.is_stable() or not chain.follow():
        return None
    changes = [OTHER_ORDER, *([] if chain.certain else ["the mask has as many dimensions as the tensor"]), FINITE]
    title = "Compute with all elements, and reduce with zeros where nothing is selected"
    edits = rw.written(scope.file, *chain.edits, *chain.flows_edits)
    clauses = tuple(dict.fromkeys([*changes, *chain.conditions]))
    return Rewrite(title, "unsafe", edits, clauses, scope.imports, shown=not chain.certain)


@dataclass
class _Chain:
    """What becomes of the elements that one mask selects; `names` are those that stand for some of them."""

    scope: Scope
    read: Selection
    names: set[str] = field(default_factory=set)
    edits: list[rw.Change] = field(default_factory=list)
    flows_edits: list[rw.Change] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    certain: bool = True
    reduced: set[ast.Call] = field(default_factory=set)

    def is_stable(self) -> bool:
        """Whether the mask is the same wherever it is written from its first use on."""
        scope, mask = self.scope, self.read.mask
        if any(isinstance(one, ast.Call) for one in walk(mask)) or self._selects_rows():
            return False
        first = (self.read.node.lineno, self.read.node.col_offset)
        read = {ast.unparse(one) for one in walk(mask) if isinstance(one, ast.Attribute)}
        for one in walk_function(scope.function.node):
            if isinstance(one, ast.Attribute) and not isinstance(one.ctx, ast.Load) and ast.unparse(one) in read:
                return False
        for name in {one.id for one in walk(mask) if isinstance(one, ast.Name)}:
            stores = [one for one in walk_function(scope.function.node) if _stores(one, name)]
            later = any((one.lineno, one.col_offset) > first for one in stores if isinstance(one, ast.Name))
            if later or may_change_in_place(scope, name):
                return False
        return True

    def _selects_rows(self) -> bool:
        """Whether a mask was reduced along a dimension, and thus has fewer than what it selects from."""
        mask = self.read.mask
        value = only_value(self.scope, mask.id, mask) if isinstance(mask, ast.Name) else None
        calls = [one for one in walk(value) if isinstance(one, ast.Call)] if value is not None else []
        names = (one.func.attr for one in calls if isinstance(one.func, ast.Attribute) and (one.args or one.keywords))
        return not _REDUCING.isdisjoint(names)

    def follow(self) -> bool:
        """Go through the statements of the function; return whether all that reads the elements is known."""
        scope = self.scope
        for statement in scope.function.statements:
            selections = [one for one in self._selections(statement) if _is_same(one, self.read)]
            uses = [one for one in walk(statement) if isinstance(one, ast.Name) and one.id in self.names]
            if not selections and not uses:
                continue
            if not isinstance(statement, ast.Assign | ast.Return) or not self._reads(statement, selections):
                return False
        own = {id(one) for one in walk_function(scope.function.node)}
        return bool(self.reduced) and all(id(one) in own for name in self.names for one in loads(scope, name))

    def _selections(self, statement: ast.stmt) -> Iterator[Selection]:
        for node in walk(statement):
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
                yield Selection(node, node.value, node.slice)
            elif isinstance(node, ast.Call) and callee(self.scope, node) in _SELECTING:
                found = selection_of(node)
                if found is not None:
                    yield found

    def _reads(self, statement: ast.Assign | ast.Return, selections: list[Selection]) -> bool:
        """Take in one statement; return whether it computes one by one, or reduces."""
        for one in selections:
            if not may_match(self.scope, one) or not self._keeps(one.source):
                return False
            self.certain &= matches(self.scope, one)
            # What is not selected must not come in even where it is NaN: its gradient would be.
            content = f"{self.scope.torch}.where({self.scope.text(one.mask)}, {self.scope.text(one.source)}, 1)"
            self.edits.append((one.node, content))
        nodes: list[ast.expr] = [one.node for one in selections]
        nodes += [one for one in walk(statement) if isinstance(one, ast.Name) and self._is_read(one)]
        kept = [self._climb(node, statement) for node in nodes]
        if not all(kept):
            return False
        if "value" in kept:
            if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
                return False
            target = statement.targets[0]
            if not isinstance(target, ast.Name) or len(set(kept)) > 1 or not self._is_new(target):
                return False
            self.names.add(target.id)
        return True

    def _keeps(self, source: ast.expr) -> bool:
        """Whether a tensor is never changed in place: what was selected out of it would not change with it."""
        names = {one.id for one in walk(source) if isinstance(one, ast.Name)}
        return not any(may_change_in_place(self.scope, name) for name in names)

    def _is_read(self, node: ast.Name) -> bool:
        return node.id in self.names and isinstance(node.ctx, ast.Load)

    def _is_new(self, target: ast.Name) -> bool:
        """Whether a name stands for nothing else in the function."""
        stores = [one for one in walk(self.scope.function.node) if _stores(one, target.id)]
        return stores == [target] and target.id in self.scope.function.locals and not _is_parameter(self.scope, target)

    def _climb(self, node: ast.expr, statement: ast.stmt) -> str:
        """Return "value" if an operand goes into all of a statement one by one, "number" if it is reduced, else ""."""
        scope = self.scope
        parent = scope.parents[node]
        if parent is statement:
            return "value" if isinstance(statement, ast.Assign) else ""
        if isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.USub):
            return self._climb(parent, statement)
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, _OPERATORS):
            other = parent.right if node is parent.left else parent.left
            return self._climb(parent, statement) if self._goes_along(other) else ""
        if isinstance(parent, ast.Call):
            return self._argument(parent, node, statement)
        call = scope.parents.get(parent)
        if isinstance(parent, ast.Attribute) and isinstance(call, ast.Call) and call.func is parent:
            return self._method(call, parent, statement)
        return ""

    def _argument(self, call: ast.Call, node: ast.expr, statement: ast.stmt) -> str:
        """The same for an argument of a function."""
        name = callee(self.scope, call)
        short = name.removeprefix("torch.")
        if call.keywords:
            return ""
        if call.args == [node] and name == "builtins.len":
            return self._count(call)
        if call.args == [node] and name in ("torch.sum", "torch.mean"):
            return self._reduce(call, node, short)
        elementwise = name == f"torch.{short}" and short in ELEMENTWISE
        return self._climb(call, statement) if elementwise and all(map(self._goes_along, call.args)) else ""

    def _method(self, call: ast.Call, method: ast.Attribute, statement: ast.stmt) -> str:
        """The same for what a method is called on."""
        if call.keywords:
            return ""
        if method.attr in _REDUCTIONS and not call.args:
            return self._reduce(call, method.value, method.attr)
        if method.attr == "numel" and not call.args:
            return self._count(call)
        elementwise = method.attr in ELEMENTWISE and all(map(self._goes_along, call.args))
        return self._climb(call, statement) if elementwise else ""

    def _goes_along(self, node: ast.expr) -> bool:
        """Whether an operand is made of selected elements and numbers alone."""
        if isinstance(node, ast.Subscript) and _is_same(Selection(node, node.value, node.slice), self.read):
            return True
        if (isinstance(node, ast.Name) and self._is_read(node)) or k.is_number(self.scope.kind(node)):
            return True
        if isinstance(node, ast.BinOp) and isinstance(node.op, _OPERATORS):
            return self._goes_along(node.left) and self._goes_along(node.right)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return self._goes_along(node.operand)
        if isinstance(node, ast.Call) and not node.keywords:
            name = callee(self.scope, node)
            plain = name.rpartition(".")[2] in ELEMENTWISE and name.startswith(("torch.", "Tensor."))
            method = isinstance(node.func, ast.Attribute) and name.startswith("Tensor.")
            subject = [node.func.value] if method and isinstance(node.func, ast.Attribute) else []
            return plain and all(map(self._goes_along, [*subject, *node.args]))
        if isinstance(node, ast.Attribute) and isinstance(self.scope.kind(node), k.Unknown):
            self.conditions.append(f"{self.scope.quote(node)} is a number")
            return True
        return False

    def _reduce(self, call: ast.Call, values: ast.expr, name: str) -> str:
        """Reduce over the full shape."""
        if call in self.reduced:
            return "number"
        self.reduced.add(call)
        mask, inner = (rw.kept(self.scope.file, one) for one in (self.read.mask, values))
        total = rw.method(rw.call(f"{self.scope.torch}.where", mask, inner, rw.number(0)), "sum")
        self.edits.append((call, total if name == "sum" else rw.operation(total, "/", rw.method(mask, "sum"))))
        return "number"

    def _count(self, call: ast.Call) -> str:
        flow = flow_of(self.scope, call, "int", wide=True)
        self.edits.append((call, rw.method(rw.kept(self.scope.file, self.read.mask), "sum")))
        self.flows_edits += flow.edits
        self.conditions += flow.clauses
        return "number"


_SELECTING = frozenset({"torch.masked_select", "Tensor.masked_select"})


def _is_same(one: Selection, other: Selection) -> bool:
    return ast.dump(one.mask) == ast.dump(other.mask)


def _stores(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)


def _is_parameter(scope: Scope, target: ast.Name) -> bool:
    arguments = scope.function.node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return any(one is not None and one.arg == target.id for one in every)
