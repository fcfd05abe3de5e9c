"""New code that a rule writes as text. It keeps its layout, because most of the text comes from the user's code."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

import libcst as cst

from dynalint.analysis.source import SourceFile
from dynalint.rewriting.parentheses import breaks
from dynalint.rewriting.substitution import Substitution, replacements
from dynalint.rewriting.tree import Tree
from dynalint.rules import Refusal, Replacement

Old = ast.expr | ast.stmt | Sequence[ast.stmt]
Around = Callable[[cst.BaseExpression], cst.BaseExpression]
New = str | cst.BaseExpression | Around | Sequence[str | ast.stmt]
Change = tuple[Old, New]
"""Old code and its replacement: an expression, or lines for one or more statements.

If the replacement is a function, it wraps the old expression or the replacement from an earlier change. The lines can
include statements that are kept, even statements that are being replaced.
"""
_NEWLINE = re.compile(r"\r\n?")
# A parenthesis after an operator or a bracket, which does not belong to a call.
_OPENED = re.compile(r"[-+*/%@&|^<>=~,(\[]\s*(\(\s*)$")
_FIRST = re.compile(r"(\(\s*)$")
_CLOSED = re.compile(r"\s*\)")


def written(file: SourceFile, *changes: Change) -> tuple[Replacement, ...]:
    """Return the replacements in a file's text for the given changes.

    Raises:
        Refusal: If the new code, or the code around the old code, cannot be parsed.
    """
    trees: dict[Tree, dict[cst.CSTNode, Substitution]] = {}
    for old, new in changes:
        first = old[0] if isinstance(old, Sequence) else old
        tree = Tree.around(file, first)
        known = trees.setdefault(tree, {})
        if isinstance(old, ast.expr):
            node = tree.expression(old)
            known[node] = _replaced(node, new, tree.indentation(node), known.get(node))
        else:
            assert isinstance(new, Sequence)
            assert isinstance(first, ast.stmt)
            indent = _indentation(file, first)
            run = tuple(map(tree.statement, old if isinstance(old, Sequence) else [old]))
            known[run[0]] = Substitution(run, tuple(_lines(tree, new, indent)), parsed=True)
    return tuple(one for tree, some in trees.items() for one in replacements(tree, list(some.values())))


def _replaced(node: cst.BaseExpression, new: New, indent: str, known: Substitution | None) -> Substitution:
    parsed = isinstance(new, str) or (known is not None and known.parsed)
    if isinstance(new, str):
        return Substitution((node,), (expression(new, indent),), parsed)
    if isinstance(new, cst.BaseExpression):
        return Substitution((node,), (new,))
    assert callable(new)
    inner = node if known is None else known.new[0]
    assert isinstance(inner, cst.BaseExpression)
    return Substitution((node,), (new(inner),), parsed)


def kept(file: SourceFile, node: ast.expr) -> cst.BaseExpression:
    """Return an expression from the file for use in its own replacement.

    Raises:
        Refusal: If libcst has no node for the expression.
    """
    return Tree.around(file, node).expression(node)


def spliced(file: SourceFile, node: ast.expr, parts: Mapping[ast.expr, str]) -> str:
    """Return the text of an expression with some parts replaced. If parts are nested, the outermost is used."""
    (start, end), text = file.span(node), ""
    places = sorted(((*file.span(part), new) for part, new in parts.items()), key=lambda one: (one[0], -one[1]))
    for first, last, new in places:
        if first >= start:
            before, after = file.text[start:first], _CLOSED.match(file.text, last, end)
            opened = _OPENED.search(before) or (_FIRST.match(before) if start == file.span(node)[0] else None)
            if after and opened and _is_call(new):  # only the old part needs parentheses
                text, start = text + before[: opened.start(1)] + new, after.end()
            else:
                text, start = text + before + new, last
    return text + file.text[start:end]


def _is_call(text: str) -> bool:
    return isinstance(ast.parse(f"({text}\n)", mode="eval").body, ast.Call)


def _lines(tree: Tree, new: Sequence[str | ast.stmt], indent: str) -> Iterator[cst.CSTNode]:
    for kept, run in groupby(new, lambda one: isinstance(one, ast.stmt)):
        if kept:
            yield from (tree.line(one) for one in run if isinstance(one, ast.stmt))
        else:
            yield from statements((one for one in run if isinstance(one, str)), indent)


def expression(text: str, indent: str = "") -> cst.BaseExpression:
    """Return the expression parsed from `text`. All lines after the first have the indentation `indent`.

    Raises:
        Refusal: If the text cannot be parsed.
    """
    (line,) = statements([f"({text}\n{indent})" if "#" in text else f"({text})"], indent)
    assert isinstance(line, cst.SimpleStatementLine)
    (statement,) = line.body
    assert isinstance(statement, cst.Expr)
    node = statement.value
    if isinstance(node, cst.GeneratorExp):
        return node
    slim = node.with_changes(lpar=node.lpar[1:], rpar=node.rpar[:-1])
    return node if not slim.lpar and breaks(slim) else slim


def statements(lines: Iterable[str], indent: str = "") -> Sequence[cst.BaseStatement]:
    """Return the statements parsed from `lines`. All lines after the first have the indentation `indent`.

    Raises:
        Refusal: If the text cannot be parsed.
    """
    text = _NEWLINE.sub("\n", f"\n{indent}".join(lines))
    head = "if 1:\n" if indent else ""
    try:
        module = cst.parse_module(f"{head}{indent}{text}\n")
    except cst.ParserSyntaxError as fault:
        raise Refusal("the new code is written in a way that libcst cannot parse") from fault
    block = module.body
    if head:
        assert isinstance(block[0], cst.If)
        block = block[0].body.body  # type: ignore[assignment]
    return block


def _indentation(file: SourceFile, node: ast.stmt) -> str:
    """Return the indentation for a statement's replacement, which for an `elif` is the indentation of its body."""
    own = _white_space(file, node.lineno)
    if not (isinstance(node, ast.If) and file.segment(node).startswith("elif")):
        return own
    inner = _white_space(file, node.body[0].lineno)
    return inner if inner.startswith(own) and inner != own else f"{own}    "


def _white_space(file: SourceFile, number: int) -> str:
    line = file.line(number)
    return line[: len(line) - len(line.lstrip(" \t\f"))]
