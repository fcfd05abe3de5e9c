"""The main job, end to end, on what people copy from a tutorial on torch.compile.

Two models are bad, each has a corrected twin, one twin traces whole and gets wrong gradients; the trainer, the benchmark
and the transformer read losses, print and branch where that is harmless.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = pytest.mark.dynamo

BRANCH = ("branching.py", "BranchingModel.forward", "graph-break")
COUNTER = ("counting.py", "CountingModel.forward", "recompile")
IN_PLACE = ("counting.py", "InPlaceCountingModel.forward", "miscompile")
CALLS = 10


def places(findings: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return sorted((finding["path"], finding["function"], finding["category"]) for finding in findings)


def test_static_check_flags_the_bad_models_and_nothing_else(dynalint: Callable[..., Any], tutorial: Path) -> None:
    ran = dynalint("check", "--static", "--output-format", "json", cwd=tutorial)
    assert places(ran.findings) == sorted([BRANCH, COUNTER, IN_PLACE])
    assert {finding["evidence"]["status"] for finding in ran.findings} == {"static"}
    assert ran.code == 1


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("declared", [True, False], ids=["declared-examples", "worked-out-examples"])
def test_check_confirms_with_what_dynamo_said(confirming: Callable[..., Any], tutorial: Path, declared: bool) -> None:
    if not declared:
        (tutorial / "examples.py").unlink()
        (tutorial / "pyproject.toml").write_text('[tool.dynalint]\nconfirm = "always"\n', encoding="utf-8")
    ran = confirming("check", "--output-format", "json", cwd=tutorial)
    found = {(finding["path"], finding["function"], finding["category"]): finding for finding in ran.findings}
    assert sorted(found) == sorted([BRANCH, COUNTER, IN_PLACE]), ran.err
    assert {key: finding["evidence"]["status"] for key, finding in found.items()} == dict.fromkeys(found, "confirmed")

    branch = found[BRANCH]
    assert branch["evidence"]["gb"] == "GB0170"
    assert branch["evidence"]["gb"] in branch["gb"]
    assert branch["evidence"]["fullgraph"] == "breaks"
    assert found[COUNTER]["evidence"]["recompiles"] >= 1
    assert "counter" in found[COUNTER]["evidence"]["detail"]
    assert found[IN_PLACE]["evidence"]["fullgraph"] == "passes"
    assert ran.code == 1


@pytest.mark.long
@pytest.mark.slow
def test_fix_repairs_every_model_and_nothing_else(confirming: Callable[..., Any], tutorial: Path) -> None:
    before = {path.name: path.read_bytes() for path in tutorial.iterdir() if path.is_file()}

    # One worker: each imports torch, and other tests take what is left of the processors.
    applied = confirming("fix", "--apply", "--jobs", "1", cwd=tutorial)
    assert applied.code == 0, applied.out + applied.err
    changed = {name for name, content in before.items() if (tutorial / name).read_bytes() != content}
    assert changed == {"branching.py", "counting.py"}

    checked = confirming("check", "--jobs", "1", cwd=tutorial)
    assert checked.code == 0, checked.out + checked.err

    originals = {name: load(tutorial, name, before[name].decode()) for name in sorted(changed)}
    for name in sorted(changed):
        repaired = load(tutorial, name, (tutorial / name).read_text(encoding="utf-8"))
        for model in sorted(vars(repaired)):
            if model.endswith("Model"):
                assert_repaired(getattr(originals[name], model), getattr(repaired, model))


def load(folder: Path, name: str, text: str) -> ModuleType:
    """The module of this text, under a name of its own."""
    path = folder / f"loaded_{abs(hash(text))}_{name}"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def assert_repaired(original: type, repaired: type) -> None:
    """The repaired model compiles once, as one graph, and does what the original did in eager, gradients included."""
    import torch
    from torch._dynamo.testing import CompileCounterWithBackend

    torch.manual_seed(0)
    eager = original()
    torch.manual_seed(0)
    model = repaired()
    torch.compiler.reset()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(model, backend=counter, fullgraph=True)
    for call in range(CALLS):
        inputs = torch.randn(4, 16) + (1 if call % 2 else -1)
        expected, got = eager(inputs), compiled(inputs)
        torch.testing.assert_close(got, expected)
        expected.sum().backward()
        got.sum().backward()
        for (name, wanted), (_, parameter) in zip(eager.named_parameters(), model.named_parameters(), strict=True):
            torch.testing.assert_close(parameter.grad, wanted.grad, msg=lambda text, name=name: f"{name}: {text}")
    assert counter.frame_count == 1, f"{repaired.__name__} was compiled {counter.frame_count} times"
    assert eager.state_dict().keys() == model.state_dict().keys()
