"""Rewriting by libcst: rules say which node becomes what, this package how it is written.

The inference works on `ast`, which is fast; text, comments and layout are libcst's. Only functions with something to
rewrite are parsed by it, each alone: `tree.py` finds the libcst node of an `ast` node by its place. A rule builds
new nodes with `build.py`, out of old ones where it can, and never writes a parenthesis, a line break or a comment:
`substitution.py` carries out all changes of a function in one pass, with `parentheses.py` for precedence, `comments.py`
for what the new nodes lack and `wrapping.py` for long lines. What changed leaves as replacements in the original text.

What rules need is found here by name, and loaded when it is first asked for: importing libcst takes 0.2 s, which a run
that rewrites nothing does not spend.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynalint.rewriting.build import (
        asking,
        assignment,
        attribute,
        block,
        branch,
        call,
        calling,
        inversion,
        item,
        method,
        name,
        negation,
        number,
        operation,
        with_argument,
    )
    from dynalint.rewriting.code import Change, expression, kept, spliced, statements, written
    from dynalint.rewriting.substitution import Substitution, replacements
    from dynalint.rewriting.tree import Tree

_HOMES = {"Tree": "tree", "Substitution": "substitution", "replacements": "substitution"}
_HOMES |= dict.fromkeys(("Change", "expression", "kept", "spliced", "statements", "written"), "code")

__all__ = [
    "Change",
    "Substitution",
    "Tree",
    "asking",
    "assignment",
    "attribute",
    "block",
    "branch",
    "call",
    "calling",
    "expression",
    "inversion",
    "item",
    "kept",
    "method",
    "name",
    "negation",
    "number",
    "operation",
    "replacements",
    "spliced",
    "statements",
    "with_argument",
    "written",
]


def __getattr__(wanted: str) -> object:
    if wanted not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {wanted!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(wanted, 'build')}"), wanted)
