"""Files that are none, that have no end, that lead elsewhere, or whose content takes time or depth without end."""

from __future__ import annotations

import ast
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dynalint.confirm.call_sites import CallSites
from dynalint.projects.reading import hard_links

from .conftest import BRANCH, ROOT, SECRET, Victim

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes and links")

FOUND = "model.py:7:12: DYN101"


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """No attack that works again takes the memory of the machine."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def pipe(path: Path) -> None:
    os.mkfifo(path)


def looping(path: Path) -> None:
    path.symlink_to(path.name)


def dangling(path: Path) -> None:
    path.symlink_to("nothing")


def folder(path: Path) -> None:
    path.mkdir()


def large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(3 << 30)


PLANTS = [endless, pipe, looping, dangling, folder, large]


def check(victim: Victim, *arguments: str, timeout: float = 30.0, given: str = "") -> tuple[str, str]:
    """Check statically; return what is written on standard output and on standard error, without a traceback."""
    options = ("--static", "--no-cache", "--output-format", "concise")
    ran = victim.dynalint("check", *options, *arguments, timeout=timeout, given=given)
    assert ran.returncode in (0, 1), ran.stderr
    assert "Traceback" not in ran.stderr
    assert " failed: " not in ran.stderr
    victim.assert_unharmed()
    return ran.stdout, ran.stderr


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
@pytest.mark.parametrize("asked", [["model.py"], ["-", "--stdin-filename", "model.py"]], ids=["file", "stdin"])
def test_what_cannot_be_imported_is_not_known(victim: Victim, asked: list[str], plant: Callable[[Path], None]) -> None:
    code = BRANCH.replace("import torch\n", "from evil import *; from evil import g; import torch\n", 1)
    model = victim.write("repository/model.py", code.replace("return x\n", "return g(f(x))\n"))
    plant(victim.repository / "evil.py")
    out, _ = check(victim, *asked, given=model.read_text())
    assert FOUND in out


@pytest.mark.parametrize("plant", [endless, pipe, looping], ids=lambda plant: plant.__name__)
def test_an_editor_reads_no_more(victim: Victim, plant: Callable[[Path], None]) -> None:
    from dynalint.server.analyst import Analyst

    model = victim.write("repository/model.py", "")
    for name in ("evil.py", "evil.ipynb", ".gitignore"):
        plant(victim.repository / name)
    text = f"from evil import *\n{BRANCH}"
    seen = Analyst(victim.repository, {}).look({model: text})
    assert [finding.code for finding in seen[model].findings] == ["DYN101"]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_such_a_file_among_others_costs_only_itself(victim: Victim, plant: Callable[[Path], None]) -> None:
    victim.write("repository/model.py", BRANCH)
    plant(victim.repository / "evil.py")
    plant(victim.repository / "evil.ipynb")
    out, _ = check(victim)
    assert FOUND in out
    assert "evil" not in out.replace("evil.py:1:1: DYN901", "").replace("evil.ipynb:1:1: DYN901", "")


@pytest.mark.parametrize("plant", [endless, pipe, large], ids=lambda plant: plant.__name__)
@pytest.mark.parametrize("name", [".gitignore", ".git/info/exclude", "dynalint.toml", "pyproject.toml"])
def test_what_says_how_to_check_is_a_file(victim: Victim, name: str, plant: Callable[[Path], None]) -> None:
    victim.write("repository/model.py", BRANCH)
    (victim.repository / ".git" / "info").mkdir(parents=True)
    plant(victim.repository / name)
    ran = victim.dynalint("check", "--static", "--no-cache", "--output-format", "concise", timeout=30.0)
    # Settings that cannot be read end the run with one sentence; what git ignores is not worth that.
    assert FOUND in ran.stdout or (name.endswith(".toml") and ran.returncode == 2)
    assert len(ran.stderr.splitlines()) <= 1 + (FOUND in ran.stdout)
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("plant", [pipe, folder, large], ids=lambda plant: plant.__name__)
def test_a_named_file_that_is_none_is_a_finding(victim: Victim, plant: Callable[[Path], None]) -> None:
    plant(victim.repository / "evil.py")
    out, _ = check(victim, "evil.py")
    assert ("evil.py:1:1: DYN901" in out) == (plant is not folder)


@pytest.mark.parametrize("plant", [endless, pipe, large], ids=lambda plant: plant.__name__)
def test_a_baseline_that_is_no_file_ends_the_run(victim: Victim, plant: Callable[[Path], None]) -> None:
    victim.write("repository/model.py", BRANCH)
    plant(victim.repository / "known.json")
    ran = victim.dynalint("check", "--static", "--baseline", "known.json", timeout=30.0)
    assert ran.returncode == 2
    assert "known.json: cannot read the baseline: it is" in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


def cell(code: str) -> str:
    return json.dumps({"cells": [{"cell_type": "code", "source": code}], "metadata": {}})


# What is wrong with the content of each, and where one finding says so.
CONTENTS: dict[str, bytes] = {
    **{
        f"{encoding}.py": f"# -*- coding: {encoding} -*-\nx = 1\n".encode()
        for encoding in (
            "undefined", "idna", "punycode", "unicode_escape", "raw_unicode_escape", "mbcs", "zlib", "hex", "rot13",
            "utf-7", "utf-16", "hz", "bz2", "__init__", "aliases", "..", "-", "no-such-" + "x" * 200,
        )
    },
    "slow.py": b"# coding: punycode\n" + b"a-" * 1_000_000,
    "long_name.py": b"# coding: " + b"x" * 3_000_000,
    "long_line.py": b"# coding" + b" coding:" * 300_000,
    "deep.ipynb": b"[" * 1_000_000,
    "deep_tables.ipynb": b'{"cells":' * 200_000,
    "number.ipynb": b'{"cells": ' + b"1" * 1_000_000 + b"}",
    "table.ipynb": b'{"cells": {}}',
    "twice.ipynb": b'{"cells": [], "cells": []}',
    "long.ipynb": cell("x = 1\n" * 1_000_000).encode(),
    "surrogate.ipynb": cell("x = '\ud800'").encode(),
    "nested.py": b"x = " + b"[" * 100_000,
}  # fmt: skip
FINE = {
    "values.ipynb": b'{"cells": [NaN, 1e999, {"cell_type": ["code"]}, {"cell_type": "code", "source": [1]}], "metadata": 3}',
    "latin.py": "# coding: latin-1\nx = 'é'\n".encode("latin-1"),
    "shift.py": "# coding: shift_jis\nx = 'あ'\n".encode("shift_jis"),
    "sig.py": b"\xef\xbb\xbf# coding: utf-8-sig\nx = 1\n",
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What is reported where all these files lie beside a good one."""
    victim = Victim(tmp_path_factory.mktemp("contents"))
    victim.write("repository/model.py", BRANCH)
    for name, content in {**CONTENTS, **FINE}.items():
        victim.write(f"repository/{name}", content)
    out, _ = check(victim, timeout=100.0)
    assert max(map(len, out.splitlines())) < 1000
    return out


