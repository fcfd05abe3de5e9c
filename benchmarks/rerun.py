"""Run a file and its rewritten version, compare results in eager mode exactly, and list the remaining graph breaks.

    python benchmarks/rerun.py ORIGINAL.py REWRITTEN.py [ORIGINAL.py REWRITTEN.py]... [--cases TESTCASES]

A file lists its cases in a global, as tuples. The first three items are a module class or function, a function that
returns its constructor arguments as a list and a dict (None for a function), and a function that returns the arguments
of a call in the same form. Further items are ignored. Results, gradients, state, exceptions, output and random state
are compared over three calls in evaluation mode and three in training mode. Differences that also occur between two
runs of the original, for example because of uninitialized memory, are reported separately. The output is a line of JSON
for each pair of files, which have a process of their own. `fixes.py` runs this for the files that it changes.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import multiprocessing
import random
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from dynalint.confirm.worker.comparing.differences import Equality, difference
from dynalint.confirm.worker.comparing.observing import observe
from dynalint.confirm.worker.dynamo.runs import Call, clone_inputs, default_run, force_eager, fresh_callable

CALLS = 3
SECONDS = 300


class Case:
    """A case in one of the two files."""

    def __init__(self, module: ModuleType, position: int, listed: Iterable[Any]) -> None:
        self._run, self._made_from, self._called_with, *_ = listed
        self._module = module
        self.name = f"{position}:{getattr(self._run, '__name__', self._run)}"

    def make(self) -> Callable[..., Any]:
        """Return a new instance of the callable."""
        if self._made_from is None:
            return self._run  # type: ignore[no-any-return]
        args, kwargs = self._made_from()
        return self._run(*args, **kwargs)  # type: ignore[no-any-return]

    def calls(self) -> list[Call]:
        """Return the arguments of each call, which are the same in every run."""
        torch.manual_seed(1)
        random.seed(1)
        return [(tuple(args), kwargs) for args, kwargs in (self._called_with() for _ in range(CALLS))]


def load(path: Path, name: str, cases: str) -> list[Case]:
    """Import a file under a name, replacing any other module with that name, and return its cases."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return [Case(module, position, listed) for position, listed in enumerate(getattr(module, cases, ()))]


def different(one: Case, other: Case, *, training: bool) -> tuple[str | None, bool]:
    """Return the difference between the two versions of a case, and whether the original returned at all."""
    functions = [fresh_callable(case.make) for case in (one, other)]
    for function in functions:
        if isinstance(function, torch.nn.Module):
            function.train(training)
    returned = False
    for seed, (left, right) in enumerate(zip(one.calls(), other.calls(), strict=True)):
        with force_eager():
            seen = [
                observe(function, function, clone_inputs(call), seed, training=training)
                for function, call in zip(functions, (left, right), strict=True)
            ]
        returned = returned or seen[0].error is None
        found = difference(seen[0], seen[1], Equality())
        if found is not None:
            return f"{'training' if training else 'eval'}, call {seed + 1}: {found}", returned
    return None, returned


def broken(case: Case, path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and kind of each graph break in a case, taken from its innermost frame in the file."""

    def make() -> Callable[..., Any]:
        function = case.make()
        return function.eval() if isinstance(function, torch.nn.Module) else function

    with torch.no_grad():
        run = default_run(make, case.calls())
    for one in run.breaks:
        lines = [frame.line for frame in one.stack if Path(frame.file) == path]
        if lines:
            yield lines[-1], one.gb_type


def rerun(original: Path, rewritten: Path, cases: str) -> dict[str, Any]:
    """Compare two files case by case."""
    name = original.stem
    pairs = list(zip(load(original, name, cases), load(rewritten, name, cases), strict=True))
    differences, unstable, ran = [], set(), 0
    for one, other in pairs:
        for training in (False, True):
            try:
                found, returned = different(one, other, training=training)
                if found is not None and different(one, one, training=training)[0] is not None:
                    unstable.add(one.name)
                    found = None
            except Exception as fault:  # noqa: BLE001 - what cannot be made says nothing
                differences.append([one.name, None, f"{type(fault).__name__}: {fault}"[:200]])
                break
            ran += returned and not training
            if found is not None:
                differences.append([one.name, found, None])
    return {
        "cases": len(pairs),
        "ran": ran,
        "different": [[name, found] for name, found, _ in differences if found is not None],
        "unstable": sorted(unstable),
        "failed": [[name, fault] for name, _, fault in differences if fault is not None],
        "before": sorted({seen for one, _ in pairs for seen in broken(one, original)}),
        "after": sorted({seen for _, other in pairs for seen in broken(other, rewritten)}),
    }


def answer(original: Path, rewritten: Path, cases: str, sink: Connection) -> None:
    """Send the result of comparing a pair of files, or the error that prevented it."""
    warnings.simplefilter("ignore")
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            found = rerun(original, rewritten, cases)
    except BaseException as fault:  # noqa: BLE001 - the code may raise what it will
        found = {"fault": f"{type(fault).__name__}: {fault}"[:300]}
    sink.send(found)


def answered(original: Path, rewritten: Path, cases: str) -> dict[str, Any]:
    """Compare a pair of files in a fork of this process, which has already imported torch."""
    source, sink = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=answer, args=(original, rewritten, cases, sink))
    child.start()
    sink.close()
    try:
        found: dict[str, Any] = source.recv() if source.poll(SECONDS) else {"fault": f"longer than {SECONDS} seconds"}
    except EOFError:
        found = {"fault": "the process ended"}
    child.kill()
    child.join()
    return found


def main() -> None:
    """Print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--cases", default="TESTCASES", help="the global name of the list (default: TESTCASES)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    files = [file.resolve() for file in options.files]
    for original, rewritten in zip(files[::2], files[1::2], strict=True):
        print(json.dumps(answered(original, rewritten, options.cases)), flush=True)


if __name__ == "__main__":
    main()
