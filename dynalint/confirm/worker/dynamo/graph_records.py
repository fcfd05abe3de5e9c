"""Records about a callable's graphs. See `records` for how they are sent."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """The number of tensors and their total size in bytes."""

    tensors: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class GraphOperation:
    """An operator that a source line runs `count` times. `file` is None if the line is not in the user's own code."""

    name: str
    count: int
    file: str | None
    line: int


@dataclass(frozen=True)
class Guards:
    """The number of guards of each kind that must hold for a graph to be reused.

    `conditions` are the guards that may fail for other inputs or states, as Dynamo writes them.
    """

    kinds: dict[str, int]
    conditions: tuple[str, ...]


@dataclass(frozen=True)
class GraphRecord:
    """A graph, in order of compilation. `compile_id` is the id of the frame's compilation.

    `lines` are the lines that Dynamo traced for the graph, by file. Sizes were measured in its first run. The model's
    parameters and buffers do not count as inputs.
    """

    compile_id: str
    call: int
    operations: tuple[GraphOperation, ...]
    lines: dict[str, tuple[int, ...]]
    parameters: Size
    inputs: Size
    outputs: Size
    guards: Guards


@dataclass(frozen=True)
class GraphStep:
    """A graph that runs during a call that did not compile anything.

    `crossing` are tensors created up to this step that a later graph uses.
    """

    graph: int
    crossing: Size


@dataclass(frozen=True)
class GraphFlow:
    """A callable's graphs, and the order in which a call runs them.

    `breaks` are the compile ids for the run's breaks, in order.
    """

    graphs: tuple[GraphRecord, ...]
    breaks: tuple[str, ...]
    steps: tuple[GraphStep, ...]


@dataclass(frozen=True)
class Outcome:
    """The result of compiling in a particular way.

    `breaks` is the number of breaks with different locations or kinds, `graphs` the number of graphs that the first
    call runs, `operators` the number of operators in them, and `recompiles` the number of recompilations in all calls.
    `error` is the exception that ended the run, or an empty string. `places` are the files and lines of the breaks.
    """

    breaks: int
    graphs: int
    operators: int
    recompiles: int
    error: str = ""
    places: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Tried:
    """An attempt to compile in a particular way: the name of this way, the code for it, and the result."""

    name: str
    lines: tuple[str, ...]
    outcome: Outcome


@dataclass(frozen=True)
class Remedy:
    """An attempt that reduced breaks or recompilations. `equal` is None if eager runs differ from each other.

    `kind` is `settings` or `fullgraph`. `difference` describes unequal results, and `note` describes the setting's side
    effects.
    """

    kind: str
    tried: Tried
    equal: bool | None
    difference: str = ""
    note: str = ""
