"""What the worker tells: plain records that travel as JSON between interpreters of different versions.

Standard library only, so that both sides import it. Paths are absolute as Python reports them, lines are 1-based,
calls are counted from 0.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

Span = tuple[int, int, int, int]
"""Line, column, end line, end column as bytecode has them: lines 1-based, columns 0-based in UTF-8 bytes."""


@dataclass(frozen=True)
class Frame:
    """One level of a user's stack; columns, 0-based in UTF-8 bytes, where this release of torch knows them."""

    file: str
    line: int
    function: str
    column: int | None = None
    end_column: int | None = None


@dataclass(frozen=True)
class Break:
    """One graph break as Dynamo reported it.

    `gb` is None where this release of torch gives the kind no id. `stack` runs from the outermost frame to the
    innermost. `effect` says what was lost: `split` ended one graph and began another, `rest` left the remainder of the
    frame to eager, `frame` left the whole frame to eager. `secondary` are the ids of what Dynamo ran into while it
    handled this break (a loop, a context manager, an inlined call): consequences, not causes.
    """

    gb: str | None
    gb_type: str
    explanation: str
    hints: tuple[str, ...]
    reason: str
    stack: tuple[Frame, ...]
    call: int
    effect: str = "split"
    secondary: tuple[str, ...] = ()


@dataclass(frozen=True)
class Compile:
    """One attempt to compile a frame, from Dynamo's own metrics.

    `guarded` tells that compiled code was installed. `recompile` is why the code compiled before did not fit, None for
    a first compile. `fail_type` and `fail_reason` tell why the frame went back to eager.
    """

    function: str
    file: str
    line: int
    call: int
    operations: int
    guarded: bool
    recompile: str | None = None
    fail_type: str | None = None
    fail_reason: str | None = None
    fail_file: str | None = None
    fail_line: int | None = None
    compile_id: str = ""


@dataclass(frozen=True)
class Failure:
    """An exception that ended a run at call `call`; `gb` and `gb_type` where Dynamo raised it for a break."""

    type: str
    message: str
    call: int
    stack: tuple[Frame, ...] = ()
    gb: str | None = None
    gb_type: str | None = None
    explanation: str = ""
    hints: tuple[str, ...] = ()
    secondary: tuple[str, ...] = ()
    recompile_limit: bool = False


@dataclass(frozen=True)
class Run:
    """What one compiled run over all calls showed.

    `graphs` and `operations` are running totals after each call that ended. `traced` holds, for each file asked for,
    the spans of the bytecode that Dynamo traced in frames it really captured (lines with empty columns before Python
    3.11). `limit_hit` names the functions at which Dynamo gave up recompiling.
    """

    graphs: tuple[int, ...]
    operations: tuple[int, ...]
    breaks: tuple[Break, ...]
    compiles: tuple[Compile, ...]
    limit_hit: tuple[str, ...]
    error: Failure | None
    traced: dict[str, tuple[Span, ...]]

    @property
    def recompiles(self) -> tuple[Compile, ...]:
        """The compiles that replaced code compiled before."""
        return tuple(attempt for attempt in self.compiles if attempt.recompile is not None)


@dataclass(frozen=True)
class EagerRun:
    """What a run without any compiler showed: the lines that ran in each file asked for, and how it ended."""

    lines: dict[str, tuple[int, ...]]
    error: Failure | None


@dataclass(frozen=True)
class Explanation:
    """What `torch._dynamo.explain` said of one call. `graph_break_count` is torch's own, `graph_count - 1`."""

    graph_count: int
    graph_break_count: int
    op_count: int
    reasons: tuple[str, ...]
    error: Failure | None = None


@dataclass(frozen=True)
class AllRuns:
    """What all modes showed of one callable."""

    torch: str
    python: str
    eager: EagerRun
    default: Run
    fullgraph: Run
    explain: Explanation | None


@dataclass(frozen=True)
class Comparison:
    """Whether compiled code did what the code does. Where it did not: at which call, in what, and the two values.

    `stable` is False where the code itself gives other values in every run; `gradients` tells that some were compared;
    `training` that the difference was seen with gradients on, `evaluation` that it was seen in evaluation mode. `place`
    is the definition of the innermost function of the user's own that shows it when it alone is compiled.
    """

    same: bool
    stable: bool
    gradients: bool
    call: int = 0
    what: str = ""
    detail: str = ""
    training: bool = False
    evaluation: bool = False
    place: Frame | None = None


def encode(record: Any) -> Any:
    """Return a record as what `json.dumps` takes."""
    return dataclasses.asdict(record)


def decode(cls: type[T], data: Any) -> T:
    """Rebuild a record of type `cls` from what `json.loads` gave.

    Raises TypeError, KeyError or ValueError where the data does not fit.
    """
    return typing.cast("T", _decode(cls, data))


def _decode(hint: Any, data: Any) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        if not isinstance(data, dict):
            raise TypeError(f"expected a record of {hint.__name__}, got {type(data).__name__}")
        hints = typing.get_type_hints(hint)
        return hint(**{name: _decode(hints[name], value) for name, value in data.items()})
    if origin is types.UnionType or origin is typing.Union:
        if data is None:
            return None
        return _decode(next(choice for choice in arguments if choice is not type(None)), data)
    if origin is tuple:
        if not isinstance(data, (list, tuple)):
            raise TypeError(f"expected a list, got {type(data).__name__}")
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(_decode(arguments[0], item) for item in data)
        return tuple(_decode(choice, item) for choice, item in zip(arguments, data, strict=True))
    if origin is dict:
        if not isinstance(data, dict):
            raise TypeError(f"expected a mapping, got {type(data).__name__}")
        return {key: _decode(arguments[1], value) for key, value in data.items()}
    return _plain(hint, data)


def _plain(hint: Any, data: Any) -> Any:
    """Return a value that is no record, of the very type that is expected: `True` is no number."""
    if hint is float and type(data) is int:
        return float(data)
    if (
        hint is not Any
        and isinstance(hint, type)
        and (not isinstance(data, hint) or (hint is int and isinstance(data, bool)))
    ):
        raise TypeError(f"expected {hint.__name__}, got {type(data).__name__}")
    return data
