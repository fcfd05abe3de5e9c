"""Find where two trees of the same function differ. Writing all code for each of many changes would be quadratic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import libcst as cst


class Types(dict[type, bool]):
    """Whether a type is a subclass of one of `bases`. `isinstance` is slow, because libcst's types are abstract."""

    def __init__(self, *bases: type) -> None:
        super().__init__()
        self._bases = bases

    def __missing__(self, type_: type) -> bool:
        self[type_] = found = issubclass(type_, self._bases)
        return found


_IS_NODE = Types(cst.CSTNode)
_FIELDS: dict[type[cst.CSTNode], tuple[str, ...]] = {}


def parts(node: cst.CSTNode) -> list[cst.CSTNode]:
    """Return a node's direct children in no particular order. This is many times faster than `node.children`."""
    found: list[cst.CSTNode] = []
    for name in _names(node):
        value = getattr(node, name)
        if isinstance(value, (tuple, list)):
            found += value
        elif _IS_NODE[type(value)]:
            found.append(value)
    return found


def unlike(old: Sequence[cst.CSTNode], new: Sequence[cst.CSTNode]) -> tuple[list[cst.CSTNode], list[cst.CSTNode]]:
    """Return the nodes in each sequence, without most of the nodes that are in both."""
    before, after = list(old), list(new)
    while True:
        before, after = _middle(before, after)
        shared = {id(one) for one in before} & {id(one) for one in after}
        before = [one for one in before if id(one) not in shared]
        after = [one for one in after if id(one) not in shared]
        if len(before) != 1 or len(after) != 1 or type(before[0]) is not type(after[0]):
            return before, after
        if isinstance(before[0], cst.Comment):
            return before, after
        before, after = parts(before[0]), parts(after[0])


class ChangedLines:
    """The lines that differ between two modules, within the innermost block that contains all of them.

    `before` and `after` are the statements, and `indent` is the block's indentation.
    """

    def __init__(self, old: cst.Module, new: cst.Module) -> None:
        self._module, self.indent = old, ""
        block: cst.Module | cst.IndentedBlock = old
        changed: cst.Module | cst.IndentedBlock = new
        while True:
            self.before, self.after = _middle(block.body, changed.body)
            inner = _bodies(self.before, self.after)
            if inner is None or not _is_alike(block, changed, "body"):
                break
            block, changed = inner
            self.indent += old.default_indent if block.indent is None else block.indent
        self.is_all = not (self.before and _is_alike(block, changed, "body"))
        """Whether the difference is more than a change of statements within one block."""

    def written(self, statements: Sequence[cst.BaseStatement]) -> str:
        """Return statements as text."""
        if not statements:
            return ""
        body, head = statements, ""
        if self.indent:
            body = [cst.If(cst.Integer("1"), cst.IndentedBlock(statements, indent=self.indent))]
            head = f"if 1:{self._module.default_newline}"
        module = self._module.with_changes(header=(), body=body, footer=(), has_trailing_newline=True)
        return module.code.removeprefix(head)


def _middle(old: Sequence[Any], new: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return two sequences of nodes without those that both start or end with."""
    most = min(len(old), len(new))
    first = next((index for index in range(most) if old[index] is not new[index]), most)
    last = next((index for index in range(most - first) if old[-1 - index] is not new[-1 - index]), most - first)
    return list(old[first : len(old) - last]), list(new[first : len(new) - last])


def _bodies(
    old: Sequence[cst.BaseStatement], new: Sequence[cst.BaseStatement]
) -> tuple[cst.IndentedBlock, cst.IndentedBlock] | None:
    """Return the blocks of two compound statements that differ only in the block, or None."""
    if len(old) != 1 or len(new) != 1 or type(old[0]) is not type(new[0]):
        return None
    one, other = getattr(old[0], "body", None), getattr(new[0], "body", None)
    if not isinstance(one, cst.IndentedBlock) or not isinstance(other, cst.IndentedBlock):
        return None
    return (one, other) if _is_alike(old[0], new[0], "body") else None


def _is_alike(old: cst.CSTNode, new: cst.CSTNode, *but: str) -> bool:
    """Return whether two nodes of the same class have identical nodes in all fields except `but`."""
    return all(_is_same(getattr(old, name), getattr(new, name)) for name in _names(old) if name not in but)


def _is_same(old: object, new: object) -> bool:
    if isinstance(old, tuple | list) and isinstance(new, tuple | list):
        return len(old) == len(new) and all(map(_is_same, old, new))
    return old is new or (isinstance(old, str | bool) and old == new)


def _names(node: cst.CSTNode) -> tuple[str, ...]:
    names = _FIELDS.get(type(node))
    if names is None:
        names = _FIELDS[type(node)] = tuple(one.name for one in fields(node))
    return names
