"""Run the commands in docs/one-graph.md, and write their output to the page.

    python scripts/build_walkthrough.py [--check]

A block that begins with `# NAME` is a file, and a line that begins with `$` is a command. Everything happens in a
temporary folder, in the order of the page. With `--check`, the page stays unchanged, and it is an error if the output
is different. The interpreter that runs this script needs dynalint and torch, and the packages come from the index.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "one-graph.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MODULES = {"pip": ("-m", "pip"), "dynalint": ("-m", "dynalint"), "python": ()}


def output_of(command: str, folder: Path) -> str:
    """Return the output of a command on a page. Python's tools come from this interpreter."""
    program, *arguments = shlex.split(command)
    if program in _MODULES:
        program, arguments = sys.executable, [*_MODULES[program], *arguments]
    ran = subprocess.run(
        [program, *arguments],
        cwd=folder,
        env={**os.environ, "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    # `dynalint` exits with 1 if there are findings.
    if ran.returncode > 1:
        raise SystemExit(f"{command} failed:\n{ran.stderr}")
    return "".join(f"{line.rstrip()}\n" for line in ran.stdout.splitlines())


def rebuilt(page: str, folder: Path) -> str:
    """Return a page with the output of its commands, which are run in a folder."""

    def block(found: re.Match[str]) -> str:
        language, text = found.groups()
        if language == "console":
            commands = re.findall(r"^\$ (.*)$", text, re.MULTILINE)
            text = "".join(f"$ {command}\n{output_of(command, folder)}" for command in commands)
        elif name := re.match(r"# (\w+\.\w+)\n", text):
            (folder / name[1]).write_text(text, encoding="utf-8")
        return f"```{language}\n{text}```"

    return _BLOCK.sub(block, page)


def main() -> int:
    """Rebuild or check the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only compare")
    check = parser.parse_args().check
    page = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        new = rebuilt(page, Path(folder))
    if check:
        sys.stdout.writelines(difflib.unified_diff(page.splitlines(keepends=True), new.splitlines(keepends=True)))
        return int(new != page)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
