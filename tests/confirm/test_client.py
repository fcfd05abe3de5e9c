"""The worker by itself: walls, limits, messages, and operations of others."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dynalint.confirm.client import Answer, Worker, WorkerError, WorkerOptions
from dynalint.confirm.servers import keeping_a_server

OPERATIONS = """
import os, socket, sys


ready = []


def prepares(request, reply):
    reply.stage("getting ready")
    ready.append(os.getpid())
    exec(request.get("before", ""))


def does(request, reply):
    reply.stage("doing as told")
    names = {"reply": reply, "request": request, "os": os, "socket": socket, "sys": sys, "ready": ready}
    exec(request["code"], names)


def counts(request, reply):
    import torch
    from .dynamo import runs
    run = runs.default_run(lambda: torch.relu, [((torch.ones(2),), {})])
    reply.part("graphs", run.graphs)
"""


# The interpreter of the environment, which has no torch as a rule: a server with it starts and forks much faster.
BARE = Path(sys._base_executable)
# A server by itself is what this is about.
pytestmark = [pytest.mark.dynamo, pytest.mark.may_skip, pytest.mark.usefixtures("no_kept_server")]


@pytest.fixture(scope="module")
def worker(sandboxed: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    folder = tmp_path_factory.mktemp("operations")
    (folder / "told.py").write_text(OPERATIONS)
    options = WorkerOptions(
        python=Path(sys.executable), folders=(str(folder),), seconds=4, memory=1 << 30, search=(str(folder),)
    )
    with Worker(options) as started:
        yield started


def test_code_that_does_nothing_ends_early_if_asked(worker: Worker) -> None:
    with Worker(replace(worker.options, python=BARE, seconds=60, idle=1.0)) as other:
        begun = time.monotonic()
        assert does(other, "import threading; threading.Event().wait()").outcome == "timeout"
        assert time.monotonic() - begun < 30
        working = "import time\nwhile time.process_time() < 2: pass"
        assert does(other, working).outcome == "done"


@pytest.fixture(scope="module")
def bare(worker: Worker) -> Iterator[Worker]:
    """A worker without torch, for what has nothing to do with it."""
    with Worker(replace(worker.options, python=BARE)) as started:
        yield started


def does(worker: Worker, code: str) -> Answer:
    return worker.ask("told:does", {"code": code})


def refused(worker: Worker, code: str) -> str:
    """Return the exception that the code ends with."""
    answer = does(worker, code)
    assert answer.outcome == "failed", answer
    return str(answer.ending["reason"])


def test_it_says_who_answers_before_it_imports_torch(worker: Worker) -> None:
    assert worker.hello.python.count(".") == 2
    assert (worker.hello.torch or "").startswith("2.")


def test_operations_of_other_folders_use_the_workers_modules(worker: Worker) -> None:
    answer = worker.ask("told:counts", {})
    assert (answer.outcome, answer.parts["graphs"]) == ("done", [1])


def test_nothing_is_found_out_for_logs_alone(worker: Worker) -> None:
    code = """
import gc, torch
from torch._dynamo import funcname_cache, utils
for _ in range(3):
    sys.modules[PACKAGE + ".dynamo.runs"].seed_torch(0)
