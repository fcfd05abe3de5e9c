"""Run the project's own tests on a copy of the project, in the sandbox. Uses only the standard library.

The request: `root` is the folder to copy, except for folders with a name in `left_out`. `folder` is the working folder,
inside `root`, for `command`. `files` contains base64 contents, by path, for files to replace in the copy. `search`
contains the folders in the copy to import from. `watched` contains the first lines of functions, by file. `only`
contains the tests to run, or is None for all tests. `programs` is a folder to look for programs in. `hook` is the
folder to put first in PYTHONPATH.

Parts of the answer: `eventsN` contains the events that the plugin has reported since the previous part (see
`dynalint_suite`). `tests` comes at the end. It contains the `problem` (a clause that explains why nothing ran, or an
empty string), the command's `status`, and the last line of its `output`.
"""

from __future__ import annotations

import base64
import errno
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from ..process.wire import Reply

_TICK = 0.1
_MOST_OUTPUT = 1 << 16
_LONGEST_LINE = 300


def run_tests(request: Mapping[str, Any], reply: Reply) -> None:
    """Handle a request."""
    folder = Path(os.path.realpath(tempfile.mkdtemp()))
    reply.stage("copying the project")
    problem = _copy(request, folder / "project")
    if not problem:
        reply.stage("running the tests")
        problem = _run(request, folder, reply)
    if problem:
        reply.part("tests", {"problem": problem, "status": 0, "output": ""})


def _copy(request: Mapping[str, Any], copy: Path) -> str:
    """Copy the project. Return a clause that explains why that failed, or an empty string."""
    try:
        shutil.copytree(request["root"], copy, symlinks=True, ignore=shutil.ignore_patterns(*request["left_out"]))
    except shutil.Error as error:
        # Some files cannot be copied, such as pipes and unreadable files. Tests do not need them.
        full = os.strerror(errno.ENOSPC)
        if any(full in str(reason) for *_, reason in error.args[0]):
            return "a copy of the project needs more memory than the limit"
    except OSError as error:
        return f"the project cannot be copied ({error.strerror})"
    for path, data in request["files"].items():
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        (copy / path).unlink(missing_ok=True)
        (copy / path).write_bytes(base64.b64decode(data))
    return ""


def _run(request: Mapping[str, Any], folder: Path, reply: Reply) -> str:
    """Run the command and report its result. Return a clause that explains why it cannot run, or an empty string."""
    copy, events = folder / "project", folder / "events"
    events.touch()
    settings = {
        "root": request["root"],
        "copy": str(copy),
        "search": [str(copy / one) for one in request["search"]],
        "watched": request["watched"],
        "only": request["only"],
        "events": str(events),
    }
    (folder / "settings").write_text(json.dumps(settings), encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONHASHSEED", "PYTHONUNBUFFERED")}
    environment = {
        **kept,
        "PATH": os.pathsep.join(filter(None, (request["programs"], os.environ.get("PATH")))),
        "PYTHONPATH": os.pathsep.join([request["hook"], *request["python_path"]]),
        "PYTEST_ADDOPTS": f"-p dynalint_suite {os.environ.get('PYTEST_ADDOPTS', '')}",
        "DYNALINT_SUITE": str(folder / "settings"),
        "PYTHONHASHSEED": "0",
    }
    program = _program(request, copy, environment["PATH"])
    if program is None:
        return "the command was not found"
    with (folder / "output").open("w+b") as output:
        try:
            process = subprocess.Popen(
                [program, *request["command"][1:]],
                cwd=copy / request["folder"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        except OSError as error:
            return f"it cannot be run in the sandbox ({error.strerror})"
        # Send events as they arrive. If a test hangs or kills the process, the parent knows which test began last.
        with events.open("rb") as lines:
            ended = False
            while not ended:
                ended = process.poll() is not None
                found = _events(lines)
                if found:
                    reply.part(f"events{lines.tell()}", found)
                time.sleep(0 if ended else _TICK)
        output.seek(max(0, output.seek(0, os.SEEK_END) - _MOST_OUTPUT))
        last = output.read().decode(errors="replace").strip()
    reply.part("tests", {"problem": "", "status": process.returncode, "output": _last_line(last)})
    return ""


def _program(request: Mapping[str, Any], copy: Path, path: str) -> str | None:
    """Return the program to start. A name is looked up, and a path may lead to a folder that is not in the copy."""
    name: str = request["command"][0]
    if os.sep not in name:
        return shutil.which(name, path=path)
    places = (base / request["folder"] / name for base in (copy, Path(request["root"])))
    return next((str(place) for place in places if place.is_file()), None)


def _last_line(last: str) -> str:
    return last.rpartition("\n")[2].strip()[:_LONGEST_LINE]


def _events(file: BinaryIO) -> list[Any]:
    """Return the events reported since the last call. Malformed lines, written by other code, are skipped."""
    found = []
    for line in file.read().splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found
