"""DYN715: operators that a class of the project defines, with tensors."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.dunders import method_name
from dynalint.analysis.events import Event, Operation
from dynalint.analysis.index import ClassInfo, FunctionInfo
from dynalint.analysis.project import Project
from dynalint.analysis.steps import walk
from dynalint.rules import Declined, Example, Replacement, Rewrite, Rule, Violation
from dynalint_rules._shared.effects import is_pure
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.scope import Refusal, Scope
from dynalint_rules._shared.text import atom


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

    The method is called by its name: `rotation.__mul__(points)`, `bias.__rsub__(h)`, `rotation.__invert__()`, which is
    what Python comes to by itself, as a tensor leaves the operator to an object that it does not know. A method with a
    name that tells what it does reads better. Declined where the method may answer `NotImplemented`, so that the other
    side gets its turn, where both sides define the operator, and where the operands would be evaluated in another
    order.

    ## When the rewrite is not exact

    It is exact.

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
        if not owners or any(_is_known_to_torch(project, owner.cls) for owner in owners):
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
        """Call the method."""
        if not isinstance(event, Operation):
            return None
        try:
            return _called(Scope.of(event, project), event)
        except Refusal as refusal:
            return Declined(str(refusal))

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
            fixed=forward(
                """
                h = self.fc(x)
                return Scale(2).__mul__(h)
                """,
                head="""
                class Scale:
                    def __init__(self, factor):
                        self.factor = factor

                    def __mul__(self, value):
                        return value * self.factor
                """,
            ),
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
            fixed=forward(
                """
                h = self.fc(x)
                return self.bias.__rsub__(h)
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
            name="object-that-is-a-number",
            code=forward(
                """
                return self.fc(x) * self.scale
                """,
                head="""
                class Scale(float):
                    def __rmul__(self, value):
                        return value * 3
                """,
                init="""
                self.fc = nn.Linear(8, 8)
                self.scale = Scale(2.0)
                """,
            ),
        ),
        Example(
            name="operands-in-order",
            code=forward(
                """
                return self.fc(x).add_(1) * Scale()  # DYN715
                """,
                head="""
                class Scale:
                    def __rmul__(self, value):
                        return value * 3
                """,
            ),
            declined="evaluated first",
        ),
        Example(
            name="not-for-this-value",
            code=forward(
                """
                h = self.fc(x)
                return Scale() * h  # DYN715
                """,
                head="""
                class Scale:
                    def __mul__(self, value):
                        if isinstance(value, str):
                            return NotImplemented
                        return value * 3
                """,
            ),
            declined="may answer `NotImplemented`",
        ),
        Example(
            name="matrix-product-of-objects",
            code=forward(
                """
                h = self.fc(x)
                turned = Rotation(h) @ Rotation(h.t())  # DYN715
                return turned.matrix
                """,
                head="""
                class Rotation:
                    def __init__(self, matrix):
                        self.matrix = matrix

                    def __matmul__(self, other):
                        return Rotation(self.matrix @ other.matrix)
                """,
            ),
            fixed=forward(
                """
                h = self.fc(x)
                turned = Rotation(h).__matmul__(Rotation(h.t()))
                return turned.matrix
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
                turned = ~Rotation(h)  # DYN715
                return turned.matrix
                """,
                head="""
                class Rotation:
                    def __init__(self, matrix):
                        self.matrix = matrix

                    def __invert__(self):
                        return Rotation(-self.matrix)
                """,
            ),
            fixed=forward(
                """
                h = self.fc(x)
                turned = Rotation(h).__invert__()
                return turned.matrix
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


def _is_known_to_torch(project: Project, cls: ClassInfo) -> bool:
    """Whether a tensor may take an instance for a number, or hands operators over: no method is called then."""
    inherited = project.lineage(cls)[1]
    plain = all(name == "builtins.object" or name.startswith(("abc.", "typing.", "torch.nn.")) for name in inherited)
    return not plain or project.find_method(cls, "__torch_function__") is not None


def _called(scope: Scope, event: Operation) -> Rewrite:
    """Return the operator as a call of the method that Python comes to.

    Raises:
        Refusal: it may come to another one.
    """
    node = event.node
    if isinstance(node, ast.UnaryOp):
        return _call(scope, node, node.operand, event.left, method_name(node.op), None)
    if not isinstance(node, ast.BinOp):
        raise Refusal("the operator changes its target; give the class a method with a name, and call it")
    own, reflected = method_name(node.op), method_name(node.op, reflected=True)
    if _method(scope, event.left, own) is not None:
        if _method(scope, event.right, reflected) is not None:
            raise Refusal("both sides define the operator; give the class a method with a name, and call it")
        return _call(scope, node, node.left, event.left, own, node.right)
    if not is_pure(scope, node.left):
        raise Refusal(
            f"{scope.quote(node.left)} is evaluated first; give it a name before, and call "
            f"{scope.quote(node.right)} by a method"
        )
    return _call(scope, node, node.right, event.right, reflected, node.left)


def _method(scope: Scope, kind: k.Kind | None, name: str) -> FunctionInfo | None:
    return scope.project.find_method(kind.cls, name) if isinstance(kind, k.Instance) else None


def _call(
    scope: Scope, node: ast.expr, owner: ast.expr, kind: k.Kind | None, name: str, argument: ast.expr | None
) -> Rewrite:
    method = _method(scope, kind, name)
    if method is None:
        raise Refusal("give the class a method with a name, and call it")
    if isinstance(kind, k.Instance) and any(name in cls.stores for cls in scope.project.mro(kind.cls)):
        raise Refusal(f"an instance may have a `{name}` of its own, which the operator does not come to")
    if any(isinstance(one, ast.Name) and one.id == "NotImplemented" for one in walk(method.node)):
        raise Refusal(f"`{name}` may answer `NotImplemented`; give the class a method with a name, and call it")
    given = scope.text(argument) if argument is not None else ""
    text = f"{atom(owner, scope.text(owner))}.{name}({given})"
    return Rewrite("Call the method by its name", "safe", (Replacement(scope.file, *scope.file.span(node), text),))
