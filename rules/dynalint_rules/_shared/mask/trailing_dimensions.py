"""Guess from the code how many dimensions a tensor has in addition to a mask's dimensions.

The guess never causes a finding, and a run must verify any rewrite that depends on it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass

from dynalint.rulekit import k
from dynalint_rules._code.names import loads, only_value
from dynalint_rules._code.scope import Scope

_LAYERS = {
    1: "CELU ELU GELU Hardswish Identity LayerNorm LeakyReLU Linear Mish RMSNorm ReLU ReLU6 SELU SiLU Sigmoid Softplus "
    "Tanh",
    2: "AvgPool1d Conv1d ConvTranspose1d MaxPool1d",
    3: "AvgPool2d Conv2d ConvTranspose2d MaxPool2d Upsample",
    4: "AvgPool3d Conv3d ConvTranspose3d MaxPool3d",
}
_SIZES = {f"torch.nn.{name}": size for size, names in _LAYERS.items() for name in names.split()}
LESS = frozenset("all any squeeze sum mean argmax argmin amax amin norm prod".split())
_MOST_STEPS = 12
_STATED = r"\b{name}\b[^()\[\],.;]*(?:\(\w*Tensor\)[^()\[\],.;]*)?[(\[]\s*(\w+(?:\s*,\s*[\w*+/-]+)*,?)\s*[)\]]"
_TYPES = frozenset("tensor optional float int bool str list tuple none default".split())


@dataclass(frozen=True)
class _Form:
    """The number of dimensions, if known, and how many of them belong to one element."""

    rank: int | None = None
    own: int = 0


def row_size(scope: Scope, function: ast.expr) -> int:
    """Return the number of dimensions per item for a layer or a sequence of layers, or 0 if unknown."""
    kind = scope.kind(function)
    layers: Iterable[k.Kind] = kind.members
    if isinstance(kind, k.Sequence) and kind.type == "torch.nn.Sequential":
        layers = kind.element.members if kind.items is None else kind.items
    sizes = [_SIZES.get(one.type, 0) if isinstance(one, k.Object) else 0 for one in layers]
    return max(sizes, default=0) if all(sizes) else 0


def trailing(scope: Scope, source: ast.expr, mask: ast.expr) -> int:
    """Return how many dimensions a tensor has in addition to a mask's dimensions."""
    one, other = _form(scope, source, _MOST_STEPS), _form(scope, mask, _MOST_STEPS)
    if one.rank is not None and other.rank is not None:
        return max(one.rank - other.rank, 0)
    return max(one.own - other.own, 0)


def rank_of(scope: Scope, node: ast.expr) -> int | None:
    """Return how many dimensions a tensor has, or None if the code does not show it."""
    return _form(scope, node, _MOST_STEPS).rank


def is_certain(scope: Scope, source: ast.expr, mask: ast.expr) -> bool:
    """Return whether the code shows this number, because of both ranks, comments, or a common origin."""
    forms = [_form(scope, one, _MOST_STEPS) for one in (source, mask)]
    if all(one.rank is not None for one in forms):
        return True
    return have_one_origin(scope, source, mask)


def have_one_origin(scope: Scope, source: ast.expr, mask: ast.expr) -> bool:
    """Return whether the dimensions of a tensor and of a mask come from the same tensor."""
    return not _origins(scope, source, _MOST_STEPS).isdisjoint(_origins(scope, mask, _MOST_STEPS))


def _origins(scope: Scope, node: ast.expr, steps: int) -> set[str]:
    """Return the names that determine the dimensions of an expression, unless a step makes them uncertain."""
    if isinstance(node, ast.Name):
        value = only_value(scope, node.id, node)
        return {node.id} | (_origins(scope, value, steps - 1) if value is not None and steps else set())
    if isinstance(node, ast.Call):
        last = ast.unparse(node.func).rpartition(".")[2]
        if last in LESS or not steps:
            return set()
        owner = [node.func.value] if isinstance(node.func, ast.Attribute) and scope.tensor(node.func.value) else []
        return set().union(*(_origins(scope, one, steps - 1) for one in (*owner, *node.args)))
    if isinstance(node, ast.BinOp | ast.Compare | ast.UnaryOp) and steps:
        parts = [one for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr)]
        return set().union(*(_origins(scope, one, steps - 1) for one in parts))
    return set()


def _form(scope: Scope, node: ast.expr, steps: int) -> _Form:
    tensor = scope.tensor(node)
    found = _guessed(scope, node, steps) if steps else _Form()
    return found if tensor is None or tensor.rank is None else _Form(tensor.rank, found.own)


def _guessed(scope: Scope, node: ast.expr, steps: int) -> _Form:
    if isinstance(node, ast.Name):
        value = only_value(scope, node.id, node)
        found = _Form(_stated(scope, node.id)) if value is None else _form(scope, value, steps - 1)
        return _Form(found.rank, max(found.own, _size_fed(scope, node.id)))
    if isinstance(node, ast.BinOp | ast.Compare | ast.BoolOp | ast.UnaryOp):
        parts = [_form(scope, one, steps - 1) for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr)]
        ranks = [part.rank for part in parts if part.rank is not None]
        return _Form(max(ranks, default=None), max(part.own for part in parts))
    if not isinstance(node, ast.Call):
        return _Form()
    if (size := row_size(scope, node.func)) and len(node.args) == 1:
        given = _form(scope, node.args[0], steps - 1)
        return _Form(given.rank if size == 1 else size + 1, max(given.own, size))
    owner = node.func.value if isinstance(node.func, ast.Attribute) and scope.tensor(node.func.value) else None
    owner = owner or (node.args[0] if node.args and isinstance(scope.kind(node.func), k.External) else None)
    if owner is None:
        return _Form()
    given, method = _form(scope, owner, steps - 1), ast.unparse(node.func).rpartition(".")[2]
    return _Form() if method in LESS else given


def _size_fed(scope: Scope, name: str) -> int:
    """Return the number of dimensions per item for the layers that receive the value of `name`."""
    calls = ((load, scope.parents.get(load)) for load in loads(scope, name))
    fed = [call.func for load, call in calls if isinstance(call, ast.Call) and call.args == [load]]
    return max((row_size(scope, layer) for layer in fed), default=0)


def _stated(scope: Scope, name: str) -> int | None:
    """Return a parameter's number of dimensions as stated by a docstring or comment, such as `x: (batch, time)`."""
    function = scope.function
    if name not in [one.arg for one in function.named]:
        return None
    first = function.statements[0].lineno if function.statements else 0
    comments = [scope.file.line(line).partition("#")[2] for line in range(function.node.lineno, first)]
    holders = [function.node, *([function.owner.node] if function.owner is not None else [])]
    texts = [text for one in holders if not isinstance(one, ast.Lambda) and (text := ast.get_docstring(one))]
    for line in (*comments, *(line for text in texts for line in text.splitlines())):
        said = re.search(_STATED.format(name=re.escape(name)), line)
        parts = [part.strip() for part in said[1].split(",")] if said is not None else []
        if parts and not _TYPES.intersection(part.lower() for part in parts):
            return len([part for part in parts if part])
    return None
