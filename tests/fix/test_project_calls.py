"""Verification on the calls that the project's own tests and documentation make, in the real worker."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from dynalint.analysis.source import read_source
from dynalint.confirm.options import ConfirmOptions, Target
from dynalint.fix import Verification
from dynalint.fix.edits import merged, replaced
from dynalint.fix.verify import WorkerVerifier
from tests.confirm.conftest import walls_stand

from .conftest import unit_of

pytestmark = [
    pytest.mark.dynamo,
    pytest.mark.may_skip,
    pytest.mark.xdist_group("worker"),
    pytest.mark.skipif(not walls_stand(), reason="no sandbox holds on this machine"),
]

# Nobody could guess that key, nor what a batch holds, nor that a width of seven is special.
MODEL = """
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, table, key):
        super().__init__()
        if key != "sesame":
            raise PermissionError("wrong key")
        self.linear = nn.Linear(table["width"], 3)
        self.special = table["width"] == 7

    def forward(self, batch):
        x = batch["pos"]
        if self.special:
            x = x * 2
        h = self.linear(x)
        return h * 3 if h.sum() > 0 else h * 4


class Free(nn.Module):
    def forward(self, x):
        return x * 3 if x.sum() > 0 else x * 4


def halved(x):
    return x / 2 if x.sum() > 0 else x / 4


class Locked(nn.Module):
    def __init__(self, key):
        super().__init__()
        raise PermissionError("wrong key")

    def forward(self, x):
        return halved(x)


def encoder(width):
    return Encoder({"width": width}, "sesame")


@torch.compile
def rescaled(batch):
    return batch["pos"] * 3 if batch["scale"].sum() > 0 else batch["pos"] * 4
"""
TESTS = """
import torch
from pkg.model import Free, encoder, halved, rescaled


def test_usual():
    encoder(4)({"pos": torch.ones(2, 4)})


def test_special():
    encoder(7)({"pos": torch.ones(2, 7)})


def test_rescaled():
    rescaled({"pos": torch.ones(2), "scale": torch.ones(1)})


def test_halved():
    halved(torch.full((5, 3), 1.5))


def test_free():
    Free()(torch.full((5, 3), 1.5))
