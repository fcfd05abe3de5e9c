"""Sparse tensors: what makes them, and what gives another one."""

from __future__ import annotations

import ast
from dataclasses import replace

from dynalint.analysis import kinds as k
from dynalint.analysis.events import SparseLoad
from dynalint.analysis.frame import Frame
from dynalint.analysis.kinds import Kind

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
"""The dotted names of what makes a sparse tensor, whatever it is given."""

_KEEPING = frozenset(
    "clone coalesce contiguous cpu cuda detach detach_ double float half neg requires_grad_ t to transpose type".split()
)


def made_sparse(name: str, receiver: Kind | None, result: Kind) -> Kind:
    """Return what a call gives as sparse, if it makes a sparse tensor or keeps one so."""
    if name in SPARSE_MAKERS:
        return replace(result if isinstance(result, k.Tensor) else k.TENSOR, sparse=True)
    keeps = isinstance(receiver, k.Tensor) and receiver.sparse and name.rpartition(".")[2] in _KEEPING
    return replace(result, sparse=True) if keeps and isinstance(result, k.Tensor) else result


def note_load(frame: Frame, node: ast.Name | ast.Attribute, kind: Kind) -> Kind:
    """Emit that a variable or attribute is read that holds a sparse tensor; return its kind."""
    tensor = k.only_tensor(kind) if isinstance(kind, (k.Tensor, k.Union)) else None
    if tensor is not None and tensor.sparse:
        frame.emit(SparseLoad, node)
    return kind
