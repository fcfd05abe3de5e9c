"""Find the calls that create or preserve sparse tensors, and the parameters that take them.

The annotation `Tensor` covers dense and sparse tensors. A parameter is known to be sparse if its documentation says so
(see `documented.py`), or if every path through the function uses it in a way that only sparse tensors support.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from dynalint.analysis import kinds as k
from dynalint.analysis.events import Load
from dynalint.analysis.frame import Frame
from dynalint.analysis.kinds import Kind, Unknown
from dynalint.analysis.steps import all_nodes

if TYPE_CHECKING:
    from dynalint.analysis.index import FunctionInfo

_LAYOUTS = ("coo", "csr", "csc", "bsr", "bsc", "compressed")
_LEGACY = "Float Double Half BFloat16 Int Long Short Char Byte".split()
SPARSE_MAKERS = frozenset(
    {
        *(f"torch.sparse_{layout}_tensor" for layout in _LAYOUTS),
        *(f"torch.sparse.{name}Tensor" for name in _LEGACY),
        *(f"Tensor.to_sparse_{layout}" for layout in _LAYOUTS),
        "Tensor.to_sparse",
    }
)
"""The dotted names of functions that always create a sparse tensor."""

RECURRENT_LAYERS = ("torch.nn.RNN", "torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNNBase")
"""Torch layers that Dynamo does not trace into."""

_KEEPING = frozenset(
    "clone coalesce contiguous cpu cuda detach detach_ double float half neg requires_grad_ t to transpose type".split()
)
# Methods that dense tensors do not have, or that raise when called on one.
_OF_SPARSE = frozenset(
    "coalesce is_coalesced indices values crow_indices col_indices ccol_indices row_indices _indices _values _nnz "
    "sparse_resize_".split()
)


def made_sparse(name: str, receiver: Kind | None, result: Kind) -> Kind:
    """Return the result of a call, marked as sparse if the call creates or preserves a sparse tensor."""
    if name in SPARSE_MAKERS:
        return replace(result if isinstance(result, k.Tensor) else k.TENSOR, sparse=True)
    keeps = isinstance(receiver, k.Tensor) and receiver.sparse and name.rpartition(".")[2] in _KEEPING
    return replace(result, sparse=True) if keeps and isinstance(result, k.Tensor) else result


def note_load(frame: Frame, node: ast.Name | ast.Attribute, kind: Kind) -> Kind:
    """Emit an event for reading a variable or attribute if Dynamo rejects it, and return its kind."""
    type_ = type(kind)  # this is called for nearly every expression, so it has to be fast
    if type_ is k.Tensor:
        refused = kind.sparse  # type: ignore[attr-defined]
    elif type_ is k.Union or type_ is k.Object:
        refused = _is_refused(kind)
    else:
        return kind
    if refused:
        frame.emit(Load, node, kind=kind)
    return kind


def _is_refused(kind: Kind) -> bool:
    """Return whether a value is a sparse tensor or a recurrent layer, ignoring None."""
    tensor = k.only_tensor(kind)
    if tensor is not None:
        return tensor.sparse
    return all(one.type in RECURRENT_LAYERS if isinstance(one, k.Object) else one == k.NONE for one in kind.members)


def as_sparse(kind: Kind) -> Kind:
    """Return the kind of a parameter that takes sparse tensors. None is kept as an alternative."""
    if isinstance(kind, Unknown):
        return replace(k.TENSOR, sparse=True)
    if k.only_tensor(kind) is None:
        return kind
    return k.rejoined(kind, [replace(one, sparse=True) if isinstance(one, k.Tensor) else one for one in kind.members])


def as_tested(function: FunctionInfo, name: str, kind: Kind) -> Kind:
    """Return the kind of a parameter. If the function tests whether it is sparse, some callers pass a dense tensor."""
    if not isinstance(kind, k.Tensor) or not kind.sparse or "is_sparse" not in function.text:
        return kind
    tests = (one for one in all_nodes(function.node) if isinstance(one, ast.Attribute) and one.attr == "is_sparse")
    tested = any(isinstance(one.value, ast.Name) and one.value.id == name for one in tests)
    return replace(kind, sparse=False) if tested else kind


def sum_of(left: Kind, right: Kind, result: Kind) -> Kind:
    """Return the sum or difference of two tensors. It is marked as sparse if both tensors are sparse."""
    both = all(isinstance(one, k.Tensor) and one.sparse for one in (left, right))
    return replace(result, sparse=True) if both and isinstance(result, k.Tensor) else result


def note_sparse_argument(frame: Frame, node: ast.expr) -> None:
    """Record that a parameter is passed to a function that takes sparse tensors. It is sparse from now on."""
    if not isinstance(node, ast.Name) or not _is_as_given(frame, node.id):
        return
    note_parameter(frame, node)
    kind = frame.env[node.id]
    sparse = frame.env[node.id] = as_sparse(kind)
    if sparse == kind:
        return
    note_load(frame, node, sparse)
    if frame.record is not None:
        frame.record[node] = sparse


def note_sparse_method(frame: Frame, node: ast.expr, callee: Kind) -> None:
    """Record that a parameter is sparse if a method such as `coalesce` is called on it anywhere in the function."""
    if isinstance(callee, k.Method) and callee.name in _OF_SPARSE and isinstance(callee.receiver, k.Tensor):
        note_parameter(frame, node)


def note_parameter(frame: Frame, node: ast.expr) -> None:
    """Record that a parameter is used as a sparse tensor, if it has not been reassigned and every path uses it."""
    if frame.function is None or frame.condition is not None or not isinstance(node, ast.Name):
        return
    if _is_as_given(frame, node.id) and frame.statement in _on_every_way(frame.function):
        frame.interpreter.evidence.note_sparse(frame.function, node.id)


def _is_as_given(frame: Frame, name: str) -> bool:
    """Return whether a variable is a parameter that can be a tensor and has not been reassigned."""
    kind, given = frame.env.get(name), None if frame.context is None else frame.context.params.get(name)
    if frame.function is None or given is None:
        return False
    tensor = k.only_tensor(as_sparse(given))
    if tensor is None or tensor.array:
        return False
    told = isinstance(given, Unknown) and kind == frame.interpreter.evidence.kind(frame.function, name)
    return told or kind is given or kind == as_sparse(given)


def _on_every_way(function: FunctionInfo) -> Collection[ast.stmt]:
    """Return the statements that run in every call of a function, assuming that its loops run at least once."""
    known: set[ast.stmt] | None = function.known.get(_on_every_way)
    if known is None:
        found = list(function.statements)
        for one in found:
            found += one.body if isinstance(one, (ast.For, ast.With, ast.Try)) else ()
        known = function.known[_on_every_way] = set(found)
    return known
