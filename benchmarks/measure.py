"""Create the truth for `accuracy.py` by running the models in a corpus with Dynamo and recording what it does.

    python benchmarks/measure.py CORPUS TRUTH.jsonl [--python PATH] [--confirm]

CORPUS is a folder of code. Each module class and compiled function in it is built and called in the same way as
`dynalint check` does to confirm a finding. It is called three times with the same shapes, in the same sandbox, with the
examples that the configuration declares or, without any, with inputs generated from annotations and layers. README.md
in this folder describes the format of TRUTH. If something cannot be run, it has the status `not-run` with the reason,
and does not count for or against the static check.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dynalint.config import Configuration, Overrides, environment_layer, parse_layer
from dynalint.confirm import WorkerError, run_targets
from dynalint.confirm.results import TargetResult
from dynalint.confirming import confirm_options, targets
from dynalint.linting.lint import Linter
from dynalint.projects.workspace import open_workspace
from dynalint.rulebook.catalogue import known_codes
from dynalint.rules import all_rules


def main(arguments: Sequence[str]) -> int:
    """Measure a corpus and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("truth", type=Path)
    parser.add_argument("--python", help="the interpreter, with torch, that runs the code")
    parser.add_argument("--confirm", action="store_true", help="run the code even where no sandbox holds")
    options = parser.parse_args(arguments)
    corpus = options.corpus.resolve()
    if not corpus.is_dir():
        parser.error(f"{options.corpus} is no folder")
    try:
        results = measure(corpus, python=options.python, always=options.confirm)
    except WorkerError as fault:
        print(f"measure: {fault}", file=sys.stderr)
        return 2
    records = [record for result in results for record in records_of(result, corpus)]
    options.truth.write_text("".join(json.dumps(record) + "\n" for record in records))
    ran = sum(record["status"] != "not-run" for record in records)
    breaks = sum(len(record["breaks"]) for record in records)
    print(f"{len(results)} targets, {ran} records of what ran, {breaks} graph breaks -> {options.truth}")
    return 0


def measure(corpus: Path, *, python: str | None, always: bool) -> list[TargetResult]:
    """Run everything in a corpus that can be run.

    Raises:
        WorkerError: If no code can be run at all.
    """
    values: dict[str, Any] = {"confirm": "always" if always else "auto", **({"python": python} if python else {})}
    layers = (environment_layer(os.environ, corpus), parse_layer(values, corpus, lambda _: "the command line"))
    configuration = Configuration(Overrides(layers), known_codes(), corpus)
    workspace, _ = open_workspace([corpus], configuration, corpus)
    result = Linter(workspace, all_rules()).lint()
    return run_targets(
        targets(workspace, result),
        workspace.files,
        confirm_options(workspace, result.analysis.project.roots),
        _progress,
    )


def records_of(result: TargetResult, corpus: Path) -> Iterator[dict[str, Any]]:
    """Yield a record for each file in the corpus that a target ran."""
    own = result.target.path
    if result.eager is None or result.default is None:
        reason = result.problem.failure.message if result.problem and result.problem.failure else "did not end"
        yield _record(own, corpus, result, status="not-run", reason=" ".join(reason.split()))
        return
    failed = result.default.error is not None
    for name, lines in result.eager.lines.items():
        path = Path(name)
        if lines and path.is_relative_to(corpus):
            record = _record(path, corpus, result, status="compile-fail" if failed else "ok", lines=list(lines))
            record["breaks"] = list(_breaks(result, name))
            if path == own:
                record["graphs"] = list(result.default.graphs[: result.same])
            yield record


def _record(path: Path, corpus: Path, result: TargetResult, **values: Any) -> dict[str, Any]:
    file = path.relative_to(corpus).as_posix() if path.is_relative_to(corpus) else str(path)
    name = result.target.qualname if path == result.target.path else "*"
    return {"file": file, "cls": name, "breaks": [], **values}


def _breaks(result: TargetResult, file: str) -> Iterator[dict[str, Any]]:
    """Yield the breaks whose innermost frame in the corpus is in the given file."""
    assert result.default is not None
    seen = set()
    for one in result.default.breaks:
        measured = [frame for frame in one.stack if frame.file in result.eager.lines] if result.eager else []
        if not measured or measured[-1].file != file:
            continue
        frames = tuple((frame.line, frame.function) for frame in measured if frame.file == file)
        if (one.gb_type, frames) not in seen:
            seen.add((one.gb_type, frames))
            yield {"gb": one.gb_type, "id": one.gb, "reason": one.reason, "frames": [list(frame) for frame in frames]}


def _progress(done: int, total: int, what: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{done}/{total} {what[:60]:60}", end="\n" if done == total else "", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
