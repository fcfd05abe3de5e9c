"""Data types shared by the parts of the fix engine and the command line."""

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

# Matches only at the start of a line, and therefore only at the top level of a module.
_CONSTANT = re.compile(r"^(_[A-Z][A-Z0-9_]*) = ", re.MULTILINE)
_BUFFER = re.compile(r"""\bregister_buffer\(\s*["'](\w+)["']""")
_RECORDED = re.compile(r"accepts (?:the items of )?`self\.(\w+)` as (?:a )?0-dim tensor")
_SUM = re.compile(r"accepts `\w+` as a 0-dim tensor if nothing is added to it")
_UNMOVED = re.compile(r"`self\.(\w+)`, which keeps its device and dtype")


@dataclass(frozen=True, slots=True)
class Linted:
    """A finding, the file it was found in, and the rewrite that its rule offers, if any.

    `conditional` marks advice about code that breaks the graph only under some condition. If a break was observed, the
    finding is reported as a graph break.
    """

    finding: Finding
    file: SourceFile
    rewrite: Rewrite | None = None
    conditional: bool = False


Linter = Callable[[Mapping[Path, str]], Sequence[Linted]]
"""Lints the project with the text of some files replaced. Returns the selected findings that are not suppressed."""


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """The smallest part of a fix: a rewrite, all of its changes, and the findings that it resolves.

    `sources` are the files that the rewrite was made for. If `ranks` is true, guessed inputs must not be the only ones
    with their numbers of dimensions.
    """

    linted: tuple[Linted, ...]
    plan: Plan
    title: str
    safety: Safety
    conditions: tuple[str, ...]
    sources: Mapping[Path, SourceFile]
    ranks: bool = False

    @property
    def exact(self) -> bool:
        """Whether results must be bitwise equal.

        A rewrite that cannot promise this says "rounding" in one of its conditions.
        """
        return not any("rounding" in condition for condition in self.conditions)

    @property
    def new_state(self) -> frozenset[str]:
        """Names of the state added by the new code: constants, and state where a number may now be a 0-dim tensor.

        `return` is among them if a number that is returned may be one, too.
        """
        contents = [change.content for changes in self.plan.values() for change in changes]
        added = {name for content in contents for found in (_BUFFER, _CONSTANT) for name in found.findall(content)}
        returned = ["return"] if any(map(_SUM.search, self.conditions)) else []
        return frozenset(added.union(returned, *map(_RECORDED.findall, self.conditions)))

    @property
    def unmoved(self) -> frozenset[str]:
        """Names of the attributes whose tensor the new code no longer moves or converts, as a condition says."""
        return frozenset(name for condition in self.conditions for name in _UNMOVED.findall(condition))


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of running the original and the rewritten code for a unit side by side.

    `detail` is a clause that says what was compared, what was different and for which input, or why nothing could be
    run. `inputs` is the number of inputs tried, `sides` the number of branches and statements in the changed code, and
    `sides_run` how many of those ran in the original code. `raises` means that the rewritten code failed where the
    original did not. `passed` lists the differences that the chosen equivalence accepts.
    """

    outcome: Literal["proven", "refuted", "unverifiable"]
    detail: str
    inputs: int = 0
    sides: int = 0
    sides_run: int = 0
    raises: bool = False
    passed: tuple[str, ...] = ()


Verifier = Callable[[Mapping[Path, str], Mapping[Path, str], Sequence[Unit]], Mapping[Unit, Verification]]
"""Compares two states of the project, given as the texts that differ from the disk. Returns a result for each unit.

If more than one unit changes the same code and a difference is found, all of them are refuted, and the engine works out
which one is at fault.
"""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A fix that has passed all checks but has not been accepted yet. `verification` is None if nothing was run.

    `diffs` contains the old and new text of each file with only this fix applied.
    """

    unit: Unit
    verification: Verification | None
    diffs: Mapping[Path, tuple[str, str]]


Decider = Callable[[Proposal], Literal["accept", "skip", "quit"]]
"""Decides about a fix. After `quit`, it is not asked again and no more fixes are accepted."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A finding that was fixed.

    `finding.fix.verified` indicates whether the fix was verified, and `verification` has the details.
    """

    finding: Finding
    verification: Verification | None


@dataclass(frozen=True, slots=True)
class Refused:
    """A finding whose fix was not applied, and the reason. `refuted` is true if running the fix showed a difference.

    `unlock` names the option that would apply the fix, if there is one.
    """

    finding: Finding
    reason: str
    refuted: bool = False
    unlock: str | None = None


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file with its new text. The encoding, byte-order mark and line endings are the same as in `source`."""

    source: SourceFile
    text: str
    findings: tuple[Finding, ...]

    @property
    def data(self) -> bytes:
        """The bytes to write."""
        return self.source.encode(self.text)

    def diff(self, name: str, context: int = 3) -> str:
        """Return the unified diff between the old and the new text, in the format of `git apply`. `name` is the path.

        If the file is a notebook, there is a diff for each changed cell.
        """
        if self.source.cells is not None:
            before, after = self.source.cells.codes(), Cells(self.text).codes()
            return "".join(
                unified_diff(old, after[cell], f"{name}:cell {cell}", context) for cell, old in before.items()
            )
        return unified_diff(self.source.text, self.text, name, context)


Keeper = Callable[[Sequence[ChangedFile], Sequence[Sequence[Path]]], None]
"""Receives the files each time fixes are accepted, and the groups of paths that must be written together."""


@dataclass(frozen=True, slots=True)
class FixResult:
    """The result of all rounds.

    `remaining` are the findings that are left, with positions in the new text. `groups` lists the files that must be
    written together. `notes` are sentences for the user.
    """

    files: tuple[ChangedFile, ...]
    groups: tuple[tuple[Path, ...], ...]
    fixed: tuple[Fixed, ...]
    refused: tuple[Refused, ...]
    remaining: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()


def unified_diff(old: str, new: str, name: str, context: int = 3) -> str:
    """Return the unified diff of two texts, with `a/` and `b/` prefixes and the marker for a missing final newline."""
    parts = [f"--- {_quoted(f'a/{name}')}\n", f"+++ {_quoted(f'b/{name}')}\n"]
    for head, lines in hunks(_lines(old), _lines(new), context):
        parts.append(f"{head}\n")
        parts += (line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    return "".join(parts) if len(parts) > 2 else ""


def _quoted(name: str) -> str:
    """Quote a file name the way git does in a diff, because a line break in the name would add lines to the diff."""
    if name.isprintable() and not set(name) & {'"', "\\"}:
        return name
    data = name.encode("utf-8", "surrogateescape")
    return '"' + "".join(chr(one) if 0x20 <= one < 0x7F and one not in b'"\\' else f"\\{one:03o}" for one in data) + '"'


def _lines(text: str) -> list[str]:
    """Split at line feeds only, as diff and patch do. `str.splitlines` would also split at form feeds."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


@dataclass(frozen=True, slots=True)
class FixOptions:
    """Which fixes to apply.

    `unsafe` includes unsafe fixes, and `unlikely` includes fixes to code that is rarely compiled. `decide` has the
    final say on each fix, and `keep` receives the files each time fixes are accepted.
    """

    unsafe: bool = False
    unlikely: bool = False
    decide: Decider | None = None
    keep: Keeper | None = None
