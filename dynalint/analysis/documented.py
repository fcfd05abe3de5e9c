"""Read parameter types from docstrings to find the parameters documented as tensors or sparse tensors.

Supports the numpydoc (`x : torch.Tensor, shape = (n, 3)`), Google (`x (Tensor, optional): ...`) and Sphinx (`:type x:
torch.Tensor`, `:param torch.Tensor x: ...`) styles. A parameter with alternatives, such as `float or Tensor`, is
ignored.
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
    r"|(?:torch\.)?(?P<{0}dtype>Float|Double|Half|Long|Int|Bool)?(?:Tensor|(?<=torch\.)tensor))`*"
)
_NOTHING_ELSE = r"(?=\s*(?:$|[,;()\[:]|of |with |containing ))(?![^)\n]*(?:\bor\b(?! None)|\||\bdense\b))"
_STYLES = (
    r"`{0,2}(?P<n>\w+)`{0,2} ?(?::|\() ?" + _TYPE.format("n") + _NOTHING_ELSE,
    r":type (?P<t>\w+): " + _TYPE.format("t") + _NOTHING_ELSE,
    r":param " + _TYPE.format("p") + r" (?P<p>\w+):",
)
_PARAMETER = re.compile(rf"^[ \t*-]*(?:{'|'.join(_STYLES)})", re.MULTILINE)
_DTYPES: dict[str, k.DType] = {
    "Float": "float",
    "Double": "float",
    "Half": "float",
    "Long": "int",
    "Int": "int",
    "Bool": "bool",
}


def documented(function: FunctionInfo) -> dict[str, k.Tensor]:
    """Return the parameters documented as tensors. A class docstring documents the constructor's parameters."""
    known: dict[str, k.Tensor] | None = function.known.get(documented)
    if known is None:
        nodes: list[ast.AST] = [function.node]
        if function.name == "__init__" and function.owner is not None:
            nodes.append(function.owner.node)
        known = function.known[documented] = {}
        for text in map(_docstring, nodes):
            for found in _PARAMETER.finditer(text) if "ensor" in text or "torch.sparse" in text else ():
                style = next(one for one in "ntp" if found[one])
                dtype, sparse = _DTYPES.get(found[f"{style}dtype"] or ""), bool(found[f"{style}sparse"])
                known.setdefault(found[style], k.Tensor(dtype, sparse=sparse))
    return known


def _docstring(node: ast.AST) -> str:
    body = getattr(node, "body", None)
    first = body[0] if isinstance(body, list) and body else None
    value = first.value if isinstance(first, ast.Expr) else None
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""
