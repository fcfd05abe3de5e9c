"""Baselines list the findings that a project had when it adopted dynalint, so that they are not reported again.

Findings are matched by their contents, not by line, so a baseline survives edits elsewhere. If the code of a finding
itself changes, the finding is reported again.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dynalint.adoption.fingerprints import Identity, identify
from dynalint.errors import DynalintError, UsageError
from dynalint.findings import Finding
from dynalint.projects.reading import read_json

_VERSION = 1
_FIELDS = ("path", "code", "function", "text")

# How to compare an identity with an entry, strictest first. The function may have been renamed, and the file may have
# been moved.
_LIKENESSES: tuple[Callable[[Identity], tuple[str, ...]], ...] = (
    lambda one: (one.path, one.code, one.function, one.text),
    lambda one: (one.path, one.code, one.text),
    lambda one: (one.code, one.function, one.text),
)


@dataclass(frozen=True, slots=True)
class BaselineComparison:
    """The result of comparing findings with a baseline: new findings, known findings, and entries no longer found."""

    new: tuple[Finding, ...]
    known: tuple[Finding, ...]
    gone: tuple[Identity, ...]


class Baseline:
    """The entries in a baseline file."""

    def __init__(self, entries: Sequence[Identity]) -> None:
        self._entries = tuple(entries)

    @classmethod
    def of(cls, findings: Sequence[Finding], lines: Mapping[str, Sequence[str]], folder: str) -> Baseline:
        """Return a baseline with a run's findings. See `identify` for the arguments."""
        return cls(identify(findings, lines, folder))

    @classmethod
    def read(cls, path: Path, shown: str) -> Baseline:
        """Read a baseline file. Messages refer to it as `shown`.

        Raises:
            UsageError: If the file does not exist or is not a baseline.
        """
        try:
            record = read_json(path)
            if record["version"] != _VERSION:
                raise UsageError(
                    f"{shown}: a baseline of version {record['version']}, which this version of dynalint cannot read."
                )
            return cls([_entry(one) for one in record["findings"]])
        except OSError as fault:
            reason = fault.strerror or fault
            raise UsageError(
                f"{shown}: cannot read the baseline: {reason}; `dynalint check --write-baseline {shown}` creates one."
            ) from fault
        except (ValueError, KeyError, TypeError) as fault:
            text = f"{shown}: not a dynalint baseline; `dynalint check --write-baseline {shown}` creates one."
            raise UsageError(text) from fault

    def write(self, path: Path, shown: str) -> None:
        """Write the file with one finding per line, sorted, so that changes are easy to review and merge.

        Raises:
            DynalintError: If the file cannot be written.
        """
        records = sorted({name: getattr(entry, name) for name in _FIELDS}.items() for entry in self._entries)
        listed = ",\n".join(f"    {json.dumps(dict(record))}" for record in records)
        body = f"\n{listed}\n  " if listed else ""
        try:
            path.write_text(
                f'{{\n  "version": {_VERSION},\n  "findings": [{body}]\n}}\n', encoding="utf-8", newline="\n"
            )
        except OSError as fault:
            raise DynalintError(f"cannot write {shown}: {fault.strerror or fault}.") from fault

    def compare(
        self, findings: Sequence[Finding], lines: Mapping[str, Sequence[str]], folder: str
    ) -> BaselineComparison:
        """Compare a run's findings with the baseline. Each entry matches a single finding."""
        new = dict(enumerate(identify(findings, lines, folder)))
        left = dict(enumerate(self._entries))
        for likeness in _LIKENESSES:
            waiting: dict[tuple[str, ...], list[int]] = defaultdict(list)
            for number, entry in left.items():
                waiting[likeness(entry)].append(number)
            for number, identity in list(new.items()):
                alike = waiting.get(likeness(identity))
                if alike:
                    del left[alike.pop(0)], new[number]
        known = tuple(finding for number, finding in enumerate(findings) if number not in new)
        return BaselineComparison(tuple(findings[number] for number in new), known, tuple(left.values()))


def _entry(record: Mapping[str, object]) -> Identity:
    path, code, function, text = (str(record[name]) for name in _FIELDS)
    return Identity(path, code, function, text)
