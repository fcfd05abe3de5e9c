"""Records that the worker sends as JSON, possibly to an interpreter with a different Python version.

Both sides import this module, so it needs only the standard library. Paths are absolute, as Python reports them, lines
are 1-based, and calls are counted from 0.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

Span = tuple[int, int, int, int]
"""Line, column, end line and end column in bytecode positions. Lines are 1-based, columns 0-based in UTF-8 bytes."""


@dataclass(frozen=True)
class StackFrame:
    """A frame in a user's stack. Columns are 0-based in UTF-8 bytes, or None if this torch release has none.

    `end_line` is given if the code ends on another line, as the code of a test does, which Python takes to be the whole
    `if` statement.
    """

    file: str
    line: int
    function: str
    column: int | None = None
    end_column: int | None = None
    end_line: int | None = None


@dataclass(frozen=True)
class Break:
    """A graph break as Dynamo reported it.

    `gb` is None if this torch release has no id for this kind of break. `stack` goes from the outermost frame to the
    innermost. `effect` is `split` if a graph ended and another began, `rest` if the rest of the frame fell back to
    eager mode, and `frame` if the whole frame did. `secondary` are the ids of breaks that occurred while Dynamo handled
    this break (in a loop, a context manager, an inlined call). They are consequences, not causes.
    """

    gb: str | None
    gb_type: str
    explanation: str
    hints: tuple[str, ...]
    reason: str
    stack: tuple[StackFrame, ...]
    call: int
    effect: str = "split"
    secondary: tuple[str, ...] = ()


@dataclass(frozen=True)
class Compile:
    """An attempt to compile a frame, from Dynamo's own metrics.

    `guarded` means that compiled code was installed. `recompile` is the reason why existing compiled code could not be
    used, or None if the frame was compiled for the first time. `fail_type` and `fail_reason` explain why the frame fell
    back to eager mode.
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
    compile_id: str = ""


@dataclass(frozen=True)
class RunFailure:
    """An exception that ended a run in call `call`. `gb` and `gb_type` are set if Dynamo raised it for a break."""

    type: str
    message: str
    call: int
    stack: tuple[StackFrame, ...] = ()
    gb: str | None = None
    gb_type: str | None = None
    explanation: str = ""
    hints: tuple[str, ...] = ()
    secondary: tuple[str, ...] = ()
    recompile_limit: bool = False


@dataclass(frozen=True)
class Run:
    """The result of a compiled run over all calls.

    `graphs` and `operations` are running totals after each completed call. `traced` has, for each requested file, the
    spans of bytecode that Dynamo traced in frames that it captured. Before Python 3.11, these are whole lines with
    empty columns. `limit_hit` names the functions that Dynamo stopped recompiling. `explained` indicates whether
    `torch._dynamo.explain` reports a break for the first call.
    """

    graphs: tuple[int, ...]
    operations: tuple[int, ...]
    breaks: tuple[Break, ...]
    compiles: tuple[Compile, ...]
    limit_hit: tuple[str, ...]
    error: RunFailure | None
    traced: dict[str, tuple[Span, ...]]
    explained: bool

    @property
    def recompiles(self) -> tuple[Compile, ...]:
        """The compilations that replaced existing compiled code."""
        return tuple(attempt for attempt in self.compiles if attempt.recompile is not None)


@dataclass(frozen=True)
class EagerRun:
    """The result of an eager run: the lines that ran in each requested file, and the exception that ended it."""

    lines: dict[str, tuple[int, ...]]
    error: RunFailure | None


@dataclass(frozen=True)
class EagerComparison:
    """Whether compiled code gave the same results as eager code, and if not, the call, the aspect and the two values.

    `stable` is False if eager code gives different values in every run. `gradients` means that gradients were compared.
    `training` means that the difference occurred with gradients enabled, and `evaluation` that it occurred in
    evaluation mode. `place` is the definition of the innermost user function that differs when it is compiled alone.
    """

    same: bool
    stable: bool
    gradients: bool
    call: int = 0
    what: str = ""
    detail: str = ""
    training: bool = False
    evaluation: bool = False
    place: StackFrame | None = None


def encode(record: Any) -> Any:
    """Return a record as data for `json.dumps`."""
    return dataclasses.asdict(record)


def decode(cls: type[T], data: Any) -> T:
    """Rebuild a record of type `cls` from JSON data.

    Raises TypeError, KeyError or ValueError if the data does not match the type.
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
    """Return a plain value if it has exactly the expected type. `True` does not count as a number."""
    if hint is float and type(data) is int:
        return float(data)
    if (
        hint is not Any
        and isinstance(hint, type)
        and (not isinstance(data, hint) or (hint is int and isinstance(data, bool)))
    ):
        raise TypeError(f"expected {hint.__name__}, got {type(data).__name__}")
    return data
