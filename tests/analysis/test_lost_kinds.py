"""Kinds that used to be lost on the way: through aliases of annotations, what a default is replaced by, declarations."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

import dynalint
from dynalint.analysis import analyze
from dynalint.analysis.events import Branch, Call, Subscript
from dynalint.analysis.kinds import Sequence, Tensor, only_tensor
from dynalint.analysis.subscripts import is_mask

TYPES = """\
import typing
from typing import NewType, Optional, TypeVar, Union
from torch import Tensor

OptTensor = Optional[Tensor]
Nested = OptTensor
Either = Union[Tensor, None]
Bound = TypeVar("Bound", bound=Tensor)
Made = NewType("Made", Tensor)
Named: typing.TypeAlias = "Optional[Tensor]"
Bar = Tensor | None
Loop = "Loop"
Sparse = Union[Tensor, "SparseTensor"]
"""
HEAD = """\
import torch
from torch import nn, Tensor
from typing import Annotated, Optional, Union
from jaxtyping import Float, Shaped, UInt8
import numpy as np
import types_of
from types_of import OptTensor, Nested, Either, Bound, Made, Named, Bar, Loop, Sparse
from elsewhere import something
"""


def branches(tmp_path: Path, code: str) -> list[Branch]:
    (tmp_path / "types_of.py").write_text(TYPES)
    (tmp_path / "code.py").write_text(HEAD + code)
    analysis = analyze([tmp_path / "code.py", tmp_path / "types_of.py"])
    assert analysis.failures == []
    return [event for event in analysis.events if isinstance(event, Branch) and only_tensor(event.kind) is not None]


TENSORS = (
    "OptTensor", "Nested", "Either", "Bound", "Made", "Named", "Bar", "types_of.OptTensor", "'types_of.Nested'",
    "Annotated[Tensor, 1]", "Float[Tensor, 'b n']", "'Optional[Shaped[Tensor, \"b\"]]'", "UInt8[Tensor, 'b']",
)  # fmt: skip


@pytest.mark.parametrize("annotation", TENSORS)
def test_alias_that_is_filled_in(tmp_path: Path, annotation: str) -> None:
    code = f"""
class Model(nn.Module):
    def forward(self, x, mask: {annotation} = None):
        if mask is None:
            mask = torch.ones(3)
        if mask[0] > 0:
            return x
"""
    assert len(branches(tmp_path, code)) == 1


@pytest.mark.parametrize("annotation", ["Loop", "Sparse", "something", "Float[something, 'b']"])
def test_alias_that_may_be_anything(tmp_path: Path, annotation: str) -> None:
    code = f"""
class Model(nn.Module):
    def forward(self, x, mask: {annotation}):
        if mask.flag > 0:
            return x
"""
    assert branches(tmp_path, code) == []


@pytest.mark.parametrize(
    ("filled", "number"), [("torch.ones(3)", 1), ("x.new_zeros(2, 2)", 1), ("x.max()", 0), ("3", 0), ("np.ones(2)", 0)]
)
def test_parameter_that_is_filled_in(tmp_path: Path, filled: str, number: int) -> None:
    code = f"""
class Model(nn.Module):
    def forward(self, x: Tensor, mask=None):
        if mask is None:
            mask = {filled}
        if mask > 0:
            return x
"""
    assert len(branches(tmp_path, code)) == number


def test_isinstance_of_an_attribute_and_of_a_union(tmp_path: Path) -> None:
    code = """
class Model(nn.Module):
    def __init__(self, scale: Union[float, Tensor]):
        super().__init__()
        self.scale = scale

    def forward(self, x: Union[int, Tensor]):
        if isinstance(self.scale, Tensor):
            if self.scale > 0:
                return x
        elif self.scale > 1:
            return x
        if isinstance(x, Tensor) and x > 0:
            return x
        if x > 1:
            return x
"""
    assert [event.node.lineno - HEAD.count("\n") for event in branches(tmp_path, code)] == [9, 13]


def test_what_a_declaration_says_of_several_results(tmp_path: Path) -> None:
    code = """
