"""Importing the code under check as its project would."""

from __future__ import annotations

import importlib
import importlib.machinery
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, ModuleType

import pytest

from dynalint.confirm.worker.source import loading
from dynalint.confirm.worker.source.versions import Version


@pytest.fixture(autouse=True)
def fresh_imports() -> Iterator[None]:
    """Leave the interpreter's import state as it was."""
    path, finders, modules = sys.path[:], sys.meta_path[:], set(sys.modules)
    yield
    sys.path[:], sys.meta_path[:] = path, finders
    for name in set(sys.modules) - modules:
        del sys.modules[name]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "pkg_under_test"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "a.py").write_text("from .b import value\n\nclass A:\n    def f(self):\n        return value\n")
    (folder / "b.py").write_text("value = 1\n")
    return folder


def test_a_module_of_a_package_is_imported_by_its_name(package: Path) -> None:
    loading.prepare([str(package.parent)], {})
    found = loading.load_target({"path": str(package / "a.py"), "module": "pkg_under_test.a", "qualname": "A.f"})
    assert found.__module__ == "pkg_under_test.a"


def test_overrides_take_the_place_of_files_and_of_their_lines(package: Path) -> None:
    text = "value = 2\n\ndef which():\n    return value\n"
    loading.prepare([str(package.parent)], {str(package / "b.py"): text})
    cls = loading.load_target({"path": str(package / "a.py"), "module": "pkg_under_test.a", "qualname": "A"})
    assert cls().f() == 2
    which = loading.load_target({"path": str(package / "b.py"), "module": "pkg_under_test.b", "qualname": "which"})
    assert inspect.getsource(which) == "def which():\n    return value\n"
    assert (package / "b.py").read_text() == "value = 1\n"


