"""The extension for VS Code: its own tests, run by Node with the real server, and its package."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from dynalint import __version__

ROOT = Path(__file__).resolve().parents[2]
EXTENSION = ROOT / "editors" / "vscode"
NPM, NPX = shutil.which("npm"), shutil.which("npx")

pytestmark = [
    pytest.mark.may_skip,
    pytest.mark.skipif(not EXTENSION.exists(), reason="the source distribution is without the extension"),
]


@pytest.fixture
def manifest() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((EXTENSION / "package.json").read_text(encoding="utf-8"))
    return found


def test_the_version_is_that_of_dynalint(manifest: dict[str, Any]) -> None:
    lock = json.loads((EXTENSION / "package-lock.json").read_text(encoding="utf-8"))
    assert {manifest["version"], lock["version"]} == {__version__}


def test_a_workspace_can_neither_choose_the_program_nor_its_settings(manifest: dict[str, Any]) -> None:
    settings = manifest["contributes"]["configuration"]["properties"]
    assert {name for name, one in settings.items() if one["scope"] != "machine"} == {"dynalint.enable"}


def test_the_readme_names_all_settings_and_commands(manifest: dict[str, Any]) -> None:
    text = (EXTENSION / "README.md").read_text(encoding="utf-8")
    contributes = manifest["contributes"]
    for name in contributes["configuration"]["properties"]:
        assert f"| `{name}` |" in text
    for command in contributes["commands"]:
        assert f"| {command['category']}: {command['title']} |" in text


@pytest.mark.long
@pytest.mark.network
@pytest.mark.dynamo
@pytest.mark.skipif(NPM is None or NPX is None, reason="no npm")
def test_the_extension_works_with_the_server_and_can_be_packaged(manifest: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "editors" / "vscode"
    shutil.copytree(EXTENSION, folder, ignore=shutil.ignore_patterns("node_modules", "dist", "*.vsix"))
    shutil.copy(ROOT / "LICENSE", tmp_path)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    for command in ([NPM, "ci"], [NPM, "test"], [NPX, "vsce", "package"]):
        ran = subprocess.run(
            [str(word) for word in command],
            cwd=folder,
            env={**os.environ, "PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr

    (package,) = folder.glob("*.vsix")
    with zipfile.ZipFile(package) as archive:
        names = set(archive.namelist())
    assert {"extension/dist/src/extension.js", "extension/LICENSE.txt", "extension/package.json"} <= names
    own = {name for name in names if name.startswith("extension/") and "node_modules/" not in name}
    assert not {name for name in own if "test" in name or name.endswith((".ts", ".map"))}
    for library in manifest["dependencies"]:
        assert f"extension/node_modules/{library}/package.json" in names
