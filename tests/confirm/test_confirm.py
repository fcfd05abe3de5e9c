"""The whole way: findings and targets in, findings with evidence out, with real torch in a real worker."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from dynalint.confirm import WorkerError
from dynalint.confirm.budget import TimeBudget
from dynalint.confirm.client import Answer, Worker
from dynalint.confirm.options import Target
from dynalint.findings import Evidence, Finding

from .conftest import confirm

if TYPE_CHECKING:
    from conftest import Project

# In one test process: torch is imported once for all of them.
pytestmark = [pytest.mark.dynamo, pytest.mark.xdist_group("confirm")]

MODELS = """
    import torch
    from torch import nn
    from helpers import scale


    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(100, 50)

        def forward(self, x, mask=None):
            if x.shape[0] > 2:
                x = x * 2
            if mask is not None and mask.any():
                x = x + 1
            if x.dim() == 7 and x.sum() > 0:
                x = x.mean(1)
            x = self.fc(x)
            if x.sum() > 0:
                x = x + 1
            else:
                x = x - 1
            return x


    class Axes(nn.Module):
        def forward(self, x):
            return x.mean(torch.arange(2, x.dim()).tolist())


    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(10, 10)
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            return self.fc(x) * self.calls


    class Buffered(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(10, 10)
            self.register_buffer("steps", torch.tensor(0.0))
            self.register_buffer("sound", torch.tensor(0.0))

        def forward(self, x):
            self.steps += 1
            return self.fc(x) * self.steps


    class Loop(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
                if x.sum() > 0:
                    x = x + 1
                print("in the loop")
            return scale(x)


    class Silent(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(4, 4, batch_first=True)
            self.seen = []

        def forward(self, x):
            self.seen.append(x.shape)
            y = x * 2
            print("unflagged")
            return y


    class Needy(nn.Module):
        def __init__(self, secret):
            super().__init__()
            self.table = secret["table"]

        def forward(self, x):
            if x.sum() > 0:
                return x
            return -x


    def needy():
        return Needy({"table": 3}), (torch.ones(2, 2),)


    def declared_wrongly():
        return 3


    @torch.compile
    def step(x, threshold: float = 0.5):
        return x * x.mean().item()
"""


@pytest.fixture(scope="module")
def judged(shared_project: Project) -> dict[str, Finding]:
    """Findings by the words they point at; DYN001 and DYN002 by code and line."""
    project = shared_project
    project.write("helpers.py", "def scale(x):\n    if x.dim() > 1:\n        return x * 2\n    return x\n")
    project.write("models.py", MODELS)
    name = "models.py"
    findings = [
        project.finding(name, "x.shape[0] > 2", "Gate.forward", gb=["GB0170"]),
        project.finding(name, "mask is not None and mask.any()", "Gate.forward", gb=["GB0170"]),
        project.finding(name, "x.dim() == 7 and x.sum() > 0", "Gate.forward", gb=["GB0170"]),
        project.finding(name, "torch.arange(2, x.dim()).tolist()", "Axes.forward", gb=["GB0033"]),
        project.finding(name, "x.sum() > 0", "Gate.forward", gb=["GB0170"], nth=1),
        project.finding(name, "self.calls += 1", "Counter.forward", category="recompile"),
        project.finding(name, "self.steps += 1", "Buffered.forward", category="miscompile"),
        replace(project.finding(name, "x.sum() > 0", "Loop.forward", gb=["GB0170"], nth=2), message="the loop"),
        project.finding(name, 'print("in the loop")', "Loop.forward", gb=["GB0059"]),
        project.finding("helpers.py", "x.dim() > 1", "scale", region=["Loop.forward", "scale"]),
        replace(project.finding(name, "x.sum() > 0", "Needy.forward", gb=["GB0170"], nth=3), message="needy"),
        project.finding(name, "x.mean().item()", "step", gb=["GB0124"]),
    ]
    names = ["Gate", "Axes", "Counter", "Buffered", "Loop", "Silent", "Needy", "step"]
    options = project.options(examples={"models:Needy": "models:needy"}, cache=project.folder / "cache")
    found = confirm(findings, [project.target(name, qualname) for qualname in names], options)
    assert found == sorted(found, key=lambda finding: finding.sort_key)
    return {f"{f.code}:{f.line}" if f.code in ("DYN001", "DYN002") else f.message: f for f in found}


def evidence(judged: dict[str, Finding], message: str) -> Evidence:
    found = judged[message].evidence
    assert found.torch is not None
    assert found.torch.startswith("2.")
    return found


def test_a_branch_on_data_is_confirmed_in_dynamos_words(judged: dict[str, Finding]) -> None:
    found = evidence(judged, "about x.sum() > 0")
    assert (found.status, found.gb, found.fullgraph, found.recompiles) == ("confirmed", "GB0170", "breaks", 0)
    assert found.detail.startswith("Detected data-dependent branching")
    assert "Hint: " in found.detail


def test_a_branch_on_a_shape_is_refuted(judged: dict[str, Finding]) -> None:
    found = evidence(judged, "about x.shape[0] > 2")
    assert found.status == "refuted"
    assert "Gate(), called with x=float[5, 100]" in found.detail


def test_a_line_of_which_a_part_ran_is_not_refuted(judged: dict[str, Finding]) -> None:
    found = evidence(judged, "about x.dim() == 7 and x.sum() > 0")
    assert found.status == "unconfirmed"
    assert "only part of this ran" in found.detail


def test_no_refutation_rests_on_the_rank_of_a_guessed_input(judged: dict[str, Finding]) -> None:
    found = evidence(judged, "about torch.arange(2, x.dim()).tolist()")
    assert (found.status, found.gb) == ("confirmed", "GB0033")


def test_options_left_at_their_default_are_set_in_a_call_of_their_own(judged: dict[str, Finding]) -> None:
    found = evidence(judged, "about mask is not None and mask.any()")
    assert (found.status, found.gb, found.fullgraph) == ("confirmed", "GB0170", None)


def test_a_counter_is_confirmed_by_its_recompiles(judged: dict[str, Finding]) -> None:
    found = evidence(judged, "about self.calls += 1")
    assert (found.status, found.gb, found.fullgraph, found.recompiles) == ("confirmed", None, "passes", 2)
    assert "self.calls == 1" in found.detail


def test_a_wrong_gradient_is_confirmed_by_comparison(judged: dict[str, Finding]) -> None:
    found = evidence(judged, "about self.steps += 1")
    assert (found.status, found.fullgraph) == ("confirmed", "passes")
    assert "gradient of" in found.detail


def test_a_break_in_a_loop_hides_what_follows(judged: dict[str, Finding]) -> None:
    assert evidence(judged, "the loop").status == "confirmed"
    assert "The whole function falls back to eager." in evidence(judged, "the loop").detail
    hidden = evidence(judged, 'about print("in the loop")')
    # Taken out of the way, the break shows what it hid.
    assert hidden.status == "confirmed"
    assert f"hidden by the graph break at line {judged['the loop'].line} (GB0170" in hidden.detail


def test_a_helper_in_another_file_is_judged(judged: dict[str, Finding]) -> None:
    assert evidence(judged, "about x.dim() > 1").status == "refuted"


def test_a_declared_example_is_used(judged: dict[str, Finding]) -> None:
    assert evidence(judged, "needy").status == "confirmed"


def test_a_function_under_torch_compile_is_run(judged: dict[str, Finding]) -> None:
    found = evidence(judged, "about x.mean().item()")
    assert (found.status, found.gb, found.fullgraph) == ("confirmed", "GB0124", "passes")
    assert "With fullgraph=True, Dynamo traces it." in found.detail


def test_breaks_and_recompiles_that_no_finding_speaks_of_are_added(judged: dict[str, Finding]) -> None:
    added = [finding for finding in judged.values() if finding.code in ("DYN001", "DYN002")]
    assert [(finding.code, finding.name, finding.category) for finding in added] == [
        ("DYN002", "recompile", "recompile"),
        ("DYN001", "graph-break", "graph-break"),
    ]
    again, broken = added
    assert again.function == broken.function == "Silent.forward"
    assert again.evidence.recompiles == 2
    assert "self.seen" in again.message
    assert (broken.gb, broken.column, broken.end_column) == (("GB0059",), 9, 27)
    assert broken.evidence.status == again.evidence.status == "confirmed"
    assert broken.path == "models.py"


def test_verdicts_come_from_the_cache_while_nothing_changed(
    judged: dict[str, Finding], shared_project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = shared_project
    options = project.options(examples={"models:Needy": "models:needy"}, cache=project.folder / "cache")
    asked: list[str] = []
    original = Worker.ask_each

    def ask_each(self: Worker, operation: str, requests: Sequence[dict[str, Any]], **options: Any) -> Any:
        asked.extend(str(request["name"]) for request in requests)
        return original(self, operation, requests, **options)

    monkeypatch.setattr(Worker, "ask_each", ask_each)
    finding = replace(judged["about self.calls += 1"], evidence=Evidence())
    first = confirm([finding], [project.target("models.py", "Counter")], replace(options, cache=project.folder / "new"))
    assert asked == ["models.py"]
    again = confirm([finding], [project.target("models.py", "Counter")], replace(options, cache=project.folder / "new"))
    assert asked == ["models.py"]
    assert again == first
    (project.folder / "helpers.py").write_text("def scale(x):\n    return x\n", encoding="utf-8")
    confirm([finding], [project.target("models.py", "Counter")], replace(options, cache=project.folder / "new"))
    assert asked == ["models.py", "models.py"]


def test_what_could_not_be_imported_is_tried_again(project: Project) -> None:
    project.write(
        "model.py",
        "from missing_package import scale\nimport torch\n\n\ndef f(x: torch.Tensor):\n    print(x)\n    return scale(x)\n",
    )
    finding = project.finding("model.py", "print(x)", "f", gb=["GB0059"])
    options = project.options(cache=project.folder / "cache", search=(project.folder, project.folder / "site"))
    (before,) = confirm([finding], [project.target("model.py", "f")], options)
    assert before.evidence.detail == "`missing_package` is not installed for the interpreter that runs the code."
    project.write("site/missing_package.py", "scale = abs\n")
    (after,) = confirm([finding], [project.target("model.py", "f")], options)
    assert after.evidence.status == "confirmed"


def test_an_example_that_returns_something_else_says_so(shared_project: Project) -> None:
    project = shared_project
    project.write("other.py", MODELS.replace("from helpers import scale", "scale = abs"))
    finding = project.finding("other.py", "x.sum() > 0", "Gate.forward", gb=["GB0170"], nth=1)
    options = project.options(examples={"other.py:Gate": "other:declared_wrongly"})
    (judged,) = confirm([finding], [project.target("other.py", "Gate")], options)
    assert judged.evidence.status == "unconfirmed"
    assert "example 'other:declared_wrongly' must return (callable, args)" in judged.evidence.detail


def test_texts_stand_in_for_files(project: Project) -> None:
    path = project.write("model.py", "import torch\n\n\ndef f(x: torch.Tensor):\n    return x\n")
    text = "import torch\n\n\ndef f(x: torch.Tensor):\n    if x.sum() > 0:\n        return x\n    return -x\n"
    options = project.options(overrides={path: text})
    (found,) = confirm([], [project.target("model.py", "f")], options)
    assert (found.code, found.line, found.column, found.end_column) == ("DYN001", 5, 8, 19)


@pytest.mark.may_skip
def test_a_gpu_runs_what_is_meant_for_it_and_is_hidden_from_the_rest(project: Project) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no GPU here")
    project.write(
        "model.py",
        """
        import torch

        def f(x: torch.Tensor):
            if torch.cuda.is_available():
                assert x.is_cuda
                print("on the GPU")
            elif x.sum() > 0:
                return x
            return x * 2
        """,
    )
    lines = {
        device: [found.line for found in confirm([], [project.target("model.py", "f")], project.options(device=device))]
        for device in ("cpu", "cuda")
    }
    assert lines == {"cpu": [7], "cuda": [6]}


def test_scripts_are_imported_by_path_without_their_main(project: Project) -> None:
    path = project.write(
        "train-it.py",
        """
        import torch

        def f(x: torch.Tensor):
            print(x.shape)
            return x * 2

        if __name__ == "__main__":
            raise SystemExit("training")
        """,
    )
    (found,) = confirm([], [Target(path, "", "f")], project.options(search=()))
    assert (found.code, found.line) == ("DYN001", 4)


def test_an_interpreter_without_torch_leaves_findings_unconfirmed(project: Project, tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    python = tmp_path / "bare" / "bin" / "python"
    project.write("model.py", "def f(x):\n    return x\n")
    finding = project.finding("model.py", "return x", "f")
    (judged,) = confirm([finding], [project.target("model.py", "f")], project.options(python=python))
    assert judged.evidence.status == "unconfirmed"
    assert f"torch is not installed for {python}" in judged.evidence.detail


def test_an_interpreter_that_does_not_run_is_one_sentence(project: Project) -> None:
    project.write("model.py", "def f(x):\n    return x\n")
    with pytest.raises(WorkerError, match=r"^cannot run /nowhere/python: No such file or directory$"):
        confirm([], [project.target("model.py", "f")], project.options(python=Path("/nowhere/python")))


def test_without_targets_nothing_is_started(project: Project) -> None:
    project.write("model.py", "def f(x):\n    return x\n")
    findings = [project.finding("model.py", "return x", "f")]
    assert confirm(findings, [], project.options(python=Path("/nowhere/python"))) == findings


def test_importing_confirm_imports_no_torch() -> None:
    code = "import sys, dynalint.confirm; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


def test_an_interrupt_comes_out_at_once(project: Project) -> None:
    project.write("model.py", "import time\n\n\ndef f(x):\n    time.sleep(1000)\n")
    targets = [Target(project.folder / "model.py", "model", "f"), Target(project.folder / "model.py", "model", "time")]
    told: list[str] = []

    def interrupt(done: int, total: int, what: str) -> None:
        told.append(what)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        confirm([], targets, project.options(), interrupt)
    assert set(told) == {"model:f"}


def test_progress_goes_from_nothing_to_all(shared_project: Project) -> None:
    project = shared_project
    project.write("quick.py", "raise ImportError('no such thing')\n")
    told: list[tuple[int, int]] = []
    finding = Finding("quick.py", 1, 1, 1, 6, "DYN101", "n", "graph-break", "error", "m", function="f", region=("f",))
    (judged,) = confirm(
        [finding], [project.target("quick.py", "f")], project.options(), lambda *now: told.append(now[:2])
    )
    assert told == [(0, 1), (1, 1)]
    assert judged.evidence.detail == "quick.py cannot be imported: ImportError: no such thing (quick.py:1)."


def test_what_a_silenced_finding_explains_is_no_discovery(project: Project) -> None:
    project.write("model.py", "import torch\n\n\ndef f(x: torch.Tensor):\n    print(x.shape)\n    return x * 2\n")
    silenced = project.finding("model.py", "print(x.shape)", "f", gb=["GB0059"])
    targets = [project.target("model.py", "f")]
    options = project.options(cache=project.folder / "cache")
    assert [finding.code for finding in confirm([], targets, options)] == ["DYN001"]
    assert confirm([], targets, options, silenced=[silenced]) == []


def test_both_modes_are_run_and_results_are_compared(project: Project) -> None:
    project.write(
        "modes.py",
        """
        from collections import deque

        import torch
        from torch import nn

        SIZE = 2


        class Smooth(nn.Module):
            def __init__(self):
                super().__init__()
                self.seen = deque([], SIZE)

            def forward(self, x):
                self.seen.append(x.detach().mean())
                return x + sum(self.seen)


        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 4)
                self.smooth = Smooth()

            def forward(self, x):
                if not self.training:
                    print("evaluating")
                return self.smooth(self.fc(x))
        """,
    )
    printed = project.finding("modes.py", 'print("evaluating")', "Model.forward", gb=["GB0059"])
    found = confirm([printed], [project.target("modes.py", "Model")], project.options())
    judged = {one.code: one for one in found}
    assert judged["DYN101"].evidence.status == "confirmed"
    assert "Seen in evaluation mode." in judged["DYN101"].evidence.detail
    assert (judged["DYN012"].function, judged["DYN012"].line) == ("Smooth.forward", 14)
    assert "Call 3" in judged["DYN012"].help


SLOW = """
    import time

    import torch
    from torch import nn

    def gate(x: torch.Tensor):
        if x.sum() > 0:
            return x
        return -x

    class Endless(nn.Module):
        def forward(self, x: torch.Tensor):
            time.sleep(600)
            return gate(x)

    class Quick(nn.Module):
        def forward(self, x: torch.Tensor):
            return gate(x) * 2
"""


def test_a_slow_root_does_not_take_its_findings_along(project: Project) -> None:
    project.write("slow.py", SLOW)
    finding = project.finding("slow.py", "x.sum() > 0", "gate", region=["Endless.forward", "gate"], gb=["GB0170"])
    alone = [project.target("slow.py", "Endless")]
    part = lambda _: [project.target("slow.py", "gate")]  # noqa: E731
    (judged,) = confirm([finding], alone, project.options(timeout=3.0), parts=part)
    assert judged.evidence.status == "confirmed"


LONG = """
    import torch
    from torch import nn

    class Long(nn.Module):
        def forward(self, x):
            print("a break that comes at once")
            for _ in range(1000):
                x = x + 1
            for _ in range(1_000_000 if torch.compiler.is_compiling() else 1):
                x = x * 2
            return x.item()
"""


def test_breaks_count_even_if_the_compiler_does_not_finish(project: Project) -> None:
    project.write("long.py", LONG)
    place = {"region": ["Long.forward"]}
    first = project.finding("long.py", 'print("a break that comes at once")', "Long.forward", gb=["GB0059"], **place)
    last = project.finding("long.py", "x.item()", "Long.forward", gb=["GB0109"], **place)
    options = project.options(timeout=6.0)
    judged = confirm([first, last], [project.target("long.py", "Long")], options)
    assert {one.message: one.evidence.status for one in judged if one.code != "DYN001"} == {
        first.message: "confirmed",
        last.message: "unconfirmed",
    }
    (left,) = (one for one in judged if one.message == last.message)
    assert left.evidence.detail == "the code did not finish within 6 s while running Long under torch.compile."


def test_what_settles_most_is_run_first_and_what_the_budget_does_not_reach_says_so(project: Project) -> None:
    project.write("slow.py", SLOW)
    targets = [project.target("slow.py", name) for name in ("Endless", "Quick")]
    first = project.finding("slow.py", "x.sum() > 0", "gate", region=["Endless.forward", "gate"], gb=["GB0170"])
    other = project.finding("slow.py", "time.sleep(600)", "Endless.forward", gb=["GB0059"])
    ways = {first.message: [targets[1], targets[0]], other.message: []}
    options = project.options(timeout=3.0, budget=TimeBudget(0.01))
    judged = {one.message: one.evidence for one in confirm([first, other], targets, options)}
    spent = "not reached: the budget of 0.01 s of processor time is used up; --budget sets it."
    assert {evidence.detail for evidence in judged.values()} == {spent}
    options = project.options(timeout=3.0, budget=TimeBudget(8))
    judged = {
        one.message: one.evidence
        for one in confirm([first, other], targets, options, leads=lambda one: ways[one.message])
    }
    assert judged[first.message].status == "confirmed"
    assert judged[other.message].status == "unconfirmed"


def test_parts_are_run_where_the_root_cannot_be(project: Project) -> None:
    project.write(
        "model.py",
        """
        import torch
        from torch import nn

        def gate(x: torch.Tensor):
            if x.sum() > 0:
                return x
            return -x

        def shown(x: torch.Tensor, verbose):
            print(x)
            return x * 2 if verbose else x

        class Unknown(nn.Module):
            def __init__(self):
                super().__init__()
                raise ValueError("no such service")

            def forward(self, x):
                return self.inner(gate(x))

        class Asking(nn.Module):
            def forward(self, records):
                for record in records.of_today():
                    x = self.scaled(record.values)
                return gate(shown(x, 2))

            def scaled(self, x: torch.Tensor):
                return x * x.mean().item()
        """,
    )
    gate = project.finding("model.py", "x.sum() > 0", "gate", gb=["GB0170"], region=["Unknown.forward", "gate"])
    item = project.finding(
        "model.py", "x.mean().item()", "Asking.scaled", gb=["GB0251"], region=["Asking.forward", "Asking.scaled"]
    )
    whole = project.finding("model.py", "x * 2", "shown", region=["Asking.forward", "shown"])
    roots = [project.target("model.py", name) for name in ("Unknown", "Asking")]
    ways = {name: [project.target("model.py", name)] for name in ("gate", "Asking.scaled", "shown")}
    alone = confirm([gate, item, whole], roots, project.options())
    assert [one.evidence.status for one in alone] == ["unconfirmed"] * 3
    found = confirm([gate, item, whole], roots, project.options(), parts=lambda finding: ways[finding.function])
    # What a part shows beyond what was asked is nobody's finding: neither the `print` nor that `x * 2` is traced whole.
    assert [one.evidence.status for one in found] == ["confirmed", "unconfirmed", "confirmed"]
    assert "This was only seen in a call to this part: gate, called with x=float" in found[0].evidence.detail
    assert "Asking was not run" in found[1].evidence.detail


def test_parts_in_other_files_run_if_their_root_cannot_be_imported(project: Project) -> None:
    gate = "def gate(x: torch.Tensor):\n    if x.sum() > 0:\n        return x\n    return -x\n"
    project.write("ops.py", f"import torch\n\n{gate}")
    project.write(
        "model.py",
        f"import no_such_package\nN = no_such_package.N + 1\nimport torch\nfrom torch import nn\nimport ops\n\n{gate}",
    )
    places = [(file, ["Model.forward", "gate"]) for file in ("ops.py", "model.py")]
    asked = [project.finding(file, "x.sum() > 0", "gate", gb=["GB0170"], region=region) for file, region in places]
    ways = {one.path: [project.target(one.path, "gate")] for one in asked}
    roots = [project.target("model.py", "Model")]
    found = {one.path: one for one in confirm(asked, roots, project.options(), parts=lambda one: ways[one.path])}
    assert found["ops.py"].evidence.status == "confirmed"
    assert found["model.py"].evidence.status == "unconfirmed"
    assert "`no_such_package` is not installed" in found["model.py"].evidence.detail


def test_nothing_is_run_where_no_sandbox_holds_and_the_report_says_so(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def ask_each(self: Worker, *_: object, **__: object) -> Iterator[Answer]:
        asked.append(self.options.required)
        yield Answer("refused", {}, {"reason": "code could create files outside the scratch folder"}, "")

    monkeypatch.setattr(Worker, "ask_each", ask_each)
    project.write("model.py", "import torch\n\n\ndef f(x: torch.Tensor):\n    print(x)\n    return x\n")
    finding = project.finding("model.py", "print(x)", "f", gb=["GB0059"])
    (judged,) = confirm([finding], [project.target("model.py", "f")], project.options(mode="auto"))
    assert asked == [True]
    assert judged.evidence.status == "unconfirmed"
    assert judged.evidence.detail == (
        "not run: there is no working sandbox on this system (code could create files outside the scratch folder); use --confirm "
        "to run code anyway."
    )


def test_targets_that_lead_to_no_finding_get_less_time(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are run for breaks that no rule finds, and there may be many of them."""
    model = "from torch import nn\n\nclass {}(nn.Module):\n    def forward(self, x):\n        return x + 1\n\n"
    project.write("model.py", "".join(map(model.format, ("Flagged", "Plain"))))
    targets = [project.target("model.py", name) for name in ("Flagged", "Plain")]
    asked: dict[str, tuple[float, bool]] = {}
    ask = Worker.ask_each

    def listen(worker: Worker, operation: str, requests: Any, **options: Any) -> Any:
        asked.update((one["target"]["qualname"], (one["seconds"], one["brief"])) for one in requests)
        return ask(worker, operation, requests, **options)

    monkeypatch.setattr(Worker, "ask_each", listen)
    finding = project.finding("model.py", "x + 1", "Flagged.forward")
    confirm([finding], targets, project.options(timeout=40.0), leads=lambda _: targets[:1])
    assert asked == {"Flagged": (40.0, False), "Plain": (4.0, True)}


FAILING = """
import torch
from torch import nn


class Late(nn.Module):
    def forward(self, x: torch.Tensor, key: str):
        if x.sum() > 0:
            x = -x
        print(x)
        assert key.startswith("zz:") and int(key[3:]) == 73
        if x.mean() > 0:
            x = x + 1
        return x
"""


def test_a_call_that_fails_shows_the_breaks_before_it_does(project: Project) -> None:
    project.write("late.py", FAILING)
    texts = {"x.sum() > 0": "GB0170", "print(x)": "GB0170", "x.mean() > 0": "GB0170"}
    asked = [project.finding("late.py", text, "Late.forward", gb=[gb]) for text, gb in texts.items()]
    found = confirm(asked, [project.target("late.py", "Late")], project.options())
    assert [(one.code, one.evidence.status) for one in found] == [
        ("DYN101", "confirmed"),
        ("DYN101", "unconfirmed"),  # It is not the kind of break that the finding is about.
        ("DYN101", "unconfirmed"),
    ]
    assert found[0].evidence.detail.endswith("The call in which this was seen fails later.")


def test_a_call_that_fails_leads_to_no_discoveries(project: Project) -> None:
    project.write("late.py", FAILING)
    asked = [project.finding("late.py", "x.mean() > 0", "Late.forward", gb=["GB0170"])]
    found = confirm(asked, [project.target("late.py", "Late")], project.options())
    assert [one.line for one in found] == [asked[0].line]