def distance(x: Tensor, flag: bool):
    if flag:
        return None, x
    return x


class Model(nn.Module):
    def forward(self, x: Tensor, flag: bool):
        found: Tensor = distance(x, flag)
        if found > 0:
            return x
"""
    assert len(branches(tmp_path, code)) == 1


def test_item_stored_by_a_mask(tmp_path: Path) -> None:
    code = """
class Model(nn.Module):
    def forward(self, x: Tensor, labels):
        x[labels == 3] = 0
        if labels.sum() > 0:
            return x
"""
    assert len(branches(tmp_path, code)) == 1


@pytest.mark.parametrize(
    ("given", "breaks"), [("", True), (", output_size=None", True), (", output_size=x.shape[0]", False), (", output_size=n", False)]
)  # fmt: skip
def test_output_size_that_may_be_none(tmp_path: Path, given: str, breaks: bool) -> None:
    code = f"""
class Model(nn.Module):
    def forward(self, x: Tensor, times: Tensor, n: Optional[int] = None):
        return torch.repeat_interleave(x, times{given})
"""
    (tmp_path / "code.py").write_text(HEAD + code)
    analysis = analyze([tmp_path / "code.py"], watched=lambda name: name if "interleave" in name else None)
    (call,) = [event for event in analysis.events if isinstance(event, Call)]
    assert ("dynamic_shape" in call.flags) is breaks


def test_two_random_sizes(tmp_path: Path) -> None:
    code = """
class Model(nn.Module):
    def forward(self, x: Tensor):
        top = torch.randint(0, 9, (1,)).item()
        left = torch.randint(0, 9, (1,)).item()
        height, width = int(torch.randint(0, 9, (1,))), int(torch.randint(0, 9, (1,)))
        return x[top : top + height, left : left + width]
"""
    (tmp_path / "code.py").write_text(HEAD + code)
    analysis = analyze(
        [tmp_path / "code.py"], watched=lambda name: name if name in ("Tensor.item", "builtins.int") else None
    )
    assert len([event for event in analysis.events if isinstance(event, Call)]) == 4


@pytest.mark.parametrize(
    ("value", "number"), [("s['n'][1:] - s['n'][:-1]", 1), ("s[1:] / 2", 1), ("s[1:] + s[:-1]", 0), ("s['n'] - 1", 0)]
)
def test_arithmetic_of_slices(tmp_path: Path, value: str, number: int) -> None:
    code = f"""
class Model(nn.Module):
    def forward(self, x: Tensor, s):
        if {value}:
            return x
"""
    assert len(branches(tmp_path, code)) == number


@pytest.mark.parametrize(
    ("sizes", "foreseen"), [("shape", False), ("tuple(shape)", False), ("[n, n]", False), ("n", True)]
)
def test_product_of_sizes(tmp_path: Path, sizes: str, foreseen: bool) -> None:
    code = f"""
class Model(nn.Module):
    def __init__(self, shape: Optional[tuple[int, ...]], n: int):
        super().__init__()
        self.sizes = {sizes}

    def forward(self, x: Tensor):
        return torch.reshape(x, (-1, np.prod(self.sizes)))
"""
    (tmp_path / "code.py").write_text(HEAD + code)
    analysis = analyze([tmp_path / "code.py"], watched=lambda name: name if name == "torch.reshape" else None)
    (call,) = [event for event in analysis.events if isinstance(event, Call)]
    assert isinstance(call.args[1], Sequence)
    product = (call.args[1].items or ())[1]
    assert isinstance(product, Tensor)
    assert product.foreseen is foreseen


@pytest.mark.parametrize("parameter", ["args: dict", "args: int", "args"])
def test_what_others_may_pass_does_not_hide_what_has_the_attribute(tmp_path: Path, parameter: str) -> None:
    code = f"""
class Settings:
    def __init__(self):
        self.scale = torch.ones(())

