"""The user's own folders for settings, state and caches.

They follow the XDG base directory specification. On Windows, they follow the system's own variables. A repository
cannot place files there, even by being cloned, so their contents can be trusted.
"""

from __future__ import annotations

import os
from pathlib import Path

_NAME = "dynalint"


def config_folder() -> Path | None:
    """Return the folder for the user's settings, or None if the user has no home directory."""
    return _folder("XDG_CONFIG_HOME", ".config", "APPDATA")


def state_folder() -> Path | None:
    """Return the folder for data that must be kept, or None if the user has no home directory."""
    return _folder("XDG_STATE_HOME", ".local/state", "LOCALAPPDATA")


def cache_folder() -> Path | None:
    """Return the folder for data that can be deleted at any time, or None if the user has no home directory."""
    folder = _folder("XDG_CACHE_HOME", ".cache", "LOCALAPPDATA")
    return folder / "cache" if folder is not None and os.name == "nt" else folder


def _folder(variable: str, below_home: str, windows: str) -> Path | None:
    named = os.environ.get(windows if os.name == "nt" else variable, "")
    # According to the specification, a relative path is ignored. It would depend on the working directory.
    if named and Path(named).is_absolute():
        return Path(named) / _NAME
    try:
        return Path.home() / below_home / _NAME
    except RuntimeError:
        return None
