"""`.gitignore` patterns from untrusted projects, compiled so that no pattern can make matching slow.

`pathspec` turns a pattern into a regular expression that tries each wildcard at every length, so a few wildcards in a
row can take years to match. If another wildcard of the same kind follows, only the first match of the text between them
has to be tried, because if the rest matches after a later match, it also matches after the first match. This module
rewrites the expressions accordingly.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

from pathspec import GitIgnoreSpec

_WILDCARD = re.compile(r"(\[\^/\][*+]|\(\?:\.\+/\)\?|\(\?:/\.\+\)\?)")
# Only Python's own engine supports group references.
_OPTIONS: dict[str, Any] = {"backend": "simple"} if "backend" in inspect.signature(GitIgnoreSpec).parameters else {}


def compile_patterns(lines: Iterable[str]) -> GitIgnoreSpec:
    """Compile patterns. As in git, an invalid pattern matches nothing."""
    return GitIgnoreSpec((pattern for line in lines for pattern in _compiled(line)), **_OPTIONS)


def _compiled(line: str) -> Iterator[Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Warnings about character sets only concern their author.
            for pattern in GitIgnoreSpec.from_lines([line], **_OPTIONS).patterns:
                regex = pattern.regex
                if regex is not None and len(_WILDCARD.findall(regex.pattern)) > 1:
                    pattern.regex = re.compile(_bounded(regex.pattern))
                yield pattern
    except (ValueError, OverflowError, RecursionError, re.error):
        return


def _bounded(regex: str) -> str:
    """Return an equivalent regular expression that tries only one match for each wildcard except the last."""
    numbers = count(1)

    def first(wildcard: str, rest: str) -> str:
        lazy = wildcard.replace("+", "+?").replace("*", "*?") + ("?" if wildcard.endswith("?") else "")
        number = next(numbers)
        return f"(?=(?P<first{number}>{lazy}{rest}))(?P=first{number})"

    parts = _WILDCARD.split(regex)
    sections = [["", parts[0]]]  # Each section has the directory wildcard that it starts with, and the rest.
    for wildcard, literal in zip(parts[1::2], parts[2::2], strict=True):
        if wildcard.startswith("("):
            sections.append([wildcard, literal])
        else:
            sections[-1] += [wildcard, literal]
    done = ""
    for index, (across, body, *names) in enumerate(sections):
        pairs = list(zip(names[::2], names[1::2], strict=True))
        name = "".join([body, *(first(*pair) for pair in pairs[:-1]), *(pairs[-1] if pairs else ())])
        following = sections[index + 1][0] if index + 1 < len(sections) else ""
        end = "(?=/)" if following == "(?:/.+)?" else ""
        done += first(across, name + end) if across and following else across + name
    return done
