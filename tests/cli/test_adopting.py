"""Taking up dynalint on an old code base: baselines, comments written for you, changed lines only."""

from __future__ import annotations

import ast
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

MODEL = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x
        print(x)
        return -x
"""


def git(*arguments: str) -> None:
    identity = {f"GIT_{who}_{what}": "x@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {**os.environ, **identity, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    subprocess.run(["git", *arguments], check=True, capture_output=True, env=environment)


@pytest.fixture
def baseline(check: Run, model: Path) -> Run:
    """Write a baseline of the model as it is; what is returned checks against it."""
    ran = check("--write-baseline", "known.json")
    assert (ran.code, ran.out) == (0, "")
    assert "wrote 2 findings to known.json" in ran.err
    return lambda *arguments: check("--baseline", "known.json", *arguments)


def test_what_a_baseline_holds_is_not_reported(baseline: Run, dynalint: Run, model: Path) -> None:
    ran = baseline()
    assert (ran.code, ran.json, ran.err) == (0, [], "")
    text = dynalint("check", "--static", "--baseline", "known.json").out
    assert text == "All checks passed! (2 hidden by the baseline)\n"


def test_it_survives_edits_renames_and_moves(baseline: Run, model: Path) -> None:
    model.write_text("# more\n# lines\n" + MODEL.replace("if x.sum() > 0", "if x.sum()  >  0"))
    assert baseline().json == []
    model.write_text(MODEL.replace("Model", "Net"))
    assert baseline().json == []
    Path("pkg").mkdir()
    model.write_text(MODEL)
    model.rename("pkg/net.py")
    assert baseline().json == []


def test_what_is_new_is_reported(baseline: Run, model: Path) -> None:
    model.write_text(MODEL.replace("        print(x)\n", "        print(x)\n        print(x)\n"))
    ran = baseline()
    assert (ran.code, ran.places) == (1, ["model.py:10 DYN401"])
    model.write_text(MODEL.replace("x.sum() > 0", "x.mean() > 0"))
    ran = baseline()
    assert ran.places == ["model.py:7 DYN101"]
    assert "1 finding in the baseline was no longer found" in ran.err


def test_what_is_fixed_since_is_said(baseline: Run, model: Path) -> None:
    Path("other.py").write_text("")
    assert baseline("other.py").err == ""  # model.py was not looked at
    assert baseline("--select", "DYN4").err == ""
    model.write_text(MODEL.replace("        print(x)\n", ""))
    ran = baseline("-v")
    assert ran.code == 0
    assert "1 finding in the baseline was no longer found; `--write-baseline known.json` removes" in ran.err
    assert "no longer found: model.py: DYN401 in Model.forward: print(x)" in ran.err


def test_a_baseline_is_relative_to_the_repository(check: Run, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(".git").mkdir()
    Path("pkg").mkdir()
    model.rename("pkg/model.py")
    check("--write-baseline", "known.json")
    assert [entry["path"] for entry in json.loads(Path("known.json").read_text())["findings"]] == ["pkg/model.py"] * 2
    monkeypatch.chdir("pkg")
    ran = check("--baseline", "../known.json")
    assert (ran.json, ran.err) == ([], "")


def test_a_baseline_of_the_configuration(check: Run, dynalint: Run, model: Path) -> None:
    check("--write-baseline", "known.json")
    Path("dynalint.toml").write_text('baseline = "known.json"\n')
    assert check().json == []
    # What is not fixed is in the baseline: a hook has nothing to say.
    ran = dynalint("fix", "--static", "--apply")
    assert (ran.code, ran.out) == (0, "All checks passed! (1 hidden by the baseline)\n")
    assert "print(x)" not in model.read_text()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot read the baseline: No such file"),
        ("{", "not a dynalint baseline"),
        ("[]", "not a dynalint baseline"),
        ('{"version": 1, "findings": [{}]}', "not a dynalint baseline"),
        ('{"version": 2, "findings": []}', "a baseline of version 2"),
    ],
)
def test_a_baseline_that_cannot_be_read(check: Run, model: Path, content: str | None, words: str) -> None:
    if content is not None:
        Path("known.json").write_text(content)
    ran = check("--baseline", "known.json")
    assert ran.code == 2
    assert words in ran.err


def test_one_finding_a_line(baseline: Run) -> None:
    lines = Path("known.json").read_text().splitlines()
    assert len(lines) == 7
    assert json.loads(lines[3].rstrip(",")) == {
        "path": "model.py",
        "code": "DYN101",
        "function": "Model.forward",
        "text": "x.sum()>0",
    }


def test_comments_are_added_that_silence_everything(check: Run, model: Path) -> None:
    ran = check("--add-ignore=measured: it costs less")
    assert (ran.code, ran.out) == (0, "")
    assert "silenced 2 findings in 1 file" in ran.err
    assert model.read_text() == MODEL.replace(
        "if x.sum() > 0:", "if x.sum() > 0:  # dynalint: ignore[DYN101] -- measured: it costs less"
    ).replace("print(x)", "print(x)  # dynalint: ignore[DYN401] -- measured: it costs less")
    assert check().json == []
    again = check("--add-ignore")
    assert "silenced 0 findings" in again.err


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_comments_where_lines_take_none(check: Run, place: Path, newline: str) -> None:
    code = '''\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        print("""a
        b""", x)
        print("a", \\
            x)
        y = x; print(y)  # type: ignore
        print(x)  # dynalint: ignore[DYN9] -- why
        print(f"""
            {x}
        """)
        return (x
            if x.sum() > 0  # noqa: F401
            else -x)
'''
    path = place / "model.py"
    path.write_bytes(b"\xef\xbb\xbf" + code.replace("\n", newline).encode())
    before = ast.dump(ast.parse(code))
    assert len(check("--ignore", "DYN902").json) == 6
    check("--add-ignore", ".")
    text = path.read_bytes().decode("utf-8-sig")
    assert text.count("\r\n") == (text.count("\n") if newline == "\r\n" else 0)
    assert ast.dump(ast.parse(text)) == before
    assert "# type: ignore  # dynalint: ignore[DYN401]" in text
    assert "ignore[DYN9, DYN401] -- why" in text
    assert "# noqa: F401  # dynalint: ignore[DYN101]" in text
    assert check("--ignore", "DYN902").json == []


def test_a_reason_that_the_file_cannot_hold(check: Run, model: Path) -> None:
    model.write_bytes(b"# coding: latin-1\n" + MODEL.encode())
    ran = check("--add-ignore=日本")
    assert ran.code == 2
    assert "model.py: not silenced: the reason cannot be written" in ran.err
    assert model.read_bytes() == b"# coding: latin-1\n" + MODEL.encode()


def test_suppressions_can_be_ignored(check: Run, model: Path) -> None:
    model.write_text(MODEL.replace("print(x)", "print(x)  # noqa").replace("0:", "0:  # dynalint: ignore[DYN1]"))
    assert check().json == []
    assert check("--ignore-suppressions").places == ["model.py:7 DYN101", "model.py:9 DYN401"]


def test_since_a_revision_only_changed_lines_count(check: Run, model: Path) -> None:
    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-qm", "one")
    assert check("--since", "HEAD").json == []
    model.write_text("# a line\n" + MODEL.replace("print(x)", "print(-x)"))
    assert check("--since", "HEAD").places == ["model.py:10 DYN401"]
    git("commit", "-qam", "two")
    assert check("--since", "HEAD").json == []
    assert check("--since", "HEAD~1").places == ["model.py:10 DYN401"]
    git("checkout", "-qb", "other", "HEAD~1")
    # What the other branch has changed meanwhile is not ours.
    assert check("--since", "main").json == []
    odd = Path('odd "é" a,b.py')
    odd.write_text(MODEL)
    assert check("--since", "main").places == [f"{odd}:7 DYN101", f"{odd}:9 DYN401"]
    git("add", ".")
    git("commit", "-qm", "three")
    odd.write_text(MODEL.replace("x.sum()", "x.mean()"))
    ran = check("--since", "HEAD")
    assert (ran.code, ran.places) == (1, [f"{odd}:7 DYN101"])


def test_since_from_a_folder_of_the_repository(check: Run, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git("init", "-q")
    Path("pkg").mkdir()
    model.rename("pkg/model.py")
    git("add", ".")
    git("commit", "-qm", "one")
    monkeypatch.chdir("pkg")
    Path("model.py").write_text(MODEL + "\n++x  # @@ -1 +1 @@\n" + MODEL.replace("Model", "Other"))
    assert check("--since", "HEAD").places == ["model.py:19 DYN101", "model.py:21 DYN401"]


@pytest.mark.parametrize(
    ("repository", "revision", "words"),
    [(False, "HEAD", "--since uses git, which says"), (True, "nothing", "--since nothing: no such revision")],
)
def test_since_what_is_not_there(check: Run, model: Path, repository: bool, revision: str, words: str) -> None:
    if repository:
        git("init", "-q")
        git("add", ".")
        git("commit", "-qm", "one")
    ran = check("--since", revision)
    assert ran.code == 2
    assert words in ran.err


def commit(message: str = "one") -> None:
    git("add", ".")
    git("commit", "-qm", message)


@pytest.fixture
def repository(model: Path) -> Path:
    """A repository with the model in its only commit, in which `model.py` lies on the disk with other line endings."""
    git("init", "-q", "-b", "main")
    git("config", "core.autocrlf", "false")
    commit()
    return model


@pytest.mark.parametrize("ending", ["\r\n", "\r"])
def test_since_line_endings_make_no_difference(check: Run, repository: Path, ending: str) -> None:
    repository.write_bytes(MODEL.replace("print(x)", "print(-x)").replace("\n", ending).encode())
    assert check("--since", "HEAD").places == ["model.py:9 DYN401"]


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "staged"])
def test_since_a_renamed_file_is_compared_with_its_old_name(check: Run, repository: Path, committed: bool) -> None:
    Path("pkg").mkdir()
    git("mv", "model.py", "pkg/net.py")
    Path("pkg/net.py").write_text(MODEL.replace("print(x)", "print(-x)"))
    if committed:
        commit("two")
    base = "HEAD~1" if committed else "HEAD"
    assert check("--since", base).places == ["pkg/net.py:9 DYN401"]


@pytest.mark.parametrize("name", ["a b.py", 'a"b.py', "a\nb.py", ":(top)a.py", "-a.py", "a*.py", "\udcff.py", "é.py"])
def test_since_names_are_taken_as_they_are(check: Run, repository: Path, name: str) -> None:
    Path("axx.py").write_text(MODEL)
    try:
        Path(name).write_text(MODEL)
    except OSError:
        pytest.skip("the file system has no such names")
    commit("two")
    assert check("--since", "HEAD").json == []
    Path(name).write_text(MODEL.replace("print(x)", "print(-x)"))
    assert [(one["line"], one["code"]) for one in check("--since", "HEAD").json] == [(9, "DYN401")]


def test_since_in_another_work_tree(
    check: Run, repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other") / "tree"
    git("worktree", "add", "-q", str(other))
    monkeypatch.chdir(other)
    assert Path(".git").is_file()
    Path("model.py").write_text(MODEL.replace("print(x)", "print(-x)"))
    assert check("--since", "main").places == ["model.py:9 DYN401"]


def test_since_in_a_hook(check: Run, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository.write_text(MODEL.replace("print(x)", "print(-x)"))
    Path("pkg").mkdir()
    for name, value in {"GIT_DIR": ".git", "GIT_INDEX_FILE": ".git/index.lock", "GIT_PREFIX": "pkg/"}.items():
        monkeypatch.setenv(name, value)
    assert check("--since", "HEAD").places == ["model.py:9 DYN401"]
    monkeypatch.chdir("pkg")
    assert check("--since", "HEAD", "..").json[0]["path"] == "../model.py"


def test_since_leaves_out_what_another_repository_holds(check: Run, repository: Path) -> None:
    Path("part").mkdir()
    Path("part/more.py").write_text(MODEL)
    git("init", "-q", "part")
    assert check("--since", "HEAD").json == []


def test_since_what_git_ignores_is_new(check: Run, repository: Path) -> None:
    Path(".gitignore").write_text("made.py\n")
    Path("made.py").write_text(MODEL)
    assert check("--since", "HEAD").json == []
    assert check("--since", "HEAD", "made.py").places == ["made.py:7 DYN101", "made.py:9 DYN401"]


def test_since_in_a_shallow_clone(
    check: Run, repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    git("checkout", "-qb", "other")
    repository.write_text(MODEL + "x = 1\n")
    commit("two")
    git("checkout", "-q", "main")
    Path("b.py").write_text("")
    commit("three")
    clone = tmp_path_factory.mktemp("clone")
    address = f"file://{Path.cwd()}"
    git("clone", "-q", "--depth=1", "--no-single-branch", address, str(clone))
    monkeypatch.chdir(clone)
    ran = check("--since", "origin/other")
    assert (ran.code, ran.out) == (2, "")
    assert "--since origin/other: no common history with the current commit; in a shallow clone" in ran.err


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (["init", "-q"], "--since HEAD: no such revision"),
        (["init", "-q", "--bare", "."], "--since uses git, which says"),
    ],
)
def test_since_where_nothing_is_committed(check: Run, model: Path, how: list[str], words: str) -> None:
    git(*how)
    ran = check("--since", "HEAD")
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err


def test_since_in_a_repository_of_somebody_else(check: Run, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    ran = check("--since", "HEAD")
    assert (ran.code, ran.out) == (2, "")
    assert "dubious ownership" in ran.err
    assert "safe.directory" in ran.err
    assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["--add-ignore", "--statistics"],
        ["--add-ignore", "--ignore-suppressions"],
        ["--add-ignore", "-"],
        ["--write-baseline", "x.json", "--since", "HEAD"],
        ["--write-baseline", "x.json", "--add-ignore=why"],
    ],
)
def test_what_excludes_each_other(check: Run, model: Path, arguments: list[str]) -> None:
    ran = check(*arguments)
    assert ran.code == 2
    assert "cannot be combined" in ran.err
