"""What holds at a place of a branch that is written as statements that always run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

# Whether a result of the function is there: on no way to a place, on some, on all.
Early = Literal["none", "maybe", "some"]


@dataclass(frozen=True)
class Predicate:
    """What tells whether a statement would have run: the name of a bool tensor, or its opposite if `negative`."""

    name: str
    negative: bool = False

    @property
    def text(self) -> str:
        """The predicate as an operand of `&` and `|`."""
        return f"~{self.name}" if self.negative else self.name

    @property
    def opposite(self) -> Predicate:
        """What holds where this does not."""
        return Predicate(self.name, not self.negative)

    def ordered(self, one: str, other: str) -> list[str]:
        """Return the arguments of a `torch.where` that gives `one` where the predicate holds."""
        return [self.name, other, one] if self.negative else [self.name, one, other]


@dataclass
class Flow:
    """The names at a place.

    `bound` are those that have a value whenever the file as it is gets there, `written` those that have one in the new
    code, `touched` those that may have one in the new code. `ended` tells that the file as it is never gets there,
    `jumped` that the new code does not either. `early` is whether the function has returned in the file as it is.
    """

    bound: set[str]
    written: set[str]
    touched: set[str]
    ended: bool = False
    jumped: bool = False
    early: Early = "none"

    def copy(self) -> Flow:
        """Return what holds on one of several ways from here."""
        return replace(self, bound=set(self.bound), written=set(self.written), touched=set(self.touched))

    def bind(self, name: str) -> None:
        """Note an assignment."""
        self.bound.add(name)
        self.written.add(name)

    def join(self, one: Flow, other: Flow) -> None:
        """Note that one of two ways led here."""
        ways = [way for way in (one, other) if not way.ended]
        self.ended = not ways
        self.bound = set.intersection(*(way.bound for way in ways)) if ways else set()
        led = [way for way in (one, other) if not way.jumped]
        self.jumped = not led
        self.written = set.intersection(*(way.written for way in led)) if led else one.written & other.written
        self.early = either_early(*(way.early for way in led or (one, other)))
        self.touched = one.touched | other.touched | one.written | other.written


def either_early(*ways: Early) -> Early:
    """Return whether a result is there where one of several ways leads."""
    return ways[0] if len(set(ways)) == 1 else "maybe"
