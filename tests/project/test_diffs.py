"""The comparison of texts: what it yields rebuilds the other text, as git applies it, and is as small as it should be."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynalint.diffs import differences
from dynalint.fix.model import unified_diff

LINES = st.lists(st.sampled_from(["a", "b", "c", "def f():", "", "    return x"]), max_size=30)


@given(LINES, LINES)
def test_differences_make_one_text_of_the_other(before: list[str], after: list[str]) -> None:
    made, at = [], 0
    for one in differences(before, after):
        made += before[at : one.old_start] + after[one.start : one.stop]
        at = one.old_stop
    assert made + before[at:] == after


def test_a_line_changed_in_a_repetitive_file_is_one_line_of_the_diff() -> None:
    # difflib's heuristic calls every line of it junk, and shows hundreds as changed.
    lines = [text for _ in range(300) for text in ("def f(x):\n", "    return x\n", "\n")]
    changed = [*lines]
    changed[1] = changed[1].replace("x", "y")
    changed[700] = changed[700].replace("x", "y")
    diff = unified_diff("".join(lines), "".join(changed), "f.py")
    assert [line for line in diff.splitlines() if line[0] in "-+" and line[:3] not in ("---", "+++")] == [
        "-    return x",
        "+    return y",
        "-    return x",
        "+    return y",
    ]


@pytest.mark.parametrize("seed", range(20))
def test_git_applies_the_diff(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    old = [draw.choice(("a\n", "b\n", "c\n", f"{draw.random()}\n")) for _ in range(draw.randrange(60))]
    new = [line for line in old if draw.random() > 0.1]
    for _ in range(draw.randrange(5)):
        new.insert(draw.randrange(len(new) + 1), draw.choice(("a\n", "new\n")))
    before, after = "".join(old), "".join(new).removesuffix("\n" if draw.random() < 0.3 else "")
    (tmp_path / "f.py").write_text(before, encoding="utf-8")
    if before != after:
        patch = unified_diff(before, after, "f.py").encode()
        subprocess.run(["git", "apply", "--unidiff-zero", "-"], cwd=tmp_path, input=patch, check=True)
    assert (tmp_path / "f.py").read_text(encoding="utf-8") == after


def test_equal_texts_have_no_diff() -> None:
    assert not unified_diff("a\n", "a\n", "f.py")
