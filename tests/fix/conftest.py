"""A project of one model and its fix, and a worker in this very process: torch is imported once for all tests."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dynalint.analysis.source import SourceFile, parse_source
from dynalint.confirm import executors
from dynalint.confirm.client import Answer, Hello
from dynalint.confirm.options import ConfirmOptions, Target
from dynalint.findings import Category, Finding, Safety
from dynalint.fix import Linted, Unit, Verification
from dynalint.fix.edits import merged, plan_of, replaced
from dynalint.fix.verify import WorkerVerifier
from dynalint.rules import Replacement, Rewrite

_FINE = {
    "breaks": [], "breaks_before": [], "failure": None, "recompiles": 0, "recompiled_before": None,
    "same_causes": False, "reason": "", "differs": None, "differed_before": None,
}  # fmt: skip


@dataclass
class Parts:
    """A reply that keeps what it is given."""

    parts: dict[str, Any] = field(default_factory=dict)
    at: str = ""

    def stage(self, what: str) -> None:
        self.at = what

    def part(self, name: str, value: Any) -> None:
        self.parts[name] = value


class HereWorker:
    """Answers as the worker does, without a process and without walls."""

    def __init__(self, options: object) -> None:
        self.hello = Hello("3", "2")

    def ask(self, operation: str, request: Mapping[str, Any]) -> Answer:
        from dynalint.confirm.worker.operations import verifying

        if operation != "operations.verifying:verify":
            return Answer("done", {}, {}, "")  # tests and documentation are not run without walls
        reply = Parts()
        try:
            verifying.verify(request, reply)  # type: ignore[arg-type]
        except Exception as fault:  # noqa: BLE001 - as the supervisor does
            return Answer("failed", reply.parts, {"reason": repr(fault)}, reply.at)
        return Answer("done", reply.parts, {}, reply.at)

    def close(self) -> None:
        pass


@pytest.fixture
def compiled() -> None:
    """Compile what is equal, too. This takes as long as all trials, and most tests are only about these."""


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, torch_is_no_burden: None, request: pytest.FixtureRequest) -> None:
    """Verify in this process. Without the fixture `compiled`, what is equal is said to compile as well."""
    from dynalint.confirm.worker.dynamo import runs
    from dynalint.confirm.worker.operations import verifying

    monkeypatch.setattr(executors, "Worker", HereWorker)
    monkeypatch.setattr(runs, "trace_own_compiles", lambda: None)
    if "compiled" not in request.fixturenames:
        monkeypatch.setattr(verifying, "compiled_after", lambda *_: _FINE)


def unit_of(
    file: SourceFile,
    edits: list[tuple[str, str]],
    *,
    function: str = "Model.forward",
    safety: Safety = "safe",
    conditions: tuple[str, ...] = (),
    category: Category = "graph-break",
    gb: tuple[str, ...] = (),
    ranks: bool = False,
) -> Unit:
    """A unit that replaces each old text, which stands in the file once, by the new one."""
    replacements = []
    for old, new in edits:
        assert file.text.count(old) == 1, old
        start = file.text.index(old)
        replacements.append(Replacement(file, start, start + len(old), new))
    rewrite = Rewrite("Rewrite it", safety, tuple(replacements), conditions)
    line, column = file.position(replacements[0].start)
    finding = Finding(
        file.path.name, line, column, line, column + 1, "DYN999", "it", category, "error", "it is bad",
        function=function, region=(function,), gb=gb,
    )  # fmt: skip
    return Unit(
        (Linted(finding, file, rewrite),), plan_of(rewrite), "Rewrite it", safety, conditions, {file.path: file}, ranks
    )


@pytest.fixture
def prove(tmp_path: Path, here: None) -> Callable[..., Verification]:
    """Verify a rewrite of a model, given its code, the edits, and an expression for the arguments of a call.

    Without `inputs`, they are guessed.
    """

    def run(
        code: str,
        *edits: tuple[str, str],
        inputs: str | None = "(torch.randn(4, 8),)",
        target: str = "Model",
        practical: bool = False,
        **options: Any,
    ) -> Verification:
        path = tmp_path / "model.py"
        make = f"{target}()" if target[0].isupper() else target
        text = textwrap.dedent(code).lstrip("\n")
        path.write_text(f"{text}\n\ndef example():\n    return {make}, {inputs}\n")
        file = parse_source(path, path.read_bytes())
        function = f"{target}.forward" if target[0].isupper() else target
        given = [(textwrap.dedent(old), textwrap.dedent(new)) for old, new in edits]
        given = [(_indented(file.text, old), new) for old, new in given]
        unit = unit_of(file, [(old[0], _like(new, old[1])) for old, new in given], function=function, **options)
        after = {path: replaced(file.text, merged([unit.plan])[path])}
        settings = ConfirmOptions(
            mode="always", project=tmp_path, directory=tmp_path, examples={f"model:{target}": "model:example"} if inputs else {},
            search=(tmp_path,), timeout=20,
        )  # fmt: skip
        with WorkerVerifier(settings, [Target(path, "model", target)], practical=practical) as verify:
            return verify({}, after, [unit])[unit]

    return run


def _indented(text: str, old: str) -> tuple[str, str]:
    """Find `old`, given without indentation, in a text; return it as it stands there, and its indentation."""
    lines = old.strip("\n").split("\n")
    for prefix in ("", " " * 4, " " * 8, " " * 12):
        wanted = "\n".join([lines[0], *(prefix + line if line else line for line in lines[1:])])
        start = text.find(wanted)
        if start >= 0 and (len(lines) == 1 or text[:start].endswith("\n" + prefix)):
            return wanted, prefix
    raise AssertionError(f"{old!r} is not there")


def _like(new: str, prefix: str) -> str:
    lines = new.strip("\n").split("\n")
    return "\n".join([lines[0], *(prefix + line if line else line for line in lines[1:])])