"""
BRANCH = "h * 3 if h.sum() > 0 else h * 4"
RIGHT = "torch.where(h.sum() > 0, h * 3, h * 4)"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in {"pkg/__init__.py": "", "pkg/model.py": MODEL, "tests/test_model.py": TESTS}.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"))
    return tmp_path


def proven(
    project: Path,
    edits: Sequence[tuple[str, str]],
    name: str = "Encoder.forward",
    root: str | None = None,
    **more: object,
) -> tuple[Verification, list[str]]:
    """Return the verification of a rewrite, and the names of the targets that ran for it."""
    path = project / "pkg/model.py"
    file = read_source(path)
    unit = unit_of(file, list(edits), function=name)
    options = ConfirmOptions(project=project, directory=project, search=(project,), **more)  # type: ignore[arg-type]
    target = Target(path, "pkg.model", (root or name).removesuffix(".forward"))
    part = Target(path, "pkg.model", name)
    after = {path: replaced(file.text, merged([unit.plan])[path])}
    told: list[str] = []
    told_of = lambda _done, _total, what: told.append(what)  # noqa: E731
    with WorkerVerifier(options, [target], told_of, parts=lambda _: [part] if root else []) as verify:
        return verify({}, after, [unit])[unit], told


def test_a_difference_shows_on_the_one_call_that_reaches_it(project: Path) -> None:
    """The two tests build different models: what only the second runs is compared with the second."""
    verification, _ = proven(project, [(BRANCH, RIGHT), ("x = x * 2", "x = x * 2.5")])
    assert verification.outcome == "refuted"
    verification, _ = proven(project, [(BRANCH, RIGHT), ("x = x * 2", "x = x + x")])
    assert verification.outcome == "proven", verification.detail
    assert "test_special" in verification.detail


def test_a_rewrite_that_fails_on_a_call_is_refuted(project: Path) -> None:
    """It is not passed over for another call, or for a guess, on which it would work."""
    verification, _ = proven(project, [(BRANCH, 'torch.where(h.sum() > 0, h * 3, batch["no"])')])
    assert (verification.outcome, verification.raises) == ("refuted", True)
    verification, _ = proven(project, [(BRANCH, RIGHT), ('if key != "sesame":', 'if key != "other":')])
    assert verification.outcome == "refuted"
    assert "pkg.model:Encoder no longer runs: PermissionError: wrong key" in verification.detail


def test_a_compiled_function_is_called_as_a_test_calls_it(project: Path) -> None:
    old = 'batch["pos"] * 3 if batch["scale"].sum() > 0 else batch["pos"] * 4'
    new = 'torch.where(batch["scale"].sum() > 0, batch["pos"] * 3, batch["pos"] * 4)'
    verification, _ = proven(project, [(old, new)], "rescaled")
    assert verification.outcome == "proven", verification.detail
    assert "test_rescaled" in verification.detail


def test_what_no_root_runs_is_tried_with_the_calls_of_a_part_and_no_guesses(project: Path) -> None:
    old = "x / 2 if x.sum() > 0 else x / 4"
    right, wrong = (f"torch.where(x.sum() > 0, x / 2, x / {number})" for number in (4, 5))
    verification, _ = proven(project, [(old, right)], "halved", "Locked.forward")
    assert verification.outcome == "proven", verification.detail
    assert "test_halved" in verification.detail
    verification, _ = proven(project, [(old, wrong)], "halved", "Locked.forward")
    assert verification.outcome == "refuted"
    (project / "tests/test_model.py").unlink()
    verification, _ = proven(project, [(old, right)], "halved", "Locked.forward")
    assert verification.outcome == "unverifiable"


def test_guesses_come_last_and_only_where_they_are_allowed(project: Path) -> None:
    edit = ("x * 3 if x.sum() > 0 else x * 4", "torch.where(x.sum() > 0, x * 3, x * 4)")
    verification, _ = proven(project, [edit], "Free.forward")
    assert "test_free" in verification.detail
    verification, _ = proven(project, [edit], "Free.forward", confirm_from=("guesses",))
    assert (verification.outcome, "test_free" in verification.detail) == ("proven", False)
    (project / "tests/test_model.py").unlink()
    verification, _ = proven(project, [edit], "Free.forward", confirm_from=("tests", "docs"))
    assert verification.outcome == "unverifiable"
    assert "inputs must not be guessed" in verification.detail


def test_tests_run_once_for_all_fixes(project: Path) -> None:
    path = project / "pkg/model.py"
    file = read_source(path)
    options = ConfirmOptions(project=project, directory=project, search=(project,))
    target = Target(path, "pkg.model", "Encoder")
    told: list[str] = []
    with WorkerVerifier(options, [target], lambda _done, _total, what: told.append(what)) as verify:
        for new in (RIGHT, "torch.where(h.sum() > 0, 3 * h, 4 * h)"):
            unit = unit_of(file, [(BRANCH, new)], function="Encoder.forward")
            verification = verify({}, {path: replaced(file.text, merged([unit.plan])[path])}, [unit])[unit]
            assert verification.outcome == "proven"
            (project / "tests/test_model.py").write_text("")
    assert len(told) == 3  # one look for calls, and two runs


def test_a_call_of_a_test_proves_a_fix_and_is_kept_in_the_cache(project: Path) -> None:
    cache = project / "cache"
    first, told = proven(project, [(BRANCH, RIGHT)], cache=cache)
    assert first.outcome == "proven", first.detail
    assert "starting from the call Encoder(dict) in tests/test_model.py::test_" in first.detail
    again, told_again = proven(project, [(BRANCH, RIGHT)], cache=cache)
    assert again == first
    assert len(told_again) == len(told) - 1
    # Another test is another question.
    with (project / "tests/test_model.py").open("a") as file:
        file.write("\n\ndef test_more():\n    encoder(5)\n")
    _, told_then = proven(project, [(BRANCH, RIGHT)], cache=cache)
    assert told_then == told
