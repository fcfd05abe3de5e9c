"""Settings from `pyproject.toml`, `dynalint.toml`, `DYNALINT_*` variables and the command line."""

from __future__ import annotations

from dynalint.config.load import Configuration, Overrides, environment_layer, inline_layer, parse_layer, show_path
from dynalint.config.selection import Selection, matches
from dynalint.config.settings import OPTIONS, Layer, Settings, split_reserved
from dynalint.config.values import Glob, Selector, nearest

__all__ = [
    "OPTIONS",
    "Configuration",
    "Glob",
    "Layer",
    "Overrides",
    "Selection",
    "Selector",
    "Settings",
    "environment_layer",
    "inline_layer",
    "matches",
    "nearest",
    "parse_layer",
    "show_path",
    "split_reserved",
]
