"""Code that finds the token of its process and says whatever it likes, and projects that aim at what is outside."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dynalint.confirm import results
from dynalint.confirm.cache import FileHashes
from dynalint.confirm.located import Located
from dynalint.confirm.options import Target
from dynalint.confirm.shapes import fits
from dynalint.confirm.sources import UserSources
from dynalint.confirm.untrusted import MOST_SENTENCE, sanitised, sentence
from dynalint.confirm.verdicts import Confirmation, with_verdicts
from dynalint.confirm.worker.process.wire import MOST_VALUES, parse, unpack
from dynalint.findings import Finding

if TYPE_CHECKING:
    from tests.attacks.conftest import Victim

pytestmark = [pytest.mark.dynamo, pytest.mark.may_skip]

SECRET = "hunter2-do-not-tell"

MODEL = """\
import torch
from torch import nn
{module}


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        {forward}
        if x.sum() > 0:
            return x + 1
        return x
"""
# Finds the way out and says what it likes.
SAYS = """
import gc, json, os, sys
def fail(kind, text):
    raise kind(text)
def reply():
    return next(one for one in gc.get_objects() if type(one).__name__ == "Reply" and one.descriptor >= 0)
def raw(data):
    r = reply()
    line = b"\\n" + r._prefix + data + b"\\n"
    while line:
        line = line[os.write(r.descriptor, line):]
def say(kind, value):
    raw(json.dumps([kind, value]).encode())
def part(name, value):
    say("part", [name, value])
RUN = {"graphs": [1], "operations": [1], "breaks": [], "compiles": [], "limit_hit": [], "error": None, "traced": {}}
EAGER = {"lines": {}, "error": None}
FRAME = {"file": OUTSIDE, "line": 1, "function": "f", "column": 0, "end_column": 1}
def done(**parts):
    for name, value in {"inputs": "all", "eager": EAGER, "default": RUN, **parts}.items():
        part(name, value)
    say("done", True)
    os._exit(0)
