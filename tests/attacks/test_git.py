"""Repositories whose own configuration, attributes and objects have git run programs, hang or fill the memory."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dynalint.adoption.changes import changes_since
from dynalint.errors import UsageError
from dynalint.projects import git as asking
from dynalint.projects.git import is_tracked

from .conftest import BRANCH, Victim

NEVER = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


def git(victim: Victim, *arguments: str, **environment: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "protocol.file.allow=always")
    ran = subprocess.run(
        ["git", *identity, *arguments],
        cwd=victim.repository,
        env=victim.environment({**NEVER, **environment}),
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout


@pytest.fixture
def planted(victim: Victim) -> Path:
    """A program, outside the repository, that leaves a mark wherever it is run; its mark."""
    mark = victim.home.parent / "mark"
    program = victim.write("planted", f"#!/bin/sh\necho ran >>'{mark}'\ncat\n")
    program.chmod(0o755)
    return mark


@pytest.fixture
def changed(victim: Victim, planted: Path) -> Victim:
    """A repository with a change that is committed, one that is staged, and one that is neither."""
    victim.write("repository/a.py", BRANCH)
    victim.write("repository/b.py", BRANCH)
    victim.write("repository/old.py", BRANCH + "\n\nx = 1\n")
    victim.commit()
    victim.write("repository/b.py", f"# committed\n{BRANCH}")
    git(victim, "commit", "-qam", "two")
    git(victim, "mv", "old.py", "new.py")
    victim.write("repository/a.py", BRANCH.replace("x.sum()", "x.mean()"))
    return victim


def since(victim: Victim, revision: str = "HEAD~1", **more: Any) -> list[str]:
    """Return where there are findings, without a word on standard error."""
    ran = victim.dynalint("check", "--static", "--output-format", "concise", "-q", "--since", revision, **more)
    assert ran.returncode in (0, 1), ran.stderr
    assert ran.stderr == ""
    return [line.partition(" ")[0].removesuffix(":") for line in ran.stdout.splitlines() if "DYN" in line]


# What git runs for other commands, or would for these if their output were shown.
OTHERS = (
    "filter.evil.smudge", "diff.external", "diff.evil.command", "diff.evil.textconv", "merge.evil.driver", "core.pager",
    "pager.rev-parse", "pager.ls-tree", "pager.diff-index", "alias.rev-parse", "alias.ls-tree", "alias.cat-file",
    "core.alternateRefsCommand", "core.editor", "core.askPass", "gpg.program", "credential.helper",
)  # fmt: skip


@pytest.mark.parametrize(
    "keys", [("core.fsmonitor",), ("filter.evil.clean",), ("filter.evil.process",), OTHERS], ids=lambda keys: keys[0]
)
def test_no_program_of_the_configuration_is_run(changed: Victim, planted: Path, keys: tuple[str, ...]) -> None:
    for key in keys:
        git(changed, "config", key, f"{'!' if key.startswith('alias') else ''}{planted.with_name('planted')}")
    git(changed, "config", "log.showSignature", "true")
    git(changed, "config", "core.untrackedCache", "true")
    for place in (".gitattributes", ".git/info/attributes"):
        changed.write(f"repository/{place}", "*.py filter=evil diff=evil merge=evil\n")
    assert since(changed) == ["a.py:7:12"]
    assert not planted.exists()


@pytest.mark.parametrize("hook", ["fsmonitor-watchman", "post-index-change"])
def test_no_hook_is_run(changed: Victim, planted: Path, hook: str) -> None:
    shutil.copy(planted.with_name("planted"), changed.write(f"repository/.git/hooks/{hook}", ""))
    (changed.repository / ".git" / "hooks" / hook).chmod(0o755)
    git(changed, "config", "core.fsmonitor", ".git/hooks/fsmonitor-watchman")
    planted.unlink(missing_ok=True)
    os.utime(changed.repository / "b.py")
    assert since(changed) == ["a.py:7:12"]
    assert not planted.exists()


def test_a_program_beside_the_code_is_not_taken_for_git(changed: Victim, planted: Path) -> None:
    shutil.copy(planted.with_name("planted"), changed.repository / "git")
    path = os.pathsep.join([".", "", os.environ["PATH"]])
    assert since(changed, environment={"PATH": path}) == ["a.py:7:12"]
    assert not planted.exists()


@pytest.mark.parametrize("key", ["url", "uploadpack", "vcs", "core.sshCommand", "core.gitProxy"])
def test_what_a_partial_clone_lacks_is_not_fetched(changed: Victim, planted: Path, key: str) -> None:
    program = planted.with_name("planted")
    missing = git(changed, "rev-parse", "HEAD:a.py").strip()
    (changed.repository / ".git" / "objects" / missing[:2] / missing[2:]).unlink()
    git(changed, "config", "core.repositoryFormatVersion", "1")
    git(changed, "config", "extensions.partialClone", "evil")
    git(changed, "config", "remote.evil.promisor", "true")
    url = {"url": f"ext::{program} %S", "core.sshCommand": "ssh://a/b", "core.gitProxy": "git://a/b"}
    git(changed, "config", "remote.evil.url", url.get(key, str(changed.repository)))
    if key in ("uploadpack", "vcs"):
        git(changed, "config", f"remote.evil.{key}", str(program))
    elif key != "url":
        git(changed, "config", key, str(program))
    git(changed, "config", "protocol.allow", "always")
    git(changed, "config", "protocol.ext.allow", "always")
    # What was there cannot be told: all of it counts as changed.
    assert since(changed) == ["a.py:7:12", "b.py:8:12"]
    assert is_tracked(changed.repository / "a.py") is True
    assert not planted.exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a named pipe")
@pytest.mark.parametrize("name", [".gitattributes", ".gitignore"])
def test_a_pipe_is_not_waited_for(changed: Victim, name: str) -> None:
    pipe = changed.repository / name
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    assert since(changed, timeout=20.0) == ["a.py:7:12"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a named pipe")
@pytest.mark.parametrize("name", ["config", "HEAD", "index", "packed-refs", "info/attributes", "info/exclude"])
def test_git_that_hangs_is_ended(changed: Victim, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = changed.repository / ".git" / name
    file.unlink(missing_ok=True)
    os.mkfifo(file)
    monkeypatch.setattr(asking, "_LONGEST", 0.3)
    assert is_tracked(changed.repository / "a.py") in (None, True)
    with contextlib.suppress(UsageError):
        changes_since("HEAD~1", changed.repository)._compare([changed.repository / "a.py"])


def test_a_tree_without_end_is_not_listed(victim: Victim, monkeypatch: pytest.MonkeyPatch) -> None:
    victim.write("repository/a.py", BRANCH)
    victim.commit()
    tree = git(victim, "rev-parse", "HEAD^{tree}").strip()
    for _ in range(12):
        listing = "".join(f"040000 tree {tree}\td{number}\n" for number in range(10))
        made = subprocess.run(
            ["git", "mktree"], input=listing, cwd=victim.repository, capture_output=True, text=True, check=True
        )
        tree = made.stdout.strip()
    bomb = git(victim, "commit-tree", tree, "-p", "HEAD", "-m", "bomb").strip()
    git(victim, "update-ref", "refs/heads/bomb", bomb)
    git(victim, "symbolic-ref", "HEAD", "refs/heads/bomb")
    monkeypatch.setattr(asking, "_LONGEST", 1.0)
    changes = changes_since("HEAD", victim.repository)
    changes._compare([victim.repository / "a.py"])
    assert changes._ranges == {victim.repository / "a.py": None}
