"""Arguments of constructors: each class here raises for the first guess, in the way that the error's reader is for."""

from __future__ import annotations

import abc
from typing import Any

import pytest
import torch
from torch import nn

from dynalint.confirm.worker.inputs.constructors import constructions
from dynalint.confirm.worker.inputs.guessed_values import PassThrough

pytestmark = pytest.mark.dynamo


def built(cls: type) -> tuple[Any, str]:
    ways = constructions(cls)
    make, text = next(ways)
    while True:
        try:
            return make(), text
        except Exception as error:  # noqa: BLE001 - whatever the class raises is sent back
            make, text = ways.send(error)


class FourStages(nn.Module):
    def __init__(self, counts):
        super().__init__()
        self.last = nn.Conv2d(counts[2], counts[3], 3)


class OneWidth(nn.Module):
    def __init__(self, channels_list):
        super().__init__()
        self.conv = nn.Conv2d(3, channels_list, 3)


class Bounded(nn.Module):
    """Its limits are in the code only, as is the number of sizes."""

    def __init__(self, in_shape, init_range):
        super().__init__()
        if init_range > 1.0 or init_range <= 0.0:
            raise ValueError("init_range is not within its limits")
        channels, _, _ = in_shape
        self.layer = nn.Linear(channels, 2)


class Makes(nn.Module):
    def __init__(self, maker):
        super().__init__()
        self.made = maker(3, 4)


class Grouped(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.GroupNorm(32, channels)


class Normalized(nn.Module):
    def __init__(self, mean, mask):
        super().__init__()
        self.register_buffer("mean", mean)
        self.kept = mean[torch.logical_not(mask)]


class Selects(nn.Module):
    def __init__(self, data, joint_mask):
        super().__init__()
        self.mask = joint_mask
        self.others = torch.logical_not(self.mask)
        self.kept = data[self.mask]


class Sized(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.layer = nn.Linear(table.shape[-1], 2)


@pytest.mark.parametrize(
    "cls",
    [
        FourStages,
        OneWidth,
        Makes,
        Bounded,
        Grouped,
        Normalized,
        Selects,
        Sized,
    ],
)
def test_the_error_leads_to_arguments_that_work(cls: type) -> None:
    ways = constructions(cls)
    first, _ = next(ways)
    with pytest.raises(Exception):  # noqa: B017 - each raises its own
        first()
    made, text = built(cls)
    assert isinstance(made, cls)
    assert text.startswith(f"{cls.__name__}(")


class Never(nn.Module):
    def __init__(self, size):
        super().__init__()
        raise RuntimeError("never")


def test_the_search_ends() -> None:
    with pytest.raises(StopIteration):
        built(Never)


class Adds(nn.Module):
    def __init__(self, in_channels, out_channels, num_heads):
        super().__init__()


def test_what_was_built_and_not_called_is_built_again_with_equal_widths() -> None:
    ways = constructions(Adds)
    assert next(ways)[1] == "Adds(in_channels=16, out_channels=8, num_heads=4)"
    assert ways.send(None)[1] == "Adds(in_channels=16, out_channels=16, num_heads=4)"
    assert ways.send(None)[1] == "Adds(in_channels=4, out_channels=4, num_heads=4)"


class Changes(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        sizes.append(1)
        self.count = len(sizes)


def test_an_instance_does_not_see_what_another_did_to_its_arguments() -> None:
    make, _ = next(constructions(Changes))
    assert make().count == make().count


class Rule(abc.ABC):
    @abc.abstractmethod
    def apply(self, x: Any, scale: float) -> Any: ...


class Scaling(Rule):
    def apply(self, x: Any, scale: float) -> Any:
        return x * scale


class Unknown(abc.ABC):
    @abc.abstractmethod
    def apply(self, x: Any, scale: float) -> Any: ...


class Applies(nn.Module):
    def __init__(self, rule: Rule, other: Unknown):
        super().__init__()
        self.rule, self.other = rule, other


def test_an_abstract_class_is_replaced_by_one_that_is_not() -> None:
    made, _ = built(Applies)
    assert isinstance(made.rule, Scaling)
    assert isinstance(made.other, Unknown)
    assert made.other.apply(3, 0.5) == 3


def test_a_module_that_is_not_known_accepts_any_call() -> None:
    class Calls(nn.Module):
        def __init__(self, encoder: nn.Module):
            super().__init__()
            self.encoder = encoder

    make, _ = next(constructions(Calls))
    assert make().encoder(1, 2, mask=None) == 1
    assert isinstance(make().encoder, PassThrough)
