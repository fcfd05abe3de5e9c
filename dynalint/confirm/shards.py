"""Split a run over multiple machines: decide what each of them runs, and merge their answers.

A shard runs its part of the code and writes the worker's answers to a file, in the format of the verdict cache.
`dynalint merge` then repeats the whole run with these answers instead of the worker's. It therefore reports the same
findings as a run on a single machine, and only runs code that no shard could know was needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from dynalint.errors import DynalintError, UsageError
from dynalint.projects.reading import read_json

T = TypeVar("T")

_FORMAT = 1
_KEY = "dynalint-shard"


@dataclass(frozen=True)
class Shard:
    """Shard number `index` of `count`, counted from 1."""

    index: int
    count: int

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def of(self, items: Iterable[T]) -> list[T]:
        """Return every `count`-th item."""
        return list(islice(items, self.index - 1, None, self.count))


WHOLE = Shard(1, 1)


@dataclass
class Answers:
    """The worker's answers in a split run, stored as verdict cache entries by the hash of their question.

    If there is a `shard`, only its part is run, and `made` collects the answers. `given` contains the answers from all
    shards. `used` contains the hashes of the answers whose question was asked again and whose files are unchanged.
    """

    shard: Shard = WHOLE
    given: dict[str, dict[str, Any]] = field(default_factory=dict)
    made: dict[str, dict[str, Any]] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def write(self, file: Path, paths: Sequence[str]) -> None:
        """Write this shard's answers, for a run on `paths`.

        Raises:
            DynalintError: If the file cannot be written.
        """
        spots: dict[str, int] = {}  # Spots are long, and most answers have the same.
        answers = {
            key: {**entry, "spots": spots.setdefault(json.dumps(entry["spots"], sort_keys=True), len(spots))}
            for key, entry in sorted(self.made.items())
        }
        head = {_KEY: _FORMAT, "index": self.shard.index, "count": self.shard.count, "paths": list(paths)}
        content = json.dumps({**head, "answers": answers, "spots": [*map(json.loads, spots)]}, separators=(",", ":"))
        try:
            file.write_text(f"{content}\n", encoding="utf-8")
        except OSError as fault:
            raise DynalintError(f"cannot write {file}: {fault.strerror or fault}.") from fault


def read_shards(files: Sequence[Path]) -> tuple[Answers, tuple[str, ...]]:
    """Return the answers in the shard files of a run, and the paths that were checked.

    Raises:
        UsageError: If a file is not a shard, or the files are not all the shards of a single run.
    """
    shards = {file: _read(file) for file in files}
    answers = Answers()
    first, kind = next((file, _kind(shard)) for file, shard in shards.items())
    seen: dict[int, Path] = {}
    for file, shard in shards.items():
        if _kind(shard) != kind:
            raise UsageError(f"{file} and {first} are shards of different runs; merge only the shards of one run.")
        other = seen.setdefault(shard["index"], file)
        if other != file:
            raise UsageError(f"{file} and {other} are both shard {Shard(shard['index'], shard['count'])}.")
        answers.given.update(shard["answers"])
    count, paths = kind
    missing = [str(Shard(index, count)) for index in range(1, count + 1) if index not in seen]
    if missing:
        lacking = f"shard {missing[0]} is" if len(missing) == 1 else f"shards {', '.join(missing)} are"
        raise UsageError(f"{lacking} missing; name the files of all {count} shards.")
    return answers, paths


def _kind(shard: Mapping[str, Any]) -> tuple[int, tuple[str, ...]]:
    return shard["count"], tuple(shard["paths"])


def _read(file: Path) -> dict[str, Any]:
    try:
        shard: dict[str, Any] = read_json(file)
        numbers = shard["index"], shard["count"], shard[_KEY]
        answers, spots = shard["answers"], shard["spots"]
        shard["answers"] = {key: {**entry, "spots": spots[entry["spots"]]} for key, entry in answers.items()}
        sound = all(isinstance(one, int) for one in numbers)
        if not sound or shard[_KEY] != _FORMAT or not all(isinstance(path, str) for path in shard["paths"]):
            raise ValueError
    except OSError as fault:
        raise UsageError(f"cannot read {file}: {fault.strerror or fault}.") from fault
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        version = "of this version of dynalint, written by `dynalint check --shard`"
        raise UsageError(f"{file} is not a shard {version}.") from None
    return shard
