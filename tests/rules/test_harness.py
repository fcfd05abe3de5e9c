"""The harness itself: what does not hold is caught, and said in words."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch
from torch import nn

from dynalint.analysis.events import Branch, Event
from dynalint.analysis.project import Project
from dynalint.confirm.worker.dynamo import runs
from dynalint.findings import Category
from dynalint.rulebook.pages import Example, Page
from dynalint.rules import Declined, Replacement, Rewrite, Rule, Violation
from dynalint.testing import assert_compiles
from dynalint.testing.cases import Case, cases_of, unmarked
from dynalint.testing.harness import Proof, rule_faults

pytestmark = [pytest.mark.dynamo, pytest.mark.usefixtures("torch_is_no_burden")]

_BRANCH = """
    import torch
    from torch import nn


    class Model(nn.Module):
        def forward(self, x):
            if x.sum() > 0:  # DYN199
                x = x * 2
            return x + 1
"""
_SILENT = """
    import torch
    from torch import nn


    class Model(nn.Module):
        def forward(self, x):
            return x + 1
"""


class _Branches(Rule):
    """Flags any branch on a tensor, and rewrites its test as told."""

    code = "DYN199"
    name = "any-branch"
    summary = "A branch on a tensor"
    gb = ("GB0170",)
    events = (Branch,)
    answer: Rewrite | Declined | str | None = None

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        yield Violation(event.node, "a branch on a tensor")

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        if not isinstance(self.answer, str):
            return self.answer
        file = event.function.file
        return Rewrite("Change the statement", "safe", (Replacement(file, *file.span(event.statement), self.answer),))


def _proof(example: Example, answer: Rewrite | Declined | str | None = None, **settings: object) -> Proof:
    rule = _Branches()
    for name, value in {"answer": answer, **settings}.items():
        setattr(rule, name, value)
    return Proof(Case(rule, example), [rule])


def _fault(proof: Proof) -> str:
    with pytest.raises(AssertionError) as caught:
        proof.prove()
    return str(caught.value)


def test_what_holds_passes() -> None:
    proof = _proof(Example("branch", _BRANCH))
    proof.prove()
    assert proof.ran
    _proof(Example("silent", _SILENT)).prove()


def test_a_mark_without_a_finding() -> None:
    fault = _fault(_proof(Example("wrong", _SILENT.replace("return x + 1", "return x + 1  # DYN199"))))
    assert "DYN199 any-branch, example 'wrong'" in fault
    assert "DYN199 is not found at line 7: `return x + 1`" in fault


def test_a_finding_without_a_mark() -> None:
    assert "found at line 7, but is not marked there" in _fault(
        _proof(Example("wrong", _BRANCH.replace("  # DYN199", "")))
    )


def test_a_flagged_line_that_does_not_break() -> None:
    never = _BRANCH.replace("if x.sum() > 0:", "if x.dim() == 3 and x.sum() > 0:")
    assert "Dynamo does not break at line 7" in _fault(_proof(Example("wrong", never)))


def test_another_id_than_the_rule_names() -> None:
    assert "is GB0170, not GB0059" in _fault(_proof(Example("wrong", _BRANCH, gb=("GB0059",))))


def test_silent_code_that_breaks() -> None:
    proof = _proof(Example("wrong", _SILENT.replace("return x + 1", "print(x)\n            return x + 1")))
    assert "it should be clean, but Dynamo breaks the graph: GB0059" in _fault(proof)


def test_silent_code_that_recompiles() -> None:
    code = _SILENT.replace(
        "return x + 1", "self.training_steps = getattr(self, 'training_steps', 0) + 1\n            return x + 1"
    )
    assert "recompiles on repeated calls" in _fault(_proof(Example("wrong", code)))


@pytest.mark.parametrize(
    ("shows", "words"), [("recompile", "the graphs after each round"), ("miscompile", "it should be wrong")]
)
def test_code_that_is_better_than_claimed(shows: Category, words: str) -> None:
    example = Example("wrong", _SILENT.replace("return x + 1", "return x + 1"), shows=shows)  # type: ignore[arg-type]
    assert words in _fault(_proof(example))


_WHERE = "x = torch.where(x.sum() > 0, x * 2, x)"
_FIXED = _BRANCH.replace("if x.sum() > 0:  # DYN199\n                x = x * 2", _WHERE)


def test_a_right_rewrite_passes() -> None:
    _proof(Example("branch", _BRANCH, fixed=_FIXED), _WHERE).prove()


def test_a_rewrite_is_compared_as_one_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    whole: list[object] = []

    def compiled(function: object, **options: object) -> object:
        if options["backend"] == "aot_eager":
            whole.append(options["fullgraph"])
        return compiles(function, **options)

    compiles = runs.user_compile
    monkeypatch.setattr(runs, "user_compile", compiled)
    _proof(Example("branch", _BRANCH, fixed=_FIXED), _WHERE).prove_run()
    assert whole == [True]


def test_a_rewrite_that_nobody_claimed() -> None:
    assert "the example has no `fixed`" in _fault(_proof(Example("branch", _BRANCH), _WHERE))


def test_a_rewrite_into_something_else() -> None:
    fault = _fault(_proof(Example("branch", _BRANCH, fixed=_FIXED), _WHERE.replace("x * 2", "x * 3")))
    assert "-        x = torch.where(x.sum() > 0, x * 2, x)" in fault


@pytest.mark.parametrize(
    ("wrong", "difference"),
    [
        ("x = torch.where(x.sum() > 0, x * 3, x)", "output"),
        ("x = torch.where(x.sum() > 0, x.detach() * 2, x)", "gradient of input 0"),
        ("x = torch.where(x.sum() > 0, (x * 2).double(), x)", "dtype"),
        ("x = torch.where(x.sum() > 0, x * 2, x); self.seen = 1", "attribute seen"),
    ],
)
def test_a_rewrite_that_differs(wrong: str, difference: str) -> None:
    fault = _fault(_proof(Example("branch", _BRANCH, fixed=_FIXED.replace(_WHERE, wrong)), wrong))
    assert "the rewritten code differs" in fault
    assert difference in fault


def test_a_rewrite_that_still_breaks() -> None:
    wrong = "x = x * (1 + int(x.sum() > 0))"
    fault = _fault(_proof(Example("branch", _BRANCH, fixed=_FIXED.replace(_WHERE, wrong)), wrong))
    assert "the rewritten code is not clean: Dynamo breaks the graph" in fault


def test_a_rewrite_that_leaves_the_finding() -> None:
    wrong = "if (x.sum() > 0):\n            x = x * 2"
    proof = _proof(Example("branch", _BRANCH, fixed=_BRANCH.replace("x.sum() > 0", "(x.sum() > 0)")), wrong)
    assert "the rewrite cannot be carried out: its edits change nothing" in _fault(proof)


def test_a_fix_that_is_declined() -> None:
    declined = Declined("there is no way; do it by hand")
    _proof(Example("branch", _BRANCH, declined="no way"), declined).prove()
    assert "does not contain 'other words'" in _fault(
        _proof(Example("branch", _BRANCH, declined="other words"), declined)
    )
    assert "the fix is declined" in _fault(_proof(Example("branch", _BRANCH, fixed=_FIXED), declined))
    assert "but it should be declined" in _fault(_proof(Example("branch", _BRANCH, declined="no way"), _WHERE))


def test_a_rewrite_that_raises_where_the_original_does_not() -> None:
    wrong = "x = torch.where(x.sum() > 0, x * 2, x.reshape(4, 8))"
    example = Example("branch", _BRANCH, fixed=_FIXED.replace(_WHERE, wrong), inputs="[(torch.ones(2, 8),)]")
    assert "exception: none became RuntimeError" in _fault(_proof(example, wrong))


def test_marks_are_read_off_and_taken_away() -> None:
    code, marks = unmarked("\n    a = 1  # DYN101 DYN202\n    b = '# DYN101'  # and so on\n    c = 3  # DYN101\n")
    assert code == "a = 1\nb = '# DYN101'  # and so on\nc = 3\n"
    assert marks == {1: ("DYN101", "DYN202"), 3: ("DYN101",)}


def test_examples_for_other_releases_are_left_out() -> None:
    rule = _Branches()
    page = Page("", (Example("old", _BRANCH, torch="<2"), Example("new", _BRANCH, torch=">=2.6")))
    rule.page = lambda: page  # type: ignore[method-assign]
    assert [case.example.name for case in cases_of([rule])] == ["new"]


def test_faults_of_a_rule_file() -> None:
    rule = _Branches()
    faults = " ".join(rule_faults(rule))
    for words in ("no page test_harness.md", "headings", "no example that it flags", "no example that is not flagged"):
        assert words in faults
    rule.gb = ("GB9999999",)  # type: ignore[misc]
    assert "torch has no break with the id GB9999999" in rule_faults(rule)


class _Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x * 2


class _Printing(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * 2
        print("here")
        return x + 1


@pytest.mark.long
def test_assert_compiles() -> None:
    x = torch.ones(2)
    assert_compiles(nn.Linear(2, 2), x)
    with pytest.raises(AssertionError, match=r"2 graphs and 1 graph break, but only 1 graph is allowed:\s+DYN401"):
        assert_compiles(_Printing(), x)
    assert_compiles(_Printing(), x, max_graphs=2)
    assert_compiles(_Printing(), x, first_party=[Path(torch.__file__).parent])
    with pytest.raises(AssertionError, match="2 more calls with the same arguments compile 2 more graphs"):
        assert_compiles(_Counting(), x)
    assert_compiles(_Counting(), x, max_recompiles=2)
    with pytest.raises(AssertionError, match="no graph at all"):
        assert_compiles(lambda value: value, x)


_FLOOR = """
import pytest

@pytest.mark.runs_dynamo
def test_skipped(dynalint_proof):
    pytest.skip("no torch here")

@pytest.mark.runs_dynamo
def test_nothing_run(dynalint_proof):
    pass
"""


def test_the_session_fails_where_nothing_ran(tmp_path: Path) -> None:
    path = tmp_path / "test_floor.py"
    path.write_text(_FLOOR)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "1", "-k", "DYN201-two-at-once"]
    if not _is_installed():
        command[3:3] = ["-p", "dynalint.testing.plugin"]
    done = subprocess.run(
        [*command, str(path)], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    assert "dynalint: 0 of 2 examples ran under Dynamo" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 1


def _is_installed() -> bool:
    from importlib.metadata import entry_points

    return any(point.value == "dynalint.testing.plugin" for point in entry_points(group="pytest11"))
