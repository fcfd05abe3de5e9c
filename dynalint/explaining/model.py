"""What `dynalint explain` has to say of one target: plain data, with paths, lines and numbers as a reader sees them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from dynalint.confirm.worker.dynamo.graph_records import Guards, Outcome, Remedy, Size, Tried


@dataclass(frozen=True)
class Place:
    """A line of source; columns count characters from 1, the end is exclusive, both 0 where they are not known."""

    path: str
    line: int
    column: int = 0
    end_column: int = 0

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True)
class Operator:
    """An operator that a line asks for, `count` times; `place` is None where no line of the user's own does."""

    name: str
    count: int
    place: Place | None


@dataclass(frozen=True)
class Graph:
    """One graph. `number` counts from 1 in the order of compiling; `resumes` tells that it begins amid its function.

    `call` is the number of the call that compiled it, from 1. `replaces` is the guard that failed before, None for
    a first compile. `seconds` is what compiling its frame took, None where it could not be told.
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
    seconds: float | None
    replaces: str | None

    @property
    def size(self) -> int:
        """How many operators it has."""
        return sum(operator.count for operator in self.operators)


@dataclass(frozen=True)
class Rule:
    """The finding of dynalint's own on the line of a break. `fix` is the title of the fix on offer, if any."""

    code: str
    name: str
    message: str
    help: str
    fix: str | None


@dataclass(frozen=True)
class Break:
    """One place at which Dynamo split the graph or gave up the function.

    `ends` are the numbers of the graphs that it ended. `loses` are functions that went back to eager for it,
    `cuts_off` those whose rest did. `consequence` tells that Dynamo only ran into it because of another break in the
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
    """Code compiled again because `guard` failed, at call `call`; `batch` tells that this call had another batch."""

    function: str
    place: Place
    call: int
    batch: bool
    guard: str


@dataclass(frozen=True)
class Eager:
    """A function that runs in Python, in no graph at all, and why."""

    function: str
    place: Place
    reason: str


@dataclass(frozen=True)
class Step:
    """One run of a graph within a call, and the cut after it.

    `ended_by` is the index of the break that ends it, None where its function ended. `crossing` is what it and the
    steps before it hand on to later ones, `gap` the time until the next graph begins, or until the call ends after the
    `last` step: the guards, and whatever runs in Python.
    """

    graph: int
    seconds: float
    crossing: Size
    gap: float
    ended_by: int | None
    last: bool


@dataclass(frozen=True)
class Advice:
    """What was tried to have fewer breaks and recompiles: how it compiles as it is, what helped, and all that was run.

    `cut_short` tells that time ran out before everything was tried.
    """

    before: Outcome
    remedies: tuple[Remedy, ...]
    tried: tuple[Tried, ...]
    cut_short: bool


@dataclass(frozen=True)
class Source:
    """A file of the user's own: its lines, the numbers of those that ran, and the functions in it by their lines."""

    path: str
    lines: tuple[str, ...]
    ran: frozenset[int]
    functions: tuple[tuple[int, int, str], ...]


@dataclass(frozen=True)
class Explanation:
    """Everything about one target. `fullgraph` and `export` tell whether these pass, None where they were not tried."""

    target: str
    inputs: str
    torch: str
    python: str
    device: str
    backend: str
    calls: tuple[int, int]
    graphs: tuple[Graph, ...]
    breaks: tuple[Break, ...]
    recompiles: tuple[Recompile, ...]
    eager: tuple[Eager, ...]
    steps: tuple[Step, ...]
    lead: float
    timed_calls: int
    fullgraph: bool | None
    fullgraph_error: str
    error: str | None
    notes: tuple[str, ...] = ()
    advice: Advice | None = None
    export: bool | None = None
    export_error: str = ""
    sources: tuple[Source, ...] = field(default=(), repr=False)

    @property
    def first_graphs(self) -> tuple[Graph, ...]:
        """The graphs that the first call compiled: what a call consists of before anything recompiles."""
        return tuple(graph for graph in self.graphs if graph.call == 1)

    @property
    def causes(self) -> tuple[Break, ...]:
        """The breaks that are no consequence of another."""
        return tuple(one for one in self.breaks if not one.consequence)

    def to_json(self) -> dict[str, Any]:
        """Return everything but the text of the sources, ready for `json.dumps`."""
        record = asdict(self)
        del record["sources"]
        record["calls"] = {"same": self.calls[0], "batch": self.calls[1]}
        record["graph_count"] = len(self.first_graphs)
        record["break_count"] = len(self.causes)
        for graph, one in zip(record["graphs"], self.graphs, strict=True):
            graph["operator_count"] = one.size
            graph["guards"]["count"] = sum(one.guards.kinds.values())
        record["export"] = {"passes": self.export, "error": record.pop("export_error") or None}
        record["fullgraph"] = {"passes": self.fullgraph, "error": record.pop("fullgraph_error") or None}
        return record
