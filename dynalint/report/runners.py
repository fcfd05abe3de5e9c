"""What the runners of CI systems take for commands, and how text is written so that it is none.

They read every line that a step prints, whoever wrote it. The runner of GitHub's Actions takes a line for a command
that begins with `::name::`, white space before it or not, and finds the older form `##[name]` anywhere in a line; that
of Azure Pipelines finds `##vso[`, TeamCity `##teamcity[`. With such a line, code under check could mask words of the
log, make up annotations or switch off the commands of those who come after.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

# They compare by the rules of a language, which pass over characters that are not seen: any beyond ASCII may be none.
_NONE = r"[^ -~\t\r\n]*"
# A line ends for them at a carriage return, too.
_AT_THE_START = re.compile(rf"(?:(?<=[\r\n])|\A)((?:[^!-~\r\n]*):)(?={_NONE}:[^\r\n]*:{_NONE}:)")
_ANYWHERE = re.compile(rf"#(?={_NONE}#{_NONE}(?:vso|teamcity)?{_NONE}\[)")
# GitLab folds and hides what stands between its marks.
_SECTION = re.compile(r"section_(?=(?:start|end):)")

_OTHERS = ("TF_BUILD", "TEAMCITY_VERSION", "GITLAB_CI")


def in_part(text: str) -> str:
    """Return a part of a line for people likewise, as far as commands go that may stand anywhere."""
    return _ANYWHERE.sub("# ", text)


def in_text(text: str) -> str:
    """Return lines for people with a space in whatever a runner would take for a command."""
    return _AT_THE_START.sub(r"\1 ", in_part(text))


def in_json(text: str) -> str:
    """Return a document in JSON that holds the same values and no command."""
    # Two number signs stand in strings only, and there this is another way to write the first.
    return _ANYWHERE.sub(r"\\u0023", text)


def in_xml(text: str) -> str:
    """Return a document in XML that holds the same values and no command."""
    return _ANYWHERE.sub("&#35;", text)


def starts(line: str) -> set[int]:
    """Return where in a line commands begin that need not stand at its start."""
    return {match.start() for match in _ANYWHERE.finditer(line)} if "#" in line else set()


def commands(text: str) -> bool:
    """Whether a runner would take a line of text for a command."""
    return any(pattern.search(text) for pattern in (_AT_THE_START, _ANYWHERE, _SECTION))


def exact(text: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return text that must not change a byte as it may pass the runner at hand; None where that cannot be.

    Where there is none, and where text holds no command, that is the text itself. GitHub's takes no commands between
    two lines that carry the same token; as that is a hash of the text, nothing in the text can hold it.
    """
    if not commands(text):
        return text
    if environment.get("GITHUB_ACTIONS") == "true":
        from hashlib import sha256  # not needed by most runs

        token = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        end = "" if text.endswith("\n") else "\n"
        return f"::stop-commands::{token}\n{text}{end}::{token}::\n"
    return None if any(environment.get(name) for name in _OTHERS) else text
