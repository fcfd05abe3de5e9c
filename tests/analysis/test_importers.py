from __future__ import annotations

from pathlib import Path

import pytest

from dynalint.analysis.importers import Importers, outlines_of
from dynalint.analysis.project import Project

LAYERS = "class Layer:\n    pass\n\n\nSIZE = 3\n"


def written(folder: Path, files: dict[str, str]) -> list[Path]:
    paths = [folder / name for name in files]
    for path, text in zip(paths, files.values(), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return paths


def reached(folder: Path, files: dict[str, str], *changed: str) -> list[str]:
    paths = written(folder, files)
    found = Importers(outlines_of(Project.load(paths))).reached([folder / name for name in changed])
    return sorted(path.relative_to(folder).as_posix() for path in found)


@pytest.mark.parametrize(
    "statement",
    [
        "from p.layers import Layer",
        "from .layers import Layer as L",
        "from . import layers",
        "from .layers import *",
        "from.layers import(Layer)",
        "from .layers import (\n    # the (usual) layer\n    Layer,  # as it is\n)",
        "from .layers import \\\n    Layer",
        "import p.layers",
        "import p.layers as layers",
        "import p\nmodel = p.layers.Layer()",
        "def late():\n    from p.layers import Layer",
        "try:\n    pass\nexcept ImportError:\n    from p.layers import Layer",
    ],
)
def test_each_way_to_import_a_file_is_seen(tmp_path: Path, statement: str) -> None:
    files = {"p/__init__.py": "", "p/layers.py": LAYERS, "p/model.py": f"{statement}\n", "p/other.py": "x = 1\n"}
    assert reached(tmp_path, files, "p/layers.py") == ["p/layers.py", "p/model.py"]


def test_what_imports_an_importer_is_reached_too(tmp_path: Path) -> None:
    files = {
        "a.py": "def f():\n    pass\n",
        "b.py": "from a import f\n\ndef g():\n    f()\n",
        "c.py": "from b import g\n",
    }
    assert reached(tmp_path, files, "a.py") == ["a.py", "b.py", "c.py"]
    assert reached(tmp_path, files, "c.py") == ["c.py"]


@pytest.mark.parametrize(
    "gathered", ["from .one import One\nfrom .two import Two\n", "from .one import *\nfrom .two import *\n"]
)
def test_a_package_that_hands_names_on_does_not_tie_its_files_together(tmp_path: Path, gathered: str) -> None:
    files = {
        "p/__init__.py": gathered,
        "p/one.py": "class One:\n    pass\n",
        "p/two.py": "class Two:\n    pass\n",
        "p/model.py": "from p import Two\n",
    }
    assert reached(tmp_path, files, "p/one.py") == ["p/__init__.py", "p/one.py"]
    assert reached(tmp_path, files, "p/two.py") == ["p/__init__.py", "p/model.py", "p/two.py"]


def test_a_name_that_nobody_is_seen_to_define_comes_from_the_whole_package(tmp_path: Path) -> None:
    files = {
        "p/__init__.py": "from .one import make\nglobals().update(make())\n",
        "p/one.py": "def make():\n    return {}\n",
    }
    assert "m.py" in reached(tmp_path, {**files, "m.py": "from p import Found\n"}, "p/one.py")


def test_a_version_number_ties_nothing_together(tmp_path: Path) -> None:
    files = {
        "p/__init__.py": "from .one import One\n__version__ = '1.0'\n",
        "p/one.py": "class One:\n    pass\n",
        "p/info.py": "from . import __version__\n",
    }
    assert reached(tmp_path, files, "p/one.py") == ["p/__init__.py", "p/one.py"]


def test_circles_end(tmp_path: Path) -> None:
    files = {"a.py": "from b import *\nfrom b import x\n", "b.py": "from a import *\nfrom a import x\n"}
    assert reached(tmp_path, files, "a.py") == ["a.py", "b.py"]


HANDING = {
    "p/one.py": "class One:\n    pass\n",
    "p/model.py": "import p\n\nmodel = getattr(p, 'Model')\n",
    "p/user.py": "from p import One\n",
}


def test_a_package_that_only_hands_a_name_on_is_reached_but_not_what_uses_the_package(tmp_path: Path) -> None:
    files = {"p/__init__.py": "from .one import One\n__all__ = ['One']\n", **HANDING}
    assert reached(tmp_path, files, "p/one.py") == ["p/__init__.py", "p/one.py", "p/user.py"]


@pytest.mark.parametrize("code", ["from .one import One\nmade = One()\n", "from .one import *\nclass Two(One): pass\n"])
def test_a_package_whose_code_uses_a_name_ties_its_users_to_it(tmp_path: Path, code: str) -> None:
    files = {"p/__init__.py": code, **HANDING}
    assert reached(tmp_path, files, "p/one.py") == ["p/__init__.py", "p/model.py", "p/one.py", "p/user.py"]


def test_the_files_of_bases_are_those_above(tmp_path: Path) -> None:
    files = {
        "p/__init__.py": "from .bottom import *\n",
        "p/bottom.py": "class Bottom:\n    pass\n",
        "p/middle.py": "import p\nfrom . import mixins as m\n\nclass Middle(p.Bottom, m.Mixin['x'], metaclass=type):\n    pass\n",
        "p/mixins.py": "class Mixin:\n    pass\n",
        "p/top.py": "from .middle import Middle as M\nfrom .other import f\n\nclass Top(\n    M,\n):\n    pass\n",
        "p/other.py": "def f():\n    pass\n",
    }
    paths = written(tmp_path, files)
    above = Importers(outlines_of(Project.load(paths))).above([tmp_path / "p/top.py"])
    names = {path.relative_to(tmp_path).as_posix() for path in above}
    assert names - {"p/__init__.py"} == {"p/middle.py", "p/mixins.py", "p/bottom.py"}
