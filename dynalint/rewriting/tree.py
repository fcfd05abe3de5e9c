"""The libcst tree of a function or a top-level statement, and the mapping from `ast` nodes to its nodes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import TypeGuard, cast
from weakref import WeakKeyDictionary

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from dynalint.analysis.index import children
from dynalint.analysis.source import SourceFile
from dynalint.rewriting.changed import Types, parts
from dynalint.rules import Refusal

Statement = cst.BaseSmallStatement | cst.BaseCompoundStatement
Span = tuple[int, int]
_OLD_MAC = re.compile(r"\r(?!\n)")

# libcst takes time that is quadratic in the depth, which also grows with each operator in `a + b + c`.
_DEEPEST = 300
_EXPRESSIONS, _STATEMENTS = Types(cst.BaseExpression), Types(cst.BaseSmallStatement, cst.BaseCompoundStatement)

_TREES: WeakKeyDictionary[SourceFile, dict[Span, Tree]] = WeakKeyDictionary()


class Tree:
    """The libcst tree of a function, or of a statement outside all functions.

    `first` and `last` are 1-based line numbers, and `text` is the text between them. `module` is the tree of this text.
    Indented text is put inside an `if 1:`, so that columns stay the same. `parents` maps each node to its parent. Only
    `module` and new nodes do not have a parent. `ids` are the `id` of all nodes, which libcst hashes in Python.
    """

    def __init__(self, file: SourceFile, first: int, last: int) -> None:
        """Parse a range of lines.

        Raises:
            Refusal: If libcst cannot parse the lines, or would take too long.
        """
        self.file, self.first, self.last = file, first, last
        self.start = file.line_starts[first - 1]
        text = file.text[self.start : file.line_starts[last] if last < len(file.line_starts) else len(file.text)]
        # libcst loses the last line ending if there is more than one old Mac line ending.
        self.text = _OLD_MAC.sub("\n", text)
        newline = "\r\n" if file.newline == "\r\n" else "\n"
        self.head = f"if 1:{newline}" if self.text[:1] in (" ", "\t", "\f") else ""
        if _is_deep(file, first, last):
            raise Refusal(f"an expression in this function is nested more than {_DEEPEST} levels deep; split it first")
        try:
            wrapper = MetadataWrapper(cst.parse_module(self.head + self.text), unsafe_skip_copy=True)
        except cst.ParserSyntaxError as fault:
            raise Refusal("the code around it is written in a way that libcst cannot parse") from fault
        self.module = wrapper.module
        self.parents: dict[cst.CSTNode, cst.CSTNode] = {}
        # `resolve` would also visit the whole tree for providers that are not needed here.
        places = PositionProvider()._gen(wrapper)  # noqa: SLF001
        self._places = cast("Mapping[cst.CSTNode, cst.metadata.CodeRange]", places)
        self._expressions: dict[Span, cst.BaseExpression] = {}
        self._statements: dict[Span, Statement] = {}
        self._index()
        self.ids = frozenset(map(id, (self.module, *self.parents)))

    @classmethod
    def around(cls, file: SourceFile, node: ast.expr | ast.stmt) -> Tree:
        """Return the tree of the outermost function around a node, or of the top-level statement that contains it.

        Raises:
            Refusal: If libcst cannot parse the code.
        """
        lines = _lines_around(file, node)
        trees = _TREES.setdefault(file, {})
        if lines not in trees:
            trees[lines] = cls(file, *lines)
        return trees[lines]

    def expression(self, node: ast.expr) -> cst.BaseExpression:
        """Return the libcst expression for an `ast` expression.

        Raises:
            Refusal: If libcst has no expression at this position.
        """
        start, end = self.file.span(node)
        # The parentheses around a generator are part of it in `ast`, even a call's parentheses if it is the only
        # argument.
        found = self._expressions.get((start, end)) or self._expressions.get((start + 1, end - 1))
        if found is None:
            raise Refusal(f"`{ast.unparse(node)}` cannot be rewritten separately")
        return found

    def statement(self, node: ast.stmt) -> Statement:
        """Return the libcst statement for an `ast` statement.

        Raises:
            Refusal: If libcst has no statement at this position.
        """
        found = self._statements.get(self.file.span(node))
        if found is None:
            raise Refusal("the statement cannot be rewritten separately")
        return found

    def line(self, node: ast.stmt) -> cst.BaseStatement | cst.BaseSmallStatement:
        """Return a statement with the lines above it and its trailing comment, or without them if it shares its line.

        Raises:
            Refusal: If libcst has no statement at this position.
        """
        found = self.statement(node)
        home = self.parents[found]
        return home if isinstance(home, cst.SimpleStatementLine) and len(home.body) == 1 else found

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield the nodes around a node, innermost first."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def indentation(self, node: cst.CSTNode) -> str:
        """Return the white space at the start of each line of the block around a node."""
        blocks = [one for one in self.ancestors(node) if isinstance(one, cst.IndentedBlock)]
        own = (self.module.default_indent if one.indent is None else one.indent for one in reversed(blocks))
        return "".join(own)

    def line_of(self, node: cst.CSTNode) -> int:
        """Return the offset of a statement's first line in the text, including the comments above it."""
        start = self.text.rfind("\n", 0, self._span(node)[0] - self.start) + 1
        for _ in getattr(node, "leading_lines", ()):
            start = self.text.rfind("\n", 0, max(start - 1, 0)) + 1
        return start

    def is_glued(self, node: cst.CSTNode) -> bool:
        """Return whether a word comes directly before or after an expression, as in `return[x]`."""
        start, end = self._span(node)
        beside = self.file.text[max(start - 1, 0) : start] + self.file.text[end : end + 1]
        return any(character.isalnum() or character == "_" for character in beside)

    def is_held(self, node: cst.BaseExpression) -> bool:
        """Return whether an expression has one pair of parentheses, and no line breaks or adjacent words."""
        inner = [*(one.whitespace_after for one in node.lpar), *(one.whitespace_before for one in node.rpar)]
        if len(inner) != 2 or not all(isinstance(one, cst.SimpleWhitespace) for one in inner):
            return False
        start, end = self._span(node.lpar[0])[0], self._span(node.rpar[0])[1]
        beside = self.file.text[max(start - 1, 0) : start] + self.file.text[end : end + 1]
        return not any(character.isalnum() or character == "_" for character in beside)

    def _index(self) -> None:
        stack: list[cst.CSTNode] = [self.module]
        while stack:
            node = stack.pop()
            for child in parts(node):
                self.parents[child] = node
                stack.append(child)
                if _is_expression(child):
                    # If two expressions have the same position, the outer one is visited first, and `ast` has a node
                    # only for that one.
                    self._expressions.setdefault(self._span(child), child)
                    if isinstance(child, cst.Tuple | cst.GeneratorExp) and child.lpar:
                        whole = self._span(child.lpar[-1])[0], self._span(child.rpar[0])[1]
                        self._expressions.setdefault(whole, child)
                elif _is_statement(child):
                    start, end = self._span(child)
                    while self.file.text[end - 1] in "; \t":  # in `ast`, these are not part of a suite on a single line
                        end -= 1
                    self._statements[start, end] = child

    def _span(self, node: cst.CSTNode) -> Span:
        """Return a node's offsets in the file, without its parentheses."""
        place = self._places[node]
        return self._offset(place.start), self._offset(place.end)

    def _offset(self, position: cst.metadata.CodePosition) -> int:
        starts, line = self.file.line_starts, position.line - 1 + self.first - 1 - bool(self.head)
        return starts[max(line, 0)] + position.column if line < len(starts) else len(self.file.text)


