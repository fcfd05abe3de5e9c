"""The worker's server processes: start them, talk to them, stop them, and keep one for reuse."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from dynalint.confirm.budget import TimeBudget
from dynalint.confirm.temporary import TemporaryFolder, remove_abandoned
from dynalint.confirm.worker.process.wire import LONGEST_LINE, MOST_BYTES, parse
from dynalint.errors import DynalintError

_PACKAGE = Path(__file__).with_name("worker")
_START_SECONDS = 60.0
_PARTING_SECONDS = 1.0
_CHUNK = 1 << 16
# The maximum number of bytes that the server adds to a line from the sandboxed process.
_ROOM = 1 << 10
_MOST_WAITING = 16
# Search paths, tried in order. An empty or relative entry would refer to the project's folder.
_SEARCHED = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
# The environment variables that are needed to import torch and the user's packages. Never add a token or a password.
_KEPT = frozenset(
    "PATH VIRTUAL_ENV CONDA_PREFIX CONDA_DEFAULT_ENV LD_LIBRARY_PATH DYLD_LIBRARY_PATH LANG LANGUAGE TZ "
    "CUDA_HOME CUDA_PATH CUDA_VISIBLE_DEVICES NVIDIA_VISIBLE_DEVICES SYSTEMROOT SYSTEMDRIVE WINDIR COMSPEC PATHEXT "
    "OMP_NUM_THREADS MKL_NUM_THREADS".split()
)


class WorkerError(DynalintError):
    """The worker could not be started or could not continue. The message is a sentence that gives the reason."""


@dataclass(frozen=True)
class WorkerOptions:
    """How to run the worker.

    `python` is the user's interpreter, `search` lists entries to add to its `sys.path` (the project's roots), and
    `folders` lists folders with additional operations. `seconds` and `memory` (in bytes) limit a single request, which
    may do nothing for `idle` seconds. If
    `required` is true, nothing runs without a sandbox. `cwd` is the working folder for the code being checked. `budget`
    limits the total processor time of all requests.
    """

    python: Path = Path(sys.executable)
    search: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    seconds: float = 60.0
    idle: float | None = None
    memory: int = 4 << 30
    device: str = "cpu"
    required: bool = True
    cwd: Path = field(default_factory=Path.cwd)
    budget: TimeBudget | None = None


@dataclass(frozen=True)
class Hello:
    """The worker's versions of Python and torch. `torch` is None if torch is not installed."""

    python: str
    torch: str | None


