"""What holds at a place of a branch that is written as statements that always run."""

from __future__ import annotations

from dataclasses import dataclass


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
    code, `touched` those that may have one in the new code. `ended` tells that the place is never reached.
    """

    bound: set[str]
    written: set[str]
    touched: set[str]
    ended: bool = False

    def copy(self) -> Flow:
        """Return what holds on one of several ways from here."""
        return Flow(set(self.bound), set(self.written), set(self.touched), self.ended)

    def bind(self, name: str) -> None:
        """Note an assignment."""
        self.bound.add(name)
        self.written.add(name)

    def join(self, one: Flow, other: Flow) -> None:
        """Note that one of two ways led here."""
        ways = [way for way in (one, other) if not way.ended]
        self.ended = not ways
        self.bound = set.intersection(*(way.bound for way in ways)) if ways else set()
        self.written = one.written & other.written
        self.touched = one.touched | other.touched | one.written | other.written
