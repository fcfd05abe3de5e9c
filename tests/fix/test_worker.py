"""Verification in the real worker: what ends the process costs one verification, and one wrong fix does not cost the others."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dynalint.analysis.source import parse_source, read_source
from dynalint.config import Configuration, Overrides, parse_layer
from dynalint.confirm import executors
from dynalint.confirm.client import Answer, Hello
from dynalint.confirm.options import ConfirmOptions, Target
from dynalint.confirming import verifier
from dynalint.findings import Finding, Fix, Step
from dynalint.fix import FixOptions, Linted, Verification, fix_findings
from dynalint.fix.edits import merged, replaced
from dynalint.fix.verify import WorkerVerifier
from dynalint.linting.lint import Linter
from dynalint.projects.workspace import open_workspace
from dynalint.rulebook.catalogue import known_codes
from dynalint.rules import Replacement, Rewrite, all_rules

from .conftest import unit_of

if TYPE_CHECKING:
    from dynalint.confirm.worker.comparing.reached_code import InputSearch
    from dynalint.confirm.worker.comparing.trials import Trial

# In one test process: torch is imported once for all of them.
pytestmark = [pytest.mark.dynamo, pytest.mark.xdist_group("worker")]

MODEL = """
import os, time
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        h = self.linear(x)
        h = h * 2 if h.sum() > 0 else h * 3
        h = h * 4 if h.min() > 0 else h * 5
        return h

def example():
    return Model(), (torch.randn(4, 8),)
"""
FIRST = "h * 2 if h.sum() > 0 else h * 3"
SECOND = "h * 4 if h.min() > 0 else h * 5"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(textwrap.dedent(MODEL).lstrip("\n"))
    return path


def options(path: Path, **more: object) -> ConfirmOptions:
    folder = path.parent
    return ConfirmOptions(
        project=folder, directory=folder, search=(folder,), examples={"model:Model": "model:example"}, **more  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("new", "told"),
    [
        ("os._exit(3)", "it exited with status 3 while running Model before and after the fix"),
        ("time.sleep(60)", "it took longer than 10 seconds while running Model before and after the fix"),
    ],
)
def test_what_ends_the_process_is_told(path: Path, new: str, told: str) -> None:
    file = read_source(path)
    unit = unit_of(file, [(FIRST, f"{new} or h")])
    after = {path: replaced(file.text, merged([unit.plan])[path])}
    with WorkerVerifier(options(path, mode="always", timeout=10.0), [Target(path, "model", "Model")]) as verify:
        verification = verify({}, after, [unit])[unit]
    assert verification.outcome == "unverifiable"
    assert told in verification.detail


@pytest.mark.slow
def test_the_one_wrong_fix_is_found(path: Path) -> None:
    rewrites = {FIRST: "torch.where(h.sum() > 0, h * 2, h * 3)", SECOND: "torch.where(h.min() > 0, h * 4, h * 6)"}

    def lint(texts: Mapping[Path, str]) -> list[Linted]:
        file = parse_source(path, texts[path].encode()) if path in texts else read_source(path)
        found = []
        for old, new in rewrites.items():
            start = file.text.find(old)
            if start >= 0:
                line, column = file.position(start)
                fix = Fix("Select", "conditional", ("it is exact",))
                finding = Finding(
                    "model.py", line, column, line, column + 1, "DYN103", "ifexp", "graph-break", "error", "it breaks",
                    function="Model.forward", region=("Model.forward",), gb=("GB0170",), fix=fix,
                )  # fmt: skip
                rewrite = Rewrite(
                    "Select", "conditional", (Replacement(file, start, start + len(old), new),), ("it is exact",)
                )
                found.append(Linted(finding, file, rewrite))
        return found

    with WorkerVerifier(options(path, mode="always"), [Target(path, "model", "Model")]) as verify:
        result = fix_findings(lint({}), lint, FixOptions(), verify)
    (changed,) = result.files
    assert rewrites[FIRST] in changed.text
    assert SECOND in changed.text
    (fixed,) = result.fixed
    assert fixed.verification is not None
    assert fixed.verification.outcome == "proven", fixed.verification
    (refused,) = result.refused
    assert refused.refuted
    assert "output: [" in refused.reason


Ask = Callable[..., Answer]


def verified(
    path: Path, monkeypatch: pytest.MonkeyPatch, answers: Sequence[Answer], *olds: str, torch: str | None = "2"
) -> Verification:
    """The verification of a fix, the last of several, if the worker answers like this."""
    left = list(answers)

    class FakeWorker:
        hello = Hello("3", torch)

        def __init__(self, options: object) -> None: ...

        def ask(self, operation: str, request: object) -> Answer:
            return left.pop(0)

        def close(self) -> None: ...

    monkeypatch.setattr(executors, "Worker", FakeWorker)
    file = read_source(path)
    units = [unit_of(file, [(old, "h")]) for old in olds or (FIRST,)]
    after = {path: replaced(file.text, merged(unit.plan for unit in units)[path])}
    with WorkerVerifier(options(path), [Target(path, "model", "Model")]) as verify:
        return verify({}, after, units)[units[-1]]


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        (
            [Answer("refused", {}, {"reason": "code could write"}, "")],
            "there is no working sandbox on this system (code could write)",
        ),
        ([Answer("lost", {}, {}, "starting")] * 2, "the worker ended (lost) while starting"),
        (
            [Answer("signal", {}, {"signal": "SIGSEGV"}, "running Model")] * 2,
            "it was killed by SIGSEGV while running Model",
        ),
        ([Answer("memory", {}, {}, "building Model")], "it took too much memory while building Model"),
        (
            [Answer("done", {"problem": {"version": "original", "phase": "build", "message": "OSError: no."}}, {}, "")],
            "model:Model cannot be run: OSError: no",
        ),
    ],
)
def test_why_nothing_was_shown(
    path: Path, monkeypatch: pytest.MonkeyPatch, answers: Sequence[Answer], told: str
) -> None:
    verification = verified(path, monkeypatch, answers)
    assert verification.outcome == "unverifiable"
    assert verification.detail.endswith(told)


def test_no_torch(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "torch is not installed for" in verified(path, monkeypatch, [], torch=None).detail


CRASHING = """\
import ctypes

