"""DYN804: a number read from a tensor is used after the graph break."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from dynalint.rulekit import Branch, Call, FunctionInfo, Project, Rule, Violation, is_scripted, k, walk, way
from dynalint_rules._code.initial import calls_of, passed_by_name, place_of, placed
from dynalint_rules._code.left_out import is_in_autograd
from dynalint_rules._code.settings import captures_scalars

_NUMBERS = ("int", "float")
_MOST_CALLERS = 3
# Functions that make a tensor of numbers, which are usually settings of the caller.
_MAKING = frozenset({"tensor", "as_tensor", "Tensor", "FloatTensor", "DoubleTensor", "IntTensor", "LongTensor"})
_MEASURES = frozenset({"shape", "size", "ndim", "dim", "numel", "device", "dtype"})


class NumberAfterBreak(Rule):
    code = "DYN804"
    name = "number-after-break"
    summary = "The code after a graph break is recompiled when a number read from a tensor changes"
    category = "advice"  # whether the number differs from call to call depends on the data
    severity = "info"
    events = (Call,)
    calls = frozenset({"Tensor.item", "builtins.float", "builtins.int"})

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Flag numbers that differ from call to call and are needed after the break."""
        tensor = _tensor_read(event)
        if tensor is None or captures_scalars(project, event.function) or not _is_number(event.result):
            return
        reading = _Reading(event.function, project)
        if not reading.is_captured(event) or not reading.is_input(tensor):
            return
        torch = ""
        if reading.meets_tensor(event.node):
            message = (
                "the code after this graph break is compiled for the number that is read here, and recompiles when "
                "the number changes"
            )
        elif later := reading.while_needed(event):
            # From torch 2.15 on, code that only reads more numbers is compiled for any number.
            torch = "<2.15" if all(one.statement is event.statement for one in later) else ""
            message = (
                "the number that is read here is needed after the next graph break, so the code before that "
                "break recompiles when the number changes"
            )
        else:
            return
        yield Violation(event.node, message, help="Keep the value as a 0-dim tensor.", torch=torch)


def _tensor_read(event: Call) -> ast.expr | None:
    """Return the tensor expression from which a call reads a number, or None."""
    if isinstance(event.node.func, ast.Attribute) and event.callee == "Tensor.item" and not event.node.args:
        return event.node.func.value
    reads = len(event.args) == 1 and k.only_tensor(event.args[0]) is not None
    return event.node.args[0] if reads and event.callee != "Tensor.item" else None


def _is_number(kind: k.Kind) -> bool:
    return all(isinstance(one, k.Value) and one.type in _NUMBERS for one in kind.members)


