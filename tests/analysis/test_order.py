"""What is found does not hang on what is interpreted first."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import dynalint
from dynalint.analysis import run

BASE = """
import torch
from torch import nn

class Config:
    kind = None

class Base(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.width = config.width
        self.names = [config]
        self.scale = 1

    def scaled(self, x, label):
        if (x > 1).any():
            x = x - 1
        # Long enough
        # to be interpreted
        # once
        # for all
        # that its
        # callers
        # pass,
        # whatever
        # it is
        # that
        # they
        # do.
        return x, label
"""
MODEL = """
import torch
from base import Base, Config

class Config{number}(Config):
    width = {number}

class Model{number}(Base):
    def __init__(self, config: Config{number}):
        super().__init__(config)
        self.config = config

    def forward(self, x: torch.Tensor, mask: torch.Tensor):
        if self.config.kind is None:
            if x.shape[0] > 1:
                self.config.kind = "many"
            else:
                self.config.kind = "one"
        x, label = self.scaled(x, {label})
        return pick(x, mask > 0), label

def pick(x, index):
    return x[index]
"""


def model(number: int) -> str:
    label = ("None", "'name'", "self.config", "torch.float32")[number % 4]
    return MODEL.replace("{number}", str(number)).replace("{label}", label)


FILES = {"base.py": BASE} | {f"model{one}.py": model(one) for one in range(8)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def found(paths: list[Path]) -> list[tuple[str, int, str, str]]:
    return [
        (one.path.rpartition("/")[2], one.line, one.code, one.message) for one in dynalint.check(paths, static=True)
    ]


@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_the_roots_changes_nothing(folder: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = found([folder])
    find_roots = run.find_roots
    monkeypatch.setattr(run, "find_roots", lambda *given: shuffled(find_roots(*given), seed))
    assert found([folder]) == expected
    assert {code for _, _, code, _ in expected} == {"DYN101", "DYN301", "DYN508"}


@pytest.mark.parametrize("number", [0, 3, 7])
def test_a_file_is_judged_alone_as_along_with_others(folder: Path, number: int) -> None:
    name = f"model{number}.py"
    assert found([folder / name]) == [one for one in found([folder]) if one[0] == name]


def shuffled(roots: list[object], seed: int) -> list[object]:
    random.Random(seed).shuffle(roots)
    return roots
