"""Evidence in function bodies for which parameters are tensors, and which are sparse tensors."""

from __future__ import annotations

import ast
from collections.abc import Collection

from dynalint.analysis import kinds as k
from dynalint.analysis.documented import documented
from dynalint.analysis.index import NO_NAMES, FunctionInfo
from dynalint.analysis.kinds import Kind, join


class TensorEvidence:
    """Facts about the parameters of the functions interpreted so far."""

    def __init__(self) -> None:
        self._used: dict[FunctionInfo, set[str]] = {}
        self._sparse: dict[FunctionInfo, frozenset[str]] = {}

    def note(self, function: FunctionInfo, parameter: str) -> None:
        """Record that `function` uses `parameter` in a way that only a tensor supports."""
        self._used.setdefault(function, set()).add(parameter)

    def forget(self, function: FunctionInfo) -> frozenset[tuple[str, str]]:
        """Drop the evidence in a function's body, and return it."""
        found = self.all_of(function)
        self._used.pop(function, None)
        self._sparse.pop(function, None)
        return found

    def all_of(self, function: FunctionInfo) -> frozenset[tuple[str, str]]:
        """Return all evidence in a function's body."""
        tensors, sparse = self._used.get(function, ()), self.sparse(function)
        return frozenset([*(("tensor", name) for name in tensors), *(("sparse", name) for name in sparse)])

    def kind(self, function: FunctionInfo, parameter: str) -> Kind:
        """Return the kind of a parameter that is used as a tensor. If its default is None, the kind includes None."""
        default = function.defaults.get(parameter)
        optional = isinstance(default, ast.Constant) and default.value is None
        return join(k.TENSOR, k.NONE) if optional else k.TENSOR

    def of(self, function: FunctionInfo) -> Collection[str]:
        """Return the parameters that `function` uses as tensors."""
        return self._used.get(function, ())

    def note_sparse(self, function: FunctionInfo, parameter: str) -> None:
        """Record that `function` uses `parameter` in a way that only a sparse tensor supports."""
        self._sparse[function] = self.sparse(function) | {parameter}

    def sparse(self, function: FunctionInfo) -> frozenset[str]:
        """Return the parameters of `function` that are sparse tensors according to its documentation or its body."""
        known = self._sparse.get(function)
        if known is None:
            known = frozenset(name for name, tensor in documented(function).items() if tensor.sparse) or NO_NAMES
            self._sparse[function] = known
        return known

    def amount(self, function: FunctionInfo) -> int:
        """Return how much evidence the body has provided so far."""
        return len(self._used.get(function, ())) + len(self.sparse(function))
