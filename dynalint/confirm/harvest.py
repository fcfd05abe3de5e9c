"""Find a project's calls to its own code, either to confirm targets with them or to record them for other uses."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

from dynalint.confirm.cache import VerdictCache
from dynalint.confirm.call_sites import CallSites
from dynalint.confirm.client import Worker
from dynalint.confirm.options import ConfirmOptions, Target, resolved
from dynalint.confirm.requests import circumstances, request_for
from dynalint.confirm.results import Problem, TargetResult, result_of
from dynalint.confirm.untrusted import sentence
from dynalint.confirm.wording import problem_text
from dynalint.projects.reading import project_root, read_bounded

_T = TypeVar("_T")
_Snippets = list[dict[str, Any]]
_Named = tuple[Target, _Snippets, list[dict[str, str]], _Snippets]
"""A target, with the snippets and the tests that may call it, and the snippets to try last."""
Lines = Mapping[str, Sequence[Sequence[int]]]
"""Line ranges (first and last line) by file."""

OPERATION = "operations.harvesting:harvest"
# The maximum number of targets whose tests run together, with a shared time limit.
_TOGETHER = 12
# The same for targets without tests, unless the same code calls them. Documentation builds models of realistic sizes,
# and its calls take much longer.
_TOGETHER_IN_DOCUMENTS = 3
_MOST_REASONS = 10
_MOST_RECORDED = 6
_LONGEST_NUMBER = 9
_MALFORMED = (KeyError, TypeError, ValueError, AttributeError)
# The outcomes after which other tests may still run.
_ENDED_BY_CODE = ("signal", "killed", "exit", "memory", "processes", "channel")


@dataclass(frozen=True)
class CallSearch:
    """A request to find calls: targets in a single file, the lines that the calls should reach, and where to look."""

    targets: tuple[Target, ...]
    request: dict[str, Any]

    @property
    def question(self) -> dict[str, Any]:
        """The parts of the cache key that are specific to this search."""
        asked = {name: self.request[name] for name in ("wanted", "snippets", "tests", "later", "record")}
        files = sorted({one["path"] for one in self.request["tests"]})
        return {**asked, "harvest": [_digest(Path(file)) for file in files]}


def searches(
    wanted: Mapping[Target, Lines], options: ConfirmOptions, sites: Callable[[Path], CallSites], *, record: int = 0
) -> Iterator[CallSearch]:
    """Yield searches for the wanted targets, leaving out targets that the project never calls.

    `sites` returns the call sites in a folder. If `record` is given, up to that many calls to each target are recorded.
    Otherwise, the calls are confirmed.
    """
    for folder, group in itertools.groupby(sorted(wanted), key=lambda one: _project(one.path, options)):
        named = [(target, *_found(target, wanted[target], sites(folder), options)) for target in group]
        tested, documented = ([one for one in named if one[2]], [one for one in named if one[1] and not one[2]])
        for some in (*_groups(tested, _TOGETHER), *_documented_groups(documented)):
            request = {
                **request_for(some[0][0], options),
                "example": None,
                "wanted": [_wanted(target, wanted[target]) for target, *_ in some],
                "snippets": _in_turns([snippets for _, snippets, _, _ in some]),
                "tests": _in_order([tests for _, _, tests, _ in some]),
                "later": _in_turns([later for *_, later in some]),
                "folder": str(folder),
                "record": record,
            }
            yield CallSearch(tuple(target for target, *_ in some), request)


def _documented_groups(named: Sequence[_Named]) -> list[list[_Named]]:
    """Group targets without tests. A target joins others that share a snippet with it, which therefore runs once."""
    groups: list[list[_Named]] = []
    codes: list[set[str]] = []
    for one in sorted(named, key=lambda one: -len(one[1])):
        own = {snippet["code"] for snippet in one[1]}
        at = next((at for at, code in enumerate(codes) if own & code and len(groups[at]) < _TOGETHER), None)
        if at is None:
            at = next((at for at, group in enumerate(groups) if len(group) < _TOGETHER_IN_DOCUMENTS), len(groups))
        if at == len(groups):
            groups.append([])
            codes.append(set())
        groups[at].append(one)
        codes[at] |= own
    return groups


def _groups(items: Sequence[_T], most: int) -> Iterator[Sequence[_T]]:
    return (items[start : start + most] for start in range(0, len(items), most))


def _project(path: Path, options: ConfirmOptions) -> Path:
    inside = path.is_relative_to(options.project)
    return project_root(path.parent) if not inside or options.project in path.parent.parents else options.project


def _found(
    target: Target, lines: Lines, sites: CallSites, options: ConfirmOptions
) -> tuple[_Snippets, list[dict[str, str]], _Snippets]:
    name, where = target.qualname.rpartition(".")[2], _described(target)
    tests = sites.tests(target.path, name, lines) if "tests" in options.confirm_from else []
    documented = sites.snippets(target.path, name) if "docs" in options.confirm_from else []
    snippets = [{**one, "target": where} for one in documented]
    # Code that only builds what uses the target takes long. If there are tests, they come first.
    direct = sites.snippets(target.path, name, steps=1) if tests and documented else documented
    return snippets[: len(direct)], tests, snippets[len(direct) :]


def _described(target: Target) -> dict[str, str]:
    return {"path": str(target.path), "module": target.module, "qualname": target.qualname}


def _wanted(target: Target, lines: Lines) -> dict[str, Any]:
    return {
        "target": _described(target),
        "lines": {path: [list(span) for span in spans] for path, spans in lines.items()},
    }


def _in_turns(lists: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the snippets for all targets, taking one from each target in turn and leaving out duplicate code."""
    found: dict[str, dict[str, Any]] = {}
    for one in itertools.chain.from_iterable(itertools.zip_longest(*lists)):
        if one is not None:
            found.setdefault(one["code"], one)
    return list(found.values())


