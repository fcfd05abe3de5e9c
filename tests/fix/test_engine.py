"""The rounds: a toy linter over a toy language, so that each way in which fixes meet can be told apart.

A line `bad(KEY)` is a finding with code `DYNKEY` whose rewrite is what the test's table says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import pytest

from dynalint.analysis.source import parse_source, read_source
from dynalint.findings import Evidence, Finding, Fix, Safety
from dynalint.fix import FixOptions, FixResult, Linted, Proposal, Unit, Verification, View, Writer, fix_findings
from dynalint.fix.follow_ups import whole_fixes
from dynalint.rules import Replacement, Rewrite


@dataclass
class Toy:
    """Lints files for `bad(KEY)`; `table` maps keys to new text, or to edits as (old, new) pairs in any file."""

    paths: Sequence[Path]
    table: Mapping[str, str | list[tuple[Path, str, str]]]
    safety: Mapping[str, Safety] = field(default_factory=dict)
    leaves: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    functions: Mapping[str, str] = field(default_factory=dict)
    declined: str = ""
    doubts: Mapping[str, str] = field(default_factory=dict)
    longer: Mapping[str, Sequence[str]] = field(default_factory=dict)
    runs: int = 0

    def __call__(self, overrides: Mapping[Path, str]) -> list[Linted]:
        self.runs += 1
        files = {
            path: parse_source(path, overrides[path].encode()) if path in overrides else read_source(path)
            for path in self.paths
        }
        found = []
        for path, file in files.items():
            for match in re.finditer(r"bad\((\w+)\)", file.text):
                line, column = file.position(match.start())
                end_line, end_column = file.position(match.end())
                key = match[1]
                finding = Finding(
                    path.name, line, column, end_line, end_column, f"DYN{key}", f"bad-{key}", "graph-break", "error",
                    f"`bad({key})` is bad",
                    function=self.functions.get(key),
                    doubt=self.doubts.get(key, ""),
                    fix=Fix("No fix is offered", "suggestion", declined="no")
                    if key == self.declined
                    else Fix("Rewrite it", self.safety.get(key, "safe")),
                )  # fmt: skip
                new = self.table.get(key)
                rewrite = None
                if new is not None:
                    edits = [(path, match[0], new)] if isinstance(new, str) else new
                    replacements = []
                    for target, old, content in edits:
                        other = files[target]
                        start = match.start() if other is file and old == match[0] else other.text.find(old)
                        if start >= 0:
                            replacements.append(Replacement(other, start, start + len(old), content))
                    rewrite = Rewrite(
                        "Rewrite it",
                        self.safety.get(key, "safe"),
                        tuple(replacements),
                        ("it holds",),
                        leaves=self.leaves.get(key, ()),
                    )
                if rewrite is not None:
                    forms = [Replacement(file, match.start(), match.end(), one) for one in self.longer.get(key, ())]
                    last = None
                    for form in reversed(forms):
                        last = replace(rewrite, replacements=(form,), otherwise=last)
                    rewrite = replace(rewrite, otherwise=last)
                found.append(Linted(finding, file, rewrite))
        return found

    def fix(self, verify: Callable[..., Mapping[Unit, Verification]] | None = None, **options: object) -> FixResult:
        return fix_findings(self({}), self, FixOptions(**options), verify)  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.py"


def text_of(result: FixResult, path: Path) -> str:
    return next((file.text for file in result.files if file.source.path == path), path.read_text())


def verifications(outcomes: Mapping[str, str]) -> Callable[..., Mapping[Unit, Verification]]:
    """A verifier that judges by code; a code that is refuted drags all units along, as in one model."""

    def verify(before: object, after: object, units: Sequence[Unit]) -> Mapping[Unit, Verification]:
        by_unit = {unit: outcomes.get(unit.linted[0].finding.code, "proven") for unit in units}
        if "refuted" in by_unit.values():
            by_unit = dict.fromkeys(units, "refuted")
        return {unit: Verification(outcome, f"it was {outcome}", 3) for unit, outcome in by_unit.items()}  # type: ignore[arg-type]

    return verify


def test_all_is_fixed_in_one_round_where_nothing_touches(path: Path) -> None:
    path.write_text("x = bad(A)\ny = bad(B)\nz = bad(A)\n")
    result = Toy([path], {"A": "good(1)", "B": "good(2)"}).fix()
    assert text_of(result, path) == "x = good(1)\ny = good(2)\nz = good(1)\n"
    assert [fixed.finding.line for fixed in result.fixed] == [1, 2, 3]
    assert not result.remaining
    assert not result.refused
    assert not result.notes


def test_a_fix_inside_another_waits_for_its_round(path: Path) -> None:
    path.write_text("x = bad(A) + bad(B)\n")
    toy = Toy([path], {"A": [(path, "bad(A) + bad(B)", "where(bad(B))")], "B": "b"})
    result = toy.fix()
    assert text_of(result, path) == "x = where(b)\n"
    assert {fixed.finding.code for fixed in result.fixed} == {"DYNA", "DYNB"}
    assert [fixed.finding.column for fixed in result.fixed] == [5, 14]


def test_what_another_fix_makes_provable_is_fixed_in_the_same_run(path: Path) -> None:
    path.write_text("x = bad(A)\ny = bad(B)\n")
    asked = []

    def verify(before: Mapping[Path, str], after: object, units: Sequence[Unit]) -> Mapping[Unit, Verification]:
        asked.append([unit.linted[0].finding.code for unit in units])
        reached = "good(1)" in before.get(path, "")
        return {
            unit: Verification(
                "proven" if reached or unit.linted[0].finding.code == "DYNA" else "unverifiable", "so", 3
            )
            for unit in units
        }

    toy = Toy([path], {"A": "good(1)", "B": "good(2)"}, {"B": "conditional"})
    result = toy.fix(verify)
    assert text_of(result, path) == "x = good(1)\ny = good(2)\n"
    assert not result.refused
    assert asked == [["DYNA", "DYNB"], ["DYNA"], ["DYNB"]]


def test_what_is_repaired_along_with_another_says_so(path: Path) -> None:
    path.write_text("x = bad(A) + bad(B)\ny = bad(C)\n")
    toy = Toy([path], {"A": [(path, "bad(A) + bad(B)", "where(1)")], "C": "c"}, {"A": "conditional"}, declined="B")
    alone = Toy([path], {"A": [(path, "bad(A) + bad(B)", "where(1)")]}, {"A": "conditional"}, declined="B")
    for result, title in (
        (toy.fix(verifications({})), "Fix it together with other findings"),
        (alone.fix(verifications({})), "Rewrite it"),
    ):
        (along,) = [fixed.finding for fixed in result.fixed if fixed.finding.code == "DYNB"]
        assert along.fix is not None
        assert (along.fix.title, along.fix.safety) == (title, "conditional")
        assert along.fix.conditions == ("it holds",)
        assert along.fix.verified is True
        assert along.fix.declined is None


def test_what_was_let_pass_is_told_with_the_fix(path: Path) -> None:
    path.write_text("x = bad(A)\n")

    def verify(before: object, after: object, units: Sequence[Unit]) -> Mapping[Unit, Verification]:
        return {
            unit: Verification("proven", "equal", 3, passed=("w has a zero gradient instead of None",))
            for unit in units
        }

    (fixed,) = Toy([path], {"A": "good(1)"}, {"A": "conditional"}).fix(verify).fixed
    assert fixed.finding.fix is not None
    assert (fixed.finding.fix.safety, fixed.finding.fix.verified) == ("conditional", True)
    assert fixed.finding.fix.to_json()["changes"] == ["w has a zero gradient instead of None"]


def test_a_fix_elsewhere_is_no_reason_to_try_again(path: Path) -> None:
    path.write_text("x = bad(A)\ny = bad(B)\n")
    asked = []

    def verify(before: object, after: object, units: Sequence[Unit]) -> Mapping[Unit, Verification]:
        asked.append([unit.linted[0].finding.code for unit in units])
        return verifications({"DYNB": "unverifiable"})(before, after, units)

    toy = Toy([path], {"A": "good(1)", "B": "good(2)"}, {"B": "conditional"}, functions={"A": "f", "B": "g"})
    assert text_of(toy.fix(verify), path) == "x = good(1)\ny = bad(B)\n"
    assert asked == [["DYNA", "DYNB"], ["DYNA"]]


def test_what_is_not_wanted_is_not_asked_about_again(path: Path) -> None:
    path.write_text("x = bad(A)\ny = bad(B)\nz = bad(C)\n")
    proposed = []

    def decide(proposal: Proposal) -> Literal["accept", "skip"]:
        code = proposal.unit.linted[0].finding.code
        proposed.append(code)
        return "skip" if code == "DYNC" else "accept"

    toy = Toy([path], {"A": "good(1)", "B": "good(2)", "C": "good(3)"})
    result = toy.fix(verifications({"DYNB": "refuted"}), decide=decide)
    assert text_of(result, path) == "x = good(1)\ny = bad(B)\nz = bad(C)\n"
    assert proposed == ["DYNA", "DYNC"]


def test_what_does_not_parse_is_dropped_alone(path: Path) -> None:
    path.write_text("".join(f"x{key} = bad({key})\n" for key in "ABCDE"))
    result = Toy([path], {"A": "1", "B": "2", "C": "(", "D": "4", "E": "5"}).fix()
    assert text_of(result, path) == "xA = 1\nxB = 2\nxC = bad(C)\nxD = 4\nxE = 5\n"
    (refused,) = result.refused
    assert refused.finding.code == "DYNC"
    assert "the result does not parse" in refused.reason
    (left,) = result.remaining
    assert left.fix is not None
    assert left.fix.declined == refused.reason


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ({"A": "bad(A) + 1"}, "the finding is still there afterwards"),
        ({"A": "bad(New)"}, "it causes a new finding: m.py:2: DYNNew `bad(New)` is bad"),
    ],
)
def test_a_fix_that_leaves_or_brings_a_finding_is_dropped(path: Path, table: dict[str, str], reason: str) -> None:
    path.write_text("y = bad(B)\nx = bad(A)\n")
    result = Toy([path], {**table, "B": "b"}).fix()
    assert text_of(result, path) == "y = b\nx = bad(A)\n"
    assert [refused.reason for refused in result.refused] == [reason]


def test_a_new_finding_elsewhere_is_traced_to_its_fix(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    path.write_text("x = bad(A)\ny = bad(B)\nz = bad(C)\n")
    other.write_text("pass\n")
    toy = Toy([path, other], {"A": "a", "B": "b", "C": "c"})

    def lint(overrides: Mapping[Path, str]) -> list[Linted]:
        linted = toy(overrides)
        if "y = b\n" in overrides.get(path, ""):
            file = read_source(other)
            new = Finding("other.py", 1, 1, 1, 5, "DYNX", "x", "graph-break", "error", "it broke here")
            linted.append(Linted(new, file))
        return linted

    result = fix_findings(lint({}), lint, FixOptions())
    assert text_of(result, path) == "x = a\ny = bad(B)\nz = c\n"
    assert [refused.finding.code for refused in result.refused] == ["DYNB"]
    assert "other.py:1: DYNX" in result.refused[0].reason


@pytest.mark.parametrize(("culprit", "runs"), [("E", 3), ("C", 8)])
def test_a_new_finding_elsewhere_is_first_laid_to_what_is_on_its_way(
    path: Path, tmp_path: Path, culprit: str, runs: int
) -> None:
    other = tmp_path / "other.py"
    path.write_text("".join(f"x = bad({key})\n" for key in "ABCDEFGH"))
    other.write_text("pass\n")
    toy = Toy(
        [path, other], dict.fromkeys("ABCDEFGH", "a"), functions={key: f"Model{key}.forward" for key in "ABCDEFGH"}
    )

    def lint(overrides: Mapping[Path, str]) -> list[Linted]:
        linted = toy(overrides)
        if f"bad({culprit})" not in overrides.get(path, path.read_text()):
            way = {"function": "helper", "region": ("ModelE.forward", "helper")}
            new = Finding("other.py", 1, 1, 1, 5, "DYNX", "x", "graph-break", "error", "it broke here", **way)
            linted.append(Linted(new, read_source(other)))
        return linted

    result = fix_findings(lint({}), lint, FixOptions())
    assert [refused.finding.code for refused in result.refused] == [f"DYN{culprit}"]
    assert text_of(result, path) == "".join(f"x = bad({key})\n" if key == culprit else "x = a\n" for key in "ABCDEFGH")
    assert toy.runs == runs


def test_a_finding_that_moves_is_no_new_finding(path: Path) -> None:
    path.write_text("x = bad(A)\ny = bad(N)\n")
    result = Toy([path], {"A": "(\n    1\n)"}).fix()
    assert text_of(result, path) == "x = (\n    1\n)\ny = bad(N)\n"
    assert [finding.line for finding in result.remaining] == [4]


def test_refuted_findings_are_left_alone_even_when_they_move(path: Path) -> None:
    path.write_text("x = bad(A)\ny = bad(B)\n")
    toy = Toy([path], {"A": "(\n    1\n)", "B": "b"})
    linted = [
        replace(one, finding=replace(one.finding, evidence=Evidence("refuted"))) if one.finding.code == "DYNB" else one
        for one in toy({})
    ]
    result = fix_findings(linted, toy, FixOptions())
    assert text_of(result, path) == "x = (\n    1\n)\ny = bad(B)\n"
    assert [finding.evidence.status for finding in result.remaining] == ["refuted"]


def test_what_only_running_showed_is_neither_fixed_nor_lost(path: Path) -> None:
    path.write_text("x = bad(A)\ny = slow(1)\nz = bad(B)\n")
    toy = Toy([path], {"A": "(\n    1\n)", "B": "b"})
    file = read_source(path)
    running = [
        Linted(Finding("m.py", line, 5, line, 9, "DYN001", "n", "graph-break", "error", "it broke"), file)
        for line in (2, 3)
    ]
    result = fix_findings([*toy({}), *running], toy, FixOptions())
    assert {fixed.finding.code for fixed in result.fixed} == {"DYNA", "DYNB"}
    # The second one stood in code that was replaced.
    assert [(finding.code, finding.line) for finding in result.remaining] == [("DYN001", 4)]


def test_fixes_that_would_undo_each_other_do_not_go_round(path: Path) -> None:
    path.write_text("x = bad(A)\n")
    toy = Toy([path], {"A": "bad(B)", "B": "bad(A)"})
    result = toy.fix()
    assert not result.files
    assert "causes a new finding" in result.refused[0].reason
    assert toy.runs == 2


def test_a_long_chain_stops_after_ten_rounds_and_says_so(path: Path) -> None:
    path.write_text("x = " + "".join("(bad(A), " for _ in range(12)) + ")" * 12 + "\n")

    def lint(overrides: Mapping[Path, str]) -> list[Linted]:
        linted = Toy([path], {"A": "a"})(overrides)
        return [*linted[:1], *(replace(one, rewrite=None) for one in linted[1:])]

    result = fix_findings(lint({}), lint, FixOptions())
    assert text_of(result, path).count("bad(A)") == 2
    assert result.notes == ("there are still fixes to apply after 10 rounds (DYNA); run `fix` again",)


def test_a_fix_of_two_files_is_taken_in_both_or_in_none(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    path.write_text("x = bad(A)\n")
    other.write_text("read(x)\n")
    good = Toy([path, other], {"A": [(path, "bad(A)", "a"), (other, "read(x)", "read(int(x))")]}).fix()
    assert good.groups == ((path, other),)
    assert text_of(good, other) == "read(int(x))\n"
    bad = Toy([path, other], {"A": [(path, "bad(A)", "a"), (other, "read(x)", "read(")]}).fix()
    assert not bad.files
    assert [refused.finding.code for refused in bad.refused] == ["DYNA"]


@pytest.mark.parametrize(
    ("safety", "options", "outcome", "applied"),
    [
        ("safe", {}, None, True),
        ("safe", {}, "proven", True),
        ("safe", {}, "unverifiable", True),
        ("safe", {}, "refuted", False),
        ("conditional", {}, None, False),
        ("conditional", {}, "proven", True),
        ("conditional", {}, "unverifiable", False),
        ("conditional", {}, "refuted", False),
        ("unsafe", {}, "proven", False),
        ("unsafe", {"unsafe": True}, None, True),
        ("unsafe", {"unsafe": True}, "proven", True),
        ("unsafe", {"unsafe": True}, "unverifiable", False),
        ("suggestion", {"unsafe": True}, "proven", False),
    ],
)
def test_what_is_applied(
    path: Path, safety: Safety, options: dict[str, bool], outcome: str | None, applied: bool
) -> None:
    path.write_text("x = bad(A)\n")
    toy = Toy([path], {"A": "a"}, {"A": safety})
    result = toy.fix(None if outcome is None else verifications({"DYNA": outcome}), **options)
    assert bool(result.files) is applied
    assert bool(result.refused) is not applied
    if applied:
        (fixed,) = result.fixed
        assert fixed.finding.fix is not None
        assert fixed.finding.fix.verified is (True if outcome == "proven" else None)
    else:
        assert [refused.refuted for refused in result.refused] == [outcome == "refuted"]


def test_one_refuted_fix_in_a_model_does_not_cost_the_others(path: Path) -> None:
    path.write_text("".join(f"x{key} = bad({key})\n" for key in "ABCDE"))
    result = Toy([path], dict(zip("ABCDE", "12345", strict=True))).fix(verifications({"DYNC": "refuted"}))
    assert text_of(result, path) == "xA = 1\nxB = 2\nxC = bad(C)\nxD = 4\nxE = 5\n"
    (refused,) = result.refused
    assert (refused.finding.code, refused.refuted) == ("DYNC", True)
    (left,) = result.remaining
    assert left.fix is not None
    assert left.fix.verified is False


def test_what_a_run_that_ended_at_a_difference_left_open_is_run_again(path: Path) -> None:
    path.write_text("x = bad(A)\ny = bad(B)\nz = bad(C)\n")

    def verify(before: object, after: object, units: Sequence[Unit]) -> Mapping[Unit, Verification]:
        codes = [unit.linted[0].finding.code for unit in units]
        outcomes = {"DYNA": "unverifiable" if "DYNB" in codes else "proven", "DYNB": "refuted", "DYNC": "unverifiable"}
        return {unit: Verification(outcomes[code], "seen") for unit, code in zip(units, codes, strict=True)}  # type: ignore[arg-type]

    result = Toy([path], {"A": "1", "B": "2", "C": "3"}, dict.fromkeys("ABC", "conditional")).fix(verify)
    assert text_of(result, path) == "x = 1\ny = bad(B)\nz = bad(C)\n"
    assert [refused.refuted for refused in result.refused] == [True, False]


def test_an_unsafe_fix_that_fails_where_the_original_ran_is_not_applied(path: Path) -> None:
    path.write_text("x = bad(A)\n")

    def verify(before: object, after: object, units: Sequence[Unit]) -> Mapping[Unit, Verification]:
        return {unit: Verification("refuted", "NameError", raises=True) for unit in units}

    assert not Toy([path], {"A": "a"}, {"A": "unsafe"}).fix(verify, unsafe=True).files


def test_the_outer_fix_that_is_refused_makes_room_for_the_inner(path: Path) -> None:
    path.write_text("x = bad(A) + bad(B)\n")
    toy = Toy([path], {"A": [(path, "bad(A) + bad(B)", "where(bad(B))")], "B": "b"}, {"A": "conditional"})
    result = toy.fix(verifications({"DYNA": "unverifiable"}))
    assert text_of(result, path) == "x = bad(A) + b\n"


def test_what_a_fix_leaves_to_another_rule_is_part_of_it(path: Path) -> None:
    path.write_text("x\nbad(A)\ny\n")
    toy = Toy([path], {"A": "one\nbad(B)", "B": "bad(C) + two", "C": "good"}, leaves={"A": ("DYNB", "DYNC")})
    result = toy.fix()
    assert text_of(result, path) == "x\none\ngood + two\ny\n"
    assert [fixed.finding.code for fixed in result.fixed] == ["DYNA"]


def test_a_fix_that_leaves_what_no_rule_rewrites_is_refused(path: Path) -> None:
    path.write_text("bad(A)\n")
    toy = Toy([path], {"A": "bad(B)"}, leaves={"A": ("DYNB",)})
    assert [one.reason for one in toy.fix().refused] == ["it would leave a DYNB on line 1: `bad(B)` is bad"]


def test_a_part_of_a_fix_is_not_offered_if_nothing_tells_what_it_leaves(path: Path) -> None:
    path.write_text("bad(A)\n")
    toy = Toy([path], {"A": "bad(B)", "B": "good"}, leaves={"A": ("DYNB",)})
    linted = toy({})
    (unknown,) = whole_fixes(linted, linted, lambda _: [])
    (known,) = whole_fixes(linted, linted, lambda _: [View(toy)])
    assert unknown is not None
    assert "run `dynalint fix` on this file" in str(unknown.declined)
    assert not unknown.edits
    assert known is not None
    assert [edit.content for edit in known.edits] == ["good\n"]


@pytest.mark.parametrize(("function", "runs"), [("g", 3), ("f", 4)])
def test_what_a_fix_leaves_is_asked_again_only_where_code_on_the_way_has_changed(
    path: Path, tmp_path: Path, function: str, runs: int
) -> None:
    other = tmp_path / "other.py"
    path.write_text("bad(A)\n")
    other.write_text("bad(C)\n")
    table = {"A": "bad(B)", "C": [(other, "bad(C)", "done")]}
    toy = Toy([path, other], table, leaves={"A": ("DYNB",)}, functions={"A": "f", "C": function})
    result = toy.fix()
    assert [fixed.finding.code for fixed in result.fixed] == ["DYNC"]
    assert [refused.finding.code for refused in result.refused] == ["DYNA"]
    assert toy.runs == runs


def test_what_fixes_in_several_files_leave_is_worked_out_together(path: Path, tmp_path: Path) -> None:
    """Three of four go two steps each, two of them in one file; the whole is linted once a step."""
    others = [tmp_path / "other.py", tmp_path / "third.py"]
    path.write_text("bad(A)\npass\nbad(A)\n")
    others[0].write_text("bad(A)\n")
    others[1].write_text("bad(F)\n")
    table = {"A": "bad(B)", "B": "bad(C)", "C": "good", "F": "bad(G)"}
    toy = Toy([path, *others], table, leaves={"A": ("DYNB", "DYNC"), "F": ("DYNG",)}, functions={"F": "f"})
    result = toy.fix()
    assert [text_of(result, one) for one in (path, *others)] == ["good\npass\ngood\n", "good\n", "bad(F)\n"]
    assert [one.reason for one in result.refused] == ["it would leave a DYNG on line 1: `bad(G)` is bad"]
    first, steps, trial = 1, 2 * 3, 1
    assert toy.runs == first + steps + trial


def test_what_two_fixes_may_have_left_is_told_apart_one_by_one(path: Path, tmp_path: Path) -> None:
    """Either fix rids the third file of what keeps its finding away; only the second is to blame."""
    other, third = tmp_path / "other.py", tmp_path / "third.py"
    path.write_text("bad(A)\n")
    other.write_text("bad(A)\n")
    third.write_text("pass\n")
    toy = Toy([path, other, third], {"A": "bad(B)", "B": "good"}, leaves={"A": ("DYNB",)})

    def lint(texts: Mapping[Path, str]) -> list[Linted]:
        return toy({**texts, third: "bad(C)\n"} if other in texts else texts)

    result = fix_findings(lint({}), lint, FixOptions())
    assert text_of(result, path) == "good\n"
    assert text_of(result, other) == "bad(A)\n"
    assert [(one.finding.path, one.reason) for one in result.refused] == [
        ("other.py", "it would leave a DYNC on line 1: `bad(C)` is bad")
    ]


def test_a_fix_is_as_safe_as_all_that_it_leaves(path: Path) -> None:
    path.write_text("bad(A)\n")
    toy = Toy([path], {"A": "bad(B)", "B": "good"}, {"B": "unsafe"}, {"A": ("DYNB",)})
    assert [one.unlock for one in toy.fix().refused] == ["--unsafe-fixes"]
    assert text_of(toy.fix(unsafe=True), path) == "good\n"


def test_what_is_rarely_compiled_is_fixed_on_demand(path: Path) -> None:
    path.write_text("x = bad(A)\ny = bad(B)\n")
    toy = Toy([path], {"A": "a", "B": "b"}, doubts={"A": "`train` steps an optimizer"})
    assert text_of(toy.fix(), path) == "x = bad(A)\ny = b\n"
    assert text_of(toy.fix(unlikely=True), path) == "x = a\ny = b\n"


def test_fixing_twice_is_fixing_once(path: Path) -> None:
    path.write_text("x = bad(A)\ny = bad(C)\n")
    toy = Toy([path], {"A": "a", "C": "("})
    result = Writer(lambda source: source.path.name).finish(toy.fix())
    assert [file.source.path for file in result.files] == [path]
    assert path.read_text() == "x = a\ny = bad(C)\n"
    assert not toy.fix().files


def test_a_failed_write_puts_the_findings_back(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    path.write_text("x = bad(A)\n")
    other.write_text("y = bad(A)\n")
    result = Toy([path, other], {"A": "a"}).fix()
    path.write_text("x = bad(A)  # edited\n")
    result = Writer(lambda source: source.path.name).finish(result)
    assert [file.source.path for file in result.files] == [other]
    assert [finding.path for finding in result.remaining] == ["m.py"]
    assert [fixed.finding.path for fixed in result.fixed] == ["other.py"]
    assert result.failures == ("m.py: not fixed: the file was changed while dynalint ran; run it again",)


def test_the_diff_is_one_that_git_takes(path: Path) -> None:
    path.write_bytes(b"x = bad(A)\r\n\x0cy = 1\r\nz = bad(A)")
    (file,) = Toy([path], {"A": "a"}).fix().files
    assert file.diff("src/m.py") == (
        "--- a/src/m.py\n+++ b/src/m.py\n@@ -1,3 +1,3 @@\n-x = bad(A)\r\n+x = a\r\n \x0cy = 1\r\n"
        "-z = bad(A)\n\\ No newline at end of file\n+z = a\n\\ No newline at end of file\n"
    )


@pytest.mark.parametrize(("right", "tries"), [("short", 1), ("longer", 2), ("longest", 3), ("none", 3)])
def test_each_form_is_tried_until_one_is_proven(path: Path, right: str, tries: int) -> None:
    path.write_text("x = bad(A)\n")
    tried = []

    def verify(before: object, after: Mapping[Path, str], units: Sequence[Unit]) -> Mapping[Unit, Verification]:
        tried.append(after[path])
        return {unit: Verification("proven" if after[path] == f"x = {right}\n" else "refuted", "so") for unit in units}

    toy = Toy([path], {"A": "short"}, {"A": "conditional"}, longer={"A": ["longer", "longest"]})
    result = toy.fix(verify)
    assert text_of(result, path) == ("x = bad(A)\n" if right == "none" else f"x = {right}\n")
    assert tried == [f"x = {form}\n" for form in ("short", "longer", "longest")[:tries]]


def test_only_the_longest_form_is_applied_if_nothing_is_run(path: Path) -> None:
    path.write_text("x = bad(A)\n")
    toy = Toy([path], {"A": "short"}, {"A": "safe"}, longer={"A": ["longer", "longest"]})
    assert text_of(toy.fix(), path) == "x = longest\n"


@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize(("right", "left"), [("short", ""), ("long", ""), ("none", "bad(A)")])
def test_the_longer_form_is_tried_once_if_the_short_one_is_refuted(
    path: Path, right: str, left: str, leaves: bool
) -> None:
    path.write_text("x = bad(B)\n" if leaves else "x = bad(A)\n")
    tried = []

    def verify(before: object, after: Mapping[Path, str], units: Sequence[Unit]) -> Mapping[Unit, Verification]:
        tried.append(after[path])
        return {unit: Verification("proven" if right in after[path] else "refuted", "so") for unit in units}

    table: dict[str, str | list[tuple[Path, str, str]]] = {"A": "short", "B": "bad(A)"}
    toy = Toy([path], table, dict.fromkeys("AB", "conditional"), {"B": ("DYNA",)}, longer={"A": ["long"]})
    result = toy.fix(verify)
    old = path.read_text()
    assert text_of(result, path) == (old if left else f"x = {right}\n")
    assert tried[0] == "x = short\n"
    assert ("x = long\n" in tried) is (right != "short")
    assert len(tried) <= 3
    assert bool(result.refused) is bool(left)
