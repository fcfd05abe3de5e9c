"""Requests to the worker: how to run, and what to import, build and call. Cache keys for the answers."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dynalint.confirm.client import Hello, WorkerOptions, python_path
from dynalint.confirm.options import ConfirmOptions, Target
from dynalint.confirm.servers import worker_hash


def worker_options(options: ConfirmOptions) -> WorkerOptions:
    """Return the worker's options."""
    return WorkerOptions(
        python=options.python,
        search=tuple(map(str, options.search)),
        seconds=options.timeout,
        memory=options.memory,
        device=options.device,
        required=options.mode != "always",
        cwd=options.project,
        budget=options.budget,
    )


def request_for(target: Target, options: ConfirmOptions, calls: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Return the information that the worker needs to import, build and call a target.

    `calls` are the project's recorded calls to the target, best first.
    """
    return {
        "name": target.path.name,
        "target": {"path": str(target.path), "module": target.module, "qualname": target.qualname},
        "example": options.example_for(target),
        "calls": list(calls),
        "guesses": "guesses" in options.confirm_from,
        "folder": str(options.project),
        "search": [str(folder) for folder in options.search],
        "overrides": {os.path.realpath(path): text for path, text in options.overrides.items()},
        "roots": [str(root) for root in options.own_roots()],
        "device": options.device,
        "seconds": options.timeout,
    }


def circumstances(options: ConfirmOptions, hello: Hello, compare: Collection[str]) -> dict[str, Any]:
    """Return all that any answer of a worker depends on, except the files that ran.

    `compare` lists the files whose compiled code is compared with eager code.
    """
    return {
        "search": [*map(str, options.search), *python_path()],
        "python": [str(options.python), hello.python],
        "torch": hello.torch,
        "device": options.device,
        "limits": [options.timeout, options.memory],
        "compare": compare,
        "dynalint": worker_hash(),
    }
