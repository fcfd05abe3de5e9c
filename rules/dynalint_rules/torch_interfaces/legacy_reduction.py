"""DYN620: a loss created in compiled code with a deprecated reduction option."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.rulekit import Call, Project, Rule, Violation, k, leads_to_raise

_OPTIONS = ("size_average", "reduce")
# The positions of both options in the constructors. Dynamo traces `CrossEntropyLoss` with these options.
_PLACES = {
    **dict.fromkeys("KLDivLoss L1Loss MSELoss MultiLabelMarginLoss SmoothL1Loss SoftMarginLoss".split(), (0, 1)),
    **dict.fromkeys("BCELoss BCEWithLogitsLoss CosineEmbeddingLoss HingeEmbeddingLoss".split(), (1, 2)),
    **dict.fromkeys("MarginRankingLoss MultiLabelSoftMarginLoss".split(), (1, 2)),
    "NLLLoss": (1, 3),
    "PoissonNLLLoss": (2, 4),
    "MultiMarginLoss": (3, 4),
    "TripletMarginLoss": (4, 5),
}


class LegacyReduction(Rule):
    code = "DYN620"
    name = "legacy-reduction"
    summary = "Creating a loss with `size_average` or `reduce` in compiled code breaks the graph"
    gb = ("GB0208",)
    refusal = "the rewritten code would no longer warn about the deprecated option; use `reduction` instead"
    events = (Call,)
    calls = frozenset(f"torch.nn.{name}" for name in _PLACES)

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Flag a call to the constructor if one of the options is passed and is not None."""
        if leads_to_raise(event, project):
            return
        name = event.callee.rpartition(".")[2]
        given = dict(enumerate(event.args))
        for option, place in zip(_OPTIONS, _PLACES[name], strict=True):
            kind = event.keywords.get(option, given.get(place, k.NONE))
            if k.is_number(kind):
                message = f"creating `nn.{name}` with the deprecated option `{option}` breaks the graph"
                yield Violation(event.node, message, help="use `reduction` instead")
                return
