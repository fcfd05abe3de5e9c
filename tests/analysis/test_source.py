"""Positions and encodings of source files."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynalint.analysis.source import Sources, parse_source, read_source

PATH = Path("code.py")


@given(st.text(alphabet="aé漢😀\n\r\f\u2028 ", max_size=40))
def test_positions_and_offsets_are_inverse(text: str) -> None:
    file = parse_source(PATH, text.encode())
    for offset in range(len(text) + 1):
        line, column = file.position(offset)
        assert file.line_starts[line - 1] + column - 1 == offset


@given(
    st.lists(st.sampled_from(["é = 1", "# 漢", "x = '😀' + y", "", "\f"]), max_size=6),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_segments_are_what_python_sees(lines: list[str], newline: str) -> None:
    file = parse_source(PATH, newline.join(lines).encode())
    assert file.tree is not None
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Name):
            assert file.segment(node) == node.id


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x00\x01", "null bytes"),
        (b"x = '\xff'", "cannot decode"),
        (b"# coding: nonsense\nx = 1", "cannot decode"),
        (b"def f(:\n    pass", "invalid syntax"),
        (b"x = (" + b"(" * 500 + b")" * 501, "parenthes"),
    ],
)
def test_what_is_no_python_is_told(data: bytes, message: str) -> None:
    file = parse_source(PATH, data)
    assert file.tree is None
    assert file.error is not None
    assert message in file.error.message


def test_encodings_are_kept() -> None:
    for data in (b"# coding: latin-1\nx = '\xe9'\r\n", b"\xef\xbb\xbfx = '\xc3\xa9'\n", "x = 'é'".encode()):
        file = parse_source(PATH, data)
        assert file.error is None
        assert file.encode(file.text) == data


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    error = read_source(tmp_path / "nothing.py").error
    assert error is not None
    assert "cannot read" in error.message


def test_a_text_is_parsed_anew_only_where_it_has_changed(tmp_path: Path) -> None:
    path, sources = tmp_path / "m.py", Sources()
    path.write_text("x = 1\n")
    first = sources.read(path)
    given = sources.given(path, "x = 2\n")
    assert sources.read(path) is first
    assert sources.given(path, "x = 2\n") is given
    path.write_text("x = 3\n")
    assert [sources.read(path).text, sources.given(path, "x = 4\n").text] == ["x = 3\n", "x = 4\n"]
    path.unlink()
    assert sources.read(path).error is not None
