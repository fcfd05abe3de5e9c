"""Make documentation run smaller models, and only for a moment. It shows realistic sizes and whole training loops.

Code that names a size usually repeats it where it makes the input, so that equal numbers change together. Large numbers
are divided by the same factor first, so that they stay in the same order and those that divide others still do.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, cast

# The names of arguments, and the largest values for them.
_LAYERS = (re.compile(r"(\w+_)?(depth|layers?|num_blocks)"), 2)
_VOCABULARY = (re.compile(r"\w*vocab\w*|(\w+_)?num_tokens|num_embeddings|codebook_size"), 64)
_SEQUENCE = (re.compile(r"\w*max_(seq|len|pos)\w*|(\w+_)?seq_len|\w*context_length|n_ctx"), 512)
_BATCH = 2
_LARGE_BATCH = 4
_MAKERS = frozenset(("randn", "rand", "randint", "zeros", "ones", "empty"))
# Numbers from this one on are divided by the first factor that fits.
_LARGE = 128
_FACTORS = (8, 4, 2)
_ITERATIONS = 2


class _Number(ast.Constant):
    value: int


def smaller(code: str) -> Iterator[ast.Module]:
    """Yield smaller versions of the code, smallest first, and then the code as it is written.

    Raises SyntaxError if Python cannot parse the code.
    """
    versions = []
    for divisible in (False, True):
        scaled = _scaled(ast.parse(code), divisible=divisible)
        versions.append(_Shortened().visit(_limited(scaled, _VOCABULARY)))
    versions.append(_Shortened().visit(_limited(ast.parse(code), _VOCABULARY, _SEQUENCE)))
    versions.append(ast.parse(code))
    yield from {ast.dump(tree): ast.fix_missing_locations(tree) for tree in versions}.values()


def _limited(tree: ast.Module, *limits: tuple[re.Pattern[str], int]) -> ast.Module:
    """Limit the number of layers, the batch, and the numbers for `limits`. This changes `tree`."""
    layers = {id(one) for name, one in _arguments(tree) if _LAYERS[0].fullmatch(name)}
    shrunk = {
        one.value: limit
        for name, one in _arguments(tree)
        for pattern, limit in limits
        if pattern.fullmatch(name) and one.value > limit
    }
    counts = Counter(one.value for one in _numbers(ast.walk(tree)))
    batches = Counter(one.value for one in _batches(tree) if one.value > _LARGE_BATCH)
    shrunk.update((value, _BATCH) for value, count in batches.items() if counts[value] == count)
    for one in _numbers(ast.walk(tree)):
        one.value = min(one.value, _LAYERS[1]) if id(one) in layers else shrunk.get(one.value, one.value)
    return tree


def _scaled(tree: ast.Module, *, divisible: bool) -> ast.Module:
    """Divide large numbers by the same factor, or so that the small ones that divide them still do.

    This changes `tree`.
    """
    numbers = [*_numbers(ast.walk(tree))]
    batches = {one.value for one in _batches(tree)}
    small = {one.value for one in numbers if 1 < one.value < _LARGE} - batches
    for one in numbers:
        divisors = [by for by in small if one.value % by == 0] if divisible else []
        factors = (by for by in _FACTORS if one.value % by == 0)
        fitting = (by for by in factors if not any(one.value // by % other for other in divisors))
        if one.value >= _LARGE:
            one.value //= next(fitting, 1)
    return tree


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


class _Shortened(ast.NodeTransformer):
    """Ends loops after a few iterations, because the calls in the others are like theirs."""

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return node

    visit_FunctionDef: Any = visit_ClassDef

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        node.iter = _call("__import__('itertools').islice", node.iter, ast.Constant(_ITERATIONS))
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        self.generic_visit(node)
        stop = ast.If(ast.UnaryOp(ast.Not(), node.test), [ast.Break()], [])
        numbers = _call("range", ast.Constant(_ITERATIONS))
        return ast.copy_location(ast.For(ast.Name("_", ast.Store()), numbers, [stop, *node.body], []), node)


def _call(function: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.parse(function, mode="eval").body, [*arguments], [])
