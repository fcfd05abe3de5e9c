"""What a finding costs, as far as the source shows it: the loops around it, and the function that Dynamo gives up on.

A graph break costs almost nothing outside a loop. Inside a loop, it happens in every iteration, and Dynamo runs the
function that contains the loop in eager mode. See `docs/output.md` for measured times.
"""

from __future__ import annotations

from itertools import pairwise

from dynalint.analysis.given_up import calls_in_loops, ends_function
from dynalint.analysis.index import FunctionInfo
from dynalint.analysis.project import Project
from dynalint.findings import Cost, as_name
from dynalint.rules import Flag


class Costs:
    """Computes what findings in a project cost."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._lost: dict[FunctionInfo, FunctionInfo | None] = {}

    def of(self, flag: Flag) -> Cost:
        """Return the cost of a rule's finding. Dynamo only gives up on a function if the graph break is certain."""
        event, function = flag.event, flag.event.function
        around = _loop_around(function)
        loop = function if event.position.loop else around and around[0]
        lost = None
        if flag.category == "graph-break" and not flag.proviso:
            own = flag.refused or ends_function(event, self._project.parents(function))
            lost = function if own else self._lost_around(function)
        return Cost(_name(loop), _name(lost), flag.rule.reads_data)

    def _lost_around(self, function: FunctionInfo) -> FunctionInfo | None:
        """Return the caller that Dynamo gives up on because it calls a breaking function in a loop."""
        if function not in self._lost:
            around = _loop_around(function)
            found = around is not None and any(calls_in_loops(around[0], {around[1]}, self._project))
            self._lost[function] = around[0] if around is not None and found else None
        return self._lost[function]


def _loop_around(function: FunctionInfo) -> tuple[FunctionInfo, FunctionInfo] | None:
    """Return the nearest function in the call chain that calls the next function in a loop, and that next function."""
    chain = function.callers
    return next((pair for pair in reversed(list(pairwise(chain))) if pair[1].called_by.get(pair[0])), None)


def _name(function: FunctionInfo | None) -> str:
    return "" if function is None else as_name(function.qualname)
