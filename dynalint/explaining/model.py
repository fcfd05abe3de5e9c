"""The explanation of a target as plain data, with paths, lines and numbers as they are displayed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from dynalint.confirm.worker.dynamo.graph_records import Guards, Outcome, Remedy, Size, Tried


@dataclass(frozen=True)
class Place:
    """A line of source code.

    Columns are 1-based, count characters, and have an exclusive end. Unknown columns are 0.
    """

    path: str
    line: int
    column: int = 0
    end_column: int = 0

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True)
class Operator:
    """An operator that a line calls `count` times. `place` is None if the user's code does not call it directly."""

    name: str
    count: int
    place: Place | None


@dataclass(frozen=True)
class ExplainedGraph:
    """A graph. `number` is 1-based and in compilation order. `resumes` means that the graph continues after a break.

    `call` is the 1-based number of the call that compiled it. `replaces` is the guard that failed before a
    recompilation, or None if the graph was compiled for the first time.
    """

    number: int
    function: str
    place: Place
    resumes: bool
    call: int
    operators: tuple[Operator, ...]
    lines: dict[str, tuple[int, ...]]
    parameters: Size
    inputs: Size
    outputs: Size
    guards: Guards
    replaces: str | None

    @property
    def size(self) -> int:
        """The number of operators."""
        return sum(operator.count for operator in self.operators)


@dataclass(frozen=True)
class OwnFinding:
    """dynalint's own finding on the line that breaks. `fix` is the title of its fix, if it has one."""

    code: str
    name: str
    message: str
    help: str
    fix: str | None


@dataclass(frozen=True)
class ExplainedBreak:
    """A place where Dynamo breaks the graph or skips the rest of the function.

    `ends` are the numbers of the graphs that it ended. `loses` are the functions that fell back to eager mode because
    of it, and `cuts_off` are the functions in which only the remaining code fell back. `consequence` means that Dynamo
    only reached the break because of another break in the same function.
    """

    place: Place
    function: str
    inside: str
    gb: str | None
    type: str
    reason: str
    explanation: str
    hints: tuple[str, ...]
    loses: tuple[str, ...]
    cuts_off: tuple[str, ...]
    ends: tuple[int, ...]
    consequence: bool
    rule: OwnFinding | None


@dataclass(frozen=True)
class ExplainedRecompile:
    """A recompilation in call number `call` because `guard` failed.

    `batch` is true if the call had another batch size.
    """

    function: str
    place: Place
    call: int
    batch: bool
    guard: str


@dataclass(frozen=True)
class Eager:
    """A function that runs only in Python, outside all graphs, and the reason."""

    function: str
    place: Place
    reason: str


@dataclass(frozen=True)
class ExplainedStep:
    """A graph that runs as part of a call, and the gap after it.

    `ended_by` is the index of the break that ends it, or None if its function returned. `crossing` is the data that
    this step and earlier steps pass to later ones.
    """

    graph: int
    crossing: Size
    ended_by: int | None
    last: bool


@dataclass(frozen=True)
class Advice:
    """Remedies for breaks and recompilations.

    `before` describes how the target compiles without a remedy. `remedies` are the remedies that helped, and `tried`
    are all that were tried. If `cut_short` is true, time ran out before all of them could be tried.
    """

    before: Outcome
    remedies: tuple[Remedy, ...]
    tried: tuple[Tried, ...]
    cut_short: bool


@dataclass(frozen=True)
class Source:
    """A file with user code: its lines, the numbers of the lines that ran, and the functions with their lines."""

    path: str
    lines: tuple[str, ...]
    ran: frozenset[int]
    functions: tuple[tuple[int, int, str], ...]


@dataclass(frozen=True)
class Explanation:
    """The explanation of a target.

    `fullgraph` indicates whether `fullgraph=True` succeeds, or is None if it was not tried.
    """

    target: str
    inputs: str
    torch: str
    python: str
    device: str
    calls: tuple[int, int]
    graphs: tuple[ExplainedGraph, ...]
    breaks: tuple[ExplainedBreak, ...]
    recompiles: tuple[ExplainedRecompile, ...]
    eager: tuple[Eager, ...]
    steps: tuple[ExplainedStep, ...]
    fullgraph: bool | None
    fullgraph_error: str
    error: str | None
    notes: tuple[str, ...] = ()
    advice: Advice | None = None
    sources: tuple[Source, ...] = field(default=(), repr=False)

    @property
    def first_graphs(self) -> tuple[ExplainedGraph, ...]:
        """The graphs that the first call compiled, before any recompilation."""
        return tuple(graph for graph in self.graphs if graph.call == 1)

    @property
    def causes(self) -> tuple[ExplainedBreak, ...]:
        """The breaks that are not a consequence of another break."""
        return tuple(one for one in self.breaks if not one.consequence)

    def to_json(self) -> dict[str, Any]:
        """Return everything except the source code as a value that can be converted to JSON."""
        record = asdict(self)
        del record["sources"]
        record["calls"] = {"same": self.calls[0], "batch": self.calls[1]}
        record["graph_count"] = len(self.first_graphs)
        record["break_count"] = len(self.causes)
        for graph, one in zip(record["graphs"], self.graphs, strict=True):
            graph["operator_count"] = one.size
            graph["guards"]["count"] = sum(one.guards.kinds.values())
        record["fullgraph"] = {"passes": self.fullgraph, "error": record.pop("fullgraph_error") or None}
        return record
