"""`dynalint fix`: the diff, writing, exit codes."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

Run = Callable[..., Any]

DIFF = """\
--- a/model.py
+++ b/model.py
@@ -6,5 +6,5 @@
     def forward(self, x: torch.Tensor) -> torch.Tensor:
         if x.sum() > 0:
             return x
-        print(x)
+        if not flag: pass
         return -x
"""


@pytest.fixture
def fix(dynalint: Run) -> Run:
    return lambda *arguments: dynalint("fix", "--static", *arguments)


def test_the_diff_is_shown_and_nothing_written(fix: Run, model: Path) -> None:
    before = model.read_bytes()
    ran = fix()
    assert (ran.code, ran.out) == (1, DIFF)
    assert ran.err == "note: would fix 1 finding in 1 file; `--apply` writes it.\n"
    assert model.read_bytes() == before
    assert fix("-q").err == ""
    assert fix("--exit-zero").code == 0


def test_nothing_to_fix(fix: Run, model: Path) -> None:
    for more in (["--select", "DYN1"], ["--unfixable", "DYN4"], ["--fixable", "DYN1"]):
        ran = fix(*more)
        assert (ran.code, ran.out) == (0, "")


def test_apply_writes_and_reports_what_is_left(fix: Run, model: Path) -> None:
    ran = fix("--apply")
    assert "if not flag: pass" in model.read_text()
    assert ran.code == 1  # the branch is still there
    assert "note: fixed 1 finding in 1 file.\n" in ran.err
    assert "DYN101 branch-on-tensor" in ran.out
    assert "DYN401" not in ran.out
    assert ran.out.endswith("Found 1 finding.\n")


def test_apply_leaves_nothing(fix: Run, model: Path) -> None:
    before = model.read_bytes()
    assert fix("--apply", "--ignore", "DYN101").code == 0
    model.write_bytes(before)
    assert fix("--apply", "--ignore", "DYN101", "--exit-non-zero-on-fix").code == 1
    assert fix("--apply", "--ignore", "DYN101", "--exit-non-zero-on-fix").code == 0


def test_print_fix(fix: Run, model: Path) -> None:
    assert "+        pass\n" in fix("--print-fix", "remove").out
    Path("dynalint.toml").write_text('print-fix = "remove"')
    assert "+        pass\n" in fix().out


def test_the_diff_in_colour(fix: Run, model: Path) -> None:
    assert "\x1b[32m+        if not flag: pass\x1b[0m\n" in fix("--color", "always").out


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_standard_input(fix: Run, model: Path, monkeypatch: pytest.MonkeyPatch, newline: bytes) -> None:
    data = b"\xef\xbb\xbf" + model.read_bytes().replace(b"\n", newline)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="utf-8"))
    fix("--apply", "--ignore", "DYN101", "-")
    assert written.getvalue() == data.replace(b"print(x)", b"if not flag: pass")


def test_a_broken_file_is_left_alone(fix: Run, model: Path) -> None:
    Path("broken.py").write_bytes(b"def f(:\n")
    ran = fix("--apply", "--select", "DYN4")
    assert ran.code == 1
    assert "broken.py:1:7" in ran.out
    assert Path("broken.py").read_bytes() == b"def f(:\n"


def test_what_cannot_be_written_is_said(fix: Run, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "replace", refuse)
    ran = fix("--apply")
    assert ran.code == 2
    assert ran.err.splitlines()[0].startswith("error: model.py")
    assert "DYN401" in ran.out
