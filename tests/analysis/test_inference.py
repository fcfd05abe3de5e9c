"""What the inference knows: each case is a function body in which `# <Event>` marks the lines that emit that event."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

import pytest

from dynalint.analysis import Analysis, analyze
from dynalint.analysis.events import Branch, Call, CompilerUse, Event, GlobalRead, Iteration, Raising, Subscript
from dynalint.analysis.kinds import Kind, Sequence, Tensor, Value, may_be_tensor, only_tensor
from dynalint.analysis.subscripts import index_parts

PRELUDE = """\
import logging
import math
import torch
import torch.nn.functional as F
from torch import nn

logger = logging.getLogger(__name__)
CACHE = {}
COUNT = 0


def exists(value):
    return value is not None


def scaled(value, factor=2):
    return value * factor

"""
WATCHED = ("builtins.print", "Tensor.item", "logging.Logger.info", "builtins.int")


def in_region(analysis: Analysis) -> list[Event]:
    """Return the events that tell of tensors and of state that changes."""
    return [
        event
        for event in analysis.events
        if not isinstance(event, CompilerUse | GlobalRead | Raising)
        and not (isinstance(event, Iteration) and not may_be_tensor(event.kind) and not reads_data(event.kind))
    ]


def reads_data(kind: Kind) -> bool:
    """Whether the length of a range was read out of a tensor."""
    return isinstance(kind, Sequence) and isinstance(kind.element, Value) and kind.element.source == "data"


def analyzed(tmp_path: Path, code: str) -> Analysis:
    path = tmp_path / "code.py"
    path.write_text(PRELUDE + textwrap.dedent(code))
    analysis = analyze([path], watched=lambda name: name if name in WATCHED else None)
    assert analysis.failures == []
    return analysis


def check(tmp_path: Path, code: str) -> None:
    """Assert that the events of `code` are those its comments name, line by line."""
    analysis = analyzed(tmp_path, code)
    lines = (PRELUDE + textwrap.dedent(code)).splitlines()
    wanted = {
        (number, name)
        for number, line in enumerate(lines, start=1)
        for names in re.findall(r"# (.*)", line)
        for name in names.split(", ")
    }
    assert {(event.node.lineno, type(event).__name__) for event in in_region(analysis)} == wanted


FORWARD = {
    "shapes, dtypes, devices and flags are no branches on data": """
        if x.shape[0] > 1 and x.dim() == 2 and x.size(1) > len(x):
            x = x + 1
        if x.dtype == torch.float32 or x.device.type == "cuda" or x.is_cuda or x.requires_grad:
            x = x + 1
        if self.training or x is None or isinstance(x, torch.Tensor) or hasattr(self, "fc"):
            x = x + 1
        if x.numel() == 0 or torch.is_grad_enabled() or x.is_floating_point():
            x = x + 1
        return x
    """,
    "a reduction, a comparison and their negation are": """
        if x.sum() > 0:  # Branch
            x = x + 1
        if not torch.isnan(x).any():  # Branch
            x = x + 1
        return x
    """,
    "elif, while, conditional expressions and boolean operators": """
        if x.shape[0] > 1:
            y = 1
        elif x.mean() > 0:  # Branch
            y = 2
        while x.norm() > 1:  # Branch
            x = x / 2
        z = x if x.max() > 0 else -x  # Branch
        w = (x > 0).any() and (x < 1).any()  # Branch
        return z * y, w
    """,
    "chained comparisons and membership": """
        if 0 < x.mean() < 1:  # Branch
            x = x + 1
        if x.argmax() in [0, 1]:  # Branch
            x = x + 1
        if 3 in x:  # Branch
            x = x + 1
        return x
    """,
    "None is narrowed away, also by a helper": """
        if mask is not None and mask.any():  # Branch
            x = x.masked_fill(mask, 0)
        if exists(mask) and mask.all():  # Branch
            x = x + 1
        if mask is None:
            mask = torch.ones_like(x)
        return x * mask
    """,
    "numbers read from tensors are Python numbers": """
        n = x.sum().item()  # Call
        if n > 0 and int(x.max()) > 1:  # Call
            return x * n
        return x
    """,
    "through helpers": """
        if scaled(x).sum() > 0:  # Branch
            return x
        if scaled(x.shape[0]) > 0:
            return x
        return -x
    """,
    "code that is compiled away is silent": """
        if not torch.compiler.is_compiling():
            print(x)
        if torch.jit.is_scripting() or not torch.compiler.is_compiling():
            print(x)
        if x.is_cuda and not torch.compiler.is_compiling() and x.dim() == 2:
            print(x)
        if torch.utils.data.get_worker_info() is not None and x.sum() > 0:
            print(x)
        if int(torch.__version__.split(".")[0]) < 2:  # Call
            print(x)
        if int(torch.__version__.split(".")[1]) < 13:  # Call
            print(x)  # Call
        asks = getattr(torch.compiler, "is_compiling", None) or getattr(torch._dynamo, "is_compiling", None)
        if not (bool(asks()) if asks is not None else False):
            print(x)
        if not hasattr(torch, "compiler") or not hasattr(torch.compiler, "is_compiling"):
            print(x)
        if not hasattr(torch, "no_such_function"):
            print(x)  # Call
        if torch.compiler.is_compiling() or x.is_cuda:
            return x
        print(x)
        return x
    """,
    "a constant attribute decides, a changing one does not": """
        if self.debug:
            print(x)
        if self.loud:
            print(x)  # Call
        return x
    """,
    "loops reach a fixpoint": """
        best = None
        for row in range(3):
            if best is not None and best > 0:  # Branch
                return x
            best = x[row].sum()
        return x
    """,
    "tuples by element, unpacking, comprehensions": """
        values, indices = torch.max(x, dim=1)
        pair = (x.shape[0], values.sum())
        n, total = pair
        if n > 1:
            x = x + 1
        if total > 0:  # Branch
            x = x + 1
        parts = [part.mean() for part in x.chunk(2)]
        if parts[0] > 0:  # Branch
            x = x + 1
        names = [name for name in ("a", "b") if name]
        return x, names
    """,
    "dictionaries by key": """
        out = {"size": x.shape[0], "sum": x.sum()}
        if out["size"] > 1:
            x = x + 1
        if out["sum"] > 1:  # Branch
            x = x + 1
        return x
    """,
    "lambdas and nested functions see the variables around them": """
        limit = x.mean()
        above = lambda value: value > limit
        def positive():
            return above(x.sum())
        if positive():  # Branch
            return x
        return -x
    """,
    "modules called as attributes, in lists and in sequences": """
        y = self.fc(x)
        if y.sum() > 0:  # Branch
            y = y + 1
        for layer in self.layers:
            y = layer(y)
        if self.net(y).sum() > 0:  # Branch
            y = y + 1
        return y
    """,
    "containers that outlive the call": """
        kept = []
        kept.append(x)
        self.feats.append(x)  # ContainerChange
        self.fresh = []  # StateChange
        self.fresh.append(x)
        CACHE[x.shape[0]] = x  # ContainerChange
        return torch.stack(kept)
    """,
    "state that outlives the call": """
        self.count += 1  # StateChange
        self.total = 0  # StateChange
        self.total += 1  # StateChange
        global COUNT
        COUNT += 1  # StateChange
        return x
    """,
    "buffers changed in place": """
        self.steps += 1  # InplaceChange, StateChange
        self.steps.add_(1)  # InplaceChange
        x = x.clone()
        x.add_(1)
        return x * self.steps
    """,
    "indices read from tensors": """
        y = x[x > 0]  # Subscript
        i = x.argmax()
        z = x.flatten()[i]  # Subscript
        w = x[:, 0] + x[..., None].sum() + x[torch.arange(2)].sum()  # Subscript
        return y.sum() + z + w
    """,
    "formats": """
        a = f"{x.sum()}"  # Format
        b = "%s" % x.sum()  # Format
        c = "{}".format(x.shape)
        return x, a, b, c
    """,
    "asserts and match": """
        assert (x > 0).all(), "positive"  # Branch
        assert x.dim() == 2
        match x.dim():
            case 2:
                x = x + 1
        return x
    """,
    "a parameter of unknown kind stays silent": """
        if mask > 0:
            return x
        if self.given:
            return x
        for item in self.given:
            if item > 0:
                return x
        return -x
    """,
    "NumPy arrays count as tensors": """
        array = x.detach().cpu().numpy()
        if array.sum() > 0:  # Branch
            return x
        return -x
    """,
    "logging": """
        logger.info("step")  # Call
        self.log.info("step")  # Call
        return x
    """,
    "math on numbers gives numbers": """
        scale = 1 / math.sqrt(x.shape[-1])
        if scale > 0.5:
            return x
        return x * scale
    """,
}

MODEL = """
class Model(nn.Module):
    def __init__(self, given, width=8):
        super().__init__()
        self.given = given
        self.debug = False
        self.loud = False
        self.count = 0
        self.feats = []
        self.fresh = []
        self.log = logging.getLogger("model")
        self.fc = nn.Linear(width, width)
        self.layers = nn.ModuleList([nn.ReLU() for _ in range(2)])
        self.net = nn.Sequential(nn.Linear(width, width), nn.ReLU())
        self.register_buffer("steps", torch.tensor(0))

    def shout(self, loud):
        self.loud = loud

    def forward(self, x: torch.Tensor, mask=None):
