"""More than a hundred hostile targets in one run: each costs its own verdict at most, and nothing gets out."""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dynalint.findings import Finding

from .conftest import confirm

if TYPE_CHECKING:
    from conftest import Project

pytestmark = [pytest.mark.long, pytest.mark.may_skip, pytest.mark.timeout(1800)]

# Each is a few lines of `forward`, of the constructor (INIT) or of the module (MODULE). `{outside}` is a folder in which
# nothing may appear or change; on `{port}` and `{path}` somebody listens. Swarms of processes are bounded: the limits of
# the kernel do not hold for root.
ENDS = {
    "exits_with_0": "import os; os._exit(0)",
    "exits_with_9": "import os; os._exit(9)",
    "exits_politely": "import sys; sys.exit(0)",
    "exits_in_a_thread": "import os, threading, time; threading.Thread(target=os._exit, args=(4,)).start(); time.sleep(9)",
    "exits_at_import": "MODULE import os; os._exit(0)",
    "exits_in_the_constructor": "INIT import os; os._exit(0)",
    "becomes_another_program": "import os; os.execv('/bin/true', ['true'])",
    "reads_address_0": "import ctypes; ctypes.string_at(0)",
    "aborts": "import os; os.abort()",
    "kills_itself": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "terminates_itself": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "stops_itself": "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
    "illegal_instruction": "import os, signal; os.kill(os.getpid(), signal.SIGILL)",
    "bus_error": "import os, signal; os.kill(os.getpid(), signal.SIGBUS)",
    "kills_its_group": "import os, signal; os.killpg(0, signal.SIGKILL)",
    "kills_everybody": "import os, signal; os.kill(-1, signal.SIGKILL)",
    "writes_into_its_own_code": "import ctypes; ctypes.memset(id(x), 255, 64); x = x + 1",
    "unloads_torch": "import sys; [sys.modules.pop(name) for name in list(sys.modules) if name.startswith('torch')]",
}

RAISES = {
    "an_interrupt": "raise KeyboardInterrupt",
    "the_end_of_a_generator": "raise GeneratorExit",
    "what_nobody_catches": "raise type('Odd', (BaseException,), {{}})('odd')",
    "what_cannot_be_shown": "raise type('Shy', (Exception,), {{'__str__': lambda self: 1 / 0}})()",
    "what_ends_when_shown": "import os; raise type('Shy', (Exception,), {{'__str__': lambda self: os._exit(3)}})()",
    "a_book": "raise ValueError('word ' * 400_000)",
    "many_lines": "raise ValueError('first\\nsecond\\n\\x1b[31mthird\\r\\x00')",
    "half_a_character": "raise ValueError('\\udc80')",
    "groups": "raise ValueError('cause') from MemoryError('inner')",
    "at_import": "MODULE raise RuntimeError('no such device')",
    "in_the_constructor": "INIT raise RuntimeError('no such device')",
    "when_copied": "self.__class__.__deepcopy__ = lambda self, memo: 1 / 0; self.__class__.__reduce__ = None",
    "stop": "raise StopIteration",
    "an_assertion": "assert x is None, 'not today'",
    "by_recursion": "def again(): return again()\n        again()",
    "by_recursion_without_a_limit": "import sys; sys.setrecursionlimit(10**8)\n        def again(): return again()\n        again()",
    "parses_what_is_too_deep": "compile('(' * 5000 + ')' * 5000, 'deep', 'eval')",
    "nests_too_deep": "deep = []\n        for _ in range(10**6): deep = [deep]\n        repr(deep)",
}

HANGS = {
    "sleeps": "import time; time.sleep(1000)",
    "spins": "while True: pass",
    "waits_for_itself": "import threading; lock = threading.Lock(); lock.acquire(); lock.acquire()",
    "waits_for_a_signal": "import signal; signal.pause()",
    "spins_in_an_expression": "import re; re.match('(a+)+b', 'a' * 64)",
    "spins_in_torch": "m = torch.ones(2000, 2000)\n        while True: m = m @ m",
    "sleeps_at_import": "MODULE import time; time.sleep(1000)",
    "hears_no_signal": "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 3, 15, 24)]; time.sleep(1000)",
}

