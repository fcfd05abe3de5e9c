"""Build docs/gallery, with real graph breaks in published packages, dynalint's fixes, and what the authors did.

    python scripts/build_gallery.py [--only PAGE] [--work FOLDER] [--clones FOLDER] [--index]

Each case in docs/gallery/cases.toml becomes a page. Packages come from the package index. If a case names a commit, the
package comes from a clone in `--clones`, in `owner+name` or `owner+name/repo`, or from GitHub. The interpreter that
runs this script needs dynalint and torch. If a case cannot be built, this is reported, and its page stays unchanged.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

ROOT = Path(__file__).resolve().parent.parent
GALLERY = ROOT / "docs" / "gallery"
_SECONDS = 1800
_MOST_FINDINGS = 3


class CannotBuildError(Exception):
    """A case cannot be built. The message says what to do about it."""


@dataclass(frozen=True)
class Case:
    """A break: a package at a version or commit, the file and lines, how to call it, and what the authors did.

    `tests` are arguments for pytest. `driver` is Python code that defines `target` and `calls`. `options` are passed to
    `check` and `fix`.
    """

    page: str
    title: str
    package: str
    version: str
    file: str
    lines: tuple[int, int]
    about: str
    driver: str
    repo: str = ""
    folder: str = ""
    sdist: bool = False
    requires: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    people: str = ""
    link: str = ""
    better: str = ""
    patch: str = ""


@dataclass(frozen=True)
class Result:
    """The result of running a case. `before` and `after` are the output of `gallery_probe.py`."""

    said: str
    diff: str
    before: dict[str, Any]
    after: dict[str, Any]
    tests_before: str
    tests_after: str
    seconds: int
    torch: str


def read_cases(path: Path) -> list[Case]:
    """Return the cases in a TOML file."""
    listed = tomllib.loads(path.read_text(encoding="utf-8"))["case"]
    found: list[dict[str, Any]] = [
        {name: tuple(one) if isinstance(one, list) else one for name, one in case.items()} for case in listed
    ]
    return [Case(**one) for one in found]


def run(command: Sequence[str | Path], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, with additional environment variables."""
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
    )


def prepared(work: Path, requires: Sequence[str]) -> Path:
    """Return the interpreter of an environment with the requirements, and with the torch of this interpreter."""
    python = work / "venv" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", work / "venv"], check=True)
        own = next(one for one in sys.path if one.endswith("site-packages"))
        lent = next((work / "venv" / "lib").iterdir()) / "site-packages" / "torch_of_dynalint.pth"
        # `addsitedir` also finds editable installs there, such as dynalint and its pytest plugin.
        lent.write_text(f"import site; site.addsitedir({own!r})\n")
    if requires:
        ran = run([python, "-m", "pip", "install", "-q", *requires], work)
        if ran.returncode:
            raise CannotBuildError(f"pip could not install {' '.join(requires)}: {ran.stderr.strip()[-300:]}")
    return python


def unpack(case: Case, work: Path, clones: Path | None, folder: Path) -> None:
    """Write a case's source to a folder, as a repository with a single commit."""
    if case.repo:
        clone = clone_of(case, work, clones)
        archive = subprocess.Popen(["git", "-C", clone, "archive", case.version], stdout=subprocess.PIPE)
        subprocess.run(["tar", "x", "-C", folder], stdin=archive.stdout, check=True)
        if archive.wait():
            raise CannotBuildError(f"{clone} has no commit {case.version}: fetch it there")
    else:
        form = ["--no-binary", ":all:", "--no-build-isolation"] if case.sdist else ["--only-binary", ":all:"]
        wanted = f"{case.package}=={case.version}"
        with tempfile.TemporaryDirectory() as name:
            ran = run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", *form, "-d", name, wanted], work)
            found = list(Path(name).iterdir())
            if not found:
                raise CannotBuildError(f"pip cannot download {wanted}: {ran.stderr.strip()[-300:]}")
            if case.sdist:
                subprocess.run(["tar", "xf", found[0], "-C", folder, "--strip-components=1"], check=True)
            else:
                subprocess.run([sys.executable, "-m", "zipfile", "-e", found[0], folder], check=True)
    for command in (["init", "-q"], ["add", "-A", "-f"], ["commit", "-qm", "as released", "--no-verify"]):
        named = ["-c", "user.name=gallery", "-c", "user.email=gallery@localhost"]
        subprocess.run(["git", *named, *command], cwd=folder, check=True, capture_output=True)


