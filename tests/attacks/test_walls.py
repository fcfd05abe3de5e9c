"""What user code tries behind the walls, with namespaces and without, and where the kernel has no Landlock."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dynalint.confirm.worker.sandbox import filters, syscalls, walls
from tests.attacks import walled

pytestmark = [
    pytest.mark.dynamo,
    pytest.mark.skipif(sys.platform != "linux", reason="no sandbox is known elsewhere"),
    pytest.mark.may_skip,
]

SECRET = "hunter2-do-not-tell"
MODES = ("namespaces", "docker", "no_landlock")
SYSTEM_CALL = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    ctypes.set_errno(0)
    wide = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result = libc.syscall(ctypes.c_long(number), *wide)
    return result, ctypes.get_errno()
"""


@dataclass(frozen=True)
class Answer:
    """How a job ended and what it has told."""

    ending: dict[str, Any]
    heard: list[dict[str, Any]]

    @property
    def parts(self) -> dict[str, Any]:
        return dict(one["value"] for one in self.heard if one["kind"] == "part")

    @property
    def reason(self) -> str:
        return str(self.ending.get("reason"))

    def __str__(self) -> str:
        return json.dumps([self.ending, self.heard])


class Place:
    """A home folder with a project in it, and walls of a mode around code that runs there."""

    def __init__(self, folder: Path, mode: str) -> None:
        self.mode = mode
        self.home = folder / "home"
        self.project = self.home / "project"
        self.project.mkdir(parents=True)
        (self.home / ".ssh").mkdir()
        (self.home / ".ssh" / "key").write_text(SECRET)
        (self.home / "notes.txt").write_text(SECRET)
        (self.home / "script.py").write_text("value = 'a script'\n")
        (self.project / "data.json").write_text('{"a": 1}')
        (self.project / "leads_out").symlink_to(self.home / ".ssh")
        (self.project / "pipe.sh").write_text("#!/bin/sh\necho ran\n")
        self.precious = self.home / "precious"
        self.precious.write_text("as it was")
        os.utime(self.precious, (1000, 1000))
        self.precious.chmod(0o640)

    def run(
        self, code: str, *, folders: tuple[str, ...] = (), required: bool = True, seconds: float = 60, jobs: int = 1
    ) -> Answer:
        """Run code as a worker would run a project's; `home`, `project` and `reply` are there."""
        names = {"home": str(self.home), "project": str(self.project), "precious": str(self.precious)}
        ending, heard = walled.run(
            code=code, mode=self.mode, names=names, folders=folders, required=required, seconds=seconds, jobs=jobs
        )
        return Answer(ending, heard)

    def assert_unharmed(self) -> None:
        state = self.precious.stat()
        assert self.precious.read_text() == "as it was"
        assert (state.st_mode & 0o777, state.st_mtime, state.st_uid) == (0o640, 1000, os.getuid())
        assert os.listxattr(self.precious) == []
        assert sorted(path.name for path in self.home.iterdir()) == [
            ".ssh",
            "notes.txt",
            "precious",
            "project",
            "script.py",
        ]


@pytest.fixture(scope="module", params=MODES)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    mode = request.param
    with tempfile.TemporaryDirectory() as folder:
        if mode != "docker" and not walls.usable_namespaces(Path(folder)):
            pytest.skip("this system allows no namespaces")
    try:
        version = syscalls.landlock_version()
    except OSError:
        version = 0
    if mode != "no_landlock" and version < 3:
        pytest.skip("this kernel's Landlock lets files be emptied")
    return Place(tmp_path_factory.mktemp("w"), mode)


