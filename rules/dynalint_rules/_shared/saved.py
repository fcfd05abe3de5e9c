"""A name for what another name held before it was set anew, for what is computed of that once more.

After `h = h / h.norm()`, what `h` was before has no name: `old_h = h` above it gives it one.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from dynalint.rules import Replacement, Rewrite
from dynalint_rules._shared.recomputed import is_held
from dynalint_rules._shared.scope import Refusal, Scope
from dynalint_rules._shared.text import indentation


def save(scope: Scope, read: ast.Name, at: ast.stmt) -> None:
    """Have what the statement `at` reads under a name go by another one from now on.

    Raises:
        Refusal: there is no line above the statement for that.
    """
    indent = indentation(scope.file, at.lineno)
    if scope.file.line_starts[at.lineno - 1] + len(indent) != scope.file.span(at)[0]:
        raise Refusal(f"{scope.quote(at)} does not stand on a line of its own")
    if (at, read.id) not in scope.saved:
        scope.saved[at, read.id] = scope.fresh_name(f"old_{read.id}", scope.saved.values())
    scope.renamed[read] = scope.saved[at, read.id]


def with_saved(scope: Scope, rewrite: Rewrite) -> Rewrite:
    """Return a rewrite with the lines that save what its text asks for, once for each value."""
    words = {word for one in rewrite.replacements for word in re.findall(r"\w+", one.content)}
    lines: dict[tuple[ast.stmt, str], str] = {}
    names: dict[str, str] = {}
    wanted = [(at, name, saved) for (at, name), saved in scope.saved.items() if saved in words]
    for at, name, saved in sorted(wanted, key=lambda one: -one[0].lineno):
        same = [given for (later, other), given in lines.items() if other == name and is_held(scope, name, at, later)]
        names[saved] = same[0] if same else scope.fresh_name(f"old_{name}", lines.values())
        if not same:
            lines[at, name] = names[saved]
    replacements = [
        replace(one, content=re.sub(r"\w+", lambda word: names.get(word[0], word[0]), one.content))
        for one in rewrite.replacements
    ]
    return replace(rewrite, replacements=(*replacements, *(_line(scope, *key, given) for key, given in lines.items())))


def _line(scope: Scope, at: ast.stmt, name: str, saved: str) -> Replacement:
    """A line above a statement that gives what stands under a name another one."""
    file, (start, _) = scope.file, scope.file.span(at)
    return Replacement(file, start, start, f"{saved} = {name}{file.newline}{indentation(file, at.lineno)}")
