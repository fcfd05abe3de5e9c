"""A loop whose rounds a tensor decides, as `torch.while_loop`: what a round hands to the next is carried along.

while x.norm() > 1:                     def unfinished(x):
    x = x / 2                               return x.norm() > 1

                                        def step(x):
                                            x = x / 2
                                            return (x,)

                                        first = (x,)
                                        if torch.compiler.is_compiling():
                                            (x,) = torch.while_loop(unfinished, step, first)
                                            x = torch.where(unfinished(*first), x, first[0])
                                        else:
                                            state = first
                                            while unfinished(*state):
                                                state = step(*state)
                                            (x,) = state

Eager code goes on as it was: there `torch.while_loop` would compile itself. The `torch.where` is for the gradient,
which `torch.while_loop` gets wrong where no round is run.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from dynalint.analysis import kinds as k
from dynalint.analysis.index import walk_function
from dynalint.rules import Replacement, Rewrite, Settled
from dynalint_rules._shared.effects import effects_of
from dynalint_rules._shared.memory import may_change_in_place
from dynalint_rules._shared.names import is_bound_before, kind_of_name, loads, within
from dynalint_rules._shared.scope import Refusal, Scope, as_tensor
from dynalint_rules._shared.text import atom, comments, indentation
from dynalint_rules._shared.truth import truth_of

_TITLE = "Run the rounds in `torch.while_loop`"
_BY_HAND = (
    "run a fixed number of rounds with `torch.where` in the body, use `torch.while_loop` by hand, "
    "or keep the loop outside the compiled code"
)
_PROTOTYPE = (
    "compiled code goes by `torch.while_loop`, a prototype, which where gradients are needed stays in one graph only "
    "with `torch._dynamo.config.capture_scalar_outputs = True`"
)
_COUNTS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
_BOUNDS: dict[type[ast.operator], str] = {**_COUNTS, ast.FloorDiv: "//"}


def rewrite_while(scope: Scope, loop: ast.While) -> Rewrite:
    """Return the rewrite of `while test:` where tensors decide the test.

    Raises:
        Refusal: a round does more than compute what the next one goes on with.
    """
    carried = _Carried.of(scope, loop, loop.body)
    test, scalar = carried.test(loop.test)
    return carried.rewrite([], test if scalar else f"({test}).reshape(())")


def leaves_endless_loop(scope: Scope, branch: ast.AST | None) -> bool:
    """Whether a statement is the `if test: break` at the end of a `while True:`."""
    loop = None if branch is None else scope.parents.get(branch)
    if not isinstance(loop, ast.While) or not isinstance(branch, ast.If) or branch is not loop.body[-1]:
        return False
    endless = isinstance(loop.test, ast.Constant) and bool(loop.test.value)
    return endless and not branch.orelse and len(branch.body) == 1 and isinstance(branch.body[0], ast.Break)


def rewrite_endless_loop(scope: Scope, branch: ast.If) -> Rewrite:
    """Return the rewrite of a `while True:` that ends in `if test: break`.

    Raises:
        Refusal: a round does more than compute what the next one goes on with.
    """
    loop = scope.parents[branch]
    assert isinstance(loop, ast.While)
    carried = _Carried.of(scope, loop, loop.body[:-1])
    test, scalar = carried.test(branch.test)
    done = scope.fresh_name("done", carried.names)
    dtype, device = f"{scope.torch}.bool", f"{carried.tensor}.device"
    start = f"{scope.torch}.zeros((), dtype={dtype}, device={device})"
    answer = test if scalar else f"({test}).reshape(())"
    return carried.rewrite([_Flag(done, start, answer)], f"~{done}", always=True)


def rounds_counted(scope: Scope, node: ast.AST) -> Rewrite | None:
    """Return the rewrite of `for i in range(count):` where a node reads the count from a tensor.

    None where it counts no rounds, or where a round does more than compute what the next one goes on with.
    """
    loop = _counted_loop(scope, node)
    try:
        return None if loop is None else _rewrite_counted(scope, loop)
    except Refusal:
        return None


def _counted_loop(scope: Scope, node: ast.AST) -> ast.For | None:
    """Return the `for` whose rounds a number counts, in the call of `range` that it goes through."""
    while isinstance(node, ast.expr):
        parent = scope.parents.get(node)
        if isinstance(parent, ast.For):
            counts = isinstance(node, ast.Call) and isinstance(scope.kind(node.func), k.External)
            return parent if parent.iter is node and counts and ast.unparse(node).startswith("range(") else None
        if parent is None:
            return None
        node = parent
    return None


def _rewrite_counted(scope: Scope, loop: ast.For) -> Rewrite:
    assert isinstance(loop.iter, ast.Call)
    if len(loop.iter.args) != 1 or not isinstance(loop.target, ast.Name):
        raise Refusal(f"{scope.quote(loop.iter)} counts from somewhere; {_BY_HAND}")
    carried = _Carried.of(scope, loop, loop.body)
    bound, number = _bound(scope, loop.iter.args[0]), loop.target.id
    if not any(loads(scope, number)):
        left = scope.fresh_name("left", carried.names)
        return carried.rewrite([_Flag(left, bound, f"{left} - 1", dropped=True)], f"{left} > 0")
    carried.check_counter(number)
    limit = scope.fresh_name("rounds", carried.names)
    carried.before.append(f"{limit} = {bound}")
    start = f"{scope.torch}.zeros_like({limit})"
    return carried.rewrite([_Flag(number, start, f"{number} + 1", dropped=True)], f"{number} < {limit}")


def _bound(scope: Scope, node: ast.expr) -> str:
    """Return a count that is computed in tensors of 64 bits, as Python's numbers never overflow.

    Raises:
        Refusal: it is computed in another way.
    """
    if isinstance(node, ast.BinOp) and type(node.op) in _BOUNDS:
        sides = [_bound(scope, side) for side in (node.left, node.right)]
        for position, side in enumerate((node.left, node.right)):
            sides[position] = f"({sides[position]})" if isinstance(side, ast.BinOp) else sides[position]
        return f"{sides[0]} {_BOUNDS[type(node.op)]} {sides[1]}"
    inner = node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "int" and len(node.args) == 1:
        inner = node.args[0]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "item":
        inner = node.func.value
    tensor = scope.tensor(inner)
    if tensor is not None:
        text = f"{atom(inner, scope.text(inner))}.long()"
        return text if tensor.rank == 0 else f"{text}.reshape(())"
    if inner is node and _is_int(scope.kind(node)):
        return scope.text(node)
    raise Refusal(f"dynalint cannot tell that {scope.quote(node)} is a whole number; {_BY_HAND}")


def _is_int(kind: k.Kind) -> bool:
    return all(isinstance(one, k.Value) and one.type == "int" for one in kind.members)


@dataclass(frozen=True)
class _Flag:
    """Something more that is carried: its name, what it is at first, and what a round makes of it.

    `dropped` tells that nothing reads it after the loop.
    """

    name: str
    start: str
    next: str
    dropped: bool = False


@dataclass
class _Carried:
    """A loop, and the names that a round hands to the next: tensors, and `counters` that are whole numbers.

    `before` are statements that stand in front of the loop.
    """

    scope: Scope
    loop: ast.While | ast.For
    body: list[ast.stmt]
    names: list[str]
    counters: list[str] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, scope: Scope, loop: ast.While | ast.For, body: list[ast.stmt]) -> _Carried:
        """Return what a loop carries.

        Raises:
            Refusal: a round does more than assign.
        """
        if loop.orelse:
            raise Refusal(f"the loop has an `else`; {_BY_HAND}")
        if not body or body[0].lineno == loop.lineno:
            raise Refusal("the body of the loop stands on the line of its header; give it lines of its own")
        if not scope.file.text[scope.file.line_starts[loop.lineno - 1] : scope.file.span(loop)[0]].isspace():
            raise Refusal(f"{scope.quote(loop)} shares its line with another statement; put it on a line of its own")
        if isinstance(scope.function.node, ast.Lambda):
            raise Refusal(f"the loop stands in a lambda; {_BY_HAND}")
        carried = cls(scope, loop, body, [])
        assigned = dict.fromkeys(carried.target(one) for one in body)
        effects_of(scope, [value for one in body if (value := getattr(one, "value", None)) is not None])
        if any(isinstance(node, ast.Global | ast.Nonlocal) for node in walk_function(scope.function.node)):
            raise Refusal(f"the function sets variables that are not its own; {_BY_HAND}")
        for name in assigned:
            if is_bound_before(scope, name, loop):
                carried.names.append(name)
            elif any(not within(node, loop, scope) for node in loads(scope, name)):
                raise Refusal(f"`{name}` gets its first value in the loop; give it one before the loop")
        for name in carried.names:
            carried.take(name)
        if not carried.tensors:
            raise Refusal(f"no tensor goes on from round to round; {_BY_HAND}")
        return carried

    @property
    def tensors(self) -> list[str]:
        """The names of tensors."""
        return [name for name in self.names if name not in self.counters]

    @property
    def tensor(self) -> str:
        """The name of a tensor that is on the device of the loop."""
        return self.tensors[0]

    def target(self, statement: ast.stmt) -> str:
        """Return the one name that a statement of the body assigns to."""
        target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        if isinstance(statement, ast.AnnAssign | ast.AugAssign):
            target = statement.target
        if not isinstance(target, ast.Name) or getattr(statement, "value", None) is None:
            raise Refusal(f"{self.scope.quote(statement)} does more than assign to a name; {_BY_HAND}")
        return target.id

    def take(self, name: str) -> None:
        """Tell tensors from counters.

        Raises:
            Refusal: it is neither, or it is changed in place.
        """
        kind = kind_of_name(self.scope, name, self.loop)
        if k.only_tensor(kind) is not None and as_tensor(kind) is not None:
            if may_change_in_place(self.scope, name):
                raise Refusal(
                    f"`{name}` is changed in place, which `torch.while_loop` does not allow; assign to it anew"
                )
            self.conditions.append(f"`{name}` keeps its shape and type from round to round")
        elif _is_int(kind):
            self.counters.append(name)
            self.check_counter(name)
        else:
            raise Refusal(f"`{name}`, which a round hands to the next, may be no tensor; {_BY_HAND}")

    def check_counter(self, name: str) -> None:
        """Make sure that a number may be a tensor wherever the loop reads it.

        Raises:
            Refusal: something may need a Python number.
        """
        for node in loads(self.scope, name):
            parent = self.scope.parents.get(node)
            fits = isinstance(parent, ast.Compare) or (isinstance(parent, ast.BinOp) and type(parent.op) in _COUNTS)
            if not within(node, self.loop, self.scope):
                if node.lineno > self.loop.lineno:
                    raise Refusal(f"`{name}` is read after the loop, as a Python number; {_BY_HAND}")
            elif not fits:
                raise Refusal(f"line {node.lineno} may need `{name}` as a Python number; {_BY_HAND}")

    def test(self, node: ast.expr) -> tuple[str, bool]:
        """Return a test as a bool tensor, and whether it has no dimensions for certain."""
        if isinstance(node, ast.BoolOp):
            effects_of(self.scope, node.values)
            parts = [self.test(value) for value in node.values]
            sign = " & " if isinstance(node.op, ast.And) else " | "
            return sign.join(f"({text})" for text, _ in parts), all(scalar for _, scalar in parts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            text, scalar = self.test(node.operand)
            return f"~({text})", scalar
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            sides = (node.left, node.comparators[0])
            counted = [side for side in sides if isinstance(side, ast.Name) and side.id in self.counters]
            others = [side for side in sides if side not in counted]
            if counted and all(k.is_number(self.scope.kind(side)) for side in others):
                return self.scope.text(node), True
        truth = truth_of(self.scope, node)
        self.conditions += truth.conditions
        return truth.text, truth.scalar

    def rewrite(self, extra: list[_Flag], test: str, *, always: bool = False) -> Rewrite:
        """Write the loop; `always` tells that it has one round at least."""
        scope, file, loop = self.scope, self.scope.file, self.loop
        own = indentation(file, loop.lineno)
        inner = indentation(file, self.body[0].lineno)
        parameters = [*(one.name for one in extra), *self.names]
        taken: list[str] = list(parameters)
        stems = ("unfinished", "step", "first", "state")
        unfinished, step, first, state = (self._fresh(stem, taken) for stem in stems)
        starts = [one.start for one in extra]
        device = f"device={self.tensor}.device"
        starts += [f"{scope.torch}.tensor({name}, {device})" if name in self.counters else name for name in self.names]
        results = [*(one.next for one in extra), *self.names]
        given = ["_" if one.dropped else one.name for one in extra]
        given += ["_" if name in self.counters else name for name in self.names]
        step_in = inner[len(own) :]
        header = comments(file, file.span(loop)[0], file.span(self.body[0])[0]) or ()
        lines = [
            *(text for _, text in header),
            *self.before,
            *([""] if self.before else ()),
            f"def {unfinished}({', '.join(parameters)}):",
            f"{step_in}return {test}",
            "",
            f"def {step}({', '.join(parameters)}):",
            f"{step_in}{self._body()}",
            f"{step_in}return {_tuple(results)}",
            "",
            f"{first} = {_tuple(starts)}",
            f"if {scope.torch}.compiler.is_compiling():",
            f"{step_in}{_left(given)} = {scope.torch}.while_loop({unfinished}, {step}, {first})",
        ]
        for position, name in enumerate(parameters):
            tensor = as_tensor(kind_of_name(scope, name, loop)) if name in self.tensors else None
            if not always and tensor is not None and tensor.dtype not in ("int", "bool"):
                ran = f"{unfinished}(*{first})"
                lines.append(f"{step_in}{name} = {scope.torch}.where({ran}, {name}, {first}[{position}])")
        lines += [
            "else:",
            f"{step_in}{state} = {first}",
            f"{step_in}while {unfinished}(*{state}):",
            f"{step_in}{step_in}{state} = {step}(*{state})",
            f"{step_in}{_left(given)} = {state}",
        ]
        if file.line(loop.lineno - 1).strip() and lines[0].startswith("def ") and self._follows_statement():
            lines.insert(0, "")
        # All of the line is replaced, so that an empty line stays empty.
        text = file.newline.join(f"{own if line else ''}{line}" for line in lines)
        end = file.span(loop)[1]
        rest = file.text[end:].partition("\n")[0].rstrip("\r")
        if rest.lstrip().startswith("#"):
            end += len(rest)  # a comment that goes with the last statement of a round
        edit = Replacement(file, file.line_starts[loop.lineno - 1], end, text)
        test_of_loop = Settled(file, *file.span(loop.test), True) if always and isinstance(loop, ast.While) else None
        settled = (test_of_loop,) if test_of_loop is not None else ()
        conditions = (_PROTOTYPE, *dict.fromkeys(self.conditions))
        return Rewrite(_TITLE, "unsafe", (edit,), conditions, scope.imports, shown=True, settled=settled)

    def _follows_statement(self) -> bool:
        """Whether the loop is not the first statement of its block."""
        parent = self.scope.parents[self.loop]
        blocks = (getattr(parent, name, None) for name in ("body", "orelse", "finalbody"))
        return not any(isinstance(block, list) and block and block[0] is self.loop for block in blocks)

    def _fresh(self, stem: str, taken: list[str]) -> str:
        name = self.scope.fresh_name(stem, taken)
        taken.append(name)
        return name

    def _body(self) -> str:
        """The text of the rounds, in which counters are assigned to anew."""
        file = self.scope.file
        start, last_line = file.span(self.body[0])[0], self.body[-1].end_lineno or self.body[-1].lineno
        end = file.line_starts[last_line - 1] + len(file.line(last_line))
        if self.body is not self.loop.body:
            # What stands in front of the test that ends the loop goes with the round.
            end = file.span(self.loop.body[len(self.body)])[0]
        text = file.text[start:end].rstrip()
        for one in reversed(self.body):
            if isinstance(one, ast.AugAssign) and isinstance(one.target, ast.Name):
                first, last = file.span(one)
                if type(one.op) not in _COUNTS or not _is_int(self.scope.kind(one.value)):
                    raise Refusal(f"{self.scope.quote(one)} has no equal for a tensor; {_BY_HAND}")
                value = self.scope.text(one.value)
                value = value if isinstance(one.value, ast.Constant) else atom(one.value, value)
                new = f"{one.target.id} = {one.target.id} {_COUNTS[type(one.op)]} {value}"
                text = text[: first - start] + new + text[last - start :]
        return text


def _tuple(parts: list[str]) -> str:
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _left(names: list[str]) -> str:
    return f"({names[0]},)" if len(names) == 1 else ", ".join(names)
