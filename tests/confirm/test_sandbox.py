"""Walls one at a time, for systems that lack some: what holds is told, and where none does nothing is run."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dynalint.confirm.worker.process import supervisor, usage
from dynalint.confirm.worker.process.wire import Reply, pack, unpack
from dynalint.confirm.worker.sandbox import filters, syscalls, walls
from dynalint.confirm.worker.sandbox.readable import ReadableFolders
from dynalint.confirm.worker.sandbox.walls import Limits

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="no sandbox is known elsewhere"),
    pytest.mark.may_skip,
]

LIMITS = Limits(seconds=20, memory=1 << 30, cpu_seconds=30)


def program(**settings: bool) -> bytes:
    return filters.program(os.uname().machine, **settings)


def missing(*_: object, **__: object) -> Any:
    raise OSError(38, "Function not implemented")


def in_a_fork(act: Callable[[], Any]) -> Any:
    """Run in a child of its own what changes a process for good, and return what it returned."""
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(source)
        try:
            answer = act()
        except BaseException as error:  # noqa: BLE001 - it is told to the parent
            answer = f"{type(error).__name__}: {error}"
        os.write(sink, json.dumps(answer).encode())
        os._exit(0)
    os.close(sink)
    with os.fdopen(source, "rb") as stream:
        content = stream.read()
    os.waitpid(child, 0)
    return json.loads(content)


def run(tmp_path: Path, *, namespaces: bool, required: bool = True) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run a job that writes outside behind the walls that this system and the patches leave."""
    scratch, outside = tmp_path / "scratch", tmp_path / "outside"
    scratch.mkdir()

    def act() -> Any:
        flags = walls.usable_namespaces(scratch) if namespaces else 0
        if namespaces and not flags:
            return None
        listener = walls.set_out(outside)
        cell = supervisor.Cell(scratch, outside, supervisor.JobRules(LIMITS, ReadableFolders(), flags, "cpu", required))
        heard: list[Any] = []

        def job(reply: Reply) -> None:
            try:
                (tmp_path / "written").write_text("x")
            except OSError as error:
                reply.part("refused", error.errno)

        ending = supervisor.run_guarded(job, cell, heard.append)
        assert listener is not None
        listener.close()
        return ending, heard

    answer = in_a_fork(act)
    if answer is None:
        pytest.skip("this system allows no namespaces")
    if isinstance(answer, str):
        pytest.fail(answer)
    return answer[0], answer[1]


def walls_of(heard: list[dict[str, Any]]) -> dict[str, Any]:
    return next(dict(message["value"]) for message in heard if message["kind"] == "sandbox")


def without(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    for name in names:
        monkeypatch.setattr(syscalls, name, missing)


def need_landlock() -> None:
    try:
        version = syscalls.landlock_version()
    except OSError:
        pytest.skip("this kernel has no Landlock")
    if version < 3:
        pytest.skip("this kernel's Landlock lets files be emptied")


def test_landlock_and_seccomp_hold_without_namespaces(tmp_path: Path) -> None:
    need_landlock()
    ending, heard = run(tmp_path, namespaces=False)
    assert ending == {"outcome": "done"}
    assert walls_of(heard)["escape"] is None
    assert [layer.split()[0] for layer in walls_of(heard)["layers"]] == ["Landlock", "seccomp"]
    assert [one["value"] for one in heard if one["kind"] == "part"] == [["refused", 13]]
    assert not (tmp_path / "written").exists()


def test_namespaces_hold_without_landlock_and_seccomp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "landlock_version", "landlock", "seccomp")
    ending, heard = run(tmp_path, namespaces=True)
    assert ending == {"outcome": "done"}
    assert walls_of(heard) == {"layers": ["namespaces"], "escape": None}
    assert [one["value"] for one in heard if one["kind"] == "part"] == [["refused", 30]]


def test_namespaces_alone_leave_everything_to_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "landlock_version", "landlock")
    monkeypatch.setattr(walls, "show_only", missing)
    ending, _ = run(tmp_path, namespaces=True)
    assert ending == {"outcome": "refused", "reason": "code could read files outside the project"}