"""


@pytest.mark.parametrize("name", FORWARD)
def test_forward(tmp_path: Path, name: str) -> None:
    check(tmp_path, MODEL + textwrap.indent(textwrap.dedent(FORWARD[name]), " " * 8))


def test_a_parameter_used_as_a_tensor_is_one_from_the_start(tmp_path: Path) -> None:
    code = """
    class Model(nn.Module):
        def forward(self, x, flag, weight=None):
            if x > 0:  # Branch
                x = x + 1
            if flag:
                x = x + 1
            if weight is not None and weight.sum() > 0:  # Branch
                x = x * weight
            return x.unsqueeze(0)
    """
    check(tmp_path, code)


def test_callers_tell_the_kinds_of_parameters(tmp_path: Path) -> None:
    code = """
    class Inner(nn.Module):
        def forward(self, value, count):
            if value > 0:  # Branch
                return value
            if count > 0:
                return value
            return -value


    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x: torch.Tensor):
            return self.inner(x.sum(), x.shape[0])
    """
    check(tmp_path, code)


def test_an_option_that_no_caller_gives_has_its_default(tmp_path: Path) -> None:
    filler = "\n".join(f"        value = value + {number}" for number in range(16))
    code = f"""
    def convert(value, code="rate", careful=False, check=False):
{filler}
        if code == "latency" and value > 0:
            return -value
        if careful and value > 1:  # Branch
            return -value
        if check and value > 2:
            return -value
        return value

    class Net(nn.Module):
        def forward(self, x: torch.Tensor):
            return convert(x) + convert(x, careful=True)
    """
    check(tmp_path, code)


def test_layers_that_a_list_gives_to_sequential_are_followed(tmp_path: Path) -> None:
    code = """
    class Block(nn.Module):
        def forward(self, value):
            if value:  # Branch
                return value
            return value + 1

    class Net(nn.Module):
        def __init__(self, count, other):
            super().__init__()
            self.known = nn.Sequential(*[Block() for _ in range(count)])
            self.unknown = nn.Sequential(nn.ReLU(), *[other() for _ in range(count)])

        def forward(self, x: torch.Tensor):
            x = self.unknown(self.known(x))
            return x if x > 0 else -x  # Branch
    """
    check(tmp_path, code)


def test_forward_hooks_run_with_what_the_layer_gives(tmp_path: Path) -> None:
    code = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, 8)
            self.fc.register_forward_hook(self.after)
            self.fc.register_forward_pre_hook(lambda module, args: args[0] if args[0].sum() > 0 else None)  # Branch

        def after(self, module, args, result):
            if result:  # Branch
                return result * 2

        def forward(self, x: torch.Tensor):
            return self.fc(x) or x  # Branch
    """
    check(tmp_path, code)


