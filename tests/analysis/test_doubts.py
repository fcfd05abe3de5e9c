"""Which code hardly anybody compiles, and that nothing else is taken for such."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

import dynalint
from dynalint.findings import Finding

HEAD = """
import torch
from torch import Tensor, nn

def clipped(x: Tensor):
    if x.sum() > 0:
        return x.clamp(max=1)
    return x

"""


def check(tmp_path: Path, text: str, name: str = "model.py", **settings: object) -> list[Finding]:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEAD + textwrap.dedent(text))
    found = dynalint.check([tmp_path], static=True, isolated=True, settings=settings or None)
    return [one for one in found if one.code == "DYN101"]


def doubts(tmp_path: Path, text: str, name: str = "model.py") -> list[str]:
    return [one.doubt for one in check(tmp_path, text, name)]


PLAIN = """
class Net(nn.Module):
    def forward(self, x: Tensor):
        return clipped(x)
"""

TRAINING = """
class Explainer(nn.Module):
    def forward(self, x: Tensor):
        self.train_mask(x)
        return clipped(x)

    def train_mask(self, x: Tensor):
        mask = nn.Parameter(torch.ones(3))
        optimizer = torch.optim.Adam([mask], lr=0.1)
        for _ in range(10):
            optimizer.zero_grad()
            loss = (clipped(x) * mask).sum()
            loss.backward()
            optimizer.step()
