"""DYN510: tensor state that keeps the graph of the call that has computed it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Event, InplaceChange, StateChange
from dynalint.analysis.index import FunctionInfo, walk_function
from dynalint.analysis.project import Project
from dynalint.analysis.steps import walk
from dynalint.rules import Declined, Example, Replacement, Rewrite, Rule, Violation
from dynalint_rules._shared.autograd import keeps_graph, without_gradients
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.growth import names, reached_functions, related, sets_elsewhere, state_name
from dynalint_rules._shared.text import atom

_HOMES = frozenset({"attribute", "global", "class"})


class AttachedState(Rule):
    """Add to tensor state without `detach`, so that compiled code cannot train for more than one step.

    ## What it flags

    `self.m = 0.9 * self.m + h.mean(0)`, `self.loss_sum += loss`, `self.m.lerp_(h.mean(0), 0.1)` and the like, on an
    attribute or a module global, where the new value carries a gradient and is computed from the value that an earlier
    call has left, and where the compiled code does not use the state for anything else.

    Not flagged: values under `torch.no_grad()` or behind `.detach()`, state that the same call has set before or that
    is reset elsewhere in the compiled code, state that is replaced and not added to, and state that the result depends
    on: that fails, or is meant, in uncompiled code too.

    ## Why

    The state refers to the graph of the call that has computed it, and so to the graphs of all calls before. Uncompiled
    code never looks back, because no result depends on the state; it only holds on to more memory with every step.
    Compiled code treats the state as one more output of the function and goes backward through all of them: the second
    training step raises "Trying to backward through the graph a second time".

    ## Example

    ```python
    def forward(self, x):
        h = self.fc(x)
        self.mean = 0.9 * self.mean + 0.1 * h.mean(0)
        return h
    ```

    Use instead:

    ```python
    def forward(self, x):
        h = self.fc(x)
        self.mean = (0.9 * self.mean + 0.1 * h.mean(0)).detach()
        return h
    ```

    ## How it is rewritten

    The value that is stored, or what is added to the state, gets a `.detach()`.

    ## When the rewrite is not exact

    The state has the same values and no gradient. Code outside of the project that differentiates through it, such as
    a training loop that adds `model.aux_loss` to its loss, would silently lose that part of the gradient; so the
    rewrite counts as unsafe.

    ## How Dynamo words it

    It does not: the graphs are whole and `fullgraph=True` passes. The backward pass of the second step raises
    `RuntimeError`: "Trying to backward through the graph a second time (or directly access saved tensors after they
    have already been freed)".

    ## References

    - https://docs.pytorch.org/docs/stable/generated/torch.Tensor.detach.html
    """

    code = "DYN510"
    name = "attached-state"
    summary = "Tensor state that is not detached makes the second training step of compiled code fail"
    category = "miscompile"
    severity = "warning"
    events = (StateChange, InplaceChange)

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag state that is added to with a gradient and that nothing else in the region reads."""
        assert isinstance(event, StateChange | InplaceChange)
        if event.home.type not in _HOMES or not _accumulates(event):
            return
        name, values = state_name(event), _values(event)
        if (
            values
            and keeps_graph(event.statement, values, event.function, name, project)
            and not sets_elsewhere(event, project)
            and not _is_wrapped(event.function, project)
            and not _is_read(event, project)
        ):
            yield Violation(
                event.statement,
                f"`{event.home.name}` keeps the graph of every call: compiled code fails in the second training step",
                help="Store the value without its gradient: `.detach()`.",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Detach what is stored."""
        assert isinstance(event, StateChange | InplaceChange)
        file, statement = event.function.file, event.statement
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
            values = [statement.value] if statement.value is not None else []
        else:
            kinds = project.kinds(event.function)
            values = [value for value in _values(event) if k.may_be_tensor(kinds.get(value, k.UNKNOWN))]
        if not values:
            return Declined(
                f"dynalint cannot tell what is added to `{event.home.name}`; call `.detach()` on it by hand"
            )
        return Rewrite(
            title=f"Detach what is stored in `{event.home.name}`",
            safety="unsafe",
            replacements=tuple(
                Replacement(file, *file.span(value), f"{atom(value, file.segment(value))}.detach()") for value in values
            ),
            conditions=(f"nothing outside of the compiled code differentiates through `{event.home.name}`",),
        )

    examples = (
        Example(
            name="wrapped-by-the-constructor",
            code="""
            import torch
            from torch import nn


            def without_gradients(function):
                def wrapped(*args):
                    with torch.set_grad_enabled(False):
                        return function(*args)

                return wrapped


            class Model(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 8)
                    self.register_buffer("total", torch.zeros(8))
                    self.update = without_gradients(self.update)

                def update(self, h: torch.Tensor):
                    self.total = self.total + h.sum(0)

                def forward(self, x: torch.Tensor):
                    h = self.fc(x)
                    self.update(h)
                    return h
            """,
        ),
        Example(
            name="moving-average",
            code=forward(
                """
                h = self.fc(x)
                self.mean = 0.9 * self.mean + 0.1 * h.mean(0)  # DYN510
                return h
                """,
                init='self.fc = nn.Linear(8, 8)\nself.register_buffer("mean", torch.zeros(8))',
            ),
            fixed=forward(
                """
                h = self.fc(x)
                self.mean = (0.9 * self.mean + 0.1 * h.mean(0)).detach()
                return h
                """,
                init='self.fc = nn.Linear(8, 8)\nself.register_buffer("mean", torch.zeros(8))',
            ),
        ),
        Example(
            name="sum-of-losses",
            code=forward(
                """
                h = self.fc(x)
                self.penalty += h.pow(2).mean()  # DYN510
                return h
                """,
                init='self.fc = nn.Linear(8, 8)\nself.register_buffer("penalty", torch.tensor(0.0))',
            ),
            fixed=forward(
                """
                h = self.fc(x)
                self.penalty += h.pow(2).mean().detach()
                return h
                """,
                init='self.fc = nn.Linear(8, 8)\nself.register_buffer("penalty", torch.tensor(0.0))',
            ),
        ),
        Example(
            name="in-place-average",
            code=forward(
                """
                h = self.fc(x)
                self.mean.lerp_(h.mean(0), 0.1)  # DYN510
                return h
                """,
                init='self.fc = nn.Linear(8, 8)\nself.register_buffer("mean", torch.zeros(8))',
            ),
            fixed=forward(
                """
                h = self.fc(x)
                self.mean.lerp_(h.mean(0).detach(), 0.1)
                return h
                """,
                init='self.fc = nn.Linear(8, 8)\nself.register_buffer("mean", torch.zeros(8))',
            ),
        ),
        Example(
            name="read-without-gradient",
            code=forward(
                """
                h = self.fc(x)
                self.mean = self.mean + h.mean(0)  # DYN510
                return h + self.mean.detach()
                """,
                init="self.fc = nn.Linear(8, 8)\nself.mean = torch.zeros(8)",
            ),
            fixed=forward(
                """
                h = self.fc(x)
                self.mean = (self.mean + h.mean(0)).detach()
                return h + self.mean.detach()
                """,
                init="self.fc = nn.Linear(8, 8)\nself.mean = torch.zeros(8)",
            ),
        ),
        Example(
            name="detached",
            code=forward(
                """
                h = self.fc(x)
                self.mean = 0.9 * self.mean + 0.1 * h.detach().mean(0)
                return h
                """,
                init='self.fc = nn.Linear(8, 8)\nself.register_buffer("mean", torch.zeros(8))',
            ),
        ),
        Example(
            name="without-gradients",
            code=forward(
                """
                h = self.fc(x)
                with torch.no_grad():
                    self.mean = 0.9 * self.mean + 0.1 * h.mean(0)
                return h
                """,
                init='self.fc = nn.Linear(8, 8)\nself.register_buffer("mean", torch.zeros(8))',
            ),
        ),
        Example(
            name="replaced",
            code=forward(
                """
                h = self.fc(x)
                self.last = h.mean(0)
                return h
                """,
                init="self.fc = nn.Linear(8, 8)\nself.last = torch.zeros(8)",
            ),
        ),
        Example(
            name="set-in-the-same-call",
            code=forward(
                """
                self.penalty = torch.zeros(())
                for _ in range(2):
                    x = self.fc(x)
                    self.penalty = self.penalty + x.pow(2).mean()
                return x
                """,
                init="self.fc = nn.Linear(8, 8)\nself.penalty = torch.zeros(())",
            ),
        ),
    )


def _accumulates(event: StateChange | InplaceChange) -> bool:
    """Whether tensor state is computed from what it was; an operator in place is seen as a store, so only once."""
    if isinstance(event, InplaceChange):
        return event.method.endswith("_") and not (
            isinstance(event.tensor, k.Tensor) and event.tensor.origin == "parameter"
        )
    return event.reads_old and not event.fresh and k.only_tensor(event.new) is not None


def _values(event: StateChange | InplaceChange) -> list[ast.expr]:
    """What is stored or added: the right side of an assignment, the arguments of a chain of methods in place."""
    statement = event.statement
    if isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign):
        return [statement.value] if statement.value is not None else []
    if not isinstance(statement, ast.Expr):
        return []
    values: list[ast.expr] = []
    node = statement.value
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        values += [*node.args, *(keyword.value for keyword in node.keywords)]
        node = node.func.value
    return values


def _is_wrapped(function: FunctionInfo, project: Project) -> bool:
    """Whether `self.update = wrap(self.update)` stands before a method: what wraps it may switch gradients off."""
    return function.owner is not None and any(function.name in cls.writers for cls in project.mro(function.owner))


def _is_read(event: StateChange | InplaceChange, project: Project) -> bool:
    """Whether the region reads the state with its gradient anywhere but where it is added to."""
    name = state_name(event)
    for function in reached_functions(project, name):
        if not related(function.owner, event.function.owner, project):
            continue
        parents = project.parents(function)
        own = set(walk(event.statement)) if function is event.function else set()
        reads = (
            node
            for node in walk_function(function.node)
            if isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load) and names(node, name)
        )
        if any(node not in own and not _is_cut(node, parents) for node in reads):
            return True
    return False


def _is_cut(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Whether a read gives no gradient: `.detach()`, or under `torch.no_grad()`."""
    parent = parents.get(node)
    if isinstance(parent, ast.Attribute) and parent.attr in ("detach", "data", "shape", "dtype", "device"):
        return True
    while parent is not None:
        if isinstance(parent, ast.With) and without_gradients(parent):
            return True
        parent = parents.get(parent)
    return False
