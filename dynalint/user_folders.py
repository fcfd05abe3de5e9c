"""The user's own folders for settings, for state and for what can be computed again.

They are where other programs have theirs: by the XDG base directory specification, on Windows by its own variables. A
repository can neither write there nor put files there by being cloned, so that what is read there is the user's word.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

_NAME = "dynalint"


def config_folder(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder of the user's own settings; None where the user has no home."""
    return _folder("XDG_CONFIG_HOME", ".config", "APPDATA", environment)


def state_folder(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder of what is to be remembered and cannot be computed again; None where the user has no home."""
    return _folder("XDG_STATE_HOME", ".local/state", "LOCALAPPDATA", environment)


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder of what may be deleted at any time; None where the user has no home."""
    folder = _folder("XDG_CACHE_HOME", ".cache", "LOCALAPPDATA", environment)
    return folder / "cache" if folder is not None and os.name == "nt" else folder


def _folder(variable: str, below_home: str, windows: str, environment: Mapping[str, str]) -> Path | None:
    named = environment.get(windows if os.name == "nt" else variable, "")
    # By the specification a relative path counts as not set: it would lead into whatever the working directory is.
    if named and Path(named).is_absolute():
        return Path(named) / _NAME
    try:
        return Path.home() / below_home / _NAME
    except RuntimeError:
        return None