@pytest.mark.parametrize("name", CONTENTS)
def test_a_file_that_says_nonsense_costs_one_finding(said: str, name: str) -> None:
    assert FOUND in said
    assert sum(line.startswith(f"{name}:") and "DYN901" in line for line in said.splitlines()) == 1


@pytest.mark.parametrize("name", FINE)
def test_what_is_merely_odd_is_read(said: str, name: str) -> None:
    assert name not in said


# Content that once took a time which grows with its square, or worse; each as large as it may be or nearly so.
SLOW = {
    "spaces.py": BRANCH + "x = 1  # dynalint: ignore[DYN101]" + " " * 500_000,
    "marks.py": BRANCH + "x = 1  " + "#noqa:dy" * 100_000,
    "fields.py": BRANCH + "# " + "self.x:" * 200_000,
    "holes.py": BRANCH.replace("x.sum()", "getattr(x, f'" + "{x}a" * 30 + "b')").replace(
        "def forward", f"def set(self):\n        self.{'a' * 5000} = 1\n\n    def forward"
    ),
    "magics.ipynb": cell("%time x\n" * 20_000 + "x = 1\n"),
    "blank.ipynb": cell(" " * 1_000_000 + "x y"),
    "cells.ipynb": json.dumps({"cells": [{"cell_type": "code", "source": "x"}] * 50_000, "metadata": {}}),
}


