"""DYN107: `torch.equal`, `torch.allclose` and `torch.is_nonzero`, which return a Python bool."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis.events import Call, Event
from dynalint.analysis.project import Project
from dynalint.analysis.steps import walk
from dynalint.rules import Declined, Example, Replacement, Rewrite, Rule, Violation
from dynalint_rules._shared.decide import rewrite_decision
from dynalint_rules._shared.decision import decision_of, is_guard
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.handover import is_passed_up
from dynalint_rules._shared.names import loads, only_value
from dynalint_rules._shared.scope import Refusal, Scope
from dynalint_rules._shared.truth import STAYS, truth_of

_INSTEAD = {
    "equal": "(a == b).all()",
    "allclose": "torch.isclose(a, b).all()",
    "is_nonzero": "t != 0",
}


class TensorComparisonCall(Rule):
    """A function that turns tensors into one Python bool has to read their data.

    ## What it flags

    Calls of `torch.equal`, `torch.allclose` and `torch.is_nonzero` and of the methods of the same names, whatever
    becomes of the result.

    Not flagged are `torch.isclose`, `torch.eq` and `==`, which return tensors, and `torch.is_tensor`, which looks at
    no data.

    ## Why

    The result is a Python bool, so it has to be known before the code goes on. Dynamo breaks the graph at the call,
    even if nothing branches on the result, and the processor waits for the device.

    ## Example

    ```python
    def forward(self, x, previous):
        if torch.allclose(x, previous):
            return previous
        return x
    ```

    Use instead:

    ```python
    def forward(self, x, previous):
        return torch.where(torch.isclose(x, previous).all(), previous, x)
    ```

    ## How it is rewritten

    In the test of an `if` or conditional expression, together with the branch (see DYN101): `torch.equal(a, b)` becomes
    `(a == b).all()`, `torch.allclose(a, b)` becomes `torch.isclose(a, b).all()`, which is how it is defined, and
    `torch.is_nonzero(t)` becomes `t != 0`. In a guard or an `assert`, as DYN105 and DYN104. Where the answer is only
    returned, the tensor is returned instead. Where `torch.equal` of two arguments only chooses a way through the
    function, as between one projection for what is the same and several for what is not, and no other rewrite is
    possible, it becomes `a is b`. Any other use as a value is left.

    ## When the rewrite is not exact

    As for DYN101. `a is b` is `unsafe`: equal tensors that are not the same one go the other way then, where each gets
    a gradient of its own, and so does one tensor with NaN, which does not equal itself. A tensor that is returned in
    the place of a bool is `unsafe`: the caller may need a bool. `torch.equal` is False for tensors of different shapes,
    where `==` compares them as far as they broadcast, or raises; that the shapes are the same has to be shown by
    running it.

    ## How Dynamo words it

    GB0033, "Data dependent operator": "Operator `aten.equal.default` has a non-Tensor output whose value is dependent
    on the data of Tensor inputs."

    ## References

    - https://docs.pytorch.org/docs/stable/generated/torch.equal.html
    - https://docs.pytorch.org/docs/stable/generated/torch.allclose.html
    - https://docs.pytorch.org/docs/stable/generated/torch.isclose.html
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0033.html
    """

    code = "DYN107"
    name = "tensor-comparison-call"
    summary = "Comparison of tensors that returns a Python bool"
    gb = ("GB0033",)
    events = (Call,)
    calls = frozenset(f"{owner}.{name}" for owner in ("torch", "Tensor") for name in _INSTEAD)

    examples = (
        Example(
            "equal",
            forward(
                """
                h = self.fc(x)
                if torch.equal(x, y):  # DYN107
                    h = h * 2
                return h
                """,
                arguments="x: torch.Tensor, y: torch.Tensor",
            ),
            inputs="[(torch.randn(4, 8), torch.randn(4, 8)), (torch.ones(4, 8), torch.ones(4, 8))]",
            fixed=forward(
                """
                h = self.fc(x)
                h = torch.where((x == y).all(), h * 2, h)
                return h
                """,
                arguments="x: torch.Tensor, y: torch.Tensor",
            ),
        ),
        Example(
            "allclose",
            forward(
                "return x * 2 if torch.allclose(x, y, atol=1e-3) else x - 1  # DYN107",
                arguments="x: torch.Tensor, y: torch.Tensor",
            ),
            inputs="[(torch.randn(4, 8), torch.randn(4, 8)), (torch.ones(4, 8), torch.ones(4, 8))]",
            fixed=forward(
                "return torch.where(torch.isclose(x, y, atol=1e-3).all(), x * 2, x - 1)",
                arguments="x: torch.Tensor, y: torch.Tensor",
            ),
        ),
        Example(
            "is_nonzero",
            forward("""
                if torch.is_nonzero(x.sum()):  # DYN107
                    return x * 2
                return x - 1
            """),
            inputs="[(torch.ones(4, 8),), (torch.zeros(4, 8),)]",
            fixed=forward("""
                return torch.where(x.sum() != 0, x * 2, x - 1)
            """),
        ),
        Example(
            "method, negated",
            forward(
                """
                if not x.equal(y) and x.sum() > 0:  # DYN107 DYN101
                    return x * 2
                return x - 1
                """,
                arguments="x: torch.Tensor, y: torch.Tensor",
            ),
            inputs="[(torch.ones(4, 8), torch.randn(4, 8)), (torch.ones(4, 8), torch.ones(4, 8))]",
            fixed=forward(
                """
                return torch.where((~(x == y).all()) & (x.sum() > 0), x * 2, x - 1)
                """,
                arguments="x: torch.Tensor, y: torch.Tensor",
            ),
        ),
        Example(
            "asserted",
            forward("""
                assert torch.allclose(x, x + 1e-9), "differs"  # DYN107
                return self.fc(x)
            """),
            fixed=forward("""
                assert torch.isclose(x, x + 1e-9).all(), "differs"
                return self.fc(x)
            """),
        ),
        Example(
            "guard",
            forward(
                """
                if not torch.equal(x, y):  # DYN107
                    raise ValueError("differs")
                return self.fc(x)
                """,
                arguments="x: torch.Tensor, y: torch.Tensor",
            ),
            inputs="[(torch.ones(4, 8), torch.randn(4, 8)), (torch.ones(4, 8), torch.ones(4, 8))]",
            fixed=forward(
                """
                torch._assert_async((x == y).all(), "differs")
                return self.fc(x)
                """,
                arguments="x: torch.Tensor, y: torch.Tensor",
            ),
        ),
        Example(
            "as a value",
            forward("return x * 2, torch.equal(x, x + 1)  # DYN107"),
            fixed=forward("return x * 2, (x == x + 1).all()"),
        ),
        Example(
            "method, as a value",
            forward("""
                same = x.allclose(x * 2)  # DYN107
                return x * 2, same
            """),
            fixed=forward("""
                same = torch.isclose(x, x * 2).all()
                return x * 2, same
            """),
        ),
        Example(
            "as a value that is used",
            forward("""
                same = torch.equal(x, x + 1)  # DYN107
                return x * 2, str(same), same
            """),
            declined="is a Python bool",
        ),
        Example(
            "one projection for what is the same",
            forward(
                """
                same = torch.equal(x, y)  # DYN107
                if same:
                    q, k = torch.cat([self.fc(x), self.fc(x) * 2], 1).chunk(2, 1)
                else:
                    q, k = self.fc(x), self.fc(y) * 2
                return q @ k.T
                """,
                arguments="x: torch.Tensor, y: torch.Tensor",
            ),
            inputs="[(torch.randn(4, 8), torch.randn(4, 8))]",
            fixed=forward(
                """
                same = x is y
                if same:
                    q, k = torch.cat([self.fc(x), self.fc(x) * 2], 1).chunk(2, 1)
                else:
                    q, k = self.fc(x), self.fc(y) * 2
                return q @ k.T
                """,
                arguments="x: torch.Tensor, y: torch.Tensor",
            ),
        ),
        Example(
            "as a value of a helper",
            forward(
                "return {True: x * 2, False: x}[is_same(x, x + 1)]",
                head="""
                def is_same(a, b):
                    return torch.equal(a, b)  # DYN107
                """,
            ),
            declined="is a Python bool",
        ),
        Example(
            "in a loop",
            forward("""
                for _ in range(3):
                    y = x / 2
                    if torch.allclose(x, y):  # DYN107
                        break
                    x = y
                return x * 2
            """),
            fixed=forward("""
                done = torch.zeros((), dtype=torch.bool, device=x.device)
                for _ in range(3):
                    y = x / 2
                    done = done | torch.isclose(x, y).all()
                    x = torch.where(done, x, y)
                return x * 2
            """),
            inputs="[(torch.randn(4, 8),), (torch.zeros(4, 8),)]",
        ),
        Example(
            "while",
            forward("""
                while not torch.allclose(x, x / 2, atol=0.1):  # DYN107
                    x = x / 2
                return x
            """),
        ),
        Example(
            "comparisons that give tensors",
            forward("""
                same = torch.isclose(x, x * 2).all() & (x == x).all() & torch.eq(x, x).any()
                return x * same
            """),
        ),
        Example(
            "questions about the tensor itself",
            forward("""
                if torch.is_tensor(x) and torch.is_floating_point(x) and x.shape == (x + 1).shape:
                    x = x * 2
                return x
            """),
        ),
    )

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag every call."""
        if isinstance(event, Call):
            name = event.callee.rpartition(".")[2]
            message = f"`{name}` reads a Python bool out of the data of tensors"
            yield Violation(event.node, message, help=f"Use `{_INSTEAD[name]}`, {STAYS}.")

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Compare with tensor operations, together with what is decided by it."""
        if not isinstance(event, Call):
            return None
        instead = _INSTEAD[event.callee.rpartition(".")[2]]
        value = f"its result is a Python bool, which its readers may need; use `{instead}` if a tensor will do"
        try:
            returned = _returned(Scope.of(event, project), event.node)
        except Refusal as refusal:
            return Declined(str(refusal))
        answer = returned or rewrite_decision(event, event.node, project, value=value)
        if isinstance(answer, Declined) and event.callee in ("torch.equal", "Tensor.equal"):
            return _by_identity(Scope.of(event, project), event.node) or answer
        return answer


def _by_identity(scope: Scope, node: ast.Call) -> Rewrite | None:
    """The rewrite to `a is b` where the answer only chooses a way for arguments that are the same; None elsewhere."""
    operands = [
        *([node.func.value] if isinstance(node.func, ast.Attribute) and len(node.args) == 1 else []),
        *node.args,
    ]
    if len(operands) != 2 or node.keywords or not all(_is_given(scope, one) for one in operands):
        return None
    statement: ast.AST = node
    while isinstance(statement := scope.parents[statement], ast.BoolOp | ast.UnaryOp):
        pass
    uses: list[ast.expr] = [node]
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
        name = statement.targets[0].id
        uses = [*loads(scope, name)] if only_value(scope, name, node) is statement.value else []
    decisions = [decision_of(scope.parents, use) for use in uses]
    if not uses or any(one.form not in ("if", "ifexp") or is_guard(one.node) for one in decisions):
        return None
    one, other = (scope.text(operand) for operand in operands)
    parent = scope.parents[node]
    asked = parent if isinstance(parent, ast.UnaryOp) else node
    text = f"{one} is {other}" if asked is node else f"{one} is not {other}"
    conditions = (
        f"`{one}` and `{other}` that are equal, but not the same tensor, go the other way, with a gradient each",
        "a tensor with NaN is the same as itself, which it does not equal",
    )
    replacement = Replacement(scope.file, *scope.file.span(asked), text)
    return Rewrite("Ask whether they are the same tensor", "unsafe", (replacement,), conditions)


def _is_given(scope: Scope, node: ast.expr) -> bool:
    """Whether an expression is an argument of the function as it came."""
    if not isinstance(node, ast.Name) or node.id not in {
        one.arg for one in walk(scope.function.node.args) if isinstance(one, ast.arg)
    }:
        return False
    stores = (one for one in walk(scope.function.node) if isinstance(one, ast.Name) and one.id == node.id)
    return not any(isinstance(one.ctx, ast.Store) and one.lineno <= node.lineno for one in stores)


def _returned(scope: Scope, node: ast.Call) -> Rewrite | None:
    """The rewrite where the answer does nothing but leave the compiled code, None where it is put to use in it."""
    parent = scope.parents[node]
    uses: list[ast.expr] = [node]
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name):
        name = parent.targets[0].id
        uses = [*loads(scope, name)] if only_value(scope, name, node) is node else []
    if not uses or not all(_leaves(scope, one) for one in uses) or not is_passed_up(scope):
        return None
    truth = truth_of(scope, node)
    text = truth.text if isinstance(parent, ast.Assign | ast.Return | ast.Tuple | ast.List) else truth.operand
    conditions = ("the caller gets a tensor of one bool in the place of a bool", *truth.conditions)
    replacement = Replacement(scope.file, *scope.file.span(node), text)
    return Rewrite("Return the answer as a tensor", "unsafe", (replacement,), conditions, scope.imports)


def _leaves(scope: Scope, node: ast.expr) -> bool:
    """Whether a value is returned, by itself or in a tuple, list or dict."""
    parent = scope.parents[node]
    while isinstance(parent, ast.Tuple | ast.List | ast.Dict):
        parent = scope.parents[parent]
    return isinstance(parent, ast.Return)
