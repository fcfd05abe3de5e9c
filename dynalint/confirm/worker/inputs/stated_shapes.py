"""Find shapes that the source states for a parameter, in an annotation, comment or docstring.

Sources are read in this order: annotations with jaxtyping or `Annotated`, comments (`x,  # (batch, seq, dim)`), and the
docstrings of the function and its class. The source may be wrong, so the result is only a first guess.
"""

from __future__ import annotations

import ast
import inspect
import io
import re
import textwrap
import tokenize
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from .guessed_values import BATCH, LENGTH, WIDTH
from .tensor_shapes import TensorSpec

Dimensions = tuple[str, ...]

_SIDE = 16
_LARGEST = 1024
# The text that may follow a parameter name: a type, text about shapes, and the dimensions in brackets.
_DIMENSION = r"(?:-1|[A-Za-z_]\w*|\d+)(?:\s*[*+/-]+\s*(?:[A-Za-z_]\w*|\d+))*|\.\.\.|\*"
_BRACKETS = rf"[(\[{{]\s*(?:#\s*)?({_DIMENSION})\s*((?:,\s*(?:{_DIMENSION})\s*)*),?\s*[)\]}}]"
# Separates entries such as `x: (batch, time), mask (batch,)`.
_NEXT = r"[,;]\s*(?:and\s+)?(?=\w+\s*:?\s*\()"
_PLAIN_TYPES = frozenset("int float str bool list tuple dict optional tensor default torch none".split())
_KINDS = (
    (r"\b(Long|Int|Integer)_?Tensor\b|\b[Ll]ong tensor|\bint(eger|64|32)?\b|\bLong\b", "int"),
    (r"\bBool_?Tensor\b|\bbool(ean)?\b", "bool"),
)
_SIZES: tuple[tuple[str, int], ...] = (
    (r"b|bs|bsz|bz|nb|b_?s?z?|\w*batch\w*|n_?samples?|num_samples", BATCH),
    (r"n|t|l|s|seq\w*|\w*_?len(gth)?\w*|len_?\w*|time\w*|\w*steps|\w*tokens|frames|n_?points|num_\w+|max_\w+", LENGTH),
    (r"h|w|d|height|width|depth|[hw]_?(in|i)|\w*(height|width)", _SIDE),
    (r"rgb", 3),
)


@dataclass(frozen=True)
class Stated:
    """What is known about a parameter: the names or sizes of its dimensions, and its kind."""

    dimensions: Dimensions = ()
    kind: str | None = None

    def over(self, other: Stated | None) -> Stated:
        """Return this statement, completed by another."""
        return self if other is None else Stated(self.dimensions or other.dimensions, self.kind or other.kind)


def stated_specs(function: Callable[..., Any], guesses: Mapping[str, Any]) -> dict[str, Any]:
    """Return the guesses with the shapes that the source states. Sizes that it does not state stay as guessed.

    Dimensions with the same name have the same size in all parameters.
    """
    tensors = {name: guess for name, guess in guesses.items() if isinstance(guess, TensorSpec)}
    known: dict[str, Stated] = {}
    for found in _statements(function, tensors):
        for name, stated in found.items():
            known[name] = known[name].over(stated) if name in known else stated
    sizes = _Sizes(function)
    return {**guesses, **{name: _spec(stated, tensors[name], sizes) for name, stated in known.items()}}


def _statements(function: Callable[..., Any], guesses: Mapping[str, TensorSpec]) -> Iterator[dict[str, Stated]]:
    """Yield the statements from each source, most precise first."""
    target = function.forward if isinstance(function, nn.Module) else function
    names = list(guesses)
    yield {name: stated for name in names if (stated := _annotated(target, name)) is not None}
    try:
        source = textwrap.dedent(inspect.getsource(target))
        tree = ast.parse(source)
    except (OSError, TypeError, SyntaxError, IndentationError):
        source, tree = "", ast.Module([], [])
    yield from _texts(_comments(source, tree, names), names)
    owner = type(function) if isinstance(function, nn.Module) else None
    for holder in (target, owner):
        yield from _texts([(None, line) for line in (getattr(holder, "__doc__", None) or "").splitlines()], names)


def _annotated(target: Callable[..., Any], name: str) -> Stated | None:
    """Read jaxtyping annotations such as `Float[Tensor, "batch dim"]`, and the text or tuple in an `Annotated`."""
    hint: Any = None
    with suppress(Exception):
        hint = typing.get_type_hints(target, include_extras=True).get(name)
    for choice in (hint, *typing.get_args(hint)):
        text = getattr(choice, "dim_str", None)
        if isinstance(text, str):
            dtypes = " ".join(map(str, getattr(choice, "dtypes", ())))
            kind = "bool" if "bool" in dtypes else "int" if "int" in dtypes and "float" not in dtypes else None
            return Stated(_of_pattern(text), kind=kind)
        if typing.get_origin(choice) is typing.Annotated:
            for extra in typing.get_args(choice)[1:]:
                if isinstance(extra, str) and re.fullmatch(r"[\w\s,.*()\[\]-]+", extra):
                    return Stated(_of_pattern(extra))
                if isinstance(extra, (tuple, list)) and all(isinstance(item, (str, int)) for item in extra):
                    return Stated(tuple(map(str, extra)))
    return None