known = torch.cuda._lazy_seed_tracker.get_calls()
torch.compile(torch.nn.ReLU(), backend="eager")(torch.ones(2))
told = utils.get_compilation_metrics()[-1]
reply.part("found", [len(known), list(funcname_cache.cache), told.guard_latency_us, told.inductor_config])
reply.part("collects", [gc.isenabled(), gc.get_freeze_count() > 0])
"""
    answer = does(worker, code.replace("PACKAGE", '"_dynalint_worker"'))
    assert answer.parts["found"] == [0, [], 0, None]
    assert answer.parts["collects"] == [True, True]


def test_what_pythonpath_names_is_searched_and_its_sitecustomize_runs_behind_the_walls(
    worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os, sys\nsys.stood_in = os.getpid()\nraise ValueError\n")
    (tmp_path / "stand_in.py").write_text("value = 7\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}")
    code = "import stand_in; reply.part('found', [stand_in.value, sys.stood_in == os.getpid()])"
    assert does(worker, code).parts["found"] == [7, True]


def test_parts_and_stages_arrive_as_they_are_sent(worker: Worker) -> None:
    stages: list[str] = []
    code = "reply.stage('one'); reply.part('a', [1]); reply.stage('two'); reply.part('b', None)"
    answer = worker.ask("told:does", {"code": code}, stages.append)
    assert answer.parts == {"a": [1], "b": None}
    assert stages == ["doing as told", "one", "two"]
    assert answer.walls


def test_what_was_said_before_a_crash_is_kept(worker: Worker) -> None:
    answer = does(worker, "reply.part('a', 1); os._exit(7)")
    assert (answer.outcome, answer.ending["status"], answer.parts, answer.stage) == (
        "exit",
        7,
        {"a": 1},
        "doing as told",
    )


def together(worker: Worker, *codes: str, before: str = "") -> list[Answer]:
    requests = [{"code": code, "before": before} for code in codes]
    return list(worker.ask_each("told:does", requests, prepare="told:prepares"))


def test_what_is_asked_together_is_kept_apart_except_for_what_is_prepared(worker: Worker) -> None:
    code = "reply.part('ready', list(ready)); reply.part('here', os.getpid()); ready.append(0)"
    answers = together(worker, *[code] * 3)
    assert [answer.outcome for answer in answers] == ["done"] * 3
    first = answers[0].parts["ready"]
    assert len(first) == 1
    # Each of the others is prepared by those before it too, but never changed by their operations.
    assert [answer.parts["ready"] for answer in answers] == [first, first * 2, first * 3]
    assert len({answer.parts["here"] for answer in answers}) == 3
    assert all(answer.walls == answers[0].walls for answer in answers)
    assert answers[0].walls


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("os._exit(7)", "exit"),
        ("os._exit(0)", "exit"),
        ("os.abort()", "signal"),
        ("os.kill(os.getpid(), 9)", "done killed"),
        ("raise ValueError('told so')", "failed"),
        ("reply.part('a', 1); os.close(reply.descriptor); reply.part('b', 1)", "channel"),
        ("import time; time.sleep(60)", "timeout"),
        ("hoard = bytearray(3 << 30); hoard[::4096] = bytes(len(hoard[::4096]))", "failed memory"),
        ("import time\nif os.fork() == 0: os.setsid(); time.sleep(60)", "done"),
        ("import signal; os.kill(os.getppid(), signal.SIGKILL)", "done killed"),
        ("import threading, time; threading.Thread(target=time.sleep, args=(1,), daemon=True).start()", "done"),
    ],
)
def test_what_is_asked_together_costs_no_other_its_answer(worker: Worker, code: str, outcome: str) -> None:
    for place in range(3):
        codes = ["reply.part('ready', len(ready))"] * 3
        codes[place] = code
        answers = together(worker, *codes)
        assert answers.pop(place).outcome in outcome.split()
        assert [answer.outcome for answer in answers] == ["done"] * 2
        assert all(answer.parts["ready"] for answer in answers)


def test_each_target_has_what_the_driver_of_a_gpu_asks_of_its_process(bare: Worker) -> None:
    options = replace(bare.options, device="cuda")
    with Worker(options) as on_gpu:
        answers = together(on_gpu, *["open('/proc/self/comm', 'w').write('mine')"] * 3)
    assert [answer.outcome for answer in answers] == ["done"] * 3, answers


def test_linear_algebra_starts_no_threads_that_would_keep_targets_of_a_module_apart(worker: Worker) -> None:
    code = "import numpy; reply.part('a', [os.environ['OPENBLAS_NUM_THREADS'], len(os.listdir('/proc/self/task'))])"
    assert does(worker, code).parts["a"] == ["1", 1]


def test_threads_of_the_preparation_keep_nothing_from_being_run(worker: Worker) -> None:
    before = "import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
    answers = together(worker, *["reply.part('ready', len(ready))"] * 3, before=before)
    assert [(answer.outcome, answer.parts["ready"]) for answer in answers] == [("done", 1)] * 3


def test_a_preparation_that_ends_the_process_is_told_of_each(worker: Worker) -> None:
    answers = together(worker, "pass", "pass", before="os._exit(5)")
    assert [(answer.outcome, answer.stage) for answer in answers] == [("exit", "getting ready")] * 2


def test_who_needs_no_more_answers_can_ask_something_else(bare: Worker) -> None:
    asked = bare.ask_each("told:does", [{"code": "pass"}, {"code": "reply.part('late', 1)"}])
    assert next(asked).outcome == "done"
    asked.close()
    assert does(bare, "reply.part('a', 1)").parts == {"a": 1}


@pytest.mark.parametrize(
    "code",
    [
        "open({outside!r} + '/new', 'w')",
        "open({outside!r} + '/old', 'a')",
        "os.truncate({outside!r} + '/old', 0)",
        "os.unlink({outside!r} + '/old')",
        "os.rename({outside!r} + '/old', {outside!r} + '/other')",
        "os.mkdir({outside!r} + '/folder')",
        "os.symlink('x', {outside!r} + '/link')",
        "os.link({outside!r} + '/old', os.environ['TMPDIR'] + '/link'); open(os.environ['TMPDIR'] + '/link', 'a')",
    ],
)
def test_nothing_outside_the_scratch_folder_can_be_written(worker: Worker, code: str, tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    assert "Error" in refused(worker, code.format(outside=str(tmp_path)))
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("old", "old")]


def test_the_scratch_folder_and_shared_memory_can_be_written_and_are_gone_afterwards(worker: Worker) -> None:
    code = """
