"""A check whose findings come from the cache says exactly what a check says that computes them."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests import forking
from tests.caching.conftest import Check

FROM_CACHE = "the findings come from the cache"
FORMS = ("full", "concise", "json", "sarif", "gitlab", "github", "junit", "html", "markdown")

Findings = Callable[[], list[Path]]


def is_recalled(check: Check, *arguments: str, **variables: str) -> bool:
    return FROM_CACHE in check("-v", *arguments, **variables).err


def test_an_unchanged_project_is_not_analysed_again(check: Check) -> None:
    assert not is_recalled(check)
    assert is_recalled(check)
    assert not is_recalled(check, "--no-cache")
    assert not is_recalled(check, DYNALINT_NO_CACHE="1")


@pytest.mark.parametrize("form", FORMS)
def test_every_format_says_the_same(check: Check, form: str) -> None:
    cold = check("--output-format", form, "--no-cache")
    assert "DYN101" in cold.out
    for _ in range(3):  # without, with and again with the fixes
        assert check("--output-format", form) == cold
    assert is_recalled(check, "--output-format", form)
    assert check("--output-format", form, "--statistics") == check(
        "--output-format", form, "--statistics", "--no-cache"
    )


def test_no_rule_is_loaded(project: Path, environment: Mapping[str, str], check: Check) -> None:
    """Loading the rules, the analysis and libcst takes longer than the rest of a run that recalls."""
    code = (
        "import sys; from dynalint.cli import run; run(['check', '--static']);"
        "heavy = {'libcst', 'dynalint_rules', 'dynalint.engine', 'dynalint.linting.lint', 'dynalint.analysis.interpreter'};"
        "print(sorted(heavy & sys.modules.keys()), file=sys.stderr)"
    )
    for loaded in (True, False):
        ran = subprocess.run(
            [sys.executable, "-c", code],
            cwd=project,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert ran.stderr.endswith("[]\n") is not loaded, ran.stderr


def test_fixes_that_are_known_are_not_computed_again(check: Check, findings: Findings) -> None:
    states = []
    for arguments in ((), ("--show-fixes",), ("--show-fixes",), ("--output-format", "full"), ("--show-fixes",)):
        check(*arguments)
        states.append(findings()[0].stat().st_ino)
    assert states[0] != states[1]
    assert len(set(states[1:])) == 1


CHANGES = {
    "an edit": lambda folder: (folder / "package/ops.py").write_text("def scale(x, by):\n    return x\n"),
    "a comment that silences": lambda folder: edit(folder / "package/model.py", "print(x)", "print(x)  # noqa"),
    "a new file": lambda folder: (folder / "more.py").write_text("import torch\n\ntorch.compile(print)\n"),
    "a new file that shadows": lambda folder: write(folder / "package/ops/__init__.py", "scale = threshold = print\n"),
    "a file less": lambda folder: (folder / "tests/test_model.py").unlink(),
    "a module less": lambda folder: (folder / "package/ops.py").unlink(),
    "a new name": lambda folder: (folder / "train.py").rename(folder / "trained.py"),
    "no package": lambda folder: (folder / "package/__init__.py").unlink(),
    "a setting": lambda folder: append(folder / "pyproject.toml", 'ignore = ["DYN101"]\n'),
    "the release of torch": lambda folder: edit(folder / "pyproject.toml", "2.13", "2.14"),
    "the roots": lambda folder: append(folder / "pyproject.toml", 'roots = "explicit"\n'),
    "settings of a folder": lambda folder: write(folder / "package/dynalint.toml", 'ignore = ["DYN101"]\n'),
    "codes of a file": lambda folder: append(folder / "pyproject.toml", 'per-file-ignores = {"train.py" = ["DYN1"]}\n'),
    "what is ignored": lambda folder: append(folder / ".gitignore", "train.py\n"),
    "a notebook": lambda folder: edit(folder / "notes.ipynb", "x.item()", "x"),
}


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def edit(path: Path, old: str, new: str) -> None:
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_noticed(check: Check, project: Path, change: str) -> None:
    before = check("--output-format", "json", "--all")
    CHANGES[change](project)
    assert not is_recalled(check)
    now = check("--output-format", "json", "--all")
    assert now == check("--output-format", "json", "--all", "--no-cache")
    assert now != before


def test_an_option_of_a_rule(check: Check, project: Path) -> None:
    """A rule reads it for a fix, so that findings without fixes do not rest on it."""
    check("--show-fixes")
    append(project / "pyproject.toml", 'print-fix = "remove"\n')
    assert not is_recalled(check, "--show-fixes")
    assert check("--show-fixes") == check("--show-fixes", "--no-cache")


def test_what_does_not_matter(check: Check, project: Path) -> None:
    check()
    for path in project.rglob("*.py"):
        os.utime(path, (1, 1))
    (project / "package/__pycache__").mkdir()
    (project / "ignored.py").write_text("import torch\n")
    append(project / "pyproject.toml", 'output-format = "concise"\n')
    assert is_recalled(check)


def test_a_module_that_only_an_import_reads(check: Check, project: Path) -> None:
    before = check("package/model.py")
    assert is_recalled(check, "package/model.py")
    edit(project / "package/ops.py", "return x.mean()", "return 1.0")
    assert not is_recalled(check, "package/model.py")
    assert check("package/model.py") == check("package/model.py", "--no-cache") != before


def test_an_installed_package(check: Check, project: Path) -> None:
    """Its code is read where compiled code calls it, so that the result rests on it."""
    package = project / "environment/lib/python3.11/site-packages/helpers.py"
    write(package, "def scale(x, by):\n    return x * by\n")
    edit(
        project / "package/model.py",
        "from .ops import scale, threshold",
        "from .ops import threshold\nfrom helpers import scale",
    )
    python = ("--python", "environment/bin/python", "--output-format", "json")
    before = check(*python)
    assert is_recalled(check, *python)
    write(package, "def scale(x, by):\n    return x * x.max().item()\n")
    assert not is_recalled(check, *python)
    now = check(*python)
    assert now == check(*python, "--no-cache") != before
    assert "helpers.py:2" in now.out
    native = package.parent / "helpers/_core.cpython-311-x86_64-linux-gnu.so"
    write(package.parent / "helpers/__init__.py", "from ._core import scale\n")
    without = check(*python)
    write(native, "")
    assert not is_recalled(check, *python)
    assert check(*python) == check(*python, "--no-cache") != without


def test_a_change_that_has_no_bearing(check: Check, project: Path, findings: Findings) -> None:
    write(project / "unrelated.py", "x = 1\n")
    check("package/ops.py")
    write(project / "other.py", "import torch\n\ntorch.compile(print)\n")
    append(project / "unrelated.py", "y = 2\n")
    assert is_recalled(check, "package/ops.py")
    before = findings()[0].stat().st_ino
    assert is_recalled(check, "package/ops.py")
    assert findings()[0].stat().st_ino == before  # what the first of the two found out is kept, too
    write(project / "other.py", "import torch\nfrom package.ops import scale\n\ntorch.compile(scale)(1, by=2)\n")
    assert not is_recalled(check, "package/ops.py")
    assert check("package/ops.py") == check("package/ops.py", "--no-cache")


def test_files_that_cannot_be_read(check: Check, project: Path) -> None:
    with (project / "large.py").open("wb") as file:
        file.truncate(5 << 20)
    (project / "package/gone.py").symlink_to(project / "nowhere.py")
    for arguments in ((), ("train.py",)):
        cold = check(*arguments)
        assert ("larger than" in cold.out) is (not arguments)
        assert is_recalled(check, *arguments)
        assert check(*arguments) == cold == check(*arguments, "--no-cache")
    (project / "large.py").write_text("x = 1\n")
    assert not is_recalled(check)


def test_options_have_records_of_their_own(check: Check, findings: Findings) -> None:
    arguments = [(), ("--select", "DYN1"), ("--ignore-suppressions",), ("--select-roots", "explicit"), ("package",)]
    cold = [check(*some, "--no-cache") for some in arguments]
    for _ in range(2):
        assert [check(*some) for some in arguments] == cold
    assert len(findings()) == len(arguments)
    assert all(is_recalled(check, *some) for some in arguments)


def test_another_folder_shows_other_paths(check: Check, project: Path, environment: Mapping[str, str]) -> None:
    check(".")
    (project / "deep").mkdir()
    ran = forking.dynalint(["check", "--static", "--output-format", "concise", ".."], project / "deep", environment)
    assert "../package/model.py:" in ran.stdout


def test_failures_are_reported_again(check: Check, project: Path) -> None:
    append(project / "pyproject.toml", 'roots = ["package.model:Modle"]\n')
    cold = check()
    assert (cold.code, "pyproject.toml:6: `roots`: there is no" in cold.err) == (2, True)
    assert is_recalled(check)
    assert check() == cold
    edit(project / "pyproject.toml", "[tool.dynalint]", "[tool.dynalint]\n")
    assert check() == check("--no-cache") != cold


def test_standard_input_is_not_kept(project: Path, environment: Mapping[str, str], findings: Findings) -> None:
    for text in ("import torch\n", "import torch\n\ntorch.compile(print)\n"):
        command = ["check", "--static", "--stdin-filename", "train.py", "-"]
        assert forking.dynalint(command, project, environment, given=text).returncode in (0, 1)
    assert not findings()


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"\xff\xfe", b"0" * 64 + b"\n{}", b"[" * 100_000, b"cut"], ids=range(6)
)
def test_a_damaged_file_counts_as_missing(check: Check, findings: Findings, content: bytes) -> None:
    cold = check()
    (record,) = findings()
    record.write_bytes(record.read_bytes()[:-10] if content == b"cut" else content)
    assert check() == cold
    assert is_recalled(check)  # it has been replaced


@pytest.mark.parametrize("body", [b"[]", b"null", b"3", b'{"question": 1}', b'{"question": null, "basis": {}}'])
def test_a_foreign_file_counts_as_missing(check: Check, findings: Findings, body: bytes) -> None:
    from dynalint.caching.folders import _checksum

    cold = check()
    (record,) = findings()
    record.write_bytes(_checksum(body) + b"\n" + body)
    assert check() == cold


def test_a_killed_run_leaves_nothing_in_the_way(check: Check, findings: Findings) -> None:
    cold = check()
    (record,) = findings()
    (record.parent / ".tmp-killed").write_bytes(record.read_bytes()[:100])
    assert check() == cold


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
def test_a_folder_that_cannot_be_written_to(check: Check, findings: Findings, tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("")
    assert check("--cache-dir", str(place / "below")) == check("--no-cache")


def test_a_link_in_the_place_of_the_folder(check: Check, findings: Findings, tmp_path: Path) -> None:
    check()
    folder = findings()[0].parent
    shutil.rmtree(folder)
    folder.symlink_to(tmp_path)
    assert check() == check("--no-cache")
    assert not list(tmp_path.glob("*.json"))


def test_several_at_once(check: Check, project: Path, environment: Mapping[str, str]) -> None:
    cold = check("--no-cache")
    command = [sys.executable, "-m", "dynalint", "check", "--static"]
    ran = [subprocess.Popen(command, cwd=project, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [one.communicate()[0] for one in ran] == [cold.out] * 4
    assert is_recalled(check)


# Random edits: after each, a check that may use the cache says what one says that may not.

SNIPPETS = (
    "\n# a comment\n",
    "\n\ndef more(x):\n    return x.item()\n",
    "\n\nclass More(nn.Module):\n    def forward(self, x):\n        if x.any():\n            return x.tolist()\n        return x\n",
    "\nfrom .layers import *\n",
    "\nimport package.ops\n",
    "\ndef broken(:\n",
    "\n# dynalint: ignore-file[DYN101]\n",
)
SETTINGS = (
    'ignore = ["DYN1"]',
    'select = ["DYN1", "DYN4"]',
    'print-fix = "remove"',
    'roots = "explicit"',
    'exclude = ["tests"]',
)
ARGUMENTS = ((), (".",), ("package",), ("package/model.py",), ("train.py", "package/ops.py"), ("--all",))


def edits(folder: Path, chance: random.Random) -> Iterator[str]:
    """Change something in a project, again and again; yield what was done."""
    while True:
        files = sorted(path for path in folder.rglob("*.py") if ".git" not in path.parts)
        path = chance.choice(files)
        kind = chance.choice(("append", "append", "cut", "swap", "add", "shadow", "delete", "rename", "set", "touch"))
        if kind == "append":
            append(path, chance.choice(SNIPPETS))
        elif kind == "cut":
            lines = path.read_text().splitlines(keepends=True)
            path.write_text("".join(lines[: chance.randrange(len(lines) + 1)]))
        elif kind == "swap":
            path.write_text(chance.choice(files).read_text())
        elif kind == "add":
            write(
                path.parent / f"{chance.choice(('ops', 'model', 'torch', 'new'))}.py", chance.choice(files).read_text()
            )
        elif kind == "shadow":
            write(folder / chance.choice(("package/ops", "package", "new")) / "__init__.py", "from .new import *\n")
        elif kind == "delete" and len(files) > 3:
            path.unlink()
        elif kind == "rename":
            path.rename(path.with_name(f"renamed{chance.randrange(9)}.py"))
        elif kind == "set":
            write(folder / "pyproject.toml", f"[tool.dynalint]\ntorch = '2.13'\n{chance.choice(SETTINGS)}\n")
        else:
            os.utime(path)
        yield f"{kind} {path.relative_to(folder)}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(int(os.environ.get("DYNALINT_EDITED_PROJECTS", "1"))))
def test_random_edits(check: Check, project: Path, seed: int) -> None:
    chance = random.Random(seed)
    done: list[str] = []
    recalled = 0
    for what, _ in zip(edits(project, chance), range(10), strict=False):
        done.append(what)
        arguments = (*chance.choice(ARGUMENTS), "--output-format", chance.choice(("full", "json")))
        if not all((project / name).exists() for name in arguments if name.endswith(".py")):
            continue
        cold = check(*arguments, "--no-cache")
        assert check(*arguments) == cold, (done, arguments)
        again = check("-v", *arguments)
        assert again.out == cold.out, (done, arguments)
        recalled += FROM_CACHE in again.err
    assert recalled
