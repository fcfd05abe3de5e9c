"""DYN408: NumPy's random numbers."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.rulekit import Call, Project, Rule, Violation, leads_to_raise

# The number of positional arguments before the size. These functions return a number if there is no size.
_SIZED = {
    "rand": 0,
    "randn": 0,
    "random": 0,
    "random_sample": 0,
    "sample": 0,
    "uniform": 2,
    "normal": 2,
    "randint": 2,
}
_UNTRACED = (
    "choice permutation default_rng RandomState beta binomial bytes chisquare dirichlet exponential f gamma geometric "
    "get_state set_state gumbel hypergeometric laplace logistic lognormal logseries multinomial multivariate_normal "
    "negative_binomial pareto poisson power random_integers ranf rayleigh standard_cauchy standard_exponential "
    "standard_gamma standard_normal standard_t triangular vonmises wald weibull zipf"
).split()

# Generators with methods that Dynamo does not trace.
_GENERATORS = ("numpy.random.Generator", "numpy.random.RandomState")


class NumpyRandom(Rule):
    code = "DYN408"
    name = "numpy-random"
    summary = "Generating a number with `numpy.random` breaks the graph"
    gb = ("GB0033", "GB0294", "GB0156")
    events = (Call,)
    calls = frozenset(
        {*(f"numpy.random.{name}" for name in (*_SIZED, *_UNTRACED)), *(f"{name}.*" for name in _GENERATORS)}
    )
    refusal = (
        "torch generates different numbers; generate them outside the compiled code and pass them in as an argument"
    )

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Flag the call unless Dynamo traces the function and it returns an array."""
        if leads_to_raise(event, project):
            return
        owner, _, name = event.callee.rpartition(".")
        if owner in _GENERATORS:
            yield Violation(
                event.node,
                f"Dynamo does not trace `{name}()` of a NumPy generator, so the graph breaks here",
                help="generate the number with torch, or generate it outside and pass it in as an argument",
            )
            return
        sized = name in _SIZED and (len(event.node.args) > _SIZED[name] or "size" in event.keywords)
        if not sized:
            yield Violation(
                event.node,
                f"`np.random.{name}()` breaks the graph",
                help="generate the number with torch, or generate it outside and pass it in as an argument",
            )