@pytest.mark.parametrize("name", SLOW)
def test_no_content_takes_time_without_end(victim: Victim, name: str) -> None:
    victim.write(f"repository/{name}", SLOW[name])
    victim.write("repository/model.py", BRANCH)
    out, _ = check(victim, "--ignore", "DYN902", timeout=40.0)
    assert FOUND in out


@pytest.mark.parametrize(
    "lines",
    ["*a*" * 30 + "b", "**/a/" * 30 + "b", "[z-a]\n!\n\\", "a\n" * 200_000, "[[[" * 1000],
    ids=["stars", "folders", "malformed", "lines", "sets"],
)
@pytest.mark.parametrize("where", ["gitignore", "exclude", "per-file-ignores"])
def test_no_pattern_takes_time_without_end(victim: Victim, where: str, lines: str) -> None:
    victim.write("repository/.git/HEAD", "")
    victim.write("repository/model.py", BRANCH)
    victim.write(f"repository/{'a/' * 100}{'a' * 200}.py", "x = 1\n")
    if where == "gitignore":
        victim.write("repository/.gitignore", lines)
    else:
        lines = lines[:2000]
        names = [json.dumps(line) for line in dict.fromkeys(lines.splitlines())]
        table = ", ".join(f"{name} = ['DYN4']" for name in names)
        value = f"[{', '.join(names)}]" if where == "exclude" else f"{{{table}}}"
        victim.write("repository/dynalint.toml", f"{where} = {value}\n")
    assert FOUND in check(victim)[0]


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "[" * 5000 + "]" * 5000, "x = " + "{a=" * 5000, "x" + ".x" * 20_000 + " = 1", "timeout = " + "1" * 5000,
        "x = " + "[" * 300 + "]" * 300,
    ],
    ids=["arrays", "tables", "keys", "number", "shallow"],
)  # fmt: skip
@pytest.mark.parametrize("name", ["dynalint.toml", "pyproject.toml"])
def test_settings_that_are_nonsense_end_the_run_with_a_sentence(victim: Victim, name: str, text: str) -> None:
    victim.write("repository/model.py", BRANCH)
    victim.write(f"repository/{name}", f"[tool.dynalint]\n{text}\n" if name == "pyproject.toml" else f"{text}\n")
    ran = victim.dynalint("check", "--static", timeout=30.0)
    assert ran.returncode == 2
    assert name in ran.stderr
    assert len(ran.stderr.splitlines()) == 1
    assert "this is a bug in dynalint" not in ran.stderr


