"""Find the interpreter that has the user's torch if the settings do not name one.

dynalint uses the first environment that contains torch, in this order: the activated virtual or conda environment
(`VIRTUAL_ENV`, `CONDA_PREFIX`), the environment that runs dynalint, and a `.venv` or `venv` folder in the project,
either next to the configuration or in a parent folder. This is where uv, poetry and most people create it. No
interpreter is started to find it.

An environment in the project could be part of a hostile checkout. It is only used if git does not track it or, if git
cannot tell, if the user trusts the project.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dynalint.config import Settings, show_path
from dynalint.projects.git import is_tracked
from dynalint.projects.reading import project_root
from dynalint.rulebook.releases import release_of

_FOLDERS = (".venv", "venv")
_PACKAGES = ("Lib/site-packages", "lib/python3.*/site-packages", "lib64/python3.*/site-packages")


@dataclass(frozen=True, slots=True)
class Choice:
    """The interpreter to run code with, and the environments that have torch but are not trusted."""

    python: Path
    passed_over: tuple[Path, ...] = ()

    def notes(self, directory: Path) -> list[str]:
        """Return a sentence for each untrusted environment. Paths are relative to `directory`."""
        return [
            f"{show_path(prefix, directory)} has torch but is not used, because it may have come with the project; "
            "activate it, pass it as --python or, if git does not track it, run `dynalint trust`."
            for prefix in self.passed_over
        ]


def find_interpreter(project: Path, *, trusted: bool = False, environment: Mapping[str, str] = os.environ) -> Choice:
    """Choose the interpreter for the code in `project`, or dynalint's own interpreter if no environment has torch.

    `project` is the configuration's folder, and `trusted` indicates whether the user trusts it.
    """
    own = Path(sys.executable)
    for prefix in _active(environment):
        if _has_torch(prefix):
            return Choice(_python(prefix))
    if importlib.util.find_spec("torch") is not None:
        return Choice(own)
    passed_over: list[Path] = []
    for prefix in filter(_has_torch, _inside(project)):
        tracked = is_tracked(prefix)
        if tracked is False or (tracked is None and trusted):
            return Choice(_python(prefix), tuple(passed_over))
        passed_over.append(prefix)
    return Choice(own, tuple(passed_over))


def chosen_interpreter(settings: Settings) -> Choice:
    """Return the interpreter that the settings name or, if they name none, the interpreter that was found."""
    if settings.python is not None:
        return Choice(settings.python)
    return find_interpreter(settings.root, trusted=settings.trusted)


def release_for(settings: Settings) -> str | None:
    """Return the torch releases to check against, from the settings or the environment, or None if unknown."""
    if settings.torch is not None:
        return settings.torch
    version = installed_torch(chosen_interpreter(settings).python)
    return release_of(version) if version is not None else None


def installed_torch(python: Path) -> str | None:
    """Return the version of torch that is installed for an interpreter, based on its metadata, or None if not found."""
    if python == Path(sys.executable):
        try:
            return importlib.metadata.version("torch")
        except importlib.metadata.PackageNotFoundError:
            return None
    found = (match for place in _PACKAGES for match in _prefix(python).glob(f"{place}/torch-*.dist-info"))
    return next((match.name.removesuffix(".dist-info").partition("-")[2] for match in found), None)


def package_folders(settings: Settings) -> tuple[Path, ...]:
    """Return the folders of installed packages of the chosen interpreter, which are found by their path only."""
    python = chosen_interpreter(settings).python
    if python == Path(sys.executable):
        folders = (Path(one) for one in sys.path if Path(one).name in ("site-packages", "dist-packages"))
        return tuple(dict.fromkeys(folders))
    return tuple(dict.fromkeys(match for place in _PACKAGES for match in _prefix(python).glob(place)))


def _active(environment: Mapping[str, str]) -> Iterator[Path]:
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if environment.get(name):
            yield Path(environment[name])


def _inside(project: Path) -> Iterator[Path]:
    """Yield the possible locations of a project environment, from the project's folder up to the project root."""
    root = project_root(project)
    for folder in (project, *project.parents):
        if not folder.is_relative_to(root):
            return
        for name in _FOLDERS:
            yield folder / name


def _has_torch(prefix: Path) -> bool:
    found = (match for place in _PACKAGES for match in prefix.glob(f"{place}/torch/version.py"))
    return _python(prefix).exists() and next(found, None) is not None


def _prefix(python: Path) -> Path:
    return python.parent if os.name == "nt" and python.parent.name != "Scripts" else python.parent.parent


def _python(prefix: Path) -> Path:
    if os.name == "nt":
        script = prefix / "Scripts" / "python.exe"
        return script if script.exists() else prefix / "python.exe"
    return prefix / "bin" / "python"
