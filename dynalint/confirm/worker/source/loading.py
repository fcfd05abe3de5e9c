"""Import the code being checked the way its own project does. Uses only the standard library."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import linecache
import marshal
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, reduce
from itertools import takewhile
from pathlib import Path
from types import ModuleType
from typing import Any

from . import stand_ins

_INSTALLED = frozenset(("site-packages", "dist-packages"))


class LoadError(Exception):
    """The code being checked has no such module, class or function. The message is a sentence that says so."""


@cache
def real_path(file: str) -> str:
    """Return a resolved path. This is cached, because switching versions needs it for thousands of modules."""
    return os.path.realpath(file)


def file_of(module: object) -> str | None:
    """Return a module's file. Do not access attributes of lazy modules, because this may import something or fail."""
    try:
        file = object.__getattribute__(module, "__dict__").get("__file__")
    except AttributeError:  # `sys.modules` may contain any object.
        return None
    return file if isinstance(file, str) else None


def prepare(search: Iterable[str], overrides: Mapping[str, str]) -> None:
    """Put `search` first in `sys.path`, and make the modules in `overrides` run from the given source text.

    Folders inside packages come last, because their modules may have the names of installed packages.
    `overrides` maps absolute paths to source text. Tracebacks and Dynamo's reports show this text too.
    """
    named = list(dict.fromkeys(search))
    inside = [entry for entry in named if Path(entry).with_name("__init__.py").is_file()]
    first = [entry for entry in named if entry not in inside]
    sys.path[:] = [*first, *(entry for entry in sys.path if entry not in named), *inside]
    if not any(isinstance(finder, _UnlistedFinder) for finder in sys.meta_path):
        sys.meta_path.append(_UnlistedFinder())
    if overrides and not any(isinstance(finder, _OverridingFinder) for finder in sys.meta_path):
        texts = {real_path(path): text for path, text in overrides.items()}
        sys.meta_path.insert(0, _OverridingFinder(texts))


class _OverridingFinder(importlib.abc.MetaPathFinder):
    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        # Any finder may find the file, such as the one for folders that cannot be listed, or the one for an editable
        # install.
        for finder in sys.meta_path:
            find = None if isinstance(finder, _OverridingFinder) else getattr(finder, "find_spec", None)
            spec = None if find is None else find(fullname, path, target)
            if spec is not None:
                return self.override(spec) if spec.origin is not None and spec.has_location else None
        return None

    def override(self, spec: importlib.machinery.ModuleSpec) -> importlib.machinery.ModuleSpec | None:
        origin = str(spec.origin)
        text = self._texts.get(real_path(origin))
        if text is not None:
            spec.loader = _TextLoader(spec.name, origin, text)
        elif type(spec.loader) is importlib.machinery.SourceFileLoader:
            spec.loader = _FileLoader(spec.name, origin)
        else:
            return None
        return spec


