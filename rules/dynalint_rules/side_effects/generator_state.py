"""DYN409: the state of torch's random number generators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dynalint.rulekit import (
    Call,
    Project,
    Rule,
    Violation,
    k,
    leads_to_raise,
)

_STATE = "manual_seed get_rng_state set_rng_state initial_seed".split()

# These take a `generator`, which Dynamo cannot pass to the graph.
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
    refusal = (
        "seeding elsewhere changes which numbers are generated; seed outside the compiled code, or generate "
        "fixed noise once in `__init__` and keep it in a buffer"
    )

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Flag calls that access the state, and calls that draw from a generator."""
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


def _drawn(event: Call) -> Iterator[Violation]:
    """Yield a violation for a call that draws from a generator, as advice if the generator may be None."""
    given = event.keywords.get("generator")
    kind = None if given is None else k.present(given)
    if isinstance(kind, k.Object) and kind.type == "torch.Generator":
        yield Violation(
            event.node,
            f"`{event.callee.replace('Tensor.', 't.')}()` takes a random number generator, which Dynamo cannot "
            "pass to the graph",
            help="use torch's default generator, or generate the numbers outside the compiled code",
            category=None if kind == given else "advice",
            gb=("GB0055",),
        )
