"""Projects whose own configuration can start programs, weaken the sandbox or choose folders to write to.

The user allows this once per project (`dynalint trust`), for the settings that the project has at that time. The
decision is stored in the user's state folder, keyed by the project's path and a hash of those settings. If the settings
change, or the project is cloned to another path, the user is asked again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dynalint.errors import DynalintError
from dynalint.projects.reading import read_json
from dynalint.projects.user_folders import state_folder

# The end of a sentence about a setting. It tells the user what to do.
UNTRUSTED = (
    "because this project is not trusted; read its configuration and run `dynalint trust`, or pass the "
    "setting on the command line"
)

_NAME = "trusted.json"


@dataclass(frozen=True, slots=True)
class RequestedSetting:
    """A reserved setting in a project's own configuration: its key, its value, and where it was written."""

    key: str
    value: object
    place: str

    @property
    def described(self) -> str:
        """The setting as it is written in a configuration file."""
        value = self.value if isinstance(self.value, int | float) else f'"{self.value}"'
        return f"`{self.key} = {value}`"


class Trust:
    """The user's trust decisions, read on first use."""

    def __init__(self) -> None:
        self._folder = state_folder()
        self._known: dict[str, str] | None = None

    def covers(self, root: Path, asked: Sequence[RequestedSetting]) -> bool:
        """Return whether the project at `root` is trusted with exactly these settings."""
        return self._trusted().get(_name(root)) == _digest(asked)

    def grant(self, root: Path, asked: Sequence[RequestedSetting]) -> None:
        """Trust the project at `root` with the settings that it asks for.

        Raises:
            DynalintError: If the decision cannot be stored.
        """
        self._keep({**self._trusted(), _name(root): _digest(asked)})

    def revoke(self, root: Path) -> bool:
        """Revoke trust in the project at `root`. Return whether it was trusted.

        Raises:
            DynalintError: If the decision cannot be stored.
        """
        known = dict(self._trusted())
        if known.pop(_name(root), None) is None:
            return False
        self._keep(known)
        return True

    def _trusted(self) -> Mapping[str, str]:
        if self._known is None:
            self._known = {} if self._folder is None else _read(self._folder / _NAME)
        return self._known

    def _keep(self, known: dict[str, str]) -> None:
        if self._folder is None:
            raise DynalintError("trust cannot be stored: this user has no home folder; set XDG_STATE_HOME.")
        from dynalint.caching.folders import write_atomically

        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(self._folder / _NAME, json.dumps(known, indent=1).encode())
        except OSError as fault:
            text = f"cannot store trust in {self._folder / _NAME}: {fault.strerror or fault}."
            raise DynalintError(text) from fault
        self._known = known


def _read(file: Path) -> dict[str, str]:
    """Return the decisions stored in a file. If the file is malformed, no project is trusted."""
    try:
        held = read_json(file)
    except (OSError, ValueError):
        return {}
    return {str(root): str(digest) for root, digest in held.items()} if isinstance(held, dict) else {}


def _name(root: Path) -> str:
    return os.path.realpath(root)


def _digest(asked: Sequence[RequestedSetting]) -> str:
    """Return a hash of the settings that does not depend on where they are written."""
    listed = [[one.key, str(one.value)] for one in asked]
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest()
