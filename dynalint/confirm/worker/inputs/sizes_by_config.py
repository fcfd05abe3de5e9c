"""Derive the sizes of images split into patches from a module's config."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from .small_configs import value_of
from .tensor_shapes import TensorSpec

# The side of an image in patches. It must be divisible by two and four, because some code merges patches.
_PATCHES = 4
_GRID = re.compile(r"(\w+_)?grid_(t?)hw")


def packed(settings: Any, names: Iterable[str]) -> Mapping[str, TensorSpec]:
    """Return specs for an image split into patches, if one of the parameters is a grid of patches.

    Each patch is a row of numbers, and there are as many rows as grid cells. They are passed to the parameter for
    images, or else to the first parameter. Returns nothing if there is no grid parameter or the config has no patch
    size.
    """
    names = list(names)
    grids = {name: match for name in names if (match := _GRID.fullmatch(name)) is not None}
    patch = _side(_first(settings, "patch_size"))
    others = [name for name in names if name not in grids]
    if not grids or patch is None or not others:
        return {}
    channels = _first(settings, "num_channels", "in_channels", "in_chans") or 3
    timed = any(match[2] for match in grids.values())
    frames = _side(_first(settings, "temporal_patch_size")) or 1
    taking = next((name for name in others if "pixel" in name or "image" in name), others[0])
    found = {taking: TensorSpec((_PATCHES**2, channels * (frames if timed else 1) * patch**2))}
    for name, match in grids.items():
        row = (*([1] if match[2] else []), _PATCHES, _PATCHES)
        found[name] = TensorSpec((1, len(row)), "int", rows=(row,))
    return found


def _first(settings: Any, *names: str) -> Any:
    return next((value for name in names if (value := value_of(settings, name)) is not None), None)


def _side(value: Any) -> int | None:
    if isinstance(value, (list, tuple)) and value:
        value = value[-1]
    return value if type(value) is int else None
