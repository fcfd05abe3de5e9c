"""The operation behind every verdict: import a target, find inputs for it, hear all witnesses.

Parts of the answer, in the order in which they are known:

    files     the project's own source files that were imported
    inputs    how the target was built and called, in words
    problem   why there is nothing more to come: `{"phase", "failure"}`, phases `import`, `build`, `inputs`, `run`
    eager, default, fullgraph, explain       records of `witness`
    coverage  for each spot asked about, how much of its bytecode Dynamo traced in frames that it captured
    latent    what breaks that leave a frame to eager hid: `run`, a record of `witness`, and `coverage` as above
    compare   a record of `compare`, where one of the files in `request["compare"]` was imported
"""

from __future__ import annotations

import copy
import inspect
import time
import tokenize
import types
from collections.abc import Callable, Container, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import nn

from . import loading, spans, witness
from .building import constructions
from .calls import REPEATS, choose
from .compare import compare
from .guesses import NoGuessError
from .inputs import FINAL, NoInputsError, find_call
from .latent import Asked, latent_run
from .records import EagerRun, Failure, Run, Span, encode
from .reports import failure
from .variants import rising
from .wire import Reply
from .witness import Call, Maker

Makers = Generator[tuple[Maker, str], BaseException | None, None]


class ProblemError(Exception):
    """What keeps a target from being heard, as the parts of the answer tell it."""

    def __init__(self, phase: str, failure: Failure) -> None:
        super().__init__(failure.message)
        self.phase = phase
        self.failure = failure


@dataclass(frozen=True)
class Subject:
    """What is to be run: a maker of fresh callables, one call that works or is meant to, and words for both.

    `guessed` tells that nobody declared the call and no program made it.
    """

    make: Maker
    call: Call
    text: str
    guessed: bool = False


def hear(request: Mapping[str, Any], reply: Reply) -> None:
    """Answer one request: `target`, `example`, `search`, `overrides`, `folder`, `roots`, `spots`, `compare`, ...

    `spots` maps absolute paths to ranges `[line, column, end line, end column]`, columns 0-based in UTF-8 bytes.
    """
    witness.hear_own_compiles()
    loading.prepare(request["search"], request["overrides"])
    try:
        subject = subject_of(request, reply)
        reply.part("inputs", subject.text)
        # Once now, for the case that the process does not come to its end, and again when all has been imported.
        reply.part("files", loading.imported_files(request["roots"]))
        testify(subject, request, reply, None)
    except ProblemError as problem:
        reply.part("problem", {"phase": problem.phase, "failure": encode(problem.failure)})
    finally:
        reply.part("files", loading.imported_files(request["roots"]))


def subject_of(request: Mapping[str, Any], reply: Reply) -> Subject:
    """Import the target of a request, build it and find a call that it runs with; raises ProblemError."""
    target, device = request["target"], request["device"]
    reply.stage(f"importing {request['name']}")
    if request["example"]:
        found = _guarded("import", lambda: loading.load_reference(request["example"], request["folder"]))
        return _declared(found, request["example"], device)
    found = _guarded("import", lambda: loading.load_target(target))
    started = time.monotonic()
    problem: ProblemError | None = None
    makers = _makers(found, target, device)
    made = _guarded("build", lambda: next(makers))
    while made is not None and time.monotonic() - started < request["seconds"] / 3:
        make, text = made
        try:
            return _tried(make, text, request, reply)
        except ProblemError as met:
            # Of several, the first that came furthest tells most.
            problem = met if problem is None or (problem.phase, met.phase) == ("build", "inputs") else problem
            if isinstance(met.__cause__, FINAL):
                break
            made = _guarded("build", partial(_next, makers, met.__cause__ if met.phase == "build" else None))
    assert problem is not None
    raise problem


def _next(makers: Makers, error: BaseException | None) -> tuple[Maker, str] | None:
    try:
        return makers.send(error)
    except StopIteration:
        return None


