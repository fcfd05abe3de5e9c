"""Watch the outermost calls to modules and compiled functions, and confirm new kinds of calls in a fork.

Nothing here raises exceptions in the program or runs the program's Python code.
"""

from __future__ import annotations

import platform
import signal
import sys
import threading
import time
import types
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._C._dynamo.eval_frame import set_eval_frame as _set_eval_frame

from ..source.loading import is_below
from . import signature
from .session import Session, content_hash, digest
from .signature import DeclinedError, Signature
from .snapshot import Snapshot, take

_REPORT_SECONDS = 0.2
_MOST_FAILURES = 20
_DATA_LOADERS = "torch.utils.data._utils.signal_handling"
# The tensors may take at most this fraction of a target's memory limit, because a run copies them more than once.
_SHARE = 4


@dataclass
class _Subject:
    """A callable: where its code is defined, and the keys of its calls seen so far."""

    path: str
    module: str
    qualname: str
    kind: str
    configuration: Signature
    keys: dict[Signature, str] = field(default_factory=dict)


class Probe(threading.local):
    """The object that torch's functions call (see `instrument`). Reading `busy` runs no Python code."""

    busy = False

    def __init__(self, watches: list[Watch]) -> None:
        # Each new thread calls this again with the same list.
        self.watches = watches

    def enter(self, subject: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Begin a call. Return True if `leave` must be called at its end."""
        watches = [watch for watch in self.watches if not watch.off]
        if not watches:
            return False
        self.busy = True
        # This may run in eager code in a compiled program, and Dynamo must not compile it as part of the program.
        former = _set_eval_frame(None)
        try:
            for watch in watches:
                watch.see(subject, args, kwargs)
        finally:
            _set_eval_frame(former)
        return True

    def leave(self) -> None:
        """End a call."""
        self.busy = False


class Watch:
    """Decides which calls to confirm, and measures its own time. `touched` are the keys of all calls."""

    def __init__(self, session: Session) -> None:
        self.off = False
        self.touched: set[str] = set()
        self._session = session
        self._lock = threading.Lock()
        self._subjects: dict[int, tuple[weakref.ref[Any], _Subject | None]] = {}
        self._declined: set[tuple[str, str]] = set()
        self._own: dict[str, bool] = {}
        self._hashes: dict[str, str | None] = {}
        self._foreign: set[str] = set()
        self._unreported = 0.0
        self._failures = 0
        session.note(torch=str(torch.__version__))

    def see(self, subject: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Look at a call, and fork the process if the call is of a new kind."""
        if not self._lock.acquire(blocking=False):
            return
        start = time.perf_counter()
        waited = 0.0
        try:
            waited = self._consider(subject, args, kwargs)
        except Exception as error:  # noqa: BLE001 - dynalint's code must not raise in the user's program
            self._fail(f"{type(error).__name__}: {error}")
        finally:
            self._account(time.perf_counter() - start - waited)
            self._lock.release()

    def _account(self, seconds: float) -> None:
        self._unreported += seconds
        if self._unreported < _REPORT_SECONDS:
            return
        try:
            self._session.spend(self._unreported)
            self._unreported = 0.0
            self.off = self.off or self._session.left <= 0
        except OSError:
            self.off = True  # The session is over, and this process outlives it.

    def _fail(self, reason: str) -> None:
        self._failures += 1
        self.off = self.off or self._failures >= _MOST_FAILURES
        try:
            self._session.note(failed=reason)
        except OSError:
            self.off = True

    def _consider(self, subject: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> float:
        """Return the seconds spent waiting for earlier snapshots. The snapshots account for that time themselves."""
        subject = getattr(subject, "_orig_mod", subject)
        known = self._known(subject)
        if known is None or torch._C._is_tracing() or torch._C._len_torch_dispatch_stack():  # noqa: SLF001
            return 0.0
        try:
            modes = (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), getattr(subject, "training", None))
            kind = (*signature.of_call(args, kwargs), *modes)
            key, new = known.keys.get(kind), False
            if key is None:
                versions = (str(torch.__version__), platform.python_version_tuple()[:2])
                key, new = digest((known.kind, known.configuration, kind, versions)), True
                known.keys[kind] = key
            self.touched.add(key)
            return self._confirm(known, key, subject, args, kwargs) if new else 0.0
        except DeclinedError as reason:
            if (known.qualname, str(reason)) not in self._declined:
                self._declined.add((known.qualname, str(reason)))
                self._session.note(declined=known.qualname, reason=str(reason))
            return 0.0

    def _known(self, subject: Any) -> _Subject | None:
        """Return the record for a callable, or None if none of its code is the user's own."""
        key = subject.__func__ if isinstance(subject, types.MethodType) else subject
        if not isinstance(key, (nn.Module, types.FunctionType)):
            return None
        reference, found = self._subjects.get(id(key), (None, None))
        if reference is None or reference() is not key:
            found = self._module(key) if isinstance(key, nn.Module) else self._function(key)
            self._subjects[id(key)] = weakref.ref(key), found
        return found

    def _module(self, module: nn.Module) -> _Subject | None:
        if isinstance(module, torch.jit.ScriptModule):
            return None
        files = {_file_of(type(part)) for part in module.modules()}
        own = sorted(file for file in files if self._is_own(file))
        cls = type(module)
        if not own:
            self._note_foreign(cls.__module__)
            return None
        path = _file_of(cls)
        kind = digest((cls.__module__, cls.__qualname__, *((file, self._hash(file)) for file in own)))
        return _Subject(path, _import_name(cls.__module__), cls.__qualname__, kind, signature.of_module(module))

    def _function(self, function: types.FunctionType) -> _Subject | None:
        path = str(Path(function.__code__.co_filename).resolve())
        if not self._is_own(path):
            self._note_foreign(function.__module__)
            return None
        kind = digest((path, function.__qualname__, self._hash(path)))
        return _Subject(path, _import_name(function.__module__), function.__qualname__, kind, ())

    def _is_own(self, file: str) -> bool:
        if file not in self._own:
            path = Path(file)
            self._own[file] = bool(file) and any(is_below(path, Path(root)) for root in self._session.roots)
        return self._own[file]

    def _hash(self, file: str) -> str | None:
        if file not in self._hashes:
            self._hashes[file] = content_hash(file)
        return self._hashes[file]

    def _note_foreign(self, module: str) -> None:
        package = module.partition(".")[0]
        if package not in self._foreign and package != "torch":
            self._foreign.add(package)
            self._session.note(foreign=package)

    def _confirm(
        self, known: _Subject, key: str, subject: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> float:
        session = self._session
        if not session.claim(known.kind, key):
            return 0.0
        _check_process()
        size = 0
        for tensor in signature.tensors_of(subject, args, kwargs):
            signature.check(tensor)
            size += tensor.numel() * tensor.element_size()
        if size > session.memory // _SHARE:
            raise DeclinedError(f"its tensors take {size >> 20} MiB, which is too much to copy")
        start = time.perf_counter()
        slot = session.slot(_resident_memory())
        waited = time.perf_counter() - start
        if slot is None:
            if session.left > 0:
                raise DeclinedError("the process uses too much memory to be forked")
            session.note(left=known.qualname)
            return waited
        text = f"the traced call {known.qualname}({signature.text_of(args, kwargs)})"
        target = {"path": known.path, "module": known.module, "qualname": known.qualname}
        take(Snapshot(session, known.kind, key, target, text, subject, args, dict(kwargs)), slot, self._switch_off)
        return waited

    def _switch_off(self) -> None:
        self.off = True


def _check_process() -> None:
    """Raise DeclinedError if the process cannot be forked without the program noticing."""
    if sys.platform == "win32":
        raise DeclinedError("this system cannot fork processes")
    if torch.cuda.is_initialized():
        raise DeclinedError("the process uses CUDA, which a forked process cannot use")
    if callable(_handler_of_ended_processes()):
        raise DeclinedError("the program handles SIGCHLD, so it would notice the fork")


def _handler_of_ended_processes() -> Any:
    """Return the program's SIGCHLD handler, below the handlers of torch's data loaders for their own workers."""
    handler: Any = signal.getsignal(signal.SIGCHLD)
    while isinstance(handler, types.FunctionType) and handler.__module__ == _DATA_LOADERS:
        cells = dict(zip(handler.__code__.co_freevars, handler.__closure__ or (), strict=False))
        handler = cells["previous_handler"].cell_contents if "previous_handler" in cells else None
    return handler


def _file_of(cls: type) -> str:
    """Return the resolved file of the module that defines a class, or an empty string."""
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return str(Path(file).resolve()) if isinstance(file, str) else ""


def _import_name(module: str) -> str:
    return "" if module == "__main__" else module


def _resident_memory() -> int:
    """Return this process's resident memory in bytes, or 0 if unknown."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    import resource

    return pages * resource.getpagesize()
