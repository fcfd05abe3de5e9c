"""Shorten large unions of classes by replacing many classes with a few of their base classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynalint.analysis.index import ClassInfo


def common_bases(classes: Mapping[ClassInfo, bool], most: int) -> dict[ClassInfo, bool]:
    """Return classes that cover all of `classes`. There are at most `most` of them if the base classes allow it.

    The value says whether a class also represents its subclasses. The base with the largest share of its subclasses in
    `classes` is used first. If two have the same share, the one with more subclasses in `classes` is used.
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
