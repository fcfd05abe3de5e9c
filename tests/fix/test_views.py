"""Steps that lint only what a change may be felt in come to what linting the whole project comes to."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from dynalint import engine
from dynalint.config import Configuration, Overrides, parse_layer
from dynalint.fix import FixOptions, FixResult, Linted, Linter, Proposal, View, Views, fix_findings
from dynalint.fix.recheck import Item
from dynalint.projects.workspace import open_workspace
from dynalint.rulebook.catalogue import known_codes

from .test_engine import Toy, text_of


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    found = [tmp_path / f"{name}.py" for name in "abc"]
    for path in found:
        path.write_text("x = bad(A)\ny = bad(B)\n")
    return found


class Narrowing:
    """Lints with toys, a file by itself or all; counts the files that were linted for each."""

    def __init__(self, paths: list[Path], toy: Toy) -> None:
        self.paths, self.toy = paths, toy
        self.linted: list[tuple[str, ...]] = []

    def lint(self, texts: Mapping[Path, str]) -> list[Linted]:
        return self.of(self.paths, texts)

    def of(self, paths: Collection[Path], texts: Mapping[Path, str]) -> list[Linted]:
        self.linted.append(tuple(path.stem for path in sorted(paths)))
        return replace(self.toy, paths=sorted(paths))(texts)

    def view(self, paths: Collection[Path]) -> View:
        return View(lambda texts: self.of(paths, texts), frozenset(paths))

    def fix(self, **options: object) -> FixResult:
        linted = self.lint({})
        self.linted.clear()
        return fix_findings(linted, self.lint, FixOptions(**options), None, Views(self.view, self.view))  # type: ignore[arg-type]


def test_each_file_is_linted_by_itself_and_all_once_in_the_end(paths: list[Path]) -> None:
    project = Narrowing(paths, Toy(paths, {"A": "a", "B": "b"}))
    result = project.fix()
    assert [text_of(result, path) for path in paths] == ["x = a\ny = b\n"] * 3
    assert len(result.groups) == 3
    assert project.linted == [*[(name,) for name in "abc" for _ in "12"], tuple("abc")]


def test_files_that_one_fix_changes_are_linted_together(paths: list[Path]) -> None:
    table = {"A": [(paths[0], "bad(A)", "a"), (paths[1], "bad(A)", "a")]}
    paths[1].write_text("x = bad(A) + 1\n")
    paths[2].write_text("pass\n")
    project = Narrowing(paths, Toy(paths, table))  # type: ignore[arg-type]
    result = project.fix()
    assert text_of(result, paths[1]) == "x = a + 1\n"
    assert set(project.linted) == {("a", "b"), ("a", "b", "c")}


def test_what_views_show_otherwise_is_judged_by_the_whole_at_once(paths: list[Path]) -> None:
    toy = Toy(paths, {"A": "a", "B": "b"})
    project = Narrowing(paths, toy)

    def view(asked: Collection[Path]) -> View:
        less = replace(toy, table={"A": "other", "B": "b"})
        return View(lambda texts: [one for one in less(texts) if one.file.path in asked], frozenset(asked))

    result = fix_findings(project.lint({}), project.lint, FixOptions(), None, Views(view, view))
    assert [text_of(result, path) for path in paths] == ["x = a\ny = b\n"] * 3
    assert project.linted == [tuple("abc")] * 2


def test_what_fixes_leave_that_no_view_is_enough_for_is_worked_out_together(paths: list[Path]) -> None:
    toy = Toy(paths, {"A": "bad(C)", "B": "b", "C": "c"}, leaves={"A": ("DYNC",)})
    project = Narrowing(paths, toy)

    def view(asked: Collection[Path]) -> View:
        less = replace(toy, table={"A": "other", "B": "b"})
        return View(lambda texts: [one for one in less(texts) if one.file.path in asked], frozenset(asked))

    result = fix_findings(project.lint({}), project.lint, FixOptions(), None, Views(view, view))
    assert [text_of(result, path) for path in paths] == ["x = c\ny = b\n"] * 3
    first, steps, trial = 1, 2, 1
    assert len(project.linted) == first + steps + trial


def test_what_else_bears_on_a_file_is_carried_along(paths: list[Path]) -> None:
    """Of `a`, the view lacks the finding C, and shows D beside it; of neither there is a fix."""
    paths[0].write_text("w = bad(D)\nx = bad(A)\ny = bad(C)\n")
    project = Narrowing(paths, Toy(paths, {"A": "(\n    1\n)", "B": "b"}))

    def without(code: str, lint: Linter) -> Linter:
        return lambda texts: [one for one in lint(texts) if one.finding.code != code]

    def view(asked: Collection[Path]) -> View:
        seen = project.view(asked)
        return replace(seen, lint=without("DYNC", seen.lint))

    lint = without("DYND", project.lint)
    linted = lint({})
    project.linted.clear()
    result = fix_findings(linted, lint, FixOptions(), None, Views(view, view))
    assert text_of(result, paths[0]) == "w = bad(D)\nx = (\n    1\n)\ny = bad(C)\n"
    assert not result.refused
    assert [(one.path, one.line, one.code) for one in result.remaining if one.path == "a.py"] == [("a.py", 5, "DYNC")]
    assert project.linted.count(("a", "b", "c")) == 1


def test_a_new_finding_that_no_view_shows_is_found_in_the_end(paths: list[Path]) -> None:
    project = Narrowing(paths, Toy(paths, {"A": "a", "B": "b"}))
    whole = project.lint

    def lint(texts: Mapping[Path, str]) -> list[Linted]:
        linted = whole(texts)
        if "bad(A)" not in texts.get(paths[1], "bad(A)"):
            found = next(one for one in linted if one.finding.path == "c.py")
            new = replace(found.finding, line=2, column=1, end_line=2, end_column=2, code="DYNX", message="it is new")
            linted.append(replace(found, finding=new, rewrite=None))
        return linted

    paths[2].write_text("bad(C)\npass\n")
    asked: list[str] = []

    def decide(proposal: Proposal) -> str:
        asked.append(",".join(path.stem for path in proposal.diffs))
        return "accept"

    result = fix_findings(
        lint({}),
        lint,
        FixOptions(decide=decide),
        None,
        Views(project.view, project.view),  # type: ignore[arg-type]
    )
    assert text_of(result, paths[0]) == "x = a\ny = b\n"
    assert text_of(result, paths[1]) == "x = bad(A)\ny = b\n"
    assert [refused.finding.code for refused in result.refused] == ["DYNA"]
    assert "it causes a new finding: c.py:2: DYNX" in result.refused[0].reason
    assert len(asked) == len(set(asked)) + 2  # two fixes in each of two files, each asked about once


def test_quitting_ends_the_rounds_of_all_files(paths: list[Path]) -> None:
    project = Narrowing(paths, Toy(paths, {"A": "a", "B": "b"}))
    answers = iter(["accept", "quit"])
    result = project.fix(decide=lambda _: next(answers))
    assert [text_of(result, path) for path in paths] == ["x = a\ny = bad(B)\n", *["x = bad(A)\ny = bad(B)\n"] * 2]


LAYER = """\
import torch
from torch import nn


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor):
        self.calls += 1
        if x.sum() > 0:
            x = x * 2
        print("scaled")
        return x
