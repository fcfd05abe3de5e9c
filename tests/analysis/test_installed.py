"""Calls of installed packages, whose code is read in the environment of the project."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

import dynalint
from dynalint.findings import Finding

LIBRARY = {
    "helpers/__init__.py": "from ._masks import *\nfrom ._masks import count as counted\nfrom .layers import Norm\n",
    "helpers/_masks.py": """
        import functools
        import torch
        from torch import Tensor
        from einops import rearrange
        from .options import wrapped, unclear

        __all__ = ["count", "keep", "largest", "optional", "either", "checked", "quiet", "wrapping", "odd", "disabled"]

        def count(x):
            return x.sum().item()

        def keep(x: Tensor):
            return largest(x) * 2

        def largest(x: Tensor):
            n = x.shape[0]
            return int(x.max()) + n if x.numel() > 0 else 0

        def optional(x, validate=True, mask=None):
            if x.dim() == 3:
                x = x[0]
            if mask is not None:
                x = x * mask
            if validate:
                _validate(x)
            return x

        def _validate(x):
            if x.layout != torch.strided or x.is_sparse:
                return
            if x.isnan().any():
                raise ValueError("not a number")

        def either(x, flag):
            if x.shape[0] > 3:
                return x
            return x.tolist()

        def checked(x):
            if torch.compiler.is_compiling():
                return x
            return x.tolist()

        def quiet(xs):
            if len(xs) == 0:
                return None
            return [x + 1 for x in xs]

        @wrapped
        def wrapping(x):
            return x.tolist()

        def repeated(x, times=0):
            for _ in range(times):
                x = x * x.sum().item()
            return x

        def summed(x, times=0):
            return x + sum(x.sum().item() for _ in range(times))

        def numbered(x, hooks=()):
            for number, hook in enumerate(hooks):
                print(number, hook)
            return x

        def by_row(x):
            return [x[i].tolist() for i in range(x.shape[0])]

        def padded(x, lengths):
            if lengths is None:
                return x, x.new_ones(x.shape, dtype=torch.bool)
            keep = torch.arange(x.shape[1]) < lengths
            return x * 2, keep

        @unclear
        def odd(x):
            return x.tolist()

        @torch.compiler.disable
        def disabled(x):
            return x
    """,
    "helpers/options.py": """
        import functools
        from unknown import unclear

        def wrapped(function):
            @functools.wraps(function)
            def inner(x):
                return function(x)
            return inner
    """,
    "helpers/layers.py": """
        from torch import nn

        class Norm(nn.Module):
            def __init__(self, size, strict=True):
                super().__init__()
                self.size = size
                self.strict = strict

            def forward(self, x):
                if self.strict and x.isnan().any():
                    raise ValueError("not a number")
                return x

            def scale(self, x):
                return x / x.max().item()

            def large(self, x):
                return x > self.size

        class Base(nn.Module):
            def forward(self, x):
                return self.step(x)

            def step(self, x):
                return x.tolist()

            def record(self, x):
                self.step(x)
                return x.max().item()

            def either(self, x):
                return self.step(x)
    """,
    "native/__init__.py": "from native._core import run\nfrom .steps import call\n",
    "native/_core.cpython-311-x86_64-linux-gnu.so": "",
    "native/steps.py": "from . import _core\n\ndef call(x):\n    return _core.step(x)\n",
}
MODEL = """
import torch
import helpers
import native
from helpers import count, Norm
from torch import nn, Tensor

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = Norm(4)
        self.free = Norm(4, strict=False)

    def forward(self, x: Tensor, flag: bool, xs: list[Tensor]):
        return {call}
