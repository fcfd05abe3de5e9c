"""Code that does its worst: one clear line for each, and nothing lost for the others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dynalint.findings import Finding

from .conftest import confirm

if TYPE_CHECKING:
    from conftest import Project

# Each body runs in `forward`; {outside} is a file that must not appear.
FORWARDS = {
    "hangs": "import time; time.sleep(1000)",
    "exits": "import os; os._exit(3)",
    "sys_exits": "import sys; sys.exit(5)",
    "eats_memory": "hoard = [bytearray(64 << 20) for _ in range(1000)]",
    "eats_memory_in_torch": "hoard = [torch.ones(16 << 20) for _ in range(1000)]",
    "writes_outside": "open({outside!r}, 'w').write('x')",
    "deletes_outside": "import os; os.unlink(__file__)",
    "opens_tcp": "import socket; socket.create_connection(('127.0.0.1', 22), 2)",
    "sends_udp": "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))",
    "resolves_names": "import urllib.request; urllib.request.urlopen('http://example.com', timeout=2)",
    "forges": "import os; print('[\"done\",true]', flush=True); [os.write(1, b'{{\"id\":1,\"end\":{{}}}}\\n') for _ in 'ab']",
    "closes_descriptors": "import os; os.closerange(0, 4096)",
    "reads_stdin": "x = x * len(input())",
    "kills_parent": "import os, signal; os.kill(os.getppid(), signal.SIGKILL)",
    "recurses": "def again(): return again()\n        again()",
    "leaves_a_child": "import os, time\n        if os.fork() == 0:\n            os.setsid()\n            time.sleep(1000)",
    "crashes": "import ctypes; ctypes.string_at(0)",
    "fills_the_disk": "f = open('/dev/shm/full', 'wb')\n        for _ in range(4096): f.write(b'x' * (1 << 20))",
}


# The supervisor counts the libraries that torch reads in too, and with a CUDA build it can be the first to notice.
TOO_MUCH = "the code used more than 1 GiB of memory while looking for inputs for Model."


def module_of(body: str, outside: Path) -> str:
    return f"""
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        {body.format(outside=str(outside))}
        if x.sum() > 0:
            return self.fc(x)
        return x
"""


# The last test looks for processes that are left.
pytestmark = [pytest.mark.dynamo, pytest.mark.may_skip, pytest.mark.usefixtures("no_kept_server")]


@pytest.fixture(scope="module")
def judged(sandboxed: None, shared_project: Project) -> dict[str, Finding]:
    """The finding on the branch in each hostile module, by the name of what it does, and a harmless one between them."""
    project = shared_project
    names = [*FORWARDS, "constructor_raises", "import_exits", "harmless"]
    for name, body in FORWARDS.items():
        project.write(f"{name}.py", module_of(body, project.folder / "outside"))
    project.write("harmless.py", module_of("x = x + 1", project.folder))
    raising = module_of("pass", project.folder).replace("super()", "raise ValueError('no such table'); super()")
    project.write("constructor_raises.py", raising)
    project.write("import_exits.py", "import os\nos._exit(9)\n" + module_of("pass", project.folder))
    findings = [project.finding(f"{name}.py", "x.sum() > 0", "Model.forward", gb=["GB0170"]) for name in names]
    options = project.options(timeout=8.0, memory=1 << 30)
    found = confirm(findings, [project.target(f"{name}.py", "Model") for name in names], options)
    assert not (project.folder / "outside").exists()
    return {finding.path.removesuffix(".py"): finding for finding in found if finding.code == "DYN101"}


@pytest.mark.parametrize(
    ("name", "detail"),
    [
        ("hangs", "the code did not finish within 8 s while looking for inputs for Model."),
        ("exits", "the code exited with status 3 while looking for inputs for Model."),
        ("sys_exits", "Model ran and failed: SystemExit: 5 (sys_exits.py:11);"),
        ("eats_memory", ("Model ran and failed: it needs more memory than the limit (eats_memory.py:11).", TOO_MUCH)),
        (
            "eats_memory_in_torch",
            ("Model ran and failed: it needs more memory than the limit (eats_memory_in_torch.py:11).", TOO_MUCH),
        ),
        (
            "writes_outside",
            "Model ran and failed: it reads or writes files that the sandbox blocks:",
        ),
        (
            "deletes_outside",
            "Model ran and failed: it reads or writes files that the sandbox blocks:",
        ),
        (
            "opens_tcp",
            "Model ran and failed: it needs the network, which the sandbox blocks (PermissionError",
        ),
        (
            "sends_udp",
            "Model ran and failed: it needs the network, which the sandbox blocks (PermissionError",
        ),
        ("resolves_names", "Model ran and failed: it needs the network, which the sandbox blocks (URLError"),
        (
            "closes_descriptors",
            "the code closed file descriptors that it had not opened while looking for inputs for Model.",
        ),
        ("reads_stdin", "Model ran and failed: EOFError: EOF when reading a line (reads_stdin.py:11);"),
        ("recurses", "Model ran and failed: RecursionError: maximum recursion depth exceeded"),
        ("crashes", "the code crashed with SIGSEGV while looking for inputs for Model."),
        ("fills_the_disk", "Model ran and failed: it writes more data than the limit"),
        ("constructor_raises", "Model cannot be built: ValueError: no such table (constructor_raises.py:7);"),
        ("import_exits", "the code exited with status 9 while importing import_exits.py."),
    ],
)
def test_each_has_one_clear_line(judged: dict[str, Finding], name: str, detail: str | tuple[str, ...]) -> None:
    evidence = judged[name].evidence
    assert evidence.status == "unconfirmed"
    assert evidence.detail.startswith(detail)
    assert "\n" not in evidence.detail
    assert len(evidence.detail) < 400


@pytest.mark.parametrize("name", ["harmless", "forges", "leaves_a_child", "kills_parent"])
def test_what_does_no_harm_to_itself_is_confirmed(judged: dict[str, Finding], name: str) -> None:
    # A signal to the parent reaches nobody; protocol lines on standard output are read by nobody.
    assert judged[name].evidence.status == "confirmed"


def test_no_process_is_left(judged: dict[str, Finding]) -> None:
    left = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (
                f"PPid:\t{os.getpid()}\n" in (entry / "status").read_text()
                and "worker" in (entry / "cmdline").read_text()
            ):
                left.append(entry.name)
        except OSError:
            continue
    assert left == []