"""
BREAK = "{'gb': 'GB0001', 'gb_type': 'x', 'explanation': 'e', 'hints': [], 'reason': 'r', 'stack': [FRAME], 'call': 0}"
COMPILE = "{'function': 'f', 'file': OUTSIDE, 'line': 1, 'call': 2, 'operations': 1, 'guarded': True, 'recompile': 'g'}"
FORGERIES = {
    "refused": "say('refused', 'no'); done()",
    "a_second_sandbox": "say('sandbox', {'layers': 5, 'escape': 'everything'}); done()",
    "ended": "[say('ended', [0, True]) for _ in range(99)]; done()",
    "ended_wrongly": "say('ended', ['x']); say('ended', 5); say('ended', [10**9, True]); done()",
    "no_kind": "raw(b'5'); raw(b'[[],[]]'); raw(b'{}'); raw(b'\"x\"'); done()",
    "parts_that_are_none": "say('part', 5); say('part', [5]); say('part', [[], []]); say('stage', {}); done()",
    "deep": "raw(b'[\"part\",[\"default\",' + b'[' * 100000 + b']' * 100000 + b']]'); done()",
    "long_numbers": "raw(b'[\"part\",[\"calls\",' + b'9' * 4000000 + b']]'); done()",
    "no_numbers": 'raw(b\'["part",["calls",{"same":NaN,"batch":1e999}]]\'); done()',
    "files": "done(files=['/dev/zero', OUTSIDE, '/proc/kmsg', '\\0', 'x' * 9999])",
    "a_place_outside": f"done(default=dict(RUN, breaks=[{BREAK}]))",
    "a_compile_outside": f"done(default=dict(RUN, compiles=[{COMPILE}]), calls={{'same': 3, 'batch': 0, 'all': 3}})",
    "a_difference_outside": "done(compare={'same': False, 'stable': True, 'gradients': True, 'what': 'w', 'detail': 'd', 'place': FRAME})",
    "whole_coverage_of_all": "done(coverage={VICTIM: [{'operations': 5, 'traced': 5}] * 2}, files=[VICTIM], eager={'lines': {VICTIM: list(range(1, 99))}, 'error': None})",
    "an_unknown_phase": "done(problem={'phase': 'x', 'failure': {'type': 'T', 'message': 'm', 'call': 0}})",
    "a_problem_that_is_none": "done(problem=[1])",
    "escapes": "fail(ValueError, '\\x1b[2J\\x1b]0;title\\x07\\u202e\\r' + 'x' * 100000)",
    "a_name_like_a_book": "fail(type('E' * 100000, (Exception,), {}), 'm')",
    "a_flood": "[part('p%d' % n, 'x' * (1 << 20)) for n in range(100)]; done()",
    "one_long_line": "raw(b'[\"part\",[\"p\",\"' + b'x' * (64 << 20) + b'\"]]'); done()",
    "many_values": "raw(b'[\"part\",[\"p\",[' + b'{},' * 2000000 + b'{}]]]'); done()",
    "no_lines": "r = reply(); [os.write(r.descriptor, b'x' * 65536) for _ in range(2000)]; done()",
}


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, Any]], str, int, int]:
    """The report on all forgeries and a victim in one run, by file, what was said, the exit code and the peak memory."""
    from tests.attacks.conftest import Victim

    victim = Victim(tmp_path_factory.mktemp("f"))
    outside = victim.write("home/.ssh/outside.py", f"# {SECRET}\n")
    place = victim.repository / "victim.py"
    victim.write("repository/victim.py", MODEL.format(module="", forward="open('/not/there')"))
    victim.write("repository/other.py", MODEL.format(module="", forward="x = x + 1"))
    for name, body in FORGERIES.items():
        # As text: findings in its functions would have these run, too.
        says = f"exec({SAYS.replace('OUTSIDE', repr(str(outside)))!r})"
        forward = body.replace("OUTSIDE", repr(str(outside))).replace("VICTIM", repr(str(place)))
        victim.write(f"repository/forged_{name}.py", MODEL.format(module=says, forward=forward))
    victim.write("repository/dynalint.toml", "timeout = 30\njobs = 1\n")
    # Measured by itself: what the workers take does not count.
    program = victim.write(
        "measured.py",
        # Not `ru_maxrss`, which counts what the process that this one was forked from had in memory.
        "import sys\nfrom dynalint.cli import run\ncode = run(sys.argv[1:])\n"
        "peak = next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"
        "print(peak, file=sys.stderr)\nsys.stdout.flush()\nsys.exit(code)\n",
    )
    import subprocess

    done = subprocess.run(
        [sys.executable, str(program), "check", "--output-format", "json", "--show-refuted"],
        cwd=victim.repository,
        env=victim.environment({}),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    victim.assert_unharmed()
    assert SECRET not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    *said, peak = done.stderr.splitlines()
    return json.loads(done.stdout), "\n".join(said), done.returncode, int(peak) << 10


def findings_of(report: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [one for one in report if one["path"] == name]


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_answer_costs_its_own_verdict_at_most(checked: Any, name: str) -> None:
    report, said, code, _ = checked
    assert code == 1, said
    found = [one for one in findings_of(report, f"forged_{name}.py") if one["code"] == "DYN101"]
    assert len(found) == 1
    detail = found[0]["evidence"]["detail"]
    assert detail.isprintable()
    assert len(detail) <= MOST_SENTENCE


def test_other_verdicts_are_as_they_would_be(checked: Any) -> None:
    report, _, _, _ = checked
    (other,) = findings_of(report, "other.py")
    assert other["evidence"]["status"] == "confirmed"
    found = [one for one in findings_of(report, "victim.py") if one["code"] == "DYN101"]
    assert [one["evidence"]["status"] for one in found] == ["unconfirmed"]
    names = {"victim.py", "other.py", *(f"forged_{name}.py" for name in FORGERIES)}
    assert {one["path"] for one in report} <= names


def test_the_memory_of_the_parent_stays_small(checked: Any) -> None:
    print(f"peak: {checked[3] >> 20} MiB")
    assert checked[3] < 500 << 20


# ---- one message at a time ----


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 100_000 + b"]" * 100_000,
        b"[" * 60 + b"]" * 60,
        b'{"a":' * 60 + b"1" + b"}" * 60,
        b"NaN",
        b"Infinity",
        b"-Infinity",
        b"1e999",
        b"9" * 25,
        b"9" * 1_000_000,
        b"[" + b"1," * MOST_VALUES + b"1]",
        b'"' + b"x" * (9 << 20) + b'"',
        b'"\xff"',
        b"",
        b"{",
    ],
    ids=range(14),
)
def test_a_line_that_would_cost_too_much_is_none(line: bytes) -> None:
    with pytest.raises(ValueError):
        parse(line)
    assert unpack(b'token ["part",["a",' + line + b"]]", "token") is None


RECORD: dict[str, Any] = {
    "outcome": "done",
    "ending": {"outcome": "done"},
    "stage": "running",
    "parts": {
        "inputs": "Model(), x = float32[2, 2]",
        "calls": {"same": 3, "batch": 1, "all": 4},
        "eager": {"lines": {"/p/m.py": [1, 2]}, "error": None},
        "default": {
            "graphs": [1],
            "operations": [3],
            "breaks": [
                {
                    "gb": "GB0170",
                    "gb_type": "t",
                    "explanation": "e",
                    "hints": ["h"],
                    "reason": "r",
                    "stack": [{"file": "/p/m.py", "line": 1, "function": "f", "column": 0, "end_column": 4}],
                    "call": 0,
                }
            ],
            "compiles": [
                {
                    "function": "f",
                    "file": "/p/m.py",
                    "line": 1,
                    "call": 2,
                    "operations": 1,
                    "guarded": True,
                    "recompile": "g",
                }
            ],
            "limit_hit": [],
            "error": None,
            "traced": {},
            "explained": True,
        },
        "coverage": {"/p/m.py": [{"operations": 3, "traced": 3}]},
        "compare": {"same": True, "stable": True, "gradients": True},
        "latent": None,
        "files": ["/p/m.py"],
    },
}
SPOTS = {"/p/m.py": [[1, 0, 1, 4]]}
WRONG = [None, True, 5, -1, 1e300, "x", "\x00", [], [5], [[]], ["x"], {}, {"a": 1}, {"\x00": []}]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the way to each value within a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(deeper for name, item in inner for deeper in places(item, (*path, name)))]


def with_value(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = with_value(value[path[0]], path[1:], new)
    return copy


def judged(found: results.TargetResult, folder: Path) -> None:
    file = folder / "m.py"
    file.write_text("a = 1\n")
    values = {"code": "DYN101", "name": "n", "category": "graph-break", "severity": "error", "message": "m"}
    finding = Finding(path="m.py", line=1, column=1, end_line=1, end_column=5, function="f", region=("M",), **values)  # type: ignore[arg-type]
    placed = [Located(finding, "/p/m.py", (1, 0, 1, 4))]
    with_verdicts(Confirmation(placed, [found], UserSources(), lambda path: path.startswith("/p/")))


def test_every_part_may_be_anything(tmp_path: Path) -> None:
    target = Target(Path("/p/m.py"), "m", "M")
    results.result_of(target, "2.13.0", RECORD, SPOTS)
    tried = 0
    for path in places(RECORD["parts"], ("parts",)):
        for wrong in WRONG:
            try:
                found = results.result_of(target, "2.13.0", with_value(RECORD, path, wrong), SPOTS)
            except ValueError:
                continue
            judged(found, tmp_path)
            tried += 1
    assert tried > 50


VERIFIED: dict[str, Any] = {
    "text": "t",
    "trying": None,
    "ran": {"inputs": 1, "returned": 1, "error": "", "rounded": False, "stride": 1, "passed": []},
    "seen": [[0, True]],
    "difference": None,
    "compiled": {
        "breaks": [{"frames": [{"file": "f", "line": 1}], "gb": None, "effect": "split", "reason": "r"}],
        "breaks_before": [],
        "failure": None,
        "recompiles": 0,
        "recompiled_before": None,
        "same_causes": False,
        "reason": "",
        "differs": None,
        "differed_before": None,
    },
}


def test_an_answer_on_a_fix_is_whole_or_none() -> None:
    assert fits("operations.verifying:verify", VERIFIED, done=True)
    for name in ("ran", "compiled"):
        assert not fits("operations.verifying:verify", {**VERIFIED, name: None}, done=True)
        assert not fits(
            "operations.verifying:verify", {key: value for key, value in VERIFIED.items() if key != name}, done=True
        )
    for path in places(VERIFIED):
        for wrong in (5.5, {"a": 1}, [[[]]]):
            assert not path or not fits("operations.verifying:verify", with_value(VERIFIED, path, wrong), done=True)


def test_what_is_said_is_one_line_that_somebody_reads() -> None:
    assert sentence("a\x1b[31m\nb\u202ec\x00 " + "x" * 10_000).isprintable()
    assert len(sentence("x" * 1_000_000)) == MOST_SENTENCE
    assert sanitised({"a": ["\x1b", {"b": "\u202e\n"}], "file": "\x1b"}) == {
        "a": ["\ufffd", {"b": "\ufffd\n"}],
        "file": "\x1b",
    }
    assert sanitised(["é 漢 \u00a0"]) == ["é 漢 \u00a0"]


@pytest.mark.parametrize("path", ["/dev/zero", "\0", "x" * 10_000, "/", "pipe"])
def test_no_file_that_a_worker_names_keeps_the_parent(tmp_path: Path, path: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    path = str(tmp_path / "pipe") if path == "pipe" else path
    assert FileHashes({}).of(path) is None
    assert UserSources().lines(path) == []


# ---- what stands outside of the walls ----

TOUCHES = "import os, pathlib; pathlib.Path({home!r}, 'touched').touch()\n"
SCRIPT = "#!/bin/sh\ntouch {home}/touched\n"


def plant(victim: Victim) -> None:
    """Put everything into the repository that somebody may start or import by mistake."""
    home = str(victim.home)
    for name in ("sitecustomize", "usercustomize", "json", "torch", "platform", "numpy", "encodings", "conftest"):
        victim.write(f"repository/{name}.py", TOUCHES.format(home=home))
    victim.write("repository/evil.pth", TOUCHES.format(home=home))
    for name in ("g++", "gcc", "cc", "ld", "ldconfig", "python", "python3", "lscpu", "git", "nvidia-smi"):
        victim.write(f"repository/{name}", SCRIPT.format(home=home)).chmod(0o755)
    for name in ("libc.so.6", "libgomp.so.1", "libstdc++.so.6", "libm.so.6"):
        victim.write(f"repository/{name}", "no library")
    folder = victim.repository / "torch-9.0.dist-info"
    folder.mkdir()
    os.mkfifo(folder / "METADATA")
    victim.write("repository/model.py", MODEL.format(module="", forward="x = x + 1"))


@pytest.mark.parametrize(
    "command",
    [
        ["check", "model.py"],
        pytest.param(["fix", "--apply", "model.py"], marks=pytest.mark.long),
        pytest.param(["explain", "model.py::Model"], marks=pytest.mark.long),
    ],
)
def test_nothing_of_the_project_runs_outside_the_walls(victim: Victim, command: list[str]) -> None:
    plant(victim)
    environment = {
        "PATH": f".:{os.environ['PATH']}:",
        "LD_LIBRARY_PATH": f":{victim.home}/lib:",
        "PYTHONPATH": str(victim.repository),
        "PYTHONSAFEPATH": "",
    }
    # The command itself is started with none of that: it is the worker that is looked at.
    program = (
        f"import os, sys; os.environ.update({environment!r}); from dynalint.cli import run; sys.exit(run({command!r}))"
    )
    import subprocess

    done = subprocess.run(
        [sys.executable, "-I", "-c", program],
        cwd=victim.repository,
        env=victim.environment({}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    victim.assert_unharmed()
    assert not (victim.home / "touched").exists()


def test_a_key_stands_in_no_report(victim: Victim) -> None:
    key = victim.home / ".ssh" / "id_ed25519"
    for name, forward in {
        "raises": f"raise ValueError(open({str(key)!r}).read())",
        "compiles": f"exec(open({str(key)!r}).read())",
        "warns": f"import warnings; warnings.warn(open({str(key)!r}).read())",
    }.items():
        victim.write(f"repository/{name}.py", MODEL.format(module="", forward=forward))
    victim.write(
        "repository/imports.py",
        MODEL.format(module=f"raise ValueError(open({str(key)!r}).read())", forward="pass"),
    )
    for form in ("full", "json"):
        done = victim.in_process("check", "--output-format", form)
        assert SECRET not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        assert "files that the sandbox blocks" in done.stdout
