"""How text is displayed, including colours, character widths and visible replacements for control characters.

Text from the checked code can contain characters that control the terminal or reorder what is displayed, and text that
a CI runner would interpret as a command. `visible` and `cells` replace these.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from dynalint.report.runners import in_part, in_text, starts

SEVERITY_COLOURS = {"error": "red", "warning": "yellow", "info": "cyan"}

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}


@dataclass(frozen=True, slots=True)
class Style:
    """Colours text with ANSI escape sequences, or returns it unchanged if `color` is False."""

    color: bool = False

    def paint(self, text: str, *looks: str) -> str:
        """Return `text` with the given styles, such as "bold" and "red"."""
        if not self.color or not text:
            return text
        return f"\x1b[{';'.join(_CODES[look] for look in looks)}m{text}\x1b[0m"


def visible(text: str) -> str:
    """Return `text` on one line, without control characters, reordering or workflow commands."""
    if text.isascii() and text.isprintable():
        return in_part(text)
    return in_part("".join(_visible(character) for character in text))


def visible_lines(text: str) -> str:
    """Do the same for text with more than one line. Tabs and line endings are kept."""
    kept = text.replace("\r\n", "\n")
    shown = in_text("".join(one if one in "\n\t" else _visible(one) for one in kept))
    return text if shown == kept else shown


def cells(line: str) -> list[str]:
    """Return the text to print for each character in a line of code. Tabs are expanded to multiples of four columns."""
    printed: list[str] = []
    column = 0
    broken = starts(line)
    for at, character in enumerate(line):
        cell = " " * (4 - column % 4) if character == "\t" else _visible(character) + " " * (at in broken)
        column += width(cell)
        printed.append(cell)
    return printed


def width(text: str) -> int:
    """Return the number of terminal columns that `text` takes."""
    if text.isascii():
        return len(text)
    return sum(_character_width(character) for character in text)


def _character_width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _visible(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    if character.isprintable() or (character.isspace() and code not in (0x2028, 0x2029, 0x85)):
        return character
    # These include DEL, the C1 control characters, characters that switch the text direction, and lone surrogates.
    return "\N{REPLACEMENT CHARACTER}"
