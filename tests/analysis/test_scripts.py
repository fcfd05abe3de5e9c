"""What scripts and tests tell of the parameters of compiled code by how they call it."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from dynalint import check_source
from dynalint.analysis import AnalysisOptions, analyze
from dynalint.analysis.events import Branch, Subscript
from dynalint.analysis.kinds import Tensor, only_tensor

MODEL = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x, flag):
        if flag:
            return x
        return x + 1
"""


def branches(tmp_path: Path, code: str, **others: str) -> list[Branch]:
    paths = []
    for name, text in {"model": code, **others}.items():
        paths.append(tmp_path / f"{name}.py")
        paths[-1].write_text(textwrap.dedent(text))
    return [event for event in analyze(paths, AnalysisOptions()).events if isinstance(event, Branch)]


def test_nothing_is_known_without_a_call(tmp_path: Path) -> None:
    assert branches(tmp_path, MODEL) == []


@pytest.mark.parametrize(
    "script",
    [
        'if __name__ == "__main__":\n    model = Model()\n    model(torch.randn(3), torch.tensor(True))\n',
        "model = Model()\nprint(model(torch.randn(3), torch.tensor(True)))\n",
        "for flag in [torch.tensor(True)]:\n    Model()(torch.randn(3), flag=flag)\n",
        "inputs = (torch.randn(3), torch.tensor(True))\nmodel = torch.compile(Model())\nout = model(*inputs)\n",
        "def make():\n    return torch.randn(3), torch.tensor(True)\n\ndef main():\n    Model().eval()(*make())\n",
        "def run(f, *args):\n    return f(*args)\n\ndef test_model():\n    run(Model(), torch.randn(3), torch.tensor(True))\n",
        "def run(f, **named):\n    return f(**named)\n\ndef main():\n    run(Model(), x=torch.randn(3), flag=torch.ones(()))\n",
    ],
)
def test_a_call_tells_the_kinds(tmp_path: Path, script: str) -> None:
    assert [event.node.lineno for event in branches(tmp_path, f"{MODEL}\n\n{script}")] == [7]


def test_a_test_in_another_file_tells_the_kinds(tmp_path: Path) -> None:
    test = """
    import torch
    from model import Model

    class TestModel:
        def test_forward(self):
            Model()(torch.randn(3), torch.randn(3) > 0)
    """
    assert len(branches(tmp_path, MODEL, test_model=test)) == 1


def test_numbers_and_flags_stay_what_they_are(tmp_path: Path) -> None:
    script = "for flag in (True, False, 3, None):\n    Model()(torch.randn(3), flag)\n"
    assert branches(tmp_path, f"{MODEL}\n\n{script}") == []


def test_one_configuration_in_a_test_does_not_settle_a_class(tmp_path: Path) -> None:
    code = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self, limit=None):
            super().__init__()
            self.limit = limit

        def forward(self, x: torch.Tensor):
            if self.limit is not None and x.sum() > self.limit:
                return x
            return x + 1

    def test_without_limit():
        Model()(torch.randn(3))
    """
    assert len(branches(tmp_path, code)) == 1


def test_tensors_that_a_script_makes_are_inputs(tmp_path: Path) -> None:
    """`torch.tensor(2)` is a number to tracing where compiled code makes it, and an input where a script does."""
    path = tmp_path / "script.py"
    path.write_text(
        textwrap.dedent(
            """
            import torch

            @torch.compile
            def head(x, n):
                return x[:n] + x[:torch.tensor(2)]

            head(torch.randn(3), torch.tensor(2))
            """
        )
    )
    events = [event for event in analyze([path]).events if isinstance(event, Subscript)]
    bounds = [only_tensor(event.index.element) for event in events]  # type: ignore[attr-defined]
    assert [isinstance(bound, Tensor) and bound.foreseen for bound in bounds] == [False, True]


def test_what_a_helper_of_the_tests_compiles_is_compiled(tmp_path: Path) -> None:
    code = """
    import torch

    def positive(x):
        if x.sum() > 0:
            return x
        return -x

    def check(function, *args):
        return torch.compile(function)(*args)

    def test_positive():
        check(positive, torch.randn(3))
    """
    assert [event.function.name for event in branches(tmp_path, code)] == ["positive"]


COMPILED = """
import torch

@torch.compile
def head(x, n=3):
    x = x * 2
    y = float(n)
    if n > 2:
        x = x + 1
    if x.sum() > 0:
        x = x - y
    return tail(x, n)

def tail(x, n):
    print(x, n)
    return x + 1 if n > 2 else x

"""
BY_TENSOR = "def test_tensor():\n    head(torch.randn(3), torch.tensor(2))\n\n"
BY_DEFAULT = "def test_default():\n    head(torch.randn(3))\n\n"


@pytest.mark.parametrize("tests", [BY_TENSOR + BY_DEFAULT, BY_DEFAULT + BY_TENSOR])
def test_what_one_test_passes_as_a_tensor_and_another_as_a_number_is_left_open(tests: str) -> None:
    found = {(one.line, one.category) for one in check_source("head.py", COMPILED + tests)}
    assert found == {(7, "advice"), (8, "advice"), (10, "graph-break"), (15, "graph-break"), (16, "advice")}


def test_what_a_compiled_caller_passes_as_a_tensor_is_certain() -> None:
    caller = "@torch.compile\ndef caller(x):\n    return head(x, x.sum())\n\n"
    found = {one.line: one.category for one in check_source("head.py", COMPILED + caller + BY_TENSOR + BY_DEFAULT)}
    assert found[8] == "graph-break"


def test_a_method_without_any_parameter_is_no_fault(tmp_path: Path) -> None:
    lines = "".join(f"            x{number} = model(torch.ones({number + 1}), True)\n" for number in range(60))
    script = f"""
        import torch
        from model import Model

        class TestModel:
            def test_without_self():
                model = Model()
{lines.replace("            ", "                ")}"""
    assert branches(tmp_path, MODEL, test_model=script) == []