class Holder(nn.Module):
    def __init__(self, {parameter}):
        super().__init__()
        self.scale = args.scale

    def forward(self, x):
        if self.scale > 0:
            return x
        return -x

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.holder = Holder(Settings())

    def forward(self, x):
        return self.holder(x)
"""
    assert [event.node.lineno for event in branches(tmp_path, code)]


@pytest.mark.parametrize(("body", "count"), [("pass", 1), ("self.shape = None", 1), ("self.max = Unknown()", 0)])
def test_what_nothing_shows_to_have_an_attribute_is_not_meant(tmp_path: Path, body: str, count: int) -> None:
    code = f"""
class Other:
    def __init__(self):
        {body}

def first(x):
    if x.max():
        return x
    return None

class Model(nn.Module):
    def forward(self, x: Tensor, flag):
        return first(Other() if flag else x)
"""
    assert len(branches(tmp_path, code)) == count


@pytest.mark.parametrize(("default", "count"), [("None", 1), ("False", 0), ("1.0", 0)])
def test_a_default_that_is_no_tensor_is_believed(tmp_path: Path, default: str, count: int) -> None:
    code = f"""
class Model(nn.Module):
    def forward(self, x, flag: Optional[Tensor] = {default}):
        if flag is not None and flag:
            return x
        return -x
"""
    assert len(branches(tmp_path, code)) == count


def test_what_is_indexed_by_tensors_in_several_dimensions_is_one(tmp_path: Path) -> None:
    code = """
class Model(nn.Module):
    def __init__(self, distance):
        super().__init__()
        self.distance = distance

    def forward(self, x: Tensor, rows: Tensor, columns: Tensor):
        table = self.distance(x)
        if table[rows, columns] > 0:
            return x
        if table[1, 2] > 0 or table[rows] > 0:
            return x + 1
"""
    assert [event.node.lineno - HEAD.count("\n") for event in branches(tmp_path, code)] == [9]


def test_of_a_number_or_a_tensor_only_the_tensor_has_items(tmp_path: Path) -> None:
    code = """
class Model(nn.Module):
    def forward(self, x: Tensor, rates: Union[int, Tensor], flag: bool):
        limits = x if flag else 1
        if limits[0] > 0 or rates[0] > 0:
            return x
"""
    assert len(branches(tmp_path, code)) == 2


@pytest.mark.parametrize("index", ["mask", "x > 0", ":, 0", "rows, rows"])
def test_of_a_tuple_or_a_tensor_only_the_tensor_takes_a_mask(tmp_path: Path, index: str) -> None:
    code = f"""
class Model(nn.Module):
    def forward(self, x: Tensor, several: Union[tuple[Tensor, ...], Tensor, None], mask: BoolTensor, rows: Tensor):
        if several[{index}] > 0:
            return x
""".replace("BoolTensor", "torch.BoolTensor")
    assert len(branches(tmp_path, code)) == 1


def test_a_product_of_what_may_be_one_number_or_several(tmp_path: Path) -> None:
    code = """
class Model(nn.Module):
    def __init__(self, sizes: Union[int, tuple[int, ...]], number: int):
        super().__init__()
        self.sizes, self.number = sizes, number

    def forward(self, x: Tensor):
        if np.prod(self.sizes) > 1 or np.prod(self.number) > 1:
            return x
"""
    tensors = [only_tensor(event.kind) for event in branches(tmp_path, code)]
    assert [tensor is not None and tensor.foreseen for tensor in tensors] == [False, True]


@pytest.mark.parametrize(("stored", "reached"), [("fit", True), ("__init__", False)])
def test_a_flag_of_the_class_that_another_method_sets_may_not_be_set_yet(
    tmp_path: Path, stored: str, reached: bool
) -> None:
    code = f"""
class Model(nn.Module):
    ready = False

    def {stored}(self):
        super().__init__()
        self.ready = True

    def forward(self, x: Tensor):
        if not self.ready and x.sum() > 0:
            return x
        return x * 2
