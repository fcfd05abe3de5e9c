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
# Layers that compare a square mask with a causal one, unless an argument says whether it is causal. Both arguments are
# given with their positions.
_MASKED = {
    "torch.nn.TransformerEncoder": [("mask", 1, "is_causal", 3)],
    "torch.nn.TransformerDecoder": [("tgt_mask", 2, "tgt_is_causal", 6)],
    "torch.nn.Transformer": [("src_mask", 2, "src_is_causal", 8), ("tgt_mask", 3, "tgt_is_causal", 9)],
}
_MASKED_CALLS = frozenset(f"{name}.{method}" for name in _MASKED for method in ("__call__", "forward"))
_SPLITTING = frozenset({"torch.tensor_split", "Tensor.tensor_split"})
_TRUNCATED = "torch.nn.init.trunc_normal_"


class CheckingCall(Rule):
    code = "DYN305"
    name = "checking-call"
    summary = "A function that reads its arguments in order to validate them breaks the graph"
    severity = "warning"
    gb = ("GB0007", "GB0033", "GB0055", "GB0124", "GB0170")
    reads_data = True
    events = (Call,)
    calls = frozenset(_INSTEAD) | _SPLITTING | _SAMPLES | _TOLD | _MASKED_CALLS | {_CHECK, _TRUNCATED}

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Flag the call if it definitely reads its data."""
        if event.callee in _MASKED_CALLS:
            yield from _compared(event)
            return
        if event.callee == _TRUNCATED:
            yield Violation(
                event.node,
                "`trunc_normal_()` draws numbers until all are within the bounds, and their test breaks the graph",
                help="call it in `__init__`, or draw with `torch.randn_like` and clamp the numbers",
                gb=("GB0124", "GB0170"),
                torch=">=2.13",
            )
            return
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
        if event.callee in _MASKED_CALLS:
            return Declined(f"dynalint cannot tell whether the mask is causal; {violation.help}")
        if event.callee == _TRUNCATED:
            return Declined(f"other functions draw from another distribution; {violation.help}")
        return Declined(
            f"writing out the computation skips a check and changes the order of rounding; {violation.help}"
        )


def _compared(event: Call) -> Iterable[Violation]:
    """Yield the violation for a call to a layer that compares its mask with a causal one."""
    owner = event.callee.rpartition(".")[0]
    if event.callee.endswith("__call__") and not isinstance(event.receiver, k.Object):
        return  # a class of the project may override `forward`
    for name, position, saying, place in _MASKED[owner]:
        mask = k.only_tensor(_given(event, name, position))
        if mask is not None and mask.rank in (None, 2) and _given(event, saying, place) == k.NONE:
            yield Violation(
                event.node,
                f"`{owner.removeprefix('torch.')}` compares `{name}` with a causal mask, which breaks the graph",
                help=f"pass `{saying}=True` if the mask is causal, and `{saying}=False` if it is not",
                gb=("GB0124",),
            )
            return


def _given(event: Call, name: str, position: int) -> k.Kind:
    """Return an argument of a call, or None's kind if the argument is left out."""
    return event.args[position] if len(event.args) > position else event.keywords.get(name, k.NONE)


def _reads(event: Call) -> bool:
    if event.callee.startswith("torch.nn.GaussianNLLLoss"):
        variance = event.args[2] if len(event.args) > 2 else event.keywords.get("var", k.UNKNOWN)
        return k.only_tensor(variance) is not None
    return "data_dependent" in event.flags
