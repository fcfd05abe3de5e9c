"""A static check runs nothing of the code under check, wherever that lays out something to be run or imported."""

from __future__ import annotations

import importlib.util
import marshal
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import BRANCH, Victim

# What Python imports itself for `-m`, before it comes to a line of dynalint's, cannot be kept from the working directory.
_LIST = "import runpy, sys; print(*(name.partition('.')[0] for name in sys.modules))"
_BEFORE_DYNALINT = set(
    subprocess.run([sys.executable, "-c", _LIST], capture_output=True, text=True, check=True).stdout.split()
)
_SHADOWS = (
    "abc", "ast", "click", "codecs", "collections", "contextlib", "dataclasses", "dynalint_rules", "encodings", "enum",
    "functools", "gc", "hashlib", "inspect", "json", "libcst", "lsprotocol", "numpy", "os", "pathlib", "pathspec", "pickle",
    "pygls", "re", "rich", "site", "sitecustomize", "subprocess", "tempfile", "textwrap", "threading", "tokenize", "tomli",
    "tomllib", "torch", "types", "typing", "usercustomize",
)  # fmt: skip


class Trap:
    """Code that leaves a mark where it is run, and how to tell whether it was."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def code(self, name: str) -> str:
        """Return a line of Python that leaves the mark `name`."""
        return f"open({str(self.folder / name)!r}, 'w').close()"

    def sprung(self) -> list[str]:
        """Return the marks that were left."""
        return sorted(path.name for path in self.folder.iterdir())


def _cached(code: str) -> bytes:
    """Return a `.pyc` file that is taken for any source: it is not checked against one."""
    flags = (1).to_bytes(4, "little")
    return importlib.util.MAGIC_NUMBER + flags + bytes(8) + marshal.dumps(compile(code, "x.py", "exec"))


@pytest.fixture(scope="module")
def trapped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Victim, Trap]:
    """A clone with a trap of every kind."""
    folder = tmp_path_factory.mktemp("traps")
    victim, trap = Victim(folder), Trap(folder / "marks")
    write, code = victim.write, trap.code
    write("repository/model.py", f"""\
{BRANCH}
{code("module")}


def decorator(function):
    {code("decorator")}
    return function


def default(x={code("default")}, *, y: {code("annotation")} = 0): pass


class Meta(type):
    def __new__(cls, *args, **keywords):
        {code("metaclass")}
        return super().__new__(cls, *args, **keywords)

    def __prepare__(*args, **keywords):
        {code("prepare")}
        return {{}}


class Base(metaclass=Meta):
    def __init_subclass__(cls, **keywords):
        {code("init_subclass")}

    def __set_name__(self, owner, name):
        {code("set_name")}

    def __class_getitem__(cls, item):
        {code("class_getitem")}


@decorator
class Derived(Base):
    {code("class_body")}
    slot = Base()

    @decorator
    def forward(self, x: Base[int]):
        return eval({code("eval")!r}) if x.sum() > 0 else exec({code("exec")!r})


def __getattr__(name):
    {code("module_getattr")}


class Lazy:
    def __getattr__(self, name):
        {code("getattr")}

    __wrapped__ = property(lambda self: {code("property")})


comprehension = [{code("comprehension")} for _ in range(3)]
formatted = f"{{{code("format")}}}"
assert {code("assert")} is None
""")  # fmt: skip
    write("repository/coded.py", f"# -*- coding: trap -*-\n{code('encoding')}\n")
    for name in set(_SHADOWS) - _BEFORE_DYNALINT:
        write(f"repository/{name}.py", code(f"shadow-{name}") + "\n")
    write("repository/torch/__init__.py", code("torch-package") + "\n")
    write("repository/__init__.py", code("package") + "\n")
    write("repository/conftest.py", code("conftest") + "\n")
    write("repository/setup.py", code("setup") + "\n")
    write("repository/trap.pth", f"import os; {code('pth')}\n")
    write("repository/__pycache__/model.cpython-311.pyc", _cached(code("pyc")))
    write("repository/__pycache__/model." + str(sys.implementation.cache_tag) + ".pyc", _cached(code("pyc")))
    write("repository/.dynalint_cache/verdicts.json", b"cos\nsystem\n(S'touch " + bytes(trap.folder) + b"/pickle'\ntR.")
    write("repository/.dynalint_cache/0/x.pkl", b"cos\nsystem\n(S'touch " + bytes(trap.folder) + b"/pickle'\ntR.")
    write("repository/evil_rules.py", code("entry-point") + "\n")
    entries = (
        "[dynalint.rules]\nevil = evil_rules\n[pytest11]\nevil = evil_rules\n[console_scripts]\nx = evil_rules:x\n"
    )
    for name in ("evil-1.0.dist-info", "evil.egg-info"):
        write(f"repository/{name}/entry_points.txt", entries)
        write(f"repository/{name}/METADATA", "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
        write(f"repository/{name}/PKG-INFO", "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    write("repository/pyproject.toml", """\
