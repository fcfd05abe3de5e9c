"""DYN409: the state of torch's random generators."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from contextlib import suppress

from dynalint.analysis.events import Call, Event
from dynalint.analysis.exits import leads_to_raise
from dynalint.analysis.index import walk_function
from dynalint.analysis.project import Project
from dynalint.rules import Declined, Example, Rewrite, Rule, Violation
from dynalint_rules._shared.bystanders import guarded_bystanders
from dynalint_rules._shared.calls import callee
from dynalint_rules._shared.examples import forward
from dynalint_rules._shared.scope import Refusal, Scope

_STATE = "manual_seed get_rng_state set_rng_state initial_seed".split()

_ASKS = frozenset({"torch.get_rng_state", "torch.random.get_rng_state"})
_AGAIN = (
    "what runs under a state that was kept draws the same numbers once more, as for gradients, and would draw others; "
    "use `torch.utils.checkpoint.checkpoint`, which Dynamo traces with its random numbers"
)
_SAVES = _ASKS | {"torch.set_rng_state", "torch.random.set_rng_state"}


class GeneratorState(Rule):
    """Seed a random generator of torch, make one, or read or set its state, while a model runs.

    ## What it flags
    `torch.manual_seed`, `torch.cuda.manual_seed`, `torch.get_rng_state`, `torch.set_rng_state`, `torch.initial_seed`,
    `torch.random.fork_rng` and `torch.Generator(...)` in code that is compiled. Not flagged: drawing (`torch.rand`,
    `F.dropout`), which is traced, and seeding in code that is not compiled.

    ## Why
    A graph draws from the default generator in an order of its own. Dynamo ends the graph where code sets or asks for
    the generator's state, so that both sides of it see the same.

    ## Example
    ```python
    def forward(self, x):
        torch.manual_seed(0)
        return x + torch.rand(8)
    ```

    Use instead:
    ```python
    torch.manual_seed(0)
    model(x)
    ```

    ## How it is rewritten
    A state that is asked for and put back by the same function goes behind `if not torch.compiler.is_compiling():`.
    Anything else is declined: noise that is the same in every call can be drawn once, in `__init__`, and kept in a
    buffer. So is a state that is set for drawing the same numbers once more: one that comes from elsewhere, and any in
    a `torch.autograd.Function`, whose gradients would be those of other numbers.

    ## When the rewrite is not exact
    The guard is `unsafe`: eager code does as before, and after a compiled run the generator has moved on. Seeding
    before the call instead of within it changes what is drawn before that point in the call.

    ## How Dynamo words it
    GB0007: `Attempted to call function marked as skipped`, GB0208: `torch.* op returned non-Tensor`, GB0363: `An
    opaque object was created in the middle of the program`, GB7650: `torch.Generator method`.

    ## References
    - https://docs.pytorch.org/docs/stable/notes/randomness.html
    - https://docs.pytorch.org/docs/stable/compile/programming_model.graph_breaks_index.html
    """

    code = "DYN409"
    name = "generator-state"
    summary = "seeding a random generator or handling its state ends the graph"
    gb = ("GB0007", "GB0208", "GB0363", "GB7650")
    events = (Call,)
    calls = frozenset(
        {
            *(f"torch.{name}" for name in _STATE),
            *(f"torch.random.{name}" for name in (*_STATE, "fork_rng")),
            *(f"torch.cuda.{name}" for name in ("manual_seed", "manual_seed_all")),
            *(f"torch.cuda.random.{name}" for name in ("manual_seed", "manual_seed_all")),
            "torch.Generator",
            "torch._C.Generator",
            "torch.Generator.manual_seed",
            "torch.Generator.seed",
        }
    )

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call wherever it stands."""
        if isinstance(event, Call) and not leads_to_raise(event, project):
            yield Violation(
                event.node,
                f"`{event.callee}()` handles the state of a random generator, which ends the graph",
                help="seed outside of the compiled code, or keep fixed noise in a buffer",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Put a state back in eager code only; where to seed is for a person to say."""
        if isinstance(event, Call) and event.callee in _SAVES:
            title = "Put the random state back only in eager code"
            effect = "a compiled run does not put the state of the random generator back"
            with suppress(Refusal):
                scope = Scope.of(event, project)
                if _draws_again(scope):
                    return Declined(_AGAIN)
                return guarded_bystanders(scope, event, _SAVES.__contains__, title, effect=effect)
        return Declined(
            "seeding elsewhere changes what is drawn; seed outside of the compiled code, or draw fixed "
            "noise once in `__init__` and keep it in a buffer"
        )

    examples = (
        Example(
            name="seed",
            code=forward("""
                h = self.fc(x)
                torch.manual_seed(0)  # DYN409
                return h + torch.rand(8)
            """),
            declined="seed outside of the compiled code",
        ),
        Example(
            name="generator",
            code=forward("""
                h = self.fc(x)
                generator = torch.Generator()  # DYN409
                return h, generator is None
            """),
        ),
        Example(
            name="state-put-back",
            code=forward("""
                h = self.fc(x)
                state = torch.get_rng_state()  # DYN409
                h = h + torch.rand(8)
                torch.set_rng_state(state)  # DYN409
                return h
            """),
            fixed=forward("""
                h = self.fc(x)
                if not torch.compiler.is_compiling():
                    state = torch.get_rng_state()
                h = h + torch.rand(8)
                if not torch.compiler.is_compiling():
                    torch.set_rng_state(state)
                return h
            """),
        ),
        Example(
            name="saved-state",
            code=forward("""
                h = self.fc(x)
                state = torch.get_rng_state()  # DYN409
                return h, state
            """),
            declined="seed outside of the compiled code",
        ),
        Example(
            name="state-kept-for-the-next-call",
            code=forward(
                """
                self.state = torch.get_rng_state()  # DYN409
                return self.fc(x) + self.again(x)
                """,
                init="self.fc, self.state = nn.Linear(8, 8), None",
            )
            + """
    def again(self, x):
        torch.set_rng_state(self.state)  # DYN409
        return x * torch.rand(8)
""",
            declined="draw others",
        ),
        Example(
            name="drawing",
            code=forward("return self.fc(x) + torch.rand(8) + torch.rand_like(x)"),
        ),
        Example(
            name="seeded-outside",
            code=forward("return self.fc(x) + torch.rand(8)")
            + "\n\ndef step(model, x):\n    torch.manual_seed(0)\n    return model(x)\n",
        ),
    )


def _draws_again(scope: Scope) -> bool:
    """Whether the same numbers may be drawn once more: a state is set that the function has not asked for itself."""
    owner = scope.function.owner
    if owner is not None and "torch.autograd.Function" in scope.project.lineage(owner)[1]:
        return True
    own = list(walk_function(scope.function.node))
    asked = [one for one in own if isinstance(one, ast.Assign) and _name(scope, one.value) in _ASKS]
    given = {target for one in asked for target in one.targets}
    names = {one.id for one in given if isinstance(one, ast.Name)}
    others = {
        one.id for one in own if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store) and one not in given
    }
    others |= {one.arg for one in own if isinstance(one, ast.arg)}
    if not all(isinstance(one, ast.Name) for one in given):
        return True
    put = [one.args[:1] for one in own if isinstance(one, ast.Call) and _name(scope, one) in _SAVES - _ASKS]
    return not all(one and isinstance(one[0], ast.Name) and one[0].id in names - others for one in put)


def _name(scope: Scope, node: ast.expr) -> str:
    return callee(scope, node) if isinstance(node, ast.Call) else ""
