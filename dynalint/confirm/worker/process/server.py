"""The server: a process of the user's interpreter that imports torch and forks for each message.

It exchanges JSON lines with dynalint through its standard streams. It runs outside the sandbox, so it never imports,
reads or runs anything from the project. It stays in its own folder: `python worker FOLDER`. dynalint creates the
folder, and the server removes it if dynalint ends without doing so.

The server first sends `{"hello": {...}}`. For each message `{"id", "operation", "prepare", "requests", "limits",
"device", "required", "search", "python_path", "folders", "cwd", "readable", "homes"}` it sends any number of `{"id",
"kind", "value"}` and then `{"id", "end": {"outcome", ...}}` for the first request. If this contains `"more": true`, the
same follows for the next request. Otherwise, the remaining requests were not run. `{"hello": {"search"}}` makes the
server send another hello, for a project with these import folders.

An operation is `module:function` in this package or in one of the `folders`, which are added to the package's path. It
is called as `function(request, reply)`. If `prepare` is not empty, it names a function that is called with the
first request before any operation, and with each request after its operation.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.machinery
import importlib.util
import json
import os
import platform
import re
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from .leftovers import remove
from .lifeline import ending_with, is_cut
from .wire import Reply, pack

Message = dict[str, Any]

_PACKAGE = (__package__ or "").rpartition(".")[0]
_METADATA = re.compile(r"torch-(\d[\w.+!]{0,80}?)(?:-py[\d.]+)?\.(?:dist|egg)-info")


def serve() -> None:
    """Answer requests until the input ends."""
    folder = Path(sys.argv[1])
    requests, answers = _take_streams()
    try:
        _say(answers, None, {"hello": _hello(sys.argv[2:])})
        namespaces: int | None = None
        for line in requests:
            message = json.loads(line)
            if "hello" in message:
                _say(answers, None, {"hello": _hello(message["hello"]["search"])})
                continue
            with ending_with(requests.fileno(), partial(remove, folder)):
                if message.get("preload", True):
                    _preload(message)
                if namespaces is None:
                    namespaces = _namespaces(folder)
            abandoned = partial(is_cut, requests.fileno())
            _answer(message, folder, namespaces, abandoned, partial(_say, answers, message["id"]))
    except BrokenPipeError:
        pass  # The client is gone.
    finally:
        remove(folder)


def _take_streams() -> tuple[BinaryIO, BinaryIO]:
    """Reserve the standard streams for the protocol, and replace them with /dev/null."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(null, stream)
    return requests, answers


def _say(answers: BinaryIO, number: int | None, message: Message) -> None:
    data = pack(message if number is None else {"id": number, **message})
    while data:
        data = data[answers.write(data) or 0 :]


def _hello(search: list[str]) -> Message:
    """Return the hello message without importing torch, because importing it takes seconds."""
    torch = next(filter(None, map(_release_of_torch, (*sys.path, *search))), None)
    return {"python": platform.python_version(), "torch": torch, "executable": sys.executable, "pid": os.getpid()}


def _release_of_torch(folder: str) -> str | None:
    """Return the torch release in a folder, based on the name of its metadata, which does not have to be readable."""
    try:
        names = [entry.name for entry in os.scandir(folder)]
    except OSError:
        return None
    return next((match[1] for match in map(_METADATA.fullmatch, names) if match), None)


def _preload(message: Message) -> None:
    """Import torch, unless it is only on the project's path, and compile something small, once for all forks.

    Also import the operation, and pytest if it runs tests. Packages that load plugins when they are imported stay out.
    """
    if importlib.util.find_spec("torch") is None:
        return
    if "torch" not in sys.modules:
        # Imported objects stay alive, and collecting garbage during the import takes a sixth of its time.
        gc.disable()
        with contextlib.suppress(Exception):
            from .warmup import warm_up

            warm_up(message["device"])
        gc.collect()
        gc.freeze()
        gc.enable()
    # Only comparisons compile gradients, and the modules for this take a second to load. They query GPUs, and a GPU
    # that was queried cannot be used after a fork. If code runs on the CPU, the client hides GPUs.
    compares = message["operation"].startswith("operations.verifying") or any(
        one.get("compare") for one in message["requests"]
    )
    if compares and message["device"] == "cpu":
        with contextlib.suppress(Exception):
            importlib.import_module("torch._inductor.pattern_matcher")
    with contextlib.suppress(Exception):
        _function(message["operation"])
    if message["operation"].startswith("operations.harvesting"):
        with contextlib.suppress(Exception):
            importlib.import_module("pytest")