[project]
name = "evil"
version = "1.0"
entry-points."dynalint.rules" = {evil = "evil_rules"}
[build-system]
requires = []
build-backend = "setup"
backend-path = ["."]
[tool.dynalint]
[tool.dynalint.examples]
"model:Model" = "conftest:example"
""")  # fmt: skip
    mark = trap.folder / "shell"
    write("repository/.env", f"PYTHONSTARTUP=model.py\nX=$(touch {mark})\n")
    write("repository/.envrc", f"touch {mark}\n")
    write("repository/Makefile", f"X := $(shell touch {mark})\nall:\n\ttouch {mark}\n")
    write("repository/tox.ini", "[pytest]\naddopts = -p evil_rules\n")
    write("repository/.pre-commit-config.yaml", "repos: []\n")
    return victim, trap


# A mark that is there shows that the traps work: without this, a trap that never springs proves nothing.
def test_the_traps_spring(trapped: tuple[Victim, Trap]) -> None:
    victim, trap = trapped
    subprocess.run(
        [sys.executable, "-c", "import conftest, evil_rules, setup"], cwd=victim.repository, check=False,
        capture_output=True, env=victim.environment({}),
    )  # fmt: skip
    assert trap.sprung()
    for name in trap.sprung():
        (trap.folder / name).unlink()


COMMANDS = {
    "check": ("check", "--static"),
    "check-one": ("check", "--static", "model.py"),
    "json": ("check", "--static", "--output-format", "json", "."),
    "fix": ("fix", "--static", "."),
    "files": ("check", "--static", "--show-files"),
    "config": ("config", "show"),
    "rule": ("rule", "--all"),
}


@pytest.mark.parametrize(("name", "way"), [*((name, "module") for name in COMMANDS), ("check", "script")])
def test_nothing_of_the_repository_runs(trapped: tuple[Victim, Trap], name: str, way: str) -> None:
    victim, trap = trapped
    script = Path(sys.executable).with_name("dynalint.exe" if sys.platform == "win32" else "dynalint")
    start = [sys.executable, "-m", "dynalint"] if way == "module" else [str(script)]
    done = subprocess.run(
        [*start, *COMMANDS[name]], cwd=victim.repository, env=victim.environment({"PYTHONSTARTUP": "model.py"}),
        capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert trap.sprung() == []
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 1, 2), done.stderr
    if name == "check-one":
        assert "DYN101" in done.stdout


def test_nothing_runs_from_python_either(trapped: tuple[Victim, Trap], monkeypatch: pytest.MonkeyPatch) -> None:
    import dynalint

    victim, trap = trapped
    monkeypatch.chdir(victim.repository)
    found = dynalint.check(["model.py"], static=True)
    assert {one.code for one in found} >= {"DYN101"}
    assert trap.sprung() == []


def test_the_working_directory_is_no_place_for_modules(trapped: tuple[Victim, Trap], tmp_path: Path) -> None:
    """Every module of the standard library is there under its name, but for what Python imports before all else."""
    victim = Victim(tmp_path)
    trap = Trap(tmp_path / "marks")
    for name in {*sys.stdlib_module_names, "click", "libcst", "pathspec", "rich", "tomli", "yaml"} - _BEFORE_DYNALINT:
        victim.write(f"repository/{name}.py", f"{trap.code(name)}\nraise ImportError('from the repository')\n")
    victim.write("repository/model_.py", BRANCH)
    done = victim.dynalint("check", "--static", "model_.py")
    assert trap.sprung() == []
    assert (done.returncode, "DYN101" in done.stdout) == (1, True), done.stderr
