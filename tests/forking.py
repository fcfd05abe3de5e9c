"""The command line in a process of its own for each command, forked from one that has imported it.

Importing dynalint takes longer than most commands of the tests. This file is also the program that forks.
"""

from __future__ import annotations

import gc
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

# What Python itself reads when it starts, and only then.
_READ_AT_START = ("PYTHON", "LANG", "LC_", "LD_")


def dynalint(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], *, given: str = "", timeout: float = 240
) -> subprocess.CompletedProcess[str]:
    """Run `dynalint ARGUMENTS...` in a working directory, with these variables and no others, and `given` to read.

    Raises subprocess.TimeoutExpired if it takes longer than `timeout` seconds.
    """
    if not hasattr(os, "fork") or _at_start(environment) != _at_start(os.environ):
        return subprocess.run(
            [sys.executable, "-m", "dynalint", *arguments],
            cwd=folder, env=environment, input=given, capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip
    with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as stdin, ThreadPoolExecutor(2) as pool:
        asked.write(_request(arguments, folder, environment))
        stdin.write(given.encode())
        for file in (asked, stdin):
            file.seek(0)
        (reads, out), (reads_too, err) = os.pipe(), os.pipe()
        texts = pool.map(_read, (reads, reads_too))
        process = _forker().start((asked.fileno(), stdin.fileno(), out, err))
        os.close(out)
        os.close(err)
        code = _forker().end(process, timeout)
        return subprocess.CompletedProcess(arguments, code, *texts)


@contextmanager
def connected(arguments: Sequence[str], folder: Path) -> Iterator[tuple[socket.socket, Callable[[], int]]]:
    """Start `dynalint ARGUMENTS...` with a socket as its standard streams, and wait for its end by calling what is given.

    No other command can run before that.
    """
    ours, theirs = socket.socketpair()
    with ours, tempfile.TemporaryFile() as asked:
        asked.write(_request(arguments, folder, os.environ))
        asked.seek(0)
        with theirs:
            process = _forker().start((asked.fileno(), *[theirs.fileno()] * 3))
        yield ours, partial(_forker().end, process, 240)


def _request(arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> bytes:
    """Describe a command for the process that becomes it, which may take no more memory than this one."""
    import resource  # which Windows does not have

    memory = resource.getrlimit(resource.RLIMIT_AS)
    parts = {"arguments": list(arguments), "folder": str(folder), "environment": dict(environment), "memory": memory}
    return json.dumps(parts).encode()


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}


def _read(pipe: int) -> str:
    with open(pipe, encoding="utf-8") as file:
        return file.read()


class _Forker:
    """The process that forks; it ends when this one does."""

    def __init__(self) -> None:
        self._channel, other = socket.socketpair()
        with other:
            command = [sys.executable, __file__, str(other.fileno())]
            subprocess.Popen(command, pass_fds=[other.fileno()], stdin=subprocess.DEVNULL)

    def start(self, files: Sequence[int]) -> int:
        """Start the command that the first file describes, with the others as its standard streams, and return its id."""
        socket.send_fds(self._channel, [b"."], files)
        return self._number()

    def end(self, process: int, timeout: float) -> int:
        """Wait for the command that was started, and return its exit code."""
        self._channel.settimeout(timeout)
        try:
            return self._number()
        except TimeoutError:
            os.kill(process, 9)
            self._channel.settimeout(None)
            self._number()
            raise subprocess.TimeoutExpired("dynalint", timeout) from None
        finally:
            self._channel.settimeout(None)

    def _number(self) -> int:
        return int(self._channel.recv(16, socket.MSG_WAITALL))


@cache
def _forker() -> _Forker:
    return _Forker()


def _serve(channel: socket.socket) -> None:
    """Fork for each request; answer with the number of the process, and with its exit code when it has ended."""
    while True:
        message, files, *_ = socket.recv_fds(channel, 1, 4)
        if not message:
            return
        process = os.fork()
        if not process:
            channel.close()
            _become(*files)
        for file in files:
            os.close(file)
        channel.sendall(b"%16d" % process)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        with suppress(BrokenPipeError):
            channel.sendall(b"%16d" % code)


def _become(asked: int, *streams: int) -> None:
    """Be the process of a command, from here to its end."""
    import resource

    from dynalint.__main__ import main

    with open(asked, "rb") as file:
        request: dict[str, Any] = json.load(file)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    resource.setrlimit(resource.RLIMIT_AS, request["memory"])
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["dynalint", *request["arguments"]]
    try:
        main()
    except BaseException:  # noqa: BLE001 - as Python reports it where nobody does
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


def _import() -> None:
    """Do what most commands do before they look at a project, and what takes them longest."""
    import dynalint.cli.check
    import dynalint.cli.fix
    import dynalint.cli.session
    import dynalint.engine
    import dynalint.fix
    import dynalint.rewriting.changed
    import dynalint.server.server
    from dynalint.caching.stamp import stamp
    from dynalint.report import Report, Style, render
    from dynalint.rules import all_rules

    all_rules()
    stamp()
    for form in ("full", "json"):
        render(form, Report([], {}), Style())
    assert dynalint.engine
    gc.freeze()


if __name__ == "__main__":
    del sys.path[0]
    _import()
    _serve(socket.socket(fileno=int(sys.argv[1])))
