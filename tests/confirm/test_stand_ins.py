"""Code that needs a package that is not installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dynalint.confirm.worker.source import loading, stand_ins

CODE = """
import absent_one
import absent_two.part as part
from absent_one.more import Base, decorate, wrapped

try:
    import absent_three
    HAS_THREE = True
except ImportError:
    HAS_THREE = False

if part.has_feature() or absent_one.__version__ >= part.compat.__version__ + "1":
    raise RuntimeError("a stand-in has no features")

class Heir(Base):
    pass

@decorate("name")
class Plain:
    other: Base | None = None

    def double(self, x: part.Number["n"]):
        return 2 * x

    def use(self, x):
        return wrapped(x)

    def test(self, x):
        return isinstance(x, part.Number)

Changed = decorate("name")(Plain)

@wrapped
def function(x):
    return x
"""


@pytest.fixture(autouse=True)
def fresh_imports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    path, finders, modules = sys.path[:], sys.meta_path[:], set(sys.modules)
    monkeypatch.setattr(stand_ins, "_absent", {})
    yield
    sys.path[:], sys.meta_path[:] = path, finders
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def written(file: Path, text: str) -> Path:
    file.write_text(text)
    return file


def loaded(folder: Path, text: str) -> Any:
    return loading.load_module(str(written(folder / "code_with_needs.py", text)), "")


def test_code_that_does_not_use_a_missing_package_runs(tmp_path: Path) -> None:
    module = loaded(tmp_path, CODE)
    assert module.Plain().double(2) == 4
    assert not module.HAS_THREE
    assert stand_ins.names() == ["absent_one", "absent_two"]
    noted = stand_ins.noted("a call")
    assert noted == "a call (with a stand-in for `absent_one` and `absent_two`, which cannot be imported)"
    assert stand_ins.noted(noted) == noted


@pytest.mark.parametrize(
    "use",
    [
        lambda module: module.Plain().use(1),
        lambda module: module.Plain().test(1),
        lambda module: module.function(1),
        lambda module: module.Heir(),
        lambda module: bool(module.part.flag),
        lambda module: module.part.call(),
        lambda module: module.part.kind == "kind",
        lambda module: module.Changed(),
        lambda module: module.absent_one.__version__,
    ],
)
def test_code_that_uses_a_missing_package_raises_what_the_import_raised(use: Any, tmp_path: Path) -> None:
    module = loaded(tmp_path, CODE)
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'absent_(one|two)'"):
        use(module)


def test_an_explained_import_error_is_about_the_missing_package(tmp_path: Path) -> None:
    text = (
        "try:\n    import absent_one\nexcept ImportError:\n    raise ImportError('install it') from None\nvalue = 1\n"
    )
    assert loaded(tmp_path, text).value == 1


def test_what_another_release_of_a_package_contains_gets_a_stand_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site-packages"
    site.mkdir()
    (site / "newer_release.py").write_text("")
    (tmp_path / "own_part.py").write_text("")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.syspath_prepend(str(tmp_path))
    module = loaded(tmp_path, "from newer_release import old\n\ndef use():\n    return old.part(1)\n")
    assert stand_ins.names() == ["newer_release.old"]
    with pytest.raises(ImportError, match="cannot import name 'old' from 'newer_release'"):
        module.use()
    with pytest.raises(ImportError, match="from 'own_part'"):
        loading.load_module(str(written(tmp_path / "other.py", "from own_part import nothing\n")), "other")


def test_an_installed_package_that_cannot_be_imported_gets_a_stand_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site-packages" / "for_another_torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from for_another_torch import operators\n")
    (package / "operators.py").write_text("def register():\n    raise RuntimeError('no operator')\n\nregister()\n")
    monkeypatch.syspath_prepend(str(package.parent))
    code = "from for_another_torch.operators import nms\n\ndef use():\n    return nms(1)\n\ndef double(x):\n    return 2 * x\n"
    module = loaded(tmp_path, code)
    assert module.double(2) == 4
    assert stand_ins.names() == ["for_another_torch"]
    with pytest.raises(ImportError, match="for_another_torch cannot be imported: RuntimeError: no operator"):
        module.use()
    with pytest.raises(RuntimeError, match="of its own"):
        loading.load_module(str(written(tmp_path / "other.py", "raise RuntimeError('of its own')\n")), "other")


def test_any_error_that_explains_a_missing_package_is_about_it(tmp_path: Path) -> None:
    explained = "except ImportError as error:\n    raise ValueError('install it') from error\n"
    assert loaded(tmp_path, f"try:\n    import absent_one\n{explained}value = 1\n").value == 1


def test_stand_ins_that_do_not_help_leave_the_first_error_and_no_trace(tmp_path: Path) -> None:
    with pytest.raises(ModuleNotFoundError, match="absent_one"):
        loaded(tmp_path, "import absent_one\nnumbers = [1 for one in absent_one.numbers]\n")
    assert not stand_ins.names()
    assert "absent_one" not in sys.modules


def test_neither_installed_packages_nor_their_missing_parts_get_stand_ins(tmp_path: Path) -> None:
    assert not stand_ins.provide("json.absent")
    with pytest.raises(ModuleNotFoundError, match=r"json\.absent"):
        loaded(tmp_path, "import json.absent\n")