def _tried(make: Maker, text: str, request: Mapping[str, Any], reply: Reply) -> Subject:
    """Build a target in one way and find a call of it; raises ProblemError."""
    name = request["target"]["qualname"]
    reply.stage(f"building {name}")
    function = _guarded("build", lambda: witness.fresh_callable(make))
    if not callable(function):
        raise ProblemError("build", Failure("TypeError", f"{name} cannot be called", 0))
    reply.stage(f"looking for inputs of {name}")
    try:
        call = find_call(function, request["device"], request["seconds"] / 4)
    except NoInputsError as error:
        raise ProblemError("inputs", Failure("NoInputs", str(error), 0)) from error
    except BaseException as error:
        raise ProblemError("run", failure(error, 0)) from error
    words = f"called with {call.text}" if call.text else "called without arguments"
    return Subject(make, call.call, f"{text}, {words}", guessed=True)


def _guarded(phase: str, act: Callable[[], Any]) -> Any:
    """Do what runs user code, and turn whatever it raises into a problem."""
    try:
        return act()
    except NoInputsError as error:
        raise ProblemError(phase, Failure("NoInputs", str(error), 0)) from error
    except BaseException as error:
        raise ProblemError(phase, failure(error, 0)) from error


def _declared(example: Any, name: str, device: str) -> Subject:
    """Call the user's example function and check what it returns."""

    def produce() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        torch.manual_seed(0)
        made = example()
        parts = tuple(made) if isinstance(made, (tuple, list)) else ()
        if len(parts) not in (2, 3) or not callable(parts[0]) or not isinstance(parts[1], (tuple, list)):
            raise TypeError(f"example {name!r} must return (callable, args) or (callable, args, kwargs)")
        return parts[0], tuple(parts[1]), dict(parts[2]) if len(parts) == 3 else {}

    _, args, kwargs = _guarded("build", produce)
    return Subject(
        lambda: _placed(produce()[0], device), witness.to_device((args, kwargs), device), f"the example {name}"
    )


def _makers(found: Any, target: Mapping[str, str], device: str) -> Makers:
    """Yield makers for a class, a method, a module or a function, each with words for it: one at least.

    What a maker raises is to be sent back, so that the next one does better.
    """
    found = getattr(found, "_orig_mod", found)
    if isinstance(found, nn.Module):
        yield (lambda: _placed(copy.deepcopy(found), device)), target["qualname"]
        return
    owner, _, name = target["qualname"].rpartition(".")
    cls = found
    if not isinstance(found, type):
        is_method = owner and isinstance(found, types.FunctionType)
        cls = loading.load_target({**target, "qualname": owner}) if is_method else None
        if not isinstance(cls, type) or isinstance(inspect.getattr_static(cls, name), staticmethod):
            yield (lambda: found), target["qualname"]
            return
    builds = constructions(cls)
    try:
        build, text = next(builds)
        while True:
            if cls is found:
                error = yield partial(_instance, build, device), text
            else:
                error = yield partial(_method, build, name, device), f"{text}.{name}"
            build, text = builds.send(error)
    except StopIteration:
        return
    except NoGuessError as error:
        raise NoInputsError(f"{cls.__name__} cannot be built: {error}") from error


def _instance(build: Callable[[], Any], device: str) -> Any:
    return _placed(build(), device)


def _method(build: Callable[[], Any], name: str, device: str) -> Any:
    return getattr(_instance(build, device), name)


def _placed(function: Any, device: str) -> Any:
    return function.to(device) if isinstance(function, nn.Module) and device != "cpu" else function


