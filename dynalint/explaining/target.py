"""Find out what to run from "package.module:Class", "path/to/file.py:Class" or "file.py::Class"."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from dynalint.analysis.disk import Disk
from dynalint.config import Configuration, nearest
from dynalint.confirm import ConfirmOptions, Target
from dynalint.confirming import confirm_options, targets
from dynalint.errors import UsageError
from dynalint.linting.lint import Linter
from dynalint.projects.workspace import Workspace, absolute, open_workspace
from dynalint.rules import all_rules


def find_targets(
    text: str, configuration: Configuration, directory: Path
) -> tuple[list[Target], ConfirmOptions, Workspace]:
    """Return the targets that `text` names, the options for running them, and the workspace that contains their file.

    A file without a name stands for all models and compiled functions in it, in order.

    Raises:
        UsageError: If the file or module does not exist, or the name is ambiguous.
        ConfigError: If the configuration is invalid.
    """
    where, qualname = _split(text)
    path = _file(where, configuration, directory)
    workspace, found = open_workspace([path], configuration, directory)
    if found.notes and path not in workspace.files:
        raise UsageError(found.notes[0])
    result = Linter(workspace, all_rules()).lint()
    options = confirm_options(workspace, result.analysis.project.roots)
    module = result.analysis.project.modules.get(path)
    known = [target for target in targets(workspace, result) if target.path == path]
    if module is not None:
        order = {name: number for number, name in enumerate(module.bindings)}
        known.sort(key=lambda target: order.get(target.qualname.split(".")[0], 0))
    if not qualname:
        if not known:
            raise UsageError(
                f"{text} contains no nn.Module and nothing that is passed to torch.compile; name what to run."
            )
        return known, options, workspace
    name = qualname.split(".")[0]
    if module is not None and name not in module.bindings and not module.stars:
        hint = nearest(name, sorted(module.bindings)) or _listed(known)
        raise UsageError(f'{workspace.shown(path)} has no "{qualname}"{hint}.')
    return [Target(path, module.name if module is not None else "", qualname)], options, workspace


def _split(text: str) -> tuple[str, str]:
    """Split `text` into the file or module, with a Windows drive's colon, and the name, which can be empty."""
    for separator in ("::", ":"):
        where, found, qualname = text.rpartition(separator)
        if found and all(part.isidentifier() for part in qualname.split(".")):
            return where, qualname
    return text, ""


def _file(where: str, configuration: Configuration, directory: Path) -> Path:
    if where.endswith(".py") or "/" in where or "\\" in where:
        path = absolute(Path(where), directory)
        if not path.is_file():
            raise UsageError(f"no such file: {where}")
        return path
    settings = configuration.for_directory(directory)
    parts = where.split(".")
    starts = dict.fromkeys(
        [directory, directory / "src", settings.root, settings.root / "src", *map(Path, filter(None, sys.path))]
    )
    if all(part.isidentifier() for part in parts):
        for start in starts:
            for path in _candidates(start, parts):
                if path.is_file():
                    return absolute(path, directory)
    raise UsageError(f'no module "{where}" was found here; name a file: dynalint explain path/to/{parts[-1]}.py:Name')


def _candidates(start: Path, parts: list[str]) -> Iterator[Path]:
    yield start.joinpath(*parts).with_suffix(".py")
    yield start.joinpath(*parts, "__init__.py")


def _listed(known: list[Target]) -> str:
    names = [target.qualname for target in known[:8]]
    more = f" and {len(known) - 8} more" if len(known) > 8 else ""
    return f"; it has {', '.join(names)}{more}" if names else ""


def own_folder(path: Path) -> Path:
    """Return the package that contains a file, or the file itself.

    This counts as the user's own code, wherever it is.
    """
    root, parts = Disk().package_root(path)
    return root / parts[0] if (root / parts[0]).is_dir() else path
