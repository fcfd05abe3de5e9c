"""DYN607: a backward pass, or a handle on it, within the forward pass that is compiled."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.analysis.events import Call, Event
from dynalint.analysis.exits import leads_to_raise
from dynalint.analysis.project import Project
from dynalint.analysis.steps import walk
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.guard import guarded
from dynalint_rules._shared.scope import Refusal, Scope

_INSTEAD = {
    "Tensor.retain_grad": "read the gradient with a hook, or return the tensor and ask for its gradient outside",
    "torch.autograd.grad": "use `torch.func.grad`, or compute the gradient outside of the compiled code",
}
_OUTSIDE = "do this outside of the compiled code"


class AutogradCall(Rule):
    """Run a backward pass, or reach into the tape of one, in code that is compiled.

    ## What it flags
    `loss.backward()`, `torch.autograd.backward`, `torch.autograd.grad`, `t.retain_grad()`, the functions of
    `torch.autograd.functional`, anomaly detection, and the hooks on saved tensors (`saved_tensors_hooks`,
    `save_on_cpu`). Not flagged: `torch.func.grad`, `torch.no_grad()`, `t.detach()`, `t.register_hook(...)`, which are
    traced, and code outside of what is compiled.

    ## Why
    A graph is differentiated as a whole after it has been traced. What asks for gradients halfway through needs a tape
    that does not exist yet, so the graph ends there. `retain_grad()` costs the whole function.

    ## Example
    ```python
    def forward(self, x):
        energy = self.net(x).sum()
        return torch.autograd.grad(energy, x, create_graph=True)[0]
    ```

    Use instead:
    ```python
    def forward(self, x):
        return torch.func.grad(lambda x: self.net(x).sum())(x)
    ```

    ## How it is rewritten
    `t.retain_grad()` is put behind `if not torch.compiler.is_compiling():`, unless the function reads the gradient
    itself. The others are declined. `torch._dynamo.config.trace_autograd_ops = True` lets torch 2.13 trace
    `torch.autograd.grad`, where what is differentiated already asks for gradients.

    ## When the rewrite is not exact
    The guard is `unsafe`: eager code does as before, and a compiled run does not keep the gradient.

    ## How Dynamo words it
    GB0123: `Unsupported Tensor.backward() call`, GB9186: `using torch.autograd.grad with
    torch._dynamo.config.trace_autograd_ops=False`, GB0108: `Tensor.retain_grad() with AOTDispatcher`, GB0007:
    `Attempted to call function marked as skipped`, GB0008: `Attempted to inline function marked as skipped`.

    ## References
    - https://docs.pytorch.org/docs/stable/generated/torch.func.grad.html
    - https://docs.pytorch.org/docs/stable/autograd.html
    - https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0123.html
    """

    code = "DYN607"
    name = "autograd-call"
    summary = "a backward pass inside of the compiled function ends the graph"
    gb = ("GB0123", "GB9186", "GB0108", "GB0007", "GB0008", "GB0055")
    events = (Call,)
    calls = frozenset(
        {
            "Tensor.backward",
            "Tensor.retain_grad",
            "torch.autograd.backward",
            "torch.autograd.grad",
            "torch.autograd.functional.*",
            "torch.autograd.detect_anomaly",
            "torch.autograd.set_detect_anomaly",
            "torch.autograd.graph.saved_tensors_hooks",
            "torch.autograd.graph.save_on_cpu",
        }
    )

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call wherever it stands."""
        if isinstance(event, Call) and not leads_to_raise(event, project):
            name = event.callee.replace("Tensor.", "t.")
            yield Violation(
                event.node,
                f"`{name}()` works on a backward pass that a graph does not have yet, so the graph ends there",
                help=_INSTEAD.get(event.callee, _OUTSIDE),
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Keep gradients in eager code only; gradients of a function are another interface than those of results."""
        if isinstance(event, Call) and event.callee == "Tensor.retain_grad":
            try:
                return _kept_in_eager(Scope.of(event, project), event)
            except Refusal as refusal:
                return Declined(f"{refusal}; or read the gradient with a hook")
        return Declined(
            "`torch.func.grad` takes a function and not its result, so the code around has to change; or take the "
            "gradient outside of the compiled code"
        )

    examples = (
        Example(
            name="backward",
            code=forward("""
                loss = self.fc(x).sum()
                loss.backward()  # DYN607
                return loss.detach()
            """),
            declined="takes a function and not its result",
        ),
        Example(
            name="gradient",
            code=forward("""
                energy = self.fc(x).sum()
                return torch.autograd.grad(energy, self.fc.weight)[0]  # DYN607
            """),
        ),
        Example(
            name="gradient-by-a-leaf-in-its-block",
            code=forward("""
                with torch.enable_grad():
                    position = x.detach().requires_grad_()  # DYN608
                    h = torch.tanh(self.fc(position))
                    energy = h.square().sum(-1)
                    force = torch.autograd.grad(energy.sum(), position, create_graph=True)[0]  # DYN607
                return energy, -force
            """),
        ),
        Example(
            name="gradient-that-is-not-differentiated",
            code=forward("""
                with torch.enable_grad():
                    hat = x.detach().clone()
                    hat.requires_grad_(True)  # DYN608
                    (slope,) = torch.autograd.grad(self.fc(hat).sum(), [hat])  # DYN607
                return self.fc(x) * slope
            """),
        ),
        Example(
            name="retained",
            code=forward("""
                h = self.fc(x)
                h.retain_grad()  # DYN607
                return h * 2
            """),
            fixed=forward("""
                h = self.fc(x)
                if not torch.compiler.is_compiling():
                    h.retain_grad()
                return h * 2
            """),
        ),
        Example(
            name="retained-and-read",
            code=forward("""
                h = self.fc(x)
                h.retain_grad()  # DYN607
                return h * 2, h.grad
            """),
            declined="is read here",
        ),
        Example(
            name="saved-tensors",
            code=forward("""
                with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):  # DYN607
                    h = self.fc(x)
                return h
            """),
        ),
        Example(
            name="anomalies",
            code=forward("""
                with torch.autograd.detect_anomaly(check_nan=False):  # DYN607
                    h = self.fc(x)
                return h
            """),
        ),
        Example(
            name="function-transform",
            code=forward("return torch.func.grad(lambda x: self.fc(x).sum())(x)"),
        ),
        Example(
            name="tensor-hook",
            code=forward("""
                h = self.fc(x)
                h.register_hook(lambda gradient: gradient * 2)
                return h
            """),
        ),
        Example(
            name="training-step",
            code=forward("return self.fc(x)")
            + "\n\ndef step(model, x):\n    loss = model(x).sum()\n    loss.backward()\n    return loss.item()\n",
        ),
    )


def _kept_in_eager(scope: Scope, event: Call) -> Rewrite:
    """Ask for the gradient to be kept in eager code only."""
    owner = event.node.func.value if isinstance(event.node.func, ast.Attribute) else event.node
    reads = [one for one in walk(scope.function.node) if isinstance(one, ast.Attribute) and one.attr == "grad"]
    if any(ast.dump(one.value) == ast.dump(owner) for one in reads):
        raise Refusal(f"{scope.quote(owner)}`.grad` is read here; take the gradient outside of the compiled code")
    condition = f"a compiled run does not keep the gradient of {scope.quote(owner)}"
    return guarded(scope, event, "Keep the gradient only in eager code", safety="unsafe", conditions=(condition,))