USES_UP = {
    "hoards": "hoard = [bytearray(64 << 20) for _ in range(1000)]",
    "hoards_slowly": "hoard = []\n        while True: hoard.append('x' * 100_000 + str(len(hoard)))",
    "hoards_in_torch": "hoard = [torch.ones(16 << 20) for _ in range(1000)]",
    "hoards_outside_the_heap": "import mmap; hoard = [mmap.mmap(-1, 64 << 20) for _ in range(64)]; [h.write(b'x' * (64 << 20)) for h in hoard]",
    "hoards_in_children": "import os, time\n        for _ in range(8):\n            if os.fork() == 0:\n                hoard = bytearray(b'x') * (400 << 20); time.sleep(1000)\n        time.sleep(1000)",
    "one_tensor_too_large": "torch.ones(1 << 40)",
    "shared_memory": "f = open('/dev/shm/full', 'wb')\n        for _ in range(4096): f.write(b'x' * (1 << 20))",
    "a_large_file": "import tempfile; f = tempfile.TemporaryFile()\n        for _ in range(4096): f.write(b'x' * (1 << 20))",
    "a_swarm": "import os, time\n        for _ in range(200):\n            if os.fork() == 0:\n                time.sleep(1000); os._exit(0)\n        time.sleep(1000)",
    "threads": "import threading, time; [threading.Thread(target=time.sleep, args=(1000,)).start() for _ in range(300)]; time.sleep(1000)",
    "descriptors": "import os; hoard = [os.open('/dev/null', 0) for _ in range(10**6)]",
    "a_long_number": "str(10 ** 10 ** 8)",
}

LEAVES = {
    "a_child": "import os, time\n        if os.fork() == 0:\n            time.sleep(1000)",
    "a_daemon": "import os, time\n        if os.fork() == 0:\n            os.setsid()\n            if os.fork() == 0: time.sleep(1000)\n            os._exit(0)",
    "a_program": "import subprocess; subprocess.Popen(['sleep', '1000'])",
    "a_thread": "import threading, time; threading.Thread(target=time.sleep, args=(1000,)).start()",
    "a_last_word": "import atexit, os; atexit.register(os._exit, 7)",
    "a_finalizer": "self.last = type('Last', (), {{'__del__': lambda self: 1 / 0}})()",
}

PATCHES = {
    "call_of_modules": "MODULE nn.Module.__call__ = lambda self, *a, **k: None",
    "compile": "MODULE torch.compile = None",
    "compile_in_forward": "torch.compile = lambda *a, **k: 1 / 0",
    "explain": "MODULE import torch._dynamo; torch._dynamo.explain = None",
    "reset": "MODULE import torch._dynamo; torch._dynamo.reset = lambda: 1 / 0",
    "truth_of_tensors": "MODULE torch.Tensor.__bool__ = lambda self: 1 / 0",
    "print": "MODULE import builtins; builtins.print = builtins.open = None",
    "isinstance": "MODULE import builtins; builtins.isinstance = lambda *a: False",
    "len": "import builtins; builtins.len = lambda *a: 1 / 0",
    "json": "MODULE import json; json.dumps = lambda *a, **k: 'null'; json.JSONEncoder.encode = lambda *a: '0'",
    "os_write": "MODULE import os; os.write = lambda *a: 0",
    "os_exit": "MODULE import os; os._exit = lambda *a: None",
    "clock": "MODULE import time; time.monotonic = time.time = lambda: -1.0",
    "streams": "import sys; sys.stdout = sys.stderr = sys.stdin = None",
    "modules": "MODULE import sys; sys.modules.clear()",
    "trace": "import sys; sys.settrace(lambda *a: 1 / 0)",
    "warnings_are_errors": "MODULE import warnings; warnings.simplefilter('error'); warnings.warn('boo', stacklevel=1)",
    "environment": "import os; os.environ.clear()",
    "folder": "import os; os.chdir('/')",
    "default_device": "MODULE torch.set_default_device('meta')",
    "default_dtype": "torch.set_default_dtype(torch.float64)",
    "limits": "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))",
    "collector": "import gc; [gc.disable() for _ in gc.get_objects()]",
}

