"""What the sandbox shows of an environment whose packages are links. No code runs here."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dynalint.confirm.worker.sandbox.readable import ReadableFolders, readable


@pytest.mark.parametrize("each_file", [True, False])
def test_the_packages_that_an_environment_links_to_are_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, each_file: bool
) -> None:
    store, own = tmp_path / "store", tmp_path / "env" / "lib" / "site-packages"
    for folder, name in ((store / "pkg", "__init__.py"), (store / "pkg-1.0.dist-info", "METADATA")):
        folder.mkdir(parents=True)
        (folder / name).write_text("")
        if each_file:
            (own / folder.name).mkdir(parents=True)
            (own / folder.name / name).symlink_to(folder / name)
        else:
            own.mkdir(parents=True, exist_ok=True)
            (own / folder.name).symlink_to(folder)
    (store / "module.py").write_text("")
    (own / "module.py").symlink_to(store / "module.py")
    # What is no package, or has another name, could be anything.
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key.txt").write_text("")
    (secret / "__init__.py").write_text("")
    (own / "keys").symlink_to(secret)
    (own / "key.txt").symlink_to(secret / "key.txt")
    # A folder that is not the environment's own may come with the project.
    other = tmp_path / "project" / "site-packages"
    (store / "elsewhere").mkdir()
    (store / "elsewhere" / "__init__.py").write_text("")
    other.mkdir(parents=True)
    (other / "elsewhere").symlink_to(store / "elsewhere")
    monkeypatch.setattr(sys, "path", [str(own), str(other)])
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    shown = readable(ReadableFolders(), "cpu", own_processes=True)
    assert {one.name for one in shown if one.is_relative_to(store)} == {"pkg", "pkg-1.0.dist-info", "module.py"}
    assert not any(one.is_relative_to(secret) for one in shown)