import tempfile, pathlib
for folder in (tempfile.gettempdir(), os.environ["HOME"], os.environ["XDG_CACHE_HOME"], "/dev/shm"):
    pathlib.Path(folder).mkdir(exist_ok=True)
    pathlib.Path(folder, "dynalint-probe").write_text("x")
open("/dev/null", "w").write("x")
reply.part("home", os.environ["HOME"])
"""
    answer = does(worker, code)
    assert answer.outcome == "done", answer
    assert not Path(answer.parts["home"]).exists()
    if "namespaces" in answer.walls:
        assert not Path("/dev/shm/dynalint-probe").exists()
    Path("/dev/shm/dynalint-probe").unlink(missing_ok=True)


@pytest.mark.parametrize(
    "code",
    [
        "socket.create_connection(('127.0.0.1', 22), 1)",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
        "socket.socket(socket.AF_INET6)",
        "socket.socket(socket.AF_UNIX).connect('/run/docker.sock')",
        "socket.getaddrinfo('example.com', 80)",
    ],
)
def test_no_socket_can_be_had(worker: Worker, code: str) -> None:
    assert refused(worker, code)


def test_pipes_and_pairs_of_sockets_work(worker: Worker) -> None:
    code = "a, b = socket.socketpair(); a.send(b'x'); reply.part('got', b.recv(1).decode())"
    assert does(worker, code).parts == {"got": "x"}


def test_only_what_is_needed_of_the_environment_is_there(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = does(worker, "reply.part('names', sorted(os.environ))")
    assert {"PATH", "HOME", "TMPDIR"} <= set(answer.parts["names"])
    assert not [name for name in answer.parts["names"] if "TOKEN" in name or "SECRET" in name or "KEY" in name]
    monkeypatch.setenv("MY_API_TOKEN", "hush")
    with Worker(WorkerOptions(python=Path(sys.executable))) as other:
        environ = Path(f"/proc/{other._server.pid}/environ").read_bytes()  # type: ignore[union-attr]
    assert b"hush" not in environ


def test_it_lives_on_after_every_kind_of_end(bare: Worker) -> None:
    outcomes = [
        does(bare, code).outcome
        for code in (
            "os._exit(0)",
            "os.kill(os.getpid(), 11)",
            "import ctypes; ctypes.string_at(0)",
            "os.closerange(3, 5000); reply.part('a', 1)",
            "raise SystemExit(2)",
            "x = [bytearray(64 << 20) for _ in range(100)]",
            "import time\nfor _ in range(200):\n    if os.fork() == 0: time.sleep(60)\n    time.sleep(0.002)",
            "pass",
        )
    ]
    assert outcomes[0] == "exit"
    assert outcomes[1] in ("signal", "done")
    assert outcomes[2:6] == ["signal", "channel", "failed", "failed"]
    assert outcomes[6] == "processes"
    assert outcomes[7] == "done"


def test_time_is_limited_and_nothing_goes_on_afterwards(bare: Worker, tmp_path: Path) -> None:
    code = "import time\nif os.fork() == 0:\n    os.setsid()\nwhile True: time.sleep(0.1)"
    does(bare, "pass")
    before = _descendants()
    answer = does(bare, code)
    assert (answer.outcome, answer.ending["seconds"]) == ("timeout", 4)
    assert _descendants() == before


def test_waiting_for_a_processor_is_no_time_of_the_code(bare: Worker) -> None:
    code = "import time\nwhile time.process_time() < 0.7: pass"
    with Worker(replace(bare.options, seconds=2)) as waiting, busy_neighbours():
        answer = does(waiting, code)
    assert answer.outcome == "done"
    assert 0.5 < answer.spent < 2


@contextlib.contextmanager
def busy_neighbours() -> Iterator[None]:
    """Have four processes compete with what is started now for one processor."""
    allowed = os.sched_getaffinity(0)
    # The server is there already; its family is what is meant.
    for entry in _descendants():
        os.sched_setaffinity(int(entry.name), {min(allowed)})
    spin = [sys.executable, "-c", f"import os\nos.sched_setaffinity(0, {{{min(allowed)}}})\nwhile True: pass"]
    busy = [subprocess.Popen(spin) for _ in range(4)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def _descendants() -> set[Path]:
    return {entry for entry in Path("/proc").glob("[0-9]*") if _is_descendant(entry)}


def _is_descendant(entry: Path) -> bool:
    try:
        return os.getpid() == int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError):
        return False


def test_a_flood_of_processes_is_stopped(bare: Worker) -> None:
    # One parent and no grandchildren: a real bomb, should the watch fail, would take the machine with it.
    code = """