class _UnlistedFinder(importlib.abc.MetaPathFinder):
    """Finds modules in folders that Python cannot list but whose files are readable."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        for folder in sys.path if path is None else ():
            if not _is_listed(folder):
                for file in (Path(folder, fullname, "__init__.py"), Path(folder, f"{fullname}.py")):
                    if file.is_file():
                        return importlib.util.spec_from_file_location(fullname, file)
        return None


def _is_listed(folder: str) -> bool:
    try:
        with os.scandir(folder or "."):
            return True
    except PermissionError:
        return False
    except OSError:
        return True


class _TextLoader(importlib.machinery.SourceFileLoader):
    """Loads a module from text instead of its file. Compiled files are neither read nor written."""

    def __init__(self, fullname: str, path: str, text: str) -> None:
        super().__init__(fullname, path)
        self._text = text

    def get_code(self, fullname: str) -> Any:
        # linecache does not compare an entry without a modification time with the disk.
        linecache.cache[self.path] = (len(self._text), None, self._text.splitlines(keepends=True), self.path)
        return _compiled_once((self.path, self._text), lambda: self.source_to_code(self._text.encode(), self.path))

    def get_source(self, fullname: str) -> str:
        return self._text


class _FileLoader(importlib.machinery.SourceFileLoader):
    """Loads a module from its file, which is compiled only once for all versions of the project."""

    def get_code(self, fullname: str) -> Any:
        key = self.path, *self.path_stats(self.path).values()
        return _compiled_once(key, lambda: super(_FileLoader, self).get_code(fullname))


_compiled: dict[tuple[Any, ...], bytes] = {}


def _compiled_once(key: tuple[Any, ...], compiled: Callable[[], Any]) -> Any:
    """Return a new code object each time, because Dynamo keeps what it compiles for each code object."""
    if key not in _compiled:
        _compiled[key] = marshal.dumps(compiled())
    return marshal.loads(_compiled[key])  # noqa: S302 - written above


_once: dict[tuple[str, str], ModuleType | BaseException] = {}


def runs_text(module: ModuleType, text: str) -> bool:
    """Return whether a module ran from this text instead of from its file."""
    spec = getattr(module, "__spec__", None)
    loader = getattr(spec, "loader", None)
    return isinstance(loader, _TextLoader) and loader.get_source(module.__name__) == text


def import_once(path: str, name: str) -> None:
    """Import a file now. `load_module` then returns this module or raises this exception."""
    try:
        _once[path, name] = load_module(path, name)
    except BaseException as error:  # noqa: BLE001 - user code may raise anything
        _once[path, name] = error


def load_module(path: str, name: str) -> ModuleType:
    """Import the file `path`, as module `name` if the name refers to this file, or else as a part of its package.

    A file that is not in a package is imported by its path. Raises whatever the module raises, and LoadError if the
    file does not exist.
    """
    known = _once.get((path, name))
    if isinstance(known, BaseException):
        raise known
    if known is not None:
        return known
    if not Path(path).is_file():
        raise LoadError(f"{path} does not exist")
    named = _imported(path, name) if name else None
    return named or _load_in_package(path) or _load_by_path(path, name)


def _imported(path: str, name: str) -> ModuleType | None:
    try:
        module = stand_ins.tolerating(lambda: importlib.import_module(name), name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise
        return None
    return module if _same_file(file_of(module), path) else None


def _load_in_package(path: str) -> ModuleType | None:
    """Import a file by its name in one of its packages, outermost first. Another `src` may hide `src.package`."""
    file = Path(path)
    folders = list(takewhile(lambda folder: (folder / "__init__.py").is_file(), file.parents))
    inside = [*(folder.name for folder in reversed(folders)), *([] if file.name == "__init__.py" else [file.stem])]
    # A repository may be a package too, and contain the package of the same name that its code means.
    for folder in reversed(folders):
        sys.path.insert(0, str(folder.parent))
        module = _imported(path, ".".join(inside))
        if module is not None:
            return module
        sys.path.remove(str(folder.parent))
        inside = inside[1:]
    return None


def _same_file(one: str | None, other: str) -> bool:
    return one is not None and Path(one).resolve() == Path(other).resolve()


def _load_by_path(path: str, name: str) -> ModuleType:
    """Run a file that is not part of a package. Its folder goes first on the search path, and it is not `__main__`."""
    stem = Path(path).stem
    name = stem if stem.isidentifier() and stem not in sys.modules else f"_dynalint_target_{abs(hash((path, name)))}"
    sys.path.insert(0, str(Path(path).parent))
    spec = importlib.util.spec_from_file_location(name, path)
    for finder in sys.meta_path:
        if isinstance(finder, _OverridingFinder) and spec is not None:
            spec = finder.override(spec) or spec
    if spec is None or spec.loader is None:
        raise LoadError(f"{path} is not a Python file")
    module, loader = importlib.util.module_from_spec(spec), spec.loader
    sys.modules[name] = module
    try:
        stand_ins.tolerating(lambda: loader.exec_module(module))
    except BaseException:
        del sys.modules[name]
        raise
    return module


def load_target(target: Mapping[str, str]) -> Any:
    """Return the object that `{"path", "module", "qualname"}` names.

    Raises LoadError if the module does not have it.
    """
    module = load_module(target["path"], target["module"])
    return _attribute(module, target["qualname"], target["path"])


def load_reference(reference: str, folder: str) -> Any:
    """Return the object named "package.module:name" or "path/to/file.py:name". Paths are relative to `folder`."""
    where, _, qualname = reference.rpartition(":")
    if where.endswith(".py"):
        path = str(Path(folder, where))
        return _attribute(load_module(path, ""), qualname, where)
    return _attribute(importlib.import_module(where), qualname, where)


def _attribute(module: ModuleType, qualname: str, where: str) -> Any:
    try:
        return reduce(getattr, qualname.split("."), module)
    except AttributeError:
        raise LoadError(f"{where} has no {qualname!r} once it is imported") from None


_known: list[tuple[str, str]] = []
_last_known = ""


def remember_modules() -> None:
    """Remember the files of all imported modules, so that forks only need to look at new ones.

    A fork copies the memory that it touches, and thousands of modules make up most of that memory.
    """
    global _last_known  # noqa: PLW0603 - state of the whole process
    _known[:] = module_files()
    _last_known = next(reversed(sys.modules))
    _known_below.cache_clear()


def module_files() -> list[tuple[str, str]]:
    """Return the file of each imported module, both as given by the module and resolved."""
    return [*_known, *_new_files()]


def _new_files() -> list[tuple[str, str]]:
    """Return the same for modules that were imported since `remember_modules`."""
    # Later imports come after the last known module. If that module is gone, all modules count as new, which only costs
    # time. No other Python code runs in between, so no user thread can import anything else in the meantime.
    new = list(takewhile(_last_known.__ne__, reversed(sys.modules)))
    files = (file_of(sys.modules.get(name)) for name in reversed(new))
    return [(file, real_path(file)) for file in files if file is not None]


def imported_files(roots: Iterable[str]) -> list[str]:
    """Return the source files below `roots` that this process has imported, sorted.

    Packages that are installed below a root, for example in an environment inside the project, do not count. A root may
    itself be an installed package.
    """
    folders = tuple(real_path(root) for root in roots)
    return sorted(_known_below(folders) | _below(_new_files(), folders))


def modules_below(roots: Iterable[str]) -> list[ModuleType]:
    """Return the imported modules whose source files are below `roots`."""
    files = set(imported_files(roots))
    return [
        one for one in list(sys.modules.values()) if (file := file_of(one)) is not None and real_path(file) in files
    ]


@cache
def _known_below(folders: tuple[str, ...]) -> frozenset[str]:
    return _below(_known, folders)


def _below(files: Iterable[tuple[str, str]], folders: tuple[str, ...]) -> frozenset[str]:
    near = {Path(path) for _, path in files if path.startswith(folders) and path.endswith(".py")}
    below = (path for path in near if any(is_below(path, Path(folder)) for folder in folders))
    # Some modules name a file that does not exist. For example, `torch.ops` says "_ops.py".
    return frozenset(str(path) for path in below if path.is_file())


def is_below(path: Path, root: Path) -> bool:
    """Return whether a resolved path is `root` or is inside it. Packages installed below `root` do not count."""
    return path.is_relative_to(root) and _INSTALLED.isdisjoint(path.relative_to(root).parts)
