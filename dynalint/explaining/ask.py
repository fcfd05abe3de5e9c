"""Ask the worker to explain a target."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from dynalint.confirm import ConfirmOptions, Target, WorkerError
from dynalint.confirm.client import Answer, Worker
from dynalint.confirm.harvest import ProjectCalls
from dynalint.confirm.requests import request_for, worker_options
from dynalint.confirm.results import Problem
from dynalint.confirm.wording import problem_text
from dynalint.confirm.worker.dynamo import graph_records as told
from dynalint.confirm.worker.dynamo import records
from dynalint.confirm.worker.dynamo.records import decode
from dynalint.explaining.builder import ExplanationBuilder
from dynalint.explaining.model import Advice, Explanation
from dynalint.explaining.target import own_folder
from dynalint.projects.workspace import Workspace


class NotExplainedError(WorkerError):
    """The target could not be run to completion. The message explains why and what to do."""


def explain(
    target: Target,
    options: ConfirmOptions,
    workspace: Workspace,
    on_stage: Callable[[str], None] | None = None,
    *,
    advise: bool = True,
) -> Explanation:
    """Run a target in the worker and return everything that is known about its graphs.

    If `advise` is true, also try out remedies.

    Raises:
        WorkerError: If the interpreter cannot be started, no sandbox is available, or the target cannot be run.
    """
    target = replace(target, path=Path(os.path.realpath(target.path)))
    options = replace(options, roots=(*options.roots, own_folder(target.path)))
    with Worker(worker_options(options)) as worker:
        torch = worker.hello.torch
        if torch is None:
            raise NotExplainedError(
                f"torch is not installed for {options.python}; install it there, or set `python` to an interpreter that"
                " has it."
            )
        calls = ProjectCalls(options, most=1)
        calls.look_for([target], worker, lambda _: on_stage and on_stage(f"running code that calls {target.name}"))
        request = request_for(target, options, calls.of(target))
        answer = worker.ask("operations.explaining:explain", request, on_stage)
        with _making_sense(target):
            broken = "run" in answer.parts and _may_be_helped(decode(records.Run, answer.parts["run"]))
            advice = _advice(worker.ask("operations.advising:advise", request, on_stage)) if advise and broken else None
        python = worker.hello.python
    with _making_sense(target):
        problem = _problem(answer)
    if problem is not None and "flow" not in answer.parts:
        raise NotExplainedError(problem_text(problem, target, torch))
    notes = () if problem is None else (problem_text(problem, target, torch),)
    with _making_sense(target):
        builder = ExplanationBuilder(answer.parts, options, workspace)
        found = builder.explanation(target)
    return replace(found, torch=torch.partition("+")[0], python=python, notes=(*found.notes, *notes), advice=advice)


@contextlib.contextmanager
def _making_sense(target: Target) -> Iterator[None]:
    """Raise NotExplainedError if an answer is malformed, because the code being checked may have forged it."""
    try:
        yield
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        problem = Problem("process", "", "garbled", {}, None)
        raise NotExplainedError(problem_text(problem, target, "?")) from error


def _may_be_helped(run: records.Run) -> bool:
    return bool(run.breaks or run.recompiles)


def _advice(answer: Answer) -> Advice | None:
    """Return the remedies that were tried, or None if nothing could be tried. The list can be incomplete."""
    parts = answer.parts
    if "before" not in parts:
        return None
    return Advice(
        before=decode(told.Outcome, parts["before"]),
        remedies=tuple(decode(told.Remedy, one) for one in parts.get("remedies", ())),
        tried=tuple(decode(told.Tried, one) for one in parts.get("tried", ())),
        cut_short=bool(parts.get("cut_short", True)),
    )


def _problem(answer: Answer) -> Problem | None:
    raised = answer.parts.get("problem")
    if raised is not None:
        return Problem(raised["phase"], answer.stage, "done", {}, decode(records.RunFailure, raised["failure"]))
    if not answer.done:
        return Problem("process", answer.stage, answer.outcome, answer.ending, None)
    return None
