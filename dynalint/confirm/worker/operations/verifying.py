"""Verify a fix: compare the original with the rewritten code, then compile the result.

    versions    different states of a project imported in the same process
    trials      variations of an example's inputs, until every branch has run
    observing   a call and everything observable about it
    differences how two observations differ
    reached_code  which of them are worth comparing
    pairs       both versions in the same state
    lockstep    both versions run through the same calls
    turned_tests  the same with the result of a test near the changed code inverted

The request is the same as for `confirming`, except that `overrides` contains the original source files. It has these
additional keys:

    marked      the original source files with marks inserted (see `reached_code.Marks`)
    rewritten   the source files after the fix
    sides       what has to run: `[mark, truth]`, where truth is null for a statement
    changed     the changed lines after the fix, by file
    anyway      whether to compile even if none of these ran
    exact, numbers, unmoved, practical   what counts as equal (see `differences.Equality`)
    methods     methods to call in between, as "Class.method", if no call has reached them
    half        whether to also try more inputs in half precision
    ranks       whether to also try guessed inputs with other numbers of dimensions
    left_out    names of inputs that must not be tried
    calls       recorded calls to the target, in any order (see `targets.subject_of`)
    search_seconds   the time limit for finding more inputs, in seconds of processor time
    turned      `{"rewritten", "words"}`: the source files after the fix with marks on the tests near the change, and
                `[mark, words]` for each mark

Parts of the answer, in the order in which they become known:

    text        a description of how the target was built and called
    marks       the marks that the original passed, whether or not they are in `sides`
    trying      the name of the input that the original is being called with, or null while the fixed code runs
    problem     why there are no more parts: `{"version", "phase", "message"}`
    ran         `{"inputs", "returned", "error", "rounded", "stride", "passed"}`. Also `seen`, the branches that ran,
    and
                `difference`, which is null or the difference found. It is sent again at the end if only an inverted
                test shows a difference
    compiled    how the rewritten code compiles: `breaks` in default mode, `failure` with fullgraph=True, `recompiles`
                for inputs of the same shape with the `reason` for one, and `differs`, which is null or the difference
                between compiled and eager code. If there are any of these, not counting breaks in unchanged lines, the
                results for the original are in `breaks_before` and so on. Or a `problem`
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import partial
from itertools import chain
from typing import Any

import torch

from ..comparing.compiled_fix import compiled_after, first_line
from ..comparing.differences import Equality
from ..comparing.lockstep import Findings, run_side_by_side, try_out
from ..comparing.observing import attempt
from ..comparing.pairs import ComparedVersion, ObservedDifference, alike, fresh, takes_gradients
from ..comparing.reached_code import MARK, InputSearch, Marks, Side, asks_whether_finite, limits_of
from ..comparing.trials import BASE, Trial
from ..comparing.turned_tests import difference_when_turned, one_sided
from ..dynamo import runs
from ..dynamo.runs import Call
from ..inputs.targets import BuiltTarget, ProblemError, recorded_subject, subject_of
from ..inputs.variants import all_options, options
from ..process.wire import Reply, Silent
from ..source.versions import Version

_MOST_CALLS = 3
_Pair = tuple[Mapping[str, Any], ComparedVersion, ComparedVersion]
"""A request for only one call, and both versions for it."""


def verify(request: Mapping[str, Any], reply: Reply) -> None:
    """Handle a request, as described in the module's docstring."""
    runs.trace_own_compiles()
    marks = Marks()
    marks.install()
    wanted = frozenset((mark, truth) for mark, truth in request["sides"])
    equality = _equality(request)
    name = request["target"]["qualname"]
    search = _search(request, marks, wanted)
    try:
        pairs = list(_pairs(request, search, reply))
    except _VersionProblemError as problem:
        reply.part("problem", problem.told)
        return
    search.ranks = bool(request["ranks"]) and pairs[-1][0]["call"] is None and not request["example"]
    reply.stage(f"running {name} before and after the fix")
    (asked, original, rewritten), found = _compared(pairs, equality, search)
    if _asks_too_much(asked, original, found):
        verify({**request, "differentiated": False}, reply)
        return
    file = original.version.untouched() or rewritten.version.untouched()
    if file is not None:  # Otherwise, the original may have been compared with itself.
        message = f"{file} is imported in a way that does not allow its text to be replaced"
        reply.part("problem", {"version": "original", "phase": "import", "message": message})
        return
    seen = marks.seen & wanted
    reply.part("marks", sorted({mark for mark, _ in marks.seen}))
    _send_result(reply, found, seen)
    if found.difference is not None or not found.returned:
        return
    one_way = one_sided(search, dict(request["turned"]["words"]))
    # If none of the changed code ran, compiling other code would take time without showing anything.
    if wanted and not seen and not request["anyway"]:
        reply.part("compiled", {"problem": "none of the changed code ran"})
        return
    reply.stage(f"running {name} under torch.compile after the fix")
    before = partial(_subject, asked, request["overrides"], like=original.found)
    reply.part("compiled", compiled_after(rewritten, before, found, request["changed"]))
    # This comes last, because code that runs with an impossible test result may never end.
    reply.stage(f"running {name} with the tests near the fix inverted")
    turned = _turned_over(asked, original, equality, search, found, one_way)
    if turned is not None:
        reply.part("difference", asdict(turned))


