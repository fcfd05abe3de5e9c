"""Find how many dimensions a function's parameters have, and of which kind they are, from how its code uses them."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

Dimensions = tuple[str, ...]

_UNNAMED = "_"
# Functions of einops whose first argument has the dimensions on the left side of the pattern.
_PATTERNS = frozenset({"rearrange", "reduce", "repeat"})


# The position and kind of an argument of a method. The function in torch has the tensor in front of it.
_OF_METHODS = dict.fromkeys(("gather", "index_select", "scatter", "scatter_add", "index_add"), (1, "int"))
_OF_METHODS |= dict.fromkeys(("masked_fill", "masked_fill_", "masked_select", "masked_scatter"), (0, "bool"))
_OF_FUNCTIONS = {"one_hot": (0, "int"), "embedding": (0, "int"), "cross_entropy": (1, "int"), "nll_loss": (1, "int")}
_OF_FUNCTIONS |= {"where": (0, "bool"), **{name: (at + 1, kind) for name, (at, kind) in _OF_METHODS.items()}}
_MODULES = frozenset({"torch", "F", "functional"})


def used_kinds(function: ast.AST, names: Collection[str]) -> dict[str, str]:
    """Return the kind, `int` or `bool`, of each of the parameters `names` that the code indexes or selects with."""
    found: dict[str, str] = {}
    for node in ast.walk(function):
        for part, kind in _selecting(node):
            if isinstance(part, ast.Name) and part.id in names:
                found.setdefault(part.id, kind)
    return found


def _selecting(node: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Yield the expressions that a node indexes or selects with, and the kind that they have."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
        yield from ((part, "int") for part in node.slice.elts)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        yield node.operand, "bool"
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        of_torch = isinstance(node.func.value, ast.Name) and node.func.value.id in _MODULES
        at, kind = (_OF_FUNCTIONS if of_torch else _OF_METHODS).get(node.func.attr, (len(node.args), ""))
        yield from ((part, kind) for part in node.args[at : at + 1])


def used_shapes(function: ast.AST, names: Collection[str]) -> dict[str, Dimensions]:
    """Return the dimensions of each of the parameters `names` that the code unpacks, permutes or extends.

    A dimension without a name is `_`. Uses after another value was assigned to the parameter do not count.
    """
    found: dict[str, Dimensions] = {}
    nodes = list(ast.walk(function))
    stored = [node for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)]
    for node in nodes:
        for name, dimensions in _stated(node):
            line = getattr(node, "lineno", 0)
            if name in names and all(line <= one.lineno for one in stored if one.id == name):
                found.setdefault(name, dimensions)
    return found


def _stated(node: ast.AST) -> Iterator[tuple[str, Dimensions]]:
    """Yield the name of a tensor and its dimensions, if a node states them."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Tuple):
        name, targets = _shape_of(node.value), node.targets[0].elts
        if name is not None and not any(isinstance(one, ast.Starred) for one in targets):
            yield name, tuple(one.id if isinstance(one, ast.Name) else _UNNAMED for one in targets)
    elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and isinstance(node.slice, ast.Tuple):
        parts = node.slice.elts
        added = [isinstance(one, ast.Constant) and one.value is None for one in parts]
        kept = added.index(True) if True in added else len(parts)
        # `x[:, None]` is also common for masks with more dimensions.
        if kept and len(parts) - kept > 1 and all(added[kept:]) and all(map(_is_full, parts[:kept])):
            yield node.value.id, (_UNNAMED,) * kept
    elif isinstance(node, ast.Call):
        yield from _stated_by_call(node)


def _stated_by_call(call: ast.Call) -> Iterator[tuple[str, Dimensions]]:
    first = call.args[0] if call.args else None
    if isinstance(call.func, ast.Attribute) and call.func.attr == "permute" and isinstance(call.func.value, ast.Name):
        order = first.elts if isinstance(first, ast.Tuple | ast.List) and len(call.args) == 1 else call.args
        if len(order) > 1 and not any(isinstance(one, ast.Starred) for one in order):
            yield call.func.value.id, (_UNNAMED,) * len(order)
    called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    texts = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    if called in _PATTERNS and len(call.args) > 1 and isinstance(first, ast.Name) and texts:
        yield from _of_pattern(first, texts[0].partition("->")[0].split(), texts[0])
    if called == "einsum" and texts and "." not in texts[0]:
        parts = texts[0].partition("->")[0].split(",")
        for part, one in zip(parts, call.args[1:], strict=False):
            if isinstance(one, ast.Name):
                yield one.id, tuple(part.split() if " " in part.strip() else part.strip())


def _of_pattern(first: ast.Name, words: list[str], text: str) -> Iterator[tuple[str, Dimensions]]:
    if words and "..." not in text and not any("(" in word or ")" in word for word in words):
        yield first.id, tuple(word if word.isidentifier() else _UNNAMED for word in words)


def _shape_of(node: ast.expr) -> str | None:
    """Return the name of the tensor whose whole shape an expression is, or None."""
    if isinstance(node, ast.Call) and not node.args and not node.keywords:
        node, wanted = node.func, "size"
    else:
        wanted = "shape"
    plain = isinstance(node, ast.Attribute) and node.attr == wanted and isinstance(node.value, ast.Name)
    return node.value.id if plain else None  # type: ignore[attr-defined]


def _is_full(node: ast.expr) -> bool:
    return isinstance(node, ast.Slice) and node.lower is node.upper is node.step is None
