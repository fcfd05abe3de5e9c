"""What code under check says, made harmless: every text that comes from a worker, or goes into a report, goes through.

Code under check can forge all that its process says. What it says is taken for data of its kind, never for characters
that act on a terminal, and never for more than somebody would read.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace
from typing import Any

from dynalint.findings import Evidence, Finding

# Of a text as it comes, which may be the code of a graph; of a sentence; of a name in one.
MOST_TEXT = 1 << 16
MOST_SENTENCE = 800
MOST_NAME = 120

_BREAK = re.compile(r"GB\d{1,6}")

# What names files: it is compared with paths, which may have any characters, and shown as they are shown.
_PATHS = frozenset(("file", "files", "fail_file"))


def tamed(value: Any, most: int = MOST_TEXT) -> Any:
    """Return what JSON can hold with all texts in it as `plain` has them, cut, but for keys and paths."""
    if isinstance(value, str):
        return plain(cut(value, most))
    if isinstance(value, list):
        return [tamed(item, most) for item in value]
    if isinstance(value, dict):
        return {name: item if name in _PATHS else tamed(item, most) for name, item in value.items()}
    return value


def plain(text: str) -> str:
    """Return a text without characters that act on a terminal or reorder what is read; lines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(one if _is_plain(one) else "\N{REPLACEMENT CHARACTER}" for one in text)


def _is_plain(character: str) -> bool:
    return character.isprintable() or character in "\n\t" or unicodedata.category(character) == "Zs"


def cut(text: str, most: int) -> str:
    """Return a text of at most so many characters."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def sentence(text: str) -> str:
    """Return a text as it may stand in a report: on one line, of a length that somebody reads."""
    return cut(" ".join(plain(cut(text, MOST_TEXT)).split()), MOST_SENTENCE)


def worded(finding: Finding) -> Finding:
    """Return what only running showed with all texts as they may stand in a report."""
    return replace(
        finding,
        message=sentence(finding.message),
        help=sentence(finding.help),
        function=_name(finding.function),
        region=tuple(map(_name, finding.region)),
        steps=tuple(replace(step, function=_name(step.function)) for step in finding.steps),
        gb=tuple(filter(_BREAK.fullmatch, finding.gb)),
        evidence=sober(finding.evidence),
    )


def sober(evidence: Evidence) -> Evidence:
    """Return evidence with its words as they may stand in a report."""
    gb = evidence.gb if evidence.gb is not None and _BREAK.fullmatch(evidence.gb) else None
    return replace(evidence, detail=sentence(evidence.detail), gb=gb)


def _name(text: str) -> str:
    return cut(sentence(text), MOST_NAME)
