"""Runs in which tests of tensors are answered at will, for the sides of a branch that no input was found for.

`if x.abs().min() < -1:` has a side that never runs, and others have one that only very special inputs reach. Where two
versions of the code give the same to every call although the tests in both were answered otherwise than they should
have been, each by the same rule, that side of the one does what it does in the other.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_ASKED = frozenset({"lt", "le", "gt", "ge", "eq", "ne", "any", "all"})
_MOST_READ = 4096


class Imagined(TorchFunctionMode):  # type: ignore[misc, unused-ignore]  # untyped in torch
    """Turns about every other answer round, drawn by `seed`: the same for the same test of the same operands."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer one call."""
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "").strip("_")
        if name == "equal":
            return result ^ self._turns("all", [(args[0] == args[1])]) if args[0].shape == args[1].shape else result
        if name == "bool":
            plain = not isinstance(args[0], torch.Tensor) or args[0].dtype is torch.bool
            return result if plain else result ^ self._turns("ne", [args[0], 0])
        if name in _ASKED and isinstance(result, torch.Tensor) and result.dtype is torch.bool and result.numel() == 1:
            return result ^ self._turns(name, args)
        return result

    def _turns(self, name: str, operands: Sequence[Any]) -> bool:
        question = [name, *map(_read, operands)]
        return None not in question and bool(zlib.crc32(repr((self._seed, question)).encode()) & 1)


def _read(operand: Any) -> Any:
    """The operand in a form that is the same for the same numbers; None where there are too many of them."""
    if not isinstance(operand, torch.Tensor):
        return repr(operand)
    return operand.detach().flatten().tolist() if operand.numel() <= _MOST_READ else None
