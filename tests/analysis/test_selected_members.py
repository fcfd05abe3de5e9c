"""Members that code selects by a computed name or by iterating, and what subclasses put in their place."""

from __future__ import annotations

import pytest

import dynalint

LAYER = """
import functools
import torch
from torch import Tensor, nn

class Layer(nn.Module):
    def act(self, x: Tensor):
        return x * x.sum().item()
"""
FOUND = ["Layer.act"]


def functions(source: str) -> list[str]:
    """The functions with findings that some other function calls."""
    found = [one.function for one in dynalint.check_source("m.py", source) if len(one.region) > 1]
    return list(dict.fromkeys(found))


METHODS = """
from torch import Tensor, nn

class Model(nn.Module):
    def __init__(self, mode: str = "mean"):
        super().__init__()
        assert mode in ("mean", "max")
        self.mode = mode
        {store}

    def {prefix}mean(self, x: Tensor):
        return x * x.mean().item()

    def {prefix}other(self, x: Tensor):
        return x * x.std().item()

    def forward(self, x: Tensor):
        return {call}
"""


@pytest.mark.parametrize(
    ("prefix", "store", "call"),
    [
        ("", "", "getattr(self, self.mode)(x)"),
        ("", "self.f = getattr(self, mode)", "self.f(x)"),
        ("", "self.f = getattr(self, mode, None)", "self.f(x)"),
        ("_", 'self.f = getattr(self, "_" + mode)', "self.f(x)"),
        ("_", 'self.f = getattr(self, f"_{mode}", None)', "self.f(x)"),
    ],
)
def test_a_computed_name_is_that_of_a_method_spelled_in_quotes(prefix: str, store: str, call: str) -> None:
    assert functions(METHODS.format(prefix=prefix, store=store, call=call)) == [f"Model.{prefix}mean"]


def test_a_long_pattern_selects_by_itself() -> None:
    source = METHODS.format(prefix="reduce_", store="", call='getattr(self, f"reduce_{self.mode}")(x)')
    assert functions(source) == ["Model.reduce_mean", "Model.reduce_other"]