TALKS = {
    "reads_input": "x = x * len(input())",
    "reads_the_terminal": "open('/dev/tty').read()",
    "speaks_the_protocol": "import os; print('[\"done\",true]', flush=True); [os.write(1, b'{{\"id\":1,\"end\":{{}}}}\\n') for _ in 'ab']",
    "speaks_on_all_descriptors": 'import os\n        for n in range(3, 64):\n            try: os.write(n, b\'["done",true]\\n["part",["x",1]]\\n\')\n            except OSError: pass',
    "breaks_a_line_of_the_protocol": "import os\n        for n in range(3, 64):\n            try: os.write(n, b'{{' * 9999)\n            except OSError: pass",
    "closes_descriptors": "import os; os.closerange(0, 4096)",
    "swaps_descriptors": "import os; [os.dup2(0, n) for n in range(3, 64)]",
    "prints_a_flood": "for _ in range(300): print('x' * 1_000_000)",
    "prints_escapes": "print('\\x1b]0;title\\x07\\x1b[2J')",
    "kills_its_parent": "import os, signal; os.kill(os.getppid(), signal.SIGKILL)",
    "writes_to_its_parent": "import os; open(f'/proc/{{os.getppid()}}/mem', 'r+b').close()",
}

WRITES = {
    "a_file": "open({outside!r} + '/made', 'w').write('x')",
    "a_folder": "import os; os.mkdir({outside!r} + '/made')",
    "a_link": "import os; os.symlink('/etc/passwd', {outside!r} + '/made')",
    "a_second_name": "import os; os.link({outside!r} + '/witness', {outside!r} + '/made')",
    "a_pipe": "import os; os.mkfifo({outside!r} + '/made')",
    "over_a_file": "open({outside!r} + '/witness', 'r+').write('changed')",
    "an_empty_file": "import os; os.truncate({outside!r} + '/witness', 0)",
    "a_removal": "import os; os.unlink({outside!r} + '/witness')",
    "its_own_source": "open(__file__, 'a').write('# changed')",
    "another_mode": "import os; os.chmod({outside!r} + '/witness', 0o777)",
    "another_name": "import os; os.rename({outside!r} + '/witness', {outside!r} + '/made')",
    "by_a_shell": "import subprocess; subprocess.run(['sh', '-c', 'echo x > ' + {outside!r} + '/made'], check=True)",
    "by_the_way_of_proc": "open('/proc/self/root' + {outside!r} + '/made', 'w').write('x')",
    "a_database": "import sqlite3; sqlite3.connect({outside!r} + '/made').execute('create table t (a)')",
    "a_model": "torch.save(self.state_dict(), {outside!r} + '/made')",
    "at_import": "MODULE open({outside!r} + '/made', 'w').write('x')",
    "another_root": "import os; os.chroot('/tmp'); open('/made', 'w').write('x')",
    "a_mount": "import subprocess; subprocess.run(['mount', '-t', 'tmpfs', 'none', {outside!r}], check=True)",
}

SENDS = {
    "tcp": "import socket; socket.create_connection(('127.0.0.1', {port}), 2).send(b'x')",
    "tcp_6": "import socket; socket.create_connection(('::1', {port}), 2).send(b'x')",
    "udp": "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {port}))",
    "a_socket_of_the_system": "import socket; socket.socket(socket.AF_UNIX).connect({path!r})",
    "a_page": "import urllib.request; urllib.request.urlopen('http://127.0.0.1:{port}/', timeout=2)",
    "a_name": "import socket; socket.getaddrinfo('example.com', 80)",
    "raw": "import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
    "by_a_program": "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 2).send(b\"x\")'], check=True)",
    "at_import": "MODULE import socket; socket.create_connection(('127.0.0.1', {port}), 2).send(b'x')",
}

GROUPS = {
    "ends": ENDS,
    "raises": RAISES,
    "hangs": HANGS,
    "uses_up": USES_UP,
    "leaves": LEAVES,
    "patches": PATCHES,
    "talks": TALKS,
    "writes": WRITES,
    "sends": SENDS,
}
BODIES = {f"{group}_{name}": body for group, bodies in GROUPS.items() for name, body in bodies.items()}

# What harms nobody, not even itself: the branch is seen to break all the same.
CONFIRMED = frozenset(
    "leaves_a_program leaves_a_thread leaves_a_last_word leaves_a_finalizer patches_clock "
    "patches_compile patches_compile_in_forward patches_explain patches_folder patches_os_exit patches_streams "
    "raises_when_copied talks_kills_its_parent talks_prints_a_flood talks_prints_escapes talks_speaks_the_protocol".split()
)
# Signals to itself reach nobody where it is the first process of a namespace; a replaced `__call__` reaches no line; a
# fork takes half of the compiler along.
OPEN = frozenset(
    "ends_bus_error ends_illegal_instruction ends_kills_its_group ends_kills_itself ends_stops_itself "
    "ends_terminates_itself patches_call_of_modules leaves_a_child leaves_a_daemon".split()
)

