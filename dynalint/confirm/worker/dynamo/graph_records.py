"""What the worker tells of the graphs of one callable. As `records`, which says how these travel."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """How many tensors, and how many bytes they take."""

    tensors: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Operation:
    """One operator as one line of source asks for it, `count` times; `file` is the user's own, None where none is."""

    name: str
    count: int
    file: str | None
    line: int


@dataclass(frozen=True)
class Guards:
    """What must hold for a graph to be used again: how many guards there are of each kind.

    `conditions` are those that other inputs or another state may well fail, as Dynamo writes them.
    """

    kinds: dict[str, int]
    conditions: tuple[str, ...]


@dataclass(frozen=True)
class Graph:
    """One graph, in the order in which they were compiled; `compile_id` is that of its frame's compile.

    `lines` are the lines that Dynamo traced for it, by file. Sizes are those of its first run; parameters and buffers
    of the model are no inputs.
    """

    compile_id: str
    call: int
    operations: tuple[Operation, ...]
    lines: dict[str, tuple[int, ...]]
    parameters: Size
    inputs: Size
    outputs: Size
    guards: Guards


@dataclass(frozen=True)
class Step:
    """One run of a graph in a call whose graphs had all been compiled.

    `crossing` are tensors that this step or one before it made and that a graph after it takes.
    """

    graph: int
    crossing: Size


@dataclass(frozen=True)
class Flow:
    """The graphs of a callable and the order in which one call runs them.

    `breaks` are the compile ids during which the breaks of the run happened, in their order.
    """

    graphs: tuple[Graph, ...]
    breaks: tuple[str, ...]
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Outcome:
    """What one way to compile came to.

    `breaks` are the breaks told apart by place and kind, `graphs` the runs of graphs in the first call, `operators`
    those in these runs, `recompiles` those over all calls. `error` is what ended the run, empty if nothing did.
    `places` are the files and lines of the breaks.
    """

    breaks: int
    graphs: int
    operators: int
    recompiles: int
    error: str = ""
    places: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Tried:
    """A way to compile that was run: its name, the code that asks for it, and what came of it."""

    name: str
    lines: tuple[str, ...]
    outcome: Outcome


@dataclass(frozen=True)
class Remedy:
    """A way to compile that helps. `equal` is None where the code differs from run to run by itself.

    `kind` is `settings` or `fullgraph`; `difference` says what was not equal, `note` what the way changes by nature.
    """

    kind: str
    tried: Tried
    equal: bool | None
    difference: str = ""
    note: str = ""
