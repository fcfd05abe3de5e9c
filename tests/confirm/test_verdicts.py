"""Verdicts from results made by hand: each rule of judgement by itself, without torch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dynalint.confirm.discoveries import discoveries
from dynalint.confirm.located import Located, is_way_to
from dynalint.confirm.options import ConfirmOptions, Target
from dynalint.confirm.results import Coverage, Problem, UncoveredRun, as_part
from dynalint.confirm.results import TargetResult as Heard
from dynalint.confirm.sources import UserSources
from dynalint.confirm.verdicts import Confirmation, not_run, undecided, with_verdicts
from dynalint.confirm.worker.dynamo.records import (
    Break,
    Compile,
    EagerComparison,
    EagerRun,
    Run,
    RunFailure,
    StackFrame,
)
from dynalint.findings import Evidence, Finding

HOME = "/project"
PATH = f"{HOME}/model.py"
LIBRARY = "/env/lib/python3.11/site-packages/torch/nn/modules/rnn.py"
TEXT = """\
class Model:
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        if x.sum() > 0 and x.max() > 1:
            return x
        self.count += 1
        return helper(x)

    def tried(self, x):
        try:
            return self.forward(x)
        except ValueError:
            return x
"""
RUN = Run((1, 1, 1), (1, 1, 1), (), (), (), None, {}, explained=False)
RESULT = Heard(
    target=Target(Path(PATH), "model", "Model"),
    torch="2.13.0",
    inputs="Model()",
    same=3,
    batch=1,
    problem=None,
    eager=EagerRun({PATH: tuple(range(3, 9))}, None),
    default=RUN,
    fullgraph=RUN,
    comparison=None,
    coverage={},
    latent=None,
    files=frozenset({PATH}),
)


def finding(line: int, column: int, end_column: int, **changes: Any) -> Finding:
    made = Finding(
        PATH.removeprefix(f"{HOME}/"), line, column, line, end_column, "DYN101", "n", "graph-break", "error", "m"
    )
    return replace(made, **{"function": "Model.forward", "region": ("Model.forward",), "gb": ("GB0170",), **changes})


BRANCH = finding(5, 12, 23)
SECOND = finding(5, 28, 39)
COUNTER = finding(7, 9, 24, category="recompile", code="DYN501", gb=())


def broken(line: int, gb: str = "GB0170", *, columns: tuple[int, int] | None = None, **changes: Any) -> Break:
    start, end = columns if columns is not None else (None, None)
    made = Break(gb, "a kind", "an explanation", (), "r", (StackFrame(PATH, line, "forward", start, end),), 0)
    return replace(made, **changes)


def confirmation(findings: list[Finding], *results: Heard) -> Confirmation:
    sources = UserSources({PATH: TEXT})
    placed = [Located(one, PATH, sources.spot(PATH, one)) for one in findings]
    return Confirmation(placed, results, sources, lambda path: path.startswith(HOME))


def heard(**changes: Any) -> Heard:
    return replace(RESULT, **changes)


def covered(*findings: Finding, operations: int = 4, traced: int = 4) -> dict[str, Any]:
    sources = UserSources({PATH: TEXT})
    return {PATH: {sources.spot(PATH, one): Coverage(operations, traced) for one in findings}}


def evidence(one: Finding, *results: Heard) -> Evidence:
    (judged,) = with_verdicts(confirmation([one], *results))
    return judged.evidence


def status(one: Finding, *results: Heard) -> str:
    return evidence(one, *results).status


def test_a_break_in_the_range_confirms() -> None:
    found = evidence(BRANCH, heard(default=replace(RUN, breaks=(broken(5),))))
    assert found == Evidence(
        "confirmed",
        "an explanation. With fullgraph=True, Dynamo traces it. torch._dynamo.explain does not report this break.",
        "GB0170",
        "2.13.0",
        "passes",
        0,
        "split",
    )


@pytest.mark.parametrize(
    ("effects", "told"),
    [(("split", "frame"), "frame"), (("rest", "split"), "rest"), (("split",), "split"), (("forged",), None)],
)
def test_the_largest_effect_of_a_break_is_told(effects: tuple[str, ...], told: str | None) -> None:
    breaks = tuple(replace(broken(5), effect=effect) for effect in effects)
    assert evidence(BRANCH, heard(default=replace(RUN, breaks=breaks))).effect == told
    # Seen with one target or with several.
    alone = [heard(default=replace(RUN, breaks=(one,))) for one in breaks]
    assert evidence(BRANCH, *alone).effect == told


def test_of_two_findings_on_a_line_the_columns_decide() -> None:
    seen = heard(default=replace(RUN, breaks=(broken(5, columns=(27, 38)),)), coverage=covered(BRANCH, SECOND))
    assert [one.evidence.status for one in with_verdicts(confirmation([BRANCH, SECOND], seen))] == [
        "refuted",
        "confirmed",
    ]


def test_a_break_at_a_test_over_several_lines_belongs_to_the_operands_that_ran() -> None:
    """Python takes the whole `if` statement for the place of the jump, and its last column is that of another line."""
    frame = StackFrame(PATH, 5, "forward", 8, 20, 6)
    default = replace(RUN, breaks=(broken(5, stack=(frame,)),))
    both = with_verdicts(confirmation([BRANCH, SECOND], heard(default=default, coverage=covered(BRANCH, SECOND))))
    assert [one.evidence.status for one in both] == ["confirmed", "confirmed"]
    first = with_verdicts(confirmation([BRANCH, SECOND], heard(default=default, coverage=covered(BRANCH))))
    assert first[0].evidence.status == "confirmed"
    assert first[1].evidence.status not in ("confirmed", "refuted")


def test_a_break_of_another_kind_beside_a_finding_is_not_its_own() -> None:
    seen = broken(5, "GB0007", columns=(60, 70))
    default = replace(RUN, breaks=(seen,))
    assert status(BRANCH, heard(default=default, coverage=covered(BRANCH))) == "refuted"
    error = RunFailure("UserError", "m", 0, (StackFrame(PATH, 5, "forward", 60, 70),), None, "kind", "only there")
    assert status(BRANCH, heard(fullgraph=replace(RUN, error=error), coverage=covered(BRANCH))) == "refuted"


def test_without_columns_the_kind_decides() -> None:
    item = replace(SECOND, gb=("GB0124",))
    seen = heard(default=replace(RUN, breaks=(broken(5, "GB0124"),)), coverage=covered(BRANCH, item, traced=2))
    assert [one.evidence.status for one in with_verdicts(confirmation([BRANCH, item], seen))] == [
        "unconfirmed",
        "confirmed",
    ]


def test_a_break_of_another_kind_still_confirms_where_nothing_else_explains_it() -> None:
    assert evidence(BRANCH, heard(default=replace(RUN, breaks=(broken(5, "GB0124"),)))).gb == "GB0124"


def test_a_break_belongs_to_the_innermost_frame_of_the_users_own() -> None:
    stack = (StackFrame(PATH, 8, "forward"), StackFrame(LIBRARY, 99, "run"))
    seen = heard(default=replace(RUN, breaks=(broken(8, stack=stack),)))
    found = evidence(finding(8, 16, 25), seen)
    assert found.status == "confirmed"
    assert "It breaks in run (torch/nn/modules/rnn.py:99), called from here." in found.detail


def test_a_break_in_a_wrapper_belongs_to_the_call_that_may_break_inside() -> None:
    call = finding(5, 12, 23, inside=True)
    stack = (StackFrame(PATH, 5, "forward", None, None), StackFrame(PATH, 8, "wrapper", None, None))
    result = heard(default=replace(RUN, breaks=(broken(8, stack=stack),)))
    assert status(call, result) == "confirmed"
    assert status(BRANCH, result) != "confirmed"
    own = finding(8, 16, 25)
    assert [one.evidence.status == "confirmed" for one in with_verdicts(confirmation([call, own], result))] == [
        False,
        True,
    ]
    other = heard(default=replace(RUN, breaks=(broken(8, "GB0156", stack=stack),)))
    assert status(call, other) != "confirmed"


def test_all_operations_traced_refutes() -> None:
    assert status(BRANCH, heard(coverage=covered(BRANCH))) == "refuted"


@pytest.mark.parametrize(("operations", "traced"), [(4, 3), (4, 0), (0, 0)])
def test_less_than_all_of_them_does_not(operations: int, traced: int) -> None:
    assert status(BRANCH, heard(coverage=covered(BRANCH, operations=operations, traced=traced))) == "unconfirmed"


def test_a_line_that_never_ran_is_unreached_for_a_target_that_should_come_there() -> None:
    assert status(BRANCH, heard(eager=EagerRun({PATH: (3,)}, None))) == "unreached"
    assert status(BRANCH, heard(files=frozenset())) == "unreached"
    other = heard(eager=EagerRun({PATH: (3,)}, None), target=replace(RESULT.target, qualname="Other"))
    assert status(BRANCH, other) == "static"
    unled = confirmation([BRANCH], other)
    led = replace(unled, placed=[replace(one, leads=(other.target,)) for one in unled.placed])
    assert [one.evidence.status for one in with_verdicts(led)] == ["unreached"]


def test_a_call_that_never_calls_the_function_shows_nothing_about_it() -> None:
    other = finding(12, 20, 32, function="Model.tried", region=("Model.forward", "Model.tried"))
    elsewhere = heard(eager=EagerRun({PATH: (3,)}, None))
    found = evidence(other, elsewhere)
    assert (found.status, "never called `Model.tried`" in found.detail) == ("unconfirmed", True)
    # The functions on the way are run then. What the project's own calls of them do not reach is told.
    assert not_run(confirmation([other], elsewhere))
    part = replace(
        elsewhere, eager=EagerRun({PATH: (11,)}, None), target=replace(RESULT.target, qualname="Model.tried")
    )
    assert status(other, elsewhere, as_part(part, "called")) == "unreached"
    assert status(other, elsewhere, as_part(part, "guessed")) == "unconfirmed"
    assert status(other, elsewhere, as_part(replace(part, coverage=covered(other)), "called")) == "unconfirmed"


def test_what_a_lost_frame_hides_is_unconfirmed_with_the_break_that_hides_it() -> None:
    seen = broken(4, "GB0059", effect="frame", secondary=("GB7000",))
    found = evidence(BRANCH, heard(default=replace(RUN, breaks=(seen,))))
    assert found.status == "unconfirmed"
    assert "hidden by the graph break at line 4 (GB0059, a kind)" in found.detail


def test_a_break_in_another_file_that_hides_is_named_with_its_file() -> None:
    stack = (StackFrame(PATH, 3, "forward"), StackFrame(f"{HOME}/lib/other.py", 1, "enter"))
    seen = replace(broken(3, "GB0208", effect="frame"), stack=stack)
    sources = UserSources({PATH: TEXT, f"{HOME}/lib/other.py": "x\n"})
    placed = [Located(BRANCH, PATH, sources.spot(PATH, BRANCH))]
    result = heard(default=replace(RUN, breaks=(seen,)))
    (found,) = with_verdicts(Confirmation(placed, [result], sources, lambda path: path.startswith(HOME)))
    assert "hidden by the graph break at other.py:1 (GB0208" in found.evidence.detail


def test_fullgraph_alone_confirms_with_its_own_id() -> None:
    error = RunFailure("Unsupported", "m", 0, (StackFrame(PATH, 5, "forward"),), "GB0170", "kind", "only there")
    found = evidence(BRANCH, heard(fullgraph=replace(RUN, error=error)))
    assert (found.status, found.gb, found.fullgraph) == ("confirmed", "GB0170", "breaks")
    assert found.detail == "only there. This was only seen with fullgraph=True."


def test_fullgraph_that_broke_elsewhere_says_nothing_here() -> None:
    error = RunFailure("Unsupported", "m", 0, (StackFrame(PATH, 4, "forward"),), "GB0170", "kind", "e")
    found = evidence(BRANCH, heard(default=replace(RUN, breaks=(broken(5),)), fullgraph=replace(RUN, error=error)))
    assert found.fullgraph is None


def recompiled(call: int, reason: str) -> Compile:
    return Compile("forward", PATH, 2, call, 1, guarded=True, recompile=reason)


def test_a_recompile_is_matched_by_place_or_by_name() -> None:
    by_place = [recompiled(1, f'0/0: odd == 1\nUser stack trace:\n  File "{PATH}", line 7, in forward\n    x')]
    by_name = [recompiled(1, "0/0: self.count == 0"), recompiled(2, "0/1: self.count == 1")]
    assert evidence(COUNTER, heard(default=replace(RUN, compiles=tuple(by_place)))).recompiles == 1
    found = evidence(COUNTER, heard(default=replace(RUN, compiles=tuple(by_name))))
    assert (found.status, found.recompiles) == ("confirmed", 2)
    assert found.detail == "recompiled twice in 3 identical calls, because of the guard self.count == 1."


def test_another_batch_size_is_no_recompile_of_state() -> None:
    again = recompiled(3, "0/0: tensor 'x' size mismatch at index 0. expected 5, actual 8")
    seen = heard(default=replace(RUN, compiles=(again,)), coverage=covered(COUNTER))
    assert status(COUNTER, seen) == "refuted"
    assert discoveries(confirmation([], seen), Path(HOME)) == []


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("tensor 'x' size mismatch at index 0. expected 5, actual 8", "unconfirmed"),
        ("L['x'].size()[0] == 5", "unconfirmed"),
        ("L['x'] == 17.0", "confirmed"),
    ],
)
def test_a_number_is_only_recompiled_for_by_a_guard_on_it(reason: str, expected: str) -> None:
    number = replace(BRANCH, category="recompile", code="DYN804", gb=())
    seen = heard(default=replace(RUN, compiles=(recompiled(3, f"0/0: {reason}"),)), coverage=covered(number, traced=2))
    assert status(number, seen) == expected


def test_a_number_read_at_a_break_is_judged_by_calls_with_other_values() -> None:
    item, number = replace(BRANCH, gb=("GB0124",)), replace(BRANCH, category="recompile", code="DYN804", gb=())
    read, again = replace(RUN, breaks=(broken(5, "GB0124"),)), recompiled(5, "0/0: L['x'] == 17.0")

    def judged(run: Run) -> str:
        found = with_verdicts(confirmation([item, number], heard(default=run, coverage=covered(number))))
        return found[1].evidence.status

    assert judged(read) == "unconfirmed"
    assert judged(replace(read, compiles=(again,))) == "confirmed"
    # Where nothing is read, another value is another input.
    assert judged(replace(RUN, compiles=(again,))) == "refuted"


def test_a_confirmation_by_one_target_wins_over_all_others() -> None:
    yes = heard(default=replace(RUN, breaks=(broken(5),)))
    no = heard(coverage=covered(BRANCH))
    assert status(BRANCH, no, yes) == status(BRANCH, yes, no) == "confirmed"


def test_a_run_that_saw_too_little_keeps_a_finding_in_the_report() -> None:
    refuting, unsure = heard(coverage=covered(BRANCH)), heard(coverage=covered(BRANCH, traced=1))
    assert status(BRANCH, refuting, unsure) == "unconfirmed"


def test_a_target_that_failed_matters_only_to_its_own_findings() -> None:
    problem = Problem("process", "importing model.py", "exit", {"status": 3}, None)
    failed = heard(problem=problem, eager=None, default=None)
    assert evidence(BRANCH, failed).detail == "the code exited with status 3 while importing model.py."
    assert status(BRANCH, replace(failed, target=replace(RESULT.target, qualname="Other"))) == "static"
    assert status(BRANCH, failed, heard(coverage=covered(BRANCH))) == "refuted"


def test_a_target_that_came_to_a_finding_and_then_failed_says_so() -> None:
    other = finding(5, 12, 23, function="helper", region=("Other.forward", "helper"))
    problem = Problem("process", "running Model under torch.compile", "timeout", {"seconds": 60.0}, None)
    stuck = heard(default=None, problem=problem)
    assert "did not finish within 60 s" in evidence(other, stuck).detail
    assert status(other, replace(stuck, eager=None)) == "static"
    assert status(other, stuck, heard(coverage=covered(other))) == "refuted"


def test_a_run_that_came_nowhere_near_says_more_than_one_that_failed() -> None:
    problem = Problem("process", "importing model.py", "exit", {"status": 3}, None)
    failed = heard(problem=problem, eager=None, default=None)
    elsewhere = heard(eager=EagerRun({PATH: (3,)}, None))
    assert status(BRANCH, failed, elsewhere) == "unreached"
    # What breaks in a part of it would settle more.
    assert [one.finding for one in not_run(confirmation([BRANCH], failed, elsewhere))] == [BRANCH]
    assert not not_run(confirmation([BRANCH], elsewhere))


def test_a_crash_after_the_compiled_run_takes_nothing_back_and_concerns_no_other() -> None:
    problem = Problem("process", "comparing", "timeout", {"seconds": 60}, None)
    crashed = heard(problem=problem, eager=EagerRun({PATH: (3,)}, None))
    assert status(BRANCH, crashed) == "unreached"
    assert status(BRANCH, replace(crashed, target=replace(RESULT.target, qualname="Other"))) == "static"


def test_a_class_is_a_way_to_its_own_code_wherever_the_chain_begins() -> None:
    """What is compiled of it may stand in its base, and the chain come from a wrapper in another file."""
    region = ("Wrapper.forward", "Base.forward", "Model.mine")
    mine = Located(
        replace(BRANCH, function="Model.mine", region=region), PATH, (5, 11, 5, 22), root="/project/other.py"
    )
    wrapper = Target(Path("/project/other.py"), "other", "Wrapper")
    model, base = RESULT.target, replace(RESULT.target, qualname="Base")
    assert [is_way_to(one, mine) for one in (model, wrapper, base)] == [True, True, False]
    sought = Confirmation([replace(mine, leads=(base, wrapper))], [], UserSources({PATH: TEXT}), lambda _: True)
    assert list(undecided(sought, [base, model, wrapper])) == [model, wrapper, base]


def test_a_crash_after_the_compiled_run_keeps_what_it_showed() -> None:
    problem = Problem("process", "comparing", "timeout", {"seconds": 60}, None)
    assert status(BRANCH, heard(problem=problem, default=replace(RUN, breaks=(broken(5),)))) == "confirmed"


@pytest.mark.parametrize(
    ("comparison", "expected"),
    [
        (EagerComparison(False, True, True, 0, "gradient of w", "2 compiled, 1 without", True), "confirmed"),
        (EagerComparison(True, True, True), "refuted"),
        (EagerComparison(True, True, False), "unconfirmed"),
        (EagerComparison(True, False, True), "unconfirmed"),
        (None, "unconfirmed"),
    ],
)
def test_a_miscompile_is_judged_by_comparison(comparison: EagerComparison | None, expected: str) -> None:
    wrong = replace(COUNTER, category="miscompile")
    assert status(wrong, heard(comparison=comparison, coverage=covered(wrong))) == expected


DIFFERS = EagerComparison(False, True, True, 2, "result", "2 compiled, 1 without", place=StackFrame(PATH, 2, "forward"))


def test_a_difference_without_a_finding_is_a_finding() -> None:
    (found,) = discoveries(confirmation([BRANCH], heard(comparison=DIFFERS, coverage=covered(BRANCH))), Path(HOME))
    assert (found.code, found.category, found.path, found.line, found.column) == (
        "DYN012",
        "miscompile",
        "model.py",
        2,
        5,
    )
    assert found.message == "When compiled, Model.forward gives different results from eager code: result differs"
    assert "Call 3 without gradients gives different results" in found.help
    raises = replace(DIFFERS, what="exception", detail="it raises RuntimeError: twice")
    (found,) = discoveries(confirmation([], heard(comparison=raises)), Path(HOME))
    assert found.message == "When compiled, Model.forward raises RuntimeError: twice"


def test_a_difference_that_a_finding_may_stand_for_is_no_other_finding() -> None:
    wrong = replace(COUNTER, category="miscompile")
    assert discoveries(confirmation([wrong], heard(comparison=DIFFERS, coverage=covered(wrong))), Path(HOME)) == []
    assert discoveries(confirmation([], heard(comparison=replace(DIFFERS, place=None))), Path(HOME)) == []
    assert discoveries(confirmation([], heard(comparison=EagerComparison(True, True, True))), Path(HOME)) == []


def test_what_shows_in_evaluation_mode_says_so() -> None:
    seen = heard(default=replace(RUN, breaks=(broken(5),)), mode="in evaluation mode")
    assert "Seen in evaluation mode." in evidence(BRANCH, heard(coverage=covered(BRANCH)), seen).detail


def test_advice_is_not_judged() -> None:
    advice = replace(BRANCH, category="advice")
    assert status(advice, heard(default=replace(RUN, breaks=(broken(5),)))) == "static"


def test_a_break_without_a_finding_is_a_finding() -> None:
    stack = (StackFrame(PATH, 8, "forward", 15, 24), StackFrame(LIBRARY, 99, "run"))
    (found,) = discoveries(
        confirmation([BRANCH], heard(default=replace(RUN, breaks=(broken(8, stack=stack),)))), Path(HOME)
    )
    assert (found.code, found.path, found.line, found.column, found.end_column) == ("DYN001", "model.py", 8, 16, 25)
    assert found.function == "Model.forward"
    assert found.region == ("Model.forward",)
    assert found.severity == "warning"
    assert found.message == "Dynamo breaks the graph in run, called from here: a kind"
    assert found.evidence.status == "confirmed"


def test_breaks_in_what_one_call_of_a_library_runs_are_one_finding() -> None:
    def in_library(function: str, effect: str, columns: tuple[int, int] = (15, 24)) -> Break:
        stack = StackFrame(PATH, 8, "forward", *columns), StackFrame(LIBRARY, 99, function)
        return broken(8, stack=stack, effect=effect)

    once = in_library("run", "split"), in_library("shape", "frame"), in_library("run", "split")
    (found,) = discoveries(confirmation([], heard(default=replace(RUN, breaks=once))), Path(HOME))
    assert found.message == "Dynamo breaks the graph in shape, called from here: a kind (and 2 more there)"
    again = heard(default=replace(RUN, breaks=once)), heard(default=replace(RUN, breaks=once[:1]))
    assert len(discoveries(confirmation([], *again), Path(HOME))) == 1
    twice = in_library("run", "split"), in_library("run", "split", (4, 9))
    assert len(discoveries(confirmation([], heard(default=replace(RUN, breaks=twice))), Path(HOME))) == 2
    own = broken(8, columns=(15, 24)), broken(8, columns=(15, 24), gb_type="another kind")
    assert len(discoveries(confirmation([], heard(default=replace(RUN, breaks=own))), Path(HOME))) == 2


def test_what_only_fails_while_dynamo_traces_it_is_a_finding() -> None:
    stack = (StackFrame(PATH, 5, "forward"), StackFrame(LIBRARY, 99, "run"))
    error = RunFailure(
        "TorchRuntimeError", "failed\n  Explanation: Dynamo failed to run a node\n  Hint: none", 0, stack
    )
    (found,) = discoveries(confirmation([], heard(default=replace(RUN, error=error))), Path(HOME))
    assert (found.code, found.line, found.category) == ("DYN012", 5, "miscompile")
    assert found.message == "When compiled, Model.forward raises TorchRuntimeError, which eager code does not"
    assert found.help == "Dynamo failed to run a node."
    for frames, place in ((stack, "model.py:5"), (stack[1:], f"{LIBRARY.partition('site-packages/')[2]}:99")):
        judged = evidence(BRANCH, heard(default=replace(RUN, error=replace(error, stack=frames))))
        assert judged.detail.startswith(f"hidden by code at {place} that fails with TorchRuntimeError")
    handled = replace(error, stack=(StackFrame(PATH, 12, "tried"), *stack))
    for other in (replace(error, type="KeyboardInterrupt"), replace(error, stack=stack[1:]), handled):
        assert discoveries(confirmation([], heard(default=replace(RUN, error=other))), Path(HOME)) == []


def test_consequences_of_a_break_are_no_findings_of_their_own() -> None:
    breaks = (broken(5), broken(6, "GB0088"))
    assert discoveries(confirmation([BRANCH], heard(default=replace(RUN, breaks=breaks))), Path(HOME)) == []
    (alone,) = discoveries(confirmation([], heard(default=replace(RUN, breaks=breaks[1:]))), Path(HOME))
    assert alone.gb == ("GB0088",)


def test_a_break_seen_by_several_targets_is_one_finding() -> None:
    seen = heard(default=replace(RUN, breaks=(broken(4, "GB0059"), broken(4, "GB0059"))))
    assert len(discoveries(confirmation([], seen, seen), Path(HOME))) == 1


def test_breaks_outside_the_users_code_alone_are_nobodys() -> None:
    seen = broken(4, stack=(StackFrame(LIBRARY, 99, "run"),))
    assert discoveries(confirmation([], heard(default=replace(RUN, breaks=(seen,)))), Path(HOME)) == []


def test_a_recompile_that_settles_is_no_finding_and_one_that_goes_on_is() -> None:
    settles = (recompiled(1, "0/0: self.ready == False"),)
    assert discoveries(confirmation([], heard(default=replace(RUN, compiles=settles))), Path(HOME)) == []
    # A slow model is only called twice, so nobody knows whether it settles.
    assert discoveries(confirmation([], heard(same=2, default=replace(RUN, compiles=settles))), Path(HOME)) == []
    hint = "(HINT: make it a tensor)"
    reason = f'self.count == %d   # x  # model.py:7 in forward {hint}\nUser stack trace:\n  File "{PATH}", line 7, in forward'
    goes_on = tuple(recompiled(call, f"0/{call}: {reason % call}") for call in (1, 2))
    (found,) = discoveries(confirmation([], heard(default=replace(RUN, compiles=goes_on))), Path(HOME))
    assert (found.code, found.line, found.column, found.end_column) == ("DYN002", 7, 9, 24)
    assert found.message == "Dynamo compiles Model.forward again on every call, because of the guard self.count == 2"
    assert found.help == "make it a tensor"
    assert found.evidence.recompiles == 2
    assert discoveries(confirmation([COUNTER], heard(default=replace(RUN, compiles=goes_on))), Path(HOME)) == []


def test_columns_are_counted_in_bytes_and_given_back_in_characters(tmp_path: Path) -> None:
    path = str(tmp_path / "accents.py")
    sources = UserSources({path: 'x = "äöü" + f(y)\r\nz = 1\n'})
    one = Finding("accents.py", 1, 13, 1, 17, "C", "n", "graph-break", "error", "m")
    assert sources.spot(path, one) == (1, 15, 1, 19)
    assert sources.character_columns(path, 1, 15, 19) == (13, 17)
    assert sources.line(path, 2) == "z = 1"


def test_examples_are_found_by_module_or_by_file() -> None:
    options = ConfirmOptions(
        project=Path("/p"), examples={"pkg.model:A": "by_module", "src/pkg/model.py:B": "by_file", "x:C": "other"}
    )
    names = {name: options.example_for(Target(Path("/p/src/pkg/model.py"), "pkg.model", name)) for name in "ABC"}
    assert names == {"A": "by_module", "B": "by_file", "C": None}


def test_own_code_is_the_project_and_what_was_named_without_what_is_installed_in_it(tmp_path: Path) -> None:
    installed = tmp_path / ".venv" / "lib" / "site-packages"
    options = ConfirmOptions(project=tmp_path, roots=(installed / "timm",))
    own = {
        name: options.is_own(str(path))
        for name, path in {
            "project": tmp_path / "src" / "a.py",
            "installed": installed / "torch" / "b.py",
            "named": installed / "timm" / "c.py",
            "elsewhere": Path("/elsewhere/d.py"),
            "frozen": tmp_path / "<frozen genericpath>",
        }.items()
    }
    assert own == {"project": True, "installed": False, "named": True, "elsewhere": False, "frozen": False}


HIDING = replace(RUN, breaks=(broken(3, "GB0059", effect="frame"),))


def test_what_breaks_once_another_is_gone_is_confirmed_as_advice() -> None:
    latent = UncoveredRun(replace(RUN, breaks=(broken(5),)), {})
    (judged,) = with_verdicts(confirmation([BRANCH], heard(default=HIDING, latent=latent)))
    assert (judged.category, judged.severity) == ("advice", "info")
    assert (judged.evidence.status, judged.evidence.gb) == ("confirmed", "GB0170")
    assert "It is currently hidden by the graph break at line 3 (GB0059, a kind)" in judged.evidence.detail


def test_what_the_compiler_does_not_get_to_is_judged_by_the_run_without_its_failure() -> None:
    failing = replace(RUN, error=RunFailure("AssertionError", "a bug", 0))
    assert status(BRANCH, heard(default=failing)) == "unconfirmed"
    latent = UncoveredRun(replace(RUN, breaks=(broken(5),)), {})
    (judged,) = with_verdicts(confirmation([BRANCH], heard(default=failing, latent=latent)))
    assert (judged.category, judged.evidence.status) == ("advice", "confirmed")
    assert "hidden by code that fails with AssertionError" in judged.evidence.detail
    assert status(BRANCH, heard(default=failing, latent=UncoveredRun(RUN, covered(BRANCH)))) == "refuted"


def test_what_is_skipped_after_a_split_is_hidden_by_the_last_break_before_it() -> None:
    split = replace(RUN, breaks=(broken(2, "GB0124"), broken(3, "GB0124"), broken(6, "GB0007")))
    latent = UncoveredRun(replace(RUN, breaks=(broken(5),)), {})
    (judged,) = with_verdicts(confirmation([BRANCH], heard(default=split, latent=latent)))
    assert (judged.category, judged.evidence.status) == ("advice", "confirmed")
    assert "hidden by the graph break at line 3 (GB0124, a kind)" in judged.evidence.detail
    assert status(BRANCH, heard(default=split, latent=UncoveredRun(RUN, covered(BRANCH)))) == "refuted"


def test_what_is_traced_once_another_is_gone_is_refuted() -> None:
    latent = UncoveredRun(RUN, covered(BRANCH))
    assert status(BRANCH, heard(default=HIDING, latent=latent)) == "refuted"
    assert status(COUNTER, heard(default=HIDING, latent=UncoveredRun(RUN, covered(COUNTER)))) == "unconfirmed"


def test_what_is_not_reached_even_so_stays_hidden() -> None:
    for latent in (None, UncoveredRun(RUN, covered(BRANCH, traced=2))):
        assert status(BRANCH, heard(default=HIDING, latent=latent)) == "unconfirmed"