def clone_of(case: Case, work: Path, clones: Path | None) -> Path:
    """Return a clone of the case's repository, which is created if there is none."""
    name = case.repo.replace("/", "+")
    for clone in ((clones or work) / name / "repo", (clones or work) / name):
        if clone.exists():
            return clone
    address = f"https://github.com/{case.repo}"
    ran = run(["git", "clone", "-q", "--bare", "--filter=blob:none", address, work / name], work)
    if ran.returncode:
        raise CannotBuildError(f"git cannot clone {address}; put a clone into a folder as {name}, and pass --clones")
    return work / name


def findings_said(output: str, file: str, lines: tuple[int, int]) -> str:
    """Return the findings on the given lines from the text output of `check`."""
    blocks = re.split(r"\n\s*\n(?=DYN\d)", output.strip())
    kept = []
    for block in blocks:
        place = re.search(rf"--> {re.escape(file)}:(\d+):", block)
        if place and lines[0] <= int(place[1]) <= lines[1]:
            kept.append(block.split("\n\n")[0].rstrip())
    more = f"\n\n({len(kept) - _MOST_FINDINGS} more)" if len(kept) > _MOST_FINDINGS else ""
    return "\n\n".join(kept[:_MOST_FINDINGS]) + more


def dynalint(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run dynalint in a folder."""
    return run([sys.executable, "-m", "dynalint", *arguments, "--isolated", "--no-cache", "-q"], folder, NO_COLOR="1")


def tested(case: Case, python: Path, folder: Path) -> str:
    """Return the last line of output from the project's own tests, without the time that they took."""
    if not case.tests:
        return ""
    command: list[str | Path] = [python, "-m", "pytest", "-q", "--color=no", "-p", "no:cacheprovider", *case.tests]
    # The environment that torch comes from may have plugins whose dependencies are missing here.
    plain = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "OMP_NUM_THREADS": "1"}
    ran = run(command, folder, PYTHONPATH=str(folder / case.folder), **plain)
    last = (ran.stdout.strip().splitlines() or ["no tests ran"])[-1]
    return without_frame(last)


def without_frame(line: str) -> str:
    """Return the last line of pytest's output without colours, frame and time."""
    return re.sub(r" in [\d.]+s.*$|^=+ ", "", re.sub(r"\x1b\[[\d;]*m", "", line))


def build(case: Case, work: Path, clones: Path | None) -> Result:
    """Run a case."""
    python = prepared(work, case.requires)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir=work) as name:
        folder = Path(name) / case.package
        folder.mkdir()
        unpack(case, work, clones, folder)
        driver = Path(name) / "driver.py"
        driver.write_text(case.driver, encoding="utf-8")

        def probe() -> dict[str, Any]:
            script = [ROOT / "scripts" / "gallery_probe.py", driver, Path(name) / "outputs.pt"]
            ran = run([python, *script], folder, PYTHONPATH=str(folder / case.folder), OMP_NUM_THREADS="1")
            if ran.returncode:
                raise CannotBuildError(f"the driver fails: {ran.stderr.strip()[-600:]}")
            found: dict[str, Any] = json.loads(ran.stdout.strip().splitlines()[-1])
            return found

        options = [one for one in case.options if one != "--static"]
        said = findings_said(dynalint(folder, "check", "--static", *options, case.file).stdout, case.file, case.lines)
        before, tests_before = probe(), tested(case, python, folder)
        fixed = dynalint(folder, "fix", "--apply", *case.options, "--python", str(python), case.file)
        diff = run(["git", "diff", "--no-prefix", "-U3"], folder).stdout
        if not said or not diff:
            raise CannotBuildError(f"nothing was {'fixed' if said else 'found'}: {fixed.stderr.strip()[-600:]}")
        after, tests_after = probe(), tested(case, python, folder)
        version = run([python, "-c", "import torch; print(torch.__version__.split('+')[0])"], folder).stdout.strip()
        shown = "\n".join(line for line in diff.splitlines() if not line.startswith(("diff --git", "index ")))
        seconds = round(time.monotonic() - started)
        return Result(said, shown, before, after, tests_before, tests_after, seconds, version)


