"""DYN715: operators that a class of the project defines, with tensors."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Event, Operation
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward


class OperatorOnObject(Rule):
    """Combine an object of a class of your own with a tensor by an operator.

    ## What it flags

    `pose * points`, `h - bias` and the like, where one side is a tensor and the other an instance of a class that
    defines the operator by `__mul__`, `__rsub__` and so on; and `a @ b` and `~a` of such instances, whatever is on the
    other side. Not flagged: other operators between two such instances, or with a number; comparisons, calls, indexing
    and iteration, which lead Dynamo into the methods; and classes with `__torch_function__`.

    ## Why

    As soon as one side of an arithmetic operator is a tensor, Dynamo takes it for an operation of torch and cannot turn
    the other side into an argument of it. It does not look for the method.

    ## Example

    ```python
    class Rotation:
        def __mul__(self, points):
            return points @ self.matrix


    def forward(self, points):
        return self.rotation * points
    ```

    Use instead:

    ```python
    class Rotation:
        def apply(self, points):
            return points @ self.matrix


    def forward(self, points):
        return self.rotation.apply(points)
    ```

    ## How it is rewritten

    It is not. Call a method: `rotation.__mul__(points)` is traced as well, but it is not what Python does where both
    sides define the operator.

    ## When the rewrite is not exact

    There is none.

    ## How Dynamo words it

    GB0055: `Failed to convert args/kwargs to proxy`. GB0059: `Failed to trace builtin operator` for `@` and `~`.

    ## References

    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0055.html
    """

    code = "DYN715"
    name = "operator-on-object"
    summary = "an operator between a tensor and an object with the operator's method ends the graph"
    gb = ("GB0055", "GB0059")
    events = (Operation,)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag an operator with a tensor, and those that Dynamo has no code for."""
        if not isinstance(event, Operation) or issubclass(event.operator, ast.cmpop):
            return
        sides = [event.left, *([event.right] if event.right is not None else [])]
        owners = [side for side in sides if isinstance(side, k.Instance)]
        if not owners or any(project.find_method(owner.cls, "__torch_function__") for owner in owners):
            return
        name = owners[0].cls.name
        if any(k.only_tensor(side) is not None for side in sides):
            yield Violation(
                event.node,
                f"Dynamo takes this operator for one of torch, and cannot pass it an instance of `{name}`",
                help="call a method of the object",
            )
        elif event.operator in (ast.MatMult, ast.Invert):
            operator = "@" if event.operator is ast.MatMult else "~"
            yield Violation(
                event.node,
                f"Dynamo does not follow `{operator}` into a method of `{name}`",
                help="call a method of the object",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: the class wants a method with a name."""
        return Declined("give the class a method with a name, and call it")

    examples = (
        Example(
            name="object-times-tensor",
            code=forward(
                """
                h = self.fc(x)
                return Scale(2) * h  # DYN715
                """,
                head="""
                class Scale:
                    def __init__(self, factor):
                        self.factor = factor

                    def __mul__(self, value):
                        return value * self.factor
                """,
            ),
            declined="a method with a name",
        ),
        Example(
            name="kept-object",
            code=forward(
                """
                h = self.fc(x)
                return h - self.bias  # DYN715
                """,
                head="""
                class Bias:
                    def __rsub__(self, value):
                        return value + 3
                """,
                init="""
                self.fc = nn.Linear(8, 8)
                self.bias = Bias()
                """,
            ),
        ),
        Example(
            name="matrix-product-of-objects",
            code=forward(
                """
                h = self.fc(x)
                return (Rotation(h) @ Rotation(h.t())).matrix  # DYN715
                """,
                head="""
                class Rotation:
                    def __init__(self, matrix):
                        self.matrix = matrix

                    def __matmul__(self, other):
                        return Rotation(self.matrix @ other.matrix)
                """,
            ),
        ),
        Example(
            name="inverse",
            code=forward(
                """
                h = self.fc(x)
                return (~Rotation(h)).matrix  # DYN715
                """,
                head="""
                class Rotation:
                    def __init__(self, matrix):
                        self.matrix = matrix

                    def __invert__(self):
                        return Rotation(-self.matrix)
                """,
            ),
        ),
        Example(
            name="between-objects",
            code=forward(
                """
                pair = Pair(self.fc(x)) * Pair(x)
                total = -pair + Pair(x)
                return total.value + (Pair(1) + 2).value + pair[0]
                """,
                head="""
                class Pair:
                    def __init__(self, value):
                        self.value = value

                    def __mul__(self, other):
                        return Pair(self.value * other.value)

                    def __add__(self, other):
                        return Pair(self.value + getattr(other, "value", other))

                    def __neg__(self):
                        return Pair(-self.value)

                    def __getitem__(self, index):
                        return self.value
                """,
            ),
        ),
        Example(
            name="torch-function",
            code=forward(
                "return self.fc(x) * Wrapped()",
                head="""
                class Wrapped:
                    @classmethod
                    def __torch_function__(cls, function, types, args=(), kwargs=None):
                        return args[0] + 1

                    def __rmul__(self, other):
                        return other
                """,
            ),
        ),
    )