def _of_pattern(text: str) -> Dimensions:
    """Return the dimensions in an einops or jaxtyping pattern. A group in parentheses is one dimension. Skip `...`."""
    found = []
    for group, word in re.findall(r"\(([^()]*)\)|([^\s(),\[\]]+)", text):
        # jaxtyping writes a fixed size as `dim=4`, and puts modifiers before names.
        one = word.partition("=")[2] or word.lstrip("*#?")
        found.append("*".join(group.split()) if group else one)
    return tuple(item for item in found if item and item != "...")


def _comments(source: str, tree: ast.Module, names: list[str]) -> Iterator[tuple[str | None, str]]:
    """Yield comments, each with its parameter if it ends the line of exactly one parameter in the signature."""
    function = next((node for node in tree.body if isinstance(node, ast.FunctionDef)), None)
    if function is None:
        return
    on_line: dict[int, list[str]] = {}
    for one in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs):
        on_line.setdefault(one.lineno, []).append(one.arg)
    with suppress(tokenize.TokenError, IndentationError, SyntaxError):
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                alone = [name for name in on_line.get(token.start[0], ()) if name in names]
                yield (alone[0] if len(alone) == 1 else None), token.string.lstrip("# ")


def _texts(lines: Iterable[tuple[str | None, str]], names: list[str]) -> Iterator[dict[str, Stated]]:
    """Yield statements from lines of text: a parameter's name, followed by a shape there or on the next line."""
    about, left = None, 0
    for owner, line in ((owner, part) for owner, whole in lines for part in re.split(_NEXT, whole)):
        text = re.sub(r":math:|`|\\text|\\_", lambda match: "_" if match[0] == "\\_" else "", line)
        named = re.match(r"\W*(?:param\s+)?(?:[\w.]*Tensor\s+)?(\w+)\s*(?:[(:=-]|is\b|shape\b|size\b|\.shape|->)", text)
        if owner is not None:
            about, left = owner, 1
        elif named is not None:
            name = names[0] if named[1] in ("Input", "input") and "input" not in names else named[1]
            about, left = (name, 2) if name in names else (None, 0)
        if about is None or left == 0:
            continue
        left -= 1
        behind = text if owner is not None or named is None else text[named.start(1) + len(named[1]) :]
        stated = _of_text(behind)
        if stated is not None:
            yield {about: stated}
            about = None if stated.dimensions else about


def _of_text(text: str) -> Stated | None:
    kind = next((kind for pattern, kind in _KINDS if re.search(pattern, text)), None)
    for match in re.finditer(_BRACKETS, text):
        parts = [part.strip() for part in match[0][1:-1].lstrip("# ").split(",")]
        found = tuple(part for part in parts if part and part not in ("...", "*"))
        # A single word in parentheses is more often a type or a remark than a shape.
        remark = len(parts) == 1 and match[0][0] == "(" and text[match.end() - 2 : match.end()] != ",)"
        if found and not remark and not _PLAIN_TYPES.intersection(part.lower() for part in found):
            return Stated(found, kind=kind)
    return Stated(kind=kind) if kind is not None else None


def _spec(stated: Stated, guess: TensorSpec, sizes: _Sizes) -> TensorSpec:
    shape = tuple(sizes.of(name, at) for at, name in enumerate(stated.dimensions)) or guess.shape
    return replace(guess, shape=shape, kind=stated.kind or guess.kind)


class _Sizes:
    """A size for each dimension name: from an attribute of the module or its config, a default, or a common size."""

    def __init__(self, function: Callable[..., Any]) -> None:
        owner = function if isinstance(function, nn.Module) else getattr(function, "__self__", None)
        self._owners = [owner, getattr(owner, "config", None)]
        self._defaults: dict[str, Any] = {}
        with suppress(TypeError, ValueError):
            made_by = inspect.signature(type(owner)).parameters.values()
            self._defaults = {one.name: one.default for one in made_by}
        self._known: dict[str, int] = {}

    def of(self, dimension: str, at: int) -> int:
        """Return the size of a dimension at position `at`. It is a number, a name, or an expression with both."""
        unknown = WIDTH if at else BATCH
        if dimension.lstrip("-").isdigit():
            size = int(dimension)
            return size if 0 < size <= _LARGEST else LENGTH
        if dimension.isidentifier():
            return self._named(dimension, at)
        names = {name: self._named(name, at) for name in re.findall(r"[A-Za-z_]\w*", dimension)}
        text = re.sub(r"[A-Za-z_]\w*", lambda match: str(names[match[0]]), dimension)
        if re.fullmatch(r"[\d\s*+/-]+", text):
            with suppress(SyntaxError, ArithmeticError, TypeError, ValueError):
                size = int(eval(text, {"__builtins__": {}}))  # noqa: S307 - digits and signs only
                return size if 0 < size <= _LARGEST else unknown
        return unknown

    def _named(self, name: str, at: int) -> int:
        known = [getattr(owner, name, None) for owner in self._owners]
        for value in (*known, self._defaults.get(name)):
            if type(value) is int and 0 < value <= _LARGEST:
                return value
        if name not in self._known:
            bare = name.lower()
            found = (size for pattern, size in _SIZES if re.fullmatch(pattern, bare))
            self._known[name] = BATCH if (bare, at) == ("n", 0) else next(found, WIDTH if at else BATCH)
        return self._known[name]