READS = {
    "a_key": "open(home + '/.ssh/key').read()",
    "notes": "open(home + '/notes.txt').read()",
    "the_home_folder": "assert 'notes.txt' in os.listdir(home)",
    "by_a_link_of_the_project": "open(project + '/leads_out/key').read()",
    "by_a_link_that_it_makes": "os.symlink(home + '/.ssh', os.environ['TMPDIR'] + '/l'); open(os.environ['TMPDIR'] + '/l/key').read()",
    "by_the_way_of_proc": "open('/proc/self/root' + home + '/.ssh/key').read()",
    "by_the_folder_it_is_in": "open('../.ssh/key').read()",
    "by_a_descriptor_of_a_path": "os.open(home + '/.ssh/key', os.O_PATH); open('/proc/self/fd/%d' % os.open(home + '/.ssh/key', os.O_PATH)).read()",
    "by_a_program": "import subprocess; subprocess.run(['cat', home + '/.ssh/key'], check=True)",
    "by_a_hard_link": "os.link(home + '/.ssh/key', os.environ['TMPDIR'] + '/l'); open(os.environ['TMPDIR'] + '/l').read()",
    "by_a_move": "os.rename(home + '/.ssh/key', os.environ['TMPDIR'] + '/l')",
    "by_running_it": "os.execv(home + '/.ssh/key', ['key'])",
    "passwords": "open('/etc/shadow').read()",
    "the_settings_of_the_machine": "assert 'shadow' in os.listdir('/etc')",
    "the_memory_of_others": "open('/proc/%d/mem' % PARENT, 'rb').read(1)",
    "the_environment_of_others": "assert open('/proc/%d/environ' % PARENT).read()",
    "the_command_of_others": "assert open('/proc/%d/cmdline' % PARENT).read()",
    "what_others_keep_in_memory": "open('/dev/shm/WORD').read()",
    "the_temporary_folder": "assert 'WORD' in os.listdir('/tmp')",
    "the_terminal": "open('/dev/tty').read()",
    "the_disk": "open('/dev/DISK', 'rb').read(1)",
    "the_log_of_the_kernel": "import ctypes; assert ctypes.CDLL(None).klogctl(10, None, 0) >= 0",
}


@pytest.mark.parametrize("name", READS)
def test_nothing_of_others_is_read(place: Place, name: str) -> None:
    word = f"dynalint-walls-{os.getpid()}"
    marks = [Path("/dev/shm", word), Path("/tmp", word)]
    for mark in marks:
        mark.write_text(SECRET)
    disk = next((path.name for path in Path("/sys/block").glob("*")), "none")
    code = READS[name].replace("PARENT", str(os.getpid())).replace("WORD", word).replace("DISK", disk)
    try:
        answer = place.run(f"got = {code.rpartition('; ')[2]}" if "assert" not in code and ";" not in code else code)
    finally:
        for mark in marks:
            mark.unlink()
    assert answer.ending["outcome"] in ("failed", "exit"), answer
    assert SECRET not in str(answer)
    place.assert_unharmed()


ALLOWED = {
    "a_file_of_the_project": "import json; assert json.load(open('data.json')) == {'a': 1}",
    "the_folder_of_the_project": "assert 'data.json' in os.listdir(project)",
    "a_program_of_the_project": "import subprocess; subprocess.run(['sh', project + '/pipe.sh'], check=True)",
    "a_new_part_of_the_library": "import wave, xml.dom.minidom, sqlite3, zoneinfo",
    "a_package": "import numpy, numpy.linalg, mpmath",
    "an_editable_package": "import dynalint.rulebook.catalogue",
    "a_name_of_a_user": "import getpass, pwd; pwd.getpwuid(0)",
    "the_time_of_the_place": "import time; time.localtime()",
    "its_own_memory": "assert open('/proc/self/statm').read(); assert open('/proc/meminfo').read()",
    "how_many_processors": "import multiprocessing; assert multiprocessing.cpu_count()",
    "scratch": "import tempfile; tempfile.TemporaryFile().write(b'x'); open(os.environ['HOME'] + '/x', 'w').write('x')",
    "copies": "import shutil; shutil.copy2('data.json', os.environ['TMPDIR']); shutil.copytree(project, os.environ['TMPDIR'] + '/c', symlinks=True)",
    "a_database": "import sqlite3; sqlite3.connect(os.environ['TMPDIR'] + '/d').execute('create table t (a)')",
    "a_mode_of_its_own": "open(os.environ['TMPDIR'] + '/m', 'w').close(); os.chmod(os.environ['TMPDIR'] + '/m', 0o755)",
    "threads": "import threading; t = threading.Thread(target=print); t.start(); t.join()",
    "programs": "import subprocess; assert subprocess.run(['g++', '--version'], capture_output=True, check=True).stdout",
    "another_python": "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import json'], check=True)",
    "children": "assert os.fork() == 0 or os.wait()[1] == 0",
    "pairs_of_sockets": "import socket; a, b = socket.socketpair(); a.send(b'x'); assert b.recv(1) == b'x'",
    "a_loop_of_events": "import asyncio; asyncio.run(asyncio.sleep(0))",
    "memory_files": "assert os.memfd_create('x') > 0",
    "its_limits": "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); os.nice(1)",
    "signals_to_itself": "import signal; signal.signal(10, print); signal.raise_signal(10); os.kill(os.getpid(), 10)",
    "random_numbers": "assert os.urandom(8) and open('/dev/urandom', 'rb').read(8)",
}


@pytest.mark.parametrize("name", ALLOWED)
def test_what_programs_need_works(place: Place, name: str) -> None:
    answer = place.run(ALLOWED[name])
    assert answer.ending == {"outcome": "done"}, answer
    place.assert_unharmed()


