"""What the command line makes of verdicts. Nothing is run here: `confirm` is told what to answer."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dynalint import confirming
from dynalint.config import Settings
from dynalint.confirm import ConfirmOptions, Interrupted, Target, WorkerError
from dynalint.confirm.results import TargetResult
from dynalint.confirm.wording import not_run_text
from dynalint.findings import Evidence, Finding

Run = Callable[..., Any]
CONFIRMED = Evidence("confirmed", "Data-dependent branching.", "GB0170", "2.13.0", "breaks", 0)
REFUTED = Evidence("refuted", "it was traced whole.", None, "2.13.0", "passes", 0)


def discovery(line: int) -> Finding:
    return Finding(
        "model.py", line, 9, line, 10, "DYN001", "graph-break", "graph-break", "error", "A break", evidence=CONFIRMED
    )


class Confirm:
    """Stands in for `dynalint.confirm.examine`: gives evidence by code, adds findings, remembers what it was asked."""

    def __init__(self) -> None:
        self.evidence: dict[str, Evidence] = {}
        self.more: list[Finding] = []
        self.fault: WorkerError | None = None
        self.interrupted = False
        self.targets: Sequence[Target] = ()
        self.silenced: Sequence[Finding] = ()
        self.options = ConfirmOptions()
        self.parts: dict[str, list[str]] = {}

    def __call__(
        self,
        findings: Sequence[Finding],
        roots: Sequence[Target],
        options: ConfirmOptions,
        progress: object,
        silenced: Sequence[Finding],
        parts: Callable[[Finding], Sequence[Target]],
        leads: Callable[[Finding], Sequence[Target]],
        note: Callable[[str], None],
    ) -> tuple[list[Finding], list[TargetResult]]:
        self.targets, self.options, self.silenced = roots, options, silenced
        self.parts = {one.code: [target.qualname for target in parts(one)] for one in findings}
        if self.fault is not None:
            raise self.fault
        judged = [replace(one, evidence=self.evidence.get(one.code, one.evidence)) for one in findings]
        if self.interrupted:
            raise Interrupted(judged)
        return [*judged, *self.more], []


@pytest.fixture
def confirm(monkeypatch: pytest.MonkeyPatch) -> Confirm:
    answers = Confirm()
    monkeypatch.setattr(confirming, "examine", answers)
    return answers


@pytest.fixture
def check(dynalint: Run) -> Run:
    return lambda *arguments: dynalint("check", "--output-format", "json", *arguments)


@pytest.mark.dynamo
def test_refuted_findings_are_dropped_unless_asked_for(
    check: Run, dynalint: Run, model: Path, confirm: Confirm
) -> None:
    confirm.evidence = {"DYN101": CONFIRMED, "DYN401": REFUTED}
    ran = check()
    assert ran.places == ["model.py:7 DYN101"]
    assert ran.json[0]["evidence"] == CONFIRMED.to_json()
    assert check("--show-refuted").places == ["model.py:7 DYN101", "model.py:9 DYN401"]
    assert check("--static").places == ["model.py:7 DYN101", "model.py:9 DYN401"]
    *_, last = dynalint("check").out.splitlines()
    assert last.startswith(
        f"Found 1 finding (1 confirmed, 1 refuted and hidden). Code was run by {sys.executable} with torch "
    )
    confirm.evidence = {"DYN101": REFUTED, "DYN401": REFUTED}
    ran = check("--show-refuted")
    assert (len(ran.json), ran.code) == (2, 0)
    assert dynalint("check").out.startswith("All checks passed! (2 refuted and hidden) Code was run by ")
    assert "run by" not in dynalint("check", "--static").out


def test_a_refuted_finding_is_not_fixed(dynalint: Run, model: Path, confirm: Confirm) -> None:
    confirm.evidence = {"DYN401": REFUTED}
    assert dynalint("fix", "--no-verify").out == ""


def test_what_only_running_showed_in_code_that_is_rarely_compiled_is_unlikely(
    check: Run, dynalint: Run, model: Path, confirm: Confirm
) -> None:
    model.write_text(model.read_text().replace("(nn.Module)", "(nn.DataParallel)"))
    confirm.more = [replace(discovery(8), function="Model.forward")]
    ran = check()
    assert (ran.code, {one["likelihood"] for one in ran.json}) == (0, {"unlikely"})
    assert "3 findings in code that is rarely compiled" in dynalint("check").out


def test_what_only_running_showed_can_be_ignored_and_silenced(check: Run, model: Path, confirm: Confirm) -> None:
    confirm.more = [discovery(8), discovery(10)]
    assert check().places == ["model.py:7 DYN101", "model.py:8 DYN001", "model.py:9 DYN401", "model.py:10 DYN001"]
    assert check().json[1]["url"].endswith("DYN001.md")
    assert "DYN001" not in str(check("--ignore", "DYN0").places)
    assert "DYN001" not in str(check("--per-file-ignores", "model.py:DYN001").places)
    model.write_text(model.read_text().replace("return x\n", "return x  # dynalint: ignore[DYN001]\n"))
    assert check().places == ["model.py:7 DYN101", "model.py:9 DYN401", "model.py:10 DYN001"]


def test_confirming_hears_of_what_is_silenced(check: Run, model: Path, confirm: Confirm) -> None:
    assert check("--ignore", "DYN4").places == ["model.py:7 DYN101"]
    assert [(one.line, one.code) for one in confirm.silenced] == [(9, "DYN401")]
    model.write_text(model.read_text().replace("return x\n", "return x  # dynalint: ignore[DYN101]\n"))
    lines = model.read_text().split("\n")
    lines[6] += "  # noqa: DYN101"
    model.write_text("\n".join(lines))
    assert "DYN101" not in str(check().places)
    assert [(one.line, one.code) for one in confirm.silenced] == [(7, "DYN101")]


@pytest.mark.dynamo
@pytest.mark.slow
def test_a_silenced_break_does_not_come_back_as_a_discovery(check: Run, model: Path) -> None:
    ran = check("--ignore", "DYN4")
    assert ran.places == ["model.py:7 DYN101"]
    assert ran.json[0]["evidence"]["status"] == "confirmed"


def test_what_breaks_only_under_a_condition_is_advice_until_it_was_seen(
    check: Run, place: Path, confirm: Confirm
) -> None:
    code = """\
        import torch
        @torch.compile
        def run(x: torch.Tensor, mask: torch.Tensor = None):
            if mask is not None and mask.any():
                x = x + 1
            return x
    """
    (place / "m.py").write_text(textwrap.dedent(code))
    for evidence, category in ((None, "advice"), (CONFIRMED, "graph-break")):
        confirm.evidence = {} if evidence is None else {"DYN101": evidence}
        (found,) = check("m.py").json
        assert (found["line"], found["code"], found["category"]) == (4, "DYN101", category)
        assert "`mask is not None`" in found["message"]


def test_a_worker_that_cannot_start_costs_the_verdicts_only(check: Run, model: Path, confirm: Confirm) -> None:
    confirm.fault = WorkerError("cannot run /no/python: it does not exist.")
    ran = check()
    assert len(ran.json) == 2
    assert (ran.code, ran.err) == (2, "error: cannot run /no/python: it does not exist.\n")


def test_what_is_run_and_how(check: Run, dynalint: Run, place: Path, confirm: Confirm) -> None:
    (place / "pkg").mkdir()
    (place / "pkg" / "__init__.py").write_text("")
    (place / "pkg" / "m.py").write_text(
        "import torch\nfrom torch import nn\n\n\nclass Outer:\n    class Model(nn.Module):\n"
        "        def forward(self, x):\n            return x\n\n\n@torch.compile\ndef step(x):\n    return x\n\n\n"
        "def plain(x):\n    return x\n\n\ndef make():\n    @torch.compile\n    def inner(x):\n        return x\n"
        "    return inner\n"
    )
    (place / "dynalint.toml").write_text(
        'confirm = "always"\npython = "bin/python"\ntimeout = 5\nmemory = 100\njobs = 3\n'
        '[examples]\n"pkg.m:plain" = "ex:plain"\n"other:thing" = "ex:thing"\n'
    )
    assert dynalint("trust").code == 0
    check("pkg")
    assert {(one.path, one.module, one.qualname) for one in confirm.targets} == {
        (place / "pkg" / "m.py", "pkg.m", name) for name in ("Outer.Model", "step", "plain")
    }
    options = confirm.options
    assert (options.mode, options.timeout, options.memory, options.jobs) == ("always", 5.0, 100 << 20, 3)
    assert (options.python, options.project, options.directory) == (place / "bin" / "python", place, place)
    assert options.search == (place,)
    assert options.roots == (place / "pkg",)
    assert options.cache == Settings(root=place).cache_location
    assert options.examples["pkg.m:plain"] == "ex:plain"
    check("--no-cache", "--config", 'confirm = "auto"')
    assert (confirm.options.cache, confirm.options.mode) == (None, "auto")


def test_models_that_inherit_what_is_compiled_are_run_where_it_comes_to_their_code(
    check: Run, place: Path, confirm: Confirm
) -> None:
    base = (
        "from torch import nn\n\n\nclass Base(nn.Module):\n    def forward(self, x):\n        return self.side(x)\n\n"
        "    def side(self, x):\n        raise NotImplementedError\n"
    )
    heirs = (
        "from base import Base\n\n\nclass Doubled(Base):\n    def side(self, x):\n        return x * 2\n\n\n"
        "class Named(Doubled):\n    name = 'named'\n\n    def unused(self):\n        return self.name\n\n\n"
        "def make():\n    class Inner(Base):\n        def side(self, x):\n            return x\n    return Inner()\n"
    )
    (place / "base.py").write_text(base)
    (place / "heirs.py").write_text(heirs)
    check("base.py", "heirs.py")
    assert [(one.module, one.qualname) for one in confirm.targets] == [("base", "Base"), ("heirs", "Doubled")]


def test_an_interrupt_reports_what_is_known(check: Run, dynalint: Run, model: Path, confirm: Confirm) -> None:
    confirm.interrupted = True
    confirm.evidence = {"DYN101": CONFIRMED, "DYN401": Evidence("unconfirmed", "not run: interrupted.")}
    ran = check()
    assert (ran.code, ran.err) == (130, "\nerror: interrupted\n")
    assert [one["evidence"]["status"] for one in ran.json] == ["confirmed", "unconfirmed"]
    text = model.read_text()
    for arguments in (["check", "--write-baseline", "b.json"], ["check", "--add-ignore"], ["fix", "--apply"]):
        assert dynalint(*arguments).code == 130
    assert model.read_text() == text
    assert not Path("b.json").exists()


def test_verdicts_are_kept_for_the_editor(check: Run, dynalint: Run, model: Path, confirm: Confirm) -> None:
    cache = Settings(root=Path.cwd()).cache_location
    assert cache is not None
    kept = cache / "last" / "findings.json"
    confirm.evidence = {"DYN101": CONFIRMED, "DYN401": REFUTED}
    check("--static")
    check("--no-cache")
    assert not kept.exists()
    check()
    held = json.loads(kept.read_text())
    assert [one["status"] for one in held["model.py"].values()] == ["confirmed", "refuted"]
    Path("other.py").write_text("")
    check("other.py")
    assert json.loads(kept.read_text()) == held  # of files that were not looked at, what was known stays
    kept.write_text("[")
    assert check().code == 1
    assert json.loads(kept.read_text()) == held


@pytest.mark.parametrize("form", ["full", "concise", "json", "json-lines", "sarif", "github", "junit", "markdown"])
def test_a_reason_that_findings_share_is_said_once_with_their_number(
    confirm: Confirm, dynalint: Run, model: Path, form: str
) -> None:
    reason = "`some_package` is not installed for the interpreter that runs the code."
    confirm.evidence = dict.fromkeys(("DYN101", "DYN401"), Evidence("unconfirmed", reason))
    ran = dynalint("check", "--output-format", form)
    assert ran.err.count(f"note: 2 findings are unconfirmed: {reason}\n") == 1


@pytest.mark.parametrize("form", ["concise", "grouped", "json", "github"])
def test_the_reason_of_the_only_finding_is_said_unless_another_is_confirmed(
    confirm: Confirm, dynalint: Run, model: Path, form: str
) -> None:
    reason = "Model cannot be built."
    confirm.evidence = {"DYN101": Evidence("unconfirmed", reason), "DYN401": CONFIRMED}
    assert reason not in dynalint("check", "--output-format", form).err
    ran = dynalint("check", "--output-format", form, "--select", "DYN101")
    assert ran.err.count(f"note: 1 finding is unconfirmed: {reason}\n") == 1


def test_confirming_that_was_asked_for_and_cannot_be_done_is_a_failure(
    confirm: Confirm, dynalint: Run, model: Path
) -> None:
    reason = "not run: torch is not installed for python."
    confirm.evidence = dict.fromkeys(("DYN101", "DYN401"), Evidence("unconfirmed", reason))
    assert dynalint("check", "--output-format", "json").code == 1
    ran = dynalint("check", "--confirm", "--output-format", "json")
    assert ran.code == 2
    assert f"error: nothing was confirmed: {reason}\n" in ran.err


@pytest.mark.parametrize("leads", [True, False])
@pytest.mark.parametrize("guesses", [True, False])
def test_code_that_nothing_calls_is_no_failure(
    confirm: Confirm, dynalint: Run, model: Path, leads: bool, guesses: bool
) -> None:
    reason = not_run_text(leads=leads, guesses=guesses)
    confirm.evidence = {"DYN101": CONFIRMED, "DYN401": Evidence("unconfirmed", reason)}
    ran = dynalint("check", "--confirm")
    assert (ran.code, "nothing was confirmed" in ran.err) == (1, False)


def test_a_hook_is_run_by_the_function_that_contains_it(check: Run, place: Path, confirm: Confirm) -> None:
    (place / "hooks.py").write_text(
        "from torch import nn\n\n\ndef watch(model: nn.Module, x):\n"
        "    def hook(module, inputs, output):\n        print('seen')\n\n"
        "    model.register_forward_hook(hook)\n    return model(x)\n"
    )
    check("--all", "hooks.py")
    assert confirm.parts == {"DYN401": ["watch"]}


def test_a_project_that_is_a_package_imports_its_packages_from_its_own_folder(
    check: Run, model: Path, confirm: Confirm
) -> None:
    check()
    assert confirm.options.search == (model.parent,)
    model.with_name("__init__.py").write_text("")
    check()
    assert confirm.options.search == (model.parent, model.parent.parent)


def test_a_diff_confirms_only_what_it_may_fix(confirm: Confirm, dynalint: Run, model: Path) -> None:
    model.with_name("other.py").write_text(model.read_text().replace("        print(x)\n", ""))
    confirm.evidence["DYN401"] = REFUTED
    ran = dynalint("fix", "--no-verify")
    assert (ran.code, ran.out) == (0, "")
    assert list(confirm.parts) == ["DYN401"]  # the branches have no fix
    assert [target.path.name for target in confirm.targets] == ["model.py"]
    dynalint("fix", "--no-verify", "--apply")
    assert list(confirm.parts) == ["DYN101", "DYN401"]


def test_a_diff_of_nothing_runs_nothing(confirm: Confirm, dynalint: Run, model: Path) -> None:
    confirm.fault = WorkerError("it was started")
    ran = dynalint("fix", "--select", "DYN101")
    assert (ran.code, ran.out) == (0, "")
    assert "it was started" not in ran.err
