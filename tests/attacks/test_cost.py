"""Code that is made to cost more than its size costs a bounded number of steps, the same on every machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynalint.analysis import steps
from dynalint.config import Configuration, Overrides, parse_layer
from dynalint.linting.lint import Linter, LintResult
from dynalint.projects.workspace import open_workspace
from dynalint.rulebook.catalogue import known_codes
from dynalint.rules import all_rules

from .conftest import BRANCH, Victim
from .costly import INPUTS

# These take some seconds each, and show nothing that the others do not.
_LONG = {
    "and_of_300", "and_of_60", "classes_250", "climbing_loops", "conditionals_90", "doubling_globals", "elifs_300",
    "growing_in_a_loop", "ifs_150", "ifs_5000", "ifs_in_ifs_18", "items_800", "prints_2000", "suppressions_5000", "unions",
}  # fmt: skip


def lint(folder: Path, **texts: str) -> LintResult:
    """Lint files of these names and texts as one project."""
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    layer = parse_layer({"confirm": "never"}, folder, lambda _: "test")
    configuration = Configuration(Overrides((layer,), isolated=True), known_codes(), folder)
    workspace, _ = open_workspace([folder], configuration, folder)
    return Linter(workspace, all_rules()).lint()


def spent(result: LintResult) -> list[tuple[int, int]]:
    """Return the steps that the analysis and the rewrites of each file took."""
    budgets, offers = result.analysis.budgets, result.offers
    offers.made(result.linted)
    return [(budgets.of(file).spent, offers.budgets.of(file).spent) for file in result.analysis.files]


@pytest.mark.parametrize("name", sorted(INPUTS.keys() - _LONG))
def test_it_ends_within_the_budgets(name: str, tmp_path: Path) -> None:
    (one,) = spent(lint(tmp_path, **{name: INPUTS[name]}))
    # A walk that has begun goes to its end.
    size = 10 * len(INPUTS[name])
    assert one[0] <= steps.MOST_STEPS + size
    assert one[1] <= steps.MOST_REWRITE_STEPS + size


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(_LONG))
def test_it_ends_within_the_budgets_though_it_takes_seconds(name: str, tmp_path: Path) -> None:
    test_it_ends_within_the_budgets(name, tmp_path)


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let budgets bite early: how they do does not depend on how large they are."""
    monkeypatch.setattr(steps, "MOST_STEPS", 5_000)
    monkeypatch.setattr(steps, "MOST_REWRITE_STEPS", 10_000)


LOOPS = INPUTS["climbing_loops"]


@pytest.mark.usefixtures("few_steps")
def test_the_analysis_says_what_it_left_out(tmp_path: Path) -> None:
    result = lint(tmp_path, bad=LOOPS, good=BRANCH)
    (failure,) = result.failures
    assert failure == (
        "bad.py: the analysis stopped after 5000 steps, and 1 function was not analysed; split the file, or exclude it"
    )
    assert [one.finding.code for one in result.linted if one.finding.path == "good.py"] == ["DYN101"]


@pytest.mark.usefixtures("few_steps")
def test_what_was_found_before_stays(tmp_path: Path) -> None:
    result = lint(tmp_path, m=LOOPS.replace("Model", "Other") + BRANCH)
    assert len(result.failures) == 1
    assert [one.finding.function for one in result.linted] == ["Model.forward"]


@pytest.mark.usefixtures("few_steps")
def test_rewrites_that_cost_too_much_are_declined_and_the_finding_stays(tmp_path: Path) -> None:
    result = lint(tmp_path, m=INPUTS["ifs_40"], good=BRANCH)
    assert result.failures == ()
    made = result.offers.made(result.linted)
    bad = [one for one in made if one.finding.path == "m.py"]
    assert len(bad) == 40
    reasons = {one.finding.fix.declined for one in bad if one.finding.fix is not None and one.rewrite is None}
    assert "the rewrites in this file take more than 10000 steps; split the file, or fix by hand" in reasons
    assert next(one for one in made if one.finding.path == "good.py").rewrite is not None


@pytest.mark.usefixtures("few_steps")
def test_it_is_the_same_each_time(tmp_path: Path) -> None:
    texts = {"a": INPUTS["ifs_40"], "b": LOOPS, "c": INPUTS["matches_200"]}
    first, second = (lint(tmp_path, **texts) for _ in range(2))
    assert spent(first) == spent(second)
    assert [one.finding for one in first.linted] == [one.finding for one in second.linted]
    assert first.failures == second.failures


def test_a_file_that_is_not_got_through_fails_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], few_steps: None
) -> None:
    from dynalint.cli import run

    (tmp_path / "bad.py").write_text(LOOPS)
    monkeypatch.chdir(tmp_path)
    assert run(["check", "--static", "--isolated"]) == 2
    assert "the analysis stopped after 5000 steps" in capsys.readouterr().err


def test_a_value_that_is_not_followed_does_not_fail_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from dynalint.cli import run

    (tmp_path / "table.py").write_text(
        "from torch import nn\n\n\nclass Part(nn.Module):\n    def forward(self, x):\n        return x.item()\n\n\n"
        "class Table(nn.Module):\n    def forward(self, x):\n"
        "        a = {'one': Part()}\n        b = [a, {'two': a}]\n        return b[1]['two']['one'](x)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dynalint.analysis.kinds.values.MOST_PARTS", 3)
    assert run(["check", "--static", "--isolated", "--no-cache", "--exit-zero"]) == 0
    assert "note: table.py: a value with more than 3 parts is not followed" in capsys.readouterr().err


DEEP = {
    "parentheses": "x = " + "(" * 5000 + ")" * 5000,
    "sum": "x = " + "1+" * 100_000 + "1",
    "attributes": "x = a" + ".b" * 100_000,
    "calls": "x = " + "f(" * 5000 + ")" * 5000,
    "unary": "x = " + "-" * 100_000 + "1",
    "not": "x = " + "not " * 50_000 + "1",
    "lists": "x = " + "[" * 5000 + "]" * 5000,
    "blocks": "\n".join(" " * n + "if x:" for n in range(2000)) + "\n" + " " * 2000 + "x",
    "f_strings": "x = " + "f'{" * 3000 + "}'" * 3000,
    "lambdas": "x = " + "lambda: " * 50_000 + "1",
    "conditionals": "x = " + "1 if x else " * 50_000 + "1",
    "elifs": "if x: pass\n" + "elif x: pass\n" * 20_000,
    "decorators": "@a\n" * 20_000 + "def f(): pass\n",
    "powers": "x = " + "9**" * 50_000 + "9",
    "nulls": "x = 1\0",
}


def test_what_python_cannot_parse_costs_its_own_file(tmp_path: Path) -> None:
    """In one process, as in a check of all of them: each is a finding or is checked, and none ends the process."""
    victim = Victim(tmp_path)
    for name, text in DEEP.items():
        victim.write(f"repository/{name}.py", text + "\n")
    victim.write("repository/zz.py", BRANCH)
    done = victim.dynalint("check", "--static", "--output-format", "concise", timeout=120.0)
    assert done.returncode in (1, 2), done.stderr
    assert "Traceback" not in done.stderr
    assert "zz.py:7:12: DYN101" in done.stdout
    assert len(done.stdout) + len(done.stderr) < 20_000
