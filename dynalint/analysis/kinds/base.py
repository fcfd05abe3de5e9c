"""The base class of kinds, and the bottom of the lattice."""

from __future__ import annotations

from typing import Final

from dynalint.analysis.records import record


class Kind:
    """Base class of all kinds.

    `size` is the number of kinds that this kind consists of. `made` is true if this is or contains an instance that the
    current call created.
    """

    __slots__ = ()

    size: int = 1
    made: bool = False

    @property
    def members(self) -> tuple[Kind, ...]:
        """The alternatives of a union, or the kind itself if it is not a union."""
        return (self,)


@record(frozen=True, slots=True)
class Nothing(Kind):
    """No value, because the code is unreachable or the kind has not been computed yet."""


NOTHING: Final = Nothing()
