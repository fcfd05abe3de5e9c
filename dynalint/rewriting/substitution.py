"""Make all changes to a function in one pass, and return them as edits to its text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from dynalint.rewriting.build import Line
from dynalint.rewriting.changed import ChangedLines
from dynalint.rewriting.comments import above, led_by, lost, without_lead
from dynalint.rewriting.difference import edits
from dynalint.rewriting.parentheses import PRIMARY, bare, breaks, enclosed, held, level
from dynalint.rewriting.tree import Tree
from dynalint.rewriting.wrapping import fitting, is_on_one_line, outer_calls
from dynalint.rules import Refusal, Replacement

_Line = Line | cst.SimpleStatementSuite


@dataclass(frozen=True, eq=False)
class Substitution:
    """An expression or consecutive statements in a block, with their replacement.

    The new nodes can contain old nodes, including those being replaced. Other changes are made in these as well. Nodes
    that are `parsed` keep their parentheses and line breaks.
    """

    old: tuple[cst.CSTNode, ...]
    new: tuple[cst.CSTNode, ...]
    parsed: bool = False


def replacements(tree: Tree, changes: Sequence[Substitution]) -> tuple[Replacement, ...]:
    """Return changes as replacements in the file's text.

    Raises:
        Refusal: For the same reasons as `substituted`.
    """
    first, old, new = _texts(tree, _changed(tree, changes))
    first += tree.start
    return tuple(Replacement(tree.file, first + start, first + end, text) for start, end, text in edits(old, new))


def substituted(tree: Tree, changes: Sequence[Substitution]) -> str:
    """Return a tree's text after the given changes.

    Raises:
        Refusal: If two changes concern the same node, one removes what another changes, or the new code cannot be
            written.
    """
    return _changed(tree, changes).code.removeprefix(tree.head)


def _changed(tree: Tree, changes: Sequence[Substitution]) -> cst.Module:
    whole = _Pass(tree, changes)
    try:
        module = tree.module.visit(whole)
    except (cst.CSTValidationError, TypeError) as fault:  # TypeError: libcst 1.9 raises it for a lambda after a keyword
        raise Refusal("the new code cannot be written in the layout of the old code") from fault
    if whole.done != set(changes):
        raise Refusal("one rewrite removes code that another one changes")
    assert isinstance(module, cst.Module)
    return module


def _texts(tree: Tree, module: cst.Module) -> tuple[int, str, str]:
    """Return an offset in a tree's text, the text there that differs, and its counterpart in `module`."""
    change = ChangedLines(tree.module, module)
    if not change.is_all:
        old, start = change.written(change.before), tree.line_of(change.before[0])
        if tree.text.startswith(old, start):
            return start, old, change.written(change.after)
    return 0, tree.text, module.code.removeprefix(tree.head)


