"""Edits: whole rewrites or none, and every byte outside of them as it was."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynalint.analysis.source import SourceFile, parse_source
from dynalint.findings import Edit
from dynalint.fix.edits import Accepted, Change, Moves, collide, merged, plan_of, replaced, to_edits
from dynalint.fix.imports import EditError
from dynalint.rules import Replacement, Rewrite


def source(text: str | bytes, name: str = "m.py") -> SourceFile:
    return parse_source(Path(name), text if isinstance(text, bytes) else text.encode())


def rewrite(file: SourceFile, *edits: tuple[str, str], imports: tuple[str, ...] = ()) -> Rewrite:
    """A rewrite that replaces the first occurrence of each text."""
    replacements = []
    for old, new in edits:
        start = file.text.index(old)
        replacements.append(Replacement(file, start, start + len(old), new))
    return Rewrite("Rewrite it", "safe", tuple(replacements), imports=imports)


def fixed(file: SourceFile, *edits: tuple[str, str], imports: tuple[str, ...] = ()) -> bytes:
    plan = plan_of(rewrite(file, *edits, imports=imports))
    return file.encode(replaced(file.text, plan[file.path]))


PIECES = ["x = 1\n", "x = 1\r\n", "y = 'ü'  # é\n", "\f\n", "z = 2\r", "# 漢\u2028\n", "\t", "if x:\n    pass\n", ""]


@given(st.lists(st.sampled_from(PIECES)).map("".join), st.data())
def test_everything_outside_the_edits_stays(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6).filter(lambda c: len(c) % 2 == 0)))
    contents = [data.draw(st.text(alphabet="ab\n", max_size=5)) for _ in cuts[::2]]
    changes = [
        Change(a, b, content) for (a, b), content in zip(zip(cuts[::2], cuts[1::2], strict=True), contents, strict=True)
    ]
    result = replaced(text, changes)

    moves = Moves(changes)
    for index, change in enumerate(changes):
        start, end = moves.new_span(index)
        assert result[start:end] == change.content
    for offset, character in enumerate(text):
        if moves.inside(offset) is None:
            assert result[moves.moved(offset)] == character
            assert moves.written_by(moves.moved(offset)) is None
    kept = [text[a:b] for a, b in zip([0, *cuts[1::2]], [*cuts[::2], len(text)], strict=True)]
    assert result == "".join(piece + new for piece, new in zip(kept, [*contents, ""], strict=True))


def from_edits(file: SourceFile, edits: Iterable[Edit]) -> str:
    """Return the text of `file` with the given edits made."""
    starts = file.line_starts
    places = ((starts[one.line - 1] + one.column - 1, starts[one.end_line - 1] + one.end_column - 1) for one in edits)
    changes = [Change(*place, one.content) for place, one in zip(places, edits, strict=True)]
    return replaced(file.text, changes)


@given(st.lists(st.sampled_from(PIECES)).map("".join), st.sampled_from(["utf-8", "utf-8-sig"]), st.data())
def test_bytes_survive_the_way_to_edits_and_back(text: str, encoding: str, data: st.DataObject) -> None:
    file = source(text.encode(encoding))
    assert file.encode(file.text) == file.data
    start = data.draw(st.integers(0, len(file.text)))
    end = data.draw(st.integers(start, len(file.text)))
    change = Rewrite("Rewrite it", "safe", (Replacement(file, start, end, "new"),))
    if file.text[start:end] == "new":
        return
    expected = file.text[:start] + "new" + file.text[end:]
    assert from_edits(file, to_edits(change, file, lambda other: other.path.name)) == expected


@given(st.lists(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3)), min_size=1, max_size=3), max_size=8))
def test_plans_that_are_accepted_together_can_be_applied_in_any_order(places: list[list[tuple[int, int]]]) -> None:
    path = Path("m.py")
    text = "".join(chr(ord("a") + index % 26) for index in range(44))
    accepted, plans = Accepted(), {}
    for number, spans in enumerate(places):
        changes = [Change(start, start + size, f"<{number}>") for start, size in sorted(set(spans))]
        if any(left.end >= right.start for left, right in pairwise(changes)):
            continue
        plan = {path: tuple(changes)}
        if accepted.add(plan):
            plans[number] = plan
    together = replaced(text, merged(plans.values()).get(path, ()))
    assert together == replaced(text, merged(reversed(plans.values())).get(path, ()))
    for number, plan in plans.items():
        assert together.count(f"<{number}>") == sum(len(changes) for changes in plan.values())


def test_touching_changes_wait() -> None:
    assert collide(Change(0, 3, "a"), Change(3, 5, "b"))
    assert collide(Change(3, 3, "a"), Change(3, 5, "b"))
    assert not collide(Change(0, 3, "a"), Change(4, 5, "b"))


def test_lines_put_at_one_place_stand_side_by_side_unless_they_are_the_same() -> None:
    assert not collide(Change(3, 3, "a\n"), Change(3, 3, "b\n"))
    assert collide(Change(3, 3, "a"), Change(3, 3, "b"))
    assert collide(Change(3, 3, "a\n"), Change(3, 3, "a\n"))
    assert not collide(Change(3, 3, "import a\n", shared=True), Change(3, 3, "import a\n", shared=True))


def test_a_plan_is_taken_whole_or_not_at_all() -> None:
    one, two = Path("one.py"), Path("two.py")
    accepted = Accepted()
    assert accepted.add({one: (Change(0, 5, ""),)})
    assert not accepted.add({two: (Change(0, 5, ""),), one: (Change(2, 3, ""),)})
    assert accepted.add({two: (Change(3, 4, ""),)})


def test_a_shared_import_is_added_once() -> None:
    file = source("import os\nx = f(1)\ny = f(2)\n")
    plans = [plan_of(rewrite(file, (f"f({n})", f"torch.f({n})"), imports=("import torch",))) for n in (1, 2)]
    accepted = Accepted()
    assert all(accepted.add(plan) for plan in plans)
    text = replaced(file.text, merged(plans)[file.path])
    assert text == "import os\n\nimport torch\nx = torch.f(1)\ny = torch.f(2)\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"x = 1\r\ny = 2\r\n", b"x = 1\r\nif y:\r\n    y = 2\r\n"),
        (b"\xef\xbb\xbfx = 1\ny = 2", b"\xef\xbb\xbfx = 1\nif y:\n    y = 2"),
        (b"# coding: latin-1\nx = '\xe9'\ny = 2\n", b"# coding: latin-1\nx = '\xe9'\nif y:\n    y = 2\n"),
        (b"x = 1\n\x0c\ny = 2\n", b"x = 1\n\x0c\nif y:\n    y = 2\n"),
        (b"x = 1\ry = 2\r", b"x = 1\rif y:\r    y = 2\r"),
    ],
    ids=["crlf", "bom-and-no-last-newline", "latin-1", "form-feed", "cr"],
)
def test_encoding_and_line_endings_stay(before: bytes, after: bytes) -> None:
    assert fixed(source(before), ("y = 2", "if y:\n    y = 2")) == after


def test_a_character_that_the_encoding_lacks_is_refused() -> None:
    with pytest.raises(EditError, match=r"latin-1|iso-8859-1"):
        fixed(source(b"# coding: latin-1\ny = 2\n"), ("2", "'→'"))


def test_a_rewrite_that_overlaps_itself_or_changes_nothing_is_refused() -> None:
    file = source("x = abc\n")
    with pytest.raises(EditError, match="overlap"):
        plan_of(rewrite(file, ("abc", "1"), ("bc", "2")))
    with pytest.raises(EditError, match="nothing"):
        plan_of(rewrite(file, ("abc", "abc")))
    with pytest.raises(EditError, match="outside"):
        plan_of(Rewrite("Rewrite it", "safe", (Replacement(file, 5, 99, ""),)))


def test_edits_of_another_file_carry_its_path() -> None:
    file, other = source("x = 1\n"), source("ü = 1; y = 2\n", "other.py")
    both = Rewrite(
        "Rewrite it", "safe", (*rewrite(other, ("2", "3")).replacements, *rewrite(file, ("1", "2")).replacements)
    )
    edits = to_edits(both, file, lambda named: f"src/{named.path}")
    assert [edit.to_json() for edit in edits] == [
        {"line": 1, "column": 5, "end_line": 1, "end_column": 6, "content": "2"},
        {"line": 1, "column": 12, "end_line": 1, "end_column": 13, "content": "3", "path": "src/other.py"},
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import torch.nn as nn\nf()\n", "import torch\nimport torch.nn as nn\ntorch.f()\n"),
        ("from torch import nn\nf()\n", "import torch\nfrom torch import nn\ntorch.f()\n"),
        ("import torch as th\nf()\n", "import torch\nimport torch as th\ntorch.f()\n"),
        ("import torch\nf()\n", "import torch\ntorch.f()\n"),
        ("import torch.nn\nf()\n", "import torch.nn\ntorch.f()\n"),
        ("try:\n    import torch\nexcept ImportError:\n    torch = None\nf()\n",) * 2,
        ('"""Doc."""\n\nimport numpy\n\nf()\n', '"""Doc."""\n\nimport numpy\nimport torch\n\ntorch.f()\n'),
        ("import os; import sys; x = 1\nf()\n", "import os; import sys; x = 1\n\nimport torch\ntorch.f()\n"),
        (
            '"""Doc."""\nfrom __future__ import annotations\n\nf()\n',
            '"""Doc."""\nfrom __future__ import annotations\n\nimport torch\n\ntorch.f()\n',
        ),
        ('"""Doc."""\nf()\n', '"""Doc."""\n\nimport torch\ntorch.f()\n'),
        (
            "#!/usr/bin/env python\n# coding: utf-8\nf()\n",
            "#!/usr/bin/env python\n# coding: utf-8\n\nimport torch\n\ntorch.f()\n",
        ),
        ("f()\n", "import torch\n\ntorch.f()\n"),
        (
            "from numpy import (\n    a,  # one\n)  # end\nf()",
            "import torch\nfrom numpy import (\n    a,  # one\n)  # end\ntorch.f()",
        ),
        ("import numpy  # end\nf()", "import numpy  # end\nimport torch\ntorch.f()"),
        (
            "import os\n\nimport numpy as np\nimport yaml\nfrom a import b\n\nfrom .c import d\nf()\n",
            "import os\n\nimport numpy as np\nimport torch\nimport yaml\nfrom a import b\n\nfrom .c import d\ntorch.f()\n",
        ),
        (
            "import os\n\nfrom mine.a import b\nf()\n",
            "import os\n\nimport torch\n\nfrom mine.a import b\ntorch.f()\n",
        ),
        ("from . import a\nf()\n", "import torch\n\nfrom . import a\ntorch.f()\n"),
        (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\nf()\n",
            "from typing import TYPE_CHECKING\n\nimport torch\nif TYPE_CHECKING:\n    import torch\ntorch.f()\n",
        ),
    ],
)
def test_an_import_goes_where_a_person_would_put_it(before: str, after: str) -> None:
    after = after.replace("\nf()", "\ntorch.f()") if before == after else after
    file = source(before, "mine/m.py")
    assert fixed(file, ("f()", "torch.f()"), imports=("import torch",)).decode() == after


def test_an_import_keeps_the_line_ending() -> None:
    assert fixed(source("import os\r\nf()\r\n"), ("f()", "torch.f()"), imports=("import torch",)) == (
        b"import os\r\n\r\nimport torch\r\ntorch.f()\r\n"
    )


@pytest.mark.parametrize("before", ["torch = 3\nf()\n", "from mine import torch\nf()\n", "def torch(): ...\nf()\n"])
def test_a_name_that_means_something_else_is_not_taken(before: str) -> None:
    with pytest.raises(EditError, match="`torch` for something other"):
        fixed(source(before), ("f()", "torch.f()"), imports=("import torch",))


def test_an_import_goes_only_to_the_files_that_use_it() -> None:
    file, other = source("import os\nx = 1\n"), source("import os\ny = 2\n", "other.py")
    both = Rewrite(
        "Rewrite it",
        "safe",
        (*rewrite(file, ("1", "torch.f()")).replacements, *rewrite(other, ("2", "3")).replacements),
        imports=("import torch",),
    )
    plan = plan_of(both)
    assert len(plan[file.path]) == 2
    assert len(plan[other.path]) == 1
