"""Write the statements that select between the branches of a data-dependent `if`."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from dynalint.rulekit import Refusal, Rewrite, k, rw
from dynalint_rules._code.effects import effects_of, effects_of_always
from dynalint_rules._code.memory import is_own
from dynalint_rules._code.names import (
    is_bound_before,
    kind_left,
    kind_of_name,
    may_be_unbound,
    statement_of,
    within,
)
from dynalint_rules._code.raising import raising_conditions
from dynalint_rules._code.scope import Scope, as_tensor
from dynalint_rules._code.selection import refuse_other_breaks
from dynalint_rules._shared.branch.blocks import (
    Assignment,
    Block,
    Chain,
    statements_after,
)
from dynalint_rules._shared.branch.branch_values import (
    FINITE,
    FOR_TENSORS,
    NO_RAISE,
    BranchValue,
    alias_conditions,
    flow_of_numbers,
    flow_of_sum,
    number_conditions,
    reads_of,
    reads_of_number,
    start_conditions,
)
from dynalint_rules._shared.branch.choice import (
    TITLE,
    escaped,
    finished,
    refuse_other_sizes,
    rendered,
    require_tensors,
    with_integers,
    without_zeros,
)
from dynalint_rules._shared.branch.counted import needs_no_test
from dynalint_rules._shared.branch.domain import MOST_GUARDS, Guarded, guarded_apart
from dynalint_rules._shared.branch.not_finite import gradients_of_both
from dynalint_rules._shared.branch.selected_names import SelectionPlan, plan_of
from dynalint_rules._shared.branch.truth import Truth
from dynalint_rules._shared.number.flow import NumberFlow
from dynalint_rules._shared.text import held_together, indentation, inlined, inner_indentation, moved_left

_MOST_REPEATED = 4
_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**", ast.MatMult: "@"}


@dataclass
class Writer:
    """Writes the statements that replace a chain of `if` and `elif`.

    `lines` are these statements, `copies` are the names that they use for changed tensors, and `tests` is the code of
    each test. `unpacked` maps statements to the names that all results of their calls got.
    """

    scope: Scope
    chain: Chain
    python: str | None
    lines: list[str] = field(default_factory=list)
    copies: list[str] = field(default_factory=list)
    tests: list[str] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    guards: list[list[Guarded]] = field(default_factory=list)
    plan: SelectionPlan = field(default_factory=SelectionPlan)
    flow: NumberFlow = field(default_factory=NumberFlow)
    unpacked: dict[ast.stmt, list[str]] = field(default_factory=dict)

    def write(self, truths: Sequence[Truth]) -> None:
        """Write all statements.

        Raises:
            Refusal: If the rewritten code would not be equivalent.
        """
        chain = self.chain
        layers = self._layers()
        if layers and len(chain.tests) > 2:
            raise Refusal(f"every call would run the layers of {len(chain.blocks)} branches; choose one in eager code")
        self.conditions += raising_conditions(self.scope, chain.tests[1:], [bool(truth.scalar) for truth in truths[1:]])
        self.plan = plan_of(self.scope, chain)
        self.guards = [self._guards(block) for block in chain.blocks]
        if sum(not one.least for own in self.guards for one in own) > MOST_GUARDS:
            many = f"more than {MOST_GUARDS} operations are not defined for all inputs"
            raise Refusal(f"{many}; move the branch into a function")
        results = [block.result for block in chain.blocks if block.result is not None]
        choices = len(self.plan.rows) + len(self.plan.temporaries) + _choices(results)
        bind = choices > 1 or any(not one.least for own in self.guards for one in own)
        self._name_tests(truths, bind=bind)
        named = list(self.lines)
        self._write_rows()
        if not self.plan.rows and not self.plan.temporaries and not results:
            raise Refusal("no branch does anything; remove the test")
        if results:
            self.lines.append(f"return {self._result(results)}")
        for line in named:
            if not any(line.partition(" = ")[0] in other for other in self.lines if other is not line):
                self.lines.remove(line)
        if not any(self.tests[0] in line for line in self.lines):
            # If the values are equal in all branches, the test is removed, so it must not have side effects.
            effects_of(self.scope, self.chain.tests[:1])
        if len(self.lines) == 2 and named:
            self.lines = inlined(self.lines[0], self.lines[1:]) or self.lines
        self.conditions += [text for truth in truths for text in truth.selecting_conditions]
        reads = map(self._reads, chain.blocks)
        self.conditions += gradients_of_both(self.scope, chain.tests, reads, layers, chain.head)

    def _layers(self) -> dict[str, None]:
        """Ensure that all blocks, and all tests but the first, can always be evaluated. Return the called layers."""
        effects_of(self.scope, self.chain.tests[1:])
        values = [value for block in self.chain.blocks for value in block.values]
        if any(may_be_unbound(self.scope, value) for value in values if value not in self.scope.composed):
            self.conditions.append(NO_RAISE)
        refuse_other_breaks(self.scope, values, self.chain.head)
        return effects_of_always(self.scope, values, self.chain.head).layers

    def _guards(self, block: Block) -> list[Guarded]:
        values = [one.value for one in block.assignments] + ([] if block.result is None else [block.result])
        return [guarded for value in values for guarded in guarded_apart(self.scope, value)]

    def _name_tests(self, truths: Sequence[Truth], *, bind: bool) -> None:
        """Find the code of each test. A test that is repeated or must not move is first assigned to a name."""
        assigned = {assignment.name for block in self.chain.blocks for assignment in block.assignments}
        for truth in truths:
            text = truth.without_dimensions
            if bind and not (text.isidentifier() and text not in assigned):
                name = self.scope.fresh_name("condition", [*self.tests, *self.plan.temporaries.values()])
                self.lines.append(f"{name} = {held_together(text)}")
                text = name
            self.tests.append(text)

    def _write_rows(self) -> None:
        """Write the assignments. Names that a single block uses keep the order of that block."""
        waiting = [list(block.assignments) for block in self.chain.blocks]
        for name, values in self.plan.rows:
            for index, assignment in enumerate(values):
                if assignment is not None:
                    self._write_temporaries(waiting[index], assignment, index)
            self._write_choice(name, values)
        for index, rest in enumerate(waiting):
            self._write_temporaries(rest, None, index)

    def _write_temporaries(self, waiting: list[Assignment], until: Assignment | None, index: int) -> None:
        while waiting:
            assignment = waiting.pop(0)
            if assignment is until:
                return
            name = self.plan.temporaries[assignment.value]
            value = held_together(self._value(assignment, index))
            if assignment.item is not None and name == assignment.name and isinstance(assignment.statement, ast.Assign):
                name = self.scope.text(assignment.statement.targets[0])
                value = value.removesuffix(f"[{assignment.item}]")
            if assignment.statement not in self.unpacked:
                self.lines.append(f"{name} = {value}")

    def _write_choice(self, name: str, values: list[Assignment | None]) -> None:
        scope, head = self.scope, self.chain.head
        if None in values and not is_bound_before(scope, name, head):
            raise Refusal(f"`{name}` is only assigned in one branch; assign it before the test as well")
        nodes = [one.value if one is not None else ast.Name(name, ast.Load()) for one in values]
        found = needs_no_test(scope, self.chain.tests[0], nodes) if len(values) == 2 else None
        only = values[found[0]] if found is not None else None
        if found is not None and only is not None:
            self.conditions.append(found[1])
            self.lines.append(f"{name} {self._without_test(only, found[0])}")
            return
        if (added := self._added(name, values)) is not None:
            self.lines.append(added)
            return
        sides: list[BranchValue] = []
        texts: list[str] = []
        for index, assignment in enumerate(values):
            if assignment is not None:
                sides.append(BranchValue(assignment.value, scope.kind(assignment.value)))
                texts.append(self.plan.temporaries.get(assignment.value) or self._value(assignment, index))
            else:
                sides.append(BranchValue(None, kind_left(scope, name, head), name))
                texts.append(name)
        if len(set(texts)) == 1:
            self.lines.append(f"{name} = {held_together(texts[0])}")
            return
        if all(k.is_number(side.kind) for side in sides):
            self.flow.add(flow_of_numbers(scope, sides, reads_of_number(scope, name, [head])))
        else:
            self._require_tensors(sides, name)
            written = [side.node for side in sides if side.node is not None]
            texts = with_integers(sides, texts)
            texts = without_zeros(scope, written, texts) if len(written) == len(texts) else texts
        self.lines.append(f"{name} = {self._where(texts)}")

    def _added(self, name: str, values: Sequence[Assignment | None]) -> str | None:
        """Return a sum that adds zero for one side, if the old value may be a number or has other references."""
        scope, index = self.scope, int(values[0] is None)
        only = values[index]
        if len(values) != 2 or values[1 - index] is not None or only is None:
            return None
        total = only.value
        sign = _OPERATORS.get(type(total.op)) if isinstance(total, ast.BinOp) else None
        left = total.left if isinstance(total, ast.BinOp) and sign in ("+", "-") else None
        if not isinstance(total, ast.BinOp) or left in scope.renamed or getattr(left, "id", "") != name:
            return None
        kind, added = kind_of_name(scope, name, only.statement), scope.kind(total.right)
        tensor, whole = as_tensor(added), as_tensor(kind)
        replaced = only.operator is None or is_own(scope, name, only.statement)
        if k.is_number(kind) and k.is_number(added):
            sides = [BranchValue(None, kind, name), BranchValue(total, scope.kind(total))]
            self.flow.add(flow_of_sum(scope, name, sides, [self.chain.head, only.statement]))
        elif tensor is None or (tensor.rank != 0 if whole is None else replaced):
            return None
        elif whole is None:
            self.conditions += start_conditions(scope, name, self.chain.head)
        self.conditions += FOR_TENSORS
        texts = ["0", "0"]
        texts[index] = self._operand(total.right, self._rendered(total.right, index), index)
        target = f"{name} {sign}=" if only.operator is not None else f"{name} = {name} {sign}"
        return f"{target} {self._where(texts)}"

    def _without_test(self, assignment: Assignment, index: int) -> str:
        """Return an assignment after its target, as in `= x` or `+= x`, that has the right value for both sides."""
        sign = _OPERATORS.get(type(assignment.operator)) if assignment.operator is not None else None
        if sign is None or assignment.place is not None:
            text = self.plan.temporaries.get(assignment.value) or self._value(assignment, index)
            return f"= {held_together(text)}"
        self.conditions.append(NO_RAISE)  # a leaf that requires a gradient cannot be changed in place
        text = self._operand(assignment.written, self._rendered(assignment.written, index), index)
        return f"{sign}= {held_together(text)}"

    def _require_tensors(self, sides: Sequence[BranchValue], target: str | None) -> None:
        self.conditions += [*require_tensors(self.scope, sides), *number_conditions(self.scope, sides, self.chain.head)]
        refuse_other_sizes(self.scope, sides)
        self.conditions += FOR_TENSORS
        self.conditions += alias_conditions(self.scope, sides, target, self.chain.head)

    def _value(self, assignment: Assignment, index: int) -> str:
        scope, written = self.scope, assignment.written
        if assignment.place is not None:
            return self._changed(assignment, assignment.place, index)
        if assignment.item is not None:
            return self._item(assignment, assignment.item, index)
        text = self._rendered(written, index)
        if assignment.operator is None:
            return text
        number = k.is_number(kind_of_name(scope, assignment.name, assignment.statement))
        if not number and not is_own(scope, assignment.name, assignment.statement):
            raise Refusal(
                f"{scope.quote(assignment.statement)} modifies the tensor in place, and other references to it "
                f"see the change; if there are none, write it as `{assignment.name} = ...`"
            )
        operator = _OPERATORS.get(type(assignment.operator))
        if operator is None:
            raise Refusal(f"{scope.quote(assignment.statement)} works in place; write it as an assignment first")
        simple = isinstance(written, ast.Constant | ast.Attribute | ast.Call | ast.Subscript) or text.isidentifier()
        old = assignment.name
        if isinstance(assignment.value, ast.BinOp):
            old = self._operand(assignment.value.left, scope.renamed.get(assignment.value.left, old), index)
        text = self._operand(written, text if simple else f"({text})", index)
        return f"{old} {operator} {text}"

    def _item(self, assignment: Assignment, item: int, index: int) -> str:
        """Return one of the results of a call. If more than one is needed, all get names in a statement."""
        statement, text = assignment.statement, self._rendered(assignment.written, index)
        needed = [one for block in self.chain.blocks for one in block.assignments if one.statement is statement]
        if len(needed) == 1:
            return f"{text}[{item}]"
        if statement not in self.unpacked:
            assert isinstance(statement, ast.Assign)
            assert isinstance(statement.targets[0], ast.Tuple)
            inner = {one.item: self.plan.temporaries.get(one.value) for one in needed}
            fresh = ["_"] * len(statement.targets[0].elts)
            for one in needed:
                assert one.item is not None
                fresh[one.item] = inner[one.item] or self.scope.fresh_name(f"new_{one.name}", self.copies)
            self.lines.append(f"{', '.join(fresh)} = {held_together(text)}")
            self.unpacked[statement] = fresh
        return self.unpacked[statement][item]

    def _changed(self, assignment: Assignment, place: ast.expr, index: int) -> str:
        """Write a copy of a tensor with the new element stored in it, and return its name."""
        assert isinstance(assignment.value, ast.Tuple)
        old = self._rendered(assignment.value.elts[0], index)
        name = self.scope.fresh_name("changed", [*self.plan.temporaries.values(), *self.copies])
        self.copies.append(name)
        value = held_together(self._rendered(assignment.written, index))
        self.lines += [f"{name} = {old}.clone()", f"{name}[{self._rendered(place, index)}] = {value}"]
        self.conditions += [NO_RAISE, FINITE]
        return name

    def _operand(self, node: ast.expr, text: str, index: int) -> str:
        """Return the text of an operand. If necessary, it is made harmless where its block is not selected."""
        found = next((one for one in self.guards[index] if one.node is node), None)
        return text if found is None else found.harmless(text, self._guard(index))

    def _rendered(self, node: ast.expr, index: int) -> str:
        """Return the text of an expression in block `index`, with operands harmless where the block is not selected."""
        text = rendered(self.scope, node, self.guards[index], self._guard(index))
        return moved_left(text, statement_of(self.scope, node).col_offset - len(self._indent))

    def _guard(self, *indices: int) -> str:
        """Return a format string for operands whose values only some blocks can use."""
        last = "{operand}" if len(self.tests) in indices else "{safe}"
        runs = itertools.groupby(range(len(self.tests)), lambda index: index in indices)
        for own, run in reversed([(own, [self.tests[index] for index in run]) for own, run in runs]):
            fed = "{operand}" if own else "{safe}"
            last = last if fed == last else f"{self.scope.torch}.where({escaped(' | '.join(run))}, {fed}, {last})"
        return last

    def _result(self, results: list[ast.expr], *, inner: bool = False) -> str:
        """Return the value to return. It is selected as a whole or, for tuple literals of the same length, by item."""
        scope = self.scope
        texts = [self._rendered(result, index) for index, result in enumerate(results)]
        if len(set(texts)) == 1:
            return texts[0]
        rows = [result.elts for result in results if isinstance(result, ast.Tuple)]
        if len(rows) == len(results) and len({len(row) for row in rows}) == 1:
            parts = [self._result(list(cells), inner=True) for cells in zip(*rows, strict=True)]
            text = ", ".join(parts) + ("," if len(parts) == 1 else "")
            return f"({text})" if inner else text
        if len(results) == 2 and (found := needs_no_test(scope, self.chain.tests[0], results)) is not None:
            self.conditions.append(found[1])
            return texts[found[0]]
        sides = [BranchValue(result, scope.kind(result)) for result in results]
        self._require_tensors(sides, None)
        return self._where(without_zeros(scope, results, texts))

    def _where(self, texts: list[str]) -> str:
        """Return the code of `torch.where`, nested once for each test after the first."""
        value = texts[-1]
        for test, text in zip(reversed(self.tests), reversed(texts[:-1]), strict=True):
            value = f"{self.scope.torch}.where({test}, {text}, {value})"
        return value

    @property
    def _indent(self) -> str:
        """The indentation of the new statements."""
        if self.python is not None or self.chain.nested:
            return inner_indentation(self.scope.file, self.chain.head)
        return indentation(self.scope.file, self.chain.head.lineno)

    def _reads(self, block: Block) -> set[str]:
        """Return the tensors with gradients that a block's selected names, or its returned value, depend on."""
        scope, head = self.scope, self.chain.head
        sides = [BranchValue(assignment.value, scope.kind(assignment.value)) for assignment in block.assignments]
        assigned = {assignment.name for assignment in block.assignments}
        if block.result is not None:
            sides.append(BranchValue(block.result, scope.kind(block.result)))
        for name, _ in [] if block.result is not None else self.plan.rows:
            if name not in assigned:
                sides.append(BranchValue(None, kind_left(scope, name, head), name))
        found, known = set[str](), set[str]()
        for side, assignment in itertools.zip_longest(sides, block.assignments):
            found |= reads_of(scope, side, head) - known
            known |= {assignment.name} if assignment is not None else set()
        return found

    def finish(self, python: str | None) -> Rewrite:
        """Return the rewrite."""
        head, last, lines = self.chain.head, self.chain.last, self.lines
        if python is not None:
            step = self._indent.removeprefix(indentation(self.scope.file, head.lineno))
            lines = [f"if {python}:", *(f"{step}{line}" for line in lines)]
        after = statements_after(self.scope, head)
        run = [head, *after[: after.index(last) + 1]] if last in after else [head]
        if python is not None and len(run) > 1:  # the rest of an iteration also runs if the Python part is false
            if len(run) > _MOST_REPEATED:
                raise Refusal(
                    f"the rest of the iteration also runs unless `{python}`; test `{python}` in a separate `if`"
                )
            texts = [moved_left(self.scope.text(one), -len(step)) for one in run[1:]]
            lines += ["else:", *(f"{step}{text}" for text in texts)]
        apart = last is not head and last not in after
        if any(isinstance(use, ast.AST) and within(use, one, self.scope) for use, _ in self.flow.edits for one in run):
            raise Refusal("the number that the branches assign is used between them; use it after the last of them")
        changes = [(head, []), (last, lines)] if apart else [(run, lines)]
        edits = rw.written(self.scope.file, *changes, *self.flow.edits)
        return finished(self.scope, TITLE, edits, self.conditions, self.flow)


def _choices(results: Sequence[ast.expr]) -> int:
    """Return how many selections between results use the test."""
    rows = [result.elts if isinstance(result, ast.Tuple) else [result] for result in results]
    if len({len(row) for row in rows}) != 1:
        return int(bool(rows))
    return sum(len({ast.dump(cell) for cell in cells}) > 1 for cells in zip(*rows, strict=True))