CHANGES = {
    "mode": "os.chmod(precious, 0o777)",
    "mode_by_descriptor": "os.fchmod(os.open(precious, os.O_PATH), 0o777)",
    "mode_by_a_new_call": "call(452, -100, precious.encode(), 0o777, 0)",
    "mode_by_a_program": "import subprocess; subprocess.run(['chmod', '777', precious], check=True)",
    "owner": "os.chown(precious, 12345, 12345)",
    "owner_of_a_link": "os.lchown(precious, 12345, 12345)",
    "times": "os.utime(precious, (1, 1))",
    "times_by_a_program": "import subprocess; subprocess.run(['touch', precious], check=True)",
    "attributes": "os.setxattr(precious, 'user.a', b'b')",
    "attributes_by_a_new_call": "import ctypes; call(463, -100, precious.encode(), 0, b'user.a', 0, 0)",
    "flags": "import fcntl, struct; fcntl.ioctl(os.open(project + '/data.json', 0), 0x40086602, struct.pack('l', 0x10))",
    "flags_by_a_new_call": "call(469, -100, precious.encode(), b'\\0' * 32, 32, 0)",
    "content": "open(precious, 'w').write('x')",
    "size": "os.truncate(precious, 0)",
    "name": "os.rename(precious, precious + '2')",
    "removal": "os.unlink(precious)",
    "a_link": "os.symlink('x', home + '/made')",
    "a_folder": "os.mkdir(home + '/made')",
    "a_pipe": "os.mkfifo(home + '/made')",
    "a_device": "os.mknod(home + '/made', 0o20666, os.makedev(1, 3))",
}


@pytest.mark.parametrize("name", CHANGES)
def test_nothing_of_others_is_changed(place: Place, name: str) -> None:
    place.run(SYSTEM_CALL + CHANGES[name])
    place.assert_unharmed()
    assert (place.project / "data.json").read_text() == '{"a": 1}'


CALLS = filters.numbers(filters._REFUSED, os.uname().machine) if os.uname().machine in filters._AUDIT else {}


@pytest.fixture(scope="module")
def errors(place: Place) -> dict[str, int]:
    """What each call that the filter refuses comes to when it asks for nothing in particular."""
    code = f"{SYSTEM_CALL}\nreply.part('errors', {{n: call(k, 0, 0, 0, 0, 0)[1] for n, k in {CALLS!r}.items()}})"
    answer = place.run(code)
    assert answer.ending == {"outcome": "done"}, answer
    return dict(answer.parts["errors"])


@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_nobody_needs_is_refused(errors: dict[str, int], call: str) -> None:
    assert errors[call] == 1


OTHER_CALLS = {
    "other_numbers_of_the_same": "assert call(0x40000000 + 39)[1] == 1",
    "a_user_of_its_own": "assert call(CLONE, 0x10000000 | 17, 0, 0, 0, 0)[1] == 1",
    "a_user_of_its_own_by_the_new_call": "assert call(435, b'\\0' * 88, 88)[1] == 38",
    "signals_to_the_parent": "import signal\ntry: os.kill(PARENT, 0)\nexcept OSError: pass\nelse: assert 0",
    "signals_to_a_thread": "assert call(TGKILL, PARENT, PARENT, 0)[0] == -1",
    "the_pace_of_the_parent": "try: os.setpriority(os.PRIO_PROCESS, PARENT, 19)\nexcept OSError: pass\nelse: assert 0",
    "the_pace_of_all": "try: os.setpriority(os.PRIO_USER, 0, 19)\nexcept OSError: pass",
    "the_processors_of_the_parent": "try: os.sched_setaffinity(PARENT, {0})\nexcept OSError: pass\nelse: assert 0",
    "the_limits_of_the_parent": "import resource\ntry: resource.prlimit(PARENT, resource.RLIMIT_NOFILE, (3, 3))\nexcept OSError: pass\nelse: assert 0",
    "input_for_the_terminal": "import fcntl\ntry: fcntl.ioctl(1, 0x5412, b'x')\nexcept OSError as e: assert e.errno == 1\nelse: assert 0",
    "signals_by_a_descriptor": "import fcntl\ntry: fcntl.fcntl(os.pipe()[0], 8, PARENT)\nexcept OSError as e: assert e.errno == 1\nelse: assert 0",
    "a_lease": "import fcntl\ntry: fcntl.fcntl(os.open('data.json', 0), 1024, 0)\nexcept OSError as e: assert e.errno == 1\nelse: assert 0",
    "a_root_of_its_own": "try: os.chroot(os.environ['TMPDIR'])\nexcept OSError as e: assert e.errno == 1\nelse: assert 0",
    "a_pair_of_datagrams": "import socket\ntry: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\nexcept OSError as e: assert e.errno == 1\nelse: assert 0",
    "raw_pairs": "import socket\ntry: socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)\nexcept OSError as e: assert e.errno == 1\nelse: assert 0",
    "datagrams_that_do_not_wait": "import socket\ntry: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)\nexcept OSError as e: assert e.errno == 1\nelse: assert 0",
    "a_socket": "import socket\ntry: socket.socket(socket.AF_UNIX)\nexcept OSError as e: assert e.errno == 1\nelse: assert 0",
}


