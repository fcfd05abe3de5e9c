"""The cache keys for the worker's answers: everything that an answer depends on except the files that ran."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dynalint.confirm.client import Hello, python_path
from dynalint.confirm.options import ConfirmOptions, Target
from dynalint.confirm.servers import worker_hash


class Questions:
    """Builds the cache keys for a run. `compare` lists the files whose compiled code is compared with eager code."""

    def __init__(self, options: ConfirmOptions, compare: Sequence[str]) -> None:
        self._options = options
        self._compare = compare

    def about(self, target: Target, hello: Hello) -> dict[str, Any]:
        """Return the cache key for a target that the worker builds and calls."""
        return {
            **self.circumstances(hello),
            "target": [str(target.path), target.module, target.qualname],
            "example": self._options.example_for(target),
        }

    def circumstances(self, hello: Hello) -> dict[str, Any]:
        """Return the part of the key that is the same for all questions to a worker."""
        options = self._options
        return {
            "search": [*map(str, options.search), *python_path()],
            "python": [str(options.python), hello.python],
            "torch": hello.torch,
            "device": options.device,
            "limits": [options.timeout, options.memory],
            "compare": self._compare,
            "dynalint": worker_hash(),
        }
