"""DYN620: a loss made while the model runs, told by an old option how to reduce."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import Call, Declined, Project, Rewrite, Rule, Violation, k, leads_to_raise, rw

_OPTIONS = ("size_average", "reduce")
# What each stands for, if it is true and if it is false, where the other is not given.
_WORDS = {"size_average": ("mean", "sum"), "reduce": ("mean", "none")}
# At which places the constructors take the two options. Dynamo makes a `CrossEntropyLoss` by itself.
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
    events = (Call,)
    calls = frozenset(f"torch.nn.{name}" for name in _PLACES)

    def check(self, event: Call, project: Project) -> Iterable[Violation]:
        """Flag the constructor's call where one of the options is given, and not as None."""
        if leads_to_raise(event, project):
            return
        name = event.callee.rpartition(".")[2]
        given = dict(enumerate(event.args))
        for option, place in zip(_OPTIONS, _PLACES[name], strict=True):
            kind = event.keywords.get(option, given.get(place, k.NONE))
            if k.is_number(kind):
                message = f"`nn.{name}()` takes the deprecated `{option}`, which breaks the graph"
                yield Violation(event.node, message, help="use `reduction`")
                return

    def fix(self, event: Call, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Use `reduction`, where a single old option says it."""
        rewrite = _by_reduction(event)
        return rewrite or Declined(
            "several arguments set the reduction, or are passed by position; use `reduction` by hand"
        )


def _by_reduction(event: Call) -> Rewrite | None:
    """The rewrite of a call that one old option alone tells how to reduce; None if there is more."""
    node, file = event.node, event.function.file
    places = dict(zip(_PLACES[event.callee.rpartition(".")[2]], _OPTIONS, strict=True))
    if any(isinstance(one, ast.Starred) for one in node.args) or any(one.arg is None for one in node.keywords):
        return None
    given: list[tuple[str, ast.expr | ast.keyword, ast.expr]] = [
        (places[place], value, value) for place, value in enumerate(node.args) if place in places
    ]
    given += [(one.arg, one, one.value) for one in node.keywords if one.arg in _OPTIONS]
    if len(given) != 1 or any(one.arg == "reduction" for one in node.keywords):
        return None
    option, argument, value = given[0]
    if argument is value and value is not node.args[-1]:
        return None
    yes, no = _WORDS[option]
    conditions = [f"torch no longer warns that `{option}` is deprecated"]
    if isinstance(value, ast.Constant):
        text = f'"{yes if value.value else no}"'
    elif isinstance(value, ast.Name | ast.Attribute):
        text = f'"{yes}" if {file.segment(value)} else "{no}"'
        conditions.append(f"`{file.segment(value)}` is never None, which torch treats as true")
    else:
        return None
    every: list[ast.expr | ast.keyword] = [*node.args, *node.keywords]
    every.sort(key=lambda one: (one.lineno, one.col_offset))
    place, words = every.index(argument), rw.expression(text)
    edits = rw.written(file, (node, lambda old: rw.with_argument(old, place, words, "reduction")))
    return Rewrite("Use `reduction`", "unsafe", edits, tuple(conditions))