@pytest.mark.parametrize("name", OTHER_CALLS)
def test_a_call_is_refused_by_what_it_asks_for(place: Place, name: str) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("another machine")
    looked_at = filters.numbers(filters._LOOKED_AT, "x86_64")
    code = OTHER_CALLS[name].replace("TGKILL", str(looked_at["tgkill"])).replace("CLONE", str(looked_at["clone"]))
    code = code.replace("PARENT", str(os.getpid())).replace("MODE", repr(place.mode))
    priority = os.getpriority(os.PRIO_PROCESS, 0)
    answer = place.run(SYSTEM_CALL + code)
    assert answer.ending == {"outcome": "done"}, answer
    assert os.getpriority(os.PRIO_PROCESS, 0) == priority


def test_nothing_is_sent_to_a_program_of_the_system(place: Place) -> None:
    # Short, for addresses may have a hundred characters.
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as somebody:
        address = f"{folder}/socket"
        somebody.bind(address)
        somebody.setblocking(False)
        code = (
            f"import socket\na, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); a.sendto(b'x', {address!r})"
        )
        place.run(code)
        place.run(code.replace("SOCK_DGRAM", "SOCK_STREAM"))
        with pytest.raises(BlockingIOError):
            somebody.recv(1)


def test_nothing_stays_in_shared_memory_or_the_kernel(place: Place) -> None:
    before = set(Path("/dev/shm").iterdir()), Path("/proc/sysvipc/shm").read_text()
    place.run("open('/dev/shm/dynalint-left', 'w').write('x')")
    place.run(SYSTEM_CALL + "libc.shmget(4711, 4096, 0o1666)")
    assert (set(Path("/dev/shm").iterdir()), Path("/proc/sysvipc/shm").read_text()) == before


def test_a_compiler_works(place: Place) -> None:
    """What Inductor does for the processor: it has the compiler of the system make a library, and loads that."""
    code = """
import ctypes, subprocess
folder = os.environ["TMPDIR"]
open(folder + "/a.cpp", "w").write('#include <cmath>\\nextern "C" double f(double x) { return std::sqrt(x); }')
subprocess.run(["g++", "-shared", "-fPIC", "-O1", "-o", folder + "/a.so", folder + "/a.cpp"], check=True)
f = ctypes.CDLL(folder + "/a.so").f
f.restype, f.argtypes = ctypes.c_double, [ctypes.c_double]
reply.part("root", f(9.0))
"""
    assert place.run(code).parts == {"root": 3.0}


@pytest.mark.long
def test_inductor_works(place: Place) -> None:
    code = """
import torch
torch._inductor.config.cpp_cache_precompile_headers = False
compiled = torch.compile(lambda x: torch.relu(x + 1).sin())
x = torch.rand(70, 30)
reply.part("same", torch.allclose(compiled(x), torch.relu(x + 1).sin()))
"""
    assert place.run(code).parts == {"same": True}


class TestHome:
    """A project that is the home folder opens what is Python's in it, and nothing else."""

    @pytest.fixture
    def script(self, place: Place) -> Iterator[Callable[[str], Answer]]:
        (place.home / "package").mkdir()
        (place.home / "package" / "__init__.py").write_text("value = 1\n")
        (place.home / "leads.py").symlink_to(place.home / ".ssh" / "key")
        yield lambda code: place.run(code, folders=(str(place.home), "/"))
        (place.home / "leads.py").unlink()
        shutil.rmtree(place.home / "package")

    def test_scripts_and_packages_are_open(self, script: Callable[[str], Answer]) -> None:
        code = """
from dynalint.confirm.worker.source import loading
loading.prepare([home], {})
import package, script
assert "a script" in open(home + "/script.py").read()
"""
        assert script(code).ending == {"outcome": "done"}

    @pytest.mark.parametrize("file", [".ssh/key", "notes.txt", "leads.py", "precious"])
    def test_all_else_is_shut(self, script: Callable[[str], Answer], file: str) -> None:
        answer = script(f"reply.part('got', open(home + '/{file}').read())")
        assert answer.ending["outcome"] == "failed"
        assert SECRET not in str(answer)
