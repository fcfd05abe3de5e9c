"""Arguments of constructors: each class here raises for the first guess, in the way that the error's reader is for."""

from __future__ import annotations

from typing import Any

import pytest
import torch.nn.functional as F
from torch import nn

from dynalint.confirm.worker.inputs.constructors import constructions

pytestmark = pytest.mark.dynamo


def built(cls: type) -> tuple[Any, str]:
    ways = constructions(cls)
    make, text = next(ways)
    while True:
        try:
            return make(), text
        except Exception as error:  # noqa: BLE001 - whatever the class raises is sent back
            make, text = ways.send(error)


class Stages(nn.Module):
    def __init__(self, counts):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(3, count, 3) for count in counts)


class FourStages(nn.Module):
    def __init__(self, counts):
        super().__init__()
        self.last = nn.Conv2d(counts[2], counts[3], 3)


class Three(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        depth, height, width = sizes
        self.fc = nn.Linear(depth * height, width)


class OneWidth(nn.Module):
    def __init__(self, channels_list):
        super().__init__()
        self.conv = nn.Conv2d(3, channels_list, 3)


class Groups(nn.Module):
    def __init__(self, nin, nout):
        super().__init__()
        self.conv = nn.Conv2d(nin, nout, 3, groups=3 if nin == 16 else 1)


class Normed(nn.Module):
    def __init__(self, size, base, width, stages) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(32, width)
        self.stages = [at for at in range(3) if at in stages]


class Makes(nn.Module):
    def __init__(self, maker):
        super().__init__()
        self.made = maker(3, 4)


class MakesNorm(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.norm = nn.Sequential(norm(16))


class Reads(nn.Module):
    def __init__(self, options_given):
        super().__init__()
        self.fc = nn.Linear(options_given.hidden_size, 4)


class Follows(nn.Module):
    def __init__(self, previous):
        super().__init__()
        self.fc = nn.Linear(previous.in_features, 4)


class Placed(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net, self.device = net, next(net.parameters()).device


class Chooses(nn.Module):
    def __init__(self, mode):
        super().__init__()
        if mode == "sum":
            self.reduce = F.relu
        elif mode in ("mean", "max"):
            self.reduce = F.gelu
        else:
            raise NotImplementedError(mode)


BINARY, MULTICLASS = "binary", "multiclass"


class ChoosesByName(nn.Module):
    def __init__(self, mode):
        assert mode in {BINARY, MULTICLASS}
        super().__init__()
        self.mode = mode


@pytest.mark.parametrize(
    "cls",
    [
        FourStages,
        Three,
        OneWidth,
        Groups,
        Normed,
        Makes,
        MakesNorm,
        Reads,
        Follows,
        Placed,
        Chooses,
        ChoosesByName,
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


def test_the_choices_that_a_body_compares_with_are_tried() -> None:
    assert built(Chooses)[1] == "Chooses(mode='sum')"


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


class Spread(nn.Module):
    """Only its `forward` would fail for a number."""

    def __init__(self, parts, alpha):
        super().__init__()
        self.parts, self.alpha = parts, alpha

    def forward(self, x):
        return x[:, : sum(self.parts)] * self.alpha


class Looped(nn.Module):
    def __init__(self, rates):
        super().__init__()
        self.rates = rates

    def forward(self, x):
        return [x * rate for rate in self.rates]


class Counted(nn.Module):
    def __init__(self, levels: Any, width: int):
        super().__init__()
        self.count = len(levels) if isinstance(levels, list) else 0
        self.width = width

    def forward(self, x):
        for _ in range(self.width):
            x = x + self.count
        return x


@pytest.mark.parametrize(
    ("cls", "text"),
    [
        (Stages, "Stages(counts=[16, 16])"),
        (Spread, "Spread(parts=[16, 16], alpha=0.1)"),
        (Looped, "Looped(rates=[16, 16])"),
        (Counted, "Counted(levels=[16, 16], width=16)"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_what_is_used_as_a_list_is_guessed_to_be_one(cls: type, text: str) -> None:
    assert next(constructions(cls))[1] == text
