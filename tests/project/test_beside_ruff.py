"""The table of docs/beside-ruff.md: both tools are run, and do what it says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "beside-ruff.md"
_ROW = re.compile(r"\| ([^|]+) \| `(ruff [^|]+)` \| `(dynalint [^|]+)` \| (\d), (\d+) \| (\d), (\d+) \|")
_FINDING = re.compile(r"^\S+?:(?:cell \d+:)?\d+:\d+: ", re.MULTILINE)

BAD = """\
import os

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = 1
        if x.sum() > 0:
            return x
        print(x)
        return -x
"""
CELLS = [{"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": [BAD]}]
FILES = {
    "bad.py": BAD,
    "ok.py": "x = 1\n",
    "broken.py": "def f(:\n",
    "odd.toml": "nonsense = 1\n",
    "nb.ipynb": json.dumps({"cells": CELLS, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}),
    "silent.py": BAD.replace("import os", "import os  # noqa")
    .replace("y = 1", "y = 1  # noqa: F841")
    .replace("0:", "0:  # noqa: DYN101")
    .replace("print(x)", "print(x)  # noqa: DYN401"),
    "whole.py": "# ruff: noqa: F401, F841\n# dynalint: ignore-file[DYN1, DYN4]\n" + BAD,
    "unused.py": "x = 1  # noqa: F401\ny = 2  # dynalint: ignore[DYN101]\n",
    "empty/readme.txt": "",
    "ignored/.gitignore": "*.py\n",
    "ignored/bad.py": BAD,
    "nearest/ruff.toml": 'lint.ignore = ["F"]\n',
    "nearest/dynalint.toml": 'ignore = ["DYN"]\n',
    "nearest/bad.py": BAD,
    "ruff.toml": 'output-format = "concise"\nlint.select = ["F"]\n',
    "dynalint.toml": 'output-format = "concise"\nconfirm = "never"\n',
}


def rows() -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if match := _ROW.match(line):
            yield match[1].strip(), match[2], match[3], match.groups()[3:]


def ran(command: str, folder: Path) -> tuple[str, str]:
    """The exit code of a command and how many findings it has listed."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / ".git").mkdir(exist_ok=True)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("RUFF_", "DYNALINT_"))}
    environment |= {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]), "NO_COLOR": "1"}
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    return str(done.returncode), str(len(_FINDING.findall(done.stdout)))


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="runs bash")
def test_every_row(tmp_path: Path) -> None:
    wrong = []
    found = list(rows())
    assert len(found) > 40
    for number, (name, ruff, dynalint, said) in enumerate(found):
        seen = (*ran(ruff, tmp_path / f"{number}-ruff"), *ran(dynalint, tmp_path / f"{number}-dynalint"))
        if seen != said:
            wrong.append(f"{name}: said {said}, seen {seen}")
    assert not wrong, "\n".join(wrong)
