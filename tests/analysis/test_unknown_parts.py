"""What is still known where a part of the code is not there to see: optional packages, wrappers, layers made elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynalint.analysis import analyze
from dynalint.analysis.events import Branch
from dynalint.analysis.kinds import only_tensor

HEAD = """\
from collections import OrderedDict
import torch
from torch import nn, Tensor
from elsewhere import build, wrap
"""


def branches(tmp_path: Path, code: str) -> list[str]:
    """The text of the tests that branch on a tensor."""
    text = HEAD + code
    (tmp_path / "code.py").write_text(text)
    analysis = analyze([tmp_path / "code.py"])
    assert analysis.failures == []
    lines = text.splitlines()
    tensors = [one for one in analysis.events if isinstance(one, Branch) and only_tensor(one.kind) is not None]
    return [lines[event.node.lineno - 1].strip() for event in tensors]


@pytest.mark.parametrize(
    "fallback",
    ["from torch.nn import LayerNorm", "class LayerNorm(nn.LayerNorm):\n        pass"],
)
@pytest.mark.parametrize("first", ["try:", "if build():"])
def test_optional_package_has_the_kind_of_what_replaces_it(tmp_path: Path, first: str, fallback: str) -> None:
    code = f"""
{first}
    from apex.normalization import FusedLayerNorm as LayerNorm
{"except ImportError:" if first == "try:" else "else:"}
    {fallback}

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = LayerNorm(3)

    def forward(self, x):
        y = self.norm(x)
        if y.max() > 0:
            return y
"""
    assert branches(tmp_path, code) == ["if y.max() > 0:"]


def test_known_package_keeps_its_kind(tmp_path: Path) -> None:
    code = """
try:
    from torch.nn.functional import relu
except ImportError:
    def relu(x):
        return 1

class Model(nn.Module):
    def forward(self, x: Tensor):
        if relu(x).max() > 0:
            return x
"""
    assert branches(tmp_path, code) == ["if relu(x).max() > 0:"]


LAYERS = """
class Layer(nn.Module):
    def forward(self, x):
        return x, None

class Model(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.layers = nn.ModuleList([])
        for _ in range(3):
            self.layers.append(self.layer(args))

    def layer(self, args):
        layer = Layer()
        if args.sharded:
            {statement}
        return layer

    def forward(self, x: Tensor):
        for layer in self.layers:
            x, _ = layer(x)
        if x.max() > 0:
            return x
"""


def test_unknown_wrapper_calls_the_module(tmp_path: Path) -> None:
    assert branches(tmp_path, LAYERS.format(statement="layer = wrap(layer)")) == ["if x.max() > 0:"]


def test_other_result_of_a_module_is_unknown(tmp_path: Path) -> None:
    assert branches(tmp_path, LAYERS.format(statement="layer = wrap(args)")) == []


@pytest.mark.parametrize("statement", ["y = self.norm(x)", "x = self.norm(x)", "x = wrap(x)", "x, y = self.norm(x)"])
def test_what_code_from_elsewhere_gives_is_unknown(tmp_path: Path, statement: str) -> None:
    code = f"""
class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm = build(config)

    def forward(self, x: Tensor):
        y = 1
        {statement}
        if {"y" if statement.startswith("y") else "x"}.max() > 0:
            return x
"""
    assert branches(tmp_path, code) == []


def test_optional_argument_may_be_none_beside_what_replaces_it(tmp_path: Path) -> None:
    code = """
class Model(nn.Module):
    def __init__(self, head=None):
        super().__init__()
        self.head = head
        if build():
            self.head = nn.Linear(3, 3)

    def forward(self, x: Tensor):
        if self.head is not None:
            if self.head(x).max() > 0:
                return x
        elif x.max() > 0:
            return x
"""
    assert branches(tmp_path, code) == ["if self.head(x).max() > 0:", "elif x.max() > 0:"]


def test_attribute_of_a_class_of_torch(tmp_path: Path) -> None:
    code = """
class Same(nn.Conv2d):
    def forward(self, x: Tensor):
        if self.weight.max() > 0:
            return x
        if self.training:
            return x + 1
"""
    assert branches(tmp_path, code) == ["if self.weight.max() > 0:"]


def test_layers_by_name(tmp_path: Path) -> None:
    code = """
class Model(nn.Module):
    def __init__(self, act=nn.GELU):
        super().__init__()
        self.mlp = nn.Sequential(OrderedDict([("fc", nn.Linear(3, 3)), ("act", act())]))

    def forward(self, x: Tensor):
        if self.mlp.fc.weight.max() > 0:
            return x
        if len(self.mlp) > 0:
            return x + 1
"""
    assert branches(tmp_path, code) == ["if self.mlp.fc.weight.max() > 0:"]


def test_alternative_that_lacks_an_attribute(tmp_path: Path) -> None:
    code = """
class Old(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))

class New(nn.Module):
    def __init__(self):
        super().__init__()
        self.other = 1

class Model(nn.Module):
    def __init__(self, old):
        super().__init__()
        tower = Old() if old else New()
        self.scale = tower.scale

    def forward(self, x: Tensor):
        if self.scale.max() > 0:
            return x
