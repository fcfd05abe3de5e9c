"""A probe in a function: called around it, and seen nowhere else. No torch here: its place is taken by a module."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dynalint.confirm.worker.tracing.instrument import instrument, probe_in

SOURCE = '''
from __future__ import annotations


class torch:
    class compiler:
        on = False

        @classmethod
        def is_compiling(cls):
            return cls.on


class Module:
    x = None

    def _wrapped_call_impl(self, *args, **kwargs):
        """Words."""
        if self.x is not None:
            return self.__private(*args, **kwargs)
        else:
            return self.forward(*args, **kwargs)

    def __private(self):
        raise KeyError("private")

    def forward(self, a):
        return 1 / a


class Context:
    def __call__(self, fn):
        before = __class__.__name__

        def compile_wrapper(*args: Any, **kwargs: Any) -> Any:
            try:
                return fn(*args, **kwargs), before
            finally:
                self.ended = True

        return compile_wrapper
'''


class Probe:
    def __init__(self) -> None:
        self.busy = False
        self.watches: list[Any] = []
        self.seen: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []

    def enter(self, subject: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        self.seen.append((subject, args, kwargs))
        self.busy = True
        return True

    def leave(self) -> None:
        self.busy = False


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (tmp_path / "users_torch.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "users_torch", raising=False)
    return importlib.import_module("users_torch")


def raised(act: Callable[[], object]) -> str:
    try:
        act()
    except Exception:  # noqa: BLE001 - whatever it is
        return traceback.format_exc()
    raise AssertionError("nothing was raised")


def test_tracebacks_names_and_identities_stay(fake: ModuleType) -> None:
    module, private = fake.Module(), fake.Module()
    private.x = 1
    call, context = fake.Module._wrapped_call_impl, fake.Context()
    acts = (lambda: call(module, 0), lambda: call(private), lambda: context(lambda x: 1 / x)(0), lambda: call(module))
    before = [raised(act) for act in acts]
    code, words = call.__code__, call.__doc__
    probe = Probe()
    instrument(call, probe, "self")
    instrument(fake.Context.__call__, probe, "fn", inner=("compile_wrapper", "_fn"))
    assert [raised(act) for act in acts] == before
    assert [args for _, args, _ in probe.seen] == [(0,), (), (0,), ()]
    assert not probe.busy
    assert fake.Module._wrapped_call_impl is call
    assert call.__doc__ == words
    new = call.__code__
    assert (new.co_name, new.co_filename, new.co_firstlineno) == (code.co_name, code.co_filename, code.co_firstlineno)
    assert context(lambda x, y: x + y)(1, y=2) == (3, "Context")
    assert probe_in(call) is probe_in(fake.Context.__call__) is probe


def test_calls_inside_a_call_and_traced_calls_are_not_seen(fake: ModuleType) -> None:
    call, probe = fake.Module._wrapped_call_impl, Probe()
    instrument(call, probe, "self")
    inner = fake.Module()
    outer = fake.Module()
    outer.forward = lambda a: call(inner, a)
    assert call(outer, 2) == 0.5
    assert [subject for subject, _, _ in probe.seen] == [outer]
    fake.torch.compiler.on = True
    assert call(outer, 2) == 0.5
    assert len(probe.seen) == 1


def test_what_is_built_otherwise_is_left_alone(fake: ModuleType) -> None:
    code = fake.Context.__call__.__code__
    with pytest.raises(LookupError, match="torch has no function other"):
        instrument(fake.Context.__call__, Probe(), "fn", inner=("other",))
    assert fake.Context.__call__.__code__ is code
    assert probe_in(fake.Context.__call__) is None