"""
    assert bool(branches(tmp_path, code)) is reached


@pytest.mark.parametrize(
    "filled_in",
    [
        "self.fn = fn if fn is not None else Default()",
        "self.fn = Default() if fn is None else fn",
        "self.fn = fn or Default()",
        "if fn is None:\n            fn = Default()\n        self.fn = fn",
    ],
)
def test_what_stands_in_for_an_object_that_is_left_out(tmp_path: Path, filled_in: str) -> None:
    code = f"""
class Default(nn.Module):
    def forward(self, x):
        return x

class Model(nn.Module):
    def __init__(self, fn=None):
        super().__init__()
        {filled_in}

    def forward(self, x: Tensor):
        if self.fn(x) > 0:
            return x
"""
    assert len(branches(tmp_path, code)) == 1


def test_what_stands_in_for_a_number_decides_nothing(tmp_path: Path) -> None:
    code = """
class Model(nn.Module):
    def __init__(self, limit=None):
        super().__init__()
        self.limit = limit or torch.tensor(1.0)

    def forward(self, x: Tensor):
        if self.limit > 0:
            return x
"""
    assert branches(tmp_path, code) == []


def test_an_object_is_no_tensor_where_one_is_declared(tmp_path: Path) -> None:
    code = """
class Boxes:
    def __init__(self, data):
        self.data = data

def moved(points: Tensor):
    if (points > 0).all():
        return points

class Model(nn.Module):
    def forward(self, x: Tensor, flag: bool):
        return moved(x if flag else Boxes(x))
"""
    assert [only_tensor(one.kind) is not None for one in branches(tmp_path, code)] == [True]


@pytest.mark.parametrize("base", ["Base[Tensor]", "Base[int]", "Middle[Tensor]"])
def test_class_below_a_generic_one_is_a_module(tmp_path: Path, base: str) -> None:
    code = f"""
from typing import Generic, TypeVar

T = TypeVar("T")

class Base(nn.Module, Generic[T]):
    pass

class Middle(Base[T]):
    pass

class Model({base}):
    def forward(self, x: Tensor):
        return x if x.sum() > 0 else -x
"""
    assert len(branches(tmp_path, code)) == 1


@pytest.mark.parametrize("used", ["step: Step[Tensor]", "step=Step[Tensor]()"])
def test_generic_class_with_its_parameters_filled_in(tmp_path: Path, used: str) -> None:
    code = f"""
from typing import Generic, TypeVar

T = TypeVar("T")

class Step(Generic[T]):
    def length(self, x):
        return x.sum() if x.sum() > 0 else 0

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.made = Step()

    def forward(self, x: Tensor, {used}):
        return step.length(x)
"""
    assert len(branches(tmp_path, code)) == 1


def test_member_of_an_enum_is_not_its_class(tmp_path: Path) -> None:
    code = """
import enum

class Kind(enum.Enum):
    ONE = 1

class Model(nn.Module):
    def forward(self, x: Tensor, name):
        return x if Kind[name](x) > 0 else -x
"""
    assert branches(tmp_path, code) == []


def test_class_of_tensors_that_adds_nothing(tmp_path: Path) -> None:
    code = """
class Matrix(Tensor):
    pass

class Model(nn.Module):
    def forward(self, x: Matrix):
        return x if (x @ x).sum() > 0 else -x
"""
    assert len(branches(tmp_path, code)) == 1


DRAWN = """
class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.drawn = {}
        self.frozen = False

    def freeze(self):
        self.frozen = True

    def forward(self, x: Tensor):
        if not self.frozen:
            self.drawn = {"mask": (x > 0).to(torch.bool)}
        self.draw(x)
        return self.READ

    def draw(self, x):
        pass


class Gain(Base):
    def draw(self, x):
        self.drawn["gain"] = 4
