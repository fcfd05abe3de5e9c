"""Stand-ins for packages that cannot be imported, so that code that does not use them can be imported and run.

A package that a module only imports for a base class, a decorator or an annotation need not be there. While modules
are imported, a stand-in accepts what is done to it. Afterwards, using it raises the error that importing the package
raised. What runs is therefore what would also run with the package. Uses only the standard library.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from types import FrameType, ModuleType
from typing import Any, TypeVar

_T = TypeVar("_T")
_MOST = 12
_NO_PART = re.compile(r"cannot import name '(\w+)' from '([\w.]+)'")
_INSTALLED = re.compile(r"\b(?:site|dist)-packages\W(\w+)")
# While modules are imported, they may compare this with a release.
_VERSION = "0.0.0"
_IMPORTING = "<frozen importlib._bootstrap>"
_absent: dict[str, str] = {}
"""What has stand-ins, and the error that an installed package raises when it is imported."""


def names() -> list[str]:
    """Return the packages, and the parts of other releases of packages, that have stand-ins, sorted."""
    return sorted(_absent)


def noted(text: str) -> str:
    """Return the description of a call with a remark about what is missing, if the description has none yet."""
    missing = " and ".join(f"`{name}`" for name in names())
    remark = f" (with a stand-in for {missing}, which cannot be imported)" if missing else ""
    return text if text.endswith(remark) else text + remark


def tolerating(act: Callable[[], _T], own: str = "") -> _T:
    """Do something that imports modules, again with a stand-in for each package that is missing.

    If this does not help, withdraw the stand-ins and raise the first error. The module `own` gets no stand-in.
    """
    before, first = dict(_absent), None
    while True:
        try:
            return act()
        except Exception as error:  # noqa: BLE001 - user code may raise anything
            first = first or error
            if len(_absent) - len(before) >= _MOST or not provided(error, own):
                break
    for name in _absent.keys() - before.keys():
        _withdraw(name)
    raise first


def provided(error: BaseException, own: str = "") -> bool:
    """Provide a stand-in for what an error says is missing, or what its causes say. Return whether this may help."""
    causes = _causes(error)
    missing = any(provide(one.name or "", own) if _is_absent(one) else _provide_part(str(one)) for one in causes)
    return missing or _provide_broken(error, own)


def provide(name: str, own: str = "") -> bool:
    """Provide a stand-in for a package, unless it is installed or contains the module `own`."""
    top = name.partition(".")[0]
    if not top.isidentifier() or top in _absent or top in sys.modules or top == own.partition(".")[0]:
        return False
    with suppress(ImportError, ValueError):
        if importlib.util.find_spec(top) is not None:
            return False
    _replace(top)
    return True


def _replace(package: str, error: str = "") -> None:
    _absent[package] = error
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _provide_broken(error: BaseException, own: str) -> bool:
    """Provide a stand-in for an installed package that raises an error when it is imported, as if for another torch."""
    frames = (frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__))
    places = [code.co_filename for code in frames if code.co_name == "<module>"]
    found = _INSTALLED.search(places[-1]) if places else None
    if found is None or found[1] in (*_absent, "torch", own.partition(".")[0]):
        return False
    _forget(found[1])
    _replace(found[1], f"{type(error).__name__}: {error}")
    return True


def _provide_part(message: str) -> bool:
    """Provide a stand-in for what another release of an installed package contains."""
    found = _NO_PART.match(message)
    module = sys.modules.get(found[2]) if found is not None else None
    if found is None or module is None or not _INSTALLED.search(str(vars(module).get("__file__"))):
        return False
    name = f"{found[2]}.{found[1]}"
    setattr(module, found[1], PackageNotInstalled(name))
    _absent[name] = ""
    return True


def _causes(error: BaseException | None) -> Iterator[ImportError]:
    """Yield the import errors that led to an error. Code often explains them with one of its own."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, ImportError):
            yield error
        error = error.__cause__ or error.__context__


def _is_absent(error: ImportError) -> bool:
    return type(error) is ModuleNotFoundError


def _withdraw(name: str) -> None:
    _absent.pop(name, None)
    owner, _, part = name.rpartition(".")
    if owner:
        delattr(sys.modules[owner], part)
    _forget(name)


def _forget(name: str) -> None:
    for module in [one for one in sys.modules if one.partition(".")[0] == name]:
        del sys.modules[module]


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        known = fullname.partition(".")[0] in _absent
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True) if known else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return ModuleNotInstalled(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


class ModuleNotInstalled(ModuleType):
    """A module of a package that is not installed."""

    def __getattr__(self, name: str) -> Any:
        return _attribute(self.__name__, name)


def _attribute(owner: str, name: str) -> Any:
    if name == "__version__":
        _check(owner)
        return _VERSION
    if name.startswith("__"):
        raise AttributeError(name)
    return PackageNotInstalled(f"{owner}.{name}")


def _check(name: str) -> None:
    """Raise an exception unless a module is being imported."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTING:
            return
        frame = frame.f_back
    top = name.partition(".")[0]
    if _absent.get(top):
        raise ImportError(f"{top} cannot be imported: {_absent[top]}")
    if top in _absent:
        raise ModuleNotFoundError(f"No module named {top!r}", name=top)
    lost = next((one for one in _absent if f"{name}.".startswith(f"{one}.")), None)
    if lost is None:  # it was withdrawn, but a module that was imported in the meantime has it
        raise ModuleNotFoundError(f"No module named {top!r}", name=top)
    owner, _, part = lost.rpartition(".")
    raise ImportError(f"cannot import name {part!r} from {owner!r}")


def _is_new(cls: type) -> bool:
    """Return whether a class has no name yet, because decorators are applied to it."""
    return getattr(sys.modules.get(cls.__module__), cls.__qualname__, None) is not cls


class PackageNotInstalled:
    """Any value of a package that is not installed."""

    __iter__ = __contains__ = None

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return _attribute("missing" if name == "_name" else self._name, name)

    def __call__(self, *args: Any, **_kwargs: Any) -> Any:
        """Return a decorated class as it is. A decorated function may become anything, so it cannot be called later."""
        _check(self._name)
        return args[0] if len(args) == 1 and isinstance(args[0], type) and _is_new(args[0]) else self

    def __eq__(self, other: object) -> bool:
        _check(self._name)
        return self is other

    __hash__ = object.__hash__

    def __getitem__(self, _item: Any) -> PackageNotInstalled:
        return self

    def __or__(self, _other: Any) -> PackageNotInstalled:
        return self

    __ror__ = __or__

    def __bool__(self) -> bool:
        _check(self._name)
        return False

    def __instancecheck__(self, _instance: object) -> bool:
        _check(self._name)
        return False

    def __subclasscheck__(self, _subclass: type) -> bool:
        _check(self._name)
        return False

    def __mro_entries__(self, _bases: tuple[Any, ...]) -> tuple[type]:
        name = self._name

        def absent(_cls: type, *_args: Any, **_kwargs: Any) -> Any:
            _check(name)
            return PackageNotInstalled(name)

        return (type(name.rpartition(".")[2], (), {"__new__": absent}),)
