"""Which projects may have their own configuration start programs, lower walls or name folders to write to.

The user says so once for a project (`dynalint trust`), and the answer holds for what the project asked for then: it is
remembered in the user's own state folder, by the path of the project and a hash of those settings. When they change, or
the project is cloned to another place, the user is asked again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dynalint.errors import DynalintError
from dynalint.reading import read_json
from dynalint.user_folders import state_folder

# Ends a sentence about a setting, and says what to do about it.
UNTRUSTED = (
    "because this project is not trusted; read its configuration and run `dynalint trust`, or pass the "
    "setting on the command line"
)

_NAME = "trusted.json"


@dataclass(frozen=True, slots=True)
class Asked:
    """A reserved setting that a project's own configuration has: its key, its value, and where it was written."""

    key: str
    value: object
    place: str

    @property
    def described(self) -> str:
        """The setting as it might be written."""
        value = self.value if isinstance(self.value, int | float) else f'"{self.value}"'
        return f"`{self.key} = {value}`"


class Trust:
    """What the user has trusted; read once, when it is first asked about."""

    def __init__(self, folder: Path | None = None) -> None:
        """Take the state `folder`; by default the user's own."""
        self._folder = folder or state_folder()
        self._known: dict[str, str] | None = None

    def covers(self, root: Path, asked: Sequence[Asked]) -> bool:
        """Whether the project at `root` was trusted when it asked for just this."""
        return self._trusted().get(_name(root)) == _digest(asked)

    def grant(self, root: Path, asked: Sequence[Asked]) -> None:
        """Remember that the project at `root` may have what it asks for.

        Raises:
            DynalintError: the answer cannot be written down.
        """
        self._keep({**self._trusted(), _name(root): _digest(asked)})

    def revoke(self, root: Path) -> bool:
        """Forget about the project at `root`; say whether it was trusted.

        Raises:
            DynalintError: that cannot be written down.
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
        from dynalint.confirm.cache import write_atomically

        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(self._folder / _NAME, json.dumps(known, indent=1).encode())
        except OSError as fault:
            text = f"cannot store trust in {self._folder / _NAME}: {fault.strerror or fault}."
            raise DynalintError(text) from fault
        self._known = known


def _read(file: Path) -> dict[str, str]:
    """Return what a file remembers; what is malformed trusts nobody."""
    try:
        held = read_json(file)
    except (OSError, ValueError):
        return {}
    return {str(root): str(digest) for root, digest in held.items()} if isinstance(held, dict) else {}


def _name(root: Path) -> str:
    return os.path.realpath(root)


def _digest(asked: Sequence[Asked]) -> str:
    """Return a hash of what is asked for; where in a file it stands makes no difference."""
    listed = [[one.key, str(one.value)] for one in asked]
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest()
