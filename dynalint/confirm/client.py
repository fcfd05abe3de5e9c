"""The parent's end of the worker: start it, ask it, and outlive whatever happens to it.

    with Worker(WorkerOptions(python=..., search=(...,))) as worker:
        worker.hello.torch                                     # "2.13.0+cpu", None where there is no torch
        answer = worker.ask("hearing:hear", request)           # an `Answer`, whatever the code under check does

An operation is `module:function` in `dynalint/confirm/worker` or in one of `WorkerOptions.folders`, whose modules may
import the worker's by `from .witness import ...`. The function is called as `function(request, reply)` in a process of
its own behind the sandbox's walls, with what JSON can hold of `request`; it says what it is doing by
`reply.stage("...")` and hands over pieces of its answer by `reply.part(name, value)`. Before it imports the code under
check it calls `loading.load_target`, which takes `request["overrides"]` (`{absolute path: text}`), so that rewritten
modules run without being written anywhere.

    for answer in worker.ask_each("hearing:hear", requests, prepare="hearing:prepare"):

asks for several: where the system can fork, each runs in a process forked from one that has done what `prepare` does.
"""

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
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from dynalint.errors import DynalintError

_PACKAGE = Path(__file__).with_name("worker")
_START_SECONDS = 60.0
_IMPORT_SECONDS = 180.0
_GRACE_SECONDS = 15.0
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


@dataclass(frozen=True)
class Answer:
    """What came back: the parts in hand when the request ended, how it ended, and what was going on then.

    `outcome` is `done`, or what happened instead: `refused` (no sandbox holds), `failed` (an exception in the
    operation itself), `exit`, `signal`, `killed`, `timeout`, `memory`, `processes`, `channel`, `supervisor`, `lost`.
    `ending` holds the particulars (`reason`, `status`, `signal`, `seconds`, `bytes`, `count`).
    """

    outcome: str
    parts: Mapping[str, Any]
    ending: Mapping[str, Any]
    stage: str
    walls: tuple[str, ...] = ()

    @property
    def done(self) -> bool:
        """Whether the operation ran to its end."""
        return self.outcome == "done"


