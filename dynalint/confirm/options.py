"""The options for `confirm`: how to run code, and which code to run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from dynalint.confirm.budget import TimeBudget
from dynalint.confirm.executors import LOCAL, Executor
from dynalint.confirm.shards import Answers
from dynalint.confirm.worker.source.loading import is_below


@dataclass(frozen=True, order=True)
class Target:
    """A compiled root, which is a class or function given by its file and qualified name.

    `module` is the dotted name to import the file by, or empty for a script that is not part of a package.
    """

    path: Path
    module: str
    qualname: str

    @property
    def name(self) -> str:
        """The target's name in the configuration: "package.module:Class", or "file.py:Class" for a script."""
        return f"{self.module or self.path.name}:{self.qualname}"


@dataclass(frozen=True)
class Execution:
    """The resources for running code: a budget of processor time, answers from other machines, and an executor."""

    budget: TimeBudget | None = None
    answers: Answers | None = None
    executor: Executor = LOCAL


@dataclass(frozen=True)
class ConfirmOptions(Execution):
    """How code is run.

    `mode` is `auto` (run only in a sandbox) or `always`. `python` is the worker's interpreter, which has torch.
    `timeout` is in seconds per target, and `memory` is in bytes. `examples` maps targets, named as in `Target.name` or
    as "path/below/project.py:Class", to functions that return (callable, args) or (callable, args, kwargs). The names
    of examples and code are relative to the folder `project`, and the paths in findings are relative to `directory`.
    `search` lists folders to import from, and `roots` lists the folders or files with the user's own code. `overrides`
    maps files to source text that runs instead of their contents. `cache` is the cache folder, or None to store
    nothing.

    At most `jobs` workers run at once, and all of them stop when the `budget`, if there is one, is used up.
    `confirm_from` lists where to find calls for targets without a declared example. `answers` are the answers in a run
    that is split over machines. `executor` starts the workers.
    """

    mode: Literal["auto", "always"] = "auto"
    python: Path = Path(sys.executable)
    timeout: float = 60.0
    memory: int = 4 << 30
    device: str = "cpu"
    examples: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    project: Path = field(default_factory=Path.cwd)
    directory: Path = field(default_factory=Path.cwd)
    search: tuple[Path, ...] = ()
    roots: tuple[Path, ...] = ()
    overrides: Mapping[Path, str] = field(default_factory=lambda: MappingProxyType({}))
    cache: Path | None = None
    confirm_from: tuple[str, ...] = ("tests", "docs", "guesses")
    jobs: int = 1

    def example_for(self, target: Target) -> str | None:
        """Return the function that the user declared for a target, or None."""
        names = [target.name]
        if target.path.is_relative_to(self.project):
            names.append(f"{target.path.relative_to(self.project).as_posix()}:{target.qualname}")
        return next((self.examples[name] for name in names if name in self.examples), None)

    def own_roots(self) -> tuple[Path, ...]:
        """Return the resolved folders and files with the user's own code, which are the project and `roots`."""
        return tuple(dict.fromkeys(Path(os.path.realpath(path)) for path in (self.project, *self.roots)))

    def is_own(self, path: str) -> bool:
        """Return whether `path`, which must be resolved, is the user's own code. Python's frozen modules are not."""
        return not Path(path).name.startswith("<frozen ") and any(
            is_below(Path(path), root) for root in self.own_roots()
        )

    def is_own_file(self, path: str) -> bool:
        """Return whether a path reported by a worker is resolved and belongs to the user's own code."""
        return self.is_own(path) and "\0" not in path and os.path.realpath(path) == path


def resolved(targets: Iterable[Target]) -> dict[Target, None]:
    """Return the targets with resolved paths and without duplicates."""
    return dict.fromkeys(replace(target, path=Path(os.path.realpath(target.path))) for target in targets)
