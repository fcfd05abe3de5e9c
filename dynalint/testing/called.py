"""Confirm the calls that tests make by running each kind of call once under Dynamo. Used by the pytest plugin.

Like `dynalint trace`, this runs in forks of the test process. See `dynalint/confirm/worker/tracing`.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from dynalint.testing.compiles import Demands, fault_of

_POLL = 0.02
# The tests have their own time limits, and dynalint does not add another.
_NO_LIMIT = 1e9


class Called:
    """Watches calls to modules and compiled functions in this process from the moment it is created.

    `root` is the folder with the user's code. Call `close` at the end. Raises ImportError if torch is not installed,
    and DynalintError if the configuration is invalid.
    """

    def __init__(self, root: Path) -> None:
        import torch  # noqa: F401 - without torch there is nothing to watch

        from dynalint.config import Configuration, Overrides
        from dynalint.confirm.client import homes
        from dynalint.confirm.evidence import EvidenceStore
        from dynalint.confirm.temporary import TemporaryFolder
        from dynalint.confirm.worker.sandbox.walls import usable_namespaces
        from dynalint.confirm.worker.tracing import agent
        from dynalint.confirm.worker.tracing.session import Session
        from dynalint.rulebook.catalogue import known_codes

        settings = Configuration(Overrides(), known_codes(), root).for_run([])
        self._temporary = TemporaryFolder()
        self._folder = self._temporary.path
        self._stock = EvidenceStore(self._folder)
        values = {
            "evidence": str(self._stock.folder),
            "roots": [str(root.resolve())],
            "homes": homes(),
            "budget": _NO_LIMIT,
            "seconds": settings.timeout,
            "memory": settings.memory << 20,
            "namespaces": usable_namespaces(self._folder),
            "required": settings.confirm != "always",
            "started": time.time(),
        }
        self._session = Session.create(self._folder, values)
        self._watch: Any = agent.watch(str(self._folder))
        self.confirmed: set[str] = set()

    def begin(self) -> None:
        """Call this at the start of each test."""
        self._watch.touched = set()

    def calls(self) -> frozenset[str]:
        """Return the kinds of calls that were made since the test started."""
        return frozenset(self._watch.touched)

    def faults(self, calls: Collection[str], demands: Demands) -> list[str]:
        """Wait until all calls are confirmed, and return how `calls` violate `demands`."""
        while self._session.waiting():
            time.sleep(_POLL)
        faults = []
        for key in sorted(calls):
            result = self._stock.result(key, {})
            if result is None or result.default is None:
                continue
            self.confirmed.add(key)
            fault = fault_of(result, demands)
            if fault is not None:
                faults.append(f"{result.inputs}: {fault}")
        return faults

    def problems(self) -> tuple[tuple[str, str], ...]:
        """Return the calls that could not be confirmed, with the reasons."""
        from dynalint.confirm.trace import problems_of

        return problems_of(self._session.notes())

    def close(self) -> None:
        """Stop watching, and remove the recorded files."""
        self._watch.off = True
        self._temporary.remove()