def deepen(folder: Path, name: str, depth: int) -> int:
    """Make folders in each other, and return the descriptor of the innermost."""
    descriptor = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=descriptor)
        below = os.open(name, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    return descriptor


@pytest.fixture
def cleared(victim: Victim) -> Iterator[Victim]:
    """A victim whose repository is too deep for pytest to clear away."""
    yield victim
    subprocess.run(["rm", "-rf", str(victim.repository)], check=True)


def test_a_deep_path_is_taken(cleared: Victim) -> None:
    victim = cleared
    descriptor = deepen(victim.repository, "d", 1500)
    with os.fdopen(os.open("model.py", os.O_WRONLY | os.O_CREAT, dir_fd=descriptor), "w") as file:
        file.write(BRANCH)
    os.close(descriptor)
    deep = "d/" * 1500
    assert "DYN101" in check(victim, f"{deep}model.py")[0]


def test_a_deep_tree_is_walked(cleared: Victim) -> None:
    victim = cleared
    victim.write("repository/model.py", BRANCH)
    os.close(deepen(victim.repository, "d" * 200, 25))  # longer than any path may be
    ran = victim.dynalint("check", "--static", "--output-format", "concise", timeout=60.0)
    assert FOUND in ran.stdout
    assert "Traceback" not in ran.stderr
    assert "cannot read the directory" in ran.stderr or ran.returncode == 1


def test_a_link_to_a_folder_above_is_no_loop(victim: Victim) -> None:
    victim.write("repository/model.py", BRANCH)
    (victim.repository / "loop").symlink_to(".")
    assert check(victim)[0].count("DYN101") == 1


@pytest.mark.parametrize("name", ["a\nb.py", "a\x1b[31mb.py", "a\udcffb.py", "a\u202eb.py", "-rf.py", " .py"])
def test_any_name_of_a_file_will_do(victim: Victim, name: str) -> None:
    victim.write(f"repository/{name}", BRANCH)
    out, _ = check(victim)
    assert out.count("DYN101") >= 1


# Links out of the project.

OUTSIDE = BRANCH.replace("Model", "Outside").replace("return x\n", f"return x  # {SECRET}\n")


@pytest.fixture
def linked(victim: Victim) -> Victim:
    """A repository with links to a file and to a folder of the user's own."""
    victim.write("repository/.git/HEAD", "")
    victim.write("repository/model.py", BRANCH)
    victim.write("home/work/outside.py", OUTSIDE)
    (victim.repository / "evil.py").symlink_to(victim.home / "work" / "outside.py")
    (victim.repository / "elsewhere").symlink_to(victim.home / "work")
    return victim


@pytest.mark.parametrize("named", [".", "evil.py", "elsewhere", "elsewhere/outside.py", "*"])
def test_a_link_out_of_the_project_is_not_followed(linked: Victim, named: str) -> None:
    paths = [path.name for path in linked.repository.iterdir()] if named == "*" else [named]
    out, err = check(linked, *paths, "--output-format", "full")
    assert "Outside" not in out + err
    assert SECRET not in out + err
    assert "the link leads out of the project" in err
    assert err.count("evil.py") + err.count("elsewhere") == (2 if named == "*" else 1)


@pytest.mark.parametrize("module", ["evil", "elsewhere.outside"])
def test_nothing_outside_is_read_for_an_import(linked: Victim, module: str) -> None:
    (linked.home / "work" / "outside.py").write_text("FLAG = False\n")
    code = BRANCH.replace("import torch\n", f"import torch\nfrom {module} import FLAG\n", 1)
    linked.write("repository/model.py", code.replace("x.sum() > 0", "FLAG and x.sum() > 0"))
    assert "DYN101" in check(linked, "model.py")[0]


def test_a_package_at_the_top_opens_nothing_above(victim: Victim) -> None:
    victim.write("repository/.git/HEAD", "")
    victim.write("repository/__init__.py", "")
    victim.write("other/__init__.py", "")
    victim.write("other/flag.py", "FLAG = False\n")
    code = BRANCH.replace("import torch\n", "import torch\nfrom other.flag import FLAG\n", 1)
    victim.write("repository/model.py", code.replace("x.sum() > 0", "FLAG and x.sum() > 0"))
    os.mkfifo(victim.home.parent / "other" / "pipe.py")
    assert "DYN101" in check(victim)[0]


@pytest.mark.parametrize("from_home", [True, False])
def test_a_project_behind_a_link_of_the_users_own_is_checked(linked: Victim, from_home: bool) -> None:
    link = linked.home / "project"
    link.symlink_to(linked.repository)
    out, err = check(linked, str(link), str(link / "model.py")) if from_home else check(linked, f"{link}/.")
    assert "DYN101" in out
    assert err.count("note") == 1  # of the link in it


def test_nothing_is_written_through_a_link(linked: Victim) -> None:
    outside = linked.home / "work" / "outside.py"
    before = outside.read_bytes()
    linked.dynalint("fix", "--static", "--apply", "--unsafe-fixes", ".", "evil.py", "elsewhere")
    linked.dynalint("check", "--static", "--add-ignore", ".", "evil.py")
    assert outside.read_bytes() == before


def test_settings_name_nothing_outside(linked: Victim) -> None:
    linked.write("repository/dynalint.toml", f'include = ["model.py", "{linked.home}", "../home/work"]\n')
    out, err = check(linked)
    assert "Outside" not in out
    assert out.count("DYN101") == 1
    assert err.count("leads out of the project") == 2


def test_nothing_outside_is_explained(linked: Victim) -> None:
    ran = linked.dynalint("explain", "evil.py::Outside")
    assert ran.returncode == 2
    assert "the link leads out of the project" in ran.stderr


def test_hard_links_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    assert hard_links(tmp_path / "a") == 1
    os.link(tmp_path / "a", tmp_path / "b")
    assert hard_links(tmp_path / "b") == 2
    assert hard_links(tmp_path / "c") == 0


@pytest.mark.parametrize("name", ["zlib", "json", "click", "difflib", "pathspec"])
def test_no_module_of_the_repository_is_taken_for_a_library(victim: Victim, name: str) -> None:
    mark = victim.home.parent / "mark"
    victim.write(f"repository/{name}.py", f"open({str(mark)!r}, 'w').close()\n")
    victim.write("repository/model.py", BRANCH)
    assert FOUND in check(victim)[0]
    assert not mark.exists()


# What reads files by another way, and why that is safe.
REVIEWED = {
    "projects/reading.py": "the one place",
    "projects/git.py": "asks git",
    "explaining/html.py": "dynalint's own page",
    "report/html.py": "dynalint's own page",
    "report/web.py": "dynalint's own page",
    "rulebook/catalogue.py": "dynalint's own data",
    "rulebook/graph_breaks.py": "dynalint's own data",
    "analysis/torch_api.py": "dynalint's own data",
    "testing/harness.py": "an installed torch's own registry",
    "cli/session.py": "writes where GitHub says",
    "cli/__init__.py": "writes to nowhere",
    "fix/write.py": "writes beside what is fixed",
    "caching/folders.py": "writes into the cache",
    "caching/stamp.py": "dynalint's own code and rule packs",
    "confirm/servers.py": "dynalint's own worker",
    "confirm/temporary.py": "locks a folder of dynalint's own",
    "confirm/trace.py": "opens no file of the project",
}
READING = {"read_bytes", "read_text", "open", "open_code", "fdopen", "getline", "getlines", "checkcache"}
"""Calls by which a file is read."""


def test_code_that_a_link_leads_out_to_is_not_taken_for_the_projects(tmp_path: Path) -> None:
    outside, project = tmp_path / "outside", tmp_path / "project"
    outside.mkdir()
    project.mkdir()
    (outside / "notes.md").write_text("```python\nModel()(1)\n```\n")
    (outside / "test_model.py").write_text("def test_it():\n    Model()(1)\n")
    model = project / "model.py"
    model.write_text("class Model: ...\n")
    for name in ("notes.md", "test_model.py"):
        (project / name).symlink_to(outside / name)
    sites = CallSites(project)
    assert (sites.snippets(model, "Model"), sites.tests(model, "Model")) == ([], [])
    (project / "readme.md").write_text((outside / "notes.md").read_text())
    (project / "test_other.py").symlink_to(model)
    assert len(CallSites(project).snippets(model, "Model")) == 1


def test_all_reading_goes_through_one_place() -> None:
    package = ROOT / "dynalint"
    found = set()
    for file in package.rglob("*.py"):
        name = file.relative_to(package).as_posix()
        if name.startswith(("confirm/worker/", "confirm/hook/", "testing/")):
            continue
        for node in ast.walk(ast.parse(file.read_bytes())):
            called = node.func if isinstance(node, ast.Call) else None
            word = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if word in READING:
                found.add(name)
    assert found - set(REVIEWED) == set()
