"""Files in a cache folder. They are written atomically, checked when read, and limited in number and size."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from dynalint.projects.reading import MOST_NOTEBOOK_BYTES, read_bounded

# If a temporary file is older than this many seconds, no run is still using it.
_LONGEST_WRITE = 3600.0


def make_folder(folder: Path) -> None:
    """Create a cache folder, with a `.gitignore` next to it.

    Raises:
        OSError: If the folder cannot be created, or the path is a symbolic link, which could redirect what is written.
    """
    if folder.is_symlink():
        raise OSError(errno.ELOOP, "it is a symbolic link", str(folder))
    folder.mkdir(parents=True, exist_ok=True)
    marker = folder.parent / ".gitignore"
    if not marker.exists():
        marker.write_text("*\n", encoding="utf-8")


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a concurrent run never sees an incomplete file."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".tmp-")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise


class Records:
    """JSON values in a folder, each in a file with a checksum. The least recently used ones are removed first.

    At most `most` files and `most_bytes` bytes are kept. If `folder` is None, nothing is stored.
    """

    def __init__(self, folder: Path | None, most: int, most_bytes: int) -> None:
        self._folder, self._most, self._most_bytes = folder, most, most_bytes

    def get(self, key: str) -> Any:
        """Return the value stored under `key`, or None if there is no value or it is damaged."""
        if self._folder is None:
            return None
        path = self._folder / f"{key}.json"
        try:
            checksum, _, body = read_bounded(path, MOST_NOTEBOOK_BYTES).partition(b"\n")
            value = json.loads(body) if checksum == _checksum(body) else None
        except (OSError, ValueError, RecursionError):
            return None
        with contextlib.suppress(OSError):  # A read-only folder can still be read.
            os.utime(path)
        return value

    def put(self, key: str, value: Any) -> None:
        """Store `value` under `key`. Do nothing if the folder is not writable or the value is too large."""
        body = json.dumps(value, separators=(",", ":")).encode()
        if self._folder is None or len(body) > min(self._most_bytes, MOST_NOTEBOOK_BYTES) // 2:
            return
        with contextlib.suppress(OSError):
            make_folder(self._folder)
            write_atomically(self._folder / f"{key}.json", b"%b\n%b" % (_checksum(body), body))
            self._make_room()

    def _make_room(self) -> None:
        """Remove the files that exceed the limits, and any temporary files left behind by runs that were killed."""
        assert self._folder is not None
        with os.scandir(self._folder) as found:
            known = sorted(((one.stat().st_mtime, one.stat().st_size, one.path) for one in found), reverse=True)
        room, oldest = self._most_bytes, time.time() - _LONGEST_WRITE
        left_over = [path for changed, _, path in known if not path.endswith(".json") and changed < oldest]
        for index, (_, size, path) in enumerate(one for one in known if one[2].endswith(".json")):
            room -= size
            left_over += [path] if index >= self._most or room < 0 else []
        for path in left_over:
            with contextlib.suppress(OSError):  # A concurrent run has removed it.
                Path(path).unlink()


def _checksum(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode()
