"""DYN210: converting a tensor to text in a way that Dynamo does not trace."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dynalint.rulekit import Call, Event, Format, Project, Rule, Violation, k, leads_to_raise

_BUILTINS = ("builtins.str", "builtins.repr", "builtins.ascii")
_METHODS = ("Tensor.__str__", "Tensor.__repr__", "Tensor.__format__")


class TensorToText(Rule):
    code = "DYN210"
    name = "tensor-to-text"
    summary = "Formatting a tensor with `str()`, `repr()` or `%` reads its values and breaks the graph"
    gb = ("GB0059", "GB0569", "GB0208", "GB0033", "GB0088")
    reads_data = True
    events = (Call, Format)
    calls = frozenset({*_BUILTINS, *_METHODS})
    refusal = (
        "an f-string, which Dynamo traces, shows a 0-dim tensor as a plain number; write the f-string by hand if that "
        "is acceptable"
    )

    def check(self, event: Call | Format, project: Project) -> Iterable[Violation]:
        """Flag converting a value to text if it definitely is or contains a tensor."""
        way = _way(event, project)
        if way and not leads_to_raise(event, project):
            yield Violation(
                event.node,
                f"formatting a tensor with {way} reads its values, which breaks the graph",
                help="use a plain f-string, or create the string outside the compiled code",
            )


def _way(event: Event, project: Project) -> str:
    """Return the untraced conversion, in backticks, or "" if Dynamo traces it or the value may not be a tensor."""
    if isinstance(event, Format):
        if event.style == "percent" and k.only_tensor(event.kind) is not None:
            return "`%`"
        outer = project.parents(event.function).get(event.node)
        if isinstance(outer, ast.FormattedValue) and outer.conversion != -1 and k.only_tensor(event.kind) is not None:
            return f"`!{chr(outer.conversion)}`"
        return ""
    if isinstance(event, Call):
        name = f"`{event.callee.rpartition('.')[2]}()`"
        if event.callee in _METHODS:
            return name if event.receiver is not None and k.only_tensor(event.receiver) is not None else ""
        return name if len(event.args) == 1 and _holds_tensor(event.args[0]) else ""
    return ""


def _holds_tensor(kind: k.Kind) -> bool:
    if isinstance(kind, k.Sequence) and kind.type in ("list", "tuple") and kind.items:
        return any(k.only_tensor(item) is not None for item in kind.items)
    return k.only_tensor(kind) is not None
