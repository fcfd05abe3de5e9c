"""Take part in a traced command: wait until the program imports torch, then put the probe into it.

Standard library only, and next to nothing of it: processes that never import torch must not notice.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def take_part(session: str) -> None:
    """Have this process report to the session in a folder, once it imports torch."""
    sys.meta_path.insert(0, _Watcher(session))


class _Watcher:
    """Stands in front of the finders until torch and its compiler are imported, and changes nothing of how."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._probe: Any = None
        self._after: dict[str, Callable[[ModuleType], None]] = {
            "torch": self._watch_modules,
            "torch._dynamo.eval_frame": self._watch_compiled,
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
                # An attribute of the loader, over the method of its class, for this one time.
                del loader.exec_module
                execute(module)
                self._safely(act, module)

            loader.exec_module = exec_module
        if not self._after:
            sys.meta_path.remove(self)
        return spec

    def _safely(self, act: Callable[[ModuleType], None], module: ModuleType) -> None:
        try:
            act(module)
        except Exception as error:  # noqa: BLE001 - nothing of ours may fail in the user's program
            self._complain(f"{type(error).__name__}: {error}")

    def _complain(self, reason: str) -> None:
        from .session import Session

        with contextlib.suppress(Exception):
            Session(self._session).note(failed=reason)

    def _watch_modules(self, torch: Any) -> None:
        from .instrument import instrument
        from .probe import Probe, Watch
        from .session import Session

        self._probe = Probe(Watch(Session(self._session)))
        instrument(torch.nn.Module._wrapped_call_impl, self._probe, "self")  # noqa: SLF001

    def _watch_compiled(self, eval_frame: Any) -> None:
        from .instrument import instrument

        if self._probe is not None:
            for method in (type(self._probe).enter, type(self._probe).leave):
                eval_frame.skip_code(method.__code__)
            context = eval_frame._TorchDynamoContext  # noqa: SLF001
            instrument(context.__call__, self._probe, "fn", inner=("compile_wrapper", "_fn"))