def render(case: Case, result: Result) -> str:
    """Return the page for a case."""
    before, after = result.before, result.after
    source = f"[{case.version[:9]}](https://github.com/{case.repo}/tree/{case.version})" if case.repo else case.version
    options = " ".join(case.options)
    said = dynamo_said(before)
    compiles = ["no" if found["fullgraph"] else "yes" for found in (before, after)]
    is_hidden = before["fullgraph"] and not before["reasons"]
    hidden = [f"| compiles with `fullgraph=True` | {' | '.join(compiles)} |"] if is_hidden else []
    equal = "the same as before" if after["equals_before"] and after["compiled_equals_eager"] else "**different**"
    parts = [
        f"# {case.title}",
        f"{case.package} {source}, `{case.file}`, with torch {result.torch}.",
        case.about.strip(),
        "## What dynalint says",
        f"    dynalint check --static {case.file}\n\n```text\n{result.said}\n```",
        "## What Dynamo says",
        f"{said}\n\nThe call:\n\n```python\n{case.driver.strip()}\n```",
        "## The fix",
        f"    dynalint fix --apply {options + ' ' if options else ''}{case.file}\n\n```diff\n{result.diff}\n```",
        "\n".join(
            [
                "| | before | after |\n| --- | --- | --- |",
                f"| graphs | {before['graphs']} | {after['graphs']} |",
                f"| graph breaks | {before['breaks']} | {after['breaks']} |",
                *hidden,
                f"| graphs recompiled in {before['calls']} calls | {before['recompiled']} | {after['recompiled']} |",
                f"| results in eager and compiled code | | {equal} |",
            ]
        ),
    ]
    if case.tests and "passed" not in result.tests_before:
        parts.append("The project's tests could not be run here.")
    elif case.tests:
        shown = " ".join(f"'{one}'" if " " in one else one for one in case.tests)
        passed = f"{result.tests_before} before, {result.tests_after} after"
        parts.append(f"The project's tests, `pytest {shown}`: {passed}.")
    else:
        parts.append("The package does not include its tests, so none were run.")
    if case.people:
        commit = f" See [the commit]({case.link})." if case.link else ""
        parts += ["## What the project did", case.people.strip() + commit]
    if case.better:
        parts += ["## Which is better", case.better.strip()]
    if case.patch:
        parts.append(f"The fix is ready to be submitted: `gallery/patches/{case.patch}`.")
    return "\n\n".join(parts) + "\n"


def dynamo_said(found: dict[str, Any]) -> str:
    """Return what Dynamo says about a call, as Markdown."""
    if found["reasons"]:
        return "\n".join(f"- {one}" for one in found["reasons"])
    if found["fullgraph"]:
        return (
            "`torch._dynamo.explain` reports no graph break, because Dynamo gives up on the function before its first "
            f"operation and runs it in eager mode. With `fullgraph=True`, the error is `{found['fullgraph']}`."
        )
    return "No graph breaks, but a recompilation." if found["recompiled"] else "No graph breaks."


def index(cases: Sequence[Case]) -> str:
    """Return the index of the existing pages, with the figures given on them."""
    rows = []
    for case in cases:
        page = GALLERY / f"{case.page}.md"
        if not page.exists():
            continue
        text = page.read_text(encoding="utf-8")
        found = re.search(r"\| graph breaks \| (\d+) \| (\d+) \|", text)
        codes = ", ".join(sorted(set(re.findall(r"^DYN\d{3}", text, re.MULTILINE))))
        breaks = f"{found[1]} to {found[2]}" if found else ""
        version = case.version[:9] if case.repo else case.version
        rows.append(f"| [{case.title}]({case.page}.md) | {case.package} {version} | {codes} | {breaks} |")
    return (
        (GALLERY / "introduction.txt").read_text(encoding="utf-8").strip()
        + "\n\n"
        + "\n".join(["| case | package | rules | graph breaks |", "| --- | --- | --- | --- |", *rows, ""])
    )


def main() -> int:
    """Build the requested pages, and the index."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="PAGE")
    parser.add_argument("--work", type=Path, default=ROOT / ".gallery", help="a folder for the environment and clones")
    parser.add_argument("--clones", type=Path, help="a folder with clones, named owner+name")
    parser.add_argument("--index", action="store_true", help="write only the index")
    given = parser.parse_args()
    cases = read_cases(GALLERY / "cases.toml")
    failed = 0
    for case in [] if given.index else [one for one in cases if not given.only or one.page in given.only]:
        given.work.mkdir(parents=True, exist_ok=True)
        try:
            result = build(case, given.work.resolve(), given.clones)
        except (CannotBuildError, subprocess.SubprocessError, OSError) as fault:
            failed += 1
            print(f"{case.page}: not built: {fault}", flush=True)
        except Exception:  # noqa: BLE001 - the other pages are still built
            failed += 1
            traceback.print_exc()
        else:
            (GALLERY / f"{case.page}.md").write_text(render(case, result), encoding="utf-8")
            graphs = f"{result.before['graphs']} to {result.after['graphs']} graphs"
            print(f"{case.page}: {graphs}, {result.seconds} s", flush=True)
    (GALLERY / "README.md").write_text(index(cases), encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
