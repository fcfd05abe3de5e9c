"""Find the interpreter that has the user's torch, where none is named.

The first of these whose environment holds torch: the activated virtual or conda environment (`VIRTUAL_ENV`,
`CONDA_PREFIX`), the one that runs dynalint, and a `.venv` or `venv` beside the configuration or above it, as uv, poetry
and most people make them. Nothing is started to find out.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

_FOLDERS = (".venv", "venv")


def find_interpreter(project: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the interpreter to run the code of `project` with; dynalint's own where no environment has torch."""
    own = Path(sys.executable)
    for prefix in _active(environment):
        if _has_torch(prefix):
            return _python(prefix)
    if importlib.util.find_spec("torch") is not None:
        return own
    return next((_python(prefix) for prefix in _beside(project) if _has_torch(prefix)), own)


def _active(environment: Mapping[str, str]) -> Iterator[Path]:
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if environment.get(name):
            yield Path(environment[name])


def _beside(project: Path) -> Iterator[Path]:
    for folder in (project, *project.parents):
        for name in _FOLDERS:
            yield folder / name


def _has_torch(prefix: Path) -> bool:
    places = ("Lib/site-packages", "lib/python3.*/site-packages", "lib64/python3.*/site-packages")
    found = (match for place in places for match in prefix.glob(f"{place}/torch/version.py"))
    return _python(prefix).exists() and next(found, None) is not None


def _python(prefix: Path) -> Path:
    if os.name == "nt":
        script = prefix / "Scripts" / "python.exe"
        return script if script.exists() else prefix / "python.exe"
    return prefix / "bin" / "python"