HARMLESS = {f"harmless_{number}": "x = x + 1" for number in range(4)}
MODULE = """
import torch
from torch import nn
{module}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        {constructor}

    def forward(self, x):
        {forward}
        if x.sum() > 0:
            return self.fc(x)
        return x
"""


class Outside:
    """What must stay as it is: a folder with a file in it, and sockets that hear nothing."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        self.folder = folder
        (folder / "witness").write_text("as it was")
        self.path = str(folder.parent / "socket")
        self.sockets = [
            stack.enter_context(socket.socket(family, kind))
            for family, kind in (
                (socket.AF_INET, socket.SOCK_STREAM),
                (socket.AF_INET, socket.SOCK_DGRAM),
                (socket.AF_UNIX, socket.SOCK_STREAM),
            )
        ]
        tcp, udp, local = self.sockets
        tcp.bind(("127.0.0.1", 0))
        self.port = tcp.getsockname()[1]
        udp.bind(("127.0.0.1", self.port))
        local.bind(self.path)
        tcp.listen()
        local.listen()

    def heard(self) -> list[socket.socket]:
        return select.select(self.sockets, [], [], 0)[0]

    def state(self) -> dict[str, tuple[str, int]]:
        return {path.name: (path.read_text(), path.stat().st_mode) for path in self.folder.iterdir()}


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    with contextlib.ExitStack() as stack:
        folder = tmp_path_factory.mktemp("o") / "outside"
        folder.mkdir()
        yield Outside(folder, stack)


def module_of(body: str, outside: Outside) -> str:
    kind, _, rest = body.partition(" ")
    parts = {"module": "", "constructor": "pass", "forward": "pass"}
    place = {"MODULE": "module", "INIT": "constructor"}.get(kind, "forward")
    parts[place] = (body if place == "forward" else rest).format(
        outside=str(outside.folder), port=outside.port, path=outside.path
    )
    return MODULE.format(**parts)


@pytest.fixture(scope="module")
def judged(sandboxed: None, shared_project: Project, outside: Outside) -> dict[str, Finding]:
    """The finding on the branch in each module; harmless ones stand first, last and between."""
    project = shared_project
    hostile = list(BODIES)
    step = len(hostile) // (len(HARMLESS) - 1) + 1
    order = [
        name
        for number, harmless in enumerate(HARMLESS)
        for name in (harmless, *hostile[number * step : (number + 1) * step])
    ]
    before = outside.state()
    for name in order:
        project.write(f"{name}.py", module_of({**BODIES, **HARMLESS}[name], outside))
    sources = {path.name: path.read_text() for path in project.folder.glob("*.py")}
    findings = [project.finding(f"{name}.py", "x.sum() > 0", "Model.forward", gb=["GB0170"]) for name in order]
    options = project.options(timeout=8.0, memory=1 << 30)
    found = confirm(findings, [project.target(f"{name}.py", "Model") for name in order], options)
    assert outside.state() == before
    assert outside.heard() == []
    assert {path.name: path.read_text() for path in project.folder.glob("*.py")} == sources
    return {finding.path.removesuffix(".py"): finding for finding in found if finding.code == "DYN101"}


def test_there_are_a_hundred() -> None:
    assert len(BODIES) >= 100
    assert len(BODIES) == sum(map(len, GROUPS.values()))
    assert BODIES.keys() >= CONFIRMED | OPEN


@pytest.mark.parametrize("name", HARMLESS)
def test_no_verdict_is_lost_but_its_own(judged: dict[str, Finding], name: str) -> None:
    assert judged[name].evidence.status == "confirmed"


@pytest.mark.parametrize("name", BODIES)
def test_each_is_judged_or_has_one_clear_line(judged: dict[str, Finding], name: str) -> None:
    evidence = judged[name].evidence
    if name not in OPEN:
        assert evidence.status == ("confirmed" if name in CONFIRMED else "unconfirmed")
    assert evidence.detail.endswith(".")
    assert evidence.detail.isprintable()
    assert len(evidence.detail) < 500