def test_what_is_a_tensor_for_one_caller_and_a_number_for_another_is_told_apart(tmp_path: Path) -> None:
    body = "\n".join(f"            value = value + {number}" for number in range(14))
    code = f"""
    class Model(nn.Module):
        def __init__(self, factor: int = 2):
            super().__init__()
            self.factor = factor

        def grow(self, value, count=torch.tensor(1)):
{body}
            if count > 1:  # Branch
                value = value * 2
            return value * count

        def forward(self, x: torch.Tensor):
            return self.grow(x) + self.grow(x, self.factor)
    """
    check(tmp_path, code)
    events = in_region(analyzed(tmp_path, code))
    assert [only_tensor(event.kind) for event in events if isinstance(event, Branch)] == [Tensor("bool", 0)]


def test_what_is_a_tensor_for_one_caller_and_a_list_of_numbers_for_another_is_told_apart(tmp_path: Path) -> None:
    body = "\n".join(f"            x = x + {number}" for number in range(14))
    code = f"""
    class Layer(nn.Module):
        def forward(self, x: torch.Tensor, lengths: list[int]):
            index = 0
            while lengths[index] <= 2:
                index += 1
{body}
            return x * index

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = Layer()

        def forward(self, x: torch.Tensor):
            return self.layer(x, (x > 0).sum(-1))
    """
    events = in_region(analyzed(tmp_path, code))
    assert [only_tensor(event.kind) for event in events if isinstance(event, Branch)] == [Tensor("bool")]


