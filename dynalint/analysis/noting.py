"""Emit events for calls that rules watch, and for assertions."""

from __future__ import annotations

import ast
import sys
from functools import cache
from typing import Final

from dynalint.analysis import torch_api
from dynalint.analysis.events import Assertion, Call, InstalledCall
from dynalint.analysis.frame import Frame
from dynalint.analysis.kinds import (
    UNKNOWN,
    Dictionary,
    Instance,
    Kind,
    Object,
    Sequence,
    Super,
    only_tensor,
    outside_call,
)
from dynalint.analysis.torch_calls import certain_flags

_HOLDERS = (Dictionary, Instance, Object, Sequence)
_NO_FLAGS: Final = frozenset[torch_api.Flag]()
# Packages whose functions are known without their code.
_KNOWN = frozenset({"builtins", "numpy", "torch", *sys.stdlib_module_names})


def note_call(
    frame: Frame,
    node: ast.Call | None,
    name: str,
    receiver: Kind | None,
    args: list[Kind],
    keywords: dict[str, Kind],
    result: Kind,
    *,
    starred: bool,
) -> None:
    """Emit an event for a call if a rule watches it."""
    if node is None:
        return
    watched = frame.interpreter.watched(name) or frame.interpreter.watched(torch_api.canonical(name))
    if watched is not None:
        frame.emit(
            Call,
            node,
            extra=name,
            callee=watched,
            receiver=receiver,
            args=tuple(args),
            keywords=keywords,
            result=result,
            flags=_flags(frame, name, args, keywords, starred=starred),
        )


def note_assertion(frame: Frame, node: ast.expr, kind: Kind) -> None:
    """Emit an event if `node`, which may hold tensors, decides whether an assertion passes.

    That is the condition, or the last operand of `and` if all operands before it are true.
    """
    if not isinstance(frame.statement, ast.Assert) or not any(isinstance(one, _HOLDERS) for one in kind.members):
        return
    last = frame.statement.test
    while isinstance(last, ast.BoolOp) and isinstance(last.op, ast.And):
        last = last.values[-1]
    if node is last:
        frame.emit(Assertion, node, kind=kind)


def note_installed(
    frame: Frame,
    node: ast.Call | None,
    name: str,
    args: list[Kind],
    keywords: dict[str, Kind],
    result: Kind = UNKNOWN,
    *,
    starred: bool,
    receiver: Object | None = None,
) -> Kind:
    """Emit a call to something in an installed package, unless a rule watches it; `receiver` is the object called.

    Return its result. If `result` is unknown, it is what the code of the package returns for tensors.
    """
    if node is None or name.partition(".")[0] in _KNOWN or (receiver is not None and receiver.maker is None):
        return result
    maker, call = None if receiver is None else receiver.maker, outside_call(name, args, keywords)
    if frame.interpreter.watched(name) is None:
        frame.emit(InstalledCall, node, extra=name, callee=name, maker=maker, call=call, starred=starred)
    installed, function = frame.interpreter.installed, frame.function
    given = (only_tensor(one) for one in (*args, *keywords.values()))
    asked = result == UNKNOWN and any(one is not None and not one.array for one in given)
    if installed is None or function is None or not asked:
        return result
    return installed.result(function, name, maker, call, starred=starred)


def note_inherited(
    frame: Frame,
    node: ast.Call | None,
    owner: Kind,
    method: str,
    args: list[Kind],
    keywords: dict[str, Kind],
    *,
    starred: bool,
) -> None:
    """Emit a call to a method that a project class inherits from a class of an installed package.

    Nothing is known about the method's `self`: its class may override what the method calls.
    """
    if isinstance(owner, (Instance, Super)):
        bases = frame.interpreter.project.lineage(owner.cls)[1]
        others = [base for base in bases if base.partition(".")[0] not in _KNOWN and base != "?"]
        if len(others) == 1 and "?" not in bases:
            note_installed(frame, node, f"{others[0]}.{method}", [UNKNOWN, *args], keywords, starred=starred)


def _flags(
    frame: Frame, name: str, args: list[Kind], keywords: dict[str, Kind], *, starred: bool
) -> frozenset[torch_api.Flag]:
    """Return the flags that the torch data gives for a call. There are none for calls outside torch."""
    api = frame.interpreter.project.api
    owner, _, last = name.rpartition(".")
    if owner == "Tensor":
        entry = api.method(last)
    elif last == "__call__":
        cls = api.torch_class(owner)
        entry = cls.call if cls is not None else None
    else:
        entry = api.function(name) if name.startswith("torch.") else None
    if entry is None or not _has_flags(entry):
        return _NO_FLAGS
    return certain_flags(entry, args, keywords, starred=starred)


@cache
def _has_flags(entry: torch_api.ApiEntry) -> bool:
    """Return whether a call can have flags at all, which saves the choice of an overload for most functions."""
    return bool(entry.flags)
