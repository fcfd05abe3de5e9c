"""DYN603: `Variable(...)`, which has wrapped nothing since torch 0.4."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Call, Event
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Replacement, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.scope import Refusal, Scope
from dynalint_rules._shared.text import atom, comments, held_together

# Methods that make a tensor of what they are given, and methods that fill or move one.
_MAKES = frozenset("new new_empty new_full new_ones new_zeros".split())
_FILLS = frozenset(
    "bernoulli_ cuda double exponential_ fill_ float half int long normal_ random_ to uniform_ zero_".split()
)


class VariableWrapper(Rule):
    """Wrap a tensor in `torch.autograd.Variable`.

    ## What it flags
    `Variable(t)` with any arguments, in code that is compiled. Not flagged: `isinstance(t, Variable)`.

    ## Why
    Since torch 0.4 a tensor needs no wrapper, and `Variable(t)` gives a tensor. The old name is still there as a
    class written in C++, which Dynamo skips: the graph ends before and after it.

    ## Example
    ```python
    noise = Variable(torch.randn(mean.size()))
    target = Variable(logits.data)
    ```

    Use instead:
    ```python
    noise = torch.randn(mean.size())
    target = logits.data.detach()
    ```

    ## How it is rewritten
    `Variable(t)` gives a tensor with the data of `t` and without its history, whatever `t` was: just what `t.detach()`
    gives, so that is put in its place. Where `t` is made on the spot from plain numbers (`torch.zeros(3)`,
    `x.new(3).zero_()`), it has no history, and the wrapper is dropped.

    A common piece of advice is to drop the wrapper everywhere. That changes gradients: what flows through `t`
    afterwards was stopped by `Variable(t)` before.

    ## When the rewrite is not exact
    It is exact for tensors. For a subclass of `torch.Tensor`, `detach()` keeps the subclass and `Variable` does not.
    With `requires_grad=True` no rewrite is offered: the new leaf cannot leave the graph either.

    ## How Dynamo words it
    GB0007: `Attempted to call function marked as skipped`, for the function `_LegacyVariableBase`.

    ## References
    - https://docs.pytorch.org/docs/stable/autograd.html#variable-deprecated
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0007.html
    """

    code = "DYN603"
    name = "variable-wrapper"
    summary = "`Variable(...)` does nothing that `detach()` does not, and ends the graph"
    gb = ("GB0007",)
    events = (Call,)
    calls = frozenset({"torch.autograd.Variable"})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call wherever it stands."""
        if isinstance(event, Call):
            yield Violation(
                event.node,
                "Dynamo does not trace `Variable()`, so the graph ends there; a tensor needs no wrapper",
                help="use `.detach()`, or the tensor itself where it has no history",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Detach the tensor, or leave out the wrapper where there is nothing to detach from."""
        if not isinstance(event, Call):
            return None
        try:
            scope = Scope.of(event, project)
        except Refusal as refusal:
            return Declined(str(refusal))
        node = event.node
        wrapped = _wrapped(node)
        if wrapped is None or k.only_tensor(event.args[0]) is None:
            return Declined(
                "a new leaf that asks for gradients cannot be made in a graph, nor is it known to be a tensor; drop "
                "`Variable()` by hand and say with `.detach()` where gradients stop"
            )
        start, end = scope.file.span(node)
        if comments(scope.file, start, end):
            return Declined("a comment stands inside the call; put `.detach()` in place of `Variable()` by hand")
        text = scope.text(wrapped)
        if _is_made_here(scope, wrapped):
            return Rewrite("Drop `Variable()`", "safe", (Replacement(scope.file, start, end, held_together(text)),))
        text = f"{atom(wrapped, held_together(text))}.detach()"
        return Rewrite("Use `.detach()` for `Variable()`", "safe", (Replacement(scope.file, start, end, text),))

    examples = (
        Example(
            name="history",
            code=forward(
                """
                h = self.fc(x)
                return h * Variable(h.abs() + 1)  # DYN603
                """,
                head="from torch.autograd import Variable",
            ),
            fixed=forward(
                """
                h = self.fc(x)
                return h * (h.abs() + 1).detach()
                """,
                head="from torch.autograd import Variable",
            ),
        ),
        Example(
            name="made-on-the-spot",
            code=forward("""
                pad = torch.autograd.Variable(torch.zeros(4, 2), requires_grad=False)  # DYN603
                return torch.cat([self.fc(x), pad], 1)
            """),
            fixed=forward("""
                pad = torch.zeros(4, 2)
                return torch.cat([self.fc(x), pad], 1)
            """),
        ),
        Example(
            name="made-and-filled",
            code=forward(
                """
                start = Variable(x.data.new(4, 8).zero_())  # DYN603
                noise = Variable(torch.FloatTensor(x.size(0), 8).normal_().to(x.device))  # DYN603
                return self.fc(x) + start + noise
                """,
                head="from torch.autograd import Variable",
            ),
            fixed=forward(
                """
                start = x.data.new(4, 8).zero_()
                noise = torch.FloatTensor(x.size(0), 8).normal_().to(x.device)
                return self.fc(x) + start + noise
                """,
                head="from torch.autograd import Variable",
            ),
        ),
        Example(
            name="buffer",
            code=forward(
                "return self.fc(x) * Variable(self.scale)  # DYN603",
                head="from torch.autograd import Variable",
                init="""
                self.fc = nn.Linear(8, 8)
                self.register_buffer("scale", torch.ones(8))
                """,
            ),
            fixed=forward(
                "return self.fc(x) * self.scale.detach()",
                head="from torch.autograd import Variable",
                init="""
                self.fc = nn.Linear(8, 8)
                self.register_buffer("scale", torch.ones(8))
                """,
            ),
        ),
        Example(
            name="new-leaf",
            code=forward(
                "return self.fc(Variable(x, requires_grad=True))  # DYN603",
                head="from torch.autograd import Variable",
            ),
            declined="say with `.detach()` where gradients stop",
        ),
        Example(
            name="detached",
            code=forward("return self.fc(x) * x.detach()"),
        ),
        Example(
            name="wrapped-outside",
            code=forward("return self.fc(x)", head="from torch.autograd import Variable")
            + "\n\ndef step(model, x):\n    return model(Variable(x))\n",
        ),
    )


def _wrapped(node: ast.Call) -> ast.expr | None:
    """Return what `Variable` is given, if it is asked for nothing else than to detach it."""
    if len(node.args) != 1 or isinstance(node.args[0], ast.Starred):
        return None
    for keyword in node.keywords:
        off = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
        if keyword.arg != "requires_grad" or not off:
            return None
    return node.args[0]


def _is_made_here(scope: Scope, node: ast.expr) -> bool:
    """Whether an expression makes a tensor of plain values, with torch or a tensor's `new`: it has no history."""
    if not isinstance(node, ast.Call):
        return False
    callee = scope.kind(node.func)
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    if any(keyword.arg in (None, "requires_grad", "out") for keyword in node.keywords):
        return False
    if not all(_is_plain(scope.kind(one)) for one in given):
        return False
    if isinstance(callee, k.External):
        return callee.name.startswith("torch.")
    if not isinstance(node.func, ast.Attribute):
        return False
    owner, name = node.func.value, node.func.attr
    if name in _MAKES:
        return scope.tensor(owner) is not None
    return name in _FILLS and _is_made_here(scope, owner)


def _is_plain(kind: k.Kind) -> bool:
    """Whether a value is certainly no tensor and holds none."""
    if isinstance(kind, k.Sequence):
        return all(isinstance(one, k.Value) for one in kind.element.members)
    return all(isinstance(one, k.Value) for one in kind.members)