def test_a_method_that_a_base_class_leaves_to_the_classes_below(tmp_path: Path) -> None:
    code = """
    class Base(nn.Module):
        def forward(self, x: torch.Tensor):
            if self.scores(x).sum() > 0:  # Branch
                return x
            return -x

    class One(Base):
        def scores(self, x):
            return x.exp()

    class Other(Base):
        def scores(self, x):
            return x.log()
    """
    check(tmp_path, code)


def test_the_use_of_a_parameter_tells_that_it_is_a_tensor(tmp_path: Path) -> None:
    code = """
    class Model(nn.Module):
        def forward(self, x, lengths, order, scale):
            if lengths.cpu().long().max() > 1:  # Branch
                x = x + 1
            places = order.cpu().numpy()
            if places[0] > 1:  # Branch
                x = x + 1
            if scale.to(x.device) > 1:
                x = x + 1
            return x
    """
    check(tmp_path, code)


def test_what_an_exponential_or_a_root_is_taken_of_is_a_tensor(tmp_path: Path) -> None:
    code = """
    class Model(nn.Module):
        def forward(self, x, mu, logvar, spread, meter, book):
            if logvar > 1:  # Branch
                x = x + logvar.exp()
            if mu > 1:  # Branch
                x = x + mu.log()
            if spread > 1:  # Branch
                x = x / spread.sqrt()
            if meter > 1:
                meter.log()
            if book > 1:
                x = x * book.log("x")
            return x
    """
    check(tmp_path, code)


def test_what_is_converted_row_by_row_is_a_tensor(tmp_path: Path) -> None:
    code = """
    class Model(nn.Module):
        def forward(self, x: torch.Tensor, labels, scales, size, names):
            height = int(size[0])  # Call
            for row in range(x.size(0)):
                x[row, int(labels[row])] = 1  # Call, Subscript
            for at in range(3):
                x = x * float(scales[at])
            if labels[0] > 1:  # Branch
                x = x + 1
            if scales[0] > 1 or size[1] > height or names:
                x = x + 1
            return x
    """
    check(tmp_path, code)


