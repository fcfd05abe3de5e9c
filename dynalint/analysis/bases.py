"""Fewer classes that cover many: the widening of what may be an instance of any of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynalint.analysis.index import ClassInfo


def common_bases(classes: Mapping[ClassInfo, bool], most: int) -> dict[ClassInfo, bool]:
    """Return classes that cover all of these, each with whether all below it is meant: `most` as far as bases allow.

    That base comes first of whose heirs the largest share is among them, and of several the one with most of them.
    """
    left = dict(classes)
    while len(left) > most:
        covered: dict[ClassInfo, list[ClassInfo]] = {}
        for cls in left:
            for base in cls.above:
                covered.setdefault(base, []).append(cls)
        several = {base: some for base, some in covered.items() if len(some) > 1}
        if not several:
            break
        best = max(several, key=lambda base: (len(several[base]) / (1 + len(base.subclasses)), len(several[base])))
        for cls in several[best]:
            del left[cls]
        left[best] = True
    return left
