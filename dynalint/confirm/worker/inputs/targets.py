"""Import a request's target, build it, and find a call that works."""

from __future__ import annotations

import copy
import inspect
import time
import types
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from ..dynamo import runs
from ..dynamo.records import RunFailure
from ..dynamo.reports import failure
from ..dynamo.runs import Call, Maker
from ..harvesting.recipes import maker_of
from ..process.wire import Reply
from ..source import loading
from .constructors import constructions
from .guessed_values import NoGuessError
from .large_models import TooLargeError
from .search import FINAL, FoundCall, NoInputsError, find_call, parameters_of

# Values that do not belong to a version of the code, so that another version can be called with them.
_SHARED = (torch.Tensor, bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size)
_PHASES = ("import", "build", "inputs", "run")
_NO_GUESSES = "none of the code that `confirm-from` allows calls it, and inputs must not be guessed"

Makers = Generator[tuple[Maker, str], BaseException | None, None]


class ProblemError(Exception):
    """Why a target cannot be run, in the form used in the answer. `attempt` is the call that got furthest, if any."""

    def __init__(self, phase: str, failure: RunFailure, attempt: BuiltTarget | None = None) -> None:
        super().__init__(failure.message)
        self.phase = phase
        self.failure = failure
        self.attempt = attempt


@dataclass(frozen=True)
class BuiltTarget:
    """A callable to run: its maker, a call that is expected to work, and a description of both.

    `guessed` means that the call was neither declared nor made by a program. If `varied` is false, a program makes the
    calls with other batch sizes and options itself. `failures` are the exceptions after which the next way to build the
    target was tried.
    """

    make: Maker
    call: Call
    text: str
    guessed: bool = False
    varied: bool = True
    failures: tuple[BaseException | None, ...] = ()


def subject_of(request: Mapping[str, Any], reply: Reply, like: BuiltTarget | None = None) -> BuiltTarget:
    """Import a request's target, build it and find a call that works. Raises ProblemError.

    The first call in `request["calls"]`, `{"recipe", "text"}`, that works is used. If none of them works, inputs are
    guessed if `request["guesses"]` allows it. If they were guessed before, for the same target in another version of
    its file, `like` is what was found then, and only the target is built.
    """
    target, device = request["target"], request["device"]
    reply.stage(f"importing {request['name']}")
    if request["example"]:
        found = _guarded("import", lambda: loading.load_reference(request["example"], request["folder"]))
        return _declared(found, request["example"], device)
    found = _guarded("import", lambda: loading.load_target(target))
    for call in request["calls"]:
        with suppress(ProblemError):
            subject = recorded_subject(call, request)
            if runs.call_once(runs.fresh_callable(subject.make), subject.call).error is None:
                return subject
    if not request["guesses"]:
        raise ProblemError("inputs", RunFailure("NoInputs", _NO_GUESSES, 0))
    started = time.process_time()
    problem: ProblemError | None = None
    makers = _makers(found, target, device)
    made = _guarded("build", lambda: next(makers))
    if like is not None and like.guessed and all(isinstance(one, _SHARED) for one in pytree.tree_leaves(like.call)):
        return _built_like(like, makers, made)
    failures: list[BaseException | None] = []
    while made is not None and time.process_time() - started < request["seconds"] / 4:
        make, text = made
        try:
            return replace(_tried(make, text, request, reply), failures=tuple(failures))
        except ProblemError as met:
            # Keep the first problem from the furthest phase, which is the most informative.
            if problem is None or _PHASES.index(met.phase) > _PHASES.index(problem.phase) or _is_size(problem):
                problem = met
            if isinstance(met.__cause__, FINAL):
                break
            failures.append(met.__cause__ if met.phase in ("build", "inputs") else None)
            made = _guarded("build", partial(_next, makers, failures[-1]))
    assert problem is not None
    raise problem


def _is_size(problem: ProblemError) -> bool:
    """Return whether a model was too large. Smaller ones have been tried then, and their problems say more."""
    return isinstance(problem.__cause__, TooLargeError)