def test_without_any_wall_nothing_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "landlock", "seccomp")
    ending, heard = run(tmp_path, namespaces=False)
    assert ending == {"outcome": "refused", "reason": "code could read files outside the project"}
    assert walls_of(heard)["layers"] == []
    assert not (tmp_path / "written").exists()


def test_without_any_wall_code_runs_if_the_user_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "landlock", "seccomp")
    ending, _ = run(tmp_path, namespaces=False, required=False)
    assert ending == {"outcome": "done"}
    assert (tmp_path / "written").exists()


def test_no_filter_alone_is_an_escape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_landlock()
    without(monkeypatch, "seccomp")
    ending, _ = run(tmp_path, namespaces=False)
    assert ending["outcome"] == "refused"
    # Metadata and everything of the network but TCP are for the filter to close.
    assert ending["reason"] == "code could change the mode of files outside the scratch folder"


def test_a_network_that_is_open_is_an_escape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_landlock()
    monkeypatch.setitem(walls.__dict__, "_change_mode", missing)
    monkeypatch.setitem(walls.__dict__, "_change_times", missing)
    monkeypatch.setattr(os, "setxattr", missing)
    without(monkeypatch, "seccomp")
    ending, _ = run(tmp_path, namespaces=False)
    assert ending["outcome"] == "refused"
    assert ending["reason"] in ("code could open a TCP connection", "code could send over UDP")


def test_a_filter_for_this_machine_is_known() -> None:
    if os.uname().machine not in ("x86_64", "aarch64"):
        pytest.skip("another machine")

    def act() -> list[str]:
        syscalls.seccomp(program(apart=False, own_signals=True, local_sockets=False))
        outcomes = []
        for attempt in (lambda: os.kill(os.getpid(), 0), lambda: os.kill(os.getppid(), 0), lambda: os.kill(-1, 0)):
            try:
                attempt()
                outcomes.append("done")
            except OSError as error:
                outcomes.append(str(error.errno))
        return outcomes

    assert in_a_fork(act) == ["done", "1", "1"]


def test_a_local_socket_made_for_a_driver_reaches_nobody(tmp_path: Path) -> None:
    if os.uname().machine not in ("x86_64", "aarch64"):
        pytest.skip("another machine")
    path = str(tmp_path / "socket")

    def act() -> list[str]:
        syscalls.seccomp(program(apart=True, own_signals=False, local_sockets=True))
        outcomes = []
        with socket.socket(socket.AF_UNIX) as made:
            for attempt in (
                lambda: made.connect(path),
                lambda: made.sendto(b"x", path),
                lambda: socket.socket(socket.AF_INET),
                socket.socketpair,
            ):
                try:
                    attempt()
                    outcomes.append("done")
                except OSError as error:
                    outcomes.append(str(error.errno))
        return outcomes

    with socket.socket(socket.AF_UNIX) as somebody:
        somebody.bind(path)
        somebody.listen()
        assert in_a_fork(act) == ["1", "1", "1", "done"]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"token",
        b'{"id":1}',
        b'other ["done",true]',
        b'["done",true]',
        b"token not json",
        b'token {"a":1}',
        b"token [1]",
    ],
)
def test_lines_without_the_token_or_without_sense_are_passed_over(line: bytes) -> None:
    assert unpack(line, "token") is None


def test_lines_with_the_token_are_read() -> None:
    assert unpack(b"token " + pack(["part", ["a", 1]]), "token") == ("part", ["a", 1])


def test_a_family_is_one_process_or_all_that_it_started() -> None:
    def act() -> Any:
        source, sink = os.pipe()
        more, end = os.pipe()
        child = os.fork()
        if child == 0:
            os.read(more, 1)
            grandchild = os.fork()
            if grandchild == 0:
                os.read(more, 1)
                os._exit(0)
            os.write(sink, str(grandchild).encode())
            os.read(more, 1)
            os._exit(0)
        alone = usage.family_of(child)
        os.write(end, b"x")
        both = usage.family_of(child) if (grandchild := int(os.read(source, 32))) else {}
        os.write(end, b"xx")
        os.waitpid(child, 0)
        return [list(alone) == [child], sorted(both) == sorted([child, grandchild]), all(both.values())]

    assert in_a_fork(act) == [True, True, True]