import torch
from torch import nn


@torch.compiler.disable
def sampled(x):
    if x.isnan().any():
        ctypes.string_at(0)
    return x


class Model(nn.Module):
    def forward(self, x):
        x = sampled(x)
        return x * 2


def example():
    return Model(), (torch.randn(4, 8),)
"""


@pytest.mark.slow
def test_an_heir_is_run_where_the_model_itself_cannot_be(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    head, body = MODEL[: MODEL.index("class Model")], MODEL[MODEL.index("class Model") : MODEL.index("def example")]
    base = body.replace("Model", "Base").replace("self.linear(x)", "self.side(x)")
    heir = "class Heir(Base):\n    def side(self, x):\n        return self.linear(x)\n"
    path.write_text(head + base + heir)
    file = read_source(path)
    unit = unit_of(file, [(FIRST, "torch.where(h.sum() > 0, h * 2, h * 3)")], function="Base.forward")
    after = {path: replaced(file.text, merged([unit.plan])[path])}
    roots = [Target(path, "model", name) for name in ("Base", "Heir")]
    given = replace(options(path, mode="always"), examples={})
    for heirs, outcome in (({}, "unverifiable"), ({roots[0]: [roots[1]]}, "proven")):
        with WorkerVerifier(given, roots, heirs=heirs) as verify:
            assert verify({}, after, [unit])[unit].outcome == outcome


@pytest.mark.parametrize(("declared", "outcome"), [(True, "unverifiable"), (False, "proven")])
def test_another_root_does_not_replace_a_declared_example_that_was_lost(
    path: Path, monkeypatch: pytest.MonkeyPatch, declared: bool, outcome: str
) -> None:
    class FakeWorker:
        hello = Hello("3", "2")

        def __init__(self, options: object) -> None: ...

        def ask(self, operation: str, request: Mapping[str, Any]) -> Answer:
            if operation != "operations.verifying:verify":
                return Answer("done", {}, {}, "")
            if request["target"]["qualname"] == "Model":
                return Answer("timeout", {}, {"seconds": 10}, "running Model")
            ran = {"inputs": 7, "returned": 7, "error": "", "rounded": False, "stride": 1, "passed": []}
            parts = {"ran": ran, "seen": request["sides"], "difference": None, "compiled": {"problem": "nobody asked"}}
            return Answer("done", parts, {}, "")

        def close(self) -> None: ...

    monkeypatch.setattr(executors, "Worker", FakeWorker)
    file = read_source(path)
    unit = unit_of(file, [(FIRST, "h")])
    after = {path: replaced(file.text, merged([unit.plan])[path])}
    roots = [Target(path, "model", "Model"), Target(path, "model", "Other")]
    given = options(path) if declared else replace(options(path), examples={})
    with WorkerVerifier(given, roots, heirs={roots[0]: [roots[1]]}) as verify:
        verification = verify({}, after, [unit])[unit]
    assert verification.outcome == outcome
    assert ("took longer than 10 seconds" in verification.detail) is declared


def test_no_root_that_reaches_the_code(path: Path) -> None:
    file = read_source(path)
    unit = unit_of(file, [(FIRST, "h")], function="helper")
    after = {path: replaced(file.text, merged([unit.plan])[path])}
    with WorkerVerifier(options(path), [Target(path, "model", "Model")]) as verify:
        assert verify({}, after, [unit])[unit] == Verification("unverifiable", "no compiled root reaches it", 0, 3, 0)


def test_code_that_ran_on_no_input_beside_code_that_did(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {
        "ran": {"inputs": 7, "returned": 7, "error": "", "rounded": False, "stride": 1, "passed": []}, "seen": [[0, None]], "difference": None,
        "compiled": {"problem": "nobody asked"},
    }  # fmt: skip
    crash = Answer("signal", {}, {"signal": "SIGSEGV"}, "running Model")  # which is not for good: it is run once more
    verification = verified(path, monkeypatch, [crash, Answer("done", parts, {}, "")], FIRST, SECOND)
    assert (verification.outcome, verification.inputs) == ("unverifiable", 7)
    assert "did not run on any of 7 inputs" in verification.detail


@pytest.mark.parametrize(("crashes", "kept"), [(1, False), (2, True)])
def test_a_crash_without_an_input_is_run_once_more_after_inputs_were_left_out(
    path: Path, monkeypatch: pytest.MonkeyPatch, crashes: int, kept: bool
) -> None:
    parts = {
        "ran": {"inputs": 7, "returned": 7, "error": "", "rounded": False, "stride": 1, "passed": []},
        "seen": [[0, None]], "difference": None, "compiled": {"problem": "nobody asked"},
    }  # fmt: skip
    of_an_input = Answer("signal", {"trying": "inputs all NaN"}, {"signal": "SIGSEGV"}, "running Model")
    of_none = Answer("signal", {"trying": None}, {"signal": "SIGSEGV"}, "running Model")
    answers = [of_an_input, of_an_input, *[of_none] * crashes, Answer("done", parts, {}, "")]
    assert ("killed by SIGSEGV" in verified(path, monkeypatch, answers, FIRST).detail) is kept


def test_a_root_runs_again_only_if_it_reaches_what_was_rejected(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text(
        "def one(x):\n    return x + 1\n\n\ndef two(x):\n    return x + 2\n\n\ndef three(x):\n    return x + 3\n"
    )
    asked: list[str] = []

    class FakeWorker:
        hello = Hello("3", "2")

        def __init__(self, options: object) -> None: ...

        def ask(self, operation: str, request: Mapping[str, Any]) -> Answer:
            if operation != "operations.verifying:verify":
                return Answer("done", {}, {}, "")
            name = request["target"]["qualname"]
            asked.append(name)
            ran = {"inputs": 3, "returned": 3, "error": "", "rounded": False, "stride": 1, "passed": []}
            difference = {"what": "output: 1 is not 2", "where": "it", "stable": True, "passes": False, "raises": False}
            sides = {tuple(side) for side in request["sides"]}
            marks = [mark for mark, _ in sides] + ([0] if name == "three" else [])  # `three` calls `one` unnoticed
            parts = {"ran": ran, "seen": [*map(list, sides)], "marks": marks, "compiled": {"problem": "nobody asked"}}
            return Answer("done", {**parts, "difference": difference if name == "one" else None}, {}, "")

        def close(self) -> None: ...

    monkeypatch.setattr(executors, "Worker", FakeWorker)
    file = read_source(path)
    names = {"one": "1", "two": "2", "three": "3"}
    units = [unit_of(file, [(f"x + {one}", f"{one} + x")], function=name) for name, one in names.items()]
    given = replace(options(path), examples={})
    with WorkerVerifier(given, [Target(path, "model", name) for name in names]) as verify:
        outcomes = []
        for some in (units, units[1:], units[1:2]):
            after = {path: replaced(file.text, merged(unit.plan for unit in some)[path])}
            verifications = verify({}, after, some)
            outcomes.append([verifications[unit].outcome for unit in some])
    assert outcomes == [["refuted", "proven", "proven"], ["proven", "proven"], ["proven"]]
    assert asked == ["one", "two", "three", "three"]


def test_inputs_that_the_original_does_not_survive_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(CRASHING)
    file = read_source(path)
    unit = unit_of(file, [("return x * 2", "return x + x")])
    after = {path: replaced(file.text, merged([unit.plan])[path])}
    with WorkerVerifier(options(path, mode="always"), [Target(path, "model", "Model")]) as verify:
        verification = verify({}, after, [unit])[unit]
    assert verification.outcome == "proven", verification
    assert "inputs that crash the original code were skipped (one element NaN, inputs all NaN)" in verification.detail


def test_where_steps_take_long_some_of_each_kind_are_taken() -> None:
    from dynalint.confirm.worker.comparing.reached_code import InputSearch, Marks

    for seconds, taken in ((1000.0, list(range(9))), (1e-6, [0])):
        search = InputSearch(Marks(), frozenset(), seconds)
        with search.counted():
            sum(range(10**5))
        assert list(search.thinned(range(9))) == taken  # type: ignore[arg-type, comparison-overlap]


def test_of_roots_with_one_name_those_on_the_way_are_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class FakeWorker:
        hello = Hello("3", "2")

        def __init__(self, options: object) -> None: ...

        def ask(self, operation: str, request: dict[str, dict[str, str]]) -> Answer:
            asked.append(Path(request["target"]["path"]).name)
            return Answer("memory", {}, {}, "building Model")

        def close(self) -> None: ...

    monkeypatch.setattr(executors, "Worker", FakeWorker)
    path = tmp_path / "helper.py"
    path.write_text("def gate(x):\n    return x\n")
    file = read_source(path)
    unit = unit_of(file, [("return x", "return +x")], function="gate")
    (linted,) = unit.linted
    steps = (Step("Model.forward", "z.py", 3), Step("gate", "helper.py", 1))
    finding = replace(linted.finding, region=("Model.forward", "gate"), steps=steps)
    unit = replace(unit, linted=(replace(linted, finding=finding),))
    roots = [Target(tmp_path / f"{name}.py", name, "Model") for name in "abcz"]
    after = {path: replaced(file.text, merged([unit.plan])[path])}
    with WorkerVerifier(replace(options(path), directory=tmp_path), roots) as verify:
        verify({}, after, [unit])
    assert asked[0] == "z.py"


def search(**options: Any) -> InputSearch:
    from dynalint.confirm.worker.comparing.reached_code import InputSearch, Marks

    made = InputSearch(**{"marks": Marks(), "wanted": frozenset({(1, True)}), "seconds": 60.0, **options})
    made.begin()
    return made


def test_waiting_takes_nothing_from_a_search() -> None:
    looking = search(seconds=0.05)
    time.sleep(0.1)
    assert looking.goes_on()
    end = time.thread_time() + 0.06
    while time.thread_time() < end:
        pass
    assert not looking.goes_on()


@pytest.mark.parametrize(
    ("reached_at", "compared"),
    [(3, [0, 1, 4]), (6, [0, 1, 4, 2, 3, 4])],
    ids=["what shows more", "and where it takes what came before it, that too"],
)
def test_a_search_compares(reached_at: int, compared: Sequence[int]) -> None:
    looking, done = search(), list[int]()
    for trial in looking.worth_comparing(trials(9), lambda: lambda one: looking.marks(1, one.seed == 4)):
        done.append(trial.seed)
        looking.marks(1, len(done) == reached_at)
    assert done == compared


def trials(number: int) -> list[Trial]:
    from dynalint.confirm.worker.comparing.trials import BASE

    return [replace(BASE, seed=seed) for seed in range(number)]


HELPER = """
import torch
from torch import nn