class _Pass(cst.CSTTransformer):
    """Visits new nodes and the parts of a tree that change.

    `done` are the changes made so far. `_within` are the changes whose new nodes are being visited. Their old nodes are
    not replaced again inside these. `_lifted` are statements whose leading lines have moved to their replacement.
    `_outer` are calls in parsed new code that can be wrapped, and `_spread` is true if one of them on the current line
    already contains line breaks. `_made` are new nodes that have been visited. `_indent` is the indentation of the
    block being visited.
    """

    def __init__(self, tree: Tree, changes: Sequence[Substitution]) -> None:
        super().__init__()
        self.done: set[Substitution] = set()
        self._tree, self._indent = tree, ""
        self._within: list[Substitution] = []
        self._lifted: set[cst.CSTNode] = set()
        self._outer: set[cst.CSTNode] = set()
        self._spread = False
        self._made: set[cst.CSTNode] = set()
        self._changes: dict[cst.CSTNode, Substitution] = {}
        for change in changes:
            for node in change.old:
                if self._changes.setdefault(node, change) is not change:
                    raise Refusal("two rewrites change the same code")
        self._touched = {around for node in self._changes for around in tree.ancestors(node)}
        self._concerned = {id(node) for node in (*self._changes, *self._touched)}

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Visit the children of new nodes, and of old nodes that contain changes."""
        if isinstance(node, cst.Module | cst.IndentedBlock | cst.SimpleStatementSuite) or self._change(node):
            return False  # handled as a whole in `on_leave`
        return self._is_new(node) or node in self._touched

    def on_leave(self, original: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode | cst.RemovalSentinel:  # type: ignore[override]
        """Replace old nodes with new nodes, and add parentheses where they are needed."""
        if (change := self._change(original)) is not None:
            return self._elif(original) if isinstance(original, cst.If) else self._expression(original, change)
        if original in self._lifted:
            updated = without_lead(updated)
        if not self._is_new(original) and original not in self._touched:
            return updated
        if isinstance(original, cst.Module | cst.IndentedBlock):
            return self._block(original)
        if isinstance(original, cst.SimpleStatementSuite):
            return self._suite(original)
        new = self._is_new(original)
        result = held(updated, made=new and not self._within[-1].parsed)
        if new and (not self._within[-1].parsed or original in self._outer):
            self._made.add(result)
        if self._may_wrap(original) and "\n" in self._tree.module.code_for_node(original):
            self._spread = True
        if new and isinstance(result, cst.SimpleStatementLine):
            result = self._fitting(result)
        return result

    def _fitting(self, line: cst.SimpleStatementLine) -> cst.SimpleStatementLine:
        spread, self._spread = self._spread, False
        return fitting(line, self._indent, self._tree.module, self._made, spread=spread)

    def _may_wrap(self, node: cst.CSTNode) -> bool:
        """Return whether a node is a new call whose arguments can be put on separate lines."""
        made = isinstance(node, cst.Call) and self._is_new(node) and not self._within[-1].parsed
        return node in self._outer or (made and is_on_one_line(cst.ensure_type(node, cst.Call)))

    def _is_new(self, node: cst.CSTNode) -> bool:
        return id(node) not in self._tree.ids

    def _change(self, node: cst.CSTNode) -> Substitution | None:
        change = self._changes.get(node)
        return None if change in self._within else change

    def _changes_of(self, line: _Line) -> set[Substitution]:
        return {change for part in _parts(line) if (change := self._change(part)) is not None}

    def _new_nodes(self, change: Substitution) -> list[cst.CSTNode]:
        """Return a change's new nodes, after making other changes in them."""
        self.done.add(change)
        self._within.append(change)
        if change.parsed:
            self._outer.update(call for node in change.new for call in outer_calls(node))
        found = [self._visited(node) for node in change.new]
        self._within.pop()
        return found

    def _visited(self, node: cst.CSTNode) -> cst.CSTNode:
        result = node.visit(self)
        assert isinstance(result, cst.CSTNode)
        return result

    def _expression(self, old: cst.CSTNode, change: Substitution) -> cst.CSTNode:
        (new,) = self._new_nodes(change)
        assert isinstance(new, cst.BaseExpression)
        assert isinstance(old, cst.BaseExpression)
        if not self._is_new(change.new[0]) and not breaks(bare(new)):
            new = bare(new)  # the surrounding code determines whether it needs parentheses there
        if old.lpar and isinstance(old, cst.Tuple) and isinstance(new, cst.Tuple) and not new.lpar:
            result: cst.BaseExpression = new.with_changes(lpar=old.lpar, rpar=old.rpar)
        elif old.lpar and self._tree.is_held(old) and level(new) >= PRIMARY > level(old):
            result = new  # only the old expression needed the parentheses
        elif old.lpar and not isinstance(old, cst.Tuple | cst.GeneratorExp):
            result = bare(new)
            result = result.with_changes(lpar=[*old.lpar, *result.lpar], rpar=[*result.rpar, *old.rpar])
        else:
            result = enclosed(new) if self._tree.is_glued(old) and not new.lpar else new
        if new in self._made:
            self._made.add(result)
        return result

    def _elif(self, old: cst.If) -> cst.CSTNode | cst.RemovalSentinel:
        lines, lead = self._statements([old])
        if not lines:
            return cst.RemoveFromParent()
        if len(lines) == 1 and isinstance(lines[0], cst.If):
            return lines[0]
        return cst.Else(cst.IndentedBlock(lines), leading_lines=lead)

    def _block(self, old: cst.Module | cst.IndentedBlock) -> cst.Module | cst.IndentedBlock:
        outer = self._indent
        if isinstance(old, cst.IndentedBlock):
            self._indent += self._tree.module.default_indent if old.indent is None else old.indent
        lines, waiting = self._statements(old.body)
        self._indent = outer
        if not lines and isinstance(old, cst.IndentedBlock):
            lines, waiting = [led_by(waiting, cst.SimpleStatementLine([cst.Pass()]))], []
        return old.with_changes(body=lines, footer=[*waiting, *old.footer])

    def _suite(self, old: cst.SimpleStatementSuite) -> cst.BaseSuite:
        """Return the statements on a block header's line, as an indented block if they no longer fit there."""
        if not self._changes_of(old):
            return old.with_changes(body=[self._visited(one) for one in old.body])
        lines, waiting = self._statements([old])
        if not lines:
            lines = [cst.SimpleStatementLine([cst.Pass()])]
        first = lines[0]
        if len(lines) == 1 and isinstance(first, cst.SimpleStatementLine) and not (first.leading_lines or waiting):
            return old.with_changes(body=first.body, trailing_whitespace=first.trailing_whitespace)
        return cst.IndentedBlock([led_by(waiting, first), *lines[1:]])

    def _statements(self, old: Sequence[_Line]) -> tuple[list[cst.BaseStatement], list[cst.EmptyLine]]:
        """Return the replacement for a block's statements, and leading lines that have no statement after them."""
        lines: list[cst.BaseStatement] = []
        waiting: list[cst.EmptyLine] = []
        start = 0
        # Most statements of a block are old ones without changes, so they are only looked at together. One that shared
        # its line with the header of another block has no line of its own yet.
        alone = [not isinstance(one, cst.BaseSmallStatement) for one in old]
        kept = [
            own and id(one) not in self._concerned and id(one) in self._tree.ids
            for one, own in zip(old, alone, strict=True)
        ]
        kept.append(False)
        while start < len(old):
            if kept[start]:
                stop = kept.index(False, start)
                lines += [led_by(waiting, old[start]), *old[start + 1 : stop]]  # type: ignore[arg-type, list-item]
                waiting, start = [], stop
                continue
            stop, changes = start + 1, self._changes_of(old[start])
            while stop < len(old) and changes & self._changes_of(old[stop]):
                changes |= self._changes_of(old[stop])
                stop += 1
            new, lead = self._replaced(old[start:stop]) if changes else self._kept(old[start])
            waiting += lead
            if new:
                lines += [led_by(waiting, new[0]), *new[1:]]
                waiting = []
            start = stop
        return lines, waiting

    def _kept(self, old: _Line) -> tuple[list[cst.BaseStatement], list[cst.EmptyLine]]:
        """Return a statement that is kept, with the changes made inside it."""
        new = self._visited(old)
        if isinstance(new, cst.BaseSmallStatement):
            new = self._line([new])
        elif isinstance(new, cst.SimpleStatementLine) and new is not old:
            new = self._fitting(new)
        assert isinstance(new, cst.BaseStatement)
        before = without_lead(old) if old in self._lifted else old
        if new is not old and (gone := lost([before], [new])):
            new = new.with_changes(leading_lines=[*getattr(new, "leading_lines", ()), *above(gone)])
        return [new], []

    def _replaced(self, old: Sequence[_Line]) -> tuple[list[cst.BaseStatement], list[cst.EmptyLine]]:
        """Return the replacement for some lines or, if it is empty, their leading lines."""
        lead = list(getattr(old[0], "leading_lines", ()))
        self._lifted.add(old[0])
        lines = [new for line in old for new in self._apart(line)]
        gone = lost(old, [*lead, *lines])
        behind = _behind(old[-1])
        if lines and gone and behind is not None and behind.comment is not None and gone[-1] == behind.comment.value:
            last = lines[-1]
            if isinstance(last, cst.SimpleStatementLine) and last.trailing_whitespace.comment is None:
                lines[-1] = last.with_changes(trailing_whitespace=behind)
                gone.pop()
        lead += above(gone)
        return ([led_by(lead, lines[0]), *lines[1:]], []) if lines else ([], lead)

    def _apart(self, line: _Line) -> list[cst.BaseStatement]:
        """Split a line if one of its statements is replaced by whole lines."""
        lines: list[cst.BaseStatement] = []
        run: list[cst.CSTNode] = []
        for part in _parts(line):
            change = self._change(part)
            new = [self._visited(part)] if change is None else self._new_nodes(change) if part is change.old[0] else []
            for one in new:
                if isinstance(one, cst.BaseStatement):
                    lines += [*([self._line(run)] if run else []), one]
                    run = []
                else:
                    run.append(one)
        if run and not lines and isinstance(line, cst.SimpleStatementLine):
            return [self._line(run).with_changes(trailing_whitespace=line.trailing_whitespace)]
        return [*lines, *([self._line(run)] if run else [])]

    def _line(self, statements: Sequence[cst.CSTNode]) -> cst.SimpleStatementLine:
        *first, last = statements
        line = cst.SimpleStatementLine([*first, last.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)])  # type: ignore[list-item]
        return self._fitting(line)


def _behind(line: cst.CSTNode) -> cst.TrailingWhitespace | None:
    """Return the white space and comment after a statement, or None if its last part ends elsewhere."""
    while not isinstance(line, cst.SimpleStatementLine | cst.SimpleStatementSuite):
        parts = [one for one in line.children if isinstance(one, cst.BaseSuite | cst.BaseStatement | cst.Else)]
        if not parts or (isinstance(line, cst.IndentedBlock) and line.footer):
            return None
        line = parts[-1]
    return line.trailing_whitespace


def _parts(line: _Line) -> Sequence[cst.CSTNode]:
    """Return the statements on a line. A compound statement is treated as one line."""
    return line.body if isinstance(line, cst.SimpleStatementLine | cst.SimpleStatementSuite) else [line]
