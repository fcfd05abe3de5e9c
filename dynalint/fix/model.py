"""What the parts of the fix engine hand to each other, and what it hands to the command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dynalint.analysis.notebook import Cells
from dynalint.analysis.source import SourceFile
from dynalint.diffs import hunks
from dynalint.findings import Finding, Safety
from dynalint.fix.edits import Plan
from dynalint.rules import Rewrite

# Where a line begins, so at the top level of a module.
_CONSTANT = re.compile(r"^(_[A-Z][A-Z0-9_]*) = ", re.MULTILINE)
_BUFFER = re.compile(r"""\bregister_buffer\(\s*["'](\w+)["']""")


@dataclass(frozen=True, slots=True)
class Linted:
    """A finding, the file it stands in as it was read, and the rewrite that its rule offers, if any.

    `conditional` marks advice on what breaks the graph only under a condition: seen to break, it is a graph break.
    """

    finding: Finding
    file: SourceFile
    rewrite: Rewrite | None = None
    conditional: bool = False


Linter = Callable[[Mapping[Path, str]], Sequence[Linted]]
"""Lints the whole project with the texts of some files replaced; gives what is selected and not suppressed."""


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """What is applied as one: a rewrite, all it changes, and the findings that go with it.

    `sources` are the files as the rewrite found them. `shown` tells that running must show the conditions of an unsafe
    rewrite too.
    """

    linted: tuple[Linted, ...]
    plan: Plan
    title: str
    safety: Safety
    conditions: tuple[str, ...]
    sources: Mapping[Path, SourceFile]
    shown: bool = False

    @property
    def exact(self) -> bool:
        """Whether results must be equal bit for bit; a rewrite that is not says "rounding" in a condition."""
        return not any("rounding" in condition for condition in self.conditions)

    @property
    def new_state(self) -> frozenset[str]:
        """Names that the new code has for state: buffers, where a number may be a 0-dim tensor now, and constants."""
        contents = (change.content for changes in self.plan.values() for change in changes)
        return frozenset(
            name for content in contents for found in (_BUFFER, _CONSTANT) for name in found.findall(content)
        )


@dataclass(frozen=True, slots=True)
class Proof:
    """What running the original and the rewritten code side by side showed, for one unit.

    `detail` is a clause: what was compared, what differed (with the input that shows it), or why nothing could be run.
    `inputs` counts the inputs tried, `sides` the branch sides and statements in the changed code, `sides_run` those
    that ran on the original. `raises` tells that the rewritten code failed where the original did not. `passed`
    are the differences that the equivalence in force lets pass.
    """

    outcome: Literal["proven", "refuted", "unverifiable"]
    detail: str
    inputs: int = 0
    sides: int = 0
    sides_run: int = 0
    raises: bool = False
    passed: tuple[str, ...] = ()


Verifier = Callable[[Mapping[Path, str], Mapping[Path, str], Sequence[Unit]], Mapping[Unit, Proof]]
"""Compares two states of the project, given as the texts that differ from the disk; a proof for each unit.

Where units change the same code and it differs, each of them is refuted: the engine finds out which one it was.
"""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A fix that stands up to everything, before it is taken; `proof` is None where nothing was run.

    `diffs` are old and new text of what it changes, by file, as this fix alone would change it.
    """

    unit: Unit
    proof: Proof | None
    diffs: Mapping[Path, tuple[str, str]]


Decider = Callable[[Proposal], Literal["accept", "skip", "quit"]]
"""Says what to do with a fix; after `quit` nothing more is asked or taken."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A finding that was fixed; `finding.fix.verified` says whether a run has shown it, `proof` how."""

    finding: Finding
    proof: Proof | None


@dataclass(frozen=True, slots=True)
class Refused:
    """A finding with a fix that was not applied, and the reason; `refuted` where a run showed a difference.

    `unlock` names the option that would apply it, if there is one.
    """

    finding: Finding
    reason: str
    refuted: bool = False
    unlock: str | None = None


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file with its new text. Encoding, byte-order mark and line endings are those of `source`."""

    source: SourceFile
    text: str
    findings: tuple[Finding, ...]

    @property
    def data(self) -> bytes:
        """The bytes to write."""
        return self.source.encode(self.text)

    def diff(self, name: str, context: int = 3) -> str:
        """Return the unified diff between the old and the new text, as `git apply` takes it; `name` is the path.

        Of a notebook, it is that of each cell that changed.
        """
        if self.source.cells is not None:
            before, after = self.source.cells.codes(), Cells(self.text).codes()
            return "".join(
                unified_diff(old, after[cell], f"{name}:cell {cell}", context) for cell, old in before.items()
            )
        return unified_diff(self.source.text, self.text, name, context)


Keeper = Callable[[Sequence[ChangedFile], Sequence[Sequence[Path]]], None]
"""Is given files as fixes that were just taken have changed them, and the paths of those that belong together."""


@dataclass(frozen=True, slots=True)
class FixResult:
    """What the rounds came to.

    `remaining` are the findings of the new state; places are those of the new text. `groups` lists the files that are
    written together or not at all. `notes` are sentences for the user.
    """

    files: tuple[ChangedFile, ...]
    groups: tuple[tuple[Path, ...], ...]
    fixed: tuple[Fixed, ...]
    refused: tuple[Refused, ...]
    remaining: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()


def unified_diff(old: str, new: str, name: str, context: int = 3) -> str:
    """Return the unified diff of two texts, with `a/` and `b/` names and the mark for a missing last newline."""
    parts = [f"--- {_quoted(f'a/{name}')}\n", f"+++ {_quoted(f'b/{name}')}\n"]
    for head, lines in hunks(_lines(old), _lines(new), context):
        parts.append(f"{head}\n")
        parts += (line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    return "".join(parts) if len(parts) > 2 else ""


def _quoted(name: str) -> str:
    """Return the name of a file as git has it in a diff: one with a line break in it would be lines of the diff."""
    if name.isprintable() and not set(name) & {'"', "\\"}:
        return name
    data = name.encode("utf-8", "surrogateescape")
    return '"' + "".join(chr(one) if 0x20 <= one < 0x7F and one not in b'"\\' else f"\\{one:03o}" for one in data) + '"'


def _lines(text: str) -> list[str]:
    """Split at line feeds only, as diff and patch do; `str.splitlines` would split at form feeds too."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


@dataclass(frozen=True, slots=True)
class FixOptions:
    """What may be fixed: `unsafe` lets unsafe fixes in, `unlikely` those of code that is rarely compiled.

    `decide` has the last word, `keep` gets the files as fixes are taken.
    """

    unsafe: bool = False
    unlikely: bool = False
    decide: Decider | None = None
    keep: Keeper | None = None
