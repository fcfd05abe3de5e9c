"""Decide whether a file needs a new import, and where to insert it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import lru_cache

from dynalint.analysis.source import SourceFile

_Import = ast.Import | ast.ImportFrom


class EditError(Exception):
    """A rewrite that cannot be applied. The message is a clause that can follow "not fixed: "."""


def bound_name(statement: str) -> str:
    """Return the name that an import statement binds. The statement must import a single name."""
    alias = _parsed(statement).names[0]
    return alias.asname or alias.name.partition(".")[0]


def import_place(file: SourceFile, statement: str) -> tuple[int, str] | None:
    """Return an offset, and the text to insert there to import `statement`, or None if `file` already imports it.

    Raises:
        EditError: If the file uses the name for something else, or does not parse.
    """
    if file.tree is None:
        raise EditError("the file does not parse")
    wanted = _parsed(statement)
    name = bound_name(statement)
    taken = False
    for node in _top_level(file.tree.body):
        if isinstance(node, ast.Import | ast.ImportFrom):
            if _provides(node, wanted):
                return None
            taken = taken or any(_binds(node, alias) == name for alias in node.names)
        else:
            taken = taken or name in _bindings(node)
    if taken:
        raise EditError(f"the file uses the name `{name}` for something other than `{statement}`")
    return _place(file, file.tree, statement, wanted)


@lru_cache(maxsize=64)
def _parsed(statement: str) -> _Import:
    node = ast.parse(statement).body[0]
    if not isinstance(node, ast.Import | ast.ImportFrom) or len(node.names) != 1:
        raise ValueError(f"not an import of one name: {statement!r}")
    return node


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run on import, including those nested in `try`, `if` and `with`."""
    for node in body:
        yield node
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            yield from _top_level(node.orelse)
            continue
        for block in ("body", "handlers", "orelse", "finalbody"):
            if isinstance(node, ast.Try | ast.If | ast.With | ast.ExceptHandler):
                yield from _top_level(getattr(node, block, []))


def _provides(node: _Import, wanted: _Import) -> bool:
    """Return whether `node` binds the same name as `wanted` to the same object."""
    need = wanted.names[0]
    if isinstance(node, ast.ImportFrom) or isinstance(wanted, ast.ImportFrom):
        return (
            isinstance(node, ast.ImportFrom)
            and isinstance(wanted, ast.ImportFrom)
            and (node.module, node.level) == (wanted.module, wanted.level)
            and any((a.name, a.asname or a.name) == (need.name, need.asname or need.name) for a in node.names)
        )
    if need.asname is not None:
        return any((alias.name, alias.asname) == (need.name, need.asname) for alias in node.names)
    # `import a.b` binds `a` and loads `a.b`, and so does `import a.b.c`. For a plain name, `import a as a` is the same.
    return any(
        (alias.asname is None and f"{alias.name}.".startswith(f"{need.name}."))
        or (alias.asname == need.name == alias.name)
        for alias in node.names
    )


def _binds(node: _Import, alias: ast.alias) -> str:
    name = alias.asname or alias.name
    return name if isinstance(node, ast.ImportFrom) else name.partition(".")[0]


