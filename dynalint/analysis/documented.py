"""What the documentation of a function says of its parameters: that one is a tensor, that it is a sparse one.

Read are the styles of numpydoc (`x : torch.Tensor, shape = (n, 3)`), Google (`x (Tensor, optional): ...`) and Sphinx
(`:type x: torch.Tensor`). What may be something else besides, such as `float or Tensor`, says nothing here.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from dynalint.analysis import kinds as k

if TYPE_CHECKING:
    from dynalint.analysis.index import FunctionInfo

_TYPE = (
    r"(?::(?:py:)?\w+:)?[`~]*(?:"
    r"(?P<{0}sparse>(?:torch\.)?[sS]parse (?:torch\.)?[tT]ensor|torch\.sparse(?![a-z])[\w.]*)"
    r"|(?:torch\.)?(?P<{0}dtype>Float|Double|Half|Long|Int|Bool)?(?:Tensor|(?<=torch\.)tensor)"
    r")`*(?=\s*(?:$|[,;()\[:]|of |with |containing ))(?![^)\n]*(?:\bor\b(?! None)|\||\bdense\b))"
)
_PARAMETER = re.compile(
    r"^[ \t*-]*(?:"
    r"`{0,2}(?P<name>\w+)`{0,2} ?(?::|\() ?" + _TYPE.format("n") + r"|:type (?P<typed>\w+): " + _TYPE.format("t") + ")",
    re.MULTILINE,
)
_DTYPES = {"Float": "float", "Double": "float", "Half": "float", "Long": "int", "Int": "int", "Bool": "bool"}


def documented(function: FunctionInfo) -> dict[str, k.Tensor]:
    """Return the parameters that a function documents as tensors; a class documents those of its constructor."""
    known: dict[str, k.Tensor] | None = function.known.get(documented)
    if known is None:
        nodes: list[ast.AST] = [function.node]
        if function.name == "__init__" and function.owner is not None:
            nodes.append(function.owner.node)
        known = function.known[documented] = {}
        for text in map(_docstring, nodes):
            for found in _PARAMETER.finditer(text) if "ensor" in text or "torch.sparse" in text else ():
                dtype = _DTYPES.get(found["ndtype"] or found["tdtype"] or "")
                sparse = bool(found["nsparse"] or found["tsparse"])
                known.setdefault(found["name"] or found["typed"], k.Tensor(dtype, sparse=sparse))  # type: ignore[arg-type]
    return known


def _docstring(node: ast.AST) -> str:
    body = getattr(node, "body", None)
    first = body[0] if isinstance(body, list) and body else None
    value = first.value if isinstance(first, ast.Expr) else None
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""