def test_arrays_of_plain_numbers(tmp_path: Path) -> None:
    code = """
    import numpy as np

    @torch.compile
    def run(x: torch.Tensor):
        if np.unique([1, 2]).astype(int)[0] > 1:  # Branch
            x = x + 1
        for size in sorted(np.unique([1, 2])):  # Ordering
            if size > 1:
                x = x + 1
        return x
    """
    check(tmp_path, code)


def test_an_identity_gives_back_what_it_is_given(tmp_path: Path) -> None:
    check(
        tmp_path,
        """\
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.same = nn.Identity()

    def forward(self, x: torch.Tensor, scale: float):
        if self.same(scale) == 5:
            x = x + 1
        if self.same(x).sum() > 0:  # Branch
            x = x + 2
        return x
""",
    )


def test_constructors_of_old_and_declared_results_are_tensors(tmp_path: Path) -> None:
    code = """
    from dataclasses import dataclass
    from somewhere import registry

    @dataclass
    class Output:
        mask: torch.BoolTensor | None = None
        loss: torch.FloatTensor | None = None

    def looked_up(x) -> torch.Tensor:
        return registry["f"](x)

    def encoded(x) -> tuple | Output:
        return registry["g"](x)

    @torch.compile
    def run(x: torch.Tensor):
        if torch.LongTensor([1, 2])[0] > 1:  # Branch
            x = x + 1
        if torch.cuda.FloatTensor(2, 3).sum() > 1:  # Branch
            x = x + 1
        if looked_up(x) > 0:  # Branch
            x = x + 1
        if encoded(x).loss > 0:  # Branch
            x = x + 1
        return [0] * x.argmax()  # Operation
    """
    check(tmp_path, code)


def test_a_classmethod_that_makes_an_instance_makes_one_of_the_class_that_it_is_called_on(tmp_path: Path) -> None:
    code = """
    class Base(nn.Module):
        @classmethod
        def build(cls, size):
            layer = cls(size)
            return layer

    class Scores(Base):
        def forward(self, x):
            return x.exp()

    class Width(Base):
        def forward(self, x):
            return x.shape[0]

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.scores = Scores.build(3)
            self.width = Width.build(3)

        def forward(self, x: torch.Tensor):
            if self.scores(x) > 0:  # Branch
                return x
            return -x if self.width(x) > 0 else x
    """
    check(tmp_path, code)


def test_a_module_made_elsewhere_is_given_a_mask_by_keyword(tmp_path: Path) -> None:
    code = """
    from somewhere import build

    class Decoder(nn.Module):
        def forward(self, x: torch.Tensor, places: torch.Tensor = None):
            return x[places, :]

    class Model(nn.Module):
        def __init__(self, config):
            super().__init__()
            self.decoder = build(config)

        def forward(self, x: torch.Tensor):
            return self.decoder(x, places=x[:, 0] > 0)
    """
    events = [event for event in analyzed(tmp_path, code).events if isinstance(event, Subscript)]
    assert [only_tensor(index_parts(event.index)[0]) for event in events] == [Tensor("bool")]


def test_methods_outside_the_region_are_interpreted_for_what_they_store(tmp_path: Path) -> None:
    analysis = analyzed(
        tmp_path,
        """
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = None
            def prepare(self, x):
                self.scale, self.offset = torch.ones(3), 2
            def describe(self):
                return helper(self.scale, "scale")
            def forward(self, x):
                if self.offset > 1:
                    x = x + 1
                if self.scale > 1:
                    return x
                return -x
        def helper(value, name):
            return name
        """,
    )
    assert [event.node.lineno - PRELUDE.count("\n") for event in in_region(analysis)] == [13]
    assert analysis.project.interpreter is not None
    run = {function.name for function in analysis.project.interpreter.contexts}
    assert "prepare" in run
    assert run.isdisjoint({"describe", "helper"})


def test_state_reset_by_a_method_in_the_same_call_is_fresh(tmp_path: Path) -> None:
    code = """
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.feats = []

        def reset(self):
            self.feats = []  # StateChange

        def forward(self, x: torch.Tensor):
            self.reset()
            self.feats.append(x)
            return torch.cat(self.feats)
    """
    check(tmp_path, code)


