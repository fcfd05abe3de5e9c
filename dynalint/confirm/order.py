"""The order in which targets run. The most useful targets run first, and those that share an import run together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from dynalint.confirm.located import Located
from dynalint.confirm.options import Target, resolved
from dynalint.confirm.verdicts import CONFIRMABLE
from dynalint.findings import Finding

# The maximum number of targets from a package that share an import. More would leave the other workers idle.
_MOST_TOGETHER = 12


def ranks(targets: Iterable[Target], placed: Sequence[Located]) -> Mapping[Target, tuple[int, ...]]:
    """Return a sort key for each target. The targets nearest to the most important findings run first.

    Targets that lead to no finding run last. They may show breaks that no rule found.
    """
    best: dict[Target, tuple[int, ...]] = {}
    for one in placed:
        for distance, target in enumerate(one.leads):
            rank = (distance, *_weight(one))
            best[target] = min(rank, best.get(target, rank))
    last = (max((len(one.leads) for one in placed), default=0), 0, 0)
    return {target: best.get(target, last) for target in targets}


def nearest_parts(
    stuck: Iterable[Located], parts: Callable[[Finding], Sequence[Target]], known: Collection[Target]
) -> dict[Target, dict[str, list[list[int]]]]:
    """Return the nearest part that is not `known` for each finding whose roots could not be run, with its lines."""
    wanted: dict[Target, dict[str, list[list[int]]]] = {}
    for one in stuck:
        target = next((part for part in resolved(parts(one.finding)) if part not in known), None)
        if target is not None:
            wanted.setdefault(target, {}).setdefault(one.path, []).append([one.finding.line, one.finding.end_line])
    return wanted


def _weight(one: Located) -> tuple[int, int]:
    """Return a sort key for a finding. Doubtful findings come after certain findings, and advice comes after breaks."""
    category = one.finding.category
    return int(bool(one.finding.doubt)), CONFIRMABLE.index(category) if category in CONFIRMABLE else len(CONFIRMABLE)


def batches(
    targets: Iterable[Target],
    workers: int,
    alone: Callable[[Target], bool],
    rank: Mapping[Target, tuple[int, ...]],
) -> Iterator[list[Target]]:
    """Group targets from the same package into batches, because they share an import.

    The batches are small enough to keep all workers busy. Targets for which `alone` is true get their own batch.
    """
    every = sorted(targets, key=lambda target: (rank.get(target, ()), target))
    most = min(_MOST_TOGETHER, -(-len(every) // workers))
    packages: dict[tuple[str, ...], list[Target]] = {}
    for target in every:
        package, _, inside = target.module.partition(".")
        own = [target.qualname] if alone(target) else []
        packages.setdefault((package, "" if inside else str(target.path), *own), []).append(target)
    parts = (group[start : start + most] for group in packages.values() for start in range(0, len(group), most))
    yield from sorted(parts, key=lambda part: rank.get(part[0], ()))