"""


def test_a_plain_module_is_not_doubted(tmp_path: Path) -> None:
    assert doubts(tmp_path, PLAIN) == [""]


def test_what_always_trains_something_is_doubted(tmp_path: Path) -> None:
    assert doubts(tmp_path, TRAINING) == ["`Explainer.forward` steps an optimizer"]


def test_a_backward_pass_that_a_library_runs_counts(tmp_path: Path) -> None:
    text = """
    from accelerate import Accelerator

    class Trainer(nn.Module):
        def __init__(self, net: nn.Module):
            super().__init__()
            self.accelerator = Accelerator()
            self.net = self.accelerator.prepare(net)

        def forward(self):
            loss = self.net(torch.ones(2))
            self.accelerator.backward(loss)
            clipped(torch.ones(2))
    """
    assert doubts(tmp_path, text) == ["`Trainer.forward` runs a backward pass"]


def test_an_average_of_the_weights_steps_no_optimizer(tmp_path: Path) -> None:
    code = """
    class Student(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, 8)
            self.teacher = torch.optim.swa_utils.AveragedModel(self.fc)

        def forward(self, x):
            return clipped(self.fc(x) - self.teacher(x))
    """
    assert doubts(tmp_path, code) == [""]


def test_what_makes_an_optimizer_steps_it_in_a_closure(tmp_path: Path) -> None:
    code = """
    class Scaler(nn.Module):
        def forward(self, x):
            scale = torch.ones(1, requires_grad=True)
            optimizer = torch.optim.LBFGS([scale])

            def closure():
                loss = (x * scale).square().sum()
                loss.backward()
                return loss

            optimizer.step(closure)
            return clipped(x * scale)
    """
    assert doubts(tmp_path, code) == ["`Scaler.forward` steps an optimizer"]


def test_code_that_a_plain_module_reaches_too_is_not_doubted(tmp_path: Path) -> None:
    (found,) = check(tmp_path, TRAINING + PLAIN)
    assert (found.doubt, found.region) == ("", ("Net.forward", "clipped"))


def test_what_is_compiled_is_not_doubted_whatever_it_does(tmp_path: Path) -> None:
    assert doubts(tmp_path, TRAINING + "\nmodel = torch.compile(Explainer())\n") == [""]


def test_what_only_a_training_step_calls_is_doubted_and_the_module_around_it_is_not(tmp_path: Path) -> None:
    text = """
    def tune(x: Tensor):
        loss = clipped(x).sum()
        loss.backward()

    class Net(nn.Module):
        def forward(self, x: Tensor):
            if self.training:
                tune(x)
            if x.mean() > 0:
                x = -x
            return x
    """
    assert {one.line: one.doubt for one in check(tmp_path, text)} == {6: "`tune` runs a backward pass", 19: ""}


def test_what_cannot_be_called_without_a_model_is_doubted(tmp_path: Path) -> None:
    text = """
    class Attribution(nn.Module):
        def forward(self, model: nn.Module, x: Tensor):
            return clipped(model(x))
    """
    assert doubts(tmp_path, text) == ["`Attribution.forward` takes a model as an argument"]


@pytest.mark.parametrize("bases", ["nn.Module", "nn.Module, abc.ABC"])
def test_a_module_that_only_holds_data_is_no_model(tmp_path: Path, bases: str) -> None:
    text = f"""
    import abc

    class Grid({bases}):
        def __init__(self, spacing: Tensor):
            super().__init__()
            self.register_buffer("spacing", spacing)

    class Element(nn.Module):
        def forward(self, grid: Grid, x: Tensor):
            return clipped(x * grid.spacing)
    """
    assert doubts(tmp_path, text) == [""]


def test_a_layer_that_may_be_given_is_no_sign(tmp_path: Path) -> None:
    text = """
    class Net(nn.Module):
        def forward(self, x: Tensor, norm: nn.Module | None = None):
            return clipped(x if norm is None else norm(x))
    """
    assert doubts(tmp_path, text) == [""]


def test_what_takes_lists_of_strings_is_doubted(tmp_path: Path) -> None:
    text = """
    class Encoder(nn.Module):
        def forward(self, texts: str | list[str]):
            return clipped(self.tokenize(texts))

        def tokenize(self, texts) -> Tensor:
            return torch.tensor([len(text) for text in texts])

    class Named(nn.Module):
        def forward(self, x: Tensor, names: list[str]):
            if x.sum() > 0:
                x = -x
            return x

    class Told(nn.Module):
        def forward(self, mode: str, x: Tensor):
            if x.sum() > 0:
                x = -x
            return x
    """
    assert doubts(tmp_path, text) == ["`Encoder.forward` takes text", "", ""]


def test_a_wrapper_for_several_devices_is_doubted(tmp_path: Path) -> None:
    text = """
    class Spread(nn.DataParallel):
        def forward(self, x: Tensor):
            return clipped(x)
    """
    assert doubts(tmp_path, text) == ["`Spread.forward` distributes a model over devices"]


def test_what_draws_is_doubted_and_what_may_draw_is_not(tmp_path: Path) -> None:
    text = """
    import matplotlib.pyplot as plt

    def show(x: Tensor):
        if x.sum() > 0:
            x = -x
        plt.imshow(x)

    class Net(nn.Module):
        def forward(self, x: Tensor, debug: bool):
            if debug:
                show(x)
            if x.sum() > 0:
                x = -x
            return x
    """
    assert doubts(tmp_path, text) == ["`show` draws", ""]


def test_loading_data_and_showing_progress_in_any_case_are_signs(tmp_path: Path) -> None:
    text = """
    from torch.utils.data import DataLoader
    from tqdm import tqdm

    class Loading(nn.Module):
        def forward(self, x: Tensor):
            for part in DataLoader(x):
                return clipped(x)

    class Loud(nn.Module):
        def forward(self, x: Tensor):
            for _ in tqdm(range(3)):
                if x.sum() > 0:
                    x = -x
            return x

    class Quiet(nn.Module):
        def forward(self, x: Tensor, verbose: bool):
            steps = tqdm(range(3)) if verbose else range(3)
            for _ in steps:
                if x.sum() > 0:
                    x = -x
            return x
    """
    assert [one.doubt for one in check(tmp_path, text)] == [
        "`Loading.forward` loads data",
        "`Loud.forward` shows progress",
        "",
    ]


def test_modules_of_tests_are_doubted_unless_they_are_compiled(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    assert doubts(tmp_path, PLAIN, "tests/helpers.py") == ["`Net.forward` is in a test"]
    (tmp_path / "tests" / "helpers.py").unlink()
    assert doubts(tmp_path, PLAIN, "pkg/test_net.py") == ["`Net.forward` is in a test"]
    (tmp_path / "pkg" / "test_net.py").unlink()
    compiled = "\ndef test_net():\n    torch.compile(Net())(torch.ones(3))\n"
    assert doubts(tmp_path, PLAIN + compiled, "tests/test_net.py") == [""]


def test_code_that_a_test_calls_through_a_module_of_its_own_is_doubted_only_if_no_other_does(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(
        "from torch import nn\nfrom model import clipped\n\n"
        "class Wrapped(nn.Module):\n    def forward(self, x):\n        return clipped(x)\n"
    )
    assert doubts(tmp_path, "") == ["`Wrapped.forward` is in a test"]
    assert doubts(tmp_path, PLAIN) == [""]


def test_a_root_that_is_named_is_not_doubted(tmp_path: Path) -> None:
    found = check(tmp_path, TRAINING + PLAIN.replace("clipped(x)", "x"), roots=["model:Explainer"])
    assert [one.doubt for one in found] == [""]


def test_machines_are_told(tmp_path: Path) -> None:
    (found,) = check(tmp_path, TRAINING)
    assert found.to_json()["likelihood"] == "unlikely"
    assert found.to_json()["doubt"] == "`Explainer.forward` steps an optimizer"
    (found,) = check(tmp_path, PLAIN)
    assert (found.to_json()["likelihood"], found.to_json()["doubt"]) == ("likely", "")
