"""Server processes of the worker: how one is started, spoken to, ended, and kept for whoever needs one next."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dynalint.errors import DynalintError

_PACKAGE = Path(__file__).with_name("worker")
_START_SECONDS = 60.0
# What a program needs of its surroundings to import torch and the user's packages; never a token or a password.
_KEPT = frozenset(
    "PATH VIRTUAL_ENV CONDA_PREFIX CONDA_DEFAULT_ENV LD_LIBRARY_PATH DYLD_LIBRARY_PATH LANG LANGUAGE TZ "
    "CUDA_HOME CUDA_PATH CUDA_VISIBLE_DEVICES NVIDIA_VISIBLE_DEVICES SYSTEMROOT SYSTEMDRIVE WINDIR COMSPEC PATHEXT "
    "OMP_NUM_THREADS MKL_NUM_THREADS".split()
)


class WorkerError(DynalintError):
    """The worker could not be started or could not go on; the text says why in one sentence."""


@dataclass(frozen=True)
class WorkerOptions:
    """How to run the worker.

    `python` is the user's interpreter, `search` what to add to its `sys.path` (the project's roots), `folders` where
    more operations are found. `seconds` is the time for one request, `memory` the bytes it may use. `required` has
    nothing run where no sandbox holds. `cwd` is the working folder of the code under check.
    """

    python: Path = Path(sys.executable)
    search: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    seconds: float = 60.0
    memory: int = 4 << 30
    device: str = "cpu"
    required: bool = True
    cwd: Path = field(default_factory=Path.cwd)


@dataclass(frozen=True)
class Hello:
    """Which interpreter answers: versions of Python and of torch, None where torch is not installed."""

    python: str
    torch: str | None


class Server:
    """One process that answers messages; it has said hello. Raises WorkerError where it cannot be started.

    `number` is that of the last message. `warm` tells that one has been answered, for which torch was imported, `idle`
    that nothing is under way.
    """

    def __init__(self, options: WorkerOptions) -> None:
        self.kind = _kind(options)
        self.number = 0
        self.warm, self.idle = False, True
        self._scratch = Path(tempfile.mkdtemp(prefix="dynalint-"))
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self.hello = self._start(options)
        except BaseException:
            self.end()
            raise

    @property
    def pid(self) -> int | None:
        """The number of the process; None once it was ended."""
        return None if self._process is None else self._process.pid

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message; OSError or EOFError says that nobody listens."""
        stream = self._process.stdin if self._process is not None else None
        if stream is None:
            raise EOFError("the worker ended")
        stream.write(json.dumps(message).encode() + b"\n")
        stream.flush()

    def receive(self, deadline: float) -> dict[str, Any]:
        """Return the next message; `queue.Empty` says that it is too late, EOFError that none comes any more."""
        line = self._lines.get(timeout=max(deadline - time.monotonic(), 0.01))
        if not line:
            raise EOFError("the worker ended")
        message = json.loads(line)
        if not isinstance(message, dict):
            raise ValueError("the worker sent something else than a message")  # noqa: TRY004 - as a broken line
        return message

    def serve_again(self, options: WorkerOptions) -> bool:
        """Go over to another project; False if that cannot be done."""
        try:
            self.send({"anew": {"cwd": str(options.cwd), "search": options.search}})
            self.hello = self._greeted()
        except (OSError, ValueError, KeyError, EOFError, queue.Empty):
            return False
        return True

    def end(self) -> None:
        """End the process; the kernel, or the supervisor when it notices, ends what it has started."""
        process, self._process = self._process, None
        if process is not None:
            _end(process)
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _start(self, options: WorkerOptions) -> Hello:
        with tempfile.TemporaryFile() as complaints:
            try:
                self._process = process = subprocess.Popen(
                    [str(options.python), str(_PACKAGE), *options.search],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=complaints,
                    cwd=options.cwd,
                    env=_environment(self._scratch, options.device),
                    start_new_session=True,
                )
            except OSError as error:
                raise WorkerError(f"cannot run {options.python}: {error.strerror}") from error
            threading.Thread(target=_pump, args=(process.stdout, self._lines), daemon=True).start()
            try:
                return self._greeted()
            except (ValueError, KeyError, EOFError, queue.Empty) as error:
                self.end()
                complaints.seek(0)
                last = complaints.read().decode(errors="replace").strip().splitlines()[-1:]
                reason = last[0] if last else "it gave no answer"
                raise WorkerError(f"{options.python} cannot run the worker: {reason}") from error

    def _greeted(self) -> Hello:
        hello = self.receive(time.monotonic() + _START_SECONDS)["hello"]
        return Hello(str(hello["python"]), hello["torch"])


_Kind = tuple[str, str, tuple[tuple[str, str], ...]]
_waiting: list[Server] = []
_keepers = 0


@contextlib.contextmanager
def keeping_a_server() -> Iterator[None]:
    """Meanwhile the server of a worker that is closed waits for the next worker: torch is imported once for both.

    One waits at most. It never runs code of the user's itself, so that the next worker finds it as the first one did.
    """
    global _keepers  # noqa: PLW0603 - a process has as many servers as it has, whoever asks
    _keepers += 1
    try:
        yield
    finally:
        _keepers -= 1
        while _waiting and not _keepers:
            _waiting.pop().end()


def take_server(options: WorkerOptions) -> Server:
    """Return the server that waits, if it is of the kind that is needed, or a new one. Raises WorkerError."""
    while _waiting and _waiting[-1].kind == _kind(options):
        server = _waiting.pop()
        if server.serve_again(options):
            return server
        server.end()
    return Server(options)


def give_back(server: Server) -> None:
    """Have a server wait for the next worker where one is to be kept; else end it."""
    if not _keepers or not server.idle or server.pid is None:
        server.end()
        return
    _waiting.append(server)
    while len(_waiting) > 1:
        _waiting.pop(0).end()


def _kind(options: WorkerOptions) -> _Kind:
    """Return what two servers must have in common for one to stand in for the other."""
    return str(options.python), options.device, tuple(sorted(_environment(Path(), options.device).items()))


def _pump(stream: Any, lines: queue.Queue[bytes]) -> None:
    """Move lines from the pipe to the queue, and an empty one at the end."""
    with contextlib.suppress(OSError, ValueError):
        for line in stream:
            lines.put(line)
    lines.put(b"")


def _end(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=1)
        return
    with contextlib.suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def _environment(scratch: Path, device: str) -> dict[str, str]:
    """Return the variables that the worker sees.

    PYTHONPATH is left out: what it names must not be imported by the server, which stands outside the walls. It goes
    to the forked processes with each request. Where code is run on the CPU no GPU is seen: a process that has used one
    cannot be forked, and Dynamo uses those it sees.
    """
    hidden = dict.fromkeys(("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"), "") if device == "cpu" else {}
    kept = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith("LC_")}
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
        # Targets that run side by side should not fight for cores, and a process with threads cannot be forked.
        "OPENBLAS_NUM_THREADS": "1",
        **hidden,
    }