"""

Check = Callable[..., list[Finding]]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Check:
    """Check a model that makes one call; return the findings of it."""
    packages = tmp_path / "environment/lib/python3.11/site-packages"
    for name, text in LIBRARY.items():
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).write_text(textwrap.dedent(text).lstrip())
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)

    def call(text: str, python: str = "environment/bin/python") -> list[Finding]:
        (project / "model.py").write_text(MODEL.replace("{call}", text))
        settings = {"python": str(tmp_path / python), "torch": "2.13"}
        return dynalint.check(["model.py"], static=True, settings=settings, isolated=True)

    return call


@pytest.mark.parametrize(
    ("call", "place"),
    [
        ("count(x)", "helpers/_masks.py:10: `.item()`"),
        ("helpers.counted(x)", "helpers/_masks.py:10"),
        ("helpers.keep(x)", "helpers/_masks.py:17: `int()`"),
        ("helpers.optional(x)", "helpers/_masks.py:31"),
        ("helpers.optional(x, mask=x)", "helpers/_masks.py:31"),
        ("helpers.wrapping(x)", "helpers/_masks.py:51"),
        ("helpers.by_row(x)", "helpers/_masks.py:"),
        ("helpers.disabled(x)", "breaks the graph: "),
        ("self.norm(x)", "helpers/layers.py:10"),
        ("self.free.scale(x)", "helpers/layers.py:15"),
        ("Norm(3)(x)", "helpers/layers.py:10"),
        ("native.run(x)", "native/_core.cpython-311-x86_64-linux-gnu.so"),
        ("native.call(x)", "native/_core.cpython-311-x86_64-linux-gnu.so"),
    ],
)
def test_a_break_in_a_package_belongs_to_the_call(check: Check, call: str, place: str) -> None:
    (finding,) = check(call)
    assert (finding.code, finding.line, finding.category) == ("DYN712", 15, "graph-break")
    assert place in finding.message


@pytest.mark.parametrize(
    "call",
    [
        "helpers.optional(x, validate=False)",
        "helpers.optional(x, flag)",
        "helpers.either(x, flag)",
        "helpers.checked(x)",
        "helpers.quiet(xs)",
        "helpers.odd(x)",
        "helpers.repeated(x)",
        "helpers.summed(x)",
        "helpers.numbered(x)",
        "helpers.missing(x)",
        "self.free(x)",
        "unknown.count(x)",
    ],
)
def test_what_is_not_certain_is_not_reported(check: Check, call: str) -> None:
    assert check(call) == []


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("(lambda pair: pair[0][pair[1]])(helpers.padded(x, xs[0]))", "DYN301"),
        ("x[self.norm.large(x)]", "DYN301"),
        ("x if helpers.padded(x, None)[0] > 0 else flag", "DYN101"),
        ("x if helpers.padded(flag, None)[0] > 0 else flag", None),
        ("x if helpers.either(x, flag) else flag", None),
    ],
)
def test_what_a_package_returns(check: Check, call: str, code: str | None) -> None:
    assert [finding.code for finding in check(call)] == ([] if code is None else [code])


def test_an_environment_without_the_package(check: Check) -> None:
    assert check("count(x)", python="elsewhere/bin/python") == []


def test_a_call_in_another_place_tells_nothing(check: Check) -> None:
    """Each call is analysed by itself, with its own arguments."""
    found = check("helpers.optional(x, validate=False) + helpers.optional(x)")
    assert [finding.column for finding in found] == [54]


def test_settings_under_which_the_code_is_traced(check: Check) -> None:
    text = "count(x)\n\ntorch._dynamo.config.capture_scalar_outputs = True\n"
    assert check(text) == []


def test_code_that_is_too_large(check: Check, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The limit is not silent."""
    from dynalint.cli import run

    check("helpers.long(x)")
    path = tmp_path / "environment/lib/python3.11/site-packages/helpers/__init__.py"
    path.write_text("def long(x):\n" + "    x = x + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1\n" * 15_000)
    python = str(tmp_path / "environment/bin/python")
    run(["check", "--static", "--isolated", "--no-cache", "--python", python, "model.py"])
    assert "helpers.long could not be analysed" in capsys.readouterr().err


INHERITING = """
from torch import Tensor
from helpers.layers import Base

class Model(Base):
    def step(self, x):
        return x

    def forward(self, x: Tensor):
        return {call}
"""


@pytest.mark.parametrize(
    ("call", "places"),
    [
        ("self.record(x)", ["helpers/layers.py:29"]),
        ("super().record(x)", ["helpers/layers.py:29"]),
        ("self.either(x)", []),
        ("self.missing(x)", []),
        ("super().forward(x)", []),
    ],
)
def test_methods_of_an_installed_base_class(check: Check, call: str, places: list[str], tmp_path: Path) -> None:
    """Nothing is known of `self`, whose class may override what the method calls."""
    check("x")
    (tmp_path / "project/model.py").write_text(INHERITING.format(call=call))
    settings = {"python": str(tmp_path / "environment/bin/python"), "torch": "2.13"}
    found = dynalint.check(["model.py"], static=True, settings=settings, isolated=True)
    assert [finding.message.split(" ")[3].rstrip(":") for finding in found] == places