def test_recursion_and_mutual_recursion_come_to_an_end(tmp_path: Path) -> None:
    code = """
    def even(x: torch.Tensor, n: int):
        return x if n == 0 else odd(x, n - 1)

    def odd(x: torch.Tensor, n: int):
        return -x if n == 0 else even(x, n - 1)

    @torch.compile
    def run(x: torch.Tensor):
        if even(x, 3).sum() > 0:  # Branch
            return x
        return -x
    """
    check(tmp_path, code)


def test_very_deep_code_costs_no_traceback(tmp_path: Path) -> None:
    terms = " + ".join(["x"] * 3000)
    check(tmp_path, f"\n@torch.compile\ndef run(x: torch.Tensor):\n    return {terms}\n")


def test_events_say_on_what_it_hangs_that_they_happen(tmp_path: Path) -> None:
    code = """
    @torch.compile
    def run(x: torch.Tensor, given: torch.Tensor, mask: torch.Tensor = None, flag=False):
        if mask is not None and mask.any():
            x = x + 1
        if given is not None and given.any():
            x = x + 1
        if x.dtype == torch.float16 and not torch.isfinite(x).all():
            x = x + 1
        if x.any() or x.all():
            x = x + 1
        y = x.max().item() if flag else 0
        if mask is not None:
            x = x + mask.max().item()
        return x + y
    """
    analysis = analyzed(tmp_path, code)
    text = analysis.project.checked[0].text
    found = [
        (ast.get_source_segment(text, event.node), event.condition and ast.unparse(event.condition))
        for event in in_region(analysis)
    ]
    assert found == [
        ("mask.any()", "mask is not None"),
        ("given.any()", None),
        ("torch.isfinite(x).all()", "x.dtype == torch.float16"),
        ("x.any()", None),
        ("x.all()", None),
        ("x.max().item()", "flag"),
        ("mask.max().item()", None),
    ]


def test_events_carry_where_they_stand(tmp_path: Path) -> None:
    code = """
    @torch.compile
    def run(x: torch.Tensor):
        for _ in range(3):
            with torch.no_grad():
                print(x)
        try:
            print(x)
        finally:
            x = x + 1
        print(x)
        return x
    """
    positions = [event.position for event in analyzed(tmp_path, code).events if isinstance(event, Call)]
    assert [(one.loop, one.with_, one.try_) for one in positions] == [
        (True, True, False),
        (False, False, True),
        (False, False, False),
    ]


def test_what_a_function_asks_for_counts_more_than_its_annotation(tmp_path: Path) -> None:
    code = """
    class Filter(nn.Module):
        def forward(self, x):
            return finite(self.inner(x))

    def finite(tensors: list[torch.Tensor]):
        if isinstance(tensors, torch.Tensor):
            return first(tensors)
        return tensors

    def first(tensor):
        return tensor if tensor.sum() > 0 else -tensor

    class Lists(nn.Module):
        def forward(self, x: torch.Tensor):
            return checked([x])

    def checked(tensors: list[torch.Tensor]):
        if isinstance(tensors, torch.Tensor):
            return last(tensors)
        return tensors

    def last(tensor):
        return tensor if tensor.sum() > 0 else -tensor
    """
    branches = [event for event in analyzed(tmp_path, code).events if isinstance(event, Branch)]
    assert {event.function.name for event in branches} == {"first"}


@pytest.mark.parametrize(
    "made",
    [
        "from transformers.utils import logging as made\nlog = made.get_logger(__name__)",
        "from accelerate.logging import get_logger\nlog = get_logger(__name__)",
    ],
)
def test_loggers_of_libraries(tmp_path: Path, made: str) -> None:
    code = f"""
import logging
import torch
from torch import nn
{made}

class Model(nn.Module):
    def forward(self, x: torch.Tensor):
        log.info("seen")
        return self.told(x, made_elsewhere())

    def told(self, x, log: "logging.Logger"):
        log.debug("told")
        return x
"""
    (tmp_path / "code.py").write_text(code)
    found = analyze([tmp_path / "code.py"], watched=lambda name: name if name.startswith("logging.") else None).events
    assert [event.callee for event in found if isinstance(event, Call)] == [
        "logging.Logger.info",
        "logging.Logger.debug",
    ]


