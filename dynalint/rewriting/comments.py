"""Keep comments. Comments that are missing from the new code are put above it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import libcst as cst

from dynalint.rewriting.changed import parts, unlike

# Comments that tell a tool something about the code on the same line. They are pointless without the code.
_FOR_TOOLS = re.compile(r"#\s*(noqa|type:|dynalint:|pragma:|pylint:|pyright:|mypy:|ruff:|fmt:|nosec)")


def lost(old: Sequence[cst.CSTNode], new: Sequence[cst.CSTNode]) -> list[str]:
    """Return the comments in the old nodes that are missing from the new nodes, in order, without those for tools."""
    before, after = unlike(old, new)
    if Counter(_found_in(before)) <= Counter(_found_in(after)):
        return []
    return _missing(_comments_of(old), _comments_of(new))


def _found_in(nodes: Sequence[cst.CSTNode]) -> Iterator[str]:
    """Yield the comments in some nodes, in no particular order."""
    pending = list(nodes)
    while pending:
        node = pending.pop()
        if isinstance(node, cst.Comment):
            yield node.value
        pending += parts(node)


def _comments_of(nodes: Iterable[cst.CSTNode]) -> list[str]:
    """Return the comments in some nodes, in order."""
    found, stack = [], list(reversed(list(nodes)))
    while stack:
        node = stack.pop()
        if isinstance(node, cst.Comment):
            found.append(node.value)
        stack.extend(reversed(node.children))
    return found


def _missing(old: Iterable[str], new: Iterable[str]) -> list[str]:
    there, found = Counter(new), []
    for comment in old:
        if there[comment]:
            there[comment] -= 1
        elif not _FOR_TOOLS.match(comment):
            found.append(comment)
    return found


def above(comments: Sequence[str]) -> list[cst.EmptyLine]:
    """Return comments as separate lines."""
    return [cst.EmptyLine(comment=cst.Comment(one)) for one in comments]


def led_by(lines: Sequence[cst.EmptyLine], statement: cst.BaseStatement) -> cst.BaseStatement:
    """Return a statement with blank lines and comments added above it."""
    if not lines:
        return statement
    return statement.with_changes(leading_lines=[*lines, *getattr(statement, "leading_lines", ())])


def without_lead(node: cst.CSTNode) -> cst.CSTNode:
    """Return a statement without the blank lines and comments above it."""
    return node.with_changes(leading_lines=()) if getattr(node, "leading_lines", ()) else node
