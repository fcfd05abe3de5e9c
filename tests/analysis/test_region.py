"""Which code a compiled root reaches, over files, packages, classes and calls."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import dynalint
from dynalint.analysis import Analysis, AnalysisOptions, analyze
from dynalint.analysis.events import Branch, CompilerUse, Event, StateChange

TENSOR_TEST = "if x.sum() > 0:\n        x = -x\n    return x\n"


def in_region(analysis: Analysis) -> list[Event]:
    """Return the events of compiled code, less those that say where the compiler itself is named."""
    return [event for event in analysis.events if not isinstance(event, CompilerUse)]


def project(tmp_path: Path, files: dict[str, str], **options: object) -> Analysis:
    paths = []
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        paths.append(path)
    return analyze(paths, AnalysisOptions(**options))  # type: ignore[arg-type]


def reached(analysis: Analysis) -> set[str]:
    return {function.qualname for function in analysis.functions}


def test_a_training_loop_is_outside(tmp_path: Path) -> None:
    analysis = project(
        tmp_path,
        {
            "train.py": """
            import torch
            from torch import nn

            class Net(nn.Module):
                def forward(self, x: torch.Tensor):
                    return x * 2

            def train(model, data):
                for x in data:
                    loss = model(x).sum()
                    if loss > 3:
                        print(loss.item())

            model = torch.compile(Net())
            train(model, [])
            """
        },
    )
    assert reached(analysis) == {"Net.forward"}
    assert in_region(analysis) == []


@pytest.mark.parametrize(
    ("imports", "call"),
    [
        ("from pkg.helpers import clip", "clip(x)"),
        ("from .helpers import clip as cut", "cut(x)"),
        ("from . import helpers", "helpers.clip(x)"),
        ("import pkg.helpers", "pkg.helpers.clip(x)"),
        ("from pkg import clip", "clip(x)"),
        ("from pkg.api import *", "clip(x)"),
        ("from functools import partial\nfrom pkg.helpers import clip\ncut = partial(clip)", "cut(x)"),
    ],
)
def test_imports_are_followed(tmp_path: Path, imports: str, call: str) -> None:
    analysis = project(
        tmp_path,
        {
            "src/pkg/__init__.py": "from .helpers import clip\n",
            "src/pkg/api.py": "from .helpers import clip\n",
            "src/pkg/helpers.py": f"def clip(x):\n    {TENSOR_TEST}",
            "src/pkg/model.py": f"import torch\n{imports}\n\n@torch.compile\ndef run(x: torch.Tensor):\n    return {call}\n",
        },
    )
    assert [event.function.chain for event in in_region(analysis)] == [("run", "clip")]


def test_a_package_that_imports_its_own_module_hands_it_on(tmp_path: Path) -> None:
    files = {
        "pkg/__init__.py": "",
        "pkg/utils/__init__.py": "from . import helpers\n",
        "pkg/utils/helpers.py": f"def clip(x):\n    {TENSOR_TEST}",
        "pkg/model.py": """
            import torch
            from .utils import helpers

            @torch.compile
            def step(x):
                return helpers.clip(x)
            """,
    }
    assert reached(project(tmp_path, files)) == {"step", "clip"}


def test_namespace_packages_are_followed(tmp_path: Path) -> None:
    analysis = project(
        tmp_path,
        {
            "ns/core/helpers.py": f"def clip(x):\n    {TENSOR_TEST}",
            "ns/model.py": """
            import torch
            from ns.core.helpers import clip

            @torch.compile
            def run(x: torch.Tensor):
                return clip(x)
            """,
        },
        search=[tmp_path],
    )
    assert [event.function.chain for event in in_region(analysis)] == [("run", "clip")]


def test_findings_of_files_that_were_not_asked_for_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "helpers.py").write_text(f"def clip(x):\n    {TENSOR_TEST}")
    code = "import torch\nfrom helpers import clip\n\n@torch.compile\ndef run(x: torch.Tensor):\n    return clip(x)\n"
    analysis = project(tmp_path, {"model.py": code})
    assert reached(analysis) == {"run", "clip"}
    assert in_region(analysis) == []


CLASSES = """
import torch
from torch import nn