def testify(subject: Subject, request: Mapping[str, Any], reply: Reply, seen: Callable[[Run], None] | None) -> None:
    """Run the modes and hand over what each showed.

    `seen` is given the run in default mode, and then the one without the breaks that hide others, if there is one.

    Raises:
        ProblemError: the call does not run without the compiler.
    """
    make, name = subject.make, request["target"]["qualname"]
    watched = code_names(request["spots"])
    reply.stage(f"running {name} without the compiler")
    chosen = choose(make, subject.call, watched, request["spots"], guessed=subject.guessed)
    calls = chosen.all
    eager = witness.eager_run(make, calls, watched)
    if eager.error is not None:
        if eager.error.call < REPEATS:
            raise ProblemError("run", eager.error)
        # Each call works by itself, and not after the others: keep to those that go together.
        calls = calls[: eager.error.call]
        eager = replace(eager, error=None)
    repeats, others = calls[: len(chosen.repeats)], calls[len(chosen.repeats) :]
    reply.part("eager", encode(_by_path(eager, watched)))
    reply.part("calls", {"same": REPEATS, "batch": len(repeats) - REPEATS, "all": len(calls)})
    reply.stage(f"running {name} under torch.compile")
    default = witness.default_run(make, calls, watched)
    reply.part("default", encode(replace(default, traced={})))
    reply.part("coverage", _coverage(request["spots"], watched, default.traced, request["overrides"]))
    if seen is not None:
        seen(default)
    reply.stage(f"running {name} without the breaks that hide others")
    asked = {file: Asked(_text(path, request["overrides"]), request["spots"][path]) for file, path in watched.items()}
    latent = latent_run(make, [calls[0], *others], default, asked, request["seconds"] / 4)
    if latent is not None:
        covered = _coverage(request["spots"], watched, latent.traced, request["overrides"])
        reply.part("latent", {"run": encode(replace(latent, traced={})), "coverage": covered})
        if seen is not None:
            seen(latent)
    # Other witnesses are heard where there is something to ask them: a break, or a line that somebody has judged.
    if default.breaks or default.error is not None or chosen.asked:
        reply.stage(f"running {name} with fullgraph=True")
        reply.part("fullgraph", encode(_fullgraph(make, repeats, others)))
    if default.breaks:
        reply.stage(f"running torch._dynamo.explain on {name}")
        reply.part("explain", encode(witness.explain_call(make, calls[0])))
    if not set(request["compare"]).isdisjoint(loading.imported_files(request["compare"])):
        reply.stage(f"comparing {name} with and without the compiler")
        grown = rising(subject.call, REPEATS)
        grown = grown if witness.eager_run(make, grown).error is None else calls[:REPEATS]
        reply.part("compare", encode(compare(make, grown)))


def _fullgraph(make: Maker, repeats: Sequence[Call], others: Sequence[Call]) -> Run:
    """Run with `fullgraph=True`, the calls alike by themselves: the others may need a compile each, up to the limit."""
    run = witness.fullgraph_run(make, repeats)
    if run.error is None and others:
        other = witness.fullgraph_run(make, others)
        return run if other.error is None or other.error.recompile_limit else other
    return run


def code_names(paths: Container[str]) -> dict[str, str]:
    """Return, for each imported file among resolved `paths`, the name that its code objects have, with its path."""
    return {file: str(path) for file, path in loading.module_files() if str(path) in paths}


def _by_path(run: EagerRun, watched: Mapping[str, str]) -> EagerRun:
    return replace(run, lines={watched[file]: lines for file, lines in run.lines.items()})


def _coverage(
    spots: Mapping[str, Sequence[Sequence[int]]],
    watched: Mapping[str, str],
    traced: Mapping[str, Sequence[Span]],
    overrides: Mapping[str, str],
) -> dict[str, list[dict[str, int]]]:
    """Count, for each spot, the operations that lie within it and those of them that Dynamo traced."""
    answer = {}
    for file, path in watched.items():
        operations = spans.operations_of(_text(path, overrides), file)
        answer[path] = spans.count(spots[path], operations, set(traced.get(file, ())))
    return answer


def _text(path: str, overrides: Mapping[str, str]) -> str:
    text = overrides.get(path)
    if text is None:
        with tokenize.open(path) as file:
            text = file.read()
    return text