import time
parent = os.getpid()
for _ in range(300):
    if os.getpid() == parent and os.fork() == 0:
        time.sleep(20)
        os._exit(0)
time.sleep(5)
"""
    answer = does(bare, code)
    # The limit of the kernel, from which root is exempt, or the watch of the supervisor.
    assert answer.outcome in ("failed", "processes"), answer


def test_memory_of_several_processes_counts_together(bare: Worker) -> None:
    code = """
import time
for _ in range(4):
    if os.fork() == 0:
        hoard = bytearray(400 << 20)
        time.sleep(30)
time.sleep(30)
"""
    answer = does(bare, code)
    assert (answer.outcome, answer.ending["bytes"]) == ("memory", 1 << 30)


def test_a_server_that_was_killed_costs_one_answer(bare: Worker) -> None:
    os.kill(bare._server.pid, signal.SIGKILL)  # type: ignore[arg-type, union-attr]
    assert does(bare, "pass").outcome == "lost"
    assert does(bare, "pass").outcome == "done"


def test_an_interpreter_that_says_something_else_is_one_sentence(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho 'this is no Python' >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(WorkerError, match=r"cannot run the worker: this is no Python$"):
        Worker(WorkerOptions(python=program))


def test_scratch_folders_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Worker(WorkerOptions(python=Path(sys.executable))):
        assert list(tmp_path.iterdir())
    assert list(tmp_path.iterdir()) == []


def test_a_closed_worker_starts_nothing_again() -> None:
    worker = Worker(WorkerOptions(python=Path(sys.executable)))
    worker.close()
    assert worker.ask("told:does", {}).outcome == "lost"
    assert worker._server is None


def test_a_server_is_kept_for_the_next_project_and_no_longer(tmp_path: Path) -> None:
    (tmp_path / "operations").mkdir()
    (tmp_path / "operations" / "told.py").write_text(OPERATIONS)
    options = WorkerOptions(python=BARE, folders=(str(tmp_path / "operations"),), required=False, cwd=tmp_path)
    other = replace(options, cwd=tmp_path / "operations", search=(str(tmp_path),), seconds=9)
    where = "reply.part('found', [os.getcwd(), os.getppid(), sys.path[-1]])"

    def pid_and_answer(options: WorkerOptions) -> tuple[int, Answer]:
        with Worker(options) as worker:
            return worker._server.pid, does(worker, where)  # type: ignore[union-attr, return-value]

    with keeping_a_server():
        first, answer = pid_and_answer(options)
        assert answer.parts["found"][0] == str(tmp_path)
        second, answer = pid_and_answer(other)
        assert (answer.parts["found"][0], answer.parts["found"][2]) == (str(other.cwd), str(tmp_path))
        assert second == first
        with Worker(replace(options, device="cuda")) as another_kind, Worker(options) as again:
            assert another_kind._server.pid != first == again._server.pid  # type: ignore[union-attr]
            os.kill(first, signal.SIGKILL)
            assert does(again, "pass").outcome == "lost"
        third, answer = pid_and_answer(options)
        assert (answer.outcome, third != first) == ("done", True)
        assert Path(f"/proc/{third}").exists()
    assert not Path(f"/proc/{third}").exists()