def _in_order(lists: Sequence[Sequence[Mapping[str, str]]]) -> list[dict[str, Any]]:
    """Return the tests for all targets without duplicates, taking one from each target in each turn."""
    found: dict[tuple[str, str], int] = {}
    for turn, tests in enumerate(itertools.zip_longest(*lists)):
        for one in tests:
            if one is not None:
                found.setdefault((one["path"], one["name"]), turn)
    return [{"path": path, "name": name, "turn": turn} for (path, name), turn in found.items()]


@dataclass(frozen=True)
class Harvested:
    """A search's results, and the tests and snippets that failed, with reasons."""

    targets: tuple[Target, ...]
    results: tuple[TargetResult, ...]
    problems: tuple[tuple[str, str], ...]


def in_words(problems: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield a sentence for each reason, most frequent first. The last sentence says how many reasons were left out."""
    places: dict[str, dict[str, None]] = {}
    for where, reason in problems:
        places.setdefault(reason, {})[where] = None
    reasons = sorted(places, key=lambda reason: -len(places[reason]))
    left_out = len(reasons) - _MOST_REASONS
    for reason in reasons[:_MOST_REASONS]:
        first, others = next(iter(places[reason])), len(places[reason]) - 1
        more = f" and {others} other{'s' if others > 1 else ''}" if others else ""
        yield f"dynalint got no calls from {first}{more} because of a failure in the sandbox: {reason}"
    if left_out > 0:
        more = "is 1 more reason" if left_out == 1 else f"are {left_out} more reasons"
        yield f"there {more} why dynalint got no calls from other code."


Parts = Mapping[str, Any]


@dataclass(frozen=True)
class Searcher:
    """Searches in workers, or takes answers from the cache. `every` contains the parts that all requests share."""

    options: ConfirmOptions
    cache: VerdictCache
    every: Mapping[str, Any]

    def answer(self, search: CallSearch, worker: Worker, begun: Callable[[], object]) -> tuple[Parts, Any]:
        """Return the parts of the answer and the spots that they cover. `begun` is called before any code is run."""
        spots = self.every["spots"]
        question = {
            **circumstances(self.options, worker.hello, self.every["compare"]),
            **search.question,
            "resized": self.every["resized"],
        }
        known = self.cache.get(question, spots)
        if known is not None:
            return known["answer"]["parts"], known["spots"]
        begun()
        parts, done = self._asked(search, worker)
        files = {str(target.path) for target in search.targets}
        files.update(file for own in _calls_in(parts) for file in own.get("files", ()))
        self.cache.put(question, spots, filter(self.options.is_own_file, files), {"parts": parts}, lasting=done)
        return parts, spots

    def _asked(self, search: CallSearch, worker: Worker) -> tuple[dict[str, Any], bool]:
        """Return the parts of the answer, and whether it is complete and needed no package that is not installed.

        If a snippet or test ends the process, those after it run in a new process, within the same time limit.
        """
        parts: dict[str, Any] = {}
        problems: list[Any] = []
        after, left, whole = 0, self.options.timeout, True
        while True:
            answer = worker.ask(OPERATION, {**search.request, **self.every, "after": after, "seconds": left})
            parts = _joined(parts, answer.parts)
            problems += _listed(answer.parts, "problems")
            whole = whole and not answer.parts.get("missing")
            left -= answer.spent
            started, where = _last_started(answer.parts)
            if answer.done or not where:
                break
            problem = Problem("process", f"running {where}", answer.outcome, answer.ending, None)
            problems.append([where, problem_text(problem, search.targets[0], "")])
            if answer.outcome not in _ENDED_BY_CODE or started <= after or left < self.options.timeout / 4:
                break
            after = started
        return {**parts, "problems": problems}, answer.done and whole


def _calls_in(parts: Parts) -> list[dict[str, Any]]:
    """Return the parts that belong to each call, in the order of the calls."""
    calls: dict[int, dict[str, Any]] = {}
    for name, value in parts.items():
        number, dot, part = name.partition(".")
        if dot and number.isdecimal() and len(number) < _LONGEST_NUMBER:
            calls.setdefault(int(number), {})[part] = value
    return [own for _, own in sorted(calls.items())]


def _joined(parts: Parts, more: Parts) -> dict[str, Any]:
    """Return the parts of two answers to the same search. The calls in the second get other numbers."""
    calls = enumerate([*_calls_in(parts), *_calls_in(more)])
    return {f"{at}.{name}": value for at, own in calls for name, value in own.items()}


def _listed(parts: Parts, name: str) -> list[Any]:
    value = parts.get(name)
    return value if isinstance(value, list) else []


def _last_started(parts: Parts) -> tuple[int, str]:
    """Return how many snippets and tests have started, and the last one, or an empty string if this is unknown."""
    with suppress(*_MALFORMED):
        number, where = parts["started"]
        return int(number), sentence(str(where))
    return 0, ""


def _targets_of(search: CallSearch, targets_given: Iterable[Mapping[str, str]]) -> list[Target]:
    known = {(str(one.path), one.qualname): one for one in search.targets}
    return [known[target["path"], target["qualname"]] for target in targets_given]


def harvested(search: CallSearch, torch: str, parts: Parts, spots: Mapping[str, list[list[int]]]) -> Harvested:
    """Read the parts of an answer. The code being checked may have forged them, so malformed parts are skipped."""
    results = []
    for own in _calls_in(parts):
        with suppress(*_MALFORMED):
            ended, stage = own["call"], str(own.get("stage", "starting"))
            ending = {"outcome": ended["outcome"], "seconds": ended["seconds"], "status": 1}
            one = {"outcome": ended["outcome"], "ending": ending, "stage": stage, "parts": own}
            results += [result_of(target, torch, one, spots) for target in _targets_of(search, own["call"]["targets"])]
    problems = []
    for one in _listed(parts, "problems"):
        with suppress(TypeError, ValueError):
            where, reason = one
            problems.append((sentence(str(where)), sentence(str(reason))))
    return Harvested(search.targets, tuple(results), tuple(problems))


class ProjectCalls:
    """A project's calls to targets, recorded so that the worker can repeat them.

    The search for each target is made only once, and stops when `most` calls to it are recorded. `sites` returns the
    call sites in a folder, whose files are read only once.
    """

    def __init__(self, options: ConfirmOptions, most: int = _MOST_RECORDED) -> None:
        self._options = options
        self._most = most
        self._texts = {os.path.realpath(path): text for path, text in options.overrides.items()}
        self._known: dict[Target, list[dict[str, Any]]] = {}
        self.sites = cache(CallSites)

    def of(self, target: Target) -> Sequence[Mapping[str, Any]]:
        """Return the recorded calls to a target, each with a description.

        `look_for` must have searched for the target.
        """
        (only,) = resolved([target])
        return self._known.get(only, [])

    def look_for(self, targets: Iterable[Target], worker: Worker, begun: Callable[[Target], object]) -> None:
        """Search for calls to targets. `begun` is called with one of the targets before its tests run."""
        new = [one for one in resolved(targets) if one not in self._known]
        self._known.update((one, []) for one in new)
        asked: dict[Target, Lines] = {one: {} for one in new if self._options.example_for(one) is None}
        cache = VerdictCache(self._options.cache, self._texts, self._options.answers)
        searcher = Searcher(self._options, cache, {"spots": {}, "compare": [], "resized": []})
        for search in searches(asked, self._options, self.sites, record=self._most):
            parts, _ = searcher.answer(search, worker, partial(begun, search.targets[0]))
            self.learn(search, parts)

    def learn(self, search: CallSearch, parts: Parts) -> None:
        """Remember the calls that an answer to a search contains."""
        for own in _calls_in(parts):
            with suppress(*_MALFORMED):
                call = {"recipe": list(map(str, own["recipe"])), "text": sentence(own["inputs"])}
                for target in _targets_of(search, own["call"]["targets"]):
                    self._known.setdefault(target, []).append(call)


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(read_bounded(path)).hexdigest()
    except OSError:
        return ""
