"""DYN305: functions of torch that read their own arguments on the way."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call, Event
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Replacement, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.scope import Refusal, Scope
from dynalint_rules._shared.text import atom

# Each with what to write instead. That they read their data, the data of torch says of the call at hand.
_COVARIANCE = "centre the rows and multiply: `x = x - x.mean(1, keepdim=True)`, `x @ x.mT / (n - 1)`"
_LOSS = "write the loss out: `0.5 * (var.log() + (input - target) ** 2 / var)` with `var` clamped from below"
_ASSERT = "assert in the graph: `torch._assert_async(t.all())`"
_PIECES = "split at Python numbers: the pieces then have sizes that are known"
_INSTEAD = {
    "torch.cov": _COVARIANCE,
    "Tensor.cov": _COVARIANCE,
    "torch.corrcoef": _COVARIANCE,
    "Tensor.corrcoef": _COVARIANCE,
    "torch.nn.functional.gaussian_nll_loss": _LOSS,
    "torch.nn.GaussianNLLLoss.__call__": _LOSS,
}
_CHECK = "torch._check_tensor_all"
_SPLITTING = frozenset({"torch.tensor_split", "Tensor.tensor_split"})


class CheckingCall(Rule):
    """Call a function that reads its arguments to check them, or to know the sizes of its results.

    ## What it flags
    `torch.cov`, `torch.corrcoef` and the methods of these names, `gaussian_nll_loss` and `nn.GaussianNLLLoss` with a
    tensor for the variance, `tensor_split` at the places that a tensor holds, and `torch._check_tensor_all`, in code
    that is compiled. Not flagged: `gaussian_nll_loss` with a number for the variance, `tensor_split` at Python numbers.

    ## Why
    The function looks at the elements of its arguments and decides by them: the weights of a covariance must add up
    to more than the correction, a variance must not be negative, places say how long the pieces are. Dynamo ends the
    graph before the call, runs it on its own, and waits for the device.

    ## Example
    ```python
    def forward(self, x, target):
        mean, var = self.head(x).chunk(2, dim=-1)
        return F.gaussian_nll_loss(mean, target, var.exp())
    ```

    Use instead:
    ```python
    def forward(self, x, target):
        mean, log_var = self.head(x).chunk(2, dim=-1)
        return 0.5 * (log_var + (mean - target) ** 2 / log_var.exp()).mean()
    ```

    ## How it is rewritten
    `torch._check_tensor_all(t)` becomes `torch._assert_async(t.all())`, which is part of the graph. The others are not
    rewritten: the same thing written out in tensor operations leaves the check away, which is for a person to decide,
    and rounds in another order.

    ## When the rewrite is not exact
    The new check is `unsafe`: it raises the same type of exception, with other words where none are given, and on a GPU
    at a later moment. Of what is written out the last digits may differ, and what the function refuses with an error
    goes through.

    ## How Dynamo words it
    GB0033: `Data dependent operator`, "Operator `aten._local_scalar_dense.default` has a non-Tensor output whose value
    is dependent on the data of Tensor inputs".

    ## References
    - https://docs.pytorch.org/docs/stable/compile/programming_model.graph_breaks_index.html
    - https://docs.pytorch.org/docs/stable/generated/torch.cov.html
    - https://docs.pytorch.org/docs/stable/generated/torch.nn.GaussianNLLLoss.html
    """

    code = "DYN305"
    name = "checking-call"
    summary = "a function that reads its arguments to check them ends the graph"
    severity = "warning"
    gb = ("GB0033", "GB0124")
    events = (Call,)
    calls = frozenset(_INSTEAD) | _SPLITTING | {_CHECK}

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call if it certainly reads its data."""
        if not isinstance(event, Call):
            return
        if event.callee in _SPLITTING:
            places = event.args[1:] if event.callee.startswith("torch.") else event.args
            given = places[0] if places else event.keywords.get("tensor_indices_or_sections", k.UNKNOWN)
            reads = k.only_tensor(given) is not None
        else:
            reads = event.callee == _CHECK or _reads(event)
        if reads:
            owner, _, last = event.callee.rpartition(".")
            last = owner.rpartition(".")[2] if last == "__call__" else last
            yield Violation(
                event.node,
                f"`{last}()` reads its arguments into Python on the way, which ends the graph",
                help=_ASSERT if event.callee == _CHECK else _INSTEAD.get(event.callee, _PIECES),
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Check in the graph; decline the others, which written out would check nothing, and round otherwise."""
        if isinstance(event, Call) and event.callee == _CHECK:
            try:
                return _asserted(Scope.of(event, project), event.node)
            except Refusal as refusal:
                return Declined(str(refusal))
        return Declined(f"written out it leaves a check away and rounds in another order; {violation.help}")

    examples = (
        Example(
            name="covariance",
            code=forward("""
                h = self.fc(x)
                return torch.cov(h) + h.cov()  # DYN305
            """),
            declined="leaves a check away",
        ),
        Example(
            name="correlation",
            code=forward("return torch.corrcoef(self.fc(x))  # DYN305"),
        ),
        Example(
            name="loss",
            code=forward(
                """
                h = self.fc(x)
                return F.gaussian_nll_loss(h, x, h.exp())  # DYN305
                """,
                head="import torch.nn.functional as F",
            ),
            declined="leaves a check away",
        ),
        Example(
            name="loss-layer",
            code=forward(
                """
                h = self.fc(x)
                return self.loss(h, x, h.exp())  # DYN305
                """,
                init="""
                    self.fc = nn.Linear(8, 8)
                    self.loss = nn.GaussianNLLLoss()
                """,
            ),
        ),
        Example(
            name="split-at-a-tensor",
            code=forward("""
                places = (x > 0).sum(-1).sort().values
                first = self.fc(x).tensor_split(places, dim=1)[0]  # DYN305
                return first.sum()
            """),
            declined="Python numbers",
        ),
        Example(
            name="check",
            code=forward("""
                h = self.fc(x)
                torch._check_tensor_all(x > -100, lambda: "too small")  # DYN305
                return h + 1
            """),
            fixed=forward("""
                h = self.fc(x)
                torch._assert_async((x > -100).all(), "too small")
                return h + 1
            """),
        ),
        Example(
            name="check-where-torch-is-imported-late",
            code=forward(
                """
                require(x > -100)
                return self.fc(x)
                """,
                head="""
                    def require(condition):
                        if condition.dim() > 3:
                            return
                        import torch

                        torch._check_tensor_all(condition)  # DYN305
                """,
            ),
            fixed=forward(
                """
                require(x > -100)
                return self.fc(x)
                """,
                head="""
                    def require(condition):
                        if condition.dim() > 3:
                            return
                        import torch

                        torch._assert_async(condition.all())
                """,
            ),
        ),
        Example(
            name="check-with-words-of-its-own",
            code=forward("""
                h = self.fc(x)
                torch._check_tensor_all(x > -100, lambda: f"of {len(x)}")  # DYN305
                return h + 1
            """),
            declined="put together",
        ),
        Example(
            name="numbers",
            code=forward(
                """
                h = self.fc(x)
                parts = h.tensor_split((2, 5), dim=1)
                return F.gaussian_nll_loss(h, x, 1.0) + parts[0].sum() + F.mse_loss(h, x)
                """,
                head="import torch.nn.functional as F",
            ),
        ),
        Example(
            name="written-out",
            code=forward("""
                h = self.fc(x)
                centred = h - h.mean(1, keepdim=True)
                return centred @ centred.mT / 7 + 0.5 * (h + (h - x) ** 2 / h.exp()).mean()
            """),
        ),
    )


def _reads(event: Call) -> bool:
    if event.callee.startswith("torch.nn.GaussianNLLLoss"):
        variance = event.args[2] if len(event.args) > 2 else event.keywords.get("var", k.UNKNOWN)
        return k.only_tensor(variance) is not None
    return "data_dependent" in event.flags


def _asserted(scope: Scope, node: ast.Call) -> Rewrite:
    """Replace `torch._check_tensor_all(t)` by an assertion in the graph."""
    if not node.args or len(node.args) > 2 or node.keywords or not isinstance(node.func, ast.Attribute):
        raise Refusal(f"{scope.quote(node)} is not called in the usual way; write `torch._assert_async` by hand")
    arguments = [f"{atom(node.args[0], scope.text(node.args[0]))}.all()"]
    if len(node.args) == 2:
        words = node.args[1].body if isinstance(node.args[1], ast.Lambda) else None
        if not isinstance(words, ast.Constant):
            raise Refusal(
                f"the message {scope.quote(node.args[1])} is put together when it is needed; make it constant"
            )
        arguments.append(scope.text(words))
    text = f"{atom(node.func.value, scope.text(node.func.value))}._assert_async({', '.join(arguments)})"
    replacement = Replacement(scope.file, *scope.file.span(node), text)
    condition = "the exception may come later, and has other words if none are given"
    return Rewrite("Check in the graph: `torch._assert_async`", "unsafe", (replacement,), (condition,))
