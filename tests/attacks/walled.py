"""Code behind walls, in a fork of a process that has imported only what builds them. This file is also that process.

A fork of the process of the tests, which has imported torch, takes several times as long.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from dynalint.confirm.worker.process import supervisor
from dynalint.confirm.worker.process.wire import Reply
from dynalint.confirm.worker.sandbox import syscalls, walls
from dynalint.confirm.worker.sandbox.readable import ReadableFolders
from dynalint.confirm.worker.sandbox.walls import Limits

MEMORY, CPU_SECONDS = 1 << 30, 60


def run(**request: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run code as a worker would; return how it ended, and what was heard. The names are those of `_answer`."""
    process = _process()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(request).encode() + b"\n")
    process.stdin.flush()
    found = json.loads(process.stdout.readline())
    if isinstance(found, str):
        raise AssertionError(found)  # noqa: TRY004 - it says what went wrong in the fork
    ending, heard = found
    return ending, heard


@cache
def _process() -> subprocess.Popen[bytes]:
    search = {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, __file__]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **search}, start_new_session=True
    )


def _serve() -> None:
    """Fork for each line, and write a line with the answer."""
    answers = os.dup(1)
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory() as folder:
        namespaces = walls.usable_namespaces(Path(folder))
    for line in sys.stdin.buffer:
        child = os.fork()
        if child == 0:
            try:
                answer = json.dumps(_answer(namespaces=namespaces, **json.loads(line)))
            except BaseException as error:  # noqa: BLE001 - it is told to the parent
                answer = json.dumps(f"{type(error).__name__}: {error}")
            with os.fdopen(answers, "w") as stream:
                stream.write(f"{answer}\n")
            os._exit(0)
        os.waitpid(child, 0)


def _answer(
    namespaces: int,
    code: str,
    mode: str,
    names: Mapping[str, str],
    folders: list[str],
    required: bool,
    seconds: float,
    jobs: int,
) -> Any:
    if mode == "no_landlock":
        syscalls.landlock_version = syscalls.landlock = _missing
    reading = ReadableFolders((*folders, names["project"]), (names["home"],))
    flags = namespaces if mode != "docker" else 0
    limits = Limits(seconds, MEMORY, CPU_SECONDS)
    rules = supervisor.JobRules(limits, reading, flags, "cpu", required, jobs)
    heard: list[dict[str, Any]] = []
    os.chdir(names["project"])
    job: Callable[[Reply], None] = lambda reply: exec(code, {**names, "os": os, "reply": reply})  # noqa: E731
    return [supervisor.guarded(job, Path(tempfile.mkdtemp()), rules, heard.append), heard]


def _missing(*_: object, **__: object) -> Any:
    raise OSError(38, "Function not implemented")


if __name__ == "__main__":
    del sys.path[0]
    _serve()
