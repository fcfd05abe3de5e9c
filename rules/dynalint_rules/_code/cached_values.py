"""Values that the first call keeps for later calls, and what they are computed from.

if self.cache is not None and self.cache[0] == n:      if self.mask is None:
    return self.cache[1]                                   self.mask = make(self.size)
self.cache = (n, make(n))                              return x * self.mask
return self.cache[1]

Compiled code can compute this value in each call if it is the same each time, which is the case if it depends only on
the object's settings and on arguments that the test compares.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dynalint.rulekit import ContainerChange, Refusal, StateChange, k, walk
from dynalint_rules._code.effects import effects_of
from dynalint_rules._code.missing_state import StateTest
from dynalint_rules._code.names import around, is_named, parameters, within
from dynalint_rules._code.scope import Scope
from dynalint_rules._code.uses import self_name

_METADATA = frozenset({"shape", "size", "dim", "ndim", "device", "dtype", "layout", "numel", "nelement"})
# Functions whose results are equal only for equal arguments.
_DISTINCT = frozenset({"str", "tuple", "list", "repr"})


@dataclass(frozen=True)
class Memo:
    """The statements that create kept state. They are all in one block, under or after the test `found`."""

    scope: Scope
    found: StateTest
    block: list[ast.stmt]

    @classmethod
    def of(cls, scope: Scope, event: StateChange | ContainerChange, found: StateTest) -> Memo:
        """Return the statements that create the state that an event stores.

        Raises:
            Refusal: If the test is elsewhere.
        """
        if found.leaves:
            block = around(scope.parents, found.statement)[1]
        else:
            block = found.statement.body if found.truth else found.statement.orelse
        if not isinstance(found.statement, ast.If) or event.statement not in block:
            raise Refusal(
                "a condition elsewhere decides whether the state is created; create it in the constructor instead"
            )
        until = block.index(event.statement) + 1 if found.leaves else len(block)
        return cls(scope, found, block[:until])

    def refuse_other_values(self) -> None:
        """Ensure that every call that passes the test would create the same value.

        Raises:
            Refusal: If the value depends on an argument that the test does not compare, on a parameter that training
                changes, or on random numbers.
        """
        compared = {text for part in self._parts() for key in self._keys(part) for text in self._origins(key)}
        sources = _Sources(self.scope, self.found.statement)
        read = [text for statement in self.block for text in sources.of(statement)]
        for text in read:
            if not any(text == one or text.startswith((f"{one}.", f"{one}[")) for one in compared):
                raise _differs(f"`{text}`")
        if not read and not sources.devices:
            raise Refusal("the value does not depend on an argument; create it in the constructor instead, as a buffer")
        for statement in self.block:
            self._refuse_other_calls(statement)

    def _refuse_other_calls(self, statement: ast.stmt) -> None:
        """Ensure that calls in a statement give equal results for equal arguments and use no learned parameters."""
        for node in walk(statement):
            if isinstance(node, ast.Call):
                try:
                    same = not effects_of(self.scope, [node], besides=self._fills_own_list).layers
                except Refusal:
                    same = False
                if not same:
                    raise _differs(self.scope.quote(node))

    def _fills_own_list(self, call: ast.Call) -> bool:
        """Return whether a call appends to a list that the same code creates."""
        made = call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr == "append" else None
        if not isinstance(made, ast.Name):
            return False
        values = (one.value for one in self.block if isinstance(one, ast.Assign) and is_named(one.targets[0], made.id))
        return any(isinstance(value, ast.List) for value in values)

    def _parts(self) -> list[ast.expr]:
        """Return the operands of the test, each of which is enough to show that the state is missing.

        Raises:
            Refusal: If another condition can prevent the state from being created.
        """
        test = self.found.statement.test
        if not isinstance(test, ast.BoolOp):
            return [test]
        if isinstance(test.op, ast.Or) is not self.found.truth:
            raise Refusal(
                "another condition also decides whether the state is created; create it in the constructor instead"
            )
        return test.values

    def _keys(self, part: ast.expr) -> Iterator[ast.expr]:
        """Yield what a part of the test compares with state that the block stores.

        A comparison only counts if the stored state is used when both values are equal.
        """
        missing = self.found.truth
        if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Not):
            part, missing = part.operand, not missing
        if isinstance(part, ast.Compare) and len(part.ops) == 1:
            kept = (ast.NotEq, ast.NotIn, ast.IsNot) if missing else (ast.Eq, ast.In, ast.Is)
            sides = (part.left, part.comparators[0])
            for side, other in (sides, sides[::-1]):
                if isinstance(part.ops[0], kept) and any(ast.unparse(node) in self._stored() for node in walk(side)):
                    yield other

    def _stored(self) -> set[str]:
        """Return the text of each attribute that the statements assign."""
        nodes = (node for statement in self.block for node in walk(statement))
        return {ast.unparse(one) for one in nodes if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store)}

    def _origins(self, key: ast.expr) -> Iterator[str]:
        """Yield the source text of each expression that is part of a key."""
        if isinstance(key, ast.Tuple):
            for one in key.elts:
                yield from self._origins(one)
        elif isinstance(key, ast.Call) and isinstance(key.func, ast.Name) and key.func.id in _DISTINCT and key.args:
            yield from self._origins(key.args[0])
        elif isinstance(key, ast.Name) and key.id not in parameters(self.scope):
            for value in _values_of(self.scope, key.id, []) or ():
                yield from self._origins(value)
        else:
            yield ast.unparse(key)


@dataclass
class _Sources:
    """Finds the arguments that code depends on, through local names that are set before `statement`.

    `devices` are the devices that the code reads.
    """

    scope: Scope
    statement: ast.stmt
    followed: set[str] = field(default_factory=set)
    devices: list[ast.expr] = field(default_factory=list)

    def of(self, node: ast.AST) -> Iterator[str]:
        """Yield the source text of each argument, or of an argument's metadata, that a node reads.

        Raises:
            Refusal: If the node reads a tensor's elements, or something unknown.
        """
        for name in walk(node):
            tensor = self.scope.tensor(name)
            if isinstance(name, ast.expr) and tensor is not None and tensor.origin == "parameter":
                raise _differs(self.scope.quote(name))
            if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load) and name.id in self.scope.function.locals:
                if name.id in parameters(self.scope) and name.id != self_name(self.scope.function):
                    yield from self._argument(name)
                if name.id not in self.followed:
                    self.followed.add(name.id)
                    values = _values_of(self.scope, name.id, self._inside())
                    if values is None:
                        raise _differs(self.scope.quote(name))
                    for value in values:
                        yield from self.of(value)

    def _inside(self) -> Sequence[ast.AST]:
        """Return the code that creates the state. Its own assignments are examined in any case."""
        return [self.statement, *around(self.scope.parents, self.statement)[1]]

    def _argument(self, name: ast.Name) -> Iterator[str]:
        """Yield what reading a parameter depends on: the parameter itself, or its metadata, such as `x.shape[1]`."""
        chain: list[ast.expr] = [name]
        while isinstance(parent := self.scope.parents.get(chain[-1]), ast.Attribute | ast.Subscript | ast.Call):
            if (parent.func if isinstance(parent, ast.Call) else parent.value) is not chain[-1]:
                break
            chain.append(parent)
        devices = [one for one in chain if self._is_device(one)]
        if devices:
            self.devices += devices
        elif all(isinstance(one, k.Value) or one == k.NONE for one in self.scope.kind(name).members):
            yield name.id
        elif len(chain) > 1 and isinstance(chain[1], ast.Attribute) and chain[1].attr in _METADATA:
            yield ast.unparse(chain[-1])
        else:
            raise _differs(self.scope.quote(name))

    def _is_device(self, node: ast.expr) -> bool:
        """Return whether an expression is a device. State on another device would raise in eager code."""
        kind = self.scope.kind(node)
        return isinstance(kind, k.Value) and kind.type == "device"


def _values_of(scope: Scope, name: str, outside: Sequence[ast.AST]) -> list[ast.expr] | None:
    """Return the values assigned to a name outside some statements, or None if an assignment is not a plain one."""
    values = []
    for node in walk(scope.function.node):
        if isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load):
            if any(within(node, one, scope) for one in outside):
                continue
            parent = scope.parents.get(node)
            while isinstance(parent, ast.Tuple | ast.List | ast.Starred):
                parent = scope.parents.get(parent)
            if not isinstance(parent, ast.Assign | ast.AnnAssign) or parent.value is None:
                return None
            values.append(parent.value)
    return values


def _differs(shown: str) -> Refusal:
    return Refusal(
        f"the value depends on {shown}, which may change in later calls; create it on each call, or register a "
        "buffer in the constructor"
    )
