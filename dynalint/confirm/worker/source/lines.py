"""Record which lines run in which files, as reported by the interpreter. Uses only the standard library."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from types import CodeType, FrameType
from typing import Any

_MONITORING: Any = getattr(sys, "monitoring", None)
# One of the ids that Python does not reserve for a tool, so that coverage.py and debuggers still work.
_TOOL = 4


class EagerLines:
    """A context manager that records the lines in `files` that run while it is active. It can be entered repeatedly.

    `files` are compared with unresolved `co_filename` values. If `sys.monitoring` is available (Python 3.12), it is
    used because it hardly slows down other code. Otherwise, `sys.settrace` is used.
    """

    def __init__(self, files: Iterable[str]) -> None:
        self.files = frozenset(files)
        self._lines: dict[str, set[int]] = {file: set() for file in self.files}
        self._former: Any = None

    def seen(self) -> dict[str, tuple[int, ...]]:
        """Return the sorted lines seen so far, by file."""
        return {file: tuple(sorted(lines)) for file, lines in self._lines.items()}

    def __enter__(self) -> None:
        if not self.files:
            return
        if _MONITORING is not None:
            _MONITORING.use_tool_id(_TOOL, "dynalint")
            _MONITORING.register_callback(_TOOL, _MONITORING.events.LINE, self._line)
            _MONITORING.set_events(_TOOL, _MONITORING.events.LINE)
            _MONITORING.restart_events()
        else:
            self._former = sys.gettrace()
            threading.settrace(self._enter_frame)
            sys.settrace(self._enter_frame)

    def __exit__(self, *exception: object) -> None:
        if not self.files:
            return
        if _MONITORING is not None:
            _MONITORING.set_events(_TOOL, 0)
            _MONITORING.register_callback(_TOOL, _MONITORING.events.LINE, None)
            _MONITORING.free_tool_id(_TOOL)
        else:
            sys.settrace(self._former)
            threading.settrace(None)

    def _line(self, code: CodeType, line: int) -> Any:
        if code.co_filename in self.files:
            self._lines[code.co_filename].add(line)
        # Each line needs to be seen only once, and disabling its location keeps a hot loop at full speed.
        return _MONITORING.DISABLE

    def _enter_frame(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        return self._trace_line if frame.f_code.co_filename in self.files else None

    def _trace_line(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            self._lines[frame.f_code.co_filename].add(frame.f_lineno)
        return self._trace_line
