"""Calls written as data: what is made again is the same, and made by the code that is imported where it is made."""

from __future__ import annotations

import enum
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from dynalint.confirm.worker.harvesting.recipes import Constructions, NoRecipeError, maker_of, recipe_of
from dynalint.confirm.worker.source.versions import Version

pytestmark = pytest.mark.dynamo


class Kind(enum.Enum):
    FIRST = "first"


class Pair(NamedTuple):
    one: int
    other: list[int]


@dataclass
class Batch:
    pos: torch.Tensor
    names: tuple[str, ...]


class Slotted:
    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        self.size = size


class Part(nn.Module):
    def __init__(self, sizes: list[int]) -> None:
        super().__init__()
        self.linear = nn.Linear(sizes.pop(), 2)


class Whole(Part):
    def __init__(self, sizes: list[int], *, part: nn.Module, activation: Callable[..., Any]) -> None:
        super().__init__(sizes)
        self.part, self.activation = part, activation


def again(*values: Any, constructions: Constructions | None = None) -> tuple[Any, ...]:
    """Return the values of a call after its recipe was made again."""
    _, (args, kwargs) = maker_of(recipe_of(print, (values, {}), constructions or Constructions()))
    assert kwargs == {}
    return args


VALUES = [
    None, True, -3, 1 << 80, 0.1, float("inf"), "a\0\u202eb\n", b"\0\1", [1, [2.5]], (1, ()), {"a": {1: (2,)}}, {1, 2},
    slice(1, None), 1 + 2j, range(3), torch.float16, torch.device("cpu"), torch.Size((2, 3)), torch.channels_last,
    Kind.FIRST, Pair(1, [2]), OrderedDict(a=1), Path("a"), nn.Linear, torch.relu, torch.nn.functional.relu, len,
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_is_made_again(value: object) -> None:
    (made,) = again(value)
    assert made == value
    assert type(made) is type(value)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(2, 3),
        torch.randn(()),
        torch.empty(0, 3),
        torch.tensor([True, False]),
        torch.tensor([[1, 5], [2, -1]]),
        torch.randn(3).bfloat16(),
        torch.randn(2, dtype=torch.complex64).conj(),
        torch.randn(4, 3).t(),
        torch.zeros(1 << 20),
        nn.Parameter(torch.randn(2)),
        torch.randn(2).requires_grad_(),
    ],
    ids=lambda tensor: f"{tensor.dtype}{list(tensor.shape)}",
)
def test_a_tensor_has_the_same_values(tensor: torch.Tensor) -> None:
    (made,) = again(tensor)
    assert type(made) is type(tensor)
    assert (made.dtype, made.requires_grad) == (tensor.dtype, tensor.requires_grad)
    assert torch.equal(made, tensor)


def test_a_large_tensor_has_values_of_the_same_range() -> None:
    numbers, indices = torch.randn(1 << 16), torch.randint(3, 9, (1 << 18,))
    one, other = again(numbers, indices)
    assert one.shape == numbers.shape
    assert numbers.min() <= one.min() < one.max() <= numbers.max()
    assert set(other.tolist()) == set(range(3, 9))


def test_objects_are_made_as_copies_are() -> None:
    batch, slotted, rooted, given = again(Batch(torch.ones(2), ("a",)), Slotted(3), partial(torch.add, 1), [Slotted(1)])
    assert (batch.names, batch.pos.tolist()) == (("a",), [1, 1])
    assert (slotted.size, rooted(torch.ones(1)).item(), given[0].size) == (3, 2, 1)


def test_a_module_is_made_by_its_constructor() -> None:
    """With the arguments as they were before the constructor changed them, and the parts made by theirs."""
    known = Constructions()
    originals = {cls: vars(cls)["__init__"] for cls in (Part, Whole)}
    try:
        known.watch([__file__])
        whole = Whole([3, 4], part=Part([5]), activation=torch.relu).eval()
        make, _ = maker_of(recipe_of(whole, ((), {}), known))
        made: Any = make()
        assert (type(made), made.linear.in_features, made.part.linear.in_features) == (Whole, 4, 5)
        assert (made.activation, made.training, made.part.training) == (torch.relu, False, False)
        assert made is not make()
        # An instance that no constructor made, as a copy is, has the state of the original.
        del known
        (copied,) = again(whole)
        assert torch.equal(copied.part.linear.weight, whole.part.linear.weight)
    finally:
        for cls, original in originals.items():
            cls.__init__ = original  # type: ignore[method-assign]


@pytest.mark.parametrize(
    "value",
    [lambda: 1, threading.Lock(), (one for one in ()), torch.ones(2).to_sparse(), os.urandom(1 << 20)],
    ids=["lambda", "lock", "generator", "sparse", "long"],
)
def test_what_cannot_be_made_again_is_declined(value: object) -> None:
    with pytest.raises(NoRecipeError):
        again(value)


def test_what_is_defined_in_a_script_is_declined() -> None:
    thing = type("Thing", (), {"__module__": "__main__"})
    with pytest.raises(NoRecipeError, match="`Thing` cannot be imported by its name"):
        again(thing())


def test_each_version_of_the_code_makes_its_own(tmp_path: Path) -> None:
    path = tmp_path / "recipe_of_versions.py"
    text = "class Thing:\n    def __call__(self): return 1\n"
    path.write_text(text)
    one, other = (Version([str(tmp_path)], [], {str(path): text.replace("1", number)}) for number in ("1", "2"))
    with one.active():
        import recipe_of_versions  # type: ignore[import-not-found]

        recipe = recipe_of(recipe_of_versions.Thing(), ((), {}), Constructions())
    for version, number in ((one, 1), (other, 2)):
        with version.active():
            make, _ = maker_of(recipe)
            assert make()() == number