class Base(nn.Module):
    def forward(self, x: torch.Tensor):
        return self.step(x)

    def step(self, x):
        raise NotImplementedError


class Attention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.proj = nn.Linear(dim, dim)

    @property
    def gain(self):
        return 2

    def forward(self, x):
        return self.scale(self.proj(x)) * self.gain

    @staticmethod
    def cut(x):
        return x

    def scale(self, x):
        return self.cut(x)


class Block(Base):
    def __init__(self, layer=Attention):
        super().__init__()
        self.attn = layer(8)
        self.table = nn.ModuleDict({"a": Attention(8)})

    def step(self, x):
        return self.attn(x) + self.table["a"](x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Block(), Block())

    def forward(self, x: torch.Tensor):
        return self.blocks(x)

    def helper(self, x):
        return x
"""


def test_classes(tmp_path: Path) -> None:
    analysis = project(tmp_path, {"model.py": CLASSES}, roots=["model:Model"])
    names = {"Model.forward", "Base.forward", "Attention.forward", "Attention.scale", "Attention.cut", "Attention.gain"}
    assert names <= reached(analysis)
    assert "Model.helper" not in reached(analysis)
    chains = {function.qualname: function.chain for function in analysis.functions}
    assert chains["Attention.cut"][0] == "Model.forward"


def test_all_that_leads_to_a_function(tmp_path: Path) -> None:
    code = """
    import torch

    def clip(x):
        return x.clamp(0)

    def scale(x):
        return clip(x) * 2

    @torch.compile
    def first(x):
        return scale(x)

    @torch.compile
    def second(x):
        return clip(x)
    """
    analysis = project(tmp_path, {"model.py": code})
    functions = {function.qualname: function for function in analysis.functions}
    found = [function.qualname for function in functions["clip"].leading_here]
    assert found[0] == "clip"
    assert set(found[1:3]) == {"scale", "second"}
    assert found[3:] == ["first"]


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("@torch.compile\ndef f(x):\n    return x\n", {"f"}),
        ("@torch.compile(fullgraph=True)\ndef f(x):\n    return x\n", {"f"}),
        ("@partial(torch.compile, dynamic=True)\ndef f(x):\n    return x\n", {"f"}),
        ("def f(x):\n    return x\ng = torch.compile(f)\n", {"f"}),
        ("def f(x):\n    return x\ndef main():\n    return torch.compile(f)\n", {"f"}),
        ("class M(nn.Module):\n    def forward(self, x):\n        return x\nm = M()\nm.compile()\n", {"M.forward"}),
        ("class M(nn.Module):\n    def forward(self, x):\n        return x\nm = torch.compile(M())\n", {"M.forward"}),
        ("class M(nn.Module):\n    def forward(self, x):\n        return x\n", set()),
        ("def f(x):\n    return x\n", set()),
        ("import re\np = re.compile('x')\ndef f(x):\n    return x\n", set()),
    ],
)
def test_explicit_roots(tmp_path: Path, code: str, wanted: set[str]) -> None:
    prelude = "import torch\nfrom functools import partial\nfrom torch import nn\n"
    assert reached(project(tmp_path, {"code.py": prelude + code}, roots="explicit")) == wanted


def test_what_keeps_dynamo_out(tmp_path: Path) -> None:
    analysis = project(
        tmp_path,
        {
            "model.py": """
            import torch
            from torch import nn
            from torch.compiler import disable

            @torch.compiler.disable
            def slow(x):
                return bool(x.sum() > 0)

            @disable
            def slower(x):
                return bool(x.sum() > 0)

            class Kept(nn.Module):
                @torch.compiler.disable(recursive=True)
                def forward(self, x):
                    return x

            @torch.compile
            def run(x: torch.Tensor):
                return slow(x), slower(x)
            """
        },
    )
    assert reached(analysis) == {"run"}


def test_custom_autograd_functions_and_checkpoints_are_reached(tmp_path: Path) -> None:
    analysis = project(
        tmp_path,
        {
            "model.py": """
            import torch
            from torch.utils.checkpoint import checkpoint

            class Clip(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    return x

            class Scale(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    return x

                @staticmethod
                def backward(ctx, grad):
                    return grad

            scale = Scale.apply

            def block(x):
                return Clip.apply(scale(x))

            @torch.compile
            def run(x: torch.Tensor):
                return checkpoint(block, x, use_reentrant=False)
            """
        },
    )
    assert reached(analysis) == {"run", "block", "Clip.forward", "Scale.forward", "Scale.backward"}


def test_an_unknown_base_with_a_forward_is_taken_for_a_module(tmp_path: Path) -> None:
    code = """
    from lightning import LightningModule
    from dataclasses import dataclass

    class Lit(LightningModule):
        def __init__(self):
            super().__init__()

        def forward(self, x):
            return x

    class Queue:
        def __init__(self):
            self.items = []

        def forward(self, x):
            return x
    """
    assert reached(project(tmp_path, {"lit.py": code})) == {"Lit.forward"}


def test_classes_that_inherit_from_each_other_in_a_circle(tmp_path: Path) -> None:
    code = "from torch import nn\nclass A(B):\n    pass\nclass B(A):\n    def forward(self, x):\n        return x\n"
    assert reached(project(tmp_path, {"circle.py": code})) == set()


def test_the_order_of_the_paths_does_not_matter(tmp_path: Path) -> None:
    files = {
        f"m{index}.py": CLASSES.replace("return self.cut(x)", "return x if x.sum() > 0 else -x") for index in range(3)
    }
    forward = project(tmp_path, files)
    backward = analyze([tmp_path / name for name in reversed(files)])
    key = lambda event: (str(event.function.file.path), event.node.lineno, event.function.chain)  # noqa: E731
    assert sorted(map(key, forward.events)) == sorted(map(key, backward.events))
    assert forward.events


def test_the_static_side_never_imports_torch(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(CLASSES)
    code = (
        "import sys; from pathlib import Path; from dynalint.analysis import analyze; "
        f"analyze([Path({str(tmp_path / 'model.py')!r})]); sys.exit('torch' in sys.modules or 'libcst' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_what_keeps_dynamo_out_may_be_bound_to_a_name(tmp_path: Path) -> None:
    analysis = project(
        tmp_path,
        {
            "model.py": """
            import torch
            from torch import nn

            no_compile = torch.compiler.disable(recursive=False)

            @no_compile
            def shown(x: torch.Tensor):
                print(x)

            def _drawn(x: torch.Tensor):
                print(x)

            drawn = torch.compiler.disable(_drawn)

            class Net(nn.Module):
                def forward(self, x: torch.Tensor):
                    shown(x)
                    drawn(x)
                    return x * 2
            """
        },
    )
    assert reached(analysis) == {"Net.forward"}


@pytest.mark.parametrize("decorator", ["timed", "timed_by(1)"])
@pytest.mark.parametrize("where", ["root", "called"])
def test_wrappers_of_decorators_run_with_the_function(tmp_path: Path, decorator: str, where: str) -> None:
    text = """
        import functools
        import torch
        from torch import nn

        def timed(function):
            @functools.wraps(function)
            def wrapper(*args, **kwargs):
                return function(*args, **kwargs)
            return wrapper

        def timed_by(digits):
            def decorate(function):
                def wrapper(*args, **kwargs):
                    return function(*args, **kwargs)
                return wrapper
            return decorate

        def registered(function):
            def listed(*args):
                return args
            return function

        class Net(nn.Module):
            ROOT
            @registered
            def forward(self, x: torch.Tensor):
                return self.step(x)

            CALLED
            def step(self, x):
                return x * 2
        """
    for name in ("root", "called"):
        text = text.replace(name.upper(), f"@{decorator}" if name == where else "")
    wrapper = "timed.<locals>.wrapper" if decorator == "timed" else "timed_by.<locals>.decorate.<locals>.wrapper"
    assert reached(project(tmp_path, {"model.py": text})) == {"Net.forward", "Net.step", wrapper}


def test_what_a_module_puts_in_the_place_of_its_forward_is_compiled(tmp_path: Path) -> None:
    text = """
        import functools
        import torch
        from torch import nn

        def patched(x):
            return x * 2

        def patch(model):
            model.forward = patched

        class Net(nn.Module):
            def __init__(self, way: int):
                super().__init__()
                if way == 1:
                    self.forward = self.forward_fast
                elif way == 2:
                    self.forward = functools.partial(self.forward_twice, times=2)
                else:
                    self.forward = self.forward_slow

            @torch.compiler.disable
            def forward_slow(self, x):
                return x

            def forward_fast(self, x):
                return x

            def forward_twice(self, x, times):
                return x * times

        class Record:
            def __init__(self):
                self.forward = patched

        class Layer(nn.Module):
            def __init_subclass__(cls):
                inner = cls.forward

                @functools.wraps(inner)
                def counted(self, *args):
                    return inner(self, *args)

                cls.forward = counted
        """
    names = {"Net.forward_fast", "Net.forward_twice", "Layer.__init_subclass__.<locals>.counted", "patched"}
    assert reached(project(tmp_path, {"m.py": text})) == names
    assert reached(project(tmp_path, {"m.py": text}, roots="explicit")) == set()


def test_what_the_forward_of_a_metric_calls(tmp_path: Path) -> None:
    code = """
import torch
from torchmetrics import Metric
from torchmetrics.utilities.data import dim_zero_cat

class Base(Metric):
    def compute(self):
        scores = dim_zero_cat(self.scores)
        return self.reduce(scores)

class Risk(Base):
    def update(self, scores: torch.Tensor):
        self.scores.append(scores)

    def reduce(self, scores):
        if scores.isnan().any():
            return scores

    def plot(self, scores: torch.Tensor):
        if scores.isnan().any():
            return scores

class Count(Metric):
    def update(self, scores: torch.Tensor):
        self.rounds = self.rounds + 1  # `forward` sets it back before
"""
    (tmp_path / "code.py").write_text(code)
    analysis = analyze([tmp_path / "code.py"])
    names = {function.qualname for function in analysis.functions}
    assert names == {"Base.compute", "Risk.update", "Risk.reduce", "Count.update"}
    assert not any(isinstance(event, StateChange) for event in analysis.events)
    assert [event.node.lineno for event in analysis.events if isinstance(event, Branch)] == [16]


def test_a_class_below_an_unknown_base_is_a_module_only_where_torch_is_about(tmp_path: Path) -> None:
    text = (
        "from somewhere import Base\n\n\nclass Link(Base):\n    def forward(self, message):\n        print(message)\n"
    )
    (tmp_path / "m.py").write_text(text)
    assert [one.code for one in dynalint.check([tmp_path], static=True, isolated=True)] == []
    (tmp_path / "m.py").write_text(f"import torch\n{text}")
    assert [one.code for one in dynalint.check([tmp_path], static=True, isolated=True)] == ["DYN401"]


def test_a_folder_in_a_package_without_an_init_belongs_to_it(tmp_path: Path) -> None:
    layers = tmp_path / "models" / "layers"
    layers.mkdir(parents=True)
    (tmp_path / "models" / "__init__.py").write_text("")
    (layers / "pooling.py").write_text("def pool(x):\n    return x[x > 0].sum()\n")
    (layers / "head.py").write_text(
        "import torch\nfrom torch import nn\nfrom models.layers.pooling import pool\n\n\n"
        "class Head(nn.Module):\n    def forward(self, x: torch.Tensor):\n        return pool(x)\n"
    )
    found = dynalint.check([layers / "pooling.py"], static=True, isolated=True)
    assert [one.code for one in found] == ["DYN301"]
