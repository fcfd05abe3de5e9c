"""DYN304: `one_hot` without the number of classes."""

from __future__ import annotations

from dynalint.rulekit import Call, Project, Rule, k

_CALLEE = "torch.nn.functional.one_hot"


class OneHotWithoutClasses(Rule):
    code = "DYN304"
    name = "one-hot-without-classes"
    summary = "`one_hot` without `num_classes` reads its shape from the data, which breaks the graph"
    gb = ("GB0246", "GB0033")
    reads_data = True
    events = (Call,)
    calls = frozenset({_CALLEE})
    message = "`one_hot()` without `num_classes` reads the largest class from the data, which breaks the graph"
    help = "pass the number of classes, as in `one_hot(t, num_classes)`"
    refusal = (
        "the code does not say how many classes there are; pass `num_classes`, either from the configuration "
        "or from a shape that the result has to match"
    )

    def flags(self, event: Call, project: Project) -> bool:
        """Return whether the call definitely does not give the number of classes."""
        return _is_open(event)


def _is_open(event: Call) -> bool:
    if len(event.node.args) + len(event.node.keywords) != len(event.args) + len(event.keywords):
        return False  # the number may be in `*args`
    given = event.args[1] if len(event.args) > 1 else event.keywords.get("num_classes")
    return given is None or (isinstance(given, k.Value) and given.constant == -1)
