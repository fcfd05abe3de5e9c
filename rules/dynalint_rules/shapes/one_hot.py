"""DYN304: `one_hot` without a number of classes."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.rulekit import Call, Declined, Event, Project, Rewrite, Rule, Violation, k

_CALLEE = "torch.nn.functional.one_hot"


class OneHotWithoutClasses(Rule):
    code = "DYN304"
    name = "one-hot-without-classes"
    summary = "`one_hot` without `num_classes` reads the data for its shape, which ends the graph"
    gb = ("GB0246", "GB0033")
    events = (Call,)
    calls = frozenset({_CALLEE})

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call if it certainly leaves the number of classes open."""
        if isinstance(event, Call) and _is_open(event):
            yield Violation(
                event.node,
                "`one_hot()` without `num_classes` reads the largest class out of the data, which ends the graph",
                help="give the number of classes: `one_hot(t, num_classes)`",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: the number of classes is not in the code."""
        return Declined(
            "how many classes there are is not in the code; give the number as `num_classes`, from the configuration "
            "or from the shape that the result has to fit"
        )


def _is_open(event: Call) -> bool:
    if len(event.node.args) + len(event.node.keywords) != len(event.args) + len(event.keywords):
        return False  # `*args` may hold the number
    given = event.args[1] if len(event.args) > 1 else event.keywords.get("num_classes")
    return given is None or (isinstance(given, k.Value) and given.constant == -1)
