"""Parse Dynamo's reports: ids, explanations and hints from messages, and the user's frames from stacks."""

from __future__ import annotations

import json
import os
import re
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import _dynamo as dynamo
from torch._dynamo import exc as dynamo_exc

from .records import RunFailure, StackFrame

BREAKS = (dynamo_exc.Unsupported, dynamo_exc.UserError)
_NESTED = "*** While handling this graph break, another graph break occurred: ***"
_RESUME = re.compile(r"torch_dynamo_resume_in_(\w+)_at_\d+")
_LIMIT = re.compile(r"(recompile|cache)[ _]?(size[ _])?limit", re.IGNORECASE)
_TORCH = str(Path(torch.__file__).parent) + os.sep
_HERE = str(Path(__file__).parent.parent) + os.sep


def failure(error: BaseException, call: int) -> RunFailure:
    """Describe an exception. Dynamo's exceptions have an id, an explanation and hints, and the user's have a stack."""
    cause = error.__cause__
    limit = is_limit(type(error).__name__ + str(error)) or (isinstance(cause, BREAKS) and is_limit(str(cause)))
    stack = getattr(error, "real_stack", None)
    frames = frames_of(stack or traceback.extract_tb(error.__traceback__))
    message = str(getattr(error, "msg", "")) or str(error)
    if not isinstance(error, BREAKS):
        return RunFailure(type(error).__name__, message, call, frames, recompile_limit=limit)
    primary, *others = parts_of(error, message)
    secondary = tuple(part.gb for part in others if part.gb)
    return RunFailure(
        type=type(error).__name__,
        message=message,
        call=call,
        stack=frames,
        gb=primary.gb,
        gb_type=primary.gb_type,
        explanation=primary.explanation,
        hints=primary.hints,
        secondary=secondary,
        recompile_limit=limit,
    )


def gb_id(gb_type: str) -> str | None:
    """Return the id that this torch release gives to a kind of break, or None."""
    return _registry().get(gb_type)


@lru_cache(maxsize=1)
def _registry() -> dict[str, str]:
    path = Path(dynamo.__file__).with_name("graph_break_registry.json")
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {entry["Gb_type"]: gb for gb, versions in entries.items() for entry in versions}


@dataclass(frozen=True)
class MessagePart:
    """A break in a message."""

    gb: str | None
    gb_type: str
    explanation: str
    hints: tuple[str, ...]


def parts_of(error: BaseException | None, message: str) -> list[MessagePart]:
    """Split a message into the break that caused it and the breaks that followed. The cause comes first.

    Each break is written as `gb_type`, `  Explanation: ...`, `  Hint: ...`, `  Developer debug context: ...`, and each
    of these can have continuation lines that are indented further.
    """
    parts = [_part(segment) for segment in message.split(_NESTED)]
    cause = error.__cause__ if error is not None else None
    if isinstance(cause, dynamo_exc.UserError):
        parts.insert(0, _part(str(getattr(cause, "msg", cause))))
    return parts


def _part(segment: str) -> MessagePart:
    sections: list[tuple[str, list[str]]] = [("type", [])]
    for line in segment.strip().splitlines():
        match = re.match(r"  (Explanation|Hint|Developer debug context|Higher Order Operator): ?(.*)", line)
        if match:
            sections.append((match[1], [match[2]]))
        elif not line.strip() and sections[-1][0] != "type":
            sections.append(("rest", []))
        else:
            sections[-1][1].append(line.strip())
    texts = [(name, " ".join(lines).strip()) for name, lines in sections]
    gb_type = sections[0][1][0] if sections[0][1] else ""
    explanation = next((text for name, text in texts if name == "Explanation"), texts[0][1])
    return MessagePart(gb_id(gb_type), gb_type, explanation, tuple(text for name, text in texts if name == "Hint"))


def resumed(name: str) -> str:
    """Return the name of the function that a Dynamo resume function continues, or any other name unchanged."""
    match = _RESUME.match(name)
    return match[1] if match else name


def resume_name(function: str, line: int) -> str:
    """Return the name of the resume function that Dynamo generates for `function` after a break on `line`."""
    return f"torch_dynamo_resume_in_{function}_at_{line}"


def is_limit(text: str) -> bool:
    """Return whether a message says that Dynamo reached its recompile limit."""
    return _LIMIT.search(text) is not None


def frames_of(stack: Iterable[traceback.FrameSummary]) -> tuple[StackFrame, ...]:
    """Return the user's frames, outermost first. Resume functions are replaced with the functions that they resume."""
    frames: list[StackFrame] = []
    for summary in stack:
        if summary.filename is None or summary.filename.startswith((_TORCH + "_dynamo" + os.sep, _HERE)):
            continue
        name = resumed(summary.name)
        columns = (getattr(summary, "colno", None), getattr(summary, "end_colno", None))
        frame = StackFrame(summary.filename, summary.lineno or 0, name, *columns)
        if name != summary.name and frames and (frames[-1].file, frames[-1].function) == (frame.file, frame.function):
            frames.pop()
        frames.append(frame)
    return tuple(frames)


def ending_at(stack: tuple[StackFrame, ...], positions: Any) -> tuple[StackFrame, ...]:
    """Return the stack with the last line of the code of the innermost frame, which torch leaves out."""
    line, end = (getattr(positions, name, None) or 0 for name in ("lineno", "end_lineno"))
    if not stack or stack[-1].line != line or end <= line:
        return stack
    return (*stack[:-1], replace(stack[-1], end_line=end))


def stack_above_dynamo() -> list[traceback.FrameSummary]:
    """Return the Python frames that led to the frame being compiled, except those in torch and the worker."""
    above: list[traceback.FrameSummary] = []
    for summary in traceback.extract_stack():
        if Path(summary.filename).name == "convert_frame.py":
            break
        above.append(summary)
    ours = max((at for at, summary in enumerate(above) if summary.filename.startswith(_HERE)), default=-1)
    return [summary for summary in above[ours + 1 :] if not summary.filename.startswith(_TORCH)]