def _equality(request: Mapping[str, Any]) -> Equality:
    numbers, unmoved = frozenset(request["numbers"]), frozenset(request["unmoved"])
    asked = asks_whether_finite(request["marked"].values())
    return Equality(request["exact"], numbers, unmoved, practical=request["practical"], everywhere=asked)


def _compared(pairs: Sequence[_Pair], equality: Equality, search: InputSearch) -> tuple[_Pair, Findings]:
    """Run both versions of each pair, up to the first difference. Return the last pair that ran, and its results."""
    # The search for more inputs uses the last call, which reaches the most.
    searched = [replace(search, wanted=frozenset())] * (len(pairs) - 1) + [search]
    for pair, one in zip(pairs, searched, strict=True):
        found = run_side_by_side(pair[1], pair[2], equality, one)
        if found.difference is not None:
            break
    return pair, found


def _pairs(request: Mapping[str, Any], search: InputSearch, reply: Reply) -> Iterator[_Pair]:
    """Yield both versions for each call to compare them on, and the request for only that call. The best comes last.

    Raises:
        _VersionProblemError: If one of the versions cannot be prepared.
    """
    calls: list[Mapping[str, Any] | None] = [*_chosen_calls(request, search)]
    versions: tuple[Version | None, Version | None] = None, None
    for call in calls or [None]:
        asked = {**request, "call": call}
        # Importing a project takes long, so all calls share the imports. Both versions have run the same calls before.
        original, rewritten = _versions(asked, reply, *versions)
        versions = original.version, rewritten.version
        yield asked, original, rewritten
    fuller = _fuller_call(original, search) if not request["example"] else None
    if fuller is not None:
        yield asked, _called(original, fuller), _called(rewritten, fuller)


def _chosen_calls(request: Mapping[str, Any], search: InputSearch) -> list[Mapping[str, Any]]:
    """Return the recorded calls that work and that together reach the most required branches. The best comes last."""
    if request["example"]:
        return []
    reached: list[tuple[Mapping[str, Any], set[Side]]] = []
    with Version(request["search"], request["roots"], request["marked"]).active(), _scripting(request["marked"]):
        for call in request["calls"]:
            with suppress(ProblemError):
                subject = recorded_subject(call, request)
                function = runs.fresh_callable(subject.make)
                failed: list[bool] = []
                shown = search.shown_by(partial(_call, function, subject.call, failed))
                if not any(failed):
                    reached.append((call, shown & search.wanted))
    chosen: list[Mapping[str, Any]] = []
    covered: set[Side] = set()
    for call, shown in sorted(reached, key=lambda one: -len(one[1])):
        if not chosen or shown - covered:
            chosen.insert(0, call)
            covered |= shown
    return chosen[-_MOST_CALLS:]


def _call(function: Callable[..., Any], call: Call, failed: list[bool]) -> None:
    failed.append(runs.call_once(function, call).error is not None)


def _versions(
    request: Mapping[str, Any], reply: Reply, one: Version | None, other: Version | None
) -> tuple[ComparedVersion, ComparedVersion]:
    """Prepare both versions, in these imports if they are given. Raises _VersionProblemError."""
    original = _guarded("original", lambda: _subject(request, request["marked"], reply, one))
    rewritten = _guarded(
        "rewritten", lambda: alike(_subject(request, request["rewritten"], None, other, original.found), original)
    )
    original = replace(original, begin=partial(_begin, reply))
    return original, replace(rewritten, begin=lambda _: reply.part("trying", None))