@pytest.mark.parametrize(
    ("filled", "is_certain"),
    [("torch.arange(8.0)", True), ("None", False)],
)
def test_cache_that_the_function_fills(tmp_path: Path, filled: str, is_certain: bool) -> None:
    code = f"""
class Model(nn.Module):
    def __init__(self, table=None):
        super().__init__()
        self.table = table

    def forward(self, x: torch.Tensor):
        if self.table is None or x.max() > len(self.table):
            self.table = {filled}
        return x
"""
    (event,) = [event for event in analyzed(tmp_path, code).events if isinstance(event, Branch)]
    assert (event.condition is None) is is_certain


@pytest.mark.parametrize(
    ("test", "is_certain"),
    [
        ("is_empty(x) or x.max() < 0", True),
        ("x.numel() > 0 and x.max() < 0", True),
        ("x.numel() and x.max() < 0", True),
        ("not x.numel() or x.max() < 0", True),
        ("not x.numel() and x.max() < 0", False),
        ("is_empty(x) and x.max() < 0", False),
        ("x.numel() > 8 and x.max() < 0", False),
    ],
)
def test_tensor_that_is_not_empty(tmp_path: Path, test: str, is_certain: bool) -> None:
    code = f"""
def is_empty(rows):
    return rows.numel() == 0

class Model(nn.Module):
    def forward(self, x: torch.Tensor):
        return [x] if {test} else x
"""
    (event,) = [event for event in analyzed(tmp_path, code).events if isinstance(event, Branch)]
    assert (event.condition is None) is is_certain


@pytest.mark.parametrize(
    ("test", "is_certain"),
    [
        ("x.shape[0] > 0 and x.max() < 0", True),
        ("x.size(1) > 1 and x.max() < 0", True),
        ("len(x) and x.max() < 0", True),
        ("rows > 1 and x.max() < 0", True),
        ("not rows or x.max() < 0", True),
        ("columns == 1 or x.max() < 0", True),
        ("columns == 1 and x.max() < 0", False),
        ("x.is_floating_point() and x.max() < 0", True),
        ("torch.is_floating_point(x) and x.max() < 0", True),
        ("not x.dtype.is_floating_point or x.max() < 0", True),
        ("not x.dtype.is_floating_point and x.max() < 0", False),
        ("x.dtype == torch.uint8 or x.max() < 0", True),
        ("x.dtype != torch.int64 and x.max() < 0", True),
        ("x.dtype == torch.bool and x.max() < 0", False),
        ("x.dtype == torch.float16 and x.max() < 0", False),
        ("x.shape[0] > 8 and x.max() < 0", False),
        ("x.dim() > 1 and x.max() < 0", False),
        ("x.stride(0) > 1 and x.max() < 0", False),
        ("1 < rows < 9 and x.max() < 0", False),
        ("rest > 0 and x.max() < 0", False),
        ("changed > 0 and x.max() < 0", False),
        ("last > 1 and x.max() < 0", False),
        ("passed > 1 and x.max() < 0", True),
        ("passed > 0 and x.max() < 0", False),
    ],
)
def test_dimension_that_is_large_and_dtype_that_is_float(tmp_path: Path, test: str, is_certain: bool) -> None:
    code = f"""
class Model(nn.Module):
    def forward(self, x: torch.Tensor):
        return self.part(x, x.shape[0])

    def part(self, x, passed):
        rows, columns = x.shape[:2]
        rest = 8 - rows
        changed = x.shape[0]
        changed -= 1
        for last in x.shape:
            pass
        return [x] if {test} else x
"""
    (event,) = [event for event in analyzed(tmp_path, code).events if isinstance(event, Branch)]
    assert (event.condition is None) is is_certain