"""


@pytest.mark.parametrize(
    ("read", "found"),
    [
        ('x if self.drawn["mask"].all() else -x', True),
        ('x if self.drawn["gain"] > 2 else -x', False),
        ('x if self.drawn.get("gain", 0) else -x', False),
    ],
)
def test_what_is_under_a_key_is_told_from_what_other_ways_put_under_others(
    tmp_path: Path, read: str, found: bool
) -> None:
    assert bool(branches(tmp_path, DRAWN.replace("self.READ", read))) == found


@pytest.mark.parametrize("given", ["", 'd["y"] = 2', 'd.update({"y": 2})', "d.update(y=2) if flag else None"])
def test_a_key_that_one_way_leaves_out_may_be_missing(tmp_path: Path, given: str) -> None:
    code = f"""
class Model(nn.Module):
    def forward(self, x: Tensor, flag: bool):
        d = {{}}
        if flag:
            d["x"] = x
        {given or "pass"}
        return helper(**d), -x if d.get("x") is None else x

def helper(x=None, y=None):
    return 1 if x is None else 2
"""
    assert branches(tmp_path, code) == []


@pytest.mark.parametrize(
    "test",
    ["x.dtype.is_complex", "not x.dtype.is_floating_point", "x.dtype.itemsize", "x.device.index", "x.device.type"],
)
def test_what_a_dtype_or_device_tells_is_not_always_true(tmp_path: Path, test: str) -> None:
    code = f"""
class Model(nn.Module):
    def forward(self, x: Tensor):
        if {test}:
            return -x if x.sum() > 1 else x
        return -x if x.sum() > 0 else x
"""
    assert len(branches(tmp_path, code)) == 2


def test_two_objects_that_define_an_operator_are_no_tensors(tmp_path: Path) -> None:
    code = """
class First:
    def __matmul__(self, other):
        return self


class Second(First):
    def __matmul__(self, other):
        return other


class Model(nn.Module):
    def __init__(self, second: bool, other):
        super().__init__()
        self.inner = Second() if second else First()
        self.outer, self.other = First(), other

    def forward(self, x: Tensor):
        both = self.inner @ self.outer
        if both or self.other @ self.outer:
            return x
        return -x
"""
    assert branches(tmp_path, code) == []


@pytest.mark.parametrize("test", ["FAST", "options.fast", "LOG.disabled", "x.marked", "torch.version.cuda"])
def test_what_others_set_may_be_false(tmp_path: Path, test: str) -> None:
    code = f"""
import logging
from library import FAST, options

LOG = logging.getLogger()


class Model(nn.Module):
    def forward(self, x: Tensor):
        if {test}:
            return x + 1
        return -x if x.sum() > 0 else x
"""
    assert len(branches(tmp_path, code)) == 1


@pytest.mark.parametrize(
    ("tested", "entered"),
    [("slice", True), ("(list, tuple)", False), ("Sequence", False), ("(int, slice)", True), ("Tensor", False)],
)
def test_what_slice_returns_is_told_from_sequences(tmp_path: Path, tested: str, entered: bool) -> None:
    code = f"""
from collections.abc import Sequence

class Model(nn.Module):
    def forward(self, x: Tensor):
        part = slice(0, 2)
        if isinstance(part, {tested}):
            if x.sum() > 0:
                return x[part]
        return x
"""
    assert bool(branches(tmp_path, code)) is entered


@pytest.mark.parametrize("declared", ["Tensor", "Optional[Tensor]"])
@pytest.mark.parametrize("stored", ["self.register_all(z)", "self.z = something(z)"])
def test_an_attribute_of_which_only_the_declaration_is_known(tmp_path: Path, declared: str, stored: str) -> None:
    code = f"""
class Plane(nn.Module):
    z: {declared}

    def __init__(self, z):
        super().__init__()
        {stored}

    def register_all(self, *values):
        for name, value in zip(something.names, values):
            self.register_buffer(name, value)


class Model(nn.Module):
    def forward(self, x: Tensor, plane: Plane):
        if plane.z > 0:
            return x
        return -x
"""
    assert [branch.node.lineno - HEAD.count("\n") for branch in branches(tmp_path, code)] == [16]


def test_code_that_transformers_skips_while_compiling_is_skipped(tmp_path: Path) -> None:
    code = """
from transformers.utils import is_torchdynamo_compiling