class Worker:
    """One server process. Not for use by several threads at once; start one worker for each instead.

    Raises WorkerError where the interpreter cannot be started. A server that dies is started again for the next
    request.
    """

    def __init__(self, options: WorkerOptions) -> None:
        self.options = options
        self._scratch = Path(tempfile.mkdtemp(prefix="dynalint-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._warm = False
        self._closed = False
        self._number = 0
        self._walls: tuple[str, ...] = ()
        try:
            self.hello = self._start()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Worker:  # noqa: PYI034 - typing.Self is not in Python 3.10
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ask(self, operation: str, request: Mapping[str, Any], on_stage: Callable[[str], None] | None = None) -> Answer:
        """Have `operation` run and return what it found; `on_stage` hears what is being done."""
        (answer,) = self.ask_each(operation, [request], on_stage=on_stage)
        return answer

    def ask_each(
        self,
        operation: str,
        requests: Sequence[Mapping[str, Any]],
        *,
        prepare: str = "",
        on_stage: Callable[[str], None] | None = None,
    ) -> Generator[Answer, None, None]:
        """Have `operation` run for each of the requests and yield what it found, in their order.

        `prepare` is called with the first request in the process that those for all of them are forked from. What one
        does to its process, or a crash, costs no other its answer.
        """
        left = list(requests)
        while left:
            for answer in self._ask_together(operation, left, prepare, on_stage):
                left.pop(0)
                yield answer

    def _ask_together(
        self,
        operation: str,
        requests: Sequence[Mapping[str, Any]],
        prepare: str,
        on_stage: Callable[[str], None] | None,
    ) -> Iterator[Answer]:
        """Yield the answers to the first requests, up to one after which none of the others is looked at."""
        if self._closed:
            yield Answer("lost", {}, {"reason": "the worker was closed"}, "starting")
            return
        if self._process is None:
            self._start()
        self._number += 1
        self._walls = ()
        options = self.options
        limits = {"seconds": options.seconds, "memory": options.memory, "cpu_seconds": int(4 * options.seconds) + 1}
        message = {
            "id": self._number,
            "operation": operation,
            "prepare": prepare,
            "requests": [dict(request) for request in requests],
            "limits": limits,
            "device": options.device,
            "required": options.required,
            "search": list(options.search),
            "python_path": python_path(),
            "folders": list(options.folders),
        }
        more = True
        try:
            self._send(message)
        except (OSError, EOFError) as error:
            self._kill()
            yield Answer("lost", {}, {"reason": str(error)}, "starting")
            return
        try:
            while more:
                answer, more = self._next_answer(on_stage)
                yield answer
        finally:
            if more:
                # Whoever asked does not want to hear the rest.
                self._kill()

    def _next_answer(self, on_stage: Callable[[str], None] | None) -> tuple[Answer, bool]:
        """Return what comes up to the next end, and whether more answers to the same message follow."""
        parts: dict[str, Any] = {}
        stage = "starting"
        wait = self.options.seconds + _GRACE_SECONDS + (0.0 if self._warm else _IMPORT_SECONDS)
        deadline = time.monotonic() + wait
        try:
            while True:
                reply: dict[str, Any] = self._receive(deadline)
                if reply.get("id") != self._number:
                    continue
                if "end" in reply:
                    self._warm = True
                    ending = reply["end"]
                    return Answer(ending["outcome"], parts, ending, stage, self._walls), bool(reply.get("more"))
                kind, value = reply["kind"], reply["value"]
                if kind == "stage":
                    stage = str(value)
                    if on_stage is not None:
                        on_stage(stage)
                elif kind == "part":
                    parts[value[0]] = value[1]
                elif kind == "sandbox":
                    self._walls = tuple(value["layers"])
        except (OSError, ValueError, KeyError, queue.Empty, EOFError) as error:
            self._kill()
            return Answer("lost", parts, {"reason": str(error) or type(error).__name__}, stage, self._walls), False

    def close(self) -> None:
        """End the server and remove its scratch folder; a request in progress in another thread is lost."""
        self._closed = True
        self._kill()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _start(self) -> Hello:
        options = self.options
        self._lines, self._warm = queue.Queue(), False
        with tempfile.TemporaryFile() as complaints:
            try:
                process = subprocess.Popen(
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
            self._process = process
            threading.Thread(target=_pump, args=(process.stdout, self._lines), daemon=True).start()
            try:
                hello = self._receive(time.monotonic() + _START_SECONDS)["hello"]
            except (ValueError, KeyError, EOFError, queue.Empty) as error:
                self._kill()
                complaints.seek(0)
                last = complaints.read().decode(errors="replace").strip().splitlines()[-1:]
                reason = last[0] if last else "it gave no answer"
                raise WorkerError(f"{options.python} cannot run the worker: {reason}") from error
        return Hello(str(hello["python"]), hello["torch"])

    def _send(self, message: Mapping[str, Any]) -> None:
        stream = self._process.stdin if self._process is not None else None
        if stream is None:
            raise EOFError("the worker ended")
        stream.write(json.dumps(message).encode() + b"\n")
        stream.flush()

    def _receive(self, deadline: float) -> dict[str, Any]:
        line = self._lines.get(timeout=max(deadline - time.monotonic(), 0.01))
        if not line:
            raise EOFError("the worker ended")
        message = json.loads(line)
        if not isinstance(message, dict):
            raise ValueError("the worker sent something else than a message")  # noqa: TRY004 - as a broken line
        return message

    def _kill(self) -> None:
        """End the server; the kernel, or the supervisor when it notices, ends what the server started."""
        process, self._process = self._process, None
        if process is None:
            return
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


def _pump(stream: Any, lines: queue.Queue[bytes]) -> None:
    """Move lines from the pipe to the queue, and an empty one at the end."""
    with contextlib.suppress(OSError, ValueError):
        for line in stream:
            lines.put(line)
    lines.put(b"")


def python_path() -> list[str]:
    """Return the folders of PYTHONPATH, as the user's own interpreter would search them."""
    return [str(Path(entry).absolute()) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]


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
