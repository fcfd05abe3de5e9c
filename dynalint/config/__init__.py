"""Settings from `pyproject.toml`, `dynalint.toml`, `DYNALINT_*` variables and the command line."""

from __future__ import annotations

from dynalint.config.load import Configuration, Overrides, environment_layer, inline_layer, parse_layer, show_path
from dynalint.config.selection import RuleSelection, matches
from dynalint.config.settings import OPTIONS, Settings, SettingsLayer, split_reserved
from dynalint.config.values import Glob, Selector, nearest

__all__ = [
    "OPTIONS",
    "Configuration",
    "Glob",
    "Overrides",
    "RuleSelection",
    "Selector",
    "Settings",
    "SettingsLayer",
    "environment_layer",
    "inline_layer",
    "matches",
    "nearest",
    "parse_layer",
    "show_path",
    "split_reserved",
]
