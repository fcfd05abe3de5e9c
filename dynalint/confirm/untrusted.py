"""Sanitise text that comes from the code being checked. All text from a worker or in a report passes through here.

The code being checked can forge everything that its process sends. Its text is therefore treated as plain data. Control
characters are replaced, and long texts are shortened.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace
from typing import Any

from dynalint.findings import Evidence, Finding

# Length limits in characters: for raw text, which can be a graph's code, for a sentence, and for a name in a sentence.
MOST_TEXT = 1 << 16
MOST_SENTENCE = 800
MOST_NAME = 120

_BREAK = re.compile(r"GB\d{1,6}")

# Keys whose values are file paths. Paths are compared with each other, so they stay unchanged until they are reported.
_PATHS = frozenset(("file", "files"))


def sanitised(value: Any, most: int = MOST_TEXT) -> Any:
    """Return JSON data where every string has been made `plain` and shortened, except for keys and paths."""
    if isinstance(value, str):
        return plain(cut(value, most))
    if isinstance(value, list):
        return [sanitised(item, most) for item in value]
    if isinstance(value, dict):
        return {name: item if name in _PATHS else sanitised(item, most) for name, item in value.items()}
    return value


def plain(text: str) -> str:
    """Return the text without control characters or characters that reorder text. Newlines and tabs are kept."""
    if text.isprintable():
        return text
    return "".join(one if _is_plain(one) else "\N{REPLACEMENT CHARACTER}" for one in text)


def _is_plain(character: str) -> bool:
    return character.isprintable() or character in "\n\t" or unicodedata.category(character) == "Zs"


def cut(text: str, most: int) -> str:
    """Shorten a string to at most `most` characters."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def sentence(text: str) -> str:
    """Return a string as it is used in reports: on a single line, and not too long."""
    return cut(" ".join(plain(cut(text, MOST_TEXT)).split()), MOST_SENTENCE)


def sanitised_discovery(finding: Finding) -> Finding:
    """Return a discovery with all strings as they are used in reports."""
    return replace(
        finding,
        message=sentence(finding.message),
        help=sentence(finding.help),
        function=_name(finding.function),
        region=tuple(map(_name, finding.region)),
        steps=tuple(replace(step, function=_name(step.function)) for step in finding.steps),
        gb=tuple(filter(_BREAK.fullmatch, finding.gb)),
        evidence=sanitised_evidence(finding.evidence),
    )


def sanitised_evidence(evidence: Evidence) -> Evidence:
    """Return evidence with all strings as they are used in reports."""
    gb = evidence.gb if evidence.gb is not None and _BREAK.fullmatch(evidence.gb) else None
    return replace(evidence, detail=sentence(evidence.detail), gb=gb)


def _name(text: str) -> str:
    return cut(sentence(text), MOST_NAME)