def test_functions_of_a_module_are_selected_by_name(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("selected")
    (folder / "parts.py").write_text(
        "from torch import Tensor\n\ndef mean(x: Tensor):\n    return x * x.mean().item()\n\n"
        "def std(x: Tensor):\n    return x * x.std().item()\n"
    )
    (folder / "model.py").write_text(
        "import parts\nfrom torch import Tensor, nn\n\nclass Model(nn.Module):\n"
        '    def __init__(self, kind: str = "mean"):\n        super().__init__()\n'
        "        self.f = getattr(parts, kind)\n\n    def forward(self, x: Tensor):\n        return self.f(x)\n"
    )
    assert {one.function for one in dynalint.check([str(folder)], static=True)} == {"mean"}


@pytest.mark.parametrize(
    ("made", "run"),
    [
        ("setattr(self, name, Layer())", "getattr(self, self.name).act(x)"),
        ("self.add_module(name, Layer())", "[one.act(x) for one in self.children()]"),
        ("self.one = Layer()", "[one.act(x) for _, one in self.named_children()]"),
        ("self.all = nn.Sequential(Layer(), Layer())", "[one.act(x) for one in self.all.children()]"),
        ("self.all = nn.ModuleDict({name: Layer()})", "[one.act(x) for one in self.all.children()]"),
    ],
)
def test_modules_are_found_without_their_name(made: str, run: str) -> None:
    model = f"""{LAYER}
class Model(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.name = name
        {made}

    def forward(self, x: Tensor):
        return {run}
"""
    assert functions(model) == FOUND


def test_names_from_a_loop_are_those_of_attributes() -> None:
    call = "[getattr(self, name)(x) for name in self.names]"
    assert functions(METHODS.format(prefix="", store="self.names = []", call=call)) == []


def test_an_unknown_name_gives_no_attribute_of_a_known_name() -> None:
    model = f"""{LAYER}
class Model(nn.Module):
    def __init__(self, name):
        super().__init__()
        setattr(self, name, Layer())

    def forward(self, x: Tensor):
        return self.other.act(x)
"""
    assert functions(model) == []


BASES = {
    "class": "    layer = nn.Module\n    def __init__(self):\n        super().__init__()\n        self.one = self.layer()\n",
    "none": "    layer = None\n    def __init__(self):\n        super().__init__()\n        self.one = self.layer()\n",
}


@pytest.mark.parametrize("base", BASES)
def test_a_class_that_subclasses_name_is_built(base: str) -> None:
    model = f"""{LAYER}
class Base(nn.Module):
{BASES[base]}
    def forward(self, x: Tensor):
        return self.one.act(x)

class Model(Base):
    layer = Layer
"""
    assert functions(model) == FOUND


def test_a_function_of_the_class_is_called() -> None:
    model = """
from torch import Tensor, nn

def read(x: Tensor):
    return x * x.sum().item()

class Base(nn.Module):
    f = None

    def forward(self, x: Tensor):
        return self.f(x)

class Model(Base):
    f = staticmethod(read)
"""
    assert functions(model) == ["read"]


def test_forward_may_come_from_a_class_that_is_no_module() -> None:
    model = f"""{LAYER}
class Mixin:
    def forward(self, x: Tensor):
        return self.step(x)

class Model(Mixin, nn.Module):
    def step(self, x: Tensor):
        return x * x.sum().item()
"""
    assert functions(model) == ["Model.step"]


@pytest.mark.parametrize("hook", ["register_forward_pre_hook", "register_forward_hook"])
def test_a_hook_of_the_module_itself_is_compiled(hook: str) -> None:
    model = f"""
from torch import Tensor, nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.{hook}(self.watch)

    def watch(self, module, args, out=None):
        print(args)

    def forward(self, x: Tensor):
        return x
"""
    assert [one.function for one in dynalint.check_source("m.py", model)] == ["Model.watch"]


@pytest.mark.parametrize("hook", ["register_forward_pre_hook", "register_forward_hook"])
@pytest.mark.parametrize("watched", ["self.watch", "functools.partial(self.watch, 1)", "watch", "HOOKS[layer]"])
def test_a_hook_on_a_module_that_is_handed_in_is_compiled(hook: str, watched: str) -> None:
    code = f"""
import functools
from torch import nn

def watch(module, args, out=None):
    print(args)

HOOKS = {{nn.Linear: watch, nn.Conv2d: watch}}

class Recorder:
    def __init__(self, model):
        for layer in model.modules():
            layer.{hook}({watched})

    def watch(self, module, args, out=None):
        print(args)
"""
    found = [(one.function, one.doubt) for one in dynalint.check_source("m.py", code)]
    name = "Recorder.watch" if "self" in watched else "watch"
    assert found == [(name, f"`{name}` is a hook that is registered on another module")]


@pytest.mark.parametrize("put", ["layer.forward = {}", "layer.register_forward_hook({})"])
@pytest.mark.parametrize(
    ("new", "name"),
    [
        ("watch", "watch"),
        ("MethodType(watch, layer)", "watch"),
        ("functools.update_wrapper(functools.partial(watch, layer), layer.forward)", "watch"),
        ("self.made(layer)", "Recorder.made.<locals>.inner"),
        ("made", "make.<locals>.inner"),
        ("again", "make.<locals>.inner"),
    ],
)
def test_function_that_is_put_on_a_module_that_is_handed_in(put: str, new: str, name: str) -> None:
    code = f"""
import functools
from types import MethodType

def watch(*args):
    print(args)

def make():
    def inner(*args):
        print(args)
    return inner

class Recorder:
    def __init__(self, model):
        made = make()
        again = functools.partial(made, 1)
        again = functools.partial(again, 2)
        for layer in model.modules():
            before = layer.forward
            {put.format(new)}
            layer.forward = before

    def made(self, layer):
        def inner(*args):
            print(args)
        return inner
"""
    said = "replaces the `forward` of" if "=" in put else "is a hook that is registered on"
    found = [(one.function, one.doubt) for one in dynalint.check_source("m.py", code)]
    assert found == [(name, f"`{name}` {said} another module")]


def test_method_that_takes_the_place_of_forward() -> None:
    code = """
from torch import nn, Tensor

class Conv(nn.Module):
    def forward(self, x: Tensor):
        return x

    def forward_fused(self, x: Tensor):
        print(x)

class Other:
    def forward_fused(self, x: Tensor):
        print(x)

class Model(nn.Module):
    def fuse(self):
        for layer in self.modules():
            if isinstance(layer, Conv):
                layer.forward = layer.forward_fused
"""
    assert [one.function for one in dynalint.check_source("m.py", code)] == ["Conv.forward_fused"]


def test_hooks_that_are_called_in_place_of_forward() -> None:
    code = """
import functools
from torch import nn

class Chain:
    def __init__(self):
        self.before = None

class Hook:
    def before(self, *args):
        return args

class Printing(Hook):
    def before(self, *args):
        print(args)

def add_hook(module, hook: Hook):
    def make(chain: Chain):
        def forward(module, *args):
            return chain.before(*args)
        return forward

    chain = Chain()
    chain.before = hook.before
    new = make(chain)
    module.forward = functools.partial(new, module)

add_hook(nn.Identity(), Printing())
"""
    assert [one.function for one in dynalint.check_source("m.py", code)] == ["Printing.before"]


def test_a_hook_may_be_nested_and_overridden() -> None:
    code = """
class Recorder:
    def add(self, model):
        def inner(module, args, out):
            print(args)

        def add(layer):
            layer.register_forward_hook(self.watch)
            layer.register_forward_hook(inner)

        model.apply(add)

    def watch(self, module, args, out):
        raise NotImplementedError

class Printing(Recorder):
    def watch(self, module, args, out):
        print(args)
"""
    found = sorted(one.function for one in dynalint.check_source("m.py", code))
    assert found == ["Printing.watch", "Recorder.add.<locals>.inner"]


def test_a_hook_that_a_module_also_registers_on_itself_is_not_in_doubt() -> None:
    code = """
from torch import nn

class Model(nn.Module):
    def __init__(self, other):
        super().__init__()
        other.register_forward_hook(watch)
        self.register_forward_hook(watch)

def watch(module, args, out):
    print(args)
"""
    assert [(one.function, one.doubt) for one in dynalint.check_source("m.py", code)] == [("watch", "")]


def test_a_field_of_a_record_has_its_default_function() -> None:
    model = """
import dataclasses
from typing import Callable
from torch import Tensor, nn

def read(x: Tensor):
    return x * x.sum().item()

@dataclasses.dataclass
class Config:
    f: Callable = read

class Model(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.config = config

    def forward(self, x: Tensor):
        return self.config.f(x)
"""
    assert functions(model) == ["read"]


def test_a_tensor_may_be_of_a_subclass() -> None:
    model = """
import torch
from torch import nn

class Lazy(nn.Parameter):
    pass

class Model(nn.Linear):
    def forward(self, x: torch.Tensor):
        if isinstance(self.weight, Lazy):
            self.weight = nn.Parameter(x.new_empty(3, 3))
        return x
"""
    assert "Model.forward" in [one.function for one in dynalint.check_source("m.py", model)]
