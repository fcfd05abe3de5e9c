"""The explanation of one target as plain data, with paths, lines and numbers as they are displayed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from dynalint.confirm.worker.dynamo.graph_records import Guards, Outcome, Remedy, Size, Tried


@dataclass(frozen=True)
class Place:
    """A line of source. Columns are 1-based, in characters, with an exclusive end; both are 0 if unknown."""

    path: str
    line: int
    column: int = 0
    end_column: int = 0

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True)
class Operator:
    """An operator that a line calls `count` times; `place` is None if no line of the user's code calls it."""

    name: str
    count: int
    place: Place | None


@dataclass(frozen=True)
class Graph:
    """One graph. `number` is 1-based, in compile order; `resumes` says that it continues a function after a break.

    `call` is the 1-based number of the call that compiled it. `replaces` is the guard that failed before a
    recompilation, or None for a first compilation.
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
class Rule:
    """dynalint's own finding on the line of a break. `fix` is the title of its fix, if it has one."""

    code: str
    name: str
    message: str
    help: str
    fix: str | None


@dataclass(frozen=True)
class Break:
    """A place where Dynamo breaks the graph or skips the rest of the function.

    `ends` are the numbers of the graphs that it ended. `loses` are functions that fell back to eager because of it,
    `cuts_off` those whose remainder did. `consequence` says that Dynamo only reached it because of another break in the
    same function.
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
    rule: Rule | None


@dataclass(frozen=True)
class Recompile:
    """A recompilation because `guard` failed, in call `call`; `batch` says that this call had another batch size."""

    function: str
    place: Place
    call: int
    batch: bool
    guard: str


@dataclass(frozen=True)
class Eager:
    """A function that runs only in Python, outside all graphs, and why."""

    function: str
    place: Place
    reason: str


@dataclass(frozen=True)
class Step:
    """One run of a graph within a call, and the gap after it.

    `ended_by` is the index of the break that ends it, or None if its function returned. `crossing` is the data that it
    and earlier steps pass to later ones.
    """

    graph: int
    crossing: Size
    ended_by: int | None
    last: bool


@dataclass(frozen=True)
class Advice:
    """Remedies for breaks and recompiles: how the target compiles without any, which helped, and all that were tried.

    `cut_short` says that time ran out before all of them were tried.
    """

    before: Outcome
    remedies: tuple[Remedy, ...]
    tried: tuple[Tried, ...]
    cut_short: bool


@dataclass(frozen=True)
class Source:
    """A file of the user's code: its lines, the numbers of those that ran, and its functions by their lines."""

    path: str
    lines: tuple[str, ...]
    ran: frozenset[int]
    functions: tuple[tuple[int, int, str], ...]


@dataclass(frozen=True)
class Explanation:
    """The explanation of a target. `fullgraph` says whether it succeeds, or is None if not tried."""

    target: str
    inputs: str
    torch: str
    python: str
    device: str
    calls: tuple[int, int]
    graphs: tuple[Graph, ...]
    breaks: tuple[Break, ...]
    recompiles: tuple[Recompile, ...]
    eager: tuple[Eager, ...]
    steps: tuple[Step, ...]
    fullgraph: bool | None
    fullgraph_error: str
    error: str | None
    notes: tuple[str, ...] = ()
    advice: Advice | None = None
    sources: tuple[Source, ...] = field(default=(), repr=False)

    @property
    def first_graphs(self) -> tuple[Graph, ...]:
        """The graphs that the first call compiled, before any recompilation."""
        return tuple(graph for graph in self.graphs if graph.call == 1)

    @property
    def causes(self) -> tuple[Break, ...]:
        """The breaks that are not the consequence of another."""
        return tuple(one for one in self.breaks if not one.consequence)

    def to_json(self) -> dict[str, Any]:
        """Return everything except the source text as a JSON-compatible value."""
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
