"""`dynalint rule`, `--help`, `--version`, and how fast a start is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dynalint as package

Run = Callable[..., Any]


def test_the_documentation_of_a_rule(dynalint: Run) -> None:
    ran = dynalint("rule", "DYN101")
    assert ran.code == 0
    assert ran.out == (
        "DYN101: branch-on-tensor\n\nA branch on a tensor.\n\n"
        "(category graph-break; severity error; Dynamo's ids GB0170; fixes)\n\n"
        "Flags branches on tensors; has no fix.\n\nMore words about it.\n"
    )
    assert dynalint("rule", "branch-on-tensor") == ran
    assert dynalint("rule", "dyn101") == ran


def test_metadata(dynalint: Run) -> None:
    record = dynalint("rule", "DYN402", "--output-format", "json").json
    assert record.pop("url").endswith("DYN402.md")
    assert record == {
        "code": "DYN402",
        "name": "old-print",
        "summary": "A print, long ago",
        "category": "advice",
        "severity": "error",
        "gb": [],
        "torch": "<2.8",
        "fix": False,
        "documentation": "Holds for old releases only.",
        "examples": [],
    }
    every = dynalint("rule", "--all", "--output-format", "json").json
    codes = [one["code"] for one in every]
    assert codes == ["DYN001", "DYN002", "DYN012", "DYN101", "DYN401", "DYN402", "DYN499", "DYN901", "DYN902"]
    assert [line.split()[0] for line in dynalint("rule", "--all").out.splitlines()] == codes


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["DNY101"], "DYN101"),
        (["branch-on-tensors"], "branch-on-tensor"),
        (["?"], "dynalint rule --all"),
        ([], "--all"),
        (["DYN101", "--all"], "--all"),
    ],
)
def test_an_unknown_rule(dynalint: Run, arguments: list[str], words: str) -> None:
    ran = dynalint("rule", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("command", [[], ["check"], ["fix"], ["rule"], ["config"], ["config", "show"]])
def test_help_teaches_by_examples(dynalint: Run, command: list[str]) -> None:
    ran = dynalint(*command, "--help")
    assert ran.code == 0
    assert "Examples:\n  dynalint " in ran.out.replace("    dynalint", "  dynalint").replace("  Examples", "Examples")
    assert dynalint(*command, "-h") == ran


def test_an_id_of_dynamo(dynalint: Run) -> None:
    ran = dynalint("rule", "gb0170")
    assert ran.code == 0
    assert ran.out == (
        "GB0170: Data-dependent branching\n\nThis is a Dynamo graph break (visible in the source).\n\n"
        "These rules find it:\n\n  DYN101  branch-on-tensor: A branch on a tensor\n"
    )
    assert dynalint("rule", "GB0170", "--output-format", "json").json == {
        "id": "GB0170",
        "type": "Data-dependent branching",
        "seen": "static",
        "rules": ["DYN101"],
        "reason": None,
    }
    assert "raises an exception even without `torch.compile`" in dynalint("rule", "GB0302").out
    assert "No rule finds it" in dynalint("rule", "GB0065").out
    unknown = dynalint("rule", "GB00")
    assert (unknown.code, unknown.out) == (2, "")
    assert "do not have a graph break with the id" in unknown.err


@pytest.mark.parametrize("command", [[], ["config"]])
def test_a_group_without_a_command_shows_its_help(dynalint: Run, command: list[str]) -> None:
    ran = dynalint(*command)
    assert ran.code == 2
    assert "Usage: dynalint" in ran.err


def test_the_version_is_that_of_the_package(dynalint: Run) -> None:
    assert dynalint("--version").out == f"dynalint {package.__version__}\n"


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_a_start_imports_nothing_heavy(option: str) -> None:
    code = (
        "import sys\nfrom dynalint.cli import run\n"
        f"run([{option!r}])\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & "
        "{'torch', 'numpy', 'libcst', 'rich', 'pathspec', 'tomllib', 'dynalint_rules', 'asyncio'}))\n"
        "print(sorted(name for name in sys.modules if name.startswith(('dynalint.analysis', 'dynalint.config'))))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-2:] == ["[]", "[]"]


def test_a_project_without_findings_needs_no_concrete_tree(place: Path) -> None:
    (place / "m.py").write_text("import torch\n\n\n@torch.compile\ndef f(x):\n    return x.relu()\n")
    for command in ("check", "fix"):
        code = (
            f"import sys\nfrom dynalint.cli import run\ncode = run([{command!r}, '--static', '-q'])\n"
            "assert code == 0, code\nassert 'libcst' not in sys.modules"
        )
        ran = subprocess.run([sys.executable, "-c", code], cwd=place, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr


def test_findings_without_their_fixes_need_no_concrete_tree(place: Path) -> None:
    (place / "m.py").write_text("import torch\n\n\n@torch.compile\ndef f(x):\n    print(x)\n    return x\n")
    code = (
        "import sys\nfrom dynalint.cli import run\n"
        "code = run(['check', '--static', '--no-cache', '--output-format', 'concise'])\n"
        "assert code == 1, code\nassert 'libcst' not in sys.modules"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=place, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_reading_the_source_needs_neither_torch_nor_the_worker(place: Path) -> None:
    (place / "m.py").write_text("import torch\n\n\n@torch.compile\ndef f(x):\n    print(x)\n    return x\n")
    for command in ("check", "fix"):
        code = (
            f"import sys\nfrom dynalint.cli import run\ncode = run([{command!r}, '--static', '-q', '--exit-zero'])\n"
            "assert code == 0, code\n"
            "loaded = {'torch', 'numpy', 'rich', 'dynalint.confirm', 'dynalint.confirming'} & set(sys.modules)\n"
            "assert command == 'fix' or not loaded, loaded\nassert 'torch' not in sys.modules"
        ).replace("command ==", f"{command!r} ==")
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


def test_a_reader_that_stops_early_is_no_failure(place: Path) -> None:
    for number in range(500):
        (place / f"broken{number}.py").write_text("(")
    command = [sys.executable, "-m", "dynalint", "check", "--static"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode in (1, 141)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.may_skip
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_cannot_be_written_is_said(place: Path, unbuffered: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    (place / "broken.py").write_text("(")
    command = [sys.executable, "-m", "dynalint", "check", "--static"]
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (2, "error: cannot write to <stdout>: No space left on device.\n")


def test_json_metadata_is_json(dynalint: Run) -> None:
    assert json.loads(dynalint("rule", "--all", "--output-format", "json").out)


def test_a_shell_asks_for_completions(place: Path) -> None:
    asked = {"_DYNALINT_COMPLETE": "bash_complete", "COMP_WORDS": "dynalint check --output-format g", "COMP_CWORD": "3"}
    ran = subprocess.run(
        [sys.executable, "-m", "dynalint"], env={**os.environ, **asked}, capture_output=True, text=True, check=False
    )
    assert ran.stdout.split() == ["plain,grouped", "plain,github", "plain,gitlab"]