"""
    assert branches(tmp_path, code) == ["if self.scale.max() > 0:"]


@pytest.mark.parametrize(
    "first", ["package, found = build()", "(package, found) = build()", "package, *found = build()"]
)
def test_flag_that_a_call_gives_decides_nothing(tmp_path: Path, first: str) -> None:
    code = f"""
{first}

class Model(nn.Module):
    def forward(self, x: Tensor):
        if found:
            if x.max() > 0:
                return x
        elif x.min() > 0:
            return x
"""
    assert branches(tmp_path, code) == ["if x.max() > 0:", "elif x.min() > 0:"]


def test_flag_that_is_unpacked_from_what_is_written_there(tmp_path: Path) -> None:
    code = """
fast, slow = False, True

class Model(nn.Module):
    def forward(self, x: Tensor):
        if fast:
            if x.max() > 0:
                return x
        elif slow and x.min() > 0:
            return x
"""
    assert branches(tmp_path, code) == ["elif slow and x.min() > 0:"]


def test_inherited_loss_may_have_any_rank(tmp_path: Path) -> None:
    code = """
class Loss(nn.SmoothL1Loss):
    def __init__(self):
        super().__init__(reduction="none")

    def forward(self, x: Tensor, y: Tensor):
        loss = super().forward(x, y)
        return loss
"""
    (tmp_path / "code.py").write_text(HEAD + code)
    interpreter = analyze([tmp_path / "code.py"]).project.interpreter
    assert interpreter is not None
    (forward,) = (one for one in interpreter.contexts if one.name == "forward")
    (context,) = interpreter.contexts[forward]
    tensor = only_tensor(context.returns)
    assert tensor is not None
    assert tensor.rank is None


@pytest.mark.parametrize(
    "made",
    [
        "einops.layers.torch.Rearrange('a b -> b a')",
        "timm.layers.DropPath(0.1)",
        "torchvision.ops.StochasticDepth(0.1)",
    ],
)
@pytest.mark.parametrize("given", ["x", "3"])
def test_layer_of_another_library_gives_a_tensor_for_a_tensor(tmp_path: Path, made: str, given: str) -> None:
    code = f"""
import einops.layers.torch, timm.layers, torchvision

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = {made}

    def forward(self, x: Tensor):
        y = self.layer({given})
        if y.max() > 0:
            return x
"""
    assert branches(tmp_path, code) == (["if y.max() > 0:"] if given == "x" else [])


def test_packed_tensors(tmp_path: Path) -> None:
    code = """
import einops

class Model(nn.Module):
    def forward(self, x: Tensor):
        packed, shapes = einops.pack([x, x], "b *")
        if packed.max() > 0:
            return x
        if shapes[0][0] > 3:
            return x
        for one in einops.unpack(packed, shapes, "b *"):
            if one.max() > 0:
                return x
"""
    assert branches(tmp_path, code) == ["if packed.max() > 0:", "if one.max() > 0:"]


@pytest.mark.parametrize(("test", "breaks"), [("not self.first and", True), ("self.first and", False)])
def test_flag_that_guards_a_value_has_its_default(tmp_path: Path, test: str, breaks: bool) -> None:
    code = f"""
class Model(nn.Module):
    def __init__(self, first=False):
        super().__init__()
        self.first = first

    def forward(self, x: Tensor):
        full = {test} x.all()
        if not full:
            raise ValueError
        return x
"""
    assert branches(tmp_path, code) == (["if not full:"] if breaks else [])


def test_base_of_torch_under_its_long_name(tmp_path: Path) -> None:
    code = """
from torch.autograd.function import Function

class Step(Function):
    @staticmethod
    def forward(ctx, x):
        if x.max() > 0:
            return x
        return x + 1

class Model(nn.Module):
    def forward(self, x: Tensor):
        return Step.apply(x)
"""
    assert branches(tmp_path, code) == ["if x.max() > 0:"]


def test_layer_of_another_library_that_gives_a_tuple(tmp_path: Path) -> None:
    code = """
import timm.layers

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = timm.layers.PatchEmbedWithSize()

    def forward(self, x: Tensor):
        y = self.embed(x)
        if y:
            return x
"""
    assert branches(tmp_path, code) == []


@pytest.mark.parametrize(
    ("stored", "found"), [("other.norm", False), ("other.norm(p)", False), ("other.norm(2)", True)]
)
def test_the_layer_of_another_module_is_no_method_of_a_tensor(tmp_path: Path, stored: str, found: bool) -> None:
    code = f"""
class Model(nn.Module):
    def forward(self, x: Tensor, other, p):
        norm = {stored}
        if other > 0:
            return x
        return norm
"""
    assert ("if other > 0:" in branches(tmp_path, code)) is found


def test_an_argument_that_a_wrapper_keeps_is_not_passed_on(tmp_path: Path) -> None:
    code = """
import functools

def weighted(function):
    @functools.wraps(function)
    def wrapper(pred, target, weight=None, **kwargs):
        loss = function(pred, target, **kwargs)
        return loss if weight is None else loss * weight
    return wrapper

@weighted
def loss(pred, target, linear=False, scale=None):
    if linear:
        return pred - target
    if scale > 0:
        return pred
    return (pred - target) * scale

class Model(nn.Module):
    def forward(self, x: Tensor, y: Tensor, weight: Tensor):
        return loss(x, y, weight, scale=weight.mean())
"""
    assert branches(tmp_path, code) == ["if scale > 0:"]
