"""Workflow commands in CI runners, and how to escape text that looks like a command.

A runner scans every line that a step prints, wherever the line comes from. GitHub Actions recognizes `::name::` at the
start of a line, with or without leading white space, and the older form `##[name]` anywhere in a line. Azure Pipelines
recognizes `##vso[`, and TeamCity recognizes `##teamcity[`. Checked code could use these to mask words in the log, forge
annotations or disable commands in later steps.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

# Runners compare text by culture-sensitive rules that ignore invisible characters. Any non-ASCII character may be
# invisible.
_NONE = r"[^ -~\t\r\n]*"
# Runners also treat a carriage return as the end of a line.
_AT_THE_START = re.compile(rf"(?:(?<=[\r\n])|\A)((?:[^!-~\r\n]*):)(?={_NONE}:[^\r\n]*:{_NONE}:)")
_ANYWHERE = re.compile(rf"#(?={_NONE}#{_NONE}(?:vso|teamcity)?{_NONE}\[)")
# GitLab folds and hides the text between these markers.
_SECTION = re.compile(r"section_(?=(?:start|end):)")

_OTHERS = ("TF_BUILD", "TEAMCITY_VERSION", "GITLAB_CI")


def in_part(text: str) -> str:
    """Return part of a line for people, with a space inserted into each command that can occur anywhere in a line."""
    return _ANYWHERE.sub("# ", text)


def in_text(text: str) -> str:
    """Return text for people, with a space inserted into everything that a runner would interpret as a command."""
    return _AT_THE_START.sub(r"\1 ", in_part(text))


def in_json(text: str) -> str:
    """Return an equivalent JSON document that contains no commands."""
    # Two number signs in a row only occur in strings, where the first one can be written as an escape sequence.
    return _ANYWHERE.sub(r"\\u0023", text)


def in_xml(text: str) -> str:
    """Return an equivalent XML document that contains no commands."""
    return _ANYWHERE.sub("&#35;", text)


def starts(line: str) -> set[int]:
    """Return the offsets in a line of commands that can occur anywhere in a line."""
    return {match.start() for match in _ANYWHERE.finditer(line)} if "#" in line else set()


def commands(text: str) -> bool:
    """Return whether a runner would interpret any line of the text as a command."""
    return any(pattern.search(text) for pattern in (_AT_THE_START, _ANYWHERE, _SECTION))


def exact(text: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return text that passes the current CI runner unchanged, or None if that is impossible.

    If there is no runner, or if the text contains no commands, it is returned unchanged. GitHub ignores commands
    between two lines with the same token. The token is a hash of the text, so the text cannot contain it.
    """
    if not commands(text):
        return text
    if environment.get("GITHUB_ACTIONS") == "true":
        from hashlib import sha256  # most runs do not need this

        token = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        end = "" if text.endswith("\n") else "\n"
        return f"::stop-commands::{token}\n{text}{end}::{token}::\n"
    return None if any(environment.get(name) for name in _OTHERS) else text
