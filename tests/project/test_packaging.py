"""What is shipped: everything that dynalint needs, no torch, and no module called `rules`."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("packaging")]


def run(*command: str | Path, cwd: Path) -> str:
    outside = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    ran = subprocess.run(
        command, cwd=cwd, env=outside, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, and the wheel built from it."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    return folder


def test_the_wheel_holds_both_packages_and_their_data(distributions: Path) -> None:
    (wheel,) = distributions.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata_name,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(metadata_name).decode())
    tops = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert tops == {"dynalint", "dynalint_rules"}
    tracked = run("git", "ls-files", "dynalint", "rules", cwd=ROOT).split()
    assert {name.removeprefix("rules/") for name in tracked} <= names
    assert {
        "dynalint/py.typed",
        "dynalint_rules/py.typed",
        "dynalint/data/torch_api.json",
        "dynalint/data/graph_breaks.json",
    } <= names

    required = metadata.get_all("Requires-Dist") or []
    always = {line.split(";")[0].split(">")[0].strip() for line in required if "extra ==" not in line}
    assert always == {"click", "libcst", "pathspec", "rich", "tomli"}
    assert metadata["License-Expression"] == "Apache-2.0"
    # What developing takes is a dependency group, which is not published.
    assert set(metadata.get_all("Provides-Extra") or []) == {"confirm", "server", "dask"}
    assert {line.split(",")[0] for line in metadata.get_all("Project-URL") or []} >= {"Homepage", "Changelog", "Issues"}


def test_the_source_distribution_can_be_tested(distributions: Path) -> None:
    (sdist,) = distributions.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    not_ignored = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).splitlines()
    assert names - {"PKG-INFO"} <= set(not_ignored) - {".gitignore"}
    assert not {name for name in names if name.startswith("editors/")}  # it is for Node, and comes from a checkout
    for needed in ("tests/conftest.py", "examples/tiny_vision/pyproject.toml", "LICENSE", "dev", "scripts/dev.py"):
        assert needed in names


@pytest.mark.long
@pytest.mark.network
def test_the_installed_wheel_works_without_torch(distributions: Path, tmp_path: Path) -> None:
    (wheel,) = distributions.glob("*.whl")
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    python = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel, cwd=tmp_path)
    # This is what a pre-commit hook has, too: the package and what it needs, and no torch.
    without = "import importlib.util as u; print(u.find_spec('dynalint') is not None, u.find_spec('torch') is None)"
    assert run(python, "-c", without, cwd=tmp_path).split() == ["True", "True"]
    (tmp_path / "model.py").write_text(
        "from torch import nn\n\n\nclass Model(nn.Module):\n    def forward(self, x):\n        return x\n"
    )
    assert version("dynalint") in run(python, "-m", "dynalint", "--version", cwd=tmp_path)
    assert run(python, "-m", "dynalint", "check", "--output-format", "json", cwd=tmp_path).strip() == "[]"
    rules = run(python, "-m", "dynalint", "rule", "--all", cwd=tmp_path)
    assert "DYN101" in rules
    loaded = run(
        python, "-c", "import dynalint, sys; print('torch' in sys.modules or 'rules' in sys.modules)", cwd=tmp_path
    )
    assert loaded.strip() == "False"