class Model(nn.Module):
    def forward(self, x: Tensor):
        if not is_torchdynamo_compiling() and x.sum() > 0:
            print("positive")
        return x if x.max() > 1 else -x
"""
    assert [event.node.lineno for event in branches(tmp_path, code)] == [HEAD.count("\n") + 8]


def test_an_attribute_of_an_object_from_elsewhere_is_what_the_parameter_declares(tmp_path: Path) -> None:
    code = """
import elsewhere

class Graphs:
    def __init__(self, counts: torch.Tensor):
        self.counts = counts

def graphs(state: elsewhere.State) -> Graphs:
    return Graphs(counts=state.counts)

class Converted(nn.Module):
    def forward(self, state: elsewhere.State):
        return graphs(state)

class Model(nn.Module):
    def forward(self, batch: Graphs, x: Tensor):
        return x if batch.counts.sum() > 3 else -x
"""
    assert len(branches(tmp_path, code)) == 1


INSIDE = """
def make():
    import torch.nn.functional as functional
    limit = torch.zeros(1)

    class Inner(nn.Module):
        def forward(self, x: Tensor):
            if {test}:
                return x + 1
            return x

    return Inner()
"""


@pytest.mark.parametrize("test", ["limit > 0", "functional.relu(torch.ones(3)).sum() > 0"])
def test_a_method_of_a_class_in_a_function_reads_the_function_s_variables(tmp_path: Path, test: str) -> None:
    assert len(branches(tmp_path, INSIDE.format(test=test))) == 1


def test_an_import_in_a_function_that_nothing_calls(tmp_path: Path) -> None:
    code = """
class Holder:
    def __init__(self):
        import torch.nn as layers

        class Net(layers.Module):
            def __init__(self):
                super().__init__()
                self.scale = layers.Parameter(torch.ones(1))

            def forward(self, x):
                if self.scale > 0:
                    return x + 1
                return x

        self.net = Net()
"""
    assert len(branches(tmp_path, code)) == 1


DELEGATING = """
class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def encode(self, x: Tensor):
        return x if x.sum() > 0 else x + 1

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def __getattr__(self, name):
        {body}

    def forward(self, x):
        if self.{read}:
            return x
        return self.encode(x)
"""
HOLDERS = (
    "return getattr(self.inner, name)",
    'return getattr(self._modules["inner"], name)',
    'return getattr(super().__getattr__("inner"), name)',
    "return super().__getattr__(name) if name in self._modules else getattr(self.inner, name, None)",
)


@pytest.mark.parametrize("body", HOLDERS)
def test_an_attribute_that_getattr_reads_from_what_the_instance_holds(tmp_path: Path, body: str) -> None:
    assert len(branches(tmp_path, DELEGATING.format(body=body, read="scale > 0"))) == 2


@pytest.mark.parametrize(
    "body", ["return getattr(self.inner, 'other')", "return getattr(self.itself, name)", "return 1"]
)
def test_another_getattr(tmp_path: Path, body: str) -> None:
    assert branches(tmp_path, DELEGATING.format(body=body, read="scale > 0")) == []


def test_wrappers_of_each_other(tmp_path: Path) -> None:
    code = """
class Outer(nn.Module):
    def __init__(self, inner: "Outer"):
        super().__init__()
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def forward(self, x):
        return x if self.threshold > 0 else x + 1
"""
    assert branches(tmp_path, code) == []


@pytest.mark.parametrize(
    ("base", "method", "read", "found"),
    [
        ("nn.Module", "forward", "b, t = x.shape", True),
        ("nn.Module", "forward", "x.shape[0]", True),
        ("nn.Module", "encode", "b, t = x.shape", False),  # it may get an array
        ("object", "forward", "b, t = x.shape", False),
        ("nn.Module", "forward", "x.space.shape", False),
        ("nn.Module", "forward", "self.shape", False),
    ],
)
def test_input_of_a_module_has_a_shape(tmp_path: Path, base: str, method: str, read: str, found: bool) -> None:
    code = f"""
