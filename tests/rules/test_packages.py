"""Functions and modules of other packages whose own code ends the graph."""

from __future__ import annotations

import textwrap

import dynalint

_MODEL = """\
import torch
import torchvision.transforms as transforms
from opt_einsum import contract
from torch import nn
from torchvision.ops import nms
from torchvision.transforms import v2


class Shifted(transforms.RandomCrop):
    def forward(self, x):
        return x + 1


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.jitter = transforms.ColorJitter(0.1)
        self.first, self.second = transforms.Normalize([0.5], [0.5]), v2.Normalize([0.5], [0.5])
        self.shifted = Shifted(4)
        self.resize = transforms.Resize(4)

    def forward(self, x: torch.Tensor, boxes: torch.Tensor):
"""


def _found(body: str) -> dict[int, tuple[str, ...]]:
    code = _MODEL + textwrap.indent(textwrap.dedent(body).strip(), " " * 8)
    first = len(_MODEL.splitlines())
    return {one.line - first: one.gb for one in dynalint.check_source("m.py", code) if one.code == "DYN712"}


def test_what_ends_the_graph_is_flagged_with_its_break() -> None:
    body = """
    kept = nms(boxes, boxes[:, 0], 0.5)
    x = self.jitter(x)
    x = self.first(x)
    return contract("ij,jk->ik", x, x), kept
    """
    assert _found(body) == {1: ("GB0036",), 2: ("GB0124",), 3: ("GB0170",), 4: ("GB0156",)}


def test_lengths_that_a_caller_gives_are_not_read() -> None:
    body = """
    from torch_einops_utils import lens_to_mask, pad_sequence
    mask = lens_to_mask(boxes)
    mask = lens_to_mask(boxes, max_len=8)
    return pad_sequence([x, x[:2]])
    """
    assert _found(body) == {2: ("GB0124",), 4: ("GB0124",)}


def test_quantizers_that_learn_their_codes_read_whether_these_are_initialized() -> None:
    code = """\
from torch import nn
from vector_quantize_pytorch import FSQ, VectorQuantize as VQ


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.codes, self.levels = VQ(dim=8, codebook_size=16), FSQ(levels=[8, 5])

    def forward(self, x):
        quantized, _, _ = self.codes(x)
        return self.levels(quantized)
"""
    assert [(one.line, one.gb) for one in dynalint.check_source("m.py", code)] == [(11, ("GB0170",))]


def test_checks_of_a_sequence_draw_the_item_to_check() -> None:
    code = """\
from typing import Any, List, Optional, Tuple
from beartype import beartype
from torch import nn


class Inner(nn.Module):
    @beartype
    def forward(self, x, names: Optional[List[str]] = None):
        return x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    @beartype
    def forward(self, x, sizes: Tuple[int, ...] = (1,)):
        self.one(x)
        self.many(x)
        return self.inner(x)

    @beartype
    def one(self, x, sizes: Tuple[int, int] = (1, 2), anything: List[Any] = []):
        return x

    @beartype
    def many(self, x, sizes: tuple[int, ...] = (1, 2)):
        return x
"""
    assert [one.line for one in dynalint.check_source("m.py", code)] == [20, 21]


def test_what_is_traced_is_not() -> None:
    body = """
    x = self.second(self.resize(x))
    return self.shifted(x)
    """
    assert _found(body) == {}


def test_what_a_class_takes_over_from_a_library_is_flagged() -> None:
    code = """\
from torch import nn
from torchmetrics.classification import BinaryAccuracy
from torchvision.transforms import ColorJitter


class Jitter(ColorJitter):
    pass


class Shifted(ColorJitter):
    def forward(self, x):
        return super().forward(x) + 1


class Accuracy(BinaryAccuracy):
    def update(self, x, y):
        super().update(x, y)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.jitter, self.shifted = Jitter(0.1), Shifted(0.1)

    def forward(self, x):
        x = self.jitter(x)
        return self.shifted(x)
"""
    assert [one.line for one in dynalint.check_source("m.py", code) if one.code == "DYN712"] == [12, 17, 26]


def test_nothing_is_known_of_what_a_setting_lets_through() -> None:
    code = _MODEL + textwrap.indent("return nms(boxes, boxes[:, 0], 0.5), self.jitter(x)", " " * 8)
    switched = "\n\n\ntorch._dynamo.config.capture_{} = True\n"
    for setting, left in (("scalar_outputs", "GB0036"), ("dynamic_output_shape_ops", "GB0124")):
        found = dynalint.check_source("m.py", code + switched.format(setting))
        assert [one.gb for one in found if one.code == "DYN712"] == [(left,)]


_GRAPHS = """\
import torch
from torch import nn
from torch_geometric.nn import GCNConv, SAGEConv, global_mean_pool
from torch_geometric.utils import degree, index_to_mask, remove_self_loops, softmax, structured_negative_sampling


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = SAGEConv(4, 4), GCNConv(4, 4)

    def forward(self, x, edges: torch.Tensor, batch: torch.Tensor, size: int):
"""


def _graphs(body: str) -> dict[int, tuple[str, ...]]:
    code = _GRAPHS + textwrap.indent(textwrap.dedent(body).strip(), " " * 8)
    first = len(_GRAPHS.splitlines())
    return {one.line - first: one.gb for one in dynalint.check_source("m.py", code) if one.code == "DYN712"}