class WorkerServer:
    """A running server process that has sent its hello message. Raises WorkerError if it cannot be started.

    `number` is the number of the last message. `warm` is true after the first answer, when torch has been imported.
    `idle` is true while no request is running.
    """

    def __init__(self, options: WorkerOptions) -> None:
        self.kind = _kind(options)
        self.number = 0
        self.warm, self.idle = False, True
        remove_abandoned()
        self._folder = TemporaryFolder()
        self._lines = _Lines()
        self._results = 0
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self.hello = self._start(options)
        except BaseException:
            self.end()
            raise

    @property
    def pid(self) -> int | None:
        """The process id, or None if the process has ended."""
        return None if self._process is None else self._process.pid

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message. Raises OSError or EOFError if the process no longer reads."""
        stream = self._process.stdin if self._process is not None else None
        if stream is None:
            raise EOFError("the worker ended")
        left = memoryview(json.dumps(message).encode() + b"\n")
        try:
            while left:
                left = left[stream.write(left) or 0 :]
        except ValueError:  # The stream has been closed.
            raise EOFError("the worker ended") from None

    def receive(self, deadline: float) -> dict[str, Any]:
        """Return the next message.

        Raises `queue.Empty` at the deadline, EOFError if the process has ended, and ValueError if the message is
        malformed or the messages since the last `end` message exceed the limit for an answer.
        """
        line = self._lines.next(deadline)
        if not line:
            raise EOFError("the worker ended")
        message = parse(line)
        if not isinstance(message, dict):
            raise ValueError("the worker sent something other than a message")  # noqa: TRY004 - a malformed line
        self._results = 0 if "end" in message else self._results + len(line)
        if self._results > 2 * MOST_BYTES:
            raise ValueError("the worker sent too much")
        return message

    def serve_again(self, options: WorkerOptions) -> bool:
        """Switch to another project. Return False if that fails."""
        try:
            self.send({"hello": {"search": options.search}})
            self.hello = self._greeted()
        except (OSError, ValueError, KeyError, TypeError, EOFError, queue.Empty):
            return False
        return True

    def end(self) -> None:
        """End the process and everything that it started, and remove its files."""
        process, self._process = self._process, None
        if process is not None:
            _end(process)
        self._lines.close()
        self._folder.remove()

    def _start(self, options: WorkerOptions) -> Hello:
        with tempfile.TemporaryFile() as complaints:
            try:
                self._process = process = subprocess.Popen(
                    [_program(options.python), str(_PACKAGE), str(self._folder.path), *options.search],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=complaints,
                    # Unbuffered, because a buffer has a lock that a waiting thread would hold.
                    bufsize=0,
                    # Programs and libraries may be searched for in the working folder, so it must not be the project.
                    cwd=self._folder.path,
                    env=_environment(self._folder.path, options.device),
                    start_new_session=True,
                )
            except OSError as error:
                raise WorkerError(f"cannot run {options.python}: {error.strerror}") from error
            threading.Thread(target=self._lines.pump, args=(process.stdout,), daemon=True).start()
            try:
                return self._greeted()
            except (ValueError, KeyError, TypeError, EOFError, queue.Empty) as error:
                self.end()
                complaints.seek(0)
                last = complaints.read().decode(errors="replace").strip().splitlines()[-1:]
                reason = last[0] if last else "it did not answer"
                raise WorkerError(f"{options.python} cannot run the worker: {reason}") from error

    def _greeted(self) -> Hello:
        hello = self.receive(time.monotonic() + _START_SECONDS)["hello"]
        return Hello(str(hello["python"]), hello["torch"])


_Kind = tuple[str, str, tuple[tuple[str, str], ...]]
_waiting: list[WorkerServer] = []
_keepers = 0


@contextlib.contextmanager
def keeping_a_server() -> Iterator[None]:
    """Keep a closed worker's server for the next worker while this context is active, so torch is imported only once.

    At most one server is kept. A server never runs user code itself, so it is unchanged when the next worker gets it.
    """
    global _keepers  # noqa: PLW0603 - the number of servers is a fact about the whole process
    _keepers += 1
    try:
        yield
    finally:
        _keepers -= 1
        while _waiting and not _keepers:
            _waiting.pop().end()


def take_server(options: WorkerOptions) -> WorkerServer:
    """Return the kept server if it matches the options, or else a new server. Raises WorkerError."""
    while _waiting and _waiting[-1].kind == _kind(options):
        server = _waiting.pop()
        if server.serve_again(options):
            return server
        server.end()
    return WorkerServer(options)


def give_back(server: WorkerServer) -> None:
    """Keep a server for the next worker if `keeping_a_server` is active. Otherwise, end it."""
    if not _keepers or not server.idle or server.pid is None:
        server.end()
        return
    _waiting.append(server)
    while len(_waiting) > 1:
        _waiting.pop(0).end()


def _kind(options: WorkerOptions) -> _Kind:
    """Return the settings that must be the same for a kept server to be reused."""
    return str(options.python), options.device, tuple(sorted(_environment(Path(), options.device).items()))


class _Lines:
    """The lines from a pipe, followed by an empty line. Reading pauses while too many lines are waiting."""

    def __init__(self) -> None:
        self._queue: queue.Queue[bytes] = queue.Queue(_MOST_WAITING)
        self._closed = False

    def next(self, deadline: float) -> bytes:
        """Return the next line. Raises `queue.Empty` at the deadline, which is in monotonic time."""
        line = self._queue.get(timeout=max(deadline - time.monotonic(), 0.01))
        if not line:
            self.close()
            self._put(b"")
        return line

    def close(self) -> None:
        """Make the reading thread stop."""
        self._closed = True

    def pump(self, stream: Any) -> None:
        """Read until the stream ends, then close it. No other thread may close it while this one is reading."""
        with stream:
            for line in _lines_of(stream.fileno()):
                if not self._put(line):
                    break
        self._put(b"")

    def _put(self, line: bytes) -> bool:
        while True:
            with contextlib.suppress(queue.Full):
                self._queue.put(line, timeout=0.1)
                return True
            if self._closed:
                return False


def _lines_of(descriptor: int) -> Iterator[bytes]:
    """Yield lines as they arrive, and stop at a line that exceeds the length limit."""
    begun = b""
    while len(begun) <= LONGEST_LINE + _ROOM:
        try:
            chunk = os.read(descriptor, _CHUNK)
        except OSError:
            return
        if not chunk:
            return
        *lines, begun = (begun + chunk).split(b"\n")
        yield from filter(None, lines)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a server by closing its standard input. The server then also ends everything that it started."""
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=_PARTING_SECONDS)
        return
    # The supervisor notices this and ends the sandboxed processes.
    process.kill()
    process.wait()


def _program(python: Path) -> str:
    """Return the program to start, which is an absolute path or a plain name to look up in PATH."""
    return str(python) if python.name == str(python) else str(python.absolute())


def _environment(scratch: Path, device: str) -> dict[str, str]:
    """Return the worker's environment variables.

    PYTHONPATH is left out because the server, which is not sandboxed, must not import modules from it. It is passed to
    the forked processes with each request. If code runs on the CPU, GPUs are hidden, because a process that has used a
    GPU cannot be forked, and Dynamo uses any GPU that it sees.
    """
    hidden = dict.fromkeys(("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"), "") if device == "cpu" else {}
    kept = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith("LC_")}
    for name in _SEARCHED:
        if name in kept:
            kept[name] = os.pathsep.join(filter(os.path.isabs, kept[name].split(os.pathsep)))
    return {
        **kept,
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "XDG_CACHE_HOME": str(scratch / "cache"),
        "TORCHINDUCTOR_CACHE_DIR": str(scratch / "inductor"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONUNBUFFERED": "1",
        "HF_HUB_OFFLINE": "1",
        "MPLBACKEND": "Agg",
        # Targets that run in parallel should not compete for cores, and a process with threads cannot be forked safely.
        "OPENBLAS_NUM_THREADS": "1",
        **hidden,
    }


@cache
def worker_hash() -> str:
    """Return a hash of the worker's code, because another version may give different answers."""
    digest = hashlib.sha256()
    for file in sorted(_PACKAGE.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()