def choose(h):
    return h.roll(1, 0) if h.sum() > 0 else h.flip(0)

class Usable(nn.Module):
    def forward(self, x):
        return choose(x * 2)

class Broken(nn.Module):
    def __init__(self):
        super().__init__()
        raise RuntimeError("no weights on this machine")

    def forward(self, x):
        return choose(x)
"""


def fixed_in(path: Path) -> Any:
    """The fixed findings in a file or folder, each verified with its own worker."""
    folder = path if path.is_dir() else path.parent
    layer = parse_layer({"confirm": "always"}, folder, lambda _: "a test")
    configuration = Configuration(Overrides((layer,), isolated=True), known_codes(), folder)
    workspace, _ = open_workspace([path], configuration, folder)
    linter = Linter(workspace, all_rules())
    found = linter.lint()
    with verifier(workspace, found, None) as verify:
        return fix_findings(linter({}), linter, FixOptions(), verify).fixed


@pytest.mark.slow
def test_another_root_is_run_where_the_one_on_the_way_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(HELPER)
    (fixed,) = fixed_in(tmp_path / "model.py")
    assert fixed.finding.region == ("Broken.forward", "choose")
    assert fixed.verification is not None
    assert fixed.verification.outcome == "proven"


TOKENS = """
import torch
from torch import nn

class TokenClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.classifier = nn.Linear(8, 4)

    def forward(self, x, attention_mask=None, labels=None):
        logits = self.classifier(x)
        if labels is None:
            return logits
        loss_fct = nn.CrossEntropyLoss()
        if attention_mask is None:
            return loss_fct(logits.view(-1, 4), labels.view(-1))
        active = attention_mask.view(-1) == 1
        return loss_fct(logits.view(-1, 4)[active], labels.view(-1)[active])
"""


@pytest.mark.slow
def test_code_that_needs_two_optional_arguments_is_run(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(TOKENS)
    fixed = fixed_in(tmp_path / "model.py")
    assert [one.finding.line for one in fixed] == [18, 18]
    assert {one.verification.outcome for one in fixed} == {"proven"}


@pytest.mark.slow
def test_two_files_of_a_project_that_import_the_same_module(tmp_path: Path) -> None:
    (tmp_path / "ops.py").write_text("def doubled(x):\n    return x * 2\n")
    (tmp_path / "gates.py").write_text(
        "import ops\nimport torch\n\n\ndef gate(h: torch.Tensor):\n"
        "    if h.sum() > 0:\n        return ops.doubled(h)\n    return h\n"
    )
    (tmp_path / "model.py").write_text(
        "import gates\nimport ops\nimport torch\nfrom torch import nn\n\n\nclass Model(nn.Module):\n"
        "    def forward(self, x: torch.Tensor):\n        return ops.doubled(gates.gate(x))\n"
    )
    (fixed,) = fixed_in(tmp_path)
    assert fixed.verification is not None
    assert fixed.verification.outcome == "proven"


def test_gradients_that_are_sparse_or_of_few_bits() -> None:
    import torch

    from dynalint.confirm.worker.comparing.differences import Equality, difference
    from dynalint.confirm.worker.comparing.observing import Observation

    def differ(one: torch.Tensor, other: torch.Tensor) -> str | None:
        return difference(Observation(gradients={"w": one}), Observation(gradients={"w": other}), Equality())

    def sparse(last: float) -> torch.Tensor:
        return torch.sparse_coo_tensor(torch.tensor([[0, 1]]), torch.tensor([1.0, last]), (3,), check_invariants=True)

    assert differ(sparse(3.0), sparse(3.0000002)) is None
    assert differ(sparse(3.0), sparse(4.0)) == "gradient of w: [1, 3, 0] became [1, 4, 0]"
    for dtype in (torch.float16, torch.bfloat16):
        ones = torch.ones(3, dtype=dtype)
        assert differ(ones, ones * (1 + torch.finfo(dtype).eps)) is not None


def test_each_telling_trial_comes_with_numbers_of_which_the_exponential_is_infinite() -> None:
    """Whatever a test asks that scale does not change, as which element is the largest."""
    import torch

    from dynalint.confirm.worker.comparing.trials import at_edges, random_trials

    call = (torch.linspace(-2, 2, 12).reshape(3, 4),), {}
    trials = [trial for trial, _ in zip(random_trials(), range(8), strict=False)]
    tried = [trial.of(call)[0][0] for trial in at_edges(trials)]
    for trial in trials:
        (drawn,), _ = trial.of(call)
        assert any(one.argmax() == drawn.argmax() and one.exp().isinf().any() for one in tried if one.isfinite().all())


def test_gradients_that_are_nothing_but_rounding_are_equal_in_practice() -> None:
    import torch

    from dynalint.confirm.worker.comparing.differences import Equality, difference
    from dynalint.confirm.worker.comparing.observing import Observation

    one, other, larger = (
        Observation(gradients={"w": torch.tensor(numbers)})
        for numbers in ([3e-9, 0.0, -1e-9], [0.0, 7e-9, 1e-9], [0.0, 7e-4, 1e-9])
    )
    assert difference(one, other, Equality(exact=False)) is not None
    assert difference(one, other, Equality(exact=False, practical=True)) is None
    assert difference(one, larger, Equality(exact=False, practical=True)) is not None


@pytest.mark.parametrize(
    ("numbers", "where", "kept", "new", "same"),
    [
        ("return", "output", (0.0, 1), (0.0,), True),
        ("return", "output", (0.0, 1), (0.5,), False),
        ("return", "output", (0.0, 1), ([0.0],), False),
        ("", "output", (0.0, 1), (0.0,), False),
        ("log", "state", {"log": {"a": 2}}, {"a": 2}, True),
        ("log", "state", {"log": {"a": 2}}, {"a": 3}, False),
        ("log", "state", {"log": {"a": 2}}, {"b": 2}, False),
    ],
)
def test_tensors_in_the_place_of_numbers(numbers: str, where: str, kept: Any, new: Any, same: bool) -> None:
    import torch

    from dynalint.confirm.worker.comparing.differences import Equality, difference
    from dynalint.confirm.worker.comparing.observing import Observation

    changed: Any = (
        (torch.tensor(new[0]), 1) if where == "output" else {"log": {key: torch.tensor(new[key]) for key in new}}
    )
    equality = Equality(numbers=frozenset({numbers}), practical=True)
    found = difference(Observation(**{where: kept}), Observation(**{where: changed}), equality)
    assert (found is None) == same


@pytest.mark.parametrize("called", [True, False])
def test_code_that_the_project_calls_gets_the_dimensions_of_the_call(tmp_path: Path, called: bool) -> None:
    caller = (
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.linear = nn.Linear(8, 8)\n        self.loss = Loss()\n\n"
        "    def forward(self, x, y):\n        return self.loss(self.linear(x), y, y > 0.1)\n"
    )
    (tmp_path / "model.py").write_text(
        "import torch\nfrom torch import nn\n\n\nclass Loss(nn.Module):\n    def forward(self, one, other, mask):\n"
        "        return (one[mask] - other[mask]).square().mean()\n" + (f"\n\n{caller}" if called else "")
    )
    outcomes = {fixed.verification.outcome for fixed in fixed_in(tmp_path) if fixed.verification is not None}
    assert outcomes == ({"proven"} if called else set())


def test_infinite_elements_do_not_make_indices_negative() -> None:
    import torch

    from dynalint.confirm.worker.comparing.trials import broken_trials

    call = (torch.ones(5, 3), torch.arange(5)), {}
    for trial, _ in zip(broken_trials(), range(20), strict=False):
        (_, indices), _ = trial.of(call)
        assert indices.min() >= 0


def test_a_mask_has_the_dimensions_that_the_caller_gives_it(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        "import torch\nfrom torch import nn\n\n\nclass Inner(nn.Module):\n"
        "    def forward(self, h: torch.Tensor, mask: torch.Tensor):\n        out = h * 3\n"
        "        out[mask] = h[mask] * 2\n        return out\n\n\nclass Model(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.inner = Inner()\n\n    def forward(self, x: torch.Tensor):\n"
        "        return self.inner(x + 1, x[:, 0] > 0)\n"
    )
    assert not [fixed for fixed in fixed_in(tmp_path) if fixed.verification is not None]


def test_memory_is_also_shared_with_tensors_in_dicts() -> None:
    import torch

    from dynalint.confirm.worker.comparing.observing import _aliases

    loss = torch.ones(())
    found = list(_aliases({"loss": loss}, (), {"stats": {"loss": loss}, "other": 1}))
    assert found == ["output['loss'] shares memory with the attribute stats['loss']"]