def test_versions_share_compiled_files_but_no_code(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    original = importlib.machinery.SourceFileLoader.source_to_code

    def counted(self: importlib.machinery.SourceFileLoader, data: bytes, path: str, **options: int) -> CodeType:
        compiled.append(Path(path).name)
        return original(self, data, path, **options)

    monkeypatch.setattr(importlib.machinery.SourceFileLoader, "source_to_code", counted)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    texts = [f"value = {number}\n" for number in (2, 3, 2)]
    versions = [Version([str(package.parent)], [], {str(package / "b.py"): text}) for text in texts]
    codes, values = [], []
    for version in versions:
        with version.active():
            found = loading.load_target(
                {"path": str(package / "a.py"), "module": "pkg_under_test.a", "qualname": "A.f"}
            )
            codes.append(found.__code__)
            values.append(found(None))
    assert values == [2, 3, 2]
    assert sorted(compiled) == ["__init__.py", "a.py", "b.py", "b.py"]
    # Dynamo keeps what it compiles for each code object.
    assert len({id(code) for code in codes}) == 3
    (package / "a.py").write_text("class A:\n    def f(self):\n        return 'changed'\n")
    with Version([str(package.parent)], [], {str(package / "b.py"): texts[0]}).active():
        target = {"path": str(package / "a.py"), "module": "pkg_under_test.a", "qualname": "A.f"}
        assert loading.load_target(target)(None) == "changed"


def test_folders_without_init_in_a_package_belong_to_a_version(package: Path) -> None:
    """Such a package looks its parent up in `sys.modules` when a part of it is imported."""
    (package / "parts").mkdir()
    (package / "parts" / "first.py").write_text("from .. import b\n\ndef f():\n    return b.value\n")
    (package / "parts" / "later.py").write_text("from . import first\n\ndef f():\n    return -first.f()\n")
    texts = [f"value = {number}\n" for number in (2, 3)]
    versions = [Version([str(package.parent)], [], {str(package / "b.py"): text}) for text in texts]
    for name, sign in (("first", 1), ("later", -1)):
        found = []
        for version in versions:
            with version.active():
                path = str(package / "parts" / f"{name}.py")
                target = {"path": path, "module": f"pkg_under_test.parts.{name}", "qualname": "f"}
                found.append(loading.load_target(target)())
        assert found == [2 * sign, 3 * sign]
    assert "pkg_under_test.parts" not in sys.modules


def test_a_folder_without_init_in_a_package_hides_no_installed_package(package: Path, tmp_path: Path) -> None:
    inside, installed = package / "scripts", tmp_path / "installed"
    for folder, kind in ((inside, "own"), (installed, "installed")):
        folder.mkdir()
        (folder / "named_alike.py").write_text(f"kind = {kind!r}\n")
    (inside / "neighbour_alone.py").write_text("kind = 'own'\n")
    sys.path.append(str(installed))
    loading.prepare([str(inside), str(package.parent)], {})
    kinds = [importlib.import_module(name).kind for name in ("named_alike", "neighbour_alone")]
    assert kinds == ["installed", "own"]


def test_overrides_hold_for_files_loaded_by_path(tmp_path: Path) -> None:
    script = tmp_path / "my-script.py"
    script.write_text("kind = 'file'\n")
    loading.prepare([], {str(script): "kind = 'text'\n"})
    assert loading.load_module(str(script), "").kind == "text"


def test_overrides_hold_whichever_finder_finds_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of temporary files, for one, cannot be listed by code under check, so Python does not find them."""
    (tmp_path / "unlisted_module.py").write_text("kind = 'file'\n")
    monkeypatch.setattr(loading, "_is_listed", lambda _: False)
    monkeypatch.setattr(importlib.machinery.PathFinder, "find_spec", lambda *_: None)
    loading.prepare([str(tmp_path)], {str(tmp_path / "unlisted_module.py"): "kind = 'text'\n"})
    assert importlib.import_module("unlisted_module").kind == "text"


def test_a_script_is_not_main_and_finds_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_script.py").write_text("word = 'hello'\n")
    script = tmp_path / "script_under_test.py"
    script.write_text("from neighbour_of_script import word\nname = __name__\n")
    module = loading.load_module(str(script), "")
    assert (module.word, module.name) == ("hello", "script_under_test")


def test_a_file_with_the_name_of_an_imported_module_is_loaded_all_the_same(tmp_path: Path) -> None:
    script = tmp_path / "json.py"
    script.write_text("mine = True\n")
    assert loading.load_module(str(script), "json").mine
    assert not hasattr(sys.modules["json"], "mine")


def test_a_name_that_does_not_import_falls_back_to_the_path(tmp_path: Path) -> None:
    file = tmp_path / "lonely_module.py"
    file.write_text("x = 1\n")
    assert loading.load_module(str(file), "no_such_package.lonely_module").x == 1


def test_a_module_below_a_hidden_folder_is_imported_as_part_of_its_package(package: Path, tmp_path: Path) -> None:
    """A folder `src` is not a package, and loses to an installed package `src`, which some distributions leave behind."""
    other = tmp_path / "installed/src"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("")
    source = tmp_path / "project/src"
    source.mkdir(parents=True)
    package = package.rename(source / package.name)
    loading.prepare([str(source.parent), str(other.parent)], {})
    found = loading.load_module(str(package / "a.py"), "src.pkg_under_test.a")
    assert found.__name__ == "pkg_under_test.a"


def test_a_repository_that_is_a_package_may_contain_the_package_that_its_code_means(tmp_path: Path) -> None:
    inner = tmp_path / "pkg_twice/pkg_twice"
    inner.mkdir(parents=True)
    (inner.parent / "__init__.py").write_text("from pkg_twice import *\n")
    (inner / "__init__.py").write_text("")
    (inner / "core.py").write_text("value = 1\n")
    (inner / "a.py").write_text("from pkg_twice.core import value\n")
    loading.prepare([str(inner.parent), str(tmp_path)], {})
    found = loading.load_module(str(inner / "a.py"), "pkg_twice.pkg_twice.a")
    assert (found.__name__, found.value) == ("pkg_twice.a", 1)


def test_a_module_that_lacks_a_dependency_says_which(tmp_path: Path) -> None:
    (tmp_path / "needs_more.py").write_text("import no_such_dependency\nN = no_such_dependency.N + 1\n")
    loading.prepare([str(tmp_path)], {})
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
        loading.load_module(str(tmp_path / "needs_more.py"), "needs_more")


def test_what_is_imported_once_is_the_same_from_then_on_or_fails_alike(tmp_path: Path) -> None:
    (tmp_path / "once.py").write_text("x = []\n")
    (tmp_path / "never.py").write_text(
        "import sys\nsys.tried = getattr(sys, 'tried', 0) + 1\nraise KeyError(sys.tried)\n"
    )
    once, never = str(tmp_path / "once.py"), str(tmp_path / "never.py")
    loading.import_once(once, "")
    assert loading.load_module(once, "").x is loading.load_module(once, "").x
    loading.import_once(never, "")
    for _ in range(2):
        with pytest.raises(KeyError, match="1"):
            loading.load_module(never, "")


def test_what_is_not_there_is_named(package: Path) -> None:
    loading.prepare([str(package.parent)], {})
    with pytest.raises(loading.LoadError, match=r"a\.py has no 'B' once it is imported"):
        loading.load_target({"path": str(package / "a.py"), "module": "pkg_under_test.a", "qualname": "B"})
    with pytest.raises(loading.LoadError, match="does not exist"):
        loading.load_module(str(package / "c.py"), "pkg_under_test.c")


def test_references_are_modules_or_files(package: Path) -> None:
    loading.prepare([str(package.parent)], {})
    assert loading.load_reference("pkg_under_test.b:value", "/") == 1
    (package.parent / "examples_under_test.py").write_text("def make():\n    return 3\n")
    assert loading.load_reference("examples_under_test.py:make", str(package.parent))() == 3


def test_files_of_the_project_are_listed_without_what_is_installed_in_it(package: Path) -> None:
    installed = package.parent / ".venv" / "lib" / "site-packages"
    installed.mkdir(parents=True)
    (installed / "installed_under_test.py").write_text("")
    loading.prepare([str(package.parent), str(installed)], {})
    loading.load_module(str(package / "a.py"), "pkg_under_test.a")
    __import__("installed_under_test")
    names = [Path(file).name for file in loading.imported_files([str(package.parent)])]
    assert names == ["__init__.py", "a.py", "b.py"]
    assert [Path(file).name for file in loading.imported_files([str(installed)])] == ["installed_under_test.py"]


def test_files_imported_before_and_after_modules_were_remembered_are_listed(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "_known", [])
    monkeypatch.setattr(loading, "_last_known", "")
    loading.prepare([str(package.parent)], {})
    __import__("pkg_under_test.b")
    loading.remember_modules()
    known = len(loading.module_files())
    __import__("pkg_under_test.a")
    files = loading.module_files()
    assert [Path(file).name for _, file in files[known:]] == ["a.py"]
    assert loading.imported_files([str(package)]) == [str(package / name) for name in ("__init__.py", "a.py", "b.py")]
    # Where the last one has gone, all are looked at again.
    del sys.modules[loading._last_known]
    assert set(loading.module_files()) == set(files)


def test_modules_that_import_when_asked_for_anything_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lazy(ModuleType):
        def __getattr__(self, name: str) -> object:
            raise ImportError(f"{self.__name__} needs what is not installed")

    class Spying(ModuleType):
        def __getattribute__(self, name: str) -> object:
            raise AssertionError(name)

    monkeypatch.setitem(sys.modules, "lazy_under_test", Lazy("lazy_under_test"))
    monkeypatch.setitem(sys.modules, "spying_under_test", Spying("spying_under_test"))
    monkeypatch.setitem(sys.modules, "no_module_under_test", 3)
    known = ModuleType("known_under_test")
    known.__file__ = __file__
    monkeypatch.setitem(sys.modules, "known_under_test", known)
    assert (__file__, loading.real_path(__file__)) in loading.module_files()
