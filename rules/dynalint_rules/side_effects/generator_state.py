"""DYN409: the state of torch's random generators."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from contextlib import suppress

from dynalint.rulekit import (
    Call,
    Declined,
    Project,
    Refusal,
    Rewrite,
    Rule,
    Violation,
    k,
    leads_to_raise,
    walk_function,
)
from dynalint_rules._code.calls import callee
from dynalint_rules._code.scope import Scope
from dynalint_rules._shared.guard.bystanders import guarded_bystanders

_STATE = "manual_seed get_rng_state set_rng_state initial_seed".split()

_ASKS = frozenset({"torch.get_rng_state", "torch.random.get_rng_state"})
_AGAIN = (
    "code that restores a state draws the same numbers again, for example for gradients, and would draw "
    "others; use `torch.utils.checkpoint.checkpoint`, which Dynamo traces with its random numbers"
)
# What draws takes a generator under this name, and Dynamo hands on none.
_DRAWS = frozenset(
    [
        *(f"torch.{name}" for name in ("bernoulli", "multinomial", "normal", "poisson")),
        *(f"torch.{name}{like}" for name in ("rand", "randn", "randint") for like in ("", "_like")),
        "torch.randperm",
        *(f"Tensor.{name}_" for name in "bernoulli cauchy exponential geometric log_normal normal uniform".split()),
        *(f"Tensor.{name}" for name in ("bernoulli", "multinomial")),
        *(f"torch.nn.init.{name}_" for name in "kaiming_normal kaiming_uniform normal orthogonal trunc_normal".split()),
        *(f"torch.nn.init.{name}_" for name in "uniform xavier_normal xavier_uniform".split()),
    ]
)
_SAVES = _ASKS | {"torch.set_rng_state", "torch.random.set_rng_state"}


class GeneratorState(Rule):
    code = "DYN409"
    name = "generator-state"
    summary = "Seeding a random number generator or accessing its state breaks the graph"
    gb = ("GB0007", "GB0055", "GB0208", "GB0363", "GB7650")
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
        | _DRAWS
    )

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Flag the call wherever it stands, and one that draws if a generator is handed to it."""
        if leads_to_raise(event, project):
            return
        if event.callee in _DRAWS:
            yield from _drawn(event)
        else:
            yield Violation(
                event.node,
                f"`{event.callee}()` accesses the state of a random number generator, which breaks the graph",
                help="seed outside the compiled code, or keep fixed noise in a buffer",
            )

    def fix(self, event: Call, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Put a state back in eager code only; where to seed is for a person to say."""
        if event.callee in _SAVES:
            title = "Restore the random state only in eager code"
            effect = "a compiled run does not put the state of the random generator back"
            with suppress(Refusal):
                scope = Scope.of(event, project)
                if _draws_again(scope):
                    return Declined(_AGAIN)
                return guarded_bystanders(scope, event, _SAVES.__contains__, title, effect=effect)
        return Declined(
            "seeding elsewhere changes which numbers are drawn; seed outside the compiled code, or draw fixed "
            "noise once in `__init__` and keep it in a buffer"
        )


def _drawn(event: Call) -> Iterator[Violation]:
    """Yield a violation for what draws by a generator, as advice where that may be None."""
    given = event.keywords.get("generator")
    kind = None if given is None else k.present(given)
    if isinstance(kind, k.Object) and kind.type == "torch.Generator":
        yield Violation(
            event.node,
            f"`{event.callee.replace('Tensor.', 't.')}()` takes a random number generator, which Dynamo cannot "
            "pass to a graph",
            help="draw from torch's default generator, or outside the compiled code",
            category=None if kind == given else "advice",
            gb=("GB0055",),
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