def _namespaces(scratch: Path) -> int:
    if not hasattr(os, "fork"):
        return 0
    from ..sandbox.walls import usable_namespaces

    return usable_namespaces(scratch)


def _answer(
    message: Message, base: Path, namespaces: int, abandoned: Callable[[], bool], say: Callable[[Message], None]
) -> None:
    """Run requests, in separate processes if the system can fork, and report how they ended."""
    job = partial(_run, message)
    if not hasattr(os, "fork"):
        say({"end": _run_here(job, say, required=message["required"])})
        return
    folder = Path(tempfile.mkdtemp(dir=base))
    try:
        supervisor = os.fork()
        if supervisor == 0:
            _supervise(job, message, folder, namespaces, abandoned, say)
        status = os.waitpid(supervisor, 0)[1]
        if status:
            say({"end": {"outcome": "supervisor", "status": status}})
    finally:
        remove(folder)


def _supervise(
    job: Callable[[Reply], None],
    message: Message,
    folder: Path,
    namespaces: int,
    abandoned: Callable[[], bool],
    say: Callable[[Message], None],
) -> NoReturn:
    """Act as the supervisor for a message's requests, report how they ended, and exit with status 0 on success."""
    from ..sandbox.readable import ReadableFolders
    from ..sandbox.walls import Limits
    from .supervisor import JobRules, guarded

    status = 1
    try:
        limits, device = Limits(**message["limits"]), message["device"]
        folders = (*message["readable"], *message["search"], *message["python_path"], *message["folders"])
        reading, jobs = ReadableFolders(folders, tuple(message["homes"])), len(message["requests"])
        rules = JobRules(limits, reading, namespaces, device, message["required"], jobs, abandoned)
        ending = guarded(job, folder, rules, say)
        say({"end": ending})
        status = 0
    finally:
        os._exit(status)


def _run_here(job: Callable[[Reply], None], say: Callable[[Message], None], *, required: bool) -> Message:
    """Run the first request in this process, on systems that cannot fork and therefore have no sandbox."""
    if required:
        return {"outcome": "refused", "reason": "there is no sandbox for this system"}
    try:
        job(_Direct(say))
    except BaseException as error:  # noqa: BLE001 - user code may raise anything
        return {"outcome": "failed", "reason": f"{type(error).__name__}: {error}"}
    return {"outcome": "done"}


class _Direct(Reply):
    """A reply that forwards its messages without a pipe."""

    def __init__(self, say: Callable[[Message], None]) -> None:
        super().__init__(-1, "")
        self._say = say

    def send(self, kind: str, value: Any) -> None:
        self._say({"kind": kind, "value": value})


def _start_up(python_path: list[str]) -> None:
    """Handle PYTHONPATH the way the interpreter does at startup: extend the search path, and run sitecustomize."""
    sys.path[:0] = [entry for entry in python_path if entry not in sys.path]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", python_path)
    if spec is not None and spec.loader is not None:
        # As in `site`, an exception does not stop the program.
        with contextlib.suppress(Exception):
            module = importlib.util.module_from_spec(spec)
            sys.modules["sitecustomize"] = module
            spec.loader.exec_module(module)


def _run(message: Message, reply: Reply) -> None:
    """Look up the operation and call it for each request. This is the first code that runs in the sandbox."""
    os.chdir(message["cwd"])
    _start_up(message["python_path"])
    sys.path.extend(entry for entry in message["search"] if entry not in sys.path)
    package = sys.modules[_PACKAGE]
    package.__path__.extend(folder for folder in message["folders"] if folder not in package.__path__)
    operation = _function(message["operation"])
    requests = message["requests"]
    prepare = _function(message["prepare"]) if message["prepare"] else lambda _request, _reply: None
    prepare(requests[0], reply)
    if len(requests) == 1 or not hasattr(os, "fork"):
        operation(requests[0], reply)
        return
    from .batch import run_apart

    run_apart(
        [partial(operation, request) for request in requests], reply, lambda number: prepare(requests[number], reply)
    )


def _function(name: str) -> Callable[[Message, Reply], None]:
    module, _, function = name.partition(":")
    found: Callable[[Message, Reply], None] = getattr(importlib.import_module(f"{_PACKAGE}.{module}"), function)
    return found