def _bindings(node: ast.stmt) -> set[str]:
    """Return the names that a statement other than an import binds at the top level."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign | ast.For):
        targets = [node.target]
    return {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}


def _root(node: _Import) -> str:
    if isinstance(node, ast.ImportFrom):
        return "" if node.level else (node.module or "").partition(".")[0]
    return node.names[0].name.partition(".")[0]


def below_imports(file: SourceFile, statement: str) -> tuple[int, str]:
    """Return an offset, and the text to insert there so that a statement about torch runs when `file` is imported.

    The statement goes below the torch imports and any imports that directly follow them.

    Raises:
        EditError: If the file does not import torch at its top level, or does not parse.
    """
    if file.tree is None:
        raise EditError("the file does not parse")
    body = file.tree.body
    last = next(
        (node for node in body if isinstance(node, ast.Import | ast.ImportFrom) and _root(node) == "torch"), None
    )
    if last is None:
        raise EditError("the file does not import torch at its top level")
    for node in body[body.index(last) + 1 :]:
        if not isinstance(node, ast.Import | ast.ImportFrom):
            break
        last = node
    return _below(file, body, last, f"{file.newline}{statement}")


def _place(file: SourceFile, tree: ast.Module, statement: str, wanted: _Import) -> tuple[int, str]:
    newline = file.newline
    first, body = _after_docstring(tree)
    future = [node for node in body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    plain = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom) and node not in future]
    kin = [node for node in plain if _root(node) == _root(wanted)]
    if kin and _starts_line(file, kin[0]):
        # `import torch` goes above `import torch.nn as nn`, where an import sorter would put it.
        return file.line_starts[kin[0].lineno - 1], f"{statement}{newline}"
    if plain:
        start = body.index(plain[0])
        run = body[start : next((at for at in range(start, len(body)) if body[at] not in plain), len(body))]
        return _among(file, body, [one for one in run if isinstance(one, ast.Import | ast.ImportFrom)], wanted)
    if future:
        return _below(file, body, future[-1], f"{newline}{statement}")
    if first is not None:
        return _below(file, [first, *body], first, f"{newline}{statement}")
    return _at_top(file, statement)


def _among(file: SourceFile, body: list[ast.stmt], run: list[_Import], wanted: _Import) -> tuple[int, str]:
    """Return where to insert a new import among consecutive imports.

    Import sorters put those of the standard library first and those of the project last, and in each section
    `import a` before `from a import b`, in the order of the names.
    """
    statement, section = ast.unparse(wanted), int(_root(wanted) not in sys.stdlib_module_names)
    own = [one for one in run if _section(file, one) == section]
    earlier = [one for one in run if _section(file, one) < section]
    before = [one for one in own if _order(one) < _order(wanted)]
    if before:
        return _below(file, body, before[-1], statement)
    if not own and earlier:
        return _below(file, body, earlier[-1], f"{file.newline}{statement}")
    first, gap = (own or run)[0], "" if own else file.newline
    if _starts_line(file, first):
        return file.line_starts[first.lineno - 1], f"{statement}{file.newline}{gap}"
    return _below(file, body, run[-1], statement)


def _order(node: _Import) -> tuple[bool, str]:
    return isinstance(node, ast.ImportFrom), _root(node).lower()


def _section(file: SourceFile, node: _Import) -> int:
    """Return 0 for an import of the standard library, 2 for one of the file's own project, and 1 for others."""
    root = _root(node)
    if root in sys.stdlib_module_names:
        return 0
    return 2 if not root or root in file.path.parts[:-1] else 1


def _after_docstring(tree: ast.Module) -> tuple[ast.stmt | None, list[ast.stmt]]:
    if ast.get_docstring(tree, clean=False) is not None:
        return tree.body[0], tree.body[1:]
    return None, tree.body


def _starts_line(file: SourceFile, node: ast.stmt) -> bool:
    """Return whether `node` is the first thing on its line."""
    start = file.line_starts[node.lineno - 1]
    return not file.text[start : file.span(node)[0]].strip()


def _below(file: SourceFile, body: list[ast.stmt], node: ast.stmt, lines: str) -> tuple[int, str]:
    """Insert `lines` below the line where `node` ends, after any other code on that line."""
    end = node.end_lineno or node.lineno
    for follower in body[body.index(node) + 1 :]:
        if follower.lineno > end:
            break
        end = follower.end_lineno or follower.lineno
    if end < len(file.line_starts):
        return file.line_starts[end], f"{lines}{file.newline}"
    return len(file.text), f"{file.newline}{lines}"


def _at_top(file: SourceFile, statement: str) -> tuple[int, str]:
    """Insert below the comments at the top of the file, such as an interpreter line, an encoding or a licence."""
    line = 1
    while file.line(line).lstrip().startswith("#") and line < len(file.line_starts):
        line += 1
    gap = file.newline if line > 1 else ""
    after = "" if not file.line(line).strip() else file.newline
    return file.line_starts[line - 1], f"{gap}{statement}{file.newline}{after}"