class _Reading:
    """The numbers that a function reads, and how it uses them."""

    def __init__(self, function: FunctionInfo, project: Project, callees: tuple[FunctionInfo, ...] = ()) -> None:
        self._function, self._project, self._callees = function, project, callees
        self._parents = project.parents(function)

    def while_needed(self, event: Call) -> list[Call]:
        """Return the reads that follow, in the same expression or later, while the number is still needed."""
        reads = sorted(self._reads(), key=lambda one: _place(one.node))
        own = [one for one in reads if one.statement is event.statement]
        # Only the first read in an expression is flagged.
        if not own or own[0].node is not event.node:
            return []
        return [other for other in reads if self._is_kept(event, other)]

    def _is_kept(self, event: Call, other: Call) -> bool:
        if _place(other.node) <= _place(event.node):
            return False
        if other.statement is event.statement:
            inside = {*walk(other.node)}
            return event.node not in inside and not self._is_optional(event.node) and not self._is_optional(other.node)
        block, statement = _block(self._parents, event.statement), event.statement
        if other.statement not in block or not isinstance(statement, ast.Assign) or statement.value is not event.node:
            return False
        names = [target.id for target in statement.targets if isinstance(target, ast.Name)]
        end = _place(other.node)
        return any(_place(load) > end for name in names if self._stores(name) == 1 for load in self._loads(name))

    def _is_optional(self, node: ast.AST) -> bool:
        """Return whether part of an expression is not always evaluated."""
        parent = self._parents.get(node)
        while isinstance(parent, ast.expr):
            if isinstance(parent, ast.IfExp | ast.BoolOp):
                return True
            node, parent = parent, self._parents.get(parent)
        return False

    def _reads(self) -> Iterator[Call]:
        """Yield the calls in the function that definitely read a number."""
        interpreter = self._project.interpreter
        for context in interpreter.contexts.get(self._function, ()) if interpreter is not None else ():
            for one in context.events.values():
                if not isinstance(one, Call) or one.callee not in NumberAfterBreak.calls or one.condition is not None:
                    continue
                if _tensor_read(one) is not None:
                    yield one

    def is_captured(self, event: Call) -> bool:
        """Return whether Dynamo resumes after the break. It does not do so in a loop, `try` or `with`.

        What only runs in every n-th call (`if self.steps % 100 == 0:`) does not count.
        """
        function, project = self._function, self._project
        if is_scripted(function) or is_in_autograd(function, project) or self._is_rare(event):
            return False
        interpreter = self._project.interpreter
        contexts = interpreter.contexts.get(self._function, ()) if interpreter is not None else ()
        breaks = [
            one
            for context in contexts
            for one in context.events.values()
            if isinstance(one, Branch) or (isinstance(one, Call) and one.callee == event.callee)
        ]
        return not any(one.position.loop or one.position.try_ or one.position.with_ for one in [event, *breaks])

    def _is_rare(self, event: Call) -> bool:
        tests = [one.test for one, arm in way(event.node, self._parents) if isinstance(one, ast.If) and arm == "body"]
        return any(isinstance(node, ast.Mod) for test in tests for node in walk(test))

    def meets_tensor(self, node: ast.expr) -> bool:
        """Return whether a tensor operation uses a value computed from a number, directly or via a local name."""
        seen: set[str] = set()
        waiting: list[ast.expr] = [node]
        while waiting:
            inner: ast.AST = waiting.pop()
            element, outer = inner, self._parents.get(inner)
            while isinstance(outer, ast.expr) and not self._is_tensor(outer) and not isinstance(outer, ast.Compare):
                element, inner, outer = inner, outer, self._parents.get(outer)
            if isinstance(outer, ast.BinOp | ast.Subscript) and self._is_tensor(outer):
                return True
            name = _name_given(outer, element) if isinstance(outer, ast.Assign) else None
            if name is not None and name not in seen:
                seen.add(name)
                waiting.extend(self._loads(name))
        return False

    def is_input(self, node: ast.expr) -> bool:
        """Return whether a tensor is computed from an argument, rather than only from weights, state and sizes."""
        return self._comes_from_outside(node, set())

    def _comes_from_outside(self, node: ast.AST, seen: set[str]) -> bool:
        kind = self._kinds.get(node, k.UNKNOWN)
        if isinstance(kind, k.Tensor) and kind.origin is not None:
            return False
        if isinstance(kind, k.Value | k.Sequence) and not _holds_data(kind):
            return False
        if isinstance(node, ast.Attribute) and node.attr in _MEASURES:
            return False  # the size of something whose kind may be unknown
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in _MAKING and node.args:
            return _reads_tensor(node.args[0], self._kinds)
        if isinstance(node, ast.Name):
            if node.id in self._parameters and (node.id in seen or not self._is_replaced(node.id)):
                return self._is_given_input(node.id)
            if node.id in seen:
                return False
            seen.add(node.id)
            return any(self._comes_from_outside(value, seen) for value in self._values(node.id))
        return any(self._comes_from_outside(child, seen) for child in ast.iter_child_nodes(node))

    def _is_replaced(self, name: str) -> bool:
        """Return whether the function always assigns another value to an argument."""
        node = self._function.node
        assigned = [] if isinstance(node, ast.Lambda) else [one for one in node.body if isinstance(one, ast.Assign)]
        return any(isinstance(part, ast.Name) and part.id == name for one in assigned for part in one.targets)

    def _is_given_input(self, name: str) -> bool:
        """Return whether a caller passes an argument that is computed from its own arguments, or there is no caller."""
        function, project, known = self._function, self._project, (*self._callees, self._function)
        place, given = place_of(name, function), []
        for caller, call in calls_of(function, project) if len(known) <= _MOST_CALLERS else ():
            values = [*passed_by_name(call, name), *placed(call, place)]
            reading = _Reading(caller, project, known)
            given += [caller in known or any(map(reading.is_input, values))]
        return any(given) or not given

    @cached_property
    def _kinds(self) -> Mapping[ast.AST, k.Kind]:
        return self._project.kinds(self._function)

    @property
    def _parameters(self) -> set[str]:
        return {one.arg for one in self._function.named[1 if self._function.owner is not None else 0 :]}

    def _values(self, name: str) -> Iterator[ast.expr]:
        """Yield the values assigned to a local name."""
        for node in walk(self._function.node):
            if isinstance(
                node, ast.Assign | ast.AugAssign | ast.For | ast.AnnAssign | ast.NamedExpr | ast.comprehension
            ):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                value = node.iter if isinstance(node, ast.For | ast.comprehension) else node.value
                inside = (part for target in targets for part in walk(target))
                if value is not None and any(isinstance(part, ast.Name) and part.id == name for part in inside):
                    yield value

    def _stores(self, name: str) -> int:
        stores = (one for one in walk(self._function.node) if isinstance(one, ast.Name) and one.id == name)
        return sum(isinstance(one.ctx, ast.Store) for one in stores)

    def _loads(self, name: str) -> Iterator[ast.expr]:
        for node in walk(self._function.node):
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
                yield node

    def _is_tensor(self, node: ast.AST) -> bool:
        return k.only_tensor(self._kinds.get(node, k.UNKNOWN)) is not None


def _place(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _name_given(statement: ast.Assign, element: ast.AST) -> str | None:
    """Return the name that an assignment gives to a value, or to an element of the tuple that it unpacks."""
    target, value = statement.targets[0], statement.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and element in value.elts:
        starred = any(isinstance(one, ast.Starred) for one in (*target.elts, *value.elts))
        target = target if starred or len(target.elts) != len(value.elts) else target.elts[value.elts.index(element)]
    return target.id if isinstance(target, ast.Name) and len(statement.targets) == 1 else None


def _block(parents: Mapping[ast.AST, ast.AST], statement: ast.stmt) -> list[ast.stmt]:
    """Return the block that contains a statement."""
    parent = parents.get(statement)
    for _, value in ast.iter_fields(parent) if parent is not None else ():
        if isinstance(value, list) and statement in value:
            return value
    return []


def _holds_data(kind: k.Value | k.Sequence) -> bool:
    """Return whether a value can be data read from a tensor, or a sequence that contains tensors or their data."""
    if isinstance(kind, k.Value):
        return kind.source == "data"
    return not all(isinstance(one, k.Value) and one.source != "data" for one in kind.element.members)


def _reads_tensor(node: ast.expr, kinds: Mapping[ast.AST, k.Kind]) -> bool:
    """Return whether an expression reads a tensor."""
    return any(k.only_tensor(kinds.get(one, k.UNKNOWN)) is not None for one in walk(node))
