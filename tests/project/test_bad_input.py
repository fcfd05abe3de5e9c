"""Bad input at the command line: one clear line, the right exit code, and everything else still reported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BREAKS = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x
        return -x
"""


@pytest.mark.parametrize("command", ["check", "fix"])
def test_missing_path_is_wrong_usage(dynalint: Callable[..., Any], command: str) -> None:
    ran = dynalint(command, "--static", "no/such/place.py")
    assert_one_clear_line(ran, "no/such/place.py")


@pytest.mark.parametrize("option", ["--select", "--ignore", "--extend-select"])
def test_unknown_code_names_the_nearest(dynalint: Callable[..., Any], tmp_path: Path, option: str) -> None:
    (tmp_path / "model.py").write_text(BREAKS)
    ran = dynalint("check", "--static", option, "DNY101")
    assert_one_clear_line(ran, "DNY101")
    assert "DYN101" in ran.err


def test_unknown_key_names_file_line_and_nearest(dynalint: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\n\n[tool.dynalint]\nselct = ["DYN"]\n')
    (tmp_path / "model.py").write_text(BREAKS)
    ran = dynalint("check", "--static")
    assert_one_clear_line(ran, "selct")
    assert "pyproject.toml:5" in ran.err
    assert "`select`" in ran.err


def test_wrong_type_of_a_setting(dynalint: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.dynalint]\nselect = 3\n")
    ran = dynalint("check", "--static")
    assert_one_clear_line(ran, "select")
    assert "pyproject.toml:2" in ran.err


def test_broken_configuration_file(dynalint: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "dynalint.toml").write_text("select = [\n")
    ran = dynalint("check", "--static")
    assert_one_clear_line(ran, "dynalint.toml")


def test_options_that_exclude_each_other(dynalint: Callable[..., Any]) -> None:
    ran = dynalint("check", "--static", "--confirm")
    assert ran.code == 2
    assert "--confirm" in ran.err
    ran.assert_no_traceback()


def test_unknown_option_and_unknown_rule(dynalint: Callable[..., Any]) -> None:
    for arguments, word in ((["check", "--statik"], "--statik"), (["rule", "DYN9999"], "DYN9999")):
        ran = dynalint(*arguments)
        assert ran.code == 2
        assert word in ran.err
        ran.assert_no_traceback()


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"def f(:\n    pass\n", "syntax error"),
        (b"\x7fELF\x02\x01\x00\x00\xff\xfe\x80", "binary file"),
        (b"# -*- coding: no-such-encoding -*-\nx = 1\n", "unknown encoding"),
        (b'name = "caf\xe9"\n', "not UTF-8"),
        (b"x = " + b"(" * 300 + b")" * 300 + b"\n", "too many parentheses"),
        (b"x = " + b"-" * 20000 + b"1\n", "nested too deeply for the parser"),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_a_file_that_cannot_be_parsed_is_a_finding(
    dynalint: Callable[..., Any], tmp_path: Path, content: bytes, what: str
) -> None:
    (tmp_path / "broken.py").write_bytes(content)
    (tmp_path / "model.py").write_text(BREAKS)
    ran = dynalint("check", "--static", "--output-format", "json")
    ran.assert_no_traceback()
    assert [(finding["path"], finding["code"]) for finding in ran.findings] == [
        ("broken.py", "DYN901"),
        ("model.py", "DYN101"),
    ], what
    assert ran.code == 1
    broken = ran.findings[0]
    assert broken["category"] == "error"
    assert broken["line"] >= 1
    assert broken["column"] >= 1
    assert "\n" not in broken["message"]


@pytest.mark.parametrize(
    "deep", ["1" + " + 1" * 3000, "a" + ".b" * 3000, "f" + "()" * 3000], ids=["sum", "names", "calls"]
)
def test_a_deep_expression_costs_at_most_its_own_file(dynalint: Callable[..., Any], tmp_path: Path, deep: str) -> None:
    source = f"from torch import nn\n\n\nclass Deep(nn.Module):\n    def forward(self, a, f):\n        return {deep}\n"
    (tmp_path / "deep.py").write_text(source)
    (tmp_path / "model.py").write_text(BREAKS)
    ran = dynalint("check", "--static", "--output-format", "json")
    ran.assert_no_traceback()
    assert ("model.py", "DYN101") in {(finding["path"], finding["code"]) for finding in ran.findings}
    assert {finding["code"] for finding in ran.findings if finding["path"] == "deep.py"} <= {"DYN901"}
    assert ran.code == 1


def test_fix_leaves_a_broken_file_alone(dynalint: Callable[..., Any], tmp_path: Path) -> None:
    content = b"def f(:\n    pass\n"
    (tmp_path / "broken.py").write_bytes(content)
    ran = dynalint("fix", "--apply", "--static", "--unsafe-fixes")
    ran.assert_no_traceback()
    assert (tmp_path / "broken.py").read_bytes() == content
    assert ran.code == 1


@pytest.mark.parametrize("content", [b"", b"\n", b"\xef\xbb\xbf", b"# nothing here\r\n"])
def test_an_empty_file_is_clean(dynalint: Callable[..., Any], tmp_path: Path, content: bytes) -> None:
    (tmp_path / "empty.py").write_bytes(content)
    ran = dynalint("check", "--static", "--output-format", "json", "empty.py")
    assert ran.findings == []
    assert ran.code == 0


@pytest.mark.parametrize("command", ["check", "fix"])
def test_no_file_at_all_is_clean(dynalint: Callable[..., Any], tmp_path: Path, command: str) -> None:
    (tmp_path / "notes.txt").write_text("no Python here\n")
    ran = dynalint(command, "--static")
    ran.assert_no_traceback()
    assert ran.code == 0


def test_an_unreadable_file_costs_only_itself(dynalint: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "gone.py").symlink_to(tmp_path / "no-such-target.py")
    (tmp_path / "model.py").write_text(BREAKS)
    ran = dynalint("check", "--static", "--output-format", "json")
    ran.assert_no_traceback()
    assert ("model.py", "DYN101") in {(finding["path"], finding["code"]) for finding in ran.findings}


def test_a_folder_named_like_a_module_is_walked(dynalint: Callable[..., Any], tmp_path: Path) -> None:
    folder = tmp_path / "strange.py"
    folder.mkdir()
    (folder / "model.py").write_text(BREAKS)
    ran = dynalint("check", "--static", "--output-format", "json")
    assert [finding["path"] for finding in ran.findings] == ["strange.py/model.py"]


def assert_one_clear_line(ran: Any, word: str) -> None:
    """Wrong usage: exit code 2, nothing on standard output, one line on standard error that names what is wrong."""
    ran.assert_no_traceback()
    assert ran.code == 2
    assert ran.out == ""
    lines = [line for line in ran.err.splitlines() if line.strip()]
    assert len(lines) == 1, ran.err
    assert word in lines[0]