def _fuller_call(original: ComparedVersion, search: InputSearch) -> Call | None:
    """Return a call with optional arguments that reaches required branches, if the usual call does not reach them."""
    if not search.wanted:
        return None
    again = original.again()
    function = fresh(again, training=True)

    def reached(call: Call) -> frozenset[Side]:
        return search.wanted & search.shown_by(partial(try_out, replace(again, call=call), function))

    def works(call: Call) -> bool:
        with again.version.active(), runs.force_eager():
            return attempt(function, BASE.of(call), BASE.seed, training=True) is None

    usual = reached(original.call)
    if usual == search.wanted:
        return None
    target = fresh(again, training=True)
    with again.version.active(), runs.force_eager():
        single = [call for some in options(target, again.call) for call in some if works(call)]
    fuller = chain(single, all_options(target, again.call, works))
    return next((call for call in fuller if reached(call) - usual), None)


def _called(subject: ComparedVersion, call: Call) -> ComparedVersion:
    return replace(subject, call=call, again=lambda: _called(subject.again(), call))


def _search(request: Mapping[str, Any], marks: Marks, wanted: frozenset[Side]) -> InputSearch:
    seconds, methods = float(request["search_seconds"]), tuple(request["methods"])
    limits = limits_of(request["marked"].values()) if request["numbers"] else ()
    return InputSearch(marks, wanted, seconds, methods, frozenset(request["left_out"]), request["half"], limits)


def _asks_too_much(request: Mapping[str, Any], original: ComparedVersion, found: Findings) -> bool:
    """Return whether the only difference is that the original raises for inputs that require gradients."""
    asked = found.difference is not None and bool(found.error) and request.get("differentiated", True)
    return asked and not takes_gradients(original.again())


def _begin(reply: Reply, trial: Trial) -> None:
    """Report the next input, in case it crashes the original. The example's own input cannot be left out."""
    reply.part("trying", None if trial.name == BASE.name else trial.name)


class _VersionProblemError(Exception):
    def __init__(self, version: str, problem: ProblemError) -> None:
        super().__init__(str(problem))
        self.told = {
            "version": version,
            "phase": problem.phase,
            "message": first_line(f"{problem.failure.type}: {problem.failure.message}".removeprefix("NoInputs: ")),
        }


def _guarded(version: str, make: Callable[[], ComparedVersion]) -> ComparedVersion:
    try:
        return make()
    except ProblemError as problem:
        raise _VersionProblemError(version, problem) from problem


def _subject(
    request: Mapping[str, Any],
    texts: Mapping[str, str],
    reply: Reply | None = None,
    version: Version | None = None,
    like: BuiltTarget | None = None,
) -> ComparedVersion:
    """Import a version, unless it is given, and prepare its target for calls, as it was found in another version."""
    version = version or Version(request["search"], request["roots"], texts)
    with version.active(), _scripting(texts):
        if request["call"] is not None:
            found = recorded_subject(request["call"], request)
        else:
            found = subject_of(request, reply if reply is not None else Silent(), like)
    if reply is not None:
        reply.part("text", found.text)
    again, differentiated = partial(_subject, request, texts, like=found), bool(request.get("differentiated", True))
    return ComparedVersion(version, found.make, found.call, again, differentiated=differentiated, found=found)


@contextmanager
def _scripting(texts: Mapping[str, str]) -> Iterator[None]:
    """Leave out TorchScript while marked code is imported, because it cannot compile marks."""
    enabled = torch.jit._state._enabled  # noqa: SLF001
    before = enabled.enabled
    enabled.enabled = before and not any(MARK in text for text in texts.values())
    try:
        yield
    finally:
        enabled.enabled = before


def _turned_over(
    request: Mapping[str, Any],
    original: ComparedVersion,
    equality: Equality,
    search: InputSearch,
    found: Findings,
    tests: Mapping[int, str],
) -> ObservedDifference | None:
    """Search for a difference that the inputs cannot show, because `tests` give the same result for all of them."""
    if not tests:
        return None
    try:
        rewritten = alike(_subject(request, request["turned"]["rewritten"], like=original.found), original)
    except ProblemError:
        return None
    return difference_when_turned(original, rewritten, equality, search, found.telling, tests)


def _send_result(reply: Reply, found: Findings, seen: set[Side]) -> None:
    """Report what ran, and the difference if there is one."""
    reply.part("trying", None)
    ran = {name: getattr(found, name) for name in ("inputs", "returned", "error", "rounded", "stride")}
    reply.part("ran", {**ran, "passed": sorted(found.passed)})
    reply.part("seen", sorted([list(side) for side in seen], key=str))
    reply.part("difference", None if found.difference is None else asdict(found.difference))