class Model({base}):
    def {method}(self, x):
        {read}
        if x[0, 0] > 0:
            return x
"""
    assert bool(branches(tmp_path, code)) is found


@pytest.mark.parametrize("name", ["forward", "__call__"])
def test_method_has_another_name(tmp_path: Path, name: str) -> None:
    code = f"""
class Step(nn.Module):
    def forward(self, x: Tensor):
        return x
    def run(self, x):
        return x if x.max() > 0 else -x
    {name} = run

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = Step()
    def forward(self, x: Tensor):
        return self.step(x)
"""
    assert len(branches(tmp_path, code)) == 1
    assert branches(tmp_path, code.replace(f"    {name} = run\n", "")) == []


def test_a_process_group_has_a_size_too(tmp_path: Path) -> None:
    code = """
class Scattered(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group=None, row=None):
        count = group.size() if group else 1
        width = row.size() if row else 2
        return x * count

class Model(nn.Module):
    def __init__(self, group, row):
        super().__init__()
        self.group = group
        self.row = row

    def forward(self, x):
        return Scattered.apply(x, self.group, self.row)
"""
    found = branches(tmp_path, code)
    assert [getattr(one.node, "id", None) for one in found] == ["row"]


CACHE = """
from dataclasses import dataclass

{decorator}
class Cache{base}:
    x: torch.Tensor
    n: int = 0

{method}

class Model(nn.Module):
    def forward(self, x: torch.Tensor):
        return {call}
"""
CHECK = """\
    def __post_init__(self):
        if (self.x > 100).any():
            raise ValueError
"""
OWN = """\
    def __init__(self, x):
        self.x = x

"""


@pytest.mark.parametrize(
    ("decorator", "base", "method", "call", "runs"),
    [
        ("@dataclass", "", CHECK, "Cache(x).x", True),
        ("@dataclass(frozen=True)", "", CHECK, "Cache(x=x).x", True),
        ("@dataclass(init=False)", "", CHECK, "Cache().n", False),
        ("@dataclass", "", OWN + CHECK, "Cache(x).x", False),
        ("", "", OWN + CHECK, "Cache(x).x", False),
        ("", "", CHECK, "Cache()", False),
    ],
)
def test_post_init_runs_after_a_generated_constructor(
    tmp_path: Path, decorator: str, base: str, method: str, call: str, runs: bool
) -> None:
    code = CACHE.format(decorator=decorator, base=base, method=method, call=call)
    assert bool(branches(tmp_path, code)) is runs


def test_post_init_of_a_subclass_and_fields_that_it_makes(tmp_path: Path) -> None:
    code = """
from dataclasses import dataclass, InitVar

@dataclass
class Base:
    x: torch.Tensor
    def __post_init__(self):
        self.half = self.x / 2

class Plain(Base):
    def __post_init__(self):
        if self.x.any(): raise ValueError

@dataclass
class Checked:
    x: torch.Tensor
    check: InitVar[torch.Tensor] = None
    def __post_init__(self, check):
        if check is not None and check.any(): raise ValueError

class Model(nn.Module):
    def forward(self, x: torch.Tensor):
        if Base(x).half.any(): return x
        return Plain(x).x + Checked(x, check=x > 0).x
"""
    lines = (HEAD + code).splitlines()
    tested = {lines[event.node.lineno - 1].strip() for event in branches(tmp_path, code)}
    assert tested == {
        "if self.x.any(): raise ValueError",
        "if check is not None and check.any(): raise ValueError",
        "if Base(x).half.any(): return x",
    }


@pytest.mark.parametrize(
    ("made", "store"),
    [
        ("[None] * 10", "self.found[d] = torch.arange(d)"),
        ("[None, None]", "self.found[0] = torch.arange(d)"),
        ("{}", "self.found[d] = torch.arange(d)"),
        ("[None] * 10", "self.found[d], self.n = torch.arange(d), 3"),
    ],
)
def test_items_that_another_method_stores(tmp_path: Path, made: str, store: str) -> None:
    code = f"""