def _built_like(like: BuiltTarget, makers: Makers, made: tuple[Maker, str] | None) -> BuiltTarget:
    """Build a target in the way that was found for another version of it. Raises ProblemError."""
    for failed in like.failures:
        made = _guarded("build", partial(_next, makers, failed)) if made is not None else None
    if made is None:
        raise ProblemError("build", RunFailure("NoInputs", "its constructor takes other arguments", 0))
    make = made[0]
    _guarded("build", lambda: runs.fresh_callable(make))
    return replace(like, make=make)


def _next(makers: Makers, error: BaseException | None) -> tuple[Maker, str] | None:
    try:
        return makers.send(error)
    except StopIteration:
        return None


def recorded_subject(recorded: Mapping[str, Any], request: Mapping[str, Any]) -> BuiltTarget:
    """Recreate a call that the project makes to the target, without trying it. Raises ProblemError."""
    _guarded("import", lambda: loading.load_target(request["target"]))
    device = request["device"]
    make, call = _guarded("build", lambda: maker_of(recorded["recipe"]))
    make = partial(_instance, make, device)
    _guarded("build", lambda: runs.fresh_callable(make))
    return BuiltTarget(make, runs.to_device(call, device), recorded["text"])


def _tried(make: Maker, text: str, request: Mapping[str, Any], reply: Reply) -> BuiltTarget:
    """Build a target with a maker and find a call. Raises ProblemError."""
    name = request["target"]["qualname"]
    reply.stage(f"building {name}")
    function = _guarded("build", lambda: runs.fresh_callable(make))
    if not callable(function):
        raise ProblemError("build", RunFailure("TypeError", f"{name} cannot be called", 0))
    reply.stage(f"looking for inputs for {name}")
    try:
        call = find_call(function, request["device"], request["seconds"] / 8)
    except NoInputsError as error:
        attempt = None if error.call is None else _guessed(make, text, error.call)
        raise ProblemError("inputs", RunFailure("NoInputs", str(error), 0), attempt) from error
    except BaseException as error:
        raise ProblemError("run", failure(error, 0)) from error
    return _guessed(make, text, call)


def _guessed(make: Maker, text: str, call: FoundCall) -> BuiltTarget:
    words = f"called with {call.text}" if call.text else "called without arguments"
    return BuiltTarget(make, call.call, f"{text}, {words}", guessed=True)


def _guarded(phase: str, act: Callable[[], Any]) -> Any:
    """Call `act`, which runs user code, and convert any exception to a problem."""
    try:
        return act()
    except NoInputsError as error:
        raise ProblemError(phase, RunFailure("NoInputs", str(error), 0)) from error
    except BaseException as error:
        raise ProblemError(phase, failure(error, 0)) from error


def _declared(example: Any, name: str, device: str) -> BuiltTarget:
    """Call the user's example function and check its result."""

    def produce() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        runs.seed_torch(0)
        made = example()
        parts = tuple(made) if isinstance(made, (tuple, list)) else ()
        if len(parts) not in (2, 3) or not callable(parts[0]) or not isinstance(parts[1], (tuple, list)):
            raise TypeError(f"example {name!r} must return (callable, args) or (callable, args, kwargs)")
        return parts[0], tuple(parts[1]), dict(parts[2]) if len(parts) == 3 else {}

    _, args, kwargs = _guarded("build", produce)
    return BuiltTarget(
        lambda: _placed(produce()[0], device), runs.to_device((args, kwargs), device), f"the example {name}"
    )


def _makers(found: Any, target: Mapping[str, str], device: str) -> Makers:
    """Yield at least one maker with its description. The caller sends back each maker's exception, to be avoided."""
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
            if not owner and _takes_fixtures(found, target):
                raise NoInputsError("the arguments of a test are fixtures, which only its framework provides")
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


def _takes_fixtures(found: Any, target: Mapping[str, str]) -> bool:
    is_test = target["qualname"].startswith("test") and Path(target["path"]).name.startswith("test")
    return is_test and any(one.default is inspect.Parameter.empty for one in parameters_of(found))


def _instance(build: Callable[[], Any], device: str) -> Any:
    return _placed(build(), device)


def _method(build: Callable[[], Any], name: str, device: str) -> Any:
    return getattr(_instance(build, device), name)


def _placed(function: Any, device: str) -> Any:
    return function.to(device) if isinstance(function, nn.Module) and device != "cpu" else function
