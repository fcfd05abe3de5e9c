"""Get a result for every target, from the worker or the cache, and give each finding its verdict."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from queue import SimpleQueue
from types import MappingProxyType
from typing import Any

from dynalint.confirm.cache import VerdictCache
from dynalint.confirm.client import Answer, Worker, WorkerError
from dynalint.confirm.discoveries import discoveries
from dynalint.confirm.evidence import EvidenceStore
from dynalint.confirm.harvest import CallSearch, Harvested, Lines, ProjectCalls, Searcher, harvested, in_words, searches
from dynalint.confirm.located import Located, place
from dynalint.confirm.options import ConfirmOptions, Target, resolved
from dynalint.confirm.order import batches, nearest_parts, ranks
from dynalint.confirm.requests import circumstances, request_for, worker_options
from dynalint.confirm.results import Interrupted, TargetResult, as_part, record_of, result_of
from dynalint.confirm.shards import WHOLE
from dynalint.confirm.sources import UserSources
from dynalint.confirm.untrusted import sanitised_discovery, sanitised_evidence
from dynalint.confirm.verdicts import (
    CONFIRMABLE,
    Confirmation,
    not_run,
    spots_of,
    unconfirmed,
    undecided,
    with_verdicts,
)
from dynalint.confirm.wording import not_run_text
from dynalint.findings import Finding

# Starting a worker imports torch, which takes about as long as running this many targets.
_TARGETS_WORTH_A_WORKER = 8
# If the root cannot be run, try at most this many functions between it and a finding, nearest first.
_PARTS = 3
# The share of the time for a target that leads to no finding. It is only run to discover breaks that no rule finds.
_FOR_DISCOVERIES = 0.1

Progress = Callable[[int, int, str], None]
Parts = Callable[[Finding], Sequence[Target]]
Wanted = Callable[[Sequence[TargetResult]], Mapping[Target, Lines]]


def examine(
    findings: Sequence[Finding],
    roots: Sequence[Target],
    options: ConfirmOptions,
    progress: Progress | None = None,
    silenced: Sequence[Finding] = (),
    parts: Parts | None = None,
    leads: Parts | None = None,
    note: Callable[[str], None] | None = None,
) -> tuple[list[Finding], list[TargetResult]]:
    """Return the findings with evidence, sorted by location, with DYN001, DYN002 and DYN012 findings for discoveries.

    The results that they rest on are returned, too. `roots` are the compiled roots to run. The most useful roots run
    first. `progress` receives the number of finished targets, the total number and the current step. Threads call it
    one at a time. `silenced` are findings that the user suppressed. They are not returned, and problems that they
    explain are not reported as discoveries. `parts` returns the functions on the call chain to a finding, nearest
    first. They are run if the roots cannot be run. `leads` returns the roots that lead to a finding, nearest first.
    `note` receives a sentence for each reason why tests or examples failed, if their calls are still needed. The code
    being checked cannot make this function raise.

    Raises:
        WorkerError: If the interpreter cannot be started.
    """
    sources = UserSources({os.path.realpath(path): text for path, text in options.overrides.items()})
    leading = leads or (lambda _: ())
    placed = [place(finding, options, sources, leading(finding)) for finding in (*findings, *silenced)]
    targets = sorted(resolved(roots))
    if not targets and (parts is None or all(one.finding.category not in CONFIRMABLE for one in placed)):
        return list(findings), []
    files = {str(target.path) for target in targets} | {one.path for one in placed}
    rank = ranks(targets, placed)
    target_runs = _TargetRuns(options, targets, spots_of(placed), progress, placed, traced_in=files, rank=rank)
    is_own = lru_cache(maxsize=None)(options.is_own)

    def confirmation_of(results: Iterable[TargetResult]) -> Confirmation:
        shown = [part for one in results for part in (one, one.evaluation) if part is not None]
        return Confirmation(placed, shown, sources, is_own)

    def more(results: Iterable[TargetResult]) -> Mapping[Target, Lines]:
        stuck = not_run(confirmation_of(results)) if parts is not None else ()
        return nearest_parts(stuck, parts or (lambda _: ()), {one.target for one in results})

    results, obstacle = target_runs.run(more, lambda shown: undecided(confirmation_of(shown), targets))
    if note is not None:
        for text in in_words(target_runs.problems):
            note(text)
    confirmation = confirmation_of(results)
    judged = with_verdicts(confirmation)[: len(findings)]
    if obstacle is not None or target_runs.is_whole:
        guesses = "guesses" in options.confirm_from
        texts = (obstacle or not_run_text(leads=bool(one.leads), guesses=guesses) for one in placed)
        pairs = zip(judged, texts, strict=False)
        judged = [unconfirmed(one, text) if one.evidence.status == "static" else one for one, text in pairs]
    discovered = [sanitised_discovery(one) for one in discoveries(confirmation, options.directory)]
    judged = [replace(one, evidence=sanitised_evidence(one.evidence)) for one in judged]
    found = sorted([*judged, *discovered], key=lambda finding: finding.sort_key)
    if target_runs.interrupted:
        raise Interrupted(found)
    return found, results


def run_targets(
    targets: Sequence[Target], files: Sequence[Path], options: ConfirmOptions, progress: Progress | None = None
) -> list[TargetResult]:
    """Run the targets and return their results without judging findings. Lines are recorded for `files`.

    Raises:
        WorkerError: If the interpreter cannot be started, it has no torch, or no sandbox is available.
    """
    spots: dict[str, list[list[int]]] = {os.path.realpath(file): [] for file in files}
    target_runs = _TargetRuns(options, sorted(resolved(targets)), spots, progress)
    results, obstacle = target_runs.run(lambda _: {}, lambda _: {})
    if target_runs.interrupted:
        raise KeyboardInterrupt
    if obstacle is not None:
        raise WorkerError(obstacle)
    return results


class _TargetRuns:
    """A run of all targets, with its workers, its cache and its progress."""

    def __init__(
        self,
        options: ConfirmOptions,
        targets: Sequence[Target],
        spots: dict[str, list[list[int]]],
        progress: Progress | None,
        placed: Sequence[Located] = (),
        traced_in: Collection[str] = (),
        rank: Mapping[Target, tuple[int, ...]] = MappingProxyType({}),
    ) -> None:
        self._rank = rank
        self._options = options
        self._targets = targets
        self._texts = {os.path.realpath(path): text for path, text in options.overrides.items()}
        self._cache = VerdictCache(options.cache, self._texts, options.answers)
        self._spots = spots
        compare, resized = (
            sorted({one.path for one in placed if one.finding.category == category})
            for category in ("miscompile", "recompile")
        )
        self._every = {"spots": spots, "compare": compare, "resized": resized}
        self._traced_in = traced_in
        # The targets that undecided findings need. All others are only run to discover breaks that no rule finds.
        self._leading = {target for one in placed if one.finding.category in CONFIRMABLE for target in one.leads}
        self._judging = bool(self._leading)
        self._progress = progress
        self._calls = ProjectCalls(options)
        self._shard = WHOLE if options.answers is None else options.answers.shard
        self.is_whole = self._shard == WHOLE
        self._guesses = "guesses" in options.confirm_from
        self._lock = threading.Lock()
        self._done = 0
        self._obstacle: str | None = None
        self._results: dict[Target, TargetResult] = {}
        self._harvested: list[TargetResult] = []
        self.problems: list[tuple[str, str]] = []
        self.interrupted = False

    def run(self, more: Wanted, wanted: Wanted) -> tuple[list[TargetResult], str | None]:
        """Return the results in the order of the targets, and the reason if nothing can be run.

        If a traced command called a target, the target is judged by that trace unless the user declares an example for
        it. After each step, `wanted` returns the targets that undecided findings need, with their lines. `more` is
        called a few times and returns the parts to run instead of targets that could not be run, together with their
        lines.
        """
        workers: SimpleQueue[Worker] = SimpleQueue()
        own, executor = frozenset(self._shard.of(self._targets)), self._options.executor
        count = max(1, min(executor.jobs(self._options.jobs), len(own) // _TARGETS_WORTH_A_WORKER))
        started: list[Worker] = []
        try:
            for _ in range(count):
                started.append(executor.worker(worker_options(self._options)))
                workers.put(started[-1])
            torch = started[0].hello.torch
            traced = self._traced(torch)
            known = {result.target for result in traced}
            self._targets = [one for one in self._targets if one not in known or self._options.example_for(one)]
            if torch is None:
                return traced, (
                    f"not run: torch is not installed for {self._options.python}; install it there, or set `python`"
                    " to an interpreter that has it."
                )
            with ThreadPoolExecutor(count) as pool:
                try:
                    self._harvest(pool, workers, traced, wanted)
                    left = [one for one in self._targets if self._guesses or self._is_given(one)]
                    self._run_all(pool, workers, count, own.intersection(left))
                    if self.is_whole:  # With more than one shard, another shard may reach the code.
                        self._run_parts(pool, workers, count, traced, more)
                except BaseException as fault:
                    self._obstacle = "not run: interrupted."  # Otherwise, the pool would run everything else first.
                    for worker in started:
                        worker.close()
                    if not isinstance(fault, KeyboardInterrupt):
                        raise
                    self.interrupted = True
        finally:
            for worker in started:
                worker.close()
        if self._obstacle is not None and not self.interrupted:
            return traced, self._obstacle
        results, outdated = self._results, self._outdated()
        built = [replace(results[one], outdated=one in outdated) for one in self._targets if one in results]
        return [*built, *self._harvested, *traced], self._obstacle

    def _is_given(self, target: Target) -> bool:
        """Return whether a target can be run without guessing inputs."""
        return self._options.example_for(target) is not None or bool(self._calls.of(target))

    def _harvest(
        self, pool: ThreadPoolExecutor, workers: SimpleQueue[Worker], traced: Sequence[TargetResult], wanted: Wanted
    ) -> None:
        """Judge targets by the calls that the project's code makes, or only record the calls if there is a GPU."""
        options = self._options
        asked = {target: lines for target, lines in wanted(traced).items() if options.example_for(target) is None}
        if options.device != "cpu":
            self._calls.look_for(asked, worker := workers.get(), lambda target: self._report(target.name))
            workers.put(worker)
            return
        found = []
        found_searches = self._shard.of(searches(asked, options, self._calls.sites))
        for one in pool.map(lambda search: self._searched(search, workers), found_searches):
            found.append(one)
            self._harvested += one.results  # If the user interrupts the run, the results so far are kept.
        left = wanted([*traced, *self._harvested])
        self.problems = [why for one in found if not left.keys().isdisjoint(one.targets) for why in one.problems]
        self._leading = set(left)
        settled = {one.target for one in self._harvested if one.complete or (one.default and one.target not in left)}
        self._targets = [one for one in self._targets if one not in settled]

    def _searched(self, search: CallSearch, workers: SimpleQueue[Worker]) -> Harvested:
        """Return the result of a search, from the cache or the worker."""
        worker = workers.get()
        try:
            searcher = Searcher(self._options, self._cache, self._every)
            parts, spots = searcher.answer(search, worker, lambda: self._report(search.targets[0].name))
            # A call that timed out together with others may succeed alone, with its target's full time limit.
            self._calls.learn(search, parts)
            return harvested(search, worker.hello.torch or "", parts, spots)
        finally:
            workers.put(worker)

    def _run_parts(
        self,
        pool: ThreadPoolExecutor,
        workers: SimpleQueue[Worker],
        count: int,
        traced: Sequence[TargetResult],
        more: Wanted,
    ) -> None:
        """Run parts instead of roots that could not be run, with the project's own calls if there are any."""
        failed: list[TargetResult] = []
        tried: set[Target] = set()
        for _ in range(_PARTS):
            new = more([*self._results.values(), *failed, *self._harvested, *traced]) if self._obstacle is None else {}
            wanted = {target: lines for target, lines in new.items() if target not in tried}
            tried.update(wanted)
            self._leading.update(wanted)
            asked = searches(wanted, self._options, self._calls.sites) if self._options.device == "cpu" else ()
            found = [part for one in pool.map(lambda one: self._searched(one, workers), asked) for part in one.results]
            self._harvested += [as_part(one, "called") for one in found if one.default is not None]
            left = sorted(wanted.keys() - {one.target for one in self._harvested}) if self._guesses else []
            self._targets = [*self._targets, *left]
            self._run_all(pool, workers, count, left)
            results = [as_part(self._results.pop(target), "guessed") for target in left if target in self._results]
            self._results.update((one.target, one) for one in results if one.default is not None)
            failed += [one for one in results if one.default is None]  # These results are dropped.

    def _run_all(
        self, pool: ThreadPoolExecutor, workers: SimpleQueue[Worker], count: int, targets: Iterable[Target]
    ) -> None:
        # A function that returns an example can be in any file, so its target is not batched with others.
        alone = lambda target: self._options.example_for(target) is not None  # noqa: E731
        found = batches(targets, count, alone, self._rank)
        list(pool.map(lambda batch: self._run_batch(batch, workers), found))

    def _outdated(self) -> set[Target]:
        """Return the targets that a traced command called before their files changed."""
        cache = self._options.cache
        return set() if cache is None or not self._traced_in else EvidenceStore(cache, self._texts).outdated()

    def _traced(self, torch: str | None) -> list[TargetResult]:
        """Return the results of traced commands that involve the files of this run."""
        cache = self._options.cache
        if cache is None or not self._traced_in:
            return []
        found = EvidenceStore(cache, self._texts).results(torch, self._spots)
        wanted = set(self._traced_in)
        return [one for one in found if str(one.target.path) in wanted or not wanted.isdisjoint(one.files)]

    def _run_batch(self, batch: Sequence[Target], workers: SimpleQueue[Worker]) -> None:
        """Run the targets in a batch that are not in the cache."""
        if self._obstacle is not None:
            return
        worker = workers.get()
        try:
            asked = []
            for target in batch:
                known = self._remembered(target, worker)
                if known is None:
                    asked.append(target)
                else:
                    self._results[target] = known
                    self._report(target.name, done=1)
            self._ask(asked, worker)
        finally:
            workers.put(worker)

    def _ask(self, targets: Sequence[Target], worker: Worker) -> None:
        plain = ((one, request_for(one, self._options, self._calls.of(one))) for one in targets)
        requests = [{**request, **self._every, **self._pace(one)} for one, request in plain]
        with contextlib.closing(
            worker.ask_each("operations.confirming:confirm", requests, prepare="operations.confirming:prepare")
        ) as answers:
            for target in targets:
                self._report(target.name)
                result = self._result(target, worker, next(answers))
                if self._obstacle is not None:  # The worker may have been closed.
                    return
                self._results[target] = result
                self._report(target.name, done=1)

    def _report(self, what: str, done: int = 0) -> None:
        with self._lock:
            self._done += done
            if self._progress is not None:
                self._progress(self._done, len(self._targets), what)

    def _remembered(self, target: Target, worker: Worker) -> TargetResult | None:
        """Return a target's cached result if it is still valid. Otherwise, return None."""
        known = self._cache.get(self._question(target, worker), self._spots)
        if known is None:
            return None
        try:
            return result_of(target, worker.hello.torch or "", known["answer"], known["spots"])
        except (KeyError, ValueError):
            return None

    def _question(self, target: Target, worker: Worker) -> dict[str, Any]:
        return {
            **circumstances(self._options, worker.hello, self._every["compare"]),
            "target": [str(target.path), target.module, target.qualname],
            "example": self._options.example_for(target),
            "calls": [*self._calls.of(target)],
            **self._pace(target),
        }

    def _pace(self, target: Target) -> dict[str, Any]:
        brief = self._judging and target not in self._leading and not self._is_given(target)
        return {"brief": brief, "seconds": self._options.timeout * (_FOR_DISCOVERIES if brief else 1.0)}

    def _result(self, target: Target, worker: Worker, answer: Answer) -> TargetResult:
        """Return the result in the worker's answer, and store the answer in the cache."""
        if answer.outcome == "refused":
            reason = answer.ending["reason"]
            self._obstacle = (
                f"not run: there is no working sandbox on this system ({reason}); use --confirm to run code anyway."
            )
        record, torch = record_of(answer), worker.hello.torch or ""
        try:
            result = result_of(target, torch, record, self._spots)
        except ValueError:
            return result_of(target, torch, {**record, "outcome": "garbled", "parts": {}}, self._spots)
        # A run that exceeded a limit may succeed on a less busy machine, and a package that is missing now may be
        # installed before the next run.
        ended = result.problem is None or (result.problem.phase != "import" and result.problem.outcome == "done")
        ended = ended and not answer.parts.get("missing")
        files = {str(target.path), *filter(self._options.is_own_file, result.files)}
        self._cache.put(self._question(target, worker), self._spots, files, record, lasting=answer.done and ended)
        return result
