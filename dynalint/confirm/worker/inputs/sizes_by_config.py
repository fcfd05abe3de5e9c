"""Input sizes given by a module's config: for images, whole or in patches, and for audio."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from .guessed_values import BATCH
from .small_configs import value_of
from .tensor_shapes import Specs, TensorSpec

# Images are large, so a batch has two of them, which show as much as five.
_PAIR = 2
# The side of an image in patches. It must be divisible by two and four, because some code merges patches.
_PATCHES = 4
_GRID = re.compile(r"(\w+_)?grid_(t?)hw")


def sized_by(settings: Any, name: str) -> TensorSpec | None:
    """Return the size that the config gives for a parameter: images, audio and their features."""

    def size(*names: str) -> Any:
        return _first(settings, *names)

    if re.search(r"(^|_)(pixel_values|images?|img)", name):
        side = size("image_size", "img_size", "input_size")
        if type(side) is int:
            side = (side, side)
        if side is not None and len(side) == 2:
            channels, frames = size("num_channels", "in_channels", "in_chans") or 3, size("num_frames")
            return TensorSpec((_PAIR, *([frames] if type(frames) is int else []), channels, *side))
    if name == "input_values" and size("conv_kernel", "conv_stride") is not None:
        return TensorSpec((_PAIR, 4000))
    if name in ("input_features", "input_values", "spectrogram"):
        features = size("num_mel_bins", "feature_size", "input_feat_per_channel")
        if type(features) is int:
            positions = size("max_source_positions")
            length = 2 * positions if type(positions) is int else size("max_length") or 64
            return TensorSpec((_PAIR, features, length) if type(positions) is int else (_PAIR, length, features))
    return None


def packed(settings: Any, names: Iterable[str]) -> Mapping[str, TensorSpec]:
    """Return specs for one image cut into patches, if a parameter is the grid of patches.

    Each patch is a row of numbers, and there are as many rows as grid cells. They are passed to the parameter for
    images, or else to the first. Returns nothing if there is no grid parameter, or the config has no patch size.
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


def in_pairs(specs: Specs) -> Specs:
    """Reduce the batch of other tensors to two if images or audio have a batch of two."""
    tensors = {name: spec for name, spec in specs.items() if isinstance(spec, TensorSpec) and len(spec.shape) > 1}
    if not any(spec.shape[0] == _PAIR for spec in tensors.values()):
        return specs
    fives = {name: spec for name, spec in tensors.items() if spec.shape[0] == BATCH}
    return {**specs, **{name: replace(spec, shape=(_PAIR, *spec.shape[1:])) for name, spec in fives.items()}}


def _first(settings: Any, *names: str) -> Any:
    return next((value for name in names if (value := value_of(settings, name)) is not None), None)


def _side(value: Any) -> int | None:
    if isinstance(value, (list, tuple)) and value:
        value = value[-1]
    return value if type(value) is int else None