def _is_expression(node: cst.CSTNode) -> TypeGuard[cst.BaseExpression]:
    return _EXPRESSIONS[type(node)]


def _is_statement(node: cst.CSTNode) -> TypeGuard[Statement]:
    return _STATEMENTS[type(node)]


def _is_deep(file: SourceFile, first: int, last: int) -> bool:
    """Return whether an expression that starts on one of these lines is nested too deeply."""
    assert file.tree is not None
    pending: list[tuple[ast.AST, int]] = [(file.tree, 0)]
    while pending:
        node, depth = pending.pop()
        if isinstance(node, ast.stmt):
            start, end = _lines_of(node)
            if end < first or start > last:
                continue
        elif depth > _DEEPEST and isinstance(node, ast.expr):
            if first <= node.lineno <= last:
                return True
            continue
        pending += [(child, 0 if isinstance(child, ast.stmt) else depth + 1) for child in children(node)]
    return False


def _lines_around(file: SourceFile, node: ast.expr | ast.stmt) -> Span:
    """Return the first and last line that must be parsed to rewrite a node."""
    assert file.tree is not None
    assert node.end_lineno is not None
    found, blocks = (1, len(file.line_starts)), [file.tree.body]
    for block in blocks:  # grows during iteration, because each statement around the node adds its blocks
        for index, statement in enumerate(block):
            first, last = _lines_of(statement)
            if first <= node.lineno and node.end_lineno <= last:
                found = (first, last) if _stands_alone(file, block, index) else found
                if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                    return found
                blocks += _blocks_of(statement)
    return found


def _lines_of(statement: ast.stmt) -> Span:
    assert statement.end_lineno is not None
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(one.lineno for one in decorators)]), statement.end_lineno


def _blocks_of(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(statement, name, None)
        if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
            yield block
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body


def _stands_alone(file: SourceFile, block: list[ast.stmt], index: int) -> bool:
    """Return whether a statement shares its lines with no other statement, so that they can be parsed on their own."""
    statement = block[index]
    first, last = _lines_of(statement)
    line, column = file.position(file.span(statement)[0])
    shares_first = first == line and file.line(line)[: column - 1].strip() != ""
    shares_last = index + 1 < len(block) and _lines_of(block[index + 1])[0] == last
    return not shares_first and not shares_last and not file.segment(statement).startswith("elif")
