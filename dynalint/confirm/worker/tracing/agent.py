"""Join a traced command: wait until the program imports torch, then install the probe in it.

This needs very little of the standard library, so that processes that never import torch are not slowed down.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def take_part(session: str) -> None:
    """Make this process report to the session in a folder once it imports torch."""
    sys.meta_path.insert(0, _Watcher(session))


def watch(session: str) -> Any:
    """Make this process, which has imported torch, report to a session from now on. Return its `Watch`."""
    watcher = _Watcher(session)
    watcher.watch_modules(sys.modules["torch"])
    if "torch._dynamo.eval_frame" in sys.modules:
        watcher.watch_compiled(sys.modules["torch._dynamo.eval_frame"])
    else:
        watcher.forget("torch")
        sys.meta_path.insert(0, watcher)
    return watcher.watch


class _Watcher:
    """Stays first among the import finders until torch and its compiler are imported, without changing the imports."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._probe: Any = None
        self.watch: Any = None
        self._after: dict[str, Callable[[ModuleType], None]] = {
            "torch": self.watch_modules,
            "torch._dynamo.eval_frame": self.watch_compiled,
        }

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in self._after:
            return None
        finders = [finder for finder in sys.meta_path if finder is not self]
        found = (finder.find_spec(name, path, target) for finder in finders if hasattr(finder, "find_spec"))
        spec = next((spec for spec in found if spec is not None), None)
        loader: Any = spec.loader if spec is not None else None
        if loader is not None:
            execute, act = loader.exec_module, self._after.pop(name)

            def exec_module(module: ModuleType) -> None:
                # This instance attribute hides the class's method for this import only.
                del loader.exec_module
                execute(module)
                self._safely(act, module)

            loader.exec_module = exec_module
        if not self._after:
            sys.meta_path.remove(self)
        return spec

    def forget(self, name: str) -> None:
        """Stop waiting for a module."""
        del self._after[name]

    def _safely(self, act: Callable[[ModuleType], None], module: ModuleType) -> None:
        try:
            act(module)
        except Exception as error:  # noqa: BLE001 - dynalint's code must not raise in the user's program
            self._complain(f"{type(error).__name__}: {error}")

    def _complain(self, reason: str) -> None:
        from .session import Session

        with contextlib.suppress(Exception):
            Session(self._session).note(failed=reason)

    def watch_modules(self, torch: Any) -> None:
        """Install the probe in calls to modules."""
        from .instrument import instrument, probe_in
        from .probe import Probe, Watch
        from .session import Session

        call = torch.nn.Module._wrapped_call_impl  # noqa: SLF001
        self._probe = probe_in(call)
        if self._probe is None:
            self._probe = Probe([])
            instrument(call, self._probe, "self")
        self.watch = Watch(Session(self._session))
        self._probe.watches.append(self.watch)

    def watch_compiled(self, eval_frame: Any) -> None:
        """Install the probe in calls to compiled functions."""
        from .instrument import instrument, probe_in

        call = eval_frame._TorchDynamoContext.__call__  # noqa: SLF001
        if self._probe is not None and probe_in(call) is None:
            for method in (type(self._probe).enter, type(self._probe).leave):
                eval_frame.skip_code(method.__code__)
            instrument(call, self._probe, "fn", inner=("compile_wrapper", "_fn"))
