"""The verdicts from the last confirmed check. They are stored for the editor, which does not run code as you type."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from dynalint.adoption.fingerprints import repository_path
from dynalint.findings import Evidence, Finding
from dynalint.projects.reading import read_json

_NAME = "findings.json"


class LastVerdicts:
    """Evidence by fingerprint, stored in the cache folder. If the folder is None, nothing is stored.

    Like everywhere in the cache, files that cannot be read or written count as missing.
    """

    def __init__(self, cache: Path | None) -> None:
        self._file = None if cache is None else cache / "last" / _NAME
        self._by_path = self._read()

    def _read(self) -> dict[str, dict[str, Any]]:
        if self._file is None:
            return {}
        try:
            held = read_json(self._file)
        except (OSError, ValueError):
            return {}
        return held if isinstance(held, dict) else {}

    def of(self, path: str, fingerprint: str) -> Evidence | None:
        """Return the evidence for a finding. `path` is relative to the repository root."""
        try:
            return Evidence(**self._by_path[path][fingerprint])
        except (KeyError, TypeError):
            return None

    def keep(self, findings: Sequence[Finding], paths: Collection[str], folder: str) -> None:
        """Store the evidence from a run over `paths`, replacing what was stored for these files."""
        if self._file is None:
            return
        from dynalint.caching.folders import make_folder, write_atomically

        known: dict[str, dict[str, Any]] = {path: held for path, held in self._by_path.items() if path not in paths}
        for finding in findings:
            if finding.evidence.status != "static":
                held = known.setdefault(repository_path(finding.path, folder), {})
                held[finding.fingerprint] = finding.evidence.to_json()
        with contextlib.suppress(OSError):
            make_folder(self._file.parent)
            write_atomically(self._file, json.dumps(known).encode())
