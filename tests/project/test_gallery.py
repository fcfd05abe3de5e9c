"""The gallery: what is kept of the output of `check` and of pytest, and that the cases are complete."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

import build_gallery

SAID = """
DYN101 branch-on-tensor: `a` is a tensor
  --> pkg/a.py:3:5
   |
 3 |     if a:
   |
   = help: select

DYN201 item-of-tensor: `b` is read
  --> pkg/a.py:30:5
   |
   = help: keep it

Found 2 findings.
"""


def test_findings_in_the_lines_are_kept() -> None:
    said = build_gallery.findings_said(SAID, "pkg/a.py", (1, 9))
    assert said.startswith("DYN101")
    assert said.endswith("= help: select")
    assert build_gallery.findings_said(SAID, "pkg/a.py", (30, 30)).endswith("= help: keep it")
    assert build_gallery.findings_said(SAID, "pkg/b.py", (1, 40)) == ""


def test_the_line_of_pytest_has_no_time() -> None:
    line = "\x1b[32m===== \x1b[1m61 passed\x1b[0m, \x1b[33m1 skipped\x1b[0m in 2.86s\x1b[0m ====="
    assert build_gallery.without_frame(line) == "61 passed, 1 skipped"
    assert build_gallery.without_frame("9 passed in 0.1s") == "9 passed"


def test_cases_are_complete() -> None:
    cases = build_gallery.read_cases(build_gallery.GALLERY / "cases.toml")
    pages = [case.page for case in cases]
    assert len(set(pages)) == len(pages)
    for case in cases:
        assert case.lines[0] <= case.lines[1]
        compile(case.driver, case.page, "exec")
        if case.patch:
            assert (build_gallery.ROOT / "gallery" / "patches" / case.patch).exists()
    built = {page.stem for page in build_gallery.GALLERY.glob("*.md")} - {"README"}
    assert built <= set(pages)
    index = build_gallery.GALLERY / "README.md"
    assert build_gallery.index(cases) == index.read_text(encoding="utf-8")