class Tree:
    def __init__(self):
        self.found = {made}

    def fill(self, d):
        {store}

class Model(nn.Module):
    def forward(self, x: torch.Tensor, tree: Tree):
        if tree.found[0].sum() > 0:
            return x
"""
    assert branches(tmp_path, code)


@pytest.mark.parametrize(
    ("use", "masks"),
    [
        ("x[seen]", 1),
        ("x[~seen]", 1),
        ("x[seen & (tree.n < 5)]", 1),
        ("tree.n[seen]", 1),
        ("tree.names[seen]", 0),
        ("x[0 if seen else 1]", 0),
        ("x[int(seen)]", 0),
        ("[x, -x][seen]", 0),
        ("x[tree.n + 1]", 0),
    ],
)
def test_comparison_of_unknown_values_as_an_index(tmp_path: Path, use: str, masks: int) -> None:
    code = f"""
class Model(nn.Module):
    def forward(self, x: torch.Tensor, tree):
        seen = tree.n >= 0
        return {use}
"""
    (tmp_path / "code.py").write_text(HEAD + code)
    events = analyze([tmp_path / "code.py"]).events
    assert len([one for one in events if isinstance(one, Subscript) and is_mask(one.index)]) == masks


def found(text: str) -> list[str]:
    head = "import torch\nfrom collections.abc import Callable\nfrom typing import ClassVar\nfrom torch import nn\n"
    return [one.code for one in dynalint.check_source("m.py", head + textwrap.dedent(text))]


def test_what_other_code_stores_does_not_replace_what_a_base_stores() -> None:
    text = """
    class Base(nn.Module):
        def __init__(self):
            super().__init__()
            self.observes = True

    class Observer(Base):
        def __init__(self):
            super().__init__()

        def forward(self, x: torch.Tensor):
            if self.observes:
                if x.sum() > 0:
                    x = -x
            return x

    def switched_off():
        observer = Observer()
        observer.observes = False
        return observer

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.observer = Observer()
            self.observer.observes = False
    """
    assert found(text) == ["DYN101"]


def test_what_a_constructor_stores_through_a_method_replaces_what_a_base_stores() -> None:
    text = """
    class Base(nn.Module):
        def __init__(self):
            super().__init__()
            self.threshold = None

    class Thresholded(Base):
        def __init__(self):
            super().__init__()
            self._build()

        def _build(self):
            self.threshold = 0.5

        def forward(self, x: torch.Tensor):
            if self.threshold is None and x.sum() > 0:
                x = -x
            return x
    """
    assert not found(text)


@pytest.mark.parametrize("declared", ["", "layer: ClassVar[Callable[..., nn.RNNBase]]", "layer = None"])
def test_a_class_that_only_a_subclass_chooses(declared: str) -> None:
    text = f"""
    class Mixer(nn.Module):
        {declared}
        def __init__(self, size: int):
            super().__init__()
            self.layers = self.layer(size, size)

        def forward(self, x: torch.Tensor):
            return self.layers(x)[0]

    class Long(Mixer):
        layer = nn.LSTM
    """
    assert found(text) == ["DYN601"]


@pytest.mark.parametrize(
    "test",
    [
        "given is not None and not isinstance(given, Strategy)",
        "not (given is None or isinstance(given, Strategy))",
    ],
)
def test_what_is_neither_none_nor_another_type_is_converted(test: str) -> None:
    code = f"""
import torch
from torch import nn


class Strategy:
    def __call__(self, x):
        raise NotImplementedError


class Peak(Strategy):
    def __call__(self, x):
        return x / x.max() if x.max() > 0 else x


class Given(Strategy):
    def __init__(self, function):
        self.function = function

    def __call__(self, x):
        return self.function(x)


class Model(nn.Module):
    def __init__(self, given=None):
        super().__init__()
        if {test}:
            given = Given(given)
        self.strategy = given or Peak()

    def forward(self, x: torch.Tensor):
        return self.strategy(x)
"""
    assert [one.function for one in dynalint.check_source("m.py", code)] == ["Peak.__call__"]
