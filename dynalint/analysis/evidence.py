"""What the body of a function tells of its parameters: which are tensors, and which of them are sparse."""

from __future__ import annotations

import ast
from collections.abc import Collection

from dynalint.analysis import kinds as k
from dynalint.analysis.documented import documented
from dynalint.analysis.index import FunctionInfo
from dynalint.analysis.kinds import Kind, join
from dynalint.analysis.signatures import parameter_default


class Evidence:
    """What is known of the parameters of the functions that were interpreted."""

    def __init__(self) -> None:
        self._used: dict[FunctionInfo, set[str]] = {}
        self._sparse: dict[FunctionInfo, frozenset[str]] = {}

    def note(self, function: FunctionInfo, parameter: str) -> None:
        """Take note that `function` uses `parameter` as only a tensor can be used."""
        self._used.setdefault(function, set()).add(parameter)

    def kind(self, function: FunctionInfo, parameter: str) -> Kind:
        """The kind of a parameter that is used as a tensor: a tensor, or None where that is its default."""
        default = parameter_default(function, parameter)
        optional = isinstance(default, ast.Constant) and default.value is None
        return join(k.TENSOR, k.NONE) if optional else k.TENSOR

    def of(self, function: FunctionInfo) -> Collection[str]:
        """The parameters that `function` was seen to use as a tensor."""
        return self._used.get(function, ())

    def note_sparse(self, function: FunctionInfo, parameter: str) -> None:
        """Take note that `function` uses `parameter` as only a sparse tensor can be used."""
        self._sparse[function] = self.sparse(function) | {parameter}

    def sparse(self, function: FunctionInfo) -> frozenset[str]:
        """The parameters of `function` that are sparse tensors by what it documents or does."""
        known = self._sparse.get(function)
        if known is None:
            known = frozenset(name for name, tensor in documented(function).items() if tensor.sparse)
            self._sparse[function] = known
        return known

    def amount(self, function: FunctionInfo) -> int:
        """How much the body has told of the parameters by now."""
        return len(self._used.get(function, ())) + len(self.sparse(function))
