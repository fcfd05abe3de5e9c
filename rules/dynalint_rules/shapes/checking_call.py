"""DYN305: torch functions that read the data of their arguments."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.rulekit import Call, Declined, Project, Rule, Violation, k

# The replacement to recommend for each function. The functions' flags say whether a call reads data.
_COVARIANCE = "centre the rows with `x = x - x.mean(1, keepdim=True)` and compute `x @ x.mT / (n - 1)`"
_LOSS = "write out the loss as `0.5 * (var.log() + (input - target) ** 2 / var)`, with `var` clamped from below"
_ASSERT = "use `torch._assert_async(t.all())`, which stays in the graph"
_VALID = "validate samples outside the compiled code, or turn validation off with `validate_args=False`"
_PIECES = "pass Python numbers as the split positions, so that the sizes of the pieces are known"
_INSTEAD = {
    "torch.cov": _COVARIANCE,
    "Tensor.cov": _COVARIANCE,
    "torch.corrcoef": _COVARIANCE,
    "Tensor.corrcoef": _COVARIANCE,
    "torch.nn.functional.gaussian_nll_loss": _LOSS,
    "torch.nn.GaussianNLLLoss.__call__": _LOSS,
}
_DISTRIBUTIONS = (
    "Bernoulli Beta Categorical Distribution ExponentialFamily Gamma Independent LogNormal MultivariateNormal "
    "NegativeBinomial Normal Poisson TransformedDistribution Uniform"
).split()
_SAMPLES = frozenset(f"torch.distributions.{name}._validate_sample" for name in _DISTRIBUTIONS)
# Their constructors check the parameters with constraints that Dynamo does not trace, if they are told to.
_TOLD = frozenset(
    f"torch.distributions.{name}"
    for name in (
        "Bernoulli Beta Binomial Categorical Cauchy Chi2 ContinuousBernoulli Dirichlet Exponential FisherSnedecor "
        "Gamma GeneralizedPareto Geometric Gumbel HalfCauchy HalfNormal InverseGamma Kumaraswamy Laplace LogNormal "
        "LogisticNormal LowRankMultivariateNormal Multinomial MultivariateNormal NegativeBinomial Normal "
        "OneHotCategorical Pareto Poisson RelaxedBernoulli RelaxedOneHotCategorical StudentT Uniform VonMises Weibull"
    ).split()
)
_CHECK = "torch._check_tensor_all"
_SPLITTING = frozenset({"torch.tensor_split", "Tensor.tensor_split"})


class CheckingCall(Rule):
    code = "DYN305"
    name = "checking-call"
    summary = "A function that reads its arguments in order to validate them breaks the graph"
    severity = "warning"
    gb = ("GB0007", "GB0033", "GB0055", "GB0124", "GB0170")
    reads_data = True
    events = (Call,)
    calls = frozenset(_INSTEAD) | _SPLITTING | _SAMPLES | _TOLD | {_CHECK}

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Flag the call if it certainly reads its data."""
        if event.callee in _SPLITTING:
            places = event.args[1:] if event.callee.startswith("torch.") else event.args
            given = places[0] if places else event.keywords.get("tensor_indices_or_sections", k.UNKNOWN)
            reads = k.only_tensor(given) is not None
        elif event.callee in _TOLD:
            reads = event.keywords.get("validate_args") == k.Value("bool", True)
        else:
            reads = event.callee == _CHECK or event.callee in _SAMPLES or _reads(event)
        if reads:
            owner, _, last = event.callee.rpartition(".")
            last = owner.rpartition(".")[2] if last == "__call__" else last
            yield Violation(
                event.node,
                f"`{last}()` reads the values of its arguments into Python, which breaks the graph",
                help=_ASSERT
                if event.callee == _CHECK
                else _VALID
                if event.callee in _SAMPLES or event.callee in _TOLD
                else _INSTEAD.get(event.callee, _PIECES),
            )

    def fix(self, event: Call, violation: Violation, project: Project) -> Declined:
        """Offer no fix.

        Without the function, the check would be skipped, and results would be rounded in a different order.
        """
        return Declined(
            f"writing out the computation skips a check and changes the order of rounding; {violation.help}"
        )


def _reads(event: Call) -> bool:
    if event.callee.startswith("torch.nn.GaussianNLLLoss"):
        variance = event.args[2] if len(event.args) > 2 else event.keywords.get("var", k.UNKNOWN)
        return k.only_tensor(variance) is not None
    return "data_dependent" in event.flags
