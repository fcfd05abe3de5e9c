"""The files that are searched for the project's calls: their definitions, tests and imports, as far as needed."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

WORD = re.compile(r"\w+")
_IMPORTS = re.compile(r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+)?import[ \t]+(\([^)]*\)|[^\n;]*)", re.MULTILINE)
_COMMENT = re.compile(r"#.*")
_FRAMEWORKS = frozenset(("TestCase", "object", "ABC", "Protocol", ""))
ANY = "*"
"""Stands for all tests in a class that do not have their own block."""
_SLOW = ("slow", "cuda", "gpu", "skip", "network")
# Tests of errors, whose calls fail if they make any.
_RAISING = frozenset(("raises", "assertRaises", "assertRaisesRegex"))


@dataclass(frozen=True)
class SearchedBlock:
    """A top-level definition in a file, or a test method in a class, with the words in it."""

    name: str
    words: frozenset[str]
    is_test: bool = False
    cost: int = 0
    called: frozenset[str] = frozenset()
    """The names of what a test calls, and `ANY` if it calls something that it has made or been given."""
    bases: tuple[str, ...] = ()
    """The names of a class's bases.

    If the block is for `ANY`, the names of the bases whose tests the class inherits.
    """

    def is_idle(self, names: Collection[str]) -> bool:
        """Return whether a test seems to make instances of the classes in `names` without calling any.

        Functions and methods are called by their names, so any call counts if one of the names is theirs.
        """
        return ANY not in self.called and not any(name in self.called for name in names if not name[:1].isupper())


@dataclass(frozen=True)
class SearchedFile:
    """A file that is parsed only if its text is not enough."""

    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed file, or an empty module if Python cannot parse it."""
        with suppress(SyntaxError, ValueError, RecursionError):
            return ast.parse(self.text)
        return ast.Module([], [])

    @cached_property
    def imported(self) -> frozenset[str]:
        """The last parts of imported module names, and imported names, which may be modules too."""
        found: set[str] = set()
        for module, names in _IMPORTS.findall(_COMMENT.sub("", self.text)):
            found.add(module.rpartition(".")[2])
            found.update(name.split()[0].rpartition(".")[2] for name in names.strip("()").split(",") if name.strip())
        return frozenset(found)

    @cached_property
    def words(self) -> frozenset[str]:
        """All words in the text."""
        return frozenset(WORD.findall(self.text))

    @cached_property
    def blocks(self) -> tuple[SearchedBlock, ...]:
        """The file's top-level definitions and the test methods of its classes."""
        return tuple(self._blocks())

    def _blocks(self) -> Iterator[SearchedBlock]:
        lines = self.text.splitlines()
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef):
                tests = [one for one in node.body if _is_test(one)]
                shared = [one for one in node.body if one not in tests]
                around = _words(lines, shared, node.decorator_list) if tests else frozenset[str]()
                for test in tests:
                    assert isinstance(test, ast.FunctionDef)
                    words = _words(lines, [test], [])
                    name, cost, called = f"{node.name}::{test.name}", _cost(test, words), _called(test)
                    yield SearchedBlock(name, words | around, is_test=True, cost=cost, called=called)
                words = _words(lines, [node], node.bases)
                bases = _bases(node)
                given = f"setattr({node.name}," in self.text  # Some files generate the tests of a class.
                if given or (bases and any("Test" in name for name in (node.name, *bases))):
                    size = (node.end_lineno or 0) - node.lineno
                    anything = frozenset((ANY,))
                    yield SearchedBlock(f"{node.name}::{ANY}", words, True, size + _cost_of(words), anything, bases)
                yield SearchedBlock(node.name, words, bases=bases)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                words, is_test = _words(lines, [node], []), _is_test(node)
                called = _called(node) if is_test else frozenset[str]()
                yield SearchedBlock(node.name, words, is_test=is_test, cost=_cost(node, words), called=called)
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                words = _words(lines, [node], [])
                yield from (SearchedBlock(one.id, words) for one in targets if isinstance(one, ast.Name))


def _is_test(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name.startswith("test")


def _bases(node: ast.ClassDef) -> tuple[str, ...]:
    """Return the names of a class's bases, except those that come from frameworks."""
    bases = [base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in node.bases]
    return tuple(base for base in bases if base not in _FRAMEWORKS)


def _cost(node: ast.stmt, words: frozenset[str]) -> int:
    return (node.end_lineno or 0) - node.lineno + _cost_of(words)


def _cost_of(words: frozenset[str]) -> int:
    return 1000 * any(mark in word.lower() for word in words for mark in _SLOW)


def _called(test: ast.stmt) -> frozenset[str]:
    """Return the names of what a test calls. See `SearchedBlock.called`."""
    nodes = [*ast.walk(test)]
    calls = [node.func for node in nodes if isinstance(node, ast.Call)]
    found = {one.attr if isinstance(one, ast.Attribute) else getattr(one, "id", "") for one in calls}
    if not _RAISING.isdisjoint(found):
        return frozenset()
    own = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    own.update(node.arg for node in nodes if isinstance(node, ast.arg))
    made = any(isinstance(one, ast.Call) or getattr(one, "id", None) in own or _is_of_self(one) for one in calls)
    return frozenset(found | {ANY} if made else found)


def _is_of_self(function: ast.expr) -> bool:
    """Return whether a function is an attribute of `self`, as a model that `setUp` makes, but no check of unittest."""
    match function:
        case ast.Attribute(ast.Name("self"), name):
            return not name.startswith(("assert", "skip", "fail", "subTest"))
    return False


def _words(lines: Sequence[str], nodes: Iterable[ast.stmt], more: Iterable[ast.expr]) -> frozenset[str]:
    found: set[str] = set()
    every: list[ast.stmt | ast.expr] = [*nodes, *more]
    for node in every:
        first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
        found.update(WORD.findall("\n".join(lines[first - 1 : node.end_lineno])))
    return frozenset(found)
