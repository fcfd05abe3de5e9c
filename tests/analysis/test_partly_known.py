"""What is called where some of what it may be is known, and the rest is whatever callers pass."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

import dynalint
from dynalint.analysis import AnalysisOptions, analyze

MODEL = """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

def leaf(x):
    return x if x.sum() > 0 else -x

class Leaf(nn.Module):
    def forward(self, x):
        return leaf(x)

def make(scale=2.0):
    def inner(x):
        return scale * leaf(x)

    return inner

class Model(nn.Module):
    def __init__(self, act=None, act_class=None):
        super().__init__()
{build}

    def forward(self, x: torch.Tensor):
        return {use}
"""
BUILDS = (
    "self.act = act or leaf",
    "self.act = Leaf() if act is None else act",
    "self.act = act if act is not None else make()",
    "act = leaf if act is None else act\nself.act = act",
    "if act == None:\n    self.act = make()\nelse:\n    self.act = act",
    "if act is None:\n    act = Leaf()\nself.act = act",
    "self.act = (act_class or Leaf)()",
    "self.act = {'own': act, 'leaf': leaf}[str(act_class)]",
    "self.act = nn.Sequential(act, Leaf())",
)


def reaches_leaf(folder: Path, build: str, use: str) -> bool:
    text = MODEL.replace("{build}", textwrap.indent(build, " " * 8)).replace("{use}", use)
    (folder / "m.py").write_text(text)
    analysis = analyze([folder / "m.py"], AnalysisOptions(roots=["m:Model"]))
    return "leaf" in {function.name for function in analysis.functions}


@pytest.mark.parametrize("build", BUILDS)
def test_what_stands_in_for_an_argument_is_called(tmp_path: Path, build: str) -> None:
    assert reaches_leaf(tmp_path, build, "self.act(x)")


@pytest.mark.parametrize("use", ["checkpoint(self.act, x)", "self.act.forward(x)", "list(map(self.act, [x]))"])
def test_it_is_called_by_others_and_by_its_methods(tmp_path: Path, use: str) -> None:
    assert reaches_leaf(tmp_path, "self.act = act if act is not None else Leaf()", use)


def test_layers_of_which_some_are_given_are_all_called(tmp_path: Path) -> None:
    build = "self.layers = nn.ModuleList([Leaf() if act is None else act for _ in range(3)])"
    assert reaches_leaf(tmp_path, build, "sum(layer(x) for layer in self.layers)")


def test_what_it_gives_is_a_tensor_as_what_the_known_one_gives() -> None:
    text = """
    import torch
    from torch import nn

    def double(x):
        return 2 * x

    class Model(nn.Module):
        def __init__(self, act=None):
            super().__init__()
            self.act = act or double

        def forward(self, x: torch.Tensor):
            y = self.act(x)
            return y if y.max() > 0 else -y
    """
    assert [one.code for one in dynalint.check_source("m.py", textwrap.dedent(text))] == ["DYN101"]


def test_what_is_called_is_not_known_to_be_called() -> None:
    """An LSTM that callers may replace breaks the graph for those who do not."""
    (finding,) = dynalint.check_source(
        "m.py",
        textwrap.dedent(
            """
            import torch
            from torch import nn

            class Model(nn.Module):
                def __init__(self, rnn=None):
                    super().__init__()
                    self.rnn = nn.LSTM(2, 2) if rnn is None else rnn

                def forward(self, x: torch.Tensor):
                    return self.rnn(x)
            """
        ),
    )
    assert (finding.code, finding.category) == ("DYN601", "advice")


def test_a_str_is_not_for_a_function_that_takes_tensors() -> None:
    text = """
    import torch
    from torch import nn

    def names(x: str):
        return x

    def sums(x: torch.Tensor):
        return x[x > 0]

    class Model(nn.Module):
        def forward(self, x: torch.Tensor):
            for use in (names, sums):
                use("a")
            return sums(x)
    """
    assert [one.code for one in dynalint.check_source("m.py", textwrap.dedent(text))] == ["DYN301"]
