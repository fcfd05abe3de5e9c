"""In which order targets are run: those first that settle most, and those together that share an import."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from dynalint.confirm.options import Target
from dynalint.confirm.verdicts import CONFIRMABLE, Placed

# So many targets of a module share one import of it, so that their number does not keep the other workers idle.
_MOST_TOGETHER = 8


def ranks(targets: Iterable[Target], placed: Sequence[Placed]) -> Mapping[Target, tuple[int, ...]]:
    """Return for each target how late it comes: that first which is nearest to a finding that matters most.

    Those that lead to no finding come last; they may show breaks that no rule has found.
    """
    best: dict[Target, tuple[int, ...]] = {}
    for one in placed:
        for distance, target in enumerate(one.leads):
            rank = (distance, *_weight(one))
            best[target] = min(rank, best.get(target, rank))
    last = (max((len(one.leads) for one in placed), default=0), 0, 0)
    return {target: best.get(target, last) for target in targets}


def _weight(one: Placed) -> tuple[int, int]:
    """Return how little a finding matters: what is rarely compiled comes after what is, advice after breaks."""
    category = one.finding.category
    return int(bool(one.finding.doubt)), CONFIRMABLE.index(category) if category in CONFIRMABLE else len(CONFIRMABLE)


def batches(
    targets: Iterable[Target],
    workers: int,
    alone: Callable[[Target], bool],
    rank: Mapping[Target, tuple[int, ...]],
) -> Iterator[list[Target]]:
    """Put targets of one module together, which need one import, and leave something to do for each of the workers.

    Those of which `alone` holds stand by themselves.
    """
    every = sorted(targets, key=lambda target: (rank.get(target, ()), target))
    most = min(_MOST_TOGETHER, -(-len(every) // workers))
    modules: dict[tuple[str, ...], list[Target]] = {}
    for target in every:
        own = [target.qualname] if alone(target) else []
        modules.setdefault((str(target.path), target.module, *own), []).append(target)
    parts = (group[start : start + most] for group in modules.values() for start in range(0, len(group), most))
    yield from sorted(parts, key=lambda part: rank.get(part[0], ()))
