"""Intercept calls to targets in running code, and confirm or record each call immediately in a fork.

The fork uses the real module and arguments, which often cannot be recreated. Nothing is copied, pickled or guessed.
Whatever happens in the fork, the calling code continues unchanged. All of this runs in the sandbox.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import signal
import sys
import time
import types
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch._C._dynamo.eval_frame import set_eval_frame as _set_eval_frame
from torch._dynamo import eval_frame

from ..dynamo import runs
from ..dynamo.records import encode
from ..dynamo.runs import Call, innermost
from ..inputs.large_models import lift_limits
from ..inputs.targets import BuiltTarget, ProblemError
from ..operations import confirming
from ..process.batch import can_fork
from ..process.supervisor import run_to_end
from ..process.wire import Prefixed, Reply, Silent
from ..source import loading, stand_ins
from ..tracing import signature
from ..tracing.instrument import instrument
from ..tracing.live import maker
from .devices import OnTheCpu
from .eager_calls import lines_of, tried
from .forks import Fork, ending_of, message_of
from .processor_time import seconds_used, unhurried
from .recipes import Constructions, NoRecipeError, recipe_of
from .wanted import Span, Wanted, wanted_of

# The maximum number of different kinds of calls to consider for a target.
_MOST_KINDS = 24
# Fractions of the request's time: when to stop accepting calls, how long to continue without a call that reaches
# required lines, and the limits for a single call. The last target gets more, because no other needs the time.
_SHARE, _FRUITLESS, _FOR_A_CALL, _FOR_THE_LAST = 0.7, 0.06, 0.2, 0.5
# The processor time of a slow call in eager mode, in seconds, and the fraction of the time when the last call must end.
_SLOW, _END = 1.0, 0.95
# The maximum number of bytes in a call's tensors. More would make each of its many runs slow.
_MOST_BYTES = 1 << 29
# The maximum length of a problem's text, in characters.
_LONGEST = 200


class EnoughError(BaseException):
    """Enough calls have been seen. This is a BaseException so that user code does not catch it."""


class Harvest:
    """Receives all calls to modules. See `instrument`.

    `where` describes the code that is running, and `started` counts the snippets and tests that have started.
    `problems` are pairs of a description and the reason why the code gave no call. Harvesting stops when it has used
    its share of the request's processor time, or if the most recent part of that time showed nothing new.
    """

    busy = False
    watches = ()

    def __init__(self, request: Mapping[str, Any], reply: Reply) -> None:
        self.where = ""
        self.problems: dict[tuple[str, str], None] = {}
        self.on_the_cpu = OnTheCpu()
        self.stop: BaseException = EnoughError()
        self._request, self._reply, self.roots = request, reply, list[str](request["roots"])
        self._until = request["seconds"] * _SHARE
        self._patience = request["seconds"] * _FRUITLESS
        self._wanted = {_key(one["target"]): wanted_of(one, request["record"]) for one in request["wanted"]}
        self._originals: dict[types.FunctionType, types.CodeType] = {}
        # The lines of each target, by file.
        self._bodies: dict[tuple[str, str], set[tuple[str, int]]] = {}
        self._recording = bool(request["record"])
        self._constructions = Constructions()
        self._count = 0
        self._held: list[Fork] = []
        self.started: int = request["after"]
        self.begin()

    def install(self) -> None:
        """Start intercepting calls to modules and to the functions that are targets."""
        for method in (Harvest.enter, Harvest.leave):
            eval_frame.skip_code(method.__code__)
        instrument(nn.Module._wrapped_call_impl, self, "self")  # noqa: SLF001
        for one in self._wanted.values():
            try:
                found = loading.load_target(one.target)
            except BaseException as error:  # noqa: BLE001 - user code may raise anything
                self.note(one.target["qualname"], f"{type(error).__name__}: {error}")
                continue
            body = vars(found).get("forward") if isinstance(found, type) else found
            if not self._recording:
                self._bodies[_key(one.target)] = lines_of(body)
            if isinstance(found, type):
                self._watch_forward(found)
            else:
                self._watch_function(one, found)

    def _watch_function(self, wanted: Wanted, found: Any) -> None:
        """Intercept calls to a function, under any name that it is bound to."""
        owner = "." in wanted.target["qualname"]

        def seen(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if not wanted.done:
                # If the function is a method, the instance is part of the callable.
                subject = types.MethodType(found, args[0]) if owner and args and callable(found) else found
                self._look([wanted], subject, args[1:] if subject is not found else args, kwargs)

        self._intercept(found, seen)

    def _watch_forward(self, cls: type) -> None:
        """Intercept calls to a module's `forward` method that do not go through the module."""

        def seen(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if args:
                self.enter(args[0], args[1:], kwargs)

        self._intercept(getattr(cls, "forward", None), seen)

    def _intercept(self, found: Any, seen: Callable[[tuple[Any, ...], dict[str, Any]], None]) -> None:
        function = innermost(found) if callable(found) else None
        if not isinstance(function, types.FunctionType) or function in self._originals:
            return
        original, closure = function.__code__, function.__closure__
        plain = types.FunctionType(original, function.__globals__, function.__name__, function.__defaults__, closure)
        plain.__kwdefaults__ = function.__kwdefaults__
        self._originals[function] = original

        def called(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if not (self.busy or torch.compiler.is_compiling()):
                seen(args, kwargs)
            return plain(*args, **kwargs)

        eval_frame.skip_code(called.__code__)
        # If a function has a closure, its code can only be replaced by code with the same number of free variables.
        function.__code__ = _calling(called).replace(co_freevars=original.co_freevars)

    def start(self, where: str) -> None:
        """Note that a snippet or test starts. If it ends the process, the client asks again for those after it."""
        self.where, self.started = where, self.started + 1
        self._reply.part("started", [self.started, where[:_LONGEST]])

    def note(self, where: str, reason: str) -> None:
        """Record why some code gave no call."""
        self.problems[where[:_LONGEST], reason[:_LONGEST]] = None

    def begin(self, patience: float = 0) -> None:
        """Start counting the time without new calls, because code that may make them is about to run.

        The time may be as long as `patience`, if that is longer than usual.
        """
        self._since = seconds_used() + max(patience - self._patience, 0)
        self._constructions.watch(loading.imported_files(self.roots))

    def _seconds(self) -> int:
        """Return the limit for a call that is confirmed or recorded now."""
        left = max(1, sum(not one.done for one in self._wanted.values()))
        share = min(max(_FOR_A_CALL, _SHARE / left), _FOR_THE_LAST)
        return max(1, int(min(self._request["seconds"] * share, self._request["seconds"] * _END - seconds_used())))

    @property
    def over(self) -> bool:
        """Whether no more calls are needed, or no time is left."""
        used = seconds_used()
        spent = used > self._until or used > self._since + self._patience
        return spent or all(one.done for one in self._wanted.values())

    def enter(self, subject: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Consider a call. Always return False, so that the calls inside it are considered too."""
        wanted = [one for one in self._of(type(subject)) if not one.done]
        if wanted:
            self._look(wanted, subject, args, kwargs)
        return False

    def _look(self, wanted: list[Wanted], subject: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.busy = True
        former = _set_eval_frame(None)
        try:
            self._consider(wanted, subject, (args, dict(kwargs)))
        except Exception as reason:  # noqa: BLE001 - dynalint's code must not raise in the user's code
            self.note(self.where, str(reason))
        finally:
            _set_eval_frame(former)
            self.busy = False
        if self.over:
            raise self.stop

    def leave(self) -> None:
        """Do nothing. This is never called, because `enter` always returns False."""

    def _of(self, cls: type) -> list[Wanted]:
        """Return the targets that an instance belongs to: its class, and the class that defines its `forward`."""
        definer = next((base for base in cls.__mro__ if "forward" in vars(base)), cls)
        keys = dict.fromkeys(_key_of(one) for one in (cls, definer))
        return [self._wanted[key] for key in keys if key in self._wanted]

    def _consider(self, wanted: list[Wanted], subject: Any, call: Call) -> None:
        if torch._C._is_tracing() or torch._C._len_torch_dispatch_stack():  # noqa: SLF001
            return
        modes = (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), getattr(subject, "training", None))
        made_of = signature.of_module(subject) if isinstance(subject, nn.Module) else ()
        kind = hash((repr(made_of), repr(signature.of_call(*call)), modes))
        first = wanted[0]
        if kind in first.kinds or len(first.kinds) >= _MOST_KINDS:
            return
        for one in wanted:
            one.kinds.add(kind)
        size = 0
        for tensor in signature.tensors_of(subject, *call):
            signature.check(tensor)
            size += tensor.numel() * tensor.element_size()
        if size > _MOST_BYTES:
            raise signature.DeclinedError(f"the tensors of {_name(subject)} take {size >> 20} MiB")
        if not can_fork():
            self._without_fork(wanted, subject, call)
            return
        started = seconds_used()
        with unhurried():
            reached = self._confirmed(wanted, subject, call)
        if reached is None:
            # A single slow call must not keep all others from being considered.
            self._since += seconds_used() - started
            return
        for one in wanted:
            one.calls += 1
            one.reach(reached)
        self.begin()

    def _without_fork(self, wanted: list[Wanted], subject: Any, call: Call) -> None:
        """Record a call in this process, without knowing what it runs. If calls are confirmed, one is enough."""
        reply = Prefixed(str(self._count), self._reply, stages=True)
        self._count += 1
        said = self._recorded(subject, call, reply, {})
        if "raises" in said:
            raise signature.DeclinedError(said["raises"])
        reply.part("call", {"targets": [one.target for one in wanted], "outcome": "done", "seconds": self._seconds()})
        for one in wanted:
            one.calls += 1 if self._recording else one.most
        self.begin()

    def _confirmed(self, wanted: list[Wanted], subject: Any, call: Call) -> set[Span] | None:
        """Confirm or record a call in a fork. Return the line ranges it reached, or None if it shows nothing.

        A call that reaches no required lines waits, because compiling it is only worthwhile if no other call does.
        """
        number, self._count, seconds = self._count, self._count + 1, self._seconds()
        (source, sink), (gate, opener) = os.pipe(), os.pipe()
        child = os.fork()
        if child == 0:
            os.close(source)
            os.close(opener)
            reply = Prefixed(str(number), self._reply, stages=True)
            self._watched_child(wanted, subject, call, reply, (sink, gate), seconds)
        os.close(sink)
        os.close(gate)
        said = message_of(source, seconds)
        fork = Fork(number, child, opener, wanted, said)
        if said.get("reached") == [] and not self._recording:
            if any(one is other for held in self._held for one in held.wanted for other in wanted):
                fork.end()
            else:
                self._held.append(fork)
            return None
        return self._ended(fork, seconds)

    def finish(self) -> None:
        """Confirm the waiting calls of targets that have no others."""
        for fork in self._held:
            if any(one.calls for one in fork.wanted):
                fork.end()
                continue
            seconds = self._seconds()
            with contextlib.suppress(OSError):
                os.write(fork.opener, bytes([min(seconds, 255)]))
            self._ended(fork, seconds)
            for one in fork.wanted:
                one.calls += 1

    def _ended(self, fork: Fork, seconds: int) -> set[Span] | None:
        outcome, said = ending_of(fork.child, seconds), fork.said
        os.close(fork.opener)
        if "reached" not in said:
            if said.get("raises"):
                self.note(self.where, said["raises"])
            return None
        reached = {(path, first, last) for path, first, last in said["reached"]}
        judged = [*fork.wanted]
        if not self._recording and outcome == "done":
            # The call judges what it calls too.
            inside = (self._wanted[path, name] for path, name in said["inside"])
            for one in inside:
                if not one.calls and all(one is not other for other in fork.wanted):
                    one.calls = 1
                    judged.append(one)
            for one in self._wanted.values():
                one.reach(reached)
        targets = [one.target for one in judged]
        self._reply.part(f"{fork.number}.call", {"targets": targets, "outcome": outcome, "seconds": seconds})
        return reached

    def _watched_child(
        self, wanted: list[Wanted], subject: Any, call: Call, reply: Reply, pipes: tuple[int, int], seconds: int
    ) -> None:
        sink, gate = pipes

        def job(_: Reply) -> None:
            for number in (signal.SIGPROF, signal.SIGALRM):
                signal.signal(number, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            gc.freeze()
            self._wanted = {}
            self.on_the_cpu.forget()
            runs.allow_compiling()
            lift_limits()
            for function, code in self._originals.items():
                function.__code__ = code
            self._constructions.end()
            said = tried(wanted, subject, call, self._request, self._bodies)
            if "reached" in said and self._recording:
                said = self._recorded(subject, call, reply, said)
            os.write(sink, json.dumps(said).encode())
            os.close(sink)
            if "reached" in said and not self._recording:
                opened = [seconds] if said["reached"] else os.read(gate, 1)
                for left in opened:
                    self._run(subject, call, reply, min(left, seconds))

        run_to_end(job, Silent())

    def _recorded(self, subject: Any, call: Call, reply: Reply, said: dict[str, Any]) -> dict[str, Any]:
        """Send a call's recipe. Return `said`, which is the text for the call, or why there is no recipe."""
        try:
            recipe = recipe_of(subject, call, self._constructions)
        except NoRecipeError as reason:
            return {"raises": str(reason)}
        reply.part("inputs", self._text(subject, call))
        reply.part("files", loading.imported_files(self.roots))
        reply.part("recipe", recipe)
        return said

    def _text(self, subject: Any, call: Call) -> str:
        return stand_ins.noted(f"the call {_name(subject)}({signature.text_of(*call)}) in {self.where}")

    def _run(self, subject: Any, call: Call, reply: Reply, seconds: int) -> None:
        text = self._text(subject, call)
        reply.part("inputs", text)
        reply.part("files", loading.imported_files(self.roots))
        target = {**self._request["target"], "qualname": _name(subject)}
        # The limit counts from the fork on. A slow call may not end in time, and it may succeed alone.
        spent = time.process_time()
        request = {**self._request, "target": target, "seconds": max(1, int(seconds - spent))}
        if spent > _SLOW:
            self._recorded(subject, call, reply, {})
        try:
            if not confirming.run_modes(BuiltTarget(maker(subject), call, text, varied=False), request, reply, None):
                self._recorded(subject, call, reply, {})
                os.kill(os.getpid(), signal.SIGXCPU)
        except ProblemError as problem:
            reply.part("problem", {"phase": problem.phase, "failure": encode(problem.failure)})


def _name(subject: Any) -> str:
    found: str = getattr(subject, "__name__", type(subject).__name__)
    return found


_STAND_IN = "<the probe of calls>"


def _calling(act: Callable[[tuple[Any, ...], dict[str, Any]], Any]) -> types.CodeType:
    """Return code for a function that only calls `act` with its arguments."""

    def trampoline(*args: Any, **kwargs: Any) -> Any:
        act: Any = "<the probe of calls>"
        return act(args, kwargs)

    code = trampoline.__code__
    return code.replace(co_consts=tuple(act if constant == _STAND_IN else constant for constant in code.co_consts))


def _key(target: Mapping[str, str]) -> tuple[str, str]:
    return target["path"], target["qualname"]


def _key_of(cls: type) -> tuple[str, str]:
    file = loading.file_of(sys.modules.get(cls.__module__))
    return (loading.real_path(file) if file is not None else ""), cls.__qualname__
