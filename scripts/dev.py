"""One command for each development task. It requires nothing except Python 3.10 or newer.

    ./dev demo             check and fix examples/tiny_vision
    ./dev test             run everything that CI runs; arguments are passed to pytest
    ./dev test --static    only the linters, the types, and the tests that do not need torch, without installing torch
    ./dev test --dynamo    only the tests that run code under torch
    ./dev attacks          run the tests with hostile code; `test` runs most of them too
    ./dev hunt             fix about 800 small models that are easily fixed incorrectly; takes half an hour
    ./dev long             run the tests that take too long for every change
    ./dev lint             run the linters and the type checker
    ./dev setup            only create the environment

Each command first creates the environment, .venv in this checkout (or DYNALINT_VENV), or updates it if pyproject.toml
has changed. The exact version of torch is installed first, so that pip chooses a single build. On Linux, the package
index has the CUDA build. Setting PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu selects the smaller CPU
build. Some tests need a real browser, Chromium or Chrome. If CI is set, `./dev test` installs Chromium when it runs as
root on Debian or Ubuntu. Otherwise, it says what to install.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = Path(os.environ.get("DYNALINT_VENV", ROOT / ".venv")).absolute()
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / ("python.exe" if os.name == "nt" else "python")
STAMP = VENV / "dynalint-dev-stamp"
EXAMPLE = ROOT / "examples" / "tiny_vision"

# The first release that supports dependency groups.
PIP = "pip>=25.1"
# Compiling all of torch takes several times as long as compiling what is imported (see `compile_torch`).
PIP_OPTIONS = ("--disable-pip-version-check", "--no-input", "--quiet", "--no-compile")
# pip's message if the index returned no versions at all for a package.
NONE_FOUND = "(from versions: none)"
MAX_TEST_PROCESSES = 8
STATIC, DYNAMO = "static", "dynamo"
# Otherwise, hundreds of processes would compile all of dynalint.
WRITES_BYTECODE = {"PYTHONDONTWRITEBYTECODE": ""}
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
SECONDS_BETWEEN_MESSAGES = 10


class SetupError(Exception):
    """The environment cannot be created. The message says why and what to do about it."""


def main(arguments: Sequence[str]) -> int:
    """Run the named command and return its exit code."""
    commands = {
        "demo": demo,
        "test": test,
        "attacks": attacks,
        "hunt": hunt,
        "long": long,
        "lint": lint,
        "setup": setup,
    }
    if not arguments or arguments[0] not in commands:
        print(__doc__)
        return 0 if arguments[:1] in (["-h"], ["--help"]) else 2
    try:
        make_environment(with_torch=list(arguments[:2]) != ["test", "--static"])
    except SetupError as problem:
        print(f"dev: {problem}", file=sys.stderr)
        return 1
    if arguments[0] != "test":  # which does this while the linters run
        compile_torch()
    return commands[arguments[0]](arguments[1:])


def make_environment(*, with_torch: bool) -> None:
    """Create the virtual environment and install the project with its development tools, if necessary.

    Raise SetupError if Python is too old or does not have `venv`, or if pip fails.
    """
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    stamp = hashlib.sha256(f"{ROOT}\n{project}".encode()).hexdigest()
    done = STAMP.read_text(encoding="utf-8").split() if PYTHON.exists() and STAMP.exists() else []
    if done[:1] == [stamp] and (DYNAMO in done or not with_torch):
        return
    pinned = re.search(r'"(torch==[^"]+)"', project)
    if pinned is None:
        raise SetupError("pyproject.toml does not pin torch in the dependency group `dev`.")
    create_venv()
    pip_install("updating pip", "--upgrade", PIP)
    if with_torch:
        pip_install(f"installing {pinned[1]}, which takes longest", pinned[1])
    group = f"{ROOT / 'pyproject.toml'}:{'dev' if with_torch else 'static'}"
    pip_install("installing dynalint, editable, with its development tools", "--group", group, "--editable", str(ROOT))
    STAMP.write_text(f"{stamp} {DYNAMO if with_torch else STATIC}", encoding="utf-8")


def compile_torch() -> None:
    """Import what Dynamo needs once, to write its bytecode. Sandboxed processes, which use it, cannot write any."""
    if not any(VENV.glob("*ib/**/site-packages/torch/_dynamo/__pycache__")):
        code = "from dynalint.confirm.worker.process.warmup import warm_up; warm_up('cpu')"
        subprocess.run([PYTHON, "-c", code], env={**os.environ, **WRITES_BYTECODE}, capture_output=True, check=False)


def compile_tests(half: str) -> None:
    """Collect the tests once, to write the bytecode of the project. Otherwise, each test process would compile it."""
    if not any((ROOT / "tests").glob("*/__pycache__")):
        command = ["-m", "pytest", "--collect-only", "-qq", *(["--half", half] if half else [])]
        subprocess.run(
            [PYTHON, *command], cwd=ROOT, env={**os.environ, **WRITES_BYTECODE}, capture_output=True, check=False
        )


def create_venv() -> None:
    """Create the virtual environment, or keep the existing one if its Python still works."""
    if sys.version_info < (3, 10):  # noqa: UP036 - this script may be started by any Python
        raise SetupError(f"{sys.executable} is Python {sys.version.split()[0]}; dynalint needs 3.10 or newer.")
    if (
        PYTHON.exists()
        and subprocess.run([PYTHON, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0
    ):
        return
    if importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
        raise SetupError(f"{sys.executable} has no venv module; on Debian and Ubuntu, run `apt install python3-venv`.")
    step(f"creating {VENV} with Python {sys.version.split()[0]}")
    made = subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], capture_output=True, text=True, check=False)
    if made.returncode:
        raise SetupError(f"the environment {VENV} could not be created:\n{made.stdout}{made.stderr}".rstrip())


def pip_install(title: str, *what: str) -> None:
    """Install packages with the environment's pip. Print progress, and only print pip's output if it fails."""
    step(title)
    with showing_progress(title):
        ran = subprocess.run(
            [PYTHON, "-m", "pip", "install", *PIP_OPTIONS, *what],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    if ran.returncode == 0:
        return
    if NONE_FOUND in ran.stdout:
        raise SetupError(
            f"pip found no {what[-1]} for Python {sys.version.split()[0]} on this system: either it cannot reach the "
            "package index (check the network, or set PIP_INDEX_URL), or the index has no build for this Python."
        )
    raise SetupError(f"pip could not install {what[-1]}:\n{ran.stdout.rstrip()}")


def setup(_: Sequence[str]) -> int:
    """Do nothing, because the environment is created before every command."""
    print(f"dynalint is installed in {BIN}")
    return 0


def demo(_: Sequence[str]) -> int:
    """Check and fix the example project. Both commands must exit with 1, because the project has findings."""
    for arguments in (["check"], ["fix"]):
        code = run("dynalint", *arguments, cwd=EXAMPLE)
        if code != 1:
            print(f"dev: `dynalint {' '.join(arguments)}` ended with {code}, expected 1 (findings)", file=sys.stderr)
            return code or 1
    return 0


def lint(_: Sequence[str]) -> int:
    """Run all static checks, even if some fail."""
    return report(static_checks())


def test(arguments: Sequence[str]) -> int:
    """Run all static checks and the tests, or one half of them. The arguments are passed to pytest."""
    half = arguments[0].removeprefix("--") if arguments[:1] in (["--static"], ["--dynamo"]) else ""
    rest = arguments[1:] if half else arguments
    failed = []
    if half != DYNAMO:
        with ThreadPoolExecutor(2) as beside:
            browser = beside.submit(install_browser)
            if half != STATIC:
                beside.submit(compile_torch)
            beside.submit(compile_tests, half)
            failed = [*static_checks(), *browser.result()]
    if run_tests(*(["--half", half] if half else []), *rest):
        failed.append("pytest")
    return report(failed)


def install_browser() -> list[str]:
    """Install a browser if CI is set, and otherwise say what to install. Return the failures to report in CI."""
    if any(map(shutil.which, BROWSERS)):
        return []
    in_ci, as_root = bool(os.environ.get("CI")), getattr(os, "geteuid", lambda: 1)() == 0
    if not (in_ci and as_root and shutil.which("apt-get")):
        print(
            "dev: no browser, so page tests are skipped; run `apt install chromium`, or install Chrome", file=sys.stderr
        )
        return ["a browser"] if in_ci else []
    apt = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", "chromium"]
    for command in (apt, ["apt-get", "update", "--quiet"], apt):
        ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if command is apt and ran.returncode == 0:
            return []
    print(f"dev: chromium could not be installed: {ran.stderr.strip().rpartition(chr(10))[2]}", file=sys.stderr)
    return ["a browser"]


def attacks(arguments: Sequence[str]) -> int:
    """Run the tests with hostile code, files and settings, including slow tests."""
    return run_tests("tests/attacks", "-m", "long or not long", *arguments)


def run_tests(*arguments: str) -> int:
    """Run pytest in more than one process. If CI is set, skipped tests fail."""
    # One process more than there are cores, because many tests wait for the processes that they start.
    processes = min((os.cpu_count() or 1) + 1, MAX_TEST_PROCESSES)
    # All tests in a file run in the same process because they share fixtures. `tests/conftest.py` defines the order.
    options = ["-n", str(processes), "--dist", "loadfile", "--no-loadscope-reorder"]
    if os.environ.get("CI"):
        options.append("--no-skips")
    # Test processes are limited to one thread because torch would start one per core in each of them.
    return run("pytest", *options, *arguments, environment={"OMP_NUM_THREADS": "1", **WRITES_BYTECODE})


def hunt(arguments: Sequence[str]) -> int:
    """Fix models that are easily fixed incorrectly, and compare results. The arguments are passed to pytest."""
    return run_tests(
        "tests/hunt", "-m", "long or not long", "--dist", "load", "--override-ini", "timeout=0", *arguments
    )


def long(arguments: Sequence[str]) -> int:
    """Run the slow tests that `test` leaves out, except for those that `hunt` runs."""
    return run("pytest", "-m", "long", "--ignore", "tests/hunt", *arguments)


def static_checks() -> list[str]:
    """Run the linters and the type checker, two at a time, and return the names of those that failed."""
    checks = [
        ("ruff", "check", "."),
        ("ruff", "format", "--check", "."),
        ("mypy",),
        ("dynalint", "check", "--static"),
        ("mkdocs", "build", "--strict", "--quiet", "--site-dir", str(VENV / "site")),
        ("check-jsonschema", "--builtin-schema", "vendor.github-workflows", ".github/workflows/ci.yml"),
        ("check-jsonschema", "--builtin-schema", "vendor.github-actions", "action.yml"),
    ]
    if shutil.which("actionlint"):
        checks.append(("actionlint",))
    with ThreadPoolExecutor(2) as pool:
        codes = list(pool.map(lambda check: run(*check), checks))
    return [" ".join(check) for check, code in zip(checks, codes, strict=True) if code]


def report(failed: Sequence[str]) -> int:
    """Print the names of the checks that failed, and return the exit code."""
    for name in failed:
        print(f"dev: failed: {name}", file=sys.stderr)
    return 1 if failed else 0


def run(program: str, *arguments: str, cwd: Path = ROOT, environment: Mapping[str, str] | None = None) -> int:
    """Run a program from the environment or, if it is not there, from PATH, and return its exit code."""
    step(" ".join([program, *arguments]))
    path = os.pathsep.join([str(BIN), os.environ.get("PATH", os.defpath)])
    variables = {**os.environ, "PATH": path, "VIRTUAL_ENV": str(VENV), **(environment or {})}
    found = shutil.which(program, path=path)
    if found is None:
        print(f"dev: {program} is not installed; remove {VENV} and try again", file=sys.stderr)
        return 127
    return subprocess.run([found, *arguments], cwd=cwd, env=variables, check=False).returncode


@contextlib.contextmanager
def showing_progress(what: str) -> Iterator[None]:
    """Print a message every few seconds until the context ends."""
    done = threading.Event()
    begun = time.monotonic()

    def tell() -> None:
        while not done.wait(SECONDS_BETWEEN_MESSAGES):
            print(f"    {what}: {time.monotonic() - begun:.0f} seconds so far", flush=True)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()


def step(text: str) -> None:
    """Print the name of the next step."""
    print(f"==> {text}", flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
