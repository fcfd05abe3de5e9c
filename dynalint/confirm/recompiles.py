"""Find the line that makes Dynamo recompile, by matching a failed guard with locations and names in the source."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dynalint.confirm.located import Located
from dynalint.confirm.results import TargetResult
from dynalint.confirm.sources import UserSources
from dynalint.confirm.untrusted import cut
from dynalint.confirm.worker.dynamo.records import Compile

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_COMMENT = re.compile(r"# (\S+\.py):(\d+) in ")
_CACHE_ENTRY = re.compile(r"^\d+/\d+: ")
_ON_SIZES = re.compile(r"\b(size|stride) mismatch\b|\.(size|stride)\(\)")
_ON_A_VALUE = re.compile(r"L\['\w+'\] == ")
_SIZES = frozenset(("shape", "size", "stride", "len", "dim", "ndim", "numel"))
_LONGEST = 240
_NOT_NAMES = frozenset("self L G len int str type id isinstance hasattr not in and or is None True False".split())


@dataclass(frozen=True)
class Blame:
    """How often a finding's code caused a recompilation, and a sentence about it."""

    count: int
    text: str


def blamed(placed: Located, result: TargetResult, sources: UserSources) -> Blame | None:
    """Return how many times this finding's code made Dynamo recompile, or None if it never did.

    Identical calls are checked first. A call with another batch size counts if its guard is about this code. A call
    with other values counts if its guard is on a number that this code reads at a break.
    """
    default = result.default
    if default is None:
        return None
    ours = [again for again in default.recompiles if is_about(again, placed, sources)]
    alike = [again for again in ours if again.call < result.same]
    other = [again for again in ours if result.same <= again.call < result.same + result.batch]
    if alike:
        text = (
            f"recompiled {_times(len(alike))} in {result.same} identical calls, because of the "
            f"guard {guard(alike[-1])}."
        )
        return Blame(len(alike), text)
    if placed.finding.category != "recompile":
        return None
    if other:
        return Blame(len(other), f"recompiled for another batch size, because of the guard {guard(other[-1])}.")
    numbers = [again for again in ours if _ON_A_VALUE.match(guard(again))] if breaks_at(placed, result) else []
    if numbers:
        return Blame(len(numbers), f"recompiled for another value, because of the guard {guard(numbers[-1])}.")
    return None


def breaks_at(placed: Located, result: TargetResult) -> bool:
    """Return whether a graph ends at the finding, so that a value read there becomes an input of the next graph."""
    breaks = result.default.breaks if result.default is not None else ()
    return any(placed.covers(frame.file, frame.line) for seen in breaks for frame in seen.stack)


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def is_about(again: Compile, placed: Located, sources: UserSources) -> bool:
    """Return whether the failed guard was created on the finding's lines, or names something that they also name."""
    if any(_same(file, placed.path) and placed.covers(placed.path, line) for file, line in places(again)):
        return True
    if again.file != placed.path or placed.finding.category != "recompile":
        return False
    named = sources.words(placed.path, placed.finding.line, placed.finding.end_line) - _NOT_NAMES
    if _ON_SIZES.search(guard(again)) and not named & _SIZES:
        return False  # The batch size changed, and the line does not use the tensor's size.
    return bool(named.intersection(re.findall(r"[A-Za-z_]\w*", guard(again))))


def places(again: Compile) -> Iterator[tuple[str, int]]:
    """Yield the locations that Dynamo names for a guard, absolute paths first. Other paths can be incomplete."""
    for pattern in (_FRAME, _COMMENT):
        for file, line in pattern.findall(again.recompile or ""):
            yield file, int(line)


def _same(file: str, path: str) -> bool:
    return os.path.realpath(file) == path if Path(file).is_absolute() else path.endswith(os.sep + file)


def guard(again: Compile) -> str:
    """Return the guard that failed, as Dynamo writes it but without the source location at the end."""
    line = next(iter((again.recompile or "").splitlines()), "")
    return cut(" ".join(_CACHE_ENTRY.sub("", line).split("  # ")[0].split()), _LONGEST)


def hint(again: Compile) -> str:
    """Return Dynamo's hint for a guard, or an empty string."""
    match = re.search(r"\(HINT: (.*?)\)\s*$", next(iter((again.recompile or "").splitlines()), ""))
    return match[1] if match else ""
