"""Different versions of a project imported side by side in the same process. Uses only the standard library.

Each version has its own copies of the project's modules and its own environment variables, but shares installed
packages. A version's modules are in `sys.modules` only while it is active. Its code must run under `active()`, because
it may import more modules at any time.
"""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from .loading import file_of, is_below, prepare, real_path, runs_text


class Version:
    """The project with the text of some files replaced.

    `search` goes first in `sys.path`, and `overrides` maps absolute paths to source text. Modules below `search` and
    `roots`, and modules in packages with overridden files, belong to the version.
    """

    def __init__(self, search: Iterable[str], roots: Iterable[str], overrides: Mapping[str, str]) -> None:
        self._search = tuple(search)
        self._overrides = dict(overrides)
        folders = {Path(folder).resolve() for folder in (*self._search, *roots)}
        self._folders = frozenset(folders | {_package_folder(Path(path).resolve()) for path in overrides})
        self._lines = {
            file: (len(text), None, text.splitlines(keepends=True), file) for file, text in self._overrides.items()
        }
        self._modules: dict[str, ModuleType] = {}
        self._path: list[str] | None = None
        self._environment: dict[Any, Any] | None = None
        self._files = frozenset(str(Path(path).resolve()) for path in overrides)
        self._overridden: dict[str, bool] = {}
        self._foreign = _foreign_to(self._folders)
        self._owned_names: dict[tuple[int, str, int], tuple[str, ...]] = {}
        self._depth = 0

    @contextmanager
    def active(self) -> Iterator[None]:
        """Activate this version's modules. This can be nested, but no other version may be active."""
        if self._depth:
            yield
            return
        path, finders, environment = sys.path[:], sys.meta_path[:], _environment()
        others = self._owned()
        for name in others:
            del sys.modules[name]
        sys.modules.update(self._modules)
        # Changes that its code makes to the path and the environment belong to the version.
        sys.path[:] = self._path or path
        _set_environment(environment if self._environment is None else self._environment)
        prepare(self._search, self._overrides)
        linecache.cache.update(self._lines)
        self._depth = 1
        try:
            yield
        finally:
            self._depth = 0
            self._modules = self._owned()
            for name in self._modules:
                del sys.modules[name]
            sys.modules.update(others)
            self._path, self._environment = sys.path[:], _environment()
            sys.path[:], sys.meta_path[:] = path, finders
            _set_environment(environment)

    def modules(self) -> Iterator[ModuleType]:
        """Yield the imported modules whose files this version overrides."""
        for module in [*self._modules.values(), *(self._owned().values() if self._depth else ())]:
            file = file_of(module)
            if file is not None and self._overrides_file(file):
                yield module

    def untouched(self) -> str | None:
        """Return a file that this version overrides although a module ran it from disk, or None."""
        texts = {real_path(path): text for path, text in self._overrides.items()}
        files = ((module, str(file_of(module))) for module in self.modules())
        return next((file for module, file in files if not runs_text(module, texts[real_path(file)])), None)

    def _owned(self) -> dict[str, ModuleType]:
        """Return the active modules that belong to this version, by name."""
        # This is called at every switch, with thousands of modules. A new import always becomes the last module.
        last = next(reversed(sys.modules))
        state = (len(sys.modules), last, id(sys.modules[last]))
        names = self._owned_names.get(state)
        if names is None:
            names = self._owned_names[state] = tuple(self._look_through())
        return {name: sys.modules[name] for name in names if name in sys.modules}

    def _look_through(self) -> Iterator[str]:
        # An installed module keeps its name.
        for name in sys.modules.keys() - self._foreign:
            if any(_is_in_any(place, self._folders) for place in _places(sys.modules[name])):
                yield name
            else:
                self._foreign.add(name)

    def _overrides_file(self, file: str) -> bool:
        known = self._overridden.get(file)
        if known is None:
            known = self._overridden[file] = real_path(file) in self._files
        return known


def _places(module: ModuleType) -> list[str]:
    """Return a module's file or, if it is a folder without `__init__.py`, its folders.

    Such a package looks its parent up in `sys.modules`, so it has to come and go with it.
    """
    file = file_of(module)
    if file is not None:
        return [file]
    with suppress(Exception):  # anything can be in `sys.modules`
        folders = object.__getattribute__(module, "__dict__").get("__path__", ())
        return [folder for folder in folders if isinstance(folder, str)]
    return []


@cache
def _foreign_to(_: frozenset[Path]) -> set[str]:
    """Return the names of modules known to be outside these folders, in a set that all their versions share."""
    return set()


def _is_in_any(file: str, folders: frozenset[Path]) -> bool:
    # Nearly all of the thousands of modules are elsewhere, and comparing texts takes a tenth of the time.
    path = real_path(file)
    return any(path.startswith(str(folder)) and is_below(Path(path), folder) for folder in folders)


def _environment() -> dict[Any, Any]:
    # The environment is not decoded, because decoding would take most of the time needed to switch versions.
    return dict(os.environ._data)  # type: ignore[attr-defined]  # noqa: SLF001


def _set_environment(wanted: Mapping[Any, Any]) -> None:
    now = _environment()
    if now == wanted:
        return
    environment: Any = getattr(os, "environb", os.environ)
    for name in now.keys() - wanted.keys():
        del environment[name]
    for name, value in wanted.items():
        if now.get(name) != value:
            environment[name] = value


def _package_folder(path: Path) -> Path:
    """Return the top folder of the package that contains a file, or the file itself if it is not in a package."""
    folder = path.parent
    if not (folder / "__init__.py").is_file():
        return path
    while (folder.parent / "__init__.py").is_file():
        folder = folder.parent
    return folder
