"""Dynamo settings that a project makes are heeded for the code that they hold for, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

import dynalint

MODEL = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.BoolTensor) -> torch.Tensor:
        return x[mask] * x.sum().item()
"""
ASSIGNED = "import torch\n\ntorch._dynamo.config.capture_scalar_outputs = True\n"
PATCHED = """\
import torch
from model import Model

model = Model()


@torch.compile
def run(x: torch.Tensor, mask: torch.BoolTensor) -> torch.Tensor:
    return helper(x, mask)


def helper(x, mask):
    return x[mask] * x.sum().item()


def main(x, mask):
    with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        return run(x, mask)
"""


def found(folder: Path, **files: str) -> set[tuple[str, str]]:
    """The codes of the findings in a project of these files, by file."""
    (folder / "pyproject.toml").write_text("")
    for name, text in {"model": MODEL, **files}.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    findings = dynalint.check([str(folder)], static=True)
    return {(Path(one.path).name, one.code) for one in findings if one.code in ("DYN201", "DYN301")}


BOTH = {("model.py", "DYN201"), ("model.py", "DYN301")}


def test_what_a_module_sets_holds_for_the_program(tmp_path: Path) -> None:
    assert found(tmp_path) == BOTH
    assert found(tmp_path, setup_torch=ASSIGNED) == {("model.py", "DYN301")}


@pytest.mark.parametrize("name", ["tests__conftest", "test_model", "examples__train", "benchmarks__speed"])
def test_what_tests_and_examples_set_holds_for_them(tmp_path: Path, name: str) -> None:
    assert found(tmp_path, **{name: ASSIGNED}) == BOTH


def test_a_patch_holds_where_the_calls_come_through_it(tmp_path: Path) -> None:
    assert found(tmp_path, patched=PATCHED) == BOTH
    without = PATCHED.replace("capture_scalar_outputs=True, ", "")
    assert found(tmp_path, patched=without) == {*BOTH, ("patched.py", "DYN201")}


SWITCHING = """\
import torch
from model import Model


class Detector(torch.nn.Module):
    def __init__(self, compiled: bool = False):
        super().__init__()
        self.model = Model()
        if compiled:
            torch._dynamo.config.capture_scalar_outputs = True

    def forward(self, x: torch.Tensor):
        return x * x.sum().item()
"""


def test_what_a_function_sets_holds_for_the_calls_from_its_file(tmp_path: Path) -> None:
    assert found(tmp_path, detector=SWITCHING) == BOTH


def test_what_a_function_of_a_script_sets_holds_for_the_program(tmp_path: Path) -> None:
    text = SWITCHING + '\n\nif __name__ == "__main__":\n    Detector(True)\n'
    assert found(tmp_path, train=text) == {("model.py", "DYN301")}


def test_what_a_function_that_is_called_at_import_sets_holds_for_the_program(tmp_path: Path) -> None:
    setup = f"import torch\n\n\ndef configure():\n    {ASSIGNED.splitlines()[-1]}\n"
    assert found(tmp_path, setup_torch=setup) == BOTH
    called = "from setup_torch import configure\n\nconfigure()\n"
    assert found(tmp_path, setup_torch=setup, package=called) == {("model.py", "DYN301")}


def test_a_comment_or_a_value_of_false_sets_nothing(tmp_path: Path) -> None:
    text = f"# {ASSIGNED.splitlines()[-1]}\n{ASSIGNED.replace('True', 'False')}"
    assert found(tmp_path, setup_torch=text) == BOTH


TESTED = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        {statement}
        return x
"""


@pytest.mark.parametrize(
    ("statement", "line"),
    [
        ("if bool(x.any()): x = x + 1", "DYN202"),
        ("if not (x > 1).any().item(): x = x + 1", "DYN201"),
        ("while x.sum().item() < 3: x = x + 1", "DYN201"),
        ("x = x + 1 if float(x.max()) > 3 and x.dim() > 1 else x", "DYN202"),
        ("x = x * x.sum().item()", ""),
        ("x = x + float(x.max() > 3)", ""),
        ("assert x.sum().item() > 0", ""),
        ("x = x + (x.sum().item() > 3)", ""),
    ],
)
def test_a_test_of_a_captured_number_is_found(tmp_path: Path, statement: str, line: str) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "setup_torch.py").write_text(ASSIGNED)
    (tmp_path / "model.py").write_text(TESTED.replace("{statement}", statement))
    findings = dynalint.check([str(tmp_path)], static=True)
    assert [one.code for one in findings if one.code in ("DYN201", "DYN202")] == ([line] if line else [])