"""
MODEL = """\
import torch
from torch import nn

from package.layer import Scale


class {name}(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = Scale()

    def forward(self, x: torch.Tensor):
        x = self.scale(x)
        if x.mean() > 1:
            x = x - 1
        print(self.scale.calls, x.shape)
        return x
"""


@pytest.mark.parametrize("unsafe", [False, True])
def test_a_real_project_comes_to_the_same_by_views(
    tmp_path: Path, unsafe: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "package"
    package.mkdir()
    files = {
        "__init__.py": "from package.one import One\n",
        "layer.py": LAYER,
        "one.py": MODEL.format(name="One"),
        "two.py": MODEL.format(name="Two"),
        "alone.py": LAYER.replace("Scale", "Alone"),
    }
    for name, text in files.items():
        (package / name).write_text(text)
    layer = parse_layer({"confirm": "never", "unsafe-fixes": unsafe}, tmp_path, lambda _: "the test")
    configuration = Configuration(Overrides((layer,), isolated=True), known_codes(), tmp_path)
    workspace, _ = open_workspace([package], configuration, tmp_path)
    checked = engine.check(workspace).offered()
    result, failures = engine.fix(checked, verify=False)
    whole = fix_findings(checked.linted, checked.linter, FixOptions(unsafe=unsafe))
    assert (result.files, result.groups, result.fixed) == (whole.files, whole.groups, whole.fixed)
    assert [one.sort_key for one in result.remaining] == [one.sort_key for one in whole.remaining]
    assert result.fixed
    assert not failures


def test_the_view_has_the_base_class_that_calls_the_changed_code(tmp_path: Path) -> None:
    """It does not import the file, so without it nothing would be compiled."""
    package = tmp_path / "package"
    package.mkdir()
    layer = "class {}(Base):\n    def apply(self, x):\n        return {}(x)\n"
    files = {
        "__init__.py": "",
        "base.py": "from torch import nn\n\n\nclass Base(nn.Module):\n    def forward(self, x):\n        return self.apply(x)\n",
        "ops.py": "import torch\n\n\ndef scale(x: torch.Tensor):\n    if x.mean() > 1:\n        x = x - 1\n    return x\n",
        "one.py": "from package.base import Base\nfrom package.ops import scale\n\n\n" + layer.format("One", "scale"),
        **{f"other{n}.py": f"def other{n}(x):\n    return x\n" for n in range(6)},
    }
    for name, text in files.items():
        (package / name).write_text(text)
    configuration = Configuration(
        Overrides((parse_layer({"confirm": "never"}, tmp_path, lambda _: "the test"),), isolated=True),
        known_codes(),
        tmp_path,
    )
    workspace, _ = open_workspace([package], configuration, tmp_path)
    checked = engine.check(workspace).offered()
    views = engine.views_of(checked)
    assert views is not None
    (finding,) = checked.linted
    view = views.felt([finding.file.path])
    assert view.files == {package / name for name in ("base.py", "one.py", "ops.py")}
    items = [Item(finding, finding.finding)]
    assert view.fitted(frozenset([finding.file.path]), items, {}) is not None
