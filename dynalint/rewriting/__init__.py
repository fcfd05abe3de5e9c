"""Rewriting with libcst. Rules say which node becomes what, and this package writes the code.

Inference works on `ast` because it is fast, and libcst keeps text, comments and layout. Only functions with something
to rewrite are parsed with libcst, one at a time. `tree.py` finds the libcst node for an `ast` node by its position. A
rule builds new nodes with `build.py`, from old ones where possible, and never writes parentheses, line breaks or
comments. `substitution.py` makes all changes to a function in one pass. `parentheses.py` handles precedence,
`comments.py` keeps comments that the new nodes lack, and `wrapping.py` breaks long lines. The result is a set of
replacements in the original text.

Names are imported on first use, because importing libcst takes 0.2 s, and a run that rewrites nothing does not need it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynalint.rewriting.build import (
        along_last,
        asking,
        attribute,
        block,
        branch,
        call,
        calling,
        item,
        method,
        name,
        negation,
        number,
        operation,
        without,
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
    "along_last",
    "asking",
    "attribute",
    "block",
    "branch",
    "call",
    "calling",
    "expression",
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
    "without",
    "written",
]


def __getattr__(wanted: str) -> object:
    if wanted not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {wanted!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(wanted, 'build')}"), wanted)
