"""A branch of any shape: each statement in it always runs, and each assignment keeps the old value where it should.

    if t:                           condition = t
        for _ in range(3):          for _ in range(3):
            y = y * 2                   y = torch.where(condition, y * 2, y)

This is for what cannot be written as one expression for each name: loops, Python tests with more in them than plain
assignments, branches in branches of which some return.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from dynalint.analysis import kinds as k
from dynalint.analysis.index import walk_function
from dynalint.analysis.steps import walk
from dynalint.rules import Replacement, Settled
from dynalint_rules._shared.blocks import Assignment, block_of, does_nothing, is_elif, statements_after
from dynalint_rules._shared.changes import Change, Filled, change_of, filled_of, updated_of
from dynalint_rules._shared.checks import is_constant_message
from dynalint_rules._shared.choice import escaped, rendered, require_tensors
from dynalint_rules._shared.counted import Count, count_of
from dynalint_rules._shared.domain import Guarded, guarded_operands
from dynalint_rules._shared.effects import effects_of_always
from dynalint_rules._shared.flow import Flow, Predicate, either_early
from dynalint_rules._shared.harmless import set_apart, used_apart
from dynalint_rules._shared.liveness import has_rounds, is_dead_after
from dynalint_rules._shared.memory import in_one_loop, is_own
from dynalint_rules._shared.names import is_bound_before, kind_left, kind_of_name, loads, within
from dynalint_rules._shared.raising import never_raises, raising_conditions
from dynalint_rules._shared.returned import (
    Place,
    Returned,
    always_returns,
    ends_at_once,
    has_known_rounds,
    insertion,
    lasting,
    opened,
    place_of,
    returns_of,
    returns_openly,
    stands_in_branches,
)
from dynalint_rules._shared.scope import Refusal, Scope
from dynalint_rules._shared.sides import (
    FINITE,
    NO_RAISE,
    SAME_FORM,
    Side,
    alias_conditions,
    gradient_conditions,
    reads_of,
    tensor_conditions,
)
from dynalint_rules._shared.sizes import refuse_other_sizes
from dynalint_rules._shared.stored_state import Store, needs_no_gradient, store_of
from dynalint_rules._shared.text import call, comments, held_together, indentation, inner_indentation
from dynalint_rules._shared.truth import is_tensor_test, truth_of
from dynalint_rules._shared.uncompiled import all_of, asked_of, is_uncompiled, kept_text, settled_by

_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**", ast.MatMult: "@"}
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


@dataclass
class Predicated:
    """Writes one `if` on a tensor, with all that stands in it, as statements that always run.

    `returned` is what the function would have returned, `result` the first such value, None where nothing in the branch
    returns; `returns_surely` tells that all calls have one in the end, `place` where the branch stands if that matters.
    `settled` are tests one side of which is kept as it is, as nothing comes to it.
    `elsewhere` is what has to change outside of it, `changes` what is another thing by nature then, and `leaves` the
    codes of what that leaves to other rules.
    """

    scope: Scope
    head: ast.If
    lines: list[str] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    copied: list[ast.expr] = field(default_factory=list)
    layers: dict[str, None] = field(default_factory=dict)
    elsewhere: dict[Replacement, None] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)
    leaves: tuple[str, ...] = ()
    returned: Returned = field(default_factory=Returned)
    returns_surely: bool = False
    place: Place | None = None
    result: ast.expr | None = None
    settled: list[Settled] = field(default_factory=list)
    _names: list[str] = field(default_factory=list)
    _kept: list[tuple[int, int]] = field(default_factory=list)
    _reads: set[str] = field(default_factory=set)
    _around: list[tuple[ast.If, set[str]]] = field(default_factory=list)
    _indent: str = ""
    _known: dict[ast.If, Predicate] = field(default_factory=dict)
    _ways: dict[ast.If, Predicate] = field(default_factory=dict)
    _returns: int = 0
    _values: int = 0

    def write(self) -> bool:
        """Write everything; return whether every way through the branch returns.

        Raises:
            Refusal: the new code would not do the same.
        """
        scope, head = self.scope, self.head
        own = is_elif(scope, head)
        self._indent = inner_indentation(scope.file, head) if own else indentation(scope.file, head.lineno)
        stored = stored_in([head])
        for node in walk(scope.function.node):
            if isinstance(node, ast.Global | ast.Nonlocal) and not stored.isdisjoint(node.names):
                raise Refusal("a branch assigns to a name of an outer scope; compute what it gets before the branch")
        before = {name for name in scope.function.locals if is_bound_before(scope, name, head)}
        flow = Flow(before, set(before), set())
        predicate = self._open_result(flow) if returns_openly(scope, head) else None
        self._set_apart(predicate, flow)
        self._if(head, predicate, flow)
        self.returns_surely = flow.early == "some" and self.place is None
        if not self._values:
            raise Refusal("a branch does nothing that could be chosen")
        for name in () if flow.ended else stored - (flow.bound & flow.written):
            if not is_dead_after(scope, name, head) and any(map(self._may_follow, self._reads_of(name))):
                raise Refusal(f"`{name}` gets a value on one side only; give it one before the test")
        if flow.ended:
            parts = self.returned.parts
            self._emit(f"return {', '.join(parts)}{',' * (self._is_tuple and len(parts) == 1)}")
        self.conditions += gradient_conditions([set(), self._reads - stored], self.layers)
        return flow.ended

    def replacement(self) -> Replacement:
        """Return the new code in the place of the `if`, with the comments of the branches above it."""
        file, head = self.scope.file, self.head
        start, end = file.span(head)
        found = comments(file, start, end)
        if found is None:
            raise Refusal("the branch cannot be taken apart as text; choose with `torch.where` by hand")
        spans = [*map(file.span, self.copied), *self._kept]
        loose = [text for offset, text in found if not any(left <= offset < right for left, right in spans)]
        nested = is_elif(self.scope, head)
        indent = inner_indentation(file, head) if nested else indentation(file, head.lineno)
        body = file.newline.join([*(indent + text for text in loose), *self.lines])
        return Replacement(file, start, end, f"else:{file.newline}{body}" if nested else body[len(indent) :])

    @property
    def _is_tuple(self) -> bool:
        return isinstance(self.result, ast.Tuple)

    def _emit(self, text: str) -> None:
        self.lines.append(self._indent + text)

    def _name(self, stem: str, text: str) -> Predicate:
        """Give a predicate a name of its own."""
        name = self.scope.fresh_name(stem, self._names)
        self._names.append(name)
        self._emit(f"{name} = {held_together(text)}")
        return Predicate(name)

    def _block(self, body: Sequence[ast.stmt], predicate: Predicate, flow: Flow) -> None:
        for statement in body:
            if flow.ended:
                return
            returns = self._returns
            self._statement(statement, predicate, flow)
            if self._returns > returns and statement is not body[-1] and not flow.ended:
                predicate = self._going_on(predicate)

    def _going_on(self, predicate: Predicate) -> Predicate:
        return self._name("going_on", f"{predicate.text} & ~{self.returned.mask}")

    def _statement(self, statement: ast.stmt, predicate: Predicate, flow: Flow) -> None:
        if isinstance(statement, ast.If):
            self._if(statement, predicate, flow)
        elif isinstance(statement, ast.For):
            self._for(statement, predicate, flow)
        elif isinstance(statement, ast.Return):
            self._return(statement, predicate, flow)
        elif isinstance(statement, ast.Assert) and is_tensor_test(self.scope, statement.test):
            self._assert(statement, predicate, flow)
        elif isinstance(statement, ast.Delete):
            self._delete(statement, flow)
        elif isinstance(statement, ast.Break | ast.Continue) and self._leaves_evenly(statement):
            self._emit(self.scope.text(statement))
            flow.ended = flow.jumped = True
        elif (change := change_of(self.scope, statement)) is not None:
            self._change(change, predicate, flow)
        elif (store := store_of(self.scope, statement)) is not None:
            self._store(store, predicate, flow)
        elif (filled := filled_of(self.scope, statement) or updated_of(self.scope, statement)) is not None:
            self._fill(filled, predicate, flow)
        else:
            self._assignments(statement, predicate, flow)

    def _assignments(self, statement: ast.stmt, predicate: Predicate, flow: Flow) -> None:
        assignments = block_of(self.scope, [statement]).assignments
        if assignments and all(map(self._is_returned_past, assignments)):
            self._leave_out(assignments, flow)
            return
        texts = [self._value(one, predicate, flow) for one in assignments]
        if len(texts) > 1:  # none of them may see what another one assigns
            texts = [self._name(one.name, text).name for one, text in zip(assignments, texts, strict=True)]
        for one, text in zip(assignments, texts, strict=True):
            self._assign(one, text, predicate, flow)

    def _is_returned_past(self, one: Assignment) -> bool:
        """Whether the function returns behind an assignment, and nothing asks for what that gives."""
        after = statements_after(self.scope, one.statement)
        dead = bool(after) and always_returns(after) and is_dead_after(self.scope, one.name, one.statement)
        return dead and one.operator is None

    def _leave_out(self, assignments: Sequence[Assignment], flow: Flow) -> None:
        """Do without what nothing asks for, if it does nothing else."""
        for one in assignments:
            self._check(one.value, flow)
            if not never_raises(self.scope, one.value):
                self.conditions.append(f"{self.scope.quote(one.value)} raises nothing")

    def _if(self, statement: ast.If, predicate: Predicate | None, flow: Flow) -> None:
        scope = self.scope
        values = statement.test.values if isinstance(statement.test, ast.BoolOp) else [statement.test]
        tensors = [is_tensor_test(scope, value) for value in values]
        if all(tensors) or not any(tensors):
            write = self._tensor_if if tensors[0] else self._python_if
            write(statement, statement.test, predicate, flow)
            return
        first = tensors.index(True)
        assert isinstance(statement.test, ast.BoolOp)
        plain = isinstance(statement.test.op, ast.And) and all(tensors[first:]) and first
        if not plain or statement.orelse or (statement is self.head and returns_of(statement)):
            shown = scope.quote(values[tensors.index(False)])
            raise Refusal(f"{shown} is no tensor and decides together with one; test it in an `if` of its own")
        parts = [_joined(statement.test, part) for part in (values[:first], values[first:])]
        self._check(parts[0], flow)
        inner = flow.copy()
        self._emit(f"if {all_of(scope, values[:first])}:")
        with self._inside():
            self._tensor_if(statement, parts[1], predicate, inner)
        flow.join(inner, flow.copy())

    def _set_apart(self, predicate: Predicate | None, flow: Flow) -> None:
        """Compute once more what only some sides use of what was computed before, if that is asked for."""
        scope, chain = self.scope, [self.head]
        self.scope = replace(scope, recomputes="")
        while len(rest := chain[-1].orelse) == 1 and isinstance(rest[0], ast.If) and _is_on_tensors(scope, rest[0]):
            chain.append(rest[0])
        sides = [*(one.body for one in chain), chain[-1].orelse]
        if not scope.recomputes or not _is_on_tensors(scope, self.head):
            return
        apart = used_apart(scope, self.head, sides)
        if not apart:
            return
        for one in chain:
            self._known[one] = taken = self._taken(one, one.test, predicate, flow)
            if one is not chain[-1]:
                predicate = self._ways[one] = self._otherwise(predicate, taken)
        for line in set_apart(scope, apart, [self._known[one].text for one in chain]):
            self._emit(line)

    def _tensor_if(self, statement: ast.If, test: ast.expr, predicate: Predicate | None, flow: Flow) -> None:
        taken = self._known.get(statement) or self._taken(statement, test, predicate, flow)
        self._around.append((statement, set(flow.bound)))
        one = flow.copy()
        self._block(statement.body, taken, one)
        other = Flow(set(flow.bound), one.written, one.touched, early=one.early)
        if not all(does_nothing(self.scope, one) for one in statement.orelse):
            self._block(statement.orelse, self._ways.get(statement) or self._otherwise(predicate, taken), other)
        self._around.pop()
        flow.join(one, other)
        flow.written, flow.early = other.written, other.early

    def _taken(self, statement: ast.If, test: ast.expr, predicate: Predicate | None, flow: Flow) -> Predicate:
        """Return what tells that the body of an `if` is taken, under a name."""
        scope = self.scope
        if statement is not self.head:
            self._check(test, flow)
        truth = truth_of(scope, test)
        self.conditions += truth.conditions
        if statement is not self.head:
            asked = [test] if test in scope.parents or not isinstance(test, ast.BoolOp) else test.values
            self.conditions += raising_conditions(scope, asked, [truth.scalar] * len(asked))
        self.copied.append(test)
        text = truth.without_dimensions
        if predicate is not None:
            text = f"{predicate.text} & {truth.operand if truth.scalar else text}"
        stays = text.isidentifier() and self._is_stored_once(text)
        return Predicate(text) if stays else self._name("condition", text)

    def _otherwise(self, predicate: Predicate | None, taken: Predicate) -> Predicate:
        """Return what tells that the other side of an `if` is taken."""
        if predicate is None:
            return taken.opposite
        return self._name("otherwise", f"{predicate.text} & {taken.opposite.text}")

    def _open_result(self, flow: Flow) -> Predicate | None:
        """Begin with no result; return what then tells that the function has not returned in an earlier round."""
        scope, head, returned = self.scope, self.head, self.returned
        value = returns_of(head)[0].value
        for _ in parts_of(value) if value is not None else ():
            returned.parts.append(scope.fresh_name("early", [*self._names, *returned.parts]))
        returned.mask, returned.open = scope.fresh_name("returned", self._names), True
        self._names += [returned.mask, *returned.parts]
        after = statements_after(scope, head)
        if always_returns([head]) or (stands_in_branches(scope, head) and after and always_returns(after)):
            made, conditions = opened(scope, head, returned)
            self.conditions += conditions
            for line in made:
                self._emit(line)
            return None
        self.place = place = place_of(scope, head)
        made, conditions = opened(scope, place.anchor, returned)
        self.conditions += conditions
        self.elsewhere[insertion(scope, place.anchor, made)] = None
        flow.early = "maybe" if place.looped else "none"
        return Predicate(returned.mask, negative=True) if place.looped else None

    def _python_if(self, statement: ast.If, test: ast.expr, predicate: Predicate | None, flow: Flow) -> None:
        """A test of a Python value stays; what stands under it is as predicated as it was."""
        scope = self.scope
        if predicate is None:
            raise Refusal(f"{scope.quote(test)} is no tensor")
        ways = [flow.copy(), flow.copy()]
        if not statement.orelse and is_uncompiled(scope, statement, statement.body):
            asked, late = asked_of(scope, test)
            for part in asked:
                self._check(part, flow)
            self._keep(f"if {all_of(scope, [*asked, predicate.text, *late])}:", statement, statement.body, ways[0])
            flow.join(*ways)
            return
        self._check(test, flow)
        keywords = f"if {held_together(scope.text(test))}:", "else:"
        for way, keyword, body in zip(ways, keywords, (statement.body, statement.orelse), strict=True):
            kept = is_uncompiled(scope, statement, body)
            if kept and body is statement.orelse:
                self._keep(f"elif {predicate.text}:", statement, body, way)
            elif body:
                self._emit(keyword)
                with self._inside():
                    if kept:
                        self._keep(f"if {predicate.text}:", statement, body, way)
                    else:
                        self._block(body, predicate, way)
        flow.join(*ways)

    def _keep(self, keyword: str, statement: ast.If, block: list[ast.stmt], flow: Flow) -> None:
        """Leave one block of a statement as it is, which no compiled run comes to."""
        self._values += 1
        self.settled += settled_by(self.scope, statement, block)
        self._kept.append((self.scope.file.span(block[0])[0], self.scope.file.span(block[-1])[1]))
        self._emit(keyword)
        with self._inside():
            self.lines.append(kept_text(self.scope, block, self._indent))
        names = [node for statement in block for node in walk(statement) if isinstance(node, ast.Name)]
        flow.touched |= {node.id for node in names if isinstance(node.ctx, ast.Store)}
        flow.bound -= {node.id for node in names if isinstance(node.ctx, ast.Del)}

    def _for(self, loop: ast.For, predicate: Predicate, flow: Flow) -> None:
        scope = self.scope
        if ends_at_once(scope, loop):
            self._block(loop.body, predicate, flow)
            return
        targets = stored_in([loop.target])
        if not has_known_rounds(scope, loop):
            raise Refusal(f"{scope.quote(loop.iter)} may have other rounds in other calls; move the loop out")
        reads = {node.id for node in walk(loop.iter) if isinstance(node, ast.Name)}
        if loop.orelse or not reads.isdisjoint(stored_in([self.head])) or not targets.isdisjoint(stored_in(loop.body)):
            raise Refusal("a branch holds a loop whose rounds depend on it; move the loop out of the branch")
        if any(not within(node, loop, scope) for name in targets for node in loads(scope, name)):
            raise Refusal("a branch holds a loop whose last round is asked for elsewhere; move the loop out of it")
        self._check(loop.iter, flow)
        returns = returns_of(loop)
        early = either_early(flow.early, "maybe") if returns and flow.early != "some" else flow.early
        inner = Flow(flow.bound | targets, flow.written | targets, set(flow.touched), early=early)
        self._emit(f"for {scope.text(loop.target)} in {scope.text(loop.iter)}:")
        with self._inside():
            self._block(loop.body, self._going_on(predicate) if returns else predicate, inner)
        flow.touched |= inner.touched | inner.written
        jumps = any(isinstance(node, ast.Break | ast.Continue) for node in walk_function(loop))
        flow.early = inner.early if returns and has_rounds(loop.iter) and not jumps else early

    @contextmanager
    def _inside(self) -> Iterator[None]:
        """Write the body of a statement that stays."""
        indent, count = self._indent, len(self.lines)
        self._indent += "\t" if indent.endswith("\t") else "    "
        yield
        if len(self.lines) == count:
            self._emit("pass")
        self._indent = indent

    def _leaves_evenly(self, statement: ast.stmt) -> bool:
        """Whether a `break` or `continue` is one of a loop in the branch, and no tensor in that loop decides on it."""
        node: ast.AST = statement
        while node is not self.head:
            node = self.scope.parents[node]
            if isinstance(node, ast.For):
                return True
            if isinstance(node, ast.If) and is_tensor_test(self.scope, node.test):
                break
        return False

    def _assert(self, statement: ast.Assert, predicate: Predicate, flow: Flow) -> None:
        """Assert on every call that the branch is not taken or what it asserts there holds."""
        scope = self.scope
        if not is_constant_message(statement.msg):
            raise Refusal(f"the message of {scope.quote(statement)} is made when it fails; make it constant first")
        self._check(statement.test, flow)
        truth = truth_of(scope, statement.test)
        self.conditions += [*truth.conditions, *raising_conditions(scope, [statement.test], [truth.scalar])]
        self.copied += [statement.test, *([statement.msg] if statement.msg is not None else [])]
        self._values += 1
        message = "" if statement.msg is None else f", {scope.text(statement.msg)}"
        # `~` of what `any()` gives for bytes is never zero.
        missed = predicate.name if predicate.negative else f"{scope.torch}.logical_not({predicate.name})"
        self._emit(f"assert {missed} | {truth.operand}{message}")

    def _delete(self, statement: ast.Delete, flow: Flow) -> None:
        """Keep what the branch would let go of, which nothing asks for any more."""
        for target in statement.targets:
            if not isinstance(target, ast.Name) or target.id not in flow.bound:
                raise Refusal(f"{self.scope.quote(statement)} may find nothing to delete; choose by hand")
            flow.bound.discard(target.id)

    def _return(self, statement: ast.Return, predicate: Predicate, flow: Flow) -> None:
        scope, value = self.scope, statement.value
        if value is None or (isinstance(value, ast.Constant) and value.value is None):
            raise Refusal("one side returns None; return a tensor on both sides, or decide outside the compiled code")
        self._check(value, flow)
        self._values += 1
        parts, first = parts_of(value), self.result
        if first is not None and (len(parts_of(first)) != len(parts) or self._is_tuple != isinstance(value, ast.Tuple)):
            raise Refusal(f"{scope.quote(statement)} returns something of another form than before; make them alike")
        if self.returned.open and len(self.returned.parts) != len(parts):
            raise Refusal(f"{scope.quote(statement)} returns another number of values than elsewhere; make them alike")
        self._reads |= reads_of(scope, Side(value, scope.kind(value)), self.head)
        self.copied.append(value)
        texts = [lasting(scope, part, self._rendered(part, predicate), self.head) for part in parts]
        self.result = first or value
        pairs = zip(parts_of(self.result), parts, strict=True)
        sides = [[Side(node, scope.kind(node)) for node in nodes] for nodes in pairs]
        write = self._return_openly if self.returned.open else self._return_once
        write(texts, sides, predicate, flow)
        self._returns += 1
        flow.ended, flow.early = True, "some"

    def _return_once(self, texts: list[str], sides: list[list[Side]], predicate: Predicate, flow: Flow) -> None:
        """Note a result that all calls come to."""
        returned = self.returned
        if returned.mask is None:
            returned.parts = [self._name("early", text).name for text in texts]
            returned.mask = self._name("returned", predicate.text).name if predicate.negative else predicate.name
            return
        for name, text, own in zip(returned.parts, texts, sides, strict=True):
            self._choose(name, text, Predicate(returned.mask, negative=True), own)
        returned.mask = self._name("returned", f"{returned.mask} | {predicate.text}").name

    def _return_openly(self, texts: list[str], sides: list[list[Side]], predicate: Predicate, flow: Flow) -> None:
        """Note a result that some calls come to, or some rounds."""
        mask = self.returned.mask
        assert mask is not None
        for name, text, own in zip(self.returned.parts, texts, sides, strict=True):
            if flow.early == "none":
                self._emit(f"{name} = {held_together(text)}")
            elif flow.early == "some":
                self._choose(name, text, Predicate(mask, negative=True), own)
            else:
                latest = text if text.isidentifier() else self._name("result", text).name
                self._choose(name, latest, Predicate(mask, negative=True), own, unless=f"{latest} if {name} is None")
        self._emit(f"{mask} = {mask} | {predicate.text}")

    def _value(self, one: Assignment, predicate: Predicate, flow: Flow) -> str:
        """Return the text of what is assigned."""
        scope, written = self.scope, one.written
        self._check(written, flow)
        self._values += 1
        self.copied.append(written)
        self._reads |= reads_of(scope, Side(one.value, scope.kind(one.value)), self.head)
        if one.operator is None:
            return self._rendered(written, predicate)
        if one.name not in flow.bound:
            raise Refusal(f"`{one.name}` may have no value yet; give it one before the test")
        operator = _OPERATORS.get(type(one.operator))
        number = k.is_number(kind_of_name(scope, one.name, one.statement))
        if not number and not is_own(scope, one.name, one.statement):
            raise Refusal(f"{scope.quote(one.statement)} changes the tensor in place, for whoever else holds it too")
        if operator is None:
            raise Refusal(f"{scope.quote(one.statement)} works in place; write it as an assignment first")
        guards, guard = guarded_operands(scope, one.value), self._guard(predicate)
        safe = {own.node: own.safe for own in guards if isinstance(own, Guarded)}
        text = rendered(scope, written, guards, guard)
        simple = isinstance(written, ast.Constant | ast.Attribute | ast.Call | ast.Subscript) or text.isidentifier()
        text = guard.format(operand=text, safe=safe[written]) if written in safe else text if simple else f"({text})"
        left = one.value.left if isinstance(one.value, ast.BinOp) else None
        old = guard.format(operand=one.name, safe=safe[left]) if left in safe else one.name
        return f"{old} {operator} {text}"

    def _change(self, change: Change, predicate: Predicate, flow: Flow) -> None:
        """Write what changes a tensor as a new one."""
        scope = self.scope
        self._values += 1
        for value in change.values:
            self._check(value, flow)
            if guarded_operands(scope, value) and not _may_be_infinite(scope, value, change.statement):
                raise Refusal(f"{scope.quote(change.statement)} is not defined for all inputs; do it out of place")
        self.copied += change.values
        self._reads |= {
            name for value in change.values for name in reads_of(scope, Side(value, scope.kind(value)), self.head)
        }
        text = change.text
        if change.by_index:
            copied = scope.fresh_name("changed", self._names)
            self._names.append(copied)
            self._emit(f"{copied} = {change.name}.clone()")
            self._emit(f"{copied}{text}")
            text = copied
        self._emit(f"{change.name} = {self._where(predicate.ordered(text, change.name), change.name)}")
        self.conditions += [SAME_FORM, NO_RAISE, FINITE]

    def _store(self, store: Store, predicate: Predicate, flow: Flow) -> None:
        """Store on every call, what was there before where the branch is not taken."""
        self._check(store.value, flow)
        if store.index is not None:
            self._check(store.index, flow)
        self._values += 1
        self.copied.append(store.value)
        if store.edits:
            self.elsewhere.update(dict.fromkeys(store.edits))
            attribute = store.target.rpartition(".")[2]
            self.conditions.append(f"nothing outside this project reads or sets `{attribute}` as a Python bool")
            arguments = predicate.ordered(self.scope.text(store.value), store.target)
            self._emit(f"{store.target} = {self._where(arguments, store.target)}")
            return
        text = self._rendered(store.value, predicate)
        if store.sign:
            simple = isinstance(store.value, ast.Name | ast.Constant | ast.Attribute | ast.Call | ast.Subscript)
            text = f"{store.target} {store.sign} {text if simple else f'({text})'}"
        old = Side(None, store.old, store.target)
        new = Side(None, store.old, None) if store.sign else Side(store.value, self.scope.kind(store.value))
        if store.index is None:
            self._choose(store.target, text, predicate, [new, old])
            return
        self.conditions += [
            *tensor_conditions(self.scope, [new, old]),
            f"no gradient needs what was in `{store.target}`",
        ]
        self._emit(f"{store.target} = {self._where(predicate.ordered(text, store.target), store.target)}")

    def _fill(self, filled: Filled, predicate: Predicate, flow: Flow) -> None:
        """Write on every call, what was there before where the branch is not taken."""
        scope, target = self.scope, self.scope.text(filled.target)
        self._check(filled.target, flow)
        for value in filled.values:
            self._check(value, flow)
        self._values += 1
        self.copied += [filled.target, *filled.values]
        self.conditions += [SAME_FORM, NO_RAISE]
        if not filled.hidden:
            if not all(needs_no_gradient(scope, value, filled.statement) for value in filled.values):
                raise Refusal(f"`{target}` would keep the graph of what is stored on every call; store its `.detach()`")
            self.conditions.append(f"no gradient needs what was in `{target}`")
        chosen = f"{scope.torch}.where({', '.join(predicate.ordered(filled.text, target))})"
        column, newline = len(self._indent), scope.file.newline
        self._emit(call(f"{target}.copy_", [chosen], column=column, indent=self._indent, newline=newline))

    def _assign(self, one: Assignment, text: str, predicate: Predicate, flow: Flow) -> None:
        scope, name = self.scope, one.name
        if not self._is_needed(one) or name not in flow.written | flow.touched:
            self._emit(f"{name} = {held_together(text)}")
        elif name in flow.written and (count := count_of(scope, one, self.head)) is not None:
            self._count(name, text, predicate, count)
        elif name in flow.written:
            sides = [Side(one.value, scope.kind(one.value)), Side(None, kind_left(scope, name, self.head), name)]
            self._choose(name, text, predicate, sides)
        else:
            raise Refusal(f"`{name}` gets a value on one side only; give it one before the test")
        flow.bind(name)

    def _count(self, name: str, text: str, predicate: Predicate, count: Count) -> None:
        """Add to a count that is a tensor from where it begins."""
        self.elsewhere.update(dict.fromkeys(count.edits))
        self.changes += count.flow.changes
        self.conditions += count.flow.conditions
        self.leaves = self.leaves or count.flow.leaves
        self._emit(f"{name} = {self._where(predicate.ordered(text, name), name)}")

    def _choose(self, name: str, text: str, predicate: Predicate, sides: Sequence[Side], unless: str = "") -> None:
        scope = self.scope
        self.conditions += require_tensors(scope, sides)
        refuse_other_sizes(scope, sides)
        self.conditions += tensor_conditions(scope, sides)
        self.conditions += alias_conditions(scope, sides, name, self.head)
        before = f"{unless} else " if unless else ""
        self._emit(f"{name} = {before}{self._where(predicate.ordered(text, name), name + before)}")

    def _where(self, arguments: Sequence[str], name: str) -> str:
        column = len(self._indent) + len(name) + 3
        where = f"{self.scope.torch}.where"
        return call(where, arguments, column=column, indent=self._indent, newline=self.scope.file.newline)

    def _may_follow(self, node: ast.Name) -> bool:
        """Whether a place that reads a name may be reached after the branch."""
        scope, head = self.scope, self.head
        if within(node, head, scope):
            return False
        inner = node not in set(walk_function(scope.function.node))
        return inner or _in_loop(scope, head) or node.lineno > (head.end_lineno or head.lineno)

    def _reads_of(self, name: str) -> list[ast.Name]:
        """Return the places that ask for what a name holds, `name += 1` with the others."""
        changed = (node.target for node in walk(self.scope.function.node) if isinstance(node, ast.AugAssign))
        own = [target for target in changed if isinstance(target, ast.Name) and target.id == name]
        return [*loads(self.scope, name), *own]

    def _is_needed(self, one: Assignment) -> bool:
        """Whether a way on which an assignment does not run may need what the name held before."""
        scope, head, name = self.scope, self.head, one.name
        reads = self._reads_of(name)
        if is_dead_after(scope, name, head):
            reads = [node for node in reads if within(node, head, scope)]
        own, start = set(walk_function(scope.function.node)), (one.statement.lineno, one.statement.col_offset)
        if all(node in own for node in reads):
            later = ((node.lineno, node.col_offset) >= start for node in reads)
            reads = [
                node
                for node, after in zip(reads, later, strict=True)
                if after or in_one_loop(scope, node, one.statement)
            ]
            if not reads:
                return False
        return any(
            name in bound or any(not within(node, branch, scope) for node in reads) for branch, bound in self._around
        )

    def _is_stored_once(self, name: str) -> bool:
        walked = walk(self.scope.function.node)
        return (
            sum(isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Store) for one in walked) < 2
        )

    def _check(self, value: ast.expr, flow: Flow) -> None:
        """Make sure that an expression may always be evaluated."""
        scope = self.scope
        self.layers |= effects_of_always(scope, [value], self.head).layers
        own = stored_in([value])
        for node in walk(value):
            if isinstance(node, ast.Lambda):
                raise Refusal(f"{scope.quote(node)} may run later, when its names mean something else")
            if isinstance(node, ast.IfExp) and is_tensor_test(scope, node.test):
                raise Refusal(f"{scope.quote(node.test)} in the branch is another test; rewrite that one first")
            if isinstance(node, ast.Name) and node.id in scope.function.locals - own - (flow.bound & flow.written):
                raise Refusal(f"`{node.id}` may have no value yet; give it one before the test")

    def _rendered(self, node: ast.expr, predicate: Predicate) -> str:
        return rendered(self.scope, node, guarded_operands(self.scope, node), self._guard(predicate))

    def _guard(self, predicate: Predicate) -> str:
        """A format for operands that are as they are only where a predicate holds."""
        arguments = [escaped(predicate.name), *predicate.ordered("{operand}", "{safe}")[1:]]
        return f"{self.scope.torch}.where({', '.join(arguments)})"


def _is_on_tensors(scope: Scope, statement: ast.If) -> bool:
    """Whether nothing but tensors decide in an `if`."""
    values = statement.test.values if isinstance(statement.test, ast.BoolOp) else [statement.test]
    return all(is_tensor_test(scope, value) for value in values)


def parts_of(value: ast.expr) -> list[ast.expr]:
    """Return the parts of a tuple that is written out, or the value alone."""
    return list(value.elts) if isinstance(value, ast.Tuple) else [value]


def stored_in(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that some nodes assign to."""
    return {
        child.id
        for node in nodes
        for child in walk(node)
        if isinstance(child, ast.Name) and not isinstance(child.ctx, ast.Load)
    }


def _may_be_infinite(scope: Scope, value: ast.expr, statement: ast.stmt) -> bool:
    """Whether a value that is not chosen does no harm by not being finite: no gradient comes back through it."""
    divisions = all(
        not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.FloorDiv | ast.Mod) for node in walk(value)
    )
    return divisions and needs_no_gradient(scope, value, statement)


def _joined(test: ast.BoolOp, values: list[ast.expr]) -> ast.expr:
    if len(values) == 1:
        return values[0]
    joined, last = ast.copy_location(ast.BoolOp(test.op, values), values[0]), values[-1]
    joined.end_lineno, joined.end_col_offset = last.end_lineno, last.end_col_offset
    return joined


def _in_loop(scope: Scope, node: ast.AST) -> bool:
    while node is not scope.function.node:
        node = scope.parents[node]
        if isinstance(node, _LOOPS):
            return True
    return False
