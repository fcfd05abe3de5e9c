"""DYN103: `and`, `or`, `not` and chained comparisons of tensors, used as values."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Branch, Event
from dynalint.analysis.project import Project
from dynalint.analysis.source import quote
from dynalint.rules import Declined, Example, Replacement, Rewrite, Rule, Violation
from dynalint_rules._shared.choice import finished, target_of, uses_of_expression
from dynalint_rules._shared.decision import Decision, asks_tensor, decision_of, operand_of, thing
from dynalint_rules._shared.effects import effects_of_always, is_pure
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.mixed_sides import mixed_conditions
from dynalint_rules._shared.raising import raising_conditions
from dynalint_rules._shared.scope import Refusal, Scope, as_tensor
from dynalint_rules._shared.sides import Side, alias_conditions, gradient_conditions, reads_of, tensor_conditions
from dynalint_rules._shared.text import atom
from dynalint_rules._shared.truth import truth_of

TITLE = "Use tensor operations instead of `and`, `or` and chained comparisons"
_WORDS = {"chained-comparison": "this chained comparison"}


class BoolOperatorOnTensor(Rule):
    """`and`, `or`, `not` and `a < b < c` ask their operands whether they are true, even where no branch follows.

    ## What it flags

    The operators `and`, `or` and `not` on a tensor, and a chained comparison of one, whose result is used as a value:
    assigned, returned, passed on, computed with. The operand that is asked for its truth is flagged. The last operand
    of a value `a and b` is not asked.

    In a test (`if a and b:`) the same operators belong to the rule of that test, DYN101 for `if`.

    ## Why

    `a and b` is `b if a else a`: Python has to know whether `a` is true before it goes on, so Dynamo breaks the graph
    there as it does for an `if`. `not` always gives a Python bool; there Dynamo gives up the whole function.

    ## Example

    ```python
    def forward(self, x):
        inside = 0 < x.mean() < 1
        return x * inside
    ```

    Use instead:

    ```python
    def forward(self, x):
        inside = (0 < x.mean()) & (x.mean() < 1)
        return x * inside
    ```

    ## How it is rewritten

    `and` and `or` of bool tensors become `&` and `|`, other tensors are chosen between with `torch.where`. A chained
    comparison becomes its links joined by `&`, with the operand in the middle written twice. `not` as a value is left:
    it gives a Python bool, and `torch.logical_not` would give a tensor to code that may need a bool.

    ## When the rewrite is not exact

    All operands are evaluated, where Python would have stopped early; the rewrite is declined if that could be told,
    and `conditional` where an operand may raise that Python would not have come to (`m.any() and x[m].max() > 1`).
    For tensors that are not of one element Python raises an error and the rewrite does not. Where the operands may be
    of different dtypes or shapes, `torch.where` brings them to a common one; that they are not has to be shown by
    running it.

    ## How Dynamo words it

    GB0170, "Data-dependent branching", for `and`, `or` and chained comparisons; GB0033, "Data dependent operator", for
    `not`: "Operator `aten._local_scalar_dense.default` has a non-Tensor output whose value is dependent on the data of
    Tensor inputs."

    ## References

    - https://docs.python.org/3/reference/expressions.html#boolean-operations
    - https://docs.pytorch.org/docs/stable/generated/torch.logical_and.html
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0170.html
    """

    code = "DYN103"
    name = "bool-operator-on-tensor"
    summary = "`and`, `or`, `not` or a chained comparison of tensors as a value"
    gb = ("GB0170", "GB0033")
    events = (Branch,)

    examples = (
        Example(
            "chained comparison",
            forward("""
                inside = 0 < x.mean() < 2  # DYN103
                return x * inside
            """),
            fixed=forward("""
                inside = (0 < x.mean()) & (x.mean() < 2)
                return x * inside
            """),
        ),
        Example(
            "and of bool tensors",
            forward("""
                both = (x.sum() > 0) and (x.max() < 2)  # DYN103
                return x * both
            """),
            fixed=forward("""
                both = (x.sum() > 0) & (x.max() < 2)
                return x * both
            """),
        ),
        Example(
            "or, in an argument",
            forward("return torch.logical_not(x.sum() > 0 or x.min() > -2) * x  # DYN103"),
            fixed=forward("return torch.logical_not((x.sum() > 0) | (x.min() > -2)) * x"),
        ),
        Example(
            "or of tensors that are not bool",
            forward("""
                total, largest = x.sum(), x.max() * 2
                scale = total or largest  # DYN103
                return x * scale
            """),
            fixed=forward("""
                total, largest = x.sum(), x.max() * 2
                scale = torch.where(total != 0, total, largest)
                return x * scale
            """),
        ),
        Example(
            "number of the same dtype",
            forward("""
                total = x.sum()
                scale = total or 2.0  # DYN103
                return x * scale
            """),
            fixed=forward("""
                total = x.sum()
                scale = torch.where(total != 0, total, 2.0)
                return x * scale
            """),
            inputs="[(torch.randn(4, 8),), (torch.zeros(4, 8),)]",
        ),
        Example(
            "tensor or number, whichever it is",
            forward("""
                total = x.sum()
                return x * 2, total or 2.0  # DYN103
            """),
            declined="may need the one or the other",
            inputs="[(torch.randn(4, 8),), (torch.zeros(4, 8),)]",
        ),
        Example(
            "and of tensors that are not bool",
            forward("""
                total = x.sum()
                return x * (total and x.max())  # DYN103
            """),
            inputs="[(torch.ones(4, 8),), (-torch.ones(4, 8),), (torch.zeros(4, 8),)]",
            fixed=forward("""
                total = x.sum()
                return x * (torch.where(total != 0, x.max(), total))
            """),
        ),
        Example(
            "three operands",
            forward("""
                everything = (x.sum() > 0) and (x.max() < 2) and (x.min() > -2)  # DYN103
                return x * everything
            """),
            fixed=forward("""
                everything = (x.sum() > 0) & (x.max() < 2) & (x.min() > -2)
                return x * everything
            """),
        ),
        Example(
            "not",
            forward("""
                empty = not x.sum()  # DYN103
                return x * 2, empty
            """),
            declined="`not` gives a Python bool",
        ),
        Example(
            "not of a comparison",
            forward("return x * 2, not (x.sum() > 0)  # DYN103"),
            declined="`not` gives a Python bool",
        ),
        Example(
            "tensor or number",
            forward("return x * ((x.sum() > 0) or 0.5)  # DYN103"),
            declined="a tensor of whole numbers, the other a float",
        ),
        Example(
            "operand with an effect",
            forward(
                """
                both = (x.sum() > 0) and noisy(x)  # DYN103
                return x * both
                """,
                head="""
                def noisy(y):
                    return torch.rand(()) < 2
                """,
            ),
            declined="draws random numbers",
        ),
        Example(
            "operators of Python values",
            forward(
                """
                scale = self.scale or 2.0
                flat = not self.training and x.dim() == 2
                middle = 0 < x.shape[0] < 9
                x = x * scale if flat and middle else x
                return x + 1 if mask is None or not flat else x * mask
                """,
                init="self.scale = None",
                arguments="x: torch.Tensor, mask: torch.Tensor | None = None",
            ),
        ),
        Example(
            "last operand",
            forward("""
                big = x.dim() == 2 and x.sum() > 0
                return x * big
            """),
        ),
        Example(
            "operators of tensors",
            forward("""
                both = (x > 0) & (x < 1) | ~(x > -1)
                return x * both * torch.logical_and(x, x > 2)
            """),
        ),
    )

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag operands that are asked for their truth outside of any test."""
        operand = operand_of(event)
        if operand is None or not isinstance(event, Branch) or not asks_tensor(event, project):
            return
        if event.form not in ("and", "or", "not", "chained-comparison"):
            return
        decision: Decision = decision_of(project.parents(event.function), operand)
        if decision.form == "value":
            what = _WORDS.get(event.form, f"`{event.form}`")
            message = (
                f"{quote(event.function.file, operand)} is {thing(event.kind)}: {what} has to know whether it is true"
            )
            yield Violation(operand, message, help="Use `&`, `|`, `~` or `torch.where`, which need not know.")

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Use `&` and `|`, or `torch.where`."""
        operand = operand_of(event)
        if operand is None or not isinstance(event, Branch):
            return None
        try:
            scope = Scope.of(event, project)
            return _rewrite(scope, operand, event.form)
        except Refusal as refusal:
            return Declined(str(refusal))


def _rewrite(scope: Scope, operand: ast.expr, form: str) -> Rewrite:
    if form == "not":
        raise Refusal(
            f"`not` gives a Python bool, which its readers may need; use `torch.logical_not({scope.text(operand)})` "
            "if a tensor will do"
        )
    whole: ast.expr = operand
    if form != "chained-comparison":
        parent = scope.parents.get(operand)
        if not isinstance(parent, ast.BoolOp):
            raise Refusal("the operator around it is not written out; use tensor operations by hand")
        whole = parent
    if _is_part(scope, whole):
        raise Refusal("it is a part of another `and`, `or` or `not`; rewrite that one as a whole")
    text, conditions = _comparison(scope, whole) if isinstance(whole, ast.Compare) else _bool_op(scope, whole)
    start, end = scope.file.span(whole)
    # `&` and a call bind tighter than what stood there, so whatever parentheses were needed are there already.
    return finished(scope, TITLE, Replacement(scope.file, start, end, text), conditions)


def _is_part(scope: Scope, node: ast.expr) -> bool:
    parent = scope.parents.get(node)
    return isinstance(parent, ast.BoolOp) or (isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not))


def _comparison(scope: Scope, node: ast.Compare) -> tuple[str, list[str]]:
    truth = truth_of(scope, node)
    return truth.text, [*truth.conditions, *_one_element(truth.scalar)]


def _one_element(scalar: bool) -> list[str]:
    return [] if scalar else ["all operands have the same number of dimensions"]


def _bool_op(scope: Scope, node: ast.expr) -> tuple[str, list[str]]:
    if not isinstance(node, ast.BoolOp):
        raise Refusal("dynalint does not know this operator; use tensor operations by hand")
    kinds = [as_tensor(scope.kind(value)) for value in node.values]
    sides = [Side(value, scope.kind(value)) for value in node.values]
    mixed = mixed_conditions(scope, sides, uses_of_expression(scope, node)) if kinds[0] is not None else None
    for value, kind in zip(node.values, kinds, strict=True):
        if kind is None and mixed is None:
            raise Refusal(
                f"{scope.quote(value)} is no tensor, so the result is one only sometimes; "
                "choose between the two with an `if` on the Python value"
            )
    effects = effects_of_always(scope, node.values[1:], node)
    tensors = [side for side in sides if as_tensor(side.kind) is not None]
    conditions = alias_conditions(scope, tensors, target_of(scope, node), node)
    conditions += raising_conditions(scope, node.values[1:])
    if all(kind is not None and kind.dtype == "bool" for kind in kinds):
        operator = " & " if isinstance(node.op, ast.And) else " | "
        scalar = all(truth_of(scope, value).scalar for value in node.values)
        text = operator.join(atom(value, scope.text(value)) for value in node.values)
        return text, [*conditions, *_one_element(scalar)]
    if len(node.values) > 2:
        raise Refusal("it chooses between more than two tensors; choose between two at a time with `torch.where`")
    first, second = node.values
    if not isinstance(first, ast.Name | ast.Attribute) and not is_pure(scope, first):
        raise Refusal(f"{scope.quote(first)} would be computed twice; give it a name first")
    if not isinstance(first, ast.Name | ast.Attribute):
        raise Refusal(f"{scope.quote(first)} would be written twice; give it a name first")
    conditions += tensor_conditions(scope, sides) if mixed is None else mixed
    conditions += gradient_conditions([reads_of(scope, sides[0], node), _both(scope, sides, node)], effects.layers)
    taken = (
        [scope.text(second), scope.text(first)]
        if isinstance(node.op, ast.And)
        else [scope.text(first), scope.text(second)]
    )
    test = truth_of(scope, first)
    return f"{scope.torch}.where({test.without_dimensions}, {', '.join(taken)})", conditions


def _both(scope: Scope, sides: list[Side], node: ast.expr) -> set[str]:
    return set().union(*(reads_of(scope, side, node) for side in sides if k.may_be_tensor(side.kind)))
