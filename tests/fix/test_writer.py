"""Fixes are on the disk as they are taken, and what the rounds come to in the end is what stays there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from dynalint.fix import ChangedFile, FixOptions, FixResult, Unit, Verification, Writer, fix_findings

from .test_engine import Toy


@pytest.fixture
def paths(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "m.py", tmp_path / "n.py"


def fix(toy: Toy, writer: Writer, verify: Callable[..., Mapping[Unit, Verification]] | None = None) -> FixResult:
    return writer.finish(fix_findings(toy({}), toy, FixOptions(keep=writer.keep), verify))


def make_writer() -> Writer:
    return Writer(lambda source: source.path.name)


def test_a_round_is_written_before_the_next_begins(paths: tuple[Path, Path]) -> None:
    path, _ = paths
    path.write_text("x = bad(A) + bad(B)\n")
    seen: list[str] = []

    def verify(before: object, after: object, units: Sequence[Unit]) -> Mapping[Unit, Verification]:
        seen.append(path.read_text())
        return {unit: Verification("proven", "so", 3) for unit in units}

    result = fix(Toy([path], {"A": [(path, "bad(A) + bad(B)", "where(bad(B))")], "B": "b"}), make_writer(), verify)
    assert seen == ["x = bad(A) + bad(B)\n", "x = where(bad(B))\n"]
    assert path.read_text() == "x = where(b)\n"
    assert [file.source.path for file in result.files] == [path]


def test_an_interrupt_leaves_what_was_proven(paths: tuple[Path, Path]) -> None:
    path, _ = paths
    path.write_text("x = bad(A) + bad(B)\n")
    asked: list[object] = []

    def verify(before: object, after: object, units: Sequence[Unit]) -> Mapping[Unit, Verification]:
        asked.append(units)
        if len(asked) > 1:
            raise KeyboardInterrupt
        return {unit: Verification("proven", "so", 3) for unit in units}

    writer = make_writer()
    with pytest.raises(KeyboardInterrupt):
        fix(Toy([path], {"A": [(path, "bad(A) + bad(B)", "where(bad(B))")], "B": "b"}), writer, verify)
    assert path.read_text() == "x = where(bad(B))\n"
    assert writer.written == ["m.py"]


def test_what_one_fix_changes_is_written_together_or_not_at_all(paths: tuple[Path, Path]) -> None:
    path, other = paths
    path.write_text("x = bad(A)\n")
    other.write_text("y = old\n")
    toy = Toy(paths, {"A": [(path, "bad(A)", "good"), (other, "old", "new")]})
    linted = toy({})
    other.write_text("y = old  # edited\n")
    writer = make_writer()
    result = writer.finish(fix_findings(linted, toy, FixOptions(keep=writer.keep)))
    assert (path.read_text(), other.read_text()) == ("x = bad(A)\n", "y = old  # edited\n")
    assert (result.files, result.fixed) == ((), ())
    (told,) = result.failures
    assert told == (
        "n.py: not fixed: the file was changed while dynalint ran; run it again; m.py not written either, because the fix changes them together"
    )


def test_what_is_undone_in_the_end_is_undone_on_the_disk(paths: tuple[Path, Path]) -> None:
    path, other = paths
    path.write_text("x = bad(A)\n")
    other.write_text("y = bad(B)\n")
    taken: list[Sequence[ChangedFile]] = []
    writer = make_writer()

    def keep(files: Sequence[ChangedFile], groups: Sequence[Sequence[Path]]) -> None:
        taken.append(files)
        writer.keep(files, groups)

    toy = Toy(paths, {"A": "a", "B": "b"})
    both = fix_findings(toy({}), toy, FixOptions(keep=keep))
    assert (path.read_text(), other.read_text()) == ("x = a\n", "y = b\n")
    # Once more by the whole project, and now only one of the fixes stands.
    alone = Toy([path], {"A": "a"})
    path.write_text("x = bad(A)\n")
    once_more = fix_findings(alone({}), alone, FixOptions())
    path.write_text("x = a\n")
    result = writer.finish(once_more)
    assert (path.read_text(), other.read_text()) == ("x = a\n", "y = bad(B)\n")
    assert len(both.files) == 2
    assert [file.source.path for file in result.files] == [path]
    assert writer.written == ["m.py"]
