"""Make documentation build smaller models. It shows realistic sizes, which take too much time and memory on a CPU.

Only sizes that a graph break does not depend on change: the number of layers, the vocabulary, the longest sequence, and
the batch. Code that names a size usually repeats it where it makes the input, so that equal numbers change together.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import cast

# The names of arguments, and the largest values for them.
_LIMITS = (
    (re.compile(r"(\w+_)?(depth|layers?|num_blocks)"), 4),
    (re.compile(r"\w*vocab\w*|(\w+_)?num_tokens|num_embeddings|codebook_size"), 128),
    (re.compile(r"\w*max_(seq|len|pos)\w*|(\w+_)?seq_len|\w*context_length|n_ctx"), 512),
)
_LAYERS = _LIMITS[0]
_BATCH = 2
_LARGE_BATCH = 4
_MAKERS = frozenset(("randn", "rand", "randint", "zeros", "ones", "empty"))


class _Number(ast.Constant):
    value: int


def smaller(tree: ast.Module) -> ast.Module | None:
    """Return the code with smaller sizes, or None if it has none that can be smaller. The code itself may change."""
    layers = {id(one) for name, one in _arguments(tree) if _LAYERS[0].fullmatch(name)}
    shrunk = {
        one.value: limit
        for name, one in _arguments(tree)
        for pattern, limit in _LIMITS[1:]
        if pattern.fullmatch(name) and one.value > limit
    }
    counts = Counter(one.value for one in _numbers(ast.walk(tree)))
    batches = Counter(one.value for one in _batches(tree) if one.value > _LARGE_BATCH)
    shrunk.update((value, _BATCH) for value, count in batches.items() if counts[value] == count)
    changed = False
    for one in _numbers(ast.walk(tree)):
        value = min(one.value, _LAYERS[1]) if id(one) in layers else shrunk.get(one.value, one.value)
        changed, one.value = changed or value != one.value, value
    return tree if changed else None


def _arguments(tree: ast.Module) -> Iterator[tuple[str, _Number]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg is not None:
            yield from ((node.arg, number) for number in _numbers([node.value]))


def _batches(tree: ast.Module) -> Iterator[_Number]:
    """Yield the first sizes of the tensors that the code makes, unless they have only one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _MAKERS:
            shape = next((one.elts for one in node.args if isinstance(one, (ast.Tuple, ast.List))), node.args)
            yield from _numbers(shape[:1] if len(shape) > 1 else [])


def _numbers(nodes: Iterable[ast.AST]) -> Iterator[_Number]:
    return (cast("_Number", one) for one in nodes if isinstance(one, ast.Constant) and type(one.value) is int)