def test_what_reads_a_size_out_of_the_data_is_flagged_unless_it_is_given() -> None:
    body = """
    x = self.second(self.first(x, edges), edges)
    x = softmax(x, batch) + softmax(x, batch, num_nodes=size) + softmax(x, batch, None, size)
    edges, _ = remove_self_loops(edges)
    count = degree(edges[0], size)
    count = degree(edges[0])
    x = global_mean_pool(x, None)
    x = global_mean_pool(x, batch, size)
    return global_mean_pool(x, batch), count
    """
    assert _graphs(body) == {1: ("GB0036",), 2: ("GB0124",), 3: ("GB0036",), 5: ("GB0124",), 8: ("GB0124",)}


def test_what_reads_the_edges_of_a_graph_is_flagged_unless_it_is_told_the_number_of_nodes() -> None:
    body = """
    chosen = index_to_mask(batch, size), index_to_mask(batch, size=size)
    chosen = index_to_mask(batch)
    return structured_negative_sampling(edges, size)
    """
    assert _graphs(body) == {2: ("GB0124",), 3: ("GB0294",)}


def test_scores_that_look_at_the_data_are_flagged() -> None:
    code = """\
import torch
import torchmetrics
from torch import nn
from torchmetrics.functional.classification import multiclass_accuracy


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.error = torchmetrics.MeanMetric(nan_strategy="disable"), torchmetrics.MeanSquaredError()

    def forward(self, x: torch.Tensor, y: torch.Tensor):
        self.error.update(x, y)
        self.mean.update(x)
        torchmetrics.functional.classification.binary_accuracy(x, y)
        torchmetrics.functional.classification.binary_accuracy(y, y, validate_args=False)
        return multiclass_accuracy(x, y, 3), self.mean(x), self.mean.compute()
"""
    found = [one for one in dynalint.check_source("m.py", code) if one.code == "DYN712"]
    assert {(one.line, one.gb) for one in found} == {
        (15, ("GB0036",)),
        (17, ("GB0036",)),
    }


_RECORDS = """\
import torch
from pydantic import BaseModel, ConfigDict, field_validator, model_validator
from torch import nn


def checked(value: object) -> torch.Tensor:
    if torch.isnan(value).any():
        raise ValueError
    return value


class Base(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)


class Inputs(Base):
    times: torch.Tensor
    event: torch.Tensor

    @field_validator("times", mode="before")
    @classmethod
    def positive(cls, value: object) -> torch.Tensor:
        value = checked(value)
        if (value < 0).any():
            raise ValueError
        return value

    @model_validator(mode="after")
    def same(self):
        if torch.any(self.event > 1):
            raise ValueError
        return self

    def apart(self):
        if torch.any(self.event > 1):
            raise ValueError


class Options(BaseModel):
    scale: int = 2


OPTIONS = Options(scale=3)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.options = Options(scale=4)

    def forward(self, x: torch.Tensor):
"""


def _records(body: str) -> dict[int, tuple[str, ...]]:
    code = _RECORDS + textwrap.indent(textwrap.dedent(body).strip(), " " * 8)
    first = len(_RECORDS.splitlines())
    found = dynalint.check_source("m.py", code)
    return {one.line - first if one.line > first else one.line: one.gb for one in found}


def test_models_of_pydantic_break_where_they_are_made_and_where_they_validate() -> None:
    made, branch = ("GB0156",), ("GB0170",)
    assert _records("return x * Options(scale=2).scale") == {1: made}
    assert _records("return x * Inputs(times=x, event=x).times") == {1: made, 7: branch, 24: branch, 30: branch}


def test_a_model_of_pydantic_that_exists_is_traced() -> None:
    assert _records("return x * self.options.scale + OPTIONS.scale") == {}
    assert _records("return x * self.options.model_copy().scale") == {1: ("GB0007",)}
    assert _records("return x * Options.model_validate({}).scale + len(OPTIONS.model_dump())") == {1: ("GB0156",)}


def test_transforms_of_audio_that_ask_for_the_type_of_a_setting_are_flagged() -> None:
    code = """\
import torch
import torchaudio
from torch import nn
from torchaudio.transforms import FrequencyMasking, MelSpectrogram


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.spectrum, self.masked = MelSpectrogram(16000), FrequencyMasking(8)
        self.level, self.rate = torchaudio.transforms.AmplitudeToDB(), torchaudio.transforms.Resample(16000, 8000)

    def forward(self, x: torch.Tensor):
        x = self.level(self.spectrum(x))
        return self.masked(x)
"""
    found = [one for one in dynalint.check_source("m.py", code) if one.code == "DYN712"]
    assert {(one.line, one.gb) for one in found} == {(14, ("GB0007",)), (15, ("GB0170",))}


def test_call_of_a_class_whose_base_is_in_a_skipped_package() -> None:
    code = """\
import networkx
import torch
from torch import nn


class Graph(networkx.DiGraph, nn.Module):
    def forward(self, x: torch.Tensor):
        return x + 1


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.graph = Graph()

    def forward(self, x: torch.Tensor):
        networkx.topological_sort(self.graph)
        return self.graph(x)
"""
    found = [one for one in dynalint.check_source("m.py", code) if one.code == "DYN712"]
    assert [one.line for one in found] == [17]
